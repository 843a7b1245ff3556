//! What has changed between two readings, and whose doing it was.

use cozyvtt_proto::event::EventRecord;
use serde::Serialize;
use serde_json::Value;

use super::plan::{INITIATIVE, READINGS, Reading};
use super::snapshot::{Facet, Line, Snapshot};
use super::write::Sent;

/// Whose doing a change was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum By {
    /// Sent by this run.
    #[serde(rename = "this run")]
    Run,
    /// The server's own note that this run came (CozyVTT up to 1.1 writes one).
    #[serde(rename = "the server, about this run's connection")]
    Connection,
    /// Somebody else at the table.
    #[serde(rename = "others")]
    Others,
    /// Nothing tells; or the account itself, and this run did not send it.
    #[serde(rename = "unexplained")]
    Unexplained,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Change {
    pub(super) what: &'static str,
    pub(super) id: String,
    /// How: added, gone, or which fields.
    #[serde(rename = "change")]
    pub(super) how: String,
    pub(super) by: By,
}

/// What tells this run's doing from that of others.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) me: Option<&'a str>,
    pub(super) sent: &'a Sent,
    pub(super) events: &'a [EventRecord],
    /// How often this run asked for the order of the fight; each answer is an
    /// event as well.
    pub(super) asked_initiative: usize,
}

/// Everything that differs.
pub(super) fn compare(before: &Snapshot, after: &Snapshot, evidence: &Evidence<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for reading in &READINGS {
        let name = reading.plan.name;
        if let (Some(old), Some(new)) = (before.facets.get(name), after.facets.get(name)) {
            let by = teller(reading, evidence);
            changes.extend(facet(name, old, new, by));
        }
    }
    if let (Some(old), Some(new)) = (&before.chat, &after.chat) {
        changes.extend(chat(old, new, evidence));
    }
    changes.extend(rolls(evidence));
    changes
}

/// Who is known to have changed what a reading shows: others, when the table
/// told of a change. This run sends nothing that could.
fn teller(reading: &Reading, evidence: &Evidence<'_>) -> By {
    let told = evidence
        .events
        .iter()
        .filter(|event| reading.told_by.contains(&event.event.as_str()))
        .filter(|event| !is_by(event, evidence.me))
        .count();
    let own = if reading.plan.name == INITIATIVE.plan.name {
        evidence.asked_initiative
    } else {
        0
    };
    if told > own {
        By::Others
    } else {
        By::Unexplained
    }
}

fn is_by(event: &EventRecord, user: Option<&str>) -> bool {
    let actor = ["movedBy", "userId"]
        .iter()
        .find_map(|key| event.payload[*key].as_str());
    actor.is_some() && actor == user
}

fn facet(what: &'static str, old: &Facet, new: &Facet, by: By) -> Vec<Change> {
    let one = |id: &String, how: String| Change {
        what,
        id: id.clone(),
        how,
        by,
    };
    let gone = old
        .keys()
        .filter(|id| !new.contains_key(*id))
        .map(|id| one(id, "gone".to_owned()));
    let other = new.iter().filter_map(|(id, value)| match old.get(id) {
        None => Some(one(id, "added".to_owned())),
        Some(before) if before != value => Some(one(id, difference(before, value))),
        Some(_) => None,
    });
    gone.chain(other).collect()
}

/// Which fields differ: their names, never their content.
fn difference(old: &Value, new: &Value) -> String {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return "changed".to_owned();
    };
    let mut names: Vec<&str> = old
        .keys()
        .chain(new.keys())
        .filter(|key| old.get(*key) != new.get(*key))
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names.dedup();
    format!("changed: {}", names.join(", "))
}

fn chat(old: &[Line], new: &[Line], evidence: &Evidence<'_>) -> Vec<Change> {
    let known = |lines: &[Line], id: &str| lines.iter().any(|line| line.id == id);
    let change = |line: &Line, how: &str, by| Change {
        what: "chat",
        id: line.id.clone(),
        how: how.to_owned(),
        by,
    };
    let mut changes = Vec::new();
    let mut own = 0;
    for line in new.iter().filter(|line| !known(old, &line.id)) {
        let mine = line.user.is_some() && line.user.as_deref() == evidence.me;
        let about_me = line.about.is_some() && line.about.as_deref() == evidence.me;
        let connection = matches!(line.action.as_deref(), Some("user.joined" | "user.left"));
        let sent = evidence.sent.line.as_ref() == Some(&line.content);
        changes.push(if mine && sent && own == 0 {
            own += 1;
            change(line, "added", By::Run)
        } else if mine {
            change(
                line,
                "a line of this account that this run did not send",
                By::Unexplained,
            )
        } else if connection && about_me {
            change(line, "added", By::Connection)
        } else {
            change(line, "added", By::Others)
        });
    }
    // Older lines leave the page as newer ones come; only a gap is a loss.
    let kept = old.iter().rposition(|line| known(new, &line.id));
    changes.extend(
        old.iter()
            .take(kept.unwrap_or_default())
            .filter(|line| !known(new, &line.id))
            .map(|line| change(line, "gone", By::Unexplained)),
    );
    changes
}

