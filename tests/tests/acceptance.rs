//! Acceptance cases of the contract that no other suite covers: how the daemon
//! starts, signs in, asks, and connects. Each test names its case.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_proto::control::HopState;
use cozyvtt_proto::preset::all_tools;
use cozyvtt_table::{Armed, Direction, Fault, Reply, SocketFault, Table, Version};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::asked::logins;
use cozyvtt_tests::calls::{data, events, failure, high_water, hop, names};
use cozyvtt_tests::captures::{Section, section};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::in_process::{InProcess, pass, patient_table};
use cozyvtt_tests::peer::{Cast, Peer, Step, script, send, wait};
use cozyvtt_tests::raw::Wire;
use cozyvtt_tests::{PATIENCE, until};
use cozyvttd::journal::{Event, Journal};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::time::timeout;

const LOGIN: &str = "/api/auth/login";
const HANDSHAKE: &str = "/socket.io/";

fn in_campaign(table: &Table, rest: &str) -> String {
    format!("/api/campaigns/{}{rest}", table.campaign_id())
}

/// The sentence with which a call fails that has no session.
async fn sentence(home: &Home) -> Result<String> {
    let envelope = failure(home, "map_list", json!({})).await?;
    let error = envelope["error"].as_str().context("no sentence")?;
    Ok(error.to_owned())
}

// ---- Starting --------------------------------------------------------------

/// T-INI-01
#[tokio::test]
async fn t_ini_01_without_credentials_and_network_tools_are_listed_and_calls_explained()
-> Result<()> {
    let mut home = Home::empty()?;
    for name in ["COZYVTT_URL", "COZYVTT_EMAIL", "COZYVTT_PASSWORD"] {
        home.set(name, "");
    }
    let _daemon = home.start().await?;
    for era in [Era::Handshake, Era::Stateless] {
        let agent = Agent::through_shim(&home, era).await?;
        let tools = agent.client().list_all_tools().await?;
        assert_eq!(tools.len(), 41, "{era:?}");
        assert_eq!(all_tools().len(), 41);
        let moved = agent.call("token_move", json!({})).await?;
        assert_eq!(moved.is_error, Some(true), "{era:?}: {moved:?}");
        let read = agent.call("chat_read", json!({})).await?;
        assert_ne!(read.is_error, Some(true), "{era:?}: {read:?}");
        let envelope = read.structured_content.context("no structured content")?;
        assert_eq!(envelope["ok"], false);
        let error = envelope["error"].as_str().unwrap_or_default();
        assert!(error.contains("Missing"), "{era:?}: {error}");
        agent.leave().await?;
    }
    Ok(())
}

/// T-INI-05
#[tokio::test]
async fn t_ini_05_the_shim_ends_well_at_the_end_of_stdin() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    for talks in [true, false] {
        let (mut wire, mut shim) = Wire::spawn(&mut home.shim_command())?;
        if talks {
            wire.shake_hands().await?;
            let answer = wire.call(1, "map_list", json!({})).await?;
            assert_eq!(answer["result"]["structuredContent"]["ok"], true);
        }
        wire.half_close().await?;
        let status = timeout(PATIENCE, shim.wait()).await??;
        assert_eq!(status.code(), Some(0), "talks: {talks}");
    }
    Ok(())
}

/// T-INI-06
#[tokio::test]
async fn t_ini_06_a_campaign_that_cannot_be_read_at_the_start_holds_nothing_up() -> Result<()> {
    let table = Table::builder().start().await?;
    let campaign = in_campaign(&table, "");
    let armed = table.faults().route("GET", &campaign, Fault::status(500));
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start().await?;
    until("the campaign was asked for", || async {
        (armed.fired() > 0).then_some(())
    })
    .await;
    let answer = data(&home, "map_list", json!({})).await?;
    assert_eq!(answer["maps"].as_array().map(Vec::len), Some(2));
    data(&home, "chat_send", json!({"content": "Hello?"})).await?;
    assert_eq!(logins(&table), 1);
    Ok(())
}

// ---- Signing in ------------------------------------------------------------

/// T-AUT-01
#[tokio::test]
async fn t_aut_01_the_login_asks_to_be_remembered_and_its_user_is_kept() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await?;
        let home = Home::at(&table, "player1")?;
        let _daemon = home.start_at_table().await?;
        let account = table.account("player1");
        let sent = table.log().requests_to("POST", LOGIN);
        assert_eq!(sent.len(), 1, "{version}");
        assert_eq!(
            sent[0].json(),
            json!({"email": account.email, "password": account.password, "rememberMe": true})
        );
        let me = data(&home, "campaign_get", json!({})).await?["me"].clone();
        for (key, value) in [
            ("id", &*account.user_id),
            ("email", &account.email),
            ("displayName", &account.display_name),
            ("platformRole", "USER"),
        ] {
            assert_eq!(me[key], *value, "{version}: {key}");
        }
    }
    Ok(())
}

