//! How a roll came to its total: `2, 6 +3`.

use serde_json::Value;

use crate::text::plain;

/// Faces listed at most; CozyVTT allows a hundred dice in one roll.
const MOST_FACES: usize = 20;

/// The faces and modifiers of CozyVTT's `breakdown`, with the signs that only its
/// `formula` has. `None` when it would say no more than the total, or cannot be
/// made sense of.
pub(crate) fn working(breakdown: &Value) -> Option<String> {
    let rolls = breakdown.get("rolls")?.as_array()?;
    let signs = signs(breakdown.get("formula")?.as_str()?);
    if rolls.len() != signs.len() {
        return breakdown.get("formula")?.as_str().map(plain);
    }
    let alone = rolls.len() == 1;
    let mut terms = Vec::new();
    for (number, (roll, sign)) in rolls.iter().zip(&signs).enumerate() {
        let (text, several) = term(roll)?;
        if alone && !several && sign.is_none() {
            return None;
        }
        let binds = |sign: Option<&Option<char>>| matches!(sign, Some(Some('*' | '/')));
        let ambiguous = number > 0
            || sign.is_some()
            || binds(signs.get(number + 1))
            || (text.contains("dropped") && !alone);
        let text = if several && ambiguous {
            format!("({text})")
        } else {
            text
        };
        terms.push(sign.map_or_else(|| text.clone(), |sign| format!("{sign}{text}")));
    }
    (!terms.is_empty()).then(|| terms.join(" "))
}

/// The sign before each number of a formula such as `8 + 3`.
fn signs(formula: &str) -> Vec<Option<char>> {
    let mut pending = None;
    let mut signs = Vec::new();
    for token in formula.split_whitespace() {
        match token {
            "+" | "-" | "*" | "/" => pending = token.chars().next(),
            _ => signs.push(pending.take()),
        }
    }
    signs
}

/// One entry of a roll, and whether it shows several faces.
fn term(roll: &Value) -> Option<(String, bool)> {
    if roll.get("type")?.as_str()? == "modifier" {
        return Some((roll.get("value")?.as_i64()?.to_string(), false));
    }
    let faces = |key: &str| -> Option<Vec<i64>> {
        roll.get(key)?
            .as_array()?
            .iter()
            .map(Value::as_i64)
            .collect()
    };
    let results = faces("results")?;
    if results.len() > MOST_FACES {
        return Some((format!("{} dice", results.len()), true));
    }
    let kept = faces("kept")?;
    let mut dropped = results;
    for face in &kept {
        if let Some(at) = dropped.iter().position(|other| other == face) {
            dropped.remove(at);
        }
    }
    let list = |faces: &[i64]| {
        faces
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut text = list(&kept);
    if !dropped.is_empty() {
        text = format!("{text}, dropped {}", list(&dropped));
    }
    Some((text, kept.len() + dropped.len() > 1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dice(results: &[i64], kept: &[i64]) -> Value {
        json!({"type": "dice", "results": results, "kept": kept})
    }

    fn modifier(value: i64) -> Value {
        json!({"type": "modifier", "value": value})
    }

    fn shown(rolls: &[Value], formula: &str) -> Option<String> {
        working(&json!({"rolls": rolls, "formula": formula}))
    }

    #[test]
    fn faces_come_first_and_modifiers_keep_their_sign() {
        assert_eq!(
            shown(&[dice(&[2, 6], &[2, 6]), modifier(3)], "8 + 3").unwrap(),
            "2, 6 +3"
        );
        assert_eq!(
            shown(&[dice(&[9], &[9]), modifier(2)], "9 - 2").unwrap(),
            "9 -2"
        );
        assert_eq!(shown(&[dice(&[1], &[1])], "- 1").unwrap(), "-1");
    }

    #[test]
    fn a_single_die_needs_no_explanation() {
        assert_eq!(shown(&[dice(&[15], &[15])], "15"), None);
    }

    #[test]
    fn dropped_faces_are_told() {
        let roll = dice(&[2, 3, 5, 1], &[5, 3, 2]);
        assert_eq!(shown(&[roll], "10").unwrap(), "5, 3, 2, dropped 1");
        let advantage = dice(&[18, 3], &[18]);
        assert_eq!(
            shown(&[advantage, modifier(5)], "18 + 5").unwrap(),
            "(18, dropped 3) +5"
        );
    }

    #[test]
    fn brackets_keep_several_faces_together() {
        let twice = dice(&[3, 3], &[3, 3]);
        assert_eq!(
            shown(&[twice.clone(), modifier(2)], "6 * 2").unwrap(),
            "(3, 3) *2"
        );
        assert_eq!(
            shown(&[dice(&[5], &[5]), twice], "5 + 6").unwrap(),
            "5 +(3, 3)"
        );
    }

    #[test]
    fn a_hundred_dice_are_counted_not_listed() {
        assert_eq!(
            shown(&[dice(&[1; 100], &[1; 100])], "100").unwrap(),
            "100 dice"
        );
    }

    #[test]
    fn what_does_not_add_up_falls_back_to_the_formula() {
        assert_eq!(
            shown(&[modifier(1)], "1 + \u{1b}2").unwrap(),
            "1 + \u{fffd}2"
        );
        assert_eq!(working(&json!(null)), None);
    }
}
