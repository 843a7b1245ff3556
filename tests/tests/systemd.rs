//! The daemon under systemd: sockets that are handed over, readiness, the status line, the
//! watchdog, and units that systemd itself finds no fault with.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use cozyvtt_table::Table;
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::{Wire, http};
use cozyvtt_tests::{binaries, until};
use rustix::process::Signal;
use serde_json::json;
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Where the units are.
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd");

/// Whether systemd has installed this tool; where it has not, a test says so and ends.
fn has(tool: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).is_file()));
    if !found {
        eprintln!("left out: there is no {tool}");
    }
    found
}

/// Somebody who hears what the daemon tells systemd.
struct Listening {
    heard: watch::Sender<Vec<String>>,
    path: PathBuf,
}

impl Listening {
    fn at(home: &Home) -> Result<Self> {
        let path = home.path().join("notify");
        let socket = UnixDatagram::bind(&path)?;
        let heard = watch::Sender::new(Vec::new());
        let ears = heard.clone();
        tokio::spawn(async move {
            let mut datagram = [0; 4096];
            while let Ok(length) = socket.recv(&mut datagram).await {
                let told = String::from_utf8_lossy(&datagram[..length]);
                let lines = told.lines().map(str::to_owned);
                ears.send_modify(|heard| heard.extend(lines));
            }
        });
        Ok(Self { heard, path })
    }

    fn heard(&self) -> Vec<String> {
        self.heard.borrow().clone()
    }

    async fn hears(&self, what: &str) -> String {
        until(&format!("systemd hears {what}"), || async {
            self.heard().into_iter().find(|line| line.contains(what))
        })
        .await
    }
}

