//! How to fetch documents from a server: its address, the requests to it, and how long to wait.

use crate::validators::Validators;
use diana_base::time::Span;
use diana_limiter::cells::table::Hasher;
use diana_limiter::request::pairs;
use std::borrow::Cow;

/// How to fetch a remote configuration.
///
/// ```
/// use diana_remote_config::{FetchError, RemoteOptions, ServerReply, pointer};
///
/// // Consul wraps the document in base64.
/// let options = RemoteOptions {
///     pointer: pointer("/0/Value").unwrap(),
///     is_base64: true,
///     ..RemoteOptions::new("consul", "/v1/kv/diana")
/// };
/// let reply = options.read(200, br#"[{"Key": "diana", "Value": "e30="}]"#);
/// assert_eq!(reply, Ok(ServerReply::Document(b"{}".into())));
/// assert_eq!(options.read(200, b"[]"), Err(FetchError::Nowhere));
/// assert_eq!(options.read(404, b""), Err(FetchError::Status(404)));
/// ```
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
}

impl RemoteOptions {
    /// A hash of the options, except the headers, which may have secrets.
    #[must_use]
    pub fn canonical_hash(&self) -> u64 {
        let RemoteOptions { cluster, authority, path, body, interval, timeout, max_stale, pointer, .. } =
            self;
        Hasher::of(&(cluster, authority, path, body, interval, timeout, max_stale, pointer, self.is_base64))
    }

    /// The interval between polls, unless configured otherwise.
    pub const INTERVAL: Span = Span::from_secs(5);

    /// The timeout of a request, unless configured otherwise.
    pub const TIMEOUT: Span = Span::from_secs(1);

    /// How long a document stays active without contact, unless configured otherwise.
    pub const MAX_STALE: Span = Span::from_secs(600);

    /// The options of `{cluster: …, path: …}`.
    #[must_use]
    pub fn new(cluster: &str, path: &str) -> RemoteOptions {
        RemoteOptions {
            cluster: cluster.into(),
            authority: cluster.into(),
            path: path.into(),
            headers: Vec::new(),
            body: None,
            interval: RemoteOptions::INTERVAL,
            timeout: RemoteOptions::TIMEOUT,
            max_stale: RemoteOptions::MAX_STALE,
            pointer: Vec::new(),
            is_base64: false,
        }
    }

    /// Distinguishes this source from others whose state a worker of the same gateway may keep.
    #[must_use]
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
    #[must_use]
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
}
