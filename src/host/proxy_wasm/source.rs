//! A plugin's local configuration, and the remote documents that are laid over it. The plugin's
//! timer drives it.

use super::announce::plural;
use super::callbacks::Callbacks;
use super::calls;
use super::candidate::Candidate;
use super::metrics::Ids;
use super::plugin::{MAX_LOGGED, Plugin, mistakes};
use diana_base::exclusive::Exclusive;
use diana_base::format;
use diana_base::time::Time;
use diana_document::Error;
use diana_limiter::policy::{CandidateOptions as How, Sample};
use diana_limiter::session::Worker;
use diana_limiter::store::Fault;
use diana_limiter::table::Hasher;
use diana_remote_config::{
    CanaryStats, CanaryVerdict, FetchError, Follower, MAX_REPLY_BYTES, PollResult, RemoteOptions,
    ServerReply, Snapshot, Task, Validators,
};
use log::{Level, log};
use std::cell::Cell;
use std::rc::Rc;

/// The local configuration of a plugin, and the source of its documents.
pub(super) struct Source {
    local: Vec<u8>,
    callbacks: Callbacks,
    options: RemoteOptions,
    /// Whether the host has a monotonic clock.
    is_monotonic: bool,
    follower: Exclusive<Follower>,
    /// The generation of the document for which the last build failed; 0: none.
    failed_generation: Cell<u64>,
}

/// The result of a poll, for the counters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Poll {
    Fresh,
    Unchanged,
    Refused,
    Failed,
}

impl Source {
    pub(super) fn new(local: Vec<u8>, options: RemoteOptions, callbacks: Callbacks) -> Source {
        let follower = Follower::new(options.clone(), calls::random()).over(Hasher::name(&local));
        let is_monotonic = calls::monotonic().is_some();
        let follower = Exclusive::new(follower);
        Source { local, callbacks, options, is_monotonic, follower, failed_generation: Cell::new(0) }
    }

    /// The time by the clock that all workers use. `None` while that clock cannot be read, because
    /// another clock has another origin.
    fn now(&self, plugin: &Plugin) -> Option<Time> {
        calls::monotonic().or_else(|| (!self.is_monotonic).then(|| plugin.now()))
    }

