//! The campaigns that the daemon sits in: the main one, of the configuration or of a
//! client's offer, and others of the same account for as long as clients want them.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cozyvtt_proto::hello::Offered;
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::audit::Audit;
use crate::config::{BaseUrl, Config, Origin, Settings, where_it_sits};
use crate::idle::idle_for;
use crate::journal::Journal;
use crate::journal::ledger::Ledger;
use crate::lock::lock;
use crate::session::account::Account;
use crate::session::ids::ResourceId;
use crate::session::{ClientError, Ground, Session};
use crate::time::seconds;
use crate::tools::files::{Files, ReadFolders};
use crate::writes;

/// How long another campaign than the main one stays after its last client.
pub const LINGER: Duration = Duration::from_secs(10 * 60);

/// How many there may be besides the main one: each is a connection that the table sees.
pub const MOST_OTHERS: usize = 8;

/// How long a link may take to say goodbye, and a journal to commit.
const FAREWELL: Duration = Duration::from_secs(5);

/// Why the daemon does not sit in a campaign.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// Which hop it is: `configuration`, `journal` or `rest`.
    pub hop: &'static str,
    /// What is wrong.
    pub what: String,
    /// What mends it.
    pub fix: String,
}

/// A campaign that the daemon sits in.
#[derive(Debug)]
pub struct Campaign {
    /// The session in it.
    pub session: Arc<Session>,
    /// The ledger of the writes to it.
    pub ledger: Ledger,
    /// Which files may be read, and where its documents go.
    pub files: Arc<Files>,
    /// The link's worker, until somebody waits for its end.
    worker: Mutex<Option<JoinHandle<()>>>,
    /// How many clients sit in it, where that decides how long it stays.
    visitors: watch::Sender<usize>,
}

impl Campaign {
    /// How many clients sit in it; of the main one nobody counts them.
    pub fn visitors(&self) -> usize {
        *self.visitors.borrow()
    }

    /// Begins nothing new, ends the link and closes the journal.
    async fn leave(&self) {
        self.session.account().drain();
        self.close().await;
    }

    /// Ends the link and closes the journal.
    async fn close(&self) {
        self.session.stop();
        let worker = lock(&self.worker).take();
        if let Some(worker) = worker
            && timeout(FAREWELL, worker).await.is_err()
        {
            tracing::warn!("the link did not say goodbye in time");
        }
        let closed = timeout(FAREWELL, self.session.journal.close());
        if !matches!(closed.await, Ok(Ok(()))) {
            tracing::error!("the newest events could not be committed");
        }
    }
}

/// A campaign for as long as somebody wants it.
#[derive(Debug)]
pub struct Visit(Arc<Campaign>);

impl Visit {
    fn begin(campaign: &Arc<Campaign>) -> Self {
        campaign.visitors.send_modify(|visitors| *visitors += 1);
        Self(Arc::clone(campaign))
    }

    /// The campaign, to hold for longer than the visit.
    pub fn campaign(&self) -> &Arc<Campaign> {
        &self.0
    }
}

impl Deref for Visit {
    type Target = Campaign;

    fn deref(&self) -> &Campaign {
        &self.0
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.visitors.send_modify(|visitors| *visitors -= 1);
    }
}

/// All of them. Clones share them.
#[derive(Debug, Clone)]
pub struct Campaigns(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The run of the daemon, which the ledgers name.
    instance: String,
    ground: Ground,
    config: Mutex<Arc<Config>>,
    /// Of the configuration; all campaigns share them.
    read_folders: ReadFolders,
    audit: Audit,
    main: Mutex<Result<Arc<Campaign>, Trouble>>,
    /// By their ids.
    others: Mutex<BTreeMap<String, Arc<Campaign>>>,
    /// Held by whoever opens one: a journal is open once.
    opening: tokio::sync::Mutex<()>,
    /// Those that are being closed, by their ids; told by the sender's end.
    closing: Mutex<BTreeMap<String, watch::Receiver<()>>>,
}

impl Campaigns {
    /// Sits down in the configured campaign, if one is configured.
    pub fn open(config: Config, ground: Ground, instance: &str, audit: Audit) -> Self {
        let config = Arc::new(config);
        let inner = Inner {
            instance: instance.to_owned(),
            main: Mutex::new(Err(Trouble {
                hop: "configuration",
                what: "nothing is configured".to_owned(),
                fix: String::new(),
            })),
            others: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            closing: Mutex::default(),
            read_folders: ReadFolders::new(config.read_folders.clone()),
            config: Mutex::new(Arc::clone(&config)),
            ground,
            audit,
        };
        let main = match &config.settings {
            Ok(settings) => inner.begin(settings.clone()),
            Err(problem) => Err(Trouble {
                hop: "configuration",
                fix: if config.takes_offers() {
                    "mend the configuration, then run: cozyvttctl reload; or let a client bring COZYVTT_URL, \
                     COZYVTT_EMAIL, COZYVTT_PASSWORD and COZYVTT_CAMPAIGN_ID along in its environment"
                        .to_owned()
                } else {
                    "mend the configuration, then run: cozyvttctl reload (where you change variables, restart cozyvttd)"
                        .to_owned()
                },
                what: problem.to_string(),
            }),
        };
        if let Err(trouble) = &main {
            tracing::error!(hop = trouble.hop, what = trouble.what, "no session");
        }
        *lock(&inner.main) = main;
        Self(Arc::new(inner))
    }

