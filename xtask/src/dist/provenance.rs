//! What the files were built from: an [in-toto statement](https://in-toto.io/Statement/v1) with the
//! predicate [SLSA provenance 1](https://slsa.dev/spec/v1.0/provenance). The statement names no
//! time of the build: two builds of a commit have the same one.

use super::binaries::{GLIBC, ZIG};
use super::folder::{Folder, sha256};
use super::source::Source;
use super::{output, read};
use anyhow::Result;
use gateway::filter;
use gateway::{root, wheel::Wheel};
use serde_json::{Value, json};

/// The statement about all files that are in the folder now, in JSON.
pub fn statement(folder: &Folder, name: &str, source: &Source, builder: &str) -> Result<String> {
    const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
    let subject = |(name, hash): (String, String)| json!({"name": name, "digest": {"sha256": hash}});
    let Wheel { package, version, wheel, .. } = ZIG;
    let optimiser = filter::WASM_OPT;
    let lock = sha256(&read(&root().join("Cargo.lock"))?);
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": folder.hashes()?.into_iter().map(subject).collect::<Vec<Value>>(),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{REPOSITORY}/blob/main/docs/internals/working.md#releases"),
                "externalParameters": {
                    "version": name,
                    "source": format!("git+{REPOSITORY}@{}", source.commit),
                    "changed": source.is_dirty,
                },
                "internalParameters": {
                    "rustc": filter::rustc(&["--version", "--verbose"])?,
                    "cargo": output(filter::cargo().arg("--version"))?.trim(),
                    "glibc": format!("2.{GLIBC}"),
                },
                "resolvedDependencies": [
                    {"uri": format!("git+{REPOSITORY}"), "digest": {"gitCommit": source.commit}},
                    {"name": "Cargo.lock", "digest": {"sha256": lock}},
                    {"uri": format!("pkg:pypi/{package}@{version}"), "digest": {"sha256": wheel}},
                    {
                        "uri": format!("pkg:npm/{}@{}#{}", optimiser.package, optimiser.version, optimiser.path),
                        "digest": {"sha256": optimiser.sha256},
                    },
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    });
    Ok(serde_json::to_string_pretty(&statement)? + "\n")
}
