//! Documents: written, read, rewritten, shared.

use cozyvtt_table::{DocumentPlan, Scene, Table, Version};
use serde_json::{Value, json};

use crate::guest::{Guest, table};

const PDF: &[u8] = b"%PDF-1.7\n\xff\xfe the rest";

fn here(table: &Table) -> String {
    format!("/api/campaigns/{}/documents", table.campaign_id())
}

fn raw(id: &str) -> String {
    format!("/api/assets/documents/{id}")
}

fn scene() -> Scene {
    Scene::new("The Paper Tide").main(|campaign| {
        campaign
            .document(DocumentPlan::markdown("dm", "Rules", "# Rules"))
            .document(
                DocumentPlan::text("dm", "Shared", "tides")
                    .personal()
                    .shared(),
            )
            .document(DocumentPlan::text("dm", "Secret", "nobody").personal())
            .document(DocumentPlan::text("player1", "Diary", "mine").personal())
            .document(DocumentPlan::pdf("dm", "Chart", PDF))
    })
}

#[tokio::test]
async fn a_document_is_written_and_read_back() {
    let table = table(Version::V1_5).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    let body = json!({
        "name": " Omens ", "format": "md", "content": "# Omens\n\n\tthree",
        "scope": "CAMPAIGN", "campaignId": table.campaign_id(), "description": "Read aloud",
    });
    let made = dm.post("/api/assets/documents", &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert!(made.json().get("message").is_none());
    let asset = &made.json()["asset"];
    assert_eq!(asset["name"], "Omens");
    assert_eq!(asset["originalName"], "Omens.md");
    assert_eq!(asset["mimeType"], "text/markdown");
    assert_eq!(asset["fileSize"], 15);
    assert!(asset.get("filePath").is_none());
    let id = asset["id"].as_str().unwrap();

    let reader = Guest::signed_in(&table, "spectator").await;
    let first = reader.get(&raw(id)).await;
    assert_eq!(first.text, "# Omens\n\n\tthree");
    assert_eq!(
        first.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(first.header("cache-control"), Some("private, no-cache"));
    let etag = first.header("etag").unwrap().to_owned();
    let again = |etag: &str| {
        let request = reader
            .request(reqwest::Method::GET, &raw(id))
            .header("If-None-Match", etag);
        Guest::send(request)
    };
    let known = again(&etag).await.unwrap();
    assert_eq!((known.status, known.text.as_str()), (304, ""));
    assert_eq!(known.header("etag"), Some(etag.as_str()));

    let rewrite = format!("{}/content", raw(id));
    let answer = dm.put(&rewrite, &json!({ "content": "" })).await;
    assert_eq!(
        (answer.status, &answer.json()["asset"]["fileSize"]),
        (200, &json!(0))
    );
    let changed = again(&etag).await.unwrap();
    assert_eq!((changed.status, changed.text.as_str()), (200, ""));
    assert_eq!(table.document_named("Omens").unwrap().bytes, b"");

    let listed = dm.get("/api/assets?type=DOCUMENT").await.json();
    assert_eq!(listed["assets"][0]["id"], id);
    let without = dm.get("/api/assets").await.json();
    assert_eq!(without["assets"], json!([]), "documents are left out");
    assert_eq!(dm.delete(&format!("/api/assets/{id}")).await.status, 200);
    assert_eq!(dm.get(&raw(id)).await.message(), "Document not found");
}

#[tokio::test]
async fn what_is_no_fit_document_is_refused() {
    let table = table(Version::V1_5).start().await.unwrap();
    let player = Guest::signed_in(&table, "player1").await;
    let fit = json!({ "name": "n", "format": "txt", "content": "c" });
    for (key, value, status) in [
        ("name", json!(" "), 400),
        ("name", json!("x".repeat(201)), 400),
        ("format", json!("pdf"), 400),
        ("content", Value::Null, 400),
        ("content", json!("a\u{0}b"), 400),
        ("content", json!("a\u{7f}"), 400),
        ("content", json!("x".repeat(900 * 1024 + 1)), 400),
        ("content", json!("x".repeat(1024 * 1024)), 413),
        ("scope", json!("ALL"), 400),
        ("scope", json!("CAMPAIGN"), 400),
        ("scope", json!("GLOBAL"), 403),
        ("content", json!("\t\n\u{c}\r"), 201),
        ("content", json!("x".repeat(900 * 1024)), 201),
    ] {
        let mut body = fit.clone();
        body[key] = value;
        let answer = player.post("/api/assets/documents", &body).await;
        assert_eq!(answer.status, status, "{key}: {}", answer.text);
    }
    let mut body = fit.clone();
    body["scope"] = json!("CAMPAIGN");
    body["campaignId"] = json!(table.campaign_id());
    assert_eq!(
        player.post("/api/assets/documents", &body).await.status,
        403
    );
}

#[tokio::test]
async fn genuine_text_and_pdf_are_uploaded_as_documents() {
    let table = table(Version::V1_5).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    let kind = [("type", "DOCUMENT")];
    for (name, bytes, mime) in [
        ("tides.TXT", &b"low 04:12"[..], "text/plain"),
        ("rules.md", b"# Rules", "text/markdown"),
        ("chart.pdf", PDF, "application/pdf"),
    ] {
        let answer = dm.upload(&kind, Some((name, bytes))).await;
        assert_eq!(answer.json()["asset"]["mimeType"], mime, "{}", answer.text);
        let id = answer.json()["asset"]["id"].as_str().unwrap().to_owned();
        assert_eq!(table.documents().last().unwrap().bytes, bytes);
        if mime == "application/pdf" {
            let read = dm.get(&raw(&id)).await;
            assert_eq!(read.header("content-type"), Some(mime));
            assert!(read.header("cache-control").unwrap().contains("immutable"));
            let answer = dm
                .put(&format!("{}/content", raw(&id)), &json!({ "content": "x" }))
                .await;
            assert_eq!(answer.status, 400);
        }
    }
    for (name, bytes) in [("a.txt", &b"\x00\x01"[..]), ("a.docx", b"words")] {
        let answer = dm.upload(&kind, Some((name, bytes))).await;
        assert_eq!(
            answer.message(),
            "Could not determine file type. File may be corrupted or invalid."
        );
    }
}

#[tokio::test]
async fn a_document_is_read_by_those_it_is_for_and_not_found_by_others() {
    let table = table(Version::V1_5).scene(scene()).start().await.unwrap();
    for (key, readable) in [
        ("dm", ["Rules", "Shared", "Secret", "Chart"].as_slice()),
        ("player1", &["Rules", "Shared", "Diary", "Chart"]),
        ("spectator", &["Rules", "Shared", "Chart"]),
        ("outsider", &[]),
    ] {
        let guest = Guest::signed_in(&table, key).await;
        for document in table.documents() {
            let request = guest.request(reqwest::Method::GET, &raw(&document.id));
            let status = request.send().await.unwrap().status().as_u16();
            let expected = readable.contains(&document.name.as_str());
            assert_eq!(
                status,
                if expected { 200 } else { 404 },
                "{key}: {}",
                document.name
            );
        }
    }
    let player = Guest::signed_in(&table, "player1").await;
    let shared = table.document_named("Shared").unwrap();
    let metadata = player.get(&format!("/api/assets/{}", shared.id)).await;
    assert_eq!(metadata.status, 403, "sharing does not count there");
    let rewrite = format!("{}/content", raw(&shared.id));
    let answer = player.put(&rewrite, &json!({ "content": "x" })).await;
    assert_eq!(
        (answer.status, answer.message()),
        (404, "Document not found".to_owned())
    );
}

#[tokio::test]
async fn documents_are_shared_with_a_campaign_and_taken_back() {
    let table = table(Version::V1_5).scene(scene()).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    let here = here(&table);
    let listed = dm.get(&here).await.json();
    let mut names: Vec<_> = listed["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["shared"] == true))
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [("Chart", false), ("Rules", false), ("Shared", true)]
    );
    let mut keys: Vec<_> = listed["documents"][0].as_object().unwrap().keys().collect();
    keys.sort_unstable();
    let expected = [
        "createdAt",
        "description",
        "fileSize",
        "id",
        "linkedAt",
        "linkedBy",
        "mimeType",
        "name",
        "originalName",
        "shared",
        "uploadedBy",
    ];
    assert_eq!(keys, expected);

    let secret = table.document_named("Secret").unwrap().id;
    for _ in 0..2 {
        let answer = dm.post(&here, &json!({ "assetId": secret })).await;
        assert_eq!(answer.status, 201);
        let link = answer.json()["link"].take();
        assert_eq!(
            (&link["assetId"], &link["campaignId"]),
            (&json!(secret), &json!(table.campaign_id()))
        );
    }
    assert_eq!(
        table.document_named("Secret").unwrap().shared_with,
        [table.campaign_id()]
    );
    let gone = dm.delete(&format!("{here}/{secret}")).await;
    assert_eq!(gone.json(), json!({ "message": "Document unshared" }));
    let native = table.document_named("Rules").unwrap().id;
    for id in [&secret, &native] {
        let answer = dm.delete(&format!("{here}/{id}")).await;
        assert_eq!(answer.status, 404);
        assert_eq!(
            answer.message(),
            "That document is not shared with this campaign"
        );
    }

    let diary = table.document_named("Diary").unwrap().id;
    let nothing = "00000000-0000-4000-8000-000000000000";
    for (asset, status) in [("x", 400), (nothing, 404), (diary.as_str(), 404)] {
        let answer = dm.post(&here, &json!({ "assetId": asset })).await;
        assert_eq!(answer.status, status, "{asset}");
    }
    table.set_platform_admin("dm");
    let answer = dm.post(&here, &json!({ "assetId": diary })).await;
    assert_eq!(answer.status, 201, "an admin may share anything");
    let player = Guest::signed_in(&table, "player1").await;
    assert_eq!(player.get(&here).await.status, 200);
    assert_eq!(
        player
            .post(&here, &json!({ "assetId": diary }))
            .await
            .status,
        403
    );
    assert_eq!(player.delete(&format!("{here}/{diary}")).await.status, 403);
}

#[tokio::test]
async fn what_the_dm_can_read_but_does_not_own_is_not_shared() {
    let table = table(Version::V1_5).scene(scene()).start().await.unwrap();
    table.transfer_dm("player1");
    let player = Guest::signed_in(&table, "player1").await;
    let rules = table.document_named("Rules").unwrap().id;
    let answer = player
        .post(&here(&table), &json!({ "assetId": rules }))
        .await;
    assert_eq!(
        (answer.status, &answer.json()["error"]),
        (403, &json!("Forbidden"))
    );
}

#[tokio::test]
async fn in_1_1_2_there_are_no_documents() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    assert!(table.documents().is_empty());
    let here = here(&table);
    let body = json!({ "name": "n", "format": "txt", "content": "" });
    for answer in [
        dm.get(&here).await,
        dm.post(&here, &json!({})).await,
        dm.delete(&format!("{here}/x")).await,
        dm.post("/api/assets/documents", &body).await,
        dm.get(&raw("x")).await,
        dm.put(&format!("{}/content", raw("x")), &json!({})).await,
    ] {
        assert_eq!(answer.status, 404);
        assert_eq!(answer.message(), "The requested resource does not exist");
    }
    let config = dm.get("/api/config").await.json();
    assert!(config["uploadLimits"].get("DOCUMENT").is_none());
}
