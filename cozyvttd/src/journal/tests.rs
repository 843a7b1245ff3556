//! The journal as those see it who append to it and read it.

use serde_json::json;

use super::*;

fn temporary() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.sqlite");
    (dir, path)
}

async fn filled(path: &Path, count: u64) -> Journal {
    let journal = Journal::open(path).unwrap();
    for number in 0..count {
        let event = Event::new("chat.message", json!({"number": number}), 1);
        journal.append(event).await.unwrap();
    }
    journal
}

fn nothing() -> Event {
    Event::new("x", Value::Null, 1)
}

fn seqs(page: &EventPage) -> Vec<u64> {
    page.events.iter().map(|record| record.seq).collect()
}

#[tokio::test]
async fn an_event_that_was_appended_is_in_the_next_page() {
    let (_dir, path) = temporary();
    let journal = filled(&path, 2).await;
    let page = journal.page(0, 100).await.unwrap();
    assert_eq!(seqs(&page), [1, 2]);
    assert_eq!(
        (page.next_seq, page.high_water_seq, page.oldest_seq),
        (2, 2, 1)
    );
    assert!(!page.gap && !page.cursor_reset && !page.has_more);
    journal.append(nothing()).await.unwrap();
    let page = journal.page(page.next_seq, 100).await.unwrap();
    assert_eq!(seqs(&page), [3]);
    assert_eq!(page.events[0].payload, Value::Null);
}

