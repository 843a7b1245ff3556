//! How fast and how small the way to the table is: practice table, daemon and
//! shims as real processes on this machine, measured against the goals.
//!
//! `cargo bench -p cozyvtt-tests --bench speed`, with `-- --json` for programs.
//! Exit code 1 when a goal was missed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cozyvtt_proto::client::Client;
use cozyvtt_proto::control::{DaemonStatus, Hop, HopState, NoParams};
use cozyvtt_table::{Account, Table};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Goal: from the spawn of a shim to its answer to `initialize`, as the median.
const INIT_GOAL: Duration = Duration::from_millis(15);
/// Goal: resident memory of a shim after `initialize`, in KiB.
const MEMORY_GOAL_KIB: u64 = 4 * 1024;

/// Sessions that are opened before anything counts.
const WARM_UP_SPAWNS: usize = 3;
/// Sessions that count.
const SPAWNS: usize = 20;
/// Calls that are made before anything counts.
const WARM_UP_CALLS: usize = 20;
/// Calls that count. With the warm-up they stay below the daemon's budget of
/// 300 requests a minute, which would slow them down on purpose.
const CALLS: usize = 200;

/// How long the daemon may take to reach the table.
const START_LIMIT: Duration = Duration::from_secs(30);

fn main() -> Result<ExitCode> {
    let mut as_json = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--json" => as_json = true,
            // `cargo bench` says this to every bench program.
            "--bench" => {}
            other => bail!("unknown argument {other}; there is only --json"),
        }
    }
    let figures = measure()?;
    if as_json {
        println!("{:#}", figures.json());
    } else {
        println!("{}", figures.table());
    }
    Ok(if figures.all_held() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn measure() -> Result<Figures> {
    let programs = Programs::build()?;
    let runtime = Runtime::new()?;
    let table = runtime.block_on(Table::builder().api_limit(1_000_000).start())?;
    let (url, campaign) = (table.url(), table.campaign_id());
    let account = table.account("dm");
    let direct = runtime.block_on(Direct::sign_in(url, account, campaign))?;

    let dir = TempDir::new()?;
    let settings = [
        ("COZYVTT_URL", url),
        ("COZYVTT_EMAIL", &*account.email),
        ("COZYVTT_PASSWORD", &*account.password),
        ("COZYVTT_CAMPAIGN_ID", campaign),
    ];
    let daemon = Daemon::start(&programs.daemon, dir.path(), &settings, &runtime)?;

    let mut inits = Vec::new();
    let mut resident_kib = Vec::new();
    for round in 0..WARM_UP_SPAWNS + SPAWNS {
        let (shim, took) = Shim::start(&programs.shim, &daemon.sockets)?;
        if round >= WARM_UP_SPAWNS {
            inits.push(took);
            resident_kib.push(shim.resident_kib()?);
        }
    }

    let (mut client, _) = Shim::start(&programs.shim, &daemon.sockets)?;
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    let calls = timed_calls(|| client.map_list())?;
    let straight = timed_calls(|| runtime.block_on(direct.map_list()))?;

    drop(client);
    drop(daemon);
    runtime.block_on(table.stop());
    Ok(Figures {
        inits: Sorted::new(inits)?,
        resident_kib: resident_kib.into_iter().max().context("no shim ran")?,
        calls: Sorted::new(calls)?,
        straight: Sorted::new(straight)?,
    })
}

fn timed_calls(mut call: impl FnMut() -> Result<()>) -> Result<Vec<Duration>> {
    for _ in 0..WARM_UP_CALLS {
        call()?;
    }
    let timed = |_| {
        let start = Instant::now();
        call()?;
        Ok(start.elapsed())
    };
    (0..CALLS).map(timed).collect()
}

/// The binaries under test, as they would be shipped.
struct Programs {
    daemon: PathBuf,
    shim: PathBuf,
}

impl Programs {
    fn build() -> Result<Self> {
        let release = |package: &str| -> Result<PathBuf> {
            let program = escargot::CargoBuild::new()
                .release()
                .package(package)
                .bin(package)
                .run()
                .with_context(|| format!("building {package}"))?;
            Ok(program.path().to_path_buf())
        };
        Ok(Self {
            daemon: release("cozyvttd")?,
            shim: release("cozyvtt-shim")?,
        })
    }
}

/// A process that does not outlive its owner.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // Both fail only if it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running daemon that has reached the table.
struct Daemon {
    _process: Owned,
    sockets: PathBuf,
}

impl Daemon {
    fn start(
        program: &Path,
        dir: &Path,
        settings: &[(&str, &str)],
        runtime: &Runtime,
    ) -> Result<Self> {
        let sockets = dir.join("run");
        let log = dir.join("daemon.log");
        let process = Command::new(program)
            .arg("--socket-dir")
            .arg(&sockets)
            .arg("--state-dir")
            .arg(dir.join("state"))
            // No configuration of the person who runs this may leak in.
            .env_clear()
            .env("HOME", dir)
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let daemon = Self {
            _process: Owned(process),
            sockets,
        };
        if let Err(error) = runtime.block_on(ready(&daemon.sockets)) {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(error.context(format!("the daemon did not get ready; it said:\n{log}")));
        }
        Ok(daemon)
    }
}

/// Waits until every stage on the way to the table works.
async fn ready(sockets: &Path) -> Result<()> {
    let client = Client::new(sockets);
    let start = Instant::now();
    loop {
        let status = client
            .call::<DaemonStatus>(NoParams {}, START_LIMIT)
            .await
            .map(|status| status.hops);
        let works = |hop: &Hop| hop.state == HopState::Ok;
        match status {
            Ok(hops) if hops.iter().all(works) => return Ok(()),
            answer if start.elapsed() > START_LIMIT => bail!("still {answer:?}"),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// A shim whose session is initialized, seen from the client.
struct Shim {
    process: Owned,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last_id: u32,
}

impl Shim {
    /// Also tells how long it took from the spawn to the answer.
    fn start(program: &Path, sockets: &Path) -> Result<(Self, Duration)> {
        let start = Instant::now();
        let mut child = Command::new(program)
            .arg("--socket-dir")
            .arg(sockets)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut shim = Self {
            process: Owned(child),
            stdin,
            stdout: BufReader::new(stdout),
            last_id: 0,
        };
        shim.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "speed", "version": "1"},
            }),
        )?;
        Ok((shim, start.elapsed()))
    }

    fn say(&mut self, message: &Value) -> Result<()> {
        Ok(self.stdin.write_all(format!("{message}\n").as_bytes())?)
    }

    /// The result that `method` has; what else comes meanwhile is passed over.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            ensure!(self.stdout.read_line(&mut line)? > 0, "the shim has ended");
            let mut answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == id && answer.get("method").is_none() {
                ensure!(answer.get("result").is_some(), "{method}: {answer}");
                return Ok(answer["result"].take());
            }
        }
    }

    fn map_list(&mut self) -> Result<()> {
        let params = json!({"name": "map_list", "arguments": {}});
        let result = self.ask("tools/call", &params)?;
        // A call that failed is fast, and says nothing.
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let envelope: Value = serde_json::from_str(text).unwrap_or_default();
        ensure!(
            result["isError"] != true && envelope["ok"] == true,
            "map_list: {result}"
        );
        Ok(())
    }

    fn resident_kib(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id()))?;
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"))
            .context("no VmRSS in /proc")?;
        Ok(resident.trim().parse()?)
    }
}

