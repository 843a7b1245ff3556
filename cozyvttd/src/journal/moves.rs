//! A token that is dragged: of its moves only the last within half a second stays.
//!
//! CozyVTT sends every step of a drag, and only where the token stands matters. A
//! later `token.moved` of the same token on the same map takes the place of one that is
//! at most 500 ms older, under a number of its own. Who has read the earlier one reads
//! the later one as well, who has not misses nothing: that is no loss and no gap.

use std::collections::HashMap;

use cozyvtt_proto::event::EventRecord;

/// How long a move may be replaced, in seconds.
const REPLACEABLE: f64 = 0.5;

/// A map's id and a token's.
type Token = (String, String);

/// The latest move of each token, as far as it may still be replaced.
#[derive(Debug, Default)]
pub(super) struct Moves(HashMap<Token, Latest>);

#[derive(Debug, Clone, Copy)]
struct Latest {
    seq: u64,
    ts: f64,
}

impl Moves {
    /// Takes note of a record; gives the number of the one whose place it takes.
    pub(super) fn replaced_by(&mut self, record: &EventRecord) -> Option<u64> {
        let token = token(record)?;
        let latest = Latest {
            seq: record.seq,
            ts: record.ts,
        };
        let earlier = self.0.insert(token, latest)?;
        // A commit that was refused comes again: a move does not replace itself.
        let follows = earlier.seq < record.seq && recent(earlier, record.ts);
        follows.then_some(earlier.seq)
    }

    /// Forgets what can no longer be replaced.
    pub(super) fn forget(&mut self, now: f64) {
        self.0.retain(|_, latest| recent(*latest, now));
    }
}

/// A clock that was set back makes two moves of one.
fn recent(earlier: Latest, now: f64) -> bool {
    (0.0..=REPLACEABLE).contains(&(now - earlier.ts))
}

fn token(record: &EventRecord) -> Option<Token> {
    if record.event != "token.moved" {
        return None;
    }
    let id = |name: &str| record.payload[name].as_str().map(ToOwned::to_owned);
    Some((id("mapId")?, id("tokenId")?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn moved(seq: u64, ts: f64, map: &str, token: &str) -> EventRecord {
        EventRecord {
            seq,
            ts,
            event: "token.moved".to_owned(),
            payload: json!({"mapId": map, "tokenId": token, "x": 1, "y": 2}),
            generation: 1,
        }
    }

    #[test]
    fn a_later_move_of_the_same_token_replaces_one_within_half_a_second() {
        let mut moves = Moves::default();
        assert_eq!(moves.replaced_by(&moved(1, 10.0, "m", "t")), None);
        assert_eq!(moves.replaced_by(&moved(2, 10.5, "m", "t")), Some(1));
        assert_eq!(moves.replaced_by(&moved(3, 11.01, "m", "t")), None, "late");
    }

    #[test]
    fn another_token_another_map_and_an_earlier_time_replace_nothing() {
        let mut moves = Moves::default();
        moves.replaced_by(&moved(1, 10.0, "m", "t"));
        assert_eq!(moves.replaced_by(&moved(2, 10.0, "m", "u")), None);
        assert_eq!(moves.replaced_by(&moved(3, 10.0, "n", "t")), None);
        assert_eq!(moves.replaced_by(&moved(4, 9.0, "m", "t")), None);
        let nameless = EventRecord {
            payload: json!({"x": 1}),
            ..moved(5, 10.0, "m", "t")
        };
        assert_eq!(moves.replaced_by(&nameless), None);
    }

    #[test]
    fn a_commit_that_comes_again_replaces_what_it_replaced_before() {
        let mut moves = Moves::default();
        for _ in 0..2 {
            assert_eq!(moves.replaced_by(&moved(1, 10.0, "m", "t")), None);
            assert_eq!(moves.replaced_by(&moved(2, 10.1, "m", "t")), Some(1));
        }
    }

    #[test]
    fn old_moves_are_forgotten() {
        let mut moves = Moves::default();
        moves.replaced_by(&moved(1, 10.0, "m", "t"));
        moves.forget(10.4);
        assert_eq!(moves.0.len(), 1);
        moves.forget(11.0);
        assert!(moves.0.is_empty());
    }
}
