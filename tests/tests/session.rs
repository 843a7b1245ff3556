//! The session with CozyVTT: one login for everybody, what it does when the
//! server says no, and the link that comes back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::{Request as Incoming, State};
use axum::http::StatusCode;
use cozyvtt_proto::control::HopState;
use cozyvtt_table::{Fault, Person, Reply, Role, Scene, SocketFault, Table, Version};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::asked::logins;
use cozyvtt_tests::calls::{data, event, events, failure, high_water, hop, names};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::in_process::{InProcess, pass, patient_table};
use cozyvtt_tests::until;
use cozyvttd::session::rest::{Expect, Request, RestError};
use futures_util::future::{join_all, try_join_all};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const LOGIN: &str = "/api/auth/login";

fn maps_of(table: &Table) -> String {
    format!("/api/campaigns/{}/maps", table.campaign_id())
}

fn handshakes(table: &Table) -> usize {
    table.log().count("GET", "/socket.io/")
}

/// Waits until a hop is broken; gives what it says.
async fn broken(home: &Home, name: &str) -> String {
    until(&format!("{name} is broken"), || async {
        let status = home.status().await.ok()?;
        let hop = hop(&status, name).ok()?;
        (hop.state == HopState::Broken).then(|| hop.detail.clone())
    })
    .await
}

/// The page after all there is: where the link stands.
async fn standing(home: &Home) -> Result<Value> {
    data(home, "events_poll", json!({"since": 0, "limit": 1})).await
}

/// Waits until the link is up or down.
async fn link(home: &Home, up: bool) -> Value {
    until(&format!("the link is up: {up}"), || async {
        let page = standing(home).await.ok()?;
        (page["authenticated"] == up).then_some(page)
    })
    .await
}

// ---- One login -------------------------------------------------------------

#[tokio::test]
async fn many_agents_and_many_calls_share_one_login_and_one_socket() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await?;
        let home = Home::at(&table, "dm")?;
        let _daemon = home.start_at_table().await?;
        let eras = [Era::Handshake, Era::Stateless, Era::Handshake];
        let agents = eras.into_iter().map(|era| Agent::on_the_socket(&home, era));
        let agents = try_join_all(agents).await?;
        let calls = (0..24).map(|number| {
            let tool = ["campaign_get", "map_list", "chat_read"][number % 3];
            agents[number / 8].data(tool, json!({}))
        });
        try_join_all(calls).await?;
        let sent = table.log().requests_to("POST", LOGIN);
        assert_eq!(sent.len(), 1, "{version}");
        let account = table.account("dm");
        assert_eq!(
            sent[0].json(),
            json!({"email": account.email, "password": account.password, "rememberMe": true})
        );
        assert_eq!(table.seated(), [account.user_id.as_str()], "{version}");
    }
    Ok(())
}

/// T-INI-02
#[tokio::test]
async fn t_ini_02_calls_that_come_before_the_login_is_answered_wait_for_it_and_send_no_other()
-> Result<()> {
    let table = Table::builder().start().await?;
    let slow = Fault::Delay(Duration::from_millis(300));
    let armed = table.faults().route("POST", LOGIN, slow).times(1);
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start().await?;
    try_join_all((0..8).map(|_| data(&home, "map_list", json!({})))).await?;
    assert_eq!((logins(&table), armed.fired()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn authenticate_waits_for_a_server_that_is_slow_to_say_connected() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder()
            .version(version)
            .connect_delay(Duration::from_millis(300))
            .start()
            .await?;
        let home = Home::at(&table, "dm")?;
        let _daemon = home.start_at_table().await?;
        let frames = table.log().frames();
        let order: Vec<_> = frames
            .iter()
            .filter_map(|frame| frame.event.as_deref())
            .filter(|event| matches!(*event, "connected" | "authenticate" | "authenticated"))
            .collect();
        assert_eq!(
            order,
            ["connected", "authenticate", "authenticated"],
            "{version}"
        );
    }
    Ok(())
}

// ---- A login that fails ----------------------------------------------------

#[tokio::test]
async fn t_aut_10_a_login_rejected_once_is_not_sent_again() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await?;
        let mut home = Home::at(&table, "dm")?;
        home.set("COZYVTT_PASSWORD", "not-the-password");
        let _daemon = home.start().await?;
        let detail = broken(&home, "login").await;
        let rejected = "Login rejected (HTTP 401): Invalid email or password";
        assert!(detail.starts_with(rejected), "{detail}");
        for tool in ["campaign_get", "map_list", "chat_read"] {
            let envelope = failure(&home, tool, json!({})).await?;
            let error = envelope["error"].as_str().unwrap_or_default();
            assert!(error.contains(rejected), "{tool}: {error}");
            assert!(!error.contains("not-the-password"), "{tool}: {error}");
        }
        let envelope = failure(&home, "chat_send", json!({"content": "hello"})).await?;
        let error = envelope["error"].as_str().unwrap_or_default();
        assert!(error.contains(rejected), "{error}");
        assert_eq!(logins(&table), 1, "{version}");
        assert_eq!(handshakes(&table), 0, "{version}");
    }
    Ok(())
}

