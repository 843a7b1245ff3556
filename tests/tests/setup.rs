//! `cozyvttctl setup`: from nothing to a table, and back.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use cozyvtt_proto::client::Client;
use cozyvtt_proto::control::{DaemonStatus, DaemonStop, NoParams, Status};
use cozyvtt_table::{CampaignPlan, Person as Somebody, Role, Scene, Table, Version};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::{PATIENCE, binaries, until};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

/// A person's home, and the daemons that setup starts in it.
struct Person {
    home: Home,
}

/// What a run of cozyvttctl has said.
#[derive(Debug)]
struct Told {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Person {
    fn new() -> Result<Self> {
        Ok(Self {
            home: Home::empty()?,
        })
    }

    fn command(&self, program: &Path) -> tokio::process::Command {
        let mut command = self.home.command(program);
        command.env("XDG_RUNTIME_DIR", self.runtime());
        command
    }

    fn runtime(&self) -> PathBuf {
        self.home.path().join("runtime")
    }

    async fn ctl(&self, arguments: &[&str], input: &str) -> Result<Told> {
        self.ctl_in(arguments, input, &[]).await
    }

    async fn ctl_in(
        &self,
        arguments: &[&str],
        input: &str,
        variables: &[(&str, &str)],
    ) -> Result<Told> {
        let mut command = self.command(binaries::control());
        command.args(arguments).envs(variables.iter().copied());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut stdin = child.stdin.take().context("no stdin")?;
        // Who does not read has ended, and its words tell why.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = tokio::time::timeout(3 * PATIENCE, child.wait_with_output()).await??;
        Ok(Told {
            code: output.status.code(),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// Sets up for an account, with more flags.
    async fn set_up(&self, table: &Table, name: &str, more: &[&str]) -> Result<Told> {
        let account = table.account(name);
        let mut arguments = vec!["setup", "--yes", "--url", table.url()];
        arguments.extend(["--email", &account.email, "--password-stdin"]);
        arguments.extend(more);
        self.ctl(&arguments, &account.password).await
    }

    fn control(&self, profile: Option<&str>) -> Client {
        let folder = self.runtime().join("cozyvtt");
        Client::new(&profile.map_or(folder.clone(), |profile| folder.join(profile)))
    }

    async fn status(&self) -> Result<Status> {
        let control = self.control(None);
        Ok(control.call::<DaemonStatus>(NoParams {}, PATIENCE).await?)
    }

    fn config(&self) -> PathBuf {
        self.home.path().join(".config/cozyvtt/config.toml")
    }

    /// All files and empty folders in the home.
    fn tree(&self) -> BTreeSet<PathBuf> {
        let mut tree = BTreeSet::new();
        let mut folders = vec![self.home.path().to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder).into_iter().flatten();
            let paths: Vec<_> = entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .collect();
            if paths.is_empty() {
                tree.insert(folder);
                continue;
            }
            for path in paths {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    tree.insert(path);
                }
            }
        }
        tree
    }

    /// Ends what setup has started.
    async fn clear(self, profiles: &[Option<&str>]) {
        for profile in profiles {
            let control = self.control(*profile);
            let _ = control.call::<DaemonStop>(NoParams {}, PATIENCE).await;
            until("the daemon has gone", || async {
                let status = control.call::<DaemonStatus>(NoParams {}, PATIENCE).await;
                status.is_err().then_some(())
            })
            .await;
        }
    }
}

fn logins(table: &Table) -> usize {
    table.log().count("POST", "/api/auth/login")
}

#[tokio::test]
async fn from_nothing_to_a_table_and_back_with_everything_that_is_left_named() -> Result<()> {
    let table = Table::builder().start().await?;
    let person = Person::new()?;
    std::fs::create_dir(person.runtime())?;
    let before = person.tree();
    let told = person
        .set_up(&table, "dm", &["--clients", "claude-code,hermes,cursor"])
        .await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    for words in [
        "Signed in as",
        "The campaign:",
        "A d20 at the table:",
        "\"mcpServers\"",
    ] {
        assert!(told.out.contains(words), "{words}: {told:?}");
    }
    assert_eq!(logins(&table), 1);
    let mode = person.config().metadata()?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!format!("{told:?}").contains(&table.account("dm").password));

