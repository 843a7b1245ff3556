//! The tools of narration and dice against the contract, at both releases: arguments, what goes
//! over the wire, and what comes back. A test that covers an acceptance case of
//! the contract names it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_table::{
    CampaignPlan, Direction, Fault, GameSystem, MapPlan, Reply, Role, Scene, Table, Version,
};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::asked::campaign_path;
use cozyvtt_tests::calls::{data, event, events, failure, high_water, names, refusal};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::seat::sit;
use cozyvtt_tests::until;
use futures_util::future::try_join_all;
use serde_json::{Value, json};

const NOTE: &str =
    "Dispatch only; poll for business results and system.error. Do not blindly retry writes.";
const NO_CURSOR: &str = "This instance does not support reliable cursor pagination for history; \
                         only the latest page can be read.";

async fn table(version: Version) -> Result<Table> {
    Table::builder().version(version).start().await
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value
        .as_object()
        .into_iter()
        .flat_map(|object| object.keys().map(String::as_str))
        .collect();
    keys.sort_unstable();
    keys
}

/// How much the daemon has said over the wire.
fn said(table: &Table) -> (usize, usize) {
    let frames = table.log().frames();
    let sent = frames.iter().filter(|one| one.direction == Direction::In);
    (table.log().requests().len(), sent.count())
}

// ---- campaign_get ----------------------------------------------------------

/// T-ENV-01
#[tokio::test]
async fn t_env_01_campaign_get_shows_where_one_is_and_nothing_of_the_rest() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit(&table, "dm").await?;
        let answer = data(home, "campaign_get", json!({})).await?;
        assert_eq!(
            keys(&answer),
            [
                "campaign",
                "current_map",
                "feature_evidence",
                "features",
                "health",
                "me",
                "owner",
                "role"
            ]
        );
        let me = &table.account("dm").user_id;
        let current = table.current_map().context("no map")?;
        assert_eq!(
            answer["campaign"],
            json!({
                "id": table.campaign_id(),
                "name": "The Hollow Bell",
                "status": "ACTIVE",
                "gameSystem": "DND_5E",
                "currentMapId": current,
                "description": "A drowned valley, and a bell that rings below the water.",
                "ownerId": me,
            }),
            "{version}"
        );
        assert_eq!(answer["role"], "DM");
        assert_eq!(answer["owner"], json!({"id": me, "is_me": true}));
        assert_eq!(
            answer["current_map"],
            json!({"id": current, "name": "Millrace Crossing", "width": 24, "height": 18})
        );
        assert_eq!(answer["health"]["reachable"], true);
        assert_eq!(answer["health"]["detail"]["services"]["database"], "ok");
        assert_eq!(answer["me"]["id"], **me);
        assert_eq!(answer["me"]["email"], table.account("dm").email);
        assert_eq!(answer["me"]["platformRole"], "USER");
        assert_eq!(
            keys(&answer["feature_evidence"]),
            ["hitdice_spend", "new_api"]
        );
    }
    Ok(())
}

/// T-CMP-02
#[tokio::test]
async fn t_cmp_02_the_features_follow_the_game_system() -> Result<()> {
    let systems = [
        (Some(GameSystem::Dnd5e), true, true),
        (Some(GameSystem::Pathfinder2e), false, true),
        (Some(GameSystem::Shadowrun6e), false, true),
        (Some(GameSystem::CallOfCthulhu7e), false, false),
        (None, false, false),
    ];
    for (system, fifth, rolls) in systems {
        let scene = Scene::new("Elsewhere").main(|campaign| campaign.system(system));
        let table = Table::builder().scene(scene).start().await?;
        let home = &sit(&table, "dm").await?;
        let answer = data(home, "campaign_get", json!({})).await?;
        assert_eq!(
            answer["campaign"]["gameSystem"],
            json!(system.map(GameSystem::as_str))
        );
        let hit_dice = if fifth {
            json!("unknown")
        } else {
            json!(false)
        };
        assert_eq!(
            answer["features"],
            json!({
                "srd_creature_library": fifth,
                "homebrew_creature_library": true,
                "initiative_roll": rolls,
                "documents": "unknown",
                "saved_rolls": "unknown",
                "dm_transfer": "unknown",
                "hitdice_spend": hit_dice,
            }),
            "{system:?}"
        );
        // A campaign without a map is on none, and nobody asks for the list.
        assert_eq!(answer.get("current_map"), Some(&Value::Null));
        let maps = format!("{}/maps", campaign_path(&table));
        assert_eq!(table.log().count("GET", &maps), 0, "{system:?}");
    }
    Ok(())
}

