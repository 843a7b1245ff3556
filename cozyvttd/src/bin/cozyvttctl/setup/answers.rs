//! What setup has to know, from flags, from what is configured already, or from the person.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use clap::ValueEnum as _;
use cozyvttd::config::password::Password;
use cozyvttd::config::{BaseUrl, Config};
use inquire::{InquireError, MultiSelect, Password as Hidden, PasswordDisplayMode, Select, Text};
use secrecy::SecretString;
use serde_json::Value;

use super::Args;
use crate::client_config::client::Client;
use crate::failure::Failure;
use crate::text::plain;

/// Where the password stands from now on.
#[derive(Debug, Clone)]
pub(super) enum Secret {
    /// As it is configured already.
    AsBefore(Password),
    /// In the configuration itself.
    Text(SecretString),
    /// In this file.
    File(PathBuf),
    /// What this program writes.
    Command(Vec<String>),
}

impl Secret {
    /// The password itself, or how to come by it.
    ///
    /// # Errors
    ///
    /// Its file cannot be used.
    pub(super) fn password(&self) -> Result<Password, Failure> {
        match self {
            Self::AsBefore(password) => Ok(password.clone()),
            Self::Text(text) => Ok(Password::from(text.clone())),
            Self::File(path) => Password::in_file(path.clone())
                .map_err(|error| Failure::failed(format!("{error}; nothing was changed"))),
            Self::Command(argv) => Ok(Password::from_command(argv.clone())),
        }
    }
}

/// Whether somebody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asking(bool);

impl Asking {
    /// By a terminal and the flags.
    ///
    /// # Errors
    ///
    /// Nobody can be asked, and nobody has said that nothing is to be asked.
    pub(super) fn of(args: &Args) -> Result<Self, Failure> {
        let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if !terminal && !args.yes {
            return Err(
                Failure::usage("setup asks questions, and this is no terminal").advise(
                    "Give the answers as flags, with --yes: `cozyvttctl setup --help` shows them.",
                ),
            );
        }
        Ok(Self(terminal && !args.yes))
    }

    pub(super) fn can(self) -> bool {
        self.0
    }
}

/// All that is missing where nobody can be asked, in one sentence.
pub(super) fn complete(args: &Args, before: &Config) -> Result<(), Failure> {
    let given =
        args.password_stdin || args.password_file.is_some() || args.password_command.is_some();
    // A known password is that of the known account.
    let email = args.email.as_ref().or(before.email.as_ref());
    let same = email
        .zip(before.email.as_ref())
        .is_some_and(|(new, known)| new.eq_ignore_ascii_case(known));
    let missing: Vec<&str> = [
        ("--url", args.url.is_some() || before.url.is_some()),
        ("--email", email.is_some()),
        (
            "--password-stdin, --password-file or --password-command",
            given || (same && before.password.is_some()),
        ),
    ]
    .into_iter()
    .filter(|(_, given)| !given)
    .map(|(flag, _)| flag)
    .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "with --yes nothing is asked, and this is missing: {}",
        missing.join("; ")
    ))
    .advise("--campaign can be left out where the account is in one campaign alone.")
    .advise("A password that systemd alone hands to the daemon has to be named here as well."))
}

/// The instance's address.
pub(super) fn url(args: &Args, before: &Config, asking: Asking) -> Result<BaseUrl, Failure> {
    let parse = |text: &str| BaseUrl::parse(text).map_err(|problem| problem.to_string());
    if let Some(url) = &args.url {
        return parse(url).map_err(Failure::usage);
    }
    let default = before.url.clone().unwrap_or_default();
    if !asking.can() {
        return parse(&default).map_err(Failure::usage);
    }
    let question = Text::new("The address of your CozyVTT, as in the browser:");
    let question = if default.is_empty() {
        question
    } else {
        question.with_default(&default)
    };
    let text = question
        .with_validator(move |text: &str| {
            Ok(match parse(text) {
                Ok(_) => inquire::validator::Validation::Valid,
                Err(problem) => inquire::validator::Validation::Invalid(problem.into()),
            })
        })
        .prompt()
        .map_err(left)?;
    BaseUrl::parse(&text).map_err(|problem| Failure::usage(problem.to_string()))
}

