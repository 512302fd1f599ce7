//! The folders of the workspace.

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The workspace's own `target` folder. This crate keeps its files here whatever `CARGO_TARGET_DIR`
/// says, because `envoy.yaml` names `target/diana.wasm`: the fetched Envoy, the built filter, the
/// folders of running gateways.
pub fn target() -> PathBuf {
    root().join("target")
}
