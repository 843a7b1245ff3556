//! The shapes of answers: the same keys, values of the same types.

use std::collections::BTreeSet;

use cozyvtt_table::Version;
use serde_json::{Value, json};

use crate::guest::{Guest, seat, table};

/// What differs between a value and a sample of its shape. Lists are compared
/// by their first entries; null in the sample takes null only.
fn difference(at: &str, sample: &Value, value: &Value) -> Vec<String> {
    match (sample, value) {
        (Value::Object(sample), Value::Object(value)) => {
            let keys: BTreeSet<&String> = sample.keys().chain(value.keys()).collect();
            keys.into_iter()
                .flat_map(|key| {
                    let at = format!("{at}.{key}");
                    match (sample.get(key), value.get(key)) {
                        (Some(sample), Some(value)) => difference(&at, sample, value),
                        (Some(_), None) => vec![format!("{at} is missing")],
                        _ => vec![format!("{at} is too much")],
                    }
                })
                .collect()
        }
        (Value::Array(sample), Value::Array(value)) => match (sample.first(), value.first()) {
            (Some(sample), Some(value)) => difference(&format!("{at}[0]"), sample, value),
            (Some(_), None) => vec![format!("{at} is empty")],
            _ => Vec::new(),
        },
        _ if std::mem::discriminant(sample) == std::mem::discriminant(value) => Vec::new(),
        _ => vec![format!("{at} is {value}, not like {sample}")],
    }
}

fn assert_shape(what: &str, sample: &Value, value: &Value) {
    let differences = difference(what, sample, value);
    assert!(differences.is_empty(), "{differences:#?}");
}

/// A sample that only since 1.5 has some more keys.
fn with(mut sample: Value, version: Version, more: &Value) -> Value {
    if version == Version::V1_5
        && let (Some(sample), Some(more)) = (sample.as_object_mut(), more.as_object())
    {
        sample.extend(more.clone());
    }
    sample
}

fn card() -> Value {
    json!({ "id": "u", "displayName": "Quill", "avatarUrl": null })
}

fn campaign(version: Version) -> Value {
    let sample = json!({
        "id": "c", "name": "n", "description": "d", "status": "ACTIVE", "gameSystem": "DND_5E",
        "ownerId": "u", "currentMapId": "m",
        "vibeSettings": {
            "enabled": true,
            "periods": [{ "name": "n", "hue": "#000000", "filter": "f", "audio": null }],
        },
        "currentVibe": null, "spiritLayerEnabled": false, "spiritLayerStyle": "wispy",
        "chatCooldownEnabled": false, "chatCooldownSeconds": 5,
        "createdAt": "t", "updatedAt": "t", "lastPlayedAt": "t",
        "owner": card(),
        "memberships": [{
            "id": "i", "userId": "u", "campaignId": "c", "role": "DM", "characterIds": [],
            "joinedAt": "t", "user": card(),
        }],
        "userRole": "DM",
    });
    with(sample, version, &json!({ "rollHistoryClearedAt": null }))
}

fn map_summary(version: Version) -> Value {
    let sample = json!({
        "id": "m", "campaignId": "c", "name": "n", "imageUrl": "/i", "width": 1, "height": 1,
        "gridSize": 50, "feetPerSquare": 5, "diagonalRule": "flat", "baseLayerUrl": "/i",
        "spiritLayerUrl": null, "lightingEnabled": false, "createdAt": "t", "updatedAt": "t",
    });
    let flags = json!({
        "fogEnabled": false, "globalIllumination": false, "explorationEnabled": false,
    });
    with(sample, version, &flags)
}

fn token(version: Version) -> Value {
    let sample = json!({
        "id": "t", "characterId": "c", "name": "n", "imageUrl": "", "position": { "x": 1, "y": 1 },
        "size": { "width": 1, "height": 1 }, "layer": "token", "visible": true,
        "controlledBy": "u", "rotation": 0, "conditions": [], "metadata": {}, "type": "player",
        "disposition": "friendly", "hp": null, "showHpBar": false, "notes": "",
        "initiative": null, "displayMode": "pog", "statBlock": null, "creatureTemplateId": null,
    });
    with(
        sample,
        version,
        &json!({ "sightRadius": 0, "obscured": false }),
    )
}