/// The same request without us: one kept connection to the table.
struct Direct {
    http: reqwest::Client,
    cookie: String,
    maps: String,
}

impl Direct {
    async fn sign_in(url: &str, account: &Account, campaign: &str) -> Result<Self> {
        // The client wants to know its TLS library even where it needs none.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build()?;
        let answer = http
            .post(format!("{url}/api/auth/login"))
            .json(&json!({"email": account.email, "password": account.password}))
            .send()
            .await?
            .error_for_status()?;
        let cookie = answer
            .headers()
            .get("set-cookie")
            .context("no session cookie")?
            .to_str()?;
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(Self {
            http,
            cookie,
            maps: format!("{url}/api/campaigns/{campaign}/maps"),
        })
    }

    async fn map_list(&self) -> Result<()> {
        let request = self.http.get(&self.maps).header("cookie", &self.cookie);
        let answer = request.send().await?.error_for_status()?;
        let maps: Value = answer.json().await?;
        ensure!(maps["maps"].is_array(), "{maps}");
        Ok(())
    }
}

/// Samples, shortest first; at least one.
struct Sorted(Vec<Duration>);

impl Sorted {
    fn new(mut samples: Vec<Duration>) -> Result<Self> {
        ensure!(!samples.is_empty(), "nothing was measured");
        samples.sort_unstable();
        Ok(Self(samples))
    }

