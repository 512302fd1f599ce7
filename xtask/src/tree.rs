//! `cargo xtask tree`: how large the engine is, and how much of it a reader needs for one decision.
//!
//! The engine is `crates/limiter/src` without what operators look at (`inspect.rs`), and without its
//! tests: files named `tests.rs`, files below `tests/`, and items under `#[cfg(test)]`. A line of code is a line with a token that
//! belongs to no comment. A file names a type if one of its tokens is the type's name.

use anyhow::{Context, Result, anyhow, bail};
use gateway::{filter, root, target};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ENGINE: &str = "crates/limiter/src";

/// The files of no decision.
const LEFT_OUT: [&str; 2] = ["tests.rs", "inspect.rs"];

/// The files that explain a decision.
const EXPLAINING: [&str; 3] = ["decide.rs", "decide/resolve.rs", "decide/check.rs"];

/// Prints the numbers, one a line.
pub fn run() -> Result<()> {
    let files = engine()?;
    let types: BTreeSet<&str> = files.iter().flat_map(|file| &file.types).map(String::as_str).collect();
    let named = |is_read: &dyn Fn(&str) -> bool| {
        let read = files.iter().filter(|file| is_read(&file.name));
        let idents: BTreeSet<&str> = read.flat_map(|file| &file.idents).map(String::as_str).collect();
        types.intersection(&idents).count()
    };
    let is_decision = |name: &str| name == "decide.rs" || name.starts_with("decide/");
    let lines: usize = files.iter().map(|file| file.lines.len()).sum();
    let mut lengths: Vec<usize> = files.iter().map(|file| file.lines.len()).collect();
    lengths.sort_unstable();
    println!("files of the engine                                      {}", files.len());
    println!("  lines of code                                          {lines}");
    println!("  median of a file                                       {}", lengths[lengths.len() / 2]);
    println!("types of the engine                                      {}", types.len());
    println!("  that the files of a decision name                      {}", named(&is_decision));
    println!(
        "  that decide.rs names                                   {}",
        named(&|name| name == "decide.rs")
    );
    println!(
        "  that decide.rs, resolve.rs and check.rs name           {}",
        named(&|name| EXPLAINING.contains(&name))
    );
    println!("files a request runs through, from a reservation         {}", passed("fast")?.len());
    println!("  with a compare-and-swap                                {}", passed("swap")?.len());
    let script = fs::read_to_string(root().join("crates/global-redis/src/script.lua"))?;
    println!("lines of script.lua                                      {}", script.lines().count());
    Ok(())
}

/// One file of the engine.
struct File {
    /// The path below the engine's folder.
    name: String,
    /// The numbers of the lines with code.
    lines: BTreeSet<usize>,
    /// The types that the file defines.
    types: Vec<String>,
    idents: BTreeSet<String>,
}

