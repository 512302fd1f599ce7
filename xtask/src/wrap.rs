//! `cargo xtask wrap [--check] [PATH…]`: comments and Markdown prose have at most 100 columns.
//!
//! rustfmt wraps comments with an unstable option only. Code may be wider, as `rustfmt.toml` says.

mod markdown;
mod paragraph;
mod rust;
mod width;

use crate::step::Step;
use anyhow::{Context, Result, bail};
use gateway::root;
use std::fs;
use std::path::{Path, PathBuf};
use width::{TooLong, WIDTH};

/// Folders that are not the repository's own text.
const SKIPPED: [&str; 3] = [".git", "target", "corpus"];

/// `cargo xtask bench` writes these files, a paragraph a line.
const GENERATED: [&str; 3] = ["docs/bench/counts.md", "docs/bench/global.md", "docs/bench/speed.md"];

/// Wraps the files below these paths, or of the whole repository, and lists what a person has to
/// shorten. With `check`, no file changes.
pub fn run(check: bool, paths: &[PathBuf]) -> Result<()> {
    if check && paths.is_empty() {
        return step().run();
    }
    let here = [root().to_owned()];
    let files = files(if paths.is_empty() { &here } else { paths })?;
    if !check {
        for file in &files {
            wrap(file).with_context(|| format!("cannot wrap `{}`", file.display()))?;
        }
    }
    report(&files)
}

/// The check of the whole repository.
pub fn step() -> Step {
    Step::check("width of comments and prose", check, "cargo xtask wrap --check")
}

/// Fails with a list of the lines of the repository that are too long.
fn check() -> Result<()> {
    report(&files(&[root().to_owned()])?)
}

fn report(files: &[PathBuf]) -> Result<()> {
    let mut lines = Vec::new();
    for file in files {
        let text = read(file)?;
        let found = if is_rust(file) { rust::too_long(&text) } else { Ok(markdown::too_long(&text)) };
        let name = file.strip_prefix(root()).unwrap_or(file).display();
        for TooLong { line, columns, what } in found.with_context(|| format!("`{name}`"))? {
            lines.push(format!("{name}:{line}: {what}, {columns} columns"));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    bail!(
        "{} lines have more than {WIDTH} columns; `cargo xtask wrap` wraps paragraphs:\n{}",
        lines.len(),
        lines.join("\n")
    )
}

/// Wraps one file if a paragraph in the file is too wide.
fn wrap(file: &Path) -> Result<()> {
    let text = read(file)?;
    let wrapped = if is_rust(file) { rust::wrapped(&text)? } else { markdown::wrapped(&text) };
    if wrapped != text {
        fs::write(file, wrapped)?;
        println!("{}", file.strip_prefix(root()).unwrap_or(file).display());
    }
    Ok(())
}

/// The Rust and Markdown files at or below these paths, in order.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        add(path, &mut files).with_context(|| format!("cannot read `{}`", path.display()))?;
    }
    files.sort();
    Ok(files)
}

fn add(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        if path.file_name().is_some_and(|name| SKIPPED.iter().any(|skipped| name == *skipped)) {
            return Ok(());
        }
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // A link may lead out of the repository.
            if !entry.file_type()?.is_symlink() {
                add(&entry.path(), files)?;
            }
        }
    } else if GENERATED.iter().any(|file| path.ends_with(file)) {
        return Ok(());
    } else if is_rust(path) || path.extension().is_some_and(|extension| extension == "md") {
        files.push(path.to_owned());
    }
    Ok(())
}

fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs")
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))
}

#[cfg(test)]
mod tests;
