//! `cozyvttctl smoke` against a practice table: what it sends, what it refuses
//! to send, and what its report says.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_table::{Direction, Fault, Reply, Table, Version};
use cozyvtt_tests::daemon::{Home, lines_for};
use cozyvtt_tests::{PATIENCE, binaries};
use serde_json::{Value, json};
use tokio::time::timeout;

const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

/// A table, and a person with a configuration for it and an evidence file.
struct Setting {
    table: Table,
    home: Home,
}

impl Setting {
    async fn at(version: Version) -> Result<Self> {
        let table = Table::builder().version(version).start().await?;
        let setting = Self {
            table,
            home: Home::empty()?,
        };
        setting.configure(&setting.table.account("dm").password)?;
        setting.attest(REVISION, setting.table.url())?;
        Ok(setting)
    }

    fn configure(&self, password: &str) -> Result<()> {
        let lines = lines_for(&self.table, "dm");
        let known = format!("{:?}", self.table.account("dm").password);
        self.home
            .configure(&lines.replace(&known, &format!("{password:?}")))
    }

    fn attest(&self, revision: &str, instance: &str) -> Result<()> {
        let version = self.table.version().to_string();
        let evidence = json!({"version": version, "revision": revision, "instance": instance});
        std::fs::write(self.home.path().join("evidence.json"), evidence.to_string())?;
        Ok(())
    }

    /// Runs `cozyvttctl smoke` with these flags alone.
    async fn smoke(&self, flags: &[&str]) -> Result<Output> {
        let mut command = self.home.command(binaries::control());
        command
            .arg("smoke")
            .args(flags)
            .current_dir(self.home.path())
            .env("XDG_RUNTIME_DIR", self.home.path().join("runtime"))
            .stdin(Stdio::null());
        timeout(PATIENCE, command.output())
            .await
            .context("cozyvttctl did not end")?
            .context("starting cozyvttctl")
    }

    /// The same with --yes and everything that attests the server.
    async fn attested(&self, more: &[&str]) -> Result<Output> {
        let version = self.table.version().to_string();
        let mut flags = vec!["--yes", "--deployed-version", &version];
        flags.extend([
            "--deployed-revision",
            REVISION,
            "--evidence",
            "evidence.json",
        ]);
        flags.extend(more);
        self.smoke(&flags).await
    }

    /// The reports in the person's folder.
    fn reports(&self) -> Result<Vec<PathBuf>> {
        let mut reports = Vec::new();
        for entry in std::fs::read_dir(self.home.path())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("cozyvtt-smoke-") && name.ends_with("Z.json") {
                reports.push(path);
            }
        }
        Ok(reports)
    }

    fn report(&self) -> Result<Value> {
        let reports = self.reports()?;
        assert_eq!(reports.len(), 1, "{reports:?}");
        Ok(serde_json::from_slice(&std::fs::read(&reports[0])?)?)
    }

    /// What went out besides GETs: methods and paths.
    fn writes(&self) -> Vec<(String, String)> {
        let mut requests = self.table.log().requests();
        requests.retain(|one| one.method != "GET");
        requests
            .into_iter()
            .map(|one| (one.method, one.path))
            .collect()
    }

    /// The names of the events that went out.
    fn events(&self) -> BTreeSet<String> {
        let frames = self.table.log().frames();
        frames
            .into_iter()
            .filter(|frame| frame.direction == Direction::In)
            .filter_map(|frame| frame.event)
            .collect()
    }

    fn assert_nothing_was_sent(&self, output: &Output) {
        assert_eq!(output.status.code(), Some(2), "{}", told(output));
        assert!(
            told(output).contains("nothing was sent"),
            "{}",
            told(output)
        );
        assert_eq!(self.table.log().requests().len(), 0, "{}", told(output));
    }

    /// Neither the account's words nor its cookie stand anywhere.
    fn assert_discreet(&self, output: &Output, password: &str) -> Result<()> {
        let mut texts = told(output);
        for report in self.reports()? {
            texts.push_str(&std::fs::read_to_string(report)?);
        }
        let mut secrets = vec![password.to_owned(), self.table.account("dm").email.clone()];
        for request in self.table.log().requests() {
            let cookie = request.header("cookie").unwrap_or_default();
            secrets.extend(cookie.split_once('=').map(|(_, value)| value.to_owned()));
        }
        for secret in secrets {
            assert!(!texts.contains(&secret), "{secret} in {texts}");
        }
        Ok(())
    }
}

