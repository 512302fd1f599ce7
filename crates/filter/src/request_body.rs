//! Parts of a request's body. The filter holds the headers of a request whose decision depends on
//! its body, reads the body as it comes, and then decides.
//!
//! ```text
//!   headers ─► reader? ─┬─ no, or the request has no body ────────────────────────► decide
//!                       └─ hold ─► parts ─► the end, too much, no JSON, or `wait` ─► decide
//! ```

use crate::Host;
use crate::timer_queue::MAX_HELD_BODIES;
use diana_config::Configuration;
use diana_limiter::policy::Policy;
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::{HeaderLines, JsonPart, Part, PartId, Source};
use diana_response::{Call, CallId};
use diana_response_meter::{JsonValue, JsonValues, Pointers};

/// The most bytes of a body that a worker copies at once.
const CHUNK_BYTES: usize = 64 << 10;

/// What a policy reads of bodies.
#[derive(Debug)]
pub(super) struct BodyParts {
    /// The policy's parts, and their pointers.
    parts: Vec<JsonPart>,
    pointers: Pointers,
    /// A bit for each part whose fingerprint is needed.
    fingerprinted: u64,
    /// The indices of the members of a JSON-RPC request, if refusals depend on them.
    call: Option<[usize; 3]>,
    /// The longest body in bytes that is read.
    max: u64,
}

/// A body that was read to its end. The default is that of a request without one.
#[derive(Default)]
pub(super) struct ReadBody {
    values: Vec<JsonValue>,
    /// The length in bytes, as `content-length` has it. `None`: as the request says.
    size: Option<Vec<u8>>,
}

/// Reads the body of one request.
pub(super) struct BodyReader {
    /// `None` if the body cannot be read.
    values: Option<JsonValues>,
    /// How many bytes have come.
    size: usize,
    /// How many may come.
    max: usize,
    /// Whether the host has handed on any part of the body.
    pub(super) has_begun: bool,
}

impl BodyParts {
    /// `None` if no limit needs a part of the body.
    pub(super) fn new(configuration: &Configuration) -> Option<BodyParts> {
        let parts: Vec<JsonPart> = configuration.policy.body_parts().cloned().collect();
        let pointers = Pointers::parse(parts.iter().map(|part| &*part.pointer)).ok();
        debug_assert!(pointers.is_some(), "a pointer that the configuration refuses");
        let pointers = pointers.filter(|pointers| !pointers.is_empty())?;
        let bits = parts.iter().rev().fold(0, |bits, part| bits << 1 | u64::from(part.is_fingerprint));
        let at = |pointer: &str| {
            let is_plain = |part: &JsonPart| *part.pointer == *pointer && !part.is_fingerprint;
            let at = parts.iter().position(is_plain);
            debug_assert!(at.is_some(), "the policy reads `{pointer}`");
            at.unwrap_or(usize::MAX)
        };
        let call = configuration.response.reads_calls().then(|| Call::POINTERS.map(at));
        let max = configuration.request_body.max;
        Some(BodyParts { parts, pointers, fingerprinted: bits, call, max })
    }

    /// A reader for the body of the effective stream's request, which does not end with its
    /// headers, if the decision depends on the body and it can be read. A tunnel has no body, and a
    /// client that expects `100-continue` sends none before the upstream has answered.
    pub(super) fn reader<H: Host>(
        &self,
        host: H,
        policy: &Policy,
        source: impl FnOnce() -> H::Request,
    ) -> Option<BodyReader> {
        let value = |name: &str| host.request_header(name.as_bytes()).unwrap_or_default();
        let length = value("content-length");
        let declared = || str::from_utf8(&length).ok()?.trim().parse().ok();
        let can_read = JsonValues::can_read(&value("content-type"), &value("content-encoding"))
            && (length.is_empty() || declared().is_some_and(|length: u64| length <= self.max))
            && ["upgrade", "expect"].iter().all(|name| value(name).is_empty())
            && value(":method") != b"CONNECT";
        if !can_read || !policy.needs_body(&policy.request(&source())) {
            return None;
        }
        let values = JsonValues::fingerprinting(&self.pointers, self.fingerprinted);
        let max = usize::try_from(self.max).unwrap_or(usize::MAX);
        Some(BodyReader { values: Some(values), size: 0, max, has_begun: false })
    }

