//! `cozyvttctl smoke`: a guarded check against a live CozyVTT instance.

mod attest;
mod compare;
mod ledger;
mod name;
mod plan;
mod report;
mod seat;
mod snapshot;
mod veil;
mod visit;
mod write;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use cozyvtt_proto::profile::Profile;
use cozyvttd::config::{Config, Settings};
use jiff::Timestamp;
use secrecy::ExposeSecret;
use tokio::time::Instant;

use crate::failure::{Exit, Failure};
use crate::terminal::{BAD, GOOD, Screen, remark};
use crate::text::{json_pretty, plain};
use attest::{Attested, Revision, Unattested, Version};
use ledger::Ledger;
use report::{Report, ReportFile, Server, Verdict, Who};
use seat::Seat;
use veil::Veil;

/// How long a run may take. The daemon's login never sends the password twice
/// within 180 s, so a run that ends before that sends it once.
const LIMIT: Duration = Duration::from_secs(150);

/// Check a live CozyVTT instance: sign in once, read everything twice, report what changed
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --write nothing is sent but one login, GET requests and, over the WebSocket, `authenticate` and \
`initiative.request_state`. (CozyVTT 1.1 itself writes a line into the chat when an account comes and \
goes.) The login counts: CozyVTT 1.1.2 takes five in 15 minutes from one address, good or bad.

The instance, the account and the campaign are those of cozyvttd's configuration. The running daemon is \
neither asked nor disturbed; of its files only the tally of sign-ins is, in which this one counts.

What runs at the instance is attested, never guessed: on the server, write a file
  {\"version\": \"1.5.3\", \"revision\": \"<40 hex digits>\", \"instance\": \"https://table.example\"}
and give the same version and revision here. Unless all three match, nothing is sent.

Exit codes: 0 every check passed, 1 a check failed, 2 the command line or what it names is wrong, and \
nothing was sent.

Examples:
  cozyvttctl smoke --dry-run
  cozyvttctl smoke --yes --deployed-version 1.5.3 \\
      --deployed-revision 0123456789abcdef0123456789abcdef01234567 --evidence evidence.json
  cozyvttctl smoke --yes … --write --i-know-this-writes --campaign-name \"The Hollow Bell\"
  cozyvttctl smoke --yes … --json | jq -r .verdict")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag that a person sets on purpose"
)]
pub(crate) struct Args {
    /// Really send something
    #[arg(long)]
    yes: bool,

    /// Print what would be sent; reads no configuration and opens no connection
    #[arg(long)]
    dry_run: bool,

    /// Also add one chat line and one roll, and look for them
    #[arg(long)]
    write: bool,

    /// Needed with --write: everybody at the table sees the line and the roll
    #[arg(long, requires = "write")]
    i_know_this_writes: bool,

    /// The campaign's exact name, needed with --write; asked for on a terminal
    #[arg(long, value_name = "NAME", requires = "write")]
    campaign_name: Option<String>,

    /// The version of CozyVTT that runs at the instance
    #[arg(long, value_name = "X.Y.Z")]
    deployed_version: Option<Version>,

    /// The commit that it was built from
    #[arg(long, value_name = "40 HEX")]
    deployed_revision: Option<Revision>,

    /// The file from the server that says the same
    #[arg(long, value_name = "FILE")]
    evidence: Option<PathBuf>,

    /// Where the report goes; a file that is there is not overwritten
    /// [default: cozyvtt-smoke-UTC-TIME.json]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// cozyvttd's configuration file [default: cozyvtt/config.toml in the XDG config folder]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the report, or with --dry-run the plan, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(
    args: Args,
    profile: Option<&Profile>,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    if args.dry_run {
        return dry_run(&args, screen);
    }
    consent(&args)?;
    let attested = Attested::check(
        args.deployed_version,
        args.deployed_revision.as_ref(),
        args.evidence.as_deref(),
    )
    .map_err(unattested)?;
    let config = Config::resolve(args.config.as_deref(), profile, &|name| {
        std::env::var(name).ok()
    });
    let mut settings = config.settings.map_err(|problem| {
        Failure::usage(problem.to_string())
            .advise("`smoke` uses the configuration of cozyvttd; nothing was sent.")
    })?;
    attested.is_about(&settings.url).map_err(unattested)?;
    let now = Timestamp::now();
    let path = args
        .report
        .clone()
        .unwrap_or_else(|| ReportFile::usual(now));
    let mut file = ReportFile::create(path.clone()).map_err(|error| {
        Failure::usage(format!(
            "the report {} cannot be made: {error}",
            path.display()
        ))
        .advise("Give another place with --report; nothing was sent.")
    })?;
    let password = settings.password.reveal().await.map_err(|error| {
        Failure::usage(error.to_string())
            .advise("`smoke` uses the configuration of cozyvttd; nothing was sent.")
    })?;
    let veil = Veil::over([settings.email.clone(), password.expose_secret().to_owned()]);
    // A program that gives it is not run again.
    settings.password = password.into();
    let report = first_report(&args, &settings, &attested, now);
    save(&mut file, &report, &veil)?;
    remark(
        "One password login follows. CozyVTT 1.1.2 counts every login, later ones every failed \
         one: five in 15 minutes from one address.",
    );
    let deadline = Instant::now() + LIMIT;
    let mut ledger = Ledger::new(report, veil, screen, args.json, deadline);
    let visited = match Seat::take(settings) {
        Ok(seat) => {
            let stamp = report::stamp(now);
            let visited = tokio::select! {
                visited = visit::visit(&seat, &args, attested.version, &stamp, &mut ledger) => visited,
                _ = tokio::signal::ctrl_c() => {
                    ledger.report.verdict = Verdict::Interrupted;
                    Ok(())
                }
            };
            seat.leave().await;
            visited
        }
        Err(failure) => Err(failure),
    };
    ledger.close();
    if ledger.report.verdict == Verdict::Unfinished && visited.is_ok() {
        ledger.report.verdict = if ledger.report.has_failed() {
            Verdict::Failed
        } else {
            Verdict::Passed
        };
    }
    save(&mut file, &ledger.report, &ledger.veil)?;
    let passed = ledger.report.verdict == Verdict::Passed;
    let exit = if passed { Exit::Fine } else { Exit::Failed };
    match visited.and_then(|()| conclude(&args, &mut ledger, &file)) {
        // A reader that has seen enough must not turn a failed check into a
        // success, nor a run that it has cut short.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(exit),
        other => other.map(|()| exit),
    }
}

