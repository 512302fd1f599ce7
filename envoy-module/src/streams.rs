//! The streams of one thread, by the numbers that the filter knows. Envoy keeps the address of a
//! stream's entry and hands it back in each event.

use crate::abi::StreamPtr;
use crate::namespace::FIRST_STREAM;
use diana_base::exclusive::Exclusive;
use std::cell::Cell;
use std::ptr::{null, null_mut};

/// One stream. An entry is used again after its stream has ended, and is never freed: there are as
/// many as streams have been open at once.
pub struct Stream<V: 'static, C: 'static> {
    pub vm: &'static V,
    /// The filter's number.
    pub id: u32,
    /// Envoy's stream; null after the end.
    pub envoy: Cell<StreamPtr>,
    /// Its configuration, which Envoy keeps while the stream lives.
    pub config: Cell<*const C>,
    /// The root context that decides.
    pub root: Cell<u32>,
    /// Whether later events of the stream concern the filter.
    pub is_known: Cell<bool>,
    /// Whether the alarm has a bell of this stream.
    pub has_bell: Cell<bool>,
    /// Whether the filter has sent a response in place of the upstream's.
    pub is_answered: Cell<bool>,
}

/// The streams of one thread.
pub struct Streams<V: 'static, C: 'static> {
    /// All entries. The number of an entry is its place after [`FIRST_STREAM`].
    all: Exclusive<Vec<&'static Stream<V, C>>>,
    free: Exclusive<Vec<&'static Stream<V, C>>>,
}

impl<V, C> Default for Streams<V, C> {
    fn default() -> Streams<V, C> {
        Streams { all: Exclusive::default(), free: Exclusive::default() }
    }
}

impl<V, C> Streams<V, C> {
    /// An entry for a new stream.
    pub fn open(&self, vm: &'static V, envoy: StreamPtr, config: *const C) -> Option<&'static Stream<V, C>> {
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

    fn add(vm: &'static V, all: &mut Vec<&'static Stream<V, C>>) -> Option<&'static Stream<V, C>> {
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
    pub fn close(&self, stream: &'static Stream<V, C>) {
        stream.envoy.set(null_mut());
        stream.config.set(null());
        self.free.with(|free| free.push(stream));
    }

    /// How many streams are open.
    pub fn count(&self) -> usize {
        let [all, free] = [&self.all, &self.free].map(|list| list.with(|list| list.len()).unwrap_or(0));
        all.saturating_sub(free)
    }

    /// The numbers of the streams that wait.
    pub fn held(&self) -> Vec<u32> {
        let held = |stream: &&&Stream<V, C>| stream.has_bell.get() && !stream.envoy.get().is_null();
        let ids =
            |all: &mut Vec<&'static Stream<V, C>>| all.iter().filter(held).map(|stream| stream.id).collect();
        self.all.with(ids).unwrap_or_default()
    }

    /// The stream of this number, if it is open.
    pub fn get(&self, id: u32) -> Option<&'static Stream<V, C>> {
        let index = usize::try_from(id.checked_sub(FIRST_STREAM)?).ok()?;
        let find = |all: &mut Vec<&'static Stream<V, C>>| all.get(index).copied();
        self.all.with(find).flatten().filter(|stream| !stream.envoy.get().is_null())
    }
}
