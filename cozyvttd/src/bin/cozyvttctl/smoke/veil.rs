//! Keeps the account's address and password, and whatever looks like an
//! address, out of everything that is written.

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// What stands in place of something that is not shown.
const HIDDEN: &str = "[hidden]";

/// A secret shorter than this is no secret, and hiding it would tear words apart.
const SHORTEST: usize = 4;

/// What is not to be shown.
pub(super) struct Veil(Vec<SecretString>);

impl Veil {
    pub(super) fn over(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets
            .into_iter()
            .filter(|secret| secret.len() >= SHORTEST)
            .collect();
        // One that holds another goes first, or its rest would be left.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets.into_iter().map(SecretString::from).collect())
    }

    /// `text` without any of it.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            text = text.replace(secret.expose_secret(), HIDDEN);
        }
        text.split_inclusive(|character: char| character.is_whitespace())
            .map(without_address)
            .collect()
    }

    /// `value` with every text in it so; keys are ours.
    pub(super) fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.value(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// A word, or what hides it when it holds something like `a@b.c`.
fn without_address(word: &str) -> String {
    let is_address = word.match_indices('@').any(|(at, _)| {
        let inner = |character: char| character.is_alphanumeric();
        word[..at].ends_with(inner) && word[at + 1..].starts_with(inner)
    });
    if is_address {
        let end = word.trim_end().len();
        format!("{HIDDEN}{}", &word[end..])
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_and_addresses_vanish_and_the_rest_stays() {
        let veil = Veil::over([
            "canary sings".to_owned(),
            "dm@table.test".to_owned(),
            "ab".to_owned(),
        ]);
        assert_eq!(
            veil.text("no user dm@table.test with canary sings about it"),
            "no user [hidden] with [hidden] about it"
        );
        assert_eq!(
            veil.text("ask <other@place.example>, now"),
            "ask [hidden] now"
        );
        assert_eq!(veil.text("a table @ noon"), "a table @ noon");
        let mut value = json!({"a": ["canary sings", 1], "b": {"c": "x@y.z"}});
        veil.value(&mut value);
        assert_eq!(value, json!({"a": ["[hidden]", 1], "b": {"c": "[hidden]"}}));
    }
}
