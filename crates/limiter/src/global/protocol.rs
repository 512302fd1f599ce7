//! The protocol of a global store, and its calls: the message that the host sends, the result or
//! why the call failed, and the waiters that receive replies.

use super::query::{GlobalQuery, RuleReply};
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
    pub protocol: Box<dyn StoreProtocol>,
}

/// The reply to each query of a call, in order, or why it has none. A query has one [`RuleReply`]
/// for each of its rules.
pub type Replies = Vec<Result<Vec<RuleReply>, CallError>>;

/// The protocol of a global store: queries → the bytes of a call, the bytes of a reply → replies.
///
/// A protocol keeps no state between calls.
///
/// ```
/// # use diana_limiter::algorithm::{Admission, Charge, Parameters, Verdict};
/// # use diana_limiter::global::{CallError, CallResult, LeaseGrant, RuleQuery, RuleReply};
/// # use diana_limiter::policy::RuleId;
/// # use diana_limiter::request::pairs;
/// # use diana_limiter::time::{Span, Time};
/// use diana_limiter::global::{GlobalQuery, Message, StoreProtocol, Replies};
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
/// impl StoreProtocol for Toy {
///     fn max_batch(&self) -> usize {
///         1
///     }
///
///     fn message(&self, _: &str, queries: &[&GlobalQuery], _: bool, _: u64) -> Message {
///         let headers = pairs::encode(&[(":method", "POST".into()), (":path", "/charge".into())]);
///         let body = rules(queries).iter().flat_map(|rule| rule.key).collect();
///         Message { headers, body }
///     }
///
///     fn read(
///         &self,
///         queries: &[&GlobalQuery],
///         _: u64,
///         result: CallResult,
///     ) -> Result<Replies, CallError> {
///         let body = match result {
///             CallResult::Response { status: 200, body } => body,
///             CallResult::Response { status, body } => return Err(CallError::status(status, body)),
///             CallResult::NotMade => return Err(CallError::NotMade),
///             CallResult::TimedOut => return Err(CallError::TimedOut),
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
///                 None => Admission::Refuse { retry_after: Some(Span::from_secs(60)) },
///             };
///             let (remaining, more_in, full_in) = (left.unwrap_or(0), Span::ZERO, Span::ZERO);
///             let charge = Charge::default();
///             let verdict = Verdict { admission, remaining, more_in, full_in, charge };
///             let grant = LeaseGrant::default();
///             RuleReply { verdict, charge: [0; 5], grant }
///         };
///         Ok(vec![Ok(body.iter().zip(rules).map(reply).collect())])
///     }
/// }
///
/// let query = GlobalQuery::Decide(vec![vec![RuleQuery {
///     rule: RuleId::new(0),
///     key: [7; 16],
///     parameters: Parameters::default(),
///     enforced: true,
///     cost: 1,
///     peeks: false,
///     least_rest: 0,
///     lease: 0,
///     penalty: None,
///     headroom: 0,
///     takes_grants: false,
/// }]]);
/// let read = |status, body| Toy.read(&[&query], 0, CallResult::Response { status, body });
/// let replies = read(200, &[0]).expect("a reply");
/// let admission = |reply: &RuleReply| reply.verdict.admission;
/// let refused = Admission::Refuse { retry_after: Some(Span::from_secs(60)) };
/// assert_eq!(replies[0].as_ref().map(|rules| admission(&rules[0])), Ok(refused));
/// assert_eq!(read(503, b"no"), Err(CallError::Status(503, "no".into())));
/// assert_eq!(read(200, b""), Err(CallError::Garbage));
/// ```
pub trait StoreProtocol: Send {
    /// The most queries in one call.
    fn max_batch(&self) -> usize;

    /// The number that a call carries, from a random one.
    fn number(&self, random: u64) -> u64 {
        random
    }

    /// The message that sends all these queries to `cluster`; a message without queries is a probe.
    /// `with_script` is set if the global store lacks the script. The reply must repeat `number`.
    fn message(&self, cluster: &str, queries: &[&GlobalQuery], with_script: bool, number: u64) -> Message;

