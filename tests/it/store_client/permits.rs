//! Permits of one worker: which levels it reports, and when.

use super::*;
use crate::host::global_store::GlobalStore;
use diana_limiter::global::GlobalCharge;

/// A worker, and a store that answers at once unless it is `away`.
struct Pair {
    client: StoreClient,
    store: GlobalStore,
    ms: u64,
    away: bool,
    /// How often the worker was woken.
    wakes: usize,
    /// The commands of all calls.
    sent: Vec<String>,
}

const MAX_HOLD_S: u64 = 16;

fn permit(actor: u32) -> GlobalQuery {
    let parameters = Parameters { kind: 7, numbers: [10, MAX_HOLD_S * 1_000_000, 0, 0, 0, 0] };
    let mut key = [0; 16];
    key[..4].copy_from_slice(&actor.to_be_bytes());
    let rule_query = RuleQuery {
        rule: RuleId::new(0),
        key,
        parameters,
        enforced: true,
        cost: 1,
        peeks: false,
        least_rest: 0,
        lease: 0,
        penalty: None,
        headroom: 0,
        takes_grants: false,
    };
    GlobalQuery::Decide(vec![vec![rule_query]])
}

impl Pair {
    fn new() -> Pair {
        Pair {
            client: client(1),
            store: GlobalStore::default(),
            ms: 0,
            away: false,
            wakes: 0,
            sent: Vec::new(),
        }
    }

    /// Makes and answers the due calls.
    fn serve(&mut self) -> Vec<Completion> {
        let mut all = Vec::new();
        while let Some(call) = self.client.next(at(self.ms)) {
            let (commands, us) = (body(&call).rsplit('/').next().unwrap().to_owned(), 1_000 * self.ms);
            self.sent.push(commands);
            let reply = self.store.answer(1_753_000_000_000_000 + us, &call.message.body);
            let result = match self.away {
                false => http(&reply),
                true => CallResult::Response { status: 504, body: b"" },
            };
            all.extend(answered(&mut self.client, call.id, result, self.ms));
        }
        all
    }

    /// Takes permits of these actors in one call. Returns the charges, which release the permits.
    fn take(&mut self, actors: &[u32]) -> Vec<GlobalCharge> {
        for (number, actor) in actors.iter().enumerate() {
            assert!(self.client.ask(0, Waiter::Request(number as u32), permit(*actor)));
        }
        let completions = self.serve();
        let charge = |(completion, actor): (Completion, &u32)| {
            let GlobalQuery::Decide(groups) = permit(*actor) else { unreachable!() };
            let numbers = completion.replies.unwrap()[0].charge;
            GlobalCharge { key: groups[0][0].key, parameters: groups[0][0].parameters, numbers }
        };
        completions.into_iter().zip(actors).map(charge).collect()
    }

    /// Takes and releases a permit of another actor, so that the store has the script and knows
    /// this worker.
    fn warm_up(&mut self) {
        let charges = self.take(&[9]);
        self.client.release(0, &charges[0]);
        self.serve();
        self.sent.clear();
    }

    /// Lets time pass, and wakes the worker when it asks for that.
    fn pass(&mut self, ms: u64) {
        let end = self.ms + ms;
        while let Some(wake) = self.client.wake().map(|at| at.as_ns().div_ceil(1_000_000))
            && wake <= end
        {
            self.ms = self.ms.max(wake);
            self.wakes += 1;
            self.client.tick(at(self.ms), &mut Vec::new());
            self.serve();
        }
        self.ms = end;
    }

    fn outstanding(&self) -> i64 {
        self.store.outstanding(7, 10)
    }

    fn reports(&self) -> usize {
        self.sent.iter().filter(|command| command.starts_with("4 ")).count()
    }
}

#[test]
fn levels_are_repeated_every_two_seconds_while_a_permit_is_held() {
    let mut pair = Pair::new();
    let charges = pair.take(&[1]);
    pair.pass(15_000);
    assert_eq!((pair.outstanding(), pair.reports()), (1, 7));
    // Redis forgets a worker only after two lost reports.
    assert!(pair.sent.iter().all(|command| command.ends_with(" 6000000")), "{:?}", pair.sent);
    pair.client.release(0, &charges[0]);
    pair.serve();
    assert_eq!((pair.outstanding(), pair.reports()), (0, 8));
    assert!(pair.client.is_done() && pair.client.wake().is_none(), "nothing is left to report");
}

