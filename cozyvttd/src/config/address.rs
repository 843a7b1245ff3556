//! The address of an instance, and what lies under it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::{Host, Url};

use super::ConfigProblem;

/// Everything but what no path gives a meaning to (RFC 3986, unreserved).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The address of an instance: http or https, possibly with a path under which
/// the instance lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// [`ConfigProblem::BadUrl`] when it is no http(s) address, or carries a
    /// user name, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        let refuse = |value: &str, why: &str| {
            Err(ConfigProblem::BadUrl {
                value: value.to_owned(),
                why: why.to_owned(),
            })
        };
        let mut url = match Url::parse(text.trim()) {
            Ok(url) => url,
            // The text may be anything, even a password in the wrong variable.
            Err(error) => return refuse("…", &error.to_string()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("…", "it carries a user name or a password");
        }
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return refuse("…", "it is neither an http nor an https address");
        }
        if url.query().is_some() || url.fragment().is_some() {
            let origin = url.origin().ascii_serialization();
            return refuse(&origin, "it has a query or a fragment");
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    /// Whether an address lies within the instance; others may live beside it on the
    /// same host.
    pub fn holds(&self, url: &Url) -> bool {
        let rest = url.path().strip_prefix(self.0.path().trim_end_matches('/'));
        url.origin() == self.0.origin()
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether the instance runs on this machine.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }

    /// The address of what lies under `segments`. Each one names exactly one
    /// segment of the path: whatever it holds is percent-encoded.
    pub fn under<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        // Encoded here rather than by the URL library, which drops tabs and line
        // breaks first and would so make a way upwards of ".\t.".
        let path = segments.into_iter().fold(
            self.0.path().trim_end_matches('/').to_owned(),
            |path, segment| format!("{path}/{}", utf8_percent_encode(segment, RESERVED)),
        );
        let mut url = self.0.clone();
        url.set_path(&path);
        url
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ids::ResourceId;

    #[test]
    fn addresses_that_are_none_are_refused_and_never_quoted_with_a_password() {
        for bad in ["", "table.example", "ftp://table.example", "https://t/?a=1"] {
            assert!(BaseUrl::parse(bad).is_err(), "{bad}");
        }
        let refusal = BaseUrl::parse("https://me:canary@table.example").unwrap_err();
        assert!(!refusal.to_string().contains("canary"));
    }

    #[test]
    fn what_lies_beside_an_instance_is_not_within_it() {
        let base = BaseUrl::parse("https://host.example/vtt/").unwrap();
        let holds = |url: &str| base.holds(&Url::parse(url).unwrap());
        assert!(holds("https://host.example/vtt/api") && holds("https://host.example/vtt"));
        for beside in [
            "https://host.example/",
            "https://host.example/vttx/api",
            "https://host.example:8443/vtt/api",
            "http://host.example/vtt/api",
        ] {
            assert!(!holds(beside), "{beside}");
        }
    }

    #[test]
    fn this_very_machine_is_recognised() {
        let here = |text| BaseUrl::parse(text).unwrap().is_loopback();
        assert!(
            here("http://localhost:8899") && here("http://127.0.0.2") && here("http://[::1]:1")
        );
        assert!(!here("https://table.example") && !here("http://192.168.0.1"));
    }

    #[test]
    fn nothing_can_leave_its_path_segment() {
        let base = BaseUrl::parse("http://h:1/sub/").unwrap();
        assert_eq!(
            base.under(["api", "maps", "a/b?c#d%\\e"]).as_str(),
            "http://h:1/sub/api/maps/a%2Fb%3Fc%23d%25%5Ce"
        );
    }

    proptest::proptest! {
        #[test]
        fn t_ids_01_whatever_an_id_holds_it_is_one_segment(text in "(\\PC|[./\\\\%?#\t\r\n 2eE]){0,8}") {
            let Ok(id) = ResourceId::parse(&text) else {
                return Ok(());
            };
            let base = BaseUrl::parse("http://h:1/sub").unwrap();
            let url = base.under(["api", "maps", id.as_str(), "tokens"]);
            let segments: Vec<_> = url.path_segments().unwrap().collect();
            proptest::prop_assert_eq!(segments.len(), 5);
            proptest::prop_assert_eq!((segments[2], segments[4]), ("maps", "tokens"));
            proptest::prop_assert!(url.query().is_none() && url.fragment().is_none());
        }
    }

    #[test]
    fn an_id_of_invisible_characters_is_kept_whole() {
        let base = BaseUrl::parse("http://h").unwrap();
        for (id, segment) in [
            (".\t.", ".%09."),
            ("\n", "%0A"),
            ("a\rb", "a%0Db"),
            (" ", "%20"),
            ("...", "..."),
        ] {
            let url = base.under(["maps", id, "tokens"]);
            assert_eq!(
                url.as_str(),
                format!("http://h/maps/{segment}/tokens"),
                "{id:?}"
            );
        }
    }
}
