//! Reads the configuration again while the daemon runs, and says what follows from it.

use cozyvtt_proto::control::{Reloaded, Taken};

use crate::config::Origin;
use crate::hub::{Hub, Next};

/// Reads the configuration again. What clients may do, where documents may come from and
/// when the daemon leaves holds at once. Where the way to the table is another one, or a
/// table that is out of reach may be within it now, the run ends in order and another one
/// begins in its place: to the clients that is a restart.
///
/// # Errors
///
/// A sentence when the configuration cannot be used; everything stays as it was.
pub fn reload(hub: &Hub) -> Result<Reloaded, String> {
    // What another run is to begin with already is what this word changes.
    let pending = hub.pending();
    let begins_anew = pending.is_some();
    let present = pending.unwrap_or_else(|| hub.campaigns.config());
    let next = hub.source.read();
    if let Err(problem) = &next.settings
        && !(next.takes_offers() && present.takes_offers())
    {
        tracing::error!(%problem, "the configuration is no good; the old one stays");
        return Err(format!("{problem}; nothing was changed"));
    }
    let mut changed: Vec<String> = present
        .different_table(&next)
        .into_iter()
        .map(str::to_owned)
        .collect();
    let another_table = !changed.is_empty();
    let rules = present.different_rules(&next);
    changed.extend(rules.into_iter().map(str::to_owned));
    let taken = if another_table || begins_anew || (sits_nowhere(hub) && next.settings.is_ok()) {
        tracing::info!(?changed, "another run with the new configuration");
        let account = ["url", "email", "password", "the account"];
        hub.begin_anew(Next {
            config: next,
            by_word: changed.iter().any(|key| account.contains(&key.as_str())),
        });
        Taken::WithAnotherRun
    } else if changed.is_empty() {
        Taken::Unchanged
    } else {
        tracing::info!(?changed, "the new configuration holds");
        hub.follow(next);
        Taken::AtOnce
    };
    Ok(Reloaded { taken, changed })
}

/// Whether the table is out of reach for a reason that a person may have mended where no
/// change is to be seen: in a password's file, at the server, in a folder.
fn sits_nowhere(hub: &Hub) -> bool {
    hub.campaigns.main().map_or(true, |main| {
        let account = main.session.account();
        account.settings().origin == Origin::Configured && account.login().is_held_up()
    })
}
