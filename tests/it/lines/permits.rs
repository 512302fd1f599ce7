//! Tests of one worker's permits: which levels it reports, and when.

use super::*;
use crate::host::store::Store;

/// A worker, and a store that answers at once unless it is `away`.
struct Pair {
    lines: StoreClient,
    store: Store,
    ms: u64,
    away: bool,
    /// How often the worker was woken.
    wakes: usize,
    /// The commands of all calls.
    sent: Vec<String>,
}

const MAX_HOLD_S: u64 = 16;

fn permit(actor: u32) -> GlobalQuery {
    let terms = Parameters { kind: 7, numbers: [10, MAX_HOLD_S * 1_000_000, 0, 0, 0, 0] };
    let mut key = [0; 16];
    key[..4].copy_from_slice(&actor.to_be_bytes());
    let quota = Quota { rpu: 10, unit: Span::ZERO };
    let asked =
        RuleQuery { rule: RuleId::new(0), key, quota, parameters: terms, enforced: true, cost: 1, lease: 0 };
    GlobalQuery::Decide(vec![vec![asked]])
}

impl Pair {
    fn new() -> Pair {
        Pair { lines: lines(1), store: Store::default(), ms: 0, away: false, wakes: 0, sent: Vec::new() }
    }

    /// Makes the calls that are due, and answers them.
    fn serve(&mut self) -> Vec<Completion> {
        let mut all = Vec::new();
        while let Some(call) = self.lines.next(&policy(), at(self.ms)) {
            let (commands, us) = (body(&call).rsplit('/').next().unwrap().to_owned(), 1_000 * self.ms);
            self.sent.push(commands);
            let reply = self.store.answer(1_753_000_000_000_000 + us, body(&call).as_bytes());
            let answer = match self.away {
                false => http(reply.as_bytes()),
                true => CallResult::Http { status: 504, body: b"" },
            };
            all.extend(answered(&mut self.lines, call.id, answer, self.ms));
        }
        all
    }

    /// Takes permits of these actors in one call. Returns the charges to release.
    fn take(&mut self, actors: &[u32]) -> Vec<GlobalCharge> {
        for (number, actor) in actors.iter().enumerate() {
            assert!(self.lines.ask(0, Waiter::Request(number as u32), permit(*actor)));
        }
        let news = self.serve();
        let receipt = |(told, actor): (Completion, &u32)| {
            let GlobalQuery::Decide(groups) = permit(*actor) else { unreachable!() };
            let numbers = told.replies.unwrap()[0].charge;
            GlobalCharge { key: groups[0][0].key, parameters: groups[0][0].parameters, numbers }
        };
        news.into_iter().zip(actors).map(receipt).collect()
    }

    /// Takes and releases a permit of another actor, so that the store has the script and this
    /// worker's number.
    fn warm_up(&mut self) {
        let receipts = self.take(&[9]);
        self.lines.release(0, &receipts[0]);
        self.serve();
        self.sent.clear();
    }

    /// Lets time pass, and wakes the worker whenever it asks for that.
    fn pass(&mut self, ms: u64) {
        let end = self.ms + ms;
        while let Some(wake) = self.lines.wake().map(|at| at.as_ns().div_ceil(1_000_000))
            && wake <= end
        {
            self.ms = self.ms.max(wake);
            self.wakes += 1;
            self.lines.tick(at(self.ms), &mut Vec::new());
            self.serve();
        }
        self.ms = end;
    }

    fn taken(&self) -> i64 {
        self.store.taken(7, 10)
    }

    fn reports(&self) -> usize {
        self.sent.iter().filter(|command| command.starts_with("4+")).count()
    }
}

#[test]
fn levels_are_repeated_every_two_seconds_while_a_permit_is_held() {
    let mut pair = Pair::new();
    let receipts = pair.take(&[1]);
    pair.pass(15_000);
    assert_eq!((pair.taken(), pair.reports()), (1, 7));
    // Redis forgets a worker only after two lost reports.
    assert!(pair.sent.iter().all(|command| command.ends_with("+6000000")), "{:?}", pair.sent);
    pair.lines.release(0, &receipts[0]);
    pair.serve();
    assert_eq!((pair.taken(), pair.reports()), (0, 8));
    assert!(pair.lines.is_done() && pair.lines.wake().is_none(), "nothing is left to be told");
}

