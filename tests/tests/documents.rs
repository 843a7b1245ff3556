//! The tools of the library against the contract: what is sent, what comes back,
//! which files are read and written here, and what is refused. A test that covers
//! an acceptance case of the contract names it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use cozyvtt_table::{DocumentPlan, Exchange, Fault, Reply, Scene, Table, Version};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::asked::only;
use cozyvtt_tests::calls::{data, failure, refusal};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::files_below;
use cozyvtt_tests::seat::sit;
use serde_json::{Value, json};

const UPLOAD: &str = "/api/assets/upload";
const DOCUMENTS: &str = "/api/assets/documents";
/// The id of no document.
const NOBODYS: &str = "3b0c9a52-7d0e-4f0a-9c55-0f6f3f1b7a11";
const NO_ROUTE: &str = "The requested resource does not exist";
const MISSING_FEATURE: &str = "This CozyVTT instance does not provide this feature; upgrade to a \
                               supported version and retry.";
const NOT_FOUND: &str =
    "Resource not found or inaccessible to the current account (HTTP 404): Document not found";
const PDF: &[u8] = b"%PDF-1.4\nthe bell \xff\xfe\x00 tolls\n%%EOF\n";
/// The most bytes of a typed document.
const MOST: usize = 900 * 1024;

/// An agent whose client works in `folder`.
async fn agent_in(home: &Home, folder: &Path) -> Result<Agent> {
    let mut command = home.shim_command();
    command.current_dir(folder);
    Agent::of_command(command, Era::Handshake).await
}

/// A folder of the client's with one file of each kind.
fn notes(home: &Home) -> Result<PathBuf> {
    let folder = home.path().join("notes");
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("Bell rhyme.md"), "# Ding\n\nGrüße vom Grund\n")?;
    std::fs::write(folder.join("tides.TXT"), "low 04:12\n")?;
    std::fs::write(folder.join("handout.pdf"), PDF)?;
    Ok(folder)
}

/// Calls a tool that has to fail at its work; gives the envelope.
async fn agent_failure(agent: &Agent, tool: &str, arguments: Value) -> Result<Value> {
    let result = agent.call(tool, arguments).await?;
    let envelope = result.structured_content.context("no structured content")?;
    ensure!(envelope["ok"] == false, "{tool} did not fail: {envelope}");
    Ok(envelope)
}

/// What a form carries in a field of text; none when it has no such field.
fn field(request: &Exchange, name: &str) -> Option<String> {
    let begin = format!("name=\"{name}\"\r\n\r\n");
    let (_, rest) = request.body.split_once(&begin)?;
    rest.split_once("\r\n--").map(|(text, _)| text.to_owned())
}

/// The body without the words that only this attempt puts between its parts.
fn parts(request: &Exchange) -> Result<String> {
    let kind = request.header("content-type").context("no content type")?;
    let boundary = kind
        .strip_prefix("multipart/form-data; boundary=")
        .with_context(|| format!("no boundary: {kind}"))?;
    ensure!(!boundary.is_empty(), "an empty boundary");
    Ok(request.body.replace(boundary, "BOUNDARY"))
}

fn links(table: &Table) -> String {
    format!("/api/campaigns/{}/documents", table.campaign_id())
}

fn id_of(table: &Table, name: &str) -> Result<String> {
    let found = table.document_named(name).context("no such document")?;
    Ok(found.id)
}

/// A scene with documents of every kind and scope.
fn library() -> Scene {
    Scene::new("The Reading Room").main(|campaign| {
        campaign
            .document(DocumentPlan::text("dm", "House rules", "Be kind.\n"))
            .document(DocumentPlan::markdown("dm", "Primer", "# Grüße\n").global())
            .document(DocumentPlan::pdf("dm", "Chart", PDF))
            .document(DocumentPlan::text("dm", "Plot", "The bell lies.\n").personal())
            .document(DocumentPlan::text("player1", "Diary", "Day one.\n").personal())
            .document(DocumentPlan::text("player1", "Party log", "We came.\n"))
    })
}

