//! Long work shows itself: files on their way are told to people and to agents.

use anyhow::{Context as _, Result};
use cozyvtt_proto::control::{CallParams, CallProgress, ToolCall};
use cozyvtt_table::Table;
use cozyvtt_tests::PATIENCE;
use cozyvtt_tests::between::Between;
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::Wire;
use serde_json::{Value, json};

/// How large the document is, in bytes: more than the buffers on the way take.
const SIZE: usize = 12 * 1024 * 1024;

/// A daemon whose way to the table can be held up, and a document to send.
async fn stage(table: &Table) -> Result<(Home, Between)> {
    let between = Between::start(table.port()).await?;
    let mut home = Home::at(table, "dm")?;
    home.set("COZYVTT_URL", between.url());
    std::fs::write(home.path().join("long.md"), "word ".repeat(SIZE / 5))?;
    Ok((home, between))
}

fn upload() -> Value {
    json!({"file_path": "~/long.md"})
}

#[tokio::test]
async fn who_calls_by_hand_is_told_how_far_a_file_is() -> Result<()> {
    let table = Table::builder().start().await?;
    let (home, between) = stage(&table).await?;
    let _daemon = home.start_at_table().await?;
    between.fall_silent();
    let params = CallParams {
        name: "document_upload".to_owned(),
        arguments: upload().as_object().cloned().unwrap_or_default(),
        cwd: None,
        campaign: None,
    };
    let mut heard: Vec<CallProgress> = Vec::new();
    let control = home.control();
    let result = control
        .call_told::<ToolCall>(params, PATIENCE, |progress| {
            // The first word is enough to see that it is told while it goes on.
            between.speak_again();
            heard.push(progress);
        })
        .await?;
    assert_eq!(result.envelope["ok"], true, "{result:?}");
    let first = heard.first().context("nothing was told")?;
    let size = (SIZE / 5 * 5) as u64;
    assert_eq!(
        (first.what.as_str(), first.of, first.bytes),
        ("uploading", Some(size), true)
    );
    assert!(
        heard.windows(2).all(|two| two[0].done <= two[1].done),
        "{heard:?}"
    );
    assert!(heard.iter().all(|progress| progress.done <= size));
    Ok(())
}

#[tokio::test]
async fn an_agent_that_asks_for_progress_is_told_the_bytes() -> Result<()> {
    let table = Table::builder().start().await?;
    let (home, between) = stage(&table).await?;
    let _daemon = home.start_at_table().await?;
    let mut wire = Wire::connect(&home).await?;
    wire.shake_hands().await?;
    between.fall_silent();
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "document_upload", "arguments": upload(), "_meta": {"progressToken": "p"}}});
    wire.send(&call).await?;
    let size = f64::from(u32::try_from(SIZE / 5 * 5)?);
    let mut last = 0.0;
    let mut told = 0;
    let answer = loop {
        let message = tokio::time::timeout(PATIENCE, wire.next()).await??;
        if message["method"] != "notifications/progress" {
            break message;
        }
        let progress = &message["params"];
        assert_eq!(progress["progressToken"], "p");
        assert_eq!(progress["total"].as_f64(), Some(size));
        let done = progress["progress"].as_f64().context("no number")?;
        assert!(done > last, "{message}");
        let words = progress["message"].as_str().unwrap_or_default();
        assert!(words.starts_with("uploading: "), "{message}");
        last = done;
        told += 1;
        between.speak_again();
    };
    assert!(told > 0);
    assert_eq!(answer["id"], 7);
    let envelope = &answer["result"]["structuredContent"];
    assert_eq!(envelope["ok"], true, "{answer}");
    Ok(())
}
