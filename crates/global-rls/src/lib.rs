//! The client of a rate limit service that speaks Envoy's protocol:
//! `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`. The service receives each rule's
//! quota but not its algorithm, and cannot refund a charge.
//!
//! ```
//! use diana_base::time::Span;
//! use diana_global_rls::Rls;
//! use diana_limiter::algorithm::{Admission, Parameters, Quota};
//! use diana_limiter::global::{GlobalQuery, RuleQuery};
//! use diana_limiter::policy::RuleId;
//!
//! let query = GlobalQuery::Decide(vec![vec![RuleQuery {
//!     rule: RuleId::new(0),
//!     key: [7; 16],
//!     quota: Quota { rpu: 10, unit: Span::from_secs(1) },
//!     parameters: Parameters::default(),
//!     enforced: true,
//!     cost: 1,
//!     peeks: false,
//!     lease: 0,
//!     penalty: None,
//!     headroom: 0,
//!     takes_grants: false,
//! }]]);
//! let rls = Rls::new("diana".into());
//! let request = rls.request(&query, |_| "per-user");
//! assert!(request.starts_with(b"\x0a\x05diana"));
//!
//! // A `RateLimitResponse` with `overall_code: OVER_LIMIT`.
//! let replies = rls.read_reply(&query, b"\x08\x02").expect("a reply");
//! let refusal = Admission::Refuse { retry_after: Some(Span::from_secs(1)) };
//! assert_eq!(replies[0].verdict.admission, refusal);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod headers;
mod messages;
mod protocol;

use diana_base::format::hex;
use diana_base::time::Span;
use diana_limiter::algorithm::{Admission, Charge, Verdict};
use diana_limiter::global::{CallError, MAX_REPLY_BYTES};
use diana_limiter::global::{GlobalQuery, LeaseGrant, RuleQuery, RuleReply};
use diana_limiter::policy::{Policy, RuleId};
use headers::{MAX_HEADERS, Tightest, tightest};
use messages::{
    Counted, Descriptor, Duration, Entry, EnvoyGrpc, GrpcService, OK, OVER_LIMIT, Request, Response,
    RuleLimit, Status,
};
use prost::Message;

/// A rate limit service, for one domain.
///
/// ```
/// use diana_global_rls::Rls;
///
/// let path = format!("/{}/{}", Rls::SERVICE, Rls::METHOD);
/// assert_eq!(path, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
/// ```
#[derive(Clone, Debug)]
pub struct Rls {
    domain: String,
    /// The names of all rules, by index.
    names: Vec<Box<str>>,
}

/// The `retry_after` of a refusal if the service does not give one.
const UNKNOWN_WAIT: Span = Span::from_secs(1);

/// The key and the value of a probe's descriptor, which no limit matches.
const PROBE: &str = "probe";

/// The number of a quota's unit in `envoy.type.v3.RateLimitUnit`; `None` if the enumeration lacks
/// the span. (A week is valid only in replies of services.)
///
/// ```
/// use diana_base::time::Span;
/// use diana_global_rls::unit;
///
/// assert_eq!(unit(Span::from_secs(60)), Some(2), "`MINUTE`");
/// assert_eq!(unit(Span::from_secs(90)), None);
/// ```
#[must_use]
pub fn unit(span: Span) -> Option<i32> {
    const SECONDS: [u64; 4] = [1, 60, 3_600, 86_400];
    let place = SECONDS.iter().position(|seconds| Span::from_secs(*seconds) == span)?;
    i32::try_from(place.saturating_add(1)).ok()
}

impl Rls {
    /// The gRPC service.
    pub const SERVICE: &'static str = "envoy.service.ratelimit.v3.RateLimitService";

    /// The gRPC method.
    pub const METHOD: &'static str = "ShouldRateLimit";

    /// A service that looks for limits in `domain`.
    #[must_use]
    pub fn new(domain: String) -> Rls {
        Rls { domain, names: Vec::new() }
    }

    /// Takes the rule names of this policy. A limit of the service belongs to the rule with its
    /// name.
    pub fn name_rules(&mut self, policy: &Policy) {
        self.names = policy.rules().map(|(_, rule)| rule.name().into()).collect();
    }

