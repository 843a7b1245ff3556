//! The one login: what is sent, what is not, and what a restart remembers. The table's
//! own log is the witness.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_proto::control::{
    AuthLogin, AuthLogout, Code, HopState, LoginParams, LoginPhase, LoginReason, LoginStatus,
    NoParams,
};
use cozyvtt_table::{Exchange, Fault, Person, Reply, Role, Scene, Table, Version};
use cozyvtt_tests::asked::logins;
use cozyvtt_tests::calls::{data, event, failure, high_water, hop};
use cozyvtt_tests::daemon::{Daemon, Home};
use cozyvtt_tests::in_process::{InProcess, pass, patient_table};
use cozyvtt_tests::mounts;
use cozyvtt_tests::raw::{files_below, http};
use cozyvtt_tests::{PATIENCE, binaries, until};
use cozyvttd::session::rest::{Expect, Request, RestError};
use futures_util::future::{join_all, try_join_all};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

const LOGIN: &str = "/api/auth/login";
const CODE: &str = "/api/auth/mfa/verify-login";
const WHO: &str = "/api/auth/me";
const PING: &str = "/api/auth/ping";
const LOGOUT: &str = "/api/auth/logout";

/// Where the login stands.
async fn standing(home: &Home) -> Result<LoginStatus> {
    home.status().await?.login.context("no login")
}

/// Waits until the login is in a state.
async fn stands(home: &Home, phase: LoginPhase) -> LoginStatus {
    until(&format!("the login is {phase:?}"), || async {
        let standing = standing(home).await.ok()?;
        (standing.state == phase).then_some(standing)
    })
    .await
}

/// `auth.login` on the control socket.
async fn sign_in(home: &Home, code: Option<&str>) -> Result<LoginStatus> {
    let code = code.map(|code| Code::from(code.to_owned()));
    Ok(home
        .control()
        .call::<AuthLogin>(LoginParams { code }, PATIENCE)
        .await?)
}

/// Kills the daemon without a warning.
async fn kill(mut daemon: Daemon<'_>) -> Result<()> {
    daemon.signal(Signal::KILL)?;
    daemon.ended().await?;
    Ok(())
}

/// Runs `cozyvttctl` with `input` on its standard input.
async fn ctl(home: &Home, arguments: &[&str], input: &str) -> Result<Output> {
    let mut child = home
        .command(binaries::control())
        .arg("--socket-dir")
        .arg(home.socket_dir())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    // One that needs no code has left without reading it.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    timeout(PATIENCE, child.wait_with_output())
        .await
        .context("cozyvttctl did not end")?
        .context("running cozyvttctl")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asks for the maps within a session of this process.
async fn maps(client: &InProcess) -> Result<Value, RestError> {
    let request = Request::get(client.session.in_campaign(&["maps"]));
    client.session.request(&request, Expect::Has("maps")).await
}

fn maps_of(table: &Table) -> String {
    format!("/api/campaigns/{}/maps", table.campaign_id())
}

fn careful() -> Scene {
    let careful = Person::new("careful", "Careful").mfa("246810", &["ABCD1234", "EFGH5678"]);
    Scene::default()
        .person(careful)
        .main(|campaign| campaign.seats([("careful", Role::Player)]))
}

// ---- A session that is kept --------------------------------------------------

#[tokio::test]
async fn a_restart_goes_on_with_the_kept_session_and_sends_no_password() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await?;
        let home = Home::at(&table, "dm")?;
        let daemon = home.start_at_table().await?;
        assert!(daemon.stop().await?.success());
        let daemon = home.start_at_table().await?;
        assert_eq!(
            standing(&home).await?.account.as_deref(),
            Some("Isolde Marrow")
        );
        kill(daemon).await?;
        let _daemon = home.start_at_table().await?;
        data(&home, "map_list", json!({})).await?;
        assert_eq!(logins(&table), 1, "{version}");
        assert_eq!(table.log().count("GET", WHO), 2, "each start looks once");
    }
    Ok(())
}

