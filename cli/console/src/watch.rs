//! The latest answers of all gateways, for any number of open pages. Gateways are asked while a
//! page asks, so that a console that nobody looks at costs them nothing.

use crate::answer::{Policy, Rates};
use crate::fleet::{Failure, Fleet, Question};
use serde::Serialize;
use std::time::Duration;
use tokio::sync::watch::{self, Sender};
use tokio::time::{Instant, timeout};

/// The seconds that the page draws.
pub const SECONDS: u32 = 60;

/// The least time between two questions to one gateway. Pages ask once a second.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long a page waits for a slow gateway. Then it shows what the others have answered.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a page shows of a gateway.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seen {
    /// The gateway's name.
    pub gateway: String,
    /// Why it does not answer now.
    pub error: Option<String>,
    /// How long ago it answered last, in ms.
    pub age_ms: Option<u128>,
    /// The latest policy, also of a gateway that does not answer any more.
    pub policy: Option<Policy>,
    /// The rates, if it answers now and has them.
    pub rates: Option<Rates>,
    /// Why there are no rates.
    pub rates_error: Option<String>,
}

#[derive(Clone, Default)]
struct State {
    is_asking: bool,
    asked: Option<Instant>,
    answered: Option<Instant>,
    seen: Seen,
}

/// The gateways and their latest answers.
pub struct Watch {
    fleet: Fleet,
    /// In the order of the fleet's addresses.
    states: Vec<Sender<State>>,
}

impl Watch {
    /// A watch over these gateways, which are not asked yet.
    pub fn new(fleet: Fleet) -> Self {
        let state =
            |name: &str| State { seen: Seen { gateway: name.into(), ..Seen::default() }, ..State::default() };
        let states = fleet.addresses().iter().map(|address| watch::channel(state(address.name())).0);
        Self { states: states.collect(), fleet }
    }

    /// The gateways.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Asks the gateways, and returns after `PATIENCE` at the latest.
    pub async fn look(&self) -> Vec<Seen> {
        for place in 0..self.states.len() {
            self.ask(place);
        }
        let all = async {
            for state in &self.states {
                // The sender lives as long as this watch.
                let _ = state.subscribe().wait_for(|state| !state.is_asking).await;
            }
        };
        // Too slow is no fault here: the states say who has not answered.
        let _ = timeout(PATIENCE, all).await;
        let seen = |state: &Sender<State>| {
            let state = state.borrow();
            let age_ms = state.answered.map(|answered| answered.elapsed().as_millis());
            Seen { age_ms, ..state.seen.clone() }
        };
        self.states.iter().map(seen).collect()
    }

    /// Asks a gateway, unless it is being asked or has just been.
    fn ask(&self, place: usize) {
        let (Some(state), Some(address)) = (self.states.get(place), self.fleet.addresses().get(place)) else {
            return;
        };
        let is_due = state.send_if_modified(|state| {
            let is_due = !state.is_asking && state.asked.is_none_or(|asked| asked.elapsed() >= INTERVAL);
            if is_due {
                (state.is_asking, state.asked) = (true, Some(Instant::now()));
            }
            is_due
        });
        if !is_due {
            return;
        }
        let (fleet, address, state) = (self.fleet.clone(), address.clone(), state.clone());
        tokio::spawn(async move {
            let (policy, rates) = tokio::join!(
                fleet.ask::<Policy>(&address, &Question::Policy),
                fleet.ask::<Rates>(&address, &Question::Rates { seconds: SECONDS }),
            );
            state.send_modify(|state| state.take(policy, rates));
        });
    }
}

impl State {
    fn take(&mut self, policy: Result<Policy, Failure>, rates: Result<Rates, Failure>) {
        self.is_asking = false;
        match policy {
            Ok(policy) => {
                (self.seen.policy, self.seen.error, self.answered) =
                    (Some(policy), None, Some(Instant::now()));
            }
            Err(failure) => self.seen.error = Some(failure.to_string()),
        }
        (self.seen.rates, self.seen.rates_error) = match rates {
            Ok(rates) => (Some(rates), None),
            Err(failure) => (None, Some(failure.to_string())),
        };
    }
}