/// The account's address.
pub(super) fn email(args: &Args, before: &Config, asking: Asking) -> Result<String, Failure> {
    let known = before.email.clone();
    if let Some(email) = args
        .email
        .clone()
        .or_else(|| known.clone().filter(|_| !asking.can()))
    {
        return Ok(email);
    }
    let question = Text::new("The e-mail address of the account for your agents:");
    let known = known.unwrap_or_default();
    let question = if known.is_empty() {
        question
    } else {
        question.with_default(&known)
    };
    let text = question
        .with_validator(inquire::validator::ValueRequiredValidator::new(
            "an account has one",
        ))
        .prompt()
        .map_err(left)?;
    Ok(text.trim().to_owned())
}

/// The password: what a flag says, else that of the same account, else what is typed.
pub(super) fn secret(
    args: &Args,
    before: &Config,
    same_account: bool,
    asking: Asking,
) -> Result<Secret, Failure> {
    if let Some(path) = &args.password_file {
        let path = std::path::absolute(path)
            .map_err(|error| Failure::usage(format!("--password-file: {error}")))?;
        return Ok(Secret::File(path));
    }
    if let Some(command) = &args.password_command {
        let words = shlex::split(command).filter(|words| !words.is_empty());
        return words.map(Secret::Command).ok_or_else(|| {
            Failure::usage(
                "--password-command is no command: a quote in it is not closed, or it is empty",
            )
        });
    }
    if args.password_stdin {
        let mut text = String::new();
        std::io::stdin()
            .take(64 * 1024)
            .read_to_string(&mut text)
            .map_err(|error| Failure::failed(format!("the password cannot be read: {error}")))?;
        let line = text.lines().next().unwrap_or_default().to_owned();
        if line.is_empty() {
            return Err(Failure::usage("there is no password on standard input"));
        }
        return Ok(Secret::Text(line.into()));
    }
    match &before.password {
        Some(known) if same_account => Ok(Secret::AsBefore(known.clone())),
        _ if asking.can() => typed(),
        _ => Err(Failure::usage(
            "another account needs its password: --password-stdin, --password-file or --password-command",
        )),
    }
}

/// The password, typed unseen.
pub(super) fn typed() -> Result<Secret, Failure> {
    let text = Hidden::new("Its password:")
        .without_confirmation()
        .with_display_mode(PasswordDisplayMode::Hidden)
        .with_validator(inquire::validator::ValueRequiredValidator::new(
            "type it; it is not shown",
        ))
        .prompt()
        .map_err(left)?;
    Ok(Secret::Text(text.into()))
}

/// The code of the second factor, typed unseen; `None` where nobody can be asked.
pub(super) fn code(args: &Args, asking: Asking) -> Result<Option<SecretString>, Failure> {
    if let Some(code) = &args.code {
        return Ok(Some(code.clone().into()));
    }
    if !asking.can() {
        return Ok(None);
    }
    let text = Hidden::new("Code of the authenticator, or a backup code:")
        .without_confirmation()
        .with_display_mode(PasswordDisplayMode::Hidden)
        .prompt()
        .map_err(left)?;
    Ok(Some(text.into()))
}

/// A campaign that can be chosen.
struct Choice {
    id: String,
    told: String,
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.told)
    }
}

