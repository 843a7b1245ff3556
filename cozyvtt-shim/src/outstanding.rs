//! The client's messages that are not done with: those that wait for a
//! connection, and those that the daemon has and has not answered.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cozyvtt_proto::MAX_LINE_BYTES;

use crate::message::{Id, Method};

/// Up to this many bytes a request's line is kept until the answer is there, so
/// that it can be sent again. Longer ones are rare, and would cost the memory.
const KEPT: usize = 1024 * 1024;

/// How many times a request is sent at most: one that brings the daemon down must not
/// do so for ever.
const MOST: u8 = 3;

/// Of how many calls that are done with the ids are remembered. Clients that use ids again
/// use few of them.
const REMEMBERED: usize = 64;

/// How many messages wait for a connection at most. Clients have a few under way at once; one
/// that goes on and on without an answer must not fill the memory.
pub(crate) const MOST_WAITING: usize = 512;

/// How many bytes are kept of all messages together: four of the longest ones.
const MOST_KEPT: usize = 4 * MAX_LINE_BYTES;

/// What keeps a message from being kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// So many messages may wait.
    Messages(usize),
    /// So many bytes may be kept.
    Bytes(usize),
}

/// What kind of answer a message is due.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Due {
    /// One under this id.
    Answer(Id, Method),
    /// An error without an id: nobody can read what it is.
    Complaint,
    /// None.
    Nothing,
}

/// A message of the client.
#[derive(Debug)]
pub(crate) struct Entry {
    /// What is due.
    pub(crate) due: Due,
    /// The line, newline included; `None` once it is with the daemon and too long
    /// to be kept.
    line: Option<Arc<[u8]>>,
    /// When the daemon first had it.
    sent: Option<Instant>,
    /// How many times the daemon had it.
    times: u8,
    /// When it is given up, while it waits for a connection.
    deadline: Option<Instant>,
}

impl Entry {
    /// A message that waits, until `deadline` at most.
    pub(crate) fn waiting(due: Due, line: &[u8], deadline: Instant) -> Self {
        Self {
            due,
            line: Some(line.into()),
            sent: None,
            times: 0,
            deadline: Some(deadline),
        }
    }

    /// A message that is just being sent.
    pub(crate) fn sending(due: Due, line: &[u8]) -> Self {
        Self {
            due,
            line: (line.len() <= KEPT).then(|| line.into()),
            sent: None,
            times: 0,
            deadline: None,
        }
    }

    /// Its line, if it is kept.
    pub(crate) fn line(&self) -> Option<&Arc<[u8]>> {
        self.line.as_ref()
    }

    /// How many bytes are kept of it.
    fn weight(&self) -> usize {
        let id = self.request().map_or(0, |(id, _)| id.weight());
        self.line.as_ref().map_or(0, |line| line.len()) + id
    }

    /// Its id and method, if it is a request.
    pub(crate) fn request(&self) -> Option<(&Id, Method)> {
        match &self.due {
            Due::Answer(id, method) => Some((id, *method)),
            Due::Complaint | Due::Nothing => None,
        }
    }

    /// How long ago the daemon first had it, if it ever did.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.sent.map(|sent| sent.elapsed())
    }

    /// When the daemon first had it.
    pub(crate) fn sent_at(&self) -> Option<Instant> {
        self.sent
    }

    /// Whether it could be sent (again), as far as it is known here.
    pub(crate) fn can_be_sent(&self) -> bool {
        self.line.is_some() && self.times < MOST
    }

    /// Until when it waits for a connection.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The daemon has it.
    pub(crate) fn has_been_sent(&mut self) {
        self.sent.get_or_insert_with(Instant::now);
        self.times = self.times.saturating_add(1);
        self.deadline = None;
        if self.line().is_some_and(|line| line.len() > KEPT) {
            self.line = None;
        }
    }

    /// It has to wait, until `deadline` unless it does so already. `line` is the line,
    /// for a message that was not delivered.
    pub(crate) fn has_to_wait(&mut self, deadline: Instant, line: Option<&[u8]>) {
        self.deadline.get_or_insert(deadline);
        if let (None, Some(line)) = (&self.line, line) {
            self.line = Some(line.into());
        }
    }
}