async fn reading_room() -> Result<Table> {
    Table::builder().scene(library()).start().await
}

// ---- Uploading -------------------------------------------------------------

/// T-DOC-01
#[tokio::test]
async fn t_doc_01_a_file_of_the_clients_folder_is_uploaded_with_its_fields() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    let agent = agent_in(home, &notes(home)?).await?;
    let arguments = json!({
        "file_path": "Bell rhyme.md", "scope": "CAMPAIGN", "tags": ["A", "B"],
        "name": "The rhyme", "description": "Sung by the weir",
    });
    let answer = agent.data("document_upload", arguments).await?;
    let request = only(&table, "POST", UPLOAD)?;
    for (name, value) in [
        ("type", "DOCUMENT"),
        ("scope", "CAMPAIGN"),
        ("campaignId", table.campaign_id()),
        ("name", "The rhyme"),
        ("description", "Sung by the weir"),
        ("tags", "A,B"),
    ] {
        assert_eq!(field(&request, name).as_deref(), Some(value), "{name}");
    }
    let body = parts(&request)?;
    assert!(
        body.contains("name=\"file\"; filename=\"Bell rhyme.md\""),
        "{body}"
    );
    assert!(body.contains("Content-Type: text/markdown"), "{body}");
    let stored = table.document_named("The rhyme").context("not stored")?;
    assert_eq!(answer["asset"]["id"], *stored.id);
    assert_eq!(stored.bytes, "# Ding\n\nGrüße vom Grund\n".as_bytes());
    assert_eq!(stored.mime_type, "text/markdown");
    assert_eq!(stored.scope, "CAMPAIGN");
    assert_eq!(stored.campaign_id.as_deref(), Some(table.campaign_id()));
    Ok(())
}

#[tokio::test]
async fn an_upload_sends_no_field_that_was_not_given() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "player1").await?;
    let agent = agent_in(home, &notes(home)?).await?;
    for (file, mime, bytes) in [
        ("handout.pdf", "application/pdf", PDF),
        ("tides.TXT", "text/plain", b"low 04:12\n"),
    ] {
        table.log().clear();
        let arguments = json!({"file_path": file});
        agent.data("document_upload", arguments).await?;
        let request = only(&table, "POST", UPLOAD)?;
        assert_eq!(field(&request, "scope").as_deref(), Some("USER"), "{file}");
        for name in ["campaignId", "name", "description", "tags"] {
            assert_eq!(field(&request, name), None, "{file}: {name}");
        }
        assert!(request.body.contains(&format!("Content-Type: {mime}")));
        let stored = table.document_named(file).context("not stored")?;
        assert_eq!((stored.mime_type.as_str(), &*stored.bytes), (mime, bytes));
        assert_eq!(stored.user_id, table.account("player1").user_id);
    }
    // An empty list of tags is an empty field, and a campaign goes along when given.
    table.log().clear();
    let campaign = table.campaign_id();
    let arguments = json!({"file_path": "tides.TXT", "tags": [], "campaign_id": campaign});
    agent.data("document_upload", arguments).await?;
    let request = only(&table, "POST", UPLOAD)?;
    assert_eq!(field(&request, "tags").as_deref(), Some(""));
    assert_eq!(field(&request, "campaignId").as_deref(), Some(campaign));
    Ok(())
}

