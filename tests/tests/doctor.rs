//! `cozyvttctl doctor` finds what is broken and names the mend, each time in a set-up that
//! really is broken.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use cozyvtt_proto::control::HopState;
use cozyvtt_table::{Fault, Reply, Table};
use cozyvtt_tests::daemon::{Home, lines_for};
use cozyvtt_tests::{binaries, mounts, until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::process::Command;

/// What the doctor says.
#[derive(Debug)]
struct Findings {
    code: Option<i32>,
    checks: Vec<Value>,
}

impl Findings {
    fn broken(&self) -> Vec<&str> {
        let broken = self
            .checks
            .iter()
            .filter(|check| check["state"] == "broken");
        broken.filter_map(|check| check["name"].as_str()).collect()
    }

    /// A fault of this name, whose detail and mend hold these words.
    #[track_caller]
    fn has(&self, name: &str, detail: &str, fix: &str) {
        assert_eq!(self.code, Some(1), "{self:#?}");
        let found = self.checks.iter().any(|check| {
            let says = |field: &str, words: &str| {
                check[field].as_str().unwrap_or_default().contains(words)
            };
            check["name"] == name
                && check["state"] == "broken"
                && says("detail", detail)
                && says("fix", fix)
        });
        assert!(found, "no {name} with {detail:?} and {fix:?} in {self:#?}");
    }
}

fn command(home: &Home) -> Command {
    let mut command = home.command(binaries::control());
    command
        .arg("--socket-dir")
        .arg(home.socket_dir())
        .env("COZYVTT_STATE_DIR", home.state_dir())
        .args(["doctor", "--json"]);
    command
}

async fn findings(mut command: Command) -> Result<Findings> {
    let output = command.stdin(Stdio::null()).output().await?;
    let told: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let checks = told["checks"].as_array().cloned().unwrap_or_default();
    assert_eq!(told["ok"] == true, output.status.success());
    Ok(Findings {
        code: output.status.code(),
        checks,
    })
}

async fn doctor(home: &Home) -> Result<Findings> {
    findings(command(home)).await
}

/// A home whose daemon is configured by a file.
fn home(table: &Table, name: &str, change: impl Fn(String) -> String) -> Result<Home> {
    let home = Home::empty()?;
    home.configure(&change(lines_for(table, name)))?;
    Ok(home)
}

/// A table, and the home of somebody who runs it.
async fn stage() -> Result<(Table, Home)> {
    let table = Table::builder().start().await?;
    let home = home(&table, "dm", |text| text)?;
    Ok((table, home))
}

/// The same with a wrong password, which the server has rejected once.
async fn rejected() -> Result<(Table, Home)> {
    let table = Table::builder().start().await?;
    let home = home(&table, "dm", |text| {
        text.replace("password = \"", "password = \"x")
    })?;
    let daemon = home.start().await?;
    until("it is rejected", || async {
        let status = home.status().await.ok()?;
        let login = status.hops.into_iter().find(|hop| hop.name == "login")?;
        (login.state == HopState::Broken).then_some(())
    })
    .await;
    doctor(&home)
        .await?
        .has("login", "rejected", "cozyvttctl reload");
    assert!(daemon.stop().await?.success());
    Ok((table, home))
}

/// Every file below a folder with its content and mode.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut tree = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let mode = path.metadata().map_or(0, |meta| meta.permissions().mode());
                tree.insert(
                    path.clone(),
                    (mode, std::fs::read(&path).unwrap_or_default()),
                );
            }
        }
    }
    tree
}

fn logins(table: &Table) -> usize {
    table.log().count("POST", "/api/auth/login")
}

#[tokio::test]
async fn where_all_is_well_nothing_is_found_and_nothing_is_touched() -> Result<()> {
    let (table, home) = stage().await?;
    let daemon = home.start_at_table().await?;
    let found = doctor(&home).await?;
    assert_eq!(
        (found.code, found.broken()),
        (Some(0), vec![]),
        "{found:#?}"
    );
    assert!(daemon.stop().await?.success());
    // Without a daemon it looks for itself, and leaves everything as it is.
    let before = tree(home.path());
    let found = doctor(&home).await?;
    assert_eq!(
        (found.code, found.broken()),
        (Some(0), vec![]),
        "{found:#?}"
    );
    let alive = found
        .checks
        .iter()
        .any(|check| check["name"] == "login" && check["detail"].to_string().contains("is alive"));
    assert!(alive, "{found:#?}");
    let says = |name: &str, words: &str| {
        let check = found.checks.iter().find(|check| check["name"] == name);
        check.is_some_and(|check| check["detail"].to_string().contains(words))
    };
    assert!(says("campaign", ", as DM"), "{found:#?}");
    assert!(says("health", "healthy"), "{found:#?}");
    assert!(says("journal", "whole"), "{found:#?}");
    assert_eq!(tree(home.path()), before);
    assert_eq!(logins(&table), 1);
    let shown = home.ctl(&["doctor"]).await?;
    let shown = String::from_utf8(shown.stdout)?;
    assert!(shown.contains("No fault was found."), "{shown}");
    Ok(())
}

