//! The calls of one worker to clusters: when they arrive, and when, how often and with what reply
//! they return.
//!
//! Sources: Envoy `source/extensions/common/wasm/context.cc`, `Context::httpCall` and
//! `onHttpCall…`. Envoy reports a reply to the plugin's root context. It cancels a call that takes
//! too long and reports 504. It reports 503 for a cluster without a host, and nothing if the plugin
//! is gone.

use super::global_store::GlobalStore;
use diana_limiter::request::pairs::Pairs;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// The host refuses to make the call.
    NotMade,
    /// The call takes longer than its timeout, there and back together.
    Late,
    /// The call does not arrive.
    Lost,
    /// The store executes the call, and the reply does not arrive.
    Unanswered,
    /// The host reports the reply a second time, a while later.
    Twice,
    /// The store executes the call, and the reply is garbage.
    Garbage,
    /// The store does not execute the call; the reply has the status 503.
    Unavailable,
    /// The store has lost the script.
    NoScript,
    /// A store executes the call; the reply is the one to the worker's previous call.
    Shifted,
}

/// All faults of calls.
pub const ALL: &[CallFault] = &[
    CallFault::NotMade,
    CallFault::Late,
    CallFault::Lost,
    CallFault::Unanswered,
    CallFault::Twice,
    CallFault::Garbage,
    CallFault::Unavailable,
    CallFault::NoScript,
    CallFault::Shifted,
];

/// The rates and bounds of faults, from a seed.
#[derive(Clone, Debug)]
pub struct CallFaults {
    pub faults: &'static [CallFault],
    /// One call in `one_in` has a fault; 0: none.
    pub one_in: u64,
    /// The longest round trip, µs.
    pub longest_us: u64,
    /// Whether the host cancels a call that takes too long, and reports it.
    pub cancels: bool,
    /// Whether the host reports replies although the calling plugin is gone.
    pub outlives: bool,
    pub seed: u64,
}

impl Default for CallFaults {
    fn default() -> CallFaults {
        CallFaults { faults: &[], one_in: 0, longest_us: 2_000, cancels: true, outlives: false, seed: 1 }
    }
}

impl CallFaults {
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn fault(&mut self) -> Option<CallFault> {
        let happens = !self.faults.is_empty() && self.one_in > 0 && self.random().is_multiple_of(self.one_in);
        happens.then(|| self.faults[(self.random() % self.faults.len() as u64) as usize])
    }
}

/// A document server.
pub struct Server {
    pub status: u32,
    pub document: Vec<u8>,
    /// Whether the server sends entity tags.
    pub sends_etags: bool,
    /// How many requests have arrived.
    pub polls: usize,
}

impl Server {
    pub fn of(document: &str) -> Server {
        Server { status: 200, document: document.into(), sends_etags: true, polls: 0 }
    }

    fn reply(&mut self, known: Option<&[u8]>) -> CallReply {
        self.polls += 1;
        let etag = etag(&self.document);
        match self.status {
            200 if self.sends_etags && known == Some(etag.as_bytes()) => (Some(304), Vec::new()),
            status => (Some(status), self.document.clone()),
        }
    }
}

/// The entity tag of a document.
pub fn etag(document: &[u8]) -> String {
    format!("\"{:016x}\"", diana_limiter::cells::table::Hasher::name(document))
}

/// Clusters with a store or a document server each, which several gateways may call.
#[derive(Default)]
pub struct Clusters {
    pub stores: RefCell<BTreeMap<String, GlobalStore>>,
    pub servers: RefCell<BTreeMap<String, Server>>,
    pub call_faults: RefCell<CallFaults>,
    /// Whether calls to the clusters are refused, as by a host without an endpoint.
    pub down: Cell<bool>,
    /// The clusters in which calls vanish.
    pub silent: RefCell<Vec<&'static str>>,
    /// Whether an HTTP front of Redis is in the place of each store.
    pub are_fronts: Cell<bool>,
}

/// The stores' clock is ahead of the gateways' clock by this much, ns.
const AHEAD: u64 = 3_700_000_000;

