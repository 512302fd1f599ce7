//! A proxy-wasm host, as the filter sees it: each method is one host call. Source: the proxy-wasm
//! ABI, version 0.2.1.

pub(crate) mod nginx;

use super::abi::{self, *};
use super::callbacks::exported;
use super::calls::{
    self, CALL_HEADERS, NOT_FOUND, OK, REQUEST_HEADERS, REQUEST_TRAILERS, RESPONSE_HEADERS, check,
};
use super::local_reply::LocalReply;
use super::parts::HostRequest;
use super::shared_data::HostData;
use diana_base::format;
use diana_base::time::Time;
use diana_config::Configuration;
use diana_filter::metrics::Series;
use diana_filter::{Exports, Host, HostKind};
use diana_limiter::cells::store::{Fault, SharedDataStore};
use diana_limiter::global::MAX_REPLY_BYTES;
use diana_limiter::policy::Policy;
use diana_limiter::request::HeaderLines;
use diana_limiter::request::pairs::Pairs;
use diana_response::Refusal;

const REQUEST_BODY: u32 = 0;
const RESPONSE_BODY: u32 = 1;
const CALL_BODY: u32 = 4;
const PLUGIN_CONFIGURATION: u32 = 7;
const REQUEST: u32 = 0;

/// WASI's monotonic clock.
const MONOTONIC: u32 = 1;

/// An empty header map, in the format of [`pairs`](diana_limiter::request::pairs).
const NO_PAIRS: [u8; 4] = [0; 4];

/// A host of the proxy-wasm ABI.
#[derive(Clone, Copy, Debug)]
pub struct ProxyWasm {
    callbacks: Exports,
}

/// The host of this module, which makes the callbacks that the module exports.
impl Default for ProxyWasm {
    fn default() -> ProxyWasm {
        ProxyWasm { callbacks: exported() }
    }
}

impl ProxyWasm {
    /// A host that makes only these callbacks.
    #[must_use]
    pub fn with(callbacks: Exports) -> ProxyWasm {
        #[cfg(not(target_arch = "wasm32"))]
        super::logger::install();
        ProxyWasm { callbacks }
    }
}

impl Host for ProxyWasm {
    type Store = SharedDataStore<HostData>;
    type Request = HostRequest;
    type LocalReply = LocalReply;

    fn open(self) -> Result<(SharedDataStore<HostData>, HostKind), Fault> {
        let store = SharedDataStore::probe(HostData)?;
        let kind = HostKind::of(store.rules());
        Ok((store, kind))
    }

    fn refusals(self, kind: HostKind, configuration: &Configuration) -> Vec<String> {
        let lacks = self.callbacks.suffice(configuration).and_then(|()| match kind {
            HostKind::Full => Ok(()),
            HostKind::Restricted => nginx::suffice(self.callbacks),
        });
        let marks = marks_refusal(configuration).filter(|_| kind == HostKind::Full);
        let refusals = kind.refusals(configuration, nginx::NAME);
        lacks.err().into_iter().chain(marks.map(str::to_owned)).chain(refusals).collect()
    }

    /// An empty `vm_id` is everybody's. A restricted host has no such identifier, and may crash if
    /// it is read while a plugin is configured.
    fn shares_with_others(self, kind: HostKind) -> bool {
        kind == HostKind::Full && calls::property(b"plugin_vm_id").is_none_or(|id| id.is_empty())
    }

    fn now(self) -> Result<Time, Fault> {
        let mut ns = 0;
        // SAFETY: the host writes eight bytes.
        check(unsafe { proxy_get_current_time_nanoseconds(&mut ns) }).map(|()| Time::from_ns(ns))
    }

    fn monotonic(self) -> Option<Time> {
        let mut ns = 0;
        // SAFETY: the host writes eight bytes.
        (unsafe { clock_time_get(MONOTONIC, 1, &mut ns) } == OK).then_some(Time::from_ns(ns))
    }

    fn random(self) -> u64 {
        abi::random()
    }

    fn configuration(self, size: usize) -> Vec<u8> {
        calls::buffer(PLUGIN_CONFIGURATION, 0, size).unwrap_or_default()
    }

