//! The source of a remote configuration: the requests to its server, and what the replies contain.
//!
//! ```text
//!   RemoteOptions, Validators ─ request ─► GET or POST, `if-none-match`, `if-modified-since`
//!                                            │
//!                                            ▼ any HTTP server
//!   ServerReply::Unchanged ◄── 304 ──────────┤
//!   ServerReply::Document  ◄── 200 ──────────┤ the value at `pointer` (RFC 6901), maybe base64
//!   FetchError             ◄── otherwise ────┘ another status, no reply, or no value there
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::arithmetic_side_effects
    )
)]

mod canary;
mod comparison;
mod follow;
mod head;

pub use canary::CanaryVerdict;
pub use comparison::{CanaryCounts, CanaryStats, Comparison};
pub use follow::{Follower, PollResult, Snapshot, Task};
pub use head::Validators;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use diana_base::time::Span;
use diana_document::Value;
use diana_limiter::policy::Sample;
use diana_limiter::request::pairs;
use diana_limiter::table::Hasher;
use std::borrow::Cow;

/// The longest reply that is read, in bytes. A longer reply is an error.
pub const MAX_REPLY_BYTES: usize = 1 << 20;

/// RFC 4648 §4, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// How to fetch a remote configuration.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// The cluster of the server in the gateway.
    pub cluster: String,
    /// The `:authority` of each request.
    pub authority: String,
    /// The `:path` of each request.
    pub path: String,
    /// Further headers of each request: names in lower case, and values.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The body of each request, which makes it a `POST`; `None` makes it a `GET`.
    pub body: Option<String>,
    /// The time within which all workers apply a change on the server.
    pub interval: Span,
    /// The timeout of one request.
    pub timeout: Span,
    /// How long a document stays active without contact to the server.
    pub max_stale: Span,
    /// The names in the JSON pointer to the document within the reply. If empty, the reply is the
    /// document.
    pub pointer: Vec<String>,
    /// Whether the document is encoded as base64.
    pub is_base64: bool,
    /// How a candidate is compared before it becomes active, if it is.
    pub canary: Option<Canary>,
}

/// How a candidate is compared with the active document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canary {
    /// The actors whose requests are compared.
    pub sample: Sample,
    /// How long a candidate is compared, and how long it is watched after promotion.
    pub hold: Span,
    /// The highest percentage of compared requests that the new document may newly refuse.
    pub max_refused: u32,
}

/// The content of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerReply {
    /// The server still has the document of the validators.
    Unchanged,
    /// The document.
    Document(Vec<u8>),
}

/// Why a reply has no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// The gateway has no such cluster, or could not make the call.
    NotMade,
    /// There was no reply.
    None,
    /// An HTTP status without a document: not 200, or 304 to a request without validators.
    Status(u32),
    /// The reply is longer than [`MAX_REPLY_BYTES`].
    TooLarge,
    /// The reply is not JSON, so `pointer` cannot apply.
    NotJson,
    /// There is no value at `pointer`.
    Nowhere,
    /// The value is not base64.
    NotBase64,
}

impl FetchError {
    /// Whether the reply still counts as contact: the server replied with what it takes for a
    /// document.
    pub fn is_contact(self) -> bool {
        matches!(
            self,
            FetchError::TooLarge | FetchError::NotJson | FetchError::Nowhere | FetchError::NotBase64
        )
    }

    /// The text for the log.
    pub fn words(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            FetchError::NotMade => "the gateway has no such cluster, or none of its hosts",
            FetchError::None => "no answer in time",
            FetchError::Status(status) => {
                return Cow::Owned(["status ", &diana_base::format::alone(status.into())].concat());
            }
            FetchError::TooLarge => "more than 1 MiB",
            FetchError::NotJson => "not JSON, in which `pointer` could point",
            FetchError::Nowhere => "nothing where `pointer` points",
            FetchError::NotBase64 => "no base64 where `encoding` expects it",
        })
    }
}