    /// The reply to each query of the call with this number. The error applies to the whole call.
    fn read(&self, queries: &[&GlobalQuery], number: u64, result: CallResult) -> Result<Replies, CallError>;
}

/// A derived `Debug` would keep the code of each protocol's own in the module.
impl fmt::Debug for dyn StoreProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreProtocol")
    }
}

/// How much longer than a request the host waits for a reply. A reply within this time shows what
/// the call charged, so the client refunds it. A longer time would bring back few leases: a bucket
/// counts them as spent after two seconds.
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

/// The HTTP request of a call.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// The headers, encoded for the host.
    pub headers: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// A call that the host has to make.
#[derive(Debug)]
pub struct Call {
    /// Identifies the call in [`StoreClient::answered`](super::StoreClient::answered).
    pub id: u32,
    /// The index of the global store.
    pub shard: usize,
    /// The message to send.
    pub message: Message,
}

/// The result of a call.
#[derive(Clone, Copy, Debug)]
pub enum CallResult<'a> {
    /// An HTTP response.
    Response {
        /// The HTTP status; 0 if the connection ended before a response came.
        status: u32,
        /// The body.
        body: &'a [u8],
    },
    /// The host could not make the call.
    NotMade,
    /// No result came in time.
    TimedOut,
}

/// The statistics of a global store's calls, for metrics and the log.
#[derive(Debug, Default)]
pub struct CallStats {
    /// Calls made.
    pub calls: u32,
    /// Calls that failed.
    pub failed: u32,
    /// Stray replies: replies with the number of another call.
    pub stray: u32,
    /// Queries in all calls.
    pub queries: u32,
    /// Refunds dropped because the queue of refunds was full.
    pub dropped_refunds: u32,
    /// The duration of each call that succeeded.
    pub durations: Vec<Span>,
    /// The latest change of the breaker, if any: whether it is closed now, and the reason if not.
    pub changed: Option<(bool, String)>,
}

/// The receiver of the reply to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A request, by its ticket.
    Request(u32),
    /// The fetch of a lease, by its number.
    Fetch(u32),
    /// The worker, which counts the gateways.
    Gateways,
    /// Nobody: only the charges of the reply matter, which are refunded.
    Nobody,
}

/// The end of one query: the global store's replies, or their absence.
#[derive(Debug, PartialEq, Eq)]
pub struct Completion {
    /// The receiver of the replies.
    pub waiter: Waiter,
    /// The index of the global store.
    pub shard: usize,
    /// One reply for each rule of the query, in order; `None` if the global store did not reply.
    pub replies: Option<Vec<RuleReply>>,
}

/// Why a call to a global store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The global store does not have the script. The next call carries its text.
    NoScript,
    /// The host could not make the call.
    NotMade,
    /// No result came in time.
    TimedOut,
    /// An HTTP status that is not a success, 0 if the connection ended before a response came, and
    /// the words of whoever sent it: printable ASCII, cut at [`CallError::LONGEST`] bytes.
    Status(u32, String),
    /// A server that speaks HTTP has answered, in place of the global store.
    Http,
    /// The global store's error message: printable ASCII, cut at [`CallError::LONGEST`] bytes.
    Refused(String),
    /// The same from a server that cannot be the store, whatever it is asked: a replica, say.
    /// Another server may have its address now, so the connection must end.
    Unfit(String),
    /// A stray reply: it lacks the number of the call, so it answers another call.
    Stray,
    /// The reply is malformed.
    Garbage,
}

/// Redis' errors that speak of the server, not of the call. A server that is busy or out of memory
/// stays the store.
const UNFIT: [&str; 9] = [
    "READONLY",
    "MASTERDOWN",
    "LOADING",
    "NOREPLICAS",
    "MISCONF",
    "CLUSTERDOWN",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
];

/// Where Envoy counts why it cannot connect, which its message for raw TCP does not say.
const OF_CONNECTION: &str = "; nobody listens there, unless `ssl.fail_verify_san`, `ssl.fail_verify_error` or \
    `upstream_cx_connect_timeout` of the cluster rises";

