//! The two things that a writing run adds to the table, one of each, and how it
//! knows them again.

use std::time::Duration;

use cozyvtt_proto::event::EventRecord;
use serde_json::{Value, json};

use super::attest::Version;
use super::seat::{Licence, Seat};
use super::snapshot::Trouble;

/// How long the table may take to show what was sent.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is rolled.
const EXPRESSION: &str = "1d20";

/// The first release whose rolls carry an id (CozyVTT 1.2.2; 1.1.2 has none).
const ROLLS_WITH_ID: Version = Version(1, 2, 2);

/// The roll that was sent.
#[derive(Debug, Clone)]
pub(super) struct Roll {
    user: String,
    purpose: String,
    expression: &'static str,
    secret: bool,
    with_id: bool,
}

impl Roll {
    /// Whether the event shows this roll and no other.
    pub(super) fn is_ours(&self, event: &EventRecord) -> bool {
        let payload = &event.payload;
        let text = |key: &str| payload[key].as_str();
        event.event == "dice.rolled"
            && (!self.with_id || text("id").is_some_and(|id| !id.is_empty()))
            && text("userId") == Some(&self.user)
            && text("purpose") == Some(&self.purpose)
            && text("expression") == Some(self.expression)
            && payload["secret"] == self.secret
    }
}

/// What this run has sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) line: Option<String>,
    pub(super) roll: Option<Roll>,
}

impl Sent {
    /// Says one line and looks for it.
    pub(super) async fn say(
        &mut self,
        seat: &Seat,
        role: Option<&str>,
        stamp: &str,
    ) -> Result<String, Trouble> {
        let me = me(seat)?;
        let line =
            format!("[smoke test {stamp}] cozyvttctl checks this table. Please ignore this line.");
        let label = if role == Some("DM") { "DM" } else { "PLAYER" };
        // Noted first: whatever happens now, it may have been sent.
        self.line = Some(line.clone());
        let arguments = json!({"content": line, "type": label});
        let receipt = seat.call("chat_send", arguments, Licence::Write).await?;
        let event = seen(seat, &receipt, |event| {
            event.event == "chat.message"
                && event.payload["id"].is_string()
                && event.payload["userId"].as_str() == Some(&me)
                && event.payload["content"].as_str() == Some(&line)
        })
        .await?;
        Ok(format!("seen as event {}", event.seq))
    }

    /// Rolls once and looks for it.
    pub(super) async fn roll(
        &mut self,
        seat: &Seat,
        attested: Version,
        stamp: &str,
    ) -> Result<String, Trouble> {
        let roll = Roll {
            user: me(seat)?,
            purpose: format!("smoke test {stamp}"),
            expression: EXPRESSION,
            secret: false,
            with_id: attested >= ROLLS_WITH_ID,
        };
        self.roll = Some(roll.clone());
        let arguments = json!({
            "expression": roll.expression,
            "is_secret": roll.secret,
            "purpose": roll.purpose,
        });
        let receipt = seat.call("dice_roll", arguments, Licence::Write).await?;
        let event = seen(seat, &receipt, |event| roll.is_ours(event)).await?;
        let Some(total) = event.payload["result"].as_i64() else {
            return Err(Trouble::Failed("the roll came without a result".to_owned()));
        };
        Ok(format!(
            "{EXPRESSION} came to {total}, seen as event {}",
            event.seq
        ))
    }
}

fn me(seat: &Seat) -> Result<String, Trouble> {
    seat.me()
        .ok_or_else(|| Trouble::Skipped("the login did not tell the account's id".to_owned()))
}

/// Waits for the event that shows what was sent, or for the table's refusal.
async fn seen(
    seat: &Seat,
    receipt: &Value,
    wanted: impl Fn(&EventRecord) -> bool + Sync,
) -> Result<EventRecord, Trouble> {
    let since = receipt["since"]
        .as_u64()
        .ok_or_else(|| Trouble::Failed("the receipt has no `since`".to_owned()))?;
    let journal = &seat.session.journal;
    let either = |event: &EventRecord| event.event == "system.error" || wanted(event);
    match journal.find(since, PATIENCE, either).await {
        Some(event) if event.event == "system.error" => Err(Trouble::Failed(format!(
            "the table refused it: {}",
            event.payload["detail"]["message"]
                .as_str()
                .or_else(|| event.payload["detail"].as_str())
                .unwrap_or("without a word")
        ))),
        Some(event) => Ok(event),
        None => Err(Trouble::Failed(format!(
            "it was sent and did not come back within {} s",
            PATIENCE.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(with_id: bool, change: &str, to: Value) -> bool {
        let roll = Roll {
            user: "u1".to_owned(),
            purpose: "smoke test T".to_owned(),
            expression: EXPRESSION,
            secret: false,
            with_id,
        };
        let mut payload = json!({"id": "r1", "userId": "u1", "purpose": "smoke test T",
            "expression": "1d20", "secret": false, "result": 7});
        payload[change] = to;
        roll.is_ours(&EventRecord {
            seq: 1,
            ts: 0.0,
            event: "dice.rolled".to_owned(),
            payload,
            generation: 1,
        })
    }

    #[test]
    fn t_smk_01_a_roll_is_ours_only_if_all_of_it_matches() {
        assert!(ours(true, "result", json!(9)));
        for (key, other) in [
            ("id", json!(null)),
            ("id", json!("")),
            ("userId", json!("u2")),
            ("purpose", json!("smoke test U")),
            ("expression", json!("1d20+0")),
            ("secret", json!(true)),
            ("secret", json!(null)),
        ] {
            assert!(!ours(true, key, other.clone()), "{key} {other}");
        }
    }

    #[test]
    fn t_smk_01_a_server_from_before_rolls_had_ids_is_taken_without() {
        assert!(ours(false, "id", json!(null)));
        assert!(!ours(false, "userId", json!("u2")));
    }
}