    /// The configuration.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&lock(&self.0.config))
    }

    /// Follows another configuration of the same table from now on.
    pub(crate) fn follow(&self, config: Config) {
        self.0.read_folders.replace(config.read_folders.clone());
        *lock(&self.0.config) = Arc::new(config);
    }

    /// The main one, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Trouble`].
    pub fn main(&self) -> Result<Arc<Campaign>, Trouble> {
        lock(&self.0.main).clone()
    }

    /// The others, by their ids.
    pub fn others(&self) -> Vec<Arc<Campaign>> {
        lock(&self.0.others).values().cloned().collect()
    }

    /// All of them, the main one first.
    pub fn all(&self) -> Vec<Arc<Campaign>> {
        self.main().into_iter().chain(self.others()).collect()
    }

    /// Takes a client's settings where there are none; they are kept in memory. They also
    /// take the place of a client's earlier ones whose password was rejected.
    ///
    /// # Errors
    ///
    /// A sentence when they are no usable ones.
    pub async fn take(&self, offered: &Offered) -> Result<(), String> {
        if !self.wants(offered) {
            return Ok(());
        }
        let (this, offered) = (self.clone(), offered.clone());
        // Whoever has asked may leave before it is done.
        let taken = tokio::spawn(async move { this.take_now(&offered).await });
        taken.await.map_err(|error| error.to_string())?
    }

    /// Whether a client's settings would be taken.
    fn wants(&self, offered: &Offered) -> bool {
        let Ok(main) = self.main() else {
            // Else it stays as it is, and every answer says what to mend.
            return self.config().takes_offers();
        };
        let account = main.session.account();
        let settings = account.settings();
        settings.origin == Origin::Offered
            && account.login().is_blocked()
            && settings.unlike(&where_it_sits(offered)).is_none()
            && !settings.password.is(offered.password.expose())
    }

    async fn take_now(&self, offered: &Offered) -> Result<(), String> {
        let _opening = self.0.opening.lock().await;
        if !self.wants(offered) {
            return Ok(());
        }
        let settings = self.config().taking(offered);
        let settings = settings.map_err(|problem| problem.to_string())?;
        tracing::info!(url = %settings.url, "taking the settings that a client offers");
        // Those with the rejected password, if any.
        let before = self.all();
        lock(&self.0.others).clear();
        join_all(before.iter().map(|campaign| campaign.leave())).await;
        let inner = Arc::clone(&self.0);
        let main = spawn_blocking(move || inner.begin(settings)).await;
        let main = main.map_err(|error| error.to_string())?;
        let outcome = main.as_ref().map(drop).map_err(ToString::to_string);
        *lock(&self.0.main) = main;
        outcome
    }

    /// Sits in another campaign of the main one's account for as long as the visit lasts,
    /// and ten minutes more.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub async fn join(&self, id: &str) -> Result<Visit, String> {
        let main = self.main().map_err(|trouble| trouble.to_string())?;
        if id == main.session.campaign() {
            return Ok(Visit::begin(&main));
        }
        if let Some(campaign) = lock(&self.0.others).get(id) {
            return Ok(Visit::begin(campaign));
        }
        let (this, id) = (self.clone(), id.to_owned());
        // Whoever has asked may leave before it is done; nobody would close it then.
        let joined = tokio::spawn(async move { this.join_now(&main, &id).await });
        joined.await.map_err(|error| error.to_string())?
    }

    async fn join_now(&self, main: &Campaign, id: &str) -> Result<Visit, String> {
        let _opening = self.0.opening.lock().await;
        // One journal is open once: who has just left it has to have closed it.
        let closing = lock(&self.0.closing).get(id).cloned();
        if let Some(mut closing) = closing {
            // The sender goes when it is closed.
            while closing.changed().await.is_ok() {}
        }
        {
            let others = lock(&self.0.others);
            if let Some(campaign) = others.get(id) {
                return Ok(Visit::begin(campaign));
            }
            if others.len() >= MOST_OTHERS {
                return Err(format!(
                    "cozyvttd sits in {MOST_OTHERS} campaigns besides its own already, which is its \
                     limit; one is left ten minutes after its last client"
                ));
            }
        }
        let id = ResourceId::parse(id)
            .map_err(|_| format!("{id:?} is no campaign id: it is the last part of its address"))?;
        let account = Arc::clone(main.session.account());
        let settings = Settings {
            campaign: id,
            ..account.settings().clone()
        };
        let inner = Arc::clone(&self.0);
        let opened = spawn_blocking(move || inner.sit(&account, settings)).await;
        let campaign = opened
            .map_err(|error| error.to_string())?
            .map_err(|trouble| trouble.to_string())?;
        let visit = Visit::begin(&campaign);
        let id = campaign.session.campaign().to_owned();
        tracing::info!(campaign = id, "sitting down in another campaign");
        lock(&self.0.others).insert(id, Arc::clone(&campaign));
        tokio::spawn(self.clone().leave_when_empty(campaign));
        Ok(visit)
    }

    /// Leaves a campaign once nobody has wanted it for [`LINGER`].
    async fn leave_when_empty(self, campaign: Arc<Campaign>) {
        let id = campaign.session.campaign();
        let draining = campaign.session.account().draining().clone();
        loop {
            tokio::select! {
                // All are closed together then.
                () = draining.cancelled() => return,
                () = idle_for(LINGER, campaign.visitors.subscribe()) => {}
            }
            let _closed = {
                let mut others = lock(&self.0.others);
                if campaign.visitors() > 0 {
                    continue;
                }
                let (closed, closing) = watch::channel(());
                lock(&self.0.closing).insert(id.to_owned(), closing);
                others.remove(id);
                closed
            };
            tracing::info!(campaign = id, "leaving a campaign that nobody is in");
            campaign.close().await;
            lock(&self.0.closing).remove(id);
            return;
        }
    }

    /// Begins nothing new: calls that wait for their turn are let go.
    pub fn drain(&self) {
        for campaign in self.all() {
            campaign.session.account().drain();
        }
    }

    /// Leaves all of them.
    pub async fn close(&self) {
        let _opening = self.0.opening.lock().await;
        let all = self.all();
        join_all(all.iter().map(|campaign| campaign.close())).await;
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.what, self.fix)
    }
}

