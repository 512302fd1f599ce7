//! Collects the bytes of a reply, as many as the filter reads.

use diana_limiter::global::MAX_REPLY_BYTES;

/// Appends bytes that a server sent, up to one byte beyond [`MAX_REPLY_BYTES`]. So a reply of any
/// length costs little memory, and a longer reply is recognised as too long.
pub(super) fn append(bytes: &mut Vec<u8>, chunk: &[u8]) {
    let room = MAX_REPLY_BYTES.saturating_add(1).saturating_sub(bytes.len());
    bytes.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
}
