//! What both ends have to know of text that other people wrote.

/// Whether a character turns the direction of the text around it, so that a line reads
/// differently from what it says: marks, embeddings, overrides and isolates (Unicode
/// annex 9).
pub fn is_bidirectional_control(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// The beginning of a text: `characters` of it at most, and `…` when that is not all.
pub fn start(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_that_it_was() {
        assert_eq!(start("übel", 4), "übel");
        assert_eq!(start("übel", 1), "ü…");
    }
}
