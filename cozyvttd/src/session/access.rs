//! What stands between this machine and an instance, and how to get past it: an
//! authority of one's own behind TLS, header fields that an access proxy asks for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reqwest::Certificate;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

/// Header fields that belong to the requests themselves: another value would
/// break them, or let the session be spoken for by two.
const OURS: [HeaderName; 14] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::EXPECT,
    header::HOST,
    header::IF_NONE_MATCH,
    header::ORIGIN,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// How to get to an instance.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// A file of PEM certificates that are trusted besides the system's own.
    pub ca_file: Option<PathBuf>,
    /// Header fields that go along with every request to the instance, and with
    /// nothing else.
    pub headers: Vec<(HeaderName, SecretString)>,
}

/// What is wrong with it. No sentence holds a header's value: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccessProblem {
    /// The name is none, or one of the fields that are not for the taking.
    #[error("extra_headers cannot set {name:?}: {why}")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// The value cannot stand in a header.
    #[error("extra_headers: the value of {name:?} has characters that no header field takes")]
    Value {
        /// The field's name.
        name: String,
    },
    /// The file cannot be read, or holds no certificate.
    #[error("ca_file {}: {cause}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
}

impl Access {
    /// Whether the same header fields go along.
    pub(crate) fn has_same_headers(&self, other: &Self) -> bool {
        let exposed = |access: &Self| -> Vec<(HeaderName, String)> {
            access
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
                .collect()
        };
        exposed(self) == exposed(other)
    }

    /// Checks the fields' names and values.
    ///
    /// # Errors
    ///
    /// [`AccessProblem::Name`] and [`AccessProblem::Value`].
    pub fn new(
        ca_file: Option<PathBuf>,
        headers: BTreeMap<String, SecretString>,
    ) -> Result<Self, AccessProblem> {
        let headers = headers
            .into_iter()
            .map(|(name, value)| {
                let refused = |why| AccessProblem::Name {
                    name: name.clone(),
                    why,
                };
                let field = HeaderName::try_from(&name)
                    .map_err(|_| refused("this is no name of a header field"))?;
                let fetch = field.as_str().starts_with("sec-");
                if fetch || OURS.contains(&field) {
                    return Err(refused("cozyvttd sets this field itself, or leaves it out"));
                }
                if HeaderValue::try_from(value.expose_secret()).is_err() {
                    return Err(AccessProblem::Value { name });
                }
                Ok((field, value))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { ca_file, headers })
    }

    /// The certificates of `ca_file`.
    ///
    /// # Errors
    ///
    /// [`AccessProblem::Certificates`].
    pub fn certificates(&self) -> Result<Vec<Certificate>, AccessProblem> {
        let Some(path) = &self.ca_file else {
            return Ok(Vec::new());
        };
        read_certificates(path).map_err(|cause| AccessProblem::Certificates {
            path: path.clone(),
            cause,
        })
    }

    /// The header fields, marked so that nothing prints their values.
    pub fn header_map(&self) -> HeaderMap {
        self.headers
            .iter()
            .filter_map(|(name, value)| {
                // Its characters were checked when the configuration was read.
                let mut value = HeaderValue::try_from(value.expose_secret()).ok()?;
                value.set_sensitive(true);
                Some((name.clone(), value))
            })
            .collect()
    }
}

fn read_certificates(path: &Path) -> Result<Vec<Certificate>, String> {
    let pem = std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    let certificates = Certificate::from_pem_bundle(&pem)
        .map_err(|_| "holds what is no PEM certificate".to_owned())?;
    if certificates.is_empty() {
        return Err("holds no PEM certificate".to_owned());
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Access, AccessProblem> {
        let headers = BTreeMap::from([(name.to_owned(), SecretString::from(value))]);
        Access::new(None, headers)
    }

    #[test]
    fn a_field_of_an_access_proxy_is_taken_and_its_value_never_printed() {
        let access = with("CF-Access-Client-Secret", "canary").unwrap();
        let headers = access.header_map();
        assert_eq!(headers["cf-access-client-secret"], "canary");
        assert!(!format!("{access:?} {headers:?}").contains("canary"));
    }

    #[test]
    fn fields_that_belong_to_the_request_are_refused() {
        for name in ["Cookie", "host", "Sec-Fetch-Site", "Upgrade", "a b", ""] {
            let problem = with(name, "x").unwrap_err();
            assert!(
                matches!(problem, AccessProblem::Name { .. }),
                "{name}: {problem}"
            );
        }
    }

    #[test]
    fn a_value_that_would_begin_another_field_is_refused_unseen() {
        let problem = with("X-Key", "canary\r\nCookie: a=b").unwrap_err();
        assert!(matches!(problem, AccessProblem::Value { .. }));
        assert!(!problem.to_string().contains("canary"), "{problem}");
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let access = Access {
            ca_file: Some(file.path().to_owned()),
            headers: Vec::new(),
        };
        let problem = access.certificates().unwrap_err().to_string();
        assert!(problem.contains("no PEM certificate"), "{problem}");
    }
}
