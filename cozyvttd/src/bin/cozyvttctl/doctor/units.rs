//! What systemd knows of the daemon, where a user manager runs.

use std::path::{Path, PathBuf};

use cozyvtt_proto::control::Hop;
use cozyvtt_proto::profile;

use super::{Patient, broken, hint, ok};
use crate::setup;
use crate::systemctl::{manager_runs, run, systemctl};

/// What systemd says of a unit.
struct Unit {
    name: String,
    shown: String,
}

impl Unit {
    async fn of(name: String) -> Self {
        let asked = [
            "show",
            "--property=LoadState,UnitFileState,ActiveState,FragmentPath,NeedDaemonReload,ExecStart",
            &name,
        ];
        let shown = systemctl(&asked).await.unwrap_or_default();
        Self { name, shown }
    }

    /// A property; empty where systemd does not say.
    fn says(&self, property: &str) -> &str {
        let mut lines = self.shown.lines();
        let value = lines.find_map(|line| line.strip_prefix(property)?.strip_prefix('='));
        value.unwrap_or_default()
    }

    /// The program that it starts: `{ path=/usr/bin/cozyvttd ; argv[]=…`.
    fn program(&self) -> Option<PathBuf> {
        let (_, rest) = self.says("ExecStart").split_once("path=")?;
        Some(rest.split(" ;").next()?.trim().into())
    }
}

/// The units, and whether they stay when the person logs out.
pub(super) async fn checks(patient: &Patient<'_>) -> Vec<Hop> {
    if !manager_runs().await {
        return vec![ok(
            "units",
            "no user manager of systemd runs here; cozyvtt-shim starts the daemon",
        )];
    }
    let service = Unit::of(profile::service(patient.profile)).await;
    let socket = Unit::of(profile::socket(patient.profile)).await;
    vec![units(&service, &socket), linger().await]
}

fn units(service: &Unit, socket: &Unit) -> Hop {
    let (name, active) = (&service.name, service.says("ActiveState"));
    let is_loaded = |unit: &Unit| unit.says("LoadState") == "loaded";
    let missing = service
        .program()
        .filter(|program| program.is_absolute() && !program.exists());
    if !is_loaded(service) {
        broken(
            "units",
            format!("systemd knows no {name}, so the daemon does not start with your session"),
            "run: cozyvttctl setup",
        )
    } else if let Some(program) = missing {
        broken(
            "units",
            format!("{name} starts {}, which is not there", program.display()),
            "run: cozyvttctl setup, which writes the unit anew, or install the program there",
        )
    } else if active == "failed" {
        broken(
            "units",
            format!("{name} has failed"),
            format!("see why with `cozyvttctl logs`, then: systemctl --user restart {name}"),
        )
    } else if !is_loaded(socket) {
        broken(
            "units",
            format!(
                "systemd knows no {}, without which {name} does not start",
                socket.name
            ),
            "run: cozyvttctl setup",
        )
    } else if socket.says("ActiveState") == "failed" {
        broken(
            "units",
            format!("{} has failed, so nobody listens for clients", socket.name),
            format!("run: systemctl --user restart {}", socket.name),
        )
    } else if socket.says("ActiveState") == "inactive" {
        broken(
            "units",
            format!(
                "{} does not listen, so no client finds the daemon",
                socket.name
            ),
            format!("run: systemctl --user enable --now {}", socket.name),
        )
    } else if service.says("NeedDaemonReload") == "yes" {
        hint(
            "units",
            format!("{name} was changed, and systemd has not read it again"),
            Some("run: systemctl --user daemon-reload"),
        )
    } else if let Some(old) = [service, socket].into_iter().find(|unit| is_old(unit)) {
        hint(
            "units",
            format!("{} is not as this version writes it", old.name),
            Some("if you have not changed it yourself: run: cozyvttctl setup"),
        )
    } else if service.says("UnitFileState") != "enabled" {
        hint(
            "units",
            format!("{name} is not enabled, so it does not start with your session"),
            Some("run: cozyvttctl setup"),
        )
    } else if active == "active" {
        ok("units", format!("{name} is enabled and active"))
    } else {
        hint(
            "units",
            format!("{name} is enabled and {active}; the next client starts it"),
            Some(&format!("to start it now: systemctl --user start {name}")),
        )
    }
}

/// Whether a unit that setup has written is of another version. One that came with a package
/// is as old as the programs.
fn is_old(unit: &Unit) -> bool {
    let file = Path::new(unit.says("FragmentPath"));
    setup::unit_as_written(file)
        .is_some_and(|text| std::fs::read_to_string(file).is_ok_and(|present| present != text))
}

async fn linger() -> Hop {
    let linger = run("loginctl", &["show-user", "--property=Linger", "--value"]).await;
    match linger.as_deref().map(str::trim) {
        Ok("yes") => ok("linger", "the daemon stays when you log out"),
        Ok("no") => hint(
            "linger",
            "the daemon ends when you log out",
            Some("if it shall stay: loginctl enable-linger"),
        ),
        _ => hint("linger", "loginctl does not say", None),
    }
}
