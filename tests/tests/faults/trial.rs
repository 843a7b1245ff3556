//! A daemon at a table, how it was before things went wrong, and how it has to be
//! after.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cozyvtt_proto::control::HopState;
use cozyvtt_table::{Table, TableBuilder, Version};
use cozyvtt_tests::calls::{data, high_water};
use cozyvtt_tests::daemon::{Daemon, Home};
use cozyvtt_tests::until;
use serde_json::{Value, json};

/// How much faster the daemon's clock runs: three minutes are 0.6 s.
pub(crate) const SCALE: u32 = 300;

/// Least time between two passwords, on that clock.
const SPACING: Duration = Duration::from_millis(180_000 / SCALE as u64);

/// What measuring and the network may shave off it.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(50);

/// How much more memory a daemon may hold after a fault, in KiB: twice the largest
/// answer of the suite, which the allocator may keep.
const MEMORY: u64 = 32 * 1024;

/// A table and a home for a daemon whose clock runs fast.
pub(crate) struct Stage {
    pub(crate) table: Table,
    pub(crate) home: Home,
    past: HashSet<String>,
}

fn said_so_far(table: &Table) -> HashSet<String> {
    let lines = table.chat().into_iter().map(|line| line.id);
    lines
        .chain(table.rolls().into_iter().map(|roll| roll.id))
        .collect()
}

impl Stage {
    pub(crate) async fn new(version: Version) -> Result<Self> {
        Self::of(Table::builder().version(version)).await
    }

    /// Of a table that is set up a little otherwise.
    pub(crate) async fn of(table: TableBuilder) -> Result<Self> {
        let table = table
            // The same quarter of an hour, on the daemon's clock.
            .login_window(Duration::from_secs(900) / SCALE)
            .api_limit(10_000)
            .start()
            .await?;
        let mut home = Home::at(&table, "dm")?;
        home.set("COZYVTT_TEST_TIME_SCALE", &SCALE.to_string());
        let past = said_so_far(&table);
        Ok(Self { table, home, past })
    }

    /// Begins with a daemon that is at the table.
    pub(crate) async fn begin(&self) -> Result<Trial<'_>> {
        let daemon = self.home.start_at_table().await?;
        let mut trial = self.with(daemon);
        // What a first call sets up is no leak.
        data(&self.home, "map_list", json!({})).await?;
        trial.before = Some(Held::by(trial.daemon.pid())?);
        trial.since = high_water(&self.home).await?;
        Ok(trial)
    }

    /// Begins with a daemon that cannot get there yet.
    pub(crate) async fn begin_amiss(&self) -> Result<Trial<'_>> {
        Ok(self.with(self.home.start().await?))
    }

    /// Begins with a daemon that was started otherwise.
    pub(crate) fn with<'a>(&'a self, daemon: Daemon<'a>) -> Trial<'a> {
        Trial {
            stage: self,
            daemon,
            before: None,
            since: 0,
            wrote: Vec::new(),
            past: self.past.clone(),
        }
    }
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    descriptors: usize,
    memory_kib: u64,
}

impl Held {
    fn by(pid: u32) -> Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let memory_kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
            .context("no VmRSS")?;
        Ok(Self {
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            memory_kib: memory_kib.trim().parse()?,
        })
    }
}

/// What a daemon holds that has just come to a table, in a build with debug checks: the
/// measure for one that was in trouble from its start.
const HEALTHY: Held = Held {
    descriptors: 40,
    memory_kib: 64 * 1024,
};

/// One fault's trial.
pub(crate) struct Trial<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) daemon: Daemon<'a>,
    before: Option<Held>,
    since: u64,
    wrote: Vec<String>,
    /// What was said before there was a daemon to hear it.
    past: HashSet<String>,
}

