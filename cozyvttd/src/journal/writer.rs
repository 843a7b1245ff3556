//! The writer: one thread that records pass through on their way to the file,
//! or to memory while the file does not take them.
//!
//! What has gathered while it worked is one commit, and many commits are one sync. It
//! sleeps while nothing comes: no timer runs in an idle journal.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::commit::Entry;
use super::durable::Durable;
use super::moves::Moves;
use super::open;
use super::store::Store;
use super::view::View;
use super::{Health, JournalError, Numbers, Trouble, lock, now, numbers};

/// When a commit is brought to the disk. Within 50 ms it has to be there, and disks take
/// some time for it.
const SYNC_AFTER: Duration = Duration::from_millis(25);

/// How long a file that refuses is left in peace.
const RETRY: Duration = Duration::from_secs(1);

/// Most orders that are taken at once, and events in one commit.
const BATCH: usize = 1024;

/// What the writer is to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Take a record; the answer, where one is wanted, tells whether it was.
    Append(Entry, Option<oneshot::Sender<bool>>),
    /// A reader suspects that the file is damaged.
    Examine(oneshot::Sender<()>),
    /// Commit what has come, and leave.
    Close(oneshot::Sender<()>),
}

/// The writer.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: Option<Durable>,
    view: Arc<Mutex<View>>,
    numbers: Arc<Mutex<Numbers>>,
    commits: watch::Sender<Health>,
    moves: Moves,
    /// When what is committed has to be brought to the disk.
    sync_at: Option<Instant>,
    /// When the file is to be tried again.
    retry_at: Option<Instant>,
}

impl Writer {
    pub(super) fn new(
        path: PathBuf,
        file: Option<Durable>,
        view: Arc<Mutex<View>>,
        numbers: Arc<Mutex<Numbers>>,
        commits: watch::Sender<Health>,
    ) -> Self {
        let trouble = commits.borrow().trouble.clone();
        Self {
            path,
            file,
            view,
            numbers,
            commits,
            moves: Moves::default(),
            sync_at: None,
            retry_at: trouble.and_then(|trouble| next_try(&trouble)),
        }
    }

