//! Findings about the file of the filter that a gateway loads.

use super::code;
use super::finding::Findings;
use crate::source::documents::{Document, Filter, FilterForm};
use crate::source::value::Entry;
use diana_config::Configuration;
use diana_filter::Exports;

/// Adds the finding about a file of the filter that lacks callbacks.
pub fn loaded(document: &Document, configuration: &Configuration, findings: &mut Findings) {
    let Some(entry) = document.filter.as_ref().and_then(address) else {
        return;
    };
    let name = file_name(entry.value.text().unwrap_or_default());
    let loaded = Exports::OF_ENVOY.into_iter().find(|callbacks| callbacks.file() == name);
    if loaded.is_some_and(|loaded| loaded.suffice(configuration).is_err()) {
        findings.add(
            code::WRONG_FILE,
            &entry.value.range,
            format!(
                "`{name}` refuses this document, because the file lacks callbacks that the document needs"
            ),
            Some(&format!("load `{}`", fitting(configuration))),
        );
    }
}

/// The file for Envoy with the fewest callbacks that suffice.
#[must_use]
pub fn fitting(configuration: &Configuration) -> &'static str {
    let suffices = |callbacks: &Exports| callbacks.suffice(configuration).is_ok();
    Exports::OF_ENVOY.into_iter().find(suffices).unwrap_or(Exports::Useful).file()
}

/// The entry with the address of the file.
fn address<'a>(filter: &Filter<'a>) -> Option<&'a Entry> {
    let value = filter.value;
    match filter.form {
        FilterForm::Plugin => {
            let code = value.fields(&["vm_config", "code"])?;
            let local = code.field("local").and_then(|local| local.field_entry("filename"));
            local.or_else(|| code.fields(&["remote", "http_uri"])?.field_entry("uri"))
        }
        FilterForm::WasmPlugin => value.entry("url"),
        FilterForm::ExtensionPolicy => {
            let code = value.get("code")?;
            let source = |kind: &str| code.get(kind).and_then(|source| source.entry("url"));
            source("http").or_else(|| source("image"))
        }
        FilterForm::Module | FilterForm::ModuleOfRoute => None,
    }
}

/// The name of the file at an address. An image with the name of a file has that file, as in
/// `oci://host/diana-min:1`.
fn file_name(address: &str) -> String {
    let path = address.split(['?', '#', '@']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = name.split(':').next().unwrap_or_default();
    // `diana` alone is an image of any file.
    match name.starts_with("diana-") && !name.contains('.') {
        true => format!("{name}.wasm"),
        false => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_name_of_a_file() {
        for (address, name) in [
            ("/etc/envoy/diana-min.wasm", "diana-min.wasm"),
            ("https://host/v1/diana-min.wasm?token=a/b", "diana-min.wasm"),
            ("file:///opt/diana.wasm", "diana.wasm"),
            ("oci://host:5000/gateway/diana-min:1.2", "diana-min.wasm"),
            ("host/diana-nginx@sha256:0123", "diana-nginx.wasm"),
            ("oci://host/diana:1", "diana"),
        ] {
            assert_eq!(file_name(address), name, "{address}");
        }
    }
}
