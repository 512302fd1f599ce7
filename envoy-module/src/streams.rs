//! The streams of one thread, by the numbers that the filter knows. Envoy keeps the address of a
//! stream's entry and hands it back in each event.

use crate::abi::StreamPtr;
use crate::config::FilterConfig;
use crate::namespace::FIRST_STREAM;
use crate::vm::Vm;
use diana_base::exclusive::Exclusive;
use std::cell::Cell;
use std::ptr::{null, null_mut};

/// One stream. An entry is used again after its stream has ended, and is never freed: there are as
/// many as streams have been open at once.
pub struct Stream {
    pub vm: &'static Vm,
    /// The filter's number.
    pub id: u32,
    /// Envoy's stream; null after the end.
    pub envoy: Cell<StreamPtr>,
    /// Its configuration, which Envoy keeps while the stream lives.
    pub config: Cell<*const FilterConfig>,
    /// The root context that decides.
    pub root: Cell<u32>,
    /// Whether the filter has been told of the stream.
    pub is_known: Cell<bool>,
    /// Whether the alarm has a bell of this stream.
    pub has_bell: Cell<bool>,
    /// Whether the filter has sent a response in place of the upstream's.
    pub is_answered: Cell<bool>,
}

/// The streams of one thread.
#[derive(Default)]
pub struct Streams {
    /// All entries. The number of an entry is its place after [`FIRST_STREAM`].
    all: Exclusive<Vec<&'static Stream>>,
    free: Exclusive<Vec<&'static Stream>>,
}

impl Streams {
    /// An entry for a new stream.
    pub fn open(
        &self,
        vm: &'static Vm,
        envoy: StreamPtr,
        config: *const FilterConfig,
    ) -> Option<&'static Stream> {
        let stream = match self.free.with(Vec::pop).flatten() {
            Some(stream) => stream,
            None => self.all.with(|all| Streams::add(vm, all)).flatten()?,
        };
        stream.envoy.set(envoy);
        stream.config.set(config);
        stream.root.set(0);
        stream.is_known.set(false);
        stream.has_bell.set(false);
        stream.is_answered.set(false);
        Some(stream)
    }

    fn add(vm: &'static Vm, all: &mut Vec<&'static Stream>) -> Option<&'static Stream> {
        let id = u32::try_from(all.len()).ok()?.checked_add(FIRST_STREAM)?;
        let stream = Box::leak(Box::new(Stream {
            vm,
            id,
            envoy: Cell::new(null_mut()),
            config: Cell::new(null()),
            root: Cell::new(0),
            is_known: Cell::new(false),
            has_bell: Cell::new(false),
            is_answered: Cell::new(false),
        }));
        all.push(stream);
        Some(stream)
    }

    /// Frees the entry of a stream that has ended.
    pub fn close(&self, stream: &'static Stream) {
        stream.envoy.set(null_mut());
        stream.config.set(null());
        self.free.with(|free| free.push(stream));
    }

    /// The stream of this number, if it is open.
    pub fn get(&self, id: u32) -> Option<&'static Stream> {
        let index = usize::try_from(id.checked_sub(FIRST_STREAM)?).ok()?;
        let find = |all: &mut Vec<&'static Stream>| all.get(index).copied();
        self.all.with(find).flatten().filter(|stream| !stream.envoy.get().is_null())
    }
}
