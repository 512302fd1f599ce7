//! The one valid document of a file, for commands that decide by it.

pub use diana_workbench::valid::*;

use crate::files;
use miette::Result;
use std::path::Path;

/// The document of a file, as JSON. The path may end with a line, as in `envoy.yaml:43`.
pub fn document(path: &Path) -> Result<Vec<u8>> {
    let (file, line) = files::read_at(path)?;
    Ok(document_of(file, line)?.1)
}
