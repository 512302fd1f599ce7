//! What the client receives: the status, headers and body of a refusal, and the quota headers of
//! any response. Except for the `id` of a JSON-RPC request, a response contains no bytes that a
//! client sent, only names and text from the configuration, and numbers.
//!
//! ```text
//!   Decision ─┬─ passed ──► headers() ─► ratelimit-policy, ratelimit, x-ratelimit-…
//!             └─ refused ─► refusal() ─► the same, retry-after, own headers, status, body, details
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod cache;
mod fields;
mod json;
mod json_rpc;
mod options;
mod problem;
mod protocol;
mod ticket;
mod wait;

pub use cache::{QuotaHeaders, ResponseCache};
pub use json::json_string;
pub use json_rpc::{Call, CallId, RefusalForm};
pub use options::{ResponseOptions, ResponseOverride, RuleResponses, header_name, own_headers, percent_of};
pub use ticket::{TicketError, TicketKey, TicketReason, TicketRecord};

use diana_base::format::decimal;
use diana_base::map::KeyMap;
use diana_limiter::decide::{Decision, Outcome, Reason};
use diana_limiter::policy::{Policy, RuleId};
use diana_limiter::request::protocol::Protocol;
use fields::ShownRule;
use options::{Body, Form};
use problem::Problem;
use std::borrow::Cow;

/// The response to a refused request.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// The HTTP status: 400 to 599, or 200 in a protocol that has the error elsewhere.
    pub status: u32,
    /// All headers except those of message framing. Names are lower case and unique; values are
    /// visible ASCII, space and tab.
    pub headers: Vec<(&'a str, Cow<'a, str>)>,
    /// The body; empty for gRPC, and for a notification of JSON-RPC.
    pub body: Cow<'a, [u8]>,
    /// The gRPC status, for a host that turns the response into one of gRPC, because the host
    /// judged the request before another filter rewrote it. `None` if the response is no refusal.
    pub grpc_status: Option<u32>,
    /// The reason, without spaces, for the host's access log and for gRPC's message:
    /// `diana_refused:<rule>`, `diana_refused:<rule>|<rule>` if a store does not report which of
    /// these rules refuses, `diana_no_actor:<rule>`, `diana_unavailable:<rule>` or `diana_denied`.
    pub details: String,
}

