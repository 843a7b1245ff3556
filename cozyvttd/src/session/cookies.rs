//! The session's cookie: kept on disk for the next run, and given to its own instance
//! alone.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use cookie_store::{Cookie, CookieStore};
use reqwest::header::HeaderValue;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use url::Url;

use crate::config::BaseUrl;
use crate::lock::lock;
use crate::private;

/// The file's form; another one is not read.
const FORMAT: u32 = 1;

/// The cookies of one account at one instance. The HTTP client puts the newest
/// `Set-Cookie` in and asks for what goes along with a request.
#[derive(Debug)]
pub(super) struct Cookies {
    /// Where they are kept; nowhere when they are this run's alone.
    path: Option<PathBuf>,
    url: String,
    base: BaseUrl,
    email: String,
    jar: Mutex<Jar>,
    /// Held by whoever writes or removes the file: a session that is forgotten must
    /// not come back from a write that was under way.
    disk: Mutex<()>,
    /// Told when a value is no longer the one on disk.
    changed: Notify,
}

#[derive(Default)]
struct Jar {
    cookies: CookieStore,
    /// Names and values as they are on disk.
    saved: Vec<(String, String)>,
}

/// The file. Cookies are the session: it is as secret as a password.
#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    /// The instance they belong to.
    url: String,
    /// The account they belong to.
    email: String,
    cookies: Vec<Cookie<'static>>,
}

impl std::fmt::Debug for Jar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.saved.iter().map(|(name, _)| name).collect();
        f.debug_tuple("Jar").field(&names).finish()
    }
}

impl Jar {
    fn values(&self) -> Vec<(String, String)> {
        let mut values: Vec<_> = self
            .cookies
            .iter_unexpired()
            .map(|cookie| (cookie.name().to_owned(), cookie.value().to_owned()))
            .collect();
        values.sort_unstable();
        values
    }
}

impl Cookies {
    /// The cookies in the file at `path`, if they are of this account at this
    /// instance; else none.
    pub(super) fn open(path: PathBuf, url: &BaseUrl, email: &str) -> Self {
        let cookies = Self::new(Some(path), url, email);
        cookies.load();
        cookies
    }

    /// None yet, and none that outlives this run.
    pub(super) fn in_memory(url: &BaseUrl, email: &str) -> Self {
        Self::new(None, url, email)
    }

    fn new(path: Option<PathBuf>, url: &BaseUrl, email: &str) -> Self {
        Self {
            path,
            url: url.to_string(),
            base: url.clone(),
            email: email.to_owned(),
            jar: Mutex::default(),
            disk: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn load(&self) {
        let Some(path) = &self.path else {
            return;
        };
        let file = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice::<File>(&bytes).ok(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                tracing::warn!(%error, "the kept session cannot be read");
                return;
            }
        };
        let ours = file.filter(|file| {
            (file.format, &file.url, &file.email) == (FORMAT, &self.url, &self.email)
        });
        let Some(file) = ours else {
            tracing::info!("the kept session is of another account or instance");
            return;
        };
        let cookies = file
            .cookies
            .into_iter()
            .map(Ok::<_, std::convert::Infallible>);
        let Ok(cookies) = CookieStore::from_cookies(cookies, false);
        let mut jar = self.jar();
        jar.cookies = cookies;
        jar.saved = jar.values();
    }

    /// Whether there is a cookie that could be a session's.
    pub(super) fn any(&self) -> bool {
        self.jar().cookies.iter_unexpired().next().is_some()
    }

    /// Waits until a value is no longer the one on disk.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Writes the cookies down.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub(super) fn save(&self) -> std::io::Result<()> {
        let _writing = self.disk();
        if !self.any() {
            return self.remove();
        }
        let (file, values) = {
            let jar = self.jar();
            let cookies = jar.cookies.iter_unexpired().cloned().collect();
            let file = File {
                format: FORMAT,
                url: self.url.clone(),
                email: self.email.clone(),
                cookies,
            };
            (file, jar.values())
        };
        if let Some(path) = &self.path {
            private::write(path, &serde_json::to_vec(&file)?)?;
        }
        self.jar().saved = values;
        Ok(())
    }

    /// Forgets them, on disk as well.
    ///
    /// # Errors
    ///
    /// What the system said; they are forgotten in this run all the same.
    pub(super) fn forget(&self) -> std::io::Result<()> {
        let _writing = self.disk();
        *self.jar() = Jar::default();
        self.remove()
    }

