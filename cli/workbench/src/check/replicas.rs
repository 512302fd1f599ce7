//! The number of gateways, from the workloads of Kubernetes manifests.

use crate::source::parts::{Form, Part};
use crate::source::value::Value;

/// The replicas of the only workload in the texts of a file; `None` if there are none or several.
#[must_use]
pub fn replicas(parts: &[Part]) -> Option<u64> {
    let mut found = Vec::new();
    for part in parts {
        if let Form::Kubernetes(root) = &part.form {
            let items = root.get("items").map_or(&[][..], Value::items);
            found.extend([root].into_iter().chain(items).filter_map(of_resource));
        }
    }
    match found[..] {
        [only] => Some(only),
        _ => None,
    }
}

fn of_resource(resource: &Value) -> Option<u64> {
    let path: &[&str] = match resource.get("kind")?.text()? {
        "Deployment" | "StatefulSet" | "ReplicaSet" => &["spec", "replicas"],
        "EnvoyProxy" => &["spec", "provider", "kubernetes", "envoyDeployment", "replicas"],
        _ => return None,
    };
    path.iter().try_fold(resource, |value, key| value.get(key))?.whole()
}
