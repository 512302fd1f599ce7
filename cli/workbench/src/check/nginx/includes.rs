//! Puts the directives of included files in the place of `include`, as nginx does
//! (`ngx_conf_include`).

use crate::source::content::File;
use crate::source::files::{Around, Files};
use crate::source::nginx::{self, Directive};
use regex_lite::Regex;
use std::path::{Component, Path, PathBuf};

/// How many files are open at once, at most; the file that includes itself is one of them.
const MAX_DEPTH: usize = 8;

/// The most files that are read.
const MAX_FILES: usize = 256;

/// The most bytes of an included file.
const MAX_BYTES: u64 = 1 << 20;

/// The directives of a file and of the files that it includes. An `include` whose files cannot be
/// read stays.
pub fn expanded(directives: &[Directive], Around { path, files }: Around) -> Vec<Directive> {
    // nginx takes a relative path from the folder of its main file. An included file is often in a
    // folder within that one.
    let folders = path.ancestors().skip(1).take(2).map(Path::to_path_buf).collect();
    let mut expansion = Expansion { disk: files, folders, files: 0, depth: 0, directives: Vec::new() };
    expansion.add(directives, None);
    expansion.directives
}

struct Expansion<'a> {
    disk: &'a dyn Files,
    folders: Vec<PathBuf>,
    files: usize,
    depth: usize,
    directives: Vec<Directive>,
}

impl Expansion<'_> {
    /// Adds directives, in the place of an `include` with its new parent.
    fn add(&mut self, directives: &[Directive], include: Option<&Directive>) {
        let mut moved = Vec::with_capacity(directives.len());
        for directive in directives {
            let mut directive = directive.clone();
            directive.parent = match directive.parent {
                Some(parent) => moved.get(parent).copied(),
                None => include.and_then(|include| include.parent),
            };
            if let Some(include) = include.filter(|_| directive.block.is_empty()) {
                directive.block.clone_from(&include.block);
            }
            moved.push(self.directives.len());
            if self.include(&directive).is_none() {
                self.directives.push(directive);
            }
        }
    }

    /// Adds the directives of the files that an `include` names; `None` if that is not possible.
    fn include(&mut self, include: &Directive) -> Option<()> {
        let ["include", pattern] = include.texts()[..] else { return None };
        if self.depth == MAX_DEPTH {
            return None;
        }
        let paths = self.folders.iter().find_map(|folder| files(self.disk, &folder.join(pattern)))?;
        self.files = self.files.checked_add(paths.len()).filter(|files| *files <= MAX_FILES)?;
        let mut contents = Vec::new();
        for path in paths {
            contents.push(read(self.disk, &path, include)?);
        }
        self.depth = self.depth.saturating_add(1);
        for directives in contents {
            self.add(&directives, Some(include));
        }
        self.depth = self.depth.saturating_sub(1);
        Some(())
    }
}

/// The directives of a file. Their place is that of the `include` in the file that is checked.
fn read(disk: &dyn Files, path: &Path, include: &Directive) -> Option<Vec<Directive>> {
    let file = File::new(path.to_string_lossy(), disk.text(path, MAX_BYTES)?);
    let place = include.words.last()?.range.clone();
    let mut directives = nginx::directives(&file.text).ok()?;
    for directive in &mut directives {
        let line = directive.words.first().map_or(0, |word| file.position(word.range.start).line);
        directive.included = Some(format!("{}:{line}", file.name));
        directive.words.iter_mut().for_each(|word| word.range = place.clone());
    }
    Some(directives)
}

/// The files that fit a path with `*`, `?` and `[…]`, in order. `None` if there are none, unless
/// the folder exists and the path has such a pattern.
fn files(disk: &dyn Files, pattern: &Path) -> Option<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let name = component.as_os_str().to_string_lossy();
        if !matches!(component, Component::Normal(_)) || !name.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let regex = regex(&name)?;
        let mut fitting = Vec::new();
        for folder in &found {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let names = disk.names(folder).into_iter();
            let is_shown = |entry: &String| name.starts_with('.') || !entry.starts_with('.');
            let names = names.filter(|entry| is_shown(entry) && regex.is_match(entry));
            fitting.extend(names.map(|name| folder.join(name)).take(MAX_FILES));
        }
        fitting.sort();
        fitting.truncate(MAX_FILES);
        found = fitting;
    }
    found.retain(|path| disk.exists(path));
    let is_empty_folder = || {
        let has_pattern =
            pattern.file_name().is_some_and(|name| name.to_string_lossy().contains(['*', '?', '[']));
        has_pattern && pattern.parent().is_some_and(|folder| disk.is_folder(folder))
    };
    (!found.is_empty() || is_empty_folder()).then_some(found)
}

fn regex(pattern: &str) -> Option<Regex> {
    let mut regex = String::from("^");
    for c in pattern.replace("[!", "[^").chars() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' | ']' | '^' | '-' => regex.push(c),
            c => regex.push_str(&regex_lite::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    regex.push('$');
    Regex::new(&regex).ok()
}
