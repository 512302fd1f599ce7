//! Refusal tickets, as support gets them from anybody.

use diana_response::{TicketKey, TicketReason, TicketRecord};

/// No text but one that the key has sealed opens, and none makes the reader panic. Bytes of a
/// sealed ticket that the input changes are refused.
pub fn run(bytes: &[u8]) {
    let key = TicketKey::new("0123456789abcdef");
    let text = String::from_utf8_lossy(bytes);
    if let Ok(record) = key.open(&text) {
        assert_eq!(key.seal(&record), text, "two tickets of one record");
    }
    let whole = u64::from(bytes.first().copied().unwrap_or_default());
    let record = TicketRecord { used: whole, ..TicketRecord::new(TicketReason::Quota) };
    let ticket = key.seal(&record);
    let mut changed = ticket.clone().into_bytes();
    for (at, byte) in (0..).zip(bytes.iter().take(8)) {
        let place = usize::from(*byte) % changed.len();
        changed[place] = b"ABab01-_"[at];
    }
    let changed = String::from_utf8(changed).unwrap_or_default();
    assert_eq!(key.open(&changed).ok(), (changed == ticket).then_some(record));
}
