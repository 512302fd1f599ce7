//! Redis as a global store's client sees it: one HTTP request for each call.

use super::{Dialect, Redis};
use diana_limiter::global::GlobalQuery;
use diana_limiter::global::{CallError, CallResult, Message, Protocol, Replies};
use diana_limiter::policy::Policy;
use diana_limiter::request::pairs;
use std::borrow::Cow;

/// Whose call it is, for the tunnel. Not the name of the cluster: Envoy rejects `|` and `/` in an
/// authority, and the names that Istio and Envoy Gateway give to clusters contain them.
const AUTHORITY: &str = "redis";

impl Protocol for Redis {
    fn supports(&self, _: &GlobalQuery) -> bool {
        true
    }

    fn max_batch(&self) -> usize {
        self.max_queries()
    }

    fn number(&self, random: u64) -> u64 {
        Redis::number(random)
    }

    fn message(
        &self,
        cluster: &str,
        queries: &[&GlobalQuery],
        with_script: bool,
        number: u64,
        _: &Policy,
    ) -> Message {
        let call = self.call(cluster, queries, with_script, number);
        let own = [(":method", "POST"), (":path", call.path), (":authority", AUTHORITY)];
        let configured = call.headers.iter().map(|(name, value)| (&**name, &**value));
        let all = own.into_iter().chain(configured).map(|(name, value)| (name, Cow::from(value)));
        let headers: Vec<(&str, Cow<str>)> = all.collect();
        Message::Http { headers: pairs::encode(&headers), body: call.body }
    }

    fn read(&self, queries: &[&GlobalQuery], number: u64, result: CallResult) -> Result<Replies, CallError> {
        match result {
            CallResult::Http { status, body } => self.read_reply(queries, number, status, body),
            CallResult::Status(0) if self.dialect != Dialect::Resp => Err(CallError::HungUp),
            result => Err(result.error()),
        }
    }
}
