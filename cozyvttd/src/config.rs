//! The configuration: one file and a few variables, resolved once.
//!
//! A daemon with a wrong configuration still serves and explains itself, so
//! resolving never fails as a whole: it yields either [`Settings`] or the
//! [`ConfigProblem`] that every answer will name.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;
use url::{Host, Url};

use crate::session::ids::ResourceId;

/// The address that is tried when none is configured: where CozyVTT's own
/// compose file puts an instance.
const DEFAULT_URL: &str = "http://localhost:8899";

/// Everything but what no path gives a meaning to (RFC 3986, unreserved).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// What the daemon needs to know to sit at a table.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The instance.
    pub url: BaseUrl,
    /// The account's address.
    pub email: String,
    /// Its password.
    pub password: SecretString,
    /// The campaign that all tools act on.
    pub campaign: ResourceId,
}

/// Why there are no usable settings. The sentences are meant for agents and
/// people alike; none contains a value that could be a secret.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum ConfigProblem {
    /// The file is there and cannot be read.
    #[error("the configuration {} cannot be read: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// `--config` names a file that is not there.
    #[error("the configuration {} given with --config does not exist", path.display())]
    NotThere {
        /// The file.
        path: PathBuf,
    },
    /// The file is no TOML, or has keys or types that are not understood.
    #[error("the configuration {} is wrong{at}: {what}", path.display(), at = line.map(|line| format!(" in line {line}")).unwrap_or_default())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: Option<usize>,
        /// What is wrong with it.
        what: String,
    },
    /// The file holds a password and other users can read it.
    #[error("the configuration {} holds a password and other users can read it; run: chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// No account is configured.
    #[error("Missing COZYVTT_EMAIL / COZYVTT_PASSWORD environment variables; set them for cozyvttd, or put email and password into {}", path.display())]
    MissingCredentials {
        /// The file where they could stand.
        path: PathBuf,
    },
    /// No campaign is configured.
    #[error("Missing COZYVTT_CAMPAIGN_ID environment variable; set it for cozyvttd, or put campaign_id into {}", path.display())]
    MissingCampaign {
        /// The file where it could stand.
        path: PathBuf,
    },
    /// The address is not one of an instance.
    #[error(
        "the address {value:?} of the CozyVTT instance is not usable: {why}; give something like https://table.example"
    )]
    BadUrl {
        /// The address, without any user name or password in it.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// The campaign's id is not an id.
    #[error("campaign_id (COZYVTT_CAMPAIGN_ID) must not be empty or a relative path")]
    BadCampaign,
}

/// A resolved configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file that was read, or would have been.
    pub file: PathBuf,
    /// The instance's address as far as it is known, for people.
    pub url: Option<String>,
    /// The folders that documents may be uploaded from; hidden ones in them never.
    pub read_folders: Vec<PathBuf>,
    /// What came out.
    pub settings: Result<Settings, ConfigProblem>,
}

/// The file's keys. A key that is not known is refused: a typing error in
/// `pasword` should not look like a missing password.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    url: Option<String>,
    email: Option<String>,
    password: Option<Password>,
    campaign_id: Option<String>,
    read_folders: Option<Vec<PathBuf>>,
}

/// A password in the file. An error about it must not quote it, as one about any
/// other value would.
struct Password(SecretString);

impl<'de> Deserialize<'de> for Password {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self(text.into())),
            _ => Err(D::Error::custom("password has to be a text in quotes")),
        }
    }
}

impl Config {
    /// Resolves the configuration: each value from the environment, else from
    /// the file. `explicit` is `--config`; `environment` looks a variable up.
    pub fn resolve(explicit: Option<&Path>, environment: &dyn Fn(&str) -> Option<String>) -> Self {
        let file = explicit
            .map(Path::to_path_buf)
            .or_else(default_file)
            .unwrap_or_else(|| PathBuf::from("config.toml"));
        let parsed = match File::read(&file, explicit.is_some()) {
            Ok(parsed) => parsed,
            Err(problem) => {
                return Self {
                    url: environment("COZYVTT_URL")
                        .and_then(|url| BaseUrl::parse(&url).ok())
                        .map(|url| url.to_string()),
                    file,
                    read_folders: Vec::new(),
                    settings: Err(problem),
                };
            }
        };
        let from = |variable: &str, value: Option<String>| {
            environment(variable)
                .or(value)
                .filter(|value| !value.is_empty())
        };
        let url = from("COZYVTT_URL", parsed.url).unwrap_or_else(|| DEFAULT_URL.to_owned());
        let email = from("COZYVTT_EMAIL", parsed.email);
        let password = environment("COZYVTT_PASSWORD")
            .map(SecretString::from)
            .or(parsed.password.map(|password| password.0))
            .filter(|password| !password.expose_secret().is_empty());
        let campaign = from("COZYVTT_CAMPAIGN_ID", parsed.campaign_id);
        let base = BaseUrl::parse(&url);
        // Without a word about it: the person's own folders, hidden ones aside.
        let read_folders = parsed
            .read_folders
            .unwrap_or_else(|| std::env::home_dir().into_iter().collect())
            .into_iter()
            .map(from_home)
            .collect();
        Self {
            read_folders,
            url: base.as_ref().ok().map(ToString::to_string),
            settings: settings(base, email, password, campaign, &file),
            file,
        }
    }
}

