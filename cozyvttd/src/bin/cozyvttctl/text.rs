//! Text that other people wrote, made safe for a terminal.
//!
//! Names, chat, map titles and most error messages come from whoever sits at
//! the table. A terminal obeys some characters instead of showing them, and
//! bidirectional controls make a line read differently from what it says.

use std::fmt::Write;

use cozyvtt_proto::text::is_bidirectional_control;
use serde::Serialize;
use textwrap::core::display_width;

/// `text` on one line, with nothing in it that a terminal obeys: line breaks
/// and tabs become blanks, control characters (C0, DEL, C1) a visible `\u{fffd}`,
/// bidirectional controls vanish.
pub(crate) fn plain(text: &str) -> String {
    text.replace("\r\n", " ")
        .chars()
        .filter_map(|character| match character {
            '\t'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some(' '),
            _ if character.is_control() => Some('\u{fffd}'),
            _ if is_bidirectional_control(character) => None,
            _ => Some(character),
        })
        .collect()
}

/// `value` as JSON on one line.
pub(crate) fn json_line(value: &impl Serialize) -> String {
    escape_hidden(&serde_json::to_string(value).unwrap_or_default())
}

/// `value` as JSON with indentation.
pub(crate) fn json_pretty(value: &impl Serialize) -> String {
    escape_hidden(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// JSON text with the characters that `plain` would change, and that JSON
/// itself leaves alone, written as `\uXXXX`; it means the same to a program. C0
/// is left alone: inside of strings JSON has escaped it, outside it is layout.
pub(crate) fn escape_hidden(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        let hidden = (character.is_control() && character >= '\u{7f}')
            || is_bidirectional_control(character)
            || matches!(character, '\u{2028}' | '\u{2029}');
        if hidden {
            // Writing to a string cannot fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe
}

/// `text` cut to `width` columns, with `ellipsis` for what is missing.
pub(crate) fn cut(text: &str, width: usize, ellipsis: &str) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(display_width(ellipsis));
    let mut kept = String::new();
    let mut used = 0;
    for character in text.chars() {
        used += display_width(character.encode_utf8(&mut [0; 4]));
        if used > room {
            break;
        }
        kept.push(character);
    }
    kept + ellipsis
}

/// A line with styles in it, without what lies beyond `width` columns.
pub(crate) fn clip(styled: &str, width: usize) -> String {
    let mut kept = String::with_capacity(styled.len());
    let (mut used, mut in_style) = (0, false);
    for character in styled.chars() {
        // Our own styles are the only sequences here: ESC [ numbers m.
        in_style |= character == '\u{1b}';
        if !in_style {
            used += display_width(character.encode_utf8(&mut [0; 4]));
        }
        if in_style || used <= width {
            kept.push(character);
        }
        in_style &= character != 'm';
    }
    kept
}

/// `text` filled up with blanks to `width` columns.
pub(crate) fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(display_width(text));
    format!("{text}{:missing$}", "")
}

/// The first sentence of a description: up to the first full stop, question or
/// exclamation mark that a blank follows, or the first empty line.
pub(crate) fn first_sentence(text: &str) -> String {
    let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
    let paragraph = plain(paragraph);
    let end = paragraph
        .match_indices(['.', '!', '?'])
        .map(|(at, mark)| at + mark.len())
        .find(|&end| {
            let rest = &paragraph[end..];
            let abbreviation = ["e.g.", "i.e.", "etc.", "vs."]
                .iter()
                .any(|short| paragraph[..end].ends_with(short));
            rest.starts_with(' ') && !abbreviation
        })
        .unwrap_or(paragraph.len());
    paragraph[..end]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_styled_line_is_clipped_by_what_is_seen_of_it() {
        let line = "\u{1b}[1mab日本\u{1b}[0m";
        assert_eq!(clip(line, 80), line);
        assert_eq!(clip(line, 4), "\u{1b}[1mab日\u{1b}[0m");
        assert_eq!(clip(line, 1), "\u{1b}[1ma\u{1b}[0m");
    }

    /// Every character that must not reach a terminal.
    fn forbidden() -> impl Iterator<Item = char> {
        ('\0'..='\u{1f}')
            .chain('\u{7f}'..='\u{9f}')
            .chain(['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'])
            .chain('\u{202a}'..='\u{202e}')
            .chain('\u{2066}'..='\u{2069}')
    }

    #[test]
    fn nothing_that_a_terminal_obeys_survives() {
        for character in forbidden() {
            let told = plain(&format!("a{character}b"));
            assert!(
                !told.contains(character),
                "U+{:04X} got through",
                u32::from(character)
            );
            assert!(told.starts_with('a') && told.ends_with('b'), "{told:?}");
        }
    }

    #[test]
    fn an_escape_sequence_stays_visible_as_an_attempt() {
        assert_eq!(plain("\u{1b}[31mred"), "\u{fffd}[31mred");
        assert_eq!(plain("\u{9b}2J"), "\u{fffd}2J");
    }

    #[test]
    fn a_message_of_several_lines_becomes_one() {
        assert_eq!(plain("one\r\ntwo\nthree\tfour"), "one two three four");
    }

    #[test]
    fn ordinary_text_of_any_language_is_left_alone() {
        for text in ["Zoë: 2d6 – „gut“", "שלום", "こんにちは", "👩‍🚀 lands"]
        {
            assert_eq!(plain(text), text);
        }
    }

    #[test]
    fn json_hides_nothing_and_means_the_same() {
        for character in forbidden() {
            let value = json!({ "text": format!("a{character}b") });
            for text in [json_line(&value), json_pretty(&value)] {
                let inner: String = text.chars().filter(|&c| c != '\n').collect();
                assert!(!inner.contains(character), "{inner:?}");
                assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
            }
        }
    }

    #[test]
    fn a_cut_line_is_never_wider_than_its_place() {
        assert_eq!(cut("short", 5, "…"), "short");
        assert_eq!(cut("longer", 5, "…"), "long…");
        assert_eq!(cut("こんにちは", 5, "…"), "こん…");
        assert_eq!(cut("longer", 5, "..."), "lo...");
    }

    #[test]
    fn the_first_sentence_ends_where_a_reader_would_end_it() {
        assert_eq!(first_sentence("Roll dice. Pending."), "Roll dice.");
        assert_eq!(
            first_sentence("Needs 1.4.0 or later. More."),
            "Needs 1.4.0 or later."
        );
        assert_eq!(
            first_sentence("A token (e.g. a goblin) moves. X"),
            "A token (e.g. a goblin) moves."
        );
        assert_eq!(first_sentence("No stop\n\nsecond"), "No stop");
        assert_eq!(first_sentence("Two\nlines. X"), "Two lines.");
    }
}
