//! Files: what is taken, who sees it, and who may take it away.

use cozyvtt_table::{Person, Scene, Table, Version};
use serde_json::{Value, json};

use crate::guest::{Answer, Guest, table};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and the rest of a picture";
const PDF: &[u8] = b"%PDF-1.7\n\xff\xfe the rest";

fn id(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()["asset"]["id"].as_str().unwrap().to_owned()
}

fn with_campaign<'a>(kind: &'a str, table: &'a Table) -> [(&'a str, &'a str); 3] {
    [
        ("type", kind),
        ("scope", "CAMPAIGN"),
        ("campaignId", table.campaign_id()),
    ]
}

#[tokio::test]
async fn a_picture_is_uploaded_looked_up_and_served() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let mut fields = with_campaign("MAP", &table).to_vec();
        fields.extend([("name", "Cave"), ("tags", "dark, wet")]);
        let answer = dm.upload(&fields, Some(("cave.png", PNG))).await;
        let id = id(&answer);
        assert_eq!(answer.message(), "Asset uploaded successfully");
        let asset = &answer.json()["asset"];
        for (key, value) in [
            ("type", json!("MAP")),
            ("scope", json!("CAMPAIGN")),
            ("name", json!("Cave")),
            ("originalName", json!("cave.png")),
            ("mimeType", json!("image/png")),
            ("fileSize", json!(PNG.len())),
            ("description", Value::Null),
            ("tags", json!(["dark", "wet"])),
        ] {
            assert_eq!(asset[key], value, "{key}");
        }
        assert_eq!(asset["campaign"]["name"], "The Hollow Bell");
        assert_eq!(asset["uploadedBy"]["displayName"], "Isolde Marrow");
        let old = version == Version::V1_1_2;
        assert_eq!(asset.get("filePath").is_some(), old);
        assert_eq!(asset.get("thumbnailPath").is_some(), old);
        let one = dm.get(&format!("/api/assets/{id}")).await.json();
        assert_eq!(one["asset"], *asset);

        let picture = dm.get(&format!("/api/assets/maps/{id}")).await;
        assert_eq!(picture.header("content-type"), Some("image/png"));
        assert_eq!(picture.header("etag"), Some(format!("\"{id}\"").as_str()));
        let wrong = dm.get(&format!("/api/assets/tokens/{id}")).await;
        assert_eq!(wrong.message(), "Token asset not found");
        let odd = dm.get(&format!("/api/assets/{id}/file")).await;
        assert_eq!(odd.message(), "The requested resource does not exist");
        let outsider = Guest::signed_in(&table, "outsider").await;
        assert_eq!(outsider.get(&format!("/api/assets/{id}")).await.status, 403);
        let missing = outsider.get("/api/assets/nothing").await;
        assert_eq!(
            (missing.status, missing.message()),
            (404, "Asset not found".to_owned())
        );
    }
}

#[tokio::test]
async fn what_is_no_fit_upload_is_refused_in_the_known_words() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let png = Some(("x.png", PNG));
        let old = version == Version::V1_1_2;
        for (fields, file, start) in [
            (vec![("type", "MAP")], None, "No file uploaded"),
            (vec![], png, "Asset type is required"),
            (vec![("type", "map")], png, "Invalid asset type"),
            (vec![("type", "OTHER")], png, "Invalid asset type"),
            (
                vec![("type", "MAP"), ("scope", "ALL")],
                png,
                "Invalid scope",
            ),
            (
                vec![("type", "MAP"), ("scope", "CAMPAIGN")],
                png,
                "Campaign ID is required for CAMPAIGN scope",
            ),
            (
                vec![("type", "MAP")],
                Some(("x.png", &b"not a png"[..])),
                "Could not determine file type. File may be corrupted or invalid.",
            ),
            (vec![("type", "AUDIO")], png, "Invalid file type"),
        ] {
            let answer = dm.upload(&fields, file).await;
            assert_eq!(answer.status, 400, "{fields:?}");
            assert_eq!(answer.json()["error"], "Validation Error");
            assert!(answer.message().starts_with(start), "{}", answer.message());
        }
        let pdf = dm.upload(&[("type", "MAP")], Some(("m.pdf", PDF))).await;
        assert_eq!(pdf.status, if old { 201 } else { 400 });
        let document = dm
            .upload(&[("type", "DOCUMENT")], Some(("m.pdf", PDF)))
            .await;
        if old {
            assert_eq!(
                document.message(),
                "Invalid asset type. Must be MAP, TOKEN, AUDIO, or AVATAR"
            );
        } else {
            assert_eq!(document.status, 201);
        }
        let mut large = PNG.to_vec();
        large.resize(2 * 1024 * 1024 + 1, 0);
        let answer = dm
            .upload(&[("type", "AVATAR")], Some(("a.png", &large)))
            .await;
        assert_eq!(
            (answer.status, &answer.json()["error"]),
            (400, &json!("File Too Large"))
        );
        let long = "n".repeat(101);
        let odd = dm.upload(&[("type", "MAP"), (&long, "x")], png).await;
        assert_eq!(odd.status, if old { 201 } else { 400 });
        let stranger = Guest::stranger(&table);
        assert_eq!(stranger.upload(&[], None).await.status, 401);
    }
}

