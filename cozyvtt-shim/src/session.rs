//! What the threads share: how the link to the daemon is, which messages are not
//! done with, and what was settled. One lock guards it all, so that no request can
//! slip in between "the daemon is gone" and "everything due waits".
//!
//! A message takes one of two ways: while the link is up, the client's thread
//! writes it; otherwise it waits, and the keeper ([`Session::keep`]) writes it when
//! there is a link again. The daemon's thread brings links about and reads from them.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cozyvtt_proto::hello::{Resend, Verdict};

use crate::answer::{self, Fate, Trouble};
use crate::client::Client;
use crate::memory::{Memory, OwnIds, Replay};
use crate::message::{Details, Id, Message, Method};
use crate::outstanding::{Due, Entry, Outstanding};
use crate::wire::Wire;

/// How long the daemon may be quiet while an answer is due before it is asked for a
/// sign of life.
const QUIET: Duration = Duration::from_secs(5);

/// How long that sign may take.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// The way to the daemon.
#[derive(Debug, Clone)]
enum Link {
    /// There is none.
    Down,
    /// What has waited is being passed on.
    Opening(Arc<Wire>),
    /// Lines can be passed on.
    Up(Arc<Wire>),
}

impl Link {
    fn is(&self, wire: &Arc<Wire>) -> bool {
        match self {
            Self::Opening(own) | Self::Up(own) => Arc::ptr_eq(own, wire),
            Self::Down => false,
        }
    }
}

/// What a request of the shim's own is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To see whether the tools have changed.
    Catalog,
    /// Only its effect, or only a sign of life; the answer is passed over.
    Effect,
}

#[derive(Debug)]
struct State {
    link: Link,
    outstanding: Outstanding,
    memory: Memory,
    own_ids: OwnIds,
    /// The shim's own requests that the daemon has not answered.
    own: Vec<(Id, Purpose)>,
    /// Why there is no link; the last cause counts.
    trouble: Option<Trouble>,
    /// When the daemon last said anything.
    heard: Instant,
    /// When it was asked for a sign of life.
    asked: Option<Instant>,
    /// How many threads are writing to the client just now, or are about to.
    speaking: usize,
    /// The client has closed stdin.
    leaving: bool,
    /// The one line for the log about this outage is out.
    logged: bool,
    /// The keeper waits for nothing in particular.
    keeper_idles: bool,
}

/// One client's session.
#[derive(Debug)]
pub(crate) struct Session {
    client: Client,
    /// How long a message may wait for a link.
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
    /// For the keeper alone.
    work: Condvar,
}

/// A request that was announced in the hello.
#[derive(Debug)]
pub(crate) struct Announced {
    id: Id,
    /// When the daemon first had it. A careless client uses an id twice, and what is
    /// said of one request must not be taken for the other.
    sent: Instant,
    /// What the hello says of it.
    pub(crate) resend: Resend,
}

