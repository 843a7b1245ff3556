//! The optional first line of a connection, and the daemon's answer to it.

use std::io;

use cozyvtt_proto::PROTOCOL;
use cozyvtt_proto::hello::{Hello, HelloLine, Refusal, Reply, ReplyLine, Welcome, is_hello};
use cozyvtt_proto::preset::Selection;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::line::{Line, LineReader};
use crate::hub::VERSION;

/// How a connection began.
#[derive(Debug)]
pub(super) enum Greeting {
    /// With a hello that was accepted, and the tools that it chooses.
    Welcomed(Hello, Selection),
    /// With a hello that was refused; the connection is to be closed.
    Refused,
    /// Without one; this is the first line instead.
    None(Line),
}

/// Reads the first line, and answers it if it is a hello.
pub(super) async fn greet<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    lines: &mut LineReader<R>,
    write: &mut W,
    instance: &str,
) -> io::Result<Greeting> {
    let first = lines.next().await?;
    let line = match &first {
        Line::End => return Err(io::ErrorKind::UnexpectedEof.into()),
        Line::Whole(line) if is_hello(line) => line,
        Line::Whole(_) | Line::CutOff | Line::TooLong => return Ok(Greeting::None(first)),
    };
    let verdict = judge(line);
    let cozyvtt = match &verdict {
        Ok(_) => Reply::Welcome(Welcome {
            protocol: PROTOCOL,
            version: VERSION.to_owned(),
            instance: instance.to_owned(),
        }),
        Err(refused) => Reply::Refusal(Refusal {
            protocol: PROTOCOL,
            version: VERSION.to_owned(),
            refused: refused.clone(),
        }),
    };
    let mut reply = serde_json::to_vec(&ReplyLine { cozyvtt })?;
    reply.push(b'\n');
    write.write_all(&reply).await?;
    Ok(match verdict {
        Ok((hello, selection)) => Greeting::Welcomed(hello, selection),
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
    if hello.protocol != PROTOCOL {
        return Err(format!(
            "cozyvttd {VERSION} speaks protocol {PROTOCOL} and this cozyvtt-shim {} speaks {}; \
             install the same version of both, then restart cozyvttd",
            hello.version, hello.protocol
        ));
    }
    let selection = match &hello.toolsets {
        None => Selection::all(),
        Some(names) => Selection::of(names.iter().map(String::as_str))
            .map_err(|bad| format!("{bad}; mend --toolsets or COZYVTT_MCP_TOOLSETS"))?,
    };
    Ok((hello, selection))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn reply(line: &str) -> (Greeting, String) {
        let mut written = Vec::new();
        let mut lines = LineReader::new(line.as_bytes());
        let greeting = greet(&mut lines, &mut written, "i1").await.unwrap();
        (greeting, String::from_utf8(written).unwrap())
    }

    #[tokio::test]
    async fn a_hello_is_welcomed_with_version_and_instance() {
        let hello = r#"{"cozyvtt":{"protocol":1,"version":"0.1.0","pid":7,"client_id":"c"}}"#;
        let (greeting, written) = reply(&format!("{hello}\n")).await;
        assert!(matches!(greeting, Greeting::Welcomed(hello, _) if hello.pid == 7));
        let reply: ReplyLine = serde_json::from_str(&written).unwrap();
        assert!(matches!(reply.cozyvtt, Reply::Welcome(welcome) if welcome.instance == "i1"));
    }

    #[tokio::test]
    async fn another_protocol_is_refused_with_both_versions_and_the_mend() {
        let hello = r#"{"cozyvtt":{"protocol":2,"version":"3.0.0","pid":7,"client_id":"c"}}"#;
        let (greeting, written) = reply(&format!("{hello}\n")).await;
        assert!(matches!(greeting, Greeting::Refused));
        assert!(
            written.contains("3.0.0") && written.contains("install"),
            "{written}"
        );
        let (greeting, _) = reply("{\"cozyvtt\":5}\n").await;
        assert!(matches!(greeting, Greeting::Refused));
    }

    #[tokio::test]
    async fn a_client_without_a_hello_is_not_answered() {
        let (greeting, written) = reply("{\"jsonrpc\":\"2.0\"}\n").await;
        assert!(matches!(greeting, Greeting::None(Line::Whole(_))));
        assert!(written.is_empty());
    }
}
