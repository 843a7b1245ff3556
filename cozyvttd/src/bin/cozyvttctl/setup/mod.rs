//! `cozyvttctl setup`: from nothing to a table, step by step, each checked against the
//! server; and back.

mod answers;
mod record;
mod remove;
mod roll;
mod settings;
mod start;
mod table;
mod units;

use std::path::{Path, PathBuf};

use cozyvtt_proto::paths;
use cozyvtt_proto::profile::Profile;
use cozyvttd::config::{self, BaseUrl, Config, ConfigProblem};
use cozyvttd::session::access::Access;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::client_config::client::Client;
use crate::client_config::entry::{Entry as ClientEntry, Wishes};
use crate::client_config::file::{self, Change};
use crate::daemon::Daemon;
use crate::failure::{Exit, Failure};
use crate::reload::reload;
use crate::systemctl;
use crate::terminal::{GOOD, QUIET, Screen, remark};
use crate::text::{json_pretty, plain};
use answers::{Asking, Secret};
use record::Record;
use table::{Entry, Seat};

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
    let (seat, chosen) = sit(&args, &before, &place, asking, &mut steps, screen).await?;
    let written = settings::write(
        &config_file,
        &settings::Settings {
            url: chosen.url.to_string(),
            email: chosen.email,
            campaign: chosen.campaign,
            secret: &chosen.secret,
            ca_file: chosen.ca_file.as_deref(),
        },
    )?;
    let word = if written { "written" } else { "as it was" };
    let told = format!("The configuration is {word}: {}", config_file.display());
    steps.done(screen, &told)?;
    bring_up(&args, &place, &seat, written, daemon, &mut steps, screen).await?;
    drop(seat);
    let status = start::arrived(daemon).await?;
    let table = status.hops.iter().find(|hop| hop.name == "campaign");
    let table = table.map_or_else(String::new, |hop| plain(&hop.detail));
    steps.done(screen, &format!("The daemon sits at the table: {table}"))?;
    introduce(&args, &place, asking, &mut steps, screen)?;
    if !args.no_roll {
        let rolled = roll::roll(daemon).await?;
        steps.rolled = Some(rolled);
        steps.done(screen, &format!("A d20 at the table: {rolled}"))?;
    }
    steps.end(screen)
}

/// What was chosen.
struct Chosen {
    url: BaseUrl,
    email: String,
    secret: Secret,
    campaign: String,
    ca_file: Option<PathBuf>,
}

