//! The program `diana`: reads the arguments and runs a command of the library.
#![forbid(unsafe_code)]

use clap::Parser;
use diana_cli::Arguments;
use std::process::ExitCode;

fn main() -> ExitCode {
    diana_cli::run(Arguments::parse())
}
