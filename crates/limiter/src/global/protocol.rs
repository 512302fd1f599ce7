//! The seam between a global store's client and the protocols, each of which has a crate of its
//! own.

use super::call::{CallError, CallResult, Message};
use super::query::{GlobalQuery, RuleReply};
use crate::policy::Policy;
use diana_base::time::Span;
use std::fmt;

/// Which global stores count, and how to call them.
#[derive(Debug)]
pub struct GlobalStoreOptions {
    /// The cluster names of the global stores in the gateway. Each global store is one shard: it
    /// holds the counts of some actors.
    pub clusters: Vec<String>,
    /// How long a request waits for a reply.
    pub timeout: Span,
    /// How many calls a worker has pending at once for each global store.
    pub in_flight: usize,
    /// The protocol of all global stores.
    pub protocol: Box<dyn Protocol>,
}

/// The reply to each query of a call, in order, or why it has none. A query has one [`RuleReply`]
/// for each of its rules.
pub type Replies = Vec<Result<Vec<RuleReply>, CallError>>;

/// The protocol of a global store: queries → the bytes of a call, the bytes of a reply → replies.
///
/// A protocol keeps no state between calls.
///
/// ```
/// # use diana_limiter::algorithm::{Admission, Charge, Parameters, Quota, Verdict};
/// # use diana_limiter::global::{CallError, CallResult, LeaseGrant, RuleQuery, RuleReply};
/// # use diana_limiter::policy::{Policy, RuleId};
/// # use diana_limiter::request::pairs;
/// # use diana_limiter::time::{Span, Time};
/// use diana_limiter::global::{GlobalQuery, Message, Protocol, Replies};
///
/// /// Sends the names of the counts. The reply has one byte for each: how much is left, plus one;
/// /// 0 refuses.
/// struct Toy;
///
/// fn rules<'q>(queries: &[&'q GlobalQuery]) -> Vec<&'q RuleQuery> {
///     let groups = queries.iter().flat_map(|query| match query {
///         GlobalQuery::Decide(groups) => groups.as_slice(),
///         _ => &[],
///     });
///     groups.flatten().collect()
/// }
///
/// impl Protocol for Toy {
///     fn supports(&self, query: &GlobalQuery) -> bool {
///         matches!(query, GlobalQuery::Decide(_))
///     }
///
///     fn max_batch(&self) -> usize {
///         1
///     }
///
///     fn message(
///         &self, _: &str, queries: &[&GlobalQuery], _: bool, _: u64, _: &Policy,
///     ) -> Message {
///         let headers = pairs::encode(&[(":method", "POST".into()), (":path", "/charge".into())]);
///         let body = rules(queries).iter().flat_map(|rule| rule.key).collect();
///         Message::Http { headers, body }
///     }
///
///     fn read(
///         &self,
///         queries: &[&GlobalQuery],
///         _: u64,
///         result: CallResult,
///     ) -> Result<Replies, CallError> {
///         let body = match result {
///             CallResult::Http { status: 200, body } => body,
///             CallResult::Http { status, .. } => return Err(CallError::Status(status)),
///             result => return Err(result.error()),
///         };
///         // The reply is hostile: its length may be wrong.
///         let rules = rules(queries);
///         if body.len() != rules.len() {
///             return Err(CallError::Garbage);
///         }
///         let reply = |(byte, rule): (&u8, &RuleQuery)| {
///             let left = byte.checked_sub(1).map(u64::from);
///             let admission = match left {
///                 Some(_) => Admission::Admit { delay: Span::ZERO },
///                 None => Admission::Refuse { retry_after: Some(rule.quota.unit) },
///             };
///             let (remaining, more_in, full_in) = (left.unwrap_or(0), Span::ZERO, Span::ZERO);
///             let charge = Charge::default();
///             let verdict = Verdict { admission, remaining, more_in, full_in, charge };
///             let grant = LeaseGrant::default();
///             RuleReply { verdict, charge: [0; 5], grant, attributed: true }
///         };
///         Ok(vec![Ok(body.iter().zip(rules).map(reply).collect())])
///     }
/// }
///
/// let unit = Span::from_secs(60);
/// let query = GlobalQuery::Decide(vec![vec![RuleQuery {
///     rule: RuleId::new(0),
///     key: [7; 16],
///     quota: Quota { rpu: 9, unit },
///     parameters: Parameters::default(),
///     enforced: true,
///     cost: 1,
///     peeks: false,
///     lease: 0,
///     penalty: None,
///     headroom: 0,
/// }]]);
/// let read = |status, body| Toy.read(&[&query], 0, CallResult::Http { status, body });
/// let replies = read(200, &[0]).expect("a reply");
/// let admission = |reply: &RuleReply| reply.verdict.admission;
/// let refused = Admission::Refuse { retry_after: Some(unit) };
/// assert_eq!(replies[0].as_ref().map(|rules| admission(&rules[0])), Ok(refused));
/// assert_eq!(read(503, b"no"), Err(CallError::Status(503)));
/// assert_eq!(read(200, b""), Err(CallError::Garbage));
/// ```
pub trait Protocol: Send {
    /// Hands the rules' names to the protocol, for replies that name rules.
    fn name_rules(&mut self, _policy: &Policy) {}

    /// Whether the protocol can express this query.
    fn supports(&self, query: &GlobalQuery) -> bool;

    /// The most queries in one call.
    fn max_batch(&self) -> usize;

    /// The number that a call carries, from a random one.
    fn number(&self, random: u64) -> u64 {
        random
    }

    /// The message that sends all these queries to `cluster`; a message without queries is a probe.
    /// `with_script` is set if the global store lacks the script. Over HTTP/1.1 the reply must
    /// repeat `number`.
    fn message(
        &self,
        cluster: &str,
        queries: &[&GlobalQuery],
        with_script: bool,
        number: u64,
        policy: &Policy,
    ) -> Message;

    /// The reply to each query of the call with this number. The error applies to the whole call.
    fn read(&self, queries: &[&GlobalQuery], number: u64, result: CallResult) -> Result<Replies, CallError>;
}

/// A derived `Debug` would keep the code of each protocol's own in the module.
impl fmt::Debug for dyn Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol")
    }
}

/// How much longer than a request the host waits for a reply. A reply within this time shows what
/// the call charged, so the client refunds it. Webdis also needs the time: if the host closes a
/// connection with a reply outstanding, Webdis writes this reply to another connection. A longer
/// time would bring back few leases: a bucket counts them as spent after two seconds.
const LATE: Span = Span::from_ms(1_500);

impl GlobalStoreOptions {
    /// How long the host waits for the reply to a call.
    #[must_use]
    pub fn host_timeout(&self) -> Span {
        Span::from_ns(self.timeout.as_ns().saturating_add(LATE.as_ns()))
    }

    /// A reply that takes longer is slow: three quarters of the timeout.
    pub(super) fn slow(&self) -> Span {
        Span::from_ns((self.timeout.as_ns() / 4).saturating_mul(3))
    }
}
