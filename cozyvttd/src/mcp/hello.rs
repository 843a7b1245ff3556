//! The optional first line of a connection, and the daemon's answer to it.

use std::io;

use cozyvtt_proto::PROTOCOL;
use cozyvtt_proto::hello::{
    Hello, HelloLine, Refusal, Reply, ReplyLine, Resend, Verdict, Welcome, ask, is_hello, mismatch,
};
use cozyvtt_proto::preset::Selection;
use cozyvtt_proto::profile::addressed;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::line::{Line, LineReader};
use crate::campaigns::Visit;
use crate::clients::Client;
use crate::config::expected;
use crate::hub::{Hub, VERSION};
use crate::writes;

/// Longest random name of a client, in bytes.
const LONGEST_ID: usize = 128;

/// How a connection began.
#[derive(Debug)]
pub(super) enum Greeting {
    /// With a hello that was accepted.
    Welcomed(Box<Welcomed>),
    /// With a hello that was refused; the connection is to be closed.
    Refused,
    /// Without one; this is the first line instead.
    None(Line),
}

/// What a hello has asked for, and got.
#[derive(Debug)]
pub(super) struct Welcomed {
    pub(super) hello: Hello,
    /// The tools that it chooses.
    pub(super) selection: Selection,
    /// The campaign that it sits in, where that is not the main one.
    pub(super) visit: Option<Visit>,
}

/// Reads the first line of `client`, and answers it if it is a hello.
pub(super) async fn greet<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    lines: &mut LineReader<R>,
    write: &mut W,
    hub: &Hub,
    client: &Client,
) -> io::Result<Greeting> {
    let first = lines.next().await?;
    let line = match &first {
        Line::End => return Err(io::ErrorKind::UnexpectedEof.into()),
        Line::Whole(line) if is_hello(line) => line,
        Line::Whole(_) | Line::CutOff | Line::TooLong => return Ok(Greeting::None(first)),
    };
    let verdict = match judge(line) {
        Ok((hello, selection)) => admit(hub, &hello).await.map(|visit| Welcomed {
            hello,
            selection,
            visit,
        }),
        Err(refused) => Err(refused),
    };
    let cozyvtt = match &verdict {
        Ok(welcomed) => Reply::Welcome(Welcome {
            protocol: PROTOCOL,
            version: VERSION.to_owned(),
            instance: hub.instance.clone(),
            knows: ask::ALL.map(str::to_owned).into(),
            resends: resends(hub, client, welcomed).await,
        }),
        Err(refused) => Reply::Refusal(Refusal {
            protocol: PROTOCOL,
            version: VERSION.to_owned(),
            refused: addressed(refused).into_owned(),
        }),
    };
    let mut reply = serde_json::to_vec(&ReplyLine { cozyvtt })?;
    reply.push(b'\n');
    write.write_all(&reply).await?;
    Ok(match verdict {
        Ok(welcomed) => Greeting::Welcomed(Box::new(welcomed)),
        Err(refused) => {
            tracing::warn!(refused, "refused a client");
            Greeting::Refused
        }
    })
}

fn judge(line: &[u8]) -> Result<(Hello, Selection), String> {
    let hello = serde_json::from_slice::<HelloLine>(line)
        .map_err(|error| {
            format!("cozyvttd {VERSION} could not read the hello ({error}); install the same version of cozyvttd and cozyvtt-shim")
        })?
        .cozyvtt;
    let shim = (hello.protocol, hello.version.as_str());
    if let Some(mismatch) = mismatch(shim, (PROTOCOL, VERSION)) {
        return Err(mismatch);
    }
    if !(1..=LONGEST_ID).contains(&hello.client_id.len()) {
        return Err(format!(
            "client_id must be a random name of 1 to {LONGEST_ID} bytes, kept over reconnects"
        ));
    }
    let selection = match &hello.toolsets {
        None => Selection::all(),
        Some(names) => Selection::of(names.iter().map(String::as_str))
            .map_err(|bad| format!("{bad}; mend --toolsets or COZYVTT_MCP_TOOLSETS"))?,
    };
    Ok((hello, selection))
}

/// Finds the client the place that it expects, and takes its settings where there are
/// none. Where there is no place at all its calls will say why.
async fn admit(hub: &Hub, hello: &Hello) -> Result<Option<Visit>, String> {
    if let Some(offered) = &hello.settings {
        hub.campaigns.take(offered).await?;
    }
    let Ok(main) = hub.campaigns.main() else {
        return Ok(None);
    };
    let expected = expected(hello);
    if let Some(unlike) = main.session.account().settings().unlike(&expected) {
        return Err(unlike);
    }
    match expected.campaign {
        Some(campaign) if campaign != main.session.campaign() => {
            hub.campaigns.join(&campaign).await.map(Some)
        }
        _ => Ok(None),
    }
}

