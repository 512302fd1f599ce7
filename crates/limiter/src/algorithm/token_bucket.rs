//! `TB`, the token bucket: refills at `rpu` per `unit` up to `burst`; each request takes its cost.
//! The cell stores the instant at which the bucket is full instead of a level, as in the generic
//! cell rate algorithm (ITU-T I.371). Instants are exact rationals ([`super::rate`]).
//!
//! ```text
//!   level                        a token takes unit / rpu
//!   burst ┤          ╭─────────  fill =        burst · unit / rpu
//!         │     ╱╲  ╱            level(now) =  burst − (full_at − now) · rpu / unit, at most burst
//!         │    ╱  ╲╱             admitted  ⇔  max(full_at, now) + cost · unit / rpu ≤ now + fill
//!       0 ┼───────────┼────►     and then full_at := the left-hand side
//!                     full_at
//! ```
//!
//! **Bound.** At most `burst + t · rpu / unit` units in any span `t`.
//! `docs/internals/design/algorithms.md` has waiting, reservations, settling, other quotas
//! and clocks.

use super::bytes::{add_one, u32_at, u64_at, u128_at, whole, write};
use super::kind::Kind;
use super::rate::{Amount, Exact, Rate};
use super::values::{COLD_FACTOR, SAVED_FOR, in_proportion, part};
use super::warm_up::{self, WarmUp};
use super::{
    Admission, Algorithm, Allowance, Charge, MAX_SKEW, MAX_WAIT, Parameters, QuotaError, RESERVED_FOR,
    Reservation, Verdict,
};
use diana_base::time::{Span, Time};

/// The level of a new bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Start {
    /// A new bucket holds `burst` tokens.
    Full,
    /// A new bucket is empty; the actor saves tokens from its first request on.
    Empty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    rate: Rate,
    /// How long an empty bucket takes to fill.
    fill: Exact,
    /// `fill` plus `max_wait`: how far ahead of now `full_at` may be after a request.
    reach: Exact,
    /// The tokens that come in `reach`: the most that one request may cost.
    capacity: u64,
    /// The largest debt below an empty bucket that is not clamped, with what settling may charge.
    slack: Exact,
    start: Start,
    /// The numbers of this quota, as cells carry them.
    numbers: Numbers,
}

/// The layout of a cell, little-endian. `full_at`: nanoseconds `u64`, fraction `u32`. The number of
/// refunds `u32`, of clamps `u16` and of changes of rate `u16`; all wrap. The latest instant of a
/// charge `u64`. The number of reserved units `u32`. The [`Numbers`] of the carried quota.
const SIZE: usize = 48;
const FRACTION: usize = 8;
const REFUNDS: usize = 12;
/// Clamps and changes together: the second stamp of a charge.
const CLAMPS: usize = 16;
const ONE_CHANGE: u32 = 1 << 16;
/// The clamps: the stamp of a reservation, whose units are the same at any rate.
const CLAMPS_ONLY: u32 = ONE_CHANGE - 1;
const LATEST: usize = 20;
const RESERVED: usize = 28;
const NUMBERS: usize = 32;

/// The numbers of a quota, as a cell carries them: little-endian, in this order. All are zero in a
/// new cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Numbers {
    rpu: u32,
    unit_ms: u32,
    burst: u32,
    /// The units to borrow, or `max_wait` in ms with [`IS_WAIT`].
    more: u32,
}

/// Marks a wait in [`Numbers`]. It is above the most units to borrow.
const IS_WAIT: u32 = 1 << 31;

impl Numbers {
    fn of(quota: Allowance, burst: u64, max_wait: Span) -> Numbers {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let more = if max_wait > Span::ZERO { number(ms(max_wait)) | IS_WAIT } else { 0 };
        Numbers { rpu: number(quota.rpu), unit_ms: number(ms(quota.unit)), burst: number(burst), more }
    }

    /// The numbers as a cell carries them.
    fn bits(self) -> u128 {
        let Numbers { rpu, unit_ms, burst, more } = self;
        u128::from(rpu) | u128::from(unit_ms) << 32 | u128::from(burst) << 64 | u128::from(more) << 96
    }

    fn of_cell(cell: &[u8]) -> Numbers {
        let bits = u128_at(cell, NUMBERS);
        let [rpu, unit_ms, burst, more] =
            [0, 32, 64, 96].map(|place| (bits >> place & u128::from(u32::MAX)) as u32);
        Numbers { rpu, unit_ms, burst, more }
    }

