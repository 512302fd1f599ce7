//! The module in one thread for one namespace: a filter and the state of its streams, as a VM of
//! proxy-wasm has it. A VM belongs to one thread, whichever threads Envoy runs streams on, and is
//! never freed, because Envoy's threads live as long as the process.

mod known;
mod route_roots;
mod secrets;

use crate::abi::{Exports, StreamPtr};
use crate::alarm::Alarm;
use crate::config::{FilterConfig, can_flush};
use crate::guard;
use crate::mailbox::{Content, Mailbox, Reply};
use crate::metrics::{Counter, Sink};
use crate::namespace::Namespace;
use crate::streams::{Stream, Streams};
use crate::thread;
use crate::timers::Timers;
use crate::turns::Turns;
use diana_base::exclusive::Exclusive;
use diana_config::Secret;
use diana_filter::{Filter, Host};
use known::Given;
use route_roots::RouteRoots;
use secrets::Secrets;
use std::cell::{Cell, OnceCell};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// The module in one thread for one namespace.
///
/// INVARIANT: `envoy`, `namespace`, `owner`, `turns`, `epoch`, `alarm` and `mailbox` are for all
/// threads. All else belongs to the thread that has the turn. The main thread's own VM has no
/// streams, and only the main thread uses it.
pub struct Vm<H: Host + 'static> {
    pub envoy: &'static Exports,
    pub namespace: Arc<Namespace>,
    /// The number of the thread whose streams this VM has, or [`thread::NONE`].
    owner: AtomicU32,
    turns: Turns,
    filter: OnceCell<Filter<H>>,
    pub streams: Streams<Vm<H>, FilterConfig>,
    /// The context that the filter's calls apply to.
    pub context: Cell<Context>,
    pub alarm: Arc<Alarm>,
    pub timers: Timers,
    pub mailbox: Arc<Mailbox>,
    /// The reply that is being delivered.
    pub reply: Exclusive<Option<Content>>,
    /// The document that is being configured.
    pub document: Exclusive<Vec<u8>>,
    /// Its secret.
    pub secret: Exclusive<Secret>,
    /// The counters of this thread, by the numbers of their series.
    pub counters: Exclusive<Vec<Option<Arc<Counter>>>>,
    next_token: Cell<u32>,
    /// The configurations that the filter has, each with what it was compiled with.
    roots: Exclusive<Vec<(u32, Given)>>,
    last_root: Cell<(u32, Given)>,
    secrets: Exclusive<Secrets>,
    route_roots: Exclusive<RouteRoots>,
    /// The namespace's epoch when this VM last freed configurations that have ended.
    epoch: AtomicU64,
}

/// The context that the filter's calls apply to, during one event.
#[derive(Clone, Copy)]
pub struct Context {
    /// The configuration of the event, which lives until its end.
    pub config: *const FilterConfig,
    /// The stream of the event, which lives until its end; null if it has none.
    pub carrier: StreamPtr,
    /// The effective stream; null if the effective context is a root.
    pub stream: StreamPtr,
    /// The number of the effective stream or root.
    pub id: u32,
    /// The root of the effective context.
    pub root: u32,
    /// Whether this is the main thread, where Envoy makes calls.
    pub is_main: bool,
}

impl Context {
    /// Outside of events.
    const NONE: Context =
        Context { config: null(), carrier: null_mut(), stream: null_mut(), id: 0, root: 0, is_main: false };

    /// The context of an event of a configuration on the main thread, in which Envoy makes calls.
    pub fn on_main(config: &FilterConfig) -> Context {
        Context { is_main: true, ..Context::of_config(config) }
    }

    /// The context of an event of a stream.
    pub fn of_stream<V>(stream: &Stream<V, FilterConfig>) -> Context {
        let envoy = stream.envoy.get();
        Context {
            config: stream.config.get(),
            carrier: envoy,
            stream: envoy,
            id: stream.id,
            root: stream.root.get(),
            is_main: false,
        }
    }

    /// The context of an event of a configuration.
    pub fn of_config(config: &FilterConfig) -> Context {
        Context { config, id: config.root, root: config.root, ..Context::NONE }
    }
}

