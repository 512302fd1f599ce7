//! Findings about the configuration of the filter with a document in Envoy.

use super::code;
use super::finding::Findings;
use super::order;
use super::place::head;
use crate::source::documents::{Document, Filter, FilterForm, Host};
use crate::source::messages::{
    CODE_FIELDS, ENVIRONMENT_FIELDS, Fields, LOCAL_FIELDS, MODULE, MODULE_CONFIG_FIELDS, MODULE_FIELDS,
    MODULE_OF_ROUTE, PLUGIN_FIELDS, RELOAD_FIELDS, REMOTE_FIELDS, ROUTE_FIELDS, URI_FIELDS, VALUE_FIELDS,
    VM_FIELDS, WASM, WASM_FIELDS, meant, message, misspelt, spelt_as,
};
use crate::source::parts::Form;
use crate::source::value::{Entry, Kind, Value};
use diana_config::Configuration;
use diana_document::quoted;

/// Adds the findings about the filter with the document.
pub fn warnings(document: &Document, findings: &mut Findings) {
    let Some(filter) = &document.filter else {
        return;
    };
    misspelt_keys(filter, findings);
    order::warnings(filter, findings);
    if matches!(document.part.form, Form::Envoy(_)) {
        missing_types(filter, findings);
    }
    if filter.form == FilterForm::Plugin && !filter.is_merged {
        match meant(filter.value, "vm_config", PLUGIN_FIELDS) {
            Some(vm) => vm_id(vm, findings),
            None => findings.add(
                code::MISSING_KEY,
                &head(filter.value),
                "`vm_config` is missing: Envoy has no file to load",
                Some("write `vm_config` with `vm_id`, `runtime` and `code`"),
            ),
        }
        failure_policy(filter.value, findings);
    }
}

/// Adds a warning if Envoy hands no bodies on to the filter, and limits need them.
pub fn bodies(document: &Document, configuration: &Configuration, findings: &mut Findings) {
    let Some(filter) = &document.filter else {
        return;
    };
    if document.host != Host::Wasm || configuration.policy.body_parts().next().is_none() {
        return;
    }
    const FLAG: &str = "allow_on_headers_stop_iteration";
    let key = if configuration.response.reads_calls() { "response.json_rpc" } else { "request_json" };
    const WHY: &str = "requests wait for their bodies in vain, which then count as unread";
    match filter.form {
        FilterForm::Plugin => {
            let flag = meant(filter.value, FLAG, PLUGIN_FIELDS).and_then(|entry| entry.value.flag());
            if flag != Some(true) && !filter.is_merged {
                let message = format!("`{key}` needs `{FLAG}: true`: {WHY}");
                let hint = format!("write `{FLAG}: true` next to `vm_config`");
                findings.add(code::UNREAD_BODIES, &head(filter.value), message, Some(&hint));
            }
        }
        FilterForm::WasmPlugin | FilterForm::ExtensionPolicy => findings.add(
            code::UNREAD_BODIES,
            &head(filter.value),
            format!("`{key}` needs Envoy's `{FLAG}: true`, which this resource cannot set: {WHY}"),
            Some("load the native module, or read bodies by Envoy's `json_to_metadata` and use `property`"),
        ),
        FilterForm::Module | FilterForm::ModuleOfRoute => {}
    }
}

/// Adds an error for each key that misspells a field of Envoy's messages around the document.
fn misspelt_keys(filter: &Filter, findings: &mut Findings) {
    let own = Some(filter.value);
    match filter.form {
        FilterForm::Plugin => {
            filter.entry.into_iter().for_each(|entry| misspelt_key(entry, WASM_FIELDS, findings));
            let vm = of(own, "vm_config", PLUGIN_FIELDS);
            let code = of(vm, "code", VM_FIELDS);
            let remote = of(code, "remote", CODE_FIELDS);
            for (message, fields) in [
                (own, PLUGIN_FIELDS),
                (of(own, "reload_config", PLUGIN_FIELDS), RELOAD_FIELDS),
                (vm, VM_FIELDS),
                (of(vm, "environment_variables", VM_FIELDS), ENVIRONMENT_FIELDS),
                (code, CODE_FIELDS),
                (of(code, "local", CODE_FIELDS), LOCAL_FIELDS),
                (remote, REMOTE_FIELDS),
                (of(remote, "http_uri", REMOTE_FIELDS), URI_FIELDS),
            ] {
                of_message(message, fields, findings);
            }
            of_value(of(own, "configuration", PLUGIN_FIELDS), findings);
        }
        FilterForm::Module | FilterForm::ModuleOfRoute => {
            let fields = if filter.form == FilterForm::Module { MODULE_FIELDS } else { ROUTE_FIELDS };
            of_message(own, fields, findings);
            of_message(of(own, "dynamic_module_config", fields), MODULE_CONFIG_FIELDS, findings);
            of_value(of(own, "filter_config", fields), findings);
        }
        // The kinds of Kubernetes have schemas, which its API server applies.
        FilterForm::WasmPlugin | FilterForm::ExtensionPolicy => {}
    }
}

