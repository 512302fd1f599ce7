//! A plugin's local configuration, and the remote documents that are laid over it. The plugin's
//! timer drives the source.

use super::clock::Clock;
use super::metrics::PollLabel;
use super::wording::{MAX_LOGGED, mistakes, plural};
use crate::{Host, HostKind};
use diana_base::exclusive::Exclusive;
use diana_base::format;
use diana_base::time::Time;
use diana_config::{Configuration, Secret, Source};
use diana_document::Error;
use diana_limiter::cells::store::{Fault, Store};
use diana_limiter::cells::table::Hasher;
use diana_limiter::policy::Enforce;
use diana_remote_config::{
    FetchError, Follower, MAX_REPLY_BYTES, PollResult, RemoteOptions, ServerReply, Task, Validators,
};
use log::{Level, log};
use std::cell::Cell;
use std::env;

/// The gateway's own document, with all that the gateway gives to it.
pub(super) fn source<'a>(document: &'a [u8], secret: &'a Secret, max_enforce: Enforce) -> Source<'a> {
    let variable = |name: &str| env::var(name).ok();
    Source::new(document, secret).with_variables(variable).refusing_at_most(max_enforce)
}

/// The local configuration of a plugin, and the source of its documents.
pub(super) struct RemoteSource<H> {
    host: H,
    kind: HostKind,
    local: Vec<u8>,
    secret: Secret,
    max_enforce: Enforce,
    options: RemoteOptions,
    /// Whether the host has a monotonic clock.
    is_monotonic: bool,
    follower: Exclusive<Follower>,
    /// The generation of the document for which the last build failed; 0: none.
    failed_generation: Cell<u64>,
}

impl<H: Host> RemoteSource<H> {
    pub(super) fn new(
        (host, kind): (H, HostKind),
        (local, secret): (Vec<u8>, Secret),
        options: RemoteOptions,
    ) -> RemoteSource<H> {
        let follower = Follower::new(options.clone(), host.random()).over(Hasher::name(&local));
        let is_monotonic = host.monotonic().is_some();
        let follower = Exclusive::new(follower);
        RemoteSource {
            host,
            kind,
            local,
            secret,
            max_enforce: host.max_enforce(),
            options,
            is_monotonic,
            follower,
            failed_generation: Cell::new(0),
        }
    }

    /// The time by the clock that all workers use. `None` while that clock cannot be read, because
    /// another clock has another origin.
    fn now(&self, clock: &Clock<H>) -> Option<Time> {
        self.host.monotonic().or_else(|| (!self.is_monotonic).then(|| clock.now()))
    }

    /// Whether both sources follow the same document server.
    pub(super) fn is_same_source(&self, other: &RemoteSource<H>) -> bool {
        self.options.id() == other.options.id()
    }

    /// When the source has to run next.
    pub(super) fn next_task_at(&self) -> Option<Time> {
        self.follower.with(|follower| follower.next())
    }

    /// The generation of the active document; 0: none.
    pub(super) fn generation(&self) -> u64 {
        self.follower.with(|follower| follower.active_generation()).unwrap_or(0)
    }

    /// Reads the shared head. Returns what this worker has to do to follow it.
    pub(super) fn next_task(&self, store: &impl Store, clock: &Clock<H>) -> Option<Task> {
        let now = self.now(clock)?;
        self.follower.with(|follower| follower.follow(store, now)).flatten()
    }

    /// Records that the document of this generation is active from now on.
    pub(super) fn mark_active(&self, generation: u64) {
        self.failed_generation.set(0);
        self.follower.with(|follower| follower.set_active(generation));
    }

    /// A host call failed while the plugin for this document was built. Such a failure says nothing
    /// about the document, so the next run tries again.
    pub(super) fn mark_unbuilt(&self, generation: u64, why: &str) {
        if self.failed_generation.replace(generation) != generation {
            self.log(Level::Warn, " cannot be taken yet: ", why);
        }
    }

    /// Records that the document of this generation has mistakes, and logs them once.
    pub(super) fn mark_invalid(&self, generation: u64, why: &str) {
        let is_news = self.follower.with(|follower| follower.mark_invalid(generation));
        if is_news == Some(true) {
            self.log(Level::Warn, " refused: ", why);
        }
    }

    /// Records that the local configuration is active from now on; `logs`: this worker logs the
    /// change.
    pub(super) fn mark_local(&self, logs: bool) {
        self.follower.with(|follower| follower.set_active(0));
        if logs {
            self.log(Level::Warn, ": no contact for `max_stale`: the local configuration serves", "");
        }
    }

    fn log(&self, level: Level, what: &str, why: &str) {
        log!(level, "remote configuration of cluster {}{what}{why}", self.options.cluster);
    }