#[tokio::test]
async fn the_newest_cookie_wins_and_its_file_is_private() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    let file = home.state_dir().join("session.json");
    let mode = {
        use std::os::unix::fs::PermissionsExt as _;
        file.metadata()?.permissions().mode() & 0o777
    };
    assert_eq!(mode, 0o600);
    let reply = Reply::json(200, &json!({"maps": []}));
    let reply = reply.header("Set-Cookie", "cozyvtt.sid=s%3Anewest; Path=/; HttpOnly");
    let maps = maps_of(&table);
    let armed = table
        .faults()
        .route("GET", &maps, Fault::Answer(reply))
        .times(1);
    data(&home, "map_list", json!({})).await?;
    assert_eq!(armed.fired(), 1);
    until("the newest one is on disk", || async {
        let text = std::fs::read_to_string(&file).ok()?;
        text.contains("newest").then_some(())
    })
    .await;
    kill(daemon).await?;
    let _daemon = home.start().await?;
    until("it was tried", || async {
        let asked = table.log().requests_to("GET", WHO).pop()?;
        (asked.header("cookie")? == "cozyvtt.sid=s%3Anewest").then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_kept_session_is_never_shown_to_another_instance() -> Result<()> {
    let (first, second) = (
        Table::builder().start().await?,
        Table::builder().seed(7).start().await?,
    );
    let mut home = Home::at(&first, "dm")?;
    assert!(home.start_at_table().await?.stop().await?.success());
    home.set("COZYVTT_URL", second.url());
    home.set("COZYVTT_TEST_TIME_SCALE", "600");
    let _daemon = home.start().await?;
    until("the second one was asked", || async {
        (!second.log().requests().is_empty()).then_some(())
    })
    .await;
    stands(&home, LoginPhase::SignedIn).await;
    let requests = second.log().requests();
    assert_eq!(requests[0].path, LOGIN);
    let sent = first.log().requests();
    let theirs = sent.iter().find_map(|one| one.header("cookie"));
    let theirs = theirs.context("no cookie")?;
    assert!(
        requests
            .iter()
            .all(|one| one.header("cookie") != Some(theirs))
    );
    Ok(())
}

// ---- A password that is not sent again ----------------------------------------

#[tokio::test]
async fn a_rejected_password_is_not_sent_again_by_calls_restarts_or_kills() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await?;
        let mut home = Home::at(&table, "dm")?;
        home.set("COZYVTT_PASSWORD", "not-the-password");
        // An hour passes in six seconds: no wait lets it out again either.
        home.set("COZYVTT_TEST_TIME_SCALE", "600");
        for _ in 0..3 {
            let daemon = home.start().await?;
            let blocked = stands(&home, LoginPhase::Blocked).await;
            assert_eq!(blocked.reason, Some(LoginReason::Rejected));
            assert!(
                blocked
                    .fix
                    .is_some_and(|fix| fix.contains("cozyvttctl login"))
            );
            let calls = (0..8).map(|_| failure(&home, "map_list", json!({})));
            for envelope in try_join_all(calls).await? {
                let error = envelope["error"].as_str().unwrap_or_default();
                assert!(error.contains("Login rejected (HTTP 401)"), "{error}");
            }
            kill(daemon).await?;
        }
        assert_eq!(logins(&table), 1, "{version}");
        // Other credentials are another matter, once the spacing is over.
        let right = table.account("dm").password.clone();
        home.set("COZYVTT_PASSWORD", &right);
        let _daemon = home.start().await?;
        stands(&home, LoginPhase::SignedIn).await;
        assert_eq!(logins(&table), 2, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn a_person_may_have_a_rejected_password_tried_once_more() -> Result<()> {
    let table = Table::builder().start().await?;
    let mut home = Home::at(&table, "dm")?;
    home.set("COZYVTT_PASSWORD", "The-new-one-9!");
    let _daemon = home.start().await?;
    stands(&home, LoginPhase::Blocked).await;
    let refused = ctl(&home, &["login"], "").await?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        err(&refused).contains("Login rejected"),
        "{}",
        err(&refused)
    );
    assert_eq!(logins(&table), 2);
    // It was mended at the table.
    table.set_password("dm", "The-new-one-9!");
    let json = ctl(&home, &["login", "--json"], "").await?;
    assert_eq!(json.status.code(), Some(0), "{}", err(&json));
    let told: LoginStatus = serde_json::from_slice(&json.stdout)?;
    assert_eq!((told.state, told.tally.sent), (LoginPhase::SignedIn, 3));
    // The link does not wait for its slow lane.
    until("every hop is fine", || async {
        let status = home.status().await.ok()?;
        status
            .hops
            .iter()
            .all(|hop| hop.state == HopState::Ok)
            .then_some(())
    })
    .await;
    assert_eq!(logins(&table), 3);
    Ok(())
}

#[tokio::test]
async fn a_kill_between_the_password_and_its_answer_counts_as_an_attempt() -> Result<()> {
    let table = Table::builder().start().await?;
    let slow = Fault::Delay(Duration::from_secs(30));
    let armed = table.faults().route("POST", LOGIN, slow);
    let home = Home::at(&table, "dm")?;
    let daemon = home.start().await?;
    until("the password has left", || async {
        (armed.fired() == 1).then_some(())
    })
    .await;
    kill(daemon).await?;
    armed.off();
    let _daemon = home.start().await?;
    let cooling = stands(&home, LoginPhase::CoolingDown).await;
    assert_eq!(cooling.reason, Some(LoginReason::Spacing));
    assert!(
        cooling.wait_s > Some(100) && cooling.wait_s <= Some(180),
        "{cooling:?}"
    );
    assert_eq!(cooling.tally.sent, 1);
    assert_eq!(logins(&table), 0, "none but the one that hangs");
    Ok(())
}

#[tokio::test]
async fn a_wait_that_the_server_asks_for_outlives_a_kill_and_binds_a_person_as_well() -> Result<()>
{
    let table = Table::builder().start().await?;
    let busy = Reply::json(503, &json!({"error": "Unavailable", "message": "Later"}));
    let fault = Fault::Answer(busy.header("Retry-After", 900));
    let armed = table.faults().route("POST", LOGIN, fault);
    let home = Home::at(&table, "dm")?;
    let daemon = home.start().await?;
    stands(&home, LoginPhase::CoolingDown).await;
    kill(daemon).await?;
    let _daemon = home.start().await?;
    let cooling = stands(&home, LoginPhase::CoolingDown).await;
    assert_eq!(cooling.reason, Some(LoginReason::Failed));
    assert!(cooling.wait_s > Some(840), "{cooling:?}");
    assert!(cooling.until.is_some_and(|until| until.ends_with('Z')));
    let error = failure(&home, "map_list", json!({})).await?["error"].to_string();
    assert!(error.contains("HTTP 503: Later"), "{error}");
    let refused = ctl(&home, &["login"], "").await?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        err(&refused).contains("The next attempt is possible in 1"),
        "{}",
        err(&refused)
    );
    assert_eq!((armed.fired(), logins(&table)), (1, 1));
    Ok(())
}

#[tokio::test]
async fn a_refusal_by_a_proxy_is_named_as_that_and_is_no_verdict() -> Result<()> {
    for reply in [
        Reply::text(
            401,
            "text/html",
            "<html><h1>401 Authorization Required</h1></html>",
        ),
        Reply::json(401, &json!({"error": "invalid_token"})),
    ] {
        let table = Table::builder().start().await?;
        let fault = Fault::Answer(reply);
        let armed = table.faults().route("POST", LOGIN, fault).times(1);
        let mut home = Home::at(&table, "dm")?;
        home.set("COZYVTT_TEST_TIME_SCALE", "60");
        let _daemon = home.start().await?;
        let cooling = stands(&home, LoginPhase::CoolingDown).await;
        assert_eq!(cooling.reason, Some(LoginReason::Failed));
        assert!(
            cooling.detail.contains("in front of CozyVTT"),
            "{}",
            cooling.detail
        );
        // Three minutes later it is tried again.
        stands(&home, LoginPhase::SignedIn).await;
        assert_eq!((armed.fired(), logins(&table)), (1, 2));
    }
    Ok(())
}

#[tokio::test]
async fn an_account_that_waits_for_approval_is_tried_again_by_a_persons_word_alone() -> Result<()> {
    let scene = Scene::default()
        .person(Person::new("waiting", "Waiting").unapproved())
        .main(|campaign| campaign.seats([("waiting", Role::Player)]));
    let table = Table::builder().scene(scene).start().await?;
    let home = Home::at(&table, "waiting")?;
    let daemon = home.start().await?;
    let blocked = stands(&home, LoginPhase::Blocked).await;
    assert_eq!(blocked.reason, Some(LoginReason::Approval));
    kill(daemon).await?;
    table.approve("waiting");
    let _daemon = home.start().await?;
    stands(&home, LoginPhase::Blocked).await;
    assert_eq!(logins(&table), 1);
    assert_eq!(sign_in(&home, None).await?.state, LoginPhase::SignedIn);
    Ok(())
}

#[tokio::test]
async fn a_state_folder_that_takes_no_record_is_told_and_keeps_nobody_from_the_table() -> Result<()>
{
    if !mounts::possible() {
        return Ok(());
    }
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    assert!(home.start_at_table().await?.stop().await?.success());
    let read_only = "mount --bind $STATE $STATE; mount -o remount,bind,ro $STATE";
    let _daemon = home.start_among(read_only).await?;
    let standing = stands(&home, LoginPhase::SignedIn).await;
    let notice = standing.notice.context("no word about it")?;
    assert!(notice.contains("takes no record of the login"), "{notice}");
    let status = home.status().await?;
    assert!(hop(&status, "login")?.detail.ends_with(&notice));
    assert_eq!(logins(&table), 1);
    Ok(())
}

// ---- The tally ---------------------------------------------------------------

#[tokio::test]
async fn profiles_share_four_sign_ins_where_good_ones_count() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let first = Home::at(&table, "dm")?;
    let mut second = Home::at(&table, "player1")?;
    // Another profile of the same user.
    second.set("HOME", &first.path().display().to_string());
    let _first = first.start_at_table().await?;
    let _second = second.start_at_table().await?;
    for sent in 3..=4 {
        table.forget_sessions();
        let told = sign_in(&first, None).await?;
        assert_eq!((told.state, told.tally.sent), (LoginPhase::SignedIn, sent));
    }
    assert_eq!(logins(&table), 4);
    for home in [&first, &second] {
        table.forget_sessions();
        let told = sign_in(home, None).await?;
        assert_eq!(told.state, LoginPhase::CoolingDown);
        assert_eq!(told.reason, Some(LoginReason::Tally));
        assert!(told.wait_s > Some(800), "{told:?}");
    }
    let refused = ctl(&second, &["login"], "").await?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        err(&refused).contains("five sign-ins in 15 minutes"),
        "{}",
        err(&refused)
    );
    assert_eq!(logins(&table), 4, "the fifth is the person's");
    Ok(())
}

