use serde_json::json;

use super::*;

/// A time of day that a test moves.
fn held() -> (Arc<Mutex<f64>>, Time) {
    let now = Arc::new(Mutex::new(1_000_000.0));
    let told = Arc::clone(&now);
    (now, Arc::new(move || *lock(&told)))
}

fn write(key: Option<&str>, digest: &str) -> Write {
    Write {
        client: "c1".to_owned(),
        name: "Agent".to_owned(),
        request: Some("7".to_owned()),
        announced: false,
        key: key.map(ToOwned::to_owned),
        tool: "dice_roll".to_owned(),
        digest: digest.to_owned(),
        replaced: CancellationToken::new(),
    }
}

async fn new(ledger: &Ledger, write: Write) -> Entry {
    match ledger.begin(write, true).await.unwrap() {
        Begun::New(entry) => entry,
        other => panic!("{other:?}"),
    }
}

/// Begins a write and sends something of it.
async fn sent(ledger: &Ledger, write: Write) -> Entry {
    let entry = new(ledger, write).await;
    entry.departure().enter().await.unwrap();
    entry
}

#[tokio::test]
async fn what_was_given_up_before_anything_of_it_left_was_never_begun() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let (_, time) = held();
    let ledger = Ledger::open(&path, "i1", Arc::clone(&time)).unwrap();
    let first = new(&ledger, write(Some("k"), "d")).await;
    let again = ledger.begin(write(Some("k"), "d"), true).await.unwrap();
    assert!(matches!(again, Begun::Running(_)), "{again:?}");
    drop(first);
    drop(ledger);
    let ledger = Ledger::open(&path, "i2", time).unwrap();
    let trace = ledger.trace("c1", "7", Duration::ZERO).await.unwrap();
    assert_eq!(trace, Trace::None);
    assert!(ledger.orphans().await.unwrap().is_empty());
    new(&ledger, write(Some("k"), "d")).await;
}

#[tokio::test]
async fn a_key_gives_the_first_outcome_for_ten_minutes_and_is_free_then() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let (now, time) = held();
    let ledger = Ledger::open(&path, "i1", Arc::clone(&time)).unwrap();
    let first = new(&ledger, write(Some("k"), "d")).await;
    let again = ledger.begin(write(Some("k"), "d"), true).await.unwrap();
    let Begun::Running(waiting) = again else {
        panic!("{again:?}");
    };
    first.end(json!({"roll": 1}), false).await;
    assert_eq!(waiting.outcome().await, Some(json!({"roll": 1})));
    drop(ledger);
    // Another run, nearly ten minutes later.
    *lock(&now) += 599.0;
    let ledger = Ledger::open(&path, "i2", time).unwrap();
    let again = ledger.begin(write(Some("k"), "d"), true).await.unwrap();
    assert!(matches!(again, Begun::Done(outcome) if outcome == json!({"roll": 1})));
    let other = ledger.begin(write(Some("k"), "e"), true).await.unwrap();
    assert!(matches!(other, Begun::Other(tool) if tool == "dice_roll"));
    *lock(&now) += 2.0;
    new(&ledger, write(Some("k"), "e")).await;
}

#[tokio::test]
async fn what_was_begun_without_an_outcome_is_unknown_also_to_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let (_, time) = held();
    let ledger = Ledger::open(&path, "i1", Arc::clone(&time)).unwrap();
    drop(sent(&ledger, write(Some("k"), "d")).await);
    let again = ledger.begin(write(Some("k"), "d"), true).await.unwrap();
    assert!(matches!(again, Begun::Unknown), "{again:?}");
    assert!(ledger.orphans().await.unwrap().is_empty());
    drop(ledger);
    let ledger = Ledger::open(&path, "i2", time).unwrap();
    assert_eq!(
        ledger.trace("c1", "7", Duration::ZERO).await.unwrap(),
        Trace::Begun
    );
    let orphans = ledger.orphans().await.unwrap();
    assert_eq!(orphans.len(), 1);
    assert_eq!(orphans[0].key.as_deref(), Some("k"));
    assert!(ledger.orphans().await.unwrap().is_empty(), "told twice");
    let again = ledger.begin(write(Some("k"), "d"), true).await.unwrap();
    assert!(matches!(again, Begun::Unknown), "{again:?}");
}

#[tokio::test]
async fn a_call_of_which_nothing_was_sent_leaves_its_key_free() {
    let dir = tempfile::tempdir().unwrap();
    let (_, time) = held();
    let ledger = Ledger::open(&dir.path().join("l"), "i1", time).unwrap();
    let first = new(&ledger, write(Some("k"), "d")).await;
    first.end(json!({"ok": false}), true).await;
    new(&ledger, write(Some("k"), "e")).await;
}

#[tokio::test]
async fn a_key_of_another_client_is_another_key() {
    let dir = tempfile::tempdir().unwrap();
    let (_, time) = held();
    let ledger = Ledger::open(&dir.path().join("l"), "i1", time).unwrap();
    let _first = new(&ledger, write(Some("k"), "d")).await;
    let mut other = write(Some("k"), "e");
    other.client = "c2".to_owned();
    new(&ledger, other).await;
}

