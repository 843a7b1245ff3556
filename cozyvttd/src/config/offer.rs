//! What a client's hello says of settings: an offer for a daemon that has none, else
//! where the client expects to sit.

use cozyvtt_proto::hello::{Expected, Hello, Offered};
use secrecy::SecretString;

use super::{BaseUrl, Config, ConfigProblem, DEFAULT_URL, Settings};
use crate::session::ids::ResourceId;

/// Whose word settings are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The person's, in the file or the daemon's environment.
    Configured,
    /// A client's, in its hello. They are kept in memory, and nothing that is stored
    /// goes along with them.
    Offered,
}

impl Config {
    /// Whether nothing of an instance or an account is configured, so that a client's
    /// offer can be taken.
    pub fn takes_offers(&self) -> bool {
        self.open_to_offers && self.access.is_some()
    }

    /// The settings that a client offers, where nothing is configured that they could be
    /// mixed with.
    ///
    /// # Errors
    ///
    /// [`ConfigProblem`]: theirs, or what is wrong with the configuration as it is.
    pub fn taking(&self, offered: &Offered) -> Result<Settings, ConfigProblem> {
        let Some(access) = self.access.as_ref().filter(|_| self.open_to_offers) else {
            return self.settings.clone();
        };
        let url = offered.url.as_deref().unwrap_or(DEFAULT_URL);
        Ok(Settings {
            url: BaseUrl::parse(url)?,
            email: offered.email.clone(),
            password: SecretString::from(offered.password.expose()).into(),
            campaign: ResourceId::parse(&offered.campaign)
                .map_err(|_| ConfigProblem::BadCampaign)?,
            access: access.clone(),
            origin: Origin::Offered,
        })
    }
}

impl Settings {
    /// Why a client that expects this does not belong here, with both sides named; it
    /// expects an instance and an account, never a campaign.
    pub fn unlike(&self, expected: &Expected) -> Option<String> {
        let url = expected.url.as_deref();
        let other_url = url.filter(|url| BaseUrl::parse(url).as_ref() != Ok(&self.url));
        let email = expected.email.as_deref();
        let other_email = email.filter(|email| !self.email.eq_ignore_ascii_case(email.trim()));
        let (theirs, ours) = match (other_url, other_email) {
            (None, None) => return None,
            (None, Some(email)) => (email.to_owned(), self.email.clone()),
            (Some(url), _) => (shown(url), self.url.to_string()),
        };
        let whose = match self.origin {
            Origin::Configured => "is configured for",
            Origin::Offered => "has from an earlier client",
        };
        Some(format!(
            "this client asks for {theirs:?} and cozyvttd {whose} {ours:?}; take the COZYVTT_* \
             variables out of the client's configuration, or correct them, or let cozyvttd sit \
             there instead"
        ))
    }
}

/// An address for people: nothing of one that may hold a password.
fn shown(url: &str) -> String {
    BaseUrl::parse(url).map_or_else(|_| "…".to_owned(), |url| url.to_string())
}

/// Where a client expects to sit, its offer included.
pub fn expected(hello: &Hello) -> Expected {
    let offered = hello.settings.as_ref();
    offered.map_or_else(|| hello.expects.clone(), where_it_sits)
}

/// Where a client that offers these settings expects to sit.
pub fn where_it_sits(offered: &Offered) -> Expected {
    Expected {
        // Whoever offers no address means the usual one, as a daemon does.
        url: Some(
            offered
                .url
                .clone()
                .unwrap_or_else(|| DEFAULT_URL.to_owned()),
        ),
        email: Some(offered.email.clone()),
        campaign: Some(offered.campaign.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(url: Option<&str>) -> Offered {
        Offered {
            url: url.map(ToOwned::to_owned),
            email: "a@b.example".to_owned(),
            password: "canary".to_owned().into(),
            campaign: "c1".to_owned(),
        }
    }

    fn config(text: &str, environment: &[(&str, &str)]) -> Config {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        crate::private::write(&file, text.as_bytes()).unwrap();
        Config::resolve(Some(&file), None, &|name| {
            let found = environment.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn an_offer_is_taken_whole_where_nothing_is_configured() {
        let config = config("read_folders = []\nidle_exit_minutes = 5", &[]);
        let settings = config
            .taking(&offered(Some("https://table.example/")))
            .unwrap();
        assert_eq!(settings.url.to_string(), "https://table.example");
        assert_eq!(
            (settings.email.as_str(), settings.origin),
            ("a@b.example", Origin::Offered)
        );
        assert!(settings.access.headers.is_empty());
        let usual = config.taking(&offered(None)).unwrap();
        assert_eq!(usual.url.to_string(), DEFAULT_URL);
    }

    #[test]
    fn an_offer_never_meets_a_part_of_a_configuration() {
        for text in [
            "url = 'https://table.example'",
            "email = 'a@b.example'",
            "password = 'stored'",
            "campaign_id = 'c1'",
            "[extra_headers]\nX-Key = 'stored'",
            "no such line",
        ] {
            let config = config(text, &[]);
            assert!(config.taking(&offered(None)).is_err(), "{text}");
        }
        let config = config("", &[("COZYVTT_PASSWORD", "stored")]);
        assert!(config.taking(&offered(None)).is_err());
    }

    #[test]
    fn an_offer_that_is_no_address_or_campaign_is_refused() {
        let config = config("", &[]);
        assert!(
            config
                .taking(&offered(Some("ftp://table.example")))
                .is_err()
        );
        let nowhere = Offered {
            campaign: "..".to_owned(),
            ..offered(None)
        };
        assert!(config.taking(&nowhere).is_err());
    }

    #[test]
    fn another_instance_or_account_is_refused_with_both_sides_and_no_password() {
        let config = config("", &[]);
        let settings = config
            .taking(&offered(Some("https://table.example")))
            .unwrap();
        let unlike = |url: Option<&str>, email: Option<&str>| {
            settings.unlike(&Expected {
                url: url.map(ToOwned::to_owned),
                email: email.map(ToOwned::to_owned),
                campaign: Some("another".to_owned()),
            })
        };
        assert_eq!(unlike(None, None), None);
        assert_eq!(
            unlike(Some("https://TABLE.example/"), Some("A@b.example")),
            None
        );
        let told = unlike(Some("https://other.example"), None).unwrap();
        assert!(
            told.contains("other.example") && told.contains("table.example"),
            "{told}"
        );
        let told = unlike(None, Some("c@d.example")).unwrap();
        assert!(
            told.contains("c@d.example") && told.contains("a@b.example"),
            "{told}"
        );
        let told = unlike(Some("https://me:canary@other.example"), None).unwrap();
        assert!(!told.contains("canary"), "{told}");
    }
}