/// Every message that is not done with. Whoever takes one out is the one who
/// answers it, so that none is answered twice.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    /// Those that wait for a connection, oldest first.
    pub(crate) waiting: VecDeque<Entry>,
    /// Those that the daemon has, oldest first.
    sent: Vec<Entry>,
    /// The one whose line is just being written. It belongs to the writer, who
    /// alone will know whether the daemon has had it.
    sending: Option<Entry>,
    /// The ids of the last calls that the daemon had and that are done with, as digests,
    /// since an id may be long. Two that are alike by chance only make the daemon careful.
    used: VecDeque<u64>,
}

impl Outstanding {
    /// Whether any answer is due.
    pub(crate) fn is_due(&self) -> bool {
        self.entries().any(|entry| entry.due != Due::Nothing)
    }

    /// Whether an answer is due to a message that waits for a connection.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|entry| entry.due != Due::Nothing)
    }

    /// Whether a message is just being written.
    pub(crate) fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Whether `line` waits for a connection.
    pub(crate) fn will_say(&self, line: &[u8]) -> bool {
        let mut lines = self.waiting.iter().filter_map(Entry::line);
        lines.any(|own| **own == *line)
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.waiting.iter().chain(&self.sent).chain(&self.sending)
    }

    /// How many bytes are kept.
    fn kept(&self) -> usize {
        self.entries().map(Entry::weight).sum()
    }

    /// Whether there is room for `entry` among those that wait.
    pub(crate) fn has_room(&self, entry: &Entry) -> Result<(), Limit> {
        if self.waiting.len() >= MOST_WAITING {
            Err(Limit::Messages(MOST_WAITING))
        } else if self.kept() + entry.weight() > MOST_KEPT {
            Err(Limit::Bytes(MOST_KEPT))
        } else {
            Ok(())
        }
    }

    /// A message is about to be written. If too much is kept already, it can be written
    /// only once.
    pub(crate) fn begin(&mut self, mut entry: Entry) {
        if self.kept() + entry.weight() > MOST_KEPT {
            entry.line = None;
        }
        self.sending = Some(entry);
    }

    /// Takes out the message that was about to be written; `None` if its answer
    /// came already.
    pub(crate) fn take_sending(&mut self) -> Option<Entry> {
        self.sending.take()
    }

    /// The daemon has `entry`.
    pub(crate) fn sent(&mut self, mut entry: Entry) {
        entry.has_been_sent();
        // What is due no answer is done with.
        if entry.request().is_some() {
            self.sent.push(entry);
        }
    }

    /// Takes the oldest request with this `id` out, of those that the daemon has.
    /// (A careless client may use one id twice; the daemon answers in whatever
    /// order, and it is the number of answers that counts.)
    pub(crate) fn answered(&mut self, id: &Id) -> Option<Entry> {
        let is_it = |entry: &Entry| entry.request().is_some_and(|(own, _)| own == id);
        let entry = match self.sent.iter().position(is_it) {
            Some(at) => self.sent.remove(at),
            None => self.sending.take_if(|entry| is_it(entry))?,
        };
        self.remember(&entry);
        Some(entry)
    }

    /// The call `entry`, which the daemon has had, is done with: whatever the daemon has
    /// noted under its id may be about that one.
    fn remember(&mut self, entry: &Entry) {
        let Some((id, Method::ToolsCall)) = entry.request() else {
            return;
        };
        if self.used.len() == REMEMBERED {
            self.used.pop_front();
        }
        self.used.push_back(digest(id));
    }

    /// `entry` is done with, and nothing more is passed on of it.
    pub(crate) fn given_up(&mut self, entry: &Entry) {
        if entry.sent_at().is_some() {
            self.remember(entry);
        }
    }

    /// Whether `id` was that of a call that is done with.
    pub(crate) fn was_used(&self, id: &Id) -> bool {
        self.used.contains(&digest(id))
    }

    /// Takes the oldest request with this `id` out, of those that wait.
    pub(crate) fn take_waiting(&mut self, id: &Id) -> Option<Entry> {
        let is_it = |entry: &Entry| entry.request().is_some_and(|(own, _)| own == id);
        let at = self.waiting.iter().position(is_it)?;
        let entry = self.waiting.remove(at)?;
        self.given_up(&entry);
        Some(entry)
    }

    /// Takes all out that the daemon has.
    pub(crate) fn take_sent(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.sent)
    }

    /// Takes all out. The one that is just being written may reach the daemon yet.
    pub(crate) fn take_all(&mut self) -> Vec<Entry> {
        let mut all = self.take_sent();
        if let Some(mut entry) = self.take_sending() {
            entry.has_been_sent();
            all.push(entry);
        }
        all.extend(std::mem::take(&mut self.waiting));
        all
    }

    /// Since when the daemon has had a request; the oldest counts.
    pub(crate) fn oldest_sent(&self) -> Option<Instant> {
        self.sent.iter().filter_map(Entry::sent_at).min()
    }

    /// When the next of those that wait is to be given up.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(Entry::deadline).min()
    }

    /// Takes those out that have waited until `now` or longer.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Entry> {
        let expired = |entry: &Entry| entry.deadline.is_some_and(|deadline| deadline <= now);
        let (gone, kept) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(expired);
        self.waiting = kept.into();
        gone
    }
}

