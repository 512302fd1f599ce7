//! Answers operators: shows what a rule has counted for one actor, resets the count, gives a grant,
//! and ends a penalty.
//!
//! ```text
//!   path and address right, `authorization` sent?  ── no ─► an ordinary request
//!   token right?                                   ── no ─► 401
//!   GET policy · GET actor?rule=NAME&ACTOR=VALUE · GET rates · GET top?rule=NAME ─► JSON
//!   POST reset?… · POST grant?… · POST penalty?… ─► the actor's cell changes ─► as GET actor
//! ```
//!
//! Parameters are in the query, because Envoy delivers no body to a filter that has not yet passed
//! the headers on; the actor may be in a header, because access logs record the query.

mod rates;
mod top;

pub(super) use rates::Sampler;

use super::{Decided, Plugin, Rejection, Response};
use crate::Host;
use crate::access_log;
use crate::metrics::{ChangeLabel, QuestionLabel, fingerprint_text};
use diana_base::format;
use diana_base::time::{Span, Time};
use diana_config::{Configuration, LoggedActor, Token};
use diana_inspect::top::hidden;
use diana_limiter::decide::{Outcome, Reason};
use diana_limiter::global::{RuleReply, StoreChange};
use diana_limiter::inspect::{ActorCount, Grant, Question, Target, rule_named};
use diana_limiter::policy::Rule;
use diana_limiter::request::{Request, syntax};
use diana_limiter::session::Session;
use diana_response::{Refusal, RefusalForm, json_string};
use log::info;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// The answer as JSON, or a status and why there is none.
type Answer = Result<Object, (u32, String)>;

/// The reply to a question: at once, or when a store has answered.
enum Reply {
    Now(Answer),
    /// The session of the request that waits for a global store.
    Later(Box<Session>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Now(answer)
    }
}

const HELP: &str = "expected GET policy, actor, rates or top, or POST reset, grant or penalty, as in \
                    `actor?rule=per-user&user=ann`";

/// The header that names the actor, as pairs like those of a query.
pub const ACTOR_HEADER: &str = "diana-actor";

/// The parameters of questions about an actor. No actor in the query can have these names.
const OWN: [&str; 4] = ["rule", "plan", "amount", "for"];

/// Why a request without the right token gets no answer.
pub const WRONG_TOKEN: &str = "the token is wrong, or too many have been wrong within a minute";

/// The mark behind the name of a token that may change nothing.
pub const ONLY_READS: &str = "` may only read";

/// What a question changes.
#[derive(Clone, Copy)]
enum Change {
    Reset,
    EndPenalty,
    Grant(Grant),
}

/// The most wrong tokens of one address that this worker compares within [`TRIES_WITHIN`].
const TRIES: u32 = 10;
const TRIES_WITHIN: Span = Span::from_secs(60);

/// The most addresses that are remembered.
const MOST_ADDRESSES: usize = 64;

/// The addresses that have sent wrong tokens: since when, and how many.
#[derive(Default)]
pub(super) struct WrongTokens(Vec<(IpAddr, Time, u32)>);

impl WrongTokens {
    fn note(&mut self, client: IpAddr, now: Time) {
        self.0.retain(|(_, since, _)| now >= *since && now.since(*since) < TRIES_WITHIN);
        match self.0.iter_mut().find(|(address, ..)| *address == client) {
            Some((.., count)) => *count = count.saturating_add(1),
            None => {
                if self.0.len() >= MOST_ADDRESSES {
                    // The oldest one.
                    self.0.remove(0);
                }
                self.0.push((client, now, 1));
            }
        }
    }

    /// Whether tokens of this address are not compared at present.
    fn are_limited(&self, client: IpAddr, now: impl Fn() -> Time) -> bool {
        let is_many = |(address, _, count): &&(IpAddr, Time, u32)| *address == client && *count >= TRIES;
        self.0.iter().find(is_many).is_some_and(|(_, since, _)| {
            let now = now();
            now >= *since && now.since(*since) < TRIES_WITHIN
        })
    }
}

