//! A plugin's own configuration, and the documents of a server that are laid over it.
//!
//! It does not know: streams, or when it is asked to look.

use super::callbacks::Callbacks;
use super::calls::{self, Level};
use super::exclusive::Exclusive;
use super::gateway::{Gateway, mistakes};
use super::metrics::Ids;
use crate::config;
use crate::remote::source::{Answer, Failure, Follower, Marks, Options, Outcome, Task};
use crate::store::Fault;
use crate::time::Time;
use std::rc::Rc;

/// What a plugin was configured with, and where its documents come from.
pub(super) struct Source {
    local: Vec<u8>,
    callbacks: Callbacks,
    options: Options,
    follower: Exclusive<Follower>,
}

/// What an answer came to, for the counters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Poll {
    Fresh,
    Unchanged,
    Refused,
    Failed,
}

impl Source {
    pub(super) fn new(local: Vec<u8>, options: Options, callbacks: Callbacks) -> Source {
        let follower = Follower::new(options.clone(), calls::random());
        Source { local, callbacks, options, follower: Exclusive::new(follower) }
    }

    /// When it wants to look next.
    pub(super) fn next(&self) -> Option<Time> {
        self.follower.with(|follower| follower.next())
    }

    /// Which document serves; zero: none.
    pub(super) fn serves(&self) -> u64 {
        self.follower.with(|follower| follower.serves()).unwrap_or(0)
    }

    /// Looks what is to serve from now on in place of `gateway`, if anything else is.
    pub(super) fn follow(self: &Rc<Source>, gateway: &Gateway, ids: &Rc<Ids>) -> Option<Gateway> {
        let now = gateway.steady();
        match self.follower.with(|follower| follower.follow(&gateway.store, now)).flatten()? {
            Task::Take(stock) => {
                let next = self.over(&stock.document, gateway, ids);
                self.follower.with(|follower| follower.took(stock.generation, next.is_ok()));
                next.ok()
            }
            Task::Local { tells } => {
                if tells {
                    calls::log(Level::Warn, "no contact for `max_stale`: the local configuration serves");
                }
                let local = config::compile(&self.local).map_err(|errors| mistakes(&errors));
                local.and_then(|local| self.build(local, gateway, ids)).ok()
            }
        }
    }

    /// What serves with a document laid over the plugin's own, or what is wrong with that.
    fn over(self: &Rc<Source>, document: &[u8], gateway: &Gateway, ids: &Rc<Ids>) -> Result<Gateway, String> {
        let configuration =
            config::compile_over(&self.local, document).map_err(|errors| mistakes(&errors))?;
        self.build(configuration, gateway, ids)
    }

    fn build(
        self: &Rc<Source>,
        configuration: config::Configuration,
        before: &Gateway,
        ids: &Rc<Ids>,
    ) -> Result<Gateway, String> {
        let mut gateway = Gateway::build(configuration, Some(before), ids, self.callbacks)?;
        gateway.source = Some(Rc::clone(self));
        Ok(gateway)
    }

    /// Asks the server if it is this worker's turn: the number of the call.
    pub(super) fn ask(&self, gateway: &Gateway) -> Option<Result<u32, Failure>> {
        let now = gateway.steady();
        let headers = self.follower.with(|follower| follower.asks(&gateway.store, now)).flatten()?;
        let Options { cluster, timeout, body, .. } = &self.options;
        let body = body.as_deref().unwrap_or_default().as_bytes();
        let timeout_ms = u32::try_from(timeout.as_ns() / 1_000_000).unwrap_or(u32::MAX);
        Some(calls::http_call(cluster, &headers, body, timeout_ms).map_err(|Fault(_)| Failure::NotMade))
    }

    /// What the answer to a call says, whose callback runs.
    pub(super) fn read(&self, size: usize) -> (Result<Answer, Failure>, Marks) {
        let (status, body) = (calls::call_status(), calls::call_body(size));
        let marks = Marks::of(calls::call_header(b"etag"), calls::call_header(b"last-modified"));
        (self.options.read(status, &body), marks)
    }

    /// The server has answered, or has not.
    pub(super) fn answered(
        self: &Rc<Source>,
        gateway: &Gateway,
        ids: &Rc<Ids>,
        answer: Result<Answer, Failure>,
        marks: Marks,
    ) -> Option<Poll> {
        let (now, random) = (gateway.steady(), gateway.entropy());
        let takes = |document: &[u8]| self.over(document, gateway, ids).map(drop);
        let answered =
            |follower: &mut Follower| follower.answered(&gateway.store, now, answer, marks, random, takes);
        let outcome = self.follower.with(answered)?;
        let tell = |level, what: &str, why: &str| {
            calls::log(
                level,
                &["remote configuration of cluster ", &self.options.cluster, what, why].concat(),
            );
        };
        Some(match outcome {
            Outcome::Fresh => {
                tell(Level::Info, " taken", "");
                Poll::Fresh
            }
            Outcome::Unchanged(is_news) => {
                if is_news {
                    tell(Level::Info, " is in contact again", "");
                }
                Poll::Unchanged
            }
            Outcome::Refused(why) => {
                why.iter().for_each(|why| tell(Level::Warn, " refused: ", why));
                Poll::Refused
            }
            Outcome::Failed(why) => {
                why.iter().for_each(|why| tell(Level::Warn, " cannot be had: ", &why.words()));
                Poll::Failed
            }
            Outcome::Late => return None,
        })
    }
}
