//! Reads the document of a file, for commands that need one valid configuration.

pub use diana_workbench::source::*;

use miette::Result;
use std::path::Path;

/// The document of a file, as JSON. If the file has several documents, the path may end with the
/// line of one of them, as in `envoy.yaml:43`.
pub fn document(path: &Path) -> Result<Vec<u8>> {
    let (file, line) = crate::files::read_at(path)?;
    Ok(select(&file, line)?.json)
}
