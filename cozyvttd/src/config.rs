//! The configuration: one file and a few variables, resolved once.
//!
//! A daemon with a wrong configuration still serves and explains itself, so
//! resolving never fails as a whole: it yields either [`Settings`] or the
//! [`ConfigProblem`] that every answer will name.

mod address;
pub mod check;
mod file;
mod offer;
pub mod password;
pub mod policy;
mod problem;

use std::path::{Path, PathBuf};

use cozyvtt_proto::profile::Profile;
use secrecy::{ExposeSecret, SecretString};

use crate::session::access::{Access, AccessProblem};
use crate::session::ids::ResourceId;
pub use address::BaseUrl;
use file::{File, Secret};
pub use offer::{Origin, expected, where_it_sits};
use password::{Password, PasswordError};
pub use policy::Policy;
pub use problem::ConfigProblem;

/// The name of the systemd credential that holds the password
/// (`LoadCredential=cozyvtt-password:…`).
const CREDENTIAL: &str = "cozyvtt-password";

/// The address that is tried when none is configured: where CozyVTT's own
/// compose file puts an instance.
const DEFAULT_URL: &str = "http://localhost:8899";

/// The variables that win over the file.
const VARIABLES: [&str; 5] = [
    "COZYVTT_URL",
    "COZYVTT_EMAIL",
    "COZYVTT_PASSWORD",
    "COZYVTT_CAMPAIGN_ID",
    "COZYVTT_CA_FILE",
];

/// What the daemon needs to know to sit at a table.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The instance.
    pub url: BaseUrl,
    /// The account's address.
    pub email: String,
    /// Its password.
    pub password: Password,
    /// The campaign that all tools act on.
    pub campaign: ResourceId,
    /// How to get to the instance.
    pub access: Access,
    /// Whose word they are.
    pub origin: Origin,
}

/// A resolved configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file that was read, or would have been.
    pub file: PathBuf,
    /// The instance's address as far as it is known, for people.
    pub url: Option<String>,
    /// The account's address, if it is configured.
    pub email: Option<String>,
    /// The password, if it is configured and can be used.
    pub password: Option<Password>,
    /// The campaign's id, if it is configured.
    pub campaign: Option<String>,
    /// How to get to the instance, if what is said of it can be used.
    pub access: Option<Access>,
    /// The folders that documents may be uploaded from; hidden ones in them never.
    pub read_folders: Vec<PathBuf>,
    /// Which tools are denied to whom.
    pub policy: Policy,
    /// After how many minutes without a client the daemon leaves; 0 for never.
    pub idle_exit_minutes: Option<u64>,
    /// Whether the environment says anything of it.
    pub uses_environment: bool,
    /// What came out.
    pub settings: Result<Settings, ConfigProblem>,
    /// Whether a client's offer may be taken: nothing of an instance or an account is
    /// configured.
    open_to_offers: bool,
}

impl Config {
    /// Resolves the configuration: each value from the environment, else from
    /// the file ([`file()`]). `explicit` is `--config`; `environment` looks a variable up.
    pub fn resolve(
        explicit: Option<&Path>,
        profile: Option<&Profile>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let named = explicit
            .map(Path::to_path_buf)
            .or_else(|| named_file(profile, environment));
        let must_exist = named.is_some();
        let file = named
            .or_else(|| default_file(profile))
            .unwrap_or_else(|| PathBuf::from("config.toml"));
        let uses_environment = VARIABLES
            .iter()
            .any(|name| environment(name).is_some_and(|value| !value.is_empty()));
        let parsed = match File::read(&file, must_exist) {
            Ok(parsed) => parsed,
            Err(problem) => {
                return Self {
                    url: environment("COZYVTT_URL")
                        .and_then(|url| BaseUrl::parse(&url).ok())
                        .map(|url| url.to_string()),
                    file,
                    email: None,
                    password: None,
                    campaign: None,
                    access: None,
                    read_folders: Vec::new(),
                    policy: Policy::default(),
                    idle_exit_minutes: None,
                    uses_environment,
                    settings: Err(problem),
                    open_to_offers: false,
                };
            }
        };
        let from = |variable: &str, value: Option<String>| {
            environment(variable)
                .or(value)
                .filter(|value| !value.is_empty())
        };
        let url = from("COZYVTT_URL", parsed.url);
        let email = from("COZYVTT_EMAIL", parsed.email);
        let password = password(
            environment,
            parsed.password,
            parsed.password_file,
            parsed.password_command,
            &file,
        );
        let campaign = from("COZYVTT_CAMPAIGN_ID", parsed.campaign_id);
        // A secret header is as much of a table as its address.
        let blank = url.is_none()
            && email.is_none()
            && campaign.is_none()
            && matches!(password, Ok(None))
            && parsed.extra_headers.is_empty();
        let base = BaseUrl::parse(url.as_deref().unwrap_or(DEFAULT_URL));
        let ca_file = environment("COZYVTT_CA_FILE")
            .map(PathBuf::from)
            .or(parsed.authorities)
            .map(from_home);
        let headers = parsed
            .extra_headers
            .into_iter()
            .map(|(name, value)| (name, value.0))
            .collect();
        let access = Access::new(ca_file, headers);
        // Without a word about it: the person's own folders, hidden ones aside.
        let read_folders = parsed
            .read_folders
            .unwrap_or_else(|| std::env::home_dir().into_iter().collect())
            .into_iter()
            .map(from_home)
            .collect();
        Self {
            uses_environment,
            read_folders,
            policy: parsed.policy,
            idle_exit_minutes: parsed.idle_exit_minutes,
            open_to_offers: blank,
            url: base.as_ref().ok().map(ToString::to_string),
            email: email.clone(),
            password: password.clone().ok().flatten(),
            campaign: campaign.clone(),
            access: access.as_ref().ok().cloned(),
            settings: settings(base, access, email, password, campaign, &file),
            file,
        }
    }
}

