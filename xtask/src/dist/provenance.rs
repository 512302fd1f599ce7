//! What the files were built from: an [in-toto statement](https://in-toto.io/Statement/v1) with the
//! predicate [SLSA provenance 1](https://slsa.dev/spec/v1.0/provenance). It names no time, so that
//! two builds of a commit have the same one.

use super::binaries::ZIG;
use super::folder::Folder;
use super::source::Source;
use anyhow::Result;
use gateway::filter::{self, WASM_OPT};
use serde_json::{Value, json};

/// The statement about all files that are in the folder now, in JSON.
pub fn statement(folder: &Folder, name: &str, source: &Source, builder: &str) -> Result<String> {
    const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
    let subject = |(name, hash): (String, String)| json!({"name": name, "digest": {"sha256": hash}});
    let package = |uri: String, hash: &str| json!({"uri": uri, "digest": {"sha256": hash}});
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": folder.hashes()?.into_iter().map(subject).collect::<Vec<Value>>(),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{REPOSITORY}/blob/main/docs/internals/working.md#releases"),
                "externalParameters": {"version": name, "changed": source.is_dirty},
                "internalParameters": {"rustc": filter::rustc(&["--version", "--verbose"])?},
                "resolvedDependencies": [
                    {"uri": format!("git+{REPOSITORY}"), "digest": {"gitCommit": source.commit}},
                    package(format!("pkg:pypi/{}@{}", ZIG.package, ZIG.version), ZIG.wheel),
                    package(format!("pkg:npm/{}@{}", WASM_OPT.package, WASM_OPT.version), WASM_OPT.sha256),
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    });
    Ok(format!("{statement:#}\n"))
}
