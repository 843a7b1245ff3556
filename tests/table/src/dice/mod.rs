//! Dice expressions: reading them, rolling them, and the words for refusing them.

mod parse;
mod roll;

pub(crate) use roll::{RollError, Rolled, check, roll};

/// The largest number of dice in one expression.
const MAX_DICE: u32 = 100;
/// The largest die.
const MAX_SIDES: u32 = 1000;
/// The largest constant.
const MAX_CONSTANT: u32 = 9999;
/// The longest expression, in characters.
const MAX_LENGTH: usize = 200;
