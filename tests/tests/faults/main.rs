//! Everything that goes wrong, one fault a test: over real sockets, with the real
//! daemon. Each asserts that its fault happened, and ends in one shared look at the
//! [`aftermath`](trial::Trial::aftermath).

mod disk;
mod link;
mod login;
mod process;
mod rest;
mod server;
mod trial;