/// T-AUT-06, T-AUT-09
#[tokio::test]
async fn t_aut_09_t_aut_06_a_login_waits_as_long_as_the_server_says_whatever_its_status()
-> Result<()> {
    let busy = Reply::json(503, &json!({"error": "Unavailable", "message": "Later"}));
    for (status, fault) in [
        ("429", Fault::too_many_logins(900)),
        ("503", Fault::Answer(busy.header("Retry-After", 900))),
    ] {
        let table = Table::builder().start().await?;
        let armed = table.faults().route("POST", LOGIN, fault);
        let home = Home::at(&table, "dm")?;
        let _daemon = home.start().await?;
        let detail = broken(&home, "login").await;
        assert!(
            detail.contains(status) && detail.contains("14 min"),
            "{detail}"
        );
        let error = failure(&home, "map_list", json!({})).await?["error"].to_string();
        assert!(error.contains("Login cooldown; retry in 8"), "{error}");
        assert_eq!((logins(&table), armed.fired()), (1, 1));
    }
    Ok(())
}

#[tokio::test]
async fn an_account_that_needs_a_person_first_is_told_so_after_one_request() -> Result<()> {
    let scene = Scene::default()
        .person(Person::new("careful", "Careful").mfa("246810", &[]))
        .person(Person::new("waiting", "Waiting").unapproved())
        .person(Person::new("new", "New").must_change_password())
        .main(|campaign| {
            let seats = ["careful", "waiting", "new"].map(|key| (key, Role::Player));
            campaign.seats(seats)
        });
    for version in Version::ALL {
        let builder = Table::builder().version(version).scene(scene.clone());
        let table = builder.start().await?;
        for (account, words) in [
            ("careful", "second factor"),
            ("waiting", "HTTP 403: Your account is pending approval"),
            ("new", "change its password"),
        ] {
            let before = logins(&table);
            let home = Home::at(&table, account)?;
            let _daemon = home.start().await?;
            let detail = broken(&home, "login").await;
            assert!(detail.contains(words), "{detail}");
            let error = failure(&home, "map_list", json!({})).await?["error"].to_string();
            assert!(error.contains(words), "{error}");
            assert_eq!(logins(&table), before + 1, "{version}, {account}");
        }
    }
    Ok(())
}

/// Answers of a login that are no login, T-AUT-12 among them.
#[tokio::test]
async fn t_aut_12_a_login_that_is_answered_strangely_cools_down_after_one_request() -> Result<()> {
    let strange = [
        (Fault::Html, "not valid JSON"),
        (Fault::TruncatedJson, "not valid JSON"),
        (
            Fault::Answer(Reply::json(200, &json!({"user": 7}))),
            "missing the user object",
        ),
        (Fault::status(500), "HTTP 500"),
        (Fault::HangUpAfter, "network error"),
        (Fault::HangUpBefore, "network error"),
        (Fault::CutMidAnswer, "network error"),
    ];
    try_join_all(strange.map(|(fault, words)| strangely(fault, words))).await?;
    Ok(())
}