/// Asks, and checks each answer at the table.
async fn sit(
    args: &Args,
    before: &Config,
    place: &Place<'_>,
    asking: Asking,
    steps: &mut Steps,
    screen: &mut Screen,
) -> Result<(Seat, Chosen), Failure> {
    let known = before.settings.as_ref().ok();
    let ca_file = args.ca_file.as_ref().map(std::path::absolute).transpose();
    let ca_file = ca_file.map_err(|error| Failure::usage(format!("--ca-file: {error}")))?;
    let mut access = known.map_or_else(Access::default, |known| known.access.clone());
    if let Some(file) = &ca_file {
        access.ca_file = Some(file.clone());
    }
    let url = answers::url(args, before, asking)?;
    // Nothing secret is asked for before it is known who is there.
    let nobody = Secret::Text(SecretString::default());
    let seat = |secret: &Secret, email: &str| {
        Seat::take(
            url.clone(),
            email.to_owned(),
            secret,
            access.clone(),
            place.state_dir,
        )
    };
    seat(&nobody, "nobody")?.look().await?;
    steps.done(screen, &format!("A CozyVTT answers at {url}"))?;
    let email = answers::email(args, before, asking)?;
    let same =
        known.is_some_and(|known| known.url == url && known.email.eq_ignore_ascii_case(&email));
    let mut secret = answers::secret(args, before, same, asking)?;
    for attempt in 1.. {
        let seat = seat(&secret, &email)?;
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
                let campaigns = seat.campaigns().await?;
                let old = known.map(|known| known.campaign.as_str());
                let (campaign, told) = answers::campaign(args, old, &campaigns, asking)?;
                steps.done(screen, &format!("The campaign: {told}"))?;
                let chosen = Chosen {
                    url,
                    email,
                    secret,
                    campaign,
                    ca_file,
                };
                return Ok((seat, chosen));
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

/// Has the daemon run with the new configuration and the session of this setup.
async fn bring_up(
    args: &Args,
    place: &Place<'_>,
    seat: &Seat,
    changed: bool,
    daemon: &Daemon,
    steps: &mut Steps,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let mut record = Record::read(place.state_dir);
    let with_units = !args.no_units && place.usual_sockets && systemctl::manager_runs().await;
    if with_units {
        let new_units = units::write(place.profile, &mut record)?;
        record.write(place.state_dir)?;
        let active = units::is_active(place.profile).await;
        if new_units || !active {
            // It begins anew under systemd, with the session that was made here.
            units::halt(place.profile).await;
            start::stop(daemon).await?;
            seat.hand_over(place.state_dir)?;
            units::enable(place.profile).await?;
            let told = "systemd starts the daemon, now and with every session of yours";
            steps.done(screen, told)?;
            return Ok(());
        }
    }
    let runs = start::runs(daemon).await;
    if runs && !changed {
        return Ok(());
    }
    seat.hand_over(place.state_dir)?;
    if runs {
        reload(daemon).await?;
        steps.done(screen, "The daemon follows the new configuration")
    } else {
        start::spawn(place.profile, place.socket_dir, daemon).await?;
        steps.done(
            screen,
            "The daemon runs without systemd: cozyvtt-shim starts it whenever a client needs it",
        )
    }
}

/// Puts the shim into the clients, or prints what they need.
fn introduce(
    args: &Args,
    place: &Place<'_>,
    asking: Asking,
    steps: &mut Steps,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let clients = answers::clients(args, asking)?;
    if clients.is_empty() {
        steps.hint("`cozyvttctl client-config CLIENT` prints what an MCP client needs.");
        return Ok(());
    }
    let socket_dir = (!place.usual_sockets).then_some(place.socket_dir);
    let entry = ClientEntry::new(place.profile, socket_dir, &Wishes::default())?;
    let mut record = Record::read(place.state_dir);
    for client in clients {
        let path = client.file(&|name| std::env::var_os(name).map(PathBuf::from));
        let Some(path) = path.filter(|_| client.can_be_written()) else {
            let title = client.title();
            steps.show(screen, &format!("{title}:\n{}", entry.snippet(client)))?;
            continue;
        };
        let change = file::put(&path, client, &entry)?;
        record
            .clients
            .insert(path.clone(), client.name().to_owned());
        record
            .backups
            .extend(change.backup().map(Path::to_path_buf));
        record.write(place.state_dir)?;
        steps.done(
            screen,
            change
                .told(client, &path.display().to_string())
                .trim_end_matches('.'),
        )?;
        if matches!(change, Change::Written { .. }) {
            steps.hint(client.after());
        }
    }
    Ok(())
}

/// What was done, told as it is done.
struct Steps {
    json: bool,
    done: Vec<String>,
    snippets: Vec<String>,
    rolled: Option<i64>,
}

impl Steps {
    fn new(json: bool) -> Self {
        Self {
            json,
            done: Vec::new(),
            snippets: Vec::new(),
            rolled: None,
        }
    }

    fn done(&mut self, screen: &mut Screen, what: &str) -> Result<(), Failure> {
        if !self.json {
            let mark = screen.layout.pick("✓", "ok");
            let lines = screen
                .layout
                .narrower(mark.chars().count() + 1)
                .wrap(what, 0);
            let indent = " ".repeat(mark.chars().count());
            screen.lines(lines.iter().enumerate().map(|(number, line)| {
                if number == 0 {
                    format!("{GOOD}{mark}{GOOD:#} {line}")
                } else {
                    format!("{indent} {line}")
                }
            }))?;
        }
        self.done.push(what.to_owned());
        Ok(())
    }

    fn show(&mut self, screen: &mut Screen, text: &str) -> Result<(), Failure> {
        if !self.json {
            screen.lines(text.lines().map(|line| format!("{QUIET}  {line}{QUIET:#}")))?;
        }
        self.snippets.push(text.to_owned());
        Ok(())
    }

    fn hint(&self, text: &str) {
        if !self.json {
            remark(text);
        }
    }

    fn end(self, screen: &mut Screen) -> Result<Exit, Failure> {
        if self.json {
            let rolled = self.rolled.map_or(Value::Null, Value::from);
            let told = json!({"done": self.done, "snippets": self.snippets, "rolled": rolled});
            screen.line(&json_pretty(&told))?;
        } else {
            remark("Have a good evening. `cozyvttctl status` tells how everything is.");
        }
        Ok(Exit::Fine)
    }
}
