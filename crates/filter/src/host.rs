//! The host of a filter: the calls that the filter makes, over any gateway's interface. They apply
//! to the effective stream, that of the current callback or of [`Host::set_effective_context`]. No
//! call panics, and each failure is a value.

use crate::HostKind;
use crate::metrics::Series;
use diana_base::time::Time;
use diana_config::{Configuration, Secret};
use diana_limiter::cells::store::{Fault, Store};
use diana_limiter::policy::{Enforce, Policy};
use diana_limiter::request::Source;
use diana_response::Refusal;
use std::fmt::Debug;

/// The status of a call that a host does not have.
const UNIMPLEMENTED: u32 = 12;

/// A gateway, as one worker sees it.
pub trait Host: Copy + 'static {
    /// The counts that all workers share.
    type Store: Store;
    /// Reads the parts of a request.
    type Request: Source;
    /// A response in place of the upstream's, ready to be sent now or later.
    type LocalReply: Debug;

    /// Opens the shared counts of the plugin that is configured, and finds out the kind of host.
    fn open(self) -> Result<(Self::Store, HostKind), Fault>;

    /// What this host or this build of the filter cannot do for a configuration, as messages;
    /// empty if it can do all.
    fn refusals(self, kind: HostKind, configuration: &Configuration) -> Vec<String>;

    /// Whether the plugin shares its counts with programs that are not Diana.
    fn shares_with_others(self, kind: HostKind) -> bool;

    /// The host's clock, which may step.
    fn now(self) -> Result<Time, Fault>;

    /// The monotonic clock, if the host has one; its origin is arbitrary.
    fn monotonic(self) -> Option<Time>;

    /// Random bits that clients cannot predict.
    fn random(self) -> u64;

    /// The plugin's configuration of `size` bytes; only while the plugin is configured.
    fn configuration(self, size: usize) -> Vec<u8>;

    /// The secret for the store of the plugin's configuration; only while the plugin is configured.
    fn secret(self) -> Secret {
        Secret::Unsupported
    }

    /// The largest part of their actors for which rules and deny lists may refuse now. Valid only
    /// while a plugin is configured.
    fn max_enforce(self) -> Enforce {
        Enforce::EVERYBODY
    }

    /// The effective stream's request. `ends`: whether the request ends with its headers.
    fn request(self, policy: &Policy, kind: HostKind, ends: bool) -> Self::Request;

    /// The value of a request header, or of the first of its lines; only when the headers come.
    fn request_header(self, name: &[u8]) -> Option<Vec<u8>>;

    /// Sets a request header in place of all its lines.
    fn replace_request_header(self, name: &str, value: &str);

    /// Removes all lines of a request header.
    fn remove_request_header(self, name: &str);

    /// Removes all lines of this name from the request's trailers; only in their callback.
    fn remove_request_trailer(self, name: &str);

    /// Chooses the route of the effective stream again. Some hosts do so after each change of a
    /// request header.
    fn reroute(self) {}

    /// Sets text in the dynamic metadata of the effective stream, if the host has such.
    fn set_metadata(self, namespace: &str, key: &str, value: &str) {
        _ = (namespace, key, value);
    }

    /// The value of a response header whose lines the host joins, as Envoy does with
    /// inline headers.
    fn response_header(self, name: &[u8]) -> Option<Vec<u8>>;

    /// All lines of a response header, joined by commas.
    fn response_lines(self, name: &[u8]) -> Option<Vec<u8>>;

    /// The value of a host attribute of the effective stream, by the steps of its path, while the
    /// stream lives and at its end.
    fn property(self, path: &[Box<str>]) -> Option<Vec<u8>>;

    /// Adds a line to the response's headers.
    fn add_response_header(self, name: &str, value: &str);

    /// Sets a response header and removes all other lines of that name.
    fn replace_response_header(self, name: &str, value: &str);

    /// Up to `size` bytes of the part of the request's body that has just arrived, from `start`;
    /// only in its callback.
    fn request_body(self, start: usize, size: usize) -> Option<Vec<u8>>;

    /// What to look at if no bodies arrive, for the log.
    const MISSING_BODIES: &'static str = "clients are slow";

    /// Up to `size` bytes of the response's body that the host has now, from `start`.
    fn response_body(self, start: usize, size: usize) -> Option<Vec<u8>>;

    /// Sets an attribute of the effective stream for the access log: one of
    /// [`ATTRIBUTES`](crate::access_log::ATTRIBUTES).
    fn set_attribute(self, name: &str, value: &str);

    /// Prepares the response for a refusal.
    fn local_reply(self, kind: HostKind, refusal: Refusal) -> Self::LocalReply;

    /// Sends a response to the client of the effective stream.
    fn send(self, reply: &Self::LocalReply) -> Result<(), Fault>;

    /// Whether the effective stream's response is this reply, in whose place some hosts may send
    /// another one.
    fn is_response(self, reply: &Self::LocalReply) -> bool {
        _ = reply;
        true
    }

    /// Logs that a client got a response with this status in place of a refusal; empty if the
    /// client got none.
    fn log_lost_refusal(self, status: &str) {
        _ = status;
    }

    /// Resumes the held request of the effective stream.
    fn resume_request(self) -> Result<(), Fault>;

    /// Makes calls apply to this context until the callback ends.
    fn set_effective_context(self, id: u32) -> Result<(), Fault>;

    /// For a host that announces no contexts: marks the plugin that is configured, so that
    /// [`marked_plugin`](Host::marked_plugin) finds it. Returns the number of the mark, which is
    /// the same for the first mark of each plugin.
    fn mark_plugin(self, root: u32) -> Result<u32, Fault> {
        _ = root;
        Err(Fault(UNIMPLEMENTED))
    }

    /// The root context of the plugin of the effective stream, by this mark.
    fn marked_plugin(self, mark: u32) -> Option<u32> {
        _ = mark;
        None
    }

    /// The same host without the callbacks for the creation and the end of contexts.
    #[must_use]
    fn without_contexts(self) -> Self {
        self
    }

    /// Sets the plugin's timer to fire every `ms` milliseconds; 0 stops the timer.
    fn set_tick_period(self, ms: u32) -> Result<(), Fault>;

    /// Sends an HTTP request to a cluster and returns the number of the call. `headers` are
    /// [encoded pairs](diana_limiter::request::pairs). The host reports the reply or the timeout to
    /// [`Filter::on_http_call_response`](crate::Filter::on_http_call_response).
    fn http_call(self, cluster: &str, headers: &[u8], body: &[u8], timeout_ms: u32) -> Result<u32, Fault>;

    /// A header of the reply to an HTTP call; only in its callback.
    fn call_header(self, name: &[u8]) -> Option<Vec<u8>>;

    /// The body of the reply to an HTTP call, `size` bytes long; only in its callback. Cut one byte
    /// beyond [`MAX_REPLY_BYTES`](diana_limiter::global::MAX_REPLY_BYTES).
    fn call_body(self, size: usize) -> Vec<u8>;

    /// Defines a metric and returns its id; `None` if the host does not define it. The filter
    /// defines each series once a worker.
    fn define_metric(self, series: &Series) -> Option<u32>;

    /// Takes the fingerprints of the documents in use, by root context, if the host itself shows
    /// them. If not, returns `false`, and each VM adds its own ones to the gauges.
    fn show_documents(self, in_use: &[(u32, u64)]) -> bool {
        _ = in_use;
        false
    }

    /// Sets a gauge, or adds a value to a histogram.
    fn record(self, id: u32, value: u64);

    /// Whether [`Host::increment`] costs so little that no worker has to collect counts for it.
    const INCREMENTS_CHEAPLY: bool = false;

    /// Adds to a counter or a gauge.
    fn increment(self, id: u32, by: i64);

    /// The values of counters and gauges, over all workers. `None` if the host does not tell them.
    fn read_metrics(self, ids: &[u32]) -> Option<Vec<u64>> {
        _ = ids;
        None
    }

    /// The status of the reply to an HTTP call, 0 if there is no reply; only in its callback.
    fn call_status(self) -> u32 {
        self.call_header(b":status")
            .and_then(|status| str::from_utf8(&status).ok()?.parse().ok())
            .unwrap_or(0)
    }
}
