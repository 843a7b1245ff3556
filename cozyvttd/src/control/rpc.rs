//! The JSON-RPC methods of the control socket.

use std::sync::Arc;

use cozyvtt_proto::control::{
    AuthLogin, AuthLogout, CallResult, ClientHold, ClientKick, ClientList, ClientRelease,
    ClientTell, DaemonReload, DaemonStatus, DaemonStop, EventPage, EventPoll, LoggedOut, Method,
    PollParams, Stopping, ToolCall, ToolList, Tools,
};
use cozyvtt_proto::jsonrpc::{ErrorKind, Request, Response, RpcError};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{clients, status};
use crate::campaigns::{Trouble, Visit};
use crate::hub::{Call, Hub};
use crate::journal::PageError;
use crate::mcp;
use crate::reload::reload;
use crate::session::Session;
use crate::session::account::Account;
use crate::session::patience::Telling;

/// Answers one request body; how a call of a tool gets on is told to `telling`.
pub(super) async fn answer(body: &[u8], hub: &Hub, telling: Option<Telling>) -> Response {
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => {
            let sentence = format!("the body is not valid JSON: {error}");
            return Response::failure(Value::Null, ErrorKind::ParseError.error(sentence));
        }
    };
    let id = value.get("id").cloned().unwrap_or_default();
    let request = match serde_json::from_value::<Request>(value) {
        Ok(request) if !(request.id.is_string() || request.id.is_number()) => {
            return invalid(Value::Null, "its \"id\" is neither a string nor a number");
        }
        Ok(request) if request.jsonrpc == "2.0" => request,
        Ok(_) => return invalid(id, "its \"jsonrpc\" is not \"2.0\""),
        Err(error) => return invalid(id, &error.to_string()),
    };
    match call(&request, hub, telling).await {
        Ok(result) => Response::success(id, result),
        Err(error) => Response::failure(id, error),
    }
}

fn invalid(id: Value, why: &str) -> Response {
    let sentence = format!("the body is no JSON-RPC 2.0 request: {why}");
    Response::failure(id, ErrorKind::InvalidRequest.error(sentence))
}

async fn call(request: &Request, hub: &Hub, telling: Option<Telling>) -> Result<Value, RpcError> {
    match request.method.as_str() {
        DaemonStatus::NAME => {
            params::<DaemonStatus>(request)?;
            result::<DaemonStatus>(status::status(hub))
        }
        DaemonStop::NAME => {
            params::<DaemonStop>(request)?;
            tracing::info!("asked to stop");
            let draining = hub.running();
            hub.leave();
            result::<DaemonStop>(Stopping { draining })
        }
        DaemonReload::NAME => {
            params::<DaemonReload>(request)?;
            // While one run gives way to another, a second word changes what that begins with.
            if hub.leaves() {
                can_begin(hub)?;
            }
            let reloaded = reload(hub);
            result::<DaemonReload>(reloaded.map_err(|why| ErrorKind::NotConfigured.error(why))?)
        }
        AuthLogin::NAME => {
            let params = params::<AuthLogin>(request)?;
            let account = account(hub)?;
            let code = params.code.map(|code| SecretString::from(code.expose()));
            // How it went is in the answer, whatever it is.
            if let Err(error) = account.login().by_hand(code).await {
                tracing::info!(%error, "no session by hand");
            }
            result::<AuthLogin>(status::standing(account.login()))
        }
        AuthLogout::NAME => {
            params::<AuthLogout>(request)?;
            let account = account(hub)?;
            // In a task of its own: who has said it may leave before it is done.
            let farewell = tokio::spawn(async move { account.log_out().await }).await;
            let farewell =
                farewell.map_err(|error| ErrorKind::Internal.error(error.to_string()))?;
            result::<AuthLogout>(LoggedOut {
                ended_at_server: farewell.untold.is_none(),
                why: farewell.untold,
            })
        }
        ToolList::NAME => {
            params::<ToolList>(request)?;
            let tools = hub
                .definitions()
                .map(|definition| serde_json::to_value(mcp::tool(definition)))
                .collect::<Result<_, _>>()
                .map_err(internal)?;
            result::<ToolList>(Tools { tools })
        }
        ToolCall::NAME => {
            let params = params::<ToolCall>(request)?;
            can_begin(hub)?;
            let visit = visit(hub, params.campaign.as_deref()).await?;
            let call = Call {
                client: Arc::clone(hub.clients.control()),
                campaign: visit.as_ref().map(|visit| Arc::clone(visit.campaign())),
                cwd: params.cwd,
                request: None,
                given_up: CancellationToken::new(),
                telling,
            };
            let outcome = hub
                .call(&params.name, params.arguments, call)
                .await
                .ok_or_else(|| {
                    ErrorKind::UnknownTool.error(format!(
                        "there is no tool {:?}; `cozyvttctl tools` lists them",
                        params.name
                    ))
                })?;
            result::<ToolCall>(CallResult {
                is_error: outcome.is_error,
                envelope: outcome.envelope,
            })
        }
        EventPoll::NAME => {
            let params = params::<EventPoll>(request)?;
            result::<EventPoll>(page(hub, &params).await?)
        }
        method => match clients::answer(request, hub).await {
            Some(answer) => answer,
            None => Err(unknown(method)),
        },
    }
}