    fn remove(&self) -> std::io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn disk(&self) -> MutexGuard<'_, ()> {
        lock(&self.disk)
    }

    fn jar(&self) -> MutexGuard<'_, Jar> {
        lock(&self.jar)
    }
}

impl reqwest::cookie::CookieStore for Cookies {
    fn set_cookies(&self, headers: &mut dyn Iterator<Item = &HeaderValue>, url: &Url) {
        if !self.base.holds(url) {
            return;
        }
        let mut jar = self.jar();
        for text in headers.filter_map(|header| header.to_str().ok()) {
            // One that is refused (for another domain, say) is none of ours.
            let _ = jar.cookies.parse(text, url);
        }
        if jar.values() != jar.saved {
            self.changed.notify_one();
        }
    }

    fn cookies(&self, url: &Url) -> Option<HeaderValue> {
        // Cookies know no ports and hardly any schemes; an instance does.
        if !self.base.holds(url) {
            return None;
        }
        let text = self
            .jar()
            .cookies
            .get_request_values(url)
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join("; ");
        let mut value = HeaderValue::try_from(text)
            .ok()
            .filter(|text| !text.is_empty())?;
        value.set_sensitive(true);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use reqwest::cookie::CookieStore as _;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const URL: &str = "http://table.example:8899/vtt";

    fn open(folder: &tempfile::TempDir, url: &str, email: &str) -> Cookies {
        let url = BaseUrl::parse(url).unwrap();
        Cookies::open(folder.path().join("session.json"), &url, email)
    }

    fn set(cookies: &Cookies, url: &str, text: &str) {
        let header = HeaderValue::from_str(text).unwrap();
        cookies.set_cookies(&mut [&header].into_iter(), &url.parse().unwrap());
    }

    fn sent(cookies: &Cookies, url: &str) -> Option<String> {
        let value = cookies.cookies(&url.parse().unwrap())?;
        Some(value.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_newest_cookie_is_sent_and_kept_for_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let cookies = open(&folder, URL, "a@b.example");
        assert!(!cookies.any());
        let later = "Path=/; HttpOnly; Max-Age=3600";
        for value in ["one", "two"] {
            set(&cookies, URL, &format!("cozyvtt.sid={value}; {later}"));
        }
        cookies.save().unwrap();
        let path = folder.path().join("session.json");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        let again = open(&folder, URL, "a@b.example");
        for cookies in [&cookies, &again] {
            let header = sent(cookies, "http://table.example:8899/vtt/socket.io/");
            assert_eq!(header.as_deref(), Some("cozyvtt.sid=two"));
        }
        again.forget().unwrap();
        assert!(!again.any() && !path.exists());
    }

    #[test]
    fn a_cookie_never_goes_to_another_instance_or_account() {
        let folder = tempfile::tempdir().unwrap();
        let cookies = open(&folder, URL, "a@b.example");
        set(&cookies, URL, "cozyvtt.sid=one; Path=/");
        cookies.save().unwrap();
        for other in [
            "http://table.example:9000/vtt",
            "https://table.example:8899/vtt",
            "http://other.example:8899/vtt",
        ] {
            assert_eq!(sent(&cookies, other), None, "{other}");
            assert!(!open(&folder, other, "a@b.example").any(), "{other}");
            set(&cookies, other, "cozyvtt.sid=theirs; Path=/");
        }
        assert_eq!(sent(&cookies, URL).as_deref(), Some("cozyvtt.sid=one"));
        assert!(!open(&folder, URL, "c@d.example").any());
        assert!(open(&folder, URL, "a@b.example").any());
    }

    #[tokio::test]
    async fn only_another_value_is_told_as_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let cookies = open(&folder, URL, "a@b.example");
        set(&cookies, URL, "cozyvtt.sid=one; Path=/; Max-Age=60");
        cookies.changed().await;
        cookies.save().unwrap();
        // A new date of expiry comes with every answer.
        set(&cookies, URL, "cozyvtt.sid=one; Path=/; Max-Age=90");
        let told = tokio::time::timeout(std::time::Duration::ZERO, cookies.changed());
        assert!(told.await.is_err());
        set(&cookies, URL, "cozyvtt.sid=two; Path=/");
        cookies.changed().await;
    }

    #[test]
    fn debug_output_holds_no_value() {
        let folder = tempfile::tempdir().unwrap();
        let cookies = open(&folder, URL, "a@b.example");
        set(&cookies, URL, "cozyvtt.sid=canary; Path=/");
        cookies.save().unwrap();
        assert!(!format!("{cookies:?}").contains("canary"));
    }
}
