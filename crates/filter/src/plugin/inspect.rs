//! Answers operators: what the rules have counted for one actor, and its reset.
//!
//! ```text
//!   path, address, token right?  ── one is wrong ─► an ordinary request: the path does not exist
//!   GET policy · GET actor?rule=NAME&ACTOR=VALUE · POST reset?rule=NAME&ACTOR=VALUE ─► JSON
//!   GET rates · GET top?rule=NAME
//! ```
//!
//! Parameters are in the query, because Envoy delivers no body to a filter that has not yet passed
//! the headers on.

mod rates;
mod top;

pub(super) use rates::Sampler;

use super::{Decided, Plugin, Rejection, Response};
use crate::Host;
use crate::metrics::fingerprint_text;
use diana_base::format;
use diana_base::time::Span;
use diana_limiter::decide::{Outcome, Reason};
use diana_limiter::inspect::{ActorCount, Target};
use diana_limiter::policy::Rule;
use diana_limiter::request::{Request, syntax};
use diana_limiter::response::Refusal;
use diana_limiter::session::Session;
use log::info;
use std::borrow::Cow;

/// The answer as JSON, or a status and why there is none.
type Answer = Result<Object, (u32, String)>;

const HELP: &str =
    "expected GET policy, actor, rates or top, or POST reset, as in `actor?rule=per-user&user=ann`";

impl<H: Host> Plugin<H> {
    /// The answer to the request of the effective stream, if it asks for counts and may. The client
    /// gets it as it would get a refusal. `None`: an ordinary request.
    #[cold]
    #[inline(never)]
    pub(super) fn inspect(&self, request: &Request) -> Option<Decided<H>> {
        let options = self.configuration.inspect.as_ref()?;
        let policy = &self.configuration.policy;
        let question = options.below(policy.target(request)?)?;
        if !policy.client(request).is_some_and(|client| options.allows(client)) {
            return None;
        }
        if !self.host.request_header(b"authorization").is_some_and(|value| options.knows(&value)) {
            self.metrics.inspected(false);
            return None;
        }
        self.metrics.inspected(true);
        let (status, answer) = match self.question(question, request) {
            Ok(answer) => (200, answer),
            Err((status, why)) => (status, Object::default().text("error", &why)),
        };
        let reply = self.host.local_reply(self.kind, reply(status, answer.finish()));
        let rejection = Some(Box::new(Rejection { reply, send_at: None }));
        let response = Response { outcome: Outcome::Reject(Reason::Denied), headers: None, rejection };
        Some(Decided { session: Session::default(), response, is_grpc: false })
    }

    fn question(&self, question: &[u8], request: &Request) -> Answer {
        let method = self.host.request_header(b":method").unwrap_or_default();
        let mut sides = question.splitn(2, |byte| *byte == b'?');
        let (what, query) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        match (&*method, what) {
            (b"GET", b"policy") => Ok(self.policy_in_use()),
            (b"GET", b"actor") => self.actor(&self.target(query)?),
            (b"POST", b"reset") => self.reset(&self.target(query)?, request),
            (b"GET", b"rates") => self.rates(query),
            (b"GET", b"top") => self.top(query),
            (_, b"policy" | b"actor" | b"rates" | b"top") => Err((405, "expected the method GET".into())),
            (_, b"reset") => Err((405, "expected the method POST".into())),
            _ => Err((404, HELP.into())),
        }
    }

    /// The actor that the query names.
    fn target(&self, query: &[u8]) -> Result<Target, (u32, String)> {
        let policy = &self.configuration.policy;
        let target = self.worker.with(|worker| Target::find(policy, worker, |name| parameter(query, name)));
        target.unwrap_or_else(|| Err("the worker is in use".into())).map_err(|why| (400, why))
    }

