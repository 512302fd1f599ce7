//! Redis as the global store. One Lua script decides all queries of a call, one after the other,
//! each atomically.
//!
//! ```text
//!   queries ─ command ─► arguments ─ resp, webdis, upstash ─► a body
//!   a body ─ resp, webdis, upstash ─► numbers ─ answer ─► RuleReply
//! ```
//!
//! ```
//! use diana_base::time::Span;
//! use diana_global_redis::{Dialect, Redis};
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
//!     lease: 0,
//!     penalty: None,
//!     headroom: 0,
//!     takes_grants: false,
//! }]]);
//! let redis = Redis::new(Dialect::Webdis, "diana".into(), Vec::new());
//! let number = Redis::number(1 << 20);
//! let call = redis.call("redis", &[&query], false, number);
//! assert!(call.body.starts_with(b"EVALSHA/"));
//!
//! // The number of the call, then 13 numbers for the rule: admitted, no wait, 9 units remain, …
//! let reply = format!(r#"{{"EVALSHA":[{number},0,0,9,100000,100000,1,5,5,0,0,0,0,0]}}"#);
//! let replies = redis.read_reply(&[&query], number, 200, reply.as_bytes()).expect("a reply");
//! let rule_reply = replies[0].as_ref().expect("a reply to the query")[0];
//! assert_eq!(rule_reply.verdict.admission, Admission::Admit { delay: Span::ZERO });
//! assert_eq!(rule_reply.verdict.remaining, 9);
//! ```
//!
//! The keys of a call share a hash tag, because a script's keys have to lie in one slot of a Redis
//! Cluster: `PREFIX:{0}:<32 hexadecimal digits>`, or [in one of several](Redis::sharded)
//! `PREFIX:{CLUSTER}:…`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod answer;
mod command;
mod protocol;
mod resp;
pub mod script;
mod upstash;
mod webdis;

use answer::Numbers;
use diana_base::format;
use diana_document::parse_json;
use diana_limiter::global::GlobalQuery;
use diana_limiter::global::{CallError, MAX_REPLY_BYTES, Replies};
use diana_limiter::policy::CountKey;
pub use resp::{Login, log_in};
use std::borrow::Cow;

/// The bytes in which a call reaches Redis.
///
/// ```
/// use diana_global_redis::{Dialect, Redis};
///
/// let body = |dialect| {
///     let redis = Redis::new(dialect, "diana".into(), Vec::new());
///     String::from_utf8(redis.call("redis", &[], false, 8).body)
/// };
/// assert!(body(Dialect::Webdis).is_ok_and(|body| body.ends_with("/1/diana:{0}:probe/8")));
/// let end = r#","1","diana:{0}:probe","8"]"#;
/// assert!(body(Dialect::Upstash).is_ok_and(|body| body.ends_with(end)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Redis' own protocol, which the gateway carries.
    Resp,
    /// Webdis, an HTTP proxy.
    Webdis,
    /// Upstash's REST API, and proxies that imitate it.
    Upstash,
}

impl Dialect {
    /// Its name in a document.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Resp => "resp",
            Dialect::Webdis => "webdis",
            Dialect::Upstash => "upstash",
        }
    }
}

/// A call to make: a `POST`. [`Protocol`](diana_limiter::global::Protocol) adds the pseudo-headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCall<'r> {
    /// The path.
    pub path: &'static str,
    /// The headers.
    pub headers: &'r [(String, String)],
    /// The body.
    pub body: Vec<u8>,
}

/// A Redis, or a proxy in front of it.
///
/// ```
/// use diana_global_redis::{Dialect, Redis};
///
/// let token = vec![("authorization".into(), "Bearer secret".into())];
/// let redis = Redis::new(Dialect::Upstash, "diana".into(), token);
/// let call = redis.call("redis", &[], false, Redis::number(0));
/// let names: Vec<&str> = call.headers.iter().map(|(name, _)| name.as_str()).collect();
/// assert_eq!((call.path, names), ("/", vec!["authorization", "content-type"]));
/// ```
#[derive(Clone, Debug)]
pub struct Redis {
    dialect: Dialect,
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

/// The most commands in one call. Each command carries its own number, so that the worker also
/// notices a proxy that mixes up the replies within a pipeline.
const MAX_COMMANDS: usize = 4;

impl Redis {
    /// A Redis whose keys begin with `prefix`. Each call carries `headers`, which must not contain
    /// `content-type`.
    #[must_use]
    pub fn new(dialect: Dialect, prefix: String, mut headers: Vec<(String, String)>) -> Redis {
        if dialect == Dialect::Upstash {
            headers.push(("content-type".into(), "application/json".into()));
        }
        Redis { dialect, prefix, headers, login: None, is_sharded: false }
    }