#[tokio::test]
async fn a_server_that_counts_failures_alone_is_taken_at_its_word() -> Result<()> {
    let table = Table::builder().version(Version::V1_5).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    for _ in 0..5 {
        table.forget_sessions();
        assert_eq!(sign_in(&home, None).await?.state, LoginPhase::SignedIn);
    }
    assert_eq!(logins(&table), 6);
    let tally = standing(&home).await?.tally;
    assert_eq!((tally.sent, tally.server_remaining), (6, Some(5)));
    Ok(())
}

/// Somebody signs in from this address without cozyvttd.
async fn in_a_browser(table: &Table, key: &str) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let account = table.account(key);
    let answer = reqwest::Client::new()
        .post(format!("{}{LOGIN}", table.url()))
        .json(&json!({"email": account.email, "password": account.password}))
        .send()
        .await?;
    answer.error_for_status()?;
    Ok(())
}

#[tokio::test]
async fn sign_ins_of_the_person_elsewhere_are_seen_in_the_servers_word() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = Home::at(&table, "dm")?;
    for _ in 0..3 {
        in_a_browser(&table, "player1").await?;
    }
    let _daemon = home.start_at_table().await?;
    table.forget_sessions();
    let told = sign_in(&home, None).await?;
    assert_eq!(told.reason, Some(LoginReason::Tally));
    assert_eq!((told.tally.sent, told.tally.server_remaining), (1, Some(1)));
    assert_eq!(logins(&table), 4);
    Ok(())
}