    /// Works until the journal is closed, or nobody can append to it any more.
    pub(super) fn run(mut self, runtime: &Runtime, mut orders: mpsc::Receiver<Order>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let wake = self.wake();
            let received = runtime.block_on(async {
                let orders = orders.recv_many(&mut batch, BATCH);
                match wake {
                    Some(at) => timeout(at.saturating_duration_since(Instant::now()), orders)
                        .await
                        .ok(),
                    None => Some(orders.await),
                }
            });
            let closing = self.carry_out(&mut batch);
            if received == Some(0) || closing.is_some() {
                self.finish(&mut orders);
                if let Some(done) = closing {
                    let _ = done.send(());
                }
                return;
            }
            self.upkeep();
        }
    }

    /// When something is due though no order comes.
    fn wake(&self) -> Option<Instant> {
        [self.sync_at, self.retry_at].into_iter().flatten().min()
    }

    /// Carries orders out; gives whom to tell when it has ended, if it is to end.
    fn carry_out(&mut self, orders: &mut Vec<Order>) -> Option<oneshot::Sender<()>> {
        let (mut entries, mut answers) = (Vec::new(), Vec::new());
        let (mut doubters, mut closing) = (Vec::new(), None);
        for order in orders.drain(..) {
            match order {
                Order::Append(entry, answer) => {
                    entries.push(entry);
                    answers.push(answer);
                }
                Order::Examine(doubter) => doubters.push(doubter),
                Order::Close(done) => closing = Some(done),
            }
        }
        if let Some(last) = entries.last() {
            let (newest, ts) = (last.record.seq, last.record.ts);
            let taken = self.commit(&entries);
            self.moves.forget(ts);
            self.commits
                .send_modify(|health| health.high_water = newest);
            for (answer, taken) in answers.into_iter().zip(taken) {
                if let Some(answer) = answer {
                    let _ = answer.send(taken);
                }
            }
        }
        if !doubters.is_empty() {
            self.examine();
            for doubter in doubters {
                let _ = doubter.send(());
            }
        }
        closing
    }

    /// Commits to the file, else to memory; tells of each whether it was taken.
    fn commit(&mut self, entries: &[Entry]) -> Vec<bool> {
        if !self.is_in_memory() {
            match self.commit_to_file(entries) {
                Ok(taken) => {
                    self.sync_at
                        .get_or_insert_with(|| Instant::now() + SYNC_AFTER);
                    return taken;
                }
                Err(error) => self.fall_back(&error),
            }
        }
        let mut view = lock(&self.view);
        let Some(memory) = &mut view.memory else {
            return vec![false; entries.len()];
        };
        memory
            .append(entries, &mut self.moves, now())
            .unwrap_or_else(|error| {
                tracing::error!(%error, events = entries.len(), "events were lost: not even memory takes them");
                vec![false; entries.len()]
            })
    }

    fn commit_to_file(&mut self, entries: &[Entry]) -> Result<Vec<bool>, JournalError> {
        match self.append_to_file(entries) {
            Err(damage) if damage.is_damage() => {
                self.begin_anew(&damage)?;
                self.append_to_file(entries)
            }
            outcome => outcome,
        }
    }

    fn append_to_file(&mut self, entries: &[Entry]) -> Result<Vec<bool>, JournalError> {
        let file = self.file.as_mut().ok_or(JournalError::Closed)?;
        file.store
            .append(entries, &mut self.moves, now())
            .map_err(|source| JournalError::sqlite(&self.path, source))
    }

    /// What is due.
    fn upkeep(&mut self) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
        if due(self.retry_at) {
            self.restore();
        }
        if due(self.sync_at) {
            self.sync();
        }
        self.reserve();
    }

    /// Brings what is committed to the disk.
    fn sync(&mut self) {
        self.sync_at = None;
        match self.file.as_ref().map(Durable::sync) {
            Some(Err(error)) => {
                // It is committed, and the system may still write it.
                self.sync_at = Some(Instant::now() + RETRY);
                self.report(Some(Trouble::of(&error)));
            }
            Some(Ok(())) if !self.is_in_memory() => self.report(None),
            _ => {}
        }
    }

    /// Reserves numbers when few are left.
    fn reserve(&mut self) {
        loop {
            let wanted = lock(&self.numbers).wanted();
            let Some(mark) = wanted else { return };
            let in_memory = self.is_in_memory();
            if in_memory && !lock(&self.numbers).are_reserved() {
                return;
            }
            let reserved = match self.file.as_mut().filter(|_| !in_memory) {
                Some(file) => file
                    .reserve(mark)
                    .map(|()| self.sync_at = None)
                    .map_err(|error| self.fall_back(&error))
                    .is_ok(),
                None => false,
            };
            if reserved {
                lock(&self.numbers).reserved(mark);
            } else {
                lock(&self.numbers).unreserved(numbers::from_clock());
            }
            // Whoever waits for a number looks again.
            self.commits.send_modify(|_| {});
            if !reserved {
                return;
            }
        }
    }

    fn is_in_memory(&self) -> bool {
        lock(&self.view).memory.is_some()
    }

    /// Holds records in memory from here on.
    fn fall_back(&mut self, error: &JournalError) {
        let mut view = lock(&self.view);
        if view.memory.is_none() {
            tracing::error!(%error, "events are held in memory");
            view.memory = Store::in_memory()
                .inspect_err(|error| tracing::error!(%error, "not even memory can be used"))
                .ok();
        }
        drop(view);
        let trouble = Trouble::of(error);
        self.retry_at = next_try(&trouble);
        self.report(Some(trouble));
    }

    /// Gives the file what memory holds, if it takes it.
    fn restore(&mut self) {
        self.retry_at = None;
        if self.file.is_none() && !self.reopen() {
            return;
        }
        let newest = lock(&self.numbers).newest();
        let mut view = lock(&self.view);
        let (Some(file), Some(memory)) = (&mut self.file, &view.memory) else {
            return;
        };
        let held = memory.count().unwrap_or_default();
        // Readers wait, so that they see every record in one place.
        let outcome = file.take_over(memory, newest);
        if outcome.is_ok() {
            view.memory = None;
        }
        drop(view);
        match outcome {
            Ok(()) => {
                tracing::info!(events = held, "the journal is written again");
                self.report(None);
                self.sync();
                self.reserve();
            }
            Err(error) => self.fall_back(&error),
        }
    }

    /// Tries a file again that could not be opened; tells whether it is open now.
    fn reopen(&mut self) -> bool {
        let mut view = lock(&self.view);
        // Two connections of one process must not meet a look at the file's bytes.
        view.file = None;
        let opened = match open::open(&self.path) {
            Ok(opened) => opened,
            Err(error) => {
                drop(view);
                self.fall_back(&error);
                return false;
            }
        };
        view.file = opened.view.file;
        drop(view);
        if let Some(remark) = opened.remark {
            self.commits
                .send_modify(|health| health.remark = Some(remark));
        }
        if let Some(trouble) = opened.trouble {
            self.retry_at = next_try(&trouble);
            self.report(Some(trouble));
            return false;
        }
        if opened.numbers.newest() > lock(&self.numbers).newest() {
            let error = JournalError::Ahead {
                path: self.path.clone(),
            };
            self.fall_back(&error);
            return false;
        }
        self.file = opened.file;
        self.file.is_some()
    }

    /// Looks whether the file is damaged, and begins a new one then.
    fn examine(&mut self) {
        let Some(file) = &self.file else { return };
        let damage = match file.store.damage() {
            Ok(None) => return,
            Ok(Some(what)) => JournalError::Damaged {
                path: self.path.clone(),
                what,
            },
            Err(source) => JournalError::sqlite(&self.path, source),
        };
        if damage.is_damage()
            && let Err(error) = self.begin_anew(&damage)
        {
            self.fall_back(&error);
        }
    }

    /// Sets the file aside and goes on in a new one.
    fn begin_anew(&mut self, damage: &JournalError) -> Result<(), JournalError> {
        let given = lock(&self.numbers).newest();
        self.file = None;
        let mut view = lock(&self.view);
        view.file = None;
        let opened = open::begin_anew(&self.path, damage, Some(given))?;
        view.file = opened.view.file;
        if view.memory.is_none() {
            view.memory = opened.view.memory;
        }
        drop(view);
        self.file = opened.file;
        self.retry_at = opened.trouble.as_ref().and_then(next_try);
        self.commits.send_modify(|health| {
            health.remark = opened.remark;
            health.trouble = opened.trouble;
        });
        self.reserve();
        Ok(())
    }

    fn report(&self, trouble: Option<Trouble>) {
        self.commits.send_if_modified(|health| {
            let news = health.trouble != trouble;
            health.trouble = trouble;
            news
        });
    }

    /// Commits what was given a number, and closes the file in order.
    fn finish(&mut self, orders: &mut mpsc::Receiver<Order>) {
        orders.close();
        // Whatever has a number is in the queue, since both are one step.
        let newest = lock(&self.numbers).close();
        let mut rest = Vec::new();
        while let Ok(order) = orders.try_recv() {
            rest.push(order);
        }
        let closing = self.carry_out(&mut rest);
        if self.is_in_memory() {
            self.restore();
        }
        let held = lock(&self.view).memory.as_ref().map(Store::count);
        if let Some(Ok(events @ 1..)) = held {
            tracing::error!(events, "events are lost: the journal's file takes none");
        }
        // Readers first: whoever leaves a file last tidies up beside it, if he may write.
        *lock(&self.view) = View::default();
        if let Some(Err(error)) = self.file.take().map(|file| file.close(newest)) {
            tracing::error!(%error, "the journal could not be closed in order");
        }
        if let Some(done) = closing {
            let _ = done.send(());
        }
    }
}