impl RemoteOptions {
    /// Distinguishes this source from others whose state a worker of the same gateway may keep.
    pub fn id(&self) -> u64 {
        let mut text = Vec::new();
        // Headers such as a token do not change what the source contains.
        let own = [&self.cluster, &self.authority, &self.path, self.body.as_deref().unwrap_or_default()];
        for part in own.into_iter().chain(self.pointer.iter().map(|name| &**name)) {
            text.extend(part.len().to_le_bytes());
            text.extend(part.as_bytes());
        }
        text.push(self.is_base64.into());
        Hasher::name(&text)
    }

    /// The headers of a request, encoded for the host.
    pub fn request(&self, validators: &Validators) -> Vec<u8> {
        let method = if self.body.is_some() { "POST" } else { "GET" };
        let own = [(":method", method), (":path", &self.path), (":authority", &self.authority)];
        let kind = self.body.as_ref().map(|_| ("content-type", "application/json"));
        let configured = self.headers.iter().map(|(name, value)| (&**name, &**value));
        let is_configured = |name: &str| self.headers.iter().any(|(known, _)| **known == *name);
        let validators = [("if-none-match", &*validators.etag), ("if-modified-since", &*validators.modified)];
        let validators = validators.into_iter().filter(|(_, value)| !value.is_empty());
        let all = own
            .into_iter()
            .chain(kind.filter(|(name, _)| !is_configured(name)))
            .chain(configured)
            .chain(validators);
        let all: Vec<(&str, Cow<str>)> = all.map(|(name, value)| (name, Cow::from(value))).collect();
        pairs::encode(&all)
    }

    /// The content of a reply; `status` is 0 if there was no reply.
    pub fn read(&self, status: u32, body: &[u8]) -> Result<ServerReply, FetchError> {
        match status {
            200 if body.len() > MAX_REPLY_BYTES => Err(FetchError::TooLarge),
            200 => self.document(body).map(ServerReply::Document),
            304 => Ok(ServerReply::Unchanged),
            0 => Err(FetchError::None),
            status => Err(FetchError::Status(status)),
        }
    }

    fn document(&self, body: &[u8]) -> Result<Vec<u8>, FetchError> {
        let found = match self.pointer.is_empty() {
            true => body.to_vec(),
            false => match place(diana_document::parse_json(body).ok_or(FetchError::NotJson)?, &self.pointer)
            {
                Some(Value::Text(text)) => text.into_bytes(),
                Some(value @ (Value::List(_) | Value::Object(_))) => value.to_string().into_bytes(),
                _ => return Err(FetchError::Nowhere),
            },
        };
        match self.is_base64 {
            true => BASE64.decode(found.trim_ascii()).map_err(|_| FetchError::NotBase64),
            false => Ok(found),
        }
    }
}

/// The value at this pointer (RFC 6901 §4). A key that occurs twice is ambiguous and has no value.
fn place(value: Value, names: &[String]) -> Option<Value> {
    let Some((name, rest)) = names.split_first() else {
        return Some(value);
    };
    let inner = match value {
        Value::Object(entries) => {
            let mut found = entries.into_iter().filter(|(key, _)| key == name);
            let (_, inner) = found.next()?;
            if found.next().is_some() {
                return None;
            }
            inner
        }
        Value::List(items) => {
            let is_index = name == "0" || !name.starts_with(['0', '+']);
            let index = name.parse::<usize>().ok().filter(|_| is_index)?;
            items.into_iter().nth(index)?
        }
        _ => return None,
    };
    place(inner, rest)
}

/// Parses a JSON pointer into its names (RFC 6901 §3, §4).
pub fn pointer(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let name = |part: &str| {
        let is_escaped = |at: &str| at.starts_with(['0', '1']);
        part.split('~').skip(1).all(is_escaped).then(|| part.replace("~1", "/").replace("~0", "~"))
    };
    text.strip_prefix('/')?.split('/').map(name).collect()
}

#[cfg(test)]
mod tests;