/// Starts the daemon through `systemd-socket-activate`, which listens for it.
fn activated(home: &Home) -> Result<Child> {
    let folder = home.socket_dir();
    std::fs::create_dir_all(&folder)?;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
    let daemon = home.daemon_command()?;
    let daemon = daemon.as_std();
    let mut command = Command::new("systemd-socket-activate");
    for name in ["mcp.sock", "control.sock"] {
        command.arg("--listen").arg(folder.join(name));
    }
    // It passes no variable on but those that are named.
    command.env_clear();
    for (name, value) in daemon.get_envs() {
        if let Some(value) = value {
            command.env(name, value).arg("--setenv").arg(name);
        }
    }
    command
        .arg(daemon.get_program())
        .args(daemon.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let child = command
        .spawn()
        .context("starting systemd-socket-activate")?;
    Ok(child)
}

/// Makes the sockets for their owner alone, as `SocketMode=0600` does, once they are there.
async fn for_us_alone(home: &Home) -> Result<()> {
    for name in ["mcp.sock", "control.sock"] {
        let path = home.socket(name);
        until("it listens", || async { path.exists().then_some(()) }).await;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[tokio::test]
async fn clients_that_come_before_the_daemon_are_served_when_it_is_there() -> Result<()> {
    if !has("systemd-socket-activate") {
        return Ok(());
    }
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let mut process = activated(&home)?;
    for_us_alone(&home).await?;
    // The daemon begins with the first of them.
    let mut wire = Wire::connect(&home).await?;
    wire.shake_hands().await?;
    let answer = until("it sits at the table", || async {
        let answer = wire_call(&home).await.ok()?;
        (answer["ok"] == true).then_some(answer)
    })
    .await;
    assert_eq!(answer["ok"], true);
    assert_eq!(http(&home, "GET", "/health", "").await?.status, 200);
    let status = home.status().await?;
    assert_eq!(
        status.sockets.mcp,
        home.socket("mcp.sock").display().to_string()
    );
    let stopped = home.ctl(&["stop"]).await?;
    assert!(stopped.status.success());
    let told = String::from_utf8(stopped.stderr)?;
    assert!(
        told.contains("systemd starts it again with the next client"),
        "{told}"
    );
    assert!(process.wait().await?.success());
    // They are systemd's, which goes on listening.
    assert!(home.socket("mcp.sock").exists() && home.socket("control.sock").exists());
    Ok(())
}

async fn wire_call(home: &Home) -> Result<serde_json::Value> {
    Ok(home.call("campaign_get", json!({})).await?.envelope)
}

#[tokio::test]
async fn sockets_that_others_can_reach_are_refused_with_the_mend() -> Result<()> {
    if !has("systemd-socket-activate") {
        return Ok(());
    }
    let home = Home::empty()?;
    let mut process = activated(&home)?;
    for_us_alone(&home).await?;
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(home.socket("control.sock"), open)?;
    let _wire = Wire::connect(&home).await?;
    assert_eq!(process.wait().await?.code(), Some(1));
    let log = std::fs::read_dir(home.state_dir().join("logs"))?
        .filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok())
        .collect::<String>();
    assert!(log.contains("SocketMode=0600"), "{log}");
    Ok(())
}

#[tokio::test]
async fn systemd_hears_when_the_sockets_serve_how_the_table_stands_and_of_the_end() -> Result<()> {
    let table = Table::builder().start().await?;
    let mut home = Home::at(&table, "dm")?;
    let systemd = Listening::at(&home)?;
    home.set("NOTIFY_SOCKET", &systemd.path.display().to_string());
    let daemon = home.start().await?;
    systemd.hears("READY=1").await;
    systemd.hears("STATUS=at ").await;
    let mut wire = Wire::connect(&home).await?;
    wire.shake_hands().await?;
    systemd.hears("; one client").await;
    // Nobody has asked for a watchdog.
    assert!(!systemd.heard().contains(&"WATCHDOG=1".to_owned()));
    assert!(daemon.stop().await?.success());
    systemd.hears("STOPPING=1").await;
    Ok(())
}

#[tokio::test]
async fn without_a_configuration_it_is_ready_all_the_same_and_the_status_line_tells_the_mend()
-> Result<()> {
    let mut home = Home::empty()?;
    let systemd = Listening::at(&home)?;
    home.set("NOTIFY_SOCKET", &systemd.path.display().to_string());
    let _daemon = home.start().await?;
    systemd.hears("READY=1").await;
    let status = systemd.hears("STATUS=configuration:").await;
    assert!(status.contains("cozyvttctl reload"), "{status}");
    Ok(())
}

#[tokio::test]
async fn the_watchdog_is_fed_as_long_as_clients_are_taken() -> Result<()> {
    let mut home = Home::empty()?;
    let systemd = Listening::at(&home)?;
    home.set("NOTIFY_SOCKET", &systemd.path.display().to_string());
    // Every 50 ms; the process's number is not known before it starts.
    home.set("WATCHDOG_USEC", "100000");
    let daemon = home.start().await?;
    let fed = || {
        let heard = systemd.heard();
        heard.iter().filter(|line| *line == "WATCHDOG=1").count()
    };
    until("it is fed several times", || async {
        (fed() > 3).then_some(())
    })
    .await;
    daemon.freeze().await?;
    let before = fed();
    // Whatever had been sent is heard by now: another datagram comes after it.
    UnixDatagram::unbound()?
        .send_to(b"AFTER=1", &systemd.path)
        .await?;
    systemd.hears("AFTER=1").await;
    assert!(fed() - before <= 1, "one may have been on its way");
    daemon.signal(Signal::CONT)?;
    let so_far = fed();
    until("it is fed again", || async {
        (fed() > so_far).then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn in_the_journal_lines_have_a_priority_and_no_time_and_there_is_no_file() -> Result<()> {
    let mut home = Home::empty()?;
    // Of stderr, as systemd tells it.
    std::fs::write(home.path().join("stderr"), "")?;
    let meta = home.path().join("stderr").metadata()?;
    let stream = {
        use std::os::linux::fs::MetadataExt as _;
        format!("{}:{}", meta.st_dev(), meta.st_ino())
    };
    home.set("JOURNAL_STREAM", &stream);
    let daemon = home.start().await?;
    assert!(daemon.stop().await?.success());
    let log = home.log();
    assert!(!log.is_empty());
    for line in log.lines() {
        assert!(line.starts_with("<6>") || line.starts_with("<3>"), "{line}");
    }
    assert!(log.contains("<6>cozyvttd::daemon: serving"), "{log}");
    assert!(!home.state_dir().join("logs").exists());
    Ok(())
}

/// The units in a folder, with programs that are there.
fn units(folder: &Path) -> Result<Vec<PathBuf>> {
    let daemon = binaries::daemon().display().to_string();
    let control = binaries::control().display().to_string();
    let mut units = Vec::new();
    for entry in std::fs::read_dir(UNITS)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        let text = std::fs::read_to_string(entry.path())?
            .replace("%h/.cargo/bin/cozyvttd", &daemon)
            .replace("%h/.cargo/bin/cozyvttctl", &control);
        std::fs::write(folder.join(&name), text)?;
        // Of a template, an instance is looked at.
        units.push(folder.join(name.replace('@', "@player-2")));
    }
    for unit in &units {
        let name = unit.file_name().and_then(|name| name.to_str());
        let template = name.unwrap_or_default().replace("@player-2", "@");
        if !unit.exists() {
            std::os::unix::fs::symlink(folder.join(template), unit)?;
        }
    }
    Ok(units)
}

#[tokio::test]
async fn systemd_finds_no_fault_with_any_unit() -> Result<()> {
    if !has("systemd-analyze") {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let runtime = tempfile::tempdir()?;
    let units = units(folder.path())?;
    assert_eq!(units.len(), 4, "{units:?}");
    let output = Command::new("systemd-analyze")
        .args(["--user", "verify"])
        .args(&units)
        .env("XDG_RUNTIME_DIR", runtime.path())
        .output()
        .await?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    // About units of the system's own it may say whatever it likes.
    let ours: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("cozyvtt"))
        .collect();
    assert!(ours.is_empty() && output.status.success(), "{told}");
    Ok(())
}

#[test]
fn what_the_units_promise_stands_in_them() -> Result<()> {
    let read = |name: &str| std::fs::read_to_string(Path::new(UNITS).join(name));
    for (socket, folder) in [("cozyvttd.socket", ""), ("cozyvttd@.socket", "%i/")] {
        let text = read(socket)?;
        for line in [
            format!("ListenStream=%t/cozyvtt/{folder}mcp.sock"),
            format!("ListenStream=%t/cozyvtt/{folder}control.sock"),
            "SocketMode=0600".to_owned(),
            "DirectoryMode=0700".to_owned(),
        ] {
            assert!(text.lines().any(|one| one == line), "{socket}: {line}");
        }
    }
    for service in ["cozyvttd.service", "cozyvttd@.service"] {
        let text = read(service)?;
        for line in ["Type=notify", "Restart=on-failure", "NoNewPrivileges=yes"] {
            assert!(text.lines().any(|one| one == line), "{service}: {line}");
        }
        assert!(text.contains("\n#LoadCredential=cozyvtt-password:"));
    }
    Ok(())
}