/// T-CMP-01
#[tokio::test]
async fn t_cmp_01_owning_a_campaign_is_no_role() -> Result<()> {
    let seats = [("dm", Role::Player), ("player1", Role::Dm)];
    for version in Version::ALL {
        let table = table(version).await?;
        // The DM seat moves, the ownership stays.
        for (account, role) in seats {
            table.set_role(account, role);
        }
        let owner = &table.account("dm").user_id;
        for (account, role, is_me) in [
            ("dm", "PLAYER", true),
            ("player1", "DM", false),
            ("player2", "PLAYER", false),
            ("spectator", "SPECTATOR", false),
        ] {
            let home = &sit(&table, account).await?;
            let answer = data(home, "campaign_get", json!({})).await?;
            assert_eq!(answer["role"], role, "{version}, {account}");
            assert_eq!(answer["owner"], json!({"id": owner, "is_me": is_me}));
            let page = data(home, "events_poll", json!({})).await?;
            assert_eq!(page["role"], role, "{version}, {account}");
        }
    }
    Ok(())
}

/// T-RST-12
#[tokio::test]
async fn t_rst_12_a_page_at_the_health_address_still_shows_that_the_server_is_there() -> Result<()>
{
    let table = Table::builder()
        .version(Version::V1_1_2)
        .health_page(true)
        .start()
        .await?;
    let home = &sit(&table, "player1").await?;
    let health = |answer: Value| answer["health"].clone();
    let answer = data(home, "campaign_get", json!({})).await?;
    assert_eq!(health(answer), json!({"reachable": true, "detail": {}}));
    let _no_health = table.faults().route("GET", "/health", Fault::status(503));
    let answer = data(home, "campaign_get", json!({})).await?;
    assert_eq!(
        health(answer),
        json!({"reachable": true, "detail": {"via": "/api/auth/ping"}})
    );
    let ping = "/api/auth/ping";
    let _no_ping = table.faults().route("GET", ping, Fault::HangUpBefore);
    let answer = health(data(home, "campaign_get", json!({})).await?);
    assert_eq!(answer["reachable"], false);
    assert!(
        answer["error"]
            .as_str()
            .is_some_and(|text| text.contains("network error"))
    );
    Ok(())
}

#[tokio::test]
async fn campaign_get_lives_without_the_list_of_maps_and_not_without_the_campaign() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit(&table, "dm").await?;
    let campaign = campaign_path(&table);
    for fault in [Fault::status(500), Fault::Html] {
        let armed = table
            .faults()
            .route("GET", &format!("{campaign}/maps"), fault);
        let answer = data(home, "campaign_get", json!({})).await?;
        assert_eq!(answer.get("current_map"), Some(&Value::Null));
        assert_eq!(armed.fired(), 1);
        armed.off();
    }
    let body = json!({"error": "Internal Server Error", "message": "boom"});
    let reply = Fault::Answer(Reply::json(500, &body));
    let _armed = table.faults().route("GET", &campaign, reply);
    let envelope = failure(home, "campaign_get", json!({})).await?;
    assert_eq!(envelope["error"], "HTTP 500: boom");
    assert_eq!(envelope["data"], json!({"status": 500, "upstream": body}));
    Ok(())
}

#[tokio::test]
async fn a_campaign_of_others_is_refused_in_the_servers_words() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = Home::at(&table, "outsider")?;
        let _daemon = home.start().await?;
        for tool in ["campaign_get", "map_list", "chat_read"] {
            let envelope = failure(&home, tool, json!({})).await?;
            let sentence = "You are not a member of this campaign";
            assert_eq!(envelope["error"], format!("HTTP 403: {sentence}"));
            assert_eq!(envelope["data"]["status"], 403);
            assert_eq!(envelope["data"]["upstream"]["message"], sentence);
        }
        assert_eq!(table.log().count("POST", "/api/auth/login"), 1, "{version}");
    }
    Ok(())
}

// ---- map_list --------------------------------------------------------------

/// Contract 2.1: upstream JSON passes through, unknown fields and all.
#[tokio::test]
async fn what_the_server_lists_is_passed_on_unchanged() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit(&table, "dm").await?;
    let maps = json!({
        "maps": [
            {"id": "a/b", "name": null, "width": 2.5, "of": {"later": [1, {"x": "\u{202e}é"}]}},
            "odd",
        ],
        "total": 9_007_199_254_740_993_u64,
    });
    let chat = json!({"messages": [], "pagination": {"nextCursor": null, "more": []}, "x": false});
    for (tool, place, body) in [("map_list", "maps", maps), ("chat_read", "messages", chat)] {
        let path = format!("{}/{place}", campaign_path(&table));
        let reply = Fault::Answer(Reply::json(200, &body));
        let armed = table.faults().route("GET", &path, reply);
        assert_eq!(data(home, tool, json!({})).await?, body);
        assert_eq!(armed.fired(), 1, "{tool}");
    }
    Ok(())
}