    fn borrowing(self, borrow: u64) -> Numbers {
        let borrow = u32::try_from(borrow).unwrap_or(u32::MAX);
        Numbers { more: borrow.min(IS_WAIT.saturating_sub(1)), ..self }
    }

    /// `max_wait`, and the units to borrow.
    fn more(self) -> (Span, u64) {
        match self.more & IS_WAIT {
            0 => (Span::ZERO, self.more.into()),
            _ => (Span::from_ms((self.more ^ IS_WAIT).into()), 0),
        }
    }

    /// The same numbers with room for what either quota may lack. Units to borrow next to a wait
    /// count as burst, unless the numbers say how much is saved.
    fn with_room_of(self, other: Numbers, start: Start) -> Numbers {
        let borrowed = |more: u32| if more & IS_WAIT > 0 || start == Start::Empty { 0 } else { more };
        let (burst, others_burst) = match (self.more ^ other.more) & IS_WAIT {
            0 => (self.burst, other.burst),
            _ => (
                self.burst.saturating_add(borrowed(self.more)),
                other.burst.saturating_add(borrowed(other.more)),
            ),
        };
        Numbers { burst: burst.max(others_burst), more: self.more.max(other.more), ..self }
    }

    /// The bucket with these numbers. `None` if no configuration has them.
    fn bucket(self, start: Start) -> Option<TokenBucket> {
        let Numbers { rpu, unit_ms, burst, .. } = self;
        let quota = Allowance { rpu: rpu.into(), unit: Span::from_ms(unit_ms.into()) };
        let (max_wait, borrow) = self.more();
        let is_allowed = (1..=Allowance::MAX_RPU).contains(&quota.rpu)
            && (Allowance::MIN_UNIT..=Allowance::MAX_UNIT).contains(&quota.unit)
            && (1..=Allowance::MAX_RPU).contains(&burst.into())
            && max_wait <= MAX_WAIT
            && borrow <= Allowance::MAX_RPU
            && years(quota, u64::from(burst).saturating_add(borrow)) <= LONGEST_FILL_YEARS;
        is_allowed.then(|| {
            let bucket = TokenBucket::new(quota, burst.into(), start, max_wait).borrowing(borrow);
            TokenBucket { numbers: self, ..bucket }
        })
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Whole milliseconds, as all spans of a configuration are.
fn ms(span: Span) -> u64 {
    span.as_ns().checked_div(1_000_000).unwrap_or(0)
}

/// A longer fill time is surely a mistake, and would overflow the arithmetic.
pub(super) const LONGEST_FILL_YEARS: u128 = 100;
const YEAR_NS: u64 = 365 * 86_400 * 1_000_000_000;

/// How many years `tokens` take to come, rounded up.
pub(super) fn years(quota: Allowance, tokens: u64) -> u128 {
    let a_year = u128::from(quota.rpu.max(1)).saturating_mul(YEAR_NS.into());
    u128::from(tokens).saturating_mul(quota.unit.as_ns().into()).div_ceil(a_year)
}

/// The numbers of a token bucket besides its quota. The default is that of a rule without them.
#[derive(Clone, Copy, Debug, Default)]
pub struct BucketOptions {
    /// The most tokens that the bucket holds: 1 to 10⁹, with `warm_up` at least 3. `None`: as many
    /// as come in one unit.
    pub burst: Option<u64>,
    /// Whether a new bucket is empty, so that the actor saves tokens from its first request on.
    pub starts_empty: bool,
    /// The longest wait of a request that finds no token: at most [`MAX_WAIT`].
    pub max_wait: Span,
    /// How long an idle rule takes to be cold: 1 s to one day. Requests of a cold rule take more
    /// than one token. No request may wait then.
    pub warm_up: Option<Span>,
}

/// See [`Algorithm::token_bucket`].
pub(super) fn build(quota: Allowance, options: BucketOptions) -> Result<Algorithm, QuotaError> {
    quota.check(Allowance::MAX_RPU)?;
    let BucketOptions { burst, starts_empty, max_wait, warm_up } = options;
    let least = if warm_up.is_some() { COLD_FACTOR } else { 1 };
    let burst = burst.unwrap_or(quota.rpu.max(least));
    if !(1..=Allowance::MAX_RPU).contains(&burst) {
        return Err(QuotaError::Burst);
    }
    if max_wait > MAX_WAIT {
        return Err(QuotaError::MaxWait);
    }
    if years(quota, burst) > LONGEST_FILL_YEARS {
        return Err(QuotaError::FillTime { burst });
    }
    let Some(warm_up) = warm_up else {
        let start = if starts_empty { Start::Empty } else { Start::Full };
        return Ok(Algorithm::TokenBucket(TokenBucket::new(quota, burst, start, max_wait)));
    };
    if !warm_up::SPANS.contains(&warm_up) {
        return Err(QuotaError::WarmUp);
    }
    if max_wait > Span::ZERO {
        return Err(QuotaError::WarmUpWaits);
    }
    if burst < COLD_FACTOR {
        return Err(QuotaError::WarmUpBurst);
    }
    Ok(Algorithm::WarmUp(WarmUp::new(quota, burst, starts_empty, warm_up)))
}

impl TokenBucket {
    fn new(quota: Allowance, burst: u64, start: Start, max_wait: Span) -> TokenBucket {
        let (rate, unit) = (Rate::of(quota), Exact::whole(quota.unit.as_ns()));
        // With this slack, the next token comes within one unit even from the deepest debt.
        let slack = rate.sub(unit, rate.span_of(1)).min(Exact::whole(MAX_SKEW.as_ns()));
        let fill = rate.span_of(burst);
        let reach = rate.add(fill, Exact::whole(max_wait.as_ns()));
        let (capacity, numbers) = (rate.tokens_in(reach), Numbers::of(quota, burst, max_wait));
        TokenBucket { rate, fill, reach, capacity, slack, start, numbers }
    }

    /// The same bucket, which settling may push so many units below empty.
    pub(super) fn borrowing(self, borrow: u64) -> TokenBucket {
        let TokenBucket { rate, slack, .. } = self;
        let slack = rate.add(rate.sub(slack, rate.span_of(self.borrowable())), rate.span_of(borrow));
        let numbers = if borrow == self.borrowable() { self.numbers } else { self.numbers.borrowing(borrow) };
        TokenBucket { slack, numbers, ..self }
    }

    fn burst(&self) -> u64 {
        self.numbers.burst.into()
    }

    /// How many units settling may charge below zero.
    fn borrowable(&self) -> u64 {
        self.numbers.more().1
    }

    /// See [`super::Algorithm::without_waiting`].
    pub(super) fn without_waiting(&self) -> Option<TokenBucket> {
        self.may_wait().then_some(TokenBucket { reach: self.fill, capacity: self.burst(), ..*self })
    }

    /// See [`super::Algorithm::at`]. The burst moves from `rpu` on in proportion to the limit, and
    /// so do the units to borrow.
    pub(super) fn at(&self, quota: Allowance, rpu: u64, least: u64) -> TokenBucket {
        let moved = |number: u64| in_proportion(number, quota.rpu, rpu).min(Allowance::MAX_RPU);
        self.with(quota, moved(self.burst()).max(1).max(least), moved(self.borrowable()))
    }

    /// Whether a limit may move under this bucket. The turn of a request that waits was computed
    /// with the limit at its arrival.
    pub(super) fn can_adapt(&self) -> bool {
        !self.may_wait() && self.borrowable() == 0
    }

    /// See [`super::Algorithm::share`]. If `rpu` was rounded down, debt takes up to twice as long.
    /// Where that is too long, the burst is halved, and if need be the units to borrow.
    pub(super) fn share(&self, quota: Allowance, of: u64, least: u64) -> TokenBucket {
        let (burst, borrow) = (part(self.burst(), of, least), part(self.borrowable(), of, least));
        let half = |number: u64| (number >> 1).max(least.min(number)).max(number.min(1));
        let all = [(burst, borrow), (half(burst), borrow), (half(burst), half(borrow))];
        let fits =
            |(burst, borrow): &&(u64, u64)| years(quota, burst.saturating_add(*borrow)) <= LONGEST_FILL_YEARS;
        let (burst, borrow) = all.iter().find(fits).or(all.last()).copied().unwrap_or((burst, borrow));
        self.with(quota, burst, borrow)
    }

    /// The same bucket with other numbers.
    fn with(&self, quota: Allowance, burst: u64, borrow: u64) -> TokenBucket {
        let (max_wait, _) = self.numbers.more();
        let bucket = TokenBucket::new(quota, burst, self.start, max_wait).borrowing(borrow);
        if self.may_wait() { bucket } else { bucket.without_waiting().unwrap_or(bucket) }
    }

    /// The instant at which the bucket is full. Foreign bytes may hold any fraction, so it is
    /// limited.
    fn full_at(&self, cell: &[u8]) -> Exact {
        Exact { ns: u64_at(cell, 0), fraction: u32_at(cell, FRACTION).min(self.rate.per.saturating_sub(1)) }
    }

    fn store(&self, cell: &mut [u8], full_at: Exact) {
        write(cell, 0, full_at.ns.to_le_bytes());
        write(cell, FRACTION, full_at.fraction.to_le_bytes());
        write(cell, NUMBERS, self.numbers.bits().to_le_bytes());
    }

    /// Whether the cell carries the same quota, or is new.
    fn is_own(&self, cell: &[u8; SIZE]) -> bool {
        let numbers = u128_at(cell, NUMBERS);
        numbers == self.numbers.bits() || numbers == 0
    }

    /// The bucket with the quota that the cell carries, if this is another one.
    #[inline(never)]
    fn other(&self, cell: &[u8]) -> Option<TokenBucket> {
        let numbers = Numbers::of_cell(cell);
        if numbers == self.numbers { None } else { numbers.bucket(self.start) }
    }

    /// The bucket with the quota that the cell carries.
    fn carried(&self, cell: &[u8]) -> TokenBucket {
        self.other(cell).unwrap_or(*self)
    }

    /// Whether tokens come faster than in the other bucket.
    fn is_faster(&self, other: &TokenBucket) -> bool {
        let product = |ns: u64, per: u32| u128::from(ns).saturating_mul(per.into());
        product(self.rate.ns, other.rate.per) < product(other.rate.ns, self.rate.per)
    }

    /// Takes over a prepared cell of another bucket, with the tokens that it lacks now.
    fn take_over(&self, other: &TokenBucket, cell: &mut [u8], now: Time) {
        let (rate, instant) = (self.rate, Exact::whole(now.as_ns()));
        let more = match self.start {
            Start::Full => 0,
            // The tokens that the bucket holds are those that the actor saved.
            Start::Empty => signed(self.burst()).saturating_sub(signed(other.burst())),
        };
        let lacking = other.rate.convert(other.rate.sub(other.full_at(cell), instant), more, rate, true);
        let full_at = rate.add(instant, lacking);
        let reserved = other.reserved(cell);
        let full_at = if reserved == 0 || reserved < self.burst() && self.reach == self.fill {
            full_at
        } else {
            // A bucket that waits reserves nothing, and none reserves more than it holds, so what
            // is reserved counts as spent.
            self.store_reserved(cell, 0);
            add_one(cell, CLAMPS);
            rate.add(full_at, rate.span_of(reserved))
        };
        if self.follows_clock(cell, now) {
            // The other bucket does not, so it lacks already what comes between the two instants.
            write(cell, LATEST, now.as_ns().to_le_bytes());
            add_one(cell, CLAMPS);
        }
        // A cell is new if this instant is zero.
        self.store(cell, full_at.max(Exact::whole(1)));
        if more != 0 || (other.rate.ns, other.rate.per) != (rate.ns, rate.per) {
            write(cell, CLAMPS, u32_at(cell, CLAMPS).wrapping_add(ONE_CHANGE).to_le_bytes());
        }
    }

    /// [`Kind::prepare`] of a cell that carries the quota of `other`.
    #[inline(never)]
    fn prepare_other(&self, other: &TokenBucket, cell: &mut [u8], now: Time) -> bool {
        let is_changed = other.prepare_own(cell, now);
        let is_faster = self.is_faster(other);
        // A bucket saves tokens up to the carried burst, so a higher one is carried as well.
        let saves_more = self.start == Start::Empty && self.burst() > other.burst();
        let rate = if is_faster { self.numbers } else { other.numbers };
        if !is_faster && !saves_more {
            return is_changed;
        }
        let both = rate.with_room_of(if is_faster { other.numbers } else { self.numbers }, self.start);
        // More debt than takes a century is not kept.
        let both = both.bucket(self.start).or(rate.bucket(self.start)).unwrap_or(*self);
        both.take_over(other, cell, now);
        // Debt of two clocks' difference may be larger than this rate allows.
        both.prepare_own(cell, now);
        true
    }

    /// [`Kind::step`] of a cell that carries the quota of `other`.
    #[inline(never)]
    fn step_other(&self, other: &TokenBucket, cell: &mut [u8; SIZE], now: Time, cost: u64) -> Verdict {
        let any = Exact::whole(u64::MAX);
        let mut taken = *cell;
        self.take_over(other, &mut taken, now);
        let verdict = self.step_own(&mut taken, now, cost, any);
        if verdict.charge.cost > 0 {
            *cell = taken;
            return verdict;
        }
        // Nothing is charged, so the missing tokens still come at the carried rate.
        let (mut looked, at_its_rate) = (*cell, self.at_rate_of(other));
        at_its_rate.take_over(other, &mut looked, now);
        let Verdict { admission, more_in, full_in, charge, .. } =
            at_its_rate.step_own(&mut looked, now, cost, any);
        let admission = match (verdict.admission, admission) {
            (Admission::Refuse { retry_after: Some(_) }, refused @ Admission::Refuse { .. }) => refused,
            (admission, _) => admission,
        };
        Verdict { admission, more_in, full_in, charge: Charge { cost: 0, ..charge }, ..verdict }
    }

    /// The same bucket, into which tokens come at the rate of the other one. What a cell lacks is
    /// rounded up when this bucket takes it over, so the longest wait is rounded down: both buckets
    /// then admit at the same instants.
    fn at_rate_of(&self, other: &TokenBucket) -> TokenBucket {
        let rate = other.rate;
        let wait = self.rate.convert(self.rate.sub(self.reach, self.fill), 0, rate, false);
        let fill = rate.span_of(self.burst());
        TokenBucket { rate, fill, reach: rate.add(fill, wait), ..*self }
    }

    /// [`Kind::step`] of a cell that carries this quota. The cell lacks at most what comes in
    /// `possible`.
    fn step_own(&self, cell: &mut [u8; SIZE], now: Time, cost: u64, possible: Exact) -> Verdict {
        match self.rate.per {
            1 => self.step_in::<u64>(cell, now, cost, possible),
            _ => self.step_in::<Exact>(cell, now, cost, possible),
        }
    }

    /// The instant at which a bucket that is empty at `now` will be full.
    fn full_at_if_empty(&self, now: Time) -> Exact {
        self.rate.add(Exact::whole(now.as_ns()), self.fill)
    }

    /// The latest `full_at` that is possible at `now`.
    fn latest_possible(&self, now: Time) -> Exact {
        self.rate.add(self.latest_full_at(now), self.slack)
    }

    /// The number of reserved units. It is always below `burst`, so that foreign bytes block no
    /// bucket.
    fn reserved(&self, cell: &[u8]) -> u64 {
        if self.reach == self.fill {
            u64::from(u32_at(cell, RESERVED)).min(self.burst().saturating_sub(1))
        } else {
            0
        }
    }

    fn store_reserved(&self, cell: &mut [u8], reserved: u64) {
        write(cell, RESERVED, u32::try_from(reserved).unwrap_or(u32::MAX).to_le_bytes());
    }

    /// Whether the clock stepped back since the last charge of a bucket that may owe units. Then
    /// the bucket keeps what it lacked at that charge.
    fn follows_clock(&self, cell: &[u8], now: Time) -> bool {
        self.borrowable() > 0 && Time::from_ns(u64_at(cell, LATEST)).since(now) > MAX_SKEW
    }

    /// The instant at which the bucket is full except for reserved units, after taking `more`
    /// units.
    fn full_at_after(&self, cell: &[u8], now: Time, more: u64) -> Exact {
        let full_at = self.full_at(cell).max(Exact::whole(now.as_ns()));
        self.rate.add(full_at, self.rate.span_of(more))
    }

    /// Whether a cell is valid at `now`, as most cells are: nothing is reserved, and the bucket is
    /// not too far from full. `false`: not known.
    fn is_valid(&self, cell: &mut [u8], now: Time) -> bool {
        let mut short = [0; SIZE];
        let cell = whole(cell, &mut short);
        let ahead = u64_at(cell, 0).saturating_sub(now.as_ns());
        // Whole nanoseconds decide, except within the last one.
        let is_near = ahead < self.reach.ns.saturating_add(self.slack.ns);
        let is_simple = self.borrowable() == 0 && self.start == Start::Full && self.reserved(cell) == 0;
        is_near && is_simple && self.is_own(cell)
    }

    /// The instant at which the bucket is full except for reserved units, and the number of
    /// reserved units. If all reservations must have expired, their units count as spent, and the
    /// number is 0. They also count as expired if the latest charge is further ahead than
    /// [`MAX_SKEW`].
    fn without_expired(&self, cell: &[u8], now: Time) -> (Exact, u64) {
        let (mut full_at, reserved, latest) =
            (self.full_at(cell), self.reserved(cell), Time::from_ns(u64_at(cell, LATEST)));
        if self.follows_clock(cell, now) {
            full_at = self.rate.sub(full_at, Exact::whole(latest.since(now).as_ns()));
        }
        let expires_at =
            if latest.since(now) > MAX_SKEW { now } else { latest.after(RESERVED_FOR).after(MAX_SKEW) };
        match reserved > 0 && expires_at <= now {
            true => {
                (self.rate.add(full_at.max(Exact::whole(expires_at.as_ns())), self.rate.span_of(reserved)), 0)
            }
            false => (full_at, reserved),
        }
    }

    /// [`Kind::step`] in the arithmetic of the rate. All spans are relative to `now`.
    fn step_in<A: Amount>(&self, cell: &mut [u8; SIZE], now: Time, cost: u64, possible: Exact) -> Verdict {
        let (rate, reserved) = (self.rate, self.reserved(cell));
        let (add, sub) = (|a, b| A::add(rate, a, b), |a, b| A::sub(rate, a, b));
        let instant = A::of(Exact::whole(now.as_ns()));
        let reserved_span = if reserved == 0 { A::default() } else { A::span_of(rate, reserved) };
        // How far ahead an empty bucket is full, and a bucket with its latest `full_at`.
        let (empty, latest) = (sub(A::of(self.fill), reserved_span), sub(A::of(self.reach), reserved_span));
        let before = sub(A::of(self.full_at(cell)), instant).min(A::of(possible));
        let after = add(before, A::span_of(rate, cost.min(self.capacity)));
        let span = |amount: A| Span::from_ns(amount.exact().ceil());
        let (admission, ahead) = if cost > self.capacity {
            (Admission::Refuse { retry_after: None }, before)
        } else if cost == 0 {
            (Admission::Admit { delay: Span::ZERO }, before)
        } else if after <= latest {
            // The request waits until its tokens have come.
            (Admission::Admit { delay: span(sub(after, empty)) }, after)
        } else {
            (Admission::Refuse { retry_after: Some(span(sub(after, latest))) }, before)
        };
        let charged = ahead > before;
        if charged {
            self.store(cell, add(instant, ahead).exact());
            let latest_charge = now.as_ns().max(u64_at(cell, LATEST));
            write(cell, LATEST, latest_charge.to_le_bytes());
        }
        let (remaining, next) = sub(latest, ahead).tokens_and_next(rate);
        let more_in = if ahead > latest {
            // The debt below an empty bucket comes back first.
            span(add(sub(ahead, latest), A::span_of(rate, 1)))
        } else if remaining < self.capacity.saturating_sub(reserved) {
            Span::from_ns(next)
        } else {
            Span::ZERO
        };
        Verdict {
            admission,
            remaining,
            more_in,
            full_in: span(ahead),
            charge: Charge {
                cost: if charged { cost } else { 0 },
                at: now,
                booked_at: now.after(Span::from_ns(before.exact().ns)),
                stamp: (u32_at(cell, REFUNDS), u32_at(cell, CLAMPS)),
            },
        }
    }

    /// [`Kind::prepare`] of a cell that carries this quota.
    fn prepare_own(&self, cell: &mut [u8], now: Time) -> bool {
        let ((full_at, reserved), last) = (self.without_expired(cell, now), self.latest_possible(now));
        let is_too_far_ahead = self.rate.add(full_at, self.rate.span_of(reserved)) > last;
        let follows_clock = self.follows_clock(cell, now);
        if is_too_far_ahead || follows_clock || reserved < self.reserved(cell) {
            // A bucket that starts empty is new if this instant is zero.
            let full_at = full_at.max(Exact::whole(now.as_ns().min(1)));
            self.store(cell, if is_too_far_ahead { last } else { full_at });
            self.store_reserved(cell, 0);
            add_one(cell, CLAMPS);
            if is_too_far_ahead || follows_clock {
                write(cell, LATEST, now.as_ns().to_le_bytes());
            }
            return true;
        }
        let new = self.start == Start::Empty && full_at == Exact::default();
        if new {
            self.store(cell, self.full_at_if_empty(now));
        }
        new
    }

    /// [`Kind::refund`] in a prepared cell that carries this quota. A charge from before the
    /// rate changed has another stamp, and is not refunded.
    fn refund_own(&self, cell: &mut [u8], now: Time, charge: Charge) {
        let (refunds, clamps) = charge.stamp;
        if clamps != u32_at(cell, CLAMPS) {
            return;
        }
        let full_at = self.full_at(cell);
        let none_refunded = refunds == u32_at(cell, REFUNDS);
        let most = self.capacity.saturating_add(self.borrowable());
        let charged = self.rate.span_of(charge.cost.min(most));
        let is_last = self.rate.sub(full_at, charged).ns == charge.booked_at.as_ns();
        let others_wait = self.reach > self.fill && full_at > self.full_at_if_empty(now);
        if others_wait && !is_last {
            return;
        }
        let full_without = if none_refunded { charge.booked_at } else { charge.at };
        // If the clock stepped back since a later charge, `now` is too early to measure the gain.
        let now = now.max(Time::from_ns(u64_at(cell, LATEST)));
        let gained = Exact::whole(now.since(full_without).as_ns());
        let back = self.rate.sub(charged, gained);
        self.store(cell, self.rate.sub(full_at, back));
        // The bucket is exactly as before the charge, so the stamps of earlier charges stay valid.
        // Of several waiting requests, the last can leave, and then the one before it.
        let restores_state = none_refunded && is_last && gained == Exact::default();
        if !restores_state {
            add_one(cell, REFUNDS);
        }
    }

    /// The latest `full_at` that a request admitted at `now` may leave.
    fn latest_full_at(&self, now: Time) -> Exact {
        self.rate.add(Exact::whole(now.as_ns()), self.reach)
    }
}

impl Kind for TokenBucket {
    fn canonical_form(&self) -> String {
        let start = match self.start {
            Start::Full => "full",
            Start::Empty => "empty",
        };
        // The word "lent" is part of the stored layout.
        let wait = self.rate.sub(self.reach, self.fill).ns;
        let Rate { ns, per } = self.rate;
        let canonical_form = format!("TB {per} in {ns} ns, {} from {start}, {wait} ns lent", self.burst());
        super::borrowed(canonical_form, self.borrowable())
    }

    /// Any two buckets that begin alike: the cell carries its quota.
    fn form(&self) -> String {
        match self.start {
            Start::Full => "TB from full".into(),
            Start::Empty => "TB from empty".into(),
        }
    }

    fn size(&self) -> usize {
        SIZE
    }

    fn shown(&self, _: Allowance) -> Allowance {
        Allowance { rpu: self.capacity, unit: Span::from_ns(self.rate.span_of(self.capacity).ceil()) }
    }

    fn may_wait(&self) -> bool {
        self.reach > self.fill
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        if self.is_valid(cell, now) {
            return false;
        }
        match self.other(cell) {
            None => self.prepare_own(cell, now),
            Some(other) => self.prepare_other(&other, cell, now),
        }
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let mut short = [0; SIZE];
        let cell = whole(cell, &mut short);
        if !self.is_own(cell)
            && let Some(other) = self.other(cell)
        {
            return self.step_other(&other, cell, now, cost);
        }
        self.step_own(cell, now, cost, self.rate.add(self.reach, self.slack))
    }

    /// Without the charge the bucket would have been full earlier, and would have gained nothing
    /// from then on. With the charge it kept gaining. The refund is reduced by this gain.
    ///
    /// Without the charge the bucket would have been full at `booked_at`. If another charge was
    /// refunded since, that instant may be earlier, at the earliest the time of the charge. If the
    /// bucket was clamped since, the charge may be gone already, and nothing is refunded. Nothing
    /// is refunded either while later requests wait, because their turns were computed with the
    /// charge.
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        let bucket = self.carried(cell);
        bucket.prepare_own(cell, now);
        bucket.refund_own(cell, now, charge);
    }

    fn parameters(&self) -> Parameters {
        let max_wait = Span::from_ns(self.rate.sub(self.reach, self.fill).ns);
        let slack = self.rate.sub(self.slack, self.rate.span_of(self.borrowable()));
        Parameters::token_bucket(self.rate, self.burst(), max_wait, self.start == Start::Empty, slack)
            .borrowing(self.borrowable())
    }

    /// Reserved units count as spent when their reservations must have expired.
    fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        let bucket = self.carried(cell);
        let (full_at, reserved) = bucket.without_expired(cell, now);
        if self.start == Start::Empty {
            return if full_at == Exact::default() { Span::ZERO } else { SAVED_FOR };
        }
        let expires_at = Time::from_ns(u64_at(cell, LATEST)).after(RESERVED_FOR).after(MAX_SKEW);
        let from = if reserved > 0 { full_at.max(Exact::whole(expires_at.as_ns())) } else { full_at };
        let rate = bucket.rate;
        let full_at = rate.add(from, rate.span_of(reserved)).min(bucket.latest_possible(now));
        Span::from_ns(rate.sub(full_at, Exact::whole(now.as_ns())).ceil())
    }

