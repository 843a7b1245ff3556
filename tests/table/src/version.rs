//! Which CozyVTT release the table behaves like.

use std::fmt;
use std::str::FromStr;

/// A CozyVTT release, as far as its wire behaviour differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Version {
    /// Release 1.1.2: offset paging, join and leave lines in the chat, every
    /// login request counted by the limiter.
    V1_1_2,
    /// Releases 1.5.1 to 1.5.3, which no client can tell apart: cursor paging,
    /// presence, prepared maps hidden, masked tokens.
    #[default]
    V1_5,
}

impl Version {
    /// Both releases the table can stand in for, oldest first.
    pub const ALL: [Self; 2] = [Self::V1_1_2, Self::V1_5];

    /// Whether this is the 1.1.2 behaviour.
    pub(crate) fn is_old(self) -> bool {
        self == Self::V1_1_2
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_1_2 => "1.1.2",
            Self::V1_5 => "1.5.3",
        })
    }
}

/// The text names no release the table can stand in for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownVersion(String);

impl fmt::Display for UnknownVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown CozyVTT version {:?}: try 1.1.2 or 1.5", self.0)
    }
}

impl std::error::Error for UnknownVersion {}

impl FromStr for Version {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().trim_start_matches('v') {
            "1.1.2" | "1.1" => Ok(Self::V1_1_2),
            "1.5" | "1.5.x" | "1.5.1" | "1.5.2" | "1.5.3" => Ok(Self::V1_5),
            other => Err(UnknownVersion(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_spellings_are_understood() {
        for text in ["1.5", "1.5.x", "1.5.3", "v1.5.3"] {
            assert_eq!(text.parse(), Ok(Version::V1_5));
        }
        assert_eq!("1.1.2".parse(), Ok(Version::V1_1_2));
        assert!("2.0".parse::<Version>().is_err());
    }
}
