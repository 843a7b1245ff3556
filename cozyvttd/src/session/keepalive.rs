//! Keeps the session from running out: CozyVTT may end one after an hour without a
//! request, and the WebSocket counts for none.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::account::Account;
use super::live::jittered;
use super::rest::RestError;

/// How often the session is used at least.
const INTERVAL: Duration = Duration::from_secs(600);

/// How long a disk that took no cookies is left alone.
const UNWRITABLE: Duration = Duration::from_secs(60);

/// How often is looked whether the machine has slept.
const LOOK: Duration = Duration::from_secs(30);

/// Uses the session now and then, looks after it when the machine wakes, and keeps its
/// newest cookie on disk; until the session is drained.
pub(super) async fn run(account: Arc<Account>) {
    let clock = account.ground.clock.clone();
    let mut due = clock.after(jittered(INTERVAL));
    let mut writable = Instant::now();
    loop {
        let pause = clock.until(due).min(LOOK);
        tokio::select! {
            () = account.draining.cancelled() => return,
            () = account.cookies.changed(), if clock.until(writable).is_zero() => {
                if account.login.session().is_some() && !account.login.keep_cookies().await {
                    // A disk that takes nothing is not asked with every answer.
                    writable = clock.after(UNWRITABLE);
                }
                continue;
            }
            () = clock.sleep(pause) => {}
        }
        if account.login.is_due() {
            // Before anything else, and whether or not anybody asks for something.
            if let Err(error) = account.login.ensure().await {
                tracing::info!(%error, "no session");
            }
            // A look that found nothing out is not repeated at once.
            due = due.max(clock.after(LOOK));
        } else if clock.until(due).is_zero() {
            // From one to the next, however long this one takes.
            due = clock.after(jittered(INTERVAL));
            ping(&account).await;
        }
    }
}

async fn ping(account: &Account) {
    let Some(number) = account.login.session() else {
        return;
    };
    match account.rest.ping(&account.login).await {
        // Its cookie has a new date of expiry.
        Ok(()) => {
            account.login.keep_cookies().await;
        }
        Err(RestError::Http { status: 401, .. }) => {
            account.unauthorized();
            if let Err(error) = account.login.renew(number).await {
                tracing::warn!(%error, "the session has run out and could not be renewed");
            }
        }
        Err(error) => tracing::warn!(%error, "the session could not be kept alive"),
    }
}
