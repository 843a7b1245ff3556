//! Text as JavaScript measures and trims it.

/// How long a text is: in UTF-16 code units, so that an astral character counts
/// as two.
pub(crate) fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// A text without the white space around it, a byte order mark included.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_astral_character_counts_as_two() {
        assert_eq!(length("dé🎲"), 4);
    }

    #[test]
    fn a_byte_order_mark_is_white_space_and_a_next_line_is_not() {
        assert_eq!(trimmed("\u{feff} a b\u{a0}\n"), "a b");
        assert_eq!(trimmed("\u{85}"), "\u{85}");
    }
}