// ---- The second factor --------------------------------------------------------

#[tokio::test]
async fn a_second_factor_is_asked_for_once_and_the_session_is_kept() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder()
            .version(version)
            .scene(careful())
            .start()
            .await?;
        let home = Home::at(&table, "careful")?;
        let daemon = home.start().await?;
        let blocked = stands(&home, LoginPhase::Blocked).await;
        assert_eq!(blocked.reason, Some(LoginReason::SecondFactor));
        // Without a code nothing more is sent.
        let refused = ctl(&home, &["login"], "").await?;
        assert_eq!(refused.status.code(), Some(1));
        assert_eq!((logins(&table), table.log().count("POST", CODE)), (1, 0));
        let wrong = ctl(&home, &["login"], "000000\n").await?;
        assert!(
            err(&wrong).contains("did not accept the code"),
            "{}",
            err(&wrong)
        );
        let right = ctl(&home, &["login"], "246 810\n").await?;
        assert_eq!(right.status.code(), Some(0), "{}", err(&right));
        assert_eq!(out(&right), "Signed in as Careful.\n");
        assert_eq!((logins(&table), table.log().count("POST", CODE)), (1, 2));
        assert_eq!(
            standing(&home).await?.tally.sent,
            3,
            "{version}: all share the five"
        );
        kill(daemon).await?;
        let _daemon = home.start_at_table().await?;
        assert_eq!(logins(&table), 1, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn a_code_given_at_once_follows_the_password_and_backup_codes_are_told() -> Result<()> {
    let table = Table::builder().scene(careful()).start().await?;
    let home = Home::at(&table, "careful")?;
    let daemon = home.start().await?;
    stands(&home, LoginPhase::Blocked).await;
    // A new run knows of no sign-in that waits for a code.
    kill(daemon).await?;
    let _daemon = home.start().await?;
    stands(&home, LoginPhase::Blocked).await;
    assert_eq!(logins(&table), 1);
    let told = sign_in(&home, Some("ABCD1234")).await?;
    assert_eq!(told.state, LoginPhase::SignedIn);
    let notice = told.notice.context("no notice")?;
    assert!(
        notice.starts_with("That backup code is used up; 1 are left."),
        "{notice}"
    );
    assert_eq!((logins(&table), table.log().count("POST", CODE)), (2, 1));
    Ok(())
}

// ---- Signing out --------------------------------------------------------------

#[tokio::test]
async fn a_logout_ends_the_session_and_lasts_until_a_login() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await?;
        let home = Home::at(&table, "dm")?;
        let daemon = home.start_at_table().await?;
        let since = high_water(&home).await?;
        let done = ctl(&home, &["logout"], "").await?;
        assert_eq!(
            (done.status.code(), out(&done)),
            (Some(0), "Signed out.\n".to_owned())
        );
        let sent = table.log().requests_to("POST", LOGOUT);
        assert!(sent.len() == 1 && sent[0].has_cookie, "{version}");
        assert!(!home.state_dir().join("session.json").exists());
        event(&home, since, "system.disconnected").await;
        until("the socket has left", || async {
            table.seated().is_empty().then_some(())
        })
        .await;
        kill(daemon).await?;
        let _daemon = home.start().await?;
        let blocked = stands(&home, LoginPhase::Blocked).await;
        assert_eq!(blocked.reason, Some(LoginReason::SignedOut));
        let error = failure(&home, "map_list", json!({})).await?["error"].to_string();
        assert!(error.contains("cozyvttctl login"), "{error}");
        assert_eq!(logins(&table), 1, "{version}");
        let back = ctl(&home, &["login"], "").await?;
        assert_eq!(
            out(&back),
            "Signed in as Isolde Marrow.\n",
            "{}",
            err(&back)
        );
        assert_eq!(logins(&table), 2, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn a_logout_that_the_server_cannot_hear_is_one_all_the_same() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    table.pause().await;
    let end = home
        .control()
        .call::<AuthLogout>(NoParams {}, PATIENCE)
        .await?;
    assert!(!end.ended_at_server && end.why.is_some(), "{end:?}");
    let blocked = standing(&home).await?;
    assert_eq!(blocked.reason, Some(LoginReason::SignedOut));
    Ok(())
}

// ---- A session that is doubted -------------------------------------------------

#[tokio::test]
async fn two_hundred_calls_that_meet_an_expired_session_cost_one_login() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    pass(Duration::from_secs(181)).await;
    // Each of them is asked twice, which is more than a minute allows.
    table.faults().api_limit(1000);
    table.forget_sessions();
    table.log().clear();
    for answer in join_all((0..200).map(|_| maps(&client))).await {
        answer?;
    }
    assert_eq!(logins(&table), 1);
    assert_eq!(table.log().count("GET", WHO), 1);
    Ok(())
}

