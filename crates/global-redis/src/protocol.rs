//! Redis as a global store's client sees it: one HTTP request for each call.

use super::Redis;
use diana_limiter::global::GlobalQuery;
use diana_limiter::global::{CallError, CallResult, Message, Replies, StoreProtocol};
use diana_limiter::request::pairs;
use std::borrow::Cow;

/// A fixed authority, because Envoy answers 400 to the `|` and `/` in names such as
/// `outbound|6379||redis.default.svc.cluster.local`.
const PSEUDO_HEADERS: [(&str, &str); 3] = [(":method", "POST"), (":path", "/"), (":authority", "redis")];

impl StoreProtocol for Redis {
    fn max_batch(&self) -> usize {
        Redis::max_queries()
    }

    fn number(&self, random: u64) -> u64 {
        Redis::number(random)
    }

    fn message(&self, cluster: &str, queries: &[&GlobalQuery], with_script: bool, number: u64) -> Message {
        let own = self.headers.iter().map(|(name, value)| (&**name, &**value));
        let headers = PSEUDO_HEADERS.into_iter().chain(own).map(|(name, value)| (name, Cow::from(value)));
        let headers: Vec<(&str, Cow<str>)> = headers.collect();
        let body = self.call(cluster, queries, with_script, number);
        Message { headers: pairs::encode(&headers), body }
    }

    fn read(&self, queries: &[&GlobalQuery], number: u64, result: CallResult) -> Result<Replies, CallError> {
        match result {
            CallResult::Response { status, body } => self.read_reply(queries, number, status, body),
            CallResult::NotMade => Err(CallError::NotMade),
            CallResult::TimedOut => Err(CallError::TimedOut),
        }
    }
}
