//! A profile: a daemon of its own beside the main one, with its own configuration,
//! state, sockets and unit, so that a DM's account and a player's run side by side.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// The variable that chooses a profile where no flag does; an empty one counts as unset.
pub const VARIABLE: &str = "COZYVTT_PROFILE";

/// Longest name, in bytes.
const MAX_BYTES: usize = 32;

/// The name of a profile: 1 to 32 of `a-z`, `0-9`, `-` and `_`, the first one a letter or
/// a digit. It is part of file names, of a unit's name and of command lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile(String);

/// What was given is no name of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadProfile(String);

impl Profile {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`BadProfile`].
    pub fn parse(name: &str) -> Result<Self, BadProfile> {
        let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let first = name.chars().next();
        let good = first.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            && name.len() <= MAX_BYTES
            && name.chars().all(known);
        if good {
            Ok(Self(name.to_owned()))
        } else {
            Err(BadProfile(name.to_owned()))
        }
    }

    /// The profile of the flag, else of the variable [`VARIABLE`], whose value is given.
    ///
    /// # Errors
    ///
    /// [`BadProfile`], about the variable.
    pub fn chosen(
        flag: Option<&Self>,
        variable: Option<OsString>,
    ) -> Result<Option<Self>, BadProfile> {
        if let Some(profile) = flag {
            return Ok(Some(profile.clone()));
        }
        variable
            .filter(|name| !name.is_empty())
            .map(|name| Self::parse(&name.to_string_lossy()))
            .transpose()
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Profile {
    type Err = BadProfile;

    fn from_str(name: &str) -> Result<Self, BadProfile> {
        Self::parse(name)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BadProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        write!(
            f,
            "{name:?} is no name of a profile (--profile, {VARIABLE}): up to {MAX_BYTES} small \
             letters, digits, - and _, a letter or digit first, like dm or player-2"
        )
    }
}

impl std::error::Error for BadProfile {}

/// The profile that this process is about, said once, before its first sentence.
static OWN: OnceLock<Profile> = OnceLock::new();

/// From now on [`addressed`] names this profile. The first word counts.
pub fn speak_for(profile: Profile) {
    // A process is about one profile: there is nothing to say to a second word.
    let _ = OWN.set(profile);
}

/// A sentence for people in which every command is one about this process's profile:
/// "run: cozyvttctl login" becomes "run: cozyvttctl --profile dm login". A command is the
/// name of one of the programs after a back-tick, or cozyvttctl's after a colon or a
/// parenthesis.
pub fn addressed(sentence: &str) -> Cow<'_, str> {
    match OWN.get() {
        Some(profile) => Cow::Owned(address(sentence, profile)),
        None => Cow::Borrowed(sentence),
    }
}

fn address(sentence: &str, profile: &Profile) -> String {
    let mut addressed = String::with_capacity(sentence.len() + 32);
    let mut rest = sentence;
    while let Some(at) = rest.find("cozyvtt") {
        let (before, found) = rest.split_at(at);
        addressed.push_str(before);
        let length = ["cozyvttctl", "cozyvttd", "cozyvtt-shim"]
            .iter()
            .find(|name| found.starts_with(**name))
            .map_or("cozyvtt".len(), |name| name.len());
        let (name, after) = found.split_at(length);
        let introduced = addressed.ends_with('`')
            || (name == "cozyvttctl" && [": ", "("].iter().any(|sign| addressed.ends_with(sign)));
        addressed.push_str(name);
        let told = after.starts_with(" --profile ");
        if name != "cozyvtt" && introduced && after.starts_with([' ', '`']) && !told {
            addressed.push_str(" --profile ");
            addressed.push_str(profile.as_str());
        }
        rest = after;
    }
    addressed.push_str(rest);
    addressed
}

/// The daemon's unit in systemd's user manager: `cozyvttd.service`, or the instance of
/// its template `cozyvttd@NAME.service`.
pub fn service(profile: Option<&Profile>) -> String {
    unit(profile, "service")
}

/// The unit of the daemon's sockets, as [`service`].
pub fn socket(profile: Option<&Profile>) -> String {
    unit(profile, "socket")
}

fn unit(profile: Option<&Profile>, kind: &str) -> String {
    match profile {
        Some(profile) => format!("cozyvttd@{profile}.{kind}"),
        None => format!("cozyvttd.{kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_stand_in_a_path_a_unit_and_a_command() {
        for good in ["dm", "player-2", "a_b", "7", &"x".repeat(32)] {
            assert_eq!(Profile::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "..",
            "a/b",
            "DM",
            "-x",
            "_x",
            "a b",
            "é",
            "a.b",
            &"x".repeat(33),
        ] {
            assert!(Profile::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_flag_wins_over_the_variable_and_an_empty_variable_counts_as_unset() {
        let flag = Profile::parse("dm").unwrap();
        let chosen = |flag: Option<&Profile>, variable: Option<&str>| {
            let chosen = Profile::chosen(flag, variable.map(OsString::from));
            chosen.map(|profile| profile.map(|profile| profile.to_string()))
        };
        assert_eq!(chosen(Some(&flag), Some("../x")), Ok(Some("dm".into())));
        assert_eq!(chosen(None, Some("player")), Ok(Some("player".into())));
        assert_eq!(chosen(None, Some("")), Ok(None));
        assert!(chosen(None, Some("../x")).is_err());
    }

    #[test]
    fn commands_in_a_sentence_name_the_profile_and_nothing_else_does() {
        let dm = Profile::parse("dm").unwrap();
        for (sentence, addressed) in [
            (
                "mend it, then run: cozyvttctl login",
                "mend it, then run: cozyvttctl --profile dm login",
            ),
            (
                "`cozyvttctl stop`, then `cozyvttd`; cozyvttd tries again",
                "`cozyvttctl --profile dm stop`, then `cozyvttd --profile dm`; cozyvttd tries again",
            ),
            (
                "stop it (cozyvttctl stop)",
                "stop it (cozyvttctl --profile dm stop)",
            ),
            (
                "`cozyvttd.service`: cozyvttd waits",
                "`cozyvttd.service`: cozyvttd waits",
            ),
            ("in ~/.config/cozyvtt", "in ~/.config/cozyvtt"),
            // As another of our programs has said it.
            (
                "run: cozyvttctl --profile dm login",
                "run: cozyvttctl --profile dm login",
            ),
        ] {
            assert_eq!(address(sentence, &dm), addressed);
        }
    }

    #[test]
    fn a_profile_has_units_of_its_own() {
        let dm = Profile::parse("dm").unwrap();
        assert_eq!(service(None), "cozyvttd.service");
        assert_eq!(socket(Some(&dm)), "cozyvttd@dm.socket");
    }
}