    let shim = person.command(binaries::shim());
    let agent = Agent::of_command(shim, Era::Handshake).await?;
    let campaign = agent.data("campaign_get", json!({})).await?;
    assert_eq!(campaign["campaign"]["id"], table.campaign_id());
    agent.leave().await?;
    assert_eq!(
        logins(&table),
        1,
        "the daemon goes on with the session of setup"
    );

    let told = person.ctl(&["setup", "--remove"], "").await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let left: Vec<PathBuf> = person.tree().difference(&before).cloned().collect();
    assert!(!left.is_empty());
    for path in left {
        let named = told.out.contains(&path.display().to_string());
        assert!(named, "{} is not named in {}", path.display(), told.out);
    }
    assert!(!person.config().exists());
    assert!(person.status().await.is_err(), "the daemon is still there");
    assert_eq!(table.log().count("POST", "/api/auth/logout"), 1);
    Ok(())
}

#[tokio::test]
async fn run_again_it_changes_only_what_is_asked() -> Result<()> {
    let table = Table::builder().start().await?;
    let person = Person::new()?;
    std::fs::create_dir(person.runtime())?;
    let told = person.set_up(&table, "dm", &["--no-roll"]).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let text = std::fs::read_to_string(person.config())?;
    let mine = format!("# mine\n{text}idle_exit_minutes = 9\n");
    std::fs::write(person.config(), &mine)?;
    let instance = person.status().await?.instance;
    let told = person.ctl(&["setup", "--yes", "--no-roll"], "").await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.contains("is as it was"), "{told:?}");
    assert_eq!(std::fs::read_to_string(person.config())?, mine);
    assert_eq!(person.status().await?.instance, instance);
    assert_eq!(logins(&table), 1);
    // Another account: the daemon that runs follows it.
    let told = person.set_up(&table, "player1", &["--no-roll"]).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let text = std::fs::read_to_string(person.config())?;
    assert!(
        text.starts_with("# mine") && text.contains("idle_exit_minutes = 9"),
        "{text}"
    );
    assert_ne!(person.status().await?.instance, instance);
    assert_eq!(logins(&table), 2);
    // What is the person's own stays when the rest goes.
    let told = person.ctl(&["setup", "--remove"], "").await?;
    assert!(
        told.out
            .contains("your own configuration, with idle_exit_minutes"),
        "{told:?}"
    );
    Ok(())
}

#[tokio::test]
async fn each_wrong_answer_is_told_and_nothing_is_written() -> Result<()> {
    let table = Table::builder().start().await?;
    let person = Person::new()?;
    let account = table.account("dm");
    let before = person.tree();
    let try_with = async |url: &str, email: &str, password: &str, more: &[&str]| {
        let mut arguments = vec!["setup", "--yes", "--url", url, "--email", email];
        arguments.push("--password-stdin");
        arguments.extend(more);
        person.ctl(&arguments, password).await
    };
    let (email, password) = (account.email.as_str(), account.password.as_str());
    let nobody = try_with("http://127.0.0.1:9", email, password, &[]).await?;
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.err.contains("does the server run?"), "{nobody:?}");
    let elsewhere = format!("{}/nowhere", table.url());
    let stranger = try_with(&elsewhere, email, password, &[]).await?;
    assert_eq!(stranger.code, Some(1));
    assert!(stranger.err.contains("is no CozyVTT"), "{stranger:?}");
    assert_eq!(logins(&table), 0, "no password has left for a stranger");
    let wrong = try_with(table.url(), email, "wrong", &[]).await?;
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("1 of 4 sign-ins are used"), "{wrong:?}");
    assert_eq!(logins(&table), 1);
    let other = try_with(table.url(), email, password, &["--campaign", "none"]).await?;
    assert_eq!(other.code, Some(1));
    assert!(
        other.err.contains("it is in:") && other.err.contains(table.campaign_id()),
        "{other:?}"
    );
    let outsider = table.account("outsider");
    let none = try_with(table.url(), &outsider.email, &outsider.password, &[]).await?;
    assert_eq!(none.code, Some(1));
    assert!(none.err.contains("in no campaign"), "{none:?}");
    let tally = person.home.path().join(".local/state/cozyvtt");
    let new: Vec<_> = person.tree().difference(&before).cloned().collect();
    assert!(new.iter().all(|path| path.starts_with(&tally)), "{new:?}");
    assert!(!person.config().exists());
    Ok(())
}

