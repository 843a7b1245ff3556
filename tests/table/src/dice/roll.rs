//! Rolls a parsed expression and writes the breakdown the server shows.

use rand::{Rng, RngExt};
use serde_json::{Value, json};

use super::parse::{Dice, Keep, Piece, parse};
use crate::version::Version;

/// What a roll came to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rolled {
    pub(crate) total: i64,
    /// `{expression, rolls, total, formula}`.
    pub(crate) breakdown: Value,
}

/// Why nothing was rolled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RollError {
    /// The text is no dice expression.
    Invalid(String),
    /// 1.1.2 lets a stray operator through the reading and stumbles later.
    Failed(String),
    /// Something the server itself did not expect, such as a division by zero.
    Broken,
}

impl RollError {
    /// The sentence of the `error` event.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::Invalid(why) => format!("Invalid dice expression: {why}"),
            Self::Failed(why) => format!("Dice roll failed: {why}"),
            Self::Broken => "Failed to roll dice".to_owned(),
        }
    }
}

/// Reads `expression` as `version` would, without rolling.
pub(crate) fn check(expression: &str, version: Version) -> Result<(), RollError> {
    read(expression, version).map(|_| ())
}

fn read(expression: &str, version: Version) -> Result<Vec<Piece>, RollError> {
    let pieces = parse(expression).map_err(RollError::Invalid)?;
    if !version.is_old() && !well_formed(&pieces) {
        let why = "Every operator needs a term on both sides.".to_owned();
        return Err(RollError::Invalid(why));
    }
    Ok(pieces)
}

/// Reads and rolls `expression` as `version` would.
pub(crate) fn roll(
    expression: &str,
    version: Version,
    rng: &mut impl Rng,
) -> Result<Rolled, RollError> {
    let pieces = read(expression, version)?;
    let mut rolls = Vec::new();
    let mut formula = Vec::new();
    let mut values = Vec::new();
    for piece in &pieces {
        match piece {
            Piece::Operator(sign) => {
                formula.push(sign.to_string());
                values.push(Item::Operator(*sign));
            }
            Piece::Constant(value) => {
                rolls.push(json!({ "type": "modifier", "value": value }));
                formula.push(value.to_string());
                values.push(Item::Value(f64::from(*value)));
            }
            Piece::Dice(dice) => {
                let (entry, total) = throw(dice, rng);
                rolls.push(entry);
                formula.push(total.to_string());
                values.push(Item::Value(f64::from(total)));
            }
        }
    }
    let total = evaluate(&values)
        .ok_or_else(|| RollError::Failed("Failed to evaluate expression".to_owned()))?;
    if !total.is_finite() {
        return Err(RollError::Broken);
    }
    #[allow(clippy::cast_possible_truncation)] // a hundred dice of a thousand sides fit easily
    let total = total.floor() as i64;
    Ok(Rolled {
        total,
        breakdown: json!({
            "expression": expression,
            "rolls": rolls,
            "total": total,
            "formula": formula.join(" "),
        }),
    })
}

/// Terms and operators alternate; a sign may stand in front.
fn well_formed(pieces: &[Piece]) -> bool {
    let body = match pieces {
        [Piece::Operator('+' | '-'), rest @ ..] => rest,
        all => all,
    };
    body.len() % 2 == 1
        && body
            .iter()
            .enumerate()
            .all(|(at, piece)| matches!(piece, Piece::Operator(_)) == (at % 2 == 1))
}

fn throw(dice: &Dice, rng: &mut impl Rng) -> (Value, u32) {
    let results: Vec<u32> = (0..dice.count)
        .map(|_| rng.random_range(1..=dice.sides))
        .collect();
    let mut kept = results.clone();
    if let Some((keep, number)) = dice.keep {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        kept.sort_unstable();
        match keep {
            // The server leaves the kept dice in the order it sorted them in.
            Keep::Highest => kept.reverse(),
            Keep::Lowest => {}
            Keep::DropLowest => {
                kept.drain(..number.min(kept.len()));
            }
        }
        if keep != Keep::DropLowest {
            kept.truncate(number);
        }
    }
    let total = kept.iter().sum();
    let mut entry = json!({
        "type": "dice",
        "notation": dice.notation,
        "count": dice.count,
        "sides": dice.sides,
        "results": results,
        "kept": kept,
        "total": total,
    });
    if let Some((keep, number)) = dice.keep {
        entry["modifier"] = json!(keep.text());
        entry["modifierCount"] = json!(number);
    }
    (entry, total)
}

#[derive(Clone, Copy)]
enum Item {
    Value(f64),
    Operator(char),
}

/// The value of `items` by the usual precedence, signs in front of a term allowed.
fn evaluate(items: &[Item]) -> Option<f64> {
    let mut at = 0;
    let mut total = product(items, &mut at)?;
    while let Some(Item::Operator(sign)) = items.get(at) {
        at += 1;
        let value = product(items, &mut at)?;
        total = if *sign == '-' {
            total - value
        } else {
            total + value
        };
    }
    (at == items.len()).then_some(total)
}

