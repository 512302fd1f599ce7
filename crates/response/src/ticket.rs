//! Refusal tickets: the record of a refusal, encrypted and authenticated. A client can paste it
//! into a support form, and whoever has the key reads it later. Nothing is stored.
//!
//! A ticket is 78 bytes in base64url (RFC 4648 §5), which are 104 characters without padding:
//!
//! | bytes | content |
//! | --- | --- |
//! | 16 | the tag: the first half of HMAC-SHA-256 (RFC 2104) of the record |
//! | 62 | the record, XOR HMAC-SHA-256 of the tag and the block's number, by another key |
//!
//! The tag is also the nonce, as in SIV (RFC 5297). Workers share no counter, and some gateways
//! have weak random numbers, so a separate nonce might repeat and reveal the record. Here, equal
//! tickets only mean equal records. The access log's hashes already need HMAC, so this cipher adds
//! 0.8 kB to the filter; `ascon-aead` added 1.1 kB, and needs a nonce of 16 bytes in each ticket.

use super::wait;
use diana_base::narrowed;
use diana_base::time::{Span, Time};
use diana_limiter::cells::table::Hasher;
use diana_limiter::decide::{Decision, Outcome, Reason};
use diana_limiter::policy::{ActorSource, Policy};
use hmac_sha256::HMAC;
use std::fmt;

const TAG: usize = 16;
/// The widths of a record's numbers, in bytes, after the version and the kind.
const WIDTHS: [usize; 9] = [6, 8, 8, 6, 8, 6, 8, 4, 6];
const RECORD: usize = 62;
/// The number of characters of each ticket.
const CHARACTERS: usize = 104;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VERSION: u8 = 1;
/// Of six bytes.
const MOST: u64 = (1 << 48) - 1;
/// Stands for a wait that does not help.
const NEVER: u64 = MOST;

/// The key of tickets.
///
/// ```
/// use diana_response::{TicketError, TicketKey, TicketReason, TicketRecord};
///
/// let key = TicketKey::new("0123456789abcdef");
/// let record = TicketRecord { quota: 100, used: 100, ..TicketRecord::new(TicketReason::Quota) };
/// let ticket = key.seal(&record);
/// assert_eq!(ticket.len(), 104);
/// assert_eq!(key.open(&ticket), Ok(record));
/// let other = TicketKey::new("fedcba9876543210");
/// assert_eq!(other.open(&ticket), Err(TicketError::Key));
/// ```
#[derive(Clone)]
pub struct TicketKey {
    tag: HMAC,
    stream: HMAC,
    actor: HMAC,
}

impl TicketKey {
    /// Derives the keys from a secret of at least 128 random bits.
    #[must_use]
    pub fn new(secret: &str) -> TicketKey {
        // One key for each use.
        let secret = HMAC::new(secret.as_bytes());
        let key = |label: &[u8]| HMAC::new(&mac(&secret, &[label])[..]);
        TicketKey {
            tag: key(b"diana ticket tag"),
            stream: key(b"diana ticket stream"),
            actor: key(b"diana ticket actor"),
        }
    }

    /// The hash of an escaped actor, by which a ticket names it: 48 bits.
    #[must_use]
    pub fn actor(&self, escaped: &str) -> u64 {
        number(mac(&self.actor, &[escaped.as_bytes()]).iter().take(6))
    }

    /// The ticket of a record.
    #[must_use]
    pub fn seal(&self, record: &TicketRecord) -> String {
        let mut record = record.bytes();
        let tag = self.tag(&record);
        self.encrypt(&tag, &mut record);
        encoded(&[&tag[..], &record].concat())
    }

