//! The commands as a user runs them, and their libraries from outside.

mod check;
mod console;
mod convert;
mod ctl;
mod explain;
mod foreign;
/// The engine's tests draw random documents from a generator in this file.
#[path = "../../../tests/it/harness.rs"]
#[allow(dead_code)]
mod harness;
mod init;
mod meaning;
mod pages;
mod recipes;
mod replay;
mod replay_inputs;
mod schema;
mod shell;
mod snapshot;
mod test;
mod valid;
