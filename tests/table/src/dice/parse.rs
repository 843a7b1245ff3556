//! Turns the text of a dice expression into terms and operators.

use super::{MAX_CONSTANT, MAX_DICE, MAX_LENGTH, MAX_SIDES};

/// One piece of an expression, left to right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Operator(char),
    Constant(u32),
    Dice(Dice),
}

/// A term such as `4d6kh3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dice {
    /// The term as the server writes it back.
    pub(super) notation: String,
    pub(super) count: u32,
    pub(super) sides: u32,
    pub(super) keep: Option<(Keep, u32)>,
}

/// What happens to some of the dice of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Highest,
    Lowest,
    DropLowest,
}

impl Keep {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Highest => "kh",
            Self::Lowest => "kl",
            Self::DropLowest => "dl",
        }
    }
}

/// Reads `expression`; the error is the reason without its prefix.
pub(super) fn parse(expression: &str) -> Result<Vec<Piece>, String> {
    if expression.encode_utf16().count() > MAX_LENGTH {
        return Err(format!(
            "Expression too long. Maximum {MAX_LENGTH} characters."
        ));
    }
    let text: String = expression
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect::<String>()
        .to_lowercase();

    let mut pieces = Vec::new();
    let mut dice_so_far = 0;
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        if is_operator(first) {
            pieces.push(Piece::Operator(first));
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let end = rest.find(is_operator).unwrap_or(rest.len());
        let piece = term(&rest[..end])?;
        if let Piece::Dice(dice) = &piece {
            dice_so_far += dice.count;
            if dice_so_far > MAX_DICE {
                return Err(too_many_dice());
            }
        }
        pieces.push(piece);
        rest = &rest[end..];
    }
    Ok(pieces)
}

fn is_operator(c: char) -> bool {
    matches!(c, '+' | '-' | '*' | '/')
}

fn too_many_dice() -> String {
    format!("Too many dice. Maximum {MAX_DICE} per roll.")
}

fn term(token: &str) -> Result<Piece, String> {
    let token = match token {
        "adv" => "2d20kh1",
        "dis" => "2d20kl1",
        other => other,
    };
    if token.bytes().all(|b| b.is_ascii_digit()) {
        return match token.parse() {
            Ok(value) if value <= MAX_CONSTANT => Ok(Piece::Constant(value)),
            _ => Err(format!("Modifier too large. Maximum ±{MAX_CONSTANT}.")),
        };
    }
    if !looks_like_dice(token) {
        return Err(format!("Invalid token: {token}"));
    }
    let dice = split_dice(token).ok_or_else(|| format!("Invalid dice notation: {token}"))?;
    if dice.count > MAX_DICE {
        return Err(too_many_dice());
    }
    if dice.sides > MAX_SIDES {
        return Err(format!("Die size too large. Maximum d{MAX_SIDES}."));
    }
    if dice.sides == 0 {
        return Err("Invalid die size: d0. Must be at least 1.".to_owned());
    }
    if dice.count == 0 {
        return Err(format!("Invalid dice notation: {token}"));
    }
    Ok(Piece::Dice(dice))
}

/// A `d` with a digit behind it, anywhere: the server then speaks of "dice
/// notation", and of a "token" otherwise.
fn looks_like_dice(token: &str) -> bool {
    token
        .as_bytes()
        .windows(2)
        .any(|pair| pair[0] == b'd' && pair[1].is_ascii_digit())
}

fn split_dice(token: &str) -> Option<Dice> {
    let (count, rest) = token.split_once('d')?;
    let count = if count.is_empty() { 1 } else { number(count)? };
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let sides = number(&rest[..digits])?;
    let keep = match &rest[digits..] {
        "" => None,
        tail => {
            let keep = match tail.get(..2)? {
                "kh" => Keep::Highest,
                "kl" => Keep::Lowest,
                "dl" => Keep::DropLowest,
                _ => return None,
            };
            Some((keep, number(&tail[2..])?))
        }
    };
    Some(Dice {
        notation: token.to_owned(),
        count,
        sides,
        keep,
    })
}

/// Digits only; a number too long to hold is as good as the largest one.
fn number(digits: &str) -> Option<u32> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u32::MAX))
}