/// T-AUT-07
#[tokio::test]
async fn t_aut_07_a_line_that_breaks_during_the_login_is_told_and_cools_down() -> Result<()> {
    for fault in [Fault::HangUpBefore, Fault::HangUpAfter] {
        let table = Table::builder().start().await?;
        let named = format!("{fault:?}");
        let armed = table.faults().route("POST", LOGIN, fault).times(1);
        let home = Home::at(&table, "dm")?;
        let _daemon = home.start().await?;
        for _ in 0..3 {
            let error = sentence(&home).await?;
            assert!(error.contains("Login cooldown; retry in 1"), "{error}");
            assert!(error.contains("Login request network error: "), "{error}");
        }
        assert_eq!((logins(&table), armed.fired()), (1, 1), "{named}");
    }
    Ok(())
}

/// T-AUT-08
#[tokio::test]
async fn t_aut_08_the_handshake_carries_the_cookies_that_are_for_it_and_no_others() -> Result<()> {
    let mine = Some("cozyvtt.sid=s%3Amine");
    try_join_all(
        [
            (
                "",
                "cozyvtt.sid=s%3Amine; Path=/; HttpOnly; SameSite=Lax",
                mine,
            ),
            ("/table", "cozyvtt.sid=s%3Amine; Path=/", mine),
            ("", "narrow=1; Path=/api", None),
            ("/table", "narrow=1; Path=/table/api", None),
            ("", "expired=1; Path=/; Max-Age=0", None),
            (
                "",
                "past=1; Path=/; Expires=Mon, 30 Nov 2020 12:00:00 GMT",
                None,
            ),
            ("", "foreign=1; Path=/; Domain=elsewhere.example", None),
        ]
        .map(|(base, given, carried)| Box::pin(cookie(base, given, carried))),
    )
    .await?;
    Ok(())
}

/// What a handshake carries after a login that was answered with that cookie.
async fn cookie(base: &str, given: &str, carried: Option<&str>) -> Result<()> {
    let table = Table::builder().base_path(base).start().await?;
    let account = table.account("dm");
    let body = json!({"user": {"id": account.user_id, "email": account.email}});
    let reply = Reply::json(200, &body).header("Set-Cookie", given);
    let _armed = table.faults().route("POST", LOGIN, Fault::Answer(reply));
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start().await?;
    let handshake = until("a handshake was made", || async {
        table.log().requests_to("GET", HANDSHAKE).pop()
    })
    .await;
    assert_eq!(handshake.header("cookie"), carried, "{given}");
    Ok(())
}

/// T-AUT-13
#[tokio::test]
async fn t_aut_13_retry_after_is_read_as_a_date_and_nonsense_counts_as_none() -> Result<()> {
    for (text, least, most) in [
        // A whole day is as long as any server is believed.
        ("Wed, 01 Jan 2098 00:00:00 GMT", 86_000.0, 86_400.0),
        ("Mon, 30 Nov 2020 12:00:00 GMT", 100.0, 180.0),
        ("soon", 100.0, 180.0),
        ("-5", 100.0, 180.0),
    ] {
        let table = Table::builder().start().await?;
        let busy = Reply::json(503, &json!({"error": "Unavailable", "message": "Later"}));
        let fault = Fault::Answer(busy.header("Retry-After", text));
        let armed = table.faults().route("POST", LOGIN, fault);
        let home = Home::at(&table, "dm")?;
        let _daemon = home.start().await?;
        let error = sentence(&home).await?;
        let (_, rest) = error
            .split_once("Login cooldown; retry in ")
            .with_context(|| error.clone())?;
        let (seconds, rest) = rest.split_once("s: ").context("no seconds")?;
        let seconds: f64 = seconds.parse()?;
        assert!((least..=most).contains(&seconds), "{text}: {seconds}");
        assert_eq!(rest, "Login failed HTTP 503: Later", "{text}");
        assert_eq!((logins(&table), armed.fired()), (1, 1), "{text}");
    }
    Ok(())
}

// ---- REST ------------------------------------------------------------------