impl Session {
    /// A session of the process called `name`, whose messages wait for a link for
    /// `patience` at most.
    pub(crate) fn new(client: Client, name: &str, patience: Duration) -> Self {
        Self {
            client,
            patience,
            state: Mutex::new(State {
                link: Link::Down,
                outstanding: Outstanding::default(),
                memory: Memory::default(),
                own_ids: OwnIds::new(name),
                own: Vec::new(),
                trouble: None,
                heard: Instant::now(),
                asked: None,
                speaking: 0,
                leaving: false,
                logged: false,
                keeper_idles: false,
            }),
            changed: Condvar::new(),
            work: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says `lines` to the client, and lets go of the state meanwhile.
    fn say(&self, mut state: MutexGuard<'_, State>, lines: &[Vec<u8>]) {
        if lines.is_empty() {
            return;
        }
        state.speaking += 1;
        drop(state);
        for line in lines {
            self.client.say(line);
        }
        self.state().speaking -= 1;
        self.changed.notify_all();
    }

    // For the direction from the client to the daemon.

    /// Says a line of the shim's own to the client.
    pub(crate) fn answer(&self, line: &[u8]) {
        self.client.say(line);
    }

    /// Passes the client's `line` on, or keeps it until that can be done.
    pub(crate) fn pass(&self, line: &[u8]) {
        let mut state = self.state();
        let due = match Message::of(line) {
            Message::Request { id, method } => {
                if method == Method::Initialize {
                    state.memory.begins();
                }
                Due::Answer(id, method)
            }
            Message::Unclear => Due::Complaint,
            Message::Cancelled { id } => {
                let with_daemon = state.outstanding.answered(&id).is_some();
                if !with_daemon && state.outstanding.take_waiting(&id).is_some() {
                    // The daemon has never heard of it, or will not again.
                    self.changed.notify_all();
                    return;
                }
                Due::Nothing
            }
            Message::Initialized => {
                state.memory.initialized(line);
                Due::Nothing
            }
            Message::Answer { .. } | Message::Notification => Due::Nothing,
        };
        match state.link.clone() {
            Link::Up(wire) => {
                drop(self.transmit(state, &wire, Entry::sending(due, line), line));
            }
            Link::Opening(_) => {
                let deadline = Instant::now() + self.patience;
                let answer = state.queue(Entry::waiting(due, line, deadline));
                self.work.notify_one();
                self.say(state, answer.as_slice());
            }
            // What answers a daemon that is gone, or tells it something, is not for the
            // next one. The end of the handshake is told when that is repeated.
            Link::Down if due == Due::Nothing && state.memory.instance().is_some() => {}
            Link::Down => {
                let deadline = Instant::now() + self.patience;
                let entry = Entry::waiting(due, line, deadline);
                let answer = state.hold(entry, None, deadline);
                self.changed.notify_all();
                self.work.notify_one();
                self.say(state, answer.as_slice());
            }
        }
    }

    /// Writes `line`, which is that of `entry`, to `wire`, and lets go of the state
    /// meanwhile.
    fn transmit<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        wire: &Arc<Wire>,
        entry: Entry,
        line: &[u8],
    ) -> MutexGuard<'s, State> {
        // Before anybody can answer it.
        state.outstanding.begin(entry);
        drop(state);
        let written = wire.write(line);
        let mut state = self.state();
        let holds = state.link.is(wire);
        let taken = state.outstanding.take_sending();
        self.changed.notify_all();
        let Some(mut entry) = taken else {
            return state;
        };
        match written {
            Ok(()) if holds => {
                state.outstanding.sent(entry);
                if state.keeper_idles {
                    self.work.notify_one();
                }
                return state;
            }
            Ok(()) => entry.has_been_sent(),
            // The newline never left, so the daemon cannot have acted.
            Err(_) if holds => state.link = Link::Down,
            Err(_) => {}
        }
        // What is due no answer is about this connection, and not for another one.
        if entry.due == Due::Nothing {
            return state;
        }
        let again = written.is_err().then_some(line);
        let answer = state.hold(entry, again, Instant::now() + self.patience);
        self.changed.notify_all();
        self.work.notify_one();
        self.say(state, answer.as_slice());
        self.state()
    }

    /// The client has closed stdin: tells the daemon, and waits until all that
    /// is due has been delivered, but no longer than `patience`. What has no answer
    /// by then is told so.
    pub(crate) fn leave(&self, patience: Duration) {
        let mut state = self.state();
        state.leaving = true;
        if let Link::Up(wire) = &state.link {
            wire.half_close();
        }
        let due = |state: &mut State| state.speaking > 0 || state.outstanding.is_due();
        let waited = self.changed.wait_timeout_while(state, patience, due);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        // A client that does not take what is being said must not keep the process.
        if state.speaking > 0 {
            return;
        }
        let late = state.outstanding.take_all();
        let trouble = || Trouble::late(patience.as_secs());
        state.trouble.get_or_insert_with(trouble);
        let answers = state.give_up(&late);
        self.say(state, &answers);
    }

    // For the direction from the daemon to the client.

    /// Whether a request waits for a link.
    pub(crate) fn is_awaited(&self) -> bool {
        self.state().outstanding.is_awaited()
    }

