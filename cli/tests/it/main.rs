//! Tests of the command `diana`, area by area.

mod explain;
mod pages;
mod shell;
mod snapshot;