/// Everything that a run has said.
fn told(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The step of a report.
fn step<'a>(report: &'a Value, phase: &str, name: &str) -> &'a Value {
    report["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|step| step["phase"] == phase && step["name"] == name)
        .unwrap_or(&Value::Null)
}

#[tokio::test]
async fn t_smk_03_a_dry_run_needs_no_configuration_and_sends_nothing() -> Result<()> {
    let setting = Setting::at(Version::V1_5).await?;
    // A configuration that could not even be read would be a failure.
    let config = setting.home.path().join(".config/cozyvtt/config.toml");
    std::fs::remove_file(&config)?;
    std::fs::create_dir(&config)?;
    let output = setting.smoke(&["--dry-run"]).await?;
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = told(&output);
    assert!(text.contains("POST /api/auth/login"), "{text}");
    assert!(
        text.contains("WebSocket initiative.request_state"),
        "{text}"
    );
    assert!(!text.contains("chat.message"), "{text}");
    let output = setting.smoke(&["--dry-run", "--json", "--write"]).await?;
    let plan: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(plan["mode"], "write");
    assert!(plan.to_string().contains("WebSocket dice.roll"));
    assert_eq!(setting.table.log().requests().len(), 0);
    assert!(setting.reports()?.is_empty());
    Ok(())
}

#[tokio::test]
async fn t_smk_03_without_an_explicit_yes_it_explains_itself_and_sends_nothing() -> Result<()> {
    let setting = Setting::at(Version::V1_5).await?;
    let output = setting.smoke(&[]).await?;
    setting.assert_nothing_was_sent(&output);
    assert!(told(&output).contains("--yes"), "{}", told(&output));
    assert!(told(&output).contains("--dry-run"), "{}", told(&output));
    Ok(())
}

#[tokio::test]
async fn t_smk_03_what_is_not_attested_in_all_three_is_not_touched() -> Result<()> {
    let setting = Setting::at(Version::V1_5).await?;
    let output = setting.smoke(&["--yes"]).await?;
    setting.assert_nothing_was_sent(&output);
    setting.attest(&"f".repeat(40), setting.table.url())?;
    setting.assert_nothing_was_sent(&setting.attested(&[]).await?);
    setting.attest(REVISION, "https://another.example")?;
    setting.assert_nothing_was_sent(&setting.attested(&[]).await?);
    setting.attest(REVISION, setting.table.url())?;
    let revision = [
        "--deployed-revision",
        REVISION,
        "--evidence",
        "evidence.json",
    ];
    let older = [&["--yes", "--deployed-version", "1.4.0"], &revision[..]].concat();
    setting.assert_nothing_was_sent(&setting.smoke(&older).await?);
    assert!(setting.reports()?.is_empty());
    Ok(())
}

#[tokio::test]
async fn t_smk_03_a_report_that_is_there_is_not_overwritten_and_nothing_is_sent() -> Result<()> {
    let setting = Setting::at(Version::V1_5).await?;
    let path = setting.home.path().join("mine.json");
    std::fs::write(&path, "precious")?;
    let output = setting.attested(&["--report", "mine.json"]).await?;
    setting.assert_nothing_was_sent(&output);
    assert_eq!(std::fs::read_to_string(path)?, "precious");
    Ok(())
}

