//! Runs the cases of test files: requests on a virtual clock, and the outcomes that they expect.
//! The engine decides, as for `explain`.

mod args;
mod junit;
mod watch;

pub use args::Args;
pub use diana_workbench::test::*;

use crate::{files, output};
use miette::{IntoDiagnostic, Result, bail, miette};
use serde_json::json;
use std::collections::HashSet;
use std::fs;
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let code = run_once(args)?;
    if args.watch { watch::run(args) } else { Ok(code) }
}

/// Runs all files once. Returns 1 if a case failed, or if `--require-coverage` misses something,
/// and 2 if a file cannot be read.
fn run_once(args: &Args) -> Result<ExitCode> {
    let files = test_files(&args.files)?;
    if files.is_empty() {
        bail!("found no `*.test.yaml` here: name a file, or a folder that has one");
    }
    let (mut reports, mut unreadable) = (Vec::new(), Vec::new());
    for file in &files {
        match file_report(file) {
            Ok(report) => reports.push(report),
            Err(error) => {
                crate::print_error(&error);
                unreadable.push(file.display().to_string());
            }
        }
    }
    if let Some(path) = &args.junit {
        let written = fs::write(path, junit::text(&reports, &unreadable)?);
        written.map_err(|error| miette!("--junit: cannot write `{}`: {error}", path.display()))?;
    }
    let same = |path: &str| Path::new(path).canonicalize().unwrap_or_else(|_| path.into());
    let coverage = DocumentCoverage::of(&reports, &same);
    match args.form() {
        args::Form::Text => output::print(&text(&reports, &coverage, stdout().is_terminal()))?,
        args::Form::Tap => output::print(&tap(&reports, &unreadable))?,
        args::Form::Json => output::print_json(&json!({"files": reports, "coverage": coverage}))?,
    }
    let is_failed = reports.iter().any(FileReport::is_failed);
    let is_uncovered = args.require_coverage && coverage.iter().any(|one| !one.uncovered.is_empty());
    Ok(ExitCode::from(match unreadable.is_empty() {
        true => u8::from(is_failed || is_uncovered),
        false => UNREADABLE,
    }))
}

/// The exit code if a file cannot be read.
const UNREADABLE: u8 = 2;

/// Runs the cases of a test file against the document that it names.
pub fn file_report(path: &Path) -> Result<FileReport> {
    let test = files::read_at(path)?.0;
    let read = TestFile::of(test)?;
    let document = read.document(path);
    let document_name = document.display().to_string();
    let (document_file, line) = match files::read_at(&document) {
        Ok(found) => found,
        Err(error) => return Err(read.unreadable(&document, &error.root_cause().to_string())),
    };
    let (document_file, json) = crate::valid::document_of(document_file, line)?;
    read.run(&json, &document_file, &document_name, &mut |_| {})
}

/// These test files and those in these folders; by default those in the current folder.
fn test_files(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let here = [PathBuf::from(".")];
    let named = if named.is_empty() { &here[..] } else { named };
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() {
            let mut found = Vec::new();
            collect(path, &mut found)?;
            found.sort();
            // Without `./`, as people name the files.
            let shown = |path: PathBuf| path.strip_prefix(".").map(Path::to_owned).unwrap_or(path);
            files.extend(found.into_iter().map(shown));
        } else {
            files.push(path.clone());
        }
    }
    let mut known = HashSet::new();
    files.retain(|file| known.insert(file.canonicalize().unwrap_or_else(|_| file.clone())));
    Ok(files)
}

/// The test files in and below a folder, except in hidden folders.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = |error| miette!("cannot read `{}`: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.into_diagnostic()?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        // A link to a folder may lead back to it.
        if path.is_dir() && !path.is_symlink() {
            collect(&path, found)?;
        } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    Ok(())
}
