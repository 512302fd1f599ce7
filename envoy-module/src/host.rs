//! Envoy, as the filter sees it: each method is a callback of Envoy's, or memory that the module
//! shares between threads.

use crate::abi::{Bytes, body, header_map};
use crate::callouts::Call;
use crate::calls::Reader;
use crate::config::FilterConfig;
use crate::local_reply::LocalReply;
use crate::mailbox::Content;
use crate::namespace::{Counts, FIRST_STREAM, Namespace};
use crate::request::{self, EnvoyRequest};
use crate::runtime;
use crate::streams::Stream;
use crate::vm::{Context, Vm};
use diana_base::time::Time;
use diana_config::{Configuration, Secret};
use diana_filter::metrics::Series;
use diana_filter::{Host, HostKind};
use diana_limiter::cells::store::Fault;
use diana_limiter::policy::{Enforce, Policy};
use diana_response::Refusal;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The status of a call that Envoy cannot make: there is no such stream, or no event.
const NOT_FOUND: Fault = Fault(1);
/// The status of a call that the module cannot make: it has no thread for timers.
const NO_TIMER: Fault = Fault(2);
/// The status of a call to a cluster that Envoy does not have, or that has no hosts.
const NO_CLUSTER: Fault = Fault(4);
/// The status if the clock shows a time before 1970.
const NO_CLOCK: Fault = Fault(3);

/// Envoy, as one thread's filter sees it.
#[derive(Clone, Copy)]
pub struct Module {
    vm: &'static Vm<Module>,
    /// The origin of the monotonic clock.
    origin: Instant,
}

/// Envoy for the filter of a VM.
impl From<&'static Vm<Module>> for Module {
    fn from(vm: &'static Vm<Module>) -> Module {
        Module { vm, origin: Instant::now() }
    }
}

/// A stream of this thread.
type StreamEntry = Stream<Vm<Module>, FilterConfig>;

impl Module {
    fn context(self) -> Context {
        self.vm.context.get()
    }

    /// A reader of the effective stream.
    fn reader(self) -> Option<Reader> {
        let stream = self.context().stream;
        // SAFETY: the effective stream lives: it is that of the event, or it is open.
        (!stream.is_null()).then(|| unsafe { Reader::new(self.vm.envoy, stream) })
    }

    /// Up to `size` bytes of the part of a body that has just arrived, from `start`.
    fn body(self, body: u32, start: usize, size: usize) -> Option<Vec<u8>> {
        let (mut skip, mut bytes) = (start, Vec::new());
        for chunk in self.reader()?.body(body) {
            let (skipped, room) = (skip.min(chunk.len()), size.saturating_sub(bytes.len()));
            skip = skip.saturating_sub(skipped);
            let rest = chunk.get(skipped..).unwrap_or_default();
            bytes.extend_from_slice(rest.get(..room).unwrap_or(rest));
        }
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Sets a header of the effective stream, or removes it if `value` is none.
    fn set_header(self, map: u32, name: &str, value: Bytes) {
        let (stream, set) = (self.context().stream, self.vm.envoy.http_set_header);
        if !stream.is_null() {
            // SAFETY: the effective stream lives, and both texts live through the call.
            unsafe { set(stream, map, Bytes::of(name.as_bytes()), value) };
        }
    }

    /// The effective stream.
    fn stream(self) -> Result<&'static StreamEntry, Fault> {
        self.vm.streams.get(self.context().id).ok_or(NOT_FOUND)
    }
}

impl Host for Module {
    type Store = Counts;
    type Request = EnvoyRequest;
    type LocalReply = LocalReply;

    const INCREMENTS_CHEAPLY: bool = true;

    fn open(self) -> Result<(Counts, HostKind), Fault> {
        Ok((self.vm.namespace.store.clone(), HostKind::Full))
    }

    fn refusals(self, _: HostKind, configuration: &Configuration) -> Vec<String> {
        request::refusals(&configuration.policy).collect()
    }

    /// Only the module has access to its memory.
    fn shares_with_others(self, _: HostKind) -> bool {
        false
    }