/// What stands for `id` where it is only to be compared.
fn digest(id: &Id) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    fn id(json: &str) -> Id {
        match Message::of(format!(r#"{{"id":{json},"result":0}}"#).as_bytes()) {
            Message::Answer { id } => id,
            other => panic!("{other:?}"),
        }
    }

    fn request(json: &str, method: Method) -> Entry {
        Entry::sending(Due::Answer(id(json), method), b"line\n")
    }

    fn send(outstanding: &mut Outstanding, json: &str, method: Method) {
        outstanding.begin(request(json, method));
        let entry = outstanding.take_sending().unwrap();
        outstanding.sent(entry);
    }

    #[test]
    fn a_request_can_be_taken_once() {
        let mut outstanding = Outstanding::default();
        send(&mut outstanding, "1", Method::Other);
        assert!(outstanding.answered(&id("2")).is_none());
        assert!(outstanding.answered(&id("1")).is_some());
        assert!(outstanding.answered(&id("1")).is_none());
        assert!(!outstanding.is_due());
    }

    #[test]
    fn a_number_and_a_string_are_different_ids() {
        let mut outstanding = Outstanding::default();
        send(&mut outstanding, "1", Method::Other);
        send(&mut outstanding, "\"1\"", Method::ToolsCall);
        let taken = outstanding.answered(&id("\"1\"")).unwrap();
        assert_eq!(taken.request().unwrap().1, Method::ToolsCall);
        assert!(outstanding.is_due());
    }

    #[test]
    fn an_id_used_twice_is_due_two_answers() {
        let mut outstanding = Outstanding::default();
        send(&mut outstanding, "1", Method::Other);
        send(&mut outstanding, "1", Method::ToolsCall);
        assert!(outstanding.answered(&id("1")).is_some());
        assert!(outstanding.is_due());
        assert!(outstanding.answered(&id("1")).is_some());
        assert!(!outstanding.is_due());
    }

    #[test]
    fn an_answer_may_be_faster_than_the_end_of_the_write() {
        let mut outstanding = Outstanding::default();
        outstanding.begin(request("1", Method::ToolsCall));
        assert!(outstanding.answered(&id("1")).is_some());
        assert!(outstanding.take_sending().is_none());
        assert!(!outstanding.is_due());
    }

    #[test]
    fn the_id_of_a_call_is_used_once_the_call_is_done_with() {
        let mut outstanding = Outstanding::default();
        send(&mut outstanding, "1", Method::ToolsCall);
        assert!(!outstanding.was_used(&id("1")), "it is this very call's");
        outstanding.answered(&id("1"));
        assert!(outstanding.was_used(&id("1")));
        assert!(!outstanding.was_used(&id("\"1\"")));
        send(&mut outstanding, "2", Method::Other);
        outstanding.answered(&id("2"));
        assert!(!outstanding.was_used(&id("2")), "that one noted nothing");
        for number in 0..REMEMBERED {
            let json = format!("\"{number}\"");
            send(&mut outstanding, &json, Method::ToolsCall);
            outstanding.answered(&id(&json));
        }
        assert_eq!(outstanding.used.len(), REMEMBERED);
        assert!(!outstanding.was_used(&id("1")), "it was too long ago");
    }

    #[test]
    fn the_id_of_a_call_that_was_given_up_is_used_if_the_daemon_had_it() {
        let mut outstanding = Outstanding::default();
        let mut entry = request("1", Method::ToolsCall);
        outstanding.given_up(&entry);
        assert!(!outstanding.was_used(&id("1")));
        entry.has_been_sent();
        entry.has_to_wait(Instant::now(), None);
        outstanding.waiting.push_back(entry);
        outstanding.take_waiting(&id("1"));
        assert!(outstanding.was_used(&id("1")));
    }

    #[test]
    fn no_more_than_so_many_messages_wait() {
        let mut outstanding = Outstanding::default();
        for _ in 0..MOST_WAITING {
            let entry = request("1", Method::Other);
            assert_eq!(outstanding.has_room(&entry), Ok(()));
            outstanding.waiting.push_back(entry);
        }
        let limit = Err(Limit::Messages(MOST_WAITING));
        assert_eq!(outstanding.has_room(&request("1", Method::Other)), limit);
    }

    #[test]
    fn no_more_than_so_many_bytes_are_kept_wherever_they_are() {
        let mut outstanding = Outstanding::default();
        let long = vec![b'x'; KEPT];
        let due = || Due::Answer(id("1"), Method::Other);
        while outstanding.kept() + KEPT <= MOST_KEPT {
            outstanding.begin(Entry::sending(due(), &long));
            let entry = outstanding.take_sending().unwrap();
            assert!(entry.line().is_some());
            outstanding.sent(entry);
        }
        // One that waits is refused, one that can be passed on is so without being kept.
        let waiting = Entry::waiting(due(), &long, Instant::now());
        let limit = Err(Limit::Bytes(MOST_KEPT));
        assert_eq!(outstanding.has_room(&waiting), limit);
        outstanding.begin(Entry::sending(due(), &long));
        let entry = outstanding.take_sending().unwrap();
        assert!(entry.line().is_none());
        assert_eq!(outstanding.has_room(&request("2", Method::Other)), Ok(()));
        outstanding.answered(&id("1")).unwrap();
        assert_eq!(outstanding.has_room(&waiting), Ok(()));
    }

    #[test]
    fn a_request_is_given_up_at_the_deadline_with_which_it_began_to_wait() {
        let start = Instant::now();
        let later = start + Duration::from_secs(5);
        let mut outstanding = Outstanding::default();
        let mut entry = request("1", Method::Other);
        entry.has_to_wait(start, None);
        entry.has_to_wait(later, None);
        outstanding.waiting.push_back(entry);
        outstanding.waiting.push_back(Entry::waiting(
            Due::Answer(id("2"), Method::Other),
            b"",
            later,
        ));
        assert_eq!(outstanding.next_deadline(), Some(start));
        let expired = outstanding.take_expired(start);
        assert_eq!(expired.len(), 1);
        assert_eq!(expired[0].request().unwrap().0, &id("1"));
        assert_eq!(outstanding.next_deadline(), Some(later));
    }

    #[test]
    fn a_request_that_brings_the_daemon_down_is_not_sent_for_ever() {
        let start = Instant::now();
        let mut entry = request("1", Method::Other);
        for _ in 0..MOST {
            assert!(entry.can_be_sent());
            entry.has_to_wait(start, None);
            entry.has_been_sent();
            assert_eq!(entry.deadline(), None, "it does not wait any more");
        }
        assert!(!entry.can_be_sent());
    }

    #[test]
    fn a_long_line_is_kept_only_until_the_daemon_has_it() {
        let long = vec![b'x'; KEPT + 1];
        let due = || Due::Answer(id("1"), Method::Other);
        assert!(Entry::sending(due(), &long).line().is_none());
        let mut entry = Entry::waiting(due(), &long, Instant::now());
        assert!(entry.line().is_some());
        entry.has_been_sent();
        assert!(entry.line().is_none());
        entry.has_to_wait(Instant::now(), Some(&long));
        assert!(entry.line().is_some());
    }
}
