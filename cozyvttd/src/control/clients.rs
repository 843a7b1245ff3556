//! The methods about clients: who is there, and what the person in charge says to them.

use std::collections::BTreeMap;

use cozyvtt_proto::control::{
    ClientHold, ClientInfo, ClientKick, ClientList, ClientRelease, ClientTell, Clients, Method,
    SomeClients, ThisClient, Told,
};
use cozyvtt_proto::jsonrpc::{ErrorKind, Request, RpcError};
use serde_json::{Value, json};

use super::rpc::{can_begin, params, result, session, visit};
use crate::campaigns::Visit;
use crate::hub::Hub;
use crate::journal::Event;
use crate::tools::NOTE;

/// Longest note, in characters.
const LONGEST: usize = 4000;

/// Answers a request about clients; `None` when it is about something else.
pub(super) async fn answer(request: &Request, hub: &Hub) -> Option<Result<Value, RpcError>> {
    Some(match request.method.as_str() {
        ClientList::NAME => params::<ClientList>(request)
            .and_then(|_| result::<ClientList>(those(hub, hub.clients.list()))),
        ClientHold::NAME => params::<ClientHold>(request)
            .and_then(|params| result::<ClientHold>(hold(hub, params)?)),
        ClientRelease::NAME => params::<ClientRelease>(request)
            .and_then(|params| result::<ClientRelease>(release(hub, params)?)),
        ClientKick::NAME => params::<ClientKick>(request)
            .and_then(|params| result::<ClientKick>(kick(hub, params)?)),
        ClientTell::NAME => tell(request, hub).await,
        _ => return None,
    })
}

fn hold(hub: &Hub, params: SomeClients) -> Result<Clients, RpcError> {
    tracing::info!(client = params.client, "asked to hold");
    let held = hub.clients.hold(params.client.as_deref());
    Ok(those(hub, held.map_err(nobody)?))
}

fn release(hub: &Hub, params: SomeClients) -> Result<Clients, RpcError> {
    tracing::info!(client = params.client, "asked to release");
    let released = hub.clients.release(params.client.as_deref());
    Ok(those(hub, released.map_err(nobody)?))
}

fn kick(hub: &Hub, params: ThisClient) -> Result<Clients, RpcError> {
    tracing::info!(client = params.client, "asked to send away");
    let gone = hub.clients.send_away(&params.client);
    Ok(those(hub, gone.map_err(nobody)?))
}

async fn tell(request: &Request, hub: &Hub) -> Result<Value, RpcError> {
    let params = params::<ClientTell>(request)?;
    can_begin(hub)?;
    let length = params.text.chars().count();
    if !(1..=LONGEST).contains(&length) {
        return Err(ErrorKind::InvalidParams.error(format!(
            "the text has {length} characters and may have 1 to {LONGEST}; nothing was told"
        )));
    }
    let chosen = hub.clients.choose(Some(&params.client)).map_err(nobody)?;
    // A client polls the events of its own campaign.
    let mut to = BTreeMap::<_, Vec<_>>::new();
    for who in chosen.iter().map(|client| client.who()) {
        to.entry(who.campaign).or_default().push(who.id);
    }
    let mut seq = 0;
    for (campaign, to) in to {
        let visit = visit(hub, campaign.as_deref()).await?;
        let payload = json!({"to": to, "text": params.text});
        seq = note(hub, visit.as_ref(), payload).await?;
    }
    let numbers: Vec<_> = chosen.iter().map(|client| client.number).collect();
    let clients = hub
        .clients
        .list()
        .into_iter()
        .filter(|client| numbers.contains(&client.number))
        .collect();
    result::<ClientTell>(Told { seq, clients })
}

/// Enters a note into the journal of a campaign, and gives its number.
async fn note(hub: &Hub, visit: Option<&Visit>, payload: Value) -> Result<u64, RpcError> {
    let session = session(hub, visit)?;
    let note = Event::new(NOTE, payload, session.link.state().generation);
    let told = async {
        let seq = session.journal.append(note).await?;
        session.journal.committed(seq).await.map(|()| seq)
    };
    told.await
        .map_err(|error| ErrorKind::Internal.error(format!("{error}; nothing was told")))
}

fn those(hub: &Hub, clients: Vec<ClientInfo>) -> Clients {
    Clients {
        clients,
        all_held: hub.clients.all_held(),
    }
}

fn nobody(sentence: String) -> RpcError {
    ErrorKind::UnknownClient.error(sentence)
}