#[tokio::test]
async fn t_smk_04_a_read_only_run_sends_one_login_gets_and_two_events() -> Result<()> {
    for version in Version::ALL {
        let setting = Setting::at(version).await?;
        let lines = |setting: &Setting| {
            let mut chat = setting.table.chat();
            chat.retain(|line| line.kind != "SYSTEM");
            chat
        };
        let before = lines(&setting);
        let output = setting.attested(&[]).await?;
        assert_eq!(
            output.status.code(),
            Some(0),
            "{version}: {}",
            told(&output)
        );
        let login = ("POST".to_owned(), "/api/auth/login".to_owned());
        assert_eq!(setting.writes(), [login], "{version}");
        let events = ["authenticate", "initiative.request_state"];
        assert_eq!(setting.events(), events.map(ToOwned::to_owned).into());
        assert_eq!(lines(&setting), before, "{version}");
        assert!(setting.table.rolls().is_empty(), "{version}");
        let password = setting.table.account("dm").password.clone();
        setting.assert_discreet(&output, &password)?;
        // Nothing of a daemon's is there: no state, no sockets.
        assert!(!setting.home.path().join(".local").exists());
        assert!(!setting.home.path().join("runtime").exists());
    }
    Ok(())
}

#[tokio::test]
async fn t_smk_02_the_report_tells_everything_and_is_for_its_owner_alone() -> Result<()> {
    for version in Version::ALL {
        let setting = Setting::at(version).await?;
        let output = setting.attested(&["--json"]).await?;
        let report = setting.report()?;
        assert_eq!(serde_json::from_slice::<Value>(&output.stdout)?, report);
        let mode = setting.reports()?[0].metadata()?.permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(report["verdict"], "passed", "{report}");
        assert_eq!(report["mode"], "read-only");
        assert_eq!(report["attested"]["version"], version.to_string());
        assert_eq!(report["attested"]["revision"], REVISION);
        assert_eq!(report["attested"]["instance"], setting.table.url());
        assert_eq!(report["table"]["campaign_id"], setting.table.campaign_id());
        assert_eq!(report["table"]["campaign_name"], "The Hollow Bell");
        assert_eq!(report["table"]["role"], "DM");
        assert!(report["steps"][0]["duration_ms"].is_u64());
        let tokens = step(&report, "before", "tokens");
        assert_eq!(tokens["outcome"], "ok", "{tokens}");
        assert_eq!(tokens["detail"], "7 tokens on 2 maps");
        let newer = if version == Version::V1_5 {
            "ok"
        } else {
            "skipped"
        };
        for name in ["sessions", "documents", "saved rolls"] {
            assert_eq!(step(&report, "before", name)["outcome"], newer, "{name}");
            assert_eq!(step(&report, "after", name)["outcome"], newer, "{name}");
        }
        assert!(report["comparison"]["changes"].is_array());
    }
    Ok(())
}

#[tokio::test]
async fn t_smk_02_a_page_of_html_is_a_failed_check() -> Result<()> {
    for version in Version::ALL {
        let setting = Setting::at(version).await?;
        let html = setting
            .table
            .faults()
            .route("GET", "/api/campaigns/*/characters", Fault::Html);
        let output = setting.attested(&[]).await?;
        assert!(html.fired() > 0);
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        let report = setting.report()?;
        assert_eq!(report["verdict"], "failed");
        assert_eq!(step(&report, "before", "roster")["outcome"], "failed");
        assert_eq!(step(&report, "after", "roster")["outcome"], "skipped");
        assert_eq!(step(&report, "before", "maps")["outcome"], "ok");
    }
    Ok(())
}

#[tokio::test]
async fn t_smk_02_another_campaign_in_the_answer_is_a_failed_check() -> Result<()> {
    let setting = Setting::at(Version::V1_5).await?;
    let other = json!({"campaign": {"id": "another", "name": "Another", "userRole": "DM"}});
    let path = "/api/campaigns/*";
    let fault = Fault::Answer(Reply::json(200, &other));
    let answered = setting.table.faults().route("GET", path, fault);
    let name = ["--campaign-name", "Another"];
    let flags = [&["--write", "--i-know-this-writes"], &name[..]].concat();
    let output = setting.attested(&flags).await?;
    assert!(answered.fired() > 0);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let report = setting.report()?;
    assert_eq!(step(&report, "before", "campaign")["outcome"], "failed");
    assert_eq!(step(&report, "write", "chat line")["outcome"], "skipped");
    assert!(setting.table.log().events_in("chat.message").is_empty());
    Ok(())
}

