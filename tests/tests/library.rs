//! Creatures, saved rolls, the DM's seat, and what the answers of such tools show
//! of the server, against the contract. A test that covers an acceptance case of
//! the contract names it.

use anyhow::{Context as _, Result};
use cozyvtt_table::{
    CreaturePlan, Direction, Fault, GameSystem, Reply, Role, Scene, Table, Version,
};
use cozyvtt_tests::asked::only;
use cozyvtt_tests::calls::{data, event, failure, high_water, refusal};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::seat::sit;
use cozyvtt_tests::until;
use serde_json::{Value, json};

/// The id of nothing.
const NOBODYS: &str = "3b0c9a52-7d0e-4f0a-9c55-0f6f3f1b7a11";
const MISSING_FEATURE: &str = "This CozyVTT instance does not provide this feature; upgrade to a \
                               supported version and retry.";

fn in_campaign(table: &Table, rest: &str) -> String {
    format!("/api/campaigns/{}{rest}", table.campaign_id())
}

/// How many events the daemon has sent.
fn emitted(table: &Table) -> usize {
    let frames = table.log().frames();
    let sent = frames
        .iter()
        .filter(|one| one.direction == Direction::In && one.event.is_some());
    sent.count()
}

fn names(rows: &Value) -> Vec<&str> {
    let rows = rows.as_array().into_iter().flatten();
    rows.filter_map(|row| row["name"].as_str()).collect()
}

fn not_found(message: &str) -> String {
    format!("Resource not found or inaccessible to the current account (HTTP 404): {message}")
}

// ---- creature_search -------------------------------------------------------

fn bestiary(system: Option<GameSystem>) -> Scene {
    Scene::of_system(system)
        .creature(CreaturePlan::new("Bog Wisp", 13, 9).challenge("1/8"))
        .main(|campaign| {
            campaign.creature(
                CreaturePlan::new("Mill Ghost", 12, 30)
                    .system(system)
                    .challenge("2"),
            )
        })
}

/// T-CRE-01
#[tokio::test]
async fn t_cre_01_systems_without_the_srd_search_the_campaigns_own_creatures() -> Result<()> {
    let systems = [
        (None, Some("custom")),
        (Some(GameSystem::CallOfCthulhu7e), Some("custom")),
        (Some(GameSystem::Shadowrun6e), Some("custom")),
        (Some(GameSystem::Pathfinder2e), Some("custom")),
        (Some(GameSystem::Dnd5e), None),
    ];
    for (system, source) in systems {
        let table = Table::builder().scene(bestiary(system)).start().await?;
        let home = &sit(&table, "dm").await?;
        let path = in_campaign(&table, "/creatures");
        let answer = data(home, "creature_search", json!({})).await?;
        let more = source.map_or_else(String::new, |source| format!("&source={source}"));
        let query = format!("limit=20&offset=0{more}");
        assert_eq!(only(&table, "GET", &path)?.query, Some(query), "{system:?}");
        let found = names(&answer["creatures"]);
        assert!(found.contains(&"Mill Ghost"), "{system:?}: {found:?}");
        assert_eq!(found.contains(&"Bog Wisp"), source.is_none(), "{system:?}");
    }
    Ok(())
}

