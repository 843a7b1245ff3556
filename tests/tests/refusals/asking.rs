//! An account at the table, what it asks for in vain, and what it has to be told.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use cozyvtt_table::{Role, Table};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::calls::{data, event, http};
use cozyvtt_tests::daemon::{Home, Seated};
use cozyvtt_tests::seat::sit_settled;
use cozyvtt_tests::until;
use serde_json::{Value, json};

/// The id of nothing.
pub(crate) const NOBODYS: &str = "3b0c9a52-7d0e-4f0a-9c55-0f6f3f1b7a11";
/// The folder that an agent with papers works in.
const PAPERS: &str = "papers";
/// What the gates of a campaign's routes say.
const NO_MEMBER: &str = "You are not a member of this campaign";
const DM_ONLY: &str = "This action requires Dungeon Master (DM) role";

/// A call that the server refuses over REST.
pub(crate) struct Row {
    why: &'static str,
    arguments: Value,
    /// The request that is refused.
    method: &'static str,
    path: String,
    answer: Answer,
}

/// A status and a body.
pub(crate) type Answer = (u16, Value);

/// One row; `why` is what the test says when it fails.
pub(crate) fn row(
    why: &'static str,
    arguments: Value,
    (method, path): (&'static str, impl Into<String>),
    answer: Answer,
) -> Row {
    Row {
        why,
        arguments,
        method,
        path: path.into(),
        answer,
    }
}

fn error(status: u16, error: &str, message: &str) -> Answer {
    (status, json!({"error": error, "message": message}))
}

/// 400 of the kind most checks give.
pub(crate) fn invalid(message: &str) -> Answer {
    error(400, "Validation Error", message)
}

/// 400 of another kind.
pub(crate) fn bad(kind: &str, message: &str) -> Answer {
    error(400, kind, message)
}

/// 403
pub(crate) fn forbidden(message: &str) -> Answer {
    error(403, "Forbidden", message)
}

/// 404
pub(crate) fn missing(message: &str) -> Answer {
    error(404, "Not Found", message)
}

/// What the server says of a body that is too large: 1.1.2 stumbles over it.
pub(crate) fn too_large(table: &Table) -> Answer {
    if table.version() == cozyvtt_table::Version::V1_1_2 {
        return error(500, "Internal Server Error", "An unexpected error occurred");
    }
    error(413, "Payload Too Large", "The request body is too large.")
}

/// An event that the table refuses after the receipt.
pub(crate) struct Told {
    pub(crate) why: &'static str,
    pub(crate) arguments: Value,
    /// The event that is sent.
    pub(crate) event: &'static str,
    /// What comes back as an `error`.
    pub(crate) sentence: String,
}

/// One refused event.
pub(crate) fn told(
    why: &'static str,
    arguments: Value,
    event: &'static str,
    sentence: impl Into<String>,
) -> Told {
    Told {
        why,
        arguments,
        event,
        sentence: sentence.into(),
    }
}

/// An account of the table with an agent that acts for it.
pub(crate) struct Seat<'a> {
    table: &'a Table,
    account: &'a str,
    agent: Agent,
    home: Seated,
}

impl<'a> Seat<'a> {
    /// Takes the seat of an account.
    pub(crate) async fn take(table: &'a Table, account: &'a str) -> Result<Self> {
        let home = sit_settled(table, account).await?;
        Self::with(table, account, home).await
    }

    /// The same for an agent behind a shim, which works in a folder with a file
    /// `note.txt` in it.
    pub(crate) async fn take_with_papers(table: &'a Table, account: &'a str) -> Result<Self> {
        let mut seat = Self::take(table, account).await?;
        let papers = seat.home.path().join(PAPERS);
        std::fs::create_dir(&papers)?;
        std::fs::write(papers.join("note.txt"), "low 04:12\n")?;
        let mut shim = seat.home.shim_command();
        shim.current_dir(papers);
        seat.agent = Agent::of_command(shim, Era::Handshake).await?;
        Ok(seat)
    }

    /// Lays another file into that folder.
    pub(crate) fn lay(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.home.path().join(PAPERS).join(name);
        Ok(std::fs::write(path, bytes)?)
    }

    /// Leaves before the daemon does, so that no shim is left to look for it.
    pub(crate) async fn leave(self) -> Result<()> {
        self.agent.leave().await
    }

    /// The account signs in for a campaign that there is not.
    pub(crate) async fn astray(table: &'a Table, account: &'a str) -> Result<Self> {
        let mut home = Home::at(table, account)?;
        home.set("COZYVTT_CAMPAIGN_ID", NOBODYS);
        let home = Seated::by(home, Home::start).await?;
        until("the campaign is refused", || async {
            let page = data(&home, "events_poll", json!({})).await.ok()?;
            let events = page["events"].to_string();
            events.contains("Campaign not found").then_some(())
        })
        .await;
        Self::with(table, account, home).await
    }

    async fn with(table: &'a Table, account: &'a str, home: Seated) -> Result<Self> {
        let agent = Agent::on_the_socket(&home, Era::Handshake).await?;
        Ok(Self {
            table,
            account,
            agent,
            home,
        })
    }

