//! The daemon against the frames of a real CozyVTT 1.1.2, played back byte for
//! byte by a WebSocket that knows no Socket.IO.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_proto::control::HopState;
use cozyvtt_tests::calls::{data, events, hop, names};
use cozyvtt_tests::captures::{Section, section};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::peer::{Asked, Cast, Peer, Step, script, send, wait};
use cozyvtt_tests::until;
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// What an agent is told of; everything else that a table sends is not its business.
const SUBSCRIBED: [&str; 20] = [
    "chat.message",
    "dice.rolled",
    "dice.rolled.secret",
    "map.changed",
    "token.moved",
    "initiative.state",
    "session.started",
    "session.paused",
    "session.ended",
    "session.resumed",
    "character.hp.updated",
    "character.updated",
    "campaign.dm.transferred",
    "roster.updated",
    "dice.historyCleared",
    "campaign.role.changed",
    "map:settings:updated",
    "token:appeared",
    "token:disappeared",
    "campaign.access.revoked",
];

const STEPS_OF_A_CONNECT: &str = "websocket-only, from connect to first events (DM)";

/// A home of an account at the peer.
fn home(peer: &Peer, cast: &Cast) -> Result<Home> {
    let mut home = Home::empty()?;
    home.set("COZYVTT_URL", peer.url());
    home.set("COZYVTT_EMAIL", "captured@table.example");
    home.set("COZYVTT_PASSWORD", "Lantern-captured-9!");
    home.set("COZYVTT_CAMPAIGN_ID", &cast.campaign);
    Ok(home)
}

/// The captured connect, up to the server's acceptance.
fn accepted() -> (Cast, Vec<Step>) {
    let section = section(STEPS_OF_A_CONNECT);
    let until_accepted = Section {
        frames: section.frames[..6].to_vec(),
        ..section
    };
    assert!(until_accepted.frames[5].text.contains("authenticated"));
    (Cast::of(&until_accepted), script(&until_accepted))
}

/// What the daemon has to journal of a captured connection.
fn journalled(section: &Section) -> Vec<(String, Value)> {
    let events = section.events().into_iter();
    events
        .filter_map(|(name, payload)| {
            if SUBSCRIBED.contains(&name.as_str()) {
                Some((name, payload))
            } else if name == "error" {
                Some(("system.error".to_owned(), json!({"detail": payload})))
            } else {
                None
            }
        })
        .collect()
}

