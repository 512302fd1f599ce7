//! The files of a release, or of a clone's build, beside this command.

use std::env;
use std::path::{Path, PathBuf};

/// The filter for Envoy.
pub const FILTER: &str = "diana.wasm";
/// The filter for nginx.
pub const NGINX_FILTER: &str = "diana-nginx.wasm";
/// The native module.
pub const MODULE: &str = "libdiana.so";

/// The folder with this file: the one around the command's, as `target/` of a clone and the folder
/// of a release, or the command's own, as `linux-amd64/` of a release.
#[must_use]
pub fn folder_of(name: &str) -> Option<PathBuf> {
    let command = env::current_exe().ok()?;
    let own = command.parent()?;
    let folders = own.parent().into_iter().chain([own]);
    folders
        .into_iter()
        .filter(|folder| !is_of_cargo(folder))
        .find(|folder| folder.join(name).is_file())
        .map(shown)
}

/// Whether cargo writes here. It leaves libraries of the same names, which no gateway can load.
fn is_of_cargo(folder: &Path) -> bool {
    folder.ends_with("deps") || folder.join("deps").is_dir()
}

/// A folder as seen from the current one, from which the gateway is started.
fn shown(folder: &Path) -> PathBuf {
    let current = env::current_dir().and_then(std::fs::canonicalize).ok();
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.into());
    let below = current.and_then(|current| folder.strip_prefix(current).map(Path::to_path_buf).ok());
    below.unwrap_or(folder)
}
