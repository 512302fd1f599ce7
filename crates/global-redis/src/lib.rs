//! Redis behind an HTTP proxy. One Lua script decides all queries of a call, one after the other,
//! each atomically.
//!
//! ```text
//!   queries ─ command ─► arguments ─ webdis, upstash ─► a body
//!   a body ─ webdis, upstash ─► numbers ─ answer ─► RuleReply
//! ```
//!
//! All keys lie in one slot of a Redis Cluster: `PREFIX:{0}:<32 hexadecimal digits>`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::arithmetic_side_effects
    )
)]

mod answer;
mod command;
mod protocol;
pub mod script;
mod upstash;
mod webdis;

use diana_base::format;
use diana_document::parse_json;
use diana_limiter::global::{CallError, MAX_REPLY_BYTES, Replies};
use diana_limiter::policy::{CountKey, GlobalQuery};

/// The interface of the HTTP proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Webdis.
    Webdis,
    /// Upstash's REST API, and proxies that imitate it.
    Upstash,
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

/// A Redis behind an HTTP proxy.
#[derive(Clone, Debug)]
pub struct Redis {
    dialect: Dialect,
    prefix: String,
    headers: Vec<(String, String)>,
}

/// The most queries in one command, because a running script blocks all others.
const MAX_QUERIES: usize = 64;

/// The end of the key that a probe writes for a second. A store that cannot be written to must fail
/// its probe; otherwise it would be queried again and charge nothing.
const PROBE: &str = ":{0}:probe";

/// The most commands in one call. Each command carries its own number, so that the worker also
/// notices a proxy that mixes up the replies within a pipeline.
const MAX_COMMANDS: usize = 4;

impl Redis {
    /// A Redis whose keys begin with `prefix`. Each call carries `headers`, which must not contain
    /// `content-type`.
    pub fn new(dialect: Dialect, prefix: String, mut headers: Vec<(String, String)>) -> Redis {
        if dialect == Dialect::Upstash {
            headers.push(("content-type".into(), "application/json".into()));
        }
        Redis { dialect, prefix, headers }
    }

    /// The most queries in one call.
    pub fn max_queries(&self) -> usize {
        match self.dialect {
            Dialect::Webdis => MAX_QUERIES,
            Dialect::Upstash => MAX_QUERIES.saturating_mul(MAX_COMMANDS),
        }
    }

    /// The call for at most [`Redis::max_queries`] queries. The script goes by its hash, or, if
    /// `with_script`, by its text, which the store then keeps. A call without queries is a probe.
    /// The reply must repeat `number`, which [`Redis::number`] makes of a random number.
    pub fn call(&self, queries: &[&GlobalQuery], with_script: bool, number: u64) -> HttpCall<'_> {
        let mut body = String::new();
        let commands = self.commands(queries);
        let is_pipeline = commands.len() > 1;
        for (at, (queries, number)) in commands.into_iter().zip(number..).enumerate() {
            if is_pipeline {
                body.push(if at == 0 { '[' } else { ',' });
            }
            // One text is enough for all commands of a call.
            self.command(&mut body, queries, with_script && at == 0, number);
        }
        if is_pipeline {
            body.push(']');
        }
        let path = if is_pipeline { "/pipeline" } else { "/" };
        HttpCall { path, headers: &self.headers, body: body.into_bytes() }
    }

    /// The number that a call carries. It is below 2⁵³, because the script counts in doubles, and
    /// leaves room for one number for each command.
    pub fn number(random: u64) -> u64 {
        (random >> 11) & !(MAX_COMMANDS.next_power_of_two() as u64).saturating_sub(1)
    }

    /// The queries of each command; at least one command.
    fn commands<'q>(&self, queries: &'q [&'q GlobalQuery]) -> Vec<&'q [&'q GlobalQuery]> {
        match self.dialect {
            Dialect::Upstash if queries.len() > MAX_QUERIES => queries.chunks(MAX_QUERIES).collect(),
            _ => vec![queries],
        }
    }

    fn command(&self, body: &mut String, queries: &[&GlobalQuery], with_script: bool, number: u64) {
        let is_list = self.dialect == Dialect::Upstash;
        if is_list {
            body.push('[');
        }
        let (name, script) = if with_script { ("EVAL", script::SCRIPT) } else { ("EVALSHA", script::SHA1) };
        let mut count = 0u64;
        queries.iter().for_each(|query| command::keys(query, &mut |_| count = count.saturating_add(1)));
        self.part(body, name, true);
        self.part(body, script, false);
        self.part(body, &format::alone(count.max(1)), false);
        if queries.is_empty() {
            self.part(body, &[&*self.prefix, PROBE].concat(), false);
        }
        for query in queries {
            command::keys(query, &mut |key| self.part(body, &self.key(key), false));
        }
        self.part(body, &format::alone(number), false);
        for query in queries {
            let mut command = String::new();
            command::write(&mut command, query);
            self.part(body, &command, false);
        }
        if is_list {
            body.push(']');
        }
    }

    fn part(&self, body: &mut String, text: &str, is_first: bool) {
        match self.dialect {
            Dialect::Webdis => webdis::part(body, text, is_first),
            Dialect::Upstash => upstash::part(body, text, is_first),
        }
    }

    fn key(&self, key: &CountKey) -> String {
        let mut name = String::with_capacity(self.prefix.len().saturating_add(40));
        name.push_str(&self.prefix);
        name.push_str(":{0}:");
        key.iter().for_each(|byte| format::hex(&mut name, *byte));
        name
    }

    /// Decodes the reply to each query of the call with this `number`. The replies to queries other
    /// than [`GlobalQuery::Decide`] are empty. The whole call fails if no query has a reply, or if
    /// the reply to any command lacks the command's number: then no reply of that call can be
    /// trusted.
    pub fn read_reply(
        &self,
        queries: &[&GlobalQuery],
        number: u64,
        status: u32,
        body: &[u8],
    ) -> Result<Replies, CallError> {
        let commands = self.commands(queries);
        // The status of a reply that is too long may still name the error.
        let body = if body.len() > MAX_REPLY_BYTES { None } else { parse_json(body) };
        let mut replies = Vec::with_capacity(queries.len());
        let (mut first_error, mut any_replied) = (None, false);
        for (at, (queries, number)) in commands.iter().zip(number..).enumerate() {
            let reply = match self.dialect {
                Dialect::Webdis => webdis::reply(status, body.as_ref()),
                Dialect::Upstash => upstash::reply(at, commands.len(), status, body.as_ref()),
            };
            let before = replies.len();
            let decode = |reply| answer::decode(queries, number, reply, &mut replies);
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

#[cfg(test)]
mod tests;