impl Config {
    /// The keys about the way to the table that are another one's in `next`.
    pub(crate) fn different_table(&self, next: &Self) -> Vec<&'static str> {
        match (&self.settings, &next.settings) {
            (Ok(one), Ok(other)) => one.different(other),
            (Err(one), Err(other)) if one == other => Vec::new(),
            _ => vec!["the account"],
        }
    }

    /// The keys about what may be done that are others in `next`.
    pub(crate) fn different_rules(&self, next: &Self) -> Vec<&'static str> {
        let rules = [
            ("read_folders", self.read_folders != next.read_folders),
            (
                "idle_exit_minutes",
                self.idle_exit_minutes != next.idle_exit_minutes,
            ),
            ("policy", self.policy != next.policy),
        ];
        named(&rules)
    }
}

impl Settings {
    /// The keys that are others in `other`.
    fn different(&self, other: &Self) -> Vec<&'static str> {
        named(&[
            ("url", self.url != other.url),
            ("email", self.email != other.email),
            ("password", !self.password.is_same(&other.password)),
            ("campaign_id", self.campaign != other.campaign),
            ("ca_file", self.access.ca_file != other.access.ca_file),
            (
                "extra_headers",
                !self.access.has_same_headers(&other.access),
            ),
        ])
    }
}

