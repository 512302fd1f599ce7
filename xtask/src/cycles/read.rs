//! Reads the modules of a crate: the names they define and the paths they mention. Tests are
//! skipped.

use super::tree::{Mention, Module, Tree};
use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use std::fs;
use std::path::{Path, PathBuf};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, Meta, Token, UseTree};

/// Reads the crate whose first file is this one.
pub fn read(root: &Path) -> Result<Tree> {
    let mut tree = Tree::default();
    add_file(&mut tree, root, root.parent().unwrap_or(root), None)?;
    Ok(tree)
}

/// Reads a file as a new module, whose children's files lie in `folder`.
fn add_file(tree: &mut Tree, file: &Path, folder: &Path, parent: Option<usize>) -> Result<usize> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let syntax = syn::parse_file(&text).map_err(|error| {
        let line = error.span().start().line;
        anyhow::anyhow!("`{}:{line}`: {error}", file.display())
    })?;
    tree.files.push(file.to_owned());
    tree.modules.push(Module { parent, file: tree.files.len() - 1, ..Module::default() });
    let module = tree.modules.len() - 1;
    Reader::new(tree, module, folder.to_owned()).read(&syntax.items)?;
    Ok(module)
}

/// Reads the items of one module.
struct Reader<'t> {
    tree: &'t mut Tree,
    module: usize,
    /// Where the files of children lie.
    folder: PathBuf,
    /// Blocks of code around the place: an item in a function is no item of the module.
    depth: usize,
    failure: Option<anyhow::Error>,
}

impl<'t> Reader<'t> {
    /// A reader of the items of this module.
    fn new(tree: &'t mut Tree, module: usize, folder: PathBuf) -> Self {
        Self { tree, module, folder, depth: 0, failure: None }
    }

    /// Reads all items, and the files of modules that they declare.
    fn read(mut self, items: &[Item]) -> Result<()> {
        items.iter().for_each(|item| self.visit_item(item));
        self.failure.map_or(Ok(()), Err)
    }

    fn own(&mut self) -> &mut Module {
        &mut self.tree.modules[self.module]
    }

    fn mention(&mut self, path: Vec<String>, line: usize) {
        self.own().mentions.push(Mention { path, line });
    }

    fn declare(&mut self, item: &syn::ItemMod) -> Result<()> {
        let name = item.ident.to_string();
        let child = match &item.content {
            Some((_, items)) => {
                let folder = self.tree.folder(self.module, &self.folder, &name, &item.attrs);
                let file = self.own().file;
                let module = Module { parent: Some(self.module), file, ..Module::default() };
                self.tree.modules.push(module);
                let child = self.tree.modules.len() - 1;
                Reader::new(self.tree, child, folder).read(items)?;
                child
            }
            None => {
                let (file, folder) = self.tree.locate(self.module, &self.folder, &name, &item.attrs)?;
                add_file(self.tree, &file, &folder, Some(self.module))?
            }
        };
        self.own().children.insert(name, child);
        Ok(())
    }

    /// Records each name of a `use`, of which `before` is the path so far.
    fn import(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &Ident| [before, &[name.to_string()]].concat();
        let mut leaf = |name: &Ident, as_name: &Ident| {
            // `use a::{self}` imports `a`.
            let path = if name == "self" && !before.is_empty() { before.to_vec() } else { with(name) };
            let as_name = if as_name == "self" { path.last().cloned() } else { Some(as_name.to_string()) };
            self.mention(path.clone(), name.span().start().line);
            self.own().imports.extend(as_name.map(|name| (name, path)));
        };
        match tree {
            UseTree::Name(name) => leaf(&name.ident, &name.ident),
            UseTree::Rename(name) => leaf(&name.ident, &name.rename),
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before)),
            UseTree::Glob(_) => self.own().globs.push(before.to_vec()),
        }
    }

    /// Records each path among the tokens of a macro, but for the inner paths of `a::{b, c}`.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 || path.is_empty() {
                        self.flush(&mut path, line);
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.flush(&mut path, line);
                    colons = 0;
                    self.scan(group.stream());
                }
                _ => {
                    self.flush(&mut path, line);
                    colons = 0;
                }
            }
        }
        self.flush(&mut path, line);
    }

    fn flush(&mut self, path: &mut Vec<String>, line: usize) {
        if !path.is_empty() {
            self.mention(std::mem::take(path), line);
        }
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        if is_test(item_attributes(item)) {
            return;
        }
        match item {
            Item::Mod(declared) => {
                if let Err(error) = self.declare(declared) {
                    self.failure.get_or_insert(error);
                }
                return;
            }
            Item::Use(used) => {
                if used.leading_colon.is_none() {
                    self.import(&used.tree, &[]);
                }
                return;
            }
            _ => {}
        }
        if self.depth == 0 {
            let names = item_names(item);
            self.own().items.extend(names);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'a syn::ImplItem) {
        let attributes: &[Attribute] = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            syn::ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_block(&mut self, block: &'a syn::Block) {
        self.depth += 1;
        visit::visit_block(self, block);
        self.depth -= 1;
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
            if let Some(first) = path.segments.first() {
                self.mention(names, first.ident.span().start().line);
            }
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        self.visit_path(&called.path);
        self.scan(called.tokens.clone());
    }

    /// Attributes mention paths of derive macros, which are other crates'.
    fn visit_attribute(&mut self, _: &'a Attribute) {}
}

/// The names that an item gives its module.
fn item_names(item: &Item) -> Vec<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => match &item.ident {
            Some(name) => name,
            None => return Vec::new(),
        },
        Item::ForeignMod(block) => {
            let names = block.items.iter().filter_map(|item| match item {
                syn::ForeignItem::Fn(item) => Some(item.sig.ident.to_string()),
                syn::ForeignItem::Static(item) => Some(item.ident.to_string()),
                syn::ForeignItem::Type(item) => Some(item.ident.to_string()),
                _ => None,
            });
            return names.collect();
        }
        _ => return Vec::new(),
    };
    vec![name.to_string()]
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether the attributes leave an item out of everything but tests.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition)))
    })
}

/// Whether a condition holds in tests only.
fn needs_test(condition: &Meta) -> bool {
    let parts = |list: &syn::MetaList| {
        list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default()
    };
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).iter().any(needs_test),
        Meta::List(list) if list.path.is_ident("any") => parts(list).iter().all(needs_test),
        _ => false,
    }
}
