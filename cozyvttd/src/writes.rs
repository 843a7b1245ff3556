//! The way of a write: through the ledger, so that it is done once, and into the audit
//! log, so that a person can see whose it was.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cozyvtt_proto::control::ClientState;
use cozyvtt_proto::hello::Resend;
use futures_util::FutureExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::audit::{Audit, Line, Verdict};
use crate::clients::{Client, Who};
use crate::config::Policy;
use crate::journal::ledger::{Begun, Entry, Ledger, Trace, Write};
use crate::session::patience::{Impatience, Patience};
use crate::tools::{Available, Mark, Order, Outcome, ToolError};

/// How old a request may be that was never begun and is done now.
const YOUNG: Duration = Duration::from_secs(60);

/// What is said of a write whose outcome nobody knows.
const UNKNOWN: &str = "this call was begun before and cozyvttd ended meanwhile, so its outcome is unknown: \
     check before repeating it, and repeat it with another idempotency_key";

/// Whose write it is, and what it is, for both books.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    who: Who,
    /// The id of the JSON-RPC request, as JSON.
    request: Option<String>,
    /// It was announced that this request comes once more.
    announced: bool,
    tool: &'static str,
    mark: Mark,
    replaced: CancellationToken,
}

impl Asked {
    /// What `client`, which is `who`, asks for; nothing when it is a read.
    pub(crate) fn of(
        client: &Client,
        who: &Who,
        request: Option<&str>,
        order: &Order,
    ) -> Option<Self> {
        let mark = order.mark.clone()?;
        Some(Self {
            who: who.clone(),
            announced: request.is_some_and(|request| client.comes_again(request)),
            request: request.map(ToOwned::to_owned),
            tool: order.tool,
            mark,
            replaced: client.replaced.clone(),
        })
    }

    fn write(&self) -> Write {
        Write {
            client: self.who.id.clone(),
            name: self.who.label(),
            request: self.request.clone(),
            announced: self.announced,
            key: self.mark.key.clone(),
            tool: self.tool.to_owned(),
            digest: self.mark.digest.clone(),
            replaced: self.replaced.clone(),
        }
    }
}

/// Whether the client `client` may send a write once more that it sent to the run
/// `instance`, without its being done twice: it was
/// noted, so that it is answered from the ledger, or it was never begun. `here` is this
/// run. The connection it was sent on has to count no more ([`Client::replaced`]), and the
/// request has to be announced ([`Client::announce`]).
pub(crate) async fn may_come_again(
    ledger: &Ledger,
    here: &str,
    client: &str,
    instance: &str,
    resend: &Resend,
) -> bool {
    let (request, age) = (resend.id.to_string(), Duration::from_millis(resend.age_ms));
    match ledger.trace(client, &request, age).await {
        // What is noted may be of the earlier request that had this id.
        Ok(Trace::Done(_) | Trace::Begun) if resend.reused => false,
        Ok(Trace::Done(_)) => true,
        // In this very run it is still under way, and can be waited for.
        Ok(Trace::Begun) => instance == here,
        // Whether this one was begun as well is not to be seen.
        Ok(Trace::Earlier) => false,
        Ok(Trace::None) => age < YOUNG && ledger.is_whole(instance).await.unwrap_or_default(),
        Err(error) => {
            tracing::error!(%error, "what became of a write cannot be looked up");
            false
        }
    }
}

/// Why a client may not call a tool, if so, by a person's word or the policy.
pub(crate) fn forbidden(
    state: ClientState,
    policy: &Policy,
    name: Option<&str>,
    order: &Order,
) -> Option<Outcome> {
    by_a_person(state, order.tool, order.mark.is_some()).or_else(|| {
        let sentence = policy.denies(name, order.tool)?;
        Some(Outcome::failure(&ToolError::Refused(sentence)))
    })
}

/// Why a client may not call a tool, if so, by a person's word about it.
fn by_a_person(state: ClientState, tool: &str, writes: bool) -> Option<Outcome> {
    let sentence = match state {
        ClientState::SentAway => {
            "a person has sent this client away from the table; nothing was done. Stop calling; \
             `cozyvttctl release` lets it back in"
                .to_owned()
        }
        ClientState::Held if writes => format!(
            "a person holds this client's writes, so {tool} was not called and nothing was sent; \
             reads go on. Wait until you are told to go on; `cozyvttctl release` lets it write again"
        ),
        _ => return None,
    };
    Some(Outcome::failure(&ToolError::Refused(sentence)))
}

/// How a client stands with the person in charge, at any time.
pub(crate) type Standing = Arc<dyn Fn() -> ClientState + Send + Sync>;