    /// The cluster to call, as a serialised `envoy.config.core.v3.GrpcService`. Envoy parses a
    /// plain name as such a message first, and aborts at some names that happen to parse.
    ///
    /// ```
    /// assert_eq!(diana_global_rls::Rls::service("rls"), b"\x0a\x05\x0a\x03rls");
    /// ```
    #[must_use]
    pub fn service(cluster: &str) -> Vec<u8> {
        GrpcService { envoy_grpc: Some(EnvoyGrpc { cluster_name: cluster.into() }) }.encode_to_vec()
    }

    /// The request: one descriptor for each rule. The descriptor's key is the rule's `name`, its
    /// value stands for the actor, and it overrides the service's quota with the rule's. Only
    /// [`GlobalQuery::Decide`] can be sent. A query without rules is a probe with a descriptor that
    /// no limit matches, because services refuse requests without descriptors.
    ///
    /// ```
    /// use diana_global_rls::Rls;
    /// use diana_limiter::global::GlobalQuery;
    ///
    /// let probe = Rls::new("d".into()).request(&GlobalQuery::Decide(Vec::new()), |_| "");
    /// assert_eq!(probe, b"\x0a\x01d\x12\x10\x0a\x0e\x0a\x05probe\x12\x05probe\x18\x01");
    /// ```
    pub fn request<'n>(&self, query: &GlobalQuery, name: impl Fn(RuleId) -> &'n str) -> Vec<u8> {
        // Services that ignore `hits_addend` of a descriptor apply the request's to each; 0 there
        // means 1.
        let max_cost = rule_queries(query).map(|rule_query| rule_query.cost).max().unwrap_or(0).max(1);
        let mut descriptors: Vec<Descriptor> = rule_queries(query)
            .map(|rule_query| descriptor(rule_query, name(rule_query.rule), max_cost))
            .collect();
        if descriptors.is_empty() {
            let entry = Entry { key: PROBE.into(), value: PROBE.into() };
            descriptors.push(Descriptor { entries: vec![entry], limit: None, hits_addend: None });
        }
        Request { domain: self.domain.clone(), descriptors, hits_addend: whole(max_cost) }.encode_to_vec()
    }

    /// Decodes the reply to each rule.
    ///
    /// `overall_code` decides whether the request passes: a service whose limits are in shadow says
    /// `OK` over limits that it names. If the service refuses and names no limit, all rules are
    /// refused, and no rule is [attributed](RuleReply::attributed) unless the query has only one
    /// rule.
    ///
    /// ```
    /// use diana_global_rls::Rls;
    /// use diana_limiter::global::CallError;
    /// use diana_limiter::global::GlobalQuery;
    ///
    /// let (rls, probe) = (Rls::new("diana".into()), GlobalQuery::Decide(Vec::new()));
    /// assert_eq!(rls.read_reply(&probe, b"\x08\x01"), Ok(Vec::new()));
    /// assert_eq!(rls.read_reply(&probe, b"\x08"), Err(CallError::Garbage), "half a message");
    /// ```
    pub fn read_reply(&self, query: &GlobalQuery, message: &[u8]) -> Result<Vec<RuleReply>, CallError> {
        let count = rule_queries(query).count();
        let malformed = |_| CallError::Garbage;
        // Counting the entries first keeps a hostile reply from filling memory.
        let counted = match message.len() {
            ..=MAX_REPLY_BYTES => Counted::decode(message).map_err(malformed)?,
            _ => return Err(CallError::Garbage),
        };
        if counted.statuses.len() != count && !counted.statuses.is_empty() {
            return Err(CallError::Garbage);
        }
        let Response { overall_code, statuses } = Response::decode(message).map_err(malformed)?;
        let is_over = over(overall_code)?;
        let mut is_named = false;
        for status in &statuses {
            is_named |= over(status.code)?;
        }
        if statuses.is_empty() || is_over && !is_named {
            let is_read = counted.headers.len() <= MAX_HEADERS;
            let tightest = if is_read { tightest(message) } else { Tightest::default() };
            return Ok(self.unnamed(query, is_over, &tightest));
        }
        let refuses = |status: &Status| is_over && status.code == OVER_LIMIT;
        let replies = rule_queries(query)
            .zip(&statuses)
            .map(|(rule_query, status)| named(rule_query, status, refuses(status)));
        Ok(replies.collect())
    }

    /// The reply for each rule if the service only says whether the request passes.
    fn unnamed(&self, query: &GlobalQuery, is_over: bool, tightest: &Tightest) -> Vec<RuleReply> {
        let is_only = rule_queries(query).count() == 1;
        let has_name =
            |rule: RuleId| self.names.get(rule.index()).is_some_and(|name| name.as_bytes() == tightest.name);
        let reply = |rule_query: &RuleQuery| {
            let is_tightest = is_only || has_name(rule_query.rule);
            let remaining = tightest.remaining.filter(|_| is_tightest);
            let reset = if is_tightest || is_over { tightest.reset } else { Span::ZERO };
            let reply = rule_reply(rule_query, is_over, remaining.unwrap_or(0), reset);
            // Several limits may have nothing left, so the tightest need not be the one that
            // refuses.
            let attributed = if is_over { is_only } else { remaining.is_some() };
            RuleReply { attributed: attributed || refuses_all(rule_query), ..reply }
        };
        rule_queries(query).map(reply).collect()
    }
}