#[test]
fn a_permit_older_than_max_hold_is_not_reported_any_more() {
    let mut pair = Pair::new();
    let charges = pair.take(&[1]);
    pair.pass(MAX_HOLD_S * 1_000);
    assert_eq!(pair.outstanding(), 1);
    pair.pass(MAX_HOLD_S * 1_000 / 8 + 4_000);
    assert_eq!(pair.outstanding(), 0);
    // The permit is released while another one is held.
    let later = pair.take(&[1]);
    pair.client.release(0, &charges[0]);
    pair.serve();
    assert_eq!(pair.outstanding(), 1);
    pair.client.release(0, &later[0]);
    pair.serve();
    assert!(pair.outstanding() == 0 && pair.client.is_done());
}

#[test]
fn releases_that_fall_together_are_one_report() {
    let mut pair = Pair::new();
    let charges = pair.take(&[1, 1, 2, 3, 3, 3]);
    assert_eq!(pair.outstanding(), 6);
    charges.iter().for_each(|charge| pair.client.release(0, charge));
    pair.serve();
    assert_eq!((pair.outstanding(), pair.reports()), (0, 1));
    assert!(pair.sent.last().unwrap().starts_with("4 3 7 10 "), "{:?}", pair.sent.last());
}

#[test]
fn a_lost_reply_is_corrected_by_the_next_call() {
    let mut pair = Pair::new();
    pair.take(&[1]);
    pair.away = true;
    assert!(pair.client.ask(0, Waiter::Request(9), permit(1)));
    let call = pair.client.next(at(0)).unwrap();
    pair.store.answer(1_753_000_000_000_000, &call.message.body);
    assert_eq!(pair.outstanding(), 2, "the store has granted it");
    answered(&mut pair.client, call.id, CallResult::Response { status: 504, body: b"" }, 50);
    pair.away = false;
    pair.serve();
    assert_eq!((pair.outstanding(), pair.reports()), (1, 1));
}

/// Permits that ended during the outage are not reported. Permits from before it are.
#[test]
fn after_an_outage_all_levels_are_reported() {
    let mut pair = Pair::new();
    let charges = pair.take(&[1, 2, 3]);
    pair.away = true;
    while pair.client.is_available(0) {
        assert!(pair.client.ask(0, Waiter::Request(9), permit(4)));
        pair.serve();
    }
    pair.client.release(0, &charges[0]);
    assert!(pair.serve().is_empty());
    pair.store = GlobalStore::default();
    pair.away = false;
    pair.pass(1_100);
    assert!(pair.client.is_available(0));
    assert_eq!(pair.outstanding(), 2, "{:?}", pair.sent);
}

#[test]
fn permits_of_more_than_16384_actors_are_not_requested() {
    let mut pair = Pair::new();
    for from in (0..16_384).step_by(64) {
        let actors: Vec<u32> = (from..from + 64).collect();
        pair.take(&actors);
    }
    assert!(!pair.client.ask(0, Waiter::Request(1), permit(16_384)));
    assert!(pair.client.ask(0, Waiter::Request(1), permit(5)));
    assert!(pair.client.ask(0, Waiter::Request(2), query()));
}

/// Nine eighths of `max_hold` later, another permit has the place of the first one in the ring.
#[test]
fn a_permit_that_is_released_too_late_releases_no_newer_one() {
    let mut pair = Pair::new();
    let old = pair.take(&[1]);
    pair.pass(MAX_HOLD_S * 1_000 / 8 * 9);
    pair.take(&[1]);
    pair.client.release(0, &old[0]);
    pair.serve();
    pair.pass(4_000);
    assert_eq!(pair.outstanding(), 1);
}

/// The worker reports the lower level. It sends no refund, unlike for other quota.
#[test]
fn the_permit_of_a_request_that_left_is_reported_as_free() {
    let mut pair = Pair::new();
    pair.warm_up();
    assert!(pair.client.ask(0, Waiter::Request(1), permit(1)));
    let call = pair.client.next(at(0)).unwrap();
    let reply = pair.store.answer(1_753_000_000_000_000, &call.message.body);
    pair.client.cancel(Waiter::Request(1));
    assert_eq!(answered(&mut pair.client, call.id, http(&reply), 1), []);
    assert_eq!(pair.outstanding(), 1, "the store has granted it");
    pair.serve();
    assert_eq!((pair.outstanding(), pair.reports(), pair.sent.len()), (0, 1, 1), "{:?}", pair.sent);
    assert!(pair.client.is_done());
}

