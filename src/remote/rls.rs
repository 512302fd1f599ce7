//! A rate limit service that speaks Envoy's protocol: `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`.
//!
//! It does not know: how the service counts. It is told each rule's quota, not its algorithm, and what it charged it cannot
//! be asked to give back.
//!
//! Names and field numbers are those of Envoy's API, `rls.proto` in `envoy/service/ratelimit/v3/`, `ratelimit.proto` in
//! `envoy/extensions/common/ratelimit/v3/` and `grpc_service.proto` in `envoy/config/core/v3/`:
//!
//! ```text
//!   RateLimitRequest   1 domain   2 descriptors: 1 entries: 1 key, 2 value                               3 hits_addend
//!                                                2 limit: 1 requests_per_unit, 2 unit
//!                                                3 hits_addend: 1 value  (since Envoy 1.33)
//!   RateLimitResponse  1 overall_code   2 statuses: 1 code   2 current_limit   3 limit_remaining
//!                                                   4 duration_until_reset: 1 seconds, 2 nanos
//!   GrpcService        1 envoy_grpc: 1 cluster_name
//! ```

use super::{Failure, MOST_BYTES};
use crate::algorithm::{Charge, Outcome, Verdict};
use crate::policy::{Asked, Lent, Question, RuleId, Told};
use crate::text::hex;
use crate::time::Span;
use crate::wire::{Fields, Wire, put_bytes, put_number};

/// A rate limit service, as it counts for one domain.
#[derive(Clone, Debug)]
pub struct Rls {
    domain: String,
}

/// How long who was refused is told to wait if the service does not say.
const UNKNOWN_WAIT: Span = Span::from_secs(1);

/// A descriptor with the entry `probe`, whose value is `probe` as well.
const PROBE: &[u8] = b"\x0a\x0e\x0a\x05probe\x12\x05probe";

const OK: u64 = 1;
const OVER_LIMIT: u64 = 2;

/// The number of a quota's unit in `envoy.type.v3.RateLimitUnit`; `None` for spans that are no unit there. (A week is one
/// only in what services answer.)
pub fn unit(span: Span) -> Option<u64> {
    const SECONDS: [u64; 4] = [1, 60, 3_600, 86_400];
    let place = SECONDS.iter().position(|seconds| Span::from_secs(*seconds) == span)?;
    Some(place.saturating_add(1) as u64)
}

impl Rls {
    /// The service that is called.
    pub const SERVICE: &'static str = "envoy.service.ratelimit.v3.RateLimitService";

    /// The method that is called.
    pub const METHOD: &'static str = "ShouldRateLimit";

    /// The service's `domain`, in which it looks for limits.
    pub fn new(domain: String) -> Rls {
        Rls { domain }
    }

    /// The cluster to call, as a serialised `envoy.config.core.v3.GrpcService`: an Envoy that is handed a plain name reads
    /// it as such a message first, and aborts at some that happen to be one.
    pub fn service(cluster: &str) -> Vec<u8> {
        let (mut service, mut envoy) = (Vec::new(), Vec::new());
        put_bytes(&mut envoy, 1, cluster.as_bytes());
        put_bytes(&mut service, 1, &envoy);
        service
    }

    /// The request: a descriptor for each rule, whose key is the rule's `name` and whose value stands for the actor, with
    /// the rule's quota in place of the service's own. Only [`Question::Decide`] can be asked; what asks nothing finds out
    /// whether the service works, by a descriptor that no limit is for: without any it would be refused.
    pub fn request<'n>(&self, question: &Question, name: impl Fn(RuleId) -> &'n str) -> Vec<u8> {
        // Services that do not know of a descriptor's own cost take the request's for each; none is one there.
        let most = asked(question).map(|asked| asked.cost).max().unwrap_or(0).max(1);
        let mut request = Vec::new();
        put_bytes(&mut request, 1, self.domain.as_bytes());
        for asked in asked(question) {
            put_bytes(&mut request, 2, &descriptor(asked, name(asked.rule), most));
        }
        if asked(question).next().is_none() {
            put_bytes(&mut request, 2, PROBE);
        }
        put_number(&mut request, 3, whole(most));
        request
    }

    /// What each rule was told.
    ///
    /// Whether the request passes is `overall_code`: a service whose limits are in shadow says `OK` over limits that it
    /// names, and some name none. Who is refused for no rule that is named is refused by the first that is enforced.
    pub fn answer(&self, question: &Question, message: &[u8]) -> Result<Vec<Told>, Failure> {
        let count = asked(question).count();
        let Response { code, statuses } = response(message, count).ok_or(Failure::Garbage)?;
        let is_named = statuses.iter().any(|status| status.code == OVER_LIMIT);
        let first = asked(question).position(|asked| asked.enforced).unwrap_or(0);
        let refuses = |at: usize, status: Option<&Status>| match is_named {
            true => status.is_some_and(|status| status.code == OVER_LIMIT),
            false => at == first,
        };
        let told = |(at, asked)| {
            let status = statuses.get(at);
            told(asked, status, code == OVER_LIMIT && refuses(at, status))
        };
        Ok(asked(question).enumerate().map(told).collect())
    }
}