    fn can_reserve(&self) -> bool {
        !self.may_wait()
    }

    fn reserve(&self, cell: &mut [u8], now: Time, amount: u64) -> Option<Reservation> {
        if self.other(cell).is_some() {
            return None;
        }
        let reserved = self.reserved(cell).saturating_add(amount);
        let fits =
            reserved < self.burst() && self.full_at_after(cell, now, reserved) <= self.full_at_if_empty(now);
        if fits {
            self.store(cell, self.full_at(cell));
            self.store_reserved(cell, reserved);
            if Time::from_ns(u64_at(cell, LATEST)).since(now) > MAX_SKEW {
                // The clock stepped back: earlier charges are no longer refunded.
                write(cell, LATEST, now.as_ns().to_le_bytes());
                add_one(cell, CLAMPS);
            }
            write(cell, LATEST, now.as_ns().max(u64_at(cell, LATEST)).to_le_bytes());
        }
        let stamp = (0, u32_at(cell, CLAMPS) & CLAMPS_ONLY);
        let charge = Charge { cost: amount, at: now, booked_at: now, stamp };
        fits.then_some(Reservation { charge, ..Reservation::default() })
    }

    /// Does nothing if the bucket was clamped since, or if the reservation expired: its units count
    /// as spent already.
    fn release(&self, cell: &mut [u8], now: Time, reservation: &Reservation) {
        let bucket = self.carried(cell);
        bucket.prepare_own(cell, now);
        if reservation.charge.stamp.1 == u32_at(cell, CLAMPS) & CLAMPS_ONLY {
            bucket.store_reserved(cell, bucket.reserved(cell).saturating_sub(reservation.charge.cost));
            bucket.store(cell, bucket.full_at_after(cell, now, reservation.spent));
            write(cell, LATEST, now.as_ns().max(u64_at(cell, LATEST)).to_le_bytes());
        }
    }

