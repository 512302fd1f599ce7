//! What rules need to know of responses, which a host has to measure, and what it has measured.

use super::cost::CostError;
use diana_base::format::{decimal, netstring};
use diana_base::map::KeySet;
use diana_base::sort;
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// A value of a response that a cost names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The whole number in the header of this name, in lower case.
    Header(Box<str>),
    /// The whole number at this JSON pointer (RFC 6901) of the body: a JSON document, or the last
    /// event of a `text/event-stream` that has the pointer.
    Json(Box<str>),
    /// The number in the host attribute at this path when the request ends: metadata or filter
    /// state that another filter has made of the response.
    Property(Vec<Box<str>>),
}

impl Measure {
    /// The kind and the name of the value. No step of a path has a NUL.
    pub(super) fn named(&self) -> (&'static str, Cow<'_, str>) {
        match self {
            Measure::Header(name) => ("response header ", (&**name).into()),
            Measure::Json(pointer) => ("response json ", (&**pointer).into()),
            Measure::Property(path) => ("response property ", path.join("\0").into()),
        }
    }

    /// The canonical text.
    pub(super) fn canonical_form(&self) -> String {
        let (kind, name) = self.named();
        [kind, &netstring(&name)].concat()
    }
}

/// A number of a response, as far as the host could read it. By default nothing is known.
///
/// ```
/// use diana_limiter::policy::ResponseNumber;
///
/// let read = |value: &str| ResponseNumber::in_header(Some(value.as_bytes()));
/// assert_eq!(read(" 12 "), ResponseNumber::known(Some(12)));
/// assert_eq!(ResponseNumber::in_header(None), ResponseNumber::known(None));
/// assert_eq!(read("12, 12"), read("12"));
/// assert_eq!(read("12, 13"), ResponseNumber::default(), "there is a number, but which?");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseNumber {
    /// The number; `None` if none was seen.
    pub seen: Option<u64>,
    /// Whether the response has this number, or has none. Otherwise the host could not read all of
    /// the response, which may have another number.
    pub is_final: bool,
}

impl ResponseNumber {
    /// The number of a response that was read; `None` if the response has none.
    #[must_use]
    pub fn known(number: Option<u64>) -> ResponseNumber {
        ResponseNumber { seen: number, is_final: true }
    }

    /// The number in a host attribute: decimal digits, or eight bytes, a whole number or a float
    /// (little-endian), as Envoy has them. A fraction is rounded up, and as in JSON, other numbers
    /// than 0 to 2^53 have no value. The number is final if the response `has_ended`.
    ///
    /// ```
    /// use diana_limiter::policy::ResponseNumber;
    ///
    /// let read = |value: &[u8]| ResponseNumber::in_property(Some(value), true);
    /// assert_eq!(read(b"12"), ResponseNumber::known(Some(12)));
    /// assert_eq!(read(&12u64.to_le_bytes()), read(b"12"));
    /// assert_eq!(read(&11.5f64.to_le_bytes()), read(b"12"));
    /// for other in [&(-1.0f64).to_le_bytes()[..], b"tokens=5", b"1234.567"] {
    ///     assert_eq!(read(other), ResponseNumber::default());
    /// }
    /// ```
    #[must_use]
    #[cold]
    #[inline(never)]
    pub fn in_property(value: Option<&[u8]>, has_ended: bool) -> ResponseNumber {
        let seen = value.and_then(|value| digits(value).or_else(|| binary(value)));
        let seen = seen.filter(|number| *number <= LARGEST);
        ResponseNumber { seen, is_final: has_ended && (seen.is_some() || value.is_none()) }
    }

    /// The number in a header, whose lines are joined by commas and have to agree.
    #[must_use]
    pub fn in_header(value: Option<&[u8]>) -> ResponseNumber {
        let mut lines = value.unwrap_or_default().split(|byte| *byte == b',').map(digits);
        let first = lines.next().flatten();
        let seen = first.filter(|_| lines.all(|line| line == first));
        ResponseNumber { seen, is_final: seen.is_some() || value.is_none() }
    }
}

/// The largest number of a JSON document or an attribute that has a value.
const LARGEST: u64 = 1 << 53;

/// The number in eight bytes, rounded up. As a float, a whole number up to [`LARGEST`] would be far
/// below any that is counted.
fn binary(value: &[u8]) -> Option<u64> {
    // Text of eight characters. The low bytes of a whole number, and its high ones, are 0.
    if value.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return None;
    }
    let whole = u64::from_le_bytes(value.try_into().ok()?);
    if whole <= LARGEST {
        return Some(whole);
    }
    let float = f64::from_bits(whole);
    let is_counted = (0.0..=LARGEST as f64).contains(&float);
    is_counted.then(|| {
        let below = float as u64;
        below.saturating_add(u64::from((below as f64) < float))
    })
}

/// The whole number in a text. Spaces around the number are ignored. A number above 2⁶⁴ − 1 counts
/// as 2⁶⁴ − 1.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    let add =
        |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')));
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then(|| digits.iter().fold(0, add))
}

/// What a host has to measure of requests and responses. See the example of [`Usage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Whether a rule depends on the status.
    pub status: bool,
    /// Whether a rule depends on the times of responses: the host has to call
    /// [`Session::forwarded`](crate::session::Session::forwarded) and
    /// [`Session::responded`](crate::session::Session::responded).
    pub latency: bool,
    /// Whether a rule counts the bytes of request bodies.
    pub request_bytes: bool,
    /// Whether a rule counts the bytes of response bodies.
    pub response_bytes: bool,
    /// The values to read, each once.
    pub values: Vec<Measure>,
}

impl Measures {
    /// Whether the host has to measure anything.
    #[must_use]
    pub fn any(&self) -> bool {
        self.request_bytes || self.response_headers() || self.response_body()
    }