impl<'a> Trial<'a> {
    pub(crate) fn table(&self) -> &'a Table {
        &self.stage.table
    }

    pub(crate) fn home(&self) -> &'a Home {
        &self.stage.home
    }

    /// The daemon was replaced by another one.
    pub(crate) fn goes_on_with(&mut self, daemon: Daemon<'a>) {
        self.daemon = daemon;
        self.before = None;
    }

    /// A daemon that could write nothing has ended, and with it, by its own word,
    /// whatever was said so far.
    pub(crate) fn forgets_what_was_said(&mut self) {
        self.past = said_so_far(self.table());
    }

    /// Adds a token of that name; gives the whole envelope.
    pub(crate) async fn adds_token(&mut self, name: &str) -> Result<Value> {
        self.wrote.push(name.to_owned());
        let map = self.table().current_map().context("no map")?;
        let token = json!({"map_id": map, "name": name, "image_url": "", "x": 1, "y": 1});
        Ok(self.home().call("token_add", token).await?.envelope)
    }

    /// Says a line; gives the whole envelope.
    pub(crate) async fn says(&mut self, line: &str) -> Result<Value> {
        self.wrote.push(line.to_owned());
        let line = json!({"content": line});
        Ok(self.home().call("chat_send", line).await?.envelope)
    }

    /// Lists the maps; gives the whole envelope.
    pub(crate) async fn lists_maps(&self) -> Result<Value> {
        Ok(self.home().call("map_list", json!({})).await?.envelope)
    }

    /// How often a token of that name stands on the current map.
    pub(crate) fn tokens(&self, name: &str) -> usize {
        let map = self.table().current_map().unwrap_or_default();
        let tokens = self.table().tokens(&map);
        tokens.iter().filter(|token| token["name"] == name).count()
    }

    /// When everything is well again: every hop works, a line that is said comes back,
    /// no write was doubled, the password was sent by the rule, whatever was said at
    /// the table is journalled once or marked as lost, and the daemon holds no more
    /// than before.
    pub(crate) async fn aftermath(mut self) -> Result<()> {
        let home = self.home();
        until("every hop is fine again", || async {
            let status = home.status().await.ok()?;
            let fine = |hop: &cozyvtt_proto::control::Hop| hop.state == HopState::Ok;
            status.hops.iter().all(fine).then_some(())
        })
        .await;
        self.table().say("player1", "Are you still there?");
        let answer = self.says("I am.").await?;
        ensure!(answer["ok"] == true, "{answer}");
        self.everything_is_journalled_once().await?;
        for wrote in &self.wrote {
            let said = self.table().chat();
            let said = said.iter().filter(|line| line.content == *wrote).count();
            ensure!(said + self.tokens(wrote) <= 1, "{wrote:?} was doubled");
        }
        self.passwords_were_spaced()?;
        self.nothing_is_held().await?;
        let log = home.log();
        ensure!(!log.contains("panicked"), "{log}");
        Ok(())
    }

    async fn everything_is_journalled_once(&self) -> Result<()> {
        let home = self.home();
        let rolls_have_ids = self.table().version() != Version::V1_1_2;
        let missing = until("everything is journalled", || async {
            let heard = Heard::after(home, self.since).await.ok()?;
            let lines = self.table().chat().into_iter();
            let lines = lines
                .filter(|line| line.kind != "SYSTEM")
                .map(|line| line.id);
            let rolls = self.table().rolls().into_iter().map(|roll| roll.id);
            let told = lines.chain(rolls.filter(|_| rolls_have_ids));
            for id in told.filter(|id| !self.past.contains(id)) {
                match heard.times.get(&id) {
                    Some(1) => {}
                    Some(_) => return Some(Some(format!("{id} came twice"))),
                    None if heard.lost => {}
                    None => return None,
                }
            }
            Some(None)
        })
        .await;
        ensure!(missing.is_none(), "{missing:?}");
        Ok(())
    }

    fn passwords_were_spaced(&self) -> Result<()> {
        let logins = self.table().log().requests_to("POST", "/api/auth/login");
        for two in logins.windows(2) {
            let apart = two[1].at - two[0].at;
            ensure!(
                apart + TOLERANCE >= SPACING,
                "two passwords within {apart:?}"
            );
        }
        Ok(())
    }

    async fn nothing_is_held(&self) -> Result<()> {
        let before = self.before.unwrap_or(HEALTHY);
        let pid = self.daemon.pid();
        let now = until("no descriptor is left over", || async {
            let now = Held::by(pid).ok()?;
            (now.descriptors <= before.descriptors + IDLE).then_some(now)
        })
        .await;
        ensure!(
            now.memory_kib <= before.memory_kib + MEMORY,
            "{now:?} after {before:?}"
        );
        Ok(())
    }
}

/// Connections that the HTTP client may keep for the next request.
const IDLE: usize = 4;

/// What the journal holds of the table's life.
#[derive(Debug, Default)]
struct Heard {
    /// How often each line and each roll is in it, by the server's id.
    times: HashMap<String, usize>,
    /// Some of them may be missing, by the daemon's own word.
    lost: bool,
}

impl Heard {
    async fn after(home: &Home, since: u64) -> Result<Self> {
        let mut heard = Self::default();
        // `since` 0 would begin 500 records back.
        let mut at = since.max(1);
        loop {
            let page = data(home, "events_poll", json!({"since": at, "limit": 500})).await?;
            heard.lost |= page["gap"] == true;
            for event in page["events"].as_array().context("no events")? {
                heard.take(event);
            }
            if page["has_more"] != true {
                return Ok(heard);
            }
            at = page["next_seq"].as_u64().context("no cursor")?;
        }
    }

    fn take(&mut self, event: &Value) {
        let payload = &event["payload"];
        match event["event"].as_str() {
            Some("chat.message" | "dice.rolled" | "dice.rolled.secret") => {
                if let Some(id) = payload["id"].as_str() {
                    *self.times.entry(id.to_owned()).or_default() += 1;
                }
            }
            Some("system.resync") => {
                let kinds = payload["may_be_lost"].as_array();
                self.lost |= kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "chat"));
            }
            _ => {}
        }
    }
}