fn unknown(method: &str) -> RpcError {
    ErrorKind::MethodNotFound.error(format!(
        "there is no method {method:?}; there are {}",
        [
            DaemonStatus::NAME,
            DaemonStop::NAME,
            DaemonReload::NAME,
            AuthLogin::NAME,
            AuthLogout::NAME,
            ToolList::NAME,
            ToolCall::NAME,
            EventPoll::NAME,
            ClientList::NAME,
            ClientHold::NAME,
            ClientRelease::NAME,
            ClientKick::NAME,
            ClientTell::NAME,
        ]
        .join(", ")
    ))
}

async fn page(hub: &Hub, params: &PollParams) -> Result<EventPage, RpcError> {
    let visit = visit(hub, params.campaign.as_deref()).await?;
    session(hub, visit.as_ref())?
        .journal
        .page(params.since, params.limit)
        .await
        .map_err(|error| match error {
            PageError::Bounds => ErrorKind::InvalidParams.error(error.to_string()),
            PageError::Journal(_) => ErrorKind::Internal.error(error.to_string()),
        })
}

/// The campaign that is asked for, unless it is left to the daemon.
pub(super) async fn visit(hub: &Hub, campaign: Option<&str>) -> Result<Option<Visit>, RpcError> {
    let Some(campaign) = campaign else {
        return Ok(None);
    };
    can_begin(hub)?;
    session(hub, None)?;
    let visit = hub.campaigns.join(campaign).await;
    visit
        .map(Some)
        .map_err(|why| ErrorKind::InvalidParams.error(why))
}

/// The session in a visited campaign, else in the main one.
pub(super) fn session(hub: &Hub, visit: Option<&Visit>) -> Result<Arc<Session>, RpcError> {
    match visit {
        Some(visit) => Ok(Arc::clone(&visit.session)),
        None => match hub.campaigns.main() {
            Ok(main) => Ok(Arc::clone(&main.session)),
            Err(trouble) => Err(not_configured(&trouble)),
        },
    }
}

/// An error when the daemon is about to leave.
pub(super) fn can_begin(hub: &Hub) -> Result<(), RpcError> {
    if hub.stop.is_cancelled() {
        return Err(ErrorKind::Stopping
            .error("cozyvttd is stopping and begins nothing new; nothing was done"));
    }
    Ok(())
}

/// The account, unless the daemon has none or is about to leave.
fn account(hub: &Hub) -> Result<Arc<Account>, RpcError> {
    can_begin(hub)?;
    Ok(Arc::clone(session(hub, None)?.account()))
}

/// The error of a method that needs a session where there is none.
pub(super) fn not_configured(trouble: &Trouble) -> RpcError {
    ErrorKind::NotConfigured.error(trouble.to_string())
}

pub(super) fn params<M: Method>(request: &Request) -> Result<M::Params, RpcError>
where
    M::Params: DeserializeOwned,
{
    // Parameters that are left out are an empty object.
    let params = match &request.params {
        Value::Null => Value::Object(serde_json::Map::new()),
        params => params.clone(),
    };
    serde_json::from_value(params).map_err(|error| {
        ErrorKind::InvalidParams.error(format!("the parameters of {} do not fit: {error}", M::NAME))
    })
}

pub(super) fn result<M: Method>(result: M::Result) -> Result<Value, RpcError> {
    serde_json::to_value(result).map_err(internal)
}

fn internal(error: serde_json::Error) -> RpcError {
    ErrorKind::Internal.error(error.to_string())
}
