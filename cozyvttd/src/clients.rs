//! The clients: who is connected, what each does, and what a person has said about them.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cozyvtt_proto::control::{ClientInfo, ClientState, LastCall};
use cozyvtt_proto::hello::Hello;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lock::lock;
use crate::private;

/// How many words of a person about clients are kept. Of more than this many the first
/// ones go that are about nobody who is connected: a client that ended does not come back
/// under its name.
const WORDS: usize = 2 * MOST_CLIENTS;

/// How many may be connected at once.
pub const MOST_CLIENTS: usize = 1000;

/// How many calls of one client may be unanswered at once.
pub const MOST_CALLS: u64 = 256;

/// A client of the daemon: an MCP client on its connection, or the control socket.
#[derive(Debug)]
pub struct Client {
    /// Its number in this run, by which a person names it; 0 is the control socket.
    pub number: u64,
    /// Cancelled when its connection is to end, because it is sent away or back on another
    /// one: nothing more is read from it, what waits for its turn is let go, and what is
    /// under way is answered.
    pub closing: CancellationToken,
    /// Cancelled when it is back on another connection: what this one still brings has
    /// been announced there, or was given up.
    pub replaced: CancellationToken,
    connected: Instant,
    who: Mutex<Who>,
    waiting: AtomicU64,
    /// The ids of requests, as JSON, that it has announced to send once more.
    announced: Mutex<HashSet<String>>,
}

/// What a client has said of itself, and done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Who {
    /// Its own random name, kept over reconnects.
    pub id: String,
    /// Its name from the MCP handshake.
    pub name: Option<String>,
    /// Its version from the MCP handshake.
    pub version: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// Where its relative paths begin.
    pub cwd: Option<PathBuf>,
    /// The presets that it has chosen; all where there are none.
    pub toolsets: Vec<String>,
    /// It may only read.
    pub read_only: bool,
    /// The campaign that it has asked for, where that is not the main one.
    pub campaign: Option<String>,
    /// It has said hello, so it asks again after an outage for what was not answered.
    pub comes_back: bool,
    calls: u64,
    last: Option<(&'static str, Instant)>,
}

impl Who {
    /// What people call it.
    pub fn label(&self) -> String {
        self.name
            .clone()
            .unwrap_or_else(|| "an unnamed client".to_owned())
    }
}

impl Client {
    fn new(number: u64, who: Who) -> Arc<Self> {
        Arc::new(Self {
            number,
            closing: CancellationToken::new(),
            replaced: CancellationToken::new(),
            connected: Instant::now(),
            who: Mutex::new(who),
            waiting: AtomicU64::new(0),
            announced: Mutex::default(),
        })
    }

    /// What it has said of itself.
    pub fn who(&self) -> Who {
        lock(&self.who).clone()
    }

    /// Notes the campaign that it sits in, where that is not the main one.
    pub fn sits_in(&self, campaign: &str) {
        lock(&self.who).campaign = Some(campaign.to_owned());
    }

    /// Notes its name and version, as MCP tells them.
    pub fn name(&self, name: &str, version: &str) {
        let mut who = lock(&self.who);
        if who.name.as_deref() != Some(name) || who.version.as_deref() != Some(version) {
            tracing::info!(
                client = self.number,
                name,
                version,
                "a client said its name"
            );
            who.name = Some(name.to_owned());
            who.version = Some(version.to_owned());
        }
    }

    /// Notes the requests, by their ids as JSON, that it will send once more on this
    /// connection.
    pub fn announce(&self, requests: impl IntoIterator<Item = String>) {
        lock(&self.announced).extend(requests);
    }

    /// Whether it has announced this request; the next one of that id is a new one.
    pub fn comes_again(&self, request: &str) -> bool {
        lock(&self.announced).remove(request)
    }

    /// Counts a call until the value goes; `None` when [`MOST_CALLS`] are unanswered.
    pub fn calls(self: &Arc<Self>, tool: &'static str) -> Option<Calling> {
        let mut who = lock(&self.who);
        if self.waiting.load(Ordering::Relaxed) >= MOST_CALLS {
            return None;
        }
        who.calls += 1;
        who.last = Some((tool, Instant::now()));
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Some(Calling(Arc::clone(self)))
    }

    fn info(&self, state: ClientState) -> ClientInfo {
        let who = self.who();
        ClientInfo {
            number: self.number,
            name: who.name,
            version: who.version,
            pid: who.pid,
            toolsets: who.toolsets,
            read_only: who.read_only,
            campaign: who.campaign,
            connected_s: self.connected.elapsed().as_secs(),
            calls: who.calls,
            last_call: who.last.map(|(tool, at)| LastCall {
                tool: tool.to_owned(),
                ago_s: at.elapsed().as_secs(),
            }),
            waiting: self.waiting.load(Ordering::Relaxed),
            state,
        }
    }
}

