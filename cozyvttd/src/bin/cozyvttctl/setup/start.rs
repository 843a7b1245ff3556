//! Brings the daemon up with the new configuration, and waits until it sits at the table.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cozyvtt_proto::control::{DaemonStatus, DaemonStop, HopState, NoParams, Status};
use cozyvtt_proto::profile::Profile;
use tokio::process::Command;
use tokio::time::sleep;

use super::record::Record;
use super::steps::Steps;
use super::table::Seat;
use super::{Args, Place, units};
use crate::daemon::{Daemon, PROMPT};
use crate::failure::Failure;
use crate::programs::{self, DAEMON};
use crate::reload::reload;
use crate::systemctl;
use crate::terminal::Screen;

/// How long the daemon may take to serve, and to leave.
const PATIENCE: Duration = Duration::from_secs(40);

/// How long it may take to get to the table.
const WAY: Duration = Duration::from_secs(30);

const LOOK: Duration = Duration::from_millis(50);

/// Variables by which the daemon of this shell would be another one than that of systemd.
const OF_THIS_SHELL: [&str; 2] = ["COZYVTT_CONFIG", "COZYVTT_STATE_DIR"];

/// Has the daemon run with the new configuration and the session of this setup.
///
/// # Errors
///
/// The units cannot be written, or the daemon does not start.
pub(super) async fn bring_up(
    args: &Args,
    place: &Place<'_>,
    seat: &Seat,
    changed: bool,
    daemon: &Daemon,
    steps: &mut Steps,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let wanted = !args.no_units && place.usual_sockets && systemctl::manager_runs().await;
    let own = OF_THIS_SHELL
        .iter()
        .find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
        .filter(|_| wanted);
    if let Some(name) = own {
        steps.hint(&format!(
            "{name} is set in this shell, and systemd does not know it: the daemon is started without systemd."
        ));
    } else if wanted {
        let mut record = Record::read(place.state_dir);
        let new_units = units::write(place.profile, &mut record)?;
        record.enabled = true;
        record.write(place.state_dir)?;
        if new_units || !units::is_active(place.profile).await {
            // It begins anew under systemd, with the session that was made here.
            units::halt(place.profile).await;
            stop(daemon).await?;
            seat.hand_over(place.state_dir)?;
            units::enable(place.profile).await?;
            let told = "systemd starts the daemon, now and with every session of yours";
            return steps.done(screen, told);
        }
    }
    if !runs(daemon).await {
        seat.hand_over(place.state_dir)?;
        spawn(place.profile, place.socket_dir, daemon).await?;
        let told =
            "The daemon runs without systemd: cozyvtt-shim starts it whenever a client needs it";
        return steps.done(screen, told);
    }
    if changed || !is_fine(daemon).await {
        seat.hand_over(place.state_dir)?;
        reload(daemon).await?;
        let told = if changed {
            "The daemon follows the new configuration"
        } else {
            "The daemon has gone to the table anew"
        };
        return steps.done(screen, told);
    }
    Ok(())
}

/// Whether a daemon sits at its table.
async fn is_fine(daemon: &Daemon) -> bool {
    let status = daemon.try_ask::<DaemonStatus>(NoParams {}, PROMPT).await;
    status.is_ok_and(|status| status.hops.iter().all(|hop| hop.state == HopState::Ok))
}

/// Whether a daemon answers.
pub(super) async fn runs(daemon: &Daemon) -> bool {
    daemon
        .try_ask::<DaemonStatus>(NoParams {}, PROMPT)
        .await
        .is_ok()
}

/// Stops a daemon that runs, and waits until it has gone.
///
/// # Errors
///
/// It does not leave.
pub(super) async fn stop(daemon: &Daemon) -> Result<(), Failure> {
    if !runs(daemon).await {
        return Ok(());
    }
    daemon.ask::<DaemonStop>(NoParams {}, PROMPT).await?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if !runs(daemon).await {
            return Ok(());
        }
        sleep(LOOK).await;
    }
    Err(
        Failure::failed("cozyvttd was told to stop, but still answers")
            .advise("A call may take long to finish: wait, then run this again."),
    )
}

/// Starts the daemon without systemd, as the shim does: it leaves when it has had no client
/// for half an hour.
///
/// # Errors
///
/// There is no such program, or it says why it cannot serve.
pub(super) async fn spawn(
    profile: Option<&Profile>,
    socket_dir: &Path,
    daemon: &Daemon,
) -> Result<(), Failure> {
    let program = programs::find(DAEMON).ok_or_else(|| {
        Failure::failed("cozyvttd is neither beside cozyvttctl nor in PATH").advise(
            "Install it: `cargo install --path cozyvttd` in the source folder, or the package.",
        )
    })?;
    let failed = |error: std::io::Error| {
        Failure::failed(format!("{} cannot be started: {error}", program.display()))
    };
    let said = tempfile::NamedTempFile::new().map_err(failed)?;
    let stderr: File = said.reopen().map_err(failed)?;
    let mut command = Command::new(&program);
    command.arg("--spawned").arg("--socket-dir").arg(socket_dir);
    if let Some(profile) = profile {
        command.arg("--profile").arg(profile.as_str());
    }
    for name in [
        "COZYVTT_URL",
        "COZYVTT_EMAIL",
        "COZYVTT_PASSWORD",
        "COZYVTT_CAMPAIGN_ID",
    ] {
        // The file says it now.
        command.env_remove(name);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .current_dir("/")
        .spawn()
        .map_err(failed)?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if runs(daemon).await {
            return Ok(());
        }
        if let Some(status) = child.try_wait().map_err(failed)? {
            let said = std::fs::read_to_string(said.path()).unwrap_or_default();
            let last = said.lines().last().unwrap_or("it did not say why");
            return Err(Failure::failed(format!(
                "cozyvttd ended with {status}: {last}"
            )));
        }
        sleep(LOOK).await;
    }
    Err(Failure::failed("cozyvttd was started, and does not serve")
        .advise("Look at `cozyvttctl logs`."))
}

/// Waits until every hop to the table is fine.
///
/// # Errors
///
/// The hop that is not, and its mend.
pub(super) async fn arrived(daemon: &Daemon) -> Result<Status, Failure> {
    let deadline = Instant::now() + WAY;
    loop {
        let status = match daemon.try_ask::<DaemonStatus>(NoParams {}, PROMPT).await {
            Ok(status) => status,
            Err(error) if Instant::now() >= deadline => return Err(daemon.explain(error).await),
            // It was started just now.
            Err(_) => {
                sleep(LOOK).await;
                continue;
            }
        };
        let not_fine = status.hops.iter().find(|hop| hop.state != HopState::Ok);
        let Some(hop) = not_fine else {
            return Ok(status);
        };
        if Instant::now() >= deadline {
            let failure = Failure::failed(format!(
                "the daemon has not got to the table; {}: {}",
                hop.name, hop.detail
            ));
            return Err(match &hop.fix {
                Some(fix) => failure.advise(fix.clone()),
                None => failure.advise("See `cozyvttctl status`."),
            });
        }
        sleep(LOOK).await;
    }
}
