//! Redis as the global store. One Lua script decides all queries of a call, one after the other,
//! each atomically. The body of a call is a pipeline of Redis commands, and the body of its reply
//! is what Redis writes. The gateway carries the bytes: by the native module's bridge, or by a
//! tunnel.
//!
//! ```text
//!   queries ─ command ─► arguments ─ diana_resp ─► a body
//!   a body ─ resp ─► numbers ─ answer ─► RuleReply
//! ```
//!
//! ```
//! use diana_base::time::Span;
//! use diana_global_redis::Redis;
//! use diana_limiter::algorithm::{Admission, Parameters};
//! use diana_limiter::global::{GlobalQuery, RuleQuery};
//! use diana_limiter::policy::RuleId;
//!
//! let query = GlobalQuery::Decide(vec![vec![RuleQuery {
//!     rule: RuleId::new(0),
//!     key: [7; 16],
//!     // A token bucket: 10 units a second, up to 10 units.
//!     parameters: Parameters { kind: 1, numbers: [1_000_000, 10, 10, 0, 0, 0] },
//!     enforced: true,
//!     cost: 1,
//!     peeks: false,
//!     least_rest: 0,
//!     lease: 0,
//!     penalty: None,
//!     headroom: 0,
//!     takes_grants: false,
//! }]]);
//! let redis = Redis::new("diana".into(), Vec::new());
//! let number = Redis::number(1 << 20);
//! let call = redis.call("redis", &[&query], false, number);
//! assert!(call.starts_with(b"*6\r\n$7\r\nEVALSHA\r\n"));
//!
//! // The number of the call, then 13 numbers for the rule: admitted, no wait, 9 units remain, …
//! let numbers = [number, 0, 0, 9, 100_000, 100_000, 1, 5, 5, 0, 0, 0, 0, 0];
//! let reply: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
//! let reply = format!("*14\r\n{reply}");
//! let replies = redis.read_reply(&[&query], number, 200, reply.as_bytes()).expect("a reply");
//! let rule_reply = replies[0].as_ref().expect("a reply to the query")[0];
//! assert_eq!(rule_reply.verdict.admission, Admission::Admit { delay: Span::ZERO });
//! assert_eq!(rule_reply.verdict.remaining, 9);
//! ```
//!
//! The keys of a call share a hash tag, because a script's keys have to lie in one slot of a Redis
//! Cluster: `PREFIX:{0}:<32 hexadecimal digits>`, or [in one of several](Redis::sharded)
//! `PREFIX:{CLUSTER}:…`. A rule that can have grants sends a second key, which ends with `:g`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod answer;
mod command;
mod protocol;
mod resp;
pub mod script;

use diana_base::format;
use diana_limiter::global::GlobalQuery;
use diana_limiter::global::{CallError, Replies};
use diana_limiter::policy::CountKey;
pub use resp::{Login, log_in};
use std::borrow::Cow;

/// A Redis, behind a cluster that carries its protocol.
///
/// ```
/// use diana_global_redis::{Redis, script};
///
/// let redis = Redis::new("diana".into(), Vec::new());
/// let text = |with_script| String::from_utf8(redis.call("redis", &[], with_script, 8));
/// // The probe writes a key for a second, and repeats the number of the call.
/// let probe = "$1\r\n1\r\n$15\r\ndiana:{0}:probe\r\n$1\r\n8\r\n";
/// assert!(text(false).is_ok_and(|body| body.contains(script::SHA1) && body.ends_with(probe)));
/// assert!(text(true).is_ok_and(|body| body.contains(script::SCRIPT) && body.ends_with(probe)));
/// ```
#[derive(Clone, Debug)]
pub struct Redis {
    prefix: String,
    headers: Vec<(String, String)>,
    login: Option<Login>,
    /// Whether the hash tag of the keys is the name of the cluster.
    is_sharded: bool,
}

/// The most queries in one command, because a running script blocks all others.
const MAX_QUERIES: usize = 64;

