//! Reads the document of a file, for commands that need one valid configuration. The document may
//! be a file of its own, in JSON or YAML, or a part of a gateway's configuration or of a Kubernetes
//! manifest.

pub mod blame;
pub mod content;
pub mod documents;
pub mod embedded;
pub mod files;
pub mod json;
pub mod messages;
pub mod nginx;
pub mod origin;
pub mod parts;
pub mod recognize;
pub mod resolve;
pub mod scalar;
pub mod value;
pub mod yaml;

use content::File;
use diana_config::{Configuration, Secret, SecretSource, Source};
use diana_replay::printable::printable;
use documents::{Document, Host};
use miette::{Result, miette};
use parts::Form;
use std::ops::Range;

/// A document that was chosen from a file.
#[derive(Debug)]
pub struct Selected {
    /// The document, as JSON.
    pub json: Vec<u8>,
    /// The bytes of the file that have the document.
    pub range: Range<usize>,
}

/// The only document of a file, or the one at a line.
pub fn select(file: &File, line: Option<usize>) -> Result<Selected> {
    let parts = parts::parts(file);
    for part in &parts {
        if let Form::Wrong(error) = &part.form {
            let place = file.position(part.content.origin.outer(error.at));
            return Err(miette!("{}:{}:{}: {error}", file.name, place.line, place.column));
        }
    }
    let mut documents = documents::documents(&parts);
    let first_line = |document: &Document| file.position(document.range().start).line;
    let name = |document: &Document| format!("`{}:{}`", file.name, first_line(document));
    let all: Vec<String> = documents.iter().map(name).collect();
    match line {
        Some(line) => documents.retain(|document| {
            let range = document.range();
            file.position(range.start).line <= line && line <= file.position(range.end).line
        }),
        // A route's document is not a complete document.
        None if documents.iter().filter(|document| document.host != Host::Route).count() == 1 => {
            documents.retain(|document| document.host != Host::Route);
        }
        None => {}
    }
    match &documents[..] {
        [document] => Ok(Selected { json: document.json().into_owned(), range: document.range() }),
        [] => Err(match (line, &all[..]) {
            (Some(line), [_, ..]) => miette!(
                "`{}` has no Diana document at line {line}: name one of {}",
                file.name,
                all.join(", ")
            ),
            _ => miette!("`{}` has no Diana document", file.name),
        }),
        several => {
            let names: Vec<String> = several.iter().map(name).collect();
            Err(miette!(
                "`{}` has {} Diana documents: name one of {}",
                file.name,
                names.len(),
                names.join(", ")
            ))
        }
    }
}

/// The value of a document in JSON.
pub fn parsed(document: &[u8]) -> Result<diana_document::Value> {
    diana_document::parse(document).map_err(|error| miette!("{error}"))
}

/// The configuration of a document in JSON. The error lists every mistake.
pub fn configuration(document: &[u8]) -> Result<Configuration> {
    // A secret of the gateway is unknown here: the store counts as down.
    let secret = match SecretSource::of(document) {
        Some(_) => Secret::Absent,
        None => Secret::Unsupported,
    };
    Source::new(document, &secret).compile().map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(|mistake| printable(&mistake.to_string())).collect();
        miette!("the document has mistakes:\n{}", lines.join("\n"))
    })
}

#[cfg(test)]
mod tests;