    /// The record of a ticket that this key has sealed.
    pub fn open(&self, ticket: &str) -> Result<TicketRecord, TicketError> {
        let bytes = decoded(ticket)?;
        let (tag, record) = bytes.split_at_checked(TAG).ok_or(TicketError::Key)?;
        let mut record = record.to_vec();
        self.encrypt(tag, &mut record);
        let differences = self.tag(&record).iter().zip(tag).fold(0, |all, (one, other)| all | (one ^ other));
        // The time of the comparison does not depend on where the tags differ.
        match std::hint::black_box(differences) {
            0 => TicketRecord::read(&record).ok_or(TicketError::Version),
            _ => Err(TicketError::Key),
        }
    }

    fn tag(&self, record: &[u8]) -> [u8; TAG] {
        let mac = mac(&self.tag, &[record]);
        mac.first_chunk().copied().unwrap_or_default()
    }

    /// Encrypts a record, or decrypts it.
    fn encrypt(&self, tag: &[u8], record: &mut [u8]) {
        for (block, bytes) in (0u8..).zip(record.chunks_mut(32)) {
            let stream = mac(&self.stream, &[tag, &[block]]);
            bytes.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
        }
    }
}

/// HMAC-SHA-256 of these parts. All callers share one copy, for one type of argument.
#[inline(never)]
fn mac(key: &HMAC, parts: &[&[u8]]) -> [u8; 32] {
    let mut keyed = key.clone();
    parts.iter().for_each(|part| keyed.update(*part));
    keyed.finalize()
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
}

/// Why a ticket cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketError {
    /// It has another number of characters.
    Length,
    /// It has a character that no ticket has.
    Alphabet,
    /// Another key has sealed it, or it was changed.
    Key,
    /// A later version has sealed it.
    Version,
}

impl fmt::Display for TicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TicketError::Length => "a ticket has 104 characters",
            TicketError::Alphabet => "a ticket has only letters, digits, `-` and `_`",
            TicketError::Key => "no key decrypts it: another key made it, or it was changed",
            TicketError::Version => "it is from a later version of Diana",
        })
    }
}

impl std::error::Error for TicketError {}

/// What refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketReason {
    /// The quota of a rule.
    Quota,
    /// The penalty of a rule.
    Penalty,
    /// The gateway's own share of a quota, because the rule's store was down.
    Fallback,
    /// A rule with `on_error: deny`, because its store was down.
    StoreDown,
    /// A rule with `missing: deny`.
    NoActor,
    /// The deny list.
    DenyList,
}

const REASONS: [TicketReason; 6] = [
    TicketReason::Quota,
    TicketReason::Penalty,
    TicketReason::Fallback,
    TicketReason::StoreDown,
    TicketReason::NoActor,
    TicketReason::DenyList,
];
const SOURCES: [ActorSource; 4] =
    [ActorSource::Actor, ActorSource::Address, ActorSource::Shared, ActorSource::Missing];

/// What a ticket says about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketRecord {
    /// What refused the request.
    pub reason: TicketReason,
    /// How the rule found the actor; `None` for the deny list.
    pub source: Option<ActorSource>,
    /// When the request was refused, in whole milliseconds.
    pub at: Time,
    /// [`TicketRecord::rule_hash`] of the rule with the longest wait; 0 for the deny list.
    pub rule: u64,
    /// The rule's `rpu` for this actor, as clients see it.
    pub quota: u64,
    /// The span of the quota, in whole milliseconds; zero for requests in flight.
    pub unit: Span,
    /// How much of the quota was used.
    pub used: u64,
    /// How long to wait from `at`, in whole milliseconds and without jitter. `None` if no wait
    /// helps.
    pub wait: Option<Span>,
    /// The fingerprint of the document.
    pub document: u64,
    /// A number that the workers of a gateway share until it restarts.
    pub gateway: u32,
    /// [`TicketKey::actor`]; 0 if the rule counts no particular actor.
    pub actor: u64,
}