/// The rules, in their order.
fn asked(question: &Question) -> impl Iterator<Item = &Asked> {
    let groups: &[Vec<Asked>] = match question {
        Question::Decide(groups) => groups,
        _ => &[],
    };
    groups.iter().flatten()
}

fn descriptor(asked: &Asked, name: &str, most: u64) -> Vec<u8> {
    let (mut descriptor, mut part, mut value) = (Vec::new(), Vec::new(), String::new());
    asked.key.iter().for_each(|byte| hex(&mut value, *byte));
    put_bytes(&mut part, 1, name.as_bytes());
    put_bytes(&mut part, 2, value.as_bytes());
    put_bytes(&mut descriptor, 1, &part);
    if let Some(unit) = unit(asked.quota.unit) {
        part.clear();
        put_number(&mut part, 1, whole(asked.quota.rpu));
        put_number(&mut part, 2, unit);
        put_bytes(&mut descriptor, 2, &part);
    }
    if asked.cost != most {
        part.clear();
        put_number(&mut part, 1, asked.cost);
        put_bytes(&mut descriptor, 3, &part);
    }
    descriptor
}

/// What a service answered: known codes only, and a status for each rule or none at all.
struct Response {
    code: u64,
    statuses: Vec<Status>,
}

struct Status {
    code: u64,
    /// Of a rule for which the service has a limit.
    remaining: Option<u64>,
    reset: Span,
}

fn response(message: &[u8], count: usize) -> Option<Response> {
    let mut response = Response { code: 0, statuses: Vec::new() };
    if message.len() > MOST_BYTES {
        return None;
    }
    for field in Fields(message) {
        match field? {
            (1, Wire::Varint(code)) => response.code = code,
            // No more than are expected are kept.
            (2, Wire::Bytes(_)) if response.statuses.len() == count => return None,
            (2, Wire::Bytes(bytes)) => response.statuses.push(status(bytes)?),
            _ => {}
        }
    }
    let Response { code, statuses } = &response;
    let is_whole = statuses.is_empty() || statuses.len() == count;
    (matches!(*code, OK | OVER_LIMIT) && is_whole).then_some(response)
}

fn status(message: &[u8]) -> Option<Status> {
    let (mut code, mut is_limited, mut remaining, mut reset) = (0, false, 0, Span::ZERO);
    for field in Fields(message) {
        match field? {
            (1, Wire::Varint(number)) => code = number,
            (2, Wire::Bytes(_)) => is_limited = true,
            (3, Wire::Varint(number)) => remaining = number,
            (4, Wire::Bytes(duration)) => reset = span(duration)?,
            _ => {}
        }
    }
    let status = Status { code, remaining: is_limited.then_some(remaining), reset };
    matches!(code, OK | OVER_LIMIT).then_some(status)
}

fn told(asked: &Asked, status: Option<&Status>, refuses: bool) -> Told {
    let reset = status.map_or(Span::ZERO, |status| status.reset);
    let outcome = match refuses {
        // Whatever the service knows: there are units that it cannot be told.
        _ if asked.quota.rpu == 0 && asked.cost > 0 => Outcome::Refuse { retry_after: None },
        true if reset == Span::ZERO => Outcome::Refuse { retry_after: Some(UNKNOWN_WAIT) },
        true => Outcome::Refuse { retry_after: Some(reset) },
        false => Outcome::Admit { delay: Span::ZERO },
    };
    let remaining = match status.and_then(|status| status.remaining) {
        Some(remaining) => remaining,
        None if refuses => 0,
        None => asked.quota.rpu,
    };
    let verdict = Verdict { outcome, remaining, more_in: reset, full_in: reset, charge: Charge::default() };
    Told { verdict, receipt: [0; 5], lent: Lent::default() }
}

/// A `google.protobuf.Duration`; one below zero is none.
fn span(message: &[u8]) -> Option<Span> {
    let mut ns = 0u64;
    for field in Fields(message) {
        let (number, unit) = match field? {
            (1, Wire::Varint(seconds)) => (seconds, 1_000_000_000),
            (2, Wire::Varint(nanos)) => (nanos, 1),
            _ => continue,
        };
        if i64::try_from(number).is_ok() {
            ns = ns.saturating_add(number.saturating_mul(unit));
        }
    }
    Some(Span::from_ns(ns))
}

/// Quotas and costs are less than 2³² wherever a rule may be counted by a service.
fn whole(number: u64) -> u64 {
    number.min(u32::MAX.into())
}

#[cfg(test)]
mod messages;
#[cfg(test)]
mod tests;