async fn strangely(fault: Fault, words: &str) -> Result<()> {
    let table = Table::builder().start().await?;
    let named = format!("{fault:?}");
    let _armed = table.faults().route("POST", LOGIN, fault);
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start().await?;
    let detail = broken(&home, "login").await;
    assert!(detail.contains(words), "{named}: {detail}");
    assert!(
        detail.contains("3 min") || detail.contains("2 min"),
        "{named}: {detail}"
    );
    let error = failure(&home, "map_list", json!({})).await?["error"].to_string();
    assert!(error.contains("cooldown"), "{named}: {error}");
    assert_eq!(logins(&table), 1, "{named}");
    Ok(())
}

/// A server that only takes notes.
struct Elsewhere {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Elsewhere {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = |State(seen): State<Arc<Mutex<Vec<String>>>>, request: Incoming| async move {
            if let Ok(mut seen) = seen.lock() {
                seen.push(format!("{} {}", request.method(), request.uri()));
            }
            StatusCode::OK
        };
        let router = Router::new().fallback(note).with_state(Arc::clone(&seen));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, seen, server })
    }

    fn seen(&self) -> Vec<String> {
        self.seen
            .lock()
            .map(|seen| seen.clone())
            .unwrap_or_default()
    }
}

#[tokio::test]
async fn neither_the_password_nor_the_cookie_follows_a_redirect_to_elsewhere() -> Result<()> {
    let elsewhere = Elsewhere::start().await?;
    let redirect = |status, path: &str| {
        let reply = Reply::text(status, "text/plain", "over there");
        Fault::Answer(reply.header("Location", format!("{}{path}", elsewhere.url)))
    };
    for status in [302, 307, 308] {
        let table = Table::builder().start().await?;
        let _armed = table.faults().route("POST", LOGIN, redirect(status, LOGIN));
        let home = Home::at(&table, "dm")?;
        let _daemon = home.start().await?;
        let detail = broken(&home, "login").await;
        assert!(detail.contains(&status.to_string()), "{detail}");
        assert_eq!(logins(&table), 1, "{status}");
    }
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let maps = maps_of(&table);
    let _armed = table.faults().route("GET", &maps, redirect(307, &maps));
    let envelope = failure(&home, "map_list", json!({})).await?;
    assert_eq!(envelope["data"]["status"], 307);
    // It would have been seen.
    let mut stream = TcpStream::connect(elsewhere.url.trim_start_matches("http://")).await?;
    let proof = b"GET /proof HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    stream.write_all(proof).await?;
    stream.read_to_end(&mut Vec::new()).await?;
    assert_eq!(elsewhere.seen(), ["GET /proof"]);
    Ok(())
}

// ---- A session that ends ---------------------------------------------------

/// Contract 4.5: the password was sent a moment ago, so it is not sent again.
#[tokio::test]
async fn calls_of_a_session_that_was_just_forgotten_fail_clearly_and_send_no_password() -> Result<()>
{
    try_join_all(Version::ALL.map(just_forgotten)).await?;
    Ok(())
}

async fn just_forgotten(version: Version) -> Result<()> {
    let table = Table::builder().version(version).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    table.forget_sessions();
    let calls = (0..20).map(|_| failure(&home, "map_list", json!({})));
    for envelope in try_join_all(calls).await? {
        assert_eq!(
            envelope["error"],
            "HTTP 401: You must be logged in to access this resource"
        );
        assert_eq!(envelope["data"]["status"], 401);
        assert_eq!(envelope["data"]["upstream"]["error"], "Unauthorized");
    }
    // The next attempt meets the same dead session, and the link says so.
    until("the link says what is wrong", || async {
        let status = home.status().await.ok()?;
        let hop = hop(&status, "websocket").ok()?;
        (hop.state == HopState::Broken && hop.detail.starts_with("Unauthorized")).then_some(())
    })
    .await;
    let page = standing(&home).await?;
    assert_eq!(
        (&page["stale"], &page["role"]),
        (&json!(true), &json!(null))
    );
    assert_eq!(logins(&table), 1, "{version}");
    // At most one retry for each call.
    assert!(
        table.log().count("GET", &maps_of(&table)) <= 40,
        "{version}"
    );
    Ok(())
}