    /// Whether a rule depends on the headers of responses.
    #[must_use]
    pub fn response_headers(&self) -> bool {
        self.status || self.latency || !self.values.is_empty()
    }

    /// Whether a rule depends on the bodies of responses.
    #[must_use]
    pub fn response_body(&self) -> bool {
        self.response_bytes || self.values.iter().any(|measure| matches!(measure, Measure::Json(_)))
    }

    /// The JSON pointers among the values, in their order.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        self.values.iter().filter_map(|measure| match measure {
            Measure::Json(pointer) => Some(&**pointer),
            _ => None,
        })
    }

    /// Adds a value, unless the list has it. `known` has the texts of the values in the list.
    pub(crate) fn add(&mut self, measure: &Measure, known: &mut KeySet) {
        if known.add(measure.canonical_form().as_bytes()) {
            self.values.push(measure.clone());
        }
    }
}

/// What a request used, as far as the host measured it until the request ended.
/// This rule allows five failed log-ins a minute. Successful log-ins do not count.
///
/// ```
/// use diana_limiter::algorithm::BucketOptions;
/// use diana_limiter::cells::store::Memory;
/// use diana_limiter::policy::{Cost, Draft, LimitDraft, Quota, RuleDraft, Statuses, Usage};
/// use diana_limiter::request::{Part, Values};
/// use diana_limiter::session::{Session, Worker};
/// use diana_limiter::time::{Span, Time};
/// use std::sync::Arc;
///
/// let quota = Quota::token_bucket(5, Span::from_secs(60), BucketOptions::default())?;
/// // Settling may charge a bucket below empty.
/// let quota = quota.borrowing(5).ok_or("it can settle")?;
/// let mut cost = Cost::default();
/// cost.charge = Some(Statuses::new(&[401..=401])?);
/// let rule = RuleDraft { cost, ..RuleDraft::new("failed", Vec::new(), quota) };
/// let mut draft = Draft::default();
/// draft.limits.push(LimitDraft::new("=/login".parse()?, vec![rule]));
/// let policy = Arc::new(draft.build());
///
/// let store = Memory::new();
/// let mut worker = Worker::new(policy.clone(), &store, &[7; 16]);
/// let values = Values::default().with(Part::Path, "/login");
/// let request = policy.request(&values);
/// let now = || Time::from_ns(1_795_392_000_000_000_000);
/// // The host has to report the status, and nothing else.
/// let measures = policy.measures();
/// assert!(measures.status && !measures.response_bytes && measures.values.is_empty());
///
/// let mut log_in = |status| {
///     let (mut session, decision) = Session::start(&mut worker, &request, now);
///     let verdict = decision.checks.first().and_then(|check| check.verdict());
///     let left = verdict.map(|verdict| verdict.remaining);
///     if session.settles() {
///         let usage = Usage { status: Some(status), ..Usage::default() };
///         session.settle_used(&mut worker, &usage, now);
///     }
///     left
/// };
/// let left = [log_in(200), log_in(401), log_in(401), log_in(200)];
/// assert_eq!(left, [Some(5), Some(5), Some(4), Some(3)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The status of the response; `None` if there was no response.
    pub status: Option<u16>,
    /// The bytes of the request's body that passed.
    pub request_bytes: u64,
    /// The bytes of the response's body that passed.
    pub response_bytes: u64,
    /// The number of each of [`Measures::values`], in the same order. Nothing is known of missing
    /// ones at the end.
    pub values: Vec<ResponseNumber>,
}

/// A set of statuses. Equal sets have equal ranges, however they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(Vec<(u16, u16)>);

const LEAST: u16 = 100;
const MOST: u16 = 599;

impl Statuses {
    /// The statuses in these ranges, each from 100 to 599.
    #[inline]
    pub fn new(ranges: &[RangeInclusive<u16>]) -> Result<Statuses, CostError> {
        let is_valid = |range: &RangeInclusive<u16>| {
            !range.is_empty() && LEAST <= *range.start() && *range.end() <= MOST
        };
        if ranges.is_empty() || !ranges.iter().all(is_valid) {
            return Err(CostError::Status);
        }
        let mut ranges: Vec<(u16, u16)> = ranges.iter().map(|range| (*range.start(), *range.end())).collect();
        sort::sort_by_key(&mut ranges, |range| *range);
        let mut merged: Vec<(u16, u16)> = Vec::new();
        for (from, to) in ranges {
            match merged.last_mut() {
                Some((_, end)) if from <= end.saturating_add(1) => *end = to.max(*end),
                _ => merged.push((from, to)),
            }
        }
        Ok(Statuses(merged))
    }

    /// Whether the set has this status.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&status))
    }

    /// The canonical text.
    pub(crate) fn canonical_form(&self) -> String {
        let range =
            |(from, to): &(u16, u16)| [&decimal((*from).into()), "-", &*decimal((*to).into())].concat();
        self.0.iter().map(range).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_statuses_are_the_same_set() {
        let form = |ranges: &[RangeInclusive<u16>]| Statuses::new(ranges).map(|all| all.canonical_form());
        for ranges in [&[400..=499][..], &[450..=499, 400..=449, 404..=404], &[400..=498, 499..=499]] {
            assert_eq!(form(ranges).as_deref(), Ok("400-499"), "{ranges:?}");
        }
        assert_eq!(form(&[503..=503, 401..=401, 402..=402]).as_deref(), Ok("401-402 503-503"));
        let (low, high, none) = (99..=200, 500..=600, RangeInclusive::new(404, 400));
        for ranges in [&[][..], &[low], &[high], &[none]] {
            assert_eq!(form(ranges), Err(CostError::Status), "{ranges:?}");
        }
    }
}
