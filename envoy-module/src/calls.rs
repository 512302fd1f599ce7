//! Safe wrappers for the callbacks of Envoy that need only a live pointer.

use crate::abi::{Bytes, ConfigPtr, ConfigScheduler, Exports, StreamPtr, StreamScheduler, metadata};
use crate::alarm::Bell;
use diana_limiter::request::pairs;
use std::ffi::c_void;

/// Writes a line to Envoy's log. `place` is the file and the line of the code.
pub fn log(envoy: &Exports, level: u32, line: &str, place: (&str, u32)) {
    let (line, (file, number)) = (Bytes::of(line.as_bytes()), place);
    // SAFETY: both texts live through the call.
    unsafe {
        match (envoy.log_v2, envoy.log) {
            (Some(log), _) => log(level, line, Bytes::of(file.as_bytes()), number),
            (None, Some(log)) => log(level, line),
            (None, None) => {}
        }
    }
}

/// Envoy's scheduler of one stream.
pub struct StreamBell {
    envoy: &'static Exports,
    scheduler: StreamScheduler,
}

impl StreamBell {
    /// A bell of this stream.
    ///
    /// # Safety
    /// The stream lives, and this is its thread.
    pub unsafe fn new(envoy: &'static Exports, stream: StreamPtr) -> StreamBell {
        // SAFETY: by the caller's promise.
        let scheduler = unsafe { (envoy.http_filter_scheduler_new)(stream) };
        StreamBell { envoy, scheduler }
    }
}

// SAFETY: Envoy allows any thread to commit to a scheduler and to delete it.
unsafe impl Send for StreamBell {}

impl Bell for StreamBell {
    fn ring(&self) {
        // SAFETY: the scheduler lives until it is dropped. Its worker lives, because the bell is
        // removed when the stream ends.
        unsafe { (self.envoy.http_filter_scheduler_commit)(self.scheduler, 0) };
    }
}

impl Drop for StreamBell {
    fn drop(&mut self) {
        // SAFETY: the scheduler is not used again.
        unsafe { (self.envoy.http_filter_scheduler_delete)(self.scheduler) };
    }
}

/// Envoy's scheduler of one configuration, which runs the module on the main thread.
pub struct ConfigBell {
    envoy: &'static Exports,
    scheduler: ConfigScheduler,
}

impl ConfigBell {
    /// A bell of this configuration.
    ///
    /// # Safety
    /// The configuration lives.
    pub unsafe fn new(envoy: &'static Exports, config: ConfigPtr) -> ConfigBell {
        // SAFETY: by the caller's promise.
        let scheduler = unsafe { (envoy.http_filter_config_scheduler_new)(config) };
        ConfigBell { envoy, scheduler }
    }
}

// SAFETY: Envoy allows any thread to commit to a scheduler and to delete it.
unsafe impl Send for ConfigBell {}
// SAFETY: a commit puts an event into a queue under Envoy's own lock.
unsafe impl Sync for ConfigBell {}

impl Bell for ConfigBell {
    fn ring(&self) {
        // SAFETY: the scheduler lives until it is dropped.
        unsafe { (self.envoy.http_filter_config_scheduler_commit)(self.scheduler, 0) };
    }
}

impl Drop for ConfigBell {
    fn drop(&mut self) {
        // SAFETY: the scheduler is not used again.
        unsafe { (self.envoy.http_filter_config_scheduler_delete)(self.scheduler) };
    }
}

/// Reads from one stream.
#[derive(Clone, Copy)]
pub struct Reader {
    envoy: &'static Exports,
    stream: StreamPtr,
}

impl Reader {
    /// A reader of this stream. What it lends lives until the event ends or a header changes.
    ///
    /// # Safety
    /// The stream lives while the reader is used, and this is its thread.
    pub unsafe fn new(envoy: &'static Exports, stream: StreamPtr) -> Reader {
        Reader { envoy, stream }
    }

