//! `cozyvttctl login`: sign in by hand, with a second factor where there is one.

use std::io::{self, IsTerminal};
use std::time::Duration;

use cozyvtt_proto::control::{AuthLogin, Code, LoginParams, LoginPhase, LoginReason, LoginStatus};
use serde_json::json;

use crate::daemon::Daemon;
use crate::failure::{Exit, Failure};
use crate::terminal::{GOOD, Screen, remark};
use crate::text::{json_pretty, plain};

/// How long one attempt may take: the password may have to be fetched, and the server
/// be asked twice.
const PATIENCE: Duration = Duration::from_secs(50);

/// Sign in now: after a refusal, a logout, or with a second factor
#[derive(Debug, clap::Args)]
#[command(after_help = "\
cozyvttd signs in by itself and tries a password that CozyVTT has refused never again. This command has \
it tried once more, by your word: after the account was mended at the table, after `cozyvttctl logout`, \
or when the account asks for a second factor. The password is that of the configuration; after a change \
of the configuration, say `cozyvttctl reload` instead.

A second factor (six digits of an authenticator, or a backup code) is asked for without being shown, or \
read from standard input when that is no terminal. The session then lasts for weeks.

CozyVTT locks an address out after five sign-ins in 15 minutes, and 1.1.2 counts good ones and second \
factors too. So nothing is sent when four have been, or while the server has asked to stay away.

Exit codes: 0 signed in, 1 not signed in, 3 the daemon cannot be reached.

Examples:
  cozyvttctl login
  cozyvttctl login --json | jq -r .state
  oathtool --totp -b @~/.totp | cozyvttctl login")]
pub(crate) struct Args {
    /// Print where the login stands as JSON: {"state": "signed_in", …}
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, daemon: &Daemon, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut standing = ask(daemon, None).await?;
    if standing.reason == Some(LoginReason::SecondFactor)
        && let Some(code) = code()?
    {
        standing = ask(daemon, Some(code)).await?;
    }
    let signed_in = standing.state == LoginPhase::SignedIn;
    if args.json {
        screen.line(&json_pretty(&json!(standing)))?;
        return Ok(if signed_in { Exit::Fine } else { Exit::Failed });
    }
    if !signed_in {
        return Err(refused(standing));
    }
    let account = plain(standing.account.as_deref().unwrap_or("an account"));
    screen.line(&format!("{GOOD}Signed in as {account}.{GOOD:#}"))?;
    if let Some(notice) = &standing.notice {
        remark(&plain(notice));
    }
    Ok(Exit::Fine)
}

async fn ask(daemon: &Daemon, code: Option<Code>) -> Result<LoginStatus, Failure> {
    daemon
        .ask::<AuthLogin>(LoginParams { code }, PATIENCE)
        .await
}

/// The code of the second factor: typed unseen, or piped in; `None` when there is none.
fn code() -> Result<Option<Code>, Failure> {
    let text = if io::stdin().is_terminal() {
        rpassword::prompt_password("Code of the authenticator, or a backup code: ")
    } else {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    };
    let text = text.map_err(|error| {
        Failure::failed(format!("the code cannot be read: {error}"))
            .advise("Run `cozyvttctl login` in a terminal, or pipe the code into it.")
    })?;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| Code::from(text.to_owned())))
}

fn refused(standing: LoginStatus) -> Failure {
    let failure = Failure::failed(standing.detail);
    let failure = match standing.wait_s {
        Some(seconds) => failure.advise(format!(
            "The next attempt is possible in {} min {} s; cozyvttd makes it by itself.",
            seconds / 60,
            seconds % 60
        )),
        None => failure,
    };
    match standing.reason {
        Some(LoginReason::SecondFactor) => failure.advise(
            "Run `cozyvttctl login` in a terminal and type the code, or pipe it in: \
             echo 123456 | cozyvttctl login",
        ),
        Some(LoginReason::Unreachable) => {
            failure.advise("Check that the server runs and that its address is right.")
        }
        // What mends it is a wait, as was said.
        _ if standing.wait_s.is_some() => failure,
        _ => match standing.fix {
            Some(fix) => failure.advise(fix),
            None => failure,
        },
    }
}