/// T-DOC-07
#[tokio::test]
async fn t_doc_07_what_is_no_document_of_the_clients_folder_is_not_read() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    let folder = notes(home)?;
    std::fs::create_dir(folder.join("folder.md"))?;
    std::fs::write(folder.join("letter.docx"), "text")?;
    // By default the person's own folders may be read, hidden ones aside.
    let outside = tempfile::tempdir()?;
    let beyond = outside.path().join("beyond.txt");
    std::fs::write(&beyond, "secret")?;
    std::os::unix::fs::symlink(&beyond, folder.join("link.txt"))?;
    std::fs::create_dir(home.path().join(".keys"))?;
    std::fs::write(home.path().join(".keys/key.txt"), "secret")?;
    let beyond = beyond.to_str().context("no text")?;
    let agent = agent_in(home, &folder).await?;
    let none = "file_path must reference an existing PDF/txt/md file";
    let elsewhere =
        "file_path must lie in a folder that cozyvttd may read, and not in a hidden one: ";
    for (path, sentence) in [
        ("gone.txt", none),
        ("folder.md", none),
        ("letter.docx", none),
        ("", none),
        (beyond, elsewhere),
        ("link.txt", elsewhere),
        ("../.keys/key.txt", elsewhere),
        ("~/.keys/key.txt", elsewhere),
    ] {
        let envelope = agent_failure(&agent, "document_upload", json!({"file_path": path})).await?;
        let error = envelope["error"].as_str().unwrap_or_default();
        assert!(error.starts_with(sentence), "{path}: {error}");
        assert_eq!(envelope.get("data"), None, "{path}");
    }
    assert_eq!(table.log().count("POST", UPLOAD), 0);
    let arguments = json!({"file_path": "~/notes/tides.TXT"});
    agent.data("document_upload", arguments).await?;
    Ok(())
}

/// T-ENV-04
#[tokio::test]
async fn t_env_04_an_upload_that_the_server_refuses_is_not_tried_otherwise() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    let agent = agent_in(home, &notes(home)?).await?;
    for (status, message) in [(400, "Invalid asset type"), (413, "File too large")] {
        table.log().clear();
        let body = json!({"error": "Validation Error", "message": message});
        let reply = Fault::Answer(Reply::json(status, &body));
        let armed = table.faults().route("POST", UPLOAD, reply);
        let envelope =
            agent_failure(&agent, "document_upload", json!({"file_path": "tides.TXT"})).await?;
        assert_eq!(
            envelope,
            json!({
                "ok": false, "error": format!("HTTP {status}: {message}"),
                "data": {"status": status, "upstream": body},
            })
        );
        assert_eq!((table.log().requests().len(), armed.fired()), (1, 1));
        armed.off();
    }
    Ok(())
}

/// T-ENV-04, in the words of 1.1.2 itself.
#[tokio::test]
async fn t_env_04_an_old_server_takes_no_documents_and_is_asked_once() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = &sit(&table, "dm").await?;
    let agent = agent_in(home, &notes(home)?).await?;
    let arguments = json!({"file_path": "handout.pdf"});
    let envelope = agent_failure(&agent, "document_upload", arguments).await?;
    assert_eq!(
        envelope["error"],
        "HTTP 400: Invalid asset type. Must be MAP, TOKEN, AUDIO, or AVATAR"
    );
    assert_eq!(table.log().count("POST", UPLOAD), 1);
    Ok(())
}

/// T-RST-05
#[tokio::test]
async fn t_rst_05_an_upload_is_repeated_whole_after_too_many_requests_or_a_lost_session()
-> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    let agent = agent_in(home, &notes(home)?).await?;
    for (status, file) in [(429, "handout.pdf"), (401, "Bell rhyme.md")] {
        table.log().clear();
        let armed = table
            .faults()
            .route("POST", UPLOAD, Fault::status(status))
            .times(1);
        agent
            .data("document_upload", json!({"file_path": file}))
            .await?;
        assert_eq!(armed.fired(), 1);
        let sent = table.log().requests_to("POST", UPLOAD);
        let statuses: Vec<_> = sent.iter().map(|one| one.status).collect();
        assert_eq!(statuses, [status, 201]);
        assert_eq!(parts(&sent[0])?, parts(&sent[1])?, "{status}");
        for request in &sent {
            assert_eq!(field(request, "type").as_deref(), Some("DOCUMENT"));
            let file_part = format!("filename=\"{file}\"");
            assert!(request.body.contains(&file_part), "{status}");
        }
        let stored = table.documents();
        let stored = stored.iter().filter(|one| one.name == file);
        assert_eq!(stored.count(), 1, "{status}");
    }
    Ok(())
}