#[tokio::test]
async fn a_401_within_a_living_session_costs_one_look_and_no_password() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    pass(Duration::from_secs(181)).await;
    let body = json!({"error": "Unauthorized", "message": "Not this"});
    let reply = Fault::Answer(Reply::json(401, &body));
    let _armed = table.faults().route("GET", &maps_of(&table), reply);
    for answer in join_all((0..20).map(|_| maps(&client))).await {
        let error = answer.err().context("it worked")?.to_string();
        assert_eq!(error, "HTTP 401: Not this");
    }
    assert_eq!(logins(&table), 1);
    assert_eq!(table.log().count("GET", WHO), 1);
    client.authenticated(1).await;
    Ok(())
}

#[tokio::test]
async fn a_look_that_a_proxy_answers_sends_no_password() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    pass(Duration::from_secs(181)).await;
    let page = || Fault::Answer(Reply::text(401, "text/html", "<html>Who are you?</html>"));
    let _maps = table.faults().route("GET", &maps_of(&table), page());
    let _who = table.faults().route("GET", WHO, page());
    let error = maps(&client).await.err().context("it worked")?.to_string();
    assert!(error.contains("in front of CozyVTT"), "{error}");
    assert_eq!(logins(&table), 1);
    table.faults().clear();
    maps(&client).await?;
    Ok(())
}