#[tokio::test]
async fn a_wrong_password_is_found_with_and_without_a_daemon() -> Result<()> {
    let (table, home) = rejected().await?;
    doctor(&home)
        .await?
        .has("login", "rejected", "cozyvttctl setup");
    assert_eq!(logins(&table), 1, "the doctor sends no password");
    Ok(())
}

#[tokio::test]
async fn a_wrong_address_is_found() -> Result<()> {
    let table = Table::builder().start().await?;
    let url = format!("{:?}", table.url());
    let nobody = home(&table, "dm", |text| {
        text.replace(&url, "'http://127.0.0.1:9'")
    })?;
    doctor(&nobody)
        .await?
        .has("server", "cannot be used", "whether the server runs");
    let unknown = home(&table, "dm", |text| {
        text.replace(&url, "'http://no.such.host.invalid'")
    })?;
    doctor(&unknown)
        .await?
        .has("dns", "is not found", "correct url");
    let elsewhere = format!("'{}/nowhere'", table.url());
    let stranger = home(&table, "dm", |text| text.replace(&url, &elsewhere))?;
    doctor(&stranger)
        .await?
        .has("server", "is no CozyVTT", "correct url");
    Ok(())
}

#[tokio::test]
async fn the_campaign_of_another_account_is_found() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = home(&table, "outsider", |text| text)?;
    let daemon = home.start().await?;
    until("the campaign is closed to it", || async {
        let status = home.status().await.ok()?;
        let hop = status.hops.into_iter().find(|hop| hop.name == "campaign")?;
        (hop.state == HopState::Broken).then_some(())
    })
    .await;
    doctor(&home)
        .await?
        .has("campaign", "", "have the account invited");
    assert!(daemon.stop().await?.success());
    doctor(&home)
        .await?
        .has("campaign", "is not in campaign", "cozyvttctl setup");
    Ok(())
}

#[tokio::test]
async fn a_socket_that_others_can_reach_is_found() -> Result<()> {
    let (_table, home) = stage().await?;
    let _daemon = home.start_at_table().await?;
    let socket = home.socket("mcp.sock");
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666))?;
    let mend = format!("chmod 600 {}", socket.display());
    doctor(&home).await?.has("sockets", "mode 0666", &mend);
    Ok(())
}

#[tokio::test]
async fn a_full_disk_is_found() -> Result<()> {
    if !mounts::possible() {
        return Ok(());
    }
    let (_table, home) = stage().await?;
    std::fs::create_dir_all(home.state_dir())?;
    let plain = command(&home);
    let mut full = mounts::behind(
        plain.as_std(),
        "mount -t tmpfs -o size=1m,mode=700 none $STATE; dd if=/dev/zero of=$STATE/filler 2>/dev/null || true",
    );
    full.env("STATE", home.state_dir());
    findings(full)
        .await?
        .has("disk", "0 MB free", "free some space");
    Ok(())
}

#[tokio::test]
async fn an_old_daemon_is_found() -> Result<()> {
    let home = Home::empty()?;
    std::fs::create_dir_all(home.socket_dir())?;
    std::fs::set_permissions(home.socket_dir(), std::fs::Permissions::from_mode(0o700))?;
    let socket = home.socket("control.sock");
    let listener = UnixListener::bind(&socket)?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
    // It answers every call as a daemon of long ago would.
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 64 * 1024];
            let _ = stream.read(&mut request).await;
            let body =
                json!({"jsonrpc": "2.0", "id": 1, "result": {"version": "0.0.1"}}).to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    doctor(&home)
        .await?
        .has("running", "The daemon is version 0.0.1", "cozyvttctl stop");
    Ok(())
}

/// Programs of systemd that say this: of the service, and of the socket.
fn manager(home: &Home, service: &str, socket: &str) -> Result<Command> {
    let bin = home.path().join("bin");
    std::fs::create_dir_all(&bin)?;
    let says = |text: &str| format!("printf '%s\\n' {text}");
    let systemctl = format!(
        "#!/bin/sh\ncase \"$*\" in\n*.service) {} ;;\n*.socket) {} ;;\nesac\n",
        says(service),
        says(socket)
    );
    for (name, script) in [
        ("systemctl", systemctl.as_str()),
        ("loginctl", "#!/bin/sh\necho no\n"),
    ] {
        std::fs::write(bin.join(name), script)?;
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755))?;
    }
    let mut command = command(home);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    Ok(command)
}