/// Does a write, once. One that is `forbidden` is not begun; what it came to when it was
/// begun before is told all the same.
pub(crate) async fn carry_out(
    asked: &Asked,
    order: Order,
    available: Available,
    ledger: Option<&Ledger>,
    mut forbidden: Option<Outcome>,
    standing: Standing,
) -> (Outcome, Verdict) {
    let refusal = |outcome| (outcome, Verdict::Refused);
    // Without a ledger there is no session either, and nothing can be sent.
    let Some(ledger) = ledger else {
        return match forbidden {
            Some(outcome) => refusal(outcome),
            None => judged(order.carry_out(available).await),
        };
    };
    loop {
        let begun = ledger.begin(asked.write(), forbidden.is_none()).await;
        return match (begun, forbidden) {
            (Ok(Begun::New(entry)), _) => judged(recorded(entry, order, available, standing).await),
            (Ok(Begun::Done(outcome)), _) => repeated(Some(outcome)),
            (Ok(Begun::Running(first)), again) => {
                match Patience::current().wait(first.outcome()).await {
                    // It was given up before its turn came, so this one takes its place.
                    Ok(Some(outcome)) if outcome["nothing_sent"] == true => {
                        forbidden = again;
                        continue;
                    }
                    Ok(outcome) => repeated(outcome),
                    Err(impatience) => refused(still_running(impatience)),
                }
            }
            (Ok(Begun::Unknown), _) => repeated(None),
            (Ok(Begun::Forbidden), Some(outcome)) => refusal(outcome),
            (Ok(Begun::Other(tool)), _) => refused(format!(
                "this idempotency_key stands for another call: {tool} with other arguments; nothing \
                 was sent. Use a new key for every new wish"
            )),
            (Ok(Begun::Late | Begun::Forbidden), _) => refused(
                "this client is back on another connection; nothing was sent for this one"
                    .to_owned(),
            ),
            (Err(error), _) => refused(format!("{error}; nothing was sent, try again later")),
        };
    }
}

async fn recorded(entry: Entry, order: Order, available: Available, standing: Standing) -> Outcome {
    let departure = entry.departure();
    let tool = order.tool;
    // A person may have said something while it waited for its turn.
    let said = Arc::new(OnceLock::new());
    let heard = Arc::clone(&said);
    let leaving = Box::new(move || {
        let entered = async move {
            if let Some(refusal) = by_a_person(standing(), tool, true) {
                return heard.set(refusal).is_err();
            }
            let entered = departure.enter().await;
            if let Err(error) = &entered {
                tracing::error!(%error, "a write is not sent");
            }
            entered.is_ok()
        };
        entered.boxed()
    });
    let patience = Patience::current().leaving_with(leaving);
    let mut outcome = patience.rule(order.carry_out(available)).await;
    if let (true, Some(refusal)) = (outcome.nothing_sent, said.get()) {
        outcome = refusal.clone();
    }
    match serde_json::to_value(&outcome) {
        Ok(kept) => entry.end(kept, outcome.nothing_sent).await,
        Err(error) => tracing::error!(%error, "an outcome cannot be kept"),
    }
    outcome
}

fn repeated(outcome: Option<Value>) -> (Outcome, Verdict) {
    match outcome.and_then(|outcome| serde_json::from_value(outcome).ok()) {
        Some(outcome) => (outcome, Verdict::Repeated),
        None => (
            Outcome::failure(&ToolError::Refused(UNKNOWN.to_owned())),
            Verdict::Unknown,
        ),
    }
}

fn refused(sentence: String) -> (Outcome, Verdict) {
    (
        Outcome::failure(&ToolError::Refused(sentence)),
        Verdict::Refused,
    )
}

fn still_running(impatience: Impatience) -> String {
    format!(
        "this call was begun before and is still under way, and {}; ask again with the same \
         idempotency_key",
        impatience.reason()
    )
}

fn judged(outcome: Outcome) -> (Outcome, Verdict) {
    let envelope = &outcome.envelope;
    let verdict = if outcome.nothing_sent {
        Verdict::Refused
    } else if envelope["ok"] != true {
        Verdict::Failed
    } else if envelope["data"]["status"] == "pending" {
        Verdict::Pending
    } else {
        Verdict::Done
    };
    (outcome, verdict)
}

/// Enters a write into the audit log.
pub(crate) async fn audit(audit: &Audit, asked: Asked, outcome: &Outcome, verdict: Verdict) {
    let line = Line {
        ts: jiff::Timestamp::now().to_string(),
        client: asked.who.label(),
        client_id: asked.who.id,
        pid: asked.who.pid,
        tool: asked.tool.to_owned(),
        digest: asked.mark.digest,
        outcome: verdict,
        error: outcome.envelope["error"].as_str().map(ToOwned::to_owned),
    };
    audit.note(line).await;
}

/// Enters the writes into the audit log that an earlier run did not end.
pub(crate) async fn audit_orphans(audit: &Audit, ledger: &Ledger) {
    let orphans = match ledger.orphans().await {
        Ok(orphans) => orphans,
        Err(error) => {
            tracing::error!(%error, "what an earlier run left open cannot be read");
            return;
        }
    };
    for orphan in orphans {
        tracing::warn!(
            client = orphan.name,
            tool = orphan.tool,
            "the outcome of a write is unknown: cozyvttd ended meanwhile"
        );
        audit
            .note(Line {
                ts: jiff::Timestamp::now().to_string(),
                client: orphan.name,
                client_id: orphan.client,
                pid: None,
                tool: orphan.tool,
                digest: orphan.digest,
                outcome: Verdict::Unknown,
                error: Some("cozyvttd ended while this was under way".to_owned()),
            })
            .await;
    }
}
