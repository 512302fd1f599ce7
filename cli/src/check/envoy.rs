//! Findings about the configuration of Envoy around a document.

use super::code;
use super::finding::{Finding, Findings};
use super::model::Model;
use super::place::head;
use crate::source::documents::{Document, Host};
use crate::source::parts::Form;
use crate::source::value::{Entry, Value};
use diana_config::Configuration;
use std::collections::HashSet;
use std::ops::Range;

/// Adds the findings about the filter with the document, and about the configuration around the
/// filter.
pub fn warnings(document: &Document, findings: &mut Findings) {
    let is_plugin = matches!(document.part.form, Form::Envoy(_)) || is_message(document);
    if document.host == Host::Wasm
        && is_plugin
        && let Some(config) = document.filter
    {
        vm_id(config, findings);
        failure_policy(config, findings);
    }
}

/// Whether the filter is an Envoy message, not the `spec` of a Kubernetes resource.
fn is_message(document: &Document) -> bool {
    document.filter.is_some_and(|filter| filter.field("vm_config").is_some())
}

fn vm_id(config: &Value, findings: &mut Findings) {
    let entry = config.field("vm_config").and_then(|vm| vm.field_entry("vm_id"));
    if entry.is_none_or(|entry| entry.value.text().unwrap_or_default().is_empty()) {
        let place = entry.or_else(|| config.field_entry("vm_config"));
        findings.add(
            code::VM_ID,
            &place.map_or_else(|| head(config), |entry| entry.key_range.clone()),
            "`vm_id` is empty: all filters without a `vm_id` share their data, those of other programs included",
            Some("write a `vm_id` such as `diana`, the same for filters that count together"),
        );
    }
}

fn failure_policy(config: &Value, findings: &mut Findings) {
    if config.field("failure_policy").is_none() && config.field("fail_open").is_none() {
        findings.add(
            code::FAILURE_POLICY,
            &head(config),
            "`failure_policy` is missing: if a VM fails, its worker answers all requests with status 503",
            Some("write `failure_policy: FAIL_RELOAD`, which replaces the VM and keeps the counts"),
        );
    }
}

/// Adds the finding about a file of the filter that lacks callbacks.
pub fn file(document: &Document, configuration: &Configuration, findings: &mut Findings) {
    let Some(entry) = document.filter.filter(|_| document.host == Host::Wasm).and_then(file_name) else {
        return;
    };
    let name = entry.value.text().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    let (Some(loaded), fitting) = (FILES.iter().position(|file| *file == name), fitting(configuration))
    else {
        return;
    };
    let needed = FILES.iter().position(|file| *file == fitting).unwrap_or(0);
    if loaded < needed {
        findings.add(
            code::WRONG_FILE,
            &entry.value.range,
            format!("`{name}` refuses this document: it lacks callbacks that the document needs"),
            Some(&format!("load `{fitting}`")),
        );
    }
}

/// The filter's files for Envoy. Each file has all callbacks of the files before it.
const FILES: [&str; 4] = ["diana-min.wasm", "diana-lean.wasm", "diana.wasm", "diana-settle.wasm"];

/// The file with the fewest callbacks that suffice, as `Callbacks::suffice` in `src/callbacks.rs`
/// decides.
#[must_use]
pub fn fitting(configuration: &Configuration) -> &'static str {
    let Configuration { policy, response, remote, .. } = configuration;
    let measures = policy.measures();
    let has_canary = remote.as_ref().is_some_and(|remote| remote.canary.is_some());
    if measures.response_body() {
        "diana-settle.wasm"
    } else if response.has_headers() || measures.response_headers() {
        "diana.wasm"
    } else if has_canary || policy.needs_ends() {
        "diana-lean.wasm"
    } else {
        "diana-min.wasm"
    }
}

fn file_name(config: &Value) -> Option<&Entry> {
    let code = config.fields(&["vm_config", "code"])?;
    let local = code.field("local").and_then(|local| local.field_entry("filename"));
    local.or_else(|| code.fields(&["remote", "http_uri"])?.field_entry("uri"))
}

/// Adds findings about the client's address, which the connection manager and `ip` decide together.
pub fn addresses(document: &Document, model: &Model, found: &mut Vec<Finding>) {
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
            "the document counts by address, and without `use_remote_address: true` clients can invent their address",
            Some("write `use_remote_address: true`; behind another proxy, also set `trusted_hops`"),
        );
    }
    let skips_append = manager.field("skip_xff_append").and_then(Value::flag).unwrap_or(false);
    let header = ip.and_then(|ip| ip.get("header")).and_then(Value::text);
    let is_forwarded = header.is_none_or(|header| header.eq_ignore_ascii_case("x-forwarded-for"));
    let Some(hops) = hops.filter(|_| is_remote && !skips_append && is_forwarded && trusted > 0) else {
        return;
    };
    let (message, hint) = if trusted == 1 && of_envoy == 0 {
        (
            "with `use_remote_address: true` Envoy appends the peer's address, so that the first hop is the peer itself: \
             clients of a proxy in front are one actor"
                .to_string(),
            "leave `trusted_hops` out if no proxy stands in front; with one proxy of yours, write 2".to_string(),
        )
    } else if of_envoy > 0 && trusted != of_envoy.saturating_add(1) {
        let proxies = trusted.saturating_sub(1);
        (
            format!(
                "Envoy trusts {of_envoy} proxies (`xff_num_trusted_hops`), and `trusted_hops` fits {proxies}"
            ),
            format!("leave `trusted_hops` out, or write {}", of_envoy.saturating_add(1)),
        )
    } else {
        return;
    };
    Findings::new(document.content(), found).add(code::TRUSTED_HOPS, &hops.value.range, message, Some(&hint));
}

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
    model.enforced().any(|(_, rule)| rule.actors.iter().any(is_address))
        || is_listed("allow")
        || is_listed("deny")
}

/// The static clusters of a bootstrap that takes clusters from nowhere else.
pub struct Clusters<'a> {
    names: HashSet<&'a str>,
}

impl<'a> Clusters<'a> {
    /// The clusters of the text in which a document stands; `None` if more may come from elsewhere.
    #[must_use]
    pub fn of(document: &Document<'a>) -> Option<Clusters<'a>> {
        let Form::Envoy(root) = &document.part.form else {
            return None;
        };
        let clusters = root.fields(&["static_resources", "clusters"])?;
        let dynamic = root.field("dynamic_resources");
        if dynamic.is_some_and(|dynamic| dynamic.field("cds_config").is_some()) {
            return None;
        }
        Some(Clusters {
            names: clusters.items().iter().filter_map(|cluster| cluster.get("name")?.text()).collect(),
        })
    }

    /// Adds a finding for each cluster that the document names and the bootstrap does not define.
    pub fn warnings(&self, root: &Value, findings: &mut Findings) {
        let stores = root.get("store").into_iter().flat_map(|store| [store.get("redis"), store.get("rls")]);
        let owners = stores.flatten().chain(root.get("remote"));
        let named = owners.flat_map(|owner| {
            let several = owner.get("clusters").map_or(&[][..], Value::items);
            owner.get("cluster").into_iter().chain(several)
        });
        for cluster in named {
            let name = cluster.text().unwrap_or_default();
            if !self.names.contains(name) {
                findings.add(
                    code::UNKNOWN_CLUSTER,
                    &cluster.range,
                    format!("there is no cluster {}: all calls would fail", diana_document::quoted(name)),
                    Some("define the cluster in `static_resources.clusters`"),
                );
            }
        }
    }
}
