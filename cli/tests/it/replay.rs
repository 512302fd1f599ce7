//! `diana replay`: documents and logs, and the summaries that they make.

mod assumptions;
mod budgets;
mod decisions;
mod quotas;
mod whole;

use clap::Parser;
use diana_cli::replay::replay;
use diana_cli::{Arguments, Command};
use diana_replay::summary::{RuleSummary, Summary};
use std::fs;
use std::path::PathBuf;

/// A folder of this test alone. It is deleted at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("diana-cli-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn summary(arguments: &[&str]) -> Result<Summary, String> {
    let all = ["diana", "replay"].iter().chain(arguments);
    let arguments = Arguments::try_parse_from(all).map_err(|error| error.to_string())?;
    let Command::Replay(arguments) = arguments.command else { panic!("another command") };
    replay(&arguments).map_err(|error| {
        let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
        chain.join(": ")
    })
}

/// The exit code of the command.
pub fn exit_code(arguments: &[&str]) -> i32 {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_diana"));
    command.arg("replay").args(arguments).output().unwrap().status.code().unwrap()
}

pub const FORMAT: &str = "%START_TIME(%s.%3f)% %DURATION% %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% %REQ(X-USER-ID)% \
    %REQ(:METHOD)% %REQ(:PATH)% %RESPONSE_CODE%";

/// A log of requests: milliseconds after 2026-11-23T00:00:00Z, duration in ms, user.
pub fn log(requests: &[(u64, u64, &str)]) -> String {
    let line = |(at, duration, user): &(u64, u64, &str)| {
        format!("{}.{:03} {duration} 192.0.2.1 {user} GET /a 200\n", 1_795_392_000 + at / 1_000, at % 1_000)
    };
    requests.iter().map(line).collect()
}

/// The summary of one rule over these requests.
pub fn rule(name: &str, rule: &str, requests: &[(u64, u64, &str)]) -> (Summary, RuleSummary) {
    let folder = Folder::new(name);
    let document =
        folder.file("limits.json", &format!(r#"{{"limits": [{{"url": "/", "rules": [{rule}]}}]}}"#));
    let log = folder.file("access.log", &log(requests));
    let summary = summary(&[&document, "--log", &log, "--format", FORMAT, "--what-if"]).unwrap();
    let rule = summary.rules[0].clone();
    (summary, rule)
}

/// Ten requests, one every 100 ms.
pub const STEADY: [(u64, u64, &str); 10] = [
    (0, 250, "ann"),
    (100, 250, "ann"),
    (200, 250, "ann"),
    (300, 250, "ann"),
    (400, 250, "ann"),
    (500, 250, "ann"),
    (600, 250, "ann"),
    (700, 250, "ann"),
    (800, 250, "ann"),
    (900, 250, "ann"),
];
