//! `cozyvttctl setup`: from nothing to a table, step by step, each checked against the
//! server; and back.

mod answers;
mod clients;
mod record;
mod remove;
mod roll;
mod settings;
mod start;
mod steps;
mod table;
mod units;

use std::path::{Path, PathBuf};

use cozyvtt_proto::paths;
use cozyvtt_proto::profile::Profile;
use cozyvttd::config::{self, Config, ConfigProblem};
use secrecy::SecretString;

use crate::client_config::client::Client;
use crate::daemon::Daemon;
use crate::failure::{Exit, Failure};
use crate::terminal::Screen;
use crate::text::plain;
use answers::{Asking, Secret};
use record::Record;
use steps::Steps;
use table::{Entry, Seat};
pub(crate) use units::as_written as unit_as_written;

/// How often a password that CozyVTT rejects may be typed again; it locks an address out
/// after five.
const TRIES: usize = 3;

/// Set everything up: table, account, campaign, daemon, clients
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(after_help = "\
Asks for what it does not know, checks each answer against the server, writes the configuration, has \
systemd start the daemon (or starts it itself where no user manager runs), puts the shim into the clients \
that you choose, and rolls a d20 at the table. It signs in once; the daemon goes on with that session. Run \
again, it changes only what is asked: what is configured is the answer that is proposed.

--remove undoes it: the entries of clients, the units, the session, the configuration. What it leaves it \
names, the journal above all.

With --yes nothing is asked; what is missing is named in one sentence. A password is never an argument: other \
programs can see those.

Exit codes: 0 at the table (or removed), 1 a step did not work (the message says which, and what to do), 2 \
wrong usage or a missing answer.

Examples:
  cozyvttctl setup
  cozyvttctl --profile player setup
  pass show cozyvtt | cozyvttctl setup --yes --url https://table.example \\
      --email narrator@example.org --password-stdin --clients claude-code
  cozyvttctl setup --yes --campaign ID     sit in another campaign from now on
  cozyvttctl setup --remove")]
pub(crate) struct Args {
    /// The address of the CozyVTT, as in the browser
    #[arg(long)]
    url: Option<String>,

    /// The account's e-mail address
    #[arg(long)]
    email: Option<String>,

    /// Read the password from standard input, and keep it in the configuration
    #[arg(long, group = "password")]
    password_stdin: bool,

    /// The password is the first line of this file (chmod 600), and stays there
    #[arg(long, value_name = "FILE", group = "password")]
    password_file: Option<PathBuf>,

    /// The password is the first line that this program writes, such as "pass show cozyvtt"
    #[arg(long, value_name = "COMMAND", group = "password")]
    password_command: Option<String>,

    /// The code of a second factor, if the account has one
    #[arg(long)]
    code: Option<String>,

    /// The campaign, by its id
    #[arg(long, value_name = "ID")]
    campaign: Option<String>,

    /// Certificates (PEM) to trust besides the system's own
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// The clients to put the shim into (claude-code, claude-desktop, hermes; the lines for
    /// others are printed), separated by commas
    #[arg(long, value_name = "CLIENTS", value_enum, value_delimiter = ',')]
    clients: Option<Vec<Client>>,

    /// Leave systemd alone; cozyvtt-shim starts the daemon when it is needed
    #[arg(long)]
    no_units: bool,

    /// Do not roll at the end
    #[arg(long)]
    no_roll: bool,

    /// Ask nothing
    #[arg(long, short)]
    yes: bool,

    /// Undo what setup has done
    #[arg(long)]
    remove: bool,

    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Whose setup it is, and where things are.
pub(crate) struct Place<'a> {
    pub(crate) profile: Option<&'a Profile>,
    pub(crate) config_file: &'a Path,
    pub(crate) state_dir: &'a Path,
    pub(crate) socket_dir: &'a Path,
    /// Whether the sockets are where everybody looks for them.
    pub(crate) usual_sockets: bool,
}

pub(crate) async fn run(
    args: Args,
    profile: Option<&Profile>,
    (socket_dir, usual_sockets): (&Path, bool),
    daemon: &Daemon,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    let config_file = config::file(None, profile, &variable)
        .ok_or_else(|| Failure::failed("no home is known, and so no place for a configuration"))?;
    let state_dir = paths::state_dir(None, profile)
        .ok_or_else(|| Failure::failed("no home is known, and so no place for the state"))?;
    let place = Place {
        profile,
        config_file: &config_file,
        state_dir: &state_dir,
        socket_dir,
        usual_sockets,
    };
    if args.remove {
        return remove::run(&place, args.json, daemon, screen).await;
    }
    // The daemon that is to be set up has none of this shell's variables.
    let before = Config::resolve(Some(&config_file), profile, &|_| None);
    if let Err(
        problem @ (ConfigProblem::Unreadable { .. }
        | ConfigProblem::Malformed { .. }
        | ConfigProblem::NoSuchKey { .. }
        | ConfigProblem::NoSuchTool { .. }),
    ) = &before.settings
    {
        return Err(Failure::failed(format!("{problem}; nothing was changed"))
            .advise("Mend the file, or move it away, then run setup again."));
    }
    let asking = Asking::of(&args)?;
    if !asking.can() {
        answers::complete(&args, &before)?;
    }
    let mut steps = Steps::new(args.json);
    let seat = sit(&args, &before, &place, asking, &mut steps, screen).await?;
    let done = async {
        let told = answers::campaign(
            &args,
            before.campaign.as_deref(),
            &seat.campaigns().await?,
            asking,
        )?;
        establish(&args, &place, &seat, told, daemon, &mut steps, screen).await
    };
    if let Err(failure) = done.await {
        seat.keep(&place, daemon).await;
        return Err(failure);
    }
    drop(seat);
    let status = start::arrived(daemon).await?;
    let table = status.hops.iter().find(|hop| hop.name == "campaign");
    let table = table.map_or_else(String::new, |hop| plain(&hop.detail));
    steps.done(screen, &format!("The daemon sits at the table: {table}"))?;
    clients::introduce(&args, &place, asking, &mut steps, screen)?;
    if !args.no_roll {
        let rolled = roll::roll(daemon).await?;
        steps.rolled = Some(rolled);
        steps.done(screen, &format!("A d20 at the table: {rolled}"))?;
    }
    steps.end(screen)
}

/// Asks who is to sit where, and checks each answer at the table.
async fn sit(
    args: &Args,
    before: &Config,
    place: &Place<'_>,
    asking: Asking,
    steps: &mut Steps,
    screen: &mut Screen,
) -> Result<Seat, Failure> {
    let ca_file = args.ca_file.as_ref().map(std::path::absolute).transpose();
    let ca_file = ca_file.map_err(|error| Failure::usage(format!("--ca-file: {error}")))?;
    let mut access = before.access.clone().unwrap_or_default();
    if let Some(file) = &ca_file {
        access.ca_file = Some(file.clone());
    }
    let url = answers::url(args, before, asking)?;
    let seat = |secret: Secret, email: &str| {
        let chosen = table::Chosen {
            url: url.clone(),
            email: email.to_owned(),
            secret,
            ca_file: ca_file.clone(),
        };
        Seat::take(chosen, access.clone(), place.state_dir)
    };
    // Nothing secret is asked for before it is known who is there.
    let nobody = Secret::Text(SecretString::default());
    seat(nobody, "nobody")?.look().await?;
    steps.done(screen, &format!("A CozyVTT answers at {url}"))?;
    let email = answers::email(args, before, asking)?;
    let known = before.email.as_ref();
    let same = before
        .url
        .as_ref()
        .is_some_and(|known| *known == url.to_string())
        && known.is_some_and(|known| known.eq_ignore_ascii_case(&email));
    let mut secret = answers::secret(args, before, same, asking)?;
    for attempt in 1.. {
        let mut seat = seat(secret, &email)?;
        seat.is_new = !same;
        let mut entry = seat.enter(None).await?;
        if matches!(entry, Entry::SecondFactor) {
            let code = answers::code(args, asking)?.ok_or_else(|| {
                Failure::failed("the account asks for a second factor")
                    .advise("Give its code with --code, or run setup in a terminal.")
            })?;
            entry = seat.enter(Some(code)).await?;
        }
        match entry {
            Entry::In(name) => {
                steps.done(screen, &format!("Signed in as {}", plain(&name)))?;
                return Ok(seat);
            }
            Entry::SecondFactor => {
                return Err(
                    Failure::failed("the code was not taken; nothing was changed").advise(
                        "Codes change every 30 seconds: run setup again with the next one.",
                    ),
                );
            }
            Entry::Rejected(failure) if !asking.can() || attempt >= TRIES => return Err(failure),
            Entry::Rejected(failure) => {
                failure.report();
                secret = answers::typed()?;
            }
        }
    }
    Err(Failure::failed("nobody has signed in"))
}

/// Writes the configuration, and brings the daemon up with it.
async fn establish(
    args: &Args,
    place: &Place<'_>,
    seat: &Seat,
    (campaign, told): (String, String),
    daemon: &Daemon,
    steps: &mut Steps,
    screen: &mut Screen,
) -> Result<(), Failure> {
    steps.done(screen, &format!("The campaign: {told}"))?;
    let file = place.config_file;
    let written = settings::write(
        file,
        &settings::Settings {
            url: seat.chosen.url.to_string(),
            email: &seat.chosen.email,
            campaign: &campaign,
            secret: &seat.chosen.secret,
            ca_file: seat.chosen.ca_file.as_deref(),
        },
    )?;
    if written.is_change() {
        let mut record = Record::read(place.state_dir);
        record.configuration.take_in(&written);
        record.write(place.state_dir)?;
    }
    let word = if written.is_change() {
        "written"
    } else {
        "as it was"
    };
    let told = format!("The configuration is {word}: {}", file.display());
    steps.done(screen, &told)?;
    let changed = written.is_change();
    start::bring_up(args, place, seat, changed, daemon, steps, screen).await
}