#[tokio::test]
async fn map_list_shows_what_the_release_shows_to_that_role() -> Result<()> {
    let (near, far) = ("Millrace Crossing", "Sunken Belfry");
    for version in Version::ALL {
        let table = table(version).await?;
        let path = format!("{}/maps", campaign_path(&table));
        for account in ["dm", "player1"] {
            let home = &sit(&table, account).await?;
            let before = table.log().count("GET", &path);
            let answer = data(home, "map_list", json!({})).await?;
            assert_eq!(table.log().count("GET", &path), before + 1);
            assert_eq!(keys(&answer), ["maps"]);
            let listed: Vec<_> = answer["maps"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|map| map["name"].as_str())
                .collect();
            // Newest first; prepared maps are hidden from players since 1.5.
            let hidden = version == Version::V1_5 && account == "player1";
            let expected: &[_] = if hidden { &[near] } else { &[far, near] };
            assert_eq!(listed, expected, "{version}, {account}");
        }
    }
    Ok(())
}

// ---- chat_read -------------------------------------------------------------

/// T-CHT-03
#[tokio::test]
async fn t_cht_03_the_chat_is_paged_with_the_servers_own_cursor() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit(&table, "spectator").await?;
    let path = format!("{}/messages", campaign_path(&table));
    let first = data(home, "chat_read", json!({"limit": 1})).await?;
    assert_eq!(keys(&first), ["messages", "pagination"]);
    assert_eq!(
        keys(&first["pagination"]),
        ["hasMore", "limit", "nextCursor"]
    );
    assert_eq!(first["messages"][0]["content"], "I keep the lantern low.");
    let cursor = first["pagination"]["nextCursor"]
        .as_str()
        .context("no cursor")?;
    let second = data(home, "chat_read", json!({"limit": 1, "cursor": cursor})).await?;
    assert_eq!(
        second["messages"][0]["content"],
        "I string my bow and watch the reeds."
    );
    let queries: Vec<_> = table
        .log()
        .requests_to("GET", &path)
        .into_iter()
        .filter_map(|one| one.query)
        .collect();
    assert_eq!(
        queries,
        ["limit=1".to_owned(), format!("limit=1&cursor={cursor}")]
    );
    let asked = table.log().count("GET", &path);
    let sentence = refusal(home, "chat_read", json!({"offset": 2})).await?;
    assert!(sentence.contains("offset"), "{sentence}");
    assert_eq!(table.log().count("GET", &path), asked);
    Ok(())
}

