//! Where shared rules are counted, and in which of the protocols that is asked.
//!
//! It does not know: the protocols' bytes, or when a call is made.

use super::redis::{Redis, Replies};
use super::rls::Rls;
use super::{CallError, CallResult};
use crate::policy::{GlobalQuery, Policy};
use crate::request::pairs;
use crate::time::Span;
use std::borrow::Cow;

/// Where shared rules are counted, and how it is asked.
#[derive(Debug)]
pub struct GlobalStoreOptions {
    /// The gateway's names of the stores, each of which has a share of all counts.
    pub clusters: Vec<String>,
    /// How long a request waits for an answer.
    pub timeout: Span,
    /// How many calls a worker makes at once to each.
    pub in_flight: usize,
    /// What they speak.
    pub protocol: Protocol,
}

/// What a store speaks.
#[derive(Debug)]
pub enum Protocol {
    /// Redis behind an HTTP front.
    Redis(Redis),
    /// A rate limit service.
    Rls(Rls),
}

/// What is sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// An HTTP request.
    Http {
        /// Its headers, as a host takes them.
        headers: Vec<u8>,
        /// Its body.
        body: Vec<u8>,
    },
    /// A gRPC message.
    Grpc(Vec<u8>),
}

impl GlobalStoreOptions {
    /// Gives the protocol the names of the rules.
    pub fn name_rules(&mut self, policy: &Policy) {
        if let Protocol::Rls(service) = &mut self.protocol {
            service.name_rules(policy);
        }
    }

    /// An answer that takes longer is slow: three quarters of the time it may take.
    pub(super) fn slow(&self) -> Span {
        Span::from_ns((self.timeout.as_ns() / 4).saturating_mul(3))
    }
}

impl Protocol {
    /// Whether it counts in windows of its own, and can neither hand out ahead nor take back.
    pub fn is_service(&self) -> bool {
        matches!(self, Protocol::Rls(_))
    }

    /// Whether this can be asked.
    pub(super) fn supports(&self, question: &GlobalQuery) -> bool {
        match self {
            Protocol::Redis(_) => true,
            Protocol::Rls(_) => matches!(question, GlobalQuery::Decide(_)),
        }
    }

    /// The most questions in one call.
    pub(super) fn max_batch(&self) -> usize {
        match self {
            Protocol::Redis(redis) => redis.most(),
            Protocol::Rls(_) => 1,
        }
    }

    /// The message that asks `cluster` all these questions; without questions it is a probe. A store that answers over
    /// HTTP/1.1 repeats `number` in its reply.
    pub(super) fn message(
        &self,
        cluster: &str,
        questions: &[&GlobalQuery],
        whole: bool,
        number: u64,
        policy: &Policy,
    ) -> Message {
        match self {
            Protocol::Redis(redis) => {
                let call = redis.call(questions, whole, number);
                let own = [(":method", "POST"), (":path", call.path), (":authority", cluster)];
                let given = call.headers.iter().map(|(name, value)| (&**name, &**value));
                let all = own.into_iter().chain(given).map(|(name, value)| (name, Cow::from(value)));
                let headers: Vec<(&str, Cow<str>)> = all.collect();
                Message::Http { headers: pairs::encode(&headers), body: call.body }
            }
            Protocol::Rls(service) => {
                let none = GlobalQuery::Decide(Vec::new());
                let question = questions.first().copied().unwrap_or(&none);
                let name = |rule| policy.rule(rule).map_or("", |rule| rule.name());
                Message::Grpc(service.request(question, name))
            }
        }
    }

    /// The answer to each question of the call with this number.
    pub(super) fn read(
        &self,
        questions: &[&GlobalQuery],
        number: u64,
        answer: CallResult,
    ) -> Result<Replies, CallError> {
        match (self, answer) {
            (Protocol::Redis(redis), CallResult::Http { status, body }) => {
                redis.answer(questions, number, status, body)
            }
            (Protocol::Rls(service), CallResult::Message(message)) => {
                let told = |question: &&GlobalQuery| service.answer(question, message);
                questions.iter().map(|question| told(question).map(Ok)).collect()
            }
            (_, CallResult::Status(status)) => Err(CallError::Status(status)),
            (_, CallResult::NotMade) => Err(CallError::NotMade),
            _ => Err(CallError::Garbage),
        }
    }
}
