//! The exit codes that one of our programs reads from another.

/// `cozyvttd` ends with this code when another cozyvttd uses its folders, which for
/// whoever started it is as good as a start: the other one serves.
pub const OCCUPIED: u8 = 3;