/// T-RST-08
#[tokio::test]
async fn t_rst_08_a_second_401_is_the_answer_and_no_third_request_is_made() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    pass(Duration::from_secs(181)).await;
    let maps = in_campaign(&table, "/maps");
    let body = json!({"error": "Unauthorized", "message": "Not you"});
    let reply = Fault::Answer(Reply::json(401, &body));
    let armed = table.faults().route("GET", &maps, reply);
    let request = cozyvttd::session::rest::Request::get(client.session.in_campaign(&["maps"]));
    let expect = cozyvttd::session::rest::Expect::Has("maps");
    let answer = client.session.request(&request, expect).await;
    let error = answer.err().context("it worked")?.to_string();
    assert_eq!(error, "HTTP 401: Not you");
    // The session lives, so it is kept.
    assert_eq!((armed.fired(), logins(&table)), (2, 1));
    Ok(())
}

/// T-RST-11
#[tokio::test]
async fn t_rst_11_a_page_in_answer_to_a_new_token_is_invalid_with_its_real_status() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await?;
        let home = Home::at(&table, "dm")?;
        let _daemon = home.start_at_table().await?;
        let map = table.current_map().context("no map")?;
        let tokens = in_campaign(&table, &format!("/maps/{map}/tokens"));
        let before = table.tokens(&map).len();
        let armed = table.faults().route("POST", &tokens, Fault::Html);
        let arguments = json!({"map_id": map, "name": "Eel", "image_url": "", "x": 2, "y": 2});
        let envelope = failure(&home, "token_add", arguments).await?;
        let error = envelope["error"].as_str().unwrap_or_default();
        assert!(
            error.starts_with("INVALID_RESPONSE: HTTP 201, but "),
            "{error}"
        );
        assert_eq!(envelope["data"]["status"], 201, "{version}");
        let upstream = &envelope["data"]["upstream"];
        assert_eq!(upstream["code"], "INVALID_RESPONSE", "{version}");
        assert_eq!(table.log().count("POST", &tokens), 1, "{version}");
        assert_eq!(armed.fired(), 1, "{version}");
        // It had happened, which is why it must not be repeated.
        assert_eq!(table.tokens(&map).len(), before + 1, "{version}");
    }
    Ok(())
}

// ---- The socket ------------------------------------------------------------

/// T-WSK-01
#[tokio::test]
async fn t_wsk_01_authenticate_waits_for_connected_and_is_sent_once() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder()
            .version(version)
            .connect_delay(Duration::from_millis(300))
            .start()
            .await?;
        let home = Home::at(&table, "dm")?;
        let _daemon = home.start_at_table().await?;
        let handshakes = table.log().requests_to("GET", HANDSHAKE);
        assert_eq!(handshakes.len(), 1, "{version}");
        assert!(handshakes[0].has_cookie, "{version}");
        let frames = table.log().frames();
        let place = |direction, event: &str| {
            frames.iter().position(|frame| {
                frame.direction == direction && frame.event.as_deref() == Some(event)
            })
        };
        let connected = place(Direction::Out, "connected").context("never connected")?;
        let asked = place(Direction::In, "authenticate").context("never asked")?;
        assert!(connected < asked, "{version}");
        let sent = table.log().events_in("authenticate");
        assert_eq!(sent.len(), 1, "{version}");
        let campaign = table.campaign_id();
        assert_eq!(sent[0].payload, json!({"campaignId": campaign}));
    }
    Ok(())
}

