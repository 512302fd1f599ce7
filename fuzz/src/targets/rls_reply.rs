//! What a rate limit service replies.
//!
//! It does not know: what a real one would.
//!
//! The first byte is the number of rules, the rest the message.

use super::input::Input;
use super::query::query;
use diana::algorithm::Admission;
use diana::policy::{GlobalQuery, LeaseGrant};
use diana::remote::CallError;
use diana::remote::rls::Rls;
use diana::time::Span;

const MOST_RULES: usize = 8;

/// As long as what is read at most, so that a square of it takes a minute.
const LONGEST: usize = 1 << 20;
/// Of so many lengths inputs have, one is read at that length as well.
const LONG_ONE_IN: usize = 128;

/// Fields that no service sends, of every kind that has a length.
const UNKNOWN: [&[u8]; 4] = [b"\x78\x01", b"\x79\0\0\0\0\0\0\0\0", b"\x7a\x01x", b"\x7d\0\0\0\0"];

/// Any bytes tell something of each rule or nothing, whatever else a message holds.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let rules = input.below(MOST_RULES + 1);
    let (question, rls) =
        (GlobalQuery::Decide(vec![(0..rules).map(query).collect()]), Rls::new("diana".into()));
    let message = input.0;
    if !message.is_empty() && message.len().is_multiple_of(LONG_ONE_IN) {
        let _ = rls.read_reply(&question, &message.repeat(LONGEST / message.len()));
    }

    let answer = rls.read_reply(&question, message);
    let Ok(told) = &answer else { return assert_eq!(answer, Err(CallError::Garbage)) };
    assert_eq!(told.len(), rules);
    for told in told {
        match told.verdict.admission {
            Admission::Admit { delay } => assert_eq!(delay, Span::ZERO),
            Admission::Refuse { retry_after } => assert!(retry_after.is_some_and(|wait| wait > Span::ZERO)),
        }
        assert_eq!((told.charge, told.grant), ([0; 5], LeaseGrant::default()));
    }
    for unknown in UNKNOWN {
        assert_eq!(rls.read_reply(&question, &[message, unknown].concat()), answer);
        assert_eq!(rls.read_reply(&question, &[unknown, message].concat()), answer);
    }
}
