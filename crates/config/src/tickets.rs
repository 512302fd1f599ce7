//! `tickets`: the key of refusal tickets, and the one before it.

use super::secret;
use diana_document::{Node, Value};
use diana_response::TicketKey;

/// The keys of refusal tickets.
///
/// ```
/// use diana_response::{TicketReason, TicketRecord};
///
/// let tickets = |keys: &str| {
///     let document = format!(r#"{{"limits": [], "tickets": {keys}}}"#);
///     diana_config::compile(document.as_bytes()).expect("a valid document").tickets
/// };
/// let old = tickets(r#"{"secret": "0123456789abcdef"}"#).expect("a key");
/// let new = tickets(r#"{"secret": "fedcba9876543210", "previous_secret": "0123456789abcdef"}"#);
/// let record = TicketRecord::new(TicketReason::DenyList);
/// let ticket = old.key.seal(&record);
/// let previous = new.and_then(|new| new.previous).expect("the key before it");
/// assert_eq!(previous.open(&ticket), Ok(record));
/// ```
#[derive(Clone, Debug)]
pub struct TicketOptions {
    /// Seals tickets.
    pub key: TicketKey,
    /// Has sealed tickets before `key`. Only tools use it.
    pub previous: Option<TicketKey>,
}

/// Compiles `tickets`. Reports each mistake at its place and then returns `None`.
pub(super) fn compile(node: Node) -> Option<TicketOptions> {
    let Value::Object(_) = node.value() else {
        // The value may be the secret, so the message does not repeat it.
        node.fail("expected an object such as `{secret: {env: NAME}}`");
        return None;
    };
    let mut fields = node.fields()?;
    let (secret, previous) = (fields.require("secret"), fields.take("previous_secret"));
    fields.finish();
    let key = secret.and_then(|node| secret::own(&node));
    let previous = match previous {
        Some(node) => {
            let text = secret::own(&node);
            if text.is_some() && text == key {
                node.fail("it is the same as `secret`: leave it out");
            }
            Some(text?)
        }
        None => None,
    };
    Some(TicketOptions { key: TicketKey::new(&key?), previous: previous.map(|text| TicketKey::new(&text)) })
}