    fn policy_in_use(&self) -> Object {
        let policy = &self.configuration.policy;
        let generation = self.remote.as_ref().map_or(0, |remote| remote.generation());
        let mut answer = Object::default()
            .text("version", env!("CARGO_PKG_VERSION"))
            .text("fingerprint", &fingerprint_text(self.configuration.fingerprint))
            .number("generation", generation);
        if self.configuration.store.is_some() {
            let mut secret = String::new();
            policy.fingerprint().to_be_bytes().into_iter().for_each(|byte| format::hex(&mut secret, byte));
            answer = answer.text("store_secret", &secret);
        }
        answer.list("rules", policy.rules().map(|(_, rule)| described(rule)))
    }

    fn actor(&self, target: &Target) -> Answer {
        let policy = &self.configuration.policy;
        let look = |worker: &mut _| target.count(policy, worker, &self.store, || self.now());
        match self.worker.with(look) {
            Some(Ok(count)) => Ok(counted(target.name(policy), &count)),
            _ => Err((503, "the shared data fails".into())),
        }
    }

    fn reset(&self, target: &Target, request: &Request) -> Answer {
        let policy = &self.configuration.policy;
        let reset = |worker: &mut _| target.reset(policy, worker, &self.store, || self.now());
        let Some(Ok(events)) = self.worker.with(reset) else {
            return Err((503, "the shared data fails".into()));
        };
        self.metrics.events(&events);
        let rule = target.name(policy);
        let client = policy.client(request).map(|client| client.to_string()).unwrap_or_default();
        info!("inspect: {client} has reset an actor of rule {rule}");
        self.actor(target)
    }
}

/// A parameter of a query. Of several values for one name the first counts.
fn parameter(query: &[u8], name: &str) -> Option<String> {
    let query = [b"?", query].concat();
    let value = syntax::query_values(&query, name.as_bytes()).next()?;
    String::from_utf8(value).ok()
}

fn ms(span: Span) -> u64 {
    span.as_ns().div_ceil(1_000_000)
}

fn described(rule: &Rule) -> Object {
    let quota = rule.quota();
    Object::default()
        .text("name", rule.name())
        .text("scope", if rule.is_global() { "global" } else { "local" })
        .number("rpu", quota.rpu)
        .number("unit_ms", ms(quota.unit))
        .text("algorithm", &rule.counter().algorithm.canonical_form())
        .text("enforce", &rule.enforce().to_string())
}

fn counted(rule: &str, count: &ActorCount) -> Object {
    Object::default()
        .text("rule", rule)
        .number("quota", count.quota.rpu)
        .number("quota_ms", ms(count.quota.unit))
        .number("used", count.used)
        .number("remaining", count.remaining)
        .number("more_in_ms", ms(count.more_in))
        .number("full_in_ms", ms(count.full_in))
        .number("penalty_ms", ms(count.penalty))
        .key("is_refused", if count.is_refused { "true" } else { "false" })
}

/// A JSON object in the making: its entries, each behind a comma.
#[derive(Default)]
struct Object(String);

impl Object {
    /// Adds a key with this JSON.
    fn key(mut self, key: &str, json: &str) -> Object {
        self.0.push(',');
        format::json_string(&mut self.0, key);
        self.0.push(':');
        self.0.push_str(json);
        self
    }

    fn number(self, key: &str, number: u64) -> Object {
        self.key(key, &format::decimal(number))
    }

    fn text(mut self, key: &str, text: &str) -> Object {
        self = self.key(key, "");
        format::json_string(&mut self.0, text);
        self
    }

    fn list(mut self, key: &str, items: impl Iterator<Item = Object>) -> Object {
        self = self.key(key, "[");
        for (place, item) in items.enumerate() {
            self.0.push_str(if place > 0 { "," } else { "" });
            self.0.push_str(&item.finish());
        }
        self.0.push(']');
        self
    }

    fn finish(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('{');
        } else {
            self.0.replace_range(..1, "{");
        }
        self.0.push('}');
        self.0
    }
}

fn reply(status: u32, body: String) -> Refusal<'static> {
    Refusal {
        status,
        headers: vec![("content-type", "application/json".into()), ("cache-control", "no-store".into())],
        body: Cow::Owned(body.into_bytes()),
        grpc_status: None,
        details: "diana_inspect".into(),
    }
}
