//! Findings about the client's address, which the connection manager and `ip` decide together.

use super::code;
use super::finding::{Finding, Findings};
use super::model::Model;
use super::place::head;
use crate::source::documents::Document;
use crate::source::value::Value;
use diana_document::{Error, nearest};
use diana_limiter::actor::address::Network;
use std::net::IpAddr;
use std::ops::Range;

/// Whether a mistake makes the value of `ip` unclear.
pub fn concerns(error: &Error) -> bool {
    let key = match error.path.split('.').next().unwrap_or_default() {
        "" => error.key.as_deref().unwrap_or_default(),
        key => key,
    };
    nearest(key, &["ip"]).is_some()
}

/// Adds the findings.
pub fn warnings(document: &Document, model: &Model, found: &mut Vec<Finding>) {
    let Some(manager) = document.manager else {
        return;
    };
    let is_remote = manager.field("use_remote_address").and_then(Value::flag).unwrap_or(false);
    let detects = manager.field("original_ip_detection_extensions").is_some();
    let ip = model.root.get("ip");
    let hops = ip.and_then(|ip| ip.entry("trusted_hops"));
    let trusted = hops.and_then(|entry| entry.value.whole()).unwrap_or(0);
    let of_envoy = manager.field("xff_num_trusted_hops").and_then(Value::whole).unwrap_or(0);
    if !is_remote && !detects && trusted == 0 && of_envoy == 0 && counts_addresses(model) {
        let entry = manager.field_entry("use_remote_address");
        let place = entry.map_or_else(|| manager_head(manager), |entry| entry.value.range.clone());
        Findings::new(&document.part.content, found).add(
            code::CLIENT_ADDRESS,
            &place,
            "the document uses the client address, which clients can forge without `use_remote_address: true`",
            Some("write `use_remote_address: true`; behind another proxy, also set `trusted_hops`"),
        );
    }
    // The first hop is the peer.
    if is_remote && !detects && trusted <= 1 && of_envoy == 0 {
        shared_addresses(model, &mut Findings::new(document.content(), found));
    }
    let skips_append = manager.field("skip_xff_append").and_then(Value::flag).unwrap_or(false);
    let header = ip.and_then(|ip| ip.get("header")).and_then(Value::text);
    let is_forwarded = header.is_none_or(|header| header.eq_ignore_ascii_case("x-forwarded-for"));
    let Some(hops) = hops.filter(|_| is_remote && !skips_append && is_forwarded && trusted > 0) else {
        return;
    };
    let (message, hint) = if trusted == 1 && of_envoy == 0 {
        (
            "with `use_remote_address: true`, Envoy appends the peer's address, so the first hop is the peer itself: \
             all clients behind a proxy are one actor"
                .to_string(),
            "leave `trusted_hops` out; behind one proxy of your own, write `trusted_hops: 2`".to_string(),
        )
    } else if of_envoy > 0 && trusted != of_envoy.saturating_add(1) {
        let proxies = trusted.saturating_sub(1);
        (
            format!(
                "`xff_num_trusted_hops: {of_envoy}` makes Envoy trust {of_envoy} proxies in front, but \
                 `trusted_hops: {trusted}` means {proxies}"
            ),
            format!("leave `trusted_hops` out, or write `trusted_hops: {}`", of_envoy.saturating_add(1)),
        )
    } else {
        return;
    };
    Findings::new(document.content(), found).add(code::TRUSTED_HOPS, &hops.value.range, message, Some(&hint));
}

/// Finds private networks in `inspect.allow`: a proxy there gives its address to all its clients,
/// because no proxy is trusted.
fn shared_addresses(model: &Model, findings: &mut Findings) {
    let allow = model.root.get("inspect").and_then(|inspect| inspect.get("allow"));
    for network in allow.map_or(&[][..], Value::items) {
        if network.text().is_some_and(may_have_proxies) {
            findings.add(
                code::SHARED_ADDRESS,
                &network.range,
                "if a proxy or load balancer of this network is in front, all of its clients have its address, and may \
                 try tokens of `inspect`",
                Some("list single addresses, or count the proxies with `xff_num_trusted_hops`"),
            );
        }
    }
}

/// Whether a network of several addresses contains private ones, where proxies stand.
fn may_have_proxies(network: &str) -> bool {
    let Ok(network) = Network::parse(network) else { return false };
    let within = |private: &str| {
        let Ok(private) = Network::parse(private) else { return false };
        let prefix = network.prefix().min(private.prefix());
        let of = |address: IpAddr| Network::of(address, prefix).first();
        network.first().is_ipv4() == private.first().is_ipv4() && of(network.first()) == of(private.first())
    };
    let whole = if network.first().is_ipv4() { 32 } else { 128 };
    network.prefix() < whole && PRIVATE.into_iter().any(within)
}

/// Private addresses, and those that providers share: RFC 1918, RFC 6598, RFC 4193.
const PRIVATE: [&str; 5] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];

/// `stat_prefix`, or the first key.
fn manager_head(manager: &Value) -> Range<usize> {
    manager.field_entry("stat_prefix").map_or_else(|| head(manager), |entry| entry.key_range.clone())
}

fn counts_addresses(model: &Model) -> bool {
    let is_address =
        |actor: &String| actor == "ip" || model.actor(actor).is_some_and(|source| source.get("ip").is_some());
    let is_listed = |key: &str| {
        let list = model.root.get(key).map(|list| list.get("members").unwrap_or(list));
        list.is_some_and(|list| list.items().iter().any(|member| member.text().is_some()))
    };
    let by_plan = model.root.get("plan").and_then(|plan| plan.get("actor")).and_then(Value::text);
    model.enforced().any(|(_, rule)| rule.actors.iter().any(is_address))
        || model.limits.iter().any(|limit| limit.conditions.iter().any(|it| it.kind == "ip"))
        || by_plan.is_some_and(|actor| is_address(&actor.to_owned()))
        || model.root.get("inspect").is_some()
        || is_listed("allow")
        || is_listed("deny")
}
