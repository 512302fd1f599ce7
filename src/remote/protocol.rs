//! Where shared rules are counted, and in which of the protocols that is asked.
//!
//! It does not know: the protocols' bytes, or when a call is made.

use super::redis::{Answers, Redis};
use super::rls::Rls;
use super::{Answer, Failure};
use crate::policy::{Policy, Question};
use crate::request::pairs;
use crate::time::Span;
use std::borrow::Cow;

/// Where shared rules are counted, and how it is asked.
#[derive(Debug)]
pub struct Options {
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

impl Options {
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
    pub(super) fn takes(&self, question: &Question) -> bool {
        match self {
            Protocol::Redis(_) => true,
            Protocol::Rls(_) => matches!(question, Question::Decide(_)),
        }
    }

    /// The most questions in one call.
    pub(super) fn most(&self) -> usize {
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
        questions: &[&Question],
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
                let none = Question::Decide(Vec::new());
                let question = questions.first().copied().unwrap_or(&none);
                let name = |rule| policy.rule(rule).map_or("", |rule| rule.name());
                Message::Grpc(service.request(question, name))
            }
        }
    }

    /// The answer to each question of the call with this number.
    pub(super) fn read(
        &self,
        questions: &[&Question],
        number: u64,
        answer: Answer,
    ) -> Result<Answers, Failure> {
        match (self, answer) {
            (Protocol::Redis(redis), Answer::Http { status, body }) => {
                redis.answer(questions, number, status, body)
            }
            (Protocol::Rls(service), Answer::Message(message)) => {
                let told = |question: &&Question| service.answer(question, message);
                questions.iter().map(|question| told(question).map(Ok)).collect()
            }
            (_, Answer::Status(status)) => Err(Failure::Status(status)),
            (_, Answer::NotMade) => Err(Failure::NotMade),
            _ => Err(Failure::Garbage),
        }
    }
}
