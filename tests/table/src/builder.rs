//! How a table is set up before it starts.

use std::time::Duration;

use anyhow::Context as _;

use crate::limits::Allowance;
use crate::scene::Scene;
use crate::table::Table;
use crate::version::Version;

/// Everything about a table that stays fixed while it lives.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) version: Version,
    pub(crate) seed: u64,
    pub(crate) port: u16,
    /// Empty, or with a leading and no trailing slash.
    pub(crate) base_path: String,
    pub(crate) tls: bool,
    pub(crate) write_hold: Duration,
    pub(crate) connect_delay: Duration,
    pub(crate) login: Allowance,
    pub(crate) api: Allowance,
    pub(crate) upload: Allowance,
    pub(crate) session_age: Duration,
    pub(crate) remember_age: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) ping_timeout: Duration,
    pub(crate) max_payload: u64,
    pub(crate) health_page: bool,
    pub(crate) dice_limit: Option<u32>,
    /// How many socket events of a kind a user may send in a second since 1.5.
    pub(crate) socket_ceiling: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: Version::default(),
            seed: 0,
            port: 0,
            base_path: String::new(),
            tls: false,
            write_hold: Duration::from_millis(15),
            connect_delay: Duration::from_millis(3),
            login: Allowance {
                limit: 5,
                window: Duration::from_secs(15 * 60),
            },
            api: Allowance {
                limit: 300,
                window: Duration::from_secs(60),
            },
            upload: Allowance {
                limit: 30,
                window: Duration::from_secs(60),
            },
            session_age: Duration::from_secs(60 * 60),
            remember_age: Duration::from_secs(30 * 24 * 60 * 60),
            ping_interval: Duration::from_secs(25),
            ping_timeout: Duration::from_secs(60),
            max_payload: 1_000_000,
            health_page: false,
            dice_limit: None,
            socket_ceiling: 50,
        }
    }
}

/// Sets up a [`Table`].
#[derive(Debug, Clone, Default)]
#[must_use = "a table serves only once it is started"]
pub struct TableBuilder {
    options: Options,
    scene: Option<Scene>,
}

impl TableBuilder {
    /// The release to behave like; 1.5 by default.
    pub fn version(mut self, version: Version) -> Self {
        self.options.version = version;
        self
    }

    /// Seeds the dice and the ids, so that two runs are alike.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// The port to listen on; 0, the default, takes a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.options.port = port;
        self
    }

    /// Serves below this path, as behind a reverse proxy: `/table`.
    pub fn base_path(mut self, path: &str) -> Self {
        let path = path.trim_matches('/');
        self.options.base_path = if path.is_empty() {
            String::new()
        } else {
            format!("/{path}")
        };
        self
    }

    /// Serves HTTPS with a certificate of its own authority, see [`Table::ca_pem`].
    pub fn tls(mut self, tls: bool) -> Self {
        self.options.tls = tls;
        self
    }

    /// What is on the table at the start.
    pub fn scene(mut self, scene: Scene) -> Self {
        self.scene = Some(scene);
        self
    }

    /// How long a token or sheet write holds what it read before it writes all
    /// of it back. Writes that overlap lose updates, as on the real server.
    /// 15 ms by default.
    pub fn write_hold(mut self, hold: Duration) -> Self {
        self.options.write_hold = hold;
        self
    }

    /// How long a new socket waits for `connected`. Events sent in that time
    /// are lost, as on the real server. 3 ms by default.
    pub fn connect_delay(mut self, delay: Duration) -> Self {
        self.options.connect_delay = delay;
        self
    }

    /// How many sign-ins (1.1.2) or failed sign-ins (1.5) are allowed in
    /// 15 minutes from one address; 5 by default.
    pub fn login_limit(mut self, limit: u32) -> Self {
        self.options.login.limit = limit;
        self
    }

    /// The window of the sign-in limiter; 15 minutes by default.
    pub fn login_window(mut self, window: Duration) -> Self {
        self.options.login.window = window;
        self
    }

    /// How many requests to `/api` are allowed per minute; 300 by default.
    pub fn api_limit(mut self, limit: u32) -> Self {
        self.options.api.limit = limit;
        self
    }

    /// The window of the general limiter; one minute by default.
    pub fn api_window(mut self, window: Duration) -> Self {
        self.options.api.window = window;
        self
    }

    /// How many uploads and new documents a user has per minute; 30 by default.
    pub fn upload_limit(mut self, limit: u32) -> Self {
        self.options.upload.limit = limit;
        self
    }

    /// How long a session lives without being used; one hour by default.
    pub fn session_age(mut self, age: Duration) -> Self {
        self.options.session_age = age;
        self
    }

    /// The same for sign-ins with `rememberMe`; 30 days by default.
    pub fn remember_age(mut self, age: Duration) -> Self {
        self.options.remember_age = age;
        self
    }

    /// How often sockets are pinged; 25 s by default.
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.options.ping_interval = interval;
        self
    }

    /// How long a socket may take to answer a ping; 60 s by default.
    pub fn ping_timeout(mut self, timeout: Duration) -> Self {
        self.options.ping_timeout = timeout;
        self
    }

    /// The longest message a client may send, in bytes; 1,000,000 by default.
    pub fn max_payload(mut self, bytes: u64) -> Self {
        self.options.max_payload = bytes;
        self
    }

    /// Answers `/health` with a page of HTML, as the proxy bundled with
    /// releases up to 1.4 does.
    pub fn health_page(mut self, html: bool) -> Self {
        self.options.health_page = html;
        self
    }

    /// How many rolls a user has per minute; 30 in 1.1.2, 200 in 1.5.
    pub fn dice_limit(mut self, limit: u32) -> Self {
        self.options.dice_limit = Some(limit);
        self
    }

    /// The most socket events of a kind that a user may send in a second in 1.5,
    /// where chat, dice, maps, tokens, sheets and initiative each have a ceiling; 50
    /// by default, 30 for moves of tokens. With 0 the first one is already too many.
    pub fn socket_ceiling(mut self, events: u32) -> Self {
        self.options.socket_ceiling = events;
        self
    }

    /// Starts serving on loopback.
    ///
    /// # Errors
    ///
    /// The port is taken, the certificate cannot be made, or the scene names a
    /// person or character it does not hold.
    pub async fn start(self) -> anyhow::Result<Table> {
        Table::open(self.options, self.scene.unwrap_or_default())
            .await
            .context("the table could not start")
    }
}