#[tokio::test]
async fn chat_read_follows_the_cursor_to_the_last_line_and_takes_twenty_by_itself() -> Result<()> {
    let scene = Scene::new("Talkative").main(|campaign| {
        (0..50).fold(campaign, |campaign, number| {
            campaign.line("player1", &format!("line {number}"))
        })
    });
    let table = Table::builder().scene(scene).start().await?;
    let home = &sit(&table, "player2").await?;
    let mut arguments = json!({});
    let mut lines = Vec::new();
    let mut pages = Vec::new();
    loop {
        let page = data(home, "chat_read", arguments).await?;
        let messages = page["messages"].as_array().context("no list")?;
        pages.push(messages.len());
        lines.extend(messages.iter().map(|line| line["content"].clone()));
        match page["pagination"]["nextCursor"].as_str() {
            Some(cursor) => arguments = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!(pages, [20, 20, 10]);
    let expected: Vec<_> = (0..50)
        .rev()
        .map(|number| json!(format!("line {number}")))
        .collect();
    assert_eq!(lines, expected);
    Ok(())
}

/// An invalid cursor is the server's to refuse; nothing else is tried instead.
#[tokio::test]
async fn a_cursor_that_the_server_does_not_know_is_refused_in_its_words() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit(&table, "dm").await?;
    let envelope = failure(home, "chat_read", json!({"cursor": "of&my=own#"})).await?;
    assert_eq!(envelope["error"], "HTTP 400: Invalid cursor");
    assert_eq!(envelope["data"]["upstream"]["error"], "Validation Error");
    let path = format!("{}/messages", campaign_path(&table));
    let asked = table.log().requests_to("GET", &path);
    let queries: Vec<_> = asked
        .iter()
        .filter_map(|one| one.query.as_deref())
        .collect();
    assert_eq!(queries, ["limit=20&cursor=of%26my%3Down%23"]);
    Ok(())
}

/// T-CHT-04, T-CHT-06
#[tokio::test]
async fn t_cht_06_t_cht_04_an_old_server_has_one_page_and_a_cursor_is_refused() -> Result<()> {
    let table = table(Version::V1_1_2).await?;
    let home = &sit(&table, "player1").await?;
    let path = format!("{}/messages", campaign_path(&table));
    let asked = || table.log().count("GET", &path);
    // Without knowledge the answer has to show it: one request.
    let envelope = failure(home, "chat_read", json!({"cursor": "c"})).await?;
    assert_eq!(envelope, json!({"ok": false, "error": NO_CURSOR}));
    assert_eq!(asked(), 1);
    // With knowledge none is needed.
    let envelope = failure(home, "chat_read", json!({"cursor": "c"})).await?;
    assert_eq!((&envelope["error"], asked()), (&json!(NO_CURSOR), 1));
    let page = data(home, "chat_read", json!({"limit": 3})).await?;
    assert_eq!(asked(), 2);
    assert_eq!(
        keys(&page["pagination"]),
        ["hasMore", "limit", "offset", "total"]
    );
    failure(home, "chat_read", json!({"cursor": "c"})).await?;
    assert_eq!(asked(), 2);
    // T-CHT-06: what was known goes with the authority behind it. A link that comes
    // back reads the chat itself, for what was missed.
    let since = high_water(home).await?;
    table.close_sockets();
    event(home, since, "system.resync").await;
    assert_eq!(asked(), 3);
    let envelope = failure(home, "chat_read", json!({"cursor": "c"})).await?;
    assert_eq!((&envelope["error"], asked()), (&json!(NO_CURSOR), 4));
    Ok(())
}

// ---- chat_send -------------------------------------------------------------

/// Every receipt is the same but for the tool's own fields.
fn check_receipt(receipt: &Value, own: &Value) -> Result<u64> {
    let since = receipt["since"].as_u64().context("no since")?;
    let mut expected = json!({
        "sent": true, "confirmed": false, "status": "pending", "since": since, "note": NOTE,
    });
    for (key, value) in own.as_object().into_iter().flatten() {
        expected[key] = value.clone();
    }
    assert_eq!(*receipt, expected);
    Ok(since)
}

/// T-CHT-01, T-DIC-07
#[tokio::test]
async fn t_dic_07_t_cht_01_a_line_is_sent_as_it_is_and_comes_back_after_since() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit(&table, "dm").await?;
        let longest = "é".repeat(2000);
        let lines = [
            (
                json!({"content": "The bell rings."}),
                "The bell rings.",
                "DM",
            ),
            (
                json!({"content": " Who is there? ", "type": "PLAYER"}),
                " Who is there? ",
                "PLAYER",
            ),
            (
                json!({"content": longest, "type": "DM"}),
                longest.as_str(),
                "DM",
            ),
        ];
        for (number, (arguments, content, label)) in lines.into_iter().enumerate() {
            let wire = json!({"content": content, "type": label});
            let receipt = data(home, "chat_send", arguments).await?;
            let since = check_receipt(&receipt, &wire)?;
            let line = event(home, since, "chat.message").await;
            assert!(line["seq"].as_u64() > Some(since));
            assert_eq!(line["payload"]["content"], content.trim());
            assert_eq!(line["payload"]["type"], label);
            assert_eq!(line["payload"]["userId"], table.account("dm").user_id);
            let sent = table.log().events_in("chat.message");
            assert_eq!(sent.len(), number + 1, "{version}");
            assert_eq!(sent[number].payload, wire, "{version}");
        }
        assert_eq!(
            table
                .chat()
                .iter()
                .filter(|line| line.kind == "PLAYER")
                .count(),
            3
        );
    }
    Ok(())
}

// ---- dice_roll -------------------------------------------------------------