#[tokio::test]
async fn what_is_missing_is_named_at_once_and_without_a_terminal_nothing_is_asked() -> Result<()> {
    let person = Person::new()?;
    let told = person.ctl(&["setup", "--yes"], "").await?;
    assert_eq!(told.code, Some(2));
    for flag in ["--url", "--email", "--password-stdin"] {
        assert!(told.err.contains(flag), "{told:?}");
    }
    let told = person.ctl(&["setup"], "").await?;
    assert_eq!(told.code, Some(2));
    assert!(told.err.contains("--yes"), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn a_configuration_that_is_wrong_is_not_touched() -> Result<()> {
    let person = Person::new()?;
    let folder = person.home.path().join(".config/cozyvtt");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(person.config(), "pasword = 'x'\n")?;
    let told = person
        .ctl(&["setup", "--yes", "--url", "http://h"], "")
        .await?;
    assert_eq!(told.code, Some(1));
    assert!(told.err.contains("did you mean password?"), "{told:?}");
    assert_eq!(std::fs::read_to_string(person.config())?, "pasword = 'x'\n");
    Ok(())
}

#[tokio::test]
async fn a_profile_has_everything_of_its_own() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let person = Person::new()?;
    std::fs::create_dir(person.runtime())?;
    let told = person.set_up(&table, "dm", &["--no-roll"]).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let account = table.account("player1");
    let arguments = [
        "--profile",
        "player",
        "setup",
        "--yes",
        "--url",
        table.url(),
        "--email",
        &account.email,
        "--password-stdin",
        "--no-roll",
        "--clients",
        "claude-code",
        "--json",
    ];
    let told = person.ctl(&arguments, &account.password).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let done: Value = serde_json::from_str(&told.out)?;
    assert!(
        done["done"].to_string().contains("profiles/player.toml"),
        "{done}"
    );
    let claude = std::fs::read_to_string(person.home.path().join(".claude.json"))?;
    assert!(
        claude.contains("cozyvtt-player") && claude.contains("--profile"),
        "{claude}"
    );
    let told = person
        .ctl(&["--profile", "player", "setup", "--remove"], "")
        .await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(person.config().exists(), "the main one stays");
    assert!(person.status().await.is_ok());
    person.clear(&[None]).await;
    Ok(())
}

/// A user manager that writes down what it is asked, and says that nothing is active.
const MANAGER: &str = r#"#!/bin/sh
echo "$@" >> "$HOME/asked"
case "$*" in
*is-active*) exit 3 ;;
*enable*cozyvttd.service*) exec "$DAEMON" --spawned >/dev/null 2>&1 </dev/null & ;;
*enable*cozyvttd@player.service*)
    exec "$DAEMON" --profile player --spawned >/dev/null 2>&1 </dev/null & ;;
esac
exit 0
"#;

/// A person for whom such a manager runs.
struct Managed {
    person: Person,
    path: String,
}

impl Managed {
    fn new() -> Result<Self> {
        let person = Person::new()?;
        std::fs::create_dir(person.runtime())?;
        let bin = person.home.path().join("bin");
        std::fs::create_dir(&bin)?;
        let program = bin.join("systemctl");
        std::fs::write(&program, MANAGER)?;
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755))?;
        let path = format!("{}:/usr/bin:/bin", bin.display());
        Ok(Self { person, path })
    }

    async fn ctl(&self, arguments: &[&str], input: &str) -> Result<Told> {
        let daemon = binaries::daemon().display().to_string();
        let variables = [("PATH", self.path.as_str()), ("DAEMON", daemon.as_str())];
        self.person.ctl_in(arguments, input, &variables).await
    }

    async fn set_up(&self, table: &Table, name: &str, profile: Option<&str>) -> Result<Told> {
        let account = table.account(name);
        let mut arguments: Vec<&str> = Vec::new();
        arguments.extend(profile.iter().flat_map(|profile| ["--profile", *profile]));
        arguments.extend(["setup", "--yes", "--url", table.url(), "--no-roll"]);
        arguments.extend(["--email", &account.email, "--password-stdin"]);
        self.ctl(&arguments, &account.password).await
    }

    fn units(&self) -> PathBuf {
        self.person.home.path().join(".config/systemd/user")
    }

    fn asked(&self) -> Result<String> {
        Ok(std::fs::read_to_string(
            self.person.home.path().join("asked"),
        )?)
    }
}

