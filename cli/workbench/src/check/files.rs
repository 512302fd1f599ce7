//! Findings about the files that a gateway loads.

use super::code;
use super::finding::Findings;
use crate::source::documents::{Document, FilterForm};
use crate::source::files::Around;
use crate::source::messages::{CODE_FIELDS, LOCAL_FIELDS, MODULE_CONFIG_FIELDS, VM_FIELDS, meant};
use crate::source::parts::Form;
use crate::source::value::Value;
use diana_document::quoted;
use std::path::{Path, PathBuf};

/// Adds a finding if the filter's file does not exist. `around`: the checked file, as a whole.
pub fn missing(document: &Document, around: Around, findings: &mut Findings) {
    let Some(named) = filter_file(document) else { return };
    let path = Path::new(named.text().unwrap_or_default());
    let is_missing = match path.parent() {
        // The configuration may be for another machine, which has other folders.
        Some(folder) if path.is_absolute() => around.files.is_folder(folder) && !around.files.exists(path),
        _ => !bases(around).iter().any(|base| around.files.exists(&base.join(path))),
    };
    if is_missing && !path.as_os_str().is_empty() {
        findings.add(
            code::MISSING_FILE,
            &named.range,
            format!("the file {} does not exist", quoted(&path.to_string_lossy())),
            Some("write the path of the release's file; a relative path begins where Envoy is started"),
        );
    }
}

/// The folders where Envoy may be started: this one, and those around the checked file.
fn bases(Around { path, files }: Around) -> Vec<PathBuf> {
    let file = files.absolute(path);
    file.ancestors().skip(1).map(Into::into).chain([PathBuf::from(".")]).collect()
}

/// The name of the file with the filter, or with the native module.
fn filter_file<'a>(document: &Document<'a>) -> Option<&'a Value> {
    let Form::Envoy(_) = &document.part.form else { return None };
    let filter = document.filter.as_ref()?;
    let field = |value: &'a Value, name, fields| Some(&meant(value, name, fields)?.value);
    let code = match filter.form {
        FilterForm::Plugin => {
            let vm = filter.value.field("vm_config")?;
            field(vm, "code", VM_FIELDS)?
        }
        FilterForm::Module | FilterForm::ModuleOfRoute => {
            field(filter.value.field("dynamic_module_config")?, "module", MODULE_CONFIG_FIELDS)?
        }
        FilterForm::WasmPlugin | FilterForm::ExtensionPolicy => return None,
    };
    field(field(code, "local", CODE_FIELDS)?, "filename", LOCAL_FIELDS)
}