    /// Logs settings that are accepted but probably not meant.
    fn log_warnings(&self, warnings: &[Error]) {
        warnings
            .iter()
            .take(MAX_LOGGED)
            .for_each(|warning| self.log(Level::Warn, ": ", &warning.to_string()));
    }

    fn local(&self) -> Source<'_> {
        source(&self.local, &self.secret, self.max_enforce)
    }

    /// Compiles the local configuration, or returns the mistakes.
    pub(super) fn compile_local(&self) -> Result<Configuration, String> {
        self.local().compile().map_err(|errors| mistakes(&errors))
    }

    /// Compiles a document laid over the local configuration, or returns the mistakes.
    pub(super) fn compile(&self, document: &[u8]) -> Result<Configuration, String> {
        let configuration = self.local().compile_over(document).map_err(|errors| mistakes(&errors))?;
        let refusals = self.host.refusals(self.kind, &configuration);
        if refusals.is_empty() { Ok(configuration) } else { Err(refusals.join("; ")) }
    }

    /// Polls the server if it is this worker's turn. Returns the number of the call.
    pub(super) fn poll(
        &self,
        store: &impl Store,
        clock: &Clock<H>,
        is_outdated: bool,
    ) -> Option<Result<u32, FetchError>> {
        let now = self.now(clock)?;
        if self.follower.with(|follower| follower.is_overdue(now)) == Some(true) {
            return Some(Err(FetchError::None));
        }
        let headers =
            self.follower.with(|follower| follower.claim_poll(store, now, is_outdated)).flatten()?;
        let RemoteOptions { cluster, timeout, body, .. } = &self.options;
        let body = body.as_deref().unwrap_or_default().as_bytes();
        let timeout_ms = u32::try_from(timeout.as_ns() / 1_000_000).unwrap_or(u32::MAX);
        Some(self.host.http_call(cluster, &headers, body, timeout_ms).map_err(|Fault(_)| FetchError::NotMade))
    }

    /// Reads the reply to a poll; available only in its callback.
    pub(super) fn read_reply(&self, size: usize) -> (Result<ServerReply, FetchError>, Validators) {
        let size = size.min(MAX_REPLY_BYTES + 1);
        let body = self.host.call_body(size);
        // If the host hands over only a part of the body, the reply counts as failed, not as a bad
        // document.
        let status = if body.len() == size { self.host.call_status() } else { 0 };
        let [etag, modified, date] =
            [&b"etag"[..], b"last-modified", b"date"].map(|name| self.host.call_header(name));
        let validators = Validators::of(etag, modified, date);
        (self.options.read(status, &body), validators)
    }

    /// Handles the end of a poll, with or without a reply.
    pub(super) fn poll_done(
        &self,
        store: &impl Store,
        clock: &Clock<H>,
        entropy: impl FnOnce() -> u32,
        (reply, validators): (Result<ServerReply, FetchError>, Validators),
    ) -> Option<PollLabel> {
        let (now, random) = (self.now(clock)?, entropy());
        let (rules, warnings) = (Cell::new(0), Cell::default());
        let accept = |document: &[u8]| {
            let taken = self.compile(document)?;
            rules.set(taken.policy.rules().count());
            warnings.set(taken.warnings);
            Ok(())
        };
        let poll_done =
            |follower: &mut Follower| follower.answered(store, now, reply, validators, random, accept);
        let result = self.follower.with(poll_done)?;
        Some(match result {
            PollResult::NewDocument(generation) => {
                // A document that limits nothing is probably a mistake.
                let level = if rules.get() == 0 { Level::Warn } else { Level::Info };
                let rules = plural(rules.get(), "rule");
                self.log(level, " taken as number ", &[&format::decimal(generation), ", ", &*rules].concat());
                self.log_warnings(&warnings.take());
                PollLabel::Fresh
            }
            PollResult::Withdrawn => {
                self.log(Level::Info, " is again as it was before", "");
                PollLabel::Unchanged
            }
            PollResult::Unchanged(is_news) => {
                if is_news {
                    self.log(Level::Info, " is in contact again", "");
                }
                PollLabel::Unchanged
            }
            PollResult::Refused(why) => {
                if self.follower.with(|follower| follower.is_back()) == Some(true) {
                    self.log(Level::Info, " is in contact again", "");
                }
                why.iter().for_each(|why| self.log(Level::Warn, " refused: ", why));
                PollLabel::Refused
            }
            PollResult::Failed(why) => {
                why.iter().for_each(|why| self.log(Level::Warn, " cannot be fetched: ", &why.words()));
                PollLabel::Failed
            }
            PollResult::Late => return None,
        })
    }
}