#[tokio::test]
async fn campaigns_have_the_servers_shape() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let mut listed = campaign(version);
        listed["characterIds"] = json!([]);
        let body = dm.get("/api/campaigns").await.json();
        assert_shape("list", &json!({ "campaigns": [listed] }), &body);

        let mut one = campaign(version);
        one["maps"] = json!([map_summary(version)]);
        one["characters"] = json!([{
            "id": "c", "userId": "u", "campaignId": "c", "gameSystem": "DND_5E", "name": "n",
            "tokenImageUrl": null, "createdAt": "t", "updatedAt": "t",
        }]);
        one["activeSession"] = json!({ "id": "s", "sessionNumber": 2, "startedAt": "t" });
        let path = format!("/api/campaigns/{}", table.campaign_id());
        assert_shape(
            "one",
            &json!({ "campaign": one }),
            &dm.get(&path).await.json(),
        );

        let roster = json!({ "roster": [{
            "userId": "u", "userName": "n", "userAvatar": null, "role": "DM", "joinedAt": "t",
            "characters": [],
        }] });
        let body = dm.get(&format!("{path}/characters")).await.json();
        assert_shape("roster", &roster, &body);
        let character = json!({
            "id": "c", "name": "n", "tokenImageUrl": null, "gameSystem": "DND_5E", "userId": "u",
            "hp": { "current": 1, "max": 1, "temp": 0 },
        });
        assert_shape("roster[1]", &character, &body["roster"][1]["characters"][0]);
    }
}

#[tokio::test]
async fn maps_and_tokens_have_the_servers_shape() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (dm, mut peer) = seat(&table, "dm").await;
        let maps = format!("/api/campaigns/{}/maps", table.campaign_id());
        let mut listed = map_summary(version);
        for key in ["campaignId", "baseLayerUrl", "spiritLayerUrl"] {
            listed.as_object_mut().unwrap().remove(key);
        }
        let body = dm.get(&maps).await.json();
        assert_shape("list", &json!({ "maps": [listed] }), &body);

        let mut map = map_summary(version);
        for (key, value) in [
            ("tokens", json!([token(version)])),
            ("annotations", json!([])),
            ("wallSegments", json!([])),
            ("fogData", Value::Null),
            ("lights", json!([])),
        ] {
            map[key] = value;
        }
        let current = table.current_map().unwrap();
        let body = dm.get(&format!("{maps}/{current}")).await.json();
        assert_shape("map", &json!({ "map": map, "spiritVisible": true }), &body);

        peer.emit("map.change", &json!({ "mapId": current })).await;
        let event = peer.event("map.changed").await;
        let sample = json!({ "mapId": "m", "mapData": map, "spiritVisible": true });
        assert_shape("map.changed", &sample, &event);
    }
}

#[tokio::test]
async fn accounts_and_messages_have_the_servers_shape() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let mut guest = Guest::stranger(&table);
        let answer = guest.login(&table, "player1").await.json();
        let user = json!({
            "id": "u", "email": "e", "displayName": "n", "platformRole": "USER",
            "globalAssetManager": false, "mfaEnabled": false, "mustChangePassword": false,
            "isApproved": true, "avatarUrl": null, "bio": null, "rememberMe": false,
            "preferences": null, "createdAt": "t", "updatedAt": "t", "lastLoginAt": null,
        });
        let user = with(user, version, &json!({ "templateEditor": false }));
        let sample = json!({ "message": "m", "user": user, "mustChangePassword": false });
        assert_shape("login", &sample, &answer);

        let path = format!("/api/campaigns/{}/messages?limit=1", table.campaign_id());
        let message = json!({
            "id": "m", "userId": "u", "userName": "n", "user": { "id": "u", "displayName": "n" },
            "content": "c", "type": "PLAYER", "metadata": null, "createdAt": "t",
        });
        let pagination = if version == Version::V1_1_2 {
            json!({ "total": 1, "limit": 1, "offset": 0, "hasMore": true })
        } else {
            json!({ "limit": 1, "hasMore": true, "nextCursor": "c" })
        };
        let sample = json!({ "messages": [message], "pagination": pagination });
        assert_shape("messages", &sample, &guest.get(&path).await.json());
    }
}

#[tokio::test]
async fn characters_have_the_servers_shape() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let owner = Guest::signed_in(&table, "player1").await;
        let body = owner.get("/api/characters").await.json();
        let data = body["characters"][0]["data"].clone();
        let mut character = json!({
            "id": "c", "userId": "u", "campaignId": "c", "gameSystem": "DND_5E", "name": "n",
            "tokenImageUrl": null, "data": data, "createdAt": "t", "updatedAt": "t",
            "campaign": { "id": "c", "name": "n" },
        });
        assert_shape("list", &json!({ "characters": [character] }), &body);
        character["user"] = card();
        let id = table.character_named("Brannoc Thornfield").unwrap();
        let body = owner.get(&format!("/api/characters/{id}")).await.json();
        assert_shape("one", &json!({ "character": character }), &body);
    }
}