impl TicketRecord {
    /// A record that says nothing but the reason.
    #[must_use]
    pub fn new(reason: TicketReason) -> TicketRecord {
        TicketRecord {
            reason,
            source: None,
            at: Time::ZERO,
            rule: 0,
            quota: 0,
            unit: Span::ZERO,
            used: 0,
            wait: None,
            document: 0,
            gateway: 0,
            actor: 0,
        }
    }

    /// The record of a refusal at this instant, without document, gateway and actor. `None` if the
    /// decision does not refuse.
    #[must_use]
    pub fn of(policy: &Policy, decision: &Decision, now: Time) -> Option<TicketRecord> {
        let Outcome::Reject(why) = decision.outcome else { return None };
        let check = decision.decisive();
        let verdict = check.and_then(|check| check.verdict());
        let reason = match why {
            Reason::Denied => TicketReason::DenyList,
            Reason::NoActor(_) => TicketReason::NoActor,
            Reason::Unavailable(_) => TicketReason::StoreDown,
            Reason::Rule(_) if verdict.is_some_and(|verdict| verdict.is_penalty()) => TicketReason::Penalty,
            Reason::Rule(_) if check.is_some_and(|check| check.is_degraded()) => TicketReason::Fallback,
            Reason::Rule(_) => TicketReason::Quota,
        };
        let mut record =
            TicketRecord { at: now, wait: wait::retry_after(why, decision), ..TicketRecord::new(reason) };
        if let Some(check) = check {
            let shown = check.shown();
            record.source = Some(check.actor());
            record.rule = TicketRecord::rule_hash(policy.rule_name(check.rule()));
            (record.quota, record.unit) = (shown.rpu, shown.unit);
            record.used = verdict.map_or(0, |verdict| shown.rpu.saturating_sub(verdict.remaining));
        }
        Some(record)
    }

    /// The number by which a record names a rule, the same in each document and build.
    #[must_use]
    pub fn rule_hash(name: &str) -> u64 {
        Hasher::name(name.as_bytes())
    }

    fn bytes(&self) -> Vec<u8> {
        let place = |at: Option<usize>| at.and_then(|at| u8::try_from(at).ok()).unwrap_or(0);
        let reason = place(REASONS.iter().position(|reason| *reason == self.reason));
        let source = self.source.and_then(|own| SOURCES.iter().position(|source| *source == own));
        let source = place(source.map(|at| at.saturating_add(1)));
        let mut bytes = Vec::with_capacity(RECORD);
        bytes.extend([VERSION, reason << 4 | source]);
        let at = self.at.as_ns().checked_div(1_000_000).unwrap_or(0);
        let wait = self.wait.map_or(NEVER, Span::as_ms_ceil);
        let numbers = [
            at,
            self.rule,
            self.quota,
            self.unit.as_ms_ceil(),
            self.used,
            wait,
            self.document,
            self.gateway.into(),
            self.actor,
        ];
        for (number, width) in numbers.into_iter().zip(WIDTHS) {
            let (digits, least) = (number.to_be_bytes(), 8usize.saturating_sub(width));
            bytes.extend_from_slice(digits.get(least..).unwrap_or_default());
        }
        debug_assert_eq!(bytes.len(), RECORD, "the widths are those of a record");
        bytes
    }

    /// `None` for a record of another version.
    fn read(bytes: &[u8]) -> Option<TicketRecord> {
        let ([VERSION, kind], mut rest) = bytes.split_first_chunk::<2>()? else { return None };
        let reason = *REASONS.get(usize::from(kind >> 4))?;
        let source = match usize::from(kind & 15).checked_sub(1) {
            Some(at) => Some(*SOURCES.get(at)?),
            None => None,
        };
        let mut next = |width| {
            let (digits, after) = rest.split_at_checked(width)?;
            rest = after;
            Some(number(digits))
        };
        let mut numbers = [0; WIDTHS.len()];
        for (to, width) in numbers.iter_mut().zip(WIDTHS) {
            *to = next(width)?;
        }
        let [at, rule, quota, unit, used, wait, document, gateway, actor] = numbers;
        Some(TicketRecord {
            reason,
            source,
            at: Time::ZERO.after(Span::from_ms(at)),
            rule,
            quota,
            unit: Span::from_ms(unit),
            used,
            wait: (wait != NEVER).then(|| Span::from_ms(wait)),
            document,
            gateway: u32::try_from(gateway).ok()?,
            actor,
        })
    }
}

