//! The bill of materials of a file: [CycloneDX 1.5](https://cyclonedx.org/docs/1.5/json/).

use super::folder::sha256;
use super::linked::{Linked, Origin, Part};
use super::source::Source;
use anyhow::Result;
use serde_json::{Value, json};

/// The list of everything that a file links, in JSON.
pub fn cyclone_dx(
    file: &str,
    bytes: &[u8],
    version: &str,
    source: &Source,
    linked: &Linked,
) -> Result<String> {
    let Linked { root, parts, edges } = linked;
    let components = parts.iter().enumerate().filter(|(index, _)| index != root);
    let components: Vec<Value> = components.map(|(_, part)| component(part)).collect();
    let name = |index: usize| if index == *root { file.to_owned() } else { reference(&parts[index]) };
    let needs = |(index, edges): (usize, &std::collections::BTreeSet<usize>)| {
        let on: Vec<String> = edges.iter().map(|edge| name(*edge)).collect();
        json!({"ref": name(index), "dependsOn": on})
    };
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": source.date,
            "component": {
                "type": "file",
                "bom-ref": file,
                "name": file,
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": sha256(bytes)}],
                "licenses": [{"expression": parts[*root].licence}],
            },
        },
        "components": components,
        "dependencies": edges.iter().enumerate().map(needs).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

fn component(part: &Part) -> Value {
    let Part { name, version, licence, origin, .. } = part;
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(part),
        "name": name,
        "version": version,
        "licenses": [{"expression": licence}],
    });
    if let Origin::Registry { sha256 } = origin {
        component["purl"] = reference(part).into();
        component["hashes"] = json!([{"alg": "SHA-256", "content": sha256}]);
    }
    component
}

/// The package's URL, or a name if it has none.
fn reference(part: &Part) -> String {
    let Part { name, version, origin, .. } = part;
    match origin {
        // A version may have a `+`, which a URL does not.
        Origin::Registry { .. } => format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")),
        Origin::Workspace | Origin::Toolchain => format!("{name}@{version}"),
    }
}