    fn request(self, policy: &Policy, kind: HostKind, ends: bool) -> HostRequest {
        HostRequest::new(policy, kind, ends)
    }

    fn request_header(self, name: &[u8]) -> Option<Vec<u8>> {
        calls::header(REQUEST_HEADERS, name)
    }

    fn replace_request_header(self, name: &str, value: &str) {
        calls::replace_header(REQUEST_HEADERS, name, value);
    }

    fn remove_request_header(self, name: &str) {
        calls::remove_header(REQUEST_HEADERS, name);
    }

    fn remove_request_trailer(self, name: &str) {
        if calls::header(REQUEST_TRAILERS, name.as_bytes()).is_some() {
            calls::remove_header(REQUEST_TRAILERS, name);
        }
    }

    fn response_header(self, name: &[u8]) -> Option<Vec<u8>> {
        calls::header(RESPONSE_HEADERS, name)
    }

    fn response_lines(self, name: &[u8]) -> Option<Vec<u8>> {
        let all = calls::headers(RESPONSE_HEADERS);
        debug_assert!(all.is_some(), "the response that has arrived has headers");
        let all = all.unwrap_or_default();
        let lines: Vec<&[u8]> = HeaderLines::Named(Pairs::of(&all), name).collect();
        (!lines.is_empty()).then(|| lines.join(&b','))
    }

    fn property(self, path: &[Box<str>]) -> Option<Vec<u8>> {
        calls::property(path.join("\0").as_bytes())
    }

    fn add_response_header(self, name: &str, value: &str) {
        let (key, key_size, value, size) = (name.as_ptr(), name.len(), value.as_ptr(), value.len());
        // SAFETY: both strings live through the call.
        unsafe { proxy_add_header_map_value(RESPONSE_HEADERS, key, key_size, value, size) };
    }

    fn replace_response_header(self, name: &str, value: &str) {
        calls::replace_header(RESPONSE_HEADERS, name, value);
    }

    const MISSING_BODIES: &'static str = "the plugin's configuration in Envoy probably lacks \
        `allow_on_headers_stop_iteration: true`, or clients are slow";

    fn request_body(self, start: usize, size: usize) -> Option<Vec<u8>> {
        calls::buffer(REQUEST_BODY, start, size)
    }

    fn response_body(self, start: usize, size: usize) -> Option<Vec<u8>> {
        calls::buffer(RESPONSE_BODY, start, size)
    }

