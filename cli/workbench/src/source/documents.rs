//! Finds the documents of Diana in gateway configurations and Kubernetes manifests.

use super::content::{Content, SyntaxError};
use super::messages::{
    CODE_FIELDS, Fields, MANAGER, MODULE, MODULE_CONFIG_FIELDS, MODULE_FIELDS, MODULE_OF_ROUTE,
    PLUGIN_FIELDS, ROUTE_FIELDS, VALUE_FIELDS, VM_FIELDS, WASM, WASM_FIELDS, implied, meant, message,
};
use super::nginx::Word;
use super::parts::{Form, Part};
use super::recognize::{is_document, is_of_diana};
use super::value::{Entry, Kind, Value};
use super::{embedded, json};
use std::borrow::Cow;
use std::ops::Range;

/// The program that reads a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Unknown: the document is a file of its own.
    Any,
    /// The proxy-wasm filter in Envoy.
    Wasm,
    /// The native module in Envoy.
    Module,
    /// The native module, for a route.
    Route,
    /// The proxy-wasm filter in nginx.
    Nginx,
}

/// A document of Diana.
#[derive(Debug)]
pub struct Document<'a> {
    /// The program that reads the document.
    pub host: Host,
    /// The text that contains the document.
    pub part: &'a Part,
    /// The document.
    pub body: Body<'a>,
    /// What configures the filter.
    pub filter: Option<Filter<'a>>,
    /// The `HttpConnectionManager` around the filter.
    pub manager: Option<&'a Value>,
}

/// What configures a filter.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a> {
    /// Its form.
    pub form: FilterForm,
    /// The entry of the `PluginConfig` in Envoy's message.
    pub entry: Option<&'a Entry>,
    /// The value.
    pub value: &'a Value,
    /// The entry of the message around the filter, if the message lacks its type.
    pub untyped: Option<&'a Entry>,
    /// Whether Istio merges the value into a filter that is defined elsewhere.
    pub is_merged: bool,
    /// The list of filters around the filter.
    pub chain: Option<&'a Value>,
    /// The item of `configPatches` around the filter, in Istio's `EnvoyFilter`.
    pub patch: Option<&'a Value>,
}

/// The form of a filter's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterForm {
    /// A `PluginConfig` of Envoy.
    Plugin,
    /// A `DynamicModuleFilter` of Envoy.
    Module,
    /// A `DynamicModuleFilterPerRoute` of Envoy.
    ModuleOfRoute,
    /// The `spec` of Istio's `WasmPlugin`, or `wasm` in that of a `TrafficExtension`.
    WasmPlugin,
    /// An item of `wasm` or `dynamicModule` in Envoy Gateway's `EnvoyExtensionPolicy`.
    ExtensionPolicy,
}

impl FilterForm {
    /// The key of the document, and all keys of the form; no keys for Kubernetes resources.
    #[must_use]
    pub fn keys(self) -> (&'static str, Fields) {
        match self {
            FilterForm::Plugin => ("configuration", PLUGIN_FIELDS),
            FilterForm::Module => ("filter_config", MODULE_FIELDS),
            FilterForm::ModuleOfRoute => ("filter_config", ROUTE_FIELDS),
            FilterForm::WasmPlugin => ("pluginConfig", &[]),
            FilterForm::ExtensionPolicy => ("config", &[]),
        }
    }
}