/// T-RST-07. In 1.1.2 a live socket does not hear that its session has ended.
#[tokio::test]
async fn t_rst_07_a_rest_401_takes_the_authority_of_a_live_socket_away() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let since = high_water(&home).await?;
    table.forget_sessions();
    assert_eq!(standing(&home).await?["authenticated"], true);
    failure(&home, "map_list", json!({})).await?;
    let record = event(&home, since, "system.disconnected").await;
    let reason = "REST returned 401; previous WS authentication has been invalidated";
    assert_eq!(record["payload"]["reason"], reason);
    let records = events(&home, since).await?;
    assert_eq!(records[0]["event"], "system.error");
    assert_eq!(
        records[0]["payload"],
        json!({"detail": reason, "phase": "rest-auth"})
    );
    Ok(())
}

/// Asks for the maps within a session of this process.
async fn maps(client: &InProcess) -> Result<Value, RestError> {
    let request = Request::get(client.session.in_campaign(&["maps"]));
    client.session.request(&request, Expect::Has("maps")).await
}

/// T-RST-01, T-AUT-04
#[tokio::test]
async fn t_rst_01_t_aut_04_a_session_forgotten_later_on_is_renewed_by_one_login_for_twenty_calls()
-> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.linked().await;
    pass(Duration::from_secs(181)).await;
    table.forget_sessions();
    let answers = join_all((0..20).map(|_| maps(&client))).await;
    for answer in answers {
        assert_eq!(answer?["maps"].as_array().map(Vec::len), Some(2));
    }
    assert_eq!(logins(&table), 2);
    client.linked().await;
    assert_eq!(logins(&table), 2, "the link needs no login of its own");
    Ok(())
}

/// A cancelled call, or a client that leaves, must not cost the others the
/// session: the login belongs to everybody.
#[tokio::test]
async fn a_caller_that_gives_up_does_not_end_the_login_that_others_wait_for() -> Result<()> {
    // In 1.1.2 the link hears of nothing, so it is a call that signs in.
    let table = patient_table(Version::V1_1_2).await?;
    let client = InProcess::start(&table, "dm")?;
    client.linked().await;
    pass(Duration::from_secs(181)).await;
    table.forget_sessions();
    let slow = Fault::Delay(Duration::from_millis(500));
    let armed = table.faults().route("POST", LOGIN, slow).times(1);
    tokio::select! {
        answer = maps(&client) => anyhow::bail!("the login was not slow: {answer:?}"),
        () = until("the password has left", || async {
            (armed.fired() == 1).then_some(())
        }) => {}
    }
    maps(&client).await?;
    assert_eq!(logins(&table), 2);
    Ok(())
}

/// T-AUT-05, without its 401.
#[tokio::test]
async fn t_aut_05_after_a_failed_login_the_next_one_is_180_s_later() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let _armed = table
        .faults()
        .route("POST", LOGIN, Fault::status(503))
        .times(1);
    let client = InProcess::start(&table, "dm")?;
    until("the login has failed", || async {
        (logins(&table) == 1).then_some(())
    })
    .await;
    for seconds in [0, 170] {
        pass(Duration::from_secs(seconds)).await;
        let error = maps(&client)
            .await
            .err()
            .context("no cool-down")?
            .to_string();
        assert!(error.contains("Login cooldown; retry in"), "{error}");
    }
    assert_eq!(logins(&table), 1);
    pass(Duration::from_secs(11)).await;
    maps(&client).await?;
    client.linked().await;
    assert_eq!(logins(&table), 2);
    Ok(())
}

// ---- The link --------------------------------------------------------------

#[tokio::test]
async fn a_refused_handshake_is_told_once_and_tried_again() -> Result<()> {
    try_join_all(Version::ALL.map(handshake_refused)).await?;
    Ok(())
}

async fn handshake_refused(version: Version) -> Result<()> {
    let table = Table::builder().version(version).start().await?;
    let refuse = SocketFault::RefuseHandshake(503);
    let armed = table.faults().socket(refuse).times(2);
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    assert_eq!((armed.fired(), handshakes(&table)), (2, 3), "{version}");
    let mut records = events(&home, 0).await?;
    records.retain(|record| record["event"] == "system.error");
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0]["payload"]["phase"], "connect");
    let detail = records[0]["payload"]["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("HTTP 503"), "{detail}");
    let page = standing(&home).await?;
    assert_eq!(page["last_error"], Value::Null, "the acceptance clears it");
    assert_eq!(logins(&table), 1, "{version}");
    Ok(())
}