    /// Envoy itself puts `wasm.` before the name of a property.
    fn set_attribute(self, name: &str, value: &str) {
        let Some(name) = name.strip_prefix("wasm.") else {
            debug_assert!(false, "`{name}` is no attribute");
            return;
        };
        // SAFETY: both strings live through the call.
        unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) };
    }

    fn local_reply(self, kind: HostKind, refusal: Refusal) -> LocalReply {
        LocalReply::new(match kind {
            HostKind::Full => refusal,
            HostKind::Restricted => nginx::sendable(refusal),
        })
    }

    fn send(self, reply: &LocalReply) -> Result<(), Fault> {
        let LocalReply { status, details, headers, body, grpc_status } = reply;
        // SAFETY: all pointers are to live bytes of the given sizes.
        check(unsafe {
            proxy_send_local_response(
                *status,
                details.as_ptr(),
                details.len(),
                body.as_ptr(),
                body.len(),
                headers.as_ptr(),
                headers.len(),
                *grpc_status,
            )
        })
    }

    /// An upstream's response may have the same status, but hardly the last of the reply's headers.
    fn is_response(self, reply: &LocalReply) -> bool {
        let has = |name: &[u8], value: &[u8]| self.response_header(name).is_some_and(|found| found == value);
        let last = Pairs::of(&reply.headers).last();
        has(b":status", format::decimal(reply.status.into()).as_bytes())
            && last.is_none_or(|(name, value)| has(name, value))
    }

    fn log_lost_refusal(self, status: &str) {
        nginx::log_lost_refusal(status);
    }

    fn resume_request(self) -> Result<(), Fault> {
        // SAFETY: a plain number.
        check(unsafe { proxy_continue_stream(REQUEST) })
    }

    fn set_effective_context(self, id: u32) -> Result<(), Fault> {
        // SAFETY: a plain number.
        check(unsafe { proxy_set_effective_context(id) })
    }

    /// Envoy keeps CEL expressions for each plugin, and numbers them from 0. The expression of this
    /// mark is the number of the plugin's root context.
    fn mark_plugin(self, root: u32) -> Result<u32, Fault> {
        let number = calls::foreign("expr_create", root.to_string().as_bytes());
        let number = number.and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
        number.ok_or(Fault(NOT_FOUND))
    }

    /// Envoy evaluates the expression that has this number in the plugin of the current callback's
    /// stream.
    fn marked_plugin(self, mark: u32) -> Option<u32> {
        let value = calls::foreign("expr_evaluate", &mark.to_le_bytes())?;
        u32::try_from(i64::from_le_bytes(value.try_into().ok()?)).ok()
    }

    fn without_contexts(self) -> ProxyWasm {
        ProxyWasm { callbacks: Exports::WithoutContexts }
    }

    fn set_tick_period(self, ms: u32) -> Result<(), Fault> {
        // SAFETY: a plain number.
        check(unsafe { proxy_set_tick_period_milliseconds(ms) })
    }

    fn http_call(self, cluster: &str, headers: &[u8], body: &[u8], timeout_ms: u32) -> Result<u32, Fault> {
        let mut token = 0;
        // SAFETY: all pointers are to live bytes of the given sizes; the host writes four bytes.
        check(unsafe {
            proxy_http_call(
                cluster.as_ptr(),
                cluster.len(),
                headers.as_ptr(),
                headers.len(),
                body.as_ptr(),
                body.len(),
                NO_PAIRS.as_ptr(),
                NO_PAIRS.len(),
                timeout_ms,
                &mut token,
            )
        })
        .map(|()| token)
    }

    fn call_header(self, name: &[u8]) -> Option<Vec<u8>> {
        calls::header(CALL_HEADERS, name)
    }

    fn call_body(self, size: usize) -> Vec<u8> {
        reply_bytes(CALL_BODY, size)
    }

    /// Envoy makes a new id for each call.
    fn define_metric(self, series: &Series) -> Option<u32> {
        let (kind, name, mut id) = (series.metric.kind as u32, series.name(), 0);
        // SAFETY: the name lives through the call; the host writes four bytes.
        let status = unsafe { proxy_define_metric(kind, name.as_ptr(), name.len(), &mut id) };
        (status == OK).then_some(id)
    }

    fn record(self, id: u32, value: u64) {
        // SAFETY: plain numbers.
        unsafe { proxy_record_metric(id, value) };
    }

    /// Errors are ignored: no request fails because of a metric.
    fn read_metrics(self, ids: &[u32]) -> Option<Vec<u64>> {
        let read = |id: &u32| {
            let mut value = 0;
            // SAFETY: the host writes eight bytes.
            (unsafe { proxy_get_metric(*id, &mut value) } == OK).then_some(value)
        };
        ids.iter().map(read).collect()
    }

    fn increment(self, id: u32, by: i64) {
        // SAFETY: plain numbers.
        unsafe { proxy_increment_metric(id, by) };
    }
}

/// The reason why Envoy does not let Wasm mark requests as the document says.
fn marks_refusal(configuration: &Configuration) -> Option<&'static str> {
    configuration.soft_limits.thresholds().iter().find_map(|threshold| {
        if !threshold.metadata.is_empty() {
            return Some(
                "over.metadata: Envoy lets no Wasm filter set metadata: leave it out and read the filter state \
                 `wasm.diana.over`, or load the native module",
            );
        }
        (threshold.reroute == Some(false)).then_some(
            "over.reroute: Envoy chooses the route again when a Wasm filter changes a request header: leave \
             `reroute: false` out, or load the native module",
        )
    })
}

/// The bytes that a server sent, cut one byte beyond [`MAX_REPLY_BYTES`]. So a reply of any length
/// costs little memory, and a longer reply is recognised as too long.
fn reply_bytes(buffer: u32, size: usize) -> Vec<u8> {
    calls::buffer(buffer, 0, size.min(MAX_REPLY_BYTES.saturating_add(1))).unwrap_or_default()
}
