//! The durable journal of a campaign's events.
//!
//! Appending numbers an event and hands it to the writer, a thread of its own that
//! commits whatever has gathered in one transaction. Readers see only what is
//! committed. One SQLite file holds the journal of one campaign.
//!
//! What a reader has seen survives the daemon's death, whatever kills it. A power cut
//! takes the commits of the last 50 ms at most; numbers are never given twice all the
//! same, and what the cut took is not counted as evicted, since nobody can know it: the
//! hole that it lies in is that of the outage. While the file cannot be written,
//! records are held in memory, readable like the others, and the file takes them as
//! soon as it can.

mod commit;
mod cursor;
mod durable;
mod error;
pub mod ledger;
mod moves;
mod numbers;
mod open;
mod retention;
mod schema;
mod store;
mod view;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use cozyvtt_proto::control::EventPage;
use cozyvtt_proto::event::EventRecord;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use commit::Entry;
pub use cursor::PageError;
pub use error::{JournalError, Trouble};
use numbers::Numbers;
use view::View;
use writer::{Order, Writer};

use crate::lock::lock;
use crate::time::seconds;

/// How many appended events may wait for the writer. A writer that falls this
/// far behind (a disk that hangs) slows the link down instead of filling the memory.
const QUEUE: usize = 4096;

/// How long a reader waits for what was appended before it asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// An event that has no number yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// What came with it; `null` when nothing did.
    pub payload: Value,
    /// Which connection of the link brought it.
    pub generation: u64,
}

impl Event {
    /// An event of `generation`.
    pub fn new(name: impl Into<String>, payload: Value, generation: u64) -> Self {
        Self {
            name: name.into(),
            payload,
            generation,
        }
    }

    /// What tells it from every other event, if the server has given it an id.
    fn origin(&self) -> Option<String> {
        match self.name.as_str() {
            "chat.message" | "dice.rolled" | "dice.rolled.secret" => {
                self.payload["id"].as_str().map(|id| origin(&self.name, id))
            }
            _ => None,
        }
    }
}

/// A roll is the same one whether it is told openly or to the DM alone, so that only
/// the family of the event's name counts.
fn origin(name: &str, id: &str) -> String {
    let family = name.split('.').next().unwrap_or(name);
    format!("{family}:{id}")
}

/// What the journal holds now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The newest number committed; 0 when there was no event ever.
    pub high_water: u64,
    /// Why new records are not durable, while that is so.
    pub trouble: Option<Trouble>,
    /// What a person is to know besides: where a damaged file was put.
    pub remark: Option<String>,
}

/// The journal of one campaign. Clones share it.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Numbering and queueing are one step under this lock, so that the order of the
    /// numbers is the order in the queue.
    numbers: Arc<Mutex<Numbers>>,
    queue: mpsc::Sender<Order>,
    committed: watch::Receiver<Health>,
    view: Arc<Mutex<View>>,
}

