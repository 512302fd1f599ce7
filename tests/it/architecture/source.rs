//! The source as text: its files, their modules, and what they name.
//!
//! It reads Rust line by line, as it is formatted here: comments are left out, text in quotes is
//! not.

use std::fs;
use std::path::Path;

/// One file of `src/`.
pub struct File {
    /// From the root of the repository.
    pub path: String,
    pub text: String,
}

/// Every file of `src/`.
pub fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut files, mut folders) = (Vec::new(), vec![root.join("src")]);
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

/// The modules of `src/lib.rs`, outermost level first.
pub fn levels() -> Vec<Vec<String>> {
    let files = files();
    let root = files.iter().find(|file| file.is_root()).unwrap();
    let mut levels = vec![Vec::new()];
    for (_, line) in root.code() {
        let module = line.trim().trim_start_matches("pub ").strip_prefix("mod ");
        match module.and_then(|rest| rest.strip_suffix(';')) {
            Some(module) => levels.last_mut().unwrap().push(module.to_string()),
            None if line.is_empty() => levels.push(Vec::new()),
            None => {}
        }
    }
    levels.retain(|level| !level.is_empty());
    levels
}

impl File {
    /// The module of `src/lib.rs` that this file belongs to.
    pub fn module(&self) -> &str {
        let path = self.path.trim_start_matches("src/");
        path.split('/').next().unwrap().trim_end_matches(".rs")
    }

    pub fn is_root(&self) -> bool {
        self.path == "src/lib.rs"
    }

    pub fn is_tests(&self) -> bool {
        self.path.ends_with("/tests.rs")
    }

    /// Its lines, numbered, without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let uncommented = |line: &'_ str| line.find("//").unwrap_or(line.len());
        self.text
            .lines()
            .map(move |line| &line[..uncommented(line)])
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }

    /// Where it names one of `names`.
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

    /// The modules of the crate's root that it names, with the lines: `crate::a`,
    /// `crate::{a, b::c}`, and `super::a` where it climbs so far.
    pub fn uses(&self, modules: &[String]) -> Vec<(usize, String)> {
        let mut code = String::new();
        let mut starts = Vec::new();
        for (_, line) in self.code() {
            starts.push(code.len());
            code.push_str(line);
            code.push('\n');
        }
        let line_of = |at: usize| starts.partition_point(|start| *start <= at);
        let mut used = Vec::new();
        for (at, found) in code.match_indices("crate::") {
            let rest = &code[at + found.len()..];
            used.extend(heads(rest).into_iter().map(|name| (line_of(at), name)));
        }
        for (at, found) in code.match_indices("super::") {
            let name = head(&code[at + found.len()..]);
            if modules.contains(&name) && !self.has_neighbour(&name) {
                used.push((line_of(at), name));
            }
        }
        used
    }

    /// Whether a module of the same name stands somewhere in its own folder: `super::` means that
    /// one.
    fn has_neighbour(&self, name: &str) -> bool {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        root.join("src").join(self.module()).join(format!("{name}.rs")).exists()
    }
}

fn head(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first names of a path, or of each path of a group.
fn heads(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return vec![head(rest)];
    };
    let (mut depth, mut names, mut fresh) = (0, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            _ if fresh && !c.is_whitespace() => {
                names.push(head(&group[at..]));
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn what_a_file_uses_is_found() {
    let text = "use crate::table::Worth;\nuse crate::{\n    actor::{key, Named}, // crate::no\n    time,\n};\n\
                fn f() -> crate::store::Fault { super::policy::x() }\n";
    let file = File { path: "src/algorithm/x.rs".into(), text: text.into() };
    let used = file.uses(&["policy".to_string()]);
    let expected = [(1, "table"), (2, "actor"), (2, "time"), (6, "store"), (6, "policy")];
    assert_eq!(used, expected.map(|(line, name)| (line, name.to_string())));
}
