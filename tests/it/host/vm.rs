//! One worker of a simulated gateway: a filter, the contexts that its host has made, and the host
//! calls it makes. `vm/calls.rs` replies to the calls, `vm/exchange.rs` has bodies and responses,
//! `vm/phases.rs` what nginx does around the filter.

mod calls;
mod exchange;
mod phases;

pub use phases::Location;

use super::callouts::{CallEvent, CallReply, Callouts};
use super::gateway::{Fate, RequestRecord, World};
use super::request::ends as request_ends;
use diana::{Action, Exports, Filter, ProxyWasm};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;
use diana_testing::host::{self, Host};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::{Rc, Weak};

/// One worker.
#[derive(Clone)]
pub struct Vm(Rc<Inner>);

struct Inner {
    me: Weak<Inner>,
    filter: Filter,
    world: Rc<World>,
    callbacks: Exports,
    /// The plugin of new streams, if it is not the newest.
    serves: Cell<Option<u32>>,
    /// The CEL expressions of each plugin.
    expressions: RefCell<BTreeMap<u32, Vec<Vec<u8>>>>,
    last_id: Cell<u32>,
    /// The context whose callback runs, and the effective context.
    current: Cell<(u32, u32)>,
    in_tick: Cell<bool>,
    roots: RefCell<BTreeMap<u32, Timer>>,
    streams: RefCell<BTreeMap<u32, Stream>>,
    /// Effects of host calls that happen after the callback has returned, as in Envoy.
    later: RefCell<VecDeque<Later>>,
    /// Kinds and names of metrics by their numbers.
    metrics: RefCell<HashMap<u32, (u32, String)>>,
    calls: Callouts,
    /// The reply to a call, during its callback.
    answer: RefCell<Option<CallReply>>,
}

#[derive(Default)]
struct Timer {
    period: u64,
    at: u64,
}

/// A response that the filter sends: the status and the headers.
type LocalResponse = (u32, Vec<(String, String)>);

#[derive(Default)]
struct Stream {
    root: u32,
    request: usize,
    /// In nginx, a response of the filter that waits for the content phase.
    kept: Option<LocalResponse>,
    /// In nginx, the stream of the same request before an internal redirect.
    before: Option<u32>,
    /// The filter has seen the headers.
    seen: bool,
    /// The headers of the response, from the time at which they are on their way.
    response: Option<Vec<(String, Vec<u8>)>>,
    /// The part of the response's body that passes.
    part: Vec<u8>,
    /// The part of the request's body that arrives.
    frame: Vec<u8>,
    /// How much of the request's body the host holds.
    held: usize,
    /// Whether the host holds the end of the request's body.
    holds_end: bool,
}

enum Later {
    Resume(u32),
    Answer(u32, LocalResponse),
}

impl Vm {
    pub fn new(world: &Rc<World>, callbacks: Exports) -> Vm {
        // A file does not know what an operator removes.
        let file = if callbacks == Exports::WithoutContexts { Exports::Useful } else { callbacks };
        Vm(Rc::new_cyclic(|me| Inner {
            me: Weak::clone(me),
            filter: Filter::new(ProxyWasm::with(file)),
            world: Rc::clone(world),
            callbacks,
            serves: Cell::default(),
            expressions: RefCell::default(),
            last_id: Cell::new(0),
            current: Cell::new((0, 0)),
            in_tick: Cell::new(false),
            roots: RefCell::default(),
            streams: RefCell::default(),
            later: RefCell::default(),
            metrics: RefCell::default(),
            calls: Callouts::default(),
            answer: RefCell::default(),
        }))
    }

    /// Whether the host makes callbacks for the creation and the end of contexts, for bodies, and
    /// for responses.
    fn tells_all(&self) -> bool {
        self.0.callbacks != Exports::WithoutContexts
    }

    fn world(&self) -> &World {
        &self.0.world
    }

    /// The next stream gets the id of the last one, as the requests of a connection do in nginx.
    pub fn repeat_id(&self) {
        self.0.last_id.set(self.0.last_id.get() - 1);
    }

    fn id(&self) -> u32 {
        self.0.last_id.set(self.0.last_id.get() + 1);
        self.0.last_id.get()
    }

    /// Makes a callback about a context.
    fn enter<R>(&self, context: u32, callback: impl FnOnce(&Filter) -> R) -> R {
        let before = self.0.current.replace((context, context));
        let host: Rc<dyn Host> = Rc::clone(&self.0) as Rc<dyn Host>;
        let result = host::run(host, || callback(&self.0.filter));
        self.0.current.set(before);
        if before == (0, 0) {
            self.catch_up();
        }
        result
    }

    /// Performs the delayed effects in order.
    fn catch_up(&self) {
        loop {
            let next = self.0.later.borrow_mut().pop_front();
            let Some(next) = next else { return };
            self.act(next);
        }
    }