/// Contract 6.1: `system.reconnected` is for a process that was authenticated before.
#[tokio::test]
async fn a_first_acceptance_is_no_reconnect_however_many_attempts_it_took() -> Result<()> {
    let table = Table::builder().start().await?;
    let refuse = SocketFault::RefuseHandshake(503);
    let _armed = table.faults().socket(refuse).times(1);
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let records = events(&home, 0).await?;
    assert!(
        !names(&records).contains(&"system.reconnected"),
        "{records:?}"
    );
    Ok(())
}

/// T-WSK-06: nothing is waited for for ever.
#[tokio::test]
async fn t_wsk_06_a_server_that_does_not_answer_is_given_up_after_ten_seconds() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let silent = table.faults().socket(SocketFault::NeverConnected).times(1);
    let mute = table
        .faults()
        .socket(SocketFault::NeverAuthenticated)
        .times(1);
    let client = InProcess::start(&table, "dm")?;
    let mut seen = Vec::new();
    for (fault, words) in [
        (silent, "WS connection timed out"),
        (mute, "WS campaign authentication timed out"),
    ] {
        until("the server is silent", || async {
            (fault.fired() == 1).then_some(())
        })
        .await;
        pass(Duration::from_secs(11)).await;
        seen.push(words);
        until(words, || async {
            let page = client.session.journal.page(0, 100).await.ok()?;
            let details: Vec<_> = page
                .events
                .iter()
                .map(|one| &one.payload["detail"])
                .collect();
            (details == seen).then_some(())
        })
        .await;
    }
    client.linked().await;
    Ok(())
}

/// T-WSK-03, T-WSK-04
#[tokio::test]
async fn t_wsk_03_t_wsk_04_a_link_comes_back_after_a_restart_and_after_a_close_and_sends_no_password()
-> Result<()> {
    try_join_all(Version::ALL.map(comes_back)).await?;
    Ok(())
}

async fn comes_back(version: Version) -> Result<()> {
    let table = Table::builder().version(version).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let first = standing(&home).await?;
    assert_eq!(first["authenticated"], true);
    let mut since = high_water(&home).await?;
    for way in ["restart", "close"] {
        if way == "restart" {
            table.restart().await?;
        } else {
            table.close_sockets();
        }
        event(&home, since, "system.resync").await;
        let back = event(&home, since, "system.reconnected").await;
        let records = events(&home, since).await?;
        let mut system: Vec<_> = names(&records)
            .into_iter()
            .filter(|name| name.starts_with("system."))
            .collect();
        // Attempts may have failed while the server was away.
        system.retain(|name| *name != "system.error");
        assert_eq!(
            system,
            ["system.disconnected", "system.reconnected", "system.resync"],
            "{version}, {way}: {records:?}"
        );
        assert!(back["payload"]["generation"].as_u64() >= Some(2), "{back}");
        assert_eq!(back["generation"], back["payload"]["generation"]);
        let page = link(&home, true).await;
        assert_eq!(
            (&page["stale"], &page["role"]),
            (&json!(false), &json!("DM"))
        );
        data(&home, "map_list", json!({})).await?;
        since = high_water(&home).await?;
    }
    assert_eq!(logins(&table), 1, "{version}: the session outlives both");
    // Each acceptance asks for the order of combat, which no event would bring.
    let asked = table.log().events_in("initiative.request_state");
    assert_eq!(asked.len(), table.log().events_in("authenticate").len());
    Ok(())
}

