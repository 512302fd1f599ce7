//! A rate limit service that speaks Envoy's protocol: `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`.
//!
//! It does not know: how the service counts. It is told each rule's quota, not its algorithm, and what it charged it cannot
//! be asked to give back.

mod headers;
mod messages;

use super::{CallError, MOST_BYTES};
use crate::algorithm::{Admission, Charge, Verdict};
use crate::format::hex;
use crate::policy::{GlobalQuery, LeaseGrant, Policy, RuleId, RuleQuery, RuleReply};
use crate::time::Span;
use headers::{MOST_HEADERS, Tightest, tightest};
use messages::{
    Counted, Descriptor, Duration, Entry, EnvoyGrpc, GrpcService, Limit, OK, OVER_LIMIT, Request, Response,
    Status,
};
use prost::Message;

/// A rate limit service, as it counts for one domain.
#[derive(Clone, Debug)]
pub struct Rls {
    domain: String,
    /// The names of all rules, by number.
    names: Vec<Box<str>>,
}

/// How long who was refused is told to wait if the service does not say.
const UNKNOWN_WAIT: Span = Span::from_secs(1);

/// What the entry of a descriptor is called, and says, that no limit is for.
const PROBE: &str = "probe";

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
        Rls { domain, names: Vec::new() }
    }

    /// From now on, a limit of the service belongs to the rule of this policy with the same name.
    pub fn name_rules(&mut self, policy: &Policy) {
        self.names = policy.rules().map(|(_, rule)| rule.name().into()).collect();
    }

    /// The cluster to call, as a serialised `envoy.config.core.v3.GrpcService`: an Envoy that is handed a plain name reads
    /// it as such a message first, and aborts at some that happen to be one.
    pub fn service(cluster: &str) -> Vec<u8> {
        GrpcService { envoy_grpc: Some(EnvoyGrpc { cluster_name: cluster.into() }) }.encode_to_vec()
    }

    /// The request: a descriptor for each rule, whose key is the rule's `name` and whose value stands for the actor, with
    /// the rule's quota in place of the service's own. Only [`Question::Decide`] can be asked; what asks nothing finds out
    /// whether the service works, by a descriptor that no limit is for: without any it would be refused.
    pub fn request<'n>(&self, question: &GlobalQuery, name: impl Fn(RuleId) -> &'n str) -> Vec<u8> {
        // Services that do not know of a descriptor's own cost take the request's for each; none is one there.
        let most = asked(question).map(|asked| asked.cost).max().unwrap_or(0).max(1);
        let mut descriptors: Vec<Descriptor> =
            asked(question).map(|asked| descriptor(asked, name(asked.rule), most)).collect();
        if descriptors.is_empty() {
            let entry = Entry { key: PROBE.into(), value: PROBE.into() };
            descriptors.push(Descriptor { entries: vec![entry], limit: None, hits_addend: None });
        }
        Request { domain: self.domain.clone(), descriptors, hits_addend: whole(most) }.encode_to_vec()
    }

    /// What each rule was told.
    ///
    /// Whether the request passes is `overall_code`: a service whose limits are in shadow says `OK` over limits that it
    /// names. If the service refuses and names no limit, all rules are refused and none is
    /// [attributed](Told::attributed), unless only one was asked about.
    pub fn answer(&self, question: &GlobalQuery, message: &[u8]) -> Result<Vec<RuleReply>, CallError> {
        let count = asked(question).count();
        let garbage = |_| CallError::Garbage;
        // The numbers of entries are checked first, so that a hostile answer does not fill memory.
        let counted = match message.len() {
            ..=MOST_BYTES => Counted::decode(message).map_err(garbage)?,
            _ => return Err(CallError::Garbage),
        };
        if counted.statuses.len() != count && !counted.statuses.is_empty() {
            return Err(CallError::Garbage);
        }
        let Response { overall_code, statuses } = Response::decode(message).map_err(garbage)?;
        let is_over = over(overall_code)?;
        let mut is_named = false;
        for status in &statuses {
            is_named |= over(status.code)?;
        }
        if statuses.is_empty() || is_over && !is_named {
            let is_read = counted.headers.len() <= MOST_HEADERS;
            let tightest = if is_read { tightest(message) } else { Tightest::default() };
            return Ok(self.unnamed(question, is_over, &tightest));
        }
        let refuses = |status: &Status| is_over && status.code == OVER_LIMIT;
        let told =
            asked(question).zip(&statuses).map(|(asked, status)| named(asked, status, refuses(status)));
        Ok(told.collect())
    }

    /// The answer for each rule, if the service only says whether the request passes.
    fn unnamed(&self, question: &GlobalQuery, is_over: bool, tightest: &Tightest) -> Vec<RuleReply> {
        let is_only = asked(question).count() == 1;
        let has_name =
            |rule: RuleId| self.names.get(rule.index()).is_some_and(|name| name.as_bytes() == tightest.name);
        let told = |asked: &RuleQuery| {
            let is_tightest = is_only || has_name(asked.rule);
            let remaining = tightest.remaining.filter(|_| is_tightest);
            let reset = if is_tightest || is_over { tightest.reset } else { Span::ZERO };
            let told = told(asked, is_over, remaining.unwrap_or(0), reset);
            // Several limits may have nothing left, so the tightest need not be the one that refuses.
            let attributed = if is_over { is_only } else { remaining.is_some() };
            RuleReply { attributed: attributed || refuses_all(asked), ..told }
        };
        asked(question).map(told).collect()
    }
}

