//! What CozyVTT answers: whether it is what was asked for, and what it tells besides.

use std::time::SystemTime;

use reqwest::header::{DATE, HeaderMap};
use serde_json::Value;

use super::WINDOW;

/// What an answer that says it worked has to look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// A JSON object with what is named: an array when the name is a plural or
    /// `roster`, else an object.
    Has(&'static str),
    /// A JSON object with a sentence `message`; none at all will do.
    Message,
    /// A JSON object; none at all will do for a write.
    Object,
}

/// A file, or the word that it has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// It has not changed since the given `ETag`.
    NotModified,
    /// The file.
    File {
        /// The MIME type, in lower case and without parameters.
        mime: String,
        /// The charset, when one was given.
        charset: Option<String>,
        /// The `ETag`, as it came.
        etag: Option<String>,
        /// The content.
        content: Vec<u8>,
    },
}

/// What is ours of a limit: the person at the browser shares the address.
pub(super) fn share(limit: usize) -> usize {
    limit - limit / 10
}

/// The server's time of day.
pub(super) fn date_of(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

/// The limit that an answer tells, when it is one per minute.
pub(super) fn limit_of(headers: &HeaderMap) -> Option<usize> {
    let number = |name| headers.get(name)?.to_str().ok()?.trim().parse().ok();
    let policy = headers.get("ratelimit-policy")?.to_str().ok()?;
    let per_minute = policy
        .split(';')
        .any(|part| part.trim() == format!("w={}", WINDOW.as_secs()));
    per_minute.then(|| number("ratelimit-limit"))?
}

/// The object in a body, if it is what was expected; else what is wrong with it.
pub(super) fn check(body: &[u8], expect: Expect, reads: bool) -> Result<Value, String> {
    if body.trim_ascii().is_empty() && !reads && !matches!(expect, Expect::Has(_)) {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let body: Value =
        serde_json::from_slice(body).map_err(|_| "the body is not valid JSON".to_owned())?;
    if !body.is_object() {
        return Err("the body is no JSON object".to_owned());
    }
    let fits = match expect {
        Expect::Object => true,
        // Lists are named in the plural, objects in the singular.
        Expect::Has(key) if is_list(key) => body.get(key).is_some_and(Value::is_array),
        Expect::Has(key) => body.get(key).is_some_and(Value::is_object),
        Expect::Message => matches!(body.get("message"), Some(Value::String(_))),
    };
    match expect {
        _ if fits => Ok(body),
        Expect::Has(key) => Err(format!("the body has no {key:?}")),
        Expect::Message | Expect::Object => Err("the body has no \"message\"".to_owned()),
    }
}

fn is_list(key: &str) -> bool {
    key.ends_with('s') || key == "roster"
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_servers_own_limit_is_believed_when_it_is_one_per_minute() {
        let answer = |policy: &'static str, limit: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("ratelimit-policy", HeaderValue::from_static(policy));
            headers.insert("ratelimit-limit", HeaderValue::from_static(limit));
            limit_of(&headers)
        };
        assert_eq!(answer("300;w=60", "300"), Some(300));
        assert_eq!(answer("5;w=900", "5"), None);
        assert_eq!(answer("300;w=60", "many"), None);
        assert_eq!(limit_of(&HeaderMap::new()), None);
        assert_eq!((share(300), share(5), share(1)), (270, 5, 1));
    }

    #[test]
    fn an_empty_body_will_do_for_a_write_and_not_for_a_read() {
        assert_eq!(check(b"", Expect::Object, false), Ok(json!({})));
        assert_eq!(check(b" ", Expect::Message, false), Ok(json!({})));
        assert!(check(b"", Expect::Object, true).is_err());
        assert!(check(b"", Expect::Has("token"), false).is_err());
    }

    #[test]
    fn an_answer_has_to_be_an_object_with_what_was_asked_for() {
        for body in ["<html>", "[1]", "5", "{\"maps\":5}", "{\"maps\":{}}", "{}"] {
            assert!(
                check(body.as_bytes(), Expect::Has("maps"), true).is_err(),
                "{body}"
            );
        }
        assert!(check(br#"{"maps":[]}"#, Expect::Has("maps"), true).is_ok());
        assert!(check(br#"{"character":[]}"#, Expect::Has("character"), true).is_err());
        assert!(check(br#"{"character":{}}"#, Expect::Has("character"), true).is_ok());
        assert!(check(br#"{"message":"done"}"#, Expect::Message, false).is_ok());
        assert!(check(br#"{"message":5}"#, Expect::Message, false).is_err());
    }
}
