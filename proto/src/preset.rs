//! Presets: named groups of tools, of which a client chooses those it wants to
//! see and pay for.

use std::collections::BTreeSet;

/// A named group of tools.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its tools, sorted by name.
    pub tools: &'static [&'static str],
}

/// The presets, in the order in which they are shown. No tool is in two of them.
pub const PRESETS: [Preset; 5] = [
    Preset {
        name: "play",
        tools: &[
            "campaign_get",
            "chat_read",
            "chat_send",
            "creature_search",
            "dice_roll",
            "events_poll",
            "initiative_manage",
            "initiative_read",
            "map_create",
            "map_delete",
            "map_list",
            "map_switch",
            "session_list",
            "session_manage",
            "session_notes_update",
            "token_add",
            "token_delete",
            "token_hp_update",
            "token_move",
            "token_place_creature",
        ],
    },
    Preset {
        name: "docs",
        tools: &[
            "campaign_document_list",
            "document_create",
            "document_delete",
            "document_list",
            "document_read",
            "document_share",
            "document_unshare",
            "document_update",
            "document_upload",
        ],
    },
    Preset {
        name: "roster",
        tools: &[
            "character_create",
            "character_delete",
            "character_get",
            "character_hitdice_spend",
            "character_list",
            "character_update",
            "character_validate",
        ],
    },
    Preset {
        name: "macros",
        tools: &[
            "saved_roll_create",
            "saved_roll_delete",
            "saved_roll_list",
            "saved_roll_update",
        ],
    },
    Preset {
        name: "admin",
        tools: &["campaign_transfer_dm"],
    },
];

/// The name of all presets together, and what is chosen when nothing is.
pub const ALL: &str = "all";

/// Every tool, sorted by name.
pub fn all_tools() -> BTreeSet<&'static str> {
    PRESETS
        .iter()
        .flat_map(|preset| preset.tools.iter().copied())
        .collect()
}

/// A choice of presets: their names, each once, in the order of [`PRESETS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(Vec<&'static str>);

/// The choice names something that is no preset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSelection {
    /// The names that are none, sorted; an empty one among them when there was
    /// one.
    pub names: BTreeSet<String>,
}

impl Selection {
    /// Every tool.
    pub fn all() -> Self {
        Self(PRESETS.iter().map(|preset| preset.name).collect())
    }

    /// Reads names that are separated by commas; blanks around them do not count.
    ///
    /// # Errors
    ///
    /// [`BadSelection`] when a name is empty or unknown, even beside `all`.
    pub fn parse(text: &str) -> Result<Self, BadSelection> {
        Self::of(text.split(',').map(str::trim))
    }

    /// The choice of these names.
    ///
    /// # Errors
    ///
    /// As [`Selection::parse`].
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, BadSelection> {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let known = |name: &str| name == ALL || PRESETS.iter().any(|preset| preset.name == name);
        let bad: BTreeSet<String> = names
            .iter()
            .filter(|name| !known(name))
            .map(|name| (*name).to_owned())
            .collect();
        if !bad.is_empty() || names.is_empty() {
            return Err(BadSelection { names: bad });
        }
        Ok(Self(
            PRESETS
                .iter()
                .map(|preset| preset.name)
                .filter(|name| names.contains(ALL) || names.contains(name))
                .collect(),
        ))
    }

    /// The chosen presets' names.
    pub fn names(&self) -> &[&'static str] {
        &self.0
    }

    /// Whether a tool of that name is chosen.
    pub fn includes(&self, tool: &str) -> bool {
        PRESETS
            .iter()
            .any(|preset| self.0.contains(&preset.name) && preset.tools.contains(&tool))
    }
}

impl std::fmt::Display for BadSelection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bad: Vec<String> = self.names.iter().map(|name| format!("'{name}'")).collect();
        let valid: Vec<String> = sizes()
            .map(|(name, count)| format!("{name} ({count} tools)"))
            .collect();
        write!(
            f,
            "Unknown or empty toolset name: [{}]. Valid presets: {}",
            bad.join(", "),
            valid.join(", ")
        )
    }
}

impl std::error::Error for BadSelection {}

fn sizes() -> impl Iterator<Item = (&'static str, usize)> {
    PRESETS
        .iter()
        .map(|preset| (preset.name, preset.tools.len()))
        .chain([(ALL, all_tools().len())])
}

/// The listing of all presets, a line each.
pub fn listing() -> String {
    let mut lines: Vec<String> = PRESETS
        .iter()
        .map(|preset| line(preset.name, "", preset.tools))
        .collect();
    let all: Vec<&str> = all_tools().into_iter().collect();
    lines.push(line(ALL, " [default]", &all));
    lines.join("\n")
}

fn line(name: &str, mark: &str, tools: &[&str]) -> String {
    format!("{name} ({} tools){mark}: {}", tools.len(), tools.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_are_disjoint_and_sorted_and_of_the_known_sizes() {
        let sizes: Vec<_> = sizes().collect();
        assert_eq!(
            sizes,
            [
                ("play", 20),
                ("docs", 9),
                ("roster", 7),
                ("macros", 4),
                ("admin", 1),
                ("all", 41)
            ]
        );
        for preset in &PRESETS {
            assert!(preset.tools.is_sorted(), "{}", preset.name);
        }
    }

    #[test]
    fn t_set_03_everything_that_means_all_selects_all() {
        for text in ["all", "all,play", "docs,all,docs"] {
            assert_eq!(Selection::parse(text), Ok(Selection::all()), "{text}");
        }
    }

    #[test]
    fn t_set_04_names_are_trimmed_and_united() {
        let selection = Selection::parse(" play,docs, play ").unwrap();
        assert_eq!(selection.names(), ["play", "docs"]);
        assert!(selection.includes("token_move") && selection.includes("document_read"));
        assert!(!selection.includes("character_get") && !selection.includes("no_tool"));
        let chosen = all_tools()
            .into_iter()
            .filter(|tool| selection.includes(tool));
        assert_eq!(chosen.count(), 29);
    }

    #[test]
    fn t_set_05_empty_and_unknown_names_are_refused_with_all_presets() {
        for text in ["", " ", "bogus", "play,", ",docs", "all,bogus", "PLAY"] {
            let refusal = Selection::parse(text).unwrap_err().to_string();
            assert!(
                refusal.ends_with(
                    "Valid presets: play (20 tools), docs (9 tools), roster (7 tools), \
                     macros (4 tools), admin (1 tools), all (41 tools)"
                ),
                "{refusal}"
            );
        }
        let refusal = Selection::parse("b,a,").unwrap_err().to_string();
        assert!(
            refusal.starts_with("Unknown or empty toolset name: ['', 'a', 'b']."),
            "{refusal}"
        );
    }

    #[test]
    fn t_set_08_the_listing_marks_the_default_and_names_every_tool() {
        let listing = listing();
        assert!(listing.contains("all (41 tools) [default]: campaign_document_list, "));
        assert!(listing.starts_with("play (20 tools): campaign_get, "));
        assert!(listing.contains("\nadmin (1 tools): campaign_transfer_dm\n"));
        for tool in all_tools() {
            assert!(listing.contains(tool), "{tool}");
        }
    }
}