fn rolls(evidence: &Evidence<'_>) -> Vec<Change> {
    let mut own = 0;
    evidence
        .events
        .iter()
        .filter(|event| matches!(event.event.as_str(), "dice.rolled" | "dice.rolled.secret"))
        .map(|event| {
            let sent = evidence.sent.roll.as_ref();
            let (how, by) = if sent.is_some_and(|roll| roll.is_ours(event)) && own == 0 {
                own += 1;
                ("added", By::Run)
            } else if is_by(event, evidence.me) {
                let foreign = "a roll of this account that this run did not send";
                (foreign, By::Unexplained)
            } else {
                ("added", By::Others)
            };
            Change {
                what: "rolls",
                id: event.payload["id"].as_str().unwrap_or_default().to_owned(),
                how: how.to_owned(),
                by,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(id: &str, user: &str, content: &str) -> Line {
        Line {
            id: id.to_owned(),
            user: Some(user.to_owned()),
            content: content.to_owned(),
            action: None,
            about: None,
        }
    }

    fn event(name: &str, payload: Value) -> EventRecord {
        EventRecord {
            seq: 1,
            ts: 0.0,
            event: name.to_owned(),
            payload,
            generation: 1,
        }
    }

    fn by(before: &Snapshot, after: &Snapshot, events: &[EventRecord], sent: &Sent) -> Vec<By> {
        let evidence = Evidence {
            me: Some("me"),
            sent,
            events,
            asked_initiative: 1,
        };
        compare(before, after, &evidence)
            .into_iter()
            .map(|change| change.by)
            .collect()
    }

    fn with(name: &'static str, value: Value) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let facet = Facet::from([("one".to_owned(), value)]);
        snapshot.facets.insert(name, facet);
        snapshot
    }

    #[test]
    fn a_change_that_the_table_told_of_is_that_of_others() {
        let (old, new) = (
            with("tokens", json!({"x": 1})),
            with("tokens", json!({"x": 2})),
        );
        let sent = Sent::default();
        assert_eq!(by(&old, &new, &[], &sent), [By::Unexplained]);
        let other = event("token.moved", json!({"movedBy": "you"}));
        assert_eq!(by(&old, &new, &[other], &sent), [By::Others]);
        let own = event("token.moved", json!({"movedBy": "me"}));
        assert_eq!(by(&old, &new, &[own], &sent), [By::Unexplained]);
        assert!(by(&old, &old, &[], &sent).is_empty());
    }

    #[test]
    fn the_answer_to_our_own_question_explains_no_other_order() {
        let (old, new) = (with("initiative", json!(1)), with("initiative", json!(2)));
        let state = || event("initiative.state", json!({}));
        let sent = Sent::default();
        assert_eq!(by(&old, &new, &[state()], &sent), [By::Unexplained]);
        assert_eq!(by(&old, &new, &[state(), state()], &sent), [By::Others]);
    }

    #[test]
    fn lines_are_told_apart_by_who_wrote_them_and_old_ones_may_leave_the_page() {
        let page = |lines: &[Line]| Snapshot {
            chat: Some(lines.to_vec()),
            ..Snapshot::default()
        };
        let (a, b, c) = (line("a", "x", ""), line("b", "x", ""), line("c", "x", ""));
        let sent = Sent {
            line: Some("smoke".to_owned()),
            roll: None,
        };
        let old = page(&[c.clone(), b, a.clone()]);
        let new = page(&[
            line("f", "me", "smoke"),
            line("e", "you", "smoke"),
            c.clone(),
        ]);
        let found = by(&old, &new, &[], &sent);
        assert_eq!(found, [By::Run, By::Others]);
        let twice = page(&[
            line("g", "me", "smoke"),
            line("f", "me", "smoke"),
            c.clone(),
        ]);
        assert_eq!(by(&old, &twice, &[], &sent), [By::Run, By::Unexplained]);
        let torn = page(&[c, a]);
        assert_eq!(by(&old, &torn, &[], &sent), [By::Unexplained]);
        let mut joined = line("h", "x", "Me has joined");
        joined.user = None;
        joined.action = Some("user.joined".to_owned());
        joined.about = Some("me".to_owned());
        let arrived = page(&[joined]);
        assert_eq!(by(&page(&[]), &arrived, &[], &sent), [By::Connection]);
    }

    #[test]
    fn a_roll_of_this_account_that_was_not_sent_is_unexplained() {
        let none = Snapshot::default();
        let roll = |user: &str| event("dice.rolled", json!({"userId": user}));
        let sent = Sent::default();
        let found = by(&none, &none, &[roll("me"), roll("you")], &sent);
        assert_eq!(found, [By::Unexplained, By::Others]);
    }
}
