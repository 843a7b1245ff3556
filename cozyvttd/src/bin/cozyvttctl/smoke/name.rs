//! The campaign's name, typed back by whoever lets a run write to it.

use std::io::BufRead;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::snapshot::Trouble;
use crate::terminal::remark;
use crate::text::plain;

/// Compares the name that was given, or asked for, with the campaign's own.
pub(super) async fn typed_back(
    given: Option<&str>,
    own: Option<&str>,
    deadline: Instant,
) -> Result<String, Trouble> {
    let Some(own) = own else {
        return Err(Trouble::Failed(
            "the campaign has no name to type back".to_owned(),
        ));
    };
    let given = match given {
        Some(given) => given.to_owned(),
        None => ask(own, deadline).await?,
    };
    if given == own {
        Ok("typed back exactly".to_owned())
    } else {
        Err(Trouble::Failed(format!(
            "{given:?} is not the campaign's name, so nothing is written"
        )))
    }
}

async fn ask(own: &str, deadline: Instant) -> Result<String, Trouble> {
    remark(&format!(
        "One chat line and one roll will now be sent to the campaign {}. Type its name to allow that:",
        plain(own)
    ));
    let (answer, typed) = oneshot::channel();
    // A thread of its own, which nobody waits for: a read from a terminal cannot
    // be cut short.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let _ = answer.send(read.map(|_| line));
    });
    match timeout_at(deadline, typed).await {
        Ok(Ok(Ok(line))) => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
        Ok(_) => Err(Trouble::Failed("the name could not be read".to_owned())),
        Err(_) => Err(Trouble::Failed("no name was typed in time".to_owned())),
    }
}