impl Clusters {
    /// Clusters of these names.
    pub fn of(names: &[&str]) -> Rc<Clusters> {
        let clusters = Clusters::default();
        for name in names {
            clusters.stores.borrow_mut().insert((*name).into(), GlobalStore::default());
        }
        Rc::new(clusters)
    }

    /// The quota that all stores have granted for such rules and not got back.
    pub fn outstanding(&self, kind: u64, first: u64) -> i64 {
        self.stores.borrow().values().map(|store| store.outstanding(kind, first)).sum()
    }

    pub fn decisions(&self) -> usize {
        self.stores.borrow().values().map(|store| store.decisions).sum()
    }

    pub fn reports(&self) -> usize {
        self.stores.borrow().values().map(|store| store.reports).sum()
    }

    pub fn refunds(&self) -> usize {
        self.stores.borrow().values().map(|store| store.refunds).sum()
    }
}

/// The reply that the filter gets: the status and the body. Without a status there are no headers.
pub type CallReply = (Option<u32>, Vec<u8>);

/// The next event of a call.
pub struct Scheduled {
    at: u64,
    sequence: u64,
    pub root: u32,
    pub token: u32,
    pub event: CallEvent,
}

pub enum CallEvent {
    Arrives { call: CallRequest, reply_at: Option<u64>, fault: Option<CallFault> },
    Replied(CallReply),
}

/// What such a front answers to commands in Redis' own protocol.
const FRONT: &[u8] = br#"{"*5\r\n$7\r\nEVALSHA":[false,"ERR unknown command"]}"#;

/// The cluster and the contents of a call.
#[derive(Clone)]
pub struct CallRequest {
    cluster: String,
    /// The entity tag that the call sends as known.
    known: Option<Vec<u8>>,
    body: Vec<u8>,
}

impl CallRequest {
    /// A call with these arguments.
    pub fn of(cluster: &[u8], headers: &[u8], body: &[u8]) -> CallRequest {
        let known = Pairs::of(headers).find(|(name, _)| *name == b"if-none-match");
        let known = known.map(|(_, value)| value.to_vec());
        CallRequest { cluster: String::from_utf8(cluster.into()).unwrap(), known, body: body.into() }
    }
}

/// The calls of one worker.
#[derive(Default)]
pub struct Callouts {
    scheduled: RefCell<Vec<Scheduled>>,
    sequence: Cell<u64>,
    last_token: Cell<u32>,
    /// The reply of each cluster to the previous call.
    last: RefCell<BTreeMap<String, CallReply>>,
    /// The calls with a reply, and the plugins that made them.
    answered: RefCell<BTreeMap<u32, u32>>,
}

impl Callouts {
    fn push(&self, at: u64, root: u32, token: u32, event: CallEvent) {
        self.sequence.set(self.sequence.get() + 1);
        self.scheduled.borrow_mut().push(Scheduled { at, sequence: self.sequence.get(), root, token, event });
    }

    /// The number of the next call.
    pub fn number(&self) -> u32 {
        let token = self.last_token.get() + 1;
        self.last_token.set(token);
        token
    }

    /// The filter makes a call. Returns its number, or why it is not made.
    pub fn make(
        &self,
        clusters: &Clusters,
        now: u64,
        root: u32,
        call: CallRequest,
        timeout_ms: u32,
    ) -> Result<u32, u32> {
        let cluster = &call.cluster;
        if !clusters.stores.borrow().contains_key(cluster) && !clusters.servers.borrow().contains_key(cluster)
        {
            return Err(2);
        }
        let mut call_faults = clusters.call_faults.borrow_mut();
        let fault = call_faults.fault();
        if fault == Some(CallFault::NotMade) {
            return Err(10);
        }
        let token = self.number();
        let up = now + u64::from(timeout_ms) * 1_000_000;
        if clusters.down.get() {
            self.push(now, root, token, CallEvent::Replied((Some(503), b"no healthy upstream".into())));
            return Ok(token);
        }
        let delay_ns = call_faults.random() % (call_faults.longest_us + 1) * 1_000;
        let delay_ns =
            if fault == Some(CallFault::Late) { 2 * (up - now) - delay_ns % (up - now) } else { delay_ns };
        let is_lost = fault == Some(CallFault::Lost) || clusters.silent.borrow().contains(&&**cluster);
        let has_reply = !is_lost && fault != Some(CallFault::Unanswered);
        let is_reported = has_reply && (!call_faults.cancels || now + delay_ns < up);
        let reply_at = is_reported.then_some(now + delay_ns);
        if !is_reported && call_faults.cancels {
            let body = b"upstream request timeout".into();
            self.push(up, root, token, CallEvent::Replied((Some(504), body)));
        }
        if !is_lost {
            self.push(now + delay_ns / 2, root, token, CallEvent::Arrives { call, reply_at, fault });
        }
        Ok(token)
    }