#[tokio::test]
async fn where_a_user_manager_runs_the_units_are_installed_and_taken_away_again() -> Result<()> {
    let table = Table::builder().start().await?;
    let managed = Managed::new()?;
    let told = managed.set_up(&table, "dm", None).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.contains("systemd starts the daemon"), "{told:?}");
    let units = managed.units();
    let service = std::fs::read_to_string(units.join("cozyvttd.service"))?;
    let daemon = binaries::daemon().display().to_string();
    assert!(
        service.contains(&format!("ExecStart={daemon}\n")),
        "{service}"
    );
    assert!(units.join("cozyvttd.socket").exists());
    let asked = managed.asked()?;
    assert!(asked.contains("enable --now cozyvttd.service"), "{asked}");
    assert_eq!(logins(&table), 1);

    let changed = units.join("cozyvttd.socket");
    std::fs::write(&changed, "# mine\n")?;
    let told = managed.ctl(&["setup", "--remove"], "").await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(!units.join("cozyvttd.service").exists());
    assert!(
        changed.exists() && told.out.contains("changed by hand"),
        "{told:?}"
    );
    let asked = managed.asked()?;
    assert!(
        asked.contains("disable --now cozyvttd.service cozyvttd.socket"),
        "{asked}"
    );
    Ok(())
}

#[tokio::test]
async fn units_of_profiles_stay_as_long_as_one_of_them_needs_them() -> Result<()> {
    let table = Table::builder().start().await?;
    let managed = Managed::new()?;
    let told = managed.set_up(&table, "player1", Some("player")).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    // Another profile, as its own setup would have noted it.
    let template = managed.units().join("cozyvttd@.service");
    let state = managed
        .person
        .home
        .path()
        .join(".local/state/cozyvtt/profiles");
    let player = std::fs::read_to_string(state.join("player/setup.json"))?;
    std::fs::create_dir(state.join("other"))?;
    std::fs::write(state.join("other/setup.json"), player)?;
    let remove = ["--profile", "player", "setup", "--remove"];
    let told = managed.ctl(&remove, "").await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        template.exists() && told.out.contains("other profiles use it"),
        "{told:?}"
    );
    assert!(!told.out.contains("profiles/other"), "{told:?}");
    std::fs::remove_dir_all(state.join("other"))?;
    let told = managed.set_up(&table, "player1", Some("player")).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let told = managed.ctl(&remove, "").await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(!template.exists() && !managed.units().exists(), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn a_unit_of_somebody_else_stops_setup_before_it_writes_any() -> Result<()> {
    let table = Table::builder().start().await?;
    let managed = Managed::new()?;
    std::fs::create_dir_all(managed.units())?;
    let mine = managed.units().join("cozyvttd.service");
    std::fs::write(&mine, "# mine\n")?;
    let told = managed.set_up(&table, "dm", None).await?;
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(
        told.err.contains("is not one that setup has written"),
        "{told:?}"
    );
    assert!(!managed.units().join("cozyvttd.socket").exists());
    // The session is kept: the next try does not sign in again.
    std::fs::remove_file(mine)?;
    let told = managed.set_up(&table, "dm", None).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(logins(&table), 1);
    managed.person.clear(&[None]).await;
    Ok(())
}

#[tokio::test]
async fn a_setup_that_stops_halfway_goes_on_with_the_session_it_has() -> Result<()> {
    let second = CampaignPlan::new("The Second").seats([("dm", Role::Dm)]);
    let scene = Scene::default().campaign(second);
    let table = Table::builder().scene(scene).start().await?;
    let person = Person::new()?;
    std::fs::create_dir(person.runtime())?;
    let told = person.set_up(&table, "dm", &["--no-roll"]).await?;
    assert_eq!(told.code, Some(2), "{told:?}");
    assert!(told.err.contains("in several campaigns"), "{told:?}");
    let more = ["--no-roll", "--campaign", table.campaign_id()];
    let told = person.set_up(&table, "dm", &more).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(logins(&table), 1);
    person.clear(&[None]).await;
    Ok(())
}

#[tokio::test]
async fn after_a_logout_the_same_setup_brings_the_daemon_back_to_the_table() -> Result<()> {
    let table = Table::builder().start().await?;
    let person = Person::new()?;
    std::fs::create_dir(person.runtime())?;
    let told = person.set_up(&table, "dm", &["--no-roll"]).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let told = person.ctl(&["logout"], "").await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let told = person.ctl(&["setup", "--yes"], "").await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.contains("has gone to the table anew"), "{told:?}");
    assert_eq!(logins(&table), 2, "setup signs in, and the daemon goes on");
    person.clear(&[None]).await;
    Ok(())
}

