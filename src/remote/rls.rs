//! A rate limit service that speaks Envoy's protocol: `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`.
//!
//! It does not know: how the service counts. It is told each rule's quota, not its algorithm, and what it charged it cannot
//! be asked to give back.

mod messages;

use super::Failure;
use crate::algorithm::{Charge, Outcome, Verdict};
use crate::policy::{Asked, Lent, Question, RuleId, Told};
use crate::text::hex;
use crate::time::Span;
use messages::{
    Descriptor, Duration, Entry, EnvoyGrpc, GrpcService, Limit, OK, OVER_LIMIT, Request, Response, Status,
};
use prost::Message;

/// A rate limit service, as it counts for one domain.
#[derive(Clone, Debug)]
pub struct Rls {
    domain: String,
}

/// Longer answers are not read.
const MOST_BYTES: usize = 1 << 16;

/// How long who was refused is told to wait if the service does not say.
const UNKNOWN_WAIT: Span = Span::from_secs(1);

/// The number of a quota's unit in `envoy.type.v3.RateLimitUnit`; `None` for spans that are no unit there. (A week is one
/// only in what services answer.)
pub fn unit(span: Span) -> Option<i32> {
    const SECONDS: [u64; 4] = [1, 60, 3_600, 86_400];
    let place = SECONDS.iter().position(|seconds| Span::from_secs(*seconds) == span)?;
    i32::try_from(place.saturating_add(1)).ok()
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
        GrpcService { envoy_grpc: Some(EnvoyGrpc { cluster_name: cluster.into() }) }.encode_to_vec()
    }

    /// The request: a descriptor for each rule, whose key is the rule's `name` and whose value stands for the actor, with
    /// the rule's quota in place of the service's own. Only [`Question::Decide`] can be asked; others have no descriptors.
    pub fn request<'n>(&self, question: &Question, name: impl Fn(RuleId) -> &'n str) -> Vec<u8> {
        // Services that do not know of a descriptor's own cost take the request's for each; none is one there.
        let most = asked(question).map(|asked| asked.cost).max().unwrap_or(0).max(1);
        let descriptor = |asked: &Asked| {
            let mut value = String::with_capacity(32);
            asked.key.iter().for_each(|byte| hex(&mut value, *byte));
            Descriptor {
                entries: vec![Entry { key: name(asked.rule).into(), value }],
                limit: unit(asked.quota.unit)
                    .map(|unit| Limit { requests_per_unit: whole(asked.quota.rpu), unit }),
                hits_addend: (asked.cost != most).then_some(asked.cost),
            }
        };
        let descriptors = asked(question).map(descriptor).collect();
        Request { domain: self.domain.clone(), descriptors, hits_addend: whole(most) }.encode_to_vec()
    }

    /// What each rule was told.
    ///
    /// Whether the request passes is `overall_code`: a service whose limits are in shadow says `OK` over limits that it
    /// names, and some name none. Who is refused for no rule that is named is refused by the first that is enforced.
    pub fn answer(&self, question: &Question, message: &[u8]) -> Result<Vec<Told>, Failure> {
        let count = asked(question).count();
        let response = match message.len() {
            ..=MOST_BYTES => Response::decode(message).map_err(|_| Failure::Garbage)?,
            _ => return Err(Failure::Garbage),
        };
        let (is_over, statuses) = (over(response.overall_code)?, response.statuses);
        if statuses.len() != count && !statuses.is_empty() {
            return Err(Failure::Garbage);
        }
        let mut is_named = false;
        for status in &statuses {
            is_named |= over(status.code)?;
        }
        let first = asked(question).position(|asked| asked.enforced).unwrap_or(0);
        let refuses = |at: usize, status: Option<&Status>| match is_named {
            true => status.is_some_and(|status| status.code == OVER_LIMIT),
            false => at == first,
        };
        let told = |(at, asked)| {
            let status = statuses.get(at);
            told(asked, status, is_over && refuses(at, status))
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

fn over(code: i32) -> Result<bool, Failure> {
    match code {
        OK => Ok(false),
        OVER_LIMIT => Ok(true),
        _ => Err(Failure::Garbage),
    }
}

fn told(asked: &Asked, status: Option<&Status>, refuses: bool) -> Told {
    let reset = status.and_then(|status| status.duration_until_reset.as_ref()).map_or(Span::ZERO, span);
    let outcome = match refuses {
        true if reset == Span::ZERO => Outcome::Refuse { retry_after: Some(UNKNOWN_WAIT) },
        true => Outcome::Refuse { retry_after: Some(reset) },
        false => Outcome::Admit { delay: Span::ZERO },
    };
    let remaining = match status {
        Some(Status { current_limit: Some(_), limit_remaining, .. }) => (*limit_remaining).into(),
        _ if refuses => 0,
        // The service has no limit for it.
        _ => asked.quota.rpu,
    };
    let verdict = Verdict { outcome, remaining, more_in: reset, full_in: reset, charge: Charge::default() };
    Told { verdict, receipt: [0; 5], lent: Lent::default() }
}

/// A span below zero is none.
fn span(duration: &Duration) -> Span {
    let part = |number: i64, ns: u64| u64::try_from(number).unwrap_or(0).saturating_mul(ns);
    Span::from_ns(part(duration.seconds, 1_000_000_000).saturating_add(part(duration.nanos.into(), 1)))
}

/// Quotas and costs are less than 2³² wherever a rule may be counted by a service.
fn whole(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
