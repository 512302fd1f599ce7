//! The latest answers of all gateways, for any number of open pages. Gateways are asked while a
//! page asks, so that a console that nobody looks at costs them nothing.
//!
//! After ten wrong tokens within a minute, a gateway does not compare the right one either, and
//! whoever answers in its place learns the token. After such an answer, a gateway is asked only one
//! question in [`RETRY`], and none for the rest of the page.

use crate::answer::{Policy, Rates};
use crate::fleet::{Failure, Fleet, Question};
use serde::Serialize;
use std::time::Duration;
use tokio::sync::watch::{self, Sender};
use tokio::time::{Instant, timeout};

/// The most rules and stores of one gateway on the page, which says how many more there are.
const MOST_RULES: usize = 1_000;
const MOST_STORES: usize = 64;

/// The seconds that the page draws.
pub const SECONDS: u32 = 60;

/// The least time between two questions to one gateway. Pages ask once a second.
const INTERVAL: Duration = Duration::from_millis(500);

/// The same if another server has answered, or the token is wrong.
const RETRY: Duration = Duration::from_secs(30);

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
    /// Rules of the policy that are left off.
    pub left_off: usize,
}

#[derive(Clone, Default)]
struct State {
    is_asking: bool,
    asked: Option<Instant>,
    answered: Option<Instant>,
    /// The status of another server's answer, or 401 for a wrong token.
    foreign: Option<u16>,
    seen: Seen,
}

/// What a gateway is asked at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Poll {
    Policy,
    PolicyAndRates,
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

    /// Why a gateway is not asked further questions now, by its place.
    pub fn refusal(&self, place: usize) -> Option<Failure> {
        self.states.get(place)?.borrow().foreign.map(Failure::NotAsked)
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
        let mut due = None;
        state.send_if_modified(|state| {
            due = state.begin(Instant::now());
            due.is_some()
        });
        let Some(poll) = due else { return };
        let (fleet, address, state) = (self.fleet.clone(), address.clone(), state.clone());
        tokio::spawn(async move {
            let policy = fleet.ask::<Policy>(&address, &Question::Policy);
            let (policy, rates) = match poll {
                Poll::Policy => (policy.await, None),
                Poll::PolicyAndRates => {
                    let rates = fleet.ask::<Rates>(&address, &Question::Rates { seconds: SECONDS });
                    let (policy, rates) = tokio::join!(policy, rates);
                    (policy, Some(rates))
                }
            };
            state.send_modify(|state| state.take(policy, rates));
        });
    }
}

impl State {
    /// What to ask now, which is then being asked.
    fn begin(&mut self, now: Instant) -> Option<Poll> {
        let (interval, poll) = match self.foreign {
            None => (INTERVAL, Poll::PolicyAndRates),
            Some(_) => (RETRY, Poll::Policy),
        };
        let is_due = self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= interval);
        if self.is_asking || !is_due {
            return None;
        }
        (self.is_asking, self.asked) = (true, Some(now));
        Some(poll)
    }

    fn take(&mut self, policy: Result<Policy, Failure>, rates: Option<Result<Rates, Failure>>) {
        self.is_asking = false;
        self.foreign = match policy {
            Err(Failure::NotDiana(status) | Failure::Refused { status: status @ 401, .. }) => Some(status),
            _ => None,
        };
        match policy {
            Ok(mut policy) => {
                policy.store_secret = Some(policy.secret().into());
                self.seen.left_off = shorten(&mut policy.rules, MOST_RULES);
                (self.seen.policy, self.seen.error, self.answered) =
                    (Some(policy), None, Some(Instant::now()));
            }
            Err(failure) => self.seen.error = Some(failure.to_string()),
        }
        (self.seen.rates, self.seen.rates_error) = match rates {
            Some(Ok(rates)) => (Some(bounded(rates)), None),
            Some(Err(failure)) => (None, Some(failure.to_string())),
            None => (None, None),
        };
    }
}

/// The rates that a page can draw.
fn bounded(mut rates: Rates) -> Rates {
    let left_off = shorten(&mut rates.rules, MOST_RULES);
    rates.left_off = rates.left_off.saturating_add(left_off as u64);
    shorten(&mut rates.stores, MOST_STORES);
    let of_rules = rates
        .rules
        .iter_mut()
        .flat_map(|rule| [&mut rule.ok, &mut rule.refused, &mut rule.shadow, &mut rule.error]);
    let of_stores = rates.stores.iter_mut().flat_map(|store| [&mut store.calls, &mut store.failed]);
    for seconds in of_rules.chain(of_stores) {
        // The latest second is the last one.
        seconds.drain(..seconds.len().saturating_sub(SECONDS as usize));
    }
    rates
}

/// Keeps the first items, and returns how many others there were.
fn shorten<T>(items: &mut Vec<T>, most: usize) -> usize {
    let others = items.len().saturating_sub(most);
    items.truncate(most);
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Rule, RuleRates, StoreRates};

    /// A wrong token must not stop the gateway from taking the right one of somebody else.
    #[test]
    fn a_gateway_that_does_not_answer_as_one_is_asked_twice_a_minute() {
        let (mut state, start) = (State::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(state.begin(at(0)), Some(Poll::PolicyAndRates));
        assert_eq!(state.begin(at(10_000)), None, "it is being asked");
        state.take(Err(Failure::NotDiana(404)), Some(Err(Failure::NotDiana(404))));
        assert_eq!(state.begin(at(29_999)), None);
        assert_eq!(state.begin(at(30_000)), Some(Poll::Policy));
        state.take(Err(Failure::Refused { status: 401, why: "wrong".into() }), None);
        assert_eq!(state.begin(at(59_999)), None);
        assert_eq!(state.begin(at(60_000)), Some(Poll::Policy));
        state.take(Ok(Policy::default()), None);
        assert_eq!((state.begin(at(60_499)), state.foreign), (None, None));
        assert_eq!(state.begin(at(60_500)), Some(Poll::PolicyAndRates));
        // A gateway that is down receives no token, so polling it exposes nothing.
        state.take(Err(Failure::Unreachable("no".into())), Some(Err(Failure::Unreachable("no".into()))));
        assert_eq!(state.begin(at(61_000)), Some(Poll::PolicyAndRates));
    }

    #[test]
    fn a_page_gets_no_more_than_it_can_draw() {
        let seconds: Vec<f64> = (0..5_000).map(f64::from).collect();
        let rule = RuleRates { ok: seconds.clone(), ..RuleRates::default() };
        let store = StoreRates { calls: seconds, ..StoreRates::default() };
        let rates =
            Rates { rules: vec![rule; 1_200], stores: vec![store; 100], left_off: 5, ..Rates::default() };
        let policy = Policy { rules: vec![Rule::default(); 1_001], ..Policy::default() };
        let mut state = State::default();
        state.take(Ok(policy), Some(Ok(rates)));
        let (policy, rates) = (state.seen.policy.unwrap(), state.seen.rates.unwrap());
        assert_eq!((policy.rules.len(), state.seen.left_off), (1_000, 1));
        assert_eq!((rates.rules.len(), rates.left_off, rates.stores.len()), (1_000, 205, 64));
        let last: Vec<f64> = (4_940..5_000).map(f64::from).collect();
        assert_eq!((&rates.rules[0].ok, &rates.stores[63].calls), (&last, &last));
    }
}