/// What is to become of the requests that a client which is back has announced. What
/// changes nothing may always be sent again; of a write the ledger knows.
async fn resends(hub: &Hub, client: &Client, welcomed: &Welcomed) -> Vec<Verdict> {
    let Welcomed { hello, visit, .. } = welcomed;
    // Before the ledger is asked: from here on nothing of the older connection is begun.
    hub.clients.introduce(client, hello);
    let main = hub.campaigns.main().ok();
    let campaign = visit.as_ref().map(Visit::campaign).or(main.as_ref());
    let mut verdicts = Vec::with_capacity(hello.resends.len());
    for resend in &hello.resends {
        let verdict = match (&hello.previous_instance, campaign) {
            _ if resend.method != "tools/call" => Verdict::Again,
            _ if resend.tool.as_deref().is_some_and(|tool| hub.reads(tool)) => Verdict::Again,
            _ if !is_alone(resend, &hello.resends) => Verdict::Unknown,
            (Some(instance), Some(campaign)) => {
                let again = writes::may_come_again(
                    &campaign.ledger,
                    &hub.instance,
                    &hello.client_id,
                    instance,
                    resend,
                );
                if again.await {
                    client.announce([resend.id.to_string()]);
                    Verdict::Again
                } else {
                    Verdict::Unknown
                }
            }
            // Without a place nothing can be sent; who is asked again says so again.
            (Some(instance), None) if *instance == hub.instance => Verdict::Again,
            _ => Verdict::Unknown,
        };
        verdicts.push(verdict);
    }
    verdicts
}

/// Whether an id stands for one request: of two the ledger could not tell which it has.
fn is_alone(resend: &Resend, all: &[Resend]) -> bool {
    all.iter().filter(|other| other.id == resend.id).count() == 1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::audit::Audit;
    use crate::campaigns::Campaigns;
    use crate::config::Config;
    use crate::options::{Options, Source};
    use crate::session::Ground;
    use crate::session::clock::Clock;

    /// The daemon's side, without any configuration.
    fn hub(folder: &tempfile::TempDir) -> Hub {
        let path = folder.path();
        let audit = Audit::new(path);
        let ground = Ground {
            clock: Clock::real(),
            folder: path.to_owned(),
            shared: path.to_owned(),
            by_word: false,
        };
        let nowhere = path.join("config.toml");
        std::fs::write(&nowhere, "").unwrap();
        let config = Config::resolve(Some(&nowhere), None, &|_| None);
        let campaigns = Campaigns::open(config, ground, "i1", audit.clone());
        let folders = (path.to_owned(), path.to_owned());
        let source = Source::new(Options::default(), Arc::new(|_| None));
        Hub::new("i1".to_owned(), folders, campaigns, audit, source)
    }

    async fn reply(line: &str) -> (Greeting, String) {
        let folder = tempfile::tempdir().unwrap();
        let hub = hub(&folder);
        let seat = hub.clients.enter(None).unwrap();
        let mut written = Vec::new();
        let line = format!("{}\n", line.replace('\n', ""));
        let mut lines = LineReader::new(line.as_bytes());
        let greeting = greet(&mut lines, &mut written, &hub, &seat.client)
            .await
            .unwrap();
        (greeting, String::from_utf8(written).unwrap())
    }

    #[tokio::test]
    async fn a_hello_is_welcomed_with_version_instance_and_what_is_acted_upon() {
        let hello = r#"{"cozyvtt":{"protocol":1,"version":"0.1.0","pid":7,"client_id":"c"}}"#;
        let (greeting, written) = reply(hello).await;
        assert!(matches!(greeting, Greeting::Welcomed(welcomed) if welcomed.hello.pid == 7));
        let reply: ReplyLine = serde_json::from_str(&written).unwrap();
        let Reply::Welcome(welcome) = reply.cozyvtt else {
            panic!("{written}");
        };
        assert_eq!(welcome.instance, "i1");
        assert_eq!(welcome.knows, ask::ALL);
    }

    #[tokio::test]
    async fn another_protocol_is_refused_with_both_versions_and_the_mend() {
        let hello = r#"{"cozyvtt":{"protocol":2,"version":"3.0.0","pid":7,"client_id":"c"}}"#;
        let (greeting, written) = reply(hello).await;
        assert!(matches!(greeting, Greeting::Refused));
        assert!(
            written.contains("3.0.0") && written.contains("cargo install --path cozyvttd"),
            "{written}"
        );
        let (greeting, _) = reply("{\"cozyvtt\":5}").await;
        assert!(matches!(greeting, Greeting::Refused));
        let nameless = r#"{"cozyvtt":{"protocol":1,"version":"0.1.0","pid":7,"client_id":""}}"#;
        let (greeting, _) = reply(nameless).await;
        assert!(matches!(greeting, Greeting::Refused));
    }

    #[tokio::test]
    async fn without_a_ledger_only_what_changes_nothing_may_be_sent_again() {
        let hello = r#"{"cozyvtt":{"protocol":1,"version":"0.1.0","pid":7,"client_id":"c",
            "previous_instance":"i0","resends":[
            {"id":1,"method":"tools/call","tool":"map_list","age_ms":5},
            {"id":"1","method":"tools/call","tool":"chat_send","age_ms":5},
            {"id":2,"method":"tools/list","age_ms":5},
            {"id":3,"method":"tools/call","age_ms":5}]}}"#;
        let verdicts = async |hello: &str| {
            let (_, written) = reply(hello).await;
            let reply: ReplyLine = serde_json::from_str(&written).unwrap();
            match reply.cozyvtt {
                Reply::Welcome(welcome) => welcome.resends,
                Reply::Refusal(refusal) => panic!("{refusal:?}"),
            }
        };
        let (again, unknown) = (Verdict::Again, Verdict::Unknown);
        assert_eq!(verdicts(hello).await, [again, unknown, again, unknown]);
        // In the same run nothing can have been sent.
        let here = hello.replace("i0", "i1");
        assert_eq!(verdicts(&here).await, [again; 4]);
    }

    #[tokio::test]
    async fn a_client_without_a_hello_is_not_answered() {
        let (greeting, written) = reply("{\"jsonrpc\":\"2.0\"}").await;
        assert!(matches!(greeting, Greeting::None(Line::Whole(_))));
        assert!(written.is_empty());
    }
}
