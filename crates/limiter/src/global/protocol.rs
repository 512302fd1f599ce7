//! The seam between a store's client and the protocols, each of which has a crate of its own.

use super::{CallError, CallResult};
use crate::policy::{GlobalQuery, Policy, RuleReply};
use diana_base::time::Span;
use std::fmt;

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
    pub protocol: Box<dyn Protocol>,
}

/// The reply to each query of a call, in order, or why it has none. A query has one [`RuleReply`]
/// for each of its rules.
pub type Replies = Vec<Result<Vec<RuleReply>, CallError>>;

/// The protocol of a global store: queries → the bytes of a call, the bytes of a reply → replies.
///
/// A protocol keeps no state between calls.
pub trait Protocol: Send {
    /// Hands the rules' names to the protocol, for replies that name rules.
    fn name_rules(&mut self, _policy: &Policy) {}

    /// Whether the protocol can express this query.
    fn supports(&self, query: &GlobalQuery) -> bool;

    /// The most queries in one call.
    fn max_batch(&self) -> usize;

    /// The number that a call carries, from a random one.
    fn number(&self, random: u64) -> u64 {
        random
    }

    /// The message that sends all these queries to `cluster`; a message without queries is a probe.
    /// `with_script` is set if the store lacks the script. Over HTTP/1.1 the reply must repeat
    /// `number`.
    fn message(
        &self,
        cluster: &str,
        queries: &[&GlobalQuery],
        with_script: bool,
        number: u64,
        policy: &Policy,
    ) -> Message;

    /// The reply to each query of the call with this number.
    fn read(&self, queries: &[&GlobalQuery], number: u64, result: CallResult) -> Result<Replies, CallError>;
}

/// A derived `Debug` would keep the code of each protocol's own in the module.
impl fmt::Debug for dyn Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol")
    }
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
    /// A gRPC request.
    Grpc {
        /// The cluster, encoded for the host.
        cluster: Vec<u8>,
        /// The service.
        service: &'static str,
        /// The method of the service.
        method: &'static str,
        /// The message.
        body: Vec<u8>,
    },
}

impl GlobalStoreOptions {
    /// A reply that takes longer is slow: three quarters of the timeout.
    pub(super) fn slow(&self) -> Span {
        Span::from_ns((self.timeout.as_ns() / 4).saturating_mul(3))
    }
}