/// T-DIC-02, T-DIC-03
#[tokio::test]
async fn t_dic_03_t_dic_02_a_roll_says_on_the_wire_what_was_given_and_no_more() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit(&table, "player1").await?;
        let cases = [
            (
                json!({"expression": "1d20+5"}),
                json!({"expression": "1d20+5", "secret": false}),
            ),
            (
                json!({"expression": "2d6", "is_secret": true, "purpose": "Stealth"}),
                json!({"expression": "2d6", "secret": true, "purpose": "Stealth"}),
            ),
            (
                json!({"expression": "4d6kh3", "purpose": "", "character_name": ""}),
                json!({"expression": "4d6kh3", "secret": false, "characterName": ""}),
            ),
            (
                json!({"expression": "adv+3", "character_name": "Brannoc"}),
                json!({"expression": "adv+3", "secret": false, "characterName": "Brannoc"}),
            ),
            (
                json!({"expression": "dis", "is_secret": false, "character_name": null}),
                json!({"expression": "dis", "secret": false}),
            ),
        ];
        for (number, (arguments, wire)) in cases.into_iter().enumerate() {
            let expression = wire["expression"].clone();
            let receipt = data(home, "dice_roll", arguments.clone()).await?;
            let own = json!({
                "expression": expression,
                "secret": wire["secret"],
                "purpose": arguments.get("purpose").cloned().unwrap_or(json!("")),
                "character_name": arguments.get("character_name"),
            });
            let since = check_receipt(&receipt, &own)?;
            // The roller sees its secret rolls as well.
            let roll = event(home, since, "dice.rolled").await;
            assert!(roll["seq"].as_u64() > Some(since));
            assert_eq!(roll["payload"]["expression"], expression);
            assert_eq!(roll["payload"]["secret"], wire["secret"]);
            assert_eq!(roll["payload"]["userId"], table.account("player1").user_id);
            assert_eq!(roll["payload"]["result"], table.rolls()[number].result);
            let sent = table.log().events_in("dice.roll");
            assert_eq!(sent.len(), number + 1, "{version}");
            assert_eq!(sent[number].payload, wire, "{version}");
        }
    }
    Ok(())
}

/// T-WSK-09
#[tokio::test]
async fn t_wsk_09_what_the_server_refuses_is_an_event_and_the_link_stays_up() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit(&table, "dm").await?;
        for expression in ["", "a sword", "1d20; unauthorized"] {
            let receipt = data(home, "dice_roll", json!({"expression": expression})).await?;
            assert_eq!(receipt["status"], "pending");
            let since = receipt["since"].as_u64().context("no since")?;
            let refused = event(home, since, "system.error").await;
            let sentence = refused["payload"]["detail"]["message"]
                .as_str()
                .with_context(|| format!("no sentence: {refused}"))?;
            assert!(
                sentence.to_lowercase().contains("dice expression"),
                "{sentence}"
            );
            let page = data(home, "events_poll", json!({"since": since})).await?;
            assert_eq!(page["authenticated"], true, "{expression:?}");
            assert_eq!(page["stale"], false);
            assert_eq!(page["last_error"], sentence);
            assert!(page.get("connection_error").is_none());
        }
        // Neither a reconnect nor a login came of it.
        assert_eq!(table.log().count("GET", "/socket.io/"), 1, "{version}");
        assert_eq!(table.log().count("POST", "/api/auth/login"), 1);
        data(home, "dice_roll", json!({"expression": "1d6"})).await?;
    }
    Ok(())
}

/// T-DIC-08. The reference spaces rolls by 2.1 s; a budget lets a burst through.
#[tokio::test]
async fn t_dic_08_agents_share_28_rolls_which_go_out_at_once_and_the_next_is_told_its_wait()
-> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit(&table, "dm").await?;
        let eras = [Era::Handshake, Era::Stateless].into_iter();
        let agents = try_join_all(eras.map(|era| Agent::on_the_socket(home, era))).await?;
        let rolls = (0..28).map(|number| {
            let arguments = json!({"expression": format!("1d{}", number + 2)});
            agents[number % 2].data("dice_roll", arguments)
        });
        try_join_all(rolls).await?;
        until("all are rolled", || async {
            (table.rolls().len() == 28).then_some(())
        })
        .await;
        let sent = table.log().events_in("dice.roll");
        // Spaced out, they would take most of a minute.
        let took = sent[27].at - sent[0].at;
        assert!(took < Duration::from_secs(10), "{version}: {took:?}");
        let envelope = failure(home, "dice_roll", json!({"expression": "1d30"})).await?;
        let error = envelope["error"].as_str().unwrap_or_default();
        assert!(
            error.contains("queue is full") && error.contains("nothing was sent"),
            "{error}"
        );
        assert_eq!(table.log().events_in("dice.roll").len(), 28, "{version}");
        // Chat is not held up by it.
        data(home, "chat_send", json!({"content": "Enough."})).await?;
    }
    Ok(())
}

// ---- events_poll -----------------------------------------------------------