    /// The sample that `percent` of a hundred do not exceed.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0[rank.saturating_sub(1)]
    }
}

/// What was measured.
struct Figures {
    inits: Sorted,
    resident_kib: u64,
    calls: Sorted,
    straight: Sorted,
}

impl Figures {
    fn init_held(&self) -> bool {
        self.inits.percentile(50) < INIT_GOAL
    }

    fn memory_held(&self) -> bool {
        self.resident_kib < MEMORY_GOAL_KIB
    }

    fn all_held(&self) -> bool {
        self.init_held() && self.memory_held()
    }

    fn json(&self) -> Value {
        let both = |samples: &Sorted| {
            json!({
                "calls": samples.0.len(),
                "p50_ms": ms(samples.percentile(50)),
                "p99_ms": ms(samples.percentile(99)),
            })
        };
        json!({
            "init": {
                "spawns": self.inits.0.len(),
                "median_ms": ms(self.inits.percentile(50)),
                "max_ms": ms(self.inits.percentile(100)),
                "goal_ms": ms(INIT_GOAL),
                "held": self.init_held(),
            },
            "shim_memory": {
                "max_kib": self.resident_kib,
                "goal_kib": MEMORY_GOAL_KIB,
                "held": self.memory_held(),
            },
            "map_list_through_daemon": both(&self.calls),
            "map_list_straight_to_table": both(&self.straight),
            "held": self.all_held(),
        })
    }

    fn table(&self) -> String {
        let verdict = |held| if held { "held" } else { "MISSED" };
        let init = self.inits.percentile(50);
        let spawns = self.inits.0.len();
        let rows = [
            ["measured", "median", "99 %", "goal", "verdict"].map(str::to_owned),
            [
                format!("spawn of the shim to initialize ({spawns})"),
                shown(init),
                String::new(),
                format!("< {}", shown(INIT_GOAL)),
                verdict(self.init_held()).to_owned(),
            ],
            [
                format!("memory of a shim, largest of {spawns}"),
                format!("{} KiB", self.resident_kib),
                String::new(),
                format!("< {MEMORY_GOAL_KIB} KiB"),
                verdict(self.memory_held()).to_owned(),
            ],
            Self::call_row("map_list, shim and daemon", &self.calls),
            Self::call_row("map_list, straight to the table", &self.straight),
        ];
        let lines = rows.map(|[what, median, high, goal, verdict]| {
            let line = format!("{what:<38}{median:>10}{high:>10}{goal:>13}  {verdict}");
            line.trim_end().to_owned()
        });
        lines.join("\n")
    }

    fn call_row(what: &str, samples: &Sorted) -> [String; 5] {
        [
            format!("{what} ({})", samples.0.len()),
            shown(samples.percentile(50)),
            shown(samples.percentile(99)),
            String::new(),
            String::new(),
        ]
    }
}

/// In milliseconds, to the microsecond.
fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn shown(duration: Duration) -> String {
    format!("{:.2} ms", ms(duration))
}
