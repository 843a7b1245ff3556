//! `cozyvttctl man` and `cozyvttctl completions`: what shells and manuals want to know of
//! the three programs, out of the same words as `--help`.

use std::path::PathBuf;

use clap::{Command, CommandFactory as _, ValueEnum};
use clap_complete::Shell;
use serde_json::json;

use crate::Cli;
use crate::failure::{Exit, Failure};
use crate::programs::{DAEMON, SHIM};
use crate::terminal::{Screen, remark};
use crate::text::json_line;

/// Print the completions of a shell for one of the three programs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cozyvttctl completions bash > ~/.local/share/bash-completion/completions/cozyvttctl
  cozyvttctl completions zsh > ~/.zfunc/_cozyvttctl
  cozyvttctl completions fish > ~/.config/fish/completions/cozyvttctl.fish
  cozyvttctl completions bash --program cozyvttd")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,

    /// The program whose flags are completed
    #[arg(long, value_enum, default_value_t = Program::Cozyvttctl)]
    program: Program,

    /// Print the script as JSON
    #[arg(long)]
    json: bool,
}

/// Print a manual page, or write all of them into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cozyvttctl man | man -l -
  cozyvttctl man cozyvttd | man -l -
  cozyvttctl man --dir ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The program whose page is printed
    #[arg(value_enum, default_value_t = Program::Cozyvttctl)]
    program: Program,

    /// Write the pages of all programs and commands into this folder instead; it is made
    #[arg(long, value_name = "DIR", conflicts_with = "program")]
    dir: Option<PathBuf>,

    /// Print the page, or the names of the files, as JSON
    #[arg(long)]
    json: bool,
}

/// One of the three programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Program {
    Cozyvttctl,
    Cozyvttd,
    CozyvttShim,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Cozyvttctl => "cozyvttctl",
            Self::Cozyvttd => DAEMON,
            Self::CozyvttShim => SHIM,
        }
    }

    fn command(self) -> Command {
        match self {
            Self::Cozyvttctl => Cli::command(),
            Self::Cozyvttd => cozyvttd::arguments::Arguments::command(),
            Self::CozyvttShim => cozyvtt_shim::arguments::Args::command(),
        }
    }
}

pub(crate) fn completions(args: &CompletionsArgs, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    let (mut command, name) = (args.program.command(), args.program.name());
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    let script = String::from_utf8_lossy(&script);
    if args.json {
        let shell = args.shell.to_string();
        let told = json!({"program": name, "shell": shell, "script": script});
        screen.line(&json_line(&told))?;
    } else {
        screen.line(script.trim_end())?;
    }
    Ok(Exit::Fine)
}

/// The files of a command's page and of those of its subcommands.
fn page_names(command: &Command, parent: &str, names: &mut Vec<String>) {
    let name = format!("{parent}{}", command.get_name());
    for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        page_names(subcommand, &format!("{name}-"), names);
    }
    names.push(format!("{name}.1"));
}

pub(crate) fn man(args: &ManArgs, screen: &mut Screen) -> Result<Exit, Failure> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(args.program.command()).render(&mut page)?;
        let page = String::from_utf8_lossy(&page);
        let told = json!({"program": args.program.name(), "page": page});
        let text = if args.json {
            json_line(&told)
        } else {
            page.trim_end().to_owned()
        };
        screen.line(&text)?;
        return Ok(Exit::Fine);
    };
    let unwritten = |error: std::io::Error| {
        Failure::failed(format!(
            "the pages cannot be written into {}: {error}",
            dir.display()
        ))
        .advise("Name a folder that you may write to; a page may have been written already.")
    };
    std::fs::create_dir_all(dir).map_err(unwritten)?;
    for program in Program::value_variants() {
        clap_mangen::generate_to(program.command(), dir).map_err(unwritten)?;
    }
    let mut names = Vec::new();
    for program in Program::value_variants() {
        page_names(&program.command(), "", &mut names);
    }
    let there = std::fs::read_dir(dir).map_err(unwritten)?;
    let (mut pages, mut old): (Vec<String>, Vec<String>) = there
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("cozyvtt") && name.ends_with(".1"))
        .partition(|name| names.contains(name));
    pages.sort_unstable();
    old.sort_unstable();
    if !old.is_empty() {
        remark(&format!(
            "Of commands that there are no more, and to be removed by you: {}.",
            old.join(", ")
        ));
    }
    if args.json {
        screen.line(&json_line(
            &json!({"dir": dir.display().to_string(), "pages": pages, "old": old}),
        ))?;
    } else {
        let dir = dir.display();
        screen.lines(pages.iter().map(|page| format!("{dir}/{page}")))?;
    }
    Ok(Exit::Fine)
}