#[tokio::test]
async fn events_poll_has_its_fourteen_fields_and_a_connection_error_only_without_a_link()
-> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit(&table, "dm").await?;
        // The order of combat is asked for with every acceptance.
        event(home, 0, "initiative.state").await;
        data(home, "campaign_get", json!({})).await?;
        let page = data(home, "events_poll", json!({})).await?;
        let mut expected = json!({
            "events": page["events"],
            "next_seq": 1, "latest_seq": 1, "high_water_seq": 1, "oldest_seq": 1,
            "gap": false, "cursor_reset": false, "has_more": false,
            "connected": true, "authenticated": true, "last_error": null, "role": "DM",
            "stale": false, "campaign_cache_stale": false,
        });
        assert_eq!(page, expected, "{version}");
        assert_eq!(
            keys(&page["events"][0]),
            ["event", "generation", "payload", "seq", "ts"]
        );
        assert_eq!(page["events"][0]["generation"], 1);
        let idle = json!({"active": false, "round": 0, "currentTokenId": null, "combatants": []});
        assert_eq!(page["events"][0]["payload"], idle);

        table.pause().await;
        let page = until("the link is down", || async {
            let page = data(home, "events_poll", json!({})).await.ok()?;
            (page["connected"] == false && page["last_error"].is_string()).then_some(page)
        })
        .await;
        assert_eq!(page["authenticated"], false);
        assert_eq!(page["stale"], true);
        assert_eq!(page["role"], Value::Null);
        assert_eq!(page["connection_error"], page["last_error"]);
        expected["connection_error"] = json!("");
        assert_eq!(keys(&page), keys(&expected), "{version}");
    }
    Ok(())
}

/// T-BUF-06
#[tokio::test]
async fn t_buf_06_polling_works_without_a_server_and_says_why_there_is_nothing() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = Home::at(&table, "dm")?;
    table.pause().await;
    let _daemon = home.start().await?;
    let refused = event(&home, 0, "system.error").await;
    assert_eq!(refused["payload"]["phase"], "connect");
    let page = data(&home, "events_poll", json!({})).await?;
    assert_eq!(page["authenticated"], false);
    assert_eq!(page["connected"], false);
    assert_eq!(page["stale"], true);
    let why = page["connection_error"].as_str().unwrap_or_default();
    assert!(why.contains("cannot connect"), "{why}");
    assert_eq!(refused["payload"]["detail"], why);
    Ok(())
}

/// T-BUF-01, T-BUF-03, T-BUF-05, T-BUF-08
#[tokio::test]
async fn t_buf_01_t_buf_05_t_buf_08_t_buf_03_cursors_page_through_without_a_gap_and_readers_do_not_disturb_each_other()
-> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit(&table, "dm").await?;
    event(home, 0, "initiative.state").await;
    for number in 0..7 {
        table.say("player1", &format!("line {number}"));
    }
    until("all are journalled", || async {
        (high_water(home).await.ok()? == 8).then_some(())
    })
    .await;
    let poll =
        |since: u64, limit: u64| data(home, "events_poll", json!({"since": since, "limit": limit}));
    let numbers = |page: &Value| -> Vec<u64> {
        let events = page["events"].as_array().into_iter().flatten();
        events.filter_map(|record| record["seq"].as_u64()).collect()
    };
    let mut since = 0;
    for expected in [&[1, 2, 3][..], &[4, 5, 6], &[7, 8]] {
        let page = poll(since, 3).await?;
        // Another reader, elsewhere in between.
        assert_eq!(numbers(&poll(5, 1).await?), [6]);
        assert_eq!(numbers(&page), expected);
        since = page["next_seq"].as_u64().context("no cursor")?;
        assert_eq!(Some(&since), expected.last());
        assert_eq!(page["latest_seq"], since);
        assert_eq!(page["high_water_seq"], 8);
        assert_eq!(page["oldest_seq"], 1);
        assert_eq!(page["has_more"], since < 8);
        assert_eq!(
            (&page["gap"], &page["cursor_reset"]),
            (&json!(false), &json!(false))
        );
    }
    let page = poll(8, 100).await?;
    assert_eq!(numbers(&page), Vec::<u64>::new());
    assert_eq!(
        (&page["next_seq"], &page["has_more"]),
        (&json!(8), &json!(false))
    );
    // A cursor of another journal.
    let page = poll(1000, 2).await?;
    assert_eq!(page["cursor_reset"], true);
    assert_eq!(page["gap"], false);
    assert_eq!(numbers(&page), [1, 2]);
    // T-BUF-01: only what is new.
    table.say("player2", "line 7");
    event(home, 8, "chat.message").await;
    assert_eq!(numbers(&poll(8, 100).await?), [9]);
    Ok(())
}

