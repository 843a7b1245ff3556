//! Which tools are denied, to all clients or to those of a name.
//!
//! A client's name is its own word: the policy keeps agents from mistakes, it does not keep
//! a program out that gives itself another name.

use std::collections::{BTreeMap, BTreeSet};

use cozyvtt_proto::preset::all_tools;
use serde::Deserialize;

/// The section `[policy]` of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    #[serde(default)]
    deny: BTreeSet<String>,
    #[serde(default)]
    clients: BTreeMap<String, ForClient>,
}

/// A section `[policy.clients.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForClient {
    #[serde(default)]
    deny: BTreeSet<String>,
}

impl Policy {
    /// Why a client of this name may not call `tool`, if so.
    pub fn denies(&self, name: Option<&str>, tool: &str) -> Option<String> {
        if self.deny.contains(tool) {
            return Some(refusal(tool, "[policy]"));
        }
        let (name, _) = self.clients.iter().find(|(theirs, rules)| {
            name.is_some_and(|name| name.eq_ignore_ascii_case(theirs)) && rules.deny.contains(tool)
        })?;
        Some(refusal(tool, &format!("[policy.clients.{name:?}]")))
    }

    /// What is denied to whom, for people.
    pub(super) fn summary(&self) -> String {
        let listed = |tools: &BTreeSet<String>| {
            let names: Vec<&str> = tools.iter().map(String::as_str).collect();
            names.join(", ")
        };
        let to_all = (!self.deny.is_empty()).then(|| format!("{} to all", listed(&self.deny)));
        let to_some = self
            .clients
            .iter()
            .filter(|(_, rules)| !rules.deny.is_empty())
            .map(|(name, rules)| format!("{} to {name:?}", listed(&rules.deny)));
        let parts: Vec<String> = to_all.into_iter().chain(to_some).collect();
        if parts.is_empty() {
            "nothing".to_owned()
        } else {
            parts.join("; ")
        }
    }

    /// A tool that is denied and that there is not.
    pub(super) fn unknown_tool(&self) -> Option<&str> {
        let known = all_tools();
        self.clients
            .values()
            .flat_map(|rules| &rules.deny)
            .chain(&self.deny)
            .map(String::as_str)
            .find(|tool| !known.contains(tool))
    }
}

fn refusal(tool: &str, section: &str) -> String {
    format!(
        "{tool} is denied by {section} in cozyvttd's configuration; nothing was sent. Do without it, \
         or ask the person in charge to allow it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_tool_is_denied_to_all_or_to_clients_of_a_name() {
        let policy =
            policy("deny = ['map_delete']\n[clients.'Claude Code']\ndeny = ['token_delete']");
        assert!(policy.denies(None, "map_delete").is_some());
        let refusal = policy.denies(Some("claude code"), "token_delete").unwrap();
        assert!(
            refusal.contains("[policy.clients.\"Claude Code\"]"),
            "{refusal}"
        );
        assert_eq!(policy.denies(Some("Cursor"), "token_delete"), None);
        assert_eq!(policy.denies(None, "token_delete"), None);
        assert_eq!(policy.unknown_tool(), None);
        assert_eq!(
            policy.summary(),
            "map_delete to all; token_delete to \"Claude Code\""
        );
    }

    #[test]
    fn a_tool_that_there_is_not_is_found_wherever_it_stands() {
        assert_eq!(
            policy("deny = ['map_delte']").unknown_tool(),
            Some("map_delte")
        );
        let theirs = policy("[clients.A]\ndeny = ['oops']");
        assert_eq!(theirs.unknown_tool(), Some("oops"));
    }
}