#[test]
fn a_permit_older_than_max_hold_is_not_reported_any_more() {
    let mut pair = Pair::new();
    let receipts = pair.take(&[1]);
    pair.pass(MAX_HOLD_S * 1_000);
    assert_eq!(pair.taken(), 1);
    pair.pass(MAX_HOLD_S * 1_000 / 8 + 4_000);
    assert_eq!(pair.taken(), 0);
    // The late release of the old permit does not release the newer one.
    let later = pair.take(&[1]);
    pair.lines.release(0, &receipts[0]);
    pair.serve();
    assert_eq!(pair.taken(), 1);
    pair.lines.release(0, &later[0]);
    pair.serve();
    assert!(pair.taken() == 0 && pair.lines.is_done());
}

#[test]
fn releases_that_fall_together_are_one_report() {
    let mut pair = Pair::new();
    let receipts = pair.take(&[1, 1, 2, 3, 3, 3]);
    assert_eq!(pair.taken(), 6);
    receipts.iter().for_each(|receipt| pair.lines.release(0, receipt));
    pair.serve();
    assert_eq!((pair.taken(), pair.reports()), (0, 1));
    assert!(pair.sent.last().unwrap().starts_with("4+3+7+10+"), "{:?}", pair.sent.last());
}

#[test]
fn a_lost_answer_is_corrected_by_the_next_call() {
    let mut pair = Pair::new();
    pair.take(&[1]);
    pair.away = true;
    assert!(pair.lines.ask(0, Waiter::Request(9), permit(1)));
    let call = pair.lines.next(&policy(), at(0)).unwrap();
    pair.store.answer(1_753_000_000_000_000, body(&call).as_bytes());
    assert_eq!(pair.taken(), 2, "the store has granted it");
    answered(&mut pair.lines, call.id, CallResult::Http { status: 504, body: b"" }, 50);
    pair.away = false;
    pair.serve();
    assert_eq!((pair.taken(), pair.reports()), (1, 1));
}

/// Permits that ended during the outage are not reported; permits from before the outage are.
#[test]
fn after_an_outage_all_levels_are_reported() {
    let mut pair = Pair::new();
    let receipts = pair.take(&[1, 2, 3]);
    pair.away = true;
    while pair.lines.is_available(0) {
        assert!(pair.lines.ask(0, Waiter::Request(9), permit(4)));
        pair.serve();
    }
    pair.lines.release(0, &receipts[0]);
    assert!(pair.serve().is_empty());
    pair.store = Store::default();
    pair.away = false;
    pair.pass(1_100);
    assert!(pair.lines.is_available(0));
    assert_eq!(pair.taken(), 2, "{:?}", pair.sent);
}

#[test]
fn permits_of_more_than_16384_actors_are_not_asked_for() {
    let mut pair = Pair::new();
    for from in (0..16_384).step_by(64) {
        let actors: Vec<u32> = (from..from + 64).collect();
        pair.take(&actors);
    }
    assert!(!pair.lines.ask(0, Waiter::Request(1), permit(16_384)));
    assert!(pair.lines.ask(0, Waiter::Request(1), permit(5)));
    assert!(pair.lines.ask(0, Waiter::Request(2), question()));
}

/// After nine eighths of `max_hold`, another permit occupies the first one's place in the ring.
#[test]
fn a_permit_that_is_released_too_late_releases_no_newer_one() {
    let mut pair = Pair::new();
    let old = pair.take(&[1]);
    pair.pass(MAX_HOLD_S * 1_000 / 8 * 9);
    pair.take(&[1]);
    pair.lines.release(0, &old[0]);
    pair.serve();
    pair.pass(4_000);
    assert_eq!(pair.taken(), 1);
}

/// The worker reports the lower level instead of a refund, which it sends for other quota.
#[test]
fn the_permit_of_a_request_that_has_left_is_reported_as_free() {
    let mut pair = Pair::new();
    pair.warm_up();
    assert!(pair.lines.ask(0, Waiter::Request(1), permit(1)));
    let call = pair.lines.next(&policy(), at(0)).unwrap();
    let reply = pair.store.answer(1_753_000_000_000_000, body(&call).as_bytes());
    pair.lines.cancel(Waiter::Request(1));
    assert_eq!(answered(&mut pair.lines, call.id, http(reply.as_bytes()), 1), []);
    assert_eq!(pair.taken(), 1, "the store has granted it");
    pair.serve();
    assert_eq!((pair.taken(), pair.reports(), pair.sent.len()), (0, 1, 1), "{:?}", pair.sent);
    assert!(pair.lines.is_done());
}

