//! What is kept and for how long: the numbers, all in one place.

use std::time::Duration;

/// How much of a kind is kept: whichever bound is reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keep {
    /// Most records.
    pub(super) records: u64,
    /// How long, from the record's `ts` on.
    pub(super) age: Duration,
}

const fn keep(records: u64, days: u64) -> Keep {
    Keep {
        records,
        age: Duration::from_secs(days * 24 * 60 * 60),
    }
}

/// The first line whose beginning an event's name has. What cannot be read anywhere
/// else is kept longest, what the next event of its kind outdates shortest; whole maps
/// are large. The README's table says the same.
const KEPT: [(&str, Keep); 10] = [
    ("dice.", keep(20_000, 365)),
    ("system.", keep(20_000, 365)),
    ("chat.", keep(10_000, 180)),
    ("session.", keep(5_000, 180)),
    ("campaign.", keep(5_000, 180)),
    ("character.", keep(5_000, 30)),
    ("roster.", keep(5_000, 30)),
    ("initiative.", keep(2_000, 14)),
    ("token", keep(2_000, 3)),
    // `map.changed` and `map:settings:updated`, each a kind of its own.
    ("map", keep(200, 3)),
];

/// Of whatever else a table may send.
const OTHERS: Keep = keep(1_000, 30);

/// Most records of a kind that are held in memory, while no file takes them.
const IN_MEMORY: u64 = 2_000;

/// How much is kept in the file of the events of that name.
pub(super) fn in_file(name: &str) -> Keep {
    KEPT.iter()
        .find(|(beginning, _)| name.starts_with(beginning))
        .map_or(OTHERS, |(_, keep)| *keep)
}

/// How much is kept in memory, while no file takes it.
pub(super) fn in_memory(name: &str) -> Keep {
    let in_file = in_file(name);
    Keep {
        records: in_file.records.min(IN_MEMORY),
        ..in_file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_and_errors_are_kept_longest_and_moves_shortest() {
        let all = [
            "dice.rolled",
            "dice.rolled.secret",
            "system.error",
            "chat.message",
            "session.started",
            "campaign.role.changed",
            "character.hp.updated",
            "roster.updated",
            "initiative.state",
            "token.moved",
            "token:appeared",
            "map.changed",
            "map:settings:updated",
            "something.else",
        ];
        for name in all {
            let kept = in_file(name);
            assert!(kept.age <= in_file("dice.rolled").age, "{name}");
            assert!(kept.records <= in_file("system.error").records, "{name}");
            assert!(kept.age >= in_file("token.moved").age, "{name}");
        }
        assert_eq!(in_file("map:settings:updated").records, 200);
        assert_eq!(in_file("something.else"), OTHERS);
    }

    #[test]
    fn memory_keeps_no_more_than_the_file_would() {
        for (beginning, kept) in KEPT {
            let held = in_memory(beginning);
            assert!(held.records <= kept.records && held.records <= IN_MEMORY);
        }
    }

    #[test]
    fn the_readme_tells_these_numbers() {
        let readme = include_str!("../../../README.md");
        for (beginning, kept) in KEPT {
            let row = readme
                .lines()
                .find(|line| line.starts_with('|') && line.contains(&format!("`{beginning}")));
            let row = row.unwrap_or_else(|| panic!("no row for {beginning}"));
            let days = (kept.age.as_secs() / 86_400).to_string();
            let records = match kept.records {
                large @ 1000.. => format!("{},{:03}", large / 1000, large % 1000),
                small => small.to_string(),
            };
            assert!(row.contains(&format!("| {records} | {days} |")), "{row}");
        }
    }
}
