//! Redis as a global store's client sees it: one HTTP request for each call.

use super::Redis;
use diana_limiter::global::GlobalQuery;
use diana_limiter::global::{CallError, CallResult, Message, Protocol, Replies};
use diana_limiter::request::pairs;
use std::borrow::Cow;

impl Protocol for Redis {
    fn max_batch(&self) -> usize {
        self.max_queries()
    }

    fn number(&self, random: u64) -> u64 {
        Redis::number(random)
    }

    fn message(&self, cluster: &str, queries: &[&GlobalQuery], with_script: bool, number: u64) -> Message {
        let call = self.call(cluster, queries, with_script, number);
        let own = [(":method", "POST"), (":path", call.path), (":authority", cluster)];
        let configured = call.headers.iter().map(|(name, value)| (&**name, &**value));
        let all = own.into_iter().chain(configured).map(|(name, value)| (name, Cow::from(value)));
        let headers: Vec<(&str, Cow<str>)> = all.collect();
        Message { headers: pairs::encode(&headers), body: call.body }
    }

    fn read(&self, queries: &[&GlobalQuery], number: u64, result: CallResult) -> Result<Replies, CallError> {
        match result {
            CallResult::Response { status, body } => self.read_reply(queries, number, status, body),
            CallResult::NotMade => Err(CallError::NotMade),
            CallResult::TimedOut => Err(CallError::TimedOut),
        }
    }
}
