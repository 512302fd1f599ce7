//! What a server replies: a document, nothing new, or neither.

use crate::options::RemoteOptions;
use crate::pointer::value_at;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use diana_document::Value;
use std::borrow::Cow;

/// The longest reply that is read, in bytes. A longer reply is an error.
pub const MAX_REPLY_BYTES: usize = 1 << 20;

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
    #[must_use]
    pub fn is_contact(self) -> bool {
        matches!(
            self,
            FetchError::TooLarge | FetchError::NotJson | FetchError::Nowhere | FetchError::NotBase64
        )
    }

    /// The text for the log.
    #[must_use]
    pub fn words(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            FetchError::NotMade => "the gateway has no such cluster, or none of its hosts",
            FetchError::None => "no answer in time",
            FetchError::Status(status) => {
                return Cow::Owned(["status ", &diana_base::format::decimal(status.into())].concat());
            }
            FetchError::TooLarge => "more than 1 MiB",
            FetchError::NotJson => "not JSON, in which `pointer` could point",
            FetchError::Nowhere => "nothing where `pointer` points",
            FetchError::NotBase64 => "no base64 where `encoding` expects it",
        })
    }
}

impl RemoteOptions {
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
            false => {
                match value_at(diana_document::parse_json(body).ok_or(FetchError::NotJson)?, &self.pointer) {
                    Some(Value::Text(text)) => text.into_bytes(),
                    Some(value @ (Value::List(_) | Value::Object(_))) => value.to_string().into_bytes(),
                    _ => return Err(FetchError::Nowhere),
                }
            }
        };
        match self.is_base64 {
            true => BASE64.decode(found.trim_ascii()).map_err(|_| FetchError::NotBase64),
            false => Ok(found),
        }
    }
}

/// RFC 4648 §4, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
