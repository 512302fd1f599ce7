//! Bytes as a cell of any kind of algorithm, with and without a penalty, and what may happen to it.

use super::input::Input;
use diana_base::time::{Span, Time};
use diana_config::algorithm::KINDS;
use diana_document::{Errors, Node, parse};
use diana_limiter::algorithm::{Admission, Algorithm, Allowance, Charge, Penalty, Reservation, Verdict};
use diana_limiter::policy::{self, PlacedQuota};

/// Until this instant (in the year 2349), twice the longest fill time fits into the rest of a
/// `u64`.
const LATEST: u64 = u64::MAX - 205 * 365 * 86_400 * 1_000_000_000;
const TODAY: u64 = 1_753_000_000_123_456_789;
const MOST_OPERATIONS: usize = 24;

/// How many tokens a request of a cold rule takes.
const COLD_FACTOR: u64 = 3;

/// The values that a kind's own keys may have.
const VALUES: [&str; 12] =
    ["null", "0", "1", "2", "3", "60", "1000", "1000000000", r#""1s""#, r#""1.5s""#, r#""1h""#, r#""full""#];

/// Any bytes are a cell: `prepare` repairs them once. The promises of a cell then hold, whatever
/// happens next.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let Some((algorithm, quota)) = algorithm(&mut input) else { return };
    let (quota, unit) = (policy::Quota::new(quota, settling(algorithm, &mut input)), quota.unit);
    check(quota.alone(), input);
    check_adaptive(quota, input);
    if unit > Span::ZERO {
        let (after, lasts) = (
            1 + u64::from(input.byte() % 4),
            (1 + input.scaled() % Penalty::MAX_SPAN.as_ns()).next_multiple_of(1_000_000),
        );
        let penalty = Penalty::new(unit, after, Span::from_ns(lasts));
        check(quota.with_penalty(Some(penalty)).alone(), input);
    }
}

/// The same quota with a limit that moves.
fn check_adaptive(quota: policy::Quota, mut input: Input) {
    let mut limit = || 1 + input.scaled() % 1_000_000;
    let mut limits = [limit(), limit(), limit()];
    limits.sort_unstable();
    let ([min, start, max], unit) = (limits, quota.configured().unit);
    // The configuration refuses buckets that take longer than a hundred years to fill.
    let fill = u128::from(quota.shown().rpu) * u128::from(unit.as_ns()) / u128::from(start);
    if fill > 100 * 365 * 86_400 * 1_000_000_000 {
        return;
    }
    let base = policy::Quota::new(Allowance { rpu: start, unit }, *quota.algorithm());
    let Some(base) = base.adapting(min, 1) else { return };
    let at = |limit| base.at(limit, 1).alone();
    check_no_panic(&at(start), input);
    let mut run = Run { judge: at(start), cell: vec![0; at(start).size()], now: TODAY, is_ours: true };
    run.fill(&mut input);
    check_prepare(&mut run);
    for _ in 0..MOST_OPERATIONS {
        match input.below(4) {
            0 => run.now = run.now.saturating_add(input.scaled()).min(LATEST),
            1 => run.now = run.now.saturating_sub(input.scaled()).max(1),
            2 => run.judge = at(min + input.scaled() % (max - min + 1)),
            _ => {
                let (rest, cost) = (run.look().remaining, input.scaled());
                assert_eq!(run.step(cost).admits(), cost <= rest);
            }
        }
        run.prepare();
        check_promises(&run, input.scaled());
    }
}

fn check(judge: PlacedQuota, mut input: Input) {
    check_no_panic(&judge, input);
    let begin_with = match input.below(4) {
        0 => 1 + input.number() % LATEST,
        1 => 1 + input.scaled() % LATEST,
        _ => TODAY,
    };
    let cell = vec![0; judge.size()];
    let mut run = Run { judge, cell, now: begin_with, is_ours: true };
    run.fill(&mut input);
    check_prepare(&mut run);
    let mut charges = Vec::new();
    for _ in 0..MOST_OPERATIONS {
        if input.is_empty() {
            return;
        }
        operate(&mut run, &mut input, &mut charges);
        run.prepare();
        check_promises(&run, input.scaled());
        if judge.quota.algorithm().without_waiting().is_none() {
            check_headroom(&run, 1 + input.scaled() % Allowance::MAX_RPU);
        }
    }
}