/// T-CRE-01
#[tokio::test]
async fn t_cre_01_a_source_is_read_without_regard_to_case_and_space_and_none_is_made_up()
-> Result<()> {
    let scene = bestiary(Some(GameSystem::Dnd5e));
    let table = Table::builder().scene(scene).start().await?;
    let home = &sit(&table, "dm").await?;
    let path = in_campaign(&table, "/creatures");
    for (arguments, query) in [
        (
            json!({"source": " SRD ", "search": "wisp & co", "cr": "1/8", "limit": 500}),
            "limit=100&offset=0&search=wisp+%26+co&source=srd&cr=1%2F8",
        ),
        (
            json!({"source": "Custom", "offset": 3, "limit": 5}),
            "limit=5&offset=3&source=custom",
        ),
        (json!({"search": "ghost"}), "limit=20&offset=0&search=ghost"),
    ] {
        table.log().clear();
        data(home, "creature_search", arguments).await?;
        assert_eq!(only(&table, "GET", &path)?.query.as_deref(), Some(query));
    }
    let arguments = json!({"search": "wisp", "source": "srd", "cr": "1/8"});
    let answer = data(home, "creature_search", arguments).await?;
    let rows = table.creatures();
    let wisp = rows.iter().find(|one| one["name"] == "Bog Wisp");
    assert_eq!(
        answer,
        json!({"creatures": [wisp], "total": 1, "limit": 20, "offset": 0}),
        "unchanged"
    );
    table.log().clear();
    let sentence = refusal(home, "creature_search", json!({"source": "all"})).await?;
    assert!(
        sentence.contains("source must be srd, custom, or an empty string"),
        "{sentence}"
    );
    assert_eq!(table.log().requests().len(), 0);
    Ok(())
}

/// T-CRE-02
#[tokio::test]
async fn t_cre_02_the_srd_is_for_fifth_edition_alone() -> Result<()> {
    for (system, named) in [
        (Some(GameSystem::CallOfCthulhu7e), "CALL_OF_CTHULHU_7E"),
        (Some(GameSystem::Pathfinder2e), "PATHFINDER_2E"),
        (None, "unset (flexible)"),
    ] {
        let table = Table::builder().scene(bestiary(system)).start().await?;
        let home = &sit(&table, "dm").await?;
        let path = in_campaign(&table, "/creatures");
        let envelope = failure(home, "creature_search", json!({"source": "srd"})).await?;
        let sentence = format!(
            "SRD creature library (Open5e provides D&D 5e content) is available only for DND_5E \
             campaigns; current campaign system: {named}"
        );
        assert_eq!(envelope, json!({"ok": false, "error": sentence}));
        assert_eq!(table.log().count("GET", &path), 0, "{named}");
        let answer = data(home, "creature_search", json!({"source": "custom"})).await?;
        assert_eq!(names(&answer["creatures"]), ["Mill Ghost"], "{named}");
    }
    Ok(())
}

// ---- Saved rolls -----------------------------------------------------------

/// T-MAC-01
#[tokio::test]
async fn t_mac_01_a_saved_roll_is_kept_changed_listed_and_deleted() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "player1").await?;
    let macros = in_campaign(&table, "/macros");
    let rolled = table.rolls().len();
    let arguments = json!({"name": "  Bow shot ", "expression": "\t1d20+7 \n"});
    let answer = data(home, "saved_roll_create", arguments).await?;
    assert_eq!(
        only(&table, "POST", &macros)?.json(),
        json!({"name": "Bow shot", "expression": "1d20+7"})
    );
    assert_eq!(answer, json!({"macro": table.macros("player1")[0]}));
    let id = answer["macro"]["id"].as_str().context("no id")?;
    let path = format!("{macros}/{id}");
    for (arguments, body) in [
        (
            json!({"macro_id": id, "name": " Long shot "}),
            json!({"name": "Long shot"}),
        ),
        (
            json!({"macro_id": id, "name": null, "expression": " 1d20+2 "}),
            json!({"expression": "1d20+2"}),
        ),
        (
            json!({"macro_id": id, "name": "Shot", "expression": "2d6"}),
            json!({"name": "Shot", "expression": "2d6"}),
        ),
    ] {
        table.log().clear();
        let answer = data(home, "saved_roll_update", arguments).await?;
        assert_eq!(only(&table, "PUT", &path)?.json(), body);
        assert_eq!(answer, json!({"macro": table.macros("player1")[0]}));
    }
    let answer = data(home, "saved_roll_list", json!({})).await?;
    assert_eq!(answer, json!({"macros": table.macros("player1")}));
    assert_eq!(answer["macros"][0]["expression"], "2d6");
    assert_eq!(only(&table, "GET", &macros)?.query, None);
    let answer = data(home, "saved_roll_delete", json!({"macro_id": id})).await?;
    assert_eq!(answer, json!({"message": "Macro deleted"}));
    assert_eq!(only(&table, "DELETE", &path)?.body, "");
    assert_eq!(table.macros("player1"), [] as [Value; 0]);
    assert_eq!(table.rolls().len(), rolled, "nothing is rolled");
    Ok(())
}

