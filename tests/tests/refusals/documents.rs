//! `document_upload`, `document_create`, `document_list`, `campaign_document_list`,
//! `document_read`, `document_update`, `document_share`, `document_unshare`,
//! `document_delete`. That 1.1.2 has none of them: T-ENV-03 and T-ENV-04 in the suite
//! `documents`.

use anyhow::{Context as _, Result};
use cozyvtt_table::{DocumentPlan, Table};
use serde_json::{Value, json};

use crate::asking::{Answer, NOBODYS, Seat, bad, forbidden, invalid, missing, row, too_large};
use crate::{dice_over, document, map, scene, under};

const UPLOAD: (&str, &str) = ("POST", "/api/assets/upload");
const DOCUMENTS: (&str, &str) = ("POST", "/api/assets/documents");
const NO_MEMBER: &str = "You are not a member of this campaign";
const GLOBAL: &str = "You do not have permission to upload global assets";
const DM_UPLOADS: &str = "Only the DM can upload this kind of asset to the campaign";

async fn library() -> Result<Table> {
    let scene = scene().main(|campaign| {
        campaign
            .document(DocumentPlan::pdf("dm", "Chart", b"%PDF-1.4\n%%EOF\n"))
            .document(DocumentPlan::markdown("dm", "Primer", "# Reeds\n").global())
            .document(DocumentPlan::text("player1", "Party log", "We came.\n"))
    });
    Table::builder().scene(scene).start().await
}

fn one(id: &str) -> Value {
    json!({ "document_id": id })
}

fn no_document() -> Answer {
    missing("Document not found")
}

/// As long as a document may be, and twice that on the wire, where each quotation
/// mark is escaped: more than the server reads.
fn quoted() -> String {
    "\"".repeat(900 * 1024)
}

#[tokio::test]
async fn document_upload_is_refused_for_what_the_file_is_and_for_its_scope() -> Result<()> {
    let table = library().await?;
    let elsewhere = table.campaign_named("Elsewhere").context("no campaign")?;
    let seat = Seat::take_with_papers(&table, "player1").await?;
    seat.lay("picture.txt", b"\x89PNG\r\n\x1a\n")?;
    seat.lay("noise.txt", b"\xff\xfe\x00")?;
    seat.lay("empty.pdf", b"")?;
    let mut large = b"%PDF-1.4\n".to_vec();
    large.resize(50 * 1024 * 1024 + 1, b' ');
    seat.lay("large.pdf", &large)?;
    let before = table.documents();
    let file = |name: &str| json!({ "file_path": name });
    let scoped = |scope: &str| json!({"file_path": "note.txt", "scope": scope});
    let mut theirs = scoped("CAMPAIGN");
    theirs["campaign_id"] = json!(elsewhere);
    let unknown = "Could not determine file type. File may be corrupted or invalid.";
    let picture = "Invalid file type for DOCUMENT: image/png is none of application/pdf, \
                   text/plain, text/markdown";
    let rows = [
        row("a picture", file("picture.txt"), UPLOAD, invalid(picture)),
        row("no text", file("noise.txt"), UPLOAD, invalid(unknown)),
        row("an empty PDF", file("empty.pdf"), UPLOAD, invalid(unknown)),
        row(
            "too large",
            file("large.pdf"),
            UPLOAD,
            bad("File Too Large", "DOCUMENT files can be 50 MB at most"),
        ),
        row("for all", scoped("GLOBAL"), UPLOAD, forbidden(GLOBAL)),
        row(
            "for the campaign",
            scoped("CAMPAIGN"),
            UPLOAD,
            forbidden(DM_UPLOADS),
        ),
        row("for another campaign", theirs, UPLOAD, forbidden(NO_MEMBER)),
    ];
    seat.refused("document_upload", rows).await?;
    assert_eq!(table.documents(), before);
    seat.leave().await
}

