//! Permits of one worker: which levels it reports, and when.

use super::*;
use crate::host::store::Store;

/// A worker, and a store that answers at once unless it is `away`.
struct Pair {
    lines: Lines,
    store: Store,
    ms: u64,
    away: bool,
    /// The commands of all calls.
    sent: Vec<String>,
}

const MAX_HOLD_S: u64 = 16;

fn permit(actor: u32) -> Question {
    let terms = Terms { kind: 7, numbers: [10, MAX_HOLD_S * 1_000_000, 0, 0, 0, 0] };
    let mut key = [0; 16];
    key[..4].copy_from_slice(&actor.to_be_bytes());
    let quota = Quota { rpu: 10, unit: Span::ZERO };
    let asked = Asked { rule: RuleId::new(0), key, quota, terms, enforced: true, cost: 1, ahead: 0 };
    Question::Decide(vec![vec![asked]])
}

impl Pair {
    fn new() -> Pair {
        Pair { lines: lines(1), store: Store::default(), ms: 0, away: false, sent: Vec::new() }
    }

    /// Makes the calls that are due, and answers them.
    fn serve(&mut self) -> Vec<News> {
        let mut all = Vec::new();
        while let Some(call) = self.lines.next(&policy(), at(self.ms)) {
            let (commands, us) = (body(&call).rsplit('/').next().unwrap().to_owned(), 1_000 * self.ms);
            self.sent.push(commands);
            let reply = self.store.answer(1_753_000_000_000_000 + us, body(&call).as_bytes());
            let answer = match self.away {
                false => http(reply.as_bytes()),
                true => Answer::Http { status: 504, body: b"" },
            };
            all.extend(answered(&mut self.lines, call.id, answer, self.ms));
        }
        all
    }

    /// Takes permits of these actors in one call: what gives them back.
    fn take(&mut self, actors: &[u32]) -> Vec<Receipt> {
        for (number, actor) in actors.iter().enumerate() {
            assert!(self.lines.ask(0, Who::Request(number as u32), permit(*actor)));
        }
        let news = self.serve();
        let receipt = |(told, actor): (News, &u32)| {
            let Question::Decide(groups) = permit(*actor) else { unreachable!() };
            let numbers = told.told.unwrap()[0].receipt;
            Receipt { key: groups[0][0].key, terms: groups[0][0].terms, numbers }
        };
        news.into_iter().zip(actors).map(receipt).collect()
    }

    /// Lets time pass; whenever it wants to be woken, the worker is.
    fn pass(&mut self, ms: u64) {
        let end = self.ms + ms;
        while let Some(wake) = self.lines.wake().map(|at| at.as_ns().div_ceil(1_000_000))
            && wake <= end
        {
            self.ms = self.ms.max(wake);
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
    // It comes back when another one is held.
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
    assert!(pair.lines.ask(0, Who::Request(9), permit(1)));
    let call = pair.lines.next(&policy(), at(0)).unwrap();
    pair.store.answer(1_753_000_000_000_000, body(&call).as_bytes());
    assert_eq!(pair.taken(), 2, "the store has granted it");
    answered(&mut pair.lines, call.id, Answer::Http { status: 504, body: b"" }, 50);
    pair.away = false;
    pair.serve();
    assert_eq!((pair.taken(), pair.reports()), (1, 1));
}

/// What ended during the outage is not reported, what began before it is.
#[test]
fn after_an_outage_all_levels_are_reported() {
    let mut pair = Pair::new();
    let receipts = pair.take(&[1, 2, 3]);
    pair.away = true;
    while pair.lines.reaches(0) {
        assert!(pair.lines.ask(0, Who::Request(9), permit(4)));
        pair.serve();
    }
    pair.lines.release(0, &receipts[0]);
    assert!(pair.serve().is_empty());
    pair.store = Store::default();
    pair.away = false;
    pair.pass(1_100);
    assert!(pair.lines.reaches(0));
    assert_eq!(pair.taken(), 2, "{:?}", pair.sent);
}

#[test]
fn permits_of_more_than_16384_actors_are_not_asked_for() {
    let mut pair = Pair::new();
    for from in (0..16_384).step_by(64) {
        let actors: Vec<u32> = (from..from + 64).collect();
        pair.take(&actors);
    }
    assert!(!pair.lines.ask(0, Who::Request(1), permit(16_384)));
    assert!(pair.lines.ask(0, Who::Request(1), permit(5)));
    assert!(pair.lines.ask(0, Who::Request(2), question()));
}
