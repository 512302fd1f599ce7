//! Tests of the command `diana`, area by area.

mod explain;
/// The engine's tests draw random documents from a generator in this file.
#[path = "../../../tests/it/harness.rs"]
#[allow(dead_code)]
mod harness;
mod init;
mod meaning;
mod pages;
mod schema;
mod shell;
mod snapshot;
