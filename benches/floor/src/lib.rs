//! The least that a filter can cost: the callbacks and host calls of the proxy-wasm ABI, version
//! 0.2.1, without an SDK and without a decision.
//!
//! The plugin's configuration lists the host calls of each request, such as `address clock
//! counter`. The linked module exports the callbacks of a stream's creation and end; the bench
//! removes them. The native build is empty.
#![cfg(target_arch = "wasm32")]

use std::cell::UnsafeCell;
use std::ptr::{null_mut, slice_from_raw_parts};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

unsafe extern "C" {
    fn proxy_get_buffer_bytes(
        buffer: u32,
        start: usize,
        max: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, size: usize, id: *mut u32) -> u32;
    fn proxy_increment_metric(id: u32, offset: i64) -> u32;
    fn proxy_get_property(path: *const u8, path_size: usize, data: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_get_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_get_shared_data(
        key: *const u8,
        key_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
        cas: *mut u32,
    ) -> u32;
    fn proxy_set_shared_data(key: *const u8, key_size: usize, value: *const u8, size: usize, cas: u32)
    -> u32;
    fn proxy_set_property(path: *const u8, path_size: usize, value: *const u8, size: usize) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> u32;
}

const PLUGIN_CONFIGURATION: u32 = 7;
const REQUEST_HEADERS: u32 = 0;
const COUNTER: u32 = 0;

/// The host calls that a request can make, by their names in the configuration.
const CALLS: [(&str, fn()); 9] = [
    ("clock", clock),
    ("counter", count),
    ("address", address),
    ("header", || header("x-user-id")),
    ("absent", || header("x-absent")),
    ("headers", headers),
    ("shared", shared),
    ("attribute", attribute),
    ("reply", reply),
];

/// The place of `reply`, the last call.
const REPLY: usize = CALLS.len() - 1;

/// The calls of each request, as the bits of their places in [`CALLS`].
static WANTED: AtomicU32 = AtomicU32::new(0);
static COUNTER_ID: AtomicU32 = AtomicU32::new(0);

/// The memory for the value that the host returns: each value replaces the one before.
struct Memory(UnsafeCell<[u8; 1 << 16]>);

// SAFETY: a VM has one thread.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; 1 << 16]));

#[unsafe(no_mangle)]
pub extern "C" fn proxy_abi_version_0_2_1() {}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    if size <= 1 << 16 { MEMORY.0.get().cast() } else { null_mut() }
}

/// Reads the names of the calls. A name that does not exist refuses the configuration.
#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_configure(_root: u32, size: usize) -> u32 {
    let (mut data, mut length) = (null_mut(), 0);
    // SAFETY: the host writes a pointer and a size.
    unsafe { proxy_get_buffer_bytes(PLUGIN_CONFIGURATION, 0, size, &mut data, &mut length) };
    let bytes = match data.is_null() {
        true => &[],
        // SAFETY: the host has written `length` bytes there, and no call replaces them meanwhile.
        false => unsafe { &*slice_from_raw_parts(data, length) },
    };
    let mut wanted = 0;
    for name in std::str::from_utf8(bytes).unwrap_or("?").split_whitespace() {
        match CALLS.iter().position(|(known, _)| *known == name) {
            Some(place) => wanted |= 1 << place,
            None => return 0,
        }
    }
    WANTED.store(wanted, Relaxed);
    let (name, mut id) = ("floor.requests", 0);
    // SAFETY: the name lives through the call; the host writes four bytes.
    unsafe { proxy_define_metric(COUNTER, name.as_ptr(), name.len(), &mut id) };
    COUNTER_ID.store(id, Relaxed);
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_context_create(_id: u32, _parent: u32) {}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_request_headers(_id: u32, _lines: u32, _ends: u32) -> u32 {
    let wanted = WANTED.load(Relaxed);
    for (place, (_, call)) in CALLS.iter().enumerate() {
        if wanted & 1 << place != 0 {
            call();
        }
    }
    // A request with a reply stops here.
    u32::from(wanted >> REPLY != 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_delete(_id: u32) {}

fn clock() {
    let mut time = 0;
    // SAFETY: the host writes eight bytes.
    unsafe { proxy_get_current_time_nanoseconds(&mut time) };
}

fn count() {
    // SAFETY: plain numbers.
    unsafe { proxy_increment_metric(COUNTER_ID.load(Relaxed), 1) };
}

fn address() {
    let path = "source\0address";
    let (mut data, mut size) = (null_mut(), 0);
    // SAFETY: the path lives through the call; the host writes a pointer and a size.
    unsafe { proxy_get_property(path.as_ptr(), path.len(), &mut data, &mut size) };
}

fn header(name: &str) {
    let (mut data, mut size) = (null_mut(), 0);
    // SAFETY: the name lives through the call; the host writes a pointer and a size.
    unsafe { proxy_get_header_map_value(REQUEST_HEADERS, name.as_ptr(), name.len(), &mut data, &mut size) };
}

fn headers() {
    let (mut data, mut size) = (null_mut(), 0);
    // SAFETY: the host writes a pointer and a size.
    unsafe { proxy_get_header_map_pairs(REQUEST_HEADERS, &mut data, &mut size) };
}

/// Reads and writes a value of 100 bytes, whatever its version.
fn shared() {
    let (key, value) = ("floor", [7; 100]);
    let (mut data, mut size, mut version) = (null_mut(), 0, 0);
    // SAFETY: key and value live through the calls; the host writes a pointer, a size and four
    // bytes.
    unsafe {
        proxy_get_shared_data(key.as_ptr(), key.len(), &mut data, &mut size, &mut version);
        proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), version);
    }
}

fn attribute() {
    let (path, value) = ("diana.rule", "used-up");
    // SAFETY: both texts live through the call.
    unsafe { proxy_set_property(path.as_ptr(), path.len(), value.as_ptr(), value.len()) };
}

/// The encoded headers of the reply: two of them, the sizes first, each text with a zero byte.
const HEADERS: &[u8] = b"\x02\0\0\0\x0c\0\0\0\x18\0\0\0\x0b\0\0\0\x06\0\0\0\
    content-type\0application/problem+json\0retry-after\x00604800\0";

/// Refuses the request, with the status, the headers and a body as long as Diana's.
fn reply() {
    const DETAILS: &str = "diana_refused:used-up";
    const BODY: [u8; 200] = [b' '; 200];
    // SAFETY: all texts live through the call.
    unsafe {
        proxy_send_local_response(
            429,
            DETAILS.as_ptr(),
            DETAILS.len(),
            BODY.as_ptr(),
            BODY.len(),
            HEADERS.as_ptr(),
            HEADERS.len(),
            -1,
        )
    };
}
