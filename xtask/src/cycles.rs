//! `cargo xtask cycles`: no file uses itself through other files.
//!
//! File A uses file B if A names an item that B defines: in a `use`, or in a path in the code. A
//! re-export stands for the file that defines the item. `mod b;` and `use a::b;` use nothing by
//! themselves. The check reads no types, so the call of a method is invisible, and so is code that
//! a macro makes. Tests are left out.

mod read;
mod resolve;
mod tree;

use crate::step::{Step, metadata};
use anyhow::{Context, Result, bail};
use gateway::root;
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use tree::Tree;

/// Runs the check as a command of its own.
pub fn run() -> Result<()> {
    step().run()
}

/// The check as a step of other commands.
pub fn step() -> Step {
    Step::check("cycles between files", check, "cargo xtask cycles")
}

/// Fails with a report if files use one another in a circle.
fn check() -> Result<()> {
    let mut groups = Vec::new();
    for root_file in root_files()? {
        groups.extend(cycles(&read::read(Path::new(&root_file))?));
    }
    if groups.is_empty() { Ok(()) } else { bail!("{}", report(&groups)) }
}

/// The first file of each target that is no test. The fuzz targets are tests, too.
fn root_files() -> Result<Vec<String>> {
    let mut files = Vec::new();
    let workspace = metadata("Cargo.toml")?;
    let packages = workspace["packages"].as_array().context("no packages")?;
    for target in packages.iter().flat_map(|package| package["targets"].as_array()).flatten() {
        let kinds = target["kind"].as_array().context("a target without a kind")?;
        if !kinds.iter().any(|kind| kind == "test") {
            let file = target["src_path"].as_str().context("a target without a file")?;
            files.push(file.to_owned());
        }
    }
    Ok(files)
}

/// Files that use one another, and why.
struct Cycle {
    files: Vec<String>,
    edges: Vec<Edge>,
}

/// The first place where one file uses another.
struct Edge {
    from: String,
    line: usize,
    to: String,
    path: String,
}

/// The groups of files of a crate in which each file uses each other one, directly or not.
fn cycles(tree: &Tree) -> Vec<Cycle> {
    let mut first = BTreeMap::new();
    for usage in resolve::usages(tree) {
        let place = first.entry((usage.from, usage.to)).or_insert((usage.line, usage.path.clone()));
        if usage.line < place.0 {
            *place = (usage.line, usage.path);
        }
    }
    let mut graph = DiGraph::<(), ()>::new();
    let nodes: Vec<NodeIndex> = tree.files.iter().map(|_| graph.add_node(())).collect();
    for &(from, to) in first.keys() {
        graph.add_edge(nodes[from], nodes[to], ());
    }
    let name = |file: usize| {
        let path = &tree.files[file];
        path.strip_prefix(root()).unwrap_or(path).display().to_string()
    };
    let mut cycles: Vec<Cycle> = tarjan_scc(&graph)
        .into_iter()
        .filter(|group| group.len() > 1)
        .map(|group| {
            let is_inside = |file: usize| group.contains(&nodes[file]);
            let inside = first.iter().filter(|((from, to), _)| is_inside(*from) && is_inside(*to));
            let edges = inside.map(|(&(from, to), (line, path))| Edge {
                from: name(from),
                line: *line,
                to: name(to),
                path: path.clone(),
            });
            let mut files: Vec<String> = group.iter().map(|node| name(node.index())).collect();
            files.sort();
            let mut edges: Vec<Edge> = edges.collect();
            edges.sort_by(|a, b| (&a.from, a.line).cmp(&(&b.from, b.line)));
            Cycle { files, edges }
        })
        .collect();
    cycles.sort_by(|a, b| a.files.cmp(&b.files));
    cycles
}

fn report(cycles: &[Cycle]) -> String {
    let files: usize = cycles.iter().map(|cycle| cycle.files.len()).sum();
    let mut text = format!("cycles between files: {}, with {files} files", cycles.len());
    for (number, cycle) in cycles.iter().enumerate() {
        let (files, edges) = (cycle.files.len(), cycle.edges.len());
        // Writing to a string cannot fail.
        let _ = write!(text, "\n\n{}. {files} files, {edges} uses", number + 1);
        for Edge { from, line, to, path } in &cycle.edges {
            let _ = write!(text, "\n   {from}:{line} uses {to} (`{path}`)");
        }
    }
    text
}

#[cfg(test)]
mod tests;
