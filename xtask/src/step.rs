//! The steps of `lint`, `test` and other commands: a name, what runs, and how to repeat it.

use anyhow::{Context, Result, bail};
use gateway::{filter, root};
use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// One line of a command's report.
pub struct Step {
    name: &'static str,
    work: Work,
    /// Whether the output is worth reading even if the step succeeds.
    shown: bool,
}

enum Work {
    Cargo(Line),
    /// A check of this tool itself, and the command that repeats the check.
    Check(fn() -> Result<()>, &'static str),
}

/// A cargo command that can be run and be shown.
pub struct Line {
    pub args: Vec<String>,
    pub env: Vec<(&'static str, String)>,
    /// The toolchain, if not the one that runs this tool.
    pub toolchain: Option<String>,
}

/// `cargo` with these arguments.
pub fn cargo(args: &[&str]) -> Line {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    Line { args, env: Vec::new(), toolchain: None }
}

impl Line {
    /// As one would type the command.
    fn shown(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}='{value}' "));
        let toolchain = self.toolchain.iter().map(|toolchain| format!("+{toolchain} "));
        format!("{}cargo {}{}", env.collect::<String>(), toolchain.collect::<String>(), self.args.join(" "))
    }

    fn command(&self) -> Command {
        let mut command = match &self.toolchain {
            None => filter::cargo(),
            Some(toolchain) => {
                let mut command = Command::new("rustup");
                command.args(["run", toolchain, "cargo"]).current_dir(root());
                command
            }
        };
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Step {
    /// A step that runs this command.
    pub fn new(name: &'static str, command: Line) -> Self {
        Self { name, work: Work::Cargo(command), shown: false }
    }

    /// A step that runs a check of this tool, which `command` repeats.
    pub fn check(name: &'static str, run: fn() -> Result<()>, command: &'static str) -> Self {
        Self { name, work: Work::Check(run, command), shown: false }
    }

    /// The same step, but the output is shown as it comes.
    pub fn shown(self) -> Self {
        Self { shown: true, ..self }
    }

    /// Runs the step. Output that is not shown appears only if the step fails; the error says how
    /// to repeat the step.
    pub fn run(&self) -> Result<()> {
        // A terminal shows what is under way; a log gets one line, when the step is over.
        if self.shown {
            println!("  ..  {}", self.name);
        } else if io::stdout().is_terminal() {
            print!("  ..  {}", self.name);
            io::stdout().flush()?;
        }
        let start = Instant::now();
        match &self.work {
            Work::Cargo(line) => {
                let stream = || if self.shown { Stdio::inherit() } else { Stdio::piped() };
                let output = line
                    .command()
                    .stdin(Stdio::null())
                    .stdout(stream())
                    .stderr(stream())
                    .spawn()
                    .and_then(Child::wait_with_output)
                    .context("cannot run `cargo`")?;
                self.report(output.status.success(), start);
                if !output.status.success() {
                    io::stdout().write_all(&output.stdout)?;
                    io::stderr().write_all(&output.stderr)?;
                    bail!("{} failed; repeat it with:\n  {}", self.name, line.shown());
                }
            }
            Work::Check(run, command) => {
                let result = run();
                self.report(result.is_ok(), start);
                if let Err(error) = result {
                    bail!("{} failed; repeat it with:\n  {command}\n\n{error:#}", self.name);
                }
            }
        }
        Ok(())
    }

    fn report(&self, is_ok: bool, start: Instant) {
        let word = if is_ok { "ok" } else { "FAILED" };
        let clear = if io::stdout().is_terminal() && !self.shown { "\r" } else { "" };
        println!("{clear}{word:>4}  {:<34}{:>7.1} s", self.name, start.elapsed().as_secs_f64());
    }
}

/// Runs these steps in order and stops at the first that fails.
pub fn run_all(steps: &[Step]) -> Result<()> {
    let start = Instant::now();
    steps.iter().try_for_each(Step::run)?;
    println!("all is well, in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// What cargo knows of the packages of a workspace.
pub fn metadata(manifest: &str) -> Result<serde_json::Value> {
    let arguments = ["metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest];
    let output = filter::cargo().args(arguments).output().context("cannot run `cargo`")?;
    if !output.status.success() {
        bail!("`{manifest}` cannot be read:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
