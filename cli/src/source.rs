//! Reads the document of a file, for commands that need one valid configuration. The document may
//! be a file of its own, in JSON or YAML, or a part of a gateway's configuration or of a Kubernetes
//! manifest.

pub mod content;
pub mod documents;
pub mod embedded;
pub mod json;
pub mod nginx;
pub mod origin;
pub mod parts;
pub mod resolve;
pub mod scalar;
pub mod value;
pub mod yaml;

use crate::printable::printable;
use content::File;
use diana_config::{Configuration, Secret, SecretSource, Source};
use documents::{Document, Host};
use miette::{IntoDiagnostic, Result, WrapErr, miette};
use parts::Form;
use std::path::{Path, PathBuf};

/// The document of a file, as JSON. If the file has several documents, the path may end with the
/// line of one of them, as in `envoy.yaml:43`.
pub fn document(path: &Path) -> Result<Vec<u8>> {
    let (path, line) = named_line(path);
    let file =
        File::read(&path).into_diagnostic().wrap_err_with(|| format!("cannot read `{}`", path.display()))?;
    let parts = parts::parts(&file);
    for part in &parts {
        if let Form::Wrong(error) = &part.form {
            let place = file.position(part.content.origin.outer(error.at));
            return Err(miette!("{}:{}:{}: {error}", file.name, place.line, place.column));
        }
    }
    let mut documents = documents::documents(&parts);
    let first_line = |document: &Document| file.position(document.range().start).line;
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
        [document] => Ok(document.json().into_owned()),
        [] => Err(miette!(
            "`{}` has no configuration of Diana{}",
            file.name,
            line.map_or(String::new(), |line| { format!(" at line {line}") })
        )),
        several => {
            let lines: Vec<String> =
                several.iter().map(|document| format!("`{}:{}`", file.name, first_line(document))).collect();
            Err(miette!(
                "`{}` has {} configurations of Diana: name one of {}",
                file.name,
                lines.len(),
                lines.join(", ")
            ))
        }
    }
}

/// The configuration of a file. The error lists every mistake.
pub fn configuration(path: &Path) -> Result<Configuration> {
    let document = document(path)?;
    // A secret of the gateway is unknown here: the store counts as down.
    let secret = match SecretSource::of(&document) {
        Some(_) => Secret::Absent,
        None => Secret::Unsupported,
    };
    Source::new(&document, &secret).compile().map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(|mistake| printable(&mistake.to_string())).collect();
        miette!("`{}` has mistakes:\n{}", path.display(), lines.join("\n"))
    })
}

/// Splits the line off a path such as `envoy.yaml:43`, unless there is a file of that name.
fn named_line(path: &Path) -> (PathBuf, Option<usize>) {
    let text = path.to_string_lossy();
    let split = text.rsplit_once(':').and_then(|(name, line)| Some((name, line.parse::<usize>().ok()?)));
    match split {
        Some((name, line)) if !path.exists() => (PathBuf::from(name), Some(line)),
        _ => (path.to_path_buf(), None),
    }
}

#[cfg(test)]
mod tests;
