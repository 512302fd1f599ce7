//! From the paths that code mentions to the files that define what they name.

use super::tree::Tree;

/// One file uses another, by this path.
pub struct Usage {
    pub from: usize,
    pub to: usize,
    pub line: usize,
    pub path: String,
}

/// What a path names: a module, an item of a file, or both, as `check` may name a module and a
/// function.
#[derive(Clone, Copy, Default)]
struct Found {
    module: Option<usize>,
    file: Option<usize>,
}

/// All uses of files by other files.
pub fn usages(tree: &Tree) -> Vec<Usage> {
    let mut usages = Vec::new();
    for (number, module) in tree.modules.iter().enumerate() {
        for mention in &module.mentions {
            let found = Search { tree, seen: Vec::new() }.path(number, &mention.path);
            if let Some(to) = found.file.filter(|file| *file != module.file) {
                let path = mention.path.join("::");
                usages.push(Usage { from: module.file, to, line: mention.line, path });
            }
        }
    }
    usages
}

/// The search for one path.
struct Search<'t> {
    tree: &'t Tree,
    /// Names under way, so that imports in a circle end.
    seen: Vec<(usize, String)>,
}

impl Search<'_> {
    /// What a path in this module names. Paths of other crates name nothing.
    fn path(&mut self, module: usize, path: &[String]) -> Found {
        let Some((first, rest)) = path.split_first() else { return Found::default() };
        let in_module = |module| Found { module, file: None };
        let child = self.tree.modules[module].children.get(first).copied();
        let mut found = match first.as_str() {
            // Only a module has a `::` after its name, whatever else has the name.
            _ if child.is_some() && !rest.is_empty() => in_module(child),
            "crate" => in_module(Some(0)),
            "self" => in_module(Some(module)),
            "super" => in_module(self.tree.modules[module].parent),
            name => self.name(module, name),
        };
        for name in rest {
            let next = match (found.module, name.as_str()) {
                (Some(module), "super") => in_module(self.tree.modules[module].parent),
                (Some(module), "self") => in_module(Some(module)),
                (Some(module), name) => self.name(module, name),
                (None, _) => Found::default(),
            };
            if next.module.is_none() && next.file.is_none() {
                // What follows a type is a variant or an item of an `impl`.
                return Found { module: None, file: found.file };
            }
            found = next;
        }
        found
    }

    /// What a name stands for in this module.
    fn name(&mut self, module: usize, name: &str) -> Found {
        if self.seen.iter().any(|(at, seen)| *at == module && seen == name) {
            return Found::default();
        }
        self.seen.push((module, name.to_owned()));
        let tree = self.tree;
        let here = &tree.modules[module];
        let mut found = Found {
            module: here.children.get(name).copied(),
            file: here.items.contains(name).then_some(here.file),
        };
        let imports = here.imports.iter().filter(|(import, _)| import == name);
        for (_, path) in imports {
            let import = self.path(module, path);
            found.module = found.module.or(import.module);
            found.file = found.file.or(import.file);
        }
        if found.module.is_none() && found.file.is_none() {
            for glob in &here.globs {
                let Some(of) = self.path(module, glob).module else { continue };
                found = self.name(of, name);
                if found.module.is_some() || found.file.is_some() {
                    break;
                }
            }
        }
        self.seen.pop();
        found
    }
}
