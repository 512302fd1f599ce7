//! The modules of a crate: the file of each, the names in it, and the paths that its code mentions.

use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::{Attribute, Meta};

/// A crate as its files declare the modules. The first module is the root.
#[derive(Default)]
pub struct Tree {
    pub files: Vec<PathBuf>,
    pub modules: Vec<Module>,
}

/// A module, of a file of its own or inline.
#[derive(Default)]
pub struct Module {
    pub parent: Option<usize>,
    pub file: usize,
    /// Items that the module defines, but for modules.
    pub items: BTreeSet<String>,
    pub children: BTreeMap<String, usize>,
    /// Names that a `use` brings, with their paths. A name may stand for a module and a function.
    pub imports: Vec<(String, Vec<String>)>,
    /// The paths before `::*`.
    pub globs: Vec<Vec<String>>,
    pub mentions: Vec<Mention>,
}

/// A path in the code, for example `super::Name`, and its line.
pub struct Mention {
    pub path: Vec<String>,
    pub line: usize,
}

impl Tree {
    /// The folder of the children of `mod name { … }`, if the parent's folder is `folder`.
    pub fn folder(&self, parent: usize, folder: &Path, name: &str, attributes: &[Attribute]) -> PathBuf {
        let file = &self.files[self.modules[parent].file];
        match path_attribute(attributes) {
            Some(path) => file.parent().unwrap_or(file).join(path),
            None => folder.join(name),
        }
    }

    /// The file and the folder of the children of `mod name;`, if the parent's folder is `folder`.
    pub fn locate(
        &self,
        parent: usize,
        folder: &Path,
        name: &str,
        attributes: &[Attribute],
    ) -> Result<(PathBuf, PathBuf)> {
        let file = &self.files[self.modules[parent].file];
        if let Some(path) = path_attribute(attributes) {
            let file = file.parent().unwrap_or(file).join(path);
            let folder = file.parent().unwrap_or(&file).to_owned();
            return Ok((file, folder));
        }
        let own = folder.join(name);
        for candidate in [folder.join(format!("{name}.rs")), own.join("mod.rs")] {
            if candidate.exists() {
                return Ok((candidate, own));
            }
        }
        bail!("`{}` declares `mod {name}`, which has no file", file.display())
    }
}

/// The value of `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &pair.value else {
        return None;
    };
    Some(path.value())
}