#[tokio::test]
async fn who_may_upload_depends_on_the_scope() {
    for version in Version::ALL {
        let scene = Scene::default().person(Person::new("keeper", "Ada Finch").asset_manager());
        let table = table(version).scene(scene).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let png = Some(("x.png", PNG));
        for (key, kind, expected) in [
            ("dm", "MAP", 201),
            ("player1", "MAP", 403),
            ("player1", "TOKEN", 201),
            ("spectator", "TOKEN", if old { 201 } else { 403 }),
            ("outsider", "TOKEN", 403),
        ] {
            let guest = Guest::signed_in(&table, key).await;
            let answer = guest.upload(&with_campaign(kind, &table), png).await;
            assert_eq!(answer.status, expected, "{key} {kind}");
            let own = guest.upload(&[("type", "MAP")], png).await;
            assert_eq!(own.status, 201);
        }
        let global = [("type", "MAP"), ("scope", "GLOBAL")];
        let dm = Guest::signed_in(&table, "dm").await;
        assert_eq!(dm.upload(&global, png).await.status, 403);
        let keeper = Guest::signed_in(&table, "keeper").await;
        assert_eq!(keeper.upload(&global, png).await.status, 201);
        let me = keeper.get("/api/auth/me").await.json();
        assert_eq!(me["user"]["globalAssetManager"], true);
    }
}

#[tokio::test]
async fn the_list_shows_what_one_may_use_page_by_page() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let dm = Guest::signed_in(&table, "dm").await;
        let player = Guest::signed_in(&table, "player1").await;
        let png = Some(("x.png", PNG));
        for name in ["one", "two", "three"] {
            id(&dm.upload(&[("type", "TOKEN"), ("name", name)], png).await);
        }
        id(&dm.upload(&with_campaign("MAP", &table), png).await);

        let page = dm.get("/api/assets?type=TOKEN&limit=2").await.json();
        assert_eq!(page["assets"][0]["name"], "three", "newest first");
        assert_eq!(
            page["pagination"],
            json!({ "page": 1, "limit": 2, "total": 3, "totalPages": 2 })
        );
        let rest = dm.get("/api/assets?type=TOKEN&limit=2&page=2").await.json();
        assert_eq!(rest["assets"][0]["name"], "one");
        let found = dm.get("/api/assets?search=TWO").await.json();
        assert_eq!(found["pagination"]["total"], 1);
        let all = player.get("/api/assets").await.json();
        assert_eq!(all["pagination"]["total"], 1, "the campaign's map alone");
        let here = format!("/api/assets?campaignId={}", table.campaign_id());
        assert_eq!(player.get(&here).await.json()["pagination"]["total"], 1);
        let outsider = Guest::signed_in(&table, "outsider").await;
        assert_eq!(outsider.get(&here).await.status, 403);
        for query in ["type=POSTER", "scope=MINE"] {
            let answer = dm.get(&format!("/api/assets?{query}")).await;
            assert_eq!(answer.status, if old { 500 } else { 400 });
        }
        table.set_platform_admin("outsider");
        let total = |path: String| {
            let outsider = &outsider;
            async move { outsider.get(&path).await.json()["pagination"]["total"].clone() }
        };
        assert_eq!(
            total("/api/assets".to_owned()).await,
            4,
            "an admin sees everything"
        );
        assert_eq!(total("/api/assets?usable=true".to_owned()).await, 0);
        let by = &table.account("player1").user_id;
        assert_eq!(total(format!("/api/assets?uploadedBy={by}")).await, 0);
    }
}