#[tokio::test]
async fn missing_units_are_found_where_systemd_runs() -> Result<()> {
    let (_table, home) = stage().await?;
    let missing = "LoadState=not-found";
    let found = findings(manager(&home, missing, missing)?).await?;
    found.has(
        "units",
        "systemd knows no cozyvttd.service",
        "cozyvttctl setup",
    );
    let linger = found.checks.iter().find(|check| check["name"] == "linger");
    let linger = linger.context("no linger")?;
    assert!(linger["fix"].to_string().contains("enable-linger"));
    assert_eq!(linger["state"], "hint");
    Ok(())
}

#[tokio::test]
async fn each_fault_of_the_units_is_told_by_itself() -> Result<()> {
    let (_table, home) = stage().await?;
    let good = "LoadState=loaded UnitFileState=enabled ActiveState=active";
    let gone = format!("{good} 'ExecStart={{ path=/nowhere/cozyvttd ; argv[]=x }}'");
    findings(manager(&home, &gone, good)?).await?.has(
        "units",
        "starts /nowhere/cozyvttd, which is not there",
        "cozyvttctl setup",
    );
    let failed = "LoadState=loaded UnitFileState=enabled ActiveState=failed";
    findings(manager(&home, failed, good)?).await?.has(
        "units",
        "cozyvttd.service has failed",
        "cozyvttctl logs",
    );
    findings(manager(&home, good, failed)?).await?.has(
        "units",
        "cozyvttd.socket has failed",
        "restart cozyvttd.socket",
    );
    findings(manager(&home, good, "LoadState=not-found")?)
        .await?
        .has(
            "units",
            "systemd knows no cozyvttd.socket",
            "cozyvttctl setup",
        );
    findings(manager(&home, good, &good.replace("=active", "=inactive"))?)
        .await?
        .has("units", "cozyvttd.socket does not listen", "enable --now");
    // What another version has written is worth a word, and is no fault.
    let units = home.path().join(".config/systemd/user");
    std::fs::create_dir_all(&units)?;
    let file = units.join("cozyvttd.service");
    std::fs::write(&file, "# of long ago\n")?;
    let old = format!("{good} FragmentPath={}", file.display());
    let found = findings(manager(&home, &old, good)?).await?;
    assert_eq!(found.broken(), Vec::<&str>::new(), "{found:#?}");
    let units = found.checks.iter().find(|check| check["name"] == "units");
    let units = units.context("no units")?;
    assert_eq!(units["state"], "hint");
    assert!(
        units
            .to_string()
            .contains("is not as this version writes it"),
        "{units}"
    );
    Ok(())
}

#[tokio::test]
async fn a_disk_that_takes_no_writes_is_found() -> Result<()> {
    if !mounts::possible() {
        return Ok(());
    }
    let (_table, home) = stage().await?;
    std::fs::create_dir_all(home.state_dir())?;
    let plain = command(&home);
    let mut shut = mounts::behind(plain.as_std(), "mount -t tmpfs -o ro,mode=700 none $STATE");
    shut.env("STATE", home.state_dir());
    findings(shut)
        .await?
        .has("journal", "cannot be written", "takes no writes");
    Ok(())
}

#[tokio::test]
async fn a_server_without_its_database_is_found() -> Result<()> {
    let (table, home) = stage().await?;
    let sick = json!({"status": "degraded", "services": {"api": "ok", "database": "error"}});
    let _sick = table
        .faults()
        .route("GET", "/health", Fault::Answer(Reply::json(503, &sick)));
    doctor(&home)
        .await?
        .has("health", "not with its database", "look at the server");
    Ok(())
}

#[tokio::test]
async fn what_this_shell_sets_is_not_taken_for_the_daemons_word() -> Result<()> {
    let (_table, home) = stage().await?;
    let _daemon = home.start_at_table().await?;
    let mut command = command(&home);
    command.env("COZYVTT_URL", "http://127.0.0.1:9");
    let found = findings(command).await?;
    assert_eq!(found.broken(), Vec::<&str>::new(), "{found:#?}");
    let told = found
        .checks
        .iter()
        .find(|check| check["name"] == "environment");
    assert_eq!(told.context("no word of it")?["state"], "hint");
    Ok(())
}

#[tokio::test]
async fn an_expired_session_is_found() -> Result<()> {
    let (table, home) = stage().await?;
    let daemon = home.start_at_table().await?;
    assert!(daemon.stop().await?.success());
    table.forget_sessions();
    doctor(&home)
        .await?
        .has("login", "has expired", "cozyvttctl login");
    Ok(())
}