impl ResponseOptions {
    /// The response to a request that `decision` refuses, including [`ResponseOptions::headers`];
    /// `None` if the decision does not refuse. `policy` made the decision. `entropy` is a uniformly
    /// random number.
    #[must_use]
    pub fn refusal(
        &self,
        policy: &Policy,
        decision: &Decision,
        form: impl Into<RefusalForm>,
        entropy: u32,
    ) -> Option<Refusal<'_>> {
        let headers = self.headers(policy, decision).into_iter();
        let headers = headers.map(|(name, value)| (name, value.into()));
        let body = |problem: Problem| problem.json(policy, self.violated(decision)).into_bytes().into();
        self.refusal_with(policy, decision, &form.into(), entropy, headers, body)
    }

    /// [`ResponseOptions::refusal`] with these headers for the quota, and a function for the text
    /// of a problem.
    fn refusal_with<'a>(
        &'a self,
        policy: &Policy,
        decision: &Decision,
        form: &RefusalForm,
        entropy: u32,
        quota: impl Iterator<Item = (&'a str, Cow<'a, str>)>,
        problem: impl FnOnce(Problem) -> Cow<'a, [u8]>,
    ) -> Option<Refusal<'a>> {
        let ticket = form.ticket.as_deref();
        let problem = |details| match ticket {
            Some(ticket) => problem::with_ticket(&problem(details), ticket).into(),
            None => problem(details),
        };
        let Outcome::Reject(reason) = decision.outcome else {
            return None;
        };
        let protocol = form.protocol;
        let (status, grpc_status) = statuses(reason, self.status(reason));
        let mut headers: Headers = Vec::with_capacity(self.headers.len().saturating_add(8));
        let wait = wait::retry_after(reason, decision);
        let spread = |wait| wait::spread(wait, self.jitter_percent, entropy);
        let seconds = wait.map(|wait| spread(wait.as_secs_ceil()));
        headers.extend(seconds.map(|seconds| ("retry-after", decimal(seconds).into())));
        headers.extend(quota);
        let details = details(reason, policy);
        let is_hidden = self.hides_reason(reason);
        // Clients see the reason without the rule.
        let message = details.split(':').next().filter(|_| is_hidden).unwrap_or(&details);
        let protocol_error = protocol::error(protocol, grpc_status, message);
        let (content_type, body) = match (protocol_error, form.call(), &self.body) {
            (Some((content_type, body)), ..) => (Some(content_type), body.into()),
            // An empty body has no type.
            (None, Some(call), _) => {
                let details = Problem::of(status, reason, decision, self);
                let error = call.error(reason, &problem(details), details.title(), seconds);
                ((!error.is_empty()).then_some(json_rpc::CONTENT_TYPE), error.into_bytes().into())
            }
            (None, None, Body::Problem) => {
                let problem = problem(Problem::of(status, reason, decision, self));
                (Some(problem::CONTENT_TYPE), problem)
            }
            (None, None, Body::Text { content_type, text }) => {
                let body = match ticket {
                    Some(ticket) => options::with_ticket(text, ticket).into_bytes().into(),
                    None => text.as_bytes().into(),
                };
                ((!text.is_empty()).then_some(&**content_type), body)
            }
        };
        headers.extend(content_type.map(|content_type| ("content-type", content_type.into())));
        if matches!(protocol, Protocol::Grpc | Protocol::GrpcWeb) {
            headers.push(("grpc-status", decimal(grpc_status.into()).into()));
            headers.push(("grpc-message", protocol::percent_encoded(message).into()));
        }
        let status = form.status(status, self.json_rpc.and_then(|options| options.status));
        self.own_headers(reason, status, &mut headers);
        if protocol == Protocol::Grpc || self.form.has(Form::OPENAI) {
            let ms = wait.map(|wait| spread(wait.as_ms_ceil()));
            self.retry_headers(ms, protocol, &mut headers);
        }
        Some(Refusal { status, headers, body, grpc_status: Some(grpc_status), details })
    }

    /// Whether [`ResponseOptions::headers`] returns any header.
    #[must_use]
    pub fn has_headers(&self) -> bool {
        self.form != Form::OFF
    }

    /// The headers that show the remaining quota, for the response to any request.
    ///
    /// They show the enforced rules that counted the request, the tightest first, at most
    /// 16. Rules in shadow, hidden rules and rules whose store failed are left out. A client on the
    /// allow or deny list gets no such headers, because no rule counts the request.
    #[must_use]
    pub fn headers(&self, policy: &Policy, decision: &Decision) -> Vec<(&'static str, String)> {
        if self.form == Form::OFF {
            return Vec::new();
        }
        let mut limits = Vec::new();
        ShownRule::tightest_first(self, decision, &mut limits);
        self.fields(policy, &limits)
    }

    /// The headers that show the quotas of these rules.
    fn fields(&self, policy: &Policy, limits: &[ShownRule]) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if self.form.has(Form::IETF) {
            headers.extend(fields::ietf(&fields::DRAFT_10, policy, limits));
        }
        if self.form.has(Form::X_RATELIMIT) || self.form.has(Form::PLAIN) {
            headers.extend(fields::x_ratelimit(policy, limits, self.form.has(Form::X_RATELIMIT)));
        }
        if self.form.has(Form::OPENAI) {
            headers.extend(fields::openai(policy, limits));
        }
        headers
    }

    /// Assigns these responses to the rules of `policy` by name. All other rules use the document's
    /// response.
    pub fn assign(&mut self, policy: &Policy, responses: Vec<(String, RuleResponses)>) {
        let mut by_name = KeyMap::default();
        for (name, own) in responses.into_iter().filter(|(_, own)| *own != RuleResponses::default()) {
            by_name.insert(name.as_bytes(), own);
        }
        if !by_name.is_empty() {
            let own = |name: &str| by_name.get(name.as_bytes()).cloned().unwrap_or_default();
            self.rules = policy.rules().map(|(_, rule)| own(rule.name())).collect();
        }
    }

    /// Whether clients see nothing of the rule but its refusals.
    fn hides(&self, rule: RuleId) -> bool {
        self.rules.get(rule.index()).is_some_and(|own| own.is_hidden)
    }

    /// Whether the rule that refuses is hidden.
    fn hides_reason(&self, reason: Reason) -> bool {
        match reason {
            Reason::Rule(rule) | Reason::NoActor(rule) | Reason::Unavailable(rule) => self.hides(rule),
            Reason::Denied => false,
        }
    }

    /// The refusing rules that a client sees.
    fn violated(&self, decision: &Decision) -> impl Iterator<Item = RuleId> {
        decision.refusing_rules().filter(|rule| !self.hides(*rule))
    }

    /// The responses that override the document's for this reason, the most specific first.
    fn overrides(&self, reason: Reason) -> [Option<&ResponseOverride>; 2] {
        let missing = |rule: RuleId| self.rules.get(rule.index())?.missing.as_ref();
        let limit = |rule: RuleId| self.rules.get(rule.index())?.limit.as_deref();
        match reason {
            Reason::Rule(rule) => [limit(rule), None],
            Reason::NoActor(rule) => [missing(rule), limit(rule)],
            Reason::Denied => [self.deny.as_ref(), None],
            Reason::Unavailable(_) => [None; 2],
        }
    }

    /// The configured status.
    fn status(&self, reason: Reason) -> u32 {
        let overrides = self.overrides(reason).into_iter().flatten();
        overrides.filter_map(|own| own.status).next().unwrap_or(self.status)
    }

    /// Adds what clients obey that retry by themselves: gRPC's (gRFC A6) and OpenAI's. They wait
    /// within the call of their application, so a long wait is no retry. A configured header wins.
    fn retry_headers(&self, ms: Option<u64>, protocol: Protocol, headers: &mut Headers) {
        let within = |longest: u64| ms.filter(|ms| *ms <= longest);
        if protocol == Protocol::Grpc {
            let pushback = within(LONGEST_GRPC_MS).map_or("-1".into(), |ms| decimal(ms).into());
            add(headers, "grpc-retry-pushback-ms", pushback);
        }
        if self.form.has(Form::OPENAI) {
            if let Some(ms) = ms {
                add(headers, "retry-after-ms", decimal(ms).into());
            }
            let retries = if within(LONGEST_OPENAI_MS).is_some() { "true" } else { "false" };
            add(headers, "x-should-retry", retries.into());
        }
    }

    /// Adds the configured headers, each name once, and the challenge that a 401 must have (RFC
    /// 9110 §15.5.2).
    fn own_headers<'a>(&'a self, reason: Reason, status: u32, headers: &mut Headers<'a>) {
        const CHALLENGE: (&str, &str) = ("www-authenticate", "Bearer");
        let overrides = self.overrides(reason).into_iter().flatten();
        let all = overrides.map(|own| &own.headers).chain([&self.headers]).flatten();
        let all = all.map(|(name, value)| (&**name, &**value));
        // Other headers have other names: see `own_headers::reserved`.
        for (name, value) in all.chain((status == 401).then_some(CHALLENGE)) {
            add(headers, name, value.into());
        }
    }
}