    /// What the hello has to say of the past: the instance, and the requests that are
    /// to be sent again.
    pub(crate) fn past(&self) -> (Option<String>, Vec<Announced>) {
        let state = self.state();
        let announced = state.outstanding.waiting.iter().filter_map(|entry| {
            let (id, sent) = (entry.request()?.0.clone(), entry.sent_at()?);
            let details = Details::of(entry.line()?)?;
            let resend = Resend {
                id: serde_json::from_str(id.raw().get()).ok()?,
                tool: (details.method == "tools/call")
                    .then(|| details.text("name"))
                    .flatten(),
                method: details.method,
                age_ms: u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX),
                reused: state.outstanding.was_used(&id),
            };
            Some(Announced { id, sent, resend })
        });
        let announced = announced.collect();
        (state.memory.instance().map(ToOwned::to_owned), announced)
    }

    /// What a connection to `instance` needs before anything else.
    pub(crate) fn replay(&self, instance: &str) -> Replay {
        self.state().memory.replay(instance)
    }

    /// An id for a request of the shim's own, whose answer the caller reads.
    pub(crate) fn own_id(&self) -> Id {
        self.state().own_ids.next()
    }

    /// A line with a request of the shim's own, whose answer is swallowed.
    pub(crate) fn own_request(
        &self,
        purpose: Purpose,
        line: impl FnOnce(&Id) -> Vec<u8>,
    ) -> Vec<u8> {
        let mut state = self.state();
        let id = state.own_ids.next();
        let line = line(&id);
        state.own.push((id, purpose));
        line
    }

    /// A connection to `instance` is there, and brought to where the last one was as
    /// far as `replay` says. Of the requests that were announced, those are sent again
    /// for which `verdicts` says so; `unknown` is said of the others.
    pub(crate) fn opened(
        &self,
        wire: Arc<Wire>,
        instance: String,
        replay: &Replay,
        announced: &[Announced],
        verdicts: &[Verdict],
        unknown: &Trouble,
    ) {
        // The client's thread may still be busy with the connection before.
        let busy = |state: &mut State| state.outstanding.is_sending();
        let waited = self.changed.wait_while(self.state(), busy);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let again = |entry: &Entry| {
            let (Some((id, method)), Some(sent)) = (entry.request(), entry.sent_at()) else {
                // The daemon has never had it.
                return true;
            };
            let announced = announced
                .iter()
                .position(|announced| announced.id == *id && announced.sent == sent);
            match announced.and_then(|at| verdicts.get(at)) {
                Some(verdict) => *verdict == Verdict::Again,
                // The daemon is too old to say, or was not asked.
                None => method != Method::ToolsCall,
            }
        };
        let waiting = std::mem::take(&mut state.outstanding.waiting);
        let (waiting, lost) = waiting.into_iter().partition::<Vec<_>, _>(again);
        state.outstanding.waiting = waiting.into();
        let answers = state.answer_all(&lost, unknown);
        state.memory.met(instance);
        // The client was done with the handshake while that was replayed.
        if replay.handshake.is_some()
            && replay.initialized.is_none()
            && let Some(line) = state.memory.told().cloned()
        {
            let entry = Entry::waiting(Due::Nothing, &line, Instant::now() + self.patience);
            state.outstanding.waiting.push_front(entry);
        }
        state.link = Link::Opening(wire);
        state.trouble = None;
        state.logged = false;
        state.heard = Instant::now();
        state.asked = None;
        self.work.notify_one();
        self.say(state, &answers);
    }

    /// The daemon has said `line`: says it to the client, if it is for the client.
    pub(crate) fn relay(&self, line: &[u8]) {
        let id = match Message::of(line) {
            Message::Answer { id } => Some(id),
            _ => None,
        };
        self.relay_as(line, id.as_ref(), line);
    }

    /// Says `said` to the client in place of `line`, which answers request `id`.
    pub(crate) fn relay_as(&self, line: &[u8], id: Option<&Id>, said: &[u8]) {
        let mut respelled = None;
        let mut state = self.state();
        state.heard = Instant::now();
        state.asked = None;
        if let Some(id) = id {
            if let Some(at) = state.own.iter().position(|(own, _)| own == id) {
                let (_, purpose) = state.own.remove(at);
                if purpose == Purpose::Catalog && state.memory.has_changed(line) {
                    self.say(state, &[answer::TOOLS_CHANGED.to_vec()]);
                }
                return;
            }
            // What nobody has asked for, or does not want any more, is not passed on.
            let Some(entry) = state.outstanding.answered(id) else {
                return;
            };
            state.memory.note(&entry, line);
            respelled = entry.request().and_then(|(own, _)| own.respelled(id, said));
        }
        state.speaking += 1;
        drop(state);
        self.client.say(respelled.as_deref().unwrap_or(said));
        self.state().speaking -= 1;
        self.changed.notify_all();
    }

    /// No connection came about. If that is going to last, everything is answered.
    pub(crate) fn failed(&self, trouble: &Trouble) {
        self.failed_so(trouble, true);
    }

    /// The same where that is nothing to write down: nobody has asked for anything yet, and
    /// whoever does has the daemon started.
    pub(crate) fn not_needed_yet(&self, trouble: &Trouble) {
        self.failed_so(trouble, false);
    }

    fn failed_so(&self, trouble: &Trouble, is_news: bool) {
        let mut state = self.state();
        state.own.clear();
        state.trouble = Some(trouble.clone());
        if is_news {
            state.log();
        }
        if trouble.lasts() {
            let waiting = Vec::from(std::mem::take(&mut state.outstanding.waiting));
            let answers = state.give_up(&waiting);
            self.say(state, &answers);
        }
        self.changed.notify_all();
    }

    /// The connection has ended; what the daemon had waits for the next one.
    pub(crate) fn down(&self, trouble: Trouble) {
        let mut state = self.state();
        // The keeper may know better why.
        let silent = matches!(state.link, Link::Down) && state.trouble.is_some();
        state.link = Link::Down;
        state.own.clear();
        state.asked = None;
        if !silent {
            state.trouble = Some(trouble);
        }
        let mut later = std::mem::take(&mut state.outstanding.waiting);
        later.retain(|entry| entry.due != Due::Nothing);
        let deadline = Instant::now() + self.patience;
        let mut answers = Vec::new();
        for entry in state.outstanding.take_sent() {
            answers.extend(state.hold(entry, None, deadline));
        }
        // What the daemon has had comes first.
        for entry in later {
            answers.extend(state.queue(entry));
        }
        if !state.leaving || state.outstanding.is_due() {
            state.log();
        }
        self.work.notify_one();
        self.say(state, &answers);
        self.changed.notify_all();
    }

    /// Waits before the next attempt to connect: `busy` from now if a request waits
    /// for it, else `idle`. Says whether one does.
    pub(crate) fn pause(&self, busy: Duration, idle: Duration) -> bool {
        let begun = Instant::now();
        let mut state = self.state();
        loop {
            let awaited = state.outstanding.is_awaited();
            let delay = if awaited { busy } else { idle };
            let Some(left) = delay.checked_sub(begun.elapsed()).filter(|d| !d.is_zero()) else {
                return awaited;
            };
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    // For the keeper.

    /// Passes on what has waited once there is a link, gives up what has waited too
    /// long, and notices a daemon that is there and does not answer. Never returns.
    pub(crate) fn keep(&self, silent: &Trouble) {
        let mut state = self.state();
        loop {
            if let Link::Opening(wire) = state.link.clone() {
                state = self.pass_on(state, &wire);
                continue;
            }
            let now = Instant::now();
            let expired = state.outstanding.take_expired(now);
            if !expired.is_empty() {
                let answers = state.give_up(&expired);
                self.say(state, &answers);
                self.changed.notify_all();
                state = self.state();
                continue;
            }
            let alarm = match state.link.clone() {
                Link::Up(wire) => state.watch(&wire, now, silent),
                Link::Opening(_) | Link::Down => None,
            };
            let next = [alarm, state.outstanding.next_deadline()];
            state = match next.into_iter().flatten().min() {
                None => {
                    state.keeper_idles = true;
                    let waited = self.work.wait(state);
                    let mut state = waited.unwrap_or_else(PoisonError::into_inner);
                    state.keeper_idles = false;
                    state
                }
                Some(next) => {
                    let left = next.saturating_duration_since(now);
                    let waited = self.work.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Passes the oldest message on that has waited for `wire`, or lets the client's
    /// thread do so from now on.
    fn pass_on<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        wire: &Arc<Wire>,
    ) -> MutexGuard<'s, State> {
        let Some(entry) = state.outstanding.waiting.pop_front() else {
            if state.leaving {
                wire.half_close();
            }
            state.link = Link::Up(Arc::clone(wire));
            self.changed.notify_all();
            return state;
        };
        let Some(line) = entry.line().cloned() else {
            // Nothing waits without its line; see `State::hold`.
            return state;
        };
        let handshake = matches!(entry.request(), Some((_, Method::Initialize)));
        if handshake
            && let Some(line) = state.memory.told().cloned()
            && !state.outstanding.will_say(&line)
        {
            let after = Entry::waiting(Due::Nothing, &line, Instant::now() + self.patience);
            state.outstanding.waiting.push_front(after);
        }
        self.transmit(state, wire, entry, &line)
    }
}

impl State {
    /// Lets `entry` wait for a link, until `deadline` at most; gives the answer if it can be
    /// answered without, or can only be given up. `line` is the line of a message that was
    /// not delivered.
    fn hold(
        &mut self,
        mut entry: Entry,
        line: Option<&[u8]>,
        deadline: Instant,
    ) -> Option<Vec<u8>> {
        entry.has_to_wait(deadline, line);
        let answer = match entry.request() {
            // Some clients drop a server that does not answer these in time.
            Some((id, Method::Ping)) => Some(answer::pong(id)),
            Some((id, Method::ToolsList)) => entry
                .line()
                .and_then(|line| self.memory.listed(line))
                .map(|result| answer::repeated(id, result)),
            _ => None,
        };
        if answer.is_some() {
            return answer;
        }
        let late = entry
            .deadline()
            .is_some_and(|deadline| deadline <= Instant::now());
        if late || !entry.can_be_sent() {
            return self.give_up(&[entry]).pop();
        }
        self.queue(entry)
    }

    /// Lets `entry` wait for a link; gives the answer if there is no room for it.
    fn queue(&mut self, entry: Entry) -> Option<Vec<u8>> {
        match self.outstanding.has_room(&entry) {
            Ok(()) => {
                self.outstanding.waiting.push_back(entry);
                None
            }
            Err(limit) => self.answer_all(&[entry], &Trouble::crowded(limit)).pop(),
        }
    }

    /// The answers to `entries`, which are not going to be passed on.
    fn give_up(&mut self, entries: &[Entry]) -> Vec<Vec<u8>> {
        let trouble = self.trouble.clone().unwrap_or_else(Trouble::connecting);
        self.answer_all(entries, &trouble)
    }

    /// The answers to `entries`, which are not going to be passed on because of `trouble`.
    fn answer_all(&mut self, entries: &[Entry], trouble: &Trouble) -> Vec<Vec<u8>> {
        for entry in entries {
            self.outstanding.given_up(entry);
        }
        let answers = entries.iter();
        answers
            .filter_map(|entry| failure(entry, trouble))
            .collect()
    }

    /// Looks whether the daemon answers on `wire`; when to look again. If it does not,
    /// the connection is ended.
    fn watch(&mut self, wire: &Arc<Wire>, now: Instant, silent: &Trouble) -> Option<Instant> {
        let Some(oldest) = self.outstanding.oldest_sent() else {
            self.asked = None;
            return None;
        };
        let quiet = oldest.max(self.heard);
        let alarm = match self.asked {
            None if quiet + QUIET > now => return Some(quiet + QUIET),
            None => {
                let id = self.own_ids.next();
                wire.write_if_free(&answer::request(&id, "ping", None));
                self.own.push((id, Purpose::Effect));
                self.asked = Some(now);
                now + SIGN_OF_LIFE
            }
            Some(asked) => asked + SIGN_OF_LIFE,
        };
        if alarm <= now {
            self.trouble = Some(silent.clone());
            self.link = Link::Down;
            wire.end();
            return None;
        }
        Some(alarm)
    }

    /// Writes the one line for the log about this outage.
    fn log(&mut self) {
        if let Some(trouble) = self.trouble.as_ref().filter(|_| !self.logged) {
            // Nothing can be done about a stderr that does not take it.
            let _ = writeln!(std::io::stderr(), "cozyvtt-shim: {}", trouble.what());
            self.logged = true;
        }
    }
}

/// The error that answers `entry`, if it is due an answer.
fn failure(entry: &Entry, trouble: &Trouble) -> Option<Vec<u8>> {
    let (id, fate) = match &entry.due {
        Due::Nothing => return None,
        Due::Complaint => (None, Fate::NotSent),
        Due::Answer(id, method) if entry.age().is_some() => (Some(id), Fate::of_sent(*method)),
        Due::Answer(id, _) => (Some(id), Fate::NotSent),
    };
    Some(answer::failure(id, trouble, fate))
}
