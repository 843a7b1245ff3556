//! What somebody meant who has written a name that there is not.

/// Least likeness of a name that is worth proposing.
const ALIKE: f64 = 0.7;

/// The name that is most like `wanted`, if one is like it at all.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names
        .into_iter()
        .map(|name| (name, likeness(wanted, name)))
        .filter(|(_, likeness)| *likeness >= ALIKE)
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(name, _)| name)
}

/// How alike two names are, 0 to 1; the order of their words does not matter, so
/// that `send_chat` finds `chat_send`.
fn likeness(one: &str, other: &str) -> f64 {
    let words = |name: &str| {
        let name = name.to_ascii_lowercase().replace(['-', '.', ' '], "_");
        let mut words: Vec<String> = name.split('_').map(str::to_owned).collect();
        words.sort_unstable();
        words.join("_")
    };
    strsim::normalized_damerau_levenshtein(one, other).max(strsim::normalized_damerau_levenshtein(
        &words(one),
        &words(other),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_tool_finds_its_neighbour() {
        let names = ["chat_send", "chat_read", "dice_roll", "token_move"];
        let nearest = |wanted| nearest(wanted, names);
        assert_eq!(nearest("chat_sned"), Some("chat_send"));
        assert_eq!(nearest("send-chat"), Some("chat_send"));
        assert_eq!(nearest("tokenmove"), Some("token_move"));
        assert_eq!(nearest("weather"), None);
    }
}