async fn played(peer: &Peer, scripts: usize) {
    until("the capture is played to its end", || async {
        (peer.played() >= scripts).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_captured_connect_leads_to_an_authenticated_link() -> Result<()> {
    let section = section(STEPS_OF_A_CONNECT);
    let cast = Cast::of(&section);
    let peer = Peer::start("", cast.clone(), vec![script(&section)]).await?;
    let home = home(&peer, &cast)?;
    let _daemon = home.start_at_table().await?;
    played(&peer, 1).await;
    let page = data(&home, "events_poll", json!({})).await?;
    assert_eq!(page["authenticated"], true);
    assert_eq!(page["stale"], false);
    assert_eq!(page["role"], "DM");
    let said: Vec<_> = peer.heard().into_iter().map(|frame| frame.text).collect();
    let authenticate = format!(r#"42["authenticate",{{"campaignId":"{}"}}]"#, cast.campaign);
    assert_eq!(
        said,
        ["40", &authenticate, r#"42["initiative.request_state"]"#],
        "a client says this much and no more"
    );
    Ok(())
}

#[tokio::test]
async fn what_happened_at_the_table_is_journalled_verbatim_and_in_order() -> Result<()> {
    for title in ["33-table-dm", "34-table-player1", "36-table-spectator"] {
        let section = section(title);
        let expected = journalled(&section);
        assert!(expected.len() > 50, "{title} tells little");
        let cast = Cast::of(&section);
        let peer = Peer::start("", cast.clone(), vec![script(&section)]).await?;
        let home = home(&peer, &cast)?;
        let _daemon = home.start().await?;
        played(&peer, 1).await;
        let last = expected.len() as u64;
        let records = until("everything is journalled", || async {
            let records = events(&home, 0).await.ok()?;
            (records.last()?["seq"].as_u64()? >= last).then_some(records)
        })
        .await;
        // What is not journalled takes no number, so a number is a place in what was
        // expected; what is missing is the way of a token that moved on.
        let mut found = BTreeMap::new();
        for record in &records {
            let number = record["seq"].as_u64().context("no number")?;
            found.insert(number, record);
        }
        for (number, (name, payload)) in (1..).zip(&expected) {
            let Some(record) = found.remove(&number) else {
                assert_eq!(name, "token.moved", "{title}: {number} is missing");
                let on = |(name, later): &(String, Value)| {
                    name == "token.moved" && later["tokenId"] == payload["tokenId"]
                };
                let later = &expected[usize::try_from(number)?..];
                assert!(later.iter().any(on), "{title}: {number} is missing");
                continue;
            };
            assert_eq!(
                (&record["event"], &record["payload"]),
                (&json!(name), payload),
                "{title}: {number}"
            );
        }
        assert!(found.is_empty(), "{title}: {found:?}");
        // Refused requests of the watched client, and none of them fatal.
        let page = data(&home, "events_poll", json!({"limit": 1})).await?;
        assert_eq!(page["authenticated"], true, "{title}");
        assert_eq!(peer.handshakes().len(), 1, "{title}");
    }
    Ok(())
}

#[tokio::test]
async fn the_dms_evening_has_the_kinds_of_events_that_agents_live_by() -> Result<()> {
    let section = section("33-table-dm");
    let kinds = journalled(&section);
    let has = |name: &str| kinds.iter().any(|(kind, _)| kind == name);
    for name in [
        "dice.rolled",
        "dice.rolled.secret",
        "chat.message",
        "initiative.state",
        "map.changed",
        "token.moved",
        "dice.historyCleared",
        "character.hp.updated",
        "system.error",
    ] {
        assert!(has(name), "{name}");
    }
    let cleared = kinds.iter().find(|(kind, _)| kind == "dice.historyCleared");
    assert_eq!(cleared.context("never cleared")?.1, Value::Null);
    for name in ["chat.system", "user.joined", "fog:updated", "light:updated"] {
        assert!(!has(name), "{name}");
        assert!(
            section.events().iter().any(|(kind, _)| kind == name),
            "{name}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn authenticate_is_sent_only_after_the_server_has_said_connected() -> Result<()> {
    let race = section("RACE: authenticate sent straight after 40");
    let cast = Cast::of(&race);
    let mut steps = script(&race);
    // The watched client was too early once; after the namespace a heartbeat is
    // put instead: whatever a client has to say by then comes before its echo.
    let connected = race.first("connected").to_string();
    let early = steps
        .iter()
        .position(|step| matches!(step, Step::Await(text) if text.contains("authenticate")))
        .context("no race")?;
    steps.remove(early);
    let at = steps
        .iter()
        .position(|step| matches!(step, Step::Send(text) if text.contains(&connected)))
        .context("never connected")?;
    steps.splice(at..at, [send("2fence"), wait("3fence")]);
    let peer = Peer::start("", cast.clone(), vec![steps]).await?;
    let home = home(&peer, &cast)?;
    let _daemon = home.start_at_table().await?;
    played(&peer, 1).await;
    let said: Vec<_> = peer.heard().into_iter().map(|frame| frame.text).collect();
    assert_eq!(said[..2], ["40", "3fence"]);
    let authenticates = said.iter().filter(|text| text.contains("authenticate"));
    assert_eq!(authenticates.count(), 1, "{said:?}");
    Ok(())
}

#[tokio::test]
async fn a_socket_that_is_refused_is_not_taken_for_a_link_and_not_hammered() -> Result<()> {
    let (cast, _) = accepted();
    let attempts = ["no cookie", "bad cookie", "account with mustChangePassword"]
        .into_iter()
        .map(|title| refused(&cast, title));
    try_join_all(attempts).await?;
    Ok(())
}

async fn refused(cast: &Cast, title: &str) -> Result<()> {
    let mut steps = script(&section(&format!("30-engineio-connect: {title}")));
    assert!(matches!(steps.last(), Some(Step::Send(text)) if text == "41"));
    steps.push(Step::Close);
    let peer = Peer::start("", cast.clone(), vec![steps]).await?;
    let home = home(&peer, cast)?;
    let _daemon = home.start().await?;
    until("three attempts were made", || async {
        (peer.handshakes().len() >= 3).then_some(())
    })
    .await;
    let status = home.status().await?;
    for name in ["websocket", "campaign"] {
        assert_ne!(hop(&status, name)?.state, HopState::Ok, "{title}: {name}");
    }
    until("the link says what is wrong", || async {
        let status = home.status().await.ok()?;
        let hop = hop(&status, "websocket").ok()?;
        (hop.state == HopState::Broken && hop.detail.contains("Unauthorized")).then_some(())
    })
    .await;
    let page = data(&home, "events_poll", json!({})).await?;
    assert_eq!(page["authenticated"], false, "{title}");
    assert_eq!(page["stale"], true, "{title}");
    assert_eq!(page["connection_error"], "Unauthorized", "{title}");
    let errors = page["events"].as_array().cloned().unwrap_or_default();
    assert_eq!(
        names(&errors),
        ["system.error"],
        "told once, not with every attempt"
    );
    assert_eq!(errors[0]["payload"]["detail"], "Unauthorized");
    // Each pause is longer than the one before, and the password stays at home:
    // it was sent a moment ago.
    let at: Vec<_> = peer.handshakes().iter().map(|one| one.at).collect();
    let (first, second) = (at[1] - at[0], at[2] - at[1]);
    assert!(first >= Duration::from_millis(700), "{title}: {first:?}");
    assert!(second >= Duration::from_millis(1400), "{title}: {second:?}");
    assert_eq!(
        peer.asked_for("POST", "/api/auth/login").len(),
        1,
        "{title}"
    );
    Ok(())
}

/// A home whose campaign has refused it, as captured.
async fn closed_campaign() -> Result<(Peer, Home)> {
    let section = section("authenticate to a campaign I am no member of");
    let asked = section.frames.iter().find_map(|frame| {
        let payload = frame.text.strip_prefix(r#"42["authenticate","#)?;
        serde_json::from_str::<Value>(payload.strip_suffix(']')?).ok()
    });
    let cast = Cast {
        user: section.first("connected")["userId"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        campaign: asked.context("never asked")?["campaignId"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    };
    let peer = Peer::start("", cast.clone(), vec![script(&section)]).await?;
    let home = home(&peer, &cast)?;
    Ok((peer, home))
}

const NO_MEMBER: &str = "You are not a member of this campaign";

#[tokio::test]
async fn a_campaign_that_refuses_the_account_is_told_and_left_alone() -> Result<()> {
    let (peer, home) = closed_campaign().await?;
    let _daemon = home.start().await?;
    let detail = until("the status says it", || async {
        let status = home.status().await.ok()?;
        let mut broken = status.hops.into_iter();
        broken
            .find(|hop| hop.state == HopState::Broken && hop.detail.contains(NO_MEMBER))
            .map(|hop| hop.detail)
    })
    .await;
    // Minutes, not seconds: only a person can mend this.
    assert!(detail.contains(" min"), "{detail}");
    assert_eq!(peer.handshakes().len(), 1);
    let page = data(&home, "events_poll", json!({})).await?;
    assert_eq!(page["authenticated"], false);
    assert_eq!(page["connection_error"], NO_MEMBER);
    Ok(())
}

#[tokio::test]
async fn a_campaign_that_refuses_the_account_is_mended_by_a_membership_and_status_says_so()
-> Result<()> {
    let (_peer, home) = closed_campaign().await?;
    let _daemon = home.start().await?;
    let fix = until("a hop is broken", || async {
        let status = home.status().await.ok()?;
        let mut broken = status.hops.into_iter();
        broken.find(|hop| hop.detail.contains(NO_MEMBER))?.fix
    })
    .await;
    assert!(
        fix.contains("member") || fix.contains("invite") || fix.contains("campaign"),
        "neither the server nor a proxy is at fault: {fix}"
    );
    Ok(())
}

#[tokio::test]
async fn heartbeats_are_answered_before_and_after_the_acceptance() -> Result<()> {
    let (cast, mut steps) = accepted();
    // Before the namespace is joined, as the capture of a client that never joins.
    let joined = steps
        .iter()
        .position(|step| matches!(step, Step::Send(text) if text.starts_with("40")))
        .context("no namespace")?;
    steps.splice(joined..joined, [send("2"), wait("3")]);
    steps.extend([send("2"), wait("3"), send("2probe"), wait("3probe")]);
    let peer = Peer::start("", cast.clone(), vec![steps]).await?;
    let home = home(&peer, &cast)?;
    let _daemon = home.start_at_table().await?;
    played(&peer, 1).await;
    Ok(())
}

#[tokio::test]
async fn a_server_that_falls_silent_is_taken_for_dead() -> Result<()> {
    let (cast, mut steps) = accepted();
    steps[0] = send(r#"0{"sid":"s","upgrades":[],"pingInterval":100,"pingTimeout":200}"#);
    let peer = Peer::start("", cast.clone(), vec![steps]).await?;
    let home = home(&peer, &cast)?;
    let _daemon = home.start().await?;
    let reason = disconnected(&home).await;
    assert!(reason.contains("nothing came"), "{reason}");
    Ok(())
}

/// Waits for the end of a link; gives its reason.
async fn disconnected(home: &Home) -> String {
    let record = cozyvtt_tests::calls::event(home, 0, "system.disconnected").await;
    record["payload"]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn a_frame_that_is_garbage_ends_the_link_and_is_named() -> Result<()> {
    let frames = ["hello", "9", "4", r#"42{"oops""#, "42[5]", "42{}"];
    try_join_all(frames.map(garbage)).await?;
    Ok(())
}

async fn garbage(frame: &str) -> Result<()> {
    let (cast, mut steps) = accepted();
    let whole = steps.clone();
    steps.push(send(frame));
    let peer = Peer::start("", cast.clone(), vec![steps, whole]).await?;
    let home = home(&peer, &cast)?;
    let _daemon = home.start().await?;
    let reason = disconnected(&home).await;
    // Of an event its packet type has been read already.
    let quote = frame.strip_prefix("42").unwrap_or(frame);
    assert!(
        reason.contains("unreadable") && reason.ends_with(quote),
        "{frame}: {reason}"
    );
    let records = until("the link is back", || async {
        let records = events(&home, 0).await.ok()?;
        names(&records)
            .contains(&"system.reconnected")
            .then_some(records)
    })
    .await;
    assert_eq!(
        names(&records),
        ["system.disconnected", "system.reconnected"],
        "{frame}"
    );
    assert_eq!(
        peer.asked_for("POST", "/api/auth/login").len(),
        1,
        "{frame}"
    );
    Ok(())
}

#[tokio::test]
async fn an_event_without_a_payload_is_journalled_with_null() -> Result<()> {
    let (cast, mut steps) = accepted();
    steps.push(send(r#"42["dice.historyCleared"]"#));
    let peer = Peer::start("", cast.clone(), vec![steps]).await?;
    let home = home(&peer, &cast)?;
    let _daemon = home.start().await?;
    let record = cozyvtt_tests::calls::event(&home, 0, "dice.historyCleared").await;
    assert_eq!(record.get("payload"), Some(&Value::Null), "{record}");
    Ok(())
}

fn query(asked: &Asked) -> Vec<&str> {
    let mut pairs: Vec<_> = asked.query.split('&').collect();
    pairs.sort_unstable();
    pairs
}

#[tokio::test]
async fn the_handshake_is_that_of_a_program_and_not_of_a_browser() -> Result<()> {
    for base in ["", "/tavern/table"] {
        let (cast, steps) = accepted();
        let peer = Peer::start(base, cast.clone(), vec![steps]).await?;
        let home = home(&peer, &cast)?;
        let _daemon = home.start_at_table().await?;
        let handshakes = peer.handshakes();
        assert_eq!(handshakes.len(), 1, "{base:?}: {:?}", peer.asked());
        let asked = &handshakes[0];
        assert_eq!(query(asked), ["EIO=4", "transport=websocket"], "{base:?}");
        assert_eq!(asked.header("cookie"), asked.newest_cookie.as_deref());
        assert!(
            asked.newest_cookie.is_some(),
            "no login before the handshake"
        );
        let browser = |name: &str| name == "origin" || name.starts_with("sec-fetch");
        for asked in peer.asked() {
            let found = asked.headers.iter().find(|(name, _)| browser(name));
            assert_eq!(found, None, "{} {}", asked.method, asked.path);
        }
        assert_eq!(
            peer.asked_for("POST", "/api/auth/login").len(),
            1,
            "{base:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn every_answer_rolls_the_cookie_and_the_next_request_carries_the_newest() -> Result<()> {
    let (cast, steps) = accepted();
    let gate = Arc::new(Notify::new());
    let mut first = steps.clone();
    first.extend([Step::Hold(Arc::clone(&gate)), Step::Close]);
    let peer = Peer::start("", cast.clone(), vec![first, steps]).await?;
    let home = home(&peer, &cast)?;
    let _daemon = home.start_at_table().await?;
    // Three answers, one after the other, each with a cookie of its own.
    for _ in 0..3 {
        data(&home, "campaign_get", json!({})).await?;
    }
    gate.notify_one();
    until("a second handshake", || async {
        (peer.handshakes().len() == 2).then_some(())
    })
    .await;
    let second = &peer.handshakes()[1];
    assert_ne!(second.newest_cookie, peer.handshakes()[0].newest_cookie);
    assert_eq!(second.header("cookie"), second.newest_cookie.as_deref());
    let reads = peer.asked_for("GET", &format!("/api/campaigns/{}", cast.campaign));
    assert!(reads.len() >= 3, "{reads:?}");
    for read in reads {
        assert_eq!(read.header("cookie"), read.newest_cookie.as_deref());
    }
    Ok(())
}