#[tokio::test]
async fn a_route_that_the_attested_version_has_and_the_server_lacks_is_a_failed_check() -> Result<()>
{
    let setting = Setting::at(Version::V1_1_2).await?;
    let evidence =
        json!({"version": "1.5.3", "revision": REVISION, "instance": setting.table.url()});
    let path = setting.home.path().join("evidence.json");
    std::fs::write(path, evidence.to_string())?;
    let flags = [
        "--yes",
        "--deployed-version",
        "1.5.3",
        "--deployed-revision",
        REVISION,
    ];
    let flags = [&flags[..], &["--evidence", "evidence.json"]].concat();
    let output = setting.smoke(&flags).await?;
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(
        step(&setting.report()?, "before", "sessions")["outcome"],
        "failed"
    );
    Ok(())
}

#[tokio::test]
async fn a_refused_password_is_sent_once_and_stands_nowhere() -> Result<()> {
    let setting = Setting::at(Version::V1_1_2).await?;
    setting.configure("a wrong but secret password")?;
    let output = setting.attested(&[]).await?;
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(setting.table.log().count("POST", "/api/auth/login"), 1);
    assert_eq!(setting.table.log().requests().len(), 1);
    setting.assert_discreet(&output, "a wrong but secret password")?;
    let compared = &setting.report()?;
    let compared = step(compared, "compare", "comparison");
    assert_eq!(compared["outcome"], "skipped");
    assert_eq!(
        step(&setting.report()?, "arrive", "login")["outcome"],
        "failed"
    );
    Ok(())
}

/// Runs it while `act` happens between the two readings of the chat.
async fn meanwhile(setting: &Setting, act: impl FnOnce(&Table)) -> Result<Output> {
    // Long enough for `act`, which waits for the first reading of the chat alone.
    let pause = Fault::Delay(Duration::from_secs(2));
    let path = "/api/campaigns/*/characters";
    let _once = setting.table.faults().route("GET", path, pause).times(1);
    let chat = format!("/api/campaigns/{}/messages", setting.table.campaign_id());
    let (output, ()) = tokio::join!(setting.attested(&[]), async {
        let log = setting.table.log();
        assert!(
            log.wait_for(|log| log.count("GET", &chat) == 1, PATIENCE)
                .await
        );
        act(&setting.table);
    });
    output
}

#[tokio::test]
async fn what_other_people_do_meanwhile_is_named_and_is_no_failure() -> Result<()> {
    for version in Version::ALL {
        let setting = Setting::at(version).await?;
        let output = meanwhile(&setting, |table| {
            table.say("player1", "I write to secret@place.example");
            table.roll("player1", "1d6", false).unwrap();
        })
        .await?;
        assert_eq!(
            output.status.code(),
            Some(0),
            "{version}: {}",
            told(&output)
        );
        let report = setting.report()?;
        let by_others = |what: &str| {
            let changes = report["comparison"]["changes"].as_array();
            changes
                .into_iter()
                .flatten()
                .filter(|change| change["what"] == what && change["by"] == "others")
                .count()
        };
        assert_eq!((by_others("chat"), by_others("rolls")), (1, 1), "{report}");
        assert!(!report.to_string().contains("secret@place.example"));
    }
    Ok(())
}