/// An algorithm of any kind, with some of its configuration keys, and its quota.
fn algorithm(input: &mut Input) -> Option<(Algorithm, Allowance)> {
    let kind = &KINDS[input.below(KINDS.len())];
    let rpu = match input.below(3) {
        0 => u64::from(input.byte()),
        _ => input.scaled() % Allowance::MAX_RPU,
    };
    let unit_ns = match input.below(3) {
        _ if !kind.per_unit => 0,
        0 => 1_000_000_000,
        // Whole milliseconds, as in every configuration.
        _ => {
            input.scaled().clamp(Allowance::MIN_UNIT.as_ns(), Allowance::MAX_UNIT.as_ns()) / 1_000_000
                * 1_000_000
        }
    };
    let quota = Allowance { rpu: rpu.max(1), unit: Span::from_ns(unit_ns) };
    let keys = kind.keys.iter().map(|key| (key, VALUES[input.below(VALUES.len())]));
    let keys: Vec<String> = keys
        .filter(|(_, value)| *value != "null")
        .map(|(key, value)| format!(r#""{key}": {value}"#))
        .collect();
    let compile = |json: &str| {
        let (document, errors) = (parse(json.as_bytes()).ok()?, Errors::default());
        let algorithm = (kind.read)(&mut Node::root(&document, &errors).fields()?, Some(quota));
        algorithm.filter(|_| errors.is_empty())
    };
    let algorithm = compile(&format!("{{{}}}", keys.join(", "))).or_else(|| compile("{}"))?;
    Some((algorithm, quota))
}

/// Half of the algorithms that can settle may borrow. A bucket fills within a hundred years.
fn settling(algorithm: Algorithm, input: &mut Input) -> Algorithm {
    let borrow = input.scaled() % Allowance::MAX_RPU;
    let quota = algorithm.shown(Allowance { rpu: 1, unit: Span::ZERO });
    let per_unit = quota.unit.as_ns().div_ceil(quota.rpu.max(1)).max(1);
    let longest = 100 * 365 * 86_400 * 1_000_000_000_u64;
    let most = (longest / per_unit).saturating_sub(quota.rpu);
    let settling = (input.flag() && borrow < most).then(|| algorithm.borrowing(borrow)).flatten();
    settling.unwrap_or(algorithm)
}

/// No instant, cost, charge or length of a cell makes a judge panic.
fn check_no_panic(judge: &PlacedQuota, mut input: Input) {
    let mut cell = vec![0; input.below(judge.size() + 9)];
    let noise = input.bytes(cell.len());
    cell[..noise.len()].copy_from_slice(noise);
    for _ in 0..3 {
        let (now, cost) = (Time::from_ns(input.number()), input.number());
        let (at, booked_at) = (Time::from_ns(input.number()), Time::from_ns(input.number()));
        let stamp = input.number();
        let charge = Charge { cost, at, booked_at, stamp: (stamp as u32, (stamp >> 32) as u32) };
        let _ = judge.rests_in(&cell, now);
        judge.prepare(&mut cell, now);
        let _ = judge.step(&mut cell, now, cost);
        judge.refund(&mut cell, now, charge);
        if judge.quota.algorithm().can_settle() {
            let _ = judge.quota.algorithm().charge(&mut cell, now, input.number());
            judge.quota.algorithm().settle(&mut cell, now, charge, input.number());
        }
        judge.count_refusal(&mut cell, now);
        let mut reservation = Reservation { charge, spent: input.number() };
        if let Some(reserve) = judge.quota.as_reserve() {
            _ = reserve.covers(&reservation, now);
            reservation.spend(input.byte().into());
            reserve.release(&mut cell, now, &reservation);
            reserve.reserve(&mut cell, now, input.number());
        }
    }
}

/// A cell and its clock.
#[derive(Clone)]
struct Run {
    judge: PlacedQuota,
    cell: Vec<u8>,
    now: u64,
    /// Whether the cell has no foreign bytes.
    is_ours: bool,
}

impl Run {
    fn time(&self) -> Time {
        Time::from_ns(self.now)
    }

    /// Whether a token bucket of foreign bytes has reserved units. Its quota may be another one: an
    /// adaptive bucket, and one that waits, reserve none themselves.
    fn has_reserved(&self) -> bool {
        const TOKEN_BUCKET: u8 = 1;
        let is_bucket = self.judge.quota.parameters().kind == TOKEN_BUCKET;
        !self.is_ours && is_bucket && self.cell[28..32] != [0; 4]
    }

    /// Replaces the cell by foreign bytes, or some bytes of a used cell.
    fn fill(&mut self, input: &mut Input) {
        if input.flag() {
            let noise = input.bytes(self.cell.len());
            self.cell[..noise.len()].copy_from_slice(noise);
            self.is_ours = false;
            return;
        }
        self.prepare();
        let _ = self.step(self.look().remaining.min(input.scaled()));
        let size = self.cell.len().max(1);
        for _ in 0..input.below(3) {
            let (at, mask) = (input.below(size.min(256)), input.byte());
            self.cell.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= mask);
            self.is_ours = false;
        }
    }

    fn prepare(&mut self) -> bool {
        let now = self.time();
        self.judge.prepare(&mut self.cell, now)
    }

    fn step(&mut self, cost: u64) -> Verdict {
        let now = self.time();
        self.judge.step(&mut self.cell, now, cost)
    }

    fn count_refusal(&mut self) {
        let now = self.time();
        self.judge.count_refusal(&mut self.cell, now);
    }

    fn refund(&mut self, charge: Charge) {
        let now = self.time();
        self.judge.refund(&mut self.cell, now, charge);
    }

    /// The verdict for a request `later` nanoseconds from now, if no other request comes.
    fn probe(&self, later: u64, cost: u64) -> Verdict {
        let mut copy = self.clone();
        copy.now += later;
        copy.prepare();
        copy.step(cost)
    }

    fn look(&self) -> Verdict {
        self.probe(0, 0)
    }
}

/// `prepare` changes a cell at most once, and reports the change.
fn check_prepare(run: &mut Run) {
    let bytes = run.cell.clone();
    assert_eq!(run.prepare(), run.cell != bytes, "`prepare` has to report a changed cell");
    let prepared = run.cell.clone();
    assert!(!run.prepare());
    assert_eq!(run.cell, prepared);
    check_promises(run, 0);
}

/// A request that has to leave `headroom` units of a prepared cell passes if that many and one are
/// left.
fn check_headroom(run: &Run, headroom: u64) {
    let left = run.look().remaining;
    let mut copy = run.clone();
    let verdict = run.judge.step_with_headroom(&mut copy.cell, &run.cell, run.time(), 1, headroom);
    assert_eq!(verdict.admits(), left > headroom, "{left} left, {headroom} headroom");
    assert_eq!(verdict.remaining, left.saturating_sub(headroom + u64::from(left > headroom)));
    assert!(verdict.admits() || copy.cell == run.cell, "a refusal changes nothing");
    // The configuration refuses a part that leaves no room for a request of a cold rule: such a
    // rule may get too cold while a penalty runs.
    let most = run.judge.quota.algorithm().shown(Allowance { rpu: 1, unit: Span::ZERO }).rpu / COLD_FACTOR;
    let is_exact = run.is_ours && (headroom < most || run.judge.quota.penalty().is_none());
    if let (Admission::Refuse { retry_after: Some(wait) }, true) = (verdict.admission, is_exact) {
        let mut copy = run.clone();
        copy.now += wait.as_ns();
        copy.prepare();
        let (before, now) = (copy.cell.clone(), copy.time());
        assert!(run.judge.step_with_headroom(&mut copy.cell, &before, now, 1, headroom).admits());
    }
}

/// The remaining quota of a prepared cell and the time of the next refill are exact.
fn check_promises(run: &Run, idle_ns: u64) {
    let mut copy = run.clone();
    let look = copy.step(0);
    assert_eq!((look.admission, look.charge.cost), (Admission::Admit { delay: Span::ZERO }, 0));
    assert_eq!(copy.step(u64::MAX).admission, Admission::Refuse { retry_after: None });
    assert_eq!(copy.cell, run.cell, "a look and a refusal change nothing");

    let rest = look.remaining;
    let all = run.probe(0, rest);
    assert!(all.admits() && all.remaining == 0);
    if let Admission::Refuse { retry_after } = run.probe(0, rest + 1).admission {
        if let Some(wait) = retry_after {
            assert!(!run.probe(wait.as_ns() - 1, rest + 1).admits());
            assert!(run.probe(wait.as_ns(), rest + 1).admits() || run.has_reserved());
        }
    } else {
        panic!("more is admitted than remains");
    }

    if run.has_reserved() {
        // Reserved units count as spent once no worker can spend them.
        return;
    }
    let (more, full) = (look.more_in.as_ns(), look.full_in.as_ns());
    let most = run.probe(full, 0).remaining;
    assert!(more <= full && rest <= most);
    if more == 0 {
        assert_eq!(rest, most);
    } else {
        assert_eq!(run.probe(more - 1, 0).remaining, rest);
        assert!(run.probe(more, 0).remaining > rest);
    }
    let back = run.probe(full, 0);
    assert_eq!((back.more_in, back.full_in), (Span::ZERO, Span::ZERO));
    let later = run.probe(full + idle_ns % Allowance::MAX_UNIT.as_ns(), 0).remaining;
    // A rule that warms up gets cold again.
    const WARM_UP: u8 = 8;
    let gets_cold = run.judge.quota.parameters().kind == WARM_UP;
    assert!(later == most || gets_cold && later < most, "{later} later, {most} before");
}

/// Runs one operation on a prepared cell.
fn operate(run: &mut Run, input: &mut Input, charges: &mut Vec<Charge>) {
    match input.below(8) {
        0 | 1 => run.now = run.now.saturating_add(input.scaled()).min(LATEST),
        2 => run.now = run.now.saturating_sub(input.scaled()).max(1),
        3 => {
            let (rest, cost) = (run.look().remaining, input.scaled());
            let verdict = run.step(cost);
            assert_eq!(verdict.admits(), cost <= rest);
            assert_eq!(verdict.charge.cost, if cost <= rest { cost } else { 0 });
            assert_eq!(verdict.remaining, rest.checked_sub(cost).unwrap_or(rest));
            charges.push(verdict.charge);
            if !verdict.admits() {
                run.count_refusal();
            }
        }
        4 => {
            if !charges.is_empty() {
                let charge = charges.swap_remove(input.below(charges.len()));
                run.refund(charge);
            }
        }
        5 => {
            let before = run.look().remaining;
            let verdict = run.step(1 + input.scaled() % before.max(1));
            run.refund(verdict.charge);
            run.prepare();
            // Foreign bytes may contain earlier refunds.
            assert!(!run.is_ours || run.look().remaining <= before, "more is refunded than was charged");
        }
        6 => reserve(run, input),
        _ => settle(run, input),
    }
}

/// Charges units whatever is left, and refunds them: nothing changes. Then charges them again.
fn settle(run: &mut Run, input: &mut Input) {
    let algorithm = run.judge.quota.algorithm();
    if !algorithm.can_settle() {
        return;
    }
    let (before, now, cost) = (run.look(), run.time(), input.scaled());
    // A penalty's state follows the count.
    let count = ..algorithm.size();
    let charge = algorithm.charge(&mut run.cell[count], now, cost);
    assert!(charge.cost <= cost && run.look().remaining <= before.remaining);
    algorithm.settle(&mut run.cell[count], now, charge, 0);
    let promised = |verdict: Verdict| (verdict.remaining, verdict.more_in, verdict.full_in);
    // Foreign bytes may contain earlier refunds.
    assert!(!run.is_ours || promised(run.look()) == promised(before), "a charge and its refund");
    let left = run.look().remaining;
    let charge = algorithm.charge(&mut run.cell[count], now, cost);
    assert!(!run.is_ours || run.look().remaining == left.saturating_sub(charge.cost));
}

/// A worker makes a reservation, spends a part and refunds the rest: only the spent part is
/// missing.
fn reserve(run: &mut Run, input: &mut Input) {
    let Some(reserve) = run.judge.quota.as_reserve().copied() else {
        return;
    };
    run.prepare();
    let before = run.look().remaining;
    let now = run.time();
    // The last unit is never reserved.
    let part = before.saturating_sub(1).min(input.scaled());
    if part == 0 {
        return;
    }
    let Some(mut reservation) = reserve.reserve(&mut run.cell[..reserve.size()], now, part) else {
        assert!(!run.is_ours, "{before} units are too few for the reservation");
        return;
    };
    assert!(run.look().remaining <= before.saturating_sub(reservation.charge.cost));
    let mut spent = 0;
    for _ in 0..input.below(6) {
        let cost = u64::from(input.byte());
        spent += if reservation.spend(cost) { cost } else { 0 };
    }
    assert!(spent <= reservation.charge.cost);
    reserve.release(&mut run.cell[..reserve.size()], now, &reservation);
    let left = run.look().remaining;
    assert!(
        !run.is_ours || left == before - spent,
        "{left} of {before} without {spent}, {} {:?} at {now:?}",
        run.judge.quota.canonical_form(),
        run.cell
    );
}