    /// One line of a header, and the number of lines.
    pub fn header<'a>(self, map: u32, name: &[u8], index: usize) -> (Option<&'a [u8]>, usize) {
        let (mut value, mut lines) = (Bytes::NONE, 0);
        // SAFETY: the name lives through the call; Envoy writes a value and a number.
        let found = unsafe {
            (self.envoy.http_get_header)(
                self.stream,
                map,
                Bytes::of(name),
                &raw mut value,
                index,
                &raw mut lines,
            )
        };
        // SAFETY: Envoy lends the value until the event ends.
        (found.then(|| unsafe { value.get() }), lines)
    }

    /// An attribute that is text.
    pub fn text<'a>(self, attribute: u32) -> Option<&'a [u8]> {
        let mut value = Bytes::NONE;
        // SAFETY: Envoy writes a value.
        let found =
            unsafe { (self.envoy.http_filter_get_attribute_string)(self.stream, attribute, &raw mut value) };
        // SAFETY: Envoy lends the value until the event ends.
        found.then(|| unsafe { value.get() })
    }

    /// An attribute that is a number.
    pub fn number(self, attribute: u32) -> Option<u64> {
        let mut value = 0;
        // SAFETY: Envoy writes eight bytes.
        let found =
            unsafe { (self.envoy.http_filter_get_attribute_int)(self.stream, attribute, &raw mut value) };
        found.then_some(value)
    }

    /// An attribute that is true or false.
    pub fn truth(self, attribute: u32) -> Option<bool> {
        let mut value = false;
        // SAFETY: Envoy writes one byte, 0 or 1.
        let found =
            unsafe { (self.envoy.http_filter_get_attribute_bool)(self.stream, attribute, &raw mut value) };
        found.then_some(value)
    }

    /// The address of what a module has made for the stream's route; null if there is nothing.
    pub fn route(self) -> *const c_void {
        // SAFETY: the stream lives, and this is its thread.
        unsafe { (self.envoy.get_most_specific_route_config)(self.stream) }
    }

    /// A value of metadata, as the bytes that proxy-wasm gives for it: text as it is, a number as
    /// its eight bytes, true and false as one byte, a list as pairs.
    pub fn metadata(self, source: u32, namespace: &str, key: &str) -> Option<Vec<u8>> {
        let (namespace, key) = (Bytes::of(namespace.as_bytes()), Bytes::of(key.as_bytes()));
        let (mut text, mut number, mut truth) = (Bytes::NONE, 0.0, false);
        // Envoy does not name the kind of a value. Each call fails if the value is of another kind.
        // SAFETY: both names live through the calls; Envoy writes a value of each kind.
        unsafe {
            if (self.envoy.http_get_metadata_string)(self.stream, source, namespace, key, &raw mut text) {
                return Some(text.get().to_vec());
            }
            if (self.envoy.http_get_metadata_number)(self.stream, source, namespace, key, &raw mut number) {
                return Some(f64::to_le_bytes(number).to_vec());
            }
            if (self.envoy.http_get_metadata_bool)(self.stream, source, namespace, key, &raw mut truth) {
                return Some(vec![truth.into()]);
            }
        }
        self.metadata_list(source, namespace, key)
    }

    /// A list of metadata in the encoding of proxy-wasm: each element is the name of a pair.
    fn metadata_list(self, source: u32, namespace: Bytes, key: Bytes) -> Option<Vec<u8>> {
        let (mut size, mut text) = (0, Bytes::NONE);
        let (count, read) =
            (self.envoy.http_get_metadata_list_size?, self.envoy.http_get_metadata_list_string?);
        // SAFETY: both names live through the call; Envoy writes a number.
        if !unsafe { count(self.stream, source, namespace, key, &raw mut size) } {
            return None;
        }
        let elements = (0..size).filter_map(|index| {
            // SAFETY: the same, with text that Envoy lends. Other elements are left out.
            let is_text = unsafe { read(self.stream, source, namespace, key, index, &raw mut text) };
            // SAFETY: Envoy lends the text until the event ends.
            is_text.then(|| (unsafe { text.get() }, &b""[..]))
        });
        Some(pairs::encode_bytes(&elements.collect::<Vec<_>>()))
    }

    /// Bytes that a filter has kept with the stream.
    pub fn filter_state<'a>(self, key: &str) -> Option<&'a [u8]> {
        let mut value = Bytes::NONE;
        // SAFETY: the key lives through the call; Envoy writes a value.
        let found = unsafe {
            (self.envoy.http_get_filter_state_bytes)(self.stream, Bytes::of(key.as_bytes()), &raw mut value)
        };
        // SAFETY: Envoy lends the value until the event ends.
        found.then(|| unsafe { value.get() })
    }

    /// The number of bytes of a body.
    pub fn body_size(self, body: u32) -> usize {
        // SAFETY: a plain number.
        unsafe { (self.envoy.http_get_body_size)(self.stream, body) }
    }

    /// The chunks of a body, at least while its event runs.
    pub fn body<'a>(self, body: u32) -> Vec<&'a [u8]> {
        // SAFETY: a plain number.
        let count = unsafe { (self.envoy.http_get_body_chunks_size)(self.stream, body) };
        let mut chunks = vec![Bytes::NONE; count];
        if count == 0 {
            return Vec::new();
        }
        // SAFETY: there is room for all chunks.
        let found = unsafe { (self.envoy.http_get_body_chunks)(self.stream, body, chunks.as_mut_ptr()) };
        // SAFETY: Envoy lends the chunks until the event ends.
        if found { chunks.into_iter().map(|chunk| unsafe { chunk.get() }).collect() } else { Vec::new() }
    }
}

/// The sources of metadata, by the words of a property's path.
pub const METADATA_SOURCES: [(&[&str], u32); 3] = [
    (&["metadata"], metadata::DYNAMIC),
    (&["xds", "route_metadata"], metadata::ROUTE),
    (&["xds", "cluster_metadata"], metadata::CLUSTER),
];
