//! Findings about clusters that a document names and a bootstrap does not define.

use super::code;
use super::finding::Findings;
use crate::source::documents::{Document, Host};
use crate::source::parts::Form;
use crate::source::value::Value;
use std::collections::HashSet;

/// Adds a finding for each cluster that the document names and the bootstrap lacks.
pub fn unknown(document: &Document, root: &Value, findings: &mut Findings) {
    let Some(clusters) = clusters(document) else {
        return;
    };
    let stores = root.get("store").into_iter().flat_map(|store| [store.get("redis"), store.get("rls")]);
    let owners = stores.flatten().chain(root.get("remote"));
    let named = owners.flat_map(|owner| {
        let several = owner.get("clusters").map_or(&[][..], Value::items);
        owner.get("cluster").into_iter().chain(several)
    });
    for cluster in named {
        // Any other value is a mistake by itself.
        let name = cluster.text().filter(|name| !name.is_empty() && !clusters.contains(name));
        if let Some(name) = name {
            findings.add(
                code::UNKNOWN_CLUSTER,
                &cluster.range,
                format!(
                    "`static_resources` defines no cluster {}: all calls to the cluster fail",
                    diana_document::quoted(name)
                ),
                Some("define the cluster in `static_resources.clusters`"),
            );
        }
    }
}

/// The static clusters of the bootstrap that contains a document; `None` if clusters may come
/// from elsewhere. Only a bootstrap with clusters or listeners of its own is complete.
fn clusters<'a>(document: &Document<'a>) -> Option<HashSet<&'a str>> {
    let Form::Envoy(root) = &document.part.form else {
        return None;
    };
    // A route's document must not name clusters at all.
    if document.host == Host::Route {
        return None;
    }
    let resources = root.field("static_resources")?;
    let clusters = resources.field("clusters");
    let is_complete = clusters.is_some() || resources.field("listeners").is_some();
    if !is_complete || root.fields(&["dynamic_resources", "cds_config"]).is_some() {
        return None;
    }
    let items = clusters.map_or(&[][..], Value::items);
    Some(items.iter().filter_map(|cluster| cluster.get("name")?.text()).collect())
}