/// A call that is not answered yet.
#[derive(Debug)]
pub struct Calling(Arc<Client>);

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client for as long as it is connected.
#[derive(Debug)]
pub struct Seat<'a> {
    clients: &'a Clients,
    /// The client.
    pub client: Arc<Client>,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut connected = lock(&self.clients.connected);
        connected.remove(&self.client.number);
        self.clients.count.send_replace(connected.len());
    }
}

/// What a person has said about clients: kept in a file, since a client that is held does
/// not get free by a restart.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Words {
    /// What holds for those that have no word of their own.
    all_held: bool,
    /// Of clients by their own random names, in the order in which they were said.
    clients: Vec<(String, Word)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Free,
    Held,
    SentAway,
}

impl Words {
    fn about(&self, id: &str) -> ClientState {
        let word = self.clients.iter().find(|(known, _)| known == id);
        match word.map(|(_, word)| word) {
            Some(Word::SentAway) => ClientState::SentAway,
            Some(Word::Held) => ClientState::Held,
            None if self.all_held => ClientState::Held,
            None | Some(Word::Free) => ClientState::Active,
        }
    }

    /// Notes a word; `present` are those who are connected.
    fn say(&mut self, id: &str, word: Word, present: &HashSet<String>) {
        self.clients.retain(|(known, _)| known != id);
        if word == Word::Free && !self.all_held {
            return;
        }
        if self.clients.len() >= WORDS {
            let gone = |(known, _): &(String, Word)| !present.contains(known);
            // There are more words than there can be clients.
            let oldest = self.clients.iter().position(gone).unwrap_or_default();
            self.clients.remove(oldest);
        }
        self.clients.push((id.to_owned(), word));
    }
}

/// Everybody, and what a person has said about them.
#[derive(Debug)]
pub struct Clients {
    /// A name for this run, of which those without a name of their own get one.
    instance: String,
    file: PathBuf,
    next: AtomicU64,
    connected: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// How many those are, for whoever waits for a change.
    count: watch::Sender<usize>,
    words: Mutex<Words>,
    /// Held by whoever writes the words down, so that the newest are written last.
    disk: Mutex<()>,
    control: Arc<Client>,
}

