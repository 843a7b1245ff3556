//! The shim as a process, between a client that is the test and a daemon that
//! is a socket of the test's.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot go on has failed

mod carrying;
mod leaving;
mod returning;
mod stage;
mod starting;
mod trouble;
mod wishes;
