//! The same request without us: one kept connection to the table.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cozyvtt_table::Table;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::stage::driver;

/// A session with the table that many may use.
#[derive(Clone)]
pub(crate) struct SignedIn {
    cookie: String,
    maps: String,
}

/// One who asks the table.
pub(crate) struct Direct {
    runtime: Runtime,
    http: reqwest::Client,
    session: SignedIn,
}

impl SignedIn {
    /// Signs in.
    pub(crate) fn at(table: &Table) -> Result<Self> {
        let (url, account) = (table.url(), table.account("dm"));
        let request = client()?
            .post(format!("{url}/api/auth/login"))
            .json(&json!({"email": account.email, "password": account.password}));
        let answer = driver()?.block_on(request.send())?.error_for_status()?;
        let cookie = answer
            .headers()
            .get("set-cookie")
            .context("no session cookie")?
            .to_str()?;
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        let campaign = table.campaign_id();
        Ok(Self {
            cookie,
            maps: format!("{url}/api/campaigns/{campaign}/maps"),
        })
    }
}

impl Direct {
    /// With a connection of its own, which the first request opens.
    pub(crate) fn new(session: SignedIn) -> Result<Self> {
        Ok(Self {
            runtime: driver()?,
            http: client()?,
            session,
        })
    }

    /// How long the list of maps took.
    pub(crate) fn map_list(&self) -> Result<Duration> {
        let request = self
            .http
            .get(&self.session.maps)
            .header("cookie", &self.session.cookie);
        let start = Instant::now();
        let body = self.runtime.block_on(async {
            let answer = request.send().await?.error_for_status()?;
            answer.bytes().await
        })?;
        let took = start.elapsed();
        let maps: Value = serde_json::from_slice(&body)?;
        ensure!(maps["maps"].is_array(), "{maps}");
        Ok(took)
    }
}

fn client() -> Result<reqwest::Client> {
    let builder = reqwest::Client::builder().no_proxy().http1_only();
    Ok(builder.build()?)
}