#[tokio::test]
async fn a_change_that_nothing_explains_is_a_failed_check() -> Result<()> {
    let setting = Setting::at(Version::V1_5).await?;
    let output = meanwhile(&setting, |table| {
        let (map, token) = table.token_named("Ferry Chest").unwrap();
        let id = token["id"].as_str().unwrap();
        table
            .edit_token(&map, id, json!({"visible": false}))
            .unwrap();
    })
    .await?;
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let report = setting.report()?;
    let changes = report["comparison"]["changes"].as_array();
    let tokens = changes
        .into_iter()
        .flatten()
        .find(|change| change["what"] == "tokens")
        .context("no change of tokens")?;
    assert_eq!(tokens["by"], "unexplained", "{report}");
    Ok(())
}

#[tokio::test]
async fn writing_needs_a_second_flag_and_a_name_to_compare() -> Result<()> {
    let setting = Setting::at(Version::V1_5).await?;
    setting.assert_nothing_was_sent(&setting.attested(&["--write"]).await?);
    let nameless = setting
        .attested(&["--write", "--i-know-this-writes"])
        .await?;
    setting.assert_nothing_was_sent(&nameless);
    let alone = setting.attested(&["--i-know-this-writes"]).await?;
    assert_eq!(alone.status.code(), Some(2));
    assert_eq!(setting.table.log().requests().len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_name_that_is_not_exactly_the_campaigns_writes_nothing() -> Result<()> {
    let setting = Setting::at(Version::V1_5).await?;
    let name = ["--campaign-name", "the hollow bell"];
    let flags = [&["--write", "--i-know-this-writes"], &name[..]].concat();
    let output = setting.attested(&flags).await?;
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(setting.writes().len(), 1);
    assert_eq!(setting.events().len(), 2);
    let report = setting.report()?;
    assert_eq!(
        step(&report, "write", "campaign's name")["outcome"],
        "failed"
    );
    assert_eq!(step(&report, "write", "roll")["outcome"], "skipped");
    Ok(())
}

#[tokio::test]
async fn t_smk_01_a_writing_run_adds_exactly_one_line_and_one_roll() -> Result<()> {
    for version in Version::ALL {
        let setting = Setting::at(version).await?;
        let name = ["--campaign-name", "The Hollow Bell"];
        let flags = [&["--write", "--i-know-this-writes"], &name[..]].concat();
        let output = setting.attested(&flags).await?;
        assert_eq!(
            output.status.code(),
            Some(0),
            "{version}: {}",
            told(&output)
        );
        let log = setting.table.log();
        assert_eq!(log.events_in("chat.message").len(), 1, "{version}");
        assert_eq!(log.events_in("dice.roll").len(), 1, "{version}");
        assert_eq!(setting.events().len(), 4, "{version}");
        assert_eq!(setting.writes().len(), 1, "{version}");
        let rolls = setting.table.rolls();
        assert_eq!(rolls.len(), 1, "{version}");
        let purpose = rolls[0].event["purpose"].as_str().unwrap_or_default();
        assert!(purpose.starts_with("smoke test"), "{purpose}");
        let report = setting.report()?;
        let changes = report["comparison"]["changes"].as_array().unwrap();
        let own: Vec<_> = changes
            .iter()
            .filter(|change| change["by"] == "this run")
            .map(|change| change["what"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(own, ["chat", "rolls"], "{report}");
        let password = setting.table.account("dm").password.clone();
        setting.assert_discreet(&output, &password)?;
    }
    Ok(())
}

#[tokio::test]
async fn t_smk_01_a_roll_that_does_not_come_back_is_a_failed_check() -> Result<()> {
    let setting = Setting::at(Version::V1_5).await?;
    let lost = cozyvtt_table::SocketFault::Swallow("dice.roll".to_owned());
    let swallowed = setting.table.faults().socket(lost);
    let name = ["--campaign-name", "The Hollow Bell"];
    let flags = [&["--write", "--i-know-this-writes"], &name[..]].concat();
    let output = setting.attested(&flags).await?;
    assert_eq!(swallowed.fired(), 1);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(
        step(&setting.report()?, "write", "roll")["outcome"],
        "failed"
    );
    Ok(())
}