/// The end of the key that a probe writes for a second. A global store that cannot be written to
/// must fail its probe; otherwise it would be queried again and charge nothing.
const PROBE: &str = "probe";

/// The end of a grant's key, which begins with the key of the count.
const GRANT: &str = ":g";

/// The most commands in one call. Each command carries its own number, so that the worker also
/// notices a proxy that mixes up the replies within a pipeline.
const MAX_COMMANDS: usize = 4;

impl Redis {
    /// A Redis whose keys begin with `prefix`. Each call carries `headers`.
    #[must_use]
    pub fn new(prefix: String, headers: Vec<(String, String)>) -> Redis {
        Redis { prefix, headers, login: None, is_sharded: false }
    }

    /// Logs in with each call.
    ///
    /// ```
    /// use diana_global_redis::{Login, Redis};
    ///
    /// let login = Login { user: None, password: "secret".into() };
    /// let redis = Redis::new("diana".into(), Vec::new()).with_login(login);
    /// let call = redis.call("redis", &[], false, Redis::number(0));
    /// assert!(call.starts_with(b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*5\r\n$7\r\nEVALSHA\r\n"));
    /// ```
    #[must_use]
    pub fn with_login(mut self, login: Login) -> Redis {
        self.login = Some(login);
        self
    }

    /// One of several that divide the counts. The keys in each of them get a hash tag of their own,
    /// so that a Redis Cluster holds them in several slots.
    ///
    /// ```
    /// use diana_global_redis::Redis;
    ///
    /// let redis = Redis::new("diana".into(), Vec::new());
    /// let has = |redis: &Redis, key: &[u8]| {
    ///     let call = redis.call("redis.a", &[], false, 8);
    ///     call.windows(key.len()).any(|part| part == key)
    /// };
    /// assert!(has(&redis, b"diana:{0}:probe"));
    /// assert!(has(&redis.sharded(), b"diana:{redis_a}:probe"));
    /// ```
    #[must_use]
    pub fn sharded(mut self) -> Redis {
        self.is_sharded = true;
        self
    }

    /// The most queries in one call: those of a pipeline of four commands.
    ///
    /// ```
    /// assert_eq!(diana_global_redis::Redis::max_queries(), 256);
    /// ```
    #[must_use]
    pub fn max_queries() -> usize {
        MAX_QUERIES.saturating_mul(MAX_COMMANDS)
    }

    /// The body of the call to `cluster` for at most [`Redis::max_queries`] queries. The script
    /// goes by its hash, or, if `with_script`, by its text, which the global store then keeps. A
    /// call without queries is a probe. The reply must repeat `number`, which [`Redis::number`]
    /// makes of a random number.
    #[must_use]
    pub fn call(&self, cluster: &str, queries: &[&GlobalQuery], with_script: bool, number: u64) -> Vec<u8> {
        let start = self.start_of_keys(cluster);
        let mut body = Vec::new();
        if let Some(login) = &self.login {
            log_in(&mut body, login);
        }
        for (at, (queries, number)) in commands(queries).zip(number..).enumerate() {
            // One text is enough for all commands of a call.
            let parts = command(&start, queries, with_script && at == 0, number);
            diana_resp::begin(&mut body, parts.len());
            parts.iter().for_each(|part| diana_resp::part(&mut body, part));
        }
        body
    }

    /// The number that a call carries. It is below 2⁵³, because the script counts in doubles, and
    /// leaves room for one number for each command.
    ///
    /// ```
    /// use diana_global_redis::Redis;
    ///
    /// assert!(Redis::number(u64::MAX) < 1 << 53);
    /// assert_eq!(Redis::number(u64::MAX) % 4, 0);
    /// ```
    #[must_use]
    pub fn number(random: u64) -> u64 {
        (random >> 11) & !(MAX_COMMANDS.next_power_of_two() as u64).saturating_sub(1)
    }