    /// Logs in with each call. Only [`Dialect::Resp`] does.
    ///
    /// ```
    /// use diana_global_redis::{Dialect, Login, Redis};
    ///
    /// let login = Login { user: None, password: "secret".into() };
    /// let redis = Redis::new(Dialect::Resp, "diana".into(), Vec::new()).with_login(login);
    /// let call = redis.call("redis", &[], false, Redis::number(0));
    /// assert!(call.body.starts_with(b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*5\r\n$7\r\nEVALSHA\r\n"));
    /// ```
    #[must_use]
    pub fn with_login(mut self, login: Login) -> Redis {
        self.login = Some(login).filter(|_| self.dialect == Dialect::Resp);
        self
    }

    /// One of several that divide the counts. With [`Dialect::Resp`] the keys in each of them get a
    /// hash tag of their own, so that a Redis Cluster holds them in several slots. No other dialect
    /// reaches a Redis Cluster.
    ///
    /// ```
    /// use diana_global_redis::{Dialect, Redis};
    ///
    /// let redis = Redis::new(Dialect::Resp, "diana".into(), Vec::new());
    /// let has = |redis: &Redis, key: &[u8]| {
    ///     let body = redis.call("redis.a", &[], false, 8).body;
    ///     body.windows(key.len()).any(|part| part == key)
    /// };
    /// assert!(has(&redis, b"diana:{0}:probe"));
    /// assert!(has(&redis.sharded(), b"diana:{redis_a}:probe"));
    /// ```
    #[must_use]
    pub fn sharded(mut self) -> Redis {
        self.is_sharded = self.dialect == Dialect::Resp;
        self
    }

    /// The most queries in one call.
    ///
    /// ```
    /// use diana_global_redis::{Dialect, Redis};
    ///
    /// let redis = |dialect| Redis::new(dialect, "diana".into(), Vec::new());
    /// assert_eq!(redis(Dialect::Webdis).max_queries(), 64);
    /// assert_eq!(redis(Dialect::Upstash).max_queries(), 256, "a pipeline of four commands");
    /// ```
    #[must_use]
    pub fn max_queries(&self) -> usize {
        match self.dialect {
            Dialect::Webdis => MAX_QUERIES,
            Dialect::Resp | Dialect::Upstash => MAX_QUERIES.saturating_mul(MAX_COMMANDS),
        }
    }

    /// The call to `cluster` for at most [`Redis::max_queries`] queries. The script goes by its
    /// hash, or, if `with_script`, by its text, which the global store then keeps. A call without
    /// queries is a probe. The reply must repeat `number`, which [`Redis::number`] makes of a
    /// random number.
    ///
    /// ```
    /// use diana_global_redis::{Dialect, Redis, script};
    ///
    /// let redis = Redis::new(Dialect::Upstash, "diana".into(), Vec::new());
    /// let body = |with_script| redis.call("redis", &[], with_script, 8).body;
    /// assert!(body(true).starts_with(br#"["EVAL","local "#));
    /// assert!(body(false).starts_with(br#"["EVALSHA",""#));
    /// assert_eq!(body(false)[12..52], *script::SHA1.as_bytes());
    /// ```
    #[must_use]
    pub fn call(
        &self,
        cluster: &str,
        queries: &[&GlobalQuery],
        with_script: bool,
        number: u64,
    ) -> HttpCall<'_> {
        let start = self.start_of_keys(cluster);
        let commands: Vec<_> = (self.commands(queries).into_iter().zip(number..).enumerate())
            // One text is enough for all commands of a call.
            .map(|(at, (queries, number))| self.command(&start, queries, with_script && at == 0, number))
            .collect();
        let (mut body, mut text) = (Vec::new(), String::new());
        match self.dialect {
            Dialect::Resp => {
                if let Some(login) = &self.login {
                    resp::log_in(&mut body, login);
                }
                for parts in &commands {
                    diana_resp::begin(&mut body, parts.len());
                    parts.iter().for_each(|part| diana_resp::part(&mut body, part));
                }
            }
            Dialect::Webdis => commands.iter().for_each(|parts| webdis::command(&mut text, parts)),
            Dialect::Upstash => upstash::commands(&mut text, &commands),
        }
        let is_pipeline = self.dialect == Dialect::Upstash && commands.len() > 1;
        let path = if is_pipeline { "/pipeline" } else { "/" };
        let body = if self.dialect == Dialect::Resp { body } else { text.into_bytes() };
        HttpCall { path, headers: &self.headers, body }
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