/// The rules of a query, in order.
fn rule_queries(query: &GlobalQuery) -> impl Iterator<Item = &RuleQuery> {
    let groups: &[Vec<RuleQuery>] = match query {
        GlobalQuery::Decide(groups) => groups,
        _ => &[],
    };
    groups.iter().flatten()
}

fn descriptor(rule_query: &RuleQuery, name: &str, max_cost: u64) -> Descriptor {
    let mut value = String::new();
    rule_query.key.iter().for_each(|byte| hex(&mut value, *byte));
    let limit = unit(rule_query.quota.unit)
        .map(|unit| RuleLimit { requests_per_unit: whole(rule_query.quota.rpu), unit });
    let hits_addend = (rule_query.cost != max_cost).then_some(rule_query.cost);
    Descriptor { entries: vec![Entry { key: name.into(), value }], limit, hits_addend }
}

fn over(code: i32) -> Result<bool, CallError> {
    match code {
        OK => Ok(false),
        OVER_LIMIT => Ok(true),
        _ => Err(CallError::Garbage),
    }
}

/// Whether the rule has a quota of 0. Such a rule refuses whatever the service replies, because
/// some units cannot be sent.
fn refuses_all(rule_query: &RuleQuery) -> bool {
    rule_query.quota.rpu == 0 && rule_query.cost > 0
}

/// The reply for a rule from the status of its descriptor.
fn named(rule_query: &RuleQuery, status: &Status, refuses: bool) -> RuleReply {
    let remaining = match status {
        Status { current_limit: Some(_), limit_remaining, .. } => (*limit_remaining).into(),
        _ if refuses => 0,
        // The service has no limit for this rule.
        _ => rule_query.quota.rpu,
    };
    rule_reply(rule_query, refuses, remaining, status.duration_until_reset.as_ref().map_or(Span::ZERO, span))
}

fn rule_reply(rule_query: &RuleQuery, refuses: bool, remaining: u64, reset: Span) -> RuleReply {
    let admission = match refuses {
        _ if refuses_all(rule_query) => Admission::Refuse { retry_after: None },
        true if reset == Span::ZERO => Admission::Refuse { retry_after: Some(UNKNOWN_WAIT) },
        true => Admission::Refuse { retry_after: Some(reset) },
        false => Admission::Admit { delay: Span::ZERO },
    };
    let verdict = Verdict { admission, remaining, more_in: reset, full_in: reset, charge: Charge::default() };
    RuleReply { verdict, charge: [0; 5], grant: LeaseGrant::default(), attributed: true }
}

/// The span of a duration; negative durations are zero.
fn span(duration: &Duration) -> Span {
    let part = |number: i64, ns: u64| u64::try_from(number).unwrap_or(0).saturating_mul(ns);
    Span::from_ns(part(duration.seconds, 1_000_000_000).saturating_add(part(duration.nanos.into(), 1)))
}

/// Quotas and costs of rules that a service may count are below 2³².
fn whole(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