// ---- Reading ---------------------------------------------------------------

/// T-DOC-02
#[tokio::test]
async fn t_doc_02_text_comes_back_whole_and_a_pdf_lies_in_one_file_of_the_state_folder()
-> Result<()> {
    let table = reading_room().await?;
    let home = &sit(&table, "player1").await?;
    let downloads = home.state_dir().join("documents");
    for (name, text) in [("House rules", "Be kind.\n"), ("Primer", "# Grüße\n")] {
        let id = id_of(&table, name)?;
        let answer = data(home, "document_read", json!({"document_id": id})).await?;
        let etag = format!("\"{id}-0\"");
        assert_eq!(
            answer,
            json!({"mime_type": "text/plain", "etag": etag, "content": text})
        );
        let path = format!("{DOCUMENTS}/{id}");
        assert_eq!(only(&table, "GET", &path)?.header("if-none-match"), None);
        // Unchanged, and the tag goes out as it was given.
        let known = format!("W/{etag}");
        let arguments = json!({"document_id": id, "etag": known});
        let answer = data(home, "document_read", arguments).await?;
        assert_eq!(answer, json!({"not_modified": true}));
        let asked = table.log().requests_to("GET", &path);
        assert_eq!(asked[1].header("if-none-match"), Some(&*known));
        assert_eq!((asked.len(), asked[1].status), (2, 304));
    }
    assert!(!downloads.exists(), "text needs no folder");
    let id = id_of(&table, "Chart")?;
    let first = data(home, "document_read", json!({"document_id": id})).await?;
    let file = PathBuf::from(first["file_path"].as_str().context("no path")?);
    assert_eq!(
        first,
        json!({
            "mime_type": "application/pdf", "etag": format!("\"{id}\""),
            "file_path": file, "file_size": PDF.len(),
        })
    );
    assert!(file.is_absolute() && file.starts_with(&downloads));
    assert_eq!(
        file.file_name().and_then(|name| name.to_str()),
        Some(&*format!("{id}.pdf"))
    );
    let again = data(home, "document_read", json!({"document_id": id})).await?;
    assert_eq!(again, first);
    let arguments = json!({"document_id": id, "etag": first["etag"]});
    let answer = data(home, "document_read", arguments).await?;
    assert_eq!(answer, json!({"not_modified": true}));
    assert_eq!(files_below(&downloads)?, [(file, PDF.to_vec())]);
    Ok(())
}

/// T-DOC-06: what is no PDF, and a folder that leads elsewhere.
#[tokio::test]
async fn t_doc_06_other_bytes_are_kept_as_bin_and_nothing_is_written_through_a_link() -> Result<()>
{
    let table = reading_room().await?;
    let home = &sit(&table, "dm").await?;
    let id = id_of(&table, "Chart")?;
    let path = format!("{DOCUMENTS}/{id}");
    let bytes = Reply::text(200, "Application/Octet-Stream", "\u{1}\u{2}");
    let armed = table.faults().route("GET", &path, Fault::Answer(bytes));
    let answer = data(home, "document_read", json!({"document_id": id})).await?;
    let file = PathBuf::from(answer["file_path"].as_str().context("no path")?);
    assert_eq!(
        answer,
        json!({
            "mime_type": "application/octet-stream", "etag": null,
            "file_path": file, "file_size": 2,
        })
    );
    assert_eq!(file.extension().and_then(|end| end.to_str()), Some("bin"));
    assert_eq!(std::fs::read(&file)?, [1, 2]);
    armed.off();
    let folder = file.parent().context("no folder")?;
    let elsewhere = home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere)?;
    std::fs::remove_dir_all(folder)?;
    std::os::unix::fs::symlink(&elsewhere, folder)?;
    let envelope = failure(home, "document_read", json!({"document_id": id})).await?;
    let sentence = "downloads must not be a symlink directory";
    assert_eq!(envelope, json!({"ok": false, "error": sentence}));
    assert_eq!(files_below(&elsewhere)?, []);
    Ok(())
}