/// A document.
#[derive(Debug)]
pub enum Body<'a> {
    /// Part of a larger value, such as a `google.protobuf.Struct`.
    Structure(&'a Value),
    /// A text of its own, and its value.
    Text(Content, Result<Value, SyntaxError>),
    /// No document, or one in an unsupported form, at these bytes of the text.
    Absent(Range<usize>, &'static str),
}

impl<'a> Document<'a> {
    /// The text that has the ranges of [`Document::value`].
    #[must_use]
    pub fn content(&self) -> &Content {
        match &self.body {
            Body::Text(content, _) => content,
            Body::Structure(_) | Body::Absent(..) => &self.part.content,
        }
    }

    /// The value of the document; `None` if it cannot be read.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match &self.body {
            Body::Structure(value) => Some(value),
            Body::Text(_, value) => value.as_ref().ok(),
            Body::Absent(..) => None,
        }
    }

    /// The bytes that Diana receives, or bytes that mean the same to Diana.
    #[must_use]
    pub fn json(&self) -> Cow<'_, [u8]> {
        match &self.body {
            Body::Text(content, _) => Cow::Borrowed(content.text.as_bytes()),
            // The JSON may have repeated keys, which Diana reports.
            Body::Structure(value) if self.part.is_json => {
                let text = self.part.content.text.get(value.range.clone());
                Cow::Borrowed(text.unwrap_or_default().as_bytes())
            }
            Body::Structure(value) => Cow::Owned(value.to_json().into_bytes()),
            Body::Absent(..) => Cow::Borrowed(b""),
        }
    }

    /// The bytes of the file that have the document.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        let content = self.content();
        match &self.body {
            Body::Structure(value) => content.outer(&value.range),
            Body::Text(content, _) => {
                let start = content.text.find(|c: char| !c.is_whitespace()).unwrap_or(0);
                content.outer(&(start..content.text.len()))
            }
            Body::Absent(range, _) => content.outer(range),
        }
    }
}

/// All documents in the texts of a file, in the order of the file.
#[must_use]
pub fn documents(parts: &[Part]) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    for part in parts {
        let mut finder = Finder { part, documents: &mut documents };
        match &part.form {
            Form::Document(value) => finder.add(Host::Any, Body::Structure(value), None, None),
            Form::Envoy(value) => {
                finder.fragment(value);
                finder.visit(value, Around::default());
            }
            Form::Kubernetes(value) => finder.visit(value, Around::default()),
            Form::Nginx(directives) => {
                for directive in directives.iter().filter(|directive| is_of_diana(directive)) {
                    if let [_, name, rest @ ..] = &directive.words[..] {
                        finder.nginx(name, rest.first());
                    }
                }
            }
            Form::Wrong(_) => {}
        }
    }
    documents
}

/// The configuration around a value.
#[derive(Clone, Copy, Default)]
struct Around<'a> {
    manager: Option<&'a Value>,
    /// The entry of the value, if the value is an `Any` without a type.
    untyped: Option<&'a Entry>,
    is_merged: bool,
    chain: Option<&'a Value>,
    patch: Option<&'a Value>,
}

struct Finder<'a, 'b> {
    part: &'a Part,
    documents: &'b mut Vec<Document<'a>>,
}