/// T-MAC-02
#[tokio::test]
async fn t_mac_02_what_the_server_says_of_a_saved_roll_is_passed_on_after_one_request() -> Result<()>
{
    let table = Table::builder().start().await?;
    let own = &sit(&table, "player1").await?;
    let other = &sit(&table, "player2").await?;
    let macros = in_campaign(&table, "/macros");
    let arguments = json!({"name": "Mine", "expression": "1d4"});
    let created = data(own, "saved_roll_create", arguments).await?;
    let id = &created["macro"]["id"];
    // Somebody else's looks as if it were not there.
    let path = format!("{macros}/{}", id.as_str().context("no id")?);
    for (tool, method, arguments) in [
        (
            "saved_roll_update",
            "PUT",
            json!({"macro_id": id, "name": "n"}),
        ),
        ("saved_roll_delete", "DELETE", json!({"macro_id": id})),
    ] {
        let envelope = failure(other, tool, arguments).await?;
        assert_eq!(envelope["error"], not_found("Macro not found"), "{tool}");
        assert_eq!(envelope["data"]["status"], 404, "{tool}");
        assert_eq!(table.log().count(method, &path), 1, "{tool}");
    }
    assert_eq!(table.macros("player1")[0]["name"], "Mine");
    // Dice that cannot be read.
    table.log().clear();
    let arguments = json!({"name": "Bad", "expression": "two swords"});
    let envelope = failure(own, "saved_roll_create", arguments).await?;
    let error = envelope["error"].as_str().unwrap_or_default();
    let begins = "HTTP 400: CozyVTT could not read \"two swords\" as dice: ";
    assert!(error.starts_with(begins), "{error}");
    assert_eq!(table.log().count("POST", &macros), 1);
    // The quota, and how far it goes.
    for number in 1..50 {
        let arguments = json!({"name": format!("Roll {number}"), "expression": "1d6"});
        data(own, "saved_roll_create", arguments).await?;
    }
    table.log().clear();
    let arguments = json!({"name": "One more", "expression": "1d6"});
    let envelope = failure(own, "saved_roll_create", arguments).await?;
    assert_eq!(
        envelope["error"],
        "HTTP 400: You already have 50 macros in this campaign. Delete one to make room."
    );
    assert_eq!(table.log().count("POST", &macros), 1);
    assert_eq!(table.macros("player1").len(), 50);
    Ok(())
}

/// T-MAC-02, its missing route.
#[tokio::test]
async fn t_mac_02_an_old_server_has_no_saved_rolls() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = &sit(&table, "player1").await?;
    table.log().clear();
    for (tool, arguments) in [
        ("saved_roll_list", json!({})),
        (
            "saved_roll_create",
            json!({"name": "n", "expression": "1d6"}),
        ),
        (
            "saved_roll_update",
            json!({"macro_id": NOBODYS, "name": "n"}),
        ),
        ("saved_roll_delete", json!({"macro_id": NOBODYS})),
    ] {
        table.log().clear();
        let envelope = failure(home, tool, arguments).await?;
        let upstream =
            json!({"error": "Not Found", "message": "The requested resource does not exist"});
        assert_eq!(
            envelope,
            json!({
                "ok": false, "error": MISSING_FEATURE,
                "data": {"status": 404, "upstream": upstream},
            }),
            "{tool}"
        );
        assert_eq!(table.log().requests().len(), 1, "{tool}");
    }
    Ok(())
}