fn settings(
    url: Result<BaseUrl, ConfigProblem>,
    email: Option<String>,
    password: Option<SecretString>,
    campaign: Option<String>,
    file: &Path,
) -> Result<Settings, ConfigProblem> {
    let url = url?;
    let (Some(email), Some(password)) = (email, password) else {
        return Err(ConfigProblem::MissingCredentials { path: file.into() });
    };
    let campaign = campaign.ok_or_else(|| ConfigProblem::MissingCampaign { path: file.into() })?;
    Ok(Settings {
        url,
        email,
        password,
        campaign: ResourceId::parse(&campaign).map_err(|_| ConfigProblem::BadCampaign)?,
    })
}

/// `~/games` in the configuration is a folder of the home.
fn from_home(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

fn default_file() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "cozyvtt")
        .map(|dirs| dirs.config_dir().join("config.toml"))
}

impl File {
    fn read(path: &Path, must_exist: bool) -> Result<Self, ConfigProblem> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return if must_exist {
                    Err(ConfigProblem::NotThere { path: path.into() })
                } else {
                    Ok(Self::default())
                };
            }
            Err(error) => {
                return Err(ConfigProblem::Unreadable {
                    path: path.into(),
                    cause: error.to_string(),
                });
            }
        };
        let parsed: Self = toml::from_str(&text).map_err(|error| ConfigProblem::Malformed {
            path: path.into(),
            line: error
                .span()
                .and_then(|span| text.get(..span.start))
                .map(|before| before.matches('\n').count() + 1),
            // `message` alone: the full text would quote the line, and the line
            // may hold the password.
            what: error.message().to_owned(),
        })?;
        if parsed.password.is_some() && readable_by_others(path) {
            return Err(ConfigProblem::Exposed { path: path.into() });
        }
        Ok(parsed)
    }
}

