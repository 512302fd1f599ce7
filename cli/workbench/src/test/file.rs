//! Test files: their text, the document that they name, and their mistakes.

use super::case::{self, Case, Shared};
use super::report::FileReport;
use super::request::Layer;
use super::run::{self, Observer};
use crate::check::report::Report;
use crate::explain::document::Document;
use crate::source::content::{Content, File, SyntaxError};
use crate::source::resolve::resolve;
use crate::source::scalar::Dialect;
use crate::source::value::{Entry, Kind, Value};
use crate::source::{blame, yaml};
use crate::valid::Mistakes;
use diana_config::Configuration;
use diana_document::{Error, Errors, Node, quoted};
use miette::{Result, miette};
use std::path::{Path, PathBuf};

/// The suffixes of test files.
pub const ENDINGS: [&str; 3] = [".test.yaml", ".test.yml", ".test.json"];

/// A test file whose text is YAML or JSON.
pub struct TestFile {
    file: File,
    root: Value,
    value: diana_document::Value,
}

impl TestFile {
    /// Reads the text of a file.
    pub fn of(file: File) -> Result<TestFile> {
        match one(&file.content()) {
            Ok(root) => {
                let value = with_repeated_keys(&root);
                Ok(TestFile { file, root, value })
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

    /// The error about a document that cannot be read.
    pub fn unreadable(self, document: &Path, why: &str) -> miette::Report {
        let name = quoted(&document.display().to_string());
        if self.root.get("document").is_none() {
            let hint = "name the document with `document: FILE`";
            return miette!("`{}` tests {name}, which cannot be read: {why}; {hint}", self.file.name);
        }
        let why = format!("cannot read {name}: {why}");
        let error = Error { path: "document".into(), why, key: None };
        Mistakes::of(Report::of_errors(self.file, &self.root, &[error])).into()
    }

    /// Runs the cases against the document in these bytes of JSON.
    /// `observe` sees each request.
    pub fn run(
        self,
        document: &[u8],
        document_file: &File,
        document_name: &str,
        observe: &mut Observer,
    ) -> Result<FileReport> {
        let parsed = diana_document::parse(document).map_err(|error| miette!("{error}"))?;
        let limits = Document::of(&parsed);
        let configuration = crate::explain::document::compile(&parsed)?;
        let (cases, errors) = self.cases(&configuration, limits.has_global());
        if !errors.is_empty() {
            return Err(Mistakes::of(Report::of_errors(self.file, &self.root, &errors)).into());
        }
        run::file(&self.file, &self.root, &cases, &limits, (document_file, document_name), observe)
    }

    fn cases(&self, configuration: &Configuration, has_global: bool) -> (Vec<Case>, Vec<Error>) {
        let errors = Errors::default();
        let mut cases = Vec::new();
        if let Some(mut fields) = Node::root(&self.value, &errors).fields() {
            // Read from the text, because its path may be relative to another folder.
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
            let shared = Shared { request, clients, configuration, has_global };
            if let Some(node) = fields.require("cases") {
                let nodes = node.list();
                if nodes.as_ref().is_some_and(Vec::is_empty) {
                    node.fail("no case is listed");
                }
                for node in nodes.unwrap_or_default() {
                    let Some(case) = case::read(&node, &shared) else { continue };
                    if cases.iter().any(|other: &Case| other.name == case.name) {
                        node.fail(format!("another case has the name {} already", quoted(&case.name)));
                    }
                    cases.push(case);
                }
            }
            fields.finish();
        }
        (cases, errors.into_vec())
    }
}

/// The value with all entries of repeated keys, which are mistakes.
fn with_repeated_keys(value: &Value) -> diana_document::Value {
    use diana_document::Value as Read;
    match &value.kind {
        Kind::Null => Read::Null,
        Kind::Bool(flag) => Read::Bool(*flag),
        Kind::Number(text) => diana_document::parse_json(text.as_bytes()).unwrap_or(Read::Text(text.clone())),
        Kind::Text(text) | Kind::Plain(text) => Read::Text(text.clone()),
        Kind::List(items) => Read::List(items.iter().map(with_repeated_keys).collect()),
        Kind::Object(entries) => {
            let entry = |entry: &Entry| (entry.key.clone(), with_repeated_keys(&entry.value));
            Read::Object(entries.iter().map(entry).collect())
        }
    }
}

/// The only value of a text.
fn one(content: &Content) -> Result<Value, SyntaxError> {
    let documents = yaml::documents(&content.text).map_err(|error| blame::blame(&content.text, error))?;
    let mut documents = documents.into_iter();
    let wrong = |why: &str| SyntaxError { at: 0, why: why.into() };
    match (documents.next(), documents.next()) {
        (Some(mut root), None) => {
            // No gateway reads the file, so numbers may have any size, also fractions.
            resolve(&mut root, Dialect::Kubernetes);
            Ok(root)
        }
        (None, _) => Err(wrong("the file is empty: write `cases`")),
        (Some(_), Some(_)) => Err(wrong("the file has several YAML documents: write one")),
    }
}