    /// Calls a tool; gives the envelope, whatever came of it.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Value> {
        let result = self.agent.call(tool, arguments).await?;
        ensure!(
            result.is_error != Some(true),
            "{tool} refused its arguments: {result:?}"
        );
        result.structured_content.context("no structured content")
    }

    /// Calls a tool that has to fail at its work; gives the envelope.
    pub(crate) async fn envelope(&self, tool: &str, arguments: Value) -> Result<Value> {
        let envelope = self.call(tool, arguments).await?;
        ensure!(envelope["ok"] == false, "{tool} did not fail: {envelope}");
        Ok(envelope)
    }

    /// Asks twice for what can be done once, the second time before the first has come
    /// to its end: one of them works, the other one is told why not, and neither is
    /// sent again.
    pub(crate) async fn refused_once(
        &self,
        other: &Self,
        tool: &str,
        arguments: Value,
        (method, path): (&'static str, &str),
        (status, body): Answer,
    ) -> Result<()> {
        let log = self.table.log();
        log.clear();
        let (one, two) = tokio::try_join!(
            self.call(tool, arguments.clone()),
            other.call(tool, arguments)
        )?;
        let (done, refused) = if one["ok"] == true {
            (one, two)
        } else {
            (two, one)
        };
        let named = self.named(tool, "twice at once");
        assert_eq!(done["ok"], true, "{named}: {done}");
        assert_eq!(refused, http(status, &body), "{named}");
        assert_eq!(log.count(method, path), 2, "{named}");
        Ok(())
    }

    /// Calls a tool that has to succeed; gives its data.
    pub(crate) async fn data(&self, tool: &str, arguments: Value) -> Result<Value> {
        self.agent.data(tool, arguments).await
    }

    fn named(&self, tool: &str, why: &str) -> String {
        format!("{}, {}: {tool}, {why}", self.table.version(), self.account)
    }

    /// Asks in vain, row by row: the agent gets the server's own answer, and the
    /// request is made once, whatever the tool reads before it.
    pub(crate) async fn refused(
        &self,
        tool: &str,
        rows: impl IntoIterator<Item = Row>,
    ) -> Result<()> {
        for row in rows {
            let named = self.named(tool, row.why);
            self.table.log().clear();
            let envelope = self
                .envelope(tool, row.arguments)
                .await
                .with_context(|| named.clone())?;
            let (status, body) = &row.answer;
            assert_eq!(envelope, http(*status, body), "{named}");
            self.assert_asked_once(row.method, &row.path, &named);
        }
        Ok(())
    }

    /// The request was made once, and nothing else was written.
    fn assert_asked_once(&self, method: &str, path: &str, named: &str) {
        let log = self.table.log();
        let asked = log.count(method, path);
        let mut writes = String::new();
        for one in log.requests().iter().filter(|one| one.method != "GET") {
            // Writing to a string cannot fail.
            let _ = write!(writes, "{} {} ", one.method, one.path);
        }
        let expected = if method == "GET" {
            String::new()
        } else {
            format!("{method} {path} ")
        };
        assert_eq!((asked, writes), (1, expected), "{named}: {method} {path}");
    }

    /// The account sinks from the DM to a player, to a spectator, to one who is no
    /// member: each time the tool is refused. To be called last.
    pub(crate) async fn refused_to_all_but_the_dm(
        &self,
        tool: &str,
        arguments: Value,
        (method, path): (&'static str, impl Into<String>),
    ) -> Result<()> {
        let path = path.into();
        let ask = |why, answer| {
            self.refused(tool, [row(why, arguments.clone(), (method, &path), answer)])
        };
        self.table.transfer_dm("player2");
        ask("as a player", forbidden(DM_ONLY)).await?;
        self.table.set_role(self.account, Role::Spectator);
        ask("as a spectator", forbidden(DM_ONLY)).await?;
        self.table.remove_member(self.account);
        ask("as one who is no member", forbidden(NO_MEMBER)).await
    }

    /// The account is taken out of the campaign, and the tool refused. To be called
    /// last.
    pub(crate) async fn refused_to_strangers(
        &self,
        tool: &str,
        arguments: Value,
        (method, path): (&'static str, impl Into<String>),
    ) -> Result<()> {
        self.table.remove_member(self.account);
        let why = "as one who is no member";
        let row = row(why, arguments, (method, path), forbidden(NO_MEMBER));
        self.refused(tool, [row]).await
    }

    /// Waits for the first `error` of the table's after `since`; gives its words.
    pub(crate) async fn error_after(&self, since: u64) -> Value {
        let mut record = event(&self.home, since, "system.error").await;
        record["payload"]["detail"]["message"].take()
    }

    /// Sends events in vain, row by row: the agent gets its receipt, then polls
    /// the table's own words; the event was sent once and the link stays up.
    pub(crate) async fn told(
        &self,
        tool: &str,
        rows: impl IntoIterator<Item = Told>,
    ) -> Result<()> {
        for row in rows {
            let named = self.named(tool, row.why);
            self.table.log().clear();
            let receipt = self
                .data(tool, row.arguments)
                .await
                .with_context(|| named.clone())?;
            let pending = (&receipt["status"], &receipt["confirmed"]);
            assert_eq!(pending, (&json!("pending"), &json!(false)), "{named}");
            let since = receipt["since"].as_u64().context("no number")?;
            assert_eq!(self.error_after(since).await, row.sentence, "{named}");
            let sent = self.table.log().events_in(row.event);
            assert_eq!(sent.len(), 1, "{named}: {}", row.event);
            let page = data(&self.home, "events_poll", json!({})).await?;
            assert_eq!(page["authenticated"], true, "{named}");
        }
        Ok(())
    }
}
