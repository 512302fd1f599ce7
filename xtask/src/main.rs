//! `cargo xtask COMMAND`: all tools of the repository. This file only dispatches; a command is a file with a `run`
//! and a line here.

mod build;
mod demo;
mod e2e;
mod test;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The tools of the repository.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the filter as it ships, to target/diana.wasm
    Build,
    /// Run a gateway with the filter, send it requests and show what becomes of them
    Demo {
        /// End after the requests
        #[arg(long)]
        once: bool,
    },
    /// Run all checks and tests
    Test,
    /// Run the tests in a real Envoy
    E2e {
        /// Only tests whose names contain this
        filter: Option<String>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Build => build::run(),
        Task::Demo { once } => demo::run(once),
        Task::Test => test::run(),
        Task::E2e { filter } => e2e::run(filter.as_deref()),
    }
}
