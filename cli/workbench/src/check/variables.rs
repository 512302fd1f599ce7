//! Findings about variables of the environment that the filter cannot read.

use super::code;
use super::finding::Findings;
use crate::source::documents::{Document, Filter, FilterForm, Host};
use crate::source::value::Value;
use diana_document::quoted;

/// Adds a finding for each `{env: NAME}` whose variable the VM of the filter does not get.
pub fn unlisted(document: &Document, root: &Value, findings: &mut Findings) {
    let Some(filter) = document.filter.as_ref().filter(|filter| !filter.is_merged) else { return };
    if document.host != Host::Wasm {
        return;
    }
    let (place, listed) = listed(filter);
    let mut names = Vec::new();
    for key in ["store", "inspect", "access_log", "tickets"] {
        root.get(key).into_iter().for_each(|value| variables(value, key, &mut names));
    }
    for name in names {
        if name.text().is_some_and(|text| !listed.contains(&text)) {
            findings.add(
                code::UNLISTED_VARIABLE,
                &name.range,
                format!("the filter cannot read this variable: {} lacks it", quoted(place)),
                Some("a proxy-wasm filter sees only the variables that are listed there"),
            );
        }
    }
}

/// The field around the filter that lists variables, and their names.
fn listed<'a>(filter: &Filter<'a>) -> (&'static str, Vec<&'a str>) {
    let items = |names: &[&str]| filter.value.fields(names).map_or(&[][..], Value::items);
    match filter.form {
        FilterForm::WasmPlugin => {
            let named = items(&["vm_config", "env"]).iter().filter_map(|item| item.get("name"));
            ("vmConfig.env", named.filter_map(Value::text).collect())
        }
        FilterForm::ExtensionPolicy => {
            ("env.hostKeys", items(&["env", "host_keys"]).iter().filter_map(Value::text).collect())
        }
        _ => {
            let environment = ["vm_config", "environment_variables"];
            let keys = items(&[environment[0], environment[1], "host_env_keys"]);
            let pairs = filter.value.fields(&[environment[0], environment[1], "key_values"]);
            let pairs = pairs.map_or(&[][..], Value::entries).iter().map(|entry| &*entry.key);
            let keys = keys.iter().filter_map(Value::text).chain(pairs);
            ("vm_config.environment_variables.host_env_keys", keys.collect())
        }
    }
}

/// Collects the names in `{env: NAME}`. A token may be named `env`.
fn variables<'a>(value: &'a Value, key: &str, names: &mut Vec<&'a Value>) {
    match value.entries() {
        [only] if only.key == "env" && key != "tokens" => names.push(&only.value),
        entries => entries.iter().for_each(|entry| variables(&entry.value, &entry.key, names)),
    }
}