/// T-MAC-03
#[tokio::test]
async fn t_mac_03_names_and_dice_of_the_wrong_length_never_reach_the_wire() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "player1").await?;
    table.log().clear();
    let name = "name must be 1..60 characters after trimming";
    let dice = "expression must be 1..200 characters after trimming";
    let segment = "Resource ID must not be empty or a relative path";
    let create = |name: &str, dice: &str| json!({"name": name, "expression": dice});
    for (tool, arguments, sentence) in [
        ("saved_roll_create", create(" \t", "1d6"), name),
        ("saved_roll_create", create(&"é".repeat(61), "1d6"), name),
        ("saved_roll_create", create("n", " "), dice),
        ("saved_roll_create", create("n", &"1".repeat(201)), dice),
        (
            "saved_roll_update",
            json!({"macro_id": NOBODYS}),
            "Provide at least one of name/expression",
        ),
        (
            "saved_roll_update",
            json!({"macro_id": NOBODYS, "name": null, "expression": null}),
            "Provide at least one of name/expression",
        ),
        (
            "saved_roll_update",
            json!({"macro_id": NOBODYS, "name": ""}),
            name,
        ),
        (
            "saved_roll_update",
            json!({"macro_id": NOBODYS, "expression": "1".repeat(201)}),
            dice,
        ),
        (
            "saved_roll_update",
            json!({"macro_id": "..", "name": "n"}),
            segment,
        ),
        ("saved_roll_delete", json!({"macro_id": ""}), segment),
    ] {
        let found = refusal(home, tool, arguments).await?;
        assert!(found.contains(sentence), "{tool}: {found}");
    }
    assert_eq!(table.log().requests().len(), 0);
    // As long as allowed, counted in characters.
    let arguments = create(&"é".repeat(60), "1d6");
    data(home, "saved_roll_create", arguments).await?;
    Ok(())
}

// ---- campaign_transfer_dm --------------------------------------------------

/// T-DMT-01. The table's own word about it is held back, so that it is the
/// answer alone that makes the daemon forget.
#[tokio::test]
async fn t_dmt_01_handing_the_seat_on_is_one_request_after_which_nothing_is_taken_for_known()
-> Result<()> {
    let table = Table::builder().scene(bestiary(None)).start().await?;
    let withheld = cozyvtt_table::SocketFault::Withhold("campaign.dm.transferred".to_owned());
    let _withheld = table.faults().socket(withheld);
    let home = &sit(&table, "dm").await?;
    let (campaign, path) = (in_campaign(&table, ""), in_campaign(&table, "/dm"));
    let creatures = in_campaign(&table, "/creatures");
    // The system is known by now, so a search asks for nothing else.
    data(home, "creature_search", json!({})).await?;
    table.log().clear();
    data(home, "creature_search", json!({})).await?;
    assert_eq!(table.log().count("GET", &campaign), 0);
    for (target, role) in [("player1", Role::Player), ("dm", Role::Dm)] {
        table.log().clear();
        let user = &table.account(target).user_id;
        let arguments = json!({"user_id": user});
        let answer = data(home, "campaign_transfer_dm", arguments).await?;
        let request = only(&table, "PUT", &path)?;
        assert_eq!(request.json(), json!({"userId": user}));
        assert_eq!(
            answer["message"], "The Dungeon Master role has a new holder",
            "unchanged"
        );
        assert!(answer["memberships"].is_array(), "{answer}");
        assert_eq!(emitted(&table), 0, "nothing goes over the socket");
        let page = data(home, "events_poll", json!({"limit": 1})).await?;
        assert_eq!(page["campaign_cache_stale"], true, "{target}");
        assert_eq!(table.role_of("dm"), Some(role), "{target}");
        assert_eq!(table.role_of(target), Some(Role::Dm), "{target}");
        // The next read of the system is a fresh one.
        table.log().clear();
        let searched = home.call("creature_search", json!({})).await?;
        assert_eq!(searched.envelope["ok"], target == "dm", "{target}");
        assert_eq!(table.log().count("GET", &campaign), 1, "{target}");
        assert_eq!(table.log().count("GET", &creatures), 1, "{target}");
        let answer = data(home, "campaign_get", json!({})).await?;
        assert_eq!(answer["role"], role.as_str(), "{target}");
        assert_eq!(answer["owner"]["is_me"], true, "the ownership stays");
    }
    Ok(())
}