impl CallError {
    /// The longest error message of a global store that is kept, in bytes.
    pub const LONGEST: usize = 128;

    /// The error for a global store's error message.
    #[must_use]
    pub fn of(words: &str) -> CallError {
        // A proxy may put words of its own before `NOSCRIPT`.
        if words.contains("NOSCRIPT") {
            return CallError::NoScript;
        }
        let code = words.split(' ').next();
        match code.is_some_and(|code| UNFIT.contains(&code)) {
            true => CallError::Unfit(printable(words)),
            false => CallError::Refused(printable(words)),
        }
    }

    /// The error for a response that is not a success. Of Envoy's message about its connection,
    /// only the cause is kept.
    #[must_use]
    pub fn status(status: u32, body: &[u8]) -> CallError {
        let words = String::from_utf8_lossy(body);
        let cause = words.rsplit(" reason: ").next();
        CallError::Status(status, printable(cause.unwrap_or_default()))
    }
}

fn printable(words: &str) -> String {
    words.chars().filter(|letter| matches!(letter, ' '..='~')).take(CallError::LONGEST).collect()
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::NoScript => f.write_str("it does not keep the script"),
            CallError::NotMade => f.write_str("the gateway knows no such cluster, or no host in it"),
            CallError::TimedOut => {
                f.write_str("neither the server in this cluster nor the store behind it answered in time")
            }
            CallError::Status(0, _) => f.write_str("the server in this cluster hung up"),
            CallError::Status(status, words) => {
                write!(f, "status {status}, from the server in this cluster or from the gateway in its place")?;
                if !words.is_empty() {
                    write!(f, ": {words}")?;
                }
                if words.ends_with("connection failure") { f.write_str(OF_CONNECTION) } else { Ok(()) }
            }
            CallError::Http => f.write_str(
                "this cluster speaks HTTP, not Redis: let the bridge, a tunnel or a hop lead to Redis itself, as \
                 docs/configuration/global.md#ways-to-redis says",
            ),
            CallError::Refused(words) | CallError::Unfit(words) => f.write_str(words),
            CallError::Stray => f.write_str("a reply to another call"),
            CallError::Garbage => f.write_str("an answer that makes no sense"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_comes_with_its_cause() {
        let cases = [
            ("", ""),
            ("no\n healthy \u{1b}upstream", ": no healthy upstream"),
            (
                "upstream connect error or disconnect/reset before headers. reset reason: connection failure, \
                 transport failure reason: TLS_error:CERTIFICATE_VERIFY_FAILED",
                ": TLS_error:CERTIFICATE_VERIFY_FAILED",
            ),
            (
                "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure",
                ": remote connection failure; nobody listens there, unless `ssl.fail_verify_san`, \
                 `ssl.fail_verify_error` or `upstream_cx_connect_timeout` of the cluster rises",
            ),
        ];
        for (body, words) in cases {
            let why = CallError::status(503, body.as_bytes()).to_string();
            let place = "status 503, from the server in this cluster or from the gateway in its place";
            assert_eq!(why, format!("{place}{words}"));
        }
    }

    #[test]
    fn words_are_printable_and_short() {
        assert_eq!(CallError::of("ERR a\n\u{1b}[31mé\u{7f}~"), CallError::Refused("ERR a[31m~".into()));
        assert_eq!(CallError::of(&"é".repeat(9_999)), CallError::Refused(String::new()));
        assert_eq!(CallError::of(&"x".repeat(129)), CallError::Refused("x".repeat(128)));
        assert_eq!(CallError::of("NOSCRIPT No matching script."), CallError::NoScript);
        assert_eq!(CallError::of("ERR NOSCRIPT No matching script."), CallError::NoScript);
        assert_eq!(CallError::of("READONLY You can't"), CallError::Unfit("READONLY You can't".into()));
        assert_eq!(CallError::of("ERR READONLY"), CallError::Refused("ERR READONLY".into()));
    }
}