// SAFETY: by the invariant, what is not for all threads belongs to the thread that has the turn,
// and turns exclude each other.
unsafe impl<H: Host> Sync for Vm<H> {}

impl<H: Host + From<&'static Vm<H>>> Vm<H> {
    /// A VM for the streams of a thread, or for the main thread's own events.
    pub fn new(envoy: &'static Exports, namespace: &Arc<Namespace>, is_main: bool) -> &'static Vm<H> {
        let namespace = Arc::clone(namespace);
        let main = Arc::clone(&namespace.main);
        let alarm = if is_main { main } else { Arc::new(Alarm::with_deputy(main)) };
        Box::leak(Box::new(Vm {
            envoy,
            owner: AtomicU32::new(thread::NONE),
            turns: Turns::default(),
            filter: OnceCell::new(),
            streams: Streams::default(),
            context: Cell::new(Context::NONE),
            timers: Timers::new(Arc::clone(&alarm)),
            mailbox: Arc::new(Mailbox::new(Arc::clone(&alarm))),
            alarm,
            reply: Exclusive::default(),
            document: Exclusive::default(),
            secret: Exclusive::default(),
            counters: Exclusive::default(),
            next_token: Cell::new(0),
            roots: Exclusive::default(),
            last_root: Cell::default(),
            secrets: Exclusive::default(),
            route_roots: Exclusive::default(),
            epoch: AtomicU64::new(namespace.epoch()),
            namespace,
        }))
    }

    /// The filter.
    pub fn filter(&'static self) -> &'static Filter<H> {
        self.filter.get_or_init(|| Filter::new(H::from(self)))
    }

    /// The number of the thread whose streams this VM has, or [`thread::NONE`].
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }

    /// Gives the VM to the calling thread. A VM that a thread has stays with this thread.
    pub fn take(&self) {
        debug_assert!([thread::NONE, thread::number()].contains(&self.owner()), "another thread's VM");
        self.owner.store(thread::number(), Ordering::Relaxed);
    }

    /// Whether no thread has the VM, and none acts in its place.
    pub fn is_idle(&self) -> bool {
        self.owner() == thread::NONE && self.turns.is_free()
    }

    /// Runs `work` in an event of a stream.
    ///
    /// # Safety
    /// The calling thread has this VM.
    pub unsafe fn in_turn<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: by the caller's promise.
        unsafe { self.turns.worker(work) }
    }

    /// Runs `work` in place of the VM's thread, unless an event of one of its streams runs. Returns
    /// whether it ran.
    pub fn in_its_place(&self, work: impl FnOnce()) -> bool {
        if self.owner() == thread::number() {
            // SAFETY: the calling thread has this VM.
            return unsafe { self.turns.worker_between_events(work) };
        }
        self.turns.in_place_of_worker(work)
    }

    /// Whether something is due, and no event of the worker is on its way.
    pub fn needs_deputy(&self) -> bool {
        let is_due = self.alarm.is_due() || self.epoch.load(Ordering::Relaxed) != self.namespace.epoch();
        is_due && !self.alarm.has_bells()
    }

    /// Does what is due in place of the worker, in an event of another thread.
    pub fn act_as_deputy(&'static self, context: Context) {
        // A stream may have begun to wait meanwhile. Only its worker resumes it.
        if !self.alarm.has_bells() {
            self.within(context, || {
                self.forget_the_gone();
                // No stream waits that a panic could lose.
                _ = self.run_due();
            });
        }
    }

    /// Runs `work` with calls applied to `context`.
    pub fn within<R>(&self, context: Context, work: impl FnOnce() -> R) -> R {
        /// Restores the context of an event that this one interrupts, also after a panic.
        struct Restore<'a>(&'a Cell<Context>, Context);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _restore = Restore(&self.context, self.context.replace(context));
        work()
    }

    /// Removes the bell of a held stream.
    pub fn end_hold(&self, stream: &Stream<Vm<H>, FilterConfig>) {
        if stream.has_bell.replace(false) {
            self.alarm.remove(stream.id);
        }
    }

    /// A number for a call.
    pub fn next_token(&self) -> u32 {
        let token = self.next_token.get();
        self.next_token.set(token.wrapping_add(1));
        token
    }

    /// Does what is due, before a request is decided and after the event of a stream. If streams
    /// wait, Envoy has been asked to run one of them: no stream is resumed in the middle of another
    /// one's event.
    pub fn catch_up(&'static self) {
        if self.alarm.is_due() && !self.alarm.has_bells() {
            // No stream waits that a panic could lose.
            _ = self.run_due();
        }
        if !can_flush(self.envoy) && self.namespace.metrics.flush.take_due() {
            self.flush_through_stream();
        }
    }

    /// Runs timers and delivers replies. Runs in an event. Returns whether no panic was caught; a
    /// panic may have lost streams that wait.
    pub fn run_due(&'static self) -> bool {
        if !self.alarm.take_due() {
            return true;
        }
        let mut is_whole = true;
        for Reply { token, content } in self.mailbox.take() {
            is_whole &= self.caught(|| self.deliver(token, content)).is_some();
        }
        for root in self.timers.take_due(Instant::now()) {
            let context = Context { stream: null_mut(), id: root, root, ..self.context.get() };
            let tick = || {
                #[cfg(feature = "test-panics")]
                diana_testing::panics::at(diana_testing::panics::Place::Tick);
                self.filter().on_tick(root);
            };
            is_whole &= self.caught(|| self.within(context, tick)).is_some();
        }
        self.timers.arm();
        is_whole
    }

    /// The result of `work`; `None` if it panics. The panic is counted.
    pub fn caught<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let result = guard::caught(work);
        if result.is_none() {
            self.namespace.metrics.changed();
        }
        result
    }

    fn deliver(&'static self, token: u32, content: Content) {
        let filter = self.filter();
        let context = Context { stream: null_mut(), ..self.context.get() };
        let size = content.body.len();
        self.reply.with(|reply| *reply = Some(content));
        self.within(context, || filter.on_http_call_response(token, size));
        self.reply.with(|reply| *reply = None);
    }

    /// At the end of this thread's only open stream, reports the metrics to Envoy 1.38. There may
    /// be no later stream for a long time.
    pub fn flush_at_rest(&self) {
        if !can_flush(self.envoy) && self.streams.count() == 1 && self.namespace.metrics.has_changed() {
            self.flush_through_stream();
        }
    }

    /// Reports the metrics of all threads to Envoy 1.38.
    fn flush_through_stream(&self) {
        let Context { config, carrier, .. } = self.context.get();
        if carrier.is_null() || config.is_null() {
            return;
        }
        // SAFETY: both live until the event ends, and this is the stream's thread.
        let (config, sink) = unsafe { (&*config, Sink::stream(self.envoy, carrier)) };
        config.flush_to(sink);
    }

    /// Envoy's configuration of the event; `None` outside of events.
    pub fn config(&self) -> Option<&FilterConfig> {
        // SAFETY: the configuration of an event lives until its end, and the context ends with it.
        unsafe { self.context.get().config.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Module;
    use std::ptr::dangling;

    /// If the main thread acts for its own streams, a call that it makes may begin another one.
    #[test]
    fn a_thread_acts_for_its_own_streams_between_their_events() {
        // SAFETY: no address is called.
        let envoy = unsafe { Exports::find(|_| dangling()) }.ok().unwrap();
        let (namespace, root) = Namespace::enter(b"a thread's own");
        let vm: &'static Vm<Module> = Vm::new(Box::leak(Box::new(envoy)), &namespace, false);
        vm.take();
        let mut events = 0;
        // SAFETY: this thread has the VM.
        let mut event = |work: &mut dyn FnMut()| unsafe {
            vm.in_turn(|| {
                events += 1;
                work();
            });
        };
        assert!(vm.in_its_place(|| event(&mut || {})));
        event(&mut || assert!(!vm.in_its_place(|| unreachable!("in the middle of an event"))));
        std::thread::scope(|scope| _ = scope.spawn(|| assert!(vm.in_its_place(|| {}))));
        assert_eq!(events, 2);
        namespace.leave(root);
    }
}
