//! A rate limit service as a global store's client sees it: one gRPC request for each query.

use super::Rls;
use diana_limiter::global::GlobalQuery;
use diana_limiter::global::{CallError, CallResult, Message, Protocol, Replies};
use diana_limiter::policy::Policy;

impl Protocol for Rls {
    fn name_rules(&mut self, policy: &Policy) {
        Rls::name_rules(self, policy);
    }

    /// A service has neither leases nor refunds.
    fn supports(&self, query: &GlobalQuery) -> bool {
        matches!(query, GlobalQuery::Decide(_))
    }

    fn max_batch(&self) -> usize {
        1
    }

    fn message(&self, cluster: &str, queries: &[&GlobalQuery], _: bool, _: u64, policy: &Policy) -> Message {
        let probe = GlobalQuery::Decide(Vec::new());
        let query = queries.first().copied().unwrap_or(&probe);
        let name = |rule| policy.rule(rule).map_or("", |rule| rule.name());
        let (cluster, body) = (Rls::service(cluster), self.request(query, name));
        Message::Grpc { cluster, service: Rls::SERVICE, method: Rls::METHOD, body }
    }

    fn read(&self, queries: &[&GlobalQuery], _: u64, result: CallResult) -> Result<Replies, CallError> {
        match result {
            CallResult::Message(message) => {
                let reply = |query: &&GlobalQuery| self.read_reply(query, message);
                queries.iter().map(|query| reply(query).map(Ok)).collect()
            }
            result => Err(result.error()),
        }
    }
}