/// T-WSK-02, but for a `connected` that overtakes the namespace.
#[tokio::test]
async fn t_wsk_02_only_the_own_campaigns_acceptance_counts_and_a_late_connect_changes_nothing()
-> Result<()> {
    let whole = section("websocket-only, from connect to first events (DM)");
    let accepted = Section {
        frames: whole.frames[..6].to_vec(),
        ..whole
    };
    let cast = Cast::of(&accepted);
    let mut steps = script(&accepted);
    let Some(Step::Send(acceptance)) = steps.pop() else {
        anyhow::bail!("no acceptance at the end");
    };
    let wrong = acceptance.replace(&cast.campaign, "3b0c9a52-7d0e-4f0a-9c55-0f6f3f1b7a11");
    assert_ne!(wrong, acceptance);
    let go_on = Arc::new(Notify::new());
    let connected = format!("42{}", json!(["connected", whole_connected(&accepted)]));
    steps.extend([
        send(wrong),
        send("2wrong"),
        wait("3wrong"),
        Step::Hold(Arc::clone(&go_on)),
        send(acceptance),
        wait(r#"42["initiative.request_state"]"#),
        send(r#"40{"sid":"late"}"#),
        send(connected),
        send("2late"),
        wait("3late"),
    ]);
    let peer = Peer::start("", cast.clone(), vec![steps]).await?;
    let mut home = Home::empty()?;
    home.set("COZYVTT_URL", peer.url());
    home.set("COZYVTT_EMAIL", "captured@table.example");
    home.set("COZYVTT_PASSWORD", "Lantern-captured-9!");
    home.set("COZYVTT_CAMPAIGN_ID", &cast.campaign);
    let _daemon = home.start().await?;
    let heard = |text: &'static str| {
        let peer = &peer;
        async move {
            let mut frames = peer.heard().into_iter();
            frames.find(|frame| frame.text == text).map(drop)
        }
    };
    until("the wrong acceptance was heard", || heard("3wrong")).await;
    let status = home.status().await?;
    assert_ne!(hop(&status, "campaign")?.state, HopState::Ok);
    go_on.notify_one();
    until("the late connect was heard", || heard("3late")).await;
    let page = data(&home, "events_poll", json!({})).await?;
    assert_eq!(page["authenticated"], true);
    assert_eq!(page["last_error"], Value::Null);
    let asked = peer.heard();
    let asked = asked
        .iter()
        .filter(|frame| frame.text.contains("\"authenticate\""));
    assert_eq!((asked.count(), peer.handshakes().len()), (1, 1));
    Ok(())
}

/// What a capture's server said with `connected`.
fn whole_connected(section: &Section) -> Value {
    section.first("connected")
}

/// T-WSK-05
#[tokio::test]
async fn t_wsk_05_unauthorized_in_answer_to_authenticate_renews_the_login_and_connects_again()
-> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    pass(Duration::from_secs(181)).await;
    let refuse = SocketFault::AuthenticateError("Unauthorized".to_owned());
    let armed = table.faults().socket(refuse).times(1);
    let _looked = session_ended(&table);
    table.close_sockets_of("dm");
    client.authenticated(2).await;
    assert_eq!((logins(&table), armed.fired()), (2, 1));
    assert_eq!(client.session.link.state().last_error, None);
    Ok(())
}

/// T-WSK-05: a password that was sent a moment ago is not sent again.
#[tokio::test]
async fn t_wsk_05_unauthorized_right_after_the_login_connects_again_without_one() -> Result<()> {
    let table = Table::builder().start().await?;
    let refuse = SocketFault::AuthenticateError("Unauthorized".to_owned());
    let armed = table.faults().socket(refuse).times(1);
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    assert_eq!((logins(&table), armed.fired()), (1, 1));
    let page = data(&home, "events_poll", json!({})).await?;
    assert_eq!(page["authenticated"], true);
    assert_eq!(page["last_error"], Value::Null);
    let records = page["events"].as_array().cloned().unwrap_or_default();
    assert_eq!(
        records[0]["payload"],
        json!({"detail": "Unauthorized", "phase": "connect"})
    );
    Ok(())
}

/// Whoever asks next who they are hears that their session has ended; without that no
/// password is sent.
fn session_ended(table: &Table) -> Armed {
    let ended = Fault::status(401);
    table.faults().route("GET", "/api/auth/me", ended).times(1)
}

fn signed_out(table: &Table) -> (Value, String) {
    let payload = json!({"campaignId": table.campaign_id(), "reason": "You signed out."});
    let frame = json!(["campaign.access.revoked", payload]);
    (payload, format!("42{frame}"))
}

/// T-WSK-14
#[tokio::test]
async fn t_wsk_14_a_revocation_by_signing_out_renews_the_login_once() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "player1")?;
    client.authenticated(1).await;
    pass(Duration::from_secs(181)).await;
    let since = client.session.journal.high_water();
    let (payload, frame) = signed_out(&table);
    let _looked = session_ended(&table);
    table.faults().send_frame(&frame);
    client.authenticated(2).await;
    assert_eq!(logins(&table), 2);
    let mut records = client.session.journal.page(since, 500).await?.events;
    // The fight of the first acceptance may be told only now.
    records.retain(|record| record.event != "initiative.state");
    let told: Vec<_> = records.iter().map(|one| one.event.as_str()).collect();
    assert_eq!(told[..2], ["campaign.access.revoked", "system.error"]);
    assert_eq!(records[0].payload, payload);
    Ok(())
}