impl<H: Host> Plugin<H> {
    /// The answer to the request of the effective stream, which the client gets like a refusal.
    /// `None`: an ordinary request, which asks nothing or comes from an address that may not ask.
    #[cold]
    #[inline(never)]
    pub(super) fn inspect(&self, request: &Request) -> Option<Decided<H>> {
        let options = self.configuration.inspect.as_ref()?;
        let policy = &self.configuration.policy;
        let question = options.below(policy.target(request)?)?;
        let client = policy.client(request).filter(|client| options.allows(*client))?;
        let authorization = self.host.request_header(b"authorization")?;
        let is_limited = self.is_limited(client);
        let token = options.token(&authorization).filter(|_| !is_limited);
        self.metrics.inspected(match token {
            Some(_) => QuestionLabel::Answered,
            None if is_limited => QuestionLabel::Limited,
            None => {
                self.wrong_tokens.with(|wrong| wrong.note(client, self.now()));
                QuestionLabel::Refused
            }
        });
        let reply = match token {
            Some(token) => self.question(question, Asker { client, token }),
            None => Err((401, WRONG_TOKEN.into())),
        };
        let reply = reply.unwrap_or_else(|why| Reply::Now(Err(why)));
        Some(match reply {
            Reply::Now(answer) => Decided {
                session: Session::default(),
                response: self.reply(answer),
                form: RefusalForm::default(),
            },
            Reply::Later(session) => {
                let ticket = session.ticket();
                debug_assert!(ticket.is_some(), "a question without a store");
                let outcome = Outcome::Query(ticket.unwrap_or_default());
                let response = Response { outcome, headers: None, rejection: None };
                Decided { session: *session, response, form: RefusalForm::default() }
            }
        })
    }

    fn is_limited(&self, client: IpAddr) -> bool {
        self.wrong_tokens.with(|wrong| wrong.are_limited(client, || self.now())) != Some(false)
    }

    /// The response to the question of this session. `replies` are those of the global store;
    /// `None`: it has not answered.
    pub(super) fn answer_question(
        &self,
        session: &mut Session,
        replies: Option<&[RuleReply]>,
    ) -> Option<Response<H>> {
        let policy = &self.configuration.policy;
        self.forget(session.ticket());
        let asked = self.worker.with(|worker| {
            let Question { target, .. } = session.take_question(worker)?;
            let reserved = target.reserved(worker, || self.now());
            Some((target, reserved))
        });
        let (target, reserved) = asked.flatten()?;
        let count = replies.and_then(|replies| target.count_of(policy, replies));
        let counted = |count| self.counted(&target, &count, reserved);
        let why = "the store has not answered in time; whether it has made a change is unknown";
        Some(self.reply(count.map(counted).ok_or((503, why.into()))))
    }

    fn reply(&self, answer: Answer) -> Response<H> {
        let (status, answer) = match answer {
            Ok(answer) => (200, answer),
            Err((status, why)) => (status, Object::default().text("error", &why)),
        };
        let reply = self.host.local_reply(self.kind, reply(status, answer.finish()));
        let rejection = Some(Box::new(Rejection { reply, send_at: None }));
        Response { outcome: Outcome::Reject(Reason::Denied), headers: None, rejection }
    }

    fn question(&self, question: &[u8], asker: Asker) -> Result<Reply, (u32, String)> {
        let method = self.host.request_header(b":method").unwrap_or_default();
        let is_grpc = |kind: Vec<u8>| kind.starts_with(b"application/grpc");
        if self.host.request_header(b"content-type").is_some_and(is_grpc) {
            return Err((400, "a question is plain HTTP, without `content-type: application/grpc`".into()));
        }
        let mut sides = question.splitn(2, |byte| *byte == b'?');
        let (what, query) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        let is_change = method == b"POST" && matches!(what, b"reset" | b"penalty" | b"grant");
        if is_change && asker.token.only_reads {
            return Err((403, ["the token `", &asker.token.name, ONLY_READS].concat()));
        }
        match (&*method, what) {
            (b"GET", b"policy") => Ok(Reply::Now(Ok(self.policy_in_use()))),
            (b"GET", b"actor") => {
                let target = self.target(query)?;
                match target.is_global() {
                    true => self.ask(target, StoreChange::Nothing),
                    false => Ok(self.actor(&target).into()),
                }
            }
            (b"GET", b"rates") => Ok(self.rates(query).into()),
            (b"GET", b"top") => Ok(self.top(query).into()),
            (b"POST", b"reset") => self.change(Change::Reset, query, asker),
            (b"POST", b"penalty") => self.change(Change::EndPenalty, query, asker),
            (b"POST", b"grant") => {
                let grant = diana_config::grant(parameters(query)).map_err(|why| (400, why))?;
                self.change(Change::Grant(grant), query, asker)
            }
            (_, b"policy" | b"actor" | b"rates" | b"top") => Err((405, "expected the method GET".into())),
            (_, b"reset" | b"penalty" | b"grant") => Err((405, "expected the method POST".into())),
            _ => Err((404, HELP.into())),
        }
    }

