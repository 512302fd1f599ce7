//! Findings about the clusters that a document names, from the bootstrap that contains it.

use super::code;
use super::finding::Findings;
use super::report::{Fleet, Version};
use crate::source::documents::{Document, Host};
use crate::source::parts::Form;
use crate::source::value::Value;
use std::collections::HashSet;
use std::net::IpAddr;

/// Adds a finding for each cluster that the document names and the bootstrap lacks.
pub fn unknown(document: &Document, root: &Value, findings: &mut Findings) {
    let Some(clusters) = clusters(document) else {
        return;
    };
    let clusters: HashSet<&str> = clusters.iter().filter_map(|cluster| cluster.get("name")?.text()).collect();
    let redis = root.get("store").and_then(|store| store.get("redis"));
    let named = redis.into_iter().chain(root.get("remote")).flat_map(|owner| {
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
fn clusters<'a>(document: &Document<'a>) -> Option<&'a [Value]> {
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
    Some(clusters.map_or(&[][..], Value::items))
}

/// The first Envoy whose bridges the module knows.
const BRIDGES: Version = Version(1, 39);

/// Adds a finding for each cluster of a Redis that does not carry Redis' own protocol.
pub fn carriers(document: &Document, root: &Value, fleet: Fleet, findings: &mut Findings) {
    let (Some(clusters), Some(redis)) =
        (clusters(document), root.get("store").and_then(|store| store.get("redis")))
    else {
        return;
    };
    let several = redis.get("clusters").map_or(&[][..], Value::items);
    for name in redis.get("cluster").into_iter().chain(several) {
        let is_meant = |cluster: &&Value| cluster.get("name").and_then(Value::text) == name.text();
        let Some(cluster) = clusters.iter().find(is_meant) else { continue };
        let (why, help) = if !is_bridged(cluster) {
            if is_tunnel(document, cluster) || may_be_hop(cluster) {
                continue;
            }
            (
                "its endpoint gets HTTP, and Diana needs a cluster that carries Redis' own protocol",
                "add the bridge to the cluster, `upstream_config` with `bridge_name: redis`, or call a tunnel \
                 or, at a port of its own, a hop",
            )
        } else if fleet.envoy.is_some_and(|envoy| envoy < BRIDGES) {
            ("its bridge needs Envoy 1.39 or later", "call a tunnel, which any Envoy has")
        } else if !names_module(cluster) {
            (
                "its bridge names no module, or another bridge than `redis`: Envoy cannot load it",
                "write `dynamic_module_config: {name: diana}` and `bridge_name: redis`; `libdiana.so` is in a folder \
                 of ENVOY_DYNAMIC_MODULES_SEARCH_PATH",
            )
        } else {
            continue;
        };
        let shown = diana_document::quoted(name.text().unwrap_or_default());
        findings.add(code::STORE_DIALECT, &name.range, format!("the cluster {shown}: {why}"), Some(help));
    }
}

/// The configuration of the module that carries the cluster's calls.
fn bridge(cluster: &Value) -> Option<&Value> {
    let config = cluster.fields(&["upstream_config", "typed_config"])?;
    let is_module = ["dynamic_module_config", "bridge_name"].iter().any(|key| config.field(key).is_some());
    is_module.then_some(config)
}

/// Whether a module carries the cluster's calls.
fn is_bridged(cluster: &Value) -> bool {
    bridge(cluster).is_some()
}

/// Whether the cluster's bridge names a module, or its file, and the module's bridge.
fn names_module(cluster: &Value) -> bool {
    let text = |value: &Value| value.text().is_some_and(|text| !text.is_empty());
    bridge(cluster).is_some_and(|config| {
        let module = config.field("dynamic_module_config");
        let names =
            |module: &Value| module.field("name").is_some_and(text) || module.field("module").is_some();
        module.is_some_and(names) && config.field("bridge_name").and_then(Value::text) == Some("redis")
    })
}

/// Whether an endpoint of the cluster is the address of a listener of the same bootstrap, or a
/// socket or an internal listener, which are mostly in the same process.
fn is_tunnel(document: &Document, cluster: &Value) -> bool {
    let Form::Envoy(root) = &document.part.form else {
        return false;
    };
    let listeners = root.fields(&["static_resources", "listeners"]).map_or(&[][..], Value::items);
    let own = |address: &Value| {
        let place = |value: &Value| {
            let socket = value.field("socket_address")?;
            Some((socket.field("address")?.text()?.to_owned(), socket.field("port_value")?.whole()?))
        };
        let is_own = |listener: &Value| {
            place(address).is_some() && listener.field("address").and_then(place) == place(address)
        };
        listeners.iter().any(is_own)
    };
    addresses(cluster).any(|address| {
        address.field("pipe").is_some() || address.field("envoy_internal_address").is_some() || own(address)
    })
}

/// Whether a hop may answer at the cluster's endpoints: on another host, and at none of the ports
/// at which a Redis, or an HTTP front of it, usually listens.
fn may_be_hop(cluster: &Value) -> bool {
    let is_other = |address: &Value| {
        let socket = address.field("socket_address");
        let host = socket.and_then(|socket| socket.field("address")?.text()).unwrap_or_default();
        let port = socket.and_then(|socket| socket.field("port_value")?.whole());
        let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|host| host.is_loopback());
        !is_local && port.is_some_and(|port| ![6379, 6380, 7379].contains(&port))
    };
    addresses(cluster).any(is_other)
}

/// The addresses of a cluster's endpoints.
fn addresses(cluster: &Value) -> impl Iterator<Item = &Value> {
    let localities = cluster.fields(&["load_assignment", "endpoints"]).map_or(&[][..], Value::items).iter();
    let endpoints =
        localities.flat_map(|locality| locality.field("lb_endpoints").map_or(&[][..], Value::items));
    endpoints.filter_map(|endpoint| endpoint.fields(&["endpoint", "address"]))
}
