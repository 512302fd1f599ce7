//! Runs the files of the suite, and compares what fails with the list of differences.

use crate::differences::{DIFFERENCES, FILES, NOT_RUN};
use anyhow::{Context, Result, bail, ensure};
use gateway::{Shell, envoy, filter, target};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the files whose names contain `filter`, or all. Fails if an assertion fails that is not
/// listed, or passes although it is.
pub fn run(source: &Path, filter: Option<&str>) -> Result<()> {
    ensure!(
        source.join("lib/Test/Nginx.pm").is_file(),
        "`{}` is no checkout of github.com/nginx/nginx-tests",
        source.display()
    );
    let module = match Shell::of_run() {
        Shell::Wasm => filter::filter()?,
        Shell::Native => filter::module()?,
    };
    let suite = Suite { source, wrapper: wrapper(module)?, envoy: envoy::find()? };
    let mut unexpected = suite.unknown_files()?;
    let (mut agreeing, mut differing) = (0, 0);
    for file in FILES.iter().filter(|file| filter.is_none_or(|filter| file.contains(filter))) {
        let (assertions, said) = suite.assertions(file)?;
        let outcome = compare(file, &assertions);
        println!("{file}: {} agree, {} differ as listed", outcome.agreeing, outcome.differing.len());
        for (name, why) in &outcome.differing {
            println!("    differs: {name}: {why}");
        }
        for what in &outcome.unexpected {
            println!("    UNEXPECTED: {what}");
        }
        if !outcome.unexpected.is_empty() {
            println!("{said}");
        }
        agreeing += outcome.agreeing;
        differing += outcome.differing.len();
        unexpected.extend(outcome.unexpected.into_iter().map(|what| format!("{file}: {what}")));
    }
    println!("{agreeing} assertions agree, {differing} differ as listed");
    if filter.is_none() {
        println!("not run:");
        for (file, why) in NOT_RUN {
            println!("    {file}: {why}");
        }
    }
    if !unexpected.is_empty() {
        bail!("not listed in differences.rs:\n  {}", unexpected.join("\n  "));
    }
    Ok(())
}

/// A script that the suite takes for nginx: it starts this program with the file that Envoy loads.
fn wrapper(filter: &Path) -> Result<PathBuf> {
    let folder = target().join("foreign");
    fs::create_dir_all(&folder)?;
    let (path, this) = (folder.join("nginx"), env::current_exe()?);
    let line = format!("exec '{}' nginx '{}' \"$@\"", this.display(), filter.display());
    fs::write(&path, format!("#!/bin/sh\n{line}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// How often a file runs whose Envoy does not start in time.
const ATTEMPTS: u32 = 4;

/// What the harness asserts about the log at the end of each file, which says nothing about limits.
const OF_THE_HARNESS: [&str; 2] = ["no alerts", "no sanitizer errors"];

struct Suite<'a> {
    source: &'a Path,
    wrapper: PathBuf,
    envoy: PathBuf,
}

/// An assertion as the Test Anything Protocol reports it.
#[derive(Debug, PartialEq)]
struct Assertion {
    is_ok: bool,
    name: String,
}

impl Suite<'_> {
    /// Tests of limits that neither run nor are listed with a reason.
    fn unknown_files(&self) -> Result<Vec<String>> {
        let mut unknown = BTreeSet::new();
        for entry in fs::read_dir(self.source)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let is_known = FILES.contains(&&*name) || NOT_RUN.iter().any(|(file, _)| *file == name);
            if name.contains("limit_") && name.ends_with(".t") && !is_known {
                unknown.insert(format!("{name}: a file that is not listed"));
            }
        }
        Ok(unknown.into_iter().collect())
    }

    /// Runs a file. Returns its assertions, and what it says about them.
    fn assertions(&self, file: &str) -> Result<(Vec<Assertion>, String)> {
        let mut attempt = 1;
        loop {
            let (report, said) = self.perl(file)?;
            // The suite gives up after five seconds, too few for Envoy on a busy machine.
            if attempt == ATTEMPTS || !said.contains("Can't start nginx") {
                let found = assertions(&report).with_context(|| format!("{file}:\n{said}"))?;
                return Ok((found, said));
            }
            attempt += 1;
        }
    }

    /// What a file writes to standard output and to standard error.
    fn perl(&self, file: &str) -> Result<(String, String)> {
        let output = Command::new("perl")
            .arg(file)
            .current_dir(self.source)
            .env("TEST_NGINX_BINARY", &self.wrapper)
            .env("ENVOY", &self.envoy)
            .output()
            .context("cannot run `perl`: install it with `apt-get install perl`")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((text(&output.stdout), text(&output.stderr)))
    }
}