    fn now(self) -> Result<Time, Fault> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| NO_CLOCK)?;
        u64::try_from(since.as_nanos()).map(Time::from_ns).map_err(|_| NO_CLOCK)
    }

    fn monotonic(self) -> Option<Time> {
        u64::try_from(self.origin.elapsed().as_nanos()).ok().map(Time::from_ns)
    }

    fn random(self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0_u8)
    }

    fn configuration(self, _: usize) -> Vec<u8> {
        self.vm.document.with(std::mem::take).unwrap_or_default()
    }

    fn secret(self) -> Secret {
        self.vm.secret.with(std::mem::take).unwrap_or_default()
    }

    fn max_enforce(self) -> Enforce {
        runtime::max_enforce()
    }

    fn request(self, policy: &Policy, _: HostKind, ends: bool) -> EnvoyRequest {
        EnvoyRequest::new(self.reader(), policy, ends)
    }

    fn request_header(self, name: &[u8]) -> Option<Vec<u8>> {
        self.reader()?.header(header_map::REQUEST, name, 0).0.map(<[u8]>::to_vec)
    }

    fn response_header(self, name: &[u8]) -> Option<Vec<u8>> {
        self.reader()?.header(header_map::RESPONSE, name, 0).0.map(<[u8]>::to_vec)
    }

    fn response_lines(self, name: &[u8]) -> Option<Vec<u8>> {
        let reader = self.reader()?;
        let line = |index| reader.header(header_map::RESPONSE, name, index);
        let (first, count) = line(0);
        let mut value = first?.to_vec();
        for other in (1..count).filter_map(|index| line(index).0) {
            value.push(b',');
            value.extend_from_slice(other);
        }
        Some(value)
    }

    fn property(self, path: &[Box<str>]) -> Option<Vec<u8>> {
        request::property(self.reader()?, path)
    }

    fn add_response_header(self, name: &str, value: &str) {
        let (stream, add) = (self.context().stream, self.vm.envoy.http_add_header);
        if !stream.is_null() {
            // SAFETY: the effective stream lives, and both texts live through the call.
            unsafe {
                add(stream, header_map::RESPONSE, Bytes::of(name.as_bytes()), Bytes::of(value.as_bytes()))
            };
        }
    }

    fn replace_response_header(self, name: &str, value: &str) {
        self.set_header(header_map::RESPONSE, name, Bytes::of(value.as_bytes()));
    }

    fn replace_request_header(self, name: &str, value: &str) {
        self.set_header(header_map::REQUEST, name, Bytes::of(value.as_bytes()));
    }

    fn remove_request_header(self, name: &str) {
        self.set_header(header_map::REQUEST, name, Bytes::NONE);
    }

    fn remove_request_trailer(self, name: &str) {
        self.set_header(header_map::REQUEST_TRAILERS, name, Bytes::NONE);
    }

    fn reroute(self) {
        let stream = self.context().stream;
        if !stream.is_null() {
            // SAFETY: the effective stream lives.
            unsafe { (self.vm.envoy.http_clear_route_cache)(stream) };
        }
    }

    fn set_metadata(self, namespace: &str, key: &str, value: &str) {
        let (stream, set) = (self.context().stream, self.vm.envoy.http_set_dynamic_metadata_string);
        if !stream.is_null() {
            let [namespace, key, value] = [namespace, key, value].map(|text| Bytes::of(text.as_bytes()));
            // SAFETY: the effective stream lives, and the texts live through the call.
            unsafe { set(stream, namespace, key, value) };
        }
    }

    fn request_body(self, start: usize, size: usize) -> Option<Vec<u8>> {
        self.body(body::RECEIVED_REQUEST, start, size)
    }

    fn response_body(self, start: usize, size: usize) -> Option<Vec<u8>> {
        self.body(body::RECEIVED_RESPONSE, start, size)
    }

    /// The span of the stream, if there is one, gets the attribute as a tag, too.
    fn set_attribute(self, name: &str, value: &str) {
        let (stream, envoy) = (self.context().stream, self.vm.envoy);
        if stream.is_null() {
            return;
        }
        let bytes = Bytes::of(value.as_bytes());
        // SAFETY: the effective stream lives, and both texts live through the call.
        unsafe { (envoy.http_set_filter_state_bytes)(stream, Bytes::of(name.as_bytes()), bytes) };
        // SAFETY: the effective stream lives.
        let span = unsafe { (envoy.http_get_active_span)(stream) };
        if !span.is_null() {
            let tag = name.strip_prefix("wasm.").unwrap_or(name);
            // SAFETY: the span lives with its stream, and both texts live through the call.
            unsafe { (envoy.http_span_set_tag)(span, Bytes::of(tag.as_bytes()), bytes) };
        }
    }

    fn local_reply(self, _: HostKind, refusal: Refusal) -> LocalReply {
        LocalReply::new(refusal)
    }

    fn send(self, reply: &LocalReply) -> Result<(), Fault> {
        let stream = self.stream()?;
        self.vm.end_hold(stream);
        stream.is_answered.set(true);
        let (envoy, open) = (self.vm.envoy, stream.envoy.get());
        // SAFETY: the stream is open, and this is its thread.
        let reader = unsafe { Reader::new(envoy, open) };
        let is_grpc = || {
            let content_type = reader.header(header_map::REQUEST, b"content-type", 0).0;
            content_type.is_some_and(|content_type| content_type.starts_with(b"application/grpc"))
        };
        // SAFETY: the stream is open. Envoy may call back; no value is borrowed.
        unsafe {
            if reply.lacks_grpc_status() && is_grpc() {
                reply.send_unconverted(envoy, open);
            } else {
                reply.send(envoy, open);
            }
        }
        Ok(())
    }

    fn resume_request(self) -> Result<(), Fault> {
        let stream = self.stream()?;
        self.vm.end_hold(stream);
        // SAFETY: the stream is open. Envoy may call back; no value is borrowed.
        unsafe { (self.vm.envoy.http_filter_continue_decoding)(stream.envoy.get()) };
        Ok(())
    }

    fn set_effective_context(self, id: u32) -> Result<(), Fault> {
        let context = match id {
            FIRST_STREAM.. => {
                let stream = self.vm.streams.get(id).ok_or(NOT_FOUND)?;
                Context { stream: stream.envoy.get(), id, root: stream.root.get(), ..self.context() }
            }
            root => Context { stream: null_mut(), id, root, ..self.context() },
        };
        self.vm.context.set(context);
        Ok(())
    }

    fn set_tick_period(self, ms: u32) -> Result<(), Fault> {
        if self.vm.timers.set(self.context().root, ms) { Ok(()) } else { Err(NO_TIMER) }
    }

    fn http_call(self, cluster: &str, headers: &[u8], body: &[u8], timeout_ms: u32) -> Result<u32, Fault> {
        let config = self.vm.config().ok_or(NOT_FOUND)?;
        let (token, mailbox) = (self.vm.next_token(), Arc::clone(&self.vm.mailbox));
        let (cluster, headers, body) = (cluster.into(), headers.to_vec(), body.to_vec());
        let call = Call { token, mailbox, cluster, headers, body, timeout_ms };
        let outbox = &self.vm.namespace.outbox;
        if self.context().is_main && outbox.is_newest(config.root) {
            // SAFETY: this is an event of the configuration on the main thread.
            let is_made = unsafe { config.callouts.make_now(config.caller(), call) };
            return if is_made { Ok(token) } else { Err(NO_CLUSTER) };
        }
        outbox.post(call);
        Ok(token)
    }

    fn call_header(self, name: &[u8]) -> Option<Vec<u8>> {
        let find = |reply: &mut Option<Content>| {
            let mut headers = reply.iter().flat_map(|reply| &reply.headers);
            headers.find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        self.vm.reply.with(find).flatten()
    }

    fn call_body(self, _: usize) -> Vec<u8> {
        let take = |reply: &mut Option<Content>| reply.as_mut().map(|reply| std::mem::take(&mut reply.body));
        self.vm.reply.with(take).flatten().unwrap_or_default()
    }

    fn define_metric(self, series: &Series) -> Option<u32> {
        let (number, counter) = self.vm.namespace.metrics.define(series)?;
        let index = usize::try_from(number).ok()?;
        self.vm.counters.with(|counters| {
            if counters.len() <= index {
                counters.resize(index.saturating_add(1), None);
            }
            counters.get_mut(index).map(|slot| *slot = Some(counter))
        })?;
        Some(number)
    }

    /// The main thread knows each configuration, and follows document servers too.
    fn show_documents(self, in_use: &[(u32, u64)]) -> bool {
        if Arc::ptr_eq(&self.vm.alarm, &self.vm.namespace.main) {
            Namespace::show_documents(in_use);
        }
        true
    }

    fn record(self, id: u32, value: u64) {
        self.vm.namespace.metrics.record(id, value);
    }

    fn read_metrics(self, ids: &[u32]) -> Option<Vec<u64>> {
        Some(self.vm.namespace.metrics.totals(ids))
    }

    fn increment(self, id: u32, by: i64) {
        let Ok(index) = usize::try_from(id) else {
            return;
        };
        self.vm.counters.with(|counters| {
            if let Some(Some(counter)) = counters.get(index) {
                counter.add(by);
            }
        });
        self.vm.namespace.metrics.changed();
    }
}
