//! Parts of the request's body: `request_json`, and `request_body`, which says for how long and how
//! much of a body the filter reads before it decides.

use diana_base::time::Span;
use diana_document::{Node, quoted};
use diana_limiter::actor::NamedActor;
use diana_limiter::cells::table::Hasher;
use diana_limiter::policy::Policy;
use diana_limiter::request::{Part, Parts};
use diana_response::Call;

/// The most bytes of a body that are read.
const MAX_BYTES: u64 = 1 << 20;
/// The longest wait for a body.
const MAX_WAIT: Span = Span::from_secs(60);
/// The most pointers of a document.
const MAX_POINTERS: usize = 64;

const TOO_MANY: &str = "a document reads at most 64 parts of the body";
const EXPECTED: &str = "a JSON pointer such as `/model` of at most 64 names and 1024 bytes";

/// How the filter reads the bodies that limits need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestBodyOptions {
    /// How long a request waits for its body at most: 1 ms to 60 s.
    pub wait: Span,
    /// The longest body in bytes that is read: 1 to 1 MiB.
    pub max: u64,
}

impl Default for RequestBodyOptions {
    fn default() -> RequestBodyOptions {
        RequestBodyOptions { wait: Span::from_secs(1), max: MAX_BYTES }
    }
}

impl RequestBodyOptions {
    /// A hash of the options; 0 for the default, and if no limit needs a body.
    pub(super) fn canonical_hash(self, policy: &Policy) -> u64 {
        let is_used = self != RequestBodyOptions::default() && policy.body_parts().next().is_some();
        if is_used { Hasher::of(&("request_body", self.wait, self.max)) } else { 0 }
    }
}

/// Compiles `request_body`. Reports each mistake at its place.
pub(super) fn compile(node: Node) -> RequestBodyOptions {
    let mut options = RequestBodyOptions::default();
    let Some(mut fields) = node.fields() else {
        return options;
    };
    if let Some(wait) = fields.take("wait").and_then(|node| node.span(Span::from_ms(1)..=MAX_WAIT)) {
        options.wait = wait;
    }
    if let Some(max) = fields.take("max").and_then(|node| node.size(1..=MAX_BYTES)) {
        options.max = max;
    }
    fields.finish();
    options
}

/// Adds the value at a JSON pointer in the body to `parts`.
pub(super) fn pointer<'n>(node: &Node<'n>, parts: &mut Parts) -> Option<&'n str> {
    let text = node.text()?;
    add_pointer(text, node, parts).map(|()| text)
}

/// Adds the fingerprint of the value at a JSON pointer in the body to `parts`.
pub(super) fn fingerprinted<'n>(node: &Node<'n>, parts: &mut Parts) -> Option<&'n str> {
    let text = node.text()?;
    add(Part::fingerprint(text), text, node, parts).map(|()| text)
}

/// Like [`pointer()`], with a text that stands elsewhere than in `node`.
pub(super) fn add_pointer(pointer: &str, node: &Node, parts: &mut Parts) -> Option<()> {
    add(Part::request_json(pointer), pointer, node, parts)
}

/// Adds a part. Reports a pointer that is wrong, or that is one too many.
fn add(part: Option<Part>, pointer: &str, node: &Node, parts: &mut Parts) -> Option<()> {
    let Some(part) = part else {
        node.fail(format!("expected {EXPECTED}, found {}", quoted(pointer)));
        return None;
    };
    let others = parts.iter().filter(|known| matches!(known, Part::RequestJson(_)) && **known != part);
    if others.count() >= MAX_POINTERS {
        node.fail(TOO_MANY);
        return None;
    }
    parts.intern(part);
    Some(())
}

/// Adds the members of a JSON-RPC request. `response` is the object with `json_rpc`.
pub(super) fn read_calls(response: &Node, parts: &mut Parts) {
    for pointer in Call::POINTERS {
        _ = add_pointer(pointer, response, parts);
    }
}

/// Refuses an actor in the body outside of limits, where every request would wait for its body.
pub(super) fn refuse(actor: NamedActor, node: &Node) -> Option<NamedActor> {
    match actor.reads_body() {
        false => Some(actor),
        true => {
            node.fail("only rules may have an actor with `request_json`: here, every request would wait for its body");
            None
        }
    }
}