/// T-WSK-16
#[tokio::test]
async fn t_wsk_16_what_agents_are_not_told_of_takes_no_number() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit(&table, "dm").await?;
        event(home, 0, "initiative.state").await;
        let since = high_water(home).await?;
        table.announce("The candles burn low.", &json!({"action": "mood"}));
        for frame in [
            json!(["presence.state", {"onlineUserIds": []}]),
            json!(["token.move.start", {"tokenId": "t"}]),
            json!(["map.pinged", {"x": 1}]),
            json!(["pong", {}]),
            json!(["something.of.a.later.release", {}]),
        ] {
            table.faults().send_frame(&format!("42{frame}"));
        }
        table.say("player1", "And then?");
        event(home, since, "chat.message").await;
        let records = events(home, since).await?;
        assert_eq!(names(&records), ["chat.message"], "{version}");
        assert_eq!(records[0]["seq"], since + 1, "{version}");
    }
    Ok(())
}

/// T-WSK-12: the names that 0.6 of the reference added.
#[tokio::test]
async fn t_wsk_12_the_rarer_events_are_journalled_verbatim_and_in_order() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit(&table, "player1").await?;
    let sent = [
        json!(["map:settings:updated", {"mapId": "m", "fogEnabled": true, "of": {"later": [1.5, null]}}]),
        json!(["token:appeared", {"token": {"id": "t", "name": "Ünal \"Stalker\" \u{2028}"}, "mapId": "m"}]),
        json!(["token:disappeared", {"tokenId": "t", "mapId": "m"}]),
        json!(["token.moved", {"tokenId": "t", "mapId": "m", "x": 3.25, "y": -0.5, "movedBy": null}]),
        json!(["session.resumed", {"sessionNumber": 9_007_199_254_740_993_u64}]),
        json!(["dice.historyCleared"]),
        json!(["character.updated", {"characterId": "c", "tokensChanged": true}]),
        json!(["chat.message", "one", 2]),
    ];
    event(home, 0, "initiative.state").await;
    let since = high_water(home).await?;
    for frame in &sent {
        table.faults().send_frame(&format!("42{frame}"));
    }
    event(home, since, "chat.message").await;
    let records = events(home, since).await?;
    assert_eq!(records.len(), sent.len());
    for (record, frame) in records.iter().zip(&sent) {
        assert_eq!(record["event"], frame[0]);
        let payload = match frame.as_array().map(Vec::as_slice) {
            Some([_]) => Value::Null,
            Some([_, one]) => one.clone(),
            Some([_, several @ ..]) => json!(several),
            _ => continue,
        };
        assert_eq!(record["payload"], payload, "{frame}");
    }
    Ok(())
}

// ---- Bad arguments ---------------------------------------------------------