/// When a file is tried again that is in this trouble.
fn next_try(trouble: &Trouble) -> Option<Instant> {
    (!trouble.lasts).then(|| Instant::now() + RETRY)
}

#[cfg(test)]
mod tests {
    use cozyvtt_proto::event::EventRecord;
    use serde_json::Value;

    use super::*;

    /// A writer that works when it is told to.
    fn writer(path: &std::path::Path) -> Writer {
        let opened = open::open(path).unwrap();
        let (commits, _) = watch::channel(Health {
            high_water: opened.numbers.newest(),
            trouble: opened.trouble,
            remark: opened.remark,
        });
        Writer::new(
            path.into(),
            opened.file,
            Arc::new(Mutex::new(opened.view)),
            Arc::new(Mutex::new(opened.numbers)),
            commits,
        )
    }

    fn append(writer: &mut Writer) -> u64 {
        let seq = lock(&writer.numbers).give().unwrap();
        let record = EventRecord {
            seq,
            ts: now(),
            event: "x".to_owned(),
            payload: Value::Null,
            generation: 1,
        };
        let entry = Entry {
            payload: record.payload.to_string(),
            record,
            origin: None,
            recovered: false,
        };
        writer.carry_out(&mut vec![Order::Append(entry, None)]);
        seq
    }