/// T-WSK-14: none while the login cools down.
#[tokio::test]
async fn t_wsk_14_a_revocation_right_after_the_login_sends_no_password() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "player1")?;
    let _daemon = home.start_at_table().await?;
    let since = high_water(&home).await?;
    let (_, frame) = signed_out(&table);
    table.faults().send_frame(&frame);
    let records = until("the link is back", || async {
        let mut records = events(&home, since).await.ok()?;
        records.retain(|record| record["event"] != "initiative.state");
        let back = names(&records).contains(&"system.reconnected");
        back.then_some(records)
    })
    .await;
    assert_eq!(
        names(&records)[..3],
        [
            "campaign.access.revoked",
            "system.error",
            "system.disconnected"
        ]
    );
    assert_eq!(logins(&table), 1);
    Ok(())
}

// ---- The journal -----------------------------------------------------------

/// T-BUF-07
#[tokio::test]
async fn t_buf_07_the_newest_record_of_a_name_is_found_or_nothing() -> Result<()> {
    let folder = TempDir::new()?;
    let journal = Journal::open(&folder.path().join("journal.db"))?;
    let mut last = 0;
    for number in 0..3 {
        for name in ["chat.message", "initiative.state"] {
            let event = Event::new(name, json!({"number": number}), 1);
            last = journal.append(event).await?;
        }
    }
    journal.committed(last).await?;
    for (name, seq) in [("chat.message", 5), ("initiative.state", 6)] {
        let found = journal.latest(name).await?.context("nothing")?;
        assert_eq!(found.payload, json!({"number": 2}), "{name}");
        assert_eq!(found.seq, seq, "{name}");
    }
    assert_eq!(journal.latest("dice.rolled").await?, None);
    Ok(())
}

/// T-AUT-14
#[tokio::test]
async fn t_aut_14_a_keepalive_that_meets_a_401_renews_the_login_once() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    let armed = table
        .faults()
        .route("GET", "/api/auth/ping", Fault::status(401))
        .times(1);
    let _looked = session_ended(&table);
    pass(Duration::from_secs(601)).await;
    until("the keepalive has met the 401", || async {
        (armed.fired() == 1).then_some(())
    })
    .await;
    until("the login is renewed", || async {
        (logins(&table) == 2).then_some(())
    })
    .await;
    client.authenticated(2).await;
    assert_eq!(logins(&table), 2);
    Ok(())
}

/// T-AUT-14: any other trouble is no reason to sign in.
#[tokio::test]
async fn t_aut_14_a_keepalive_that_meets_a_500_signs_nobody_in() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    let broken = Fault::status(500);
    let armed = table.faults().route("GET", "/api/auth/ping", broken);
    for pings in 1..=2 {
        pass(Duration::from_secs(601)).await;
        until("the keepalive has met the 500", || async {
            (armed.fired() == pings).then_some(())
        })
        .await;
    }
    assert_eq!(logins(&table), 1);
    assert!(client.session.link.state().authenticated());
    Ok(())
}

/// T-RST-02
#[tokio::test]
async fn t_rst_02_two_answers_of_too_many_are_waited_out() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let path = format!("/api/campaigns/{}/maps", table.campaign_id());
    let before = table.log().count("GET", &path);
    let armed = table
        .faults()
        .route("GET", &path, Fault::status(429))
        .times(2);
    let maps = data(&home, "map_list", json!({})).await?;
    assert!(maps["maps"].is_array());
    assert_eq!(armed.fired(), 2);
    assert_eq!(table.log().count("GET", &path) - before, 3);
    Ok(())
}

/// T-WSK-07
#[tokio::test]
async fn t_wsk_07_four_calls_at_once_share_one_connection() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start().await?;
    let say = |text: &'static str| data(&home, "chat_send", json!({"content": text}));
    let (one, two, three, four) = tokio::join!(say("one"), say("two"), say("three"), say("four"));
    for receipt in [one?, two?, three?, four?] {
        assert_eq!(receipt["sent"], true);
    }
    assert_eq!(table.log().count("GET", "/socket.io/"), 1);
    assert_eq!(logins(&table), 1);
    Ok(())
}

/// T-INI-04
#[tokio::test]
async fn t_ini_04_a_stop_says_goodbye_to_the_table_once() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    assert!(daemon.stop().await?.success());
    let frames = table.log().frames();
    let goodbyes = frames.iter().filter(|frame| frame.text == "41");
    assert_eq!(goodbyes.count(), 1);
    until("the seat is empty", || async {
        table.seated().is_empty().then_some(())
    })
    .await;
    Ok(())
}
