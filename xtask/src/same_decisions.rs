//! `cargo xtask same-decisions BASE`: the same documents and traffic in the engine of another
//! commit and in this one. The cases come from this commit's generator, so only the driver's
//! adapter has to fit the engine of its own commit.
//!
//! ```text
//!   BASE ─ worktree ─► sessions ─┐
//!   cases of this commit ────────┼─► hashes ─► cases that differ ─► the smallest, both traces
//!   this commit ─────► sessions ─┘
//! ```

mod reduce;

use anyhow::{Context, Result, bail};
use gateway::{filter, root, target};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// How many cases that differ are reduced.
const REDUCED: usize = 5;

/// The options of the command.
#[derive(clap::Args)]
pub struct Options {
    /// The commit to compare with
    base: String,
    /// The number of cases
    #[arg(long, default_value_t = 3000)]
    cases: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Leave out documents with `local.max_actors`: hashes decide which cell a full set evicts
    #[arg(long)]
    roomy: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let began = Instant::now();
    let base = build(&checkout(&options.base)?, &folder().join("target"))?;
    let here = build(root(), &target())?;
    let cases = cases(&here, options)?;
    println!("both drivers and {} cases are ready, in {:.0} s", cases.len(), began.elapsed().as_secs_f64());
    let (of_base, of_here) = (start_hashes(&base)?, start_hashes(&here)?);
    let (of_base, of_here) = (hashes(of_base)?, hashes(of_here)?);
    // A driver that panics prints no more hashes.
    let differing: Vec<&Value> = (0..)
        .zip(&cases)
        .filter(|(at, _)| *at <= of_base.len().min(of_here.len()))
        .filter(|(at, _)| of_base.get(*at).is_none() || of_base.get(*at) != of_here.get(*at))
        .map(|(_, case)| case)
        .collect();
    let (mut base, mut here) = (Driver::start(base)?, Driver::start(here)?);
    let all = differing.len();
    let mut unlike = Vec::new();
    for case in differing {
        if base.comparable(case)? != here.comparable(case)? {
            unlike.push(case);
        }
    }
    let differing = unlike;
    println!(
        "{} of {} cases differ, after {:.0} s; {} more differ only as described in same_decisions.rs",
        differing.len(),
        cases.len(),
        began.elapsed().as_secs_f64(),
        all.saturating_sub(differing.len())
    );
    if differing.is_empty() {
        return Ok(());
    }
    let seeds: Vec<String> = differing.iter().take(20).map(|case| case["seed"].to_string()).collect();
    println!("the first of them have the seeds {}", seeds.join(", "));
    for case in differing.iter().take(20) {
        for (driver, name) in [(&mut base, "base"), (&mut here, "here")] {
            let traces = folder().join(format!("{}.{name}", case["seed"]));
            fs::write(traces, driver.trace(case)?.join("\n"))?;
        }
    }
    let mut smallest: Option<Value> = None;
    for case in differing.iter().take(REDUCED) {
        let reduced =
            reduce::reduce(
                (*case).clone(),
                &mut |case| Ok(base.comparable(case)? != here.comparable(case)?),
            )?;
        let is_smaller = smallest.as_ref().is_none_or(|known| reduce::size(&reduced) < reduce::size(known));
        smallest = if is_smaller { Some(reduced) } else { smallest };
    }
    let smallest = smallest.unwrap_or_default();
    println!("\nthe smallest case, {}:", folder().join("smallest.json").display());
    fs::write(folder().join("smallest.json"), format!("{smallest}\n"))?;
    show(&smallest, &base.trace(&smallest)?, &here.trace(&smallest)?);
    bail!("{} of {} cases differ; their traces are in {}", differing.len(), cases.len(), folder().display())
}

fn folder() -> PathBuf {
    target().join("same-decisions")
}

/// The commit in a worktree of its own.
fn checkout(commit: &str) -> Result<PathBuf> {
    let worktree = folder().join("base");
    let git = |arguments: &[&str], at: &Path| -> Result<()> {
        let status =
            Command::new("git").args(arguments).current_dir(at).status().context("cannot run `git`")?;
        if status.success() { Ok(()) } else { bail!("`git {}` fails", arguments.join(" ")) }
    };
    let revision = Command::new("git")
        .args(["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")])
        .current_dir(root())
        .output()
        .context("cannot run `git`")?;
    if !revision.status.success() {
        bail!("`{commit}` is no commit");
    }
    let revision = String::from_utf8_lossy(&revision.stdout).trim().to_owned();
    if worktree.join(".git").exists() {
        git(&["checkout", "--quiet", "--force", "--detach", &revision], &worktree)?;
    } else {
        git(&["worktree", "prune"], root())?;
        let path = worktree.display().to_string();
        git(&["worktree", "add", "--quiet", "--detach", &path, &revision], root())?;
    }
    if !worktree.join("tests/sessions/Cargo.toml").exists() {
        bail!("`{commit}` has no driver, tests/sessions");
    }
    Ok(worktree)
}

