//! Test files: their text, the document that they name, and their mistakes.

use super::case::{self, Case, Shared};
use super::report::FileReport;
use super::request::Layer;
use super::run;
use crate::check::report::Report;
use crate::explain::document::Document;
use crate::source::content::{Content, File, SyntaxError};
use crate::source::resolve::resolve;
use crate::source::scalar::Dialect;
use crate::source::value::Value;
use crate::source::{blame, yaml};
use crate::valid::Mistakes;
use diana_config::Configuration;
use diana_document::{Error, Errors, Node};
use miette::{Result, miette};
use std::path::{Path, PathBuf};

/// The ends of the names of test files.
pub const ENDINGS: [&str; 3] = [".test.yaml", ".test.yml", ".test.json"];

/// A test file whose text is YAML or JSON.
pub struct Read {
    file: File,
    root: Value,
    value: diana_document::Value,
}

impl Read {
    /// Reads the text of a file.
    pub fn of(file: File) -> Result<Read> {
        match one(&file.content()) {
            Ok(root) => {
                let parsed = diana_document::parse_json(root.to_json().as_bytes());
                let value = parsed.ok_or_else(|| miette!("`{}` cannot be read as JSON", file.name))?;
                Ok(Read { file, root, value })
            }
            Err(error) => Err(Mistakes::of(Report::of_syntax(file, &error)).into()),
        }
    }

    /// The path of the document: that at `document`, from the folder of the test file, or the file
    /// of the same name without `.test`.
    pub fn document(&self, path: &Path) -> PathBuf {
        let named = self.root.get("document").and_then(Value::text);
        match named {
            Some(name) => path.parent().unwrap_or(Path::new("")).join(name),
            None => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                path.with_file_name(name.replacen(".test.", ".", 1))
            }
        }
    }

    /// Runs the cases against the document in these bytes of JSON.
    pub fn run(self, document: &[u8], document_file: &File, document_name: &str) -> Result<FileReport> {
        let parsed = diana_document::parse(document).map_err(|error| miette!("{error}"))?;
        let limits = Document::of(&parsed);
        let configuration = crate::explain::document::compile(&parsed)?;
        let (cases, errors) = self.cases(&configuration);
        if !errors.is_empty() {
            return Err(Mistakes::of(Report::of_errors(self.file, &self.root, &errors)).into());
        }
        run::file(&self.file, &self.root, &cases, &limits, (document_file, document_name))
    }

    fn cases(&self, configuration: &Configuration) -> (Vec<Case>, Vec<Error>) {
        let errors = Errors::default();
        let mut cases = Vec::new();
        if let Some(mut fields) = Node::root(&self.value, &errors).fields() {
            // Read from the text: it may be a path of another folder.
            if let Some(node) = fields.take("document") {
                let _ = node.text();
            }
            let clients = case::clients(&mut fields);
            let request = match fields.take("request").and_then(|node| node.fields()) {
                Some(mut own) => {
                    let layer = Layer::default().with_client(&mut own);
                    own.finish();
                    layer
                }
                None => Layer::default(),
            };
            let shared = Shared { request, clients, configuration };
            let nodes = fields.require("cases").and_then(|node| node.list()).unwrap_or_default();
            cases.extend(nodes.iter().filter_map(|node| case::read(node, &shared)));
            fields.finish();
        }
        (cases, errors.into_vec())
    }
}

/// The only value of a text.
fn one(content: &Content) -> Result<Value, SyntaxError> {
    let documents = yaml::documents(&content.text).map_err(|error| blame::blame(&content.text, error))?;
    let mut documents = documents.into_iter();
    let wrong = |why: &str| SyntaxError { at: 0, why: why.into() };
    match (documents.next(), documents.next()) {
        (Some(mut root), None) => {
            resolve(&mut root, Dialect::Envoy);
            Ok(root)
        }
        (None, _) => Err(wrong("the file is empty: write `cases`")),
        (Some(_), Some(_)) => Err(wrong("the file has several YAML documents: write one")),
    }
}