/// The assertions in a report. One that ends early lacks some, which is reported as a failed one.
fn assertions(report: &str) -> Result<Vec<Assertion>> {
    let mut planned = None;
    let mut found = Vec::new();
    for line in report.lines() {
        if let Some(plan) = line.strip_prefix("1..") {
            let number = plan.split_whitespace().next().unwrap_or_default();
            planned = Some(number.parse::<usize>().with_context(|| format!("no plan: `{line}`"))?);
        } else if let Some((is_ok, rest)) = line
            .strip_prefix("ok ")
            .map(|rest| (true, rest))
            .or_else(|| Some((false, line.strip_prefix("not ok ")?)))
        {
            let name = rest.split_once(" - ").map_or("", |(_, name)| name);
            let (name, note) = name.split_once(" # ").unwrap_or((name, ""));
            found.push(Assertion { is_ok: is_ok || note.starts_with("TODO"), name: name.to_owned() });
        }
    }
    match planned {
        None | Some(0) => bail!("nothing ran:\n{report}"),
        Some(planned) if planned != found.len() => {
            let name = format!("{} of {planned} assertions ran", found.len());
            found.push(Assertion { is_ok: false, name });
        }
        Some(_) => {}
    }
    Ok(found)
}

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    agreeing: usize,
    /// What differs, and why.
    differing: Vec<(String, &'static str)>,
    unexpected: Vec<String>,
}

/// Compares the assertions of a file with the list of differences.
fn compare(file: &str, assertions: &[Assertion]) -> Outcome {
    let mut outcome = Outcome::default();
    for Assertion { is_ok, name } in assertions {
        let listed = DIFFERENCES.iter().find(|listed| listed.file == file && listed.assertion == name);
        match (is_ok, listed) {
            (true, None) => outcome.agreeing += usize::from(!OF_THE_HARNESS.contains(&&**name)),
            (false, Some(listed)) => outcome.differing.push((name.clone(), listed.why)),
            (false, None) => outcome.unexpected.push(format!("`{name}` fails")),
            (true, Some(_)) => outcome.unexpected.push(format!("`{name}` agrees, but is listed")),
        }
    }
    let is_missing = |assertion: &str| assertions.iter().all(|found| found.name != assertion);
    let listed = DIFFERENCES.iter().filter(|listed| listed.file == file);
    let gone = listed.filter(|listed| is_missing(listed.assertion));
    outcome.unexpected.extend(gone.map(|listed| format!("`{}` is listed, but not there", listed.assertion)));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = "1..4\nok 1 - request\n# a note\nnot ok 2 - rejected\nnot ok 3 - later # TODO alerts\n";
        let found = assertions(report).unwrap();
        let shown: Vec<_> = found.iter().map(|found| (found.is_ok, &*found.name)).collect();
        assert_eq!(
            shown,
            [(true, "request"), (false, "rejected"), (true, "later"), (false, "3 of 4 assertions ran")]
        );
        assert!(assertions("1..0 # SKIP no http_v2 available").is_err());
        assert!(assertions("").is_err());
    }

    #[test]
    fn only_listed_differences_are_expected() {
        let listed = &DIFFERENCES[0];
        let of = |is_ok, name: &str| Assertion { is_ok, name: name.to_owned() };
        let others = || DIFFERENCES.iter().skip(1).filter(|other| other.file == listed.file);
        let found = [of(true, "x"), of(false, "y"), of(false, listed.assertion)];
        let found: Vec<_> =
            found.into_iter().chain(others().map(|other| of(true, other.assertion))).collect();
        let outcome = compare(listed.file, &found);
        assert_eq!(outcome.agreeing, 1);
        assert_eq!(outcome.differing, [(listed.assertion.to_owned(), listed.why)]);
        assert_eq!(outcome.unexpected.len(), 1 + others().count());
        assert!(FILES.contains(&listed.file) && !compare(listed.file, &[]).unexpected.is_empty());
    }
}