#[tokio::test]
async fn document_create_is_refused_for_its_name_its_size_and_its_scope() -> Result<()> {
    let table = library().await?;
    let elsewhere = table.campaign_named("Elsewhere").context("no campaign")?;
    let seat = Seat::take(&table, "player1").await?;
    let before = table.documents();
    let new = |field: &str, value: Value| {
        let mut new = json!({"name": "n", "format": "md", "content": ""});
        new[field] = value;
        new
    };
    let mut theirs = new("scope", json!("CAMPAIGN"));
    theirs["campaign_id"] = json!(elsewhere);
    let name = "Document name must be 1 to 200 characters";
    let rows = [
        row(
            "a name of nothing but a byte order mark",
            new("name", json!("\u{feff}")),
            DOCUMENTS,
            invalid(name),
        ),
        row(
            "a name that is long in UTF-16",
            new("name", json!(dice_over(200))),
            DOCUMENTS,
            invalid(name),
        ),
        row(
            "too much on the wire",
            new("content", json!(quoted())),
            DOCUMENTS,
            too_large(&table),
        ),
        row(
            "for all",
            new("scope", json!("GLOBAL")),
            DOCUMENTS,
            forbidden(GLOBAL),
        ),
        row(
            "for the campaign",
            new("scope", json!("CAMPAIGN")),
            DOCUMENTS,
            forbidden(DM_UPLOADS),
        ),
        row(
            "for another campaign",
            theirs,
            DOCUMENTS,
            forbidden(NO_MEMBER),
        ),
    ];
    seat.refused("document_create", rows).await?;
    assert_eq!(table.documents(), before);
    Ok(())
}

/// Uploads and new documents share an allowance of their own. Nobody is kept
/// waiting for the minute that the server asks for.
#[tokio::test]
async fn document_upload_and_document_create_are_refused_when_there_were_too_many() -> Result<()> {
    let table = Table::builder().upload_limit(0).start().await?;
    let seat = Seat::take_with_papers(&table, "dm").await?;
    let answer = || {
        let message = "Rate limit exceeded. Please slow down.";
        (
            429,
            json!({"error": "Too Many Requests", "message": message}),
        )
    };
    let file = json!({"file_path": "note.txt"});
    let upload = row("a file", file, UPLOAD, answer());
    seat.refused("document_upload", [upload]).await?;
    let text = json!({"name": "n", "format": "txt", "content": ""});
    let create = row("a text", text, DOCUMENTS, answer());
    seat.refused("document_create", [create]).await?;
    seat.leave().await
}

#[tokio::test]
async fn document_list_is_refused_for_a_campaign_of_others() -> Result<()> {
    let table = library().await?;
    let elsewhere = table.campaign_named("Elsewhere").context("no campaign")?;
    let seat = Seat::take(&table, "player1").await?;
    let rows = [elsewhere.as_str(), NOBODYS].map(|campaign| {
        let ask = json!({"campaign_id": campaign});
        let path = ("GET", "/api/assets");
        row("not a member there", ask, path, forbidden(NO_MEMBER))
    });
    seat.refused("document_list", rows).await
}

#[tokio::test]
async fn campaign_document_list_is_refused_to_strangers() -> Result<()> {
    let table = library().await?;
    let seat = Seat::take(&table, "spectator").await?;
    let path = ("GET", under(&table, "documents"));
    seat.refused_to_strangers("campaign_document_list", json!({}), path)
        .await
}

#[tokio::test]
async fn document_read_finds_neither_what_is_not_there_nor_what_is_somebody_elses() -> Result<()> {
    let table = library().await?;
    let (diary, rules) = (document(&table, "Diary")?, document(&table, "House rules")?);
    let tides = document(&table, "Tide table")?;
    let seat = Seat::take(&table, "player2").await?;
    let read = |why, id: &str| {
        let path = ("GET", format!("/api/assets/documents/{id}"));
        row(why, one(id), path, no_document())
    };
    let rows = [
        read("no document", NOBODYS),
        read("somebody else's", &diary),
    ];
    seat.refused("document_read", rows).await?;
    table.remove_member("player2");
    let rows = [
        read("the campaign's as one who is no member", &rules),
        read("a shared one as one who is no member", &tides),
    ];
    seat.refused("document_read", rows).await
}