fn readable_by_others(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

/// The address of an instance: http or https, possibly with a path under which
/// the instance lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// [`ConfigProblem::BadUrl`] when it is no http(s) address, or carries a
    /// user name, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        let refuse = |value: &str, why: &str| {
            Err(ConfigProblem::BadUrl {
                value: value.to_owned(),
                why: why.to_owned(),
            })
        };
        let mut url = match Url::parse(text.trim()) {
            Ok(url) => url,
            // The text may be anything, even a password in the wrong variable.
            Err(error) => return refuse("…", &error.to_string()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("…", "it carries a user name or a password");
        }
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return refuse("…", "it is neither an http nor an https address");
        }
        if url.query().is_some() || url.fragment().is_some() {
            let origin = url.origin().ascii_serialization();
            return refuse(&origin, "it has a query or a fragment");
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    /// Whether the instance runs on this machine.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }

    /// The address of what lies under `segments`. Each one names exactly one
    /// segment of the path: whatever it holds is percent-encoded.
    pub fn under<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        // Encoded here rather than by the URL library, which drops tabs and line
        // breaks first and would so make a way upwards of ".\t.".
        let path = segments.into_iter().fold(
            self.0.path().trim_end_matches('/').to_owned(),
            |path, segment| format!("{path}/{}", utf8_percent_encode(segment, RESERVED)),
        );
        let mut url = self.0.clone();
        url.set_path(&path);
        url
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment<'a>(vars: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            vars.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        }
    }

    fn write(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    const FULL: &str = "url = 'https://table.example/vtt/'\nemail = 'a@b.example'\n\
                        password = 'canary'\ncampaign_id = 'c1'\n";

    #[test]
    fn the_environment_wins_over_the_file_value_by_value() {
        let (_dir, path) = write(FULL, 0o600);
        let config = Config::resolve(Some(&path), &environment(&[("COZYVTT_CAMPAIGN_ID", "c2")]));
        let settings = config.settings.unwrap();
        assert_eq!(settings.email, "a@b.example");
        assert_eq!(settings.campaign.as_str(), "c2");
        assert_eq!(settings.url.to_string(), "https://table.example/vtt");
    }

    #[test]
    fn a_file_with_a_password_that_others_can_read_is_refused() {
        let (_dir, path) = write(FULL, 0o640);
        let problem = Config::resolve(Some(&path), &environment(&[]))
            .settings
            .unwrap_err();
        assert!(problem.to_string().contains("chmod 600"), "{problem}");
    }

    #[test]
    fn a_key_that_is_not_known_is_named_with_its_line_and_without_the_password() {
        let (_dir, path) = write("email = 'a'\npasword = 'canary'\n", 0o600);
        let problem = Config::resolve(Some(&path), &environment(&[]))
            .settings
            .unwrap_err();
        let text = problem.to_string();
        assert!(
            text.contains("line 2") && text.contains("pasword"),
            "{text}"
        );
        assert!(!text.contains("canary"), "{text}");
    }

    #[test]
    fn a_password_that_is_no_text_is_refused_without_being_quoted() {
        for password in ["424242", "true", "['424242']"] {
            let (_dir, path) = write(&format!("password = {password}\n"), 0o600);
            let problem = Config::resolve(Some(&path), &environment(&[]))
                .settings
                .unwrap_err()
                .to_string();
            assert!(problem.contains("in quotes"), "{problem}");
            assert!(
                !problem.contains("424242") && !problem.contains("true"),
                "{problem}"
            );
        }
    }

    #[test]
    fn missing_credentials_are_named_before_a_missing_campaign() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("none.toml");
        let resolve = |vars: &[(&str, &str)]| {
            let parsed = File::read(&path, false).unwrap();
            assert!(parsed.email.is_none());
            settings(
                BaseUrl::parse(DEFAULT_URL),
                environment(vars)("COZYVTT_EMAIL"),
                environment(vars)("COZYVTT_PASSWORD").map(SecretString::from),
                None,
                &path,
            )
            .unwrap_err()
            .to_string()
        };
        assert!(resolve(&[]).starts_with("Missing COZYVTT_EMAIL / COZYVTT_PASSWORD"));
        assert!(
            resolve(&[("COZYVTT_EMAIL", "a"), ("COZYVTT_PASSWORD", "b")])
                .starts_with("Missing COZYVTT_CAMPAIGN_ID")
        );
    }

    #[test]
    fn a_file_named_on_the_command_line_must_be_there() {
        let problem = Config::resolve(Some(Path::new("/nowhere/c.toml")), &environment(&[]))
            .settings
            .unwrap_err();
        assert!(matches!(problem, ConfigProblem::NotThere { .. }));
    }

    #[test]
    fn addresses_that_are_none_are_refused_and_never_quoted_with_a_password() {
        for bad in ["", "table.example", "ftp://table.example", "https://t/?a=1"] {
            assert!(BaseUrl::parse(bad).is_err(), "{bad}");
        }
        let refusal = BaseUrl::parse("https://me:canary@table.example").unwrap_err();
        assert!(!refusal.to_string().contains("canary"));
    }

    #[test]
    fn this_very_machine_is_recognised() {
        let here = |text| BaseUrl::parse(text).unwrap().is_loopback();
        assert!(
            here("http://localhost:8899") && here("http://127.0.0.2") && here("http://[::1]:1")
        );
        assert!(!here("https://table.example") && !here("http://192.168.0.1"));
    }

    #[test]
    fn nothing_can_leave_its_path_segment() {
        let base = BaseUrl::parse("http://h:1/sub/").unwrap();
        assert_eq!(
            base.under(["api", "maps", "a/b?c#d%\\e"]).as_str(),
            "http://h:1/sub/api/maps/a%2Fb%3Fc%23d%25%5Ce"
        );
    }

    proptest::proptest! {
        #[test]
        fn t_ids_01_whatever_an_id_holds_it_is_one_segment(text in "(\\PC|[./\\\\%?#\t\r\n 2eE]){0,8}") {
            let Ok(id) = ResourceId::parse(&text) else {
                return Ok(());
            };
            let base = BaseUrl::parse("http://h:1/sub").unwrap();
            let url = base.under(["api", "maps", id.as_str(), "tokens"]);
            let segments: Vec<_> = url.path_segments().unwrap().collect();
            proptest::prop_assert_eq!(segments.len(), 5);
            proptest::prop_assert_eq!((segments[2], segments[4]), ("maps", "tokens"));
            proptest::prop_assert!(url.query().is_none() && url.fragment().is_none());
        }
    }

    #[test]
    fn an_id_of_invisible_characters_is_kept_whole() {
        let base = BaseUrl::parse("http://h").unwrap();
        for (id, segment) in [
            (".\t.", ".%09."),
            ("\n", "%0A"),
            ("a\rb", "a%0Db"),
            (" ", "%20"),
            ("...", "..."),
        ] {
            let url = base.under(["maps", id, "tokens"]);
            assert_eq!(
                url.as_str(),
                format!("http://h/maps/{segment}/tokens"),
                "{id:?}"
            );
        }
    }

    #[test]
    fn the_password_is_in_no_debug_output() {
        let (_dir, path) = write(FULL, 0o600);
        let config = Config::resolve(Some(&path), &environment(&[]));
        assert!(!format!("{config:?}").contains("canary"));
    }
}