#[tokio::test]
async fn a_request_can_be_asked_for_as_long_as_an_hour() {
    let dir = tempfile::tempdir().unwrap();
    let (now, time) = held();
    let ledger = Ledger::open(&dir.path().join("l"), "i1", time).unwrap();
    let first = new(&ledger, write(None, "d")).await;
    assert_eq!(
        ledger.trace("c1", "7", Duration::ZERO).await.unwrap(),
        Trace::Begun
    );
    first.end(json!(1), false).await;
    assert_eq!(
        ledger.trace("c1", "7", Duration::ZERO).await.unwrap(),
        Trace::Done(json!(1))
    );
    assert_eq!(
        ledger.trace("c1", "\"7\"", Duration::ZERO).await.unwrap(),
        Trace::None
    );
    *lock(&now) += 60.0;
    let age = Duration::from_secs;
    assert_eq!(
        ledger.trace("c1", "7", age(60)).await.unwrap(),
        Trace::Done(json!(1))
    );
    assert_eq!(
        ledger.trace("c1", "7", age(50)).await.unwrap(),
        Trace::Earlier
    );
    *lock(&now) += 3601.0;
    let mut other = write(None, "d");
    other.request = Some("8".to_owned());
    new(&ledger, other).await;
    assert_eq!(
        ledger.trace("c1", "7", Duration::ZERO).await.unwrap(),
        Trace::None
    );
}

#[tokio::test]
async fn a_request_that_was_announced_is_done_once_and_one_that_was_not_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let (_, time) = held();
    let ledger = Ledger::open(&path, "i1", Arc::clone(&time)).unwrap();
    let again = Write {
        announced: true,
        ..write(None, "d")
    };
    new(&ledger, write(None, "d"))
        .await
        .end(json!(1), false)
        .await;
    let done = ledger.begin(again.clone(), true).await.unwrap();
    assert!(matches!(done, Begun::Done(outcome) if outcome == json!(1)));
    drop(sent(&ledger, write(None, "d")).await);
    let unknown = ledger.begin(again.clone(), true).await.unwrap();
    assert!(matches!(unknown, Begun::Unknown), "{unknown:?}");
    // Of the one before nothing was sent, so that it is done now.
    let mut waited = again;
    waited.request = Some("8".to_owned());
    new(&ledger, waited.clone()).await.end(json!(0), true).await;
    new(&ledger, waited).await;
}

#[tokio::test]
async fn what_comes_on_a_connection_that_counts_no_more_is_not_begun() {
    let dir = tempfile::tempdir().unwrap();
    let (_, time) = held();
    let ledger = Ledger::open(&dir.path().join("l"), "i1", time).unwrap();
    let late = write(None, "d");
    late.replaced.cancel();
    assert!(matches!(
        ledger.begin(late, true).await.unwrap(),
        Begun::Late
    ));
    assert_eq!(
        ledger.trace("c1", "7", Duration::ZERO).await.unwrap(),
        Trace::None
    );
}

#[tokio::test]
async fn a_ledger_is_whole_for_the_runs_that_it_has_seen_from_their_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let (_, time) = held();
    let ledger = Ledger::open(&path, "i1", Arc::clone(&time)).unwrap();
    drop(ledger);
    let ledger = Ledger::open(&path, "i2", Arc::clone(&time)).unwrap();
    assert!(ledger.is_durable());
    assert!(ledger.is_whole("i1").await.unwrap());
    assert!(!ledger.is_whole("i0").await.unwrap());
    drop(ledger);
    // Reset: it knows of nothing before.
    std::fs::write(&path, "no database at all, and long enough to be looked at").unwrap();
    let ledger = Ledger::open(&path, "i3", time).unwrap();
    assert!(ledger.is_durable());
    assert!(!ledger.is_whole("i2").await.unwrap());
    assert!(ledger.is_whole("i3").await.unwrap());
}

#[tokio::test]
async fn a_file_that_fails_is_given_up_and_what_it_held_is_still_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let (_, time) = held();
    let ledger = Ledger::open(&path, "i1", Arc::clone(&time)).unwrap();
    let first = new(&ledger, write(Some("k"), "d")).await;
    lock(&ledger.0.book)
        .db
        .pragma_update(None, "query_only", true)
        .unwrap();
    first.end(json!(1), false).await;
    assert!(!ledger.is_durable());
    assert!(ledger.is_whole("i1").await.unwrap());
    let again = ledger.begin(write(Some("k"), "d"), true).await.unwrap();
    assert!(matches!(again, Begun::Done(outcome) if outcome == json!(1)));
    assert!(!path.exists(), "no later run may take it for a whole one");
    drop(ledger);
    let ledger = Ledger::open(&path, "i2", time).unwrap();
    assert!(!ledger.is_whole("i1").await.unwrap());
}

#[tokio::test]
async fn where_no_file_can_be_the_ledger_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no/such/folder/ledger.sqlite");
    let (_, time) = held();
    let ledger = Ledger::open(&path, "i1", time).unwrap();
    assert!(!ledger.is_durable());
    let first = new(&ledger, write(Some("k"), "d")).await;
    first.end(json!(1), false).await;
    let again = ledger.begin(write(Some("k"), "d"), true).await.unwrap();
    assert!(matches!(again, Begun::Done(_)));
}