/// T-WSK-08
#[tokio::test]
async fn t_wsk_08_what_was_sent_once_is_not_sent_again_by_a_reconnect() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let swallow = |name: &str| SocketFault::Swallow(name.to_owned());
    let chat = table.faults().socket(swallow("chat.message"));
    let dice = table.faults().socket(swallow("dice.roll"));
    let since = data(&home, "chat_send", json!({"content": "once"})).await?["since"].clone();
    data(&home, "dice_roll", json!({"expression": "1d6"})).await?;
    until("the server has lost both", || async {
        (chat.fired() + dice.fired() == 2).then_some(())
    })
    .await;
    table.faults().clear();
    table.close_sockets();
    event(
        &home,
        since.as_u64().context("no since")?,
        "system.reconnected",
    )
    .await;
    // Something that comes after whatever would have been sent again.
    data(&home, "chat_send", json!({"content": "twice"})).await?;
    until("the later line is there", || async {
        table
            .chat()
            .iter()
            .any(|line| line.content == "twice")
            .then_some(())
    })
    .await;
    assert_eq!(table.log().events_in("chat.message").len(), 2);
    assert_eq!(table.log().events_in("dice.roll").len(), 1);
    assert!(table.rolls().is_empty());
    Ok(())
}

// ---- Who may do what -------------------------------------------------------

#[tokio::test]
async fn a_change_of_the_own_role_is_followed_without_a_new_connection() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "player1")?;
    let _daemon = home.start_at_table().await?;
    assert_eq!(standing(&home).await?["role"], "PLAYER");
    let since = high_water(&home).await?;
    table.set_role("player2", Role::Spectator);
    table.set_role("player1", Role::Spectator);
    let page = until("the role has changed", || async {
        let page = standing(&home).await.ok()?;
        (page["role"] == "SPECTATOR").then_some(page)
    })
    .await;
    assert_eq!(page["authenticated"], true);
    assert_eq!(
        page["campaign_cache_stale"], true,
        "what was known is forgotten"
    );
    let mut records = events(&home, since).await?;
    records.retain(|record| record["event"] == "campaign.role.changed");
    assert_eq!(records.len(), 2, "{records:?}");
    let changed = json!({
        "campaignId": table.campaign_id(),
        "userId": table.account("player1").user_id,
        "role": "SPECTATOR",
    });
    assert_eq!(records[1]["payload"], changed);
    let campaign = data(&home, "campaign_get", json!({})).await?;
    assert_eq!(campaign["role"], "SPECTATOR");
    assert_eq!(standing(&home).await?["campaign_cache_stale"], false);
    assert_eq!(handshakes(&table), 1);
    Ok(())
}

/// T-WSK-11
#[tokio::test]
async fn t_wsk_11_a_transfer_of_the_dm_seat_is_followed_both_ways() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let me = &table.account("dm").user_id;
    let other = &table.account("player1").user_id;
    for (from, to, role) in [(me, other, "PLAYER"), (other, me, "DM")] {
        let since = high_water(&home).await?;
        let payload = json!({
            "campaignId": table.campaign_id(), "previousDmId": from, "newDmId": to,
        });
        let frame = json!(["campaign.dm.transferred", payload]);
        table.faults().send_frame(&format!("42{frame}"));
        let record = event(&home, since, "campaign.dm.transferred").await;
        assert_eq!(record["payload"], payload);
        let page = standing(&home).await?;
        assert_eq!(page["role"], role);
        assert_eq!(page["stale"], false);
        assert_eq!(page["campaign_cache_stale"], true);
    }
    Ok(())
}

/// T-WSK-10
#[tokio::test]
async fn t_wsk_10_a_member_who_is_removed_loses_the_link_and_does_not_hammer() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "player1")?;
    let _daemon = home.start_at_table().await?;
    let since = high_water(&home).await?;
    table.remove_member("player1");
    let page = link(&home, false).await;
    let sentence = "You are no longer a member of this campaign";
    assert_eq!(page["role"], Value::Null);
    assert_eq!(page["stale"], true);
    let records = events(&home, since).await?;
    assert_eq!(records[0]["event"], "system.error");
    assert_eq!(
        records[0]["payload"]["detail"],
        json!({"message": sentence})
    );
    let detail = broken(&home, "campaign").await;
    assert!(
        detail.starts_with(sentence) && detail.contains(" min"),
        "{detail}"
    );
    let envelope = failure(&home, "dice_roll", json!({"expression": "1d20"})).await?;
    let error = envelope["error"].as_str().unwrap_or_default();
    assert!(
        error.contains(sentence) && error.contains("Nothing was sent"),
        "{error}"
    );
    assert!(table.log().events_in("dice.roll").is_empty());
    assert_eq!((logins(&table), handshakes(&table)), (1, 1));
    Ok(())
}

