//! The program of `cargo xtask foreign`: nginx' own tests of its limits drive Envoy with Diana.
//!
//! ```text
//!   FOLDER/limit_req.t ─ perl ─► target/foreign/nginx ─► this program, as nginx
//!                          │                              │ nginx.conf ─ translate ─► bootstrap
//!                          └── requests ────────────────► Envoy with Diana
//! ```
#![forbid(unsafe_code)]

mod blocks;
mod differences;
mod limits;
mod stand_in;
mod suite;
mod translate;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs nginx' own tests of its limits against Envoy with Diana
#[derive(Parser)]
#[command(bin_name = "nginx-suite")]
struct Arguments {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Run the files, and compare what fails with the list of differences
    Run {
        /// A checkout of github.com/nginx/nginx-tests
        source: PathBuf,
        /// Only files whose names contain this
        filter: Option<String>,
    },
    /// Do what the files expect of nginx
    #[command(disable_help_flag = true)]
    Nginx {
        /// The proxy-wasm filter, or the native module
        filter: PathBuf,
        /// Arguments of nginx
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().mode {
        Mode::Run { source, filter } => suite::run(&source, filter.as_deref()),
        Mode::Nginx { filter, arguments } => stand_in::stand_in(&filter, &arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
