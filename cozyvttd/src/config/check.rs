//! What `cozyvttd --check-config` says: what a configuration comes to.

use std::fmt::Write as _;

use serde_json::json;

use super::{Config, Settings};

/// What the configuration comes to, for a person; nothing of it is secret.
///
/// # Errors
///
/// What is wrong with it, one sentence.
pub fn report(config: &Config) -> Result<String, String> {
    let settings = config.settings.as_ref().map_err(ToString::to_string)?;
    let mut report = if config.file.exists() {
        format!("{} is good.\n", config.file.display())
    } else {
        format!(
            "There is no {}; the environment says everything.\n",
            config.file.display()
        )
    };
    for (name, value) in rows(config, settings) {
        // Writing to a string cannot fail.
        let _ = writeln!(report, "  {name:<9} {value}");
    }
    Ok(report)
}

/// The same for a program, one line of JSON: `ok`, `file`, and either the values by the names
/// that a person sees or `error`.
pub fn as_json(config: &Config) -> String {
    let mut told =
        json!({"ok": config.settings.is_ok(), "file": config.file.display().to_string()});
    match &config.settings {
        Ok(settings) => {
            for (name, value) in rows(config, settings) {
                told[name] = value.into();
            }
        }
        Err(problem) => told["error"] = problem.to_string().into(),
    }
    format!("{told}\n")
}

fn rows(config: &Config, settings: &Settings) -> [(&'static str, String); 7] {
    let folders = |folders: &[std::path::PathBuf]| match folders {
        [] => "no folder".to_owned(),
        some => some
            .iter()
            .map(|folder| {
                let missing = if folder.is_dir() { "" } else { " (not there)" };
                format!("{}{missing}", folder.display())
            })
            .collect::<Vec<_>>()
            .join(", "),
    };
    let idle = match config.idle_exit_minutes {
        None => "never, or after 30 minutes where a shim has started it".to_owned(),
        Some(0) => "never".to_owned(),
        Some(1) => "after a minute without a client".to_owned(),
        Some(minutes) => format!("after {minutes} minutes without a client"),
    };
    [
        ("table", settings.url.to_string()),
        ("account", settings.email.clone()),
        ("password", settings.password.origin()),
        ("campaign", settings.campaign.as_str().to_owned()),
        ("uploads", format!("from {}", folders(&config.read_folders))),
        ("leaves", idle),
        ("denied", config.policy.summary()),
    ]
}