#[tokio::test]
async fn what_setup_has_not_written_stays_when_it_is_undone() -> Result<()> {
    let table = Table::builder().start().await?;
    let person = Person::new()?;
    let folder = person.home.path().join(".config/cozyvtt");
    std::fs::create_dir_all(&folder)?;
    let mine = "email = 'me@example.org'\n";
    std::fs::write(person.config(), mine)?;
    let told = person.ctl(&["setup", "--remove"], "").await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(std::fs::read_to_string(person.config())?, mine);
    assert!(
        told.out.contains("your own configuration, with email"),
        "{told:?}"
    );
    // And a client's file that cannot be changed is tried again.
    std::fs::create_dir(person.runtime())?;
    let told = person
        .set_up(&table, "dm", &["--no-roll", "--clients", "claude-code"])
        .await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let client = person.home.path().join(".claude.json");
    let entry = std::fs::read_to_string(&client)?;
    std::fs::write(&client, "{ broken")?;
    let told = person.ctl(&["setup", "--remove"], "").await?;
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.out.contains("was left as it is"), "{told:?}");
    std::fs::write(&client, entry)?;
    let told = person.ctl(&["setup", "--remove"], "").await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(!client.exists());
    let text = std::fs::read_to_string(person.config())?;
    assert!(
        text.contains("email") && !text.contains("password"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn a_second_factor_is_asked_for_and_taken_with_one_sign_in() -> Result<()> {
    let careful = Somebody::new("careful", "Careful").mfa("246810", &["ABCD1234"]);
    let scene = Scene::default()
        .person(careful)
        .main(|campaign| campaign.seats([("careful", Role::Player)]));
    let table = Table::builder().scene(scene).start().await?;
    let person = Person::new()?;
    std::fs::create_dir(person.runtime())?;
    let told = person.set_up(&table, "careful", &[]).await?;
    assert_eq!(told.code, Some(1));
    assert!(told.err.contains("--code"), "{told:?}");
    let told = person
        .set_up(&table, "careful", &["--code", "246810"])
        .await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(logins(&table), 2, "one for each run");
    person.clear(&[None]).await;
    Ok(())
}

#[tokio::test]
async fn without_a_daemon_the_session_is_ended_as_well() -> Result<()> {
    let table = Table::builder().start().await?;
    let person = Person::new()?;
    std::fs::create_dir(person.runtime())?;
    let told = person.set_up(&table, "dm", &["--no-roll"]).await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let control = person.control(None);
    control.call::<DaemonStop>(NoParams {}, PATIENCE).await?;
    until("the daemon has gone", || async {
        person.status().await.is_err().then_some(())
    })
    .await;
    let told = person.ctl(&["setup", "--remove", "--json"], "").await?;
    assert_eq!(told.code, Some(0), "{told:?}");
    let done: Value = serde_json::from_str(&told.out)?;
    assert!(
        done["removed"].to_string().contains("ended at the server"),
        "{done}"
    );
    assert_eq!(table.log().count("POST", "/api/auth/logout"), 1);
    assert_eq!(logins(&table), 1);
    Ok(())
}
