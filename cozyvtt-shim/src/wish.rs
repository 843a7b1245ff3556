//! What this client wants of the daemon beyond the lines that it sends: to read only,
//! where it expects to sit, and settings for a daemon that has none.

use std::ffi::OsString;
use std::fmt;

use cozyvtt_proto::hello::{Expected, Offered, ask};

/// The instance's address.
const URL: &str = "COZYVTT_URL";
/// The account's address.
const EMAIL: &str = "COZYVTT_EMAIL";
/// Its password.
const PASSWORD: &str = "COZYVTT_PASSWORD";
/// The campaign's id.
const CAMPAIGN: &str = "COZYVTT_CAMPAIGN_ID";

/// What every hello of this process asks for, the first and those after it.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// To see and to call only tools that change nothing.
    pub(crate) read_only: bool,
    /// Where to sit, as far as that was said.
    pub(crate) expects: Expected,
    /// All of the settings, or none.
    pub(crate) settings: Option<Offered>,
}

/// The variable of this name is no text. What it holds is not told: it may be the
/// password.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotText(&'static str);

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        write!(
            f,
            "the variable {name} is not valid UTF-8; correct or remove it in this MCP server's \
             configuration"
        )
    }
}

impl Wishes {
    /// Of the flags and of the `environment`, where an empty variable counts as unset.
    /// The `campaign` of the flag wins over the variable.
    pub(crate) fn new(
        read_only: bool,
        campaign: Option<&str>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, NotText> {
        let variable = |name| match environment(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(Err(_)) => Err(NotText(name)),
        };
        let expects = Expected {
            url: variable(URL)?,
            email: variable(EMAIL)?,
            campaign: match campaign {
                Some(campaign) => Some(campaign.to_owned()),
                None => variable(CAMPAIGN)?,
            },
        };
        let settings = match (variable(PASSWORD)?, expects.clone()) {
            (
                Some(password),
                Expected {
                    url,
                    email: Some(email),
                    campaign: Some(campaign),
                },
            ) => Some(Offered {
                url,
                email,
                password: password.into(),
                campaign,
            }),
            // A part of the settings is no offer, and a password alone is nobody's business.
            _ => None,
        };
        Ok(Self {
            read_only,
            expects,
            settings,
        })
    }

    /// What of it a daemon has to know of. One that passes it over would let this client
    /// write that is to read, or sit at another table.
    pub(crate) fn asks(&self) -> Vec<&'static str> {
        [
            (self.read_only, ask::READ_ONLY),
            (!self.expects.is_nothing(), ask::EXPECTS),
            (self.settings.is_some(), ask::SETTINGS),
        ]
        .into_iter()
        .filter_map(|(asked, name)| asked.then_some(name))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    const COMPLETE: [(&str, &str); 4] = [
        (URL, "https://table.example"),
        (EMAIL, "dm@table.example"),
        (PASSWORD, "canary"),
        (CAMPAIGN, "c1"),
    ];

    fn wishes(campaign: Option<&str>, environment: &[(&str, &str)]) -> Wishes {
        let variable = |name: &str| {
            let found = environment.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Wishes::new(false, campaign, variable).unwrap()
    }

    #[test]
    fn nothing_is_asked_for_unless_something_was_said() {
        let none = wishes(None, &[]);
        assert_eq!(none.asks(), [""; 0]);
        let empty = COMPLETE.map(|(name, _)| (name, ""));
        assert_eq!(wishes(None, &empty).asks(), [""; 0]);
        let reader = Wishes::new(true, None, |_| None).unwrap();
        assert_eq!(reader.asks(), [ask::READ_ONLY]);
    }

    #[test]
    fn settings_are_offered_whole_or_not_at_all() {
        let whole = wishes(None, &COMPLETE);
        assert_eq!(whole.asks(), [ask::EXPECTS, ask::SETTINGS]);
        let offered = whole.settings.unwrap();
        assert_eq!(offered.url.as_deref(), Some("https://table.example"));
        assert_eq!(offered.email, "dm@table.example");
        assert_eq!(offered.password.expose(), "canary");
        assert_eq!(offered.campaign, "c1");
        assert!(wishes(None, &COMPLETE[1..]).settings.is_some(), "no URL");
        for missing in [EMAIL, PASSWORD, CAMPAIGN] {
            let parts =
                COMPLETE.map(|(name, value)| (name, if name == missing { "" } else { value }));
            let part = wishes(None, &parts);
            assert!(part.settings.is_none(), "{missing}");
            assert_eq!(part.asks(), [ask::EXPECTS], "{missing}");
        }
        assert_eq!(wishes(None, &[(PASSWORD, "canary")]).asks(), [""; 0]);
    }

    #[test]
    fn the_campaign_of_the_flag_wins_and_completes_an_offer() {
        let both = wishes(Some("c2"), &COMPLETE);
        assert_eq!(both.expects.campaign.as_deref(), Some("c2"));
        assert_eq!(both.settings.unwrap().campaign, "c2");
        assert!(wishes(Some("c2"), &COMPLETE[1..3]).settings.is_some());
    }

    #[test]
    fn a_variable_that_is_no_text_is_named_and_not_quoted() {
        let broken =
            |name: &str| (name == PASSWORD).then(|| OsString::from_vec(b"canary\xff".to_vec()));
        let told = Wishes::new(false, None, broken).unwrap_err().to_string();
        assert!(told.contains(PASSWORD), "{told}");
        assert!(!told.contains("canary"), "{told}");
    }

    #[test]
    fn no_debug_output_shows_the_password() {
        let whole = wishes(None, &COMPLETE);
        assert!(!format!("{whole:?}").contains("canary"));
    }
}
