//! Reads the document of a file, for commands that need one valid configuration.

use diana_config::Configuration;
use miette::{IntoDiagnostic, Result, WrapErr, miette};
use std::fs;
use std::path::Path;

/// The document of a file, as JSON.
pub fn document(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).into_diagnostic().wrap_err_with(|| format!("cannot read `{}`", path.display()))
}

/// The configuration of a file. The error lists every mistake.
pub fn configuration(path: &Path) -> Result<Configuration> {
    diana_config::compile(&document(path)?).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        miette!("`{}` has mistakes:\n{}", path.display(), lines.join("\n"))
    })
}