/// Of big-endian bytes.
fn number<'b>(bytes: impl IntoIterator<Item = &'b u8>) -> u64 {
    bytes.into_iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A multiple of three bytes in base64url. The crate `base64` would take more room in the filter,
/// which encodes nothing else.
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(CHARACTERS);
    for group in bytes.chunks_exact(3) {
        let group = number(group);
        for shift in [18, 12, 6, 0] {
            let digit = ALPHABET.get(narrowed(group >> shift & 63));
            text.push(digit.copied().map_or('A', char::from));
        }
    }
    text
}

fn decoded(ticket: &str) -> Result<Vec<u8>, TicketError> {
    if ticket.len() != CHARACTERS {
        return Err(TicketError::Length);
    }
    let mut bytes = Vec::with_capacity(TAG + RECORD);
    for group in ticket.as_bytes().chunks(4) {
        let mut number = 0u32;
        for byte in group {
            let digit = ALPHABET.iter().position(|known| known == byte).ok_or(TicketError::Alphabet)?;
            number = number << 6 | u32::try_from(digit).unwrap_or(0);
        }
        bytes.extend(number.to_be_bytes().into_iter().skip(1));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::made::{admit, decision, degraded, monthly, penalty, policy, refuse};
    use super::*;
    use diana_limiter::policy::RuleId;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn key() -> TicketKey {
        TicketKey::new("0123456789abcdef")
    }

    fn records() -> impl Strategy<Value = TicketRecord> {
        let source = select(SOURCES.map(Some).into_iter().chain([None]).collect::<Vec<_>>());
        let ms = || 0..u64::MAX / 1_000_000;
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>(), 0..=MOST);
        let times = (ms(), ms(), proptest::option::of(ms()));
        (select(REASONS.to_vec()), source, numbers, times).prop_map(|(reason, source, numbers, times)| {
            let (rule, quota, used, document, gateway, actor) = numbers;
            let (at, unit, wait) = times;
            let (at, unit) = (Time::ZERO.after(Span::from_ms(at)), Span::from_ms(unit));
            let wait = wait.map(Span::from_ms);
            TicketRecord { reason, source, at, rule, quota, unit, used, wait, document, gateway, actor }
        })
    }

    proptest! {
        #[test]
        fn every_record_comes_back_from_a_ticket_of_one_length(record in records()) {
            let ticket = key().seal(&record);
            prop_assert_eq!(ticket.len(), CHARACTERS);
            prop_assert!(ticket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
            prop_assert_eq!(key().open(&ticket), Ok(record));
            prop_assert_eq!(TicketKey::new("0123456789abcdeg").open(&ticket), Err(TicketError::Key));
            prop_assert_eq!(key().seal(&record), ticket);
        }

        #[test]
        fn records_that_differ_have_nothing_in_common(record in records(), used in any::<u64>()) {
            let other = TicketRecord { used: record.used ^ used.max(1), ..record };
            let (one, other) = (key().seal(&record), key().seal(&other));
            let same = one.bytes().zip(other.bytes()).filter(|(one, other)| one == other).count();
            prop_assert!(same < 24, "{} {}", one, other);
        }

        #[test]
        fn any_text_is_refused(text in ".*|[A-Za-z0-9_-]{104}|[A-Za-z0-9_é-]{100,104}") {
            prop_assert!(key().open(&text).is_err());
        }
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let record = TicketRecord { quota: 7, rule: u64::MAX, ..TicketRecord::new(TicketReason::Penalty) };
        let ticket = key().seal(&record);
        let bytes = decoded(&ticket).unwrap();
        assert_eq!(encoded(&bytes), ticket);
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = encoded(&changed);
            assert_eq!(key().open(&changed), Err(TicketError::Key), "bit {bit}");
        }
        for end in 0..ticket.len() {
            assert_eq!(key().open(&ticket[..end]), Err(TicketError::Length), "{end}");
        }
        assert_eq!(key().open(&(ticket.clone() + "A")), Err(TicketError::Length));
        assert_eq!(key().open(&ticket.replacen(&ticket[..1], "+", 1)), Err(TicketError::Alphabet));
    }

    /// A later version must read the tickets of this one.
    #[test]
    fn a_ticket_stays_the_same() {
        let record = TicketRecord {
            reason: TicketReason::Quota,
            source: Some(ActorSource::Actor),
            at: Time::from_ns(1_795_392_000_123_000_000),
            rule: TicketRecord::rule_hash("per-user"),
            quota: 100,
            unit: Span::from_secs(60),
            used: 100,
            wait: Some(Span::from_ms(600)),
            document: 0x0123_4567_89ab_cdef,
            gateway: 0x1a2b_3c4d,
            actor: key().actor("ann"),
        };
        assert_eq!(
            key().seal(&record),
            "O3vINonj69p7BytO5KdSNi5s-y_J788VFzEUUlb1U7y6h6zgXtxKQRThz75bXedlbpi_gbourY_akgQoVW4AiFj0S5ZNe_Ufrogt2Vwi"
        );
        let later = [&[2][..], &record.bytes()[1..]].concat();
        assert_eq!(TicketRecord::read(&later), None);
    }

    #[test]
    fn a_record_says_which_rule_refused_and_why() {
        let policy = policy(["a", "b"]);
        let by = |states: &[_]| decision(&policy, states);
        let of = |decision: &Decision| TicketRecord::of(&policy, decision, Time::from_ns(7_999_999));
        let quota = of(&by(&[(10, 1000, refuse(1)), (20, 60_000, refuse(1001))])).unwrap();
        assert_eq!(
            quota,
            TicketRecord {
                source: Some(ActorSource::Actor),
                at: Time::from_ns(7_999_999),
                rule: TicketRecord::rule_hash("a"),
                quota: 10,
                unit: Span::from_secs(1),
                used: 10,
                wait: Some(Span::from_ms(1001)),
                ..TicketRecord::new(TicketReason::Quota)
            }
        );
        assert_eq!(key().open(&key().seal(&quota)).unwrap().at, Time::from_ns(7_000_000));
        assert_eq!(of(&by(&[(10, 1000, admit(1, 1))])), None);
        let reason = |decision: &Decision| of(decision).map(|record| (record.reason, record.wait.is_some()));
        assert_eq!(reason(&by(&[(10, 1000, penalty())])), Some((TicketReason::Penalty, true)));
        let outage = degraded(by(&[(10, 1000, refuse(1))]));
        assert_eq!(reason(&outage), Some((TicketReason::Fallback, true)));
        assert_eq!(reason(&by(&[(0, 1000, refuse(None))])), Some((TicketReason::Quota, false)));
        let calendar = monthly(by(&[(10, 1000, refuse(1))]), 0, 31, 1_806_408_000);
        assert_eq!(reason(&calendar).map(|(reason, _)| reason), Some(TicketReason::Quota));
        for (why, expected) in [
            (Reason::Denied, (TicketReason::DenyList, false)),
            (Reason::NoActor(RuleId::new(0)), (TicketReason::NoActor, false)),
            (Reason::Unavailable(RuleId::new(0)), (TicketReason::StoreDown, true)),
        ] {
            let bare = Decision { outcome: Outcome::Reject(why), ..Decision::default() };
            assert_eq!(reason(&bare), Some(expected));
        }
    }
}