#[tokio::test]
async fn rolls_and_fights_have_the_servers_shape() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_guest, mut dm) = seat(&table, "dm").await;
        dm.emit("dice.roll", &json!({ "expression": "4d6kh3+1" }))
            .await;
        let sample = json!({
            "userId": "u", "userName": "n", "characterName": null, "expression": "e", "result": 1,
            "breakdown": {
                "expression": "e", "total": 1, "formula": "f",
                "rolls": [{
                    "type": "dice", "notation": "4d6kh3", "count": 4, "sides": 6, "results": [1],
                    "kept": [1], "total": 1, "modifier": "kh", "modifierCount": 3,
                }],
            },
            "purpose": null, "timestamp": "t", "secret": false,
        });
        let sample = with(sample, version, &json!({ "id": "r" }));
        assert_shape("dice.rolled", &sample, &dm.event("dice.rolled").await);

        let (map, stalker) = table.token_named("Reed Stalker").unwrap();
        let add = json!({ "tokenId": stalker["id"], "mapId": map });
        dm.emit("initiative.add", &add).await;
        let combatant = json!({
            "tokenId": "t", "name": "n", "imageUrl": "", "initiative": null,
            "hp": { "current": 1, "max": 1, "temp": 0 }, "type": "npc", "disposition": "hostile",
        });
        let combatant = with(combatant, version, &json!({ "mapId": "m" }));
        let sample = json!({
            "active": false, "round": 0, "currentTokenId": null, "combatants": [combatant],
        });
        assert_shape("initiative", &sample, &dm.event("initiative.state").await);
    }
}

#[tokio::test]
async fn what_1_4_added_has_the_servers_shape() {
    let table = table(Version::V1_5).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    let campaign = format!("/api/campaigns/{}", table.campaign_id());
    let name = json!({ "id": "u", "displayName": "Quill" });

    let body = json!({ "name": "Luck", "expression": "adv" });
    let made = dm.post(&format!("{campaign}/macros"), &body).await.json();
    let roll = json!({
        "id": "m", "campaignId": "c", "userId": "u", "name": "n", "expression": "1d4",
        "createdAt": "t", "updatedAt": "t",
    });
    assert_shape("macro", &json!({ "macro": roll }), &made);

    let listed = dm.get(&format!("{campaign}/documents")).await.json();
    let document = json!({
        "id": "a", "name": "n", "description": null, "originalName": "n.txt",
        "mimeType": "text/plain", "fileSize": 1, "createdAt": "t", "uploadedBy": name,
        "linkedAt": "t", "linkedBy": name, "shared": true,
    });
    assert_shape("documents", &json!({ "documents": [document] }), &listed);

    let assets = dm
        .get("/api/assets?type=DOCUMENT&scope=CAMPAIGN")
        .await
        .json();
    let asset = json!({
        "id": "a", "type": "DOCUMENT", "scope": "CAMPAIGN", "uploadedById": "u",
        "campaignId": "c", "filename": "f.md", "originalName": "n.md",
        "mimeType": "text/markdown", "fileSize": 1, "name": "n", "description": "d", "tags": [],
        "createdAt": "t", "uploadedBy": name, "campaign": { "id": "c", "name": "n" },
    });
    let pages = json!({ "page": 1, "limit": 50, "total": 1, "totalPages": 1 });
    let sample = json!({ "assets": [asset], "pagination": pages });
    assert_shape("assets", &sample, &assets);
}

#[tokio::test]
async fn creatures_have_the_servers_shape() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let path = format!("/api/campaigns/{}/creatures", table.campaign_id());
        let found = dm.get(&format!("{path}?search=reed")).await.json();
        let creature = json!({
            "id": "c", "name": "n", "gameSystem": "DND_5E", "source": "custom",
            "challengeRating": "1/4", "creatureType": "beast", "alignment": null,
            "imageUrl": "/i",
            "statBlock": {
                "ac": 12, "hpMax": 7, "speed": "30 ft.", "gameSystem": "DND_5E",
                "abilities": {
                    "str": 1, "dex": 1, "con": 1, "int": 1, "wis": 1, "cha": 1,
                },
                "challengeRating": "1/4", "creatureType": "beast",
                "actions": [{ "name": "n", "description": "d" }],
            },
            "size": { "width": 1, "height": 1 }, "disposition": "hostile",
            "displayMode": "pog", "createdById": "u", "campaignId": "c",
            "createdAt": "t", "updatedAt": "t",
        });
        let sample = json!({ "creatures": [creature], "total": 1, "limit": 50, "offset": 0 });
        assert_shape("creatures", &sample, &found);
    }
}