/// What was asked since the log was cleared, but for the link's own business.
fn asked(table: &Table) -> Vec<Exchange> {
    let mut asked = table.log().requests();
    asked.retain(|one| one.path != "/socket.io/");
    asked
}

#[tokio::test]
async fn after_a_sleep_of_the_machine_the_session_is_looked_at_before_anything_else() -> Result<()>
{
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    maps(&client).await?;
    table.log().clear();
    client.hand.sleep(Duration::from_secs(7200));
    maps(&client).await?;
    let paths: Vec<_> = asked(&table).into_iter().map(|one| one.path).collect();
    assert_eq!(paths, [WHO.to_owned(), maps_of(&table)]);
    // The session ended meanwhile: the password left two hours ago, so it may go again.
    client.hand.sleep(Duration::from_secs(7200));
    table.forget_sessions();
    table.log().clear();
    maps(&client).await?;
    assert_eq!(logins(&table), 1);
    let met_a_401 = asked(&table)
        .into_iter()
        .any(|one| one.path == maps_of(&table) && one.status == 401);
    assert!(!met_a_401, "the call came after the look");
    Ok(())
}

#[tokio::test]
async fn a_time_of_day_that_jumps_costs_a_look_and_shortens_no_wait() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let fault = Fault::status(503);
    let _armed = table.faults().route("POST", LOGIN, fault).times(1);
    let client = InProcess::start(&table, "dm")?;
    until("the login has failed", || async {
        (logins(&table) == 1).then_some(())
    })
    .await;
    client.hand.put_forward(Duration::from_secs(7200));
    let error = maps(&client).await.err().context("it worked")?.to_string();
    assert!(error.contains("Login cooldown; retry in 1"), "{error}");
    assert_eq!(logins(&table), 1);
    Ok(())
}

