//! `cargo xtask COMMAND`: all tools of the repository. This file only dispatches; a command is a
//! file with a `run` and a line here.
#![forbid(unsafe_code)]

mod alerts;
mod bench;
mod build;
mod demo;
mod deny;
mod dist;
mod e2e;
mod examples;
mod foreign;
mod fuzz;
mod growth;
mod interleavings;
mod ledger;
mod lint;
mod manifests;
mod migrate;
mod msrv;
mod mutants;
mod nginx;
mod playground;
mod programs;
mod report;
mod same_decisions;
mod soak;
mod step;
mod swarm;
mod test;
mod tool;
mod tree;
mod typos;
mod upgrade;
mod versions;
mod workflows;
mod zones;

use anyhow::Result;
use clap::{Parser, Subcommand};
use demo::Variant;
use gateway::Shell;
use std::path::PathBuf;
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
    /// Build the filter as it ships, to target/diana.wasm and its siblings
    Build,
    /// Run a gateway with the filter, send requests and show the decisions
    Demo {
        /// Run two gateways that count together in Redis
        #[arg(long, conflicts_with = "native")]
        global: bool,
        /// Run the native module instead of the proxy-wasm filter
        #[arg(long)]
        native: bool,
        /// End after the requests, without waiting for Ctrl-C
        #[arg(long)]
        once: bool,
    },
    /// Measure speed and memory in a real Envoy, beside other filters; `--help` lists the options
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments of the measuring program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Fuzz the targets in fuzz/
    Fuzz {
        /// Only this target
        target: Option<String>,
        /// Seconds for each target
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Plant mistakes in the library and list those that no test finds; `--help` lists the options
    #[command(disable_help_flag = true)]
    Mutants {
        /// Arguments of cargo-mutants
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run all checks and tests: `lint`, native tests, doc tests, the report, end-to-end tests
    Test,
    /// Run all checks: formatting, spelling, clippy, documentation, names in it
    Lint,
    /// Compile with the oldest supported Rust, the `rust-version` of Cargo.toml
    Msrv,
    /// Make the folder of a release below target/dist/, with images, checksums and licences
    Dist {
        #[command(flatten)]
        options: dist::Options,
    },
    /// Check licences, sources and advisories of all dependencies
    Deny {
        /// Leave out the advisories, which need the network to github.com
        #[arg(long)]
        offline: bool,
    },
    /// List misspelt words in code and documents
    Typos {
        /// Correct the words that have one correction
        #[arg(long)]
        write: bool,
    },
    /// Run the tests in a real Envoy
    E2e {
        /// Test the native module instead of the proxy-wasm filter
        #[arg(long)]
        native: bool,
        /// Only tests whose names contain this
        filter: Option<String>,
    },
    /// Run the tests of the report of `diana replay` and of `diana console` in a real Chromium
    Report {
        /// Retake the pictures of the documents, docs/assets/replay-*.png
        #[arg(long)]
        update: bool,
        /// Only tests whose names contain this
        filter: Option<String>,
    },
    /// Build the page of the playground, target/playground.html, and test it in a real Chromium
    Playground {
        /// Retake the pictures of the documents, docs/assets/playground-*.png
        #[arg(long)]
        update: bool,
        /// Only tests whose names contain this
        filter: Option<String>,
    },
    /// Keep a real Envoy under load, reloads and kills, and check the bounds all the while
    Soak {
        /// Length of the test
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
    },
    /// Simulate many gateways that count in one Redis, with faults; `--help` lists the options
    #[command(disable_help_flag = true)]
    Swarm {
        /// Arguments of the simulation
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Test the examples with Prometheus, Docker Compose and the func-e of this machine
    Examples,
    /// Compare the migration guides' files for nginx and Traefik with those for Diana
    Migrate,
    /// Build nginx with ngx_wasm_module from sources, and run the tests of Diana in nginx
    Nginx {
        /// The folder of the sources: `nginx`, `ngx_wasm_module` and `wasmtime`
        #[arg(long, value_name = "FOLDER")]
        source: PathBuf,
        /// Only tests whose names contain this
        filter: Option<String>,
    },
    /// Let nginx' own tests of its limits drive Envoy with Diana
    Foreign {
        /// A checkout of github.com/nginx/nginx-tests
        #[arg(long, value_name = "FOLDER")]
        source: PathBuf,
        /// Run the native module instead of the proxy-wasm filter
        #[arg(long)]
        native: bool,
        /// Only files whose names contain this
        filter: Option<String>,
    },
    /// Check the manifests of Kubernetes, Istio and Envoy Gateway by validators that are not ours
    Manifests {
        /// The folder of the repositories with schemas: `istio-api`, `gateway` and `built-on-envoy`
        #[arg(long, value_name = "FOLDER")]
        crds: Option<PathBuf>,
    },
    /// Upgrade real gateways from the release before to this build and back
    Upgrade {
        /// Only tests whose names contain this
        filter: Option<String>,
    },
    /// Run some end-to-end tests in older Envoys
    Versions,
    /// Check what the native module's threads share, by loom and Miri
    Interleavings,
    /// Run random documents and traffic in another commit's engine and in this one, and compare
    SameDecisions {
        #[command(flatten)]
        options: same_decisions::Options,
    },
    /// Change documents under traffic, and report what passes although it was used or granted
    /// before. Today this finds that counts are lost or revived after three or more changes;
    /// `--help` lists the options
    #[command(disable_help_flag = true)]
    Ledger {
        /// Arguments of the program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Count the engine's files, lines and types, and how many of them one decision needs
    Tree,
    /// Compare the work for a document with that for one twice as long
    Growth,
    /// Write the time zones of calendars from the newest IANA database
    Zones,
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
        Task::Demo { global, native, once } => {
            let variant = match (global, native) {
                (true, _) => Variant::Global,
                (false, true) => Variant::Native,
                (false, false) => Variant::Local,
            };
            demo::run(variant, once)
        }
        Task::Bench { arguments } => bench::run(&arguments),
        Task::Fuzz { target, seconds } => fuzz::run(target.as_deref(), seconds),
        Task::Mutants { arguments } => mutants::run(&arguments),
        Task::Test => test::run(),
        Task::Lint => lint::run(),
        Task::Msrv => msrv::run(),
        Task::Dist { options } => dist::run(&options),
        Task::Deny { offline } => deny::run(offline),
        Task::Typos { write } => typos::run(write),
        Task::E2e { native, filter } => {
            e2e::run(filter.as_deref(), if native { Shell::Native } else { Shell::Wasm })
        }
        Task::Report { update, filter } => report::run(update, filter.as_deref()),
        Task::Playground { update, filter } => playground::run(update, filter.as_deref()),
        Task::Soak { minutes } => soak::run(minutes),
        Task::Swarm { arguments } => swarm::run(&arguments),
        Task::Examples => examples::run(),
        Task::Migrate => migrate::run(),
        Task::Upgrade { filter } => upgrade::run(filter.as_deref()),
        Task::Nginx { source, filter } => nginx::run(&source, filter.as_deref()),
        Task::Foreign { source, native, filter } => {
            let shell = if native { Shell::Native } else { Shell::Wasm };
            foreign::run(&source, filter.as_deref(), shell)
        }
        Task::Manifests { crds } => manifests::run(crds.as_deref()),
        Task::Versions => versions::run(),
        Task::Interleavings => interleavings::run(),
        Task::SameDecisions { options } => same_decisions::run(&options),
        Task::Ledger { arguments } => ledger::run(&arguments),
        Task::Tree => tree::run(),
        Task::Growth => growth::run(),
        Task::Zones => zones::run(),
    }
}