    /// The start of all keys in a cluster.
    fn start_of_keys(&self, cluster: &str) -> String {
        // Gateways that name their only cluster differently count together. Names of several
        // clusters differ as metrics show them too, and no brace in such a name ends the tag early.
        let tag = if self.is_sharded { format::sanitize(cluster) } else { "0".into() };
        [&*self.prefix, ":{", &tag, "}:"].concat()
    }

    /// Decodes the reply to each query of the call with this `number`. The replies to queries other
    /// than [`GlobalQuery::Decide`] are empty. The whole call fails if no query has a reply. It
    /// also fails if the reply to any command lacks the command's number, because then no reply of
    /// that call can be trusted.
    ///
    /// ```
    /// use diana_global_redis::Redis;
    /// use diana_limiter::global::CallError;
    ///
    /// let redis = Redis::new("diana".into(), Vec::new());
    /// // A probe has no queries, so its reply has only the number.
    /// assert_eq!(redis.read_reply(&[], 8, 200, b"*1\r\n:8\r\n"), Ok(Vec::new()));
    /// assert_eq!(redis.read_reply(&[], 8, 200, b"*1\r\n:12\r\n"), Err(CallError::Stray));
    /// assert_eq!(redis.read_reply(&[], 8, 503, b""), Err(CallError::status(503, b"")));
    /// assert_eq!(redis.read_reply(&[], 8, 200, b"HTTP/1.1 400 "), Err(CallError::Http));
    /// ```
    pub fn read_reply(
        &self,
        queries: &[&GlobalQuery],
        number: u64,
        status: u32,
        body: &[u8],
    ) -> Result<Replies, CallError> {
        let read = resp::replies(status, body, commands(queries).count(), self.login.is_some())?;
        let mut replies = Vec::with_capacity(queries.len());
        let (mut first_error, mut any_replied) = (None, false);
        for ((reply, queries), number) in read.into_iter().zip(commands(queries)).zip(number..) {
            let before = replies.len();
            let decode = |numbers: Vec<u64>| answer::decode(queries, number, &numbers, &mut replies);
            match reply.and_then(decode) {
                Ok(()) => any_replied = true,
                Err(CallError::Stray) => return Err(CallError::Stray),
                Err(error) => {
                    replies.truncate(before);
                    replies.resize_with(before.saturating_add(queries.len()), || Err(error.clone()));
                    first_error = first_error.or(Some(error));
                }
            }
        }
        match first_error {
            Some(error) if !any_replied => Err(error),
            _ => Ok(replies),
        }
    }
}

/// The queries of each command; at least one command.
fn commands<'q>(queries: &'q [&'q GlobalQuery]) -> impl Iterator<Item = &'q [&'q GlobalQuery]> {
    let probe = queries.is_empty().then_some(queries);
    queries.chunks(MAX_QUERIES).chain(probe)
}

/// The parts of a command whose keys begin with `start`.
fn command(start: &str, queries: &[&GlobalQuery], with_script: bool, number: u64) -> Vec<Cow<'static, str>> {
    let (name, script) =
        if with_script { ("EVAL", script::unpacked().into()) } else { ("EVALSHA", script::SHA1.into()) };
    let mut keys: Vec<Cow<str>> = Vec::new();
    let mut push = |key: &CountKey, has_grant: bool| {
        let key = self::key(start, key);
        let grant = has_grant.then(|| [&key, GRANT].concat());
        keys.extend([key].into_iter().chain(grant).map(Cow::from));
    };
    queries.iter().for_each(|query| command::keys(query, &mut push));
    if queries.is_empty() {
        keys.push([start, PROBE].concat().into());
    }
    let mut parts = vec![name.into(), script, format::decimal(keys.len() as u64).into()];
    parts.append(&mut keys);
    parts.push(format::decimal(number).into());
    for query in queries {
        let mut command = String::new();
        command::write(&mut command, query);
        parts.push(command.into());
    }
    parts
}

fn key(start: &str, key: &CountKey) -> String {
    let mut name = String::with_capacity(start.len().saturating_add(32));
    name.push_str(start);
    key.iter().for_each(|byte| format::hex(&mut name, *byte));
    name
}

#[cfg(test)]
mod tests;
