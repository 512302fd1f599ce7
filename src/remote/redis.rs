//! Redis over an HTTP front: one script decides all questions of a call, one after the other, each whole.
//!
//! It does not know: what the script does, to which cluster a call goes, or how long an answer may take.
//!
//! ```text
//!   questions ─ command ─► texts ─ webdis, upstash ─► a body            all keys lie in one slot of a Redis Cluster:
//!   a body ─ webdis, upstash ─► numbers ─ answer ─► Told of each rule   PREFIX:{0}:<32 hexadecimal digits>
//! ```

mod answer;
mod command;
pub mod script;
mod upstash;
mod webdis;

use super::{CallError, MOST_BYTES};
use crate::document::parse_json;
use crate::format;
use crate::policy::{CountKey, GlobalQuery, RuleReply};

/// What an HTTP front speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Webdis.
    Webdis,
    /// Upstash's REST API, and what imitates it.
    Upstash,
}

/// A call to make: a `POST`, whose pseudo-headers are [`super::Protocol`]'s to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCall<'r> {
    /// Its path.
    pub path: &'static str,
    /// Its headers.
    pub headers: &'r [(String, String)],
    /// Its body.
    pub body: Vec<u8>,
}

/// What each question was told, in order, or why it was not.
pub type Replies = Vec<Result<Vec<RuleReply>, CallError>>;

/// A Redis behind an HTTP front.
#[derive(Clone, Debug)]
pub struct Redis {
    dialect: Dialect,
    prefix: String,
    headers: Vec<(String, String)>,
}

/// The most questions in one command: a script that runs holds up everybody else's.
const MOST: usize = 64;

/// The end of the key that a probe writes, for a second: a store that cannot be written to would be found in order, and
/// asked again, by one that charges nothing.
const PROBE: &str = ":{0}:probe";

/// The most commands in one call. Each command carries a number of its own, so that the worker also notices a front that
/// mixes up the replies within a pipeline.
const MOST_COMMANDS: usize = 4;

impl Redis {
    /// One that is spoken to in this dialect, whose keys begin with `prefix`, and to whom each call brings these headers:
    /// the content's type is not among them.
    pub fn new(dialect: Dialect, prefix: String, mut headers: Vec<(String, String)>) -> Redis {
        if dialect == Dialect::Upstash {
            headers.push(("content-type".into(), "application/json".into()));
        }
        Redis { dialect, prefix, headers }
    }

    /// The most questions in one call.
    pub fn most(&self) -> usize {
        match self.dialect {
            Dialect::Webdis => MOST,
            Dialect::Upstash => MOST.saturating_mul(MOST_COMMANDS),
        }
    }

    /// The call that asks all of these, at most [`Redis::most`]: by the script's hash, or `whole` with its text, which the
    /// store then keeps. No questions is a call that asks whether the store works. The reply has to bring `number`, which
    /// [`Redis::number`] makes of a random one.
    pub fn call(&self, questions: &[&GlobalQuery], whole: bool, number: u64) -> HttpCall<'_> {
        let mut body = String::new();
        let commands = self.commands(questions);
        let is_pipeline = commands.len() > 1;
        for (at, (questions, number)) in commands.into_iter().zip(number..).enumerate() {
            if is_pipeline {
                body.push(if at == 0 { '[' } else { ',' });
            }
            // The first one brings it for all.
            self.command(&mut body, questions, whole && at == 0, number);
        }
        if is_pipeline {
            body.push(']');
        }
        let path = if is_pipeline { "/pipeline" } else { "/" };
        HttpCall { path, headers: &self.headers, body: body.into_bytes() }
    }

    /// The number that a call carries: below 2⁵³, because the script counts in doubles, with room for one number a command.
    pub fn number(random: u64) -> u64 {
        (random >> 11) & !(MOST_COMMANDS.next_power_of_two() as u64).saturating_sub(1)
    }

    /// The questions of each command: at least one.
    fn commands<'q>(&self, questions: &'q [&'q GlobalQuery]) -> Vec<&'q [&'q GlobalQuery]> {
        match self.dialect {
            Dialect::Upstash if questions.len() > MOST => questions.chunks(MOST).collect(),
            _ => vec![questions],
        }
    }

    fn command(&self, body: &mut String, questions: &[&GlobalQuery], whole: bool, number: u64) {
        let is_list = self.dialect == Dialect::Upstash;
        if is_list {
            body.push('[');
        }
        let (name, script) = if whole { ("EVAL", script::SCRIPT) } else { ("EVALSHA", script::SHA1) };
        let mut count = 0u64;
        questions
            .iter()
            .for_each(|question| command::keys(question, &mut |_| count = count.saturating_add(1)));
        self.part(body, name, true);
        self.part(body, script, false);
        self.part(body, &format::alone(count.max(1)), false);
        if questions.is_empty() {
            self.part(body, &[&*self.prefix, PROBE].concat(), false);
        }
        for question in questions {
            command::keys(question, &mut |key| self.part(body, &self.key(key), false));
        }
        self.part(body, &format::alone(number), false);
        for question in questions {
            let mut command = String::new();
            command::write(&mut command, question);
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

    /// What each question was told; nothing for those that are no [`Question::Decide`]. A failure of the whole is one where
    /// no question has an answer, or where any command's reply lacks the number that the command carried: then no reply of
    /// that call can be trusted. `number` is the one that the call was made with.
    pub fn answer(
        &self,
        questions: &[&GlobalQuery],
        number: u64,
        status: u32,
        body: &[u8],
    ) -> Result<Replies, CallError> {
        let commands = self.commands(questions);
        // A status alone tells as well.
        let body = if body.len() > MOST_BYTES { None } else { parse_json(body) };
        let mut answers = Vec::with_capacity(questions.len());
        let (mut first_failure, mut is_told) = (None, false);
        for (at, (asked, number)) in commands.iter().zip(number..).enumerate() {
            let reply = match self.dialect {
                Dialect::Webdis => webdis::reply(status, body.as_ref()),
                Dialect::Upstash => upstash::reply(at, commands.len(), status, body.as_ref()),
            };
            let before = answers.len();
            let told = |reply| answer::told(asked, number, reply, &mut answers);
            match reply.and_then(told) {
                Ok(()) => is_told = true,
                Err(CallError::Stray) => return Err(CallError::Stray),
                Err(failure) => {
                    answers.truncate(before);
                    answers.resize_with(before.saturating_add(asked.len()), || Err(failure.clone()));
                    first_failure = first_failure.or(Some(failure));
                }
            }
        }
        match first_failure {
            Some(failure) if !is_told => Err(failure),
            _ => Ok(answers),
        }
    }
}

#[cfg(test)]
mod tests;