#[tokio::test]
async fn text_in_another_charset_is_read_as_such_and_an_unknown_one_is_refused() -> Result<()> {
    let table = reading_room().await?;
    let home = &sit(&table, "dm").await?;
    let id = id_of(&table, "Chart")?;
    let path = format!("{DOCUMENTS}/{id}");
    let read = || data(home, "document_read", json!({"document_id": id}));
    for (kind, content) in [
        ("text/plain; charset=ISO-8859-1", "Ã¼"),
        ("text/plain; charset=shift_jis", "ﾃｼ"),
        ("text/markdown; charset=utf-8", "ü"),
        ("text/markdown", "ü"),
    ] {
        let reply = Reply::text(200, kind, "ü").header("ETag", "W/\"7\"");
        let armed = table.faults().route("GET", &path, Fault::Answer(reply));
        let answer = read().await?;
        let mime = kind.split(';').next();
        assert_eq!(
            answer,
            json!({"mime_type": mime, "etag": "W/\"7\"", "content": content}),
            "{kind}"
        );
        armed.off();
    }
    let reply = Reply::text(200, "text/plain; charset=klingon", "ü");
    let _armed = table.faults().route("GET", &path, Fault::Answer(reply));
    let envelope = failure(home, "document_read", json!({"document_id": id})).await?;
    assert_eq!(
        envelope["error"],
        "the document's text cannot be read as klingon"
    );
    Ok(())
}

// ---- Writing, sharing, deleting ---------------------------------------------

/// T-DOC-03
#[tokio::test]
async fn t_doc_03_a_document_is_written_rewritten_shared_and_taken_away() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    let content = "  kept as it is \n\t\u{c}\r\n ";
    let arguments = json!({
        "name": "  Rumours ", "format": "md", "content": content, "scope": "CAMPAIGN",
        "description": " heard at the inn\n",
    });
    let answer = data(home, "document_create", arguments).await?;
    let campaign = table.campaign_id();
    assert_eq!(
        only(&table, "POST", DOCUMENTS)?.json(),
        json!({
            "name": "Rumours", "format": "md", "content": content, "scope": "CAMPAIGN",
            "campaignId": campaign, "description": "heard at the inn",
        })
    );
    let stored = table.document_named("Rumours").context("not stored")?;
    assert_eq!(answer["asset"]["id"], *stored.id);
    assert_eq!(stored.bytes, content.as_bytes());

    table.log().clear();
    let arguments = json!({"name": "Plan", "format": "txt", "content": ""});
    let answer = data(home, "document_create", arguments).await?;
    assert_eq!(
        only(&table, "POST", DOCUMENTS)?.json(),
        json!({"name": "Plan", "format": "txt", "content": "", "scope": "USER"})
    );
    let id = answer["asset"]["id"].as_str().context("no id")?;

    let arguments = json!({"document_id": stored.id, "content": ""});
    let answer = data(home, "document_update", arguments).await?;
    assert_eq!(answer["asset"]["id"], *stored.id);
    let path = format!("{DOCUMENTS}/{}/content", stored.id);
    assert_eq!(only(&table, "PUT", &path)?.json(), json!({"content": ""}));
    let emptied = table.document_named("Rumours").context("gone")?;
    assert_eq!(emptied.bytes, b"");

    let answer = data(home, "document_share", json!({"document_id": id})).await?;
    assert_eq!(answer["link"]["assetId"], id);
    let links = links(&table);
    assert_eq!(only(&table, "POST", &links)?.json(), json!({"assetId": id}));
    let shared = table.document_named("Plan").context("gone")?;
    assert_eq!(shared.shared_with, [campaign]);

    let gone = json!({"document_id": id});
    let answer = data(home, "document_unshare", gone.clone()).await?;
    assert_eq!(answer, json!({"message": "Document unshared"}));
    let answer = data(home, "document_delete", gone).await?;
    assert_eq!(answer, json!({"message": "Asset deleted successfully"}));
    for path in [format!("{links}/{id}"), format!("/api/assets/{id}")] {
        let request = only(&table, "DELETE", &path)?;
        assert_eq!((&*request.body, &request.query), ("", &None), "{path}");
        assert_eq!(request.header("content-type"), None, "{path}");
    }
    assert_eq!(table.document_named("Plan"), None);
    Ok(())
}

