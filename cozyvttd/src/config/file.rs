//! The configuration file: its keys, and what is said of one that cannot be used.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cozyvtt_proto::preset::all_tools;
use secrecy::SecretString;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{ConfigProblem, Policy};
use crate::nearest::nearest;

/// The file's keys. A key that is not known is refused: a typing error in
/// `pasword` should not look like a missing password.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the fields are the file's keys")]
pub(super) struct File {
    pub(super) url: Option<String>,
    pub(super) email: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) password_command: Option<Vec<String>>,
    pub(super) campaign_id: Option<String>,
    pub(super) read_folders: Option<Vec<PathBuf>>,
    pub(super) idle_exit_minutes: Option<u64>,
    #[serde(rename = "ca_file")]
    pub(super) authorities: Option<PathBuf>,
    #[serde(default)]
    pub(super) extra_headers: BTreeMap<String, Secret>,
    #[serde(default)]
    pub(super) policy: Policy,
}

/// A secret in the file. An error about it must not quote it, as one about any
/// other value would.
pub(super) struct Secret(pub(super) SecretString);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self(text.into())),
            _ => Err(D::Error::custom("a secret has to be a text in quotes")),
        }
    }
}

impl File {
    pub(super) fn read(path: &Path, must_exist: bool) -> Result<Self, ConfigProblem> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return if must_exist {
                    Err(ConfigProblem::NotThere { path: path.into() })
                } else {
                    Ok(Self::default())
                };
            }
            Err(error) => {
                return Err(ConfigProblem::Unreadable {
                    path: path.into(),
                    cause: error.to_string(),
                });
            }
        };
        let parsed: Self = toml::from_str(&text).map_err(|error| problem(path, &text, &error))?;
        let secret = parsed.password.is_some() || !parsed.extra_headers.is_empty();
        if secret && readable_by_others(path) {
            return Err(ConfigProblem::Exposed { path: path.into() });
        }
        if let Some(tool) = parsed.policy.unknown_tool() {
            return Err(ConfigProblem::NoSuchTool {
                path: path.into(),
                tool: tool.to_owned(),
                nearest: nearest(tool, all_tools()).map(str::to_owned),
            });
        }
        Ok(parsed)
    }
}

fn readable_by_others(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

/// What is wrong with the text.
fn problem(path: &Path, text: &str, error: &toml::de::Error) -> ConfigProblem {
    let path = path.to_owned();
    let line = error
        .span()
        .and_then(|span| text.get(..span.start))
        .map(|before| before.matches('\n').count() + 1);
    // `message` alone: the full text would quote the line, and the line may hold the
    // password.
    let what = error.message();
    match unknown_key(what) {
        Some((key, known)) => ConfigProblem::NoSuchKey {
            path,
            line,
            nearest: nearest(key, known.iter().copied()).map(str::to_owned),
            key: key.to_owned(),
            known: known.into_iter().map(str::to_owned).collect(),
        },
        None => ConfigProblem::Malformed {
            path,
            line,
            what: what.to_owned(),
        },
    }
}

/// The key that is not known and those that are, out of serde's sentence: "unknown field
/// `a`, expected one of `b`, `c`".
fn unknown_key(sentence: &str) -> Option<(&str, Vec<&str>)> {
    let (key, known) = sentence
        .strip_prefix("unknown field `")?
        .split_once("`, expected ")?;
    Some((key, known.split('`').skip(1).step_by(2).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../config.example.toml");

    fn told(text: &str) -> String {
        let error = toml::from_str::<File>(text).map(|_| ()).unwrap_err();
        problem(Path::new("c.toml"), text, &error).to_string()
    }

    #[test]
    fn an_unknown_key_is_told_with_the_nearest_known_one() {
        let told_of = told("email = 'a'\npasword = 'canary'\n");
        assert!(
            told_of.contains("in line 2: there is no key \"pasword\" here; did you mean password?"),
            "{told_of}"
        );
        assert!(!told_of.contains("canary"), "{told_of}");
        let in_section = told("[policy]\ndenny = []\n");
        assert!(in_section.contains("did you mean deny?"), "{in_section}");
        assert!(
            in_section.ends_with("can stand here: deny, clients"),
            "{in_section}"
        );
        let one = told("[policy.clients.a]\nallow = []\n");
        assert!(
            one.ends_with("\"allow\" here. These can stand here: deny"),
            "{one}"
        );
    }

    #[test]
    fn the_example_names_every_key_and_can_be_switched_on_whole() {
        let whole: String = EXAMPLE
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting,
                _ => line,
            })
            .flat_map(|line| [line, "\n"])
            .collect();
        toml::from_str::<File>(EXAMPLE).map(|_| ()).unwrap();
        toml::from_str::<File>(&whole).map(|_| ()).unwrap();
        let sentence = toml::from_str::<File>("x = 1").map(|_| ()).unwrap_err();
        let (_, known) = unknown_key(sentence.message()).unwrap();
        let set: toml::Table = toml::from_str(&whole).unwrap();
        assert_eq!(known.len(), set.len());
        assert!(known.into_iter().all(|key| set.contains_key(key)));
    }
}