    fn act(&self, later: Later) {
        match later {
            Later::Resume(id) => {
                if let Some(request) = self.request_of(id)
                    && self.fate(request) == Fate::Paused
                {
                    self.world().note(request, Fate::Upstream);
                    self.deliver_held(id);
                    if self.world().breaks.take() {
                        self.streams().into_iter().filter(|other| *other != id).for_each(|id| self.reset(id));
                    }
                }
            }
            Later::Answer(id, (status, headers)) => {
                let Some(request) = self.request_of(id) else { return };
                if self.fate(request) != Fate::Paused {
                    self.world().crash(format!("answered while {:?}", self.fate(request)));
                }
                let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
                self.answer(id, status, &headers);
            }
        }
    }

    fn request_of(&self, id: u32) -> Option<usize> {
        Some(self.0.streams.borrow().get(&id)?.request)
    }

    fn fate(&self, request: usize) -> Fate {
        self.world().records.borrow()[request].fate.clone()
    }

    /// Creates a plugin with the gateway's configuration beside the existing ones. Returns whether
    /// the filter accepts it.
    pub fn configure(&self) -> bool {
        let (root, size) = (self.id(), self.world().configuration.borrow().len());
        self.0.serves.set(None);
        self.0.roots.borrow_mut().insert(root, Timer::default());
        if self.tells_all() {
            self.enter(root, |filter| filter.on_context_create(root, 0));
        }
        let is_accepted = self.enter(root, |filter| filter.on_configure(root, size));
        if !is_accepted {
            self.delete_root(root);
        }
        is_accepted
    }

    /// Configures the newest plugin again with the present configuration.
    pub fn configure_again(&self) -> bool {
        let size = self.world().configuration.borrow().len();
        self.newest_root().is_some_and(|root| self.enter(root, |filter| filter.on_configure(root, size)))
    }

    /// How many streams have state in the filter.
    pub fn kept_streams(&self) -> usize {
        self.0.filter.streams()
    }

    /// How many calls are in flight in the filter.
    pub fn calling(&self) -> usize {
        self.0.filter.calling()
    }

    pub fn newest_root(&self) -> Option<u32> {
        self.0.roots.borrow().keys().next_back().copied()
    }

    pub fn oldest_root(&self) -> Option<u32> {
        self.0.roots.borrow().keys().next().copied()
    }

    /// Lets new streams be those of an older plugin: after a rollback, Envoy uses the plugin that
    /// it still has, and does not configure it again.
    pub fn roll_back(&self, root: u32) {
        self.0.serves.set(Some(root));
    }

    /// Deletes a plugin, although its streams may still exist.
    pub fn delete_root(&self, root: u32) {
        for stream in self.0.streams.borrow().values().filter(|stream| stream.root == root) {
            let record = &mut self.world().records.borrow_mut()[stream.request];
            record.hurried |= record.fate == Fate::Paused;
        }
        if self.tells_all() {
            self.enter(root, |filter| filter.on_delete(root));
        }
        self.0.expressions.borrow_mut().remove(&root);
        self.0.serves.set(self.0.serves.get().filter(|serves| *serves != root));
        self.0.roots.borrow_mut().remove(&root);
        if !self.world().clusters.call_faults.borrow().outlives {
            self.0.calls.cancel(root);
        }
    }

    /// Begins and records `GET path` of `user`.
    pub fn request(&self, path: &str, user: &str) -> usize {
        let id = self.id();
        self.request_as(id, path, user)
    }

    /// The same in the context `id`, which need not be new.
    pub fn request_as(&self, id: u32, path: &str, user: &str) -> usize {
        let parts = [
            (Part::Method, "GET"),
            (Part::Path, path),
            (Part::Host, "a"),
            (Part::Header("x-user-id".into()), user),
            (Part::Address, "10.0.0.1:0"),
            (Part::BodySize, "0"),
        ];
        self.send(id, parts.map(|(part, line)| (part, line.into())).into())
    }

    /// Begins and records a request of these parts.
    pub fn ask(&self, parts: Vec<(Part, Vec<u8>)>) -> usize {
        self.send(self.id(), parts)
    }

    fn send(&self, id: u32, parts: Vec<(Part, Vec<u8>)>) -> usize {
        let text = |wanted: &Part| {
            let line = parts.iter().find(|(part, _)| part == wanted);
            line.map(|(_, line)| String::from_utf8_lossy(line).into_owned()).unwrap_or_default()
        };
        let record = RequestRecord {
            path: text(&Part::Path),
            user: text(&Part::Header("x-user-id".into())),
            parts,
            came: self.world().clock.get(),
            went: None,
            fate: Fate::Paused,
            hurried: false,
            reason: String::new(),
            attributes: Vec::new(),
            marks: Vec::new(),
            headers: Vec::new(),
        };
        let request = self.world().records.borrow().len();
        self.world().records.borrow_mut().push(record);
        let Some(root) = self.0.serves.get().or_else(|| self.newest_root()) else {
            self.world().note(request, Fate::Upstream);
            return request;
        };
        let action = self.begin(id, Stream { root, request, ..Stream::default() });
        match self.world().rules {
            CasSemantics::Lenient => self.go_on(id, action),
            CasSemantics::Strict => self.go_on_in_nginx(id, action),
        }
        request
    }