/// Names and values.
type Headers<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// Adds a header unless there is one of this name.
fn add<'a>(headers: &mut Headers<'a>, name: &'a str, value: Cow<'a, str>) {
    if !headers.iter().any(|(known, _)| *known == name) {
        headers.push((name, value));
    }
}

/// A longer wait stops the retries of gRPC's clients.
const LONGEST_GRPC_MS: u64 = 30_000;

/// A longer wait stops the retries of OpenAI's clients. Older ones wait at most a minute, and retry
/// earlier than a longer `Retry-After`.
const LONGEST_OPENAI_MS: u64 = 60_000;

/// `RESOURCE_EXHAUSTED`, the gRPC status of a refusal (gRPC's `doc/statuscodes.md`).
const RESOURCE_EXHAUSTED: u32 = 8;

/// `UNAVAILABLE`, the gRPC status of a refusal because the global store is unavailable (the same
/// document).
const UNAVAILABLE: u32 = 14;

/// `PERMISSION_DENIED`, the gRPC status for 403 (gRPC's `doc/http-grpc-status-mapping.md`).
const PERMISSION_DENIED: u32 = 7;

/// `UNAUTHENTICATED`, the gRPC status for 401 (the same document).
const UNAUTHENTICATED: u32 = 16;

/// The HTTP status of a refusal because the global store is unavailable; no client has exceeded a
/// quota (RFC 9110 §15.6.4).
const SERVICE_UNAVAILABLE: u32 = 503;

/// The HTTP status and the gRPC status.
fn statuses(reason: Reason, configured: u32) -> (u32, u32) {
    match reason {
        Reason::Unavailable(_) => (SERVICE_UNAVAILABLE, UNAVAILABLE),
        _ => match configured {
            401 => (configured, UNAUTHENTICATED),
            403 => (configured, PERMISSION_DENIED),
            _ => (configured, RESOURCE_EXHAUSTED),
        },
    }
}

/// The reason for access logs, without spaces.
fn details(reason: Reason, policy: &Policy) -> String {
    match reason {
        Reason::Rule(id) => ["diana_refused:", policy.rule_name(id)].concat(),
        Reason::NoActor(id) => ["diana_no_actor:", policy.rule_name(id)].concat(),
        Reason::Unavailable(id) => ["diana_unavailable:", policy.rule_name(id)].concat(),
        Reason::Denied => "diana_denied".into(),
    }
}

#[cfg(test)]
mod tests;