#[tokio::test]
async fn a_picture_in_use_is_deleted_only_by_force_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let dm = Guest::signed_in(&table, "dm").await;
        let asset = id(&dm.upload(&[("type", "MAP")], Some(("x.png", PNG))).await);
        let maps = format!("/api/campaigns/{}/maps", table.campaign_id());
        let body = json!({ "name": "Pier", "imageUrl": asset, "width": 5, "height": 5 });
        assert_eq!(dm.post(&maps, &body).await.status, 201);
        let path = format!("/api/assets/{asset}");
        let player = Guest::signed_in(&table, "player1").await;
        assert_eq!(player.delete(&path).await.status, 403);

        let answer = dm.delete(&path).await;
        if old {
            assert_eq!(answer.message(), "Asset deleted successfully");
            assert_eq!(dm.delete(&path).await.status, 404);
            continue;
        }
        assert_eq!(answer.status, 409);
        let body = answer.json();
        assert_eq!(
            (&body["code"], &body["omitted"]),
            (&json!("ASSET_IN_USE"), &json!(0))
        );
        let usage = json!([{
            "kind": "map", "name": "Pier", "campaignId": table.campaign_id(),
            "campaignName": "The Hollow Bell", "count": 1,
        }]);
        assert_eq!(body["usage"], usage);
        assert_eq!(dm.delete(&format!("{path}?force=1")).await.status, 409);
        assert_eq!(dm.delete(&format!("{path}?force=true")).await.status, 200);
    }
}

#[tokio::test]
async fn a_picture_that_is_not_ones_own_is_not_put_up_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let player = Guest::signed_in(&table, "player1").await;
        let asset = id(&player
            .upload(&[("type", "TOKEN")], Some(("x.png", PNG)))
            .await);
        let dm = Guest::signed_in(&table, "dm").await;
        let maps = format!("/api/campaigns/{}/maps", table.campaign_id());
        let tokens = format!("{maps}/{}/tokens", table.current_map().unwrap());
        let (map, token) = table.token_named("Reed Stalker").unwrap();
        let one = format!("{maps}/{map}/tokens/{}", token["id"].as_str().unwrap());
        let place = json!({ "name": "x", "imageUrl": asset, "position": { "x": 1, "y": 1 } });
        let picture = json!({ "imageUrl": asset });
        let board = json!({ "name": "x", "imageUrl": asset, "width": 5, "height": 5 });
        let sheet = json!({ "name": "x", "tokenImageUrl": asset });
        for answer in [
            dm.post(&tokens, &place).await,
            dm.put(&one, &picture).await,
            dm.post(&maps, &board).await,
            dm.post("/api/characters", &sheet).await,
        ] {
            if version == Version::V1_1_2 {
                assert!(answer.status < 300, "{}", answer.text);
            } else {
                assert_eq!(answer.status, 403);
                assert_eq!(answer.message(), "You do not have access to that image");
            }
        }
    }
}

#[tokio::test]
async fn uploads_are_limited_per_user() {
    let table = table(Version::V1_5).upload_limit(2).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    let png = Some(("x.png", PNG));
    let first = dm.upload(&[("type", "MAP")], png).await;
    assert_eq!(first.header("ratelimit-policy"), Some("2;w=60"));
    assert_eq!(first.header("ratelimit-remaining"), Some("1"));
    let body = json!({ "name": "n", "format": "txt", "content": "" });
    assert_eq!(dm.post("/api/assets/documents", &body).await.status, 201);
    let third = dm.upload(&[("type", "MAP")], png).await;
    assert_eq!(third.status, 429);
    assert_eq!(third.json()["error"], "Too Many Requests");
    assert!(third.header("retry-after").is_some());
    let player = Guest::signed_in(&table, "player1").await;
    assert_eq!(player.upload(&[("type", "MAP")], png).await.status, 201);
    table.faults().upload_limit(30);
    assert_eq!(dm.upload(&[("type", "MAP")], png).await.status, 201);
}