#[tokio::test]
async fn a_session_that_nobody_uses_is_kept_alive_every_ten_minutes() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    for pings in 1..=3 {
        // It looks after the clock in smaller steps.
        for _ in 0..21 {
            pass(Duration::from_secs(30)).await;
            tokio::task::yield_now().await;
        }
        until("one more ping", || async {
            (table.log().count("GET", PING) >= pings).then_some(())
        })
        .await;
    }
    assert!(table.log().count("GET", PING) <= 5);
    assert_eq!(logins(&table), 1);
    Ok(())
}

// ---- Where the password comes from ----------------------------------------------

fn secret_file(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(())
}

#[tokio::test]
async fn a_password_from_a_file_a_program_or_systemd_signs_in() -> Result<()> {
    let table = Table::builder().start().await?;
    let account = table.account("dm").clone();
    for place in ["file", "command", "credential"] {
        let mut home = Home::at(&table, "dm")?;
        home.unset("COZYVTT_PASSWORD");
        let secret = home.path().join("cozyvtt-password");
        secret_file(&secret, &format!("{}\nuser: me\n", account.password))?;
        let config = match place {
            "file" => "password_file = '~/cozyvtt-password'".to_owned(),
            "command" => format!("password_command = ['cat', '{}']", secret.display()),
            _ => {
                home.set("CREDENTIALS_DIRECTORY", &home.path().display().to_string());
                String::new()
            }
        };
        home.configure(&config)?;
        let _daemon = home.start().await?;
        stands(&home, LoginPhase::SignedIn).await;
    }
    assert_eq!(logins(&table), 3);
    Ok(())
}

#[tokio::test]
async fn a_program_that_gives_no_password_is_run_once_and_told() -> Result<()> {
    let table = Table::builder().start().await?;
    let mut home = Home::at(&table, "dm")?;
    home.unset("COZYVTT_PASSWORD");
    let runs = home.path().join("runs");
    let script = format!("echo run >> {}; echo canary >&2; exit 1", runs.display());
    home.configure(&format!("password_command = ['sh', '-c', '{script}']"))?;
    let _daemon = home.start().await?;
    let cooling = stands(&home, LoginPhase::CoolingDown).await;
    assert_eq!(cooling.reason, Some(LoginReason::NoPassword));
    assert!(
        cooling.detail.contains("exit status: 1"),
        "{}",
        cooling.detail
    );
    assert!(!home.log().contains("canary"));
    try_join_all((0..5).map(|_| failure(&home, "map_list", json!({})))).await?;
    assert_eq!(std::fs::read_to_string(runs)?, "run\n");
    assert!(table.log().requests().is_empty());
    Ok(())
}

// ---- Nobody sees the password ----------------------------------------------------

/// The canary in the forms in which it could slip through.
fn forms(canary: &str) -> Vec<String> {
    let percent: String = canary
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect();
    let escaped = json!(canary).to_string().trim_matches('"').to_owned();
    let mut forms = vec![
        canary.to_owned(),
        percent.clone(),
        percent.to_lowercase(),
        escaped,
    ];
    // Base64 of a part that begins at any of three offsets.
    for skip in 0..3 {
        let bytes = &canary.as_bytes()[skip..];
        let whole = &bytes[..bytes.len() / 3 * 3];
        forms.push(base64(whole));
    }
    forms
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = bytes.chunks_exact(3).flat_map(|three| {
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[(bits >> shift & 63) as usize]))
    });
    digits.collect()
}