    /// The actor that the header names, which keeps it out of access logs; without the header, the
    /// query.
    fn target(&self, query: &[u8]) -> Result<Target, (u32, String)> {
        let parameter = parameters(query);
        let header = self.host.request_header(ACTOR_HEADER.as_bytes());
        let policy = &self.configuration.policy;
        let rule = rule_named(policy, parameter("rule").as_deref()).map_err(|why| (400, why))?;
        if header.is_none()
            && let Some(name) = policy.actor_names(rule).find(|name| OWN.contains(name))
        {
            let why = "` has the name of a parameter: send it in the header `diana-actor`";
            return Err((400, ["the actor `", name, why].concat()));
        }
        let actor = parameters(header.as_deref().unwrap_or(query));
        let target = self.worker.with(|worker| Target::find(worker, parameter, actor));
        target.unwrap_or_else(|| Err("the worker is in use".into())).map_err(|why| (400, why))
    }

    fn policy_in_use(&self) -> Object {
        let policy = &self.configuration.policy;
        let generation = self.remote.as_ref().map_or(0, |remote| remote.generation());
        let mut answer = Object::default()
            .text("version", crate::VERSION)
            .text("fingerprint", &fingerprint_text(self.configuration.fingerprint))
            .number("generation", generation);
        // The worker has the store. It has none while the host has not delivered the secret.
        if self.worker.with(|worker| !worker.clusters().is_empty()) == Some(true) {
            answer = answer.text("store_secret", &self.store_secret());
        }
        if self.configuration.tickets.is_some() {
            let gateway = self.worker.with(|worker| worker.gateway()).unwrap_or(0);
            answer = answer.number("gateway", gateway.into());
        }
        answer.list("rules", policy.rules().map(|(id, rule)| described(rule, policy.actor_names(id))))
    }

    /// What a rule has counted, with the hash that `top` shows in place of a hidden value.
    fn counted(&self, target: &Target, count: &ActorCount, reserved: Option<u64>) -> Object {
        let policy = &self.configuration.policy;
        let answer = counted(target.name(policy), count, reserved);
        let actor = target.actor(policy);
        let hidden = self.worker.with(|worker| actor.and_then(|actor| hidden(&actor, worker)));
        match hidden.flatten() {
            Some(hidden) => answer.key("actor", &top::values(&hidden).finish()),
            None => answer,
        }
    }

    fn actor(&self, target: &Target) -> Answer {
        let now = || self.now();
        let look = |worker: &mut _| {
            let reserved = target.reserved(worker, now);
            Some((target.count(worker, now).ok()?, reserved))
        };
        match self.worker.with(look).flatten() {
            Some((count, reserved)) => Ok(self.counted(target, &count, reserved)),
            None => Err((503, "the shared data fails".into())),
        }
    }

    /// Asks the global store of the rule.
    fn ask(&self, target: Target, change: StoreChange) -> Result<Reply, (u32, String)> {
        let (question, now) = (Question { target, change }, self.now());
        let session = self.worker.with(|worker| Session::ask(worker, question, now)).flatten();
        let why = "the store of this rule is down, or answers no questions";
        session.map(|session| Reply::Later(Box::new(session))).ok_or((503, why.into()))
    }

    fn change(&self, change: Change, query: &[u8], asker: Asker) -> Result<Reply, (u32, String)> {
        let policy = &self.configuration.policy;
        let target = self.target(query)?;
        let rule = target.name(policy);
        if matches!(change, Change::EndPenalty) && !target.has_penalty(policy) {
            return Err((400, ["the rule `", rule, "` has no penalty"].concat()));
        }
        if matches!(change, Change::Grant(_)) && !target.takes_grants(policy) {
            let why = "` counts permits, which come back: raise its `rpu` instead";
            return Err((400, ["the rule `", rule, why].concat()));
        }
        let (kind, does) = match change {
            Change::Reset => (ChangeLabel::Reset, "resets".into()),
            Change::Grant(Grant { amount, lasts }) => {
                (ChangeLabel::Grant, format!("grants {amount} units for {lasts} to"))
            }
            Change::EndPenalty => (ChangeLabel::Penalty, "ends the penalty of".into()),
        };
        let place = if target.is_global() { " in the store" } else { "" };
        let actor = self.name_of(&target);
        let log = || info!("inspect: {asker} {does} {actor} of rule {rule}{place}");
        if target.is_global() {
            let change = match change {
                Change::Reset => StoreChange::Reset,
                Change::EndPenalty => StoreChange::EndPenalty,
                Change::Grant(Grant { amount, lasts }) => StoreChange::Grant { amount, lasts },
            };
            // Logged before the answer, because a change whose answer is lost has to be in the log,
            // too.
            log();
            let reply = self.ask(target, change)?;
            self.metrics.changed(kind);
            return Ok(reply);
        }
        let by = |worker: &mut _| match change {
            Change::Reset => target.reset(worker, || self.now()),
            Change::EndPenalty => target.end_penalty(worker, || self.now()),
            Change::Grant(grant) => target.grant(grant, worker, || self.now()),
        };
        let Some(Ok(events)) = self.worker.with(by) else {
            return Err((503, "the shared data fails, or has no room for the actor".into()));
        };
        self.metrics.events(&events);
        self.metrics.changed(kind);
        log();
        Ok(self.actor(&target).into())
    }