impl Clients {
    /// Nobody yet; what a person has said in an earlier run lies in `state_dir`.
    pub fn new(instance: &str, state_dir: &Path) -> Self {
        let file = state_dir.join("clients.json");
        let words = match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                // Rather held for nothing than let go by mistake.
                tracing::error!(%error, file = %file.display(), "who is held cannot be read, so all clients are; `cozyvttctl release` frees them");
                Words { all_held: true, ..Words::default() }
            }),
            Err(_) => Words::default(),
        };
        let control = Client::new(
            0,
            Who {
                id: "cozyvttctl".to_owned(),
                name: Some("cozyvttctl".to_owned()),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                ..Who::default()
            },
        );
        Self {
            instance: instance.to_owned(),
            file,
            next: AtomicU64::new(1),
            connected: Mutex::default(),
            count: watch::Sender::new(0),
            words: Mutex::new(words),
            disk: Mutex::default(),
            control,
        }
    }

    /// The control socket's own: whoever uses that is the person in charge.
    pub fn control(&self) -> &Arc<Client> {
        &self.control
    }

    /// A client connects; `None` when [`MOST_CLIENTS`] are here.
    pub fn enter(&self, pid: Option<u32>) -> Option<Seat<'_>> {
        let mut connected = lock(&self.connected);
        if connected.len() >= MOST_CLIENTS {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let who = Who {
            id: format!("{}-{number}", self.instance),
            pid,
            ..Who::default()
        };
        let client = Client::new(number, who);
        connected.insert(number, Arc::clone(&client));
        self.count.send_replace(connected.len());
        Some(Seat {
            clients: self,
            client,
        })
    }

    /// Notes what a client says of itself before MCP begins. An older connection of the
    /// same client is at its end: nothing that comes on it is begun any more.
    pub fn introduce(&self, client: &Client, hello: &Hello) {
        let mut who = lock(&client.who);
        who.id.clone_from(&hello.client_id);
        who.pid = Some(hello.pid);
        who.cwd.clone_from(&hello.cwd);
        who.toolsets = hello.toolsets.clone().unwrap_or_default();
        who.read_only = hello.read_only;
        who.comes_back = true;
        drop(who);
        let connected = lock(&self.connected);
        let older = connected
            .values()
            .filter(|other| other.number < client.number && lock(&other.who).id == hello.client_id);
        for other in older {
            tracing::info!(
                client = other.number,
                now = client.number,
                "a client is back"
            );
            other.replaced.cancel();
        }
    }

    /// How many are connected.
    pub fn count(&self) -> usize {
        lock(&self.connected).len()
    }

    /// The same, for whoever waits for a change.
    pub fn watch_count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// How a client stands with the person.
    pub fn state(&self, client: &Client) -> ClientState {
        if client.number == 0 {
            return ClientState::Active;
        }
        lock(&self.words).about(&lock(&client.who).id)
    }

    /// Everybody who is connected, by number.
    pub fn list(&self) -> Vec<ClientInfo> {
        let connected: Vec<_> = lock(&self.connected).values().cloned().collect();
        self.infos(&connected)
    }

    /// Whether those that come now are held.
    pub fn all_held(&self) -> bool {
        lock(&self.words).all_held
    }

    /// Holds the clients that `selector` names, or all and those to come.
    ///
    /// # Errors
    ///
    /// A sentence when it names nobody, or it cannot be kept.
    pub fn hold(&self, selector: Option<&str>) -> Result<Vec<ClientInfo>, String> {
        let chosen = self.choose(selector)?;
        self.change(|words, present| {
            if selector.is_none() {
                words.all_held = true;
                words.clients.retain(|(_, word)| *word != Word::Free);
                return;
            }
            for client in &chosen {
                words.say(&client.who().id, Word::Held, present);
            }
        });
        Ok(self.infos(&chosen))
    }

    /// Lets the clients that `selector` names write again, or all, those that were sent
    /// away included.
    ///
    /// # Errors
    ///
    /// A sentence when it names nobody.
    pub fn release(&self, selector: Option<&str>) -> Result<Vec<ClientInfo>, String> {
        let chosen = self.choose(selector)?;
        self.change(|words, present| {
            if selector.is_none() {
                *words = Words::default();
                return;
            }
            for client in &chosen {
                words.say(&client.who().id, Word::Free, present);
            }
        });
        Ok(self.infos(&chosen))
    }

    /// Sends the clients that `selector` names away: their connections end, and what they
    /// ask for when they come back is refused.
    ///
    /// # Errors
    ///
    /// A sentence when it names nobody.
    pub fn send_away(&self, selector: &str) -> Result<Vec<ClientInfo>, String> {
        let chosen = self.choose(Some(selector))?;
        self.change(|words, present| {
            for client in &chosen {
                words.say(&client.who().id, Word::SentAway, present);
            }
        });
        for client in &chosen {
            client.closing.cancel();
        }
        Ok(self.infos(&chosen))
    }

    /// The connected clients that a person means: by number, or by name, of which there
    /// may be several.
    ///
    /// # Errors
    ///
    /// A sentence that lists who there is, when it is nobody.
    pub fn choose(&self, selector: Option<&str>) -> Result<Vec<Arc<Client>>, String> {
        let connected = lock(&self.connected);
        let Some(selector) = selector else {
            return Ok(connected.values().cloned().collect());
        };
        let chosen: Vec<_> = connected
            .values()
            .filter(|client| {
                selector.parse() == Ok(client.number)
                    || lock(&client.who)
                        .name
                        .as_ref()
                        .is_some_and(|name| name.eq_ignore_ascii_case(selector))
            })
            .cloned()
            .collect();
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let there: Vec<_> = connected
            .values()
            .map(|client| format!("{} ({})", client.number, lock(&client.who).label()))
            .collect();
        Err(if there.is_empty() {
            format!("there is no client {selector:?}: nobody is connected")
        } else {
            format!(
                "there is no client {selector:?}; there are {}",
                there.join(", ")
            )
        })
    }

    fn infos(&self, clients: &[Arc<Client>]) -> Vec<ClientInfo> {
        clients
            .iter()
            .map(|client| client.info(self.state(client)))
            .collect()
    }

    fn change(&self, change: impl FnOnce(&mut Words, &HashSet<String>)) {
        let present = lock(&self.connected)
            .values()
            .map(|client| client.who().id)
            .collect();
        let _writing = lock(&self.disk);
        let kept = {
            let mut words = lock(&self.words);
            change(&mut words, &present);
            serde_json::to_vec(&*words)
        };
        // Every call asks for the words, and need not wait for the disk.
        let kept = kept
            .map_err(std::io::Error::from)
            .and_then(|bytes| private::write(&self.file, &bytes));
        if let Err(error) = kept {
            tracing::error!(%error, file = %self.file.display(), "who is held does not outlive cozyvttd");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients() -> (tempfile::TempDir, Clients) {
        let dir = tempfile::tempdir().unwrap();
        let clients = Clients::new("i1", dir.path());
        (dir, clients)
    }

    fn introduced<'a>(clients: &'a Clients, id: &str, name: &str) -> Seat<'a> {
        let seat = clients.enter(Some(7)).unwrap();
        let line = format!(r#"{{"protocol":1,"version":"0.1.0","pid":7,"client_id":"{id}"}}"#);
        clients.introduce(&seat.client, &serde_json::from_str(&line).unwrap());
        seat.client.name(name, "1.0");
        seat
    }

    #[test]
    fn a_client_is_named_by_its_number_or_its_name_and_nobody_else_is_meant() {
        let (_dir, clients) = clients();
        let one = introduced(&clients, "a", "Claude Code");
        let two = introduced(&clients, "b", "Cursor");
        let held = clients.hold(Some("claude code")).unwrap();
        assert_eq!(held.len(), 1);
        assert_eq!(clients.state(&one.client), ClientState::Held);
        assert_eq!(clients.state(&two.client), ClientState::Active);
        assert_eq!(clients.hold(Some("2")).unwrap()[0].number, 2);
        let refusal = clients.hold(Some("nobody")).unwrap_err();
        assert!(refusal.contains("1 (Claude Code), 2 (Cursor)"), "{refusal}");
        drop((one, two));
        assert!(clients.hold(Some("1")).is_err());
    }

    #[test]
    fn a_word_outlives_the_connection_and_the_run() {
        let (dir, clients) = clients();
        let seat = introduced(&clients, "a", "A");
        clients.hold(Some("A")).unwrap();
        drop(seat);
        let clients = Clients::new("i2", dir.path());
        let seat = introduced(&clients, "a", "A");
        assert_eq!(clients.state(&seat.client), ClientState::Held);
        clients.release(Some("A")).unwrap();
        assert_eq!(clients.state(&seat.client), ClientState::Active);
    }

    #[test]
    fn all_are_held_those_to_come_as_well_but_for_one_that_is_released() {
        let (_dir, clients) = clients();
        let one = introduced(&clients, "a", "A");
        clients.hold(None).unwrap();
        let two = introduced(&clients, "b", "B");
        assert_eq!(clients.state(&two.client), ClientState::Held);
        clients.release(Some("A")).unwrap();
        assert_eq!(clients.state(&one.client), ClientState::Active);
        assert_eq!(clients.state(&two.client), ClientState::Held);
        assert_eq!(clients.state(clients.control()), ClientState::Active);
        clients.release(None).unwrap();
        assert_eq!(clients.state(&two.client), ClientState::Active);
    }

    #[test]
    fn who_is_sent_away_stays_so_until_released() {
        let (_dir, clients) = clients();
        let seat = introduced(&clients, "a", "A");
        clients.send_away("A").unwrap();
        assert!(seat.client.closing.is_cancelled());
        drop(seat);
        let back = introduced(&clients, "a", "A");
        assert_eq!(clients.state(&back.client), ClientState::SentAway);
        assert!(!back.client.closing.is_cancelled());
        clients.release(None).unwrap();
        assert_eq!(clients.state(&back.client), ClientState::Active);
    }

    #[test]
    fn there_is_a_limit_to_clients_and_to_the_calls_of_one() {
        let (_dir, clients) = clients();
        let mut seats: Vec<_> = (0..MOST_CLIENTS)
            .map(|_| clients.enter(None).unwrap())
            .collect();
        assert!(clients.enter(None).is_none());
        seats.pop();
        assert!(clients.enter(None).is_some());
        let client = &seats[0].client;
        let mut calls: Vec<_> = (0..MOST_CALLS)
            .map(|_| client.calls("x").unwrap())
            .collect();
        assert!(client.calls("x").is_none());
        assert!(seats[1].client.calls("x").is_some());
        calls.pop();
        assert!(client.calls("x").is_some());
    }

    #[test]
    fn words_that_cannot_be_read_hold_everybody() {
        let (dir, _) = clients();
        std::fs::write(dir.path().join("clients.json"), "{oops").unwrap();
        assert!(Clients::new("i1", dir.path()).all_held());
    }

    #[test]
    fn of_too_many_words_the_first_ones_go_that_are_about_nobody_who_is_there() {
        let (_dir, clients) = clients();
        let seat = introduced(&clients, "held for long", "A");
        clients.hold(Some("A")).unwrap();
        clients.change(|words, present| {
            for number in 0..WORDS {
                words.say(&format!("gone-{number}"), Word::Held, present);
            }
        });
        assert_eq!(clients.state(&seat.client), ClientState::Held);
        let late = introduced(&clients, "late", "B");
        clients.send_away("B").unwrap();
        assert_eq!(clients.state(&late.client), ClientState::SentAway);
        assert_eq!(lock(&clients.words).clients.len(), WORDS);
    }
}
