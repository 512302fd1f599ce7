//! Whole requests: a gateway with any events, and a host with any results.

use super::input::Input;
use crate::host::faults::FaultKind;
use crate::host::laws;
use crate::host::play::{CONFIGURATION, Setup, play};
use diana::{Exports, Filter, ProxyWasm};
use diana_limiter::cells::store::CasSemantics;
use diana_testing::host::{self, Call, Host, Reply};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Longer inputs take longer and find no more.
const MOST_BYTES: usize = 300;

/// The most host calls of one kind within a callback: at most 4,096 swaps for each rule.
const MOST_CALLS: u32 = 100_000;

/// The laws of a gateway hold for any events, and no result of a host call makes the filter panic.
pub fn run(bytes: &[u8]) {
    let mut input = Input(&bytes[..bytes.len().min(MOST_BYTES)]);
    match input.below(4) {
        0 => any_answers(input),
        _ => gateway(input),
    }
}

fn gateway(mut input: Input) {
    let kind = [
        FaultKind::Nothing,
        FaultKind::LostSwaps,
        FaultKind::Store,
        FaultKind::Release,
        FaultKind::Timer,
        FaultKind::Any,
    ][input.below(6)];
    let setup = Setup {
        rules: if input.flag() { CasSemantics::Strict } else { CasSemantics::Lenient },
        workers: 1 + input.below(3),
        reenters: input.flag(),
        kind,
        one_in: 2 + input.below(10) as u64,
        seed: input.byte().into(),
    };
    match kind {
        FaultKind::Nothing | FaultKind::LostSwaps => {
            let gateway = play(setup, input.0, laws::permits_hold);
            laws::no_request_waits_for_ever(&gateway);
            laws::quotas_hold(&gateway);
            laws::everything_is_refunded(&gateway);
        }
        _ => {
            let gateway = play(setup, input.0, |_| {});
            laws::no_request_waits_for_ever(&gateway);
            laws::nothing_is_left(&gateway);
        }
    }
}

/// A host whose results are the input; after the end of the input every call fails.
struct Anything {
    input: RefCell<Vec<u8>>,
    calls: Cell<u32>,
    configures: Cell<bool>,
}

impl Anything {
    fn read<R>(&self, read: impl FnOnce(&mut Input) -> R) -> R {
        let mut bytes = self.input.borrow_mut();
        let mut input = Input(&bytes);
        let (result, left) = (read(&mut input), input.0.len());
        let used = bytes.len() - left;
        bytes.drain(..used);
        result
    }
}

impl Host for Anything {
    fn call(&self, call: Call) -> Reply {
        self.calls.set(self.calls.get() + 1);
        assert!(self.calls.get() < MOST_CALLS, "the filter calls for ever");
        match call {
            Call::BufferBytes { start, max, .. } if self.configures.get() => {
                let bytes = CONFIGURATION.bytes().skip(start).take(max).collect();
                Reply::bytes(bytes)
            }
            _ => self.read(|input| {
                if input.is_empty() {
                    return Reply::status(10);
                }
                let form = input.byte();
                let status = if form % 4 == 0 { u32::from(input.byte()) } else { 0 };
                let number = if form & 4 == 0 { input.scaled() } else { input.number() };
                let size = if form & 8 == 0 { 0 } else { input.byte().into() };
                Reply { status, number, bytes: Some(input.bytes(size).to_vec()) }
            }),
        }
    }
}

fn any_answers(input: Input) {
    let host = Rc::new(Anything {
        input: RefCell::new(input.0.to_vec()),
        calls: Cell::new(0),
        configures: Cell::new(true),
    });
    let filter = Filter::new(ProxyWasm::with(Exports::All));
    let enter = |callback: &dyn Fn(&Filter)| {
        host.calls.set(0);
        host::run(Rc::clone(&host) as Rc<dyn Host>, || callback(&filter));
    };
    enter(&|filter| {
        filter.on_context_create(1, 0);
        filter.on_configure(1, CONFIGURATION.len());
    });
    while !host.input.borrow().is_empty() {
        let (what, id) = host.read(|input| (input.below(8), input.below(8) as u32));
        host.configures.set(false);
        match what {
            0 | 1 => enter(&|filter| {
                filter.on_context_create(id, 1);
                filter.on_request_headers(id, id % 2 == 0);
            }),
            2 => enter(&|filter| _ = filter.on_request_headers(id, false)),
            3 => enter(&|filter| _ = filter.on_request_trailers(id)),
            4 => enter(&|filter| _ = filter.on_response_headers(id, false)),
            5 => enter(&|filter| filter.on_tick(id)),
            6 => enter(&|filter| filter.on_delete(id)),
            _ => enter(&|filter| _ = filter.on_configure(id, 4 * usize::from(id as u8))),
        }
    }
}