    /// The name of an actor in the log: the hash of the access log if that has one, otherwise a
    /// hash that differs between gateways.
    fn name_of(&self, target: &Target) -> String {
        let Configuration { policy, access_log, .. } = &self.configuration;
        let text = target.actor(policy).map(|actor| access_log::escape(actor.raw_values(), usize::MAX));
        let text = text.unwrap_or_default();
        let hash = match &access_log.actor {
            _ if text.is_empty() => return "everybody".into(),
            Some(LoggedActor::Hash(Some(hash))) => hash.of(text.as_bytes()),
            _ => {
                let hash = self.worker.with(|worker| worker.keyed_hash(text.as_bytes()));
                fingerprint_text(hash.unwrap_or(0))
            }
        };
        ["actor ", &hash].concat()
    }
}

/// The client that asks, and the token that it has sent.
#[derive(Clone, Copy)]
struct Asker<'a> {
    client: IpAddr,
    token: &'a Token,
}

impl fmt::Display for Asker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.token.name {
            "" => self.client.fmt(f),
            name => write!(f, "{name} at {}", self.client),
        }
    }
}

/// The parameters of a query. If a name has several values, the first one counts.
fn parameters(query: &[u8]) -> impl Fn(&str) -> Option<String> {
    let query = [b"?", query].concat();
    move |name| String::from_utf8(syntax::query_values(&query, name.as_bytes()).next()?).ok()
}

fn ms(span: Span) -> u64 {
    span.as_ns().div_ceil(1_000_000)
}

fn described<'a>(rule: &Rule, actors: impl Iterator<Item = &'a str>) -> Object {
    let quota = rule.configured();
    let mut names = String::new();
    for name in actors {
        names.push(if names.is_empty() { '[' } else { ',' });
        json_string(&mut names, name);
    }
    names.push_str(if names.is_empty() { "[]" } else { "]" });
    Object::default()
        .text("name", rule.name())
        .text("scope", if rule.is_global() { "global" } else { "local" })
        .key("actors", &names)
        .number("rpu", quota.rpu)
        .number("unit_ms", ms(quota.unit))
        .text("algorithm", &rule.quota().algorithm().canonical_form())
        .text("enforce", &rule.enforce().to_string())
}

fn counted(rule: &str, count: &ActorCount, reserved: Option<u64>) -> Object {
    Object::default()
        .text("rule", rule)
        .number("quota", count.quota.rpu)
        .number("quota_ms", ms(count.quota.unit))
        .number("used", count.used)
        .number("remaining", count.remaining)
        .number("more_in_ms", ms(count.more_in))
        .number("full_in_ms", ms(count.full_in))
        .number("penalty_ms", ms(count.penalty))
        .number("granted", count.granted)
        .number("granted_for_ms", ms(count.granted_for))
        .number("reserved", reserved.unwrap_or(0))
        .key("is_refused", if count.is_refused { "true" } else { "false" })
}

/// A JSON object in the making: its entries, each behind a comma.
#[derive(Default)]
struct Object(String);

impl Object {
    /// Adds a key with this JSON.
    fn key(mut self, key: &str, json: &str) -> Object {
        self.0.push(',');
        json_string(&mut self.0, key);
        self.0.push(':');
        self.0.push_str(json);
        self
    }

    fn number(self, key: &str, number: u64) -> Object {
        self.key(key, &format::decimal(number))
    }

    fn text(mut self, key: &str, text: &str) -> Object {
        self = self.key(key, "");
        json_string(&mut self.0, text);
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
    let mut headers = vec![("content-type", "application/json".into()), ("cache-control", "no-store".into())];
    if status == 401 {
        headers.push(("www-authenticate", "Bearer".into()));
    }
    Refusal {
        status,
        headers,
        body: Cow::Owned(body.into_bytes()),
        grpc_status: None,
        details: "diana_inspect".into(),
    }
}