/// The rules, in their order.
fn asked(question: &GlobalQuery) -> impl Iterator<Item = &RuleQuery> {
    let groups: &[Vec<RuleQuery>] = match question {
        GlobalQuery::Decide(groups) => groups,
        _ => &[],
    };
    groups.iter().flatten()
}

fn descriptor(asked: &RuleQuery, name: &str, most: u64) -> Descriptor {
    let mut value = String::new();
    asked.key.iter().for_each(|byte| hex(&mut value, *byte));
    let limit = unit(asked.quota.unit).map(|unit| Limit { requests_per_unit: whole(asked.quota.rpu), unit });
    let hits_addend = (asked.cost != most).then_some(asked.cost);
    Descriptor { entries: vec![Entry { key: name.into(), value }], limit, hits_addend }
}

fn over(code: i32) -> Result<bool, CallError> {
    match code {
        OK => Ok(false),
        OVER_LIMIT => Ok(true),
        _ => Err(CallError::Garbage),
    }
}

/// Such a rule refuses whatever the service answers, because some of its units cannot be sent.
fn refuses_all(asked: &RuleQuery) -> bool {
    asked.quota.rpu == 0 && asked.cost > 0
}

/// The answer for a rule from the status of its descriptor.
fn named(asked: &RuleQuery, status: &Status, refuses: bool) -> RuleReply {
    let remaining = match status {
        Status { current_limit: Some(_), limit_remaining, .. } => (*limit_remaining).into(),
        _ if refuses => 0,
        // The service has no limit for it.
        _ => asked.quota.rpu,
    };
    told(asked, refuses, remaining, status.duration_until_reset.as_ref().map_or(Span::ZERO, span))
}

fn told(asked: &RuleQuery, refuses: bool, remaining: u64, reset: Span) -> RuleReply {
    let outcome = match refuses {
        _ if refuses_all(asked) => Admission::Refuse { retry_after: None },
        true if reset == Span::ZERO => Admission::Refuse { retry_after: Some(UNKNOWN_WAIT) },
        true => Admission::Refuse { retry_after: Some(reset) },
        false => Admission::Admit { delay: Span::ZERO },
    };
    let verdict =
        Verdict { admission: outcome, remaining, more_in: reset, full_in: reset, charge: Charge::default() };
    RuleReply { verdict, charge: [0; 5], grant: LeaseGrant::default(), attributed: true }
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