#[tokio::test]
async fn a_canary_password_is_in_no_log_file_answer_or_output() -> Result<()> {
    const CANARY: &str = "Canary bird/\"9!ü&more";
    const CODE_CANARY: &str = "CANARYCODE42";
    let scene = || {
        let person = |key: &str| Person::new(key, "Birdwatcher").password(CANARY);
        Scene::default()
            .person(person("good"))
            .person(person("waiting").unapproved())
            .person(person("careful").mfa("246810", &[CODE_CANARY]))
            .main(|campaign| {
                let seats = ["good", "waiting", "careful"].map(|key| (key, Role::Player));
                campaign.seats(seats)
            })
    };
    let mut needles = forms(CANARY);
    needles.extend(forms(CODE_CANARY));
    for case in ["good", "rejected", "waiting", "too many", "careful"] {
        let table = Table::builder().scene(scene()).start().await?;
        let key = if matches!(case, "waiting" | "careful") {
            case
        } else {
            "good"
        };
        let mut home = Home::at(&table, key)?;
        home.set("COZYVTT_LOG", "trace");
        let _armed = (case == "too many").then(|| {
            table
                .faults()
                .route("POST", LOGIN, Fault::too_many_logins(900))
        });
        if case == "rejected" {
            table.set_password("good", "Another-one-9!");
        }
        let daemon = home.start().await?;
        until("the password has left", || async {
            (logins(&table) == 1).then_some(())
        })
        .await;
        assert_eq!(
            table.log().requests_to("POST", LOGIN)[0].json()["password"],
            CANARY
        );
        let mut seen = vec![serde_json::to_string(&home.status().await?)?];
        seen.push(format!("{:?}", sign_in(&home, Some(CODE_CANARY)).await?));
        for arguments in [
            &["status"][..],
            &["status", "--json"],
            &["login"],
            &["logout"],
            &["login"],
        ] {
            let output = ctl(&home, arguments, CODE_CANARY).await?;
            seen.extend([out(&output), err(&output)]);
        }
        seen.push(
            home.call("campaign_get", json!({}))
                .await?
                .envelope
                .to_string(),
        );
        // A type that does not fit is refused without being quoted.
        let raw = json!({"jsonrpc": "2.0", "id": 1, "method": "auth.login",
                         "params": {"code": [CODE_CANARY]}});
        let reply = http(&home, "POST", "/rpc", &raw.to_string()).await?;
        seen.push(reply.json()?.to_string());
        assert!(daemon.stop().await?.success());
        assert!(home.log().contains("TRACE"), "not everything was logged");
        for (path, bytes) in files_below(home.path())? {
            seen.push(String::from_utf8_lossy(&bytes).into_owned());
            seen.push(path.display().to_string());
        }
        for needle in &needles {
            for text in &seen {
                let found = text.find(needle.as_str());
                assert!(
                    found.is_none(),
                    "{case}: {needle:?} in {}",
                    &text[found.unwrap_or(0)..]
                );
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn status_tells_where_the_login_stands_and_what_mends_it() -> Result<()> {
    let table = Table::builder().start().await?;
    let mut home = Home::at(&table, "dm")?;
    home.set("COZYVTT_PASSWORD", "not-the-password");
    let _daemon = home.start().await?;
    stands(&home, LoginPhase::Blocked).await;
    let status = home.status().await?;
    let hop = hop(&status, "login")?;
    assert_eq!(hop.state, HopState::Broken);
    assert!(
        hop.fix
            .as_ref()
            .is_some_and(|fix| fix.contains("cozyvttctl login"))
    );
    let json = ctl(&home, &["status", "--json"], "").await?;
    let told: Value = serde_json::from_slice(&json.stdout)?;
    assert_eq!(told["login"]["state"], "blocked");
    assert_eq!(told["login"]["reason"], "rejected");
    assert_eq!(told["login"]["tally"]["sent"], 1);
    assert_eq!(told["login"]["tally"]["limit"], 4);
    Ok(())
}
