//! Chooses the protocol of the global stores: Redis over HTTP, or a rate limit service over gRPC.

use super::redis::{Redis, Replies};
use super::rls::Rls;
use super::{CallError, CallResult};
use crate::policy::{GlobalQuery, Policy};
use crate::request::pairs;
use diana_base::time::Span;
use std::borrow::Cow;

/// Which global stores count, and how to call them.
#[derive(Debug)]
pub struct GlobalStoreOptions {
    /// The cluster names of the stores in the gateway. Each store is one shard: it holds the counts
    /// of some actors.
    pub clusters: Vec<String>,
    /// How long a request waits for a reply.
    pub timeout: Span,
    /// How many calls a worker has pending at once for each store.
    pub in_flight: usize,
    /// The protocol of all stores.
    pub protocol: Protocol,
}

/// The protocol of a global store.
#[derive(Debug)]
pub enum Protocol {
    /// Redis behind an HTTP proxy.
    Redis(Redis),
    /// A rate limit service.
    Rls(Rls),
}

/// The message of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// An HTTP request.
    Http {
        /// The headers, encoded for the host.
        headers: Vec<u8>,
        /// The body.
        body: Vec<u8>,
    },
    /// A gRPC message.
    Grpc(Vec<u8>),
}

impl GlobalStoreOptions {
    /// Hands the rules' names to the protocol.
    pub fn name_rules(&mut self, policy: &Policy) {
        if let Protocol::Rls(service) = &mut self.protocol {
            service.name_rules(policy);
        }
    }

    /// A reply that takes longer is slow: three quarters of the timeout.
    pub(super) fn slow(&self) -> Span {
        Span::from_ns((self.timeout.as_ns() / 4).saturating_mul(3))
    }
}

impl Protocol {
    /// Whether the store counts in its own windows, and supports neither leases nor refunds.
    pub fn is_service(&self) -> bool {
        matches!(self, Protocol::Rls(_))
    }

    /// Whether the protocol can express this query.
    pub(super) fn supports(&self, query: &GlobalQuery) -> bool {
        match self {
            Protocol::Redis(_) => true,
            Protocol::Rls(_) => matches!(query, GlobalQuery::Decide(_)),
        }
    }

    /// The most queries in one call.
    pub(super) fn max_batch(&self) -> usize {
        match self {
            Protocol::Redis(redis) => redis.max_queries(),
            Protocol::Rls(_) => 1,
        }
    }

    /// The message that sends all these queries to `cluster`; a message without queries is a probe.
    /// Over HTTP/1.1 the reply must repeat `number`.
    pub(super) fn message(
        &self,
        cluster: &str,
        queries: &[&GlobalQuery],
        with_script: bool,
        number: u64,
        policy: &Policy,
    ) -> Message {
        match self {
            Protocol::Redis(redis) => {
                let call = redis.call(queries, with_script, number);
                let own = [(":method", "POST"), (":path", call.path), (":authority", cluster)];
                let configured = call.headers.iter().map(|(name, value)| (&**name, &**value));
                let all = own.into_iter().chain(configured).map(|(name, value)| (name, Cow::from(value)));
                let headers: Vec<(&str, Cow<str>)> = all.collect();
                Message::Http { headers: pairs::encode(&headers), body: call.body }
            }
            Protocol::Rls(service) => {
                let probe = GlobalQuery::Decide(Vec::new());
                let query = queries.first().copied().unwrap_or(&probe);
                let name = |rule| policy.rule(rule).map_or("", |rule| rule.name());
                Message::Grpc(service.request(query, name))
            }
        }
    }

    /// The reply to each query of the call with this number.
    pub(super) fn read(
        &self,
        queries: &[&GlobalQuery],
        number: u64,
        result: CallResult,
    ) -> Result<Replies, CallError> {
        match (self, result) {
            (Protocol::Redis(redis), CallResult::Http { status, body }) => {
                redis.read_reply(queries, number, status, body)
            }
            (Protocol::Rls(service), CallResult::Message(message)) => {
                let reply = |query: &&GlobalQuery| service.read_reply(query, message);
                queries.iter().map(|query| reply(query).map(Ok)).collect()
            }
            (_, CallResult::Status(status)) => Err(CallError::Status(status)),
            (_, CallResult::NotMade) => Err(CallError::NotMade),
            _ => Err(CallError::Garbage),
        }
    }
}