/// The store runs a timed-out call after the report that corrected the call's level.
#[test]
fn a_late_reply_that_grants_a_permit_leads_to_a_report() {
    let mut pair = Pair::new();
    pair.warm_up();
    assert!(pair.client.ask(0, Waiter::Request(1), permit(1)));
    let call = pair.client.next(at(0)).unwrap();
    pair.ms = 100;
    pair.client.tick(at(100), &mut Vec::new());
    pair.serve();
    assert_eq!(pair.outstanding(), 0);
    // The call arrives at the store only now.
    let reply = pair.store.answer(1_753_000_000_200_000, &call.message.body);
    pair.ms = 200;
    answered(&mut pair.client, call.id, http(&reply), 200);
    assert_eq!(pair.outstanding(), 1);
    pair.serve();
    assert_eq!(pair.outstanding(), 0);
    assert!(pair.client.is_done());
}

#[test]
fn a_call_carries_at_most_64_reports_and_256_queries() {
    let mut pair = Pair::new();
    let actors: Vec<u32> = (0..64).collect();
    let mut charges = pair.take(&actors);
    charges.extend(pair.take(&[64, 65]));
    pair.sent.clear();
    charges.iter().for_each(|charge| pair.client.release(0, charge));
    (0..300).for_each(|number| ask(&mut pair.client, number));
    let call = pair.client.next(at(0)).unwrap();
    let body = body(&call);
    let commands = body.rsplit_once("/4 64 7 ").expect("64 levels are reported").0;
    assert_eq!(commands.matches("/1 1 1 2 ").count(), 255);
}

/// The retried call carries the levels at that time.
#[test]
fn a_report_to_a_store_without_the_script_is_renewed() {
    let mut pair = Pair::new();
    let charges = pair.take(&[1, 1]);
    pair.client.release(0, &charges[0]);
    let call = pair.client.next(at(0)).unwrap();
    pair.client.release(0, &charges[1]);
    assert_eq!(answered(&mut pair.client, call.id, http(NO_SCRIPT), 1), []);
    let again = pair.client.next(at(1)).unwrap();
    assert_eq!([&call, &again].map(|call| body(call).matches("/4 1 7 ").count()), [1, 1], "{}", body(&again));
    let reply = pair.store.answer(1_753_000_000_001_000, &again.message.body);
    answered(&mut pair.client, again.id, http(&reply), 2);
    assert!(pair.outstanding() == 0 && pair.client.is_done());
}

/// Queries of a busy actor carry its level, so that no report is needed.
#[test]
fn a_level_that_a_query_has_just_reported_is_not_reported_again() {
    let mut pair = Pair::new();
    pair.take(&[1]);
    for _ in 0..12 {
        pair.pass(500);
        let again = pair.take(&[1]);
        pair.pass(100);
        pair.client.release(0, &again[0]);
        pair.serve();
    }
    // One for each release.
    assert_eq!((pair.outstanding(), pair.reports()), (1, 12), "{:?}", pair.sent);
}

/// Short-lived permits leave no checks behind, each of which would wake the worker for ever.
#[test]
fn a_permit_that_is_taken_again_is_reported_no_more_often() {
    let mut pair = Pair::new();
    pair.take(&[1]);
    for _ in 0..9 {
        let charges = pair.take(&[2]);
        pair.client.release(0, &charges[0]);
        pair.serve();
        pair.pass(100);
    }
    pair.take(&[2]);
    pair.pass(4_000);
    (pair.sent, pair.wakes) = (Vec::new(), 0);
    pair.pass(8_000);
    let reported: usize = pair.sent.iter().map(|command| command.matches(" 7 10 ").count()).sum();
    assert_eq!((pair.outstanding(), reported, pair.wakes), (2, 8, 8), "{:?}", pair.sent);
}

/// Two overlapping calls may run in any order, so the store may count either level.
#[test]
fn after_two_overlapping_calls_the_level_is_reported_again() {
    let mut pair = Pair { client: client(2), ..Pair::new() };
    let charges = pair.take(&[1, 1]);
    pair.client.release(0, &charges[0]);
    assert!(pair.client.ask(0, Waiter::Request(1), permit(1)));
    let first = pair.client.next(at(0)).unwrap();
    pair.client.release(0, &charges[1]);
    assert!(pair.client.ask(0, Waiter::Request(2), permit(1)));
    let second = pair.client.next(at(0)).unwrap();
    // The store runs the second call first.
    for (call, ms) in [(second, 1), (first, 2)] {
        let reply = pair.store.answer(1_753_000_000_000_000, &call.message.body);
        answered(&mut pair.client, call.id, http(&reply), ms);
    }
    pair.serve();
    assert_eq!((pair.outstanding(), pair.reports()), (2, 1), "{:?}", pair.sent);
}
