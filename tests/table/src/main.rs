//! Runs the stand-in table alone, until it is told to stop.

use anyhow::Context as _;
use clap::Parser;
use cozyvtt_table::{Table, Version};
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

/// An in-memory stand-in for a CozyVTT server, for practice and for tests.
///
/// It listens on loopback only, keeps nothing, and prints one line of JSON once
/// it serves: its address, the accounts that can sign in, and the campaign they
/// sit at. SIGINT or SIGTERM ends it.
#[derive(Debug, Parser)]
#[command(name = "cozyvtt-table", version, max_term_width = 100)]
struct Args {
    /// The port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// The CozyVTT release to behave like: 1.1.2 or 1.5
    #[arg(long, value_name = "VERSION", default_value = "1.5")]
    server_version: Version,

    /// Serve HTTPS with a certificate authority of its own (`ca_file` in the output)
    #[arg(long)]
    tls: bool,

    /// Serve below this path, as behind a reverse proxy
    #[arg(long, value_name = "PATH", default_value = "")]
    base_path: String,

    /// Seed of the dice and the ids; two runs with one seed are alike
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Sign-ins allowed in 15 minutes (the real server allows 5)
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    login_limit: u32,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let table = Table::builder()
        .version(args.server_version)
        .seed(args.seed)
        .port(args.port)
        .base_path(&args.base_path)
        .tls(args.tls)
        .login_limit(args.login_limit)
        .start()
        .await?;
    println!("{}", description(&table));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    table.stop().await;
    Ok(())
}

/// What a client has to know.
fn description(table: &Table) -> Value {
    let accounts: Map<String, Value> = table
        .accounts()
        .iter()
        .map(|(key, account)| {
            let row = json!({
                "email": account.email,
                "password": account.password,
                "user_id": account.user_id,
                "display_name": account.display_name,
            });
            (key.clone(), row)
        })
        .collect();
    let mut line = json!({
        "url": table.url(),
        "version": table.version().to_string(),
        "accounts": accounts,
        "campaign_id": table.campaign_id(),
    });
    if let Some(file) = table.ca_file() {
        line["ca_file"] = json!(file);
    }
    line
}