impl<'a> Finder<'a, '_> {
    fn add(&mut self, host: Host, body: Body<'a>, filter: Option<Filter<'a>>, manager: Option<&'a Value>) {
        self.documents.push(Document { host, part: self.part, body, filter, manager });
    }

    fn nginx(&mut self, name: &Word, document: Option<&Word>) {
        let body = match document {
            Some(word) => {
                let content = self.part.content.within(word.text.as_str(), &word.origin);
                let value = json::value(&content.text);
                Body::Text(content, value)
            }
            None => Body::Absent(name.range.clone(), EMPTY),
        };
        self.add(Host::Nginx, body, None, None);
    }

    fn visit(&mut self, value: &'a Value, mut around: Around<'a>) {
        let untyped = around.untyped.take();
        let (message, body) = match untyped {
            Some(_) => (implied(value), value),
            None => message(value),
        };
        if value.get("applyTo").is_some() {
            around.patch = Some(value);
        }
        let Around { is_merged, chain, patch, .. } = around;
        let filter = |form, entry, value| Filter { form, entry, value, untyped, is_merged, chain, patch };
        match message {
            MANAGER => around.manager = Some(body),
            WASM => {
                if let Some(entry) = meant(body, "config", WASM_FIELDS) {
                    let plugin = filter(FilterForm::Plugin, Some(entry), &entry.value);
                    self.filter(Host::Wasm, plugin, around.manager, names_diana(&entry.value));
                }
            }
            MODULE | MODULE_OF_ROUTE => {
                let (host, form) = match message {
                    MODULE => (Host::Module, FilterForm::Module),
                    _ => (Host::Route, FilterForm::ModuleOfRoute),
                };
                let module = meant(body, "dynamic_module_config", MODULE_FIELDS);
                let name = module.and_then(|module| meant(&module.value, "name", MODULE_CONFIG_FIELDS));
                let is_named = name.is_some_and(|name| name.value.text() == Some("diana"));
                self.filter(host, filter(form, None, body), around.manager, is_named);
            }
            _ => {}
        }
        if let (Some(kind), Some(spec)) = (value.get("kind").and_then(Value::text), value.get("spec")) {
            self.resource(kind, spec);
        }
        // The `patch` of an `EnvoyFilter`.
        around.is_merged |= value.get("operation").and_then(Value::text) == Some("MERGE");
        for entry in value.entries() {
            let is_chain = matches!(entry.key.as_str(), "http_filters" | "httpFilters");
            let chain = if is_chain { Some(&entry.value) } else { around.chain };
            self.visit(&entry.value, Around { untyped: self.untyped(entry), chain, ..around });
        }
        value.items().iter().for_each(|item| self.visit(item, around));
    }

    /// The entry, if Envoy expects an `Any` there, but the value has no type. A patch in a
    /// Kubernetes manifest may get its type from the filter that the patch changes.
    fn untyped(&self, entry: &'a Entry) -> Option<&'a Entry> {
        let is_any = matches!(entry.key.as_str(), "typed_config" | "typedConfig");
        let is_untyped =
            is_any && matches!(self.part.form, Form::Envoy(_)) && message(&entry.value).0.is_empty();
        is_untyped.then_some(entry)
    }

    /// Kubernetes resources with a field of their own for a plugin's configuration.
    fn resource(&mut self, kind: &str, spec: &'a Value) {
        let mut plugin = |value: &'a Value, form: FilterForm, host: Host| {
            let (key, _) = form.keys();
            let is_ours = value.get(key).is_some_and(is_document) || resource_names_diana(value);
            if is_ours {
                let body = match value.get(key) {
                    Some(value) => Body::Structure(value),
                    None => Body::Absent(begin(value), EMPTY),
                };
                let filter = Filter {
                    form,
                    entry: None,
                    value,
                    untyped: None,
                    is_merged: false,
                    chain: None,
                    patch: None,
                };
                self.add(host, body, Some(filter), None);
            }
        };
        match kind {
            "WasmPlugin" => plugin(spec, FilterForm::WasmPlugin, Host::Wasm),
            "TrafficExtension" => {
                spec.get("wasm")
                    .into_iter()
                    .for_each(|wasm| plugin(wasm, FilterForm::WasmPlugin, Host::Wasm));
            }
            "EnvoyExtensionPolicy" => {
                for (list, host) in [("wasm", Host::Wasm), ("dynamicModule", Host::Module)] {
                    let items = spec.get(list).map_or(&[][..], Value::items);
                    items.iter().for_each(|item| plugin(item, FilterForm::ExtensionPolicy, host));
                }
            }
            _ => {}
        }
    }

    /// The end of a filter's configuration, without the message around it.
    fn fragment(&mut self, root: &'a Value) {
        for (key, host) in [("configuration", Host::Wasm), ("filter_config", Host::Module)] {
            if let Some(entry) = root.field_entry(key) {
                let body = self.body(entry);
                self.add(host, body, None, None);
            }
        }
    }

    /// A filter whose document is a protobuf message.
    fn filter(&mut self, host: Host, filter: Filter<'a>, manager: Option<&'a Value>, is_named: bool) {
        let (key, fields) = filter.form.keys();
        let body = match meant(filter.value, key, fields) {
            Some(entry) => self.body(entry),
            // The document is in the filter into which Istio merges this one.
            None if filter.is_merged => return,
            None => Body::Absent(begin(filter.value), EMPTY),
        };
        let is_ours = match &body {
            Body::Structure(value) => is_document(value),
            Body::Text(_, Ok(value)) => is_document(value),
            Body::Text(..) => false,
            Body::Absent(..) => meant(filter.value, key, fields)
                .and_then(|entry| meant(&entry.value, "value", VALUE_FIELDS))
                .is_some_and(|entry| is_document(&entry.value)),
        };
        if is_named || is_ours {
            self.add(host, body, Some(filter), manager);
        }
    }

    fn body(&self, entry: &'a Entry) -> Body<'a> {
        let any = &entry.value;
        let (name, _) = message(any);
        let value = meant(any, "value", VALUE_FIELDS).map(|entry| &entry.value);
        let absent = |value: &Value, why| Body::Absent(head(value), why);
        let text = value.or(Some(any)).filter(|value| value.text().is_some());
        match name {
            // A fragment may leave the type out.
            "" if text.is_none() => Body::Structure(any.get("value").unwrap_or(any)),
            "google.protobuf.StringValue" | "" => {
                match text.and_then(|value| embedded::content(&self.part.content, value)) {
                    Some(content) => {
                        let value = json::value(&content.text);
                        Body::Text(content, value)
                    }
                    None => match value.filter(|value| value.kind != Kind::Null) {
                        Some(value) => absent(value, NO_TEXT),
                        None => Body::Absent(entry.key_range.clone(), EMPTY),
                    },
                }
            }
            "google.protobuf.Struct" => match value {
                Some(value @ Value { kind: Kind::List(_) | Kind::Text(_), .. }) => absent(value, NO_OBJECT),
                Some(value) => Body::Structure(value),
                None => Body::Absent(entry.key_range.clone(), EMPTY),
            },
            _ => Body::Absent(entry.key_range.clone(), UNREAD),
        }
    }
}