#[tokio::test]
async fn a_clock_that_is_off_is_found() -> Result<()> {
    let (table, home) = stage().await?;
    let mut reply = Reply::json(200, &json!({"uploadLimits": {}}));
    let date = "Tue, 01 Jan 2030 00:00:00 GMT";
    reply.headers.push(("Date".to_owned(), date.to_owned()));
    let _later = table
        .faults()
        .route("GET", "/api/config", Fault::Answer(reply));
    doctor(&home)
        .await?
        .has("clock", "s behind the server", "timedatectl");
    Ok(())
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_found() -> Result<()> {
    let table = Table::builder().tls(true).start().await?;
    let home = home(&table, "dm", |text| text)?;
    doctor(&home)
        .await?
        .has("tls", "nobody whom this machine knows", "ca_file");
    Ok(())
}

#[tokio::test]
async fn a_damaged_journal_and_an_open_secret_are_found() -> Result<()> {
    let (_table, home) = stage().await?;
    std::fs::create_dir_all(home.state_dir())?;
    std::fs::write(
        home.state_dir().join("journal-x.sqlite"),
        "no database at all, but long",
    )?;
    std::fs::write(home.state_dir().join("session.json"), "{}")?;
    let session = home.state_dir().join("session.json");
    std::fs::set_permissions(&session, std::fs::Permissions::from_mode(0o644))?;
    let found = doctor(&home).await?;
    found.has("journal", "is damaged", "start cozyvttd");
    found.has("secrets", "session.json", "chmod 600");
    Ok(())
}

#[tokio::test]
async fn a_configuration_that_others_can_read_is_one_fault_if_it_holds_a_secret() -> Result<()> {
    let (_table, home) = stage().await?;
    let open = |text: &str| -> Result<()> {
        home.configure(text)?;
        let mode = std::fs::Permissions::from_mode(0o644);
        Ok(std::fs::set_permissions(home.config_file(), mode)?)
    };
    let text = std::fs::read_to_string(home.config_file())?;
    open(&text)?;
    let found = doctor(&home).await?;
    found.has("configuration", "other users can read it", "chmod 600");
    assert_eq!(found.broken(), ["configuration"]);
    open(
        &text
            .replace("password = ", "password_command = ['echo', ")
            .replace("\"\ncampaign", "\"]\ncampaign"),
    )?;
    let found = doctor(&home).await?;
    assert_eq!(found.broken(), Vec::<&str>::new(), "{found:#?}");
    Ok(())
}

#[tokio::test]
async fn a_client_whose_shim_has_gone_or_who_sits_elsewhere_is_found() -> Result<()> {
    let (_table, home) = stage().await?;
    let shim = binaries::shim().display().to_string();
    let servers = json!({"mcpServers": {
        "gone": {"command": "/nowhere/cozyvtt-shim"},
        "elsewhere": {"command": shim, "env": {"COZYVTT_URL": "https://other.example"}},
        "fine": {"command": shim},
        "other": {"command": "/nowhere/something-else"},
    }, "projects": {"/games/bell": {"mcpServers": {
        "far": {"command": "/nowhere/cozyvtt-shim"},
    }}}});
    std::fs::write(home.path().join(".claude.json"), servers.to_string())?;
    let hermes = home.path().join(".hermes");
    std::fs::create_dir(&hermes)?;
    let servers = format!(
        "mcp_servers:\n  bell:\n    command: {shim}\n    env:\n      COZYVTT_EMAIL: other@example.org\n"
    );
    std::fs::write(hermes.join("config.yaml"), servers)?;
    let project = home.path().join("project");
    std::fs::create_dir(&project)?;
    let servers = json!({"mcpServers": {"here": {"command": "/nowhere/cozyvtt-shim"}}});
    std::fs::write(project.join(".mcp.json"), servers.to_string())?;
    let mut command = command(&home);
    command.current_dir(&project);
    let found = findings(command).await?;
    found.has("client", "gone in", "client-config claude-code --write");
    found.has("client", "elsewhere in", "COZYVTT_URL");
    found.has("client", "far of /games/bell in", "client-config");
    found.has("client", "Hermes Agent: bell in", "COZYVTT_EMAIL");
    found.has("client", "here in", "client-config");
    assert_eq!(found.broken(), ["client"; 5]);
    Ok(())
}

#[tokio::test]
async fn a_password_that_was_mended_is_no_fault_any_more() -> Result<()> {
    let (table, home) = rejected().await?;
    home.configure(&lines_for(&table, "dm"))?;
    let found = doctor(&home).await?;
    assert_eq!(found.broken(), Vec::<&str>::new(), "{found:#?}");
    Ok(())
}