#[tokio::test]
async fn the_table_tells_of_a_transfer_and_the_role_follows() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    let since = high_water(home).await?;
    let user = &table.account("player1").user_id;
    data(home, "campaign_transfer_dm", json!({"user_id": user})).await?;
    let record = event(home, since, "campaign.dm.transferred").await;
    assert_eq!(record["payload"]["newDmId"], **user);
    until("the role follows", || async {
        let page = data(home, "events_poll", json!({"limit": 1})).await.ok()?;
        (page["role"] == "PLAYER").then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn the_seat_is_not_offered_to_nobody() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    table.log().clear();
    refusal(home, "campaign_transfer_dm", json!({"user_id": ""})).await?;
    refusal(home, "campaign_transfer_dm", json!({})).await?;
    assert_eq!(table.log().requests().len(), 0);
    assert_eq!(table.role_of("dm"), Some(Role::Dm));
    Ok(())
}

// ---- What the server has ---------------------------------------------------

/// What `campaign_get` says of documents, saved rolls and the seat.
async fn features(home: &Home) -> Result<[Value; 3]> {
    let answer = data(home, "campaign_get", json!({})).await?;
    let features = &answer["features"];
    Ok(["documents", "saved_rolls", "dm_transfer"].map(|key| features[key].clone()))
}

/// One call for each feature, in the order of [`features`].
fn probes(table: &Table) -> [(&'static str, Value, &'static str, String); 3] {
    let user = &table.account("player1").user_id;
    [
        (
            "campaign_document_list",
            json!({}),
            "GET",
            in_campaign(table, "/documents"),
        ),
        (
            "saved_roll_list",
            json!({}),
            "GET",
            in_campaign(table, "/macros"),
        ),
        (
            "campaign_transfer_dm",
            json!({"user_id": user}),
            "PUT",
            in_campaign(table, "/dm"),
        ),
    ]
}

/// T-CMP-01, T-CMP-02: what is unknown there becomes known.
#[tokio::test]
async fn t_cmp_01_a_success_shows_a_feature_and_a_missing_route_its_absence() -> Result<()> {
    for version in Version::ALL {
        let has = version != Version::V1_1_2;
        let table = Table::builder().version(version).start().await?;
        let home = &sit(&table, "dm").await?;
        let mut expected = [json!("unknown"), json!("unknown"), json!("unknown")];
        assert_eq!(features(home).await?, expected, "{version}");
        for (place, (tool, arguments, _, _)) in probes(&table).into_iter().enumerate() {
            let result = home.call(tool, arguments).await?;
            assert_eq!(result.envelope["ok"], has, "{version}: {tool}");
            if let Some(shown) = expected.get_mut(place) {
                *shown = json!(has);
            }
            // The seat is handed on last, and what was learned stays known.
            assert_eq!(features(home).await?, expected, "{version}: {tool}");
        }
    }
    Ok(())
}

/// T-CMP-01: neither a refusal nor a broken answer shows anything.
#[tokio::test]
async fn t_cmp_01_any_other_answer_leaves_a_feature_unknown() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    let unknown = [json!("unknown"), json!("unknown"), json!("unknown")];
    let refused = Reply::json(
        404,
        &json!({"error": "Not Found", "message": "No such thing"}),
    );
    for fault in [
        Fault::Answer(refused),
        Fault::status(403),
        Fault::status(500),
        Fault::HangUpBefore,
    ] {
        for (tool, arguments, method, path) in probes(&table) {
            let armed = table.faults().route(method, &path, fault.clone());
            failure(home, tool, arguments).await?;
            assert_eq!(armed.fired(), 1, "{tool}: {fault:?}");
            armed.off();
        }
        assert_eq!(features(home).await?, unknown, "{fault:?}");
    }
    for (tool, arguments) in [
        ("document_read", json!({"document_id": NOBODYS})),
        ("saved_roll_delete", json!({"macro_id": NOBODYS})),
        ("campaign_transfer_dm", json!({"user_id": NOBODYS})),
    ] {
        failure(home, tool, arguments).await?;
    }
    assert_eq!(features(home).await?, unknown);
    Ok(())
}
