//! A server that a configuration comes from: what it is asked, and what its answer holds.
//!
//! It does not know: what a configuration is, when it is asked, or who else asks.
//!
//! ```text
//!   Options, Marks ─ request ─► GET or POST, `if-none-match`, `if-modified-since` ─► any HTTP server
//!                                                                                        │
//!   Answer::Unchanged ◄── 304 ───────────────────────────────────────────────────────────┤
//!   Answer::Document  ◄── 200 ─ `pointer`: a place in it (RFC 6901) ─ `encoding`: base64 ─┤
//!   Failure           ◄── any other status, none, or nothing at that place ──────────────┘
//! ```

mod canary;
mod comparison;
mod follow;
mod head;

pub use canary::CanaryVerdict;
pub use comparison::{CanaryCounts, CanaryStats, Comparison};
pub use follow::{Follower, PollResult, Snapshot, Task};
pub use head::Validators;

use crate::document::{self, Value};
use crate::policy::Sample;
use crate::request::pairs;
use crate::table::Hasher;
use crate::time::Span;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::borrow::Cow;

/// A longer answer is not read.
pub const MOST_BYTES: usize = 1 << 20;

/// RFC 4648 §4, with padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Where a configuration comes from.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// The gateway's name of the server.
    pub cluster: String,
    /// The `:authority` of each request.
    pub authority: String,
    /// The `:path`.
    pub path: String,
    /// Of each request beside its own: names in lower case, and values.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// With a body it is a `POST`, else a `GET`.
    pub body: Option<String>,
    /// A change is taken by all workers within so long.
    pub interval: Span,
    /// How long an answer may take.
    pub timeout: Span,
    /// For so long a document serves without contact to its server.
    pub max_stale: Span,
    /// The names on the way to the document's place in the answer; none: the answer is the document.
    pub pointer: Vec<String>,
    /// Whether what is there is base64.
    pub is_base64: bool,
    /// How another document than the one that serves is tried first, if it is.
    pub canary: Option<Canary>,
}

/// How a document is tried beside the one that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canary {
    /// For whom.
    pub sample: Sample,
    /// For how long it is tried, and for how long it is watched when it serves.
    pub hold: Span,
    /// The percentage of requests above which it newly refuses too many.
    pub max_refused: u32,
}

/// What an answer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerReply {
    /// What the marks are of is still there.
    Unchanged,
    /// A document, as the server has it.
    Document(Vec<u8>),
}

/// Why an answer holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// The gateway does not know the server, or the call could not be made.
    NotMade,
    /// There was none.
    None,
    /// Its status.
    Status(u32),
    /// It is longer than [`MOST_BYTES`].
    TooLarge,
    /// It is not JSON, in which a place could be.
    NotJson,
    /// There is nothing at that place.
    Nowhere,
    /// It is not base64.
    NotBase64,
}

impl FetchError {
    /// Whether the server has answered nevertheless, with what it takes for a configuration.
    pub fn is_contact(self) -> bool {
        matches!(
            self,
            FetchError::TooLarge | FetchError::NotJson | FetchError::Nowhere | FetchError::NotBase64
        )
    }

    /// What is told of it.
    pub fn words(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            FetchError::NotMade => "the gateway has no such cluster, or none of its hosts",
            FetchError::None => "no answer in time",
            FetchError::Status(status) => {
                return Cow::Owned(["status ", &crate::format::alone(status.into())].concat());
            }
            FetchError::TooLarge => "more than 1 MiB",
            FetchError::NotJson => "not JSON, in which `pointer` could point",
            FetchError::Nowhere => "nothing where `pointer` points",
            FetchError::NotBase64 => "no base64 where `encoding` expects it",
        })
    }
}

impl RemoteOptions {
    /// What tells this source from another, of which a worker of the same gateway may keep something.
    pub fn id(&self) -> u64 {
        let mut text = Vec::new();
        // Who asks, such as by a token, changes nothing of what is there.
        let own = [&self.cluster, &self.authority, &self.path, self.body.as_deref().unwrap_or_default()];
        for part in own.into_iter().chain(self.pointer.iter().map(|name| &**name)) {
            text.extend(part.len().to_le_bytes());
            text.extend(part.as_bytes());
        }
        text.push(self.is_base64.into());
        Hasher::name(&text)
    }

    /// The headers of a request, as a host takes them.
    pub fn request(&self, marks: &Validators) -> Vec<u8> {
        let method = if self.body.is_some() { "POST" } else { "GET" };
        let own = [(":method", method), (":path", &self.path), (":authority", &self.authority)];
        let kind = self.body.as_ref().map(|_| ("content-type", "application/json"));
        let given = self.headers.iter().map(|(name, value)| (&**name, &**value));
        let is_given = |name: &str| self.headers.iter().any(|(known, _)| **known == *name);
        let marks = [("if-none-match", &*marks.etag), ("if-modified-since", &*marks.modified)];
        let marks = marks.into_iter().filter(|(_, value)| !value.is_empty());
        let all = own.into_iter().chain(kind.filter(|(name, _)| !is_given(name))).chain(given).chain(marks);
        let all: Vec<(&str, Cow<str>)> = all.map(|(name, value)| (name, Cow::from(value))).collect();
        pairs::encode(&all)
    }

    /// What an answer holds; its status is 0 if there was none.
    pub fn read(&self, status: u32, body: &[u8]) -> Result<ServerReply, FetchError> {
        match status {
            200 if body.len() > MOST_BYTES => Err(FetchError::TooLarge),
            200 => self.document(body).map(ServerReply::Document),
            304 => Ok(ServerReply::Unchanged),
            0 => Err(FetchError::None),
            status => Err(FetchError::Status(status)),
        }
    }

    fn document(&self, body: &[u8]) -> Result<Vec<u8>, FetchError> {
        let found = match self.pointer.is_empty() {
            true => body.to_vec(),
            false => match place(document::parse_json(body).ok_or(FetchError::NotJson)?, &self.pointer) {
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

/// What is at this place (RFC 6901 §4): of a key that stands twice nobody knows which is meant.
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

/// The names on the way that a JSON pointer writes (RFC 6901 §3, §4).
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