/// The names of what is so.
fn named(all: &[(&'static str, bool)]) -> Vec<&'static str> {
    all.iter()
        .filter(|(_, is_so)| *is_so)
        .map(|(name, _)| *name)
        .collect()
}

/// Where the password comes from: systemd's credential, the environment, the file
/// itself, the file it names, the program it names; the first that there is.
fn password(
    environment: &dyn Fn(&str) -> Option<String>,
    text: Option<Secret>,
    file: Option<PathBuf>,
    command: Option<Vec<String>>,
    config: &Path,
) -> Result<Option<Password>, ConfigProblem> {
    let given =
        |secret: SecretString| (!secret.expose_secret().is_empty()).then(|| Password::from(secret));
    let credential = environment("CREDENTIALS_DIRECTORY")
        .map(|folder| Path::new(&folder).join(CREDENTIAL))
        .filter(|path| path.exists());
    if let Some(path) = credential {
        return Ok(Some(Password::in_file(path)?));
    }
    let named = [text.is_some(), file.is_some(), command.is_some()];
    if named.into_iter().filter(|named| *named).count() > 1 {
        return Err(ConfigProblem::TwoPasswords {
            path: config.into(),
        });
    }
    if let Some(secret) = environment("COZYVTT_PASSWORD") {
        return Ok(given(secret.into()));
    }
    if let Some(text) = text {
        return Ok(given(text.0));
    }
    if let Some(path) = file {
        return Ok(Some(Password::in_file(from_home(path))?));
    }
    Ok(command
        .filter(|argv| !argv.is_empty())
        .map(Password::from_command))
}

impl From<PasswordError> for ConfigProblem {
    fn from(error: PasswordError) -> Self {
        Self::PasswordFile(error.to_string())
    }
}

fn settings(
    url: Result<BaseUrl, ConfigProblem>,
    access: Result<Access, AccessProblem>,
    email: Option<String>,
    password: Result<Option<Password>, ConfigProblem>,
    campaign: Option<String>,
    file: &Path,
) -> Result<Settings, ConfigProblem> {
    let (url, access) = (url?, access?);
    let (Some(email), Some(password)) = (email, password?) else {
        return Err(ConfigProblem::MissingCredentials { path: file.into() });
    };
    let campaign = campaign.ok_or_else(|| ConfigProblem::MissingCampaign { path: file.into() })?;
    Ok(Settings {
        url,
        email,
        password,
        campaign: ResourceId::parse(&campaign).map_err(|_| ConfigProblem::BadCampaign)?,
        access,
        origin: Origin::Configured,
    })
}

/// `~/games` in the configuration is a folder of the home.
fn from_home(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

/// Where the configuration is, or would be: `explicit` (the flag `--config`), else
/// `COZYVTT_CONFIG`, which is about the main daemon alone, else `config.toml` in
/// `cozyvtt` of the XDG configuration folder, or `profiles/NAME.toml` there. `None`
/// where no home is known.
pub fn file(
    explicit: Option<&Path>,
    profile: Option<&Profile>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    explicit
        .map(Path::to_path_buf)
        .or_else(|| named_file(profile, environment))
        .or_else(|| default_file(profile))
}

/// The file that the environment names; one for all profiles would be none for each.
fn named_file(
    profile: Option<&Profile>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    let of_main = profile.is_none().then(|| environment("COZYVTT_CONFIG"));
    of_main
        .flatten()
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

fn default_file(profile: Option<&Profile>) -> Option<PathBuf> {
    let dirs = directories::ProjectDirs::from("", "", "cozyvtt")?;
    Some(match profile {
        Some(profile) => dirs.config_dir().join(format!("profiles/{profile}.toml")),
        None => dirs.config_dir().join("config.toml"),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
        let config = Config::resolve(
            Some(&path),
            None,
            &environment(&[("COZYVTT_CAMPAIGN_ID", "c2")]),
        );
        let settings = config.settings.unwrap();
        assert_eq!(settings.email, "a@b.example");
        assert_eq!(settings.campaign.as_str(), "c2");
        assert_eq!(settings.url.to_string(), "https://table.example/vtt");
    }

    #[test]
    fn a_file_with_a_password_that_others_can_read_is_refused() {
        let (_dir, path) = write(FULL, 0o640);
        let problem = Config::resolve(Some(&path), None, &environment(&[]))
            .settings
            .unwrap_err();
        assert!(problem.to_string().contains("chmod 600"), "{problem}");
    }

    #[test]
    fn a_key_that_is_not_known_is_named_with_its_line_and_without_the_password() {
        let (_dir, path) = write("email = 'a'\npasword = 'canary'\n", 0o600);
        let problem = Config::resolve(Some(&path), None, &environment(&[]))
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
            let problem = Config::resolve(Some(&path), None, &environment(&[]))
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

    #[tokio::test]
    async fn the_first_place_that_holds_a_password_wins() {
        let secrets = tempfile::tempdir().unwrap();
        let store = |name: &str, text: &str| {
            let path = secrets.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path.display().to_string()
        };
        let in_file = store("mine", "of-the-file\n");
        let account = "url = 'http://h'\nemail = 'a'\ncampaign_id = 'c'\n";
        let credentials = secrets.path().display().to_string();
        let with_credential = ("CREDENTIALS_DIRECTORY", credentials.as_str());
        let password = async |key: &str, vars: &[(&str, &str)]| {
            let (_dir, path) = write(&format!("{account}{key}\n"), 0o600);
            let settings = Config::resolve(Some(&path), None, &environment(vars))
                .settings
                .unwrap();
            let secret = settings.password.reveal().await.unwrap();
            secret.expose_secret().to_owned()
        };
        let file = format!("password_file = '{in_file}'");
        assert_eq!(password(&file, &[]).await, "of-the-file");
        let command = "password_command = ['echo', 'of-the-command']";
        assert_eq!(password(command, &[]).await, "of-the-command");
        let variable = ("COZYVTT_PASSWORD", "of-the-variable");
        assert_eq!(password(&file, &[variable]).await, "of-the-variable");
        // Without such a credential the folder says nothing.
        assert_eq!(password(&file, &[with_credential]).await, "of-the-file");
        store("cozyvtt-password", "of-systemd");
        let both = [variable, with_credential];
        assert_eq!(password("password = 'in-here'", &both).await, "of-systemd");
    }

    #[test]
    fn a_password_that_is_named_twice_or_lies_open_is_refused() {
        let refusal = |text: &str| {
            let (_dir, path) = write(text, 0o600);
            Config::resolve(Some(&path), None, &environment(&[]))
                .settings
                .unwrap_err()
                .to_string()
        };
        let twice = refusal("password = 'canary'\npassword_command = ['pass']\n");
        assert!(
            twice.contains("more than one of") && !twice.contains("canary"),
            "{twice}"
        );
        let (_dir, open) = write("canary", 0o644);
        let text = format!("password_file = '{}'\n", open.display());
        assert!(refusal(&text).contains("chmod 600"));
        assert!(refusal("password_file = '/nowhere'\n").contains("cannot be read"));
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
                Ok(Access::default()),
                environment(vars)("COZYVTT_EMAIL"),
                Ok(environment(vars)("COZYVTT_PASSWORD").map(Password::from)),
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
        let problem = Config::resolve(Some(Path::new("/nowhere/c.toml")), None, &environment(&[]))
            .settings
            .unwrap_err();
        assert!(matches!(problem, ConfigProblem::NotThere { .. }));
    }

    #[test]
    fn the_password_is_in_no_debug_output() {
        let (_dir, path) = write(FULL, 0o600);
        let config = Config::resolve(Some(&path), None, &environment(&[]));
        assert!(!format!("{config:?}").contains("canary"));
    }
}