fn product(items: &[Item], at: &mut usize) -> Option<f64> {
    let mut value = signed(items, at)?;
    while let Some(Item::Operator(sign @ ('*' | '/'))) = items.get(*at) {
        *at += 1;
        let next = signed(items, at)?;
        value = if *sign == '*' {
            value * next
        } else {
            value / next
        };
    }
    Some(value)
}

fn signed(items: &[Item], at: &mut usize) -> Option<f64> {
    let item = items.get(*at)?;
    *at += 1;
    match item {
        Item::Value(value) => Some(*value),
        Item::Operator('-') => Some(-signed(items, at)?),
        Item::Operator('+') => signed(items, at),
        Item::Operator(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn rolled(expression: &str) -> Rolled {
        roll(expression, Version::V1_1_2, &mut StdRng::seed_from_u64(1)).unwrap()
    }

    fn refused(expression: &str, version: Version) -> String {
        roll(expression, version, &mut StdRng::seed_from_u64(1))
            .unwrap_err()
            .sentence()
    }

    #[test]
    fn the_sentences_are_those_a_real_server_said() {
        let cases = [
            ("abc", "Invalid dice expression: Invalid token: abc"),
            ("1d", "Invalid dice expression: Invalid token: 1d"),
            (
                "101d6",
                "Invalid dice expression: Too many dice. Maximum 100 per roll.",
            ),
            (
                "60d6+60d6",
                "Invalid dice expression: Too many dice. Maximum 100 per roll.",
            ),
            (
                "1d1001",
                "Invalid dice expression: Die size too large. Maximum d1000.",
            ),
            (
                "1d20+10000",
                "Invalid dice expression: Modifier too large. Maximum ±9999.",
            ),
            (
                "1d20!",
                "Invalid dice expression: Invalid dice notation: 1d20!",
            ),
            (
                "4d6dh1",
                "Invalid dice expression: Invalid dice notation: 4d6dh1",
            ),
            (
                "(1d6)",
                "Invalid dice expression: Invalid dice notation: (1d6)",
            ),
            (
                "1d0",
                "Invalid dice expression: Invalid die size: d0. Must be at least 1.",
            ),
        ];
        for (expression, sentence) in cases {
            assert_eq!(refused(expression, Version::V1_1_2), sentence);
            assert_eq!(refused(expression, Version::V1_5), sentence);
        }
        assert_eq!(
            refused(&"x".repeat(201), Version::V1_1_2),
            "Invalid dice expression: Expression too long. Maximum 200 characters."
        );
    }

    #[test]
    fn a_stray_operator_fails_late_in_1_1_2_and_early_in_1_5() {
        assert_eq!(
            refused("1d6+", Version::V1_1_2),
            "Dice roll failed: Failed to evaluate expression"
        );
        assert!(refused("1d6+", Version::V1_5).starts_with("Invalid dice expression: "));
        assert_eq!(rolled("2++3").total, 5);
        assert!(refused("2++3", Version::V1_5).starts_with("Invalid dice expression: "));
    }

    #[test]
    fn a_division_by_zero_is_the_servers_own_failure() {
        assert_eq!(refused("7/0", Version::V1_5), "Failed to roll dice");
    }

    #[test]
    fn totals_are_floored_and_may_be_negative() {
        assert_eq!(rolled("7/2").total, 3);
        assert_eq!(rolled("-7/2").total, -4);
        assert_eq!(rolled("2+3*4-1").total, 13);
        assert_eq!(rolled("-1d1").breakdown["formula"], "- 1");
    }

    #[test]
    fn kept_dice_come_in_the_order_they_were_sorted_in() {
        for seed in 0..50 {
            let mut rng = StdRng::seed_from_u64(seed);
            for (expression, keeps, falling) in [
                ("4d6kh3", 3, true),
                ("4d6kl2", 2, false),
                ("4d6dl1", 3, false),
            ] {
                let entry = roll(expression, Version::V1_5, &mut rng).unwrap().breakdown["rolls"]
                    [0]
                .clone();
                let numbers = |key: &str| -> Vec<u64> {
                    entry[key]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|v| v.as_u64().unwrap())
                        .collect()
                };
                let kept = numbers("kept");
                assert_eq!(kept.len(), keeps);
                assert!(kept.is_sorted_by(|a, b| if falling { a >= b } else { a <= b }));
                assert_eq!(entry["total"].as_u64().unwrap(), kept.iter().sum::<u64>());
                assert_eq!(numbers("results").len(), 4);
            }
        }
    }

    #[test]
    fn advantage_is_written_out_and_the_text_kept_as_sent() {
        let rolled = rolled("ADV + 5");
        assert_eq!(rolled.breakdown["expression"], "ADV + 5");
        assert_eq!(rolled.breakdown["rolls"][0]["notation"], "2d20kh1");
        assert_eq!(
            rolled.breakdown["rolls"][1],
            json!({"type": "modifier", "value": 5})
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_dice_and_all_faces_come_up() {
        let throw = |seed| -> Vec<i64> {
            let mut rng = StdRng::seed_from_u64(seed);
            (0..600)
                .map(|_| roll("1d6", Version::V1_5, &mut rng).unwrap().total)
                .collect()
        };
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(8));
        for face in 1..=6 {
            let times = throw(7).iter().filter(|&&total| total == face).count();
            assert!((60..=145).contains(&times), "{face} came up {times} times");
        }
    }
}