    /// The host reports a reply.
    pub fn answered(&self, token: u32, root: u32) {
        self.answered.borrow_mut().insert(token, root);
    }

    /// The plugin that made this call, if the call has a reply.
    pub fn owner(&self, token: u32) -> Option<u32> {
        self.answered.borrow().get(&token).copied()
    }

    /// Whether a call had this number.
    pub fn was_made(&self, token: u32) -> bool {
        token <= self.last_token.get()
    }

    /// The time of the next event.
    pub fn next(&self) -> Option<u64> {
        self.scheduled.borrow().iter().map(|scheduled| scheduled.at).min()
    }

    pub fn take(&self) -> Option<Scheduled> {
        let mut scheduled = self.scheduled.borrow_mut();
        let (first, _) =
            scheduled.iter().enumerate().min_by_key(|(_, scheduled)| (scheduled.at, scheduled.sequence))?;
        Some(scheduled.swap_remove(first))
    }

    /// Cancels the calls of a plugin that is gone.
    pub fn cancel(&self, root: u32) {
        self.scheduled.borrow_mut().retain(|scheduled| {
            scheduled.root != root || matches!(scheduled.event, CallEvent::Arrives { .. })
        });
    }

    /// Executes a call that has arrived at `now`, by the gateway's monotonic clock.
    pub fn arrive(&self, clusters: &Clusters, now: u64, scheduled: Scheduled) {
        let Scheduled { root, token, event: CallEvent::Arrives { call, reply_at, fault }, .. } = scheduled
        else {
            return;
        };
        let (mut stores, mut servers) = (clusters.stores.borrow_mut(), clusters.servers.borrow_mut());
        let mut reply: CallReply = match (fault, stores.get_mut(&call.cluster)) {
            (Some(CallFault::Unavailable), _) => (Some(503), Vec::new()),
            (_, Some(_)) if clusters.are_fronts.get() => (Some(200), FRONT.into()),
            (_, Some(store)) => {
                if fault == Some(CallFault::NoScript) {
                    store.forget_script();
                }
                (Some(200), store.answer((now + AHEAD) / 1_000, &call.body))
            }
            (_, None) => servers.get_mut(&call.cluster).unwrap().reply(call.known.as_deref()),
        };
        if fault == Some(CallFault::Garbage) {
            let kind = clusters.call_faults.borrow_mut().random() % 4;
            let cut = reply.1.len() / 2;
            match kind {
                0 => reply.1.truncate(cut),
                1 => reply.1 = b"-ERR no\r\n".into(),
                2 => reply.1 = b"*0\r\n".into(),
                _ => reply = (None, Vec::new()),
            }
        }
        // Document servers have calls of their own kind, whose replies differ.
        let is_of_store = stores.contains_key(&call.cluster);
        let before = self.last.borrow_mut().insert(call.cluster, reply.clone());
        if fault == Some(CallFault::Shifted) && is_of_store {
            // An error reply has no call number. So a call that gets another call's `NOSCRIPT` is
            // sent again with all its refunds. That is a known limit, which this fault does not
            // test.
            let before = before.filter(|(_, body)| !body.windows(8).any(|word| word == b"NOSCRIPT"));
            reply = before.unwrap_or((Some(200), b"*0\r\n".into()));
        }
        let Some(at) = reply_at else { return };
        if fault == Some(CallFault::Twice) {
            self.push(at + 7_000_000, root, token, CallEvent::Replied(reply.clone()));
        }
        self.push(at, root, token, CallEvent::Replied(reply));
    }
}