    /// The queries of each command; at least one command.
    fn commands<'q>(&self, queries: &'q [&'q GlobalQuery]) -> Vec<&'q [&'q GlobalQuery]> {
        match self.dialect {
            Dialect::Resp | Dialect::Upstash if queries.len() > MAX_QUERIES => {
                queries.chunks(MAX_QUERIES).collect()
            }
            _ => vec![queries],
        }
    }

    /// The parts of a command whose keys begin with `start`.
    fn command<'c>(
        &'c self,
        start: &str,
        queries: &[&GlobalQuery],
        with_script: bool,
        number: u64,
    ) -> Vec<Cow<'c, str>> {
        let (name, script) = if with_script { ("EVAL", script::SCRIPT) } else { ("EVALSHA", script::SHA1) };
        let mut keys: Vec<Cow<str>> = Vec::new();
        queries
            .iter()
            .for_each(|query| command::keys(query, &mut |key| keys.push(self::key(start, key).into())));
        if queries.is_empty() {
            keys.push([start, PROBE].concat().into());
        }
        let mut parts = vec![name.into(), script.into(), format::decimal(keys.len() as u64).into()];
        parts.append(&mut keys);
        parts.push(format::decimal(number).into());
        for query in queries {
            let mut command = String::new();
            command::write(&mut command, query);
            parts.push(command.into());
        }
        parts
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
    /// use diana_global_redis::{Dialect, Redis};
    /// use diana_limiter::global::CallError;
    ///
    /// let redis = Redis::new(Dialect::Webdis, "diana".into(), Vec::new());
    /// // A probe has no queries, so its reply has only the number.
    /// assert_eq!(redis.read_reply(&[], 8, 200, br#"{"EVALSHA":[8]}"#), Ok(Vec::new()));
    /// assert_eq!(redis.read_reply(&[], 8, 200, br#"{"EVALSHA":[12]}"#), Err(CallError::Stray));
    /// assert_eq!(redis.read_reply(&[], 8, 503, b""), Err(CallError::Status(503)));
    /// ```
    pub fn read_reply(
        &self,
        queries: &[&GlobalQuery],
        number: u64,
        status: u32,
        body: &[u8],
    ) -> Result<Replies, CallError> {
        let commands = self.commands(queries);
        let read: Vec<Result<Numbers, CallError>> = match self.dialect {
            Dialect::Resp => resp::replies(status, body, commands.len(), self.login.is_some())?,
            Dialect::Webdis | Dialect::Upstash if hung_up(status, body) => {
                return Err(CallError::HungUp);
            }
            Dialect::Webdis | Dialect::Upstash => {
                // The status of a reply that is too long may still name the error.
                let body = if body.len() > MAX_REPLY_BYTES { None } else { parse_json(body) };
                let reply = |at| match self.dialect {
                    Dialect::Webdis => webdis::reply(status, body.as_ref()),
                    _ => upstash::reply(at, commands.len(), status, body.as_ref()),
                };
                (0..commands.len()).map(reply).collect()
            }
        };
        let mut replies = Vec::with_capacity(queries.len());
        let (mut first_error, mut any_replied) = (None, false);
        for ((reply, queries), number) in read.into_iter().zip(&commands).zip(number..) {
            let before = replies.len();
            let decode = |numbers: Numbers| answer::decode(queries, number, &numbers, &mut replies);
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

/// Whether this is Envoy's answer in place of a server that hung up. Redis closes a connection
/// whose first word is `POST`, without a reply.
fn hung_up(status: u32, body: &[u8]) -> bool {
    status == 503 && body.ends_with(b"reset reason: connection termination")
}

fn key(start: &str, key: &CountKey) -> String {
    let mut name = String::with_capacity(start.len().saturating_add(32));
    name.push_str(start);
    key.iter().for_each(|byte| format::hex(&mut name, *byte));
    name
}

#[cfg(test)]
mod tests;
