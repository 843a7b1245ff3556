//! What the contract refuses is refused before anything is said on the wire, in
//! the contract's words.

use anyhow::Result;
use cozyvtt_table::Version;
use cozyvtt_tests::seat::said;
use serde_json::{Map, Value, json};

use crate::{Walk, segments_of, table, with};

const SEGMENT: &str = "Resource ID must not be empty or a relative path";
const FILE_NAME: &str = "document_id may contain only letters, digits, underscores, and hyphens";
const FILE: &str = "file_path must reference an existing PDF/txt/md file";
const CONTROL: &str = "Document contains disallowed control characters";
const TOO_MUCH: &str = "Typed document creation/editing is limited to 900 KiB UTF-8; \
                        use document_upload for larger files";
const MACRO_NAME: &str = "name must be 1..60 characters after trimming";
const MACRO_DICE: &str = "expression must be 1..200 characters after trimming";

/// One character more than `most`, of those that are longest in every encoding.
fn over(most: usize) -> Value {
    json!("\u{1f409}".repeat(most + 1))
}

/// Texts that show nothing: nothing at all, and blanks of several scripts.
fn blanks() -> Vec<Value> {
    let blanks = ["", " ", "\n\t ", "\u{a0}", "\u{2003}\u{3000}\u{2028}"];
    blanks.into_iter().map(Value::from).collect()
}

/// Integers beyond `least` and `most`, those at the ends of all of them included.
fn outside(least: i64, most: i64) -> Vec<Value> {
    let mut outside = vec![json!(least - 1), json!(least - 2), json!(i64::MIN)];
    if most < i64::MAX {
        outside.extend([json!(most + 1), json!(i64::MAX)]);
    }
    outside
}

/// What is wrong with one argument of a tool, and what is said of it.
struct Wrong {
    tool: &'static str,
    name: &'static str,
    values: Vec<Value>,
    sentence: &'static str,
}

fn wrong(
    tool: &'static str,
    name: &'static str,
    values: impl IntoIterator<Item = impl Into<Value>>,
    sentence: &'static str,
) -> Wrong {
    Wrong {
        tool,
        name,
        values: values.into_iter().map(Into::into).collect(),
        sentence,
    }
}

fn numbers() -> Vec<Wrong> {
    let page = "page must be >=1 and limit must be in 1..100";
    let poll = "since must be >= 0 and limit must be in 1..500";
    let side = "width/height must be integers in 1..10";
    vec![
        wrong(
            "chat_read",
            "limit",
            outside(1, 100),
            "limit must be in 1..100",
        ),
        wrong("events_poll", "since", outside(0, i64::MAX), poll),
        wrong("events_poll", "limit", outside(1, 500), poll),
        wrong("document_list", "page", outside(1, i64::MAX), page),
        wrong("document_list", "limit", outside(1, 100), page),
        wrong("token_add", "width", outside(1, 10), side),
        wrong("token_add", "height", outside(1, 10), side),
        wrong(
            "map_create",
            "width",
            outside(1, i64::MAX),
            "width must be a positive integer",
        ),
        wrong(
            "map_create",
            "height",
            outside(1, i64::MAX),
            "height must be a positive integer",
        ),
        wrong(
            "map_create",
            "grid_size",
            outside(1, i64::MAX),
            "grid_size must be a positive integer",
        ),
        wrong(
            "character_hitdice_spend",
            "index",
            outside(0, i64::MAX),
            "character_id is required; index must be an integer >=0",
        ),
    ]
}

