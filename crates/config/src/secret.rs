//! `secret` of a store: text in the document, or one of the gateway's secrets, which its secret
//! discovery service (SDS) delivers.

use diana_document::{Errors, Fields, Node, Value};
use std::fmt;

/// In bytes. A shorter secret could be found by brute force.
const MIN_BYTES: usize = 16;

const UNSUPPORTED: &str = "only the native module reads secrets by SDS, in Envoy 1.40 or later: write the secret \
    itself here, as text, or `{env: NAME}`";

/// The gateway's secret for a document that has `secret: {sds: …}`.
///
/// ```
/// use diana_config::Secret;
///
/// let secret = Secret::of(b"0123456789abcdef\n").expect("long enough");
/// assert!(secret == Secret::Known("0123456789abcdef".into()));
/// assert_eq!(format!("{secret:?}"), "a secret");
/// assert!(Secret::of(b"short").is_none());
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Secret {
    /// The host delivers no secrets. Such a document is refused.
    #[default]
    Unsupported,
    /// The host has not delivered the secret yet. Until then the store counts as down.
    Absent,
    /// The secret.
    Known(String),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if let Secret::Known(_) = self { "a secret" } else { "no secret" })
    }
}

impl Secret {
    /// A delivered secret; `None` if the secret is too short or is not text. A line break at the
    /// end is none of the secret: files often have one.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Secret> {
        let text = str::from_utf8(bytes).ok()?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        (text.len() >= MIN_BYTES).then(|| Secret::Known(text.into()))
    }
}

/// Where the gateway gets a secret.
///
/// ```
/// let document = br#"{
///     "limits": [],
///     "store": {"redis": {"cluster": "redis", "secret": {"sds": "diana"}}}
/// }"#;
/// let source = diana_config::SecretSource::of(document).expect("a secret of the gateway");
/// assert_eq!((source.name.as_str(), source.config.as_str()), ("diana", ""));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSource {
    /// The secret's name.
    pub name: String,
    /// Envoy's `ConfigSource` as JSON; empty for a secret of the bootstrap.
    pub config: String,
}

impl SecretSource {
    /// The source of the secret of a document's store; `None` if the document has the secret
    /// itself, or a mistake there.
    #[must_use]
    pub fn of(document: &[u8]) -> Option<SecretSource> {
        let document = diana_document::parse(document).ok()?;
        let store = entry(&document, "store")?;
        let secret = entry(entry(store, "redis")?, "secret")?;
        source(&Node::root(secret, &Errors::default()))
    }
}

fn entry<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let Value::Object(entries) = value else { return None };
    entries.iter().find(|(known, _)| known == key).map(|(_, value)| value)
}

/// Reads `secret`: `Some(None)` if the gateway does not have it yet. Reports a mistake at its place
/// and then returns `None`.
pub(super) fn read(node: &Node, delivered: &Secret) -> Option<Option<String>> {
    match (node.value(), delivered) {
        (Value::Object(_), Secret::Unsupported) => {
            node.fail(UNSUPPORTED);
            None
        }
        (Value::Object(_), Secret::Absent) => source(node).map(|_| None),
        (Value::Object(_), Secret::Known(secret)) => source(node).map(|_| Some(secret.clone())),
        _ => own(node).map(Some),
    }
}

/// Reads a secret that stands in the document itself. Reports a mistake at its place and then
/// returns `None`.
pub(super) fn own(node: &Node) -> Option<String> {
    match node.value() {
        Value::Text(text) if text.len() >= MIN_BYTES => Some(text.clone()),
        _ => {
            // The error omits the value found, because mistakes are logged.
            node.fail(
                "expected a text of at least 16 letters that only these gateways know, such as `openssl rand -hex 16` \
                 prints",
            );
            None
        }
    }
}

/// Reads `{sds: NAME}` or `{sds: {name: NAME, sds_config: …}}`.
fn source(node: &Node) -> Option<SecretSource> {
    let mut fields = node.fields()?;
    let sds = fields.require("sds");
    fields.finish();
    let sds = sds?;
    match sds.value() {
        Value::Text(_) => Some(SecretSource { name: name(&sds)?, config: String::new() }),
        Value::Object(_) => of_service(sds.fields()?),
        _ => sds.expected("the name of a secret of the bootstrap, or `{name: …, sds_config: …}`"),
    }
}

/// The keys are those of Envoy's `SdsSecretConfig`.
fn of_service(mut fields: Fields) -> Option<SecretSource> {
    let (name, config) = (fields.require("name").and_then(|node| name(&node)), fields.require("sds_config"));
    fields.finish();
    let config = config?;
    match config.value() {
        Value::Object(_) => Some(SecretSource { name: name?, config: config.value().to_string() }),
        _ => config.expected("Envoy's `ConfigSource`, such as `{path_config_source: {path: …}}`"),
    }
}

fn name(node: &Node) -> Option<String> {
    match node.text()? {
        "" => node.expected("the name of a secret"),
        name => Some(name.into()),
    }
}
