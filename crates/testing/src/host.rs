//! The functions of a proxy-wasm host for a filter on targets other than wasm32. Pointers become
//! slices, and results become memory of the filter, as in a real host. The behaviour is up to the
//! [`Host`] that a test or a fuzz target brings.
//!
//! ```text
//!   test ─ run(host, || filter.on_tick(1)) ─► filter ─ proxy_continue_stream ─► host.call(Call)
//!                                               ▲                                  │ Reply
//!                                               └──────── may call back ───────────┘
//! ```

use std::cell::RefCell;
use std::rc::Rc;

/// A call of the filter, with its arguments.
#[allow(missing_docs, reason = "the fields are the arguments that the ABI documents")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// `proxy_log`
    Log { level: u32, message: &'a [u8] },
    /// `proxy_get_current_time_nanoseconds`; returns a number.
    CurrentTime,
    /// WASI's `clock_time_get`; returns a number.
    ClockTime {
        /// 1 is the monotonic clock.
        clock: u32,
    },
    /// WASI's `random_get`; returns a number.
    Random,
    /// `proxy_get_buffer_bytes`; returns bytes.
    BufferBytes { buffer: u32, start: usize, max: usize },
    /// `proxy_get_header_map_pairs`; returns bytes.
    HeaderMapPairs { map: u32 },
    /// `proxy_get_header_map_value`; returns bytes.
    HeaderValue { map: u32, name: &'a [u8] },
    /// `proxy_add_header_map_value`
    AddHeader { map: u32, name: &'a [u8], value: &'a [u8] },
    /// `proxy_replace_header_map_value`
    ReplaceHeader { map: u32, name: &'a [u8], value: &'a [u8] },
    /// `proxy_remove_header_map_value`
    RemoveHeader { map: u32, name: &'a [u8] },
    /// `proxy_get_property`; returns bytes.
    Property { path: &'a [u8] },
    /// `proxy_set_property`
    SetProperty { path: &'a [u8], value: &'a [u8] },
    /// `proxy_get_shared_data`; returns bytes, and the version as a number.
    SharedData { key: &'a [u8] },
    /// `proxy_set_shared_data`
    SetSharedData { key: &'a [u8], value: &'a [u8], cas: u32 },
    /// `proxy_send_local_response`
    LocalResponse { status: u32, details: &'a [u8], body: &'a [u8], headers: &'a [u8], grpc_status: i32 },
    /// `proxy_http_call`; returns a number.
    HttpCall { cluster: &'a [u8], headers: &'a [u8], body: &'a [u8], timeout_ms: u32 },
    /// `proxy_call_foreign_function`; returns bytes.
    ForeignFunction { name: &'a [u8], argument: &'a [u8] },
    /// `proxy_set_tick_period_milliseconds`
    TickPeriod { ms: u32 },
    /// `proxy_set_effective_context`
    EffectiveContext { id: u32 },
    /// `proxy_continue_stream`
    ContinueStream { stream: u32 },
    /// `proxy_define_metric`; returns a number.
    DefineMetric { kind: u32, name: &'a [u8] },
    /// `proxy_increment_metric`
    IncrementMetric { id: u32, by: i64 },
    /// `proxy_record_metric`
    RecordMetric { id: u32, value: u64 },
    /// `proxy_get_metric`; returns a number.
    GetMetric { id: u32 },
}

/// The host's reply to a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// 0 is success. With any other status nothing is returned.
    pub status: u32,
    /// The returned bytes, if the call returns any; `None` is a null pointer.
    pub bytes: Option<Vec<u8>>,
    /// The returned number, if the call returns one.
    pub number: u64,
}

impl Reply {
    /// The reply to a call that returns nothing, or fails.
    #[must_use]
    pub fn status(status: u32) -> Reply {
        Reply { status, ..Reply::default() }
    }

    /// The reply to a call that returns a number.
    #[must_use]
    pub fn number(number: u64) -> Reply {
        Reply { number, ..Reply::default() }
    }

    /// The reply to a call that returns bytes.
    #[must_use]
    pub fn bytes(bytes: Vec<u8>) -> Reply {
        Reply { bytes: Some(bytes), ..Reply::default() }
    }
}

/// A simulated host. It may call the filter back before it replies.
pub trait Host {
    /// Replies to one call.
    fn call(&self, call: Call) -> Reply;
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<dyn Host>>> = const { RefCell::new(None) };
}

/// Runs `work`; meanwhile `host` replies to all calls of this thread.
pub fn run<R>(host: Rc<dyn Host>, work: impl FnOnce() -> R) -> R {
    struct Before(Option<Rc<dyn Host>>);
    impl Drop for Before {
        fn drop(&mut self) {
            let before = self.0.take();
            CURRENT.with_borrow_mut(|current| *current = before);
        }
    }
    let _before = Before(CURRENT.with_borrow_mut(|current| current.replace(host)));
    work()
}

/// Without a host every call fails with the status "internal failure".
fn call(call: Call) -> Reply {
    let host = CURRENT.with_borrow(Clone::clone);
    host.map_or(Reply::status(10), |host| host.call(call))
}

/// The imports of a filter, by the names and with the signatures of the ABI.
#[allow(missing_docs, clippy::missing_safety_doc, reason = "the ABI documents them")]
pub mod functions {
    use super::{Call, Reply};
    use std::slice::from_raw_parts;

    /// # Safety
    /// As for `from_raw_parts`, except that `data` may be any pointer if `size` is 0.
    unsafe fn slice<'a>(data: *const u8, size: usize) -> &'a [u8] {
        // SAFETY: the caller guarantees the size.
        if size == 0 { &[] } else { unsafe { from_raw_parts(data, size) } }
    }

    /// Returns bytes as a host does: in memory that the filter allocates for them.
    ///
    /// # Safety
    /// Both pointers are writable.
    unsafe fn give(reply: Reply, data: *mut *mut u8, size: *mut usize) -> u32 {
        if reply.status != 0 {
            return reply.status;
        }
        let bytes = reply.bytes.unwrap_or_default();
        // Envoy returns null for an empty value.
        let (to, length) = match bytes.len() {
            0 => (std::ptr::null_mut(), 0),
            // The filter will own the bytes, so they have the layout of its own `memory::allocate`.
            length => (Box::into_raw(bytes.into_boxed_slice()).cast(), length),
        };
        // SAFETY: the caller guarantees writable pointers.
        unsafe {
            data.write(to);
            size.write(length);
        }
        0
    }

    pub unsafe fn proxy_log(level: u32, message: *const u8, size: usize) -> u32 {
        // SAFETY: the caller guarantees valid pointers, here and below.
        super::call(Call::Log { level, message: unsafe { slice(message, size) } }).status
    }

    pub unsafe fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32 {
        let reply = super::call(Call::CurrentTime);
        if reply.status == 0 {
            unsafe { time.write(reply.number) };
        }
        reply.status
    }

    pub unsafe fn clock_time_get(clock: u32, _precision: u64, time: *mut u64) -> u32 {
        let reply = super::call(Call::ClockTime { clock });
        if reply.status == 0 {
            unsafe { time.write(reply.number) };
        }
        reply.status
    }

    pub unsafe fn proxy_get_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32 {
        unsafe { give(super::call(Call::HeaderValue { map, name: slice(key, key_size) }), data, size) }
    }

    pub unsafe fn proxy_get_buffer_bytes(
        buffer: u32,
        start: usize,
        max: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32 {
        unsafe { give(super::call(Call::BufferBytes { buffer, start, max }), data, size) }
    }

    pub unsafe fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, size: *mut usize) -> u32 {
        unsafe { give(super::call(Call::HeaderMapPairs { map }), data, size) }
    }

    pub unsafe fn proxy_add_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        size: usize,
    ) -> u32 {
        let (name, value) = unsafe { (slice(key, key_size), slice(value, size)) };
        super::call(Call::AddHeader { map, name, value }).status
    }

    pub unsafe fn proxy_replace_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        size: usize,
    ) -> u32 {
        let (name, value) = unsafe { (slice(key, key_size), slice(value, size)) };
        super::call(Call::ReplaceHeader { map, name, value }).status
    }

    pub unsafe fn proxy_remove_header_map_value(map: u32, key: *const u8, key_size: usize) -> u32 {
        super::call(Call::RemoveHeader { map, name: unsafe { slice(key, key_size) } }).status
    }

    pub unsafe fn proxy_get_property(
        path: *const u8,
        path_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32 {
        unsafe { give(super::call(Call::Property { path: slice(path, path_size) }), data, size) }
    }

    pub unsafe fn proxy_set_property(
        path: *const u8,
        path_size: usize,
        value: *const u8,
        size: usize,
    ) -> u32 {
        let (path, value) = unsafe { (slice(path, path_size), slice(value, size)) };
        super::call(Call::SetProperty { path, value }).status
    }

    pub unsafe fn proxy_get_shared_data(
        key: *const u8,
        key_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
        cas: *mut u32,
    ) -> u32 {
        let reply = super::call(Call::SharedData { key: unsafe { slice(key, key_size) } });
        if reply.status == 0 {
            unsafe { cas.write(u32::try_from(reply.number).unwrap_or(0)) };
        }
        unsafe { give(reply, data, size) }
    }

    pub unsafe fn proxy_set_shared_data(
        key: *const u8,
        key_size: usize,
        value: *const u8,
        size: usize,
        cas: u32,
    ) -> u32 {
        let (key, value) = unsafe { (slice(key, key_size), slice(value, size)) };
        super::call(Call::SetSharedData { key, value, cas }).status
    }

    #[expect(clippy::too_many_arguments, reason = "the ABI's")]
    pub unsafe fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> u32 {
        let (details, body) = unsafe { (slice(details, details_size), slice(body, body_size)) };
        let headers = unsafe { slice(headers, headers_size) };
        super::call(Call::LocalResponse { status, details, body, headers, grpc_status }).status
    }

    /// Returns a number.
    ///
    /// # Safety
    /// The pointer is writable.
    unsafe fn give_number(reply: Reply, to: *mut u32) -> u32 {
        if reply.status == 0 {
            // SAFETY: the caller guarantees a writable pointer.
            unsafe { to.write(u32::try_from(reply.number).unwrap_or(0)) };
        }
        reply.status
    }

    #[expect(clippy::too_many_arguments, reason = "the ABI's")]
    pub unsafe fn proxy_http_call(
        cluster: *const u8,
        cluster_size: usize,
        headers: *const u8,
        headers_size: usize,
        body: *const u8,
        body_size: usize,
        _trailers: *const u8,
        _trailers_size: usize,
        timeout_ms: u32,
        token: *mut u32,
    ) -> u32 {
        let (cluster, headers) = unsafe { (slice(cluster, cluster_size), slice(headers, headers_size)) };
        let body = unsafe { slice(body, body_size) };
        unsafe { give_number(super::call(Call::HttpCall { cluster, headers, body, timeout_ms }), token) }
    }

    pub unsafe fn proxy_call_foreign_function(
        name: *const u8,
        name_size: usize,
        argument: *const u8,
        argument_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32 {
        let (name, argument) = unsafe { (slice(name, name_size), slice(argument, argument_size)) };
        unsafe { give(super::call(Call::ForeignFunction { name, argument }), data, size) }
    }

    pub unsafe fn proxy_set_tick_period_milliseconds(ms: u32) -> u32 {
        super::call(Call::TickPeriod { ms }).status
    }

    pub unsafe fn proxy_set_effective_context(id: u32) -> u32 {
        super::call(Call::EffectiveContext { id }).status
    }

    pub unsafe fn proxy_continue_stream(stream: u32) -> u32 {
        super::call(Call::ContinueStream { stream }).status
    }

    pub unsafe fn proxy_define_metric(kind: u32, name: *const u8, size: usize, id: *mut u32) -> u32 {
        unsafe { give_number(super::call(Call::DefineMetric { kind, name: slice(name, size) }), id) }
    }

    pub unsafe fn proxy_increment_metric(id: u32, by: i64) -> u32 {
        super::call(Call::IncrementMetric { id, by }).status
    }

    pub unsafe fn proxy_record_metric(id: u32, value: u64) -> u32 {
        super::call(Call::RecordMetric { id, value }).status
    }

    pub unsafe fn proxy_get_metric(id: u32, value: *mut u64) -> u32 {
        let reply = super::call(Call::GetMetric { id });
        if reply.status == 0 {
            unsafe { value.write(reply.number) };
        }
        reply.status
    }

    pub fn random() -> u64 {
        super::call(Call::Random).number
    }
}