/// T-DOC-04
#[tokio::test]
async fn t_doc_04_an_admin_is_shown_their_own_personal_documents_alone() -> Result<()> {
    let scopes = [None, Some("USER"), Some("CAMPAIGN"), Some("GLOBAL")];
    for admin in [true, false] {
        let table = reading_room().await?;
        if admin {
            table.set_platform_admin("dm");
        }
        let home = &sit(&table, "dm").await?;
        let (me, campaign) = (&table.account("dm").user_id, table.campaign_id());
        for scope in scopes {
            table.log().clear();
            let answer = data(home, "document_list", json!({"scope": scope})).await?;
            let more = match scope {
                None => String::new(),
                Some("USER") if admin => format!("&scope=USER&uploadedBy={me}"),
                Some("CAMPAIGN") => format!("&scope=CAMPAIGN&campaignId={campaign}"),
                Some(other) => format!("&scope={other}"),
            };
            let query = format!("type=DOCUMENT&page=1&limit=50{more}");
            let request = only(&table, "GET", "/api/assets")?;
            assert_eq!(request.query, Some(query), "admin: {admin}");
            let assets = answer["assets"].as_array().context("no assets")?;
            assert_eq!(answer["pagination"]["total"], assets.len());
            if scope == Some("USER") {
                let names: Vec<_> = assets.iter().map(|one| &one["name"]).collect();
                assert_eq!(names, ["Plot"], "admin: {admin}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_library_is_paged_and_searched_as_asked() -> Result<()> {
    let table = reading_room().await?;
    let home = &sit(&table, "dm").await?;
    let other = NOBODYS;
    for (arguments, query) in [
        (
            json!({"page": 2, "limit": 3, "search": "p & q"}),
            "type=DOCUMENT&page=2&limit=3&search=p+%26+q".to_owned(),
        ),
        (
            json!({"search": ""}),
            "type=DOCUMENT&page=1&limit=50&search=".to_owned(),
        ),
        (
            json!({"campaign_id": table.campaign_id()}),
            format!(
                "type=DOCUMENT&page=1&limit=50&campaignId={}",
                table.campaign_id()
            ),
        ),
    ] {
        table.log().clear();
        data(home, "document_list", arguments).await?;
        let request = only(&table, "GET", "/api/assets")?;
        assert_eq!(request.query, Some(query));
    }
    let arguments = json!({"scope": "CAMPAIGN", "campaign_id": other});
    let envelope = failure(home, "document_list", arguments).await?;
    assert_eq!(
        envelope["error"],
        "HTTP 403: You are not a member of this campaign"
    );
    Ok(())
}

#[tokio::test]
async fn the_campaigns_documents_are_its_own_and_the_shared_ones() -> Result<()> {
    let table = reading_room().await?;
    let home = &sit(&table, "player2").await?;
    let answer = data(home, "campaign_document_list", json!({})).await?;
    let documents = answer["documents"].as_array().context("no documents")?;
    assert!(
        documents.iter().any(|one| one["name"] == "House rules"),
        "{answer}"
    );
    assert!(
        documents.iter().all(|one| one["name"] != "Plot"),
        "{answer}"
    );
    assert!(
        documents.iter().all(|one| one["shared"] == false),
        "{answer}"
    );
    only(&table, "GET", &links(&table))?;
    Ok(())
}

/// T-DOC-05
#[tokio::test]
async fn t_doc_05_control_characters_and_too_much_text_never_reach_the_wire() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    table.log().clear();
    let controls = "Document contains disallowed control characters";
    let limit = "Typed document creation/editing is limited to 900 KiB UTF-8; use document_upload \
                 for larger files";
    // One code point too many: 900 KiB and one byte.
    let long = format!("{}é", "x".repeat(MOST - 1));
    for (content, sentence) in [
        ("a\0b", controls),
        ("a\u{7f}", controls),
        ("\u{1b}[0m", controls),
        (&*long, limit),
    ] {
        let create = json!({"name": "n", "format": "txt", "content": content});
        let update = json!({"document_id": NOBODYS, "content": content});
        for (tool, arguments) in [("document_create", create), ("document_update", update)] {
            let found = refusal(home, tool, arguments).await?;
            assert!(found.contains(sentence), "{tool}: {found}");
        }
    }
    assert_eq!(table.log().requests().len(), 0);
    // As much as is allowed is sent.
    let full = format!("{}é", "x".repeat(MOST - 2));
    let arguments = json!({"name": "Full", "format": "txt", "content": full});
    data(home, "document_create", arguments).await?;
    let stored = table.document_named("Full").context("not stored")?;
    assert_eq!(stored.bytes.len(), MOST);
    Ok(())
}

/// T-DOC-06
#[tokio::test]
async fn t_doc_06_tabs_line_ends_form_feeds_and_nothing_at_all_are_content() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    let arguments = json!({"name": "Blank", "format": "txt", "content": "x"});
    let answer = data(home, "document_create", arguments).await?;
    for content in ["\t", "\n", "\u{c}", "\r", ""] {
        let arguments = json!({"document_id": answer["asset"]["id"], "content": content});
        data(home, "document_update", arguments).await?;
        let stored = table.document_named("Blank").context("gone")?;
        assert_eq!(stored.bytes, content.as_bytes());
    }
    Ok(())
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_explained_and_never_reach_the_wire() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit(&table, "dm").await?;
    table.log().clear();
    let named = "name must be 1..200 characters; format must be txt/md";
    let bounds = "page must be >=1 and limit must be in 1..100";
    let plain = "document_id may contain only letters, digits, underscores, and hyphens";
    let segment = "Resource ID must not be empty or a relative path";
    let create = |name: &str, description: &str| json!({"name": name, "format": "txt", "content": "", "description": description});
    let long = "é".repeat(1001);
    let cases = [
        ("document_create", create("  ", ""), named),
        ("document_create", create(&"n".repeat(201), ""), named),
        (
            "document_create",
            create("n", &long),
            "description must be at most 1000 characters",
        ),
        ("document_list", json!({"page": 0}), bounds),
        ("document_list", json!({"limit": 0}), bounds),
        ("document_list", json!({"limit": 101}), bounds),
        ("document_read", json!({"document_id": "../up"}), plain),
        ("document_read", json!({"document_id": ""}), plain),
        (
            "document_update",
            json!({"document_id": "..", "content": ""}),
            segment,
        ),
        ("document_unshare", json!({"document_id": "."}), segment),
        ("document_delete", json!({"document_id": ""}), segment),
    ];
    for (tool, arguments, sentence) in cases {
        let found = refusal(home, tool, arguments).await?;
        assert!(found.contains(sentence), "{tool}: {found}");
    }
    for (tool, arguments) in [
        (
            "document_create",
            json!({"name": "n", "format": "pdf", "content": ""}),
        ),
        ("document_list", json!({"scope": "EVERYBODY"})),
        (
            "document_upload",
            json!({"file_path": "a.txt", "scope": "user"}),
        ),
        ("document_share", json!({"document_id": ""})),
    ] {
        refusal(home, tool, arguments).await?;
    }
    assert_eq!(table.log().requests().len(), 0);
    // An id with other characters stays one segment.
    let arguments = json!({"document_id": "a/b?c#d%", "content": ""});
    failure(home, "document_update", arguments).await?;
    only(
        &table,
        "PUT",
        &format!("{DOCUMENTS}/a%2Fb%3Fc%23d%25/content"),
    )?;
    Ok(())
}

// ---- What the server refuses ------------------------------------------------

/// The nine tools with the route each of them asks.
fn nine(table: &Table) -> [(&'static str, Value, &'static str, String); 9] {
    let document = json!({"document_id": NOBODYS});
    let links = links(table);
    let text = json!({"name": "n", "format": "txt", "content": ""});
    let rewrite = json!({"document_id": NOBODYS, "content": ""});
    [
        (
            "document_upload",
            json!({"file_path": "tides.TXT"}),
            "POST",
            UPLOAD.to_owned(),
        ),
        ("document_create", text, "POST", DOCUMENTS.to_owned()),
        ("document_list", json!({}), "GET", "/api/assets".to_owned()),
        ("campaign_document_list", json!({}), "GET", links.clone()),
        (
            "document_read",
            document.clone(),
            "GET",
            format!("{DOCUMENTS}/{NOBODYS}"),
        ),
        (
            "document_update",
            rewrite,
            "PUT",
            format!("{DOCUMENTS}/{NOBODYS}/content"),
        ),
        ("document_share", document.clone(), "POST", links.clone()),
        (
            "document_unshare",
            document.clone(),
            "DELETE",
            format!("{links}/{NOBODYS}"),
        ),
        (
            "document_delete",
            document,
            "DELETE",
            format!("/api/assets/{NOBODYS}"),
        ),
    ]
}

/// T-ENV-03
#[tokio::test]
async fn t_env_03_a_missing_route_and_a_missing_document_are_told_apart_by_all_nine_tools()
-> Result<()> {
    for (version, message, sentence) in [
        (Version::V1_1_2, NO_ROUTE, MISSING_FEATURE),
        (Version::V1_5, "Document not found", NOT_FOUND),
    ] {
        let table = Table::builder().version(version).start().await?;
        let home = &sit(&table, "dm").await?;
        let agent = agent_in(home, &notes(home)?).await?;
        let body = json!({"error": "Not Found", "message": message});
        for (tool, arguments, method, path) in nine(&table) {
            table.log().clear();
            let reply = Fault::Answer(Reply::json(404, &body));
            let armed = table.faults().route(method, &path, reply);
            let envelope = agent_failure(&agent, tool, arguments).await?;
            let expected = json!({
                "ok": false, "error": sentence, "data": {"status": 404, "upstream": body},
            });
            assert_eq!(envelope, expected, "{version}: {tool}");
            let asked = table.log().requests().len();
            assert_eq!((asked, armed.fired()), (1, 1), "{version}: {tool}");
            armed.off();
        }
    }
    Ok(())
}

/// T-ENV-03, in the words of 1.1.2 itself. The routes of all assets are there.
#[tokio::test]
async fn t_env_03_an_old_server_has_none_of_the_routes_for_documents() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = &sit(&table, "dm").await?;
    for (tool, arguments, method, path) in nine(&table) {
        let sentence = match tool {
            "document_upload" => continue,
            "document_list" => "HTTP 500: Failed to list assets",
            "document_delete" => {
                "Resource not found or inaccessible to the current account (HTTP 404): \
                 Asset not found"
            }
            _ => MISSING_FEATURE,
        };
        let envelope = failure(home, tool, arguments).await?;
        assert_eq!(envelope["error"], sentence, "{tool}");
        assert_eq!(table.log().count(method, &path), 1, "{tool}");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_server_lacks_is_remembered_over_a_restart() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = Home::at(&table, "dm")?;
    let documents = async || {
        let campaign = data(&home, "campaign_get", json!({})).await?;
        anyhow::Ok(campaign["features"]["documents"].clone())
    };
    let daemon = home.start_at_table().await?;
    assert_eq!(documents().await?, "unknown");
    failure(&home, "campaign_document_list", json!({})).await?;
    assert_eq!(documents().await?, false);
    daemon.stop().await?;
    let _daemon = home.start_at_table().await?;
    assert_eq!(documents().await?, false);
    Ok(())
}