fn texts() -> Vec<Wrong> {
    let line = "content must be a nonempty string of at most 2000 characters";
    let map = "name must be nonblank and image_url must not be empty";
    let evening = "action must be one of ['end', 'pause', 'start']";
    let fight = "action must be one of ['add', 'end', 'next', 'remove', 'reorder', 'roll', 'set', \
                 'start']";
    let name = "name must be 1..200 characters; format must be txt/md";
    let odd_actions = ["", " ", "fly", "end\u{200b}", "\u{ff45}nd", "e\u{0}nd"];
    vec![
        wrong(
            "chat_read",
            "cursor",
            [""],
            "cursor must be a nonempty string or null",
        ),
        wrong("chat_send", "content", blanks(), line),
        wrong(
            "chat_send",
            "content",
            [over(2000), json!(" ".repeat(2001))],
            line,
        ),
        wrong(
            "chat_send",
            "type",
            ["", "dm", "DM ", "SYSTEM", "\u{1f409}"],
            "type must be DM / PLAYER",
        ),
        wrong("map_create", "name", blanks(), map),
        wrong("map_create", "image_url", [""], map),
        wrong(
            "creature_search",
            "source",
            ["all", "srd,custom", "\u{202e}drs", "srd\u{0}"],
            "source must be srd, custom, or an empty string",
        ),
        wrong("initiative_manage", "action", odd_actions, fight),
        wrong("session_manage", "action", odd_actions, evening),
        wrong(
            "session_manage",
            "notes",
            [over(2000), json!(" ".repeat(2001))],
            "notes must be a string of at most 2000 characters",
        ),
        wrong(
            "session_notes_update",
            "notes",
            [over(2000), json!(" ".repeat(2001))],
            "notes must be at most 2000 characters",
        ),
        wrong(
            "character_create",
            "name",
            [json!(""), over(200)],
            "name must be 1..200 characters",
        ),
        wrong(
            "character_hitdice_spend",
            "character_id",
            [""],
            "character_id is required",
        ),
        wrong(
            "token_hp_update",
            "character_id",
            [""],
            "character_id must not be empty",
        ),
        wrong(
            "document_share",
            "document_id",
            [""],
            "document_id must not be empty",
        ),
        wrong(
            "campaign_transfer_dm",
            "user_id",
            [""],
            "user_id must not be empty",
        ),
        wrong("document_create", "name", blanks(), name),
        wrong("document_create", "name", [over(200)], name),
        wrong(
            "document_create",
            "description",
            [over(1000)],
            "description must be at most 1000 characters",
        ),
        wrong("saved_roll_create", "name", blanks(), MACRO_NAME),
        wrong("saved_roll_create", "name", [over(60)], MACRO_NAME),
        wrong("saved_roll_create", "expression", blanks(), MACRO_DICE),
        wrong("saved_roll_create", "expression", [over(200)], MACRO_DICE),
        wrong("saved_roll_update", "name", blanks(), MACRO_NAME),
        wrong("saved_roll_update", "name", [over(60)], MACRO_NAME),
        wrong("saved_roll_update", "expression", blanks(), MACRO_DICE),
        wrong("saved_roll_update", "expression", [over(200)], MACRO_DICE),
    ]
}

fn documents() -> Vec<Wrong> {
    let mut all = Vec::new();
    for tool in ["document_create", "document_update"] {
        let forbidden = ["\u{0}", "a\u{7}", "\u{b}", "\u{1b}[31m", "\u{1f}", "\u{7f}"];
        all.push(wrong(tool, "content", forbidden, CONTROL));
        // One byte too many, and one character that does not fit whole.
        let most = 900 * 1024;
        let long = ["a".repeat(most + 1), "a".repeat(most - 3) + "\u{1f409}"];
        all.push(wrong(tool, "content", long, TOO_MUCH));
    }
    for tool in ["document_create", "document_list", "document_upload"] {
        all.push(wrong(
            tool,
            "scope",
            ["", "user", "ALL", "\u{1f409}"],
            "scope takes",
        ));
    }
    all.push(wrong(
        "document_create",
        "format",
        ["", "pdf", "TXT"],
        "format takes",
    ));
    all.push(wrong(
        "document_read",
        "document_id",
        [
            "",
            ".",
            "..",
            "a/b",
            "a.b",
            "a b",
            "a\n",
            "\u{e4}",
            "\u{202e}a",
            "\u{661}",
            "%2e",
            "a\u{0}",
        ],
        FILE_NAME,
    ));
    all.push(wrong(
        "document_read",
        "document_id",
        ["a".repeat(201), "a".repeat(100_000)],
        "document_id must be at most 200 characters",
    ));
    let etag = "etag must be the etag of an earlier document_read, unchanged";
    let tags = ["\"a\"\r\nX-More: 1", "\u{0}", "\"\u{e9}\"", "\u{1f409}"];
    all.push(wrong("document_read", "etag", tags, etag));
    let paths = [
        "",
        ".",
        "/",
        "note",
        "note.docx",
        "note.txt\u{202e}",
        "note.\u{ff54}xt",
    ];
    all.push(wrong("document_upload", "file_path", paths, FILE));
    all
}