    /// The JSON-RPC request in this body. `None` if it is another body, or if refusals do not
    /// depend on it.
    pub(super) fn call(&self, body: &ReadBody) -> Option<Call> {
        let [version, method, id] = self.call?.map(|at| body.values.get(at));
        let is_call = matches!(version, Some(JsonValue::Text(text)) if **text == *Call::VERSION)
            && matches!(method, Some(JsonValue::Text(_)));
        let id = match id.filter(|_| is_call)? {
            JsonValue::Absent => None,
            JsonValue::Text(text) => Some(CallId::Text(text)),
            JsonValue::Literal(text) => Some(CallId::Literal(text)),
            JsonValue::Null | JsonValue::Unreadable => Some(CallId::Other),
        };
        Some(Call::new(id))
    }

    /// The most bytes of bodies that all plugins of a VM keep at once for these parts.
    pub(super) fn footprint(&self) -> usize {
        let each = self.pointers.len().saturating_mul(JsonValues::MAX_VALUE_BYTES);
        MAX_HELD_BODIES.saturating_mul(each)
    }

    /// The request with this body.
    pub(super) fn request<'a>(&'a self, source: &'a dyn Source, body: &'a ReadBody) -> WithBody<'a> {
        WithBody { source, parts: &self.parts, body }
    }
}

impl BodyReader {
    /// A part of the body has arrived.
    pub(super) fn read(&mut self, host: impl Host, size: usize) {
        self.has_begun = true;
        self.size = self.size.saturating_add(size);
        if self.size > self.max {
            self.values = None;
        }
        let mut start = 0;
        while let Some(values) = &mut self.values
            && start < size
        {
            let bytes = host.request_body(start, CHUNK_BYTES.min(size.saturating_sub(start)));
            let Some(chunk) = bytes.filter(|chunk| !chunk.is_empty()) else {
                return self.values = None;
            };
            values.push(&chunk);
            start = start.saturating_add(chunk.len());
        }
    }

    /// Whether further parts change nothing.
    pub(super) fn is_failed(&self) -> bool {
        self.values.as_ref().is_none_or(JsonValues::is_failed)
    }

    /// The body, if it `has_ended`. `None`: it cannot be read.
    pub(super) fn finish(self, has_ended: bool) -> Option<ReadBody> {
        let values = self.values.filter(|_| has_ended)?.finish()?;
        Some(ReadBody { values, size: Some(self.size.to_string().into_bytes()) })
    }
}

/// A request with the parts of its body.
pub(super) struct WithBody<'a> {
    source: &'a dyn Source,
    parts: &'a [JsonPart],
    body: &'a ReadBody,
}

impl Source for WithBody<'_> {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        let part = match part {
            Part::RequestJson(part) => part,
            // A body in chunks has no declared length.
            Part::BodySize if self.body.size.is_some() => {
                return HeaderLines::One(self.body.size.as_deref());
            }
            _ => return self.source.lines(id, part),
        };
        let at = self.parts.iter().position(|known| known == part);
        match at.and_then(|at| self.body.values.get(at)) {
            None | Some(JsonValue::Absent | JsonValue::Null) => HeaderLines::One(None),
            Some(JsonValue::Text(text) | JsonValue::Literal(text)) => HeaderLines::One(Some(text)),
            Some(JsonValue::Unreadable) => HeaderLines::Unread,
        }
    }

    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        self.source.claim(token, path)
    }

    fn query(&self) -> Option<Vec<u8>> {
        self.source.query()
    }
}
