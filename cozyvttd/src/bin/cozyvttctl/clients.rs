//! `cozyvttctl clients`: who plays along.

use cozyvtt_proto::control::{ClientInfo, ClientList, ClientState, Clients, NoParams};
use textwrap::core::display_width;

use crate::daemon::{Daemon, PROMPT};
use crate::failure::{Exit, Failure};
use crate::terminal::{BAD, CARE, GOOD, Layout, QUIET, STRONG, Screen, remark};
use crate::text::{cut, json_pretty, pad, plain};

/// Widest column of a name with its version, in columns of the terminal.
const NAME: usize = 28;

/// List the MCP clients: who they are, what they do, and whether they are held
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A client's name is its own word. `state` is `active`, `held` (its writes are refused) or `sent away` (all its \
calls are); `waiting` is how many of its calls are not answered yet. The number or the name is what `hold`, \
`release`, `kick` and `tell` take.

Examples:
  cozyvttctl clients
  cozyvttctl clients --json | jq '.clients[] | select(.waiting > 0)'")]
pub(crate) struct Args {
    /// Print them as JSON: {"clients": [...], "all_held": false}
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, daemon: &Daemon, screen: &mut Screen) -> Result<Exit, Failure> {
    let there = daemon.ask::<ClientList>(NoParams {}, PROMPT).await?;
    if args.json {
        screen.line(&json_pretty(&there))?;
        return Ok(Exit::Fine);
    }
    show(&there, screen)?;
    Ok(Exit::Fine)
}

fn show(there: &Clients, screen: &mut Screen) -> Result<(), Failure> {
    if there.clients.is_empty() {
        remark("No client is connected.");
    } else {
        screen.lines(table(&there.clients, screen.layout))?;
    }
    if there.all_held {
        remark("Whoever connects now is held as well; `cozyvttctl release` ends that.");
    }
    Ok(())
}

/// What people call a client.
pub(crate) fn label(client: &ClientInfo) -> String {
    match &client.name {
        Some(name) => plain(name),
        None => "(unnamed)".to_owned(),
    }
}

/// How it stands with the person in charge.
pub(crate) fn state(client: &ClientInfo) -> &'static str {
    match client.state {
        ClientState::Active => "active",
        ClientState::Held => "held",
        ClientState::SentAway => "sent away",
        ClientState::Unknown => "?",
    }
}

/// A span in the largest unit that says enough.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

fn table(clients: &[ClientInfo], layout: Layout) -> Vec<String> {
    let head = [
        "#",
        "client",
        "pid",
        "state",
        "calls",
        "waiting",
        "last call",
    ];
    let rows: Vec<[String; 7]> = clients
        .iter()
        .map(|client| {
            let mut name = label(client);
            if let Some(version) = &client.version {
                name = format!("{name} {}", plain(version));
            }
            [
                client.number.to_string(),
                cut(&name, NAME, layout.ellipsis()),
                client
                    .pid
                    .map_or_else(|| "?".to_owned(), |pid| pid.to_string()),
                state(client).to_owned(),
                client.calls.to_string(),
                client.waiting.to_string(),
                client.last_call.as_ref().map_or_else(
                    || "none".to_owned(),
                    |call| format!("{}, {} ago", plain(&call.tool), span(call.ago_s)),
                ),
            ]
        })
        .collect();
    let mut widths = head.map(display_width);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = display_width(cell).max(*width);
        }
    }
    let before: usize = widths[..6].iter().map(|width| width + 2).sum();
    let last = layout
        .width
        .map(|width| width.saturating_sub(before).max(8));
    let mut lines = vec![{
        let cells: Vec<_> = head
            .iter()
            .zip(widths)
            .map(|(cell, width)| pad(cell, width))
            .collect();
        format!("{QUIET}{}{QUIET:#}", cells.join("  ").trim_end())
    }];
    for (client, row) in clients.iter().zip(&rows) {
        let [number, name, pid, state, calls, waiting, call] = row;
        let style = match client.state {
            ClientState::Active => GOOD,
            ClientState::Held | ClientState::Unknown => CARE,
            ClientState::SentAway => BAD,
        };
        let call = last.map_or_else(|| call.clone(), |width| cut(call, width, layout.ellipsis()));
        lines.push(format!(
            "{}  {STRONG}{}{STRONG:#}  {}  {style}{}{style:#}  {}  {}  {call}",
            pad(number, widths[0]),
            pad(name, widths[1]),
            pad(pid, widths[2]),
            pad(state, widths[3]),
            pad(calls, widths[4]),
            pad(waiting, widths[5]),
        ));
        if let Some(wishes) = wishes(client) {
            let indent = widths[0] + 2;
            for line in layout.narrower(indent).wrap(&wishes, 0) {
                lines.push(format!("{:indent$}{QUIET}{line}{QUIET:#}", ""));
            }
        }
    }
    lines
}

/// What a client has asked for, where that is not the usual.
fn wishes(client: &ClientInfo) -> Option<String> {
    let mut wishes = Vec::new();
    if !client.toolsets.is_empty() {
        wishes.push(format!("tools: {}", plain(&client.toolsets.join(", "))));
    }
    if client.read_only {
        wishes.push("reads only".to_owned());
    }
    if let Some(campaign) = &client.campaign {
        wishes.push(format!("campaign {}", plain(campaign)));
    }
    (!wishes.is_empty()).then(|| wishes.join("; "))
}

#[cfg(test)]
mod tests {
    use cozyvtt_proto::control::LastCall;

    use super::*;

    fn client(name: &str) -> ClientInfo {
        ClientInfo {
            number: 1,
            name: Some(name.to_owned()),
            version: Some("2.1".to_owned()),
            pid: Some(4_194_304),
            toolsets: vec!["play".to_owned(), "docs".to_owned()],
            read_only: true,
            campaign: None,
            connected_s: 9,
            calls: 12,
            last_call: Some(LastCall {
                tool: "character_hitdice_spend".to_owned(),
                ago_s: 125,
            }),
            waiting: 2,
            state: ClientState::Held,
        }
    }

    fn shown(clients: &[ClientInfo], width: usize) -> Vec<String> {
        table(clients, Layout::test(width))
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string())
            .collect()
    }

    #[test]
    fn a_client_is_a_line_and_its_choice_of_tools_another() {
        assert_eq!(
            shown(&[client("Agent")], 100),
            [
                "#  client     pid      state  calls  waiting  last call",
                "1  Agent 2.1  4194304  held   12     2        character_hitdice_spend, 2 min ago",
                "   tools: play, docs; reads only",
            ]
        );
    }

    #[test]
    fn no_line_is_wider_than_80_columns_whatever_the_client_calls_itself() {
        let clients = [client(&"long name ".repeat(20)), client("\u{1b}[31mred")];
        for line in shown(&clients, 80) {
            assert!(display_width(&line) <= 80, "{line}");
            assert!(!line.contains('\u{1b}'), "{line}");
        }
    }

    #[test]
    fn a_client_that_said_nothing_yet_is_listed_all_the_same() {
        let mut silent = client("x");
        (silent.name, silent.version, silent.pid, silent.last_call) = (None, None, None, None);
        silent.toolsets.clear();
        silent.read_only = false;
        let lines = shown(&[silent], 80);
        assert!(
            lines[1].contains("(unnamed)") && lines[1].ends_with("none"),
            "{lines:?}"
        );
    }
}