/// T-WSK-13
#[tokio::test]
async fn t_wsk_13_a_revoked_access_is_journalled_and_ends_the_authority_without_a_login()
-> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "player1")?;
    let _daemon = home.start_at_table().await?;
    let since = high_water(&home).await?;
    let payload = json!({"campaignId": table.campaign_id(), "reason": "removed"});
    let frame = json!(["campaign.access.revoked", payload]);
    table.faults().send_frame(&format!("42{frame}"));
    link(&home, false).await;
    let records = events(&home, since).await?;
    assert_eq!(
        names(&records)[..2],
        ["campaign.access.revoked", "system.error"],
        "{records:?}"
    );
    assert_eq!(records[0]["payload"], payload);
    assert_eq!(standing(&home).await?["role"], Value::Null);
    assert_eq!(logins(&table), 1);
    Ok(())
}

#[tokio::test]
async fn a_secret_roll_reaches_the_dm_as_an_audit_and_no_other_player_at_all() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await?;
        let (dm, player) = (Home::at(&table, "dm")?, Home::at(&table, "player2")?);
        let _daemons = (dm.start_at_table().await?, player.start_at_table().await?);
        let total = table.roll("player1", "1d20+5", true)?;
        table.say("player1", "I listen at the door.");
        let roller = &table.account("player1").user_id;
        let roll = event(&dm, 0, "dice.rolled.secret").await;
        assert_eq!(roll["payload"]["result"], total, "{version}");
        assert_eq!(roll["payload"]["secret"], true);
        assert_eq!(roll["payload"]["isAuditView"], true);
        assert_eq!(roll["payload"]["originalRoller"], *roller);
        // The line was said after the roll, so the roll would be there by now.
        event(&player, 0, "chat.message").await;
        let records = events(&player, 0).await?;
        let rolls = names(&records)
            .into_iter()
            .filter(|name| name.starts_with("dice."));
        assert_eq!(rolls.count(), 0, "{version}: {records:?}");
    }
    Ok(())
}

// ---- REST ------------------------------------------------------------------

#[tokio::test]
async fn too_many_requests_are_waited_out_as_long_as_the_server_says() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let body = json!({"error": "Too Many Requests", "message": "Slow down"});
    let reply =
        |seconds: u64| Fault::Answer(Reply::json(429, &body).header("Retry-After", seconds));
    let maps = maps_of(&table);
    let armed = table.faults().route("GET", &maps, reply(1)).times(1);
    data(&home, "map_list", json!({})).await?;
    let asked = table.log().requests_to("GET", &maps);
    assert_eq!((asked.len(), armed.fired()), (2, 1));
    let pause = asked[1].at - asked[0].at;
    assert!(pause >= Duration::from_millis(990), "{pause:?}");
    // Nobody is kept waiting for a minute: the agent is told instead.
    let armed = table.faults().route("GET", &maps, reply(60));
    let envelope = failure(&home, "map_list", json!({})).await?;
    assert_eq!(envelope["error"], "HTTP 429: Slow down");
    assert_eq!(envelope["data"], json!({"status": 429, "upstream": body}));
    assert_eq!(armed.fired(), 1);
    Ok(())
}

/// T-RST-03
#[tokio::test]
async fn t_rst_03_a_request_that_is_too_many_four_times_is_given_up() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.linked().await;
    let armed = table
        .faults()
        .route("GET", &maps_of(&table), Fault::status(429));
    let clock = async {
        for (pause, requests) in [(1, 2), (2, 3), (4, 4)] {
            until("one more request", || async {
                (armed.fired() + 1 >= requests).then_some(())
            })
            .await;
            pass(Duration::from_secs(pause)).await;
        }
    };
    let (answer, ()) = tokio::join!(maps(&client), clock);
    let error = answer.err().context("it worked")?.to_string();
    assert!(error.starts_with("HTTP 429"), "{error}");
    assert_eq!(armed.fired(), 4);
    Ok(())
}