/// The driver of the commit in this folder.
fn build(source: &Path, target: &Path) -> Result<PathBuf> {
    let status = filter::cargo()
        .args(["build", "--quiet", "--profile", "tool", "--package", "sessions"])
        .current_dir(source)
        .env("CARGO_TARGET_DIR", target)
        .status()
        .context("cannot run `cargo`")?;
    if !status.success() {
        bail!("the driver in {} does not compile", source.display());
    }
    Ok(target.join("tool/sessions"))
}

/// Cases of this commit's generator, also in a file.
fn cases(driver: &Path, options: &Options) -> Result<Vec<Value>> {
    let output = Command::new(driver)
        .args(["generate", "--cases", &options.cases.to_string(), "--seed", &options.seed.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("the generator fails");
    }
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut cases: Vec<Value> = lines.map(serde_json::from_slice).collect::<Result<_, _>>()?;
    cases.retain(|case| !options.roomy || case["document"]["local"]["max_actors"].is_null());
    let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
    fs::write(folder().join("cases.jsonl"), lines)?;
    Ok(cases)
}

/// Starts a driver on all cases.
fn start_hashes(driver: &Path) -> Result<Child> {
    let cases = File::open(folder().join("cases.jsonl"))?;
    Ok(Command::new(driver).arg("hashes").stdin(cases).stdout(Stdio::piped()).spawn()?)
}

fn hashes(driver: Child) -> Result<Vec<String>> {
    let output = driver.wait_with_output()?;
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

/// A driver that runs one case after the other.
struct Driver {
    program: PathBuf,
    child: Child,
    cases: ChildStdin,
    traces: BufReader<ChildStdout>,
}

impl Driver {
    fn start(program: PathBuf) -> Result<Driver> {
        let mut child = Command::new(&program)
            .arg("traces")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (cases, traces) =
            child.stdin.take().zip(child.stdout.take()).context("a driver without pipes")?;
        Ok(Driver { program, child, cases, traces: BufReader::new(traces) })
    }

    /// All that the case shows. A driver that panics is started again.
    fn trace(&mut self, case: &Value) -> Result<Vec<String>> {
        writeln!(self.cases, "{case}")?;
        self.cases.flush()?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.traces.read_line(&mut line)? == 0 {
                self.child.wait()?;
                *self = Driver::start(self.program.clone())?;
                lines.push("    the driver panics".into());
                return Ok(lines);
            }
            match line.trim_end_matches('\n') {
                "" => return Ok(lines),
                line => lines.push(line.to_owned()),
            }
        }
    }
}

impl Driver {
    /// All that the case shows, without what has changed on purpose.
    fn comparable(&mut self, case: &Value) -> Result<Vec<String>> {
        Ok(self.trace(case)?.iter().map(|line| comparable(line)).collect())
    }
}

/// A line of a trace without what later versions show otherwise, although they decide the same: the
/// order of the checks, which of several shadow rules is named first, how long gRPC's own clients
/// wait, and the words of a mistake.
fn comparable(line: &str) -> String {
    if let Some(mistake) = line.strip_prefix("refused: ") {
        return mistake.split(": ").next().unwrap_or_default().into();
    }
    let (decision, response) = line.split_once(" | ").unwrap_or((line, ""));
    let (head, checks) = decision.split_once("; ").unwrap_or((decision, ""));
    let (checks, events) = checks.split_once(" [").unwrap_or((checks, ""));
    let mut checks: Vec<&str> = checks.split("; ").collect();
    checks.sort_unstable();
    let mut parts: Vec<String> = Vec::new();
    for part in head.split(", ") {
        match part.split_once(' ') {
            // Without a refusal, a rule in shadow may decide what is shown.
            Some(("decisive", _)) if !head.contains("refused by") => {}
            Some((word @ ("shadowed" | "refused"), names)) => {
                let mut names: Vec<&str> = names.split(',').collect();
                names.sort_unstable();
                parts.push(format!("{word} {}", names.join(",")));
            }
            _ => parts.push(part.into()),
        }
    }
    let headers = response.split(", ").map(str::trim_end);
    let response = headers.filter(|header| !header.starts_with("grpc-retry-pushback-ms: "));
    let response = response.collect::<Vec<&str>>().join(", ");
    [&*parts.join(", "), &*checks.join("; "), events, &*response].join(" | ")
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a case and its traces. A line that both have is printed once.
fn show(case: &Value, base: &[String], here: &[String]) {
    println!("{:#}", case["document"]);
    let numbered = |list: &Value, letter: &str| {
        let list = list.as_array().into_iter().flatten().enumerate();
        list.for_each(|(at, item)| println!("{:>4} {item}", format!("{letter}{at}")));
    };
    numbered(&case["requests"], "r");
    numbered(&case["steps"], "");
    println!();
    for at in 0..base.len().max(here.len()) {
        match (base.get(at), here.get(at)) {
            (base, here) if base == here => println!("both {}", base.map_or("", |line| line)),
            (base, here) => {
                println!("base {}", base.map_or("-", |line| line));
                println!("here {}", here.map_or("-", |line| line));
            }
        }
    }
    println!();
}
