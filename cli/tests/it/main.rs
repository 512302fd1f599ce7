//! The tests of the command `diana` that need no other program.

#[path = "../sample/mod.rs"]
mod sample;

mod report;