impl Inner {
    /// Begins with an account.
    fn begin(&self, settings: Settings) -> Result<Arc<Campaign>, Trouble> {
        let account = Account::start(settings.clone(), self.ground.clone()).map_err(|error| {
            let (hop, mend) = match error {
                ClientError::Access(_) => ("configuration", "the configuration"),
                ClientError::Library(_) => ("rest", "the system's TLS certificates"),
            };
            Trouble {
                hop,
                what: error.to_string(),
                fix: format!("mend {mend}, then run: cozyvttctl reload"),
            }
        })?;
        self.sit(&account, settings)
    }

    /// Opens the books of a campaign and sits down in it.
    fn sit(&self, account: &Arc<Account>, settings: Settings) -> Result<Arc<Campaign>, Trouble> {
        let no_memory = |what: String| Trouble {
            hop: "journal",
            what,
            fix: "free memory or raise this user's limits, then restart cozyvttd".to_owned(),
        };
        let folder = &self.ground.folder;
        let place = place_name(&settings);
        let book = |name| folder.join(format!("{name}-{place}.sqlite"));
        let journal =
            Journal::open(&book("journal")).map_err(|error| no_memory(error.to_string()))?;
        let clock = self.ground.clock.clone();
        let time = Arc::new(move || seconds(clock.wall()));
        let ledger = Ledger::open(&book("ledger"), &self.instance, time)
            .map_err(|error| no_memory(error.to_string()))?;
        // Ids are unique within one instance alone.
        let documents: PathBuf = folder.join("documents").join(&place);
        let files = Files::new(self.read_folders.clone(), documents, std::env::home_dir());
        let (audit, books) = (self.audit.clone(), ledger.clone());
        tokio::spawn(async move { writes::audit_orphans(&audit, &books).await });
        let (session, worker) = account.sit(settings.campaign, journal);
        Ok(Arc::new(Campaign {
            session,
            ledger,
            files: Arc::new(files),
            worker: Mutex::new(Some(worker)),
            visitors: watch::Sender::new(0),
        }))
    }
}

/// A name for an instance and a campaign of it, which a person recognises. The
/// hash keeps two apart whose names look the same.
fn place_name(settings: &Settings) -> String {
    let readable = |text: &str| -> String {
        text.chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '.' {
                    c
                } else {
                    '-'
                }
            })
            .take(64)
            .collect()
    };
    let url = settings.url.to_string();
    let campaign = settings.campaign.as_str();
    let place = url
        .split_once("://")
        .map_or(url.as_str(), |(_, place)| place);
    format!(
        "{}-{}-{:08x}",
        readable(place),
        readable(campaign),
        fingerprint(&settings.url, campaign)
    )
}

/// FNV-1a, 32 bits: a name for a file, not a secret.
fn fingerprint(url: &BaseUrl, campaign: &str) -> u32 {
    format!("{url}\n{campaign}")
        .bytes()
        .fold(0x811c_9dc5, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;
    use crate::session::access::Access;

    #[test]
    fn books_of_different_tables_never_share_a_file() {
        let name = |url: &str, campaign: &str| {
            place_name(&Settings {
                url: BaseUrl::parse(url).unwrap(),
                email: String::new(),
                password: String::new().into(),
                campaign: ResourceId::parse(campaign).unwrap(),
                access: Access::default(),
                origin: Origin::Configured,
            })
        };
        let one = name("https://table.example/a", "c1");
        assert!(one.starts_with("table.example-a-c1-"), "{one}");
        assert_ne!(one, name("https://table.example-a", "c1"));
        assert_ne!(one, name("https://table.example/a", "c2"));
        assert!(!name("https://t/", "../../etc").contains('/'));
    }
}