    /// A request that waits has its tokens for certain, so its bucket cannot settle.
    fn can_settle(&self) -> bool {
        !self.may_wait()
    }

    fn charge(&self, cell: &mut [u8], now: Time, cost: u64) -> Charge {
        self.prepare(cell, now);
        if let Some(other) = self.other(cell) {
            let mut taken = cell.to_vec();
            self.take_over(&other, &mut taken, now);
            let charge = self.charge_own(&mut taken, now, cost);
            if charge.cost > 0 {
                cell.copy_from_slice(&taken);
            }
            return charge;
        }
        self.charge_own(cell, now, cost)
    }

    /// The units that stay charged come first: without the others, the bucket would have been full
    /// that much later than without the whole charge.
    fn reduce(&self, cell: &mut [u8], now: Time, charge: Charge, cost: u64) {
        let bucket = self.carried(cell);
        bucket.prepare_own(cell, now);
        let most = bucket.capacity.saturating_add(bucket.borrowable());
        let kept = Span::from_ns(bucket.rate.span_of(cost.min(most)).ns);
        let (at, booked_at) = (charge.at.after(kept), charge.booked_at.after(kept));
        let cost = charge.cost.saturating_sub(cost);
        bucket.refund_own(cell, now, Charge { cost, at, booked_at, ..charge });
    }
}

impl TokenBucket {
    /// [`Kind::charge`] of a prepared cell that carries this quota.
    fn charge_own(&self, cell: &mut [u8], now: Time, cost: u64) -> Charge {
        let rate = self.rate;
        let before = self.full_at(cell).max(Exact::whole(now.as_ns()));
        let deepest = rate.add(self.full_at_if_empty(now), rate.span_of(self.borrowable()));
        let deepest = rate.sub(deepest, rate.span_of(self.reserved(cell)));
        let cost = cost.min(rate.tokens_in(rate.sub(deepest, before)));
        if cost > 0 {
            self.store(cell, rate.add(before, rate.span_of(cost)));
            write(cell, LATEST, now.as_ns().max(u64_at(cell, LATEST)).to_le_bytes());
        }
        let stamp = (u32_at(cell, REFUNDS), u32_at(cell, CLAMPS));
        Charge { cost, at: now, booked_at: Time::from_ns(before.ns), stamp }
    }
}