/// Adds an error for each `Any` without a type: around the filter, and around the document.
fn missing_types(filter: &Filter, findings: &mut Findings) {
    if let Some(entry) = filter.untyped {
        let name = match filter.form {
            FilterForm::Plugin => WASM,
            FilterForm::ModuleOfRoute => MODULE_OF_ROUTE,
            _ => MODULE,
        };
        missing_type(entry, name, "", findings);
    }
    let (key, fields) = filter.form.keys();
    let entry = meant(filter.value, key, fields).filter(|entry| entry.value.kind != Kind::Null);
    let Some(entry) = entry.filter(|entry| message(&entry.value).0.is_empty()) else {
        return;
    };
    let inner = meant(&entry.value, "value", VALUE_FIELDS);
    let is_text = inner.map_or(&entry.value, |entry| &entry.value).text().is_some();
    let name = if is_text { "google.protobuf.StringValue" } else { "google.protobuf.Struct" };
    let more = if inner.is_none() { ", and the document under `value`" } else { "" };
    missing_type(entry, name, more, findings);
}

fn missing_type(entry: &Entry, name: &str, more: &str, findings: &mut Findings) {
    findings.add(
        code::MISSING_KEY,
        &entry.key_range,
        format!("{} lacks its `\"@type\"`: Envoy refuses the configuration", quoted(&entry.key)),
        Some(&format!("write `\"@type\": type.googleapis.com/{name}`{more}")),
    );
}

/// The value of a field, or of the key that misspells the field.
fn of<'a>(value: Option<&'a Value>, field: &str, fields: Fields) -> Option<&'a Value> {
    meant(value?, field, fields).map(|entry| &entry.value)
}

/// The keys of a `Struct` or a `StringValue`. Without a type, the keys are those of the document.
fn of_value(value: Option<&Value>, findings: &mut Findings) {
    let wraps =
        |value: &&Value| matches!(message(value).0, "google.protobuf.Struct" | "google.protobuf.StringValue");
    of_message(value.filter(wraps), VALUE_FIELDS, findings);
}

fn of_message(value: Option<&Value>, fields: Fields, findings: &mut Findings) {
    let entries = value.map_or(&[][..], Value::entries);
    entries.iter().for_each(|entry| misspelt_key(entry, fields, findings));
}

fn misspelt_key(entry: &Entry, fields: Fields, findings: &mut Findings) {
    if let Some(field) = misspelt(&entry.key, fields) {
        findings.add(
            code::UNKNOWN_KEY,
            &entry.key_range,
            format!("Envoy has no key {} here", quoted(&entry.key)),
            Some(&format!("did you mean `{}`?", spelt_as(&entry.key, field))),
        );
    }
}

fn vm_id(vm: &Entry, findings: &mut Findings) {
    let entry = meant(&vm.value, "vm_id", VM_FIELDS);
    if entry.is_none_or(|entry| entry.value.text().unwrap_or_default().is_empty()) {
        findings.add(
            code::VM_ID,
            &entry.unwrap_or(vm).key_range,
            "`vm_id` is empty: all filters without a `vm_id` share their data, including filters of other programs",
            Some("write a `vm_id` such as `diana`, the same for all filters that count together"),
        );
    }
}

fn failure_policy(plugin: &Value, findings: &mut Findings) {
    let is_given = |field| meant(plugin, field, PLUGIN_FIELDS).is_some();
    if !is_given("failure_policy") && !is_given("fail_open") {
        findings.add(
            code::FAILURE_POLICY,
            &head(plugin),
            "`failure_policy` is missing: if a VM fails, its worker answers all requests with status 503",
            Some("write `failure_policy: FAIL_RELOAD`, which replaces the VM and keeps the counts"),
        );
    }
}