#[tokio::test]
async fn pages_follow_each_other_without_holes() {
    let (_dir, path) = temporary();
    let journal = filled(&path, 5).await;
    let mut since = 0;
    let mut seen = Vec::new();
    loop {
        let page = journal.page(since, 2).await.unwrap();
        seen.extend(seqs(&page));
        since = page.next_seq;
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn numbers_go_on_after_a_restart() {
    let (_dir, path) = temporary();
    filled(&path, 3).await.close().await.unwrap();
    let journal = Journal::open(&path).unwrap();
    assert_eq!(journal.append(nothing()).await.unwrap(), 4);
    assert_eq!(seqs(&journal.page(0, 100).await.unwrap()), [1, 2, 3, 4]);
}

#[tokio::test]
async fn what_was_appended_is_committed_before_a_journal_closes_and_nothing_after() {
    let (_dir, path) = temporary();
    let journal = filled(&path, 700).await;
    journal.close().await.unwrap();
    assert!(matches!(
        journal.append(nothing()).await,
        Err(JournalError::Closed)
    ));
    assert!(matches!(journal.close().await, Err(JournalError::Closed)));
    assert!(
        journal.page(600, 500).await.is_err(),
        "an empty page would be a lie"
    );
    assert_eq!(files(&path), ["journal.sqlite"]);
    let journal = Journal::open(&path).unwrap();
    assert_eq!(journal.page(600, 500).await.unwrap().next_seq, 700);
}

#[tokio::test]
async fn a_journal_that_was_not_closed_goes_on_above_any_number_given_without_a_gap() {
    let (_dir, path) = temporary();
    let killed = filled(&path, 3).await;
    killed.page(0, 1).await.unwrap();
    // The other one still lives, but nothing of what it did at its end is done.
    let journal = Journal::open(&path).unwrap();
    let before = journal.high_water();
    let first = journal.append(nothing()).await.unwrap();
    assert_eq!(first, 1001);
    journal.committed(first).await.unwrap();
    let last = journal.last_until(before).await.unwrap().unwrap();
    assert_eq!(last.seq, 3, "the newest from before, whatever came since");
    for cursor in [0, 2, 3, 500, 1000] {
        let page = journal.page(cursor, 500).await.unwrap();
        assert!(
            !page.gap && !page.cursor_reset && !page.has_more,
            "{cursor}"
        );
        assert_eq!(page.next_seq, 1001);
        assert_eq!(page.oldest_seq, 1);
    }
}

#[tokio::test]
async fn after_a_power_cut_that_took_the_last_commits_no_number_comes_again() {
    let (dir, path) = temporary();
    let journal = Journal::open(&path).unwrap();
    // What is on the disk for certain: what was synced before the first number was given.
    let after = tempfile::tempdir().unwrap();
    let left = after.path().join("journal.sqlite");
    for ending in ["", "-wal"] {
        let copy = durable::beside(&left, ending);
        std::fs::copy(durable::beside(&path, ending), copy).unwrap();
    }
    let mut read = 0;
    for _ in 0..400 {
        read = journal.append(nothing()).await.unwrap();
    }
    assert_eq!(seqs(&journal.page(read - 1, 10).await.unwrap()), [read]);
    drop((journal, dir));
    let journal = Journal::open(&left).unwrap();
    let page = journal.page(read, 10).await.unwrap();
    assert!(!page.cursor_reset && !page.gap && page.events.is_empty());
    assert!(journal.append(nothing()).await.unwrap() > read);
    let page = journal.page(read, 10).await.unwrap();
    assert_eq!(page.events.len(), 1, "the cursor from before still serves");
}

#[tokio::test]
async fn a_burst_gets_a_number_each_in_order() {
    let (_dir, path) = temporary();
    let journal = filled(&path, 6000).await;
    assert_eq!(journal.high_water(), 6000);
    let page = journal.page(5990, 500).await.unwrap();
    assert_eq!(seqs(&page), (5991..=6000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_cursor_from_elsewhere_is_reset_and_told_so() {
    let (_dir, path) = temporary();
    let journal = filled(&path, 1).await;
    let page = journal.page(100, 10).await.unwrap();
    assert!(page.cursor_reset && !page.gap);
    assert_eq!(seqs(&page), [1]);
}

#[tokio::test]
async fn the_start_reaches_back_five_hundred_and_a_cursor_reaches_all() {
    let (_dir, path) = temporary();
    let journal = filled(&path, 620).await;
    let page = journal.page(0, 500).await.unwrap();
    assert_eq!((page.events[0].seq, page.next_seq), (121, 620));
    assert!(!page.gap, "nothing was evicted");
    assert_eq!(journal.page(5, 1).await.unwrap().events[0].seq, 6);
}

#[tokio::test]
async fn bounds_outside_of_the_allowed_ones_are_refused() {
    let (_dir, path) = temporary();
    let journal = filled(&path, 1).await;
    for limit in [0, 501] {
        assert!(matches!(
            journal.page(0, limit).await,
            Err(PageError::Bounds)
        ));
    }
}

#[tokio::test]
async fn an_empty_journal_has_an_empty_first_page() {
    let (_dir, path) = temporary();
    let page = filled(&path, 0).await.page(0, 10).await.unwrap();
    assert!(page.events.is_empty() && !page.gap && !page.has_more && !page.cursor_reset);
    assert_eq!(
        (page.next_seq, page.high_water_seq, page.oldest_seq),
        (0, 0, 1)
    );
}

#[tokio::test]
async fn the_latest_of_a_name_is_the_newest_or_nothing() {
    let (_dir, path) = temporary();
    let journal = filled(&path, 3).await;
    journal.page(0, 1).await.unwrap();
    let found = journal.latest("chat.message").await.unwrap().unwrap();
    assert_eq!(found.payload, json!({"number": 2}));
    assert_eq!(journal.latest("dice.rolled").await.unwrap(), None);
}

#[tokio::test]
async fn a_reader_that_waits_is_woken_by_the_next_commit() {
    let (_dir, path) = temporary();
    let journal = filled(&path, 1).await;
    let waiter = tokio::spawn({
        let journal = journal.clone();
        async move { journal.beyond(1).await }
    });
    journal.append(nothing()).await.unwrap();
    waiter.await.unwrap().unwrap();
}

#[tokio::test]
async fn of_a_tokens_drag_only_the_last_move_stays_and_that_is_no_gap() {
    let (_dir, path) = temporary();
    let journal = Journal::open(&path).unwrap();
    let step = |x: u32| {
        let payload = json!({"tokenId": "t", "mapId": "m", "x": x, "y": 0});
        Event::new("token.moved", payload, 1)
    };
    journal.append(step(0)).await.unwrap();
    let seen = journal.page(0, 10).await.unwrap();
    assert_eq!(seqs(&seen), [1]);
    for x in 1..5 {
        journal.append(step(x)).await.unwrap();
    }
    let page = journal.page(seen.next_seq, 10).await.unwrap();
    assert_eq!(seqs(&page), [5]);
    assert_eq!(page.events[0].payload["x"], 4);
    assert!(!page.gap && page.evicted.is_empty());
    // The first one went as well, for readers from before.
    assert_eq!(seqs(&journal.page(0, 10).await.unwrap()), [5]);
}

#[tokio::test]
async fn a_chat_line_read_again_is_taken_once_whoever_had_it_first() {
    let (_dir, path) = temporary();
    let journal = Journal::open(&path).unwrap();
    let line = |id: &str| Event::new("chat.message", json!({"id": id}), 1);
    let happened = now() - 60.0;
    journal.append(line("live")).await.unwrap();
    let known = journal.append_unless_known(line("live"), happened, "live");
    assert_eq!(known.await.unwrap(), None);
    let missed = journal.append_unless_known(line("missed"), happened, "missed");
    assert_eq!(missed.await.unwrap(), Some(2));
    let again = journal.append_unless_known(line("missed"), happened, "missed");
    assert_eq!(again.await.unwrap(), None);
    // Heard live after it was recovered.
    journal.append(line("missed")).await.unwrap();
    let page = journal.page(0, 10).await.unwrap();
    assert_eq!(seqs(&page), [1, 2]);
    assert!((page.events[1].ts - happened).abs() < 1e-6);
    // Nobody waits for the number that went to nothing.
    let (records, next) = journal.onward(2).await.unwrap();
    assert_eq!((records.len(), next), (0, 3));
}

#[tokio::test]
async fn what_the_server_itself_sends_twice_is_two_records() {
    let (_dir, path) = temporary();
    let journal = Journal::open(&path).unwrap();
    for _ in 0..2 {
        let event = Event::new("chat.message", json!({"id": "same"}), 1);
        journal.append(event).await.unwrap();
    }
    assert_eq!(seqs(&journal.page(0, 10).await.unwrap()), [1, 2]);
}

#[tokio::test]
async fn a_roll_is_known_by_its_id_under_either_name() {
    let (_dir, path) = temporary();
    let journal = Journal::open(&path).unwrap();
    let payload = json!({"id": "r1", "result": 17});
    let secret = Event::new("dice.rolled.secret", payload.clone(), 1);
    journal.append(secret).await.unwrap();
    let read = Event::new("dice.rolled", payload, 1);
    let known = journal.append_unless_known(read, now(), "r1").await;
    assert_eq!(known.unwrap(), None);
}

#[tokio::test]
async fn what_is_too_old_to_be_kept_is_not_recovered() {
    let (_dir, path) = temporary();
    let journal = Journal::open(&path).unwrap();
    let event = Event::new("chat.message", json!({}), 1);
    let ancient = journal.append_unless_known(event, 1.0, "a").await;
    assert_eq!(ancient.unwrap(), None);
    assert_eq!(journal.page(0, 10).await.unwrap().events, []);
}

#[tokio::test]
async fn a_newer_file_is_left_alone_and_memory_serves_with_numbers_of_its_own() {
    let (_dir, path) = temporary();
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA user_version = 99; CREATE TABLE theirs (x)")
        .unwrap();
    drop(db);
    let before = std::fs::read(&path).unwrap();
    let journal = filled(&path, 2).await;
    let page = journal.page(0, 10).await.unwrap();
    assert_eq!(page.events.len(), 2);
    assert!(page.events[0].seq > 1_000_000_000_000, "from the clock");
    assert!(!page.durable);
    let note = page.note.unwrap();
    assert!(
        note.contains("format 99") && note.contains("install"),
        "{note}"
    );
    // A cursor from before does not reach what is in the file.
    let old = journal.page(5, 10).await.unwrap();
    assert!(old.gap && !old.cursor_reset);
    assert_eq!(old.evicted, [("unknown".to_owned(), 1)].into());
    assert!(!journal.page(page.next_seq, 10).await.unwrap().gap);
    assert!(journal.health().trouble.unwrap().lasts);
    journal.close().await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn what_memory_held_is_in_the_file_once_it_can_be_written() {
    let (_dir, path) = temporary();
    filled(&path, 3).await.close().await.unwrap();
    let kept = path.with_extension("kept");
    std::fs::rename(&path, &kept).unwrap();
    // A folder in its place cannot be opened.
    std::fs::create_dir(&path).unwrap();
    let journal = filled(&path, 2).await;
    let held = journal.page(0, 10).await.unwrap();
    assert_eq!((held.events.len(), held.durable), (2, false));
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&kept, &path).unwrap();
    let mut health = journal.0.committed.clone();
    health
        .wait_for(|health| health.trouble.is_none())
        .await
        .unwrap();
    let page = journal.page(0, 10).await.unwrap();
    assert!(page.durable && !page.gap);
    assert_eq!(seqs(&page)[..3], [1, 2, 3]);
    assert_eq!(page.events[3..], held.events);
    // A number that was handed out before is as good as ever.
    let next = journal.append(nothing()).await.unwrap();
    assert_eq!(next, held.next_seq + 1);
    journal.close().await.unwrap();
    let journal = Journal::open(&path).unwrap();
    assert_eq!(journal.high_water(), next);
    assert_eq!(journal.page(0, 10).await.unwrap().events.len(), 6);
}

/// The files in the journal's folder.
fn files(path: &Path) -> Vec<String> {
    let entries = path.parent().unwrap().read_dir().unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The damaged files among them.
fn aside(path: &Path) -> Vec<String> {
    let mut names = files(path);
    names.retain(|name| name.contains(".corrupt-") && !name.ends_with("-shm"));
    names
}

#[tokio::test]
async fn a_file_that_is_no_journal_is_set_aside_and_numbers_come_from_the_clock() {
    let (_dir, path) = temporary();
    std::fs::write(&path, "not a database, whatever it is".repeat(100)).unwrap();
    let journal = filled(&path, 1).await;
    let page = journal.page(7, 10).await.unwrap();
    assert!(page.durable && page.gap && !page.cursor_reset);
    assert_eq!(page.evicted, [("unknown".to_owned(), 1)].into());
    assert!(page.events[0].seq > 1_000_000_000_000);
    let names = aside(&path);
    assert_eq!(names.len(), 1, "{names:?}");
    let put = std::fs::read_to_string(path.with_file_name(&names[0])).unwrap();
    assert!(put.starts_with("not a database"));
    let remark = journal.health().remark.unwrap();
    assert!(remark.contains(&names[0]), "{remark}");
}

#[tokio::test]
async fn a_damaged_file_that_still_tells_its_numbers_is_followed_by_larger_ones() {
    let (_dir, path) = temporary();
    let killed = filled(&path, 300).await;
    killed.page(0, 1).await.unwrap();
    store::Store::open(&path).unwrap().spoil();
    let journal = filled(&path, 1).await;
    let page = journal.page(100, 10).await.unwrap();
    // With its log, in which everything stands that the file does not hold yet.
    let names = aside(&path);
    assert!(names.len() == 2 && names[1].ends_with("-wal"), "{names:?}");
    assert!(page.gap, "{page:?}");
    let first = page.events[0].seq;
    assert!(first > 1000 && first < 10_000, "{first}");
}

#[tokio::test]
async fn without_a_file_beside_damaged_ones_numbers_come_from_the_clock() {
    let (_dir, path) = temporary();
    std::fs::write(durable::beside(&path, ".corrupt-20260101T000000Z"), "x").unwrap();
    let journal = filled(&path, 1).await;
    assert!(journal.high_water() > 1_000_000_000_000);
}