/// T-ENV-02, T-ENV-03, T-RST-04, T-AUT-11
#[tokio::test]
async fn t_env_02_t_rst_04_t_aut_11_errors_of_the_server_are_passed_on_whole_and_asked_for_once()
-> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let missing = "This CozyVTT instance does not provide this feature; upgrade to a supported \
                   version and retry.";
    let hidden = "Resource not found or inaccessible to the current account (HTTP 404): nope";
    let cases = [
        (
            404,
            json!({"error": "Not Found", "message": "The requested resource does not exist"}),
            missing,
        ),
        (
            404,
            json!({"error": "Not Found", "message": "nope"}),
            hidden,
        ),
        (
            500,
            json!({"error": "Internal Server Error", "message": "boom"}),
            "HTTP 500: boom",
        ),
        (
            403,
            json!({
                "error": "Password Change Required", "code": "PASSWORD_CHANGE_REQUIRED",
                "message": "Set a new password",
            }),
            "HTTP 403: Set a new password",
        ),
    ];
    for (status, body, sentence) in cases {
        let reply = Fault::Answer(Reply::json(status, &body));
        let armed = table.faults().route("GET", &maps_of(&table), reply);
        let envelope = failure(&home, "map_list", json!({})).await?;
        assert_eq!(envelope["error"], sentence);
        assert_eq!(
            envelope["data"],
            json!({"status": status, "upstream": body})
        );
        assert_eq!(armed.fired(), 1, "{sentence}");
        armed.off();
    }
    assert_eq!(logins(&table), 1);
    data(&home, "map_list", json!({})).await?;
    Ok(())
}

#[tokio::test]
async fn t_rst_10_a_success_that_is_none_is_an_invalid_response_with_its_real_status() -> Result<()>
{
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let list = Fault::Answer(Reply::json(200, &json!([])));
    let keyless = Fault::Answer(Reply::json(200, &json!({"rows": []})));
    let campaign = format!("/api/campaigns/{}", table.campaign_id());
    for (tool, path) in [
        ("map_list", maps_of(&table)),
        ("chat_read", format!("{campaign}/messages")),
        ("campaign_get", campaign.clone()),
    ] {
        for fault in [
            Fault::Html,
            Fault::TruncatedJson,
            Fault::WrongTypes,
            list.clone(),
            keyless.clone(),
        ] {
            if tool == "campaign_get" && matches!(fault, Fault::WrongTypes) {
                // It still has its one key, and what is below is passed on as it is.
                continue;
            }
            let named = format!("{tool}, {fault:?}");
            let armed = table.faults().route("GET", &path, fault);
            let envelope = failure(&home, tool, json!({})).await?;
            let error = envelope["error"].as_str().unwrap_or_default();
            assert!(error.contains("INVALID_RESPONSE"), "{named}: {error}");
            assert!(error.contains("200"), "{named}: {error}");
            assert_eq!(envelope["data"]["status"], 200, "{named}");
            let upstream = &envelope["data"]["upstream"];
            assert_eq!(upstream["code"], "INVALID_RESPONSE", "{named}");
            assert_eq!(armed.fired(), 1, "{named}");
            armed.off();
        }
        data(&home, tool, json!({})).await?;
    }
    Ok(())
}

/// T-RST-09
#[tokio::test]
async fn t_rst_09_a_line_that_breaks_is_a_network_error_and_not_tried_again() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let maps = maps_of(&table);
    let begins = format!("GET {maps} network error: ");
    for fault in [Fault::HangUpBefore, Fault::HangUpAfter, Fault::CutMidAnswer] {
        let named = format!("{fault:?}");
        let armed = table.faults().route("GET", &maps, fault);
        let envelope = failure(&home, "map_list", json!({})).await?;
        let error = envelope["error"].as_str().unwrap_or_default();
        assert!(error.starts_with(&begins), "{named}: {error}");
        let upstream = json!({"message": error});
        assert_eq!(envelope["data"], json!({"status": 0, "upstream": upstream}));
        assert_eq!(armed.fired(), 1, "{named}");
        armed.off();
    }
    table.pause().await;
    let error = failure(&home, "map_list", json!({})).await?["error"].to_string();
    assert!(error.contains("network error: cannot connect"), "{error}");
    Ok(())
}
