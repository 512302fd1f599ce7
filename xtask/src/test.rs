//! `cargo xtask test`: everything that must hold, cheapest first; it stops at the first step that fails.

use crate::{e2e, programs};
use anyhow::{Context, Result, bail};
use gateway::filter;
use std::io::{self, IsTerminal, Write};
use std::process::{Child, Stdio};
use std::time::Instant;

/// Runs all steps.
pub fn run() -> Result<()> {
    filter::add_target()?;
    programs::install()?;
    let start = Instant::now();
    for step in steps() {
        step.run()?;
    }
    println!("all is well, in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn steps() -> Vec<Step> {
    const STRICT: [&str; 3] = ["--", "-D", "warnings"];
    let clippy = |arguments: &[&str]| cargo(&[&["clippy", "--quiet"], arguments, &STRICT].concat());
    let docs = |arguments: &[&str]| {
        let mut line =
            cargo(&[&["doc", "--quiet", "--no-deps", "--document-private-items"], arguments].concat());
        line.env.push(("RUSTDOCFLAGS", "-D warnings".to_owned()));
        line
    };
    vec![
        Step::new("formatting", cargo(&["fmt", "--all", "--check"])),
        Step::new("formatting, fuzz", cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])),
        Step::new("lints", clippy(&["--workspace", "--all-targets"])),
        // A target with `test = false` is not one of `--all-targets`.
        Step::new("lints, end-to-end tests", clippy(&["--test", "e2e"])),
        Step::new("lints, filter", clippy(&["--lib", "--target", filter::TARGET])),
        Step::new("unit, property and corpus tests", cargo(&["test", "--quiet", "--workspace"])).shown(),
        Step::new("documentation", docs(&["--workspace"])),
        Step::new("documentation, filter", docs(&["--lib", "--target", filter::TARGET])),
        e2e::step(),
    ]
}

/// One line of the list: a command and what it is for.
pub struct Step {
    name: &'static str,
    pub command: Line,
    /// Whether what it prints is worth reading even if it succeeds.
    shown: bool,
}

/// A cargo command that can be run and be shown.
pub struct Line {
    pub args: Vec<String>,
    pub env: Vec<(&'static str, String)>,
}

/// `cargo` with these arguments.
pub fn cargo(args: &[&str]) -> Line {
    Line { args: args.iter().map(|arg| (*arg).to_owned()).collect(), env: Vec::new() }
}

impl Line {
    /// As one would type it.
    fn shown(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}='{value}' "));
        format!("{}cargo {}", env.collect::<String>(), self.args.join(" "))
    }
}

impl Step {
    /// A step that runs this command.
    pub fn new(name: &'static str, command: Line) -> Self {
        Self { name, command, shown: false }
    }

    /// The same, whose output is shown as it comes.
    pub fn shown(self) -> Self {
        Self { shown: true, ..self }
    }

    /// Runs it. Other output than that is shown only if it fails, when an error says how to repeat it.
    pub fn run(&self) -> Result<()> {
        // On a terminal one sees what is under way; a log gets one line, when it is over.
        if self.shown {
            println!("  ..  {}", self.name);
        } else if io::stdout().is_terminal() {
            print!("  ..  {}", self.name);
            io::stdout().flush()?;
        }
        let stream = || if self.shown { Stdio::inherit() } else { Stdio::piped() };
        let start = Instant::now();
        let output = filter::cargo()
            .args(&self.command.args)
            .envs(self.command.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .and_then(Child::wait_with_output)
            .context("cannot run `cargo`")?;
        let word = if output.status.success() { "ok" } else { "FAILED" };
        let clear = if io::stdout().is_terminal() && !self.shown { "\r" } else { "" };
        println!("{clear}{word:>4}  {:<34}{:>7.1} s", self.name, start.elapsed().as_secs_f64());
        if !output.status.success() {
            io::stdout().write_all(&output.stdout)?;
            io::stderr().write_all(&output.stderr)?;
            bail!("{} failed; repeat it with:\n  {}", self.name, self.command.shown());
        }
        Ok(())
    }
}
