//! One plugin in one worker: takes a configuration and keeps what its streams share.
//!
//! It does not know: requests.

use super::announce::{announce, plural};
use super::calls::{self, HostData, Level};
use super::metrics::Metrics;
use super::stream::Stream;
use super::waiting::{Parked, Waiting};
use crate::config::{self, Configuration};
use crate::host::steady::Steady;
use crate::session::Worker;
use crate::store::{Fault, Portable, Rules};
use crate::table::{Seed, shared_seed};
use crate::time::Time;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

/// What the streams of one configuration share.
pub(super) struct Gateway {
    pub(super) configuration: Configuration,
    pub(super) store: Portable<HostData>,
    pub(super) worker: RefCell<Worker>,
    pub(super) metrics: RefCell<Metrics>,
    pub(super) waiting: RefCell<Waiting>,
    /// Whether the configuration would make requests wait, and the host cannot.
    pub(super) refuses_to_wait: bool,
    random: Cell<u64>,
    last: Cell<Time>,
    steady: RefCell<Steady>,
}

impl Gateway {
    fn new(mut configuration: Configuration) -> Result<Gateway, Fault> {
        let store = Portable::probe(HostData)?;
        let (low, high) = (random(), random());
        let mut fresh = Seed::default();
        fresh
            .iter_mut()
            .zip(low.to_le_bytes().into_iter().chain(high.to_le_bytes()))
            .for_each(|(to, b)| *to = b);
        // nginx crashes when a request is resumed from a timer; its swap rules give it away.
        let refuses_to_wait = store.rules() == Rules::Strict && configuration.policy.refuse_to_wait();
        let worker = Worker::new(&configuration.policy, &shared_seed(&store, fresh)?);
        let metrics = Metrics::new(&configuration.policy);
        Ok(Gateway {
            configuration,
            store,
            worker: RefCell::new(worker),
            metrics: RefCell::new(metrics),
            waiting: RefCell::default(),
            refuses_to_wait,
            random: Cell::new(random()),
            last: Cell::new(calls::now()?),
            steady: RefCell::default(),
        })
    }

    /// The host's clock; when it cannot be read, what it said last.
    pub(super) fn now(&self) -> Time {
        let now = calls::now().unwrap_or(self.last.get());
        self.last.set(now);
        now
    }

    /// The clock that those who wait go by; the host's own if there is none that never steps.
    fn steady(&self) -> Time {
        calls::steady().unwrap_or_else(|| self.now())
    }

    /// Holds a stream until the host's clock shows `until`, steps apart; whether it can.
    pub(super) fn park(&self, stream: u32, until: Time, parked: Parked) -> bool {
        let (Ok(mut waiting), Ok(mut clocks)) = (self.waiting.try_borrow_mut(), self.steady.try_borrow_mut())
        else {
            return false;
        };
        let (now, steady) = (self.now(), self.steady());
        waiting.park(stream, clocks.deadline(until, now, steady), parked, steady);
        true
    }

    /// A number that clients cannot foresee, for jitter: SplitMix64 (Steele, Lea and Flood 2014).
    pub(super) fn entropy(&self) -> u32 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0)
    }
}

/// Random bits from the host's WASI, through the keys of a standard hasher.
fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// The plugin's root context.
#[derive(Default)]
pub(super) struct Root {
    gateway: Option<Rc<Gateway>>,
}

impl Context for Root {}

impl RootContext for Root {
    /// `false` lets the host keep the configuration that it has.
    fn on_configure(&mut self, size: usize) -> bool {
        let bytes = calls::plugin_configuration(size);
        let configuration = match config::compile(&bytes) {
            Ok(configuration) => configuration,
            Err(errors) => {
                let mistakes = (1..).zip(&errors).map(|(number, error)| format!("({number}) {error}"));
                let mistakes: Vec<String> = mistakes.collect();
                let count = plural(mistakes.len(), "mistake");
                calls::log(Level::Error, &format!("configuration refused, {count}: {}", mistakes.join(" ")));
                return false;
            }
        };
        match Gateway::new(configuration) {
            Ok(gateway) => {
                announce(&gateway, &bytes);
                self.gateway = Some(Rc::new(gateway));
                true
            }
            Err(Fault(status)) => {
                calls::log(
                    Level::Error,
                    &format!(
                        "configuration refused, the host's clock or its shared data does not work: status {status}"
                    ),
                );
                false
            }
        }
    }

    fn on_tick(&mut self) {
        let Some(gateway) = &self.gateway else {
            return;
        };
        let Ok(mut waiting) = gateway.waiting.try_borrow_mut() else {
            return;
        };
        let due = waiting.due(gateway.steady());
        drop(waiting);
        for (stream, parked) in due {
            if !calls::set_effective_context(stream) {
                continue;
            }
            match parked {
                Parked::Request => calls::resume_request(),
                // A host that cannot answer must not be left holding the request.
                Parked::Refusal(answer) if calls::send_local_response(&answer).is_err() => {
                    calls::resume_request();
                }
                Parked::Refusal(_) => {}
            }
        }
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream::new(id, self.gateway.clone())))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