/// T-CHT-02, T-CHT-05, T-BUF-04, T-ENV-05
#[tokio::test]
async fn t_cht_02_t_cht_05_t_buf_04_bad_arguments_are_explained_and_never_reach_the_wire()
-> Result<()> {
    let content = "content must be a nonempty string of at most 2000 characters";
    let bounds = "since must be >= 0 and limit must be in 1..500";
    let limit = "limit must be in 1..100";
    let long = "x".repeat(2001);
    let cases = [
        ("chat_read", json!({"limit": 0}), limit),
        ("chat_read", json!({"limit": -1}), limit),
        ("chat_read", json!({"limit": 101}), limit),
        ("chat_read", json!({"limit": 1.5}), "1..100"),
        ("chat_read", json!({"limit": true}), "1..100"),
        ("chat_read", json!({"limit": "3"}), "1..100"),
        (
            "chat_read",
            json!({"cursor": ""}),
            "cursor must be a nonempty string or null",
        ),
        ("chat_read", json!({"cursor": 5}), "cursor"),
        ("chat_read", json!({"offset": 2}), "offset"),
        ("chat_send", json!({"content": ""}), content),
        ("chat_send", json!({"content": " \n\t"}), content),
        ("chat_send", json!({"content": long}), content),
        (
            "chat_send",
            json!({"content": "a", "type": "NARRATION"}),
            "type must be DM / PLAYER",
        ),
        (
            "chat_send",
            json!({"content": "a", "type": "dm"}),
            "type must be DM / PLAYER",
        ),
        (
            "chat_send",
            json!({"content": "", "type": ""}),
            "type must be DM / PLAYER",
        ),
        ("chat_send", json!({}), "content"),
        ("chat_send", json!({"content": 5}), "content"),
        ("dice_roll", json!({}), "expression"),
        ("dice_roll", json!({"expression": 20}), "expression"),
        (
            "dice_roll",
            json!({"expression": "1d6", "is_secret": "yes"}),
            "is_secret",
        ),
        (
            "dice_roll",
            json!({"expression": "1d6", "isSecret": true}),
            "isSecret",
        ),
        (
            "dice_roll",
            json!({"expression": "1d6", "purpose": null}),
            "purpose",
        ),
        ("events_poll", json!({"since": -1, "limit": 1}), bounds),
        ("events_poll", json!({"since": 0, "limit": 0}), bounds),
        ("events_poll", json!({"since": 0, "limit": -1}), bounds),
        ("events_poll", json!({"since": 0, "limit": 501}), bounds),
        ("events_poll", json!({"since": 0.5}), "since"),
        ("map_list", json!({"limit": 1}), "limit"),
        ("campaign_get", json!({"id": "c"}), "id"),
    ];
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit(&table, "dm").await?;
        event(home, 0, "initiative.state").await;
        let before = said(&table);
        for (tool, arguments, words) in &cases {
            let sentence = refusal(home, tool, arguments.clone()).await?;
            if words.contains(" must be ") {
                assert_eq!(sentence, *words, "{tool} {arguments}");
            } else {
                assert!(sentence.contains(words), "{tool} {arguments}: {sentence}");
            }
        }
        // Whatever had been sent nonetheless would come before this.
        data(home, "chat_send", json!({"content": "fence"})).await?;
        until("the fence is there", || async {
            table
                .chat()
                .iter()
                .any(|line| line.content == "fence")
                .then_some(())
        })
        .await;
        assert_eq!(said(&table), (before.0, before.1 + 1), "{version}");
    }
    Ok(())
}

/// A model has to see the sentence, so bad arguments are a tool's answer and no
/// protocol error.
#[tokio::test]
async fn an_agent_gets_the_sentence_as_the_answer_of_the_tool() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit(&table, "dm").await?;
    for era in [Era::Handshake, Era::Stateless] {
        let agent = Agent::on_the_socket(home, era).await?;
        let result = agent.call("chat_read", json!({"limit": 0})).await?;
        assert_eq!(result.is_error, Some(true), "{era:?}");
        let expected = json!({"ok": false, "error": "limit must be in 1..100"});
        assert_eq!(result.structured_content, Some(expected.clone()));
        let content = serde_json::to_value(&result.content)?;
        let text = content[0]["text"].as_str().context("no text")?;
        assert_eq!(serde_json::from_str::<Value>(text)?, expected);
        // What fails upstream is an answer as well.
        let fault = Fault::status(500);
        let armed = table.faults().route("GET", &campaign_path(&table), fault);
        let result = agent.call("campaign_get", json!({})).await?;
        let envelope = result.structured_content.context("no envelope")?;
        assert_eq!(envelope["ok"], false);
        assert_eq!(envelope["data"]["status"], 500);
        armed.off();
        agent.leave().await?;
    }
    Ok(())
}

/// T-BUF-08 and contract 0.3: one session, one campaign, whatever else the
/// account may see.
#[tokio::test]
async fn only_the_configured_campaign_is_read_and_heard() -> Result<()> {
    let other = CampaignPlan::new("Another table")
        .seats([("player2", Role::Dm), ("dm", Role::Player)])
        .map(MapPlan::new("Not ours", 5, 5));
    let table = Table::builder()
        .scene(Scene::default().campaign(other))
        .start()
        .await?;
    let mut home = Home::at(&table, "dm")?;
    let id = table
        .campaign_named("Another table")
        .context("no campaign")?;
    home.set("COZYVTT_CAMPAIGN_ID", &id);
    let _daemon = home.start_at_table().await?;
    let campaign = data(&home, "campaign_get", json!({})).await?;
    assert_eq!(campaign["campaign"]["name"], "Another table");
    assert_eq!(campaign["role"], "PLAYER");
    let maps = data(&home, "map_list", json!({})).await?;
    assert_eq!(maps["maps"][0]["name"], "Not ours");
    let since = high_water(&home).await?;
    table.say("player1", "At the first table.");
    let line = json!({"content": "At the other one.", "type": "PLAYER"});
    data(&home, "chat_send", line).await?;
    let heard = event(&home, since, "chat.message").await;
    assert_eq!(heard["payload"]["content"], "At the other one.");
    assert_eq!(events(&home, since).await?.len(), 1);
    Ok(())
}