#[tokio::test]
async fn document_update_is_refused_for_none_for_a_pdf_for_too_much_and_to_others() -> Result<()> {
    let table = library().await?;
    let before = table.documents();
    let write = |why, id: &str, content: &str, answer| {
        let path = ("PUT", format!("/api/assets/documents/{id}/content"));
        let arguments = json!({"document_id": id, "content": content});
        row(why, arguments, path, answer)
    };
    let (chart, rules) = (document(&table, "Chart")?, document(&table, "House rules")?);
    let log = document(&table, "Party log")?;
    let seat = Seat::take(&table, "dm").await?;
    let pdf = invalid("Only text documents can be edited");
    let rows = [
        write("no document", NOBODYS, "", no_document()),
        write("a PDF", &chart, "", pdf),
        write("a player's, as the DM", &log, "", no_document()),
        write("too much", &rules, &quoted(), too_large(&table)),
    ];
    seat.refused("document_update", rows).await?;
    assert_eq!(table.documents(), before);
    Ok(())
}

#[tokio::test]
async fn document_share_is_refused_for_what_is_not_the_dms_to_share_and_to_all_but_the_dm()
-> Result<()> {
    let table = library().await?;
    let (diary, rules) = (document(&table, "Diary")?, document(&table, "House rules")?);
    let log = document(&table, "Party log")?;
    let path = || ("POST", under(&table, "documents"));
    let seat = Seat::take(&table, "dm").await?;
    let before = table.documents();
    let share = |why, id: &str, answer| row(why, one(id), path(), answer);
    let closed = "You can only share your own documents and global ones";
    let rows = [
        share("no id", "x", invalid("assetId must be a valid UUID")),
        share("no document", NOBODYS, no_document()),
        share("one that the DM cannot read", &diary, no_document()),
        share("a player's", &log, forbidden(closed)),
    ];
    seat.refused("document_share", rows).await?;
    seat.refused_to_all_but_the_dm("document_share", one(&rules), path())
        .await?;
    assert_eq!(table.documents(), before);
    Ok(())
}

#[tokio::test]
async fn document_unshare_is_refused_for_what_is_not_shared_and_to_all_but_the_dm() -> Result<()> {
    let table = library().await?;
    let (rules, tides) = (
        document(&table, "House rules")?,
        document(&table, "Tide table")?,
    );
    let path = |id: &str| ("DELETE", under(&table, &format!("documents/{id}")));
    let seat = Seat::take(&table, "dm").await?;
    let before = table.documents();
    let unshared = || missing("That document is not shared with this campaign");
    let rows = [
        row("no document", one(NOBODYS), path(NOBODYS), unshared()),
        row("the campaign's own", one(&rules), path(&rules), unshared()),
    ];
    seat.refused("document_unshare", rows).await?;
    seat.refused_to_all_but_the_dm("document_unshare", one(&tides), path(&tides))
        .await?;
    assert_eq!(table.documents(), before);
    Ok(())
}

#[tokio::test]
async fn document_delete_is_refused_for_none_for_those_of_others_and_while_one_is_in_use()
-> Result<()> {
    let table = library().await?;
    let id = |name: &str| document(&table, name);
    let closed = || forbidden("You do not have permission to delete this asset");
    let delete = |why, id: &str, answer| {
        row(
            why,
            one(id),
            ("DELETE", format!("/api/assets/{id}")),
            answer,
        )
    };
    let rules = id("House rules")?;
    {
        let dm = Seat::take(&table, "dm").await?;
        let near = map(&table, crate::NEAR)?;
        let token = json!({"map_id": near, "name": "T", "image_url": rules, "x": 1, "y": 1});
        dm.data("token_add", token).await?;
        let in_use = json!({
            "error": "Conflict", "message": "This asset is still in use", "code": "ASSET_IN_USE",
            "usage": [{
                "kind": "token", "name": "T", "campaignId": table.campaign_id(),
                "campaignName": "The Hollow Bell", "count": 1,
            }],
            "omitted": 0,
        });
        let rows = [
            delete("no document", NOBODYS, missing("Asset not found")),
            delete("a player's own", &id("Diary")?, closed()),
            delete("everybody's", &id("Primer")?, closed()),
            delete("in use", &rules, (409, in_use)),
        ];
        dm.refused("document_delete", rows).await?;
    }
    let player = Seat::take(&table, "player1").await?;
    let row = delete("the campaign's", &rules, closed());
    player.refused("document_delete", [row]).await?;
    assert!(table.document_named("House rules").is_some());
    Ok(())
}
