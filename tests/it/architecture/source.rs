//! The source as text: its files, and the names in them. The reader works line by line on formatted
//! Rust: it leaves out comments, but not text in quotes.

use std::fs;
use std::path::{Path, PathBuf};

/// One file of the filter or of a crate that the filter uses.
pub struct File {
    /// The path from the root of the repository.
    pub path: String,
    pub text: String,
}

/// Every file of the filter and of the crates that the filter uses.
pub fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let is_shipped = |folder: &PathBuf| !folder.ends_with("testing");
    let mut folders: Vec<_> = crates.filter(is_shipped).map(|folder| folder.join("src")).collect();
    folders.push(root.join("src"));
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                files.push(File { path: name, text: fs::read_to_string(&path).unwrap() });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 30, "the source is not where it was");
    files
}

impl File {
    /// Whether the file belongs to the adapter of the host.
    pub fn is_host(&self) -> bool {
        self.path.starts_with("src/")
    }

    pub fn is_tests(&self) -> bool {
        self.path.ends_with("/tests.rs")
    }

    /// The lines of the file, numbered, without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let uncommented = |line: &'_ str| line.find("//").unwrap_or(line.len());
        self.text
            .lines()
            .map(move |line| &line[..uncommented(line)])
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }

    /// The lines with one of `names`.
    pub fn lines_with(&self, names: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for (number, line) in self.code() {
            found.extend(names.iter().filter(|name| line.contains(**name)).map(|name| {
                let path = &self.path;
                format!("{path}:{number} names `{name}`")
            }));
        }
        found
    }
}