/// The beginning of a value: the value itself, or its first item.
fn head(value: &Value) -> Range<usize> {
    match (value.entries().first(), value.items().first()) {
        (Some(entry), _) => entry.key_range.clone(),
        (_, Some(item)) => head(item),
        _ => value.range.clone(),
    }
}

/// The first key of an object.
fn begin(object: &Value) -> Range<usize> {
    object.entries().first().map_or_else(|| object.range.clone(), |entry| entry.key_range.clone())
}

const EMPTY: &str = "the configuration is empty: write a document with `limits`";
const NO_TEXT: &str = "a `google.protobuf.StringValue` is text: write a `google.protobuf.Struct`, or the document as \
    JSON text";
const NO_OBJECT: &str = "a `google.protobuf.Struct` is an object: write an object with `limits`, or JSON text in a \
    `google.protobuf.StringValue`";
const UNREAD: &str = "the check cannot read the document in this message: write a `google.protobuf.Struct` or a \
    `google.protobuf.StringValue`";

/// Whether the filter's names or its file say that the filter is Diana.
fn names_diana(plugin: &Value) -> bool {
    let vm = meant(plugin, "vm_config", PLUGIN_FIELDS);
    let code = vm.and_then(|vm| meant(&vm.value, "code", VM_FIELDS)).map(|code| &code.value);
    let mut files = ["local", "remote"].into_iter().filter_map(|source| {
        let source = &meant(code?, source, CODE_FIELDS)?.value;
        source.field("filename").or_else(|| source.fields(&["http_uri", "uri"]))?.text()
    });
    let mut names = ["name", "root_id"].into_iter().filter_map(|key| plugin.field(key)?.text());
    files.any(is_file_of_diana) || names.any(|name| name.contains("diana"))
}

/// The same for a Kubernetes resource.
fn resource_names_diana(plugin: &Value) -> bool {
    let addresses: [&[&str]; 3] = [&["url"], &["code", "http", "url"], &["code", "image", "url"]];
    let text = |path: &[&str]| path.iter().try_fold(plugin, |value, key| value.get(key))?.text();
    let mut names = ["name", "pluginName", "filterName", "rootID"].into_iter().filter_map(|key| text(&[key]));
    addresses.into_iter().filter_map(text).any(is_file_of_diana) || names.any(|name| name.contains("diana"))
}

/// Whether an address ends with a file or an image of Diana. A folder or a host may be named after
/// other things.
fn is_file_of_diana(address: &str) -> bool {
    address.rsplit('/').next().is_some_and(|name| name.contains("diana"))
}