    #[test]
    fn a_commit_is_synced_within_50_ms_together_with_those_after_it_and_then_nothing_wakes() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(&dir.path().join("journal.sqlite"));
        writer.upkeep();
        assert_eq!(writer.wake(), None, "idle");
        let begun = Instant::now();
        append(&mut writer);
        let due = writer.wake().unwrap();
        assert!(due <= begun + Duration::from_millis(50) + begun.elapsed());
        append(&mut writer);
        assert_eq!(writer.wake(), Some(due), "the first one counts");
        writer.sync_at = Some(Instant::now());
        writer.upkeep();
        assert_eq!(writer.wake(), None, "idle again");
    }

    #[test]
    fn a_file_that_refuses_is_tried_again_and_a_newer_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        std::fs::create_dir(&path).unwrap();
        let mut locked_out = writer(&path);
        assert!(locked_out.wake().is_some());
        locked_out.retry_at = Some(Instant::now());
        locked_out.upkeep();
        assert!(locked_out.wake().is_some() && locked_out.is_in_memory());
        std::fs::remove_dir(&path).unwrap();
        locked_out.retry_at = Some(Instant::now());
        locked_out.upkeep();
        assert!(!locked_out.is_in_memory());
        assert_eq!(locked_out.commits.borrow().trouble, None);
        drop(locked_out);

        let newer = rusqlite::Connection::open(&path).unwrap();
        newer.pragma_update(None, "user_version", 99).unwrap();
        drop(newer);
        assert_eq!(writer(&path).wake(), None);
    }

    #[test]
    fn a_file_from_beyond_the_clock_is_not_mixed_with_what_memory_holds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        std::fs::create_dir(&path).unwrap();
        let mut locked_out = writer(&path);
        append(&mut locked_out);
        std::fs::remove_dir(&path).unwrap();
        let beyond = numbers::from_clock() + 1_000_000_000;
        drop(Durable::open(&path, beyond).unwrap());
        locked_out.retry_at = Some(Instant::now());
        locked_out.upkeep();
        assert!(locked_out.is_in_memory());
        let trouble = locked_out.commits.borrow().trouble.clone().unwrap();
        assert!(
            trouble.lasts && trouble.fix.contains("clock"),
            "{trouble:?}"
        );
    }

    #[test]
    fn a_file_that_is_damaged_while_it_is_in_use_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        let mut writer = writer(&path);
        let before = append(&mut writer);
        // What SQLite keeps beside the file goes first, as a careless tool would do it.
        let file = writer.file.as_ref().unwrap();
        file.store.spoil();
        writer.carry_out(&mut vec![Order::Examine(oneshot::channel().0)]);
        assert!(!writer.is_in_memory());
        let health = writer.commits.borrow().clone();
        assert_eq!(health.trouble, None);
        assert!(health.remark.unwrap().contains(".corrupt-"));
        let after = append(&mut writer);
        assert!(after > before);
        let view = lock(&writer.view);
        let kept: Vec<_> = view.after(0, 10).unwrap();
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].seq, after);
        assert!(!view.evicted(before - 1).unwrap().is_empty());
    }
}