fn engine() -> Result<Vec<File>> {
    let mut paths = Vec::new();
    find(&root().join(ENGINE), &mut paths)?;
    paths.sort();
    let files: Vec<File> = paths.iter().map(|path| read(path)).collect::<Result<_>>()?;
    if !files.iter().any(|file| file.name == EXPLAINING[0]) {
        bail!("{ENGINE} has no {}", EXPLAINING[0]);
    }
    Ok(files)
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match path.is_dir() {
            true if name != "tests" => find(&path, found)?,
            false if name.ends_with(".rs") && !LEFT_OUT.contains(&name) => found.push(path),
            _ => {}
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<File> {
    let text = fs::read_to_string(path)?;
    let tokens: TokenStream =
        text.parse().map_err(|error| anyhow!("cannot read {}: {error}", path.display()))?;
    let name = path.strip_prefix(root().join(ENGINE))?.display().to_string();
    let mut file = File { name, lines: BTreeSet::new(), types: Vec::new(), idents: BTreeSet::new() };
    file.add(tokens, true);
    Ok(file)
}

impl File {
    /// Adds tokens, without attributes that document and without what follows `#[cfg(test)]`. What
    /// `use` names counts where the code uses it, so re-exports do not count.
    /// Types are defined only among the `outer` tokens; elsewhere `type` names an associated type.
    fn add(&mut self, tokens: TokenStream, outer: bool) {
        let mut tokens = tokens.into_iter().peekable();
        let (mut before, mut is_skipped, mut is_import) = (String::new(), false, false);
        while let Some(token) = tokens.next() {
            if matches!(&token, TokenTree::Punct(hash) if hash.as_char() == '#') {
                tokens.next_if(|next| matches!(next, TokenTree::Punct(inner) if inner.as_char() == '!'));
                let Some(TokenTree::Group(attribute)) = tokens.peek() else { continue };
                let attribute = attribute.stream().to_string().replace(' ', "");
                is_skipped |= attribute == "cfg(test)";
                if attribute == "cfg(test)" || attribute.starts_with("doc=") {
                    tokens.next();
                    continue;
                }
            }
            if is_skipped {
                // The item ends with its body, or with a semicolon.
                is_skipped = match &token {
                    TokenTree::Group(body) => body.delimiter() != Delimiter::Brace,
                    TokenTree::Punct(end) => end.as_char() != ';',
                    _ => true,
                };
                continue;
            }
            let span = token.span();
            match token {
                TokenTree::Group(group) if is_import => {
                    let ends = [group.span_open().start().line, group.span_close().start().line];
                    self.lines.extend(ends[0]..=ends[1]);
                }
                TokenTree::Group(group) => {
                    self.lines.extend([group.span_open().start().line, group.span_close().start().line]);
                    self.add(group.stream(), outer && before == "mod");
                }
                TokenTree::Ident(ident) => {
                    self.lines.insert(span.start().line);
                    let ident = ident.to_string();
                    // Not `use<'a>`, which a return type captures.
                    let captures =
                        matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == '<');
                    is_import |= ident == "use" && !captures;
                    if is_import {
                        continue;
                    }
                    if outer && ["struct", "enum", "trait", "type"].contains(&&*before) {
                        self.types.push(ident.clone());
                    }
                    // A group that follows belongs to a module if the word before its name does.
                    before = if before == "mod" { before } else { ident.clone() };
                    self.idents.insert(ident);
                    continue;
                }
                TokenTree::Literal(_) => self.lines.extend(span.start().line..=span.end().line),
                TokenTree::Punct(punct) => {
                    is_import &= punct.as_char() != ';';
                    self.lines.insert(span.start().line);
                }
            }
            before.clear();
        }
    }
}

/// The files of the engine whose code one request runs through, as Callgrind sees it.
fn passed(way: &str) -> Result<BTreeSet<String>> {
    let package = ["--package", "diana-config", "--example", "one_request"];
    let built = filter::cargo()
        .args(["build", "--quiet"])
        .args(package)
        .env("CARGO_TARGET_DIR", target())
        .status()?;
    if !built.success() {
        bail!("the example `one_request` does not compile");
    }
    let counts = target().join("one_request.callgrind");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*one_request::measured*"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(target().join("debug/examples/one_request"))
        .arg(way)
        .output()
        .context("cannot run `valgrind`; on Debian, `apt-get install valgrind` installs it")?;
    if !output.status.success() {
        bail!("the request failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let counts = fs::read_to_string(&counts)?;
    // A file is `fl=(number) path` where it is first named, of a function or of one it calls.
    let is_file = |line: &&str| ["fl=", "fi=", "fe=", "cfl=", "cfi="].iter().any(|key| line.starts_with(key));
    let path = |line: &str| Some(line.split_once(&format!("{ENGINE}/"))?.1.to_owned());
    let engine: BTreeSet<String> = counts.lines().filter(is_file).filter_map(path).collect();
    if engine.is_empty() {
        bail!("Callgrind names no file of the engine");
    }
    Ok(engine)
}