/// What a person has to say before anything is sent.
fn consent(args: &Args) -> Result<(), Failure> {
    if !args.yes {
        return Err(Failure::usage(
            "`smoke` talks to a live CozyVTT instance, so it needs --yes; nothing was sent",
        )
        .advise(
            "It would sign in once with the configured account, read campaign, maps, tokens, chat, \
             roster, sessions, documents, saved rolls and initiative twice, compare the two, and \
             write a report. It would change nothing.",
        )
        .advise("`cozyvttctl smoke --dry-run` shows every step and what it sends.")
        .advise("`cozyvttctl smoke --help` tells what else is needed, and how to let it write."));
    }
    if args.write && !args.i_know_this_writes {
        return Err(Failure::usage(
            "--write adds a chat line and a roll that everybody at the table sees, so it needs \
             --i-know-this-writes as well; nothing was sent",
        ));
    }
    if args.write && args.campaign_name.is_none() && !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "--write needs the campaign's exact name with --campaign-name, since there is no \
             terminal to ask for it; nothing was sent",
        ));
    }
    Ok(())
}

fn unattested(why: Unattested) -> Failure {
    Failure::usage(format!("{why}; nothing was sent")).advise(
        "On the server, write {\"version\", \"revision\", \"instance\"} into a file, and give \
         the same with --deployed-version and --deployed-revision.",
    )
}

fn dry_run(args: &Args, screen: &mut Screen) -> Result<Exit, Failure> {
    if args.json {
        screen.line(&json_pretty(&plan::as_json(args.write)))?;
        return Ok(Exit::Fine);
    }
    screen.line(&format!(
        "A {} run would do this; now nothing is read and nothing is sent.",
        plan::mode(args.write)
    ))?;
    let mut number = 0;
    for (_, step) in plan::steps(args.write) {
        number += 1;
        screen.line(&format!("{number:>3}. {}", step.name))?;
        screen.lines(step.sends.iter().map(|send| format!("       {send}")))?;
    }
    Ok(Exit::Fine)
}

fn first_report(args: &Args, settings: &Settings, attested: &Attested, now: Timestamp) -> Report {
    Report {
        format: 1,
        cozyvttctl: crate::daemon::VERSION,
        attested: Server {
            instance: settings.url.to_string(),
            version: attested.version.to_string(),
            revision: attested.revision.to_string(),
            evidence: attested.evidence.display().to_string(),
        },
        mode: plan::mode(args.write),
        started: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        duration_ms: 0,
        table: Who {
            campaign_id: settings.campaign.to_string(),
            ..Who::default()
        },
        steps: Vec::new(),
        comparison: serde_json::Value::Null,
        verdict: Verdict::Unfinished,
    }
}

fn save(file: &mut ReportFile, report: &Report, veil: &Veil) -> Result<(), Failure> {
    file.write(&report.veiled(veil)).map_err(|error| {
        Failure::failed(format!(
            "the report {} cannot be written: {error}",
            file.path.display()
        ))
    })
}

/// Says what it came to.
fn conclude(args: &Args, ledger: &mut Ledger<'_>, file: &ReportFile) -> Result<(), Failure> {
    if args.json {
        let report = ledger.report.veiled(&ledger.veil);
        ledger.screen().line(&json_pretty(&report))?;
        return Ok(());
    }
    let (style, sentence) = match ledger.report.verdict {
        Verdict::Passed => (GOOD, "Every check passed."),
        Verdict::Interrupted => (BAD, "Interrupted."),
        Verdict::Failed | Verdict::Unfinished => (BAD, "A check failed."),
    };
    let place = plain(&file.path.display().to_string());
    ledger.screen().lines([
        String::new(),
        format!("{style}{sentence}{style:#} The report is in {place}"),
    ])?;
    Ok(())
}