impl Journal {
    /// Opens the journal in `path`, making it when it is not there. A damaged file is
    /// set aside and a new one begun. A file that cannot be used otherwise is left
    /// alone: the journal is in memory then, and says so ([`Self::health`]).
    ///
    /// # Errors
    ///
    /// [`JournalError`] when there is no memory or no thread for it.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let opened = open::open(path)?;
        if let Some(trouble) = &opened.trouble {
            tracing::error!(
                what = trouble.what,
                fix = trouble.fix,
                "events are held in memory"
            );
        }
        let (queue, orders) = mpsc::channel(QUEUE);
        let (commits, committed) = watch::channel(Health {
            high_water: opened.numbers.newest(),
            trouble: opened.trouble,
            remark: opened.remark,
        });
        let view = Arc::new(Mutex::new(opened.view));
        let numbers = Arc::new(Mutex::new(opened.numbers));
        let writer = Writer::new(
            path.into(),
            opened.file,
            Arc::clone(&view),
            Arc::clone(&numbers),
            commits,
        );
        // It has a runtime of its own: it outlives the one that it was made in, and its
        // time is that of the disk.
        std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                match tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .build()
                {
                    Ok(runtime) => writer.run(&runtime, orders),
                    Err(error) => tracing::error!(%error, "the journal's thread cannot work"),
                }
            })
            .map_err(JournalError::Thread)?;
        Ok(Self(Arc::new(Inner {
            path: path.into(),
            numbers,
            queue,
            committed,
            view,
        })))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Numbers an event and queues it for the writer; gives its number.
    ///
    /// # Errors
    ///
    /// [`JournalError::Closed`] once the writer has gone.
    pub async fn append(&self, event: Event) -> Result<u64, JournalError> {
        let origin = event.origin();
        self.enqueue(event, now(), origin, None).await
    }

    /// Appends what was read again after an outage, unless the journal has it: heard
    /// live, or recovered before. `happened` is when it was, in seconds since 1970, and
    /// `id` the server's id of the chat line or the roll; two names of one family
    /// (`dice.rolled`, `dice.rolled.secret`) share their ids. Gives its number once it is
    /// committed, and `None` when it is known, or older than anything of its kind that is
    /// kept. Heard live a moment later, it is not taken once more.
    ///
    /// # Errors
    ///
    /// [`JournalError`] when the journal cannot be read or the writer has gone.
    pub async fn append_unless_known(
        &self,
        event: Event,
        happened: f64,
        id: &str,
    ) -> Result<Option<u64>, JournalError> {
        let origin = origin(&event.name, id);
        // What was appended before is committed first, or it would not be found.
        self.committed(self.high_water()).await?;
        // A look first, so that what is known costs no number.
        let sought = origin.clone();
        if self.read(move |view| view.knows(&sought)).await? {
            return Ok(None);
        }
        let (answer, taken) = oneshot::channel();
        let seq = self
            .enqueue(event, happened, Some(origin), Some(answer))
            .await?;
        let taken = taken.await.map_err(|_| JournalError::Closed)?;
        Ok(taken.then_some(seq))
    }

    async fn enqueue(
        &self,
        event: Event,
        ts: f64,
        origin: Option<String>,
        answer: Option<oneshot::Sender<bool>>,
    ) -> Result<u64, JournalError> {
        // The room first: nobody waits for it with the lock in hand.
        let room = self
            .0
            .queue
            .reserve()
            .await
            .map_err(|_| JournalError::Closed)?;
        // Here and not in the writer, which has everybody's events to write.
        let payload = event.payload.to_string();
        let mut commits = self.0.committed.clone();
        loop {
            commits.mark_unchanged();
            {
                let mut numbers = lock(&self.0.numbers);
                if let Some(seq) = numbers.give() {
                    let record = EventRecord {
                        seq,
                        ts,
                        event: event.name,
                        payload: event.payload,
                        generation: event.generation,
                    };
                    let recovered = answer.is_some();
                    let entry = Entry {
                        record,
                        payload,
                        origin,
                        recovered,
                    };
                    room.send(Order::Append(entry, answer));
                    return Ok(seq);
                }
            }
            // The writer is reserving numbers.
            commits.changed().await.map_err(|_| JournalError::Closed)?;
        }
    }

    /// The newest number handed out. Whatever is appended after this call has a
    /// larger one.
    pub fn high_water(&self) -> u64 {
        lock(&self.0.numbers).newest()
    }

    /// What is committed, and how durably.
    pub fn health(&self) -> Health {
        self.0.committed.borrow().clone()
    }

    /// A page of the records after `since`: what was appended before this call
    /// is committed first, so that a reader never misses what it was told of.
    ///
    /// # Errors
    ///
    /// [`PageError`] for bounds outside of the allowed ones or when SQLite refuses.
    pub async fn page(&self, since: u64, limit: u32) -> Result<EventPage, PageError> {
        cursor::check(limit)?;
        let appended = self.high_water();
        let committed = timeout(PATIENCE, self.committed(appended)).await;
        if committed.is_err() {
            // A page of what there is, unless the reader has seen more than that.
            let health = self.health();
            if since > health.high_water {
                let why = health.trouble.map(|trouble| trouble.what);
                return Err(PageError::Journal(JournalError::Stuck(
                    why.unwrap_or_else(|| "it is busy".to_owned()),
                )));
            }
        }
        let mut page = self
            .read(move |view| cursor::read(view, since, limit, appended))
            .await?;
        if let Some(trouble) = self.health().trouble {
            page.durable = false;
            page.note = Some(trouble.note());
        }
        Ok(page)
    }

    /// Waits for a record after `at` and reads on: gives what came, at most 500 records,
    /// and where to go on. It may be nothing, when what came was replaced or is known.
    ///
    /// # Errors
    ///
    /// [`PageError`] when SQLite refuses or the writer has gone.
    pub async fn onward(&self, at: u64) -> Result<(Vec<EventRecord>, u64), PageError> {
        self.beyond(at).await?;
        let committed = self.health().high_water;
        let page = self.page(at, 500).await?;
        // The newest numbers may have no record: to wait for one after them, not for
        // them, or this would go round and round.
        let next = if page.has_more {
            page.next_seq
        } else {
            page.next_seq.max(committed)
        };
        Ok((page.events, next))
    }

    /// The newest record named `name`, if it is kept.
    ///
    /// # Errors
    ///
    /// [`JournalError`] when SQLite refuses.
    pub async fn latest(&self, name: &str) -> Result<Option<EventRecord>, JournalError> {
        let name = name.to_owned();
        self.read(move |view| view.latest(&name)).await
    }

    /// The newest record that is kept up to the number `seq`, which need not have one
    /// itself: after a crash the newest number handed out has none.
    ///
    /// # Errors
    ///
    /// [`JournalError`] when SQLite refuses.
    pub async fn last_until(&self, seq: u64) -> Result<Option<EventRecord>, JournalError> {
        self.read(move |view| view.last_until(seq)).await
    }

    /// The first record after `since` that `wanted` accepts, waiting for it for
    /// `patience` at most.
    pub async fn find(
        &self,
        since: u64,
        patience: Duration,
        wanted: impl Fn(&EventRecord) -> bool + Sync,
    ) -> Option<EventRecord> {
        let search = async {
            let mut at = since;
            loop {
                let (records, next) = self.onward(at).await.ok()?;
                at = next;
                if let Some(found) = records.into_iter().find(&wanted) {
                    return Some(found);
                }
            }
        };
        timeout(patience, search).await.ok().flatten()
    }

    /// Waits until a record after `seq` is committed.
    ///
    /// # Errors
    ///
    /// [`JournalError::Closed`] once the writer has gone.
    pub async fn beyond(&self, seq: u64) -> Result<(), JournalError> {
        self.committed(seq.saturating_add(1)).await
    }

    /// Waits until the record `seq` is committed.
    ///
    /// # Errors
    ///
    /// [`JournalError::Closed`] once the writer has gone.
    pub async fn committed(&self, seq: u64) -> Result<(), JournalError> {
        self.0
            .committed
            .clone()
            .wait_for(|health| health.high_water >= seq)
            .await
            .map(drop)
            .map_err(|_| JournalError::Closed)
    }

    /// Commits what was appended and closes the file in order: the next run goes on
    /// with the next number. Nothing is taken or read any more.
    ///
    /// # Errors
    ///
    /// [`JournalError::Closed`] when it was closed before.
    pub async fn close(&self) -> Result<(), JournalError> {
        self.ask(Order::Close).await
    }

    async fn ask(
        &self,
        order: impl FnOnce(oneshot::Sender<()>) -> Order,
    ) -> Result<(), JournalError> {
        let (done, answer) = oneshot::channel();
        let sent = self.0.queue.send(order(done)).await;
        sent.map_err(|_| JournalError::Closed)?;
        answer.await.map_err(|_| JournalError::Closed)
    }

    /// Reads; where the file turns out to be damaged, once more from the one that is
    /// begun in its place.
    async fn read<T: Send + 'static>(
        &self,
        look: impl Fn(&View) -> rusqlite::Result<T> + Send + Sync + 'static,
    ) -> Result<T, JournalError> {
        let look = Arc::new(look);
        match self.look(Arc::clone(&look)).await {
            Err(error) if error.is_damage() => {
                self.ask(Order::Examine).await?;
                self.look(look).await
            }
            outcome => outcome,
        }
    }

    async fn look<T: Send + 'static>(
        &self,
        look: Arc<impl Fn(&View) -> rusqlite::Result<T> + Send + Sync + 'static>,
    ) -> Result<T, JournalError> {
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || {
            let view = lock(&inner.view);
            // A journal that closes has nothing to look at any more, which is not to be
            // mistaken for an empty one.
            if inner.queue.is_closed() {
                return Err(JournalError::Closed);
            }
            look(&view).map_err(|source| JournalError::sqlite(&inner.path, source))
        })
        .await
        .unwrap_or(Err(JournalError::Closed))
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    seconds(SystemTime::now())
}

#[cfg(test)]
mod tests;