    /// Whether both follow the same document server.
    pub(super) fn is_same_source(&self, other: &Source) -> bool {
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

    /// Follows the shared head. Returns a plugin that replaces `plugin` if another document becomes
    /// active.
    pub(super) fn follow(self: &Rc<Source>, plugin: &Plugin, ids: &Rc<Ids>) -> Option<Plugin> {
        let now = self.now(plugin)?;
        match self.follower.with(|follower| follower.follow(&plugin.store, now)).flatten()? {
            Task::Activate(snapshot) => {
                let Snapshot { generation, document } = snapshot;
                match self.compile_over(&document, None) {
                    Ok(configuration) => {
                        // A failed host call says nothing about the document, so the next run tries
                        // again.
                        let build = self.build(configuration, plugin, ids);
                        let logged =
                            self.failed_generation.replace(if build.is_err() { generation } else { 0 });
                        if let Err(why) = build.as_ref().map(drop)
                            && logged != generation
                        {
                            self.log(Level::Warn, " cannot be taken yet: ", why);
                        }
                        let next = build.ok()?;
                        self.follower.with(|follower| follower.set_active(generation));
                        Some(next)
                    }
                    Err(why) => {
                        let is_news = self.follower.with(|follower| follower.mark_invalid(generation));
                        if is_news == Some(true) {
                            self.log(Level::Warn, " refused: ", &why);
                        }
                        None
                    }
                }
            }
            Task::Compare { document, is_previous, logs } => {
                let candidate = match self.candidate(&document, plugin, is_previous) {
                    Ok(candidate) => Some(Rc::new(candidate)),
                    Err(why) => {
                        self.follower.with(|follower| follower.mark_candidate_invalid());
                        if logs {
                            self.log(Level::Warn, " cannot be tried: ", &why);
                        }
                        None
                    }
                };
                plugin.candidate.with(|slot| *slot = candidate);
                None
            }
            Task::StopComparing => {
                plugin.candidate.with(|slot| *slot = None);
                None
            }
            Task::Local { logs } => {
                let local = diana_config::compile(&self.local).map_err(|errors| mistakes(&errors));
                let next = local.and_then(|local| self.build(local, plugin, ids)).ok()?;
                self.follower.with(|follower| follower.set_active(0));
                if logs {
                    self.log(Level::Warn, ": no contact for `max_stale`: the local configuration serves", "");
                }
                Some(next)
            }
        }
    }

    /// Builds the candidate beside the active document. The previous document decides about all
    /// requests, because its successor is active for all of them.
    fn candidate(&self, document: &[u8], plugin: &Plugin, is_previous: bool) -> Result<Candidate, String> {
        let sample = self.options.canary.filter(|_| !is_previous).map_or(Sample(100), |canary| canary.sample);
        let name = self.follower.with(|follower| follower.comparison_id()).unwrap_or(0);
        let active_meanings = plugin.configuration.policy.meanings();
        let configuration = self.compile_over(document, Some(How { sample, name, active_meanings }))?;
        let before = match is_previous {
            false => plugin.worker.with(|worker| worker.previous(&plugin.configuration.policy)),
            true => {
                let policy = self.compile_over(document, None)?.policy;
                Some(Worker::new(&policy, &plugin.seed).previous(&policy))
            }
        };
        Ok(Candidate::new(configuration, plugin, before, is_previous))
    }

    /// Shares the counts of compared requests with the other workers, and logs the verdict that
    /// follows for the document under canary or watch.
    pub(super) fn judge_canary(&self, plugin: &Plugin) {
        let Some(now) = self.now(plugin) else {
            return;
        };
        let counts = plugin
            .candidate
            .with(|candidate| candidate.as_ref().map(|candidate| candidate.take_counts()))
            .flatten();
        let counts = counts.unwrap_or_default();
        let judge_canary = |follower: &mut Follower| follower.judge_canary(&plugin.store, now, &counts);
        let Some(verdict) = self.follower.with(judge_canary).flatten() else {
            return;
        };
        plugin.metrics.canary_verdict(&verdict);
        let (level, what, CanaryStats { seen, refused }) = match verdict {
            CanaryVerdict::Promoted(stats) => (Level::Info, " promoted: it would newly refuse ", stats),
            CanaryVerdict::Rejected(stats) => (Level::Warn, " not promoted: it would newly refuse ", stats),
            CanaryVerdict::RolledBack(stats) => (Level::Warn, " rolled back: it newly refused ", stats),
            CanaryVerdict::Kept(stats) => (Level::Info, " stays: it newly refused ", stats),
            // The mistakes of the document are already in the log.
            CanaryVerdict::Invalid => return,
        };
        let (refused, seen) = (format::alone(refused), format::alone(seen));
        self.log(level, what, &[&refused, " of ", &seen, " requests"].concat());
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

    /// Compiles the local configuration with a document laid over it, or returns the mistakes.
    fn compile_over(
        &self,
        document: &[u8],
        candidate: Option<How>,
    ) -> Result<diana_config::Configuration, String> {
        let configuration = diana_config::compile_over(&self.local, document, candidate)
            .map_err(|errors| mistakes(&errors))?;
        self.callbacks.suffice(&configuration.response)?;
        Ok(configuration)
    }

    fn build(
        self: &Rc<Source>,
        configuration: diana_config::Configuration,
        before: &Plugin,
        ids: &Rc<Ids>,
    ) -> Result<Plugin, String> {
        let mut plugin = Plugin::build(configuration, Some(before), ids, self.callbacks)?;
        plugin.source = Some(Rc::clone(self));
        Ok(plugin)
    }

    /// Polls the server if it is this worker's turn. Returns the number of the call.
    pub(super) fn poll(&self, plugin: &Plugin, is_outdated: bool) -> Option<Result<u32, FetchError>> {
        let now = self.now(plugin)?;
        if self.follower.with(|follower| follower.is_overdue(now)) == Some(true) {
            return Some(Err(FetchError::None));
        }
        let headers =
            self.follower.with(|follower| follower.claim_poll(&plugin.store, now, is_outdated)).flatten()?;
        let RemoteOptions { cluster, timeout, body, .. } = &self.options;
        let body = body.as_deref().unwrap_or_default().as_bytes();
        let timeout_ms = u32::try_from(timeout.as_ns() / 1_000_000).unwrap_or(u32::MAX);
        Some(calls::http_call(cluster, &headers, body, timeout_ms).map_err(|Fault(_)| FetchError::NotMade))
    }

    /// Reads the reply to a poll; available only in its callback.
    pub(super) fn read_reply(&self, size: usize) -> (Result<ServerReply, FetchError>, Validators) {
        let size = size.min(MAX_REPLY_BYTES + 1);
        let body = calls::call_body(size);
        // If the host hands over only a part of the body, the reply counts as failed, not as a bad
        // document.
        let status = if body.len() == size { calls::call_status() } else { 0 };
        let [etag, modified, date] = [&b"etag"[..], b"last-modified", b"date"].map(calls::call_header);
        let validators = Validators::of(etag, modified, date);
        (self.options.read(status, &body), validators)
    }

    /// Handles the end of a poll, with or without a reply.
    pub(super) fn poll_done(
        &self,
        plugin: &Plugin,
        reply: Result<ServerReply, FetchError>,
        validators: Validators,
    ) -> Option<Poll> {
        let (now, random) = (self.now(plugin)?, plugin.entropy());
        let (rules, warnings) = (Cell::new(0), Cell::default());
        let accept = |document: &[u8]| {
            let taken = self.compile_over(document, None)?;
            rules.set(taken.policy.rules().count());
            warnings.set(taken.warnings);
            Ok(())
        };
        let poll_done = |follower: &mut Follower| {
            follower.answered(&plugin.store, now, reply, validators, random, accept)
        };
        let result = self.follower.with(poll_done)?;
        Some(match result {
            PollResult::NewDocument(generation) => {
                // A document that limits nothing is probably a mistake.
                let level = if rules.get() == 0 { Level::Warn } else { Level::Info };
                let rules = plural(rules.get(), "rule");
                self.log(level, " taken as number ", &[&format::alone(generation), ", ", &*rules].concat());
                self.log_warnings(&warnings.take());
                Poll::Fresh
            }
            PollResult::Candidate => {
                let rules = plural(rules.get(), "rule");
                self.log(Level::Info, " tried beside the one that serves, ", &rules);
                self.log_warnings(&warnings.take());
                Poll::Fresh
            }
            PollResult::Withdrawn => {
                self.log(Level::Info, " is again as it was before", "");
                Poll::Unchanged
            }
            PollResult::Unchanged(is_news) => {
                if is_news {
                    self.log(Level::Info, " is in contact again", "");
                }
                Poll::Unchanged
            }
            PollResult::Refused(why) => {
                if self.follower.with(|follower| follower.is_back()) == Some(true) {
                    self.log(Level::Info, " is in contact again", "");
                }
                why.iter().for_each(|why| self.log(Level::Warn, " refused: ", why));
                Poll::Refused
            }
            PollResult::Failed(why) => {
                why.iter().for_each(|why| self.log(Level::Warn, " cannot be had: ", &why.words()));
                Poll::Failed
            }
            PollResult::Late => return None,
        })
    }
}
