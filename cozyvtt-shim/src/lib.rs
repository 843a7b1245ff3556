//! The command line of `cozyvtt-shim`, for the program itself and for those who write its
//! manual page and its completions.

pub mod arguments;