/// Which campaign to sit in; its id and what it is called.
pub(super) fn campaign(
    args: &Args,
    before: Option<&str>,
    campaigns: &[Value],
    asking: Asking,
) -> Result<(String, String), Failure> {
    let mut choices: Vec<Choice> = campaigns
        .iter()
        .filter_map(|campaign| {
            let name = plain(
                campaign["name"]
                    .as_str()
                    .unwrap_or("a campaign without a name"),
            );
            let role = plain(campaign["userRole"].as_str().unwrap_or("member"));
            let id = campaign["id"].as_str()?.to_owned();
            let told = format!("{name}, as {role} ({})", plain(&id));
            Some(Choice { id, told })
        })
        .collect();
    let listed = |choices: &[Choice]| {
        let all: Vec<&str> = choices.iter().map(|choice| choice.told.as_str()).collect();
        all.join("; ")
    };
    let wanted = args
        .campaign
        .as_deref()
        .or(before.filter(|_| !asking.can()));
    if let Some(wanted) = wanted {
        let found = choices.iter().find(|choice| choice.id == wanted);
        if let Some(found) = found {
            return Ok((found.id.clone(), found.told.clone()));
        }
        if args.campaign.is_some() {
            return Err(Failure::failed(format!(
                "the account is not in campaign {wanted:?}; it is in: {}",
                listed(&choices)
            ))
            .advise("Have the account invited, or give --campaign with one of these ids."));
        }
    }
    match choices.len() {
        0 => Err(Failure::failed("the account is in no campaign").advise(
            "Invite it to a campaign in CozyVTT's web page, accept that with the account, then run setup again.",
        )),
        1 => {
            let only = choices.remove(0);
            Ok((only.id, only.told))
        }
        _ if asking.can() => {
            let start = choices.iter().position(|choice| Some(choice.id.as_str()) == before);
            let chosen = Select::new("Which campaign do your agents play in?", choices)
                .with_starting_cursor(start.unwrap_or_default())
                .prompt()
                .map_err(left)?;
            Ok((chosen.id, chosen.told))
        }
        _ => Err(Failure::usage(format!(
            "the account is in several campaigns: {}",
            listed(&choices)
        ))
        .advise("Give --campaign with one of these ids.")),
    }
}

/// Which clients are to start the shim.
pub(super) fn clients(args: &Args, asking: Asking) -> Result<Vec<Client>, Failure> {
    if let Some(named) = &args.clients {
        return Ok(named.clone());
    }
    if !asking.can() {
        return Ok(Vec::new());
    }
    let all: Vec<&str> = Client::value_variants()
        .iter()
        .map(|client| client.title())
        .collect();
    let there: Vec<usize> = Client::value_variants()
        .iter()
        .enumerate()
        .filter(|(_, client)| client.can_be_written() && is_there(**client))
        .map(|(number, _)| number)
        .collect();
    let chosen = MultiSelect::new("Which of your MCP clients shall sit at the table?", all)
        .with_default(&there)
        .raw_prompt()
        .map_err(|error| {
            left_so(
                error,
                "The daemon is set up; `cozyvttctl client-config CLIENT` does the rest.",
            )
        })?;
    Ok(chosen
        .into_iter()
        .filter_map(|chosen| Client::value_variants().get(chosen.index).copied())
        .collect())
}

/// Whether a client seems to be installed: its file, or the folder of it, is there.
fn is_there(client: Client) -> bool {
    let file = client.file(&|name| std::env::var_os(name).map(PathBuf::from));
    file.is_some_and(|file| {
        let own_folder =
            client != Client::ClaudeCode && file.parent().is_some_and(std::path::Path::is_dir);
        file.exists() || own_folder
    })
}

/// The person has left before anything was written.
fn left(error: InquireError) -> Failure {
    left_so(
        error,
        "Nothing was changed; `cozyvttctl setup` begins anew.",
    )
}

/// The person has left, and this is how things are.
fn left_so(error: InquireError, so: &str) -> Failure {
    match error {
        InquireError::OperationCanceled | InquireError::OperationInterrupted => {
            Failure::failed("left by your word").advise(so)
        }
        error => Failure::failed(format!("cannot ask: {error}"))
            .advise("Give the answers as flags, with --yes."),
    }
}