/// The store runs a call that the worker has given up, after the report that corrected its level.
#[test]
fn a_late_answer_that_grants_a_permit_leads_to_a_report() {
    let mut pair = Pair::new();
    pair.warm_up();
    assert!(pair.lines.ask(0, Waiter::Request(1), permit(1)));
    let call = pair.lines.next(&policy(), at(0)).unwrap();
    pair.ms = 100;
    pair.lines.tick(at(100), &mut Vec::new());
    pair.serve();
    assert!(pair.lines.is_done(), "the level is zero here and in the store");
    // The call arrives at the store only now.
    let reply = pair.store.answer(1_753_000_000_200_000, body(&call).as_bytes());
    pair.ms = 200;
    answered(&mut pair.lines, call.id, http(reply.as_bytes()), 200);
    assert_eq!(pair.taken(), 1);
    pair.serve();
    assert_eq!(pair.taken(), 0);
    assert!(pair.lines.is_done());
}

#[test]
fn a_call_carries_no_more_than_64_reports_and_64_questions() {
    let mut pair = Pair::new();
    let actors: Vec<u32> = (0..64).collect();
    let mut receipts = pair.take(&actors);
    receipts.extend(pair.take(&[64, 65]));
    pair.sent.clear();
    receipts.iter().for_each(|receipt| pair.lines.release(0, receipt));
    (0..70).for_each(|number| ask(&mut pair.lines, number));
    let call = pair.lines.next(&policy(), at(0)).unwrap();
    let commands = body(&call).rsplit_once("/4+64+7+").expect("64 levels are reported").0;
    assert_eq!(commands.matches("/1+1+1+2+").count(), 63);
}

/// A retry after the store has lost the script carries the levels of that moment.
#[test]
fn a_report_that_met_a_store_without_the_script_is_made_anew() {
    let mut pair = Pair::new();
    let receipts = pair.take(&[1, 1]);
    pair.lines.release(0, &receipts[0]);
    let call = pair.lines.next(&policy(), at(0)).unwrap();
    pair.lines.release(0, &receipts[1]);
    assert_eq!(answered(&mut pair.lines, call.id, http(NOT_KNOWN), 1), []);
    let again = pair.lines.next(&policy(), at(1)).unwrap();
    assert_eq!([&call, &again].map(|call| body(call).matches("/4+1+7+").count()), [1, 1], "{}", body(&again));
    let reply = pair.store.answer(1_753_000_000_001_000, body(&again).as_bytes());
    answered(&mut pair.lines, again.id, http(reply.as_bytes()), 2);
    assert!(pair.taken() == 0 && pair.lines.is_done());
}

/// The queries of a busy actor carry its level, so no report is needed.
#[test]
fn a_level_that_a_question_has_just_reported_is_not_reported_again() {
    let mut pair = Pair::new();
    pair.take(&[1]);
    for _ in 0..12 {
        pair.pass(500);
        let again = pair.take(&[1]);
        pair.pass(100);
        pair.lines.release(0, &again[0]);
        pair.serve();
    }
    // One report for each release.
    assert_eq!((pair.taken(), pair.reports()), (1, 12), "{:?}", pair.sent);
}

/// Short-lived permits leave no scheduled checks behind, each of which would wake the worker again.
#[test]
fn a_permit_that_is_taken_again_is_reported_no_more_often() {
    let mut pair = Pair::new();
    pair.take(&[1]);
    for _ in 0..9 {
        let receipts = pair.take(&[2]);
        pair.lines.release(0, &receipts[0]);
        pair.serve();
        pair.pass(100);
    }
    pair.take(&[2]);
    pair.pass(4_000);
    (pair.sent, pair.wakes) = (Vec::new(), 0);
    pair.pass(8_000);
    let reported: usize = pair.sent.iter().map(|command| command.matches("+7+10+").count()).sum();
    assert_eq!((pair.taken(), reported, pair.wakes), (2, 8, 8), "{:?}", pair.sent);
}

/// Two calls in flight together may run in any order, so the store may have either level.
#[test]
fn of_two_calls_side_by_side_the_level_is_reported_again() {
    let mut pair = Pair { lines: lines(2), ..Pair::new() };
    let receipts = pair.take(&[1, 1]);
    pair.lines.release(0, &receipts[0]);
    assert!(pair.lines.ask(0, Waiter::Request(1), permit(1)));
    let first = pair.lines.next(&policy(), at(0)).unwrap();
    pair.lines.release(0, &receipts[1]);
    assert!(pair.lines.ask(0, Waiter::Request(2), permit(1)));
    let second = pair.lines.next(&policy(), at(0)).unwrap();
    // The store runs the second call first.
    for (call, ms) in [(second, 1), (first, 2)] {
        let reply = pair.store.answer(1_753_000_000_000_000, body(&call).as_bytes());
        answered(&mut pair.lines, call.id, http(reply.as_bytes()), ms);
    }
    pair.serve();
    assert_eq!((pair.taken(), pair.reports()), (2, 1), "{:?}", pair.sent);
}