/// Calls whose arguments do not go together, whole.
fn together() -> Vec<(&'static str, Value, &'static str)> {
    let fields = "Provide name/data/tokenImageUrl fields; put sheet patches inside the data object";
    let sheet = "The sheet data patch must be an object; clearing the entire sheet is not allowed";
    let end_alone = "notes/save_state apply only to end";
    let order = "reorder requires ordered_token_ids (a list of token IDs)";
    let value = "set requires token_id, map_id, and value";
    let fight = "initiative_manage";
    let update = |data: Value| json!({"character_id": "c", "data": data});
    vec![
        (
            fight,
            json!({"action": "add"}),
            "add requires token_id and map_id",
        ),
        (
            fight,
            json!({"action": "add", "token_id": "t", "map_id": ""}),
            "add requires token_id",
        ),
        (
            fight,
            json!({"action": " REMOVE "}),
            "remove requires token_id",
        ),
        (
            fight,
            json!({"action": "roll", "map_id": "m"}),
            "roll requires token_id and map_id",
        ),
        (
            fight,
            json!({"action": "set", "token_id": "t", "map_id": "m"}),
            value,
        ),
        (
            fight,
            json!({"action": "set", "token_id": "t", "value": i64::MIN}),
            value,
        ),
        (fight, json!({"action": "reorder"}), order),
        (
            fight,
            json!({"action": "reorder", "ordered_token_ids": []}),
            order,
        ),
        (
            "session_manage",
            json!({"action": "start", "notes": ""}),
            end_alone,
        ),
        (
            "session_manage",
            json!({"action": "pause", "save_state": false}),
            end_alone,
        ),
        ("character_update", update(json!({})), fields),
        ("character_update", update(json!({"hp": 1})), fields),
        (
            "character_update",
            update(json!({"name": "a", "na\u{200b}me": "b"})),
            fields,
        ),
        ("character_update", update(json!({"data": null})), sheet),
        ("character_update", update(json!({"data": [1]})), sheet),
        (
            "character_update",
            update(json!({"data": "\u{1f409}"})),
            sheet,
        ),
        (
            "saved_roll_update",
            json!({"macro_id": "m"}),
            "Provide at least one of name/expression",
        ),
    ]
}

#[tokio::test]
async fn what_the_contract_refuses_is_refused_in_its_words_and_never_reaches_the_wire() -> Result<()>
{
    let table = table(Version::V1_5).await?;
    let walk = Walk::begin(&table).await?;
    let fitting = walk.fitting().await?;
    let mut calls: Vec<(&str, Map<String, Value>, &str)> = Vec::new();
    for tool in &walk.tools {
        for name in segments_of(tool) {
            for id in ["", ".", ".."] {
                calls.push((&tool.name, with(&fitting(tool), &name, json!(id)), SEGMENT));
            }
        }
    }
    assert_eq!(calls.len(), 3 * 19, "every id that stands in a path");
    let wrongs = [numbers(), texts(), documents()];
    for wrong in wrongs.into_iter().flatten() {
        let tool = walk.tools.iter().find(|tool| tool.name == wrong.tool);
        let fits = fitting(tool.unwrap());
        assert!(
            fits.contains_key(wrong.name),
            "{} {}",
            wrong.tool,
            wrong.name
        );
        for value in wrong.values {
            calls.push((wrong.tool, with(&fits, wrong.name, value), wrong.sentence));
        }
    }
    for (tool, arguments, sentence) in together() {
        let arguments = arguments.as_object().unwrap().clone();
        calls.push((tool, arguments, sentence));
    }
    let before = said(&table);
    for (tool, arguments, sentence) in &calls {
        let (refused, envelope) = walk.call(tool, arguments).await?;
        let named = format!("{tool} {}", crate::told(arguments));
        let error = envelope["error"].as_str().unwrap_or_default();
        assert!(
            refused && error.contains(sentence),
            "{named}: {envelope:.400}"
        );
        assert_eq!(said(&table), before, "{named}");
    }
    walk.end().await
}

#[tokio::test]
async fn a_file_that_cannot_be_one_is_not_uploaded() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let walk = Walk::begin(&table).await?;
    let long = format!("/{}.txt", "a".repeat(100_000));
    let before = said(&table);
    for path in [
        "/nowhere/note.txt",
        "note\u{0}.txt",
        "\u{202e}note.pdf",
        "../../../../../etc/note.md",
        "~nobody/note.md",
        "\n.md",
        &long,
    ] {
        let arguments = json!({"file_path": path});
        let (_, envelope) = walk
            .call("document_upload", arguments.as_object().unwrap())
            .await?;
        assert_eq!(envelope["ok"], false, "{path:.60}");
        assert_eq!(said(&table), before, "{path:.60}");
    }
    walk.end().await
}
