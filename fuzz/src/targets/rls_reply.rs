//! Replies of a rate limit service.
//!
//! The first byte is the number of rules, the rest the message.

use super::input::Input;
use super::query::query;
use diana_base::time::Span;
use diana_global_rls::Rls;
use diana_limiter::algorithm::Admission;
use diana_limiter::global::CallError;
use diana_limiter::global::{GlobalQuery, LeaseGrant};

const MOST_RULES: usize = 8;

/// The longest message that is read. Quadratic work on it would take a minute.
const LONGEST: usize = 1 << 20;
/// One in so many input lengths is also read at the longest length.
const LONG_ONE_IN: usize = 128;

/// Fields that no service sends, of every kind that has a length.
const UNKNOWN: [&[u8]; 4] = [b"\x78\x01", b"\x79\0\0\0\0\0\0\0\0", b"\x7a\x01x", b"\x7d\0\0\0\0"];

/// Any bytes are a reply to each rule or an error, whatever else a message holds.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let rules = input.below(MOST_RULES + 1);
    let (query, rls) = (GlobalQuery::Decide(vec![(0..rules).map(query).collect()]), Rls::new("diana".into()));
    let message = input.0;
    if !message.is_empty() && message.len().is_multiple_of(LONG_ONE_IN) {
        let _ = rls.read_reply(&query, &message.repeat(LONGEST / message.len()));
    }

    let result = rls.read_reply(&query, message);
    let Ok(replies) = &result else { return assert_eq!(result, Err(CallError::Garbage)) };
    assert_eq!(replies.len(), rules);
    for reply in replies {
        match reply.verdict.admission {
            Admission::Admit { delay } => assert_eq!(delay, Span::ZERO),
            Admission::Refuse { retry_after } => assert!(retry_after.is_some_and(|wait| wait > Span::ZERO)),
        }
        assert_eq!((reply.charge, reply.grant), ([0; 5], LeaseGrant::default()));
    }
    for unknown in UNKNOWN {
        assert_eq!(rls.read_reply(&query, &[message, unknown].concat()), result);
        assert_eq!(rls.read_reply(&query, &[unknown, message].concat()), result);
    }
}