    /// Begins a stream. Returns what the filter wants done with the request.
    fn begin(&self, id: u32, stream: Stream) -> Action {
        let (root, request) = (stream.root, stream.request);
        self.0.streams.borrow_mut().insert(id, stream);
        if self.tells_all() {
            self.enter(id, |filter| filter.on_context_create(id, root));
        }
        let ends = request_ends(self.world().rules, &self.world().records.borrow()[request].parts);
        let action = self.enter(id, |filter| filter.on_request_headers(id, ends));
        if let Some(stream) = self.0.streams.borrow_mut().get_mut(&id) {
            stream.seen = true;
        }
        action
    }

    /// Applies the action that a callback about a request returns.
    fn go_on(&self, id: u32, action: Action) {
        if let Some(request) = self.request_of(id)
            && action == Action::Continue
            && self.fate(request) == Fate::Paused
        {
            self.world().note(request, Fate::Upstream);
        }
    }

    /// The existing streams, oldest first.
    pub fn streams(&self) -> Vec<u32> {
        self.0.streams.borrow().keys().copied().collect()
    }

    pub fn streams_of(&self, root: u32) -> usize {
        self.0.streams.borrow().values().filter(|stream| stream.root == root).count()
    }

    /// The client disconnects.
    pub fn reset(&self, id: u32) {
        if let Some(request) = self.request_of(id) {
            self.world().note(request, Fate::Reset);
            self.delete(id);
        }
    }

    fn delete(&self, id: u32) {
        if self.tells_all() {
            self.enter(id, |filter| filter.on_delete(id));
        }
        let stream = self.0.streams.borrow_mut().remove(&id);
        // nginx frees all contexts of a request at its end.
        stream.and_then(|stream| stream.before).into_iter().for_each(|before| self.delete(before));
    }

    pub fn end_all(&self) {
        for id in self.streams() {
            self.serve(id);
            self.reset(id);
        }
    }

    pub fn next_tick(&self) -> Option<(u64, u32)> {
        let roots = self.0.roots.borrow();
        roots.iter().filter(|(_, timer)| timer.period > 0).map(|(root, timer)| (timer.at, *root)).min()
    }

    /// Fires a timer, due or not.
    pub fn tick(&self, root: u32) {
        self.0.in_tick.set(true);
        self.enter(root, |filter| filter.on_tick(root));
        self.0.in_tick.set(false);
        if let Some(timer) = self.0.roots.borrow_mut().get_mut(&root) {
            timer.at = timer.at.max(self.world().clock.get() + timer.period);
        }
    }

    /// The time of the next event of a call.
    pub fn next_call(&self) -> Option<u64> {
        self.0.calls.next()
    }

    /// Runs the next event of a call: the call arrives, or the filter gets the reply.
    pub fn call_goes_on(&self) {
        let Some(scheduled) = self.0.calls.take() else { return };
        let world = self.world();
        match scheduled.event {
            CallEvent::Arrives { .. } => {
                self.0.calls.arrive(&world.clusters, world.clock.get() + world.set_back.get(), scheduled);
            }
            CallEvent::Replied(answer) => {
                self.0.calls.answered(scheduled.token, scheduled.root);
                self.report(scheduled.root, scheduled.token, answer);
            }
        }
    }

    /// Reports a reply to a call that already has one, or was never made. The host reports it to
    /// the plugin that made the call.
    pub fn report_again(&self, token: u32, answer: CallReply) {
        let calls = &self.0.calls;
        let root = if calls.was_made(token) { calls.owner(token) } else { self.newest_root() };
        let root = root.filter(|root| self.0.roots.borrow().contains_key(root));
        root.into_iter().for_each(|root| self.report(root, token, answer.clone()));
    }

    /// Reports the reply to a call, which the filter need not have made.
    pub fn report(&self, root: u32, token: u32, answer: CallReply) {
        let size = answer.1.len();
        let before = self.0.answer.replace(Some(answer));
        self.enter(root, |filter| filter.on_http_call_response(token, size));
        self.0.answer.replace(before);
    }

    /// Makes a callback about a context that does not exist, or a second time about one that does.
    pub fn repeat(&self, which: u8, id: u32) {
        let filter = |callback: &dyn Fn(&Filter)| self.enter(id, |filter| callback(filter));
        match which % 6 {
            0 => filter(&|filter| _ = filter.on_request_headers(id, true)),
            1 => filter(&|filter| _ = filter.on_request_trailers(id)),
            2 => filter(&|filter| filter.on_tick(id)),
            3 => filter(&|filter| _ = filter.on_response_headers(id + 1_000_000, true)),
            4 => filter(&|filter| filter.on_delete(id + 1_000_000)),
            _ => filter(&|filter| _ = filter.on_request_headers(id + 1_000_000, true)),
        }
    }
}

impl Inner {
    /// Delays an effect until the callback has returned. A host that ends a stream within the call
    /// performs it at once.
    fn later(&self, later: Later) {
        match self.me.upgrade() {
            Some(me) if self.world.reenters => Vm(me).act(later),
            _ => self.later.borrow_mut().push_back(later),
        }
    }
}
