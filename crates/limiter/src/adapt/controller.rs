//! The controller: one interval's measurements and the old state in, the new state out.

use diana_base::time::Span;

/// Fewer samples than this in an interval are no measurement.
pub(crate) const MIN_SAMPLES: u64 = 8;
/// 1 as a ratio with 16 bits behind the point.
const ONE: u64 = 1 << 16;
/// The number of bits behind the point of a limit in a state.
const POINT: u32 = 16;

/// What a limit follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// [`Interval::quantile_ns`] is to stay at or below `target`.
    Latency {
        /// The highest acceptable latency.
        target: Span,
        /// Which quantile of the latencies, in thousandths: 900 for the p90.
        permille: u32,
    },
    /// The share of errors among the samples is to stay at or below the target.
    Errors {
        /// The highest acceptable share, in millionths.
        target_ppm: u32,
    },
    /// The limit is a multiple of what was used in the last interval.
    Traffic {
        /// The multiple, in hundredths: 150 for one and a half times.
        percent: u32,
    },
}

/// What the limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Requests per unit.
    Rate {
        /// The unit of the rule's quota.
        unit: Span,
    },
    /// Permits in flight.
    Permits,
}

/// The range of a limit, and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The lowest limit.
    pub min: u64,
    /// The highest limit, at most 10⁹. A value below `min` counts as `min`.
    pub max: u64,
    /// The first limit, and the limit to return to without measurements. A value outside the range
    /// counts as the nearest end.
    pub start: u64,
}

/// The measurements of one interval. All numbers count what ended or happened within the
/// interval, except `in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Responses whose latency was measured.
    pub samples: u64,
    /// Errors among the samples.
    pub errors: u64,
    /// The wanted quantile of the latencies in ns, for example the p90.
    pub quantile_ns: u64,
    /// The highest number of requests in flight.
    pub in_flight: u64,
    /// The highest number of requests of one worker that waited for the headers of their responses
    /// from one merge to the next.
    pub stalled: u64,
    /// Requests that the rule let through. For [`Signal::Traffic`], the units that they cost.
    pub admitted: u64,
    /// Requests that the rule refused.
    pub refused: u64,
}

/// The state of the upstream, as one interval shows it.
enum Reading {
    /// Too few samples.
    Unknown,
    /// At or below the target.
    Good,
    /// Above the target, but the queue drains fast enough.
    Draining,
    /// Above the target.
    Over(Cut),
}

/// A reduction. Both fields are relative to the present limit, in 1/65536.
struct Cut {
    /// The next limit.
    limit: u64,
    /// The next ceiling.
    ceiling: u64,
}

/// The state of one adaptive limit. All workers share it as [`AdaptiveState::BYTES`] bytes.
///
/// Any bytes are a state: a [`Controller`] reads a limit outside of its range
/// as the nearest end of the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdaptiveState {
    /// The limit, in 1/65536.
    pub(super) limit: u64,
    /// The capacity that the last reduction found, or the limit before it, in 1/65536. Growth slows
    /// down on its way there.
    pub(super) ceiling: u64,
    /// Intervals in a row in which the limit has grown above the ceiling.
    pub(super) streak: u32,
}

impl AdaptiveState {
    /// The length of a state's bytes.
    pub const BYTES: usize = 20;

    /// The state as bytes: limit, ceiling and streak, little-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        const { assert!(Self::BYTES == 8 + 8 + 4) }
        let mut bytes = [0; Self::BYTES];
        let fields = self.limit.to_le_bytes().into_iter().chain(self.ceiling.to_le_bytes());
        for (to, from) in bytes.iter_mut().zip(fields.chain(self.streak.to_le_bytes())) {
            *to = from;
        }
        bytes
    }

    /// The state that has these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> AdaptiveState {
        let number = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk());
        let streak = bytes.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        AdaptiveState {
            limit: number(0).map_or(0, |bytes| u64::from_le_bytes(*bytes)),
            ceiling: number(8).map_or(0, |bytes| u64::from_le_bytes(*bytes)),
            streak,
        }
    }
}

/// Adapts one limit. The controller itself has no state and reads no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    signal: Signal,
    resource: Resource,
    every: Span,
    /// In 1/65536, as all limits in a state.
    min: u64,
    max: u64,
    start: u64,
}

impl Controller {
    /// A controller for a limit in this range, with one step each interval of `every`.
    #[must_use]
    pub fn new(signal: Signal, resource: Resource, limits: Limits, every: Span) -> Controller {
        let fixed = |limit: u64| limit.min(1_000_000_000) << POINT;
        let (min, max) = (fixed(limits.min), fixed(limits.max).max(fixed(limits.min)));
        Controller { signal, resource, every, min, max, start: fixed(limits.start).clamp(min, max) }
    }

    /// The length of an interval.
    #[must_use]
    pub fn every(&self) -> Span {
        self.every
    }

    /// What the limit counts.
    #[must_use]
    pub fn resource(&self) -> Resource {
        self.resource
    }

    /// The lowest and the highest limit.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        (self.min >> POINT, self.max >> POINT)
    }

    /// Whether the limit follows responses, and not only requests.
    #[must_use]
    pub(crate) fn follows_responses(&self) -> bool {
        !matches!(self.signal, Signal::Traffic { .. })
    }

    /// The latency of a request for which the upstream took so long to respond, or has not
    /// responded after so long. `None` if the request is no sample.
    #[must_use]
    pub fn latency(&self, waited: Option<Span>, has_response: bool) -> Option<Span> {
        match self.signal {
            Signal::Latency { target, .. } if !has_response => {
                // In the bucket of the target, the latency would count as within the target.
                let above = target.as_ns().saturating_add(target.as_ns() / 16);
                waited.filter(|waited| *waited > target).map(|waited| waited.max(Span::from_ns(above)))
            }
            Signal::Latency { .. } => waited,
            _ => has_response.then(|| waited.unwrap_or(Span::ZERO)),
        }
    }

    /// The canonical text of the controller. Rules with equal texts adapt alike.
    #[must_use]
    pub fn canonical_form(&self) -> String {
        let signal = match self.signal {
            Signal::Latency { target, permille } => {
                format!("{} ns for {permille} of 1000", target.as_ns())
            }
            Signal::Errors { target_ppm } => format!("{target_ppm} ppm of errors"),
            Signal::Traffic { percent } => format!("{percent} % of traffic"),
        };
        let [min, max, start] = [self.min, self.max, self.start].map(|limit| limit >> POINT);
        format!("{min} to {max} from {start} by {signal} in {} ns", self.every.as_ns())
    }

    /// The quantile of the latencies that the controller wants, in thousandths. 1000 for a signal
    /// other than latency.
    #[must_use]
    pub fn permille(&self) -> u32 {
        if let Signal::Latency { permille, .. } = self.signal { permille } else { 1_000 }
    }

    /// The state before the first interval.
    #[must_use]
    pub fn start(&self) -> AdaptiveState {
        AdaptiveState { limit: self.start, ceiling: self.start, streak: 0 }
    }

    /// The limit that holds in this state: from `min` to `max`, whatever the state.
    #[must_use]
    pub fn limit(&self, state: AdaptiveState) -> u64 {
        self.clamped(state.limit) >> POINT
    }

    /// The state after one more interval.
    #[must_use]
    pub fn step(&self, state: AdaptiveState, interval: &Interval) -> AdaptiveState {
        let state =
            AdaptiveState { limit: self.clamped(state.limit), ceiling: self.clamped(state.ceiling), ..state };
        let next = match (self.signal, self.reading(interval)) {
            (Signal::Traffic { percent }, _) => self.follow(state, interval, percent),
            (_, Reading::Unknown) => self.drift(state),
            (_, Reading::Over(cut)) => reduce(state, &cut),
            (_, Reading::Good) if self.is_used(state, interval) => grow(state),
            (_, Reading::Good | Reading::Draining) => state,
        };
        AdaptiveState { limit: self.clamped(next.limit), ..next }
    }

    fn clamped(&self, limit: u64) -> u64 {
        limit.clamp(self.min, self.max)
    }

    fn reading(&self, interval: &Interval) -> Reading {
        let Interval { samples, errors, quantile_ns, stalled, admitted, .. } = *interval;
        if samples < MIN_SAMPLES {
            // The upstream has stopped: requests went there, and few responses come back.
            let stalled = stalled.min(admitted) >= MIN_SAMPLES;
            return if stalled { Reading::Over(Cut { limit: 0, ceiling: ONE }) } else { Reading::Unknown };
        }
        match self.signal {
            Signal::Latency { target, .. } if quantile_ns > target.as_ns() => match self.resource {
                // In a queue, the latency is proportional to the requests in flight (Little's law).
                Resource::Permits => {
                    Reading::Over(Cut { limit: ratio(target.as_ns(), quantile_ns), ceiling: ONE })
                }
                Resource::Rate { .. } => {
                    self.backlog(samples.saturating_sub(errors), admitted, quantile_ns, target)
                }
            },
            Signal::Errors { target_ppm } => {
                let over = ratio(errors, samples).saturating_sub(ratio(u64::from(target_ppm), 1_000_000));
                if over == 0 {
                    Reading::Good
                } else {
                    Reading::Over(Cut { limit: ONE.saturating_sub(over), ceiling: ONE })
                }
            }
            Signal::Latency { .. } | Signal::Traffic { .. } => Reading::Good,
        }
    }

    /// A rate above the capacity makes a queue longer for as long as the rate lasts, so the latency
    /// says how long the queue is, and the answers say what the capacity is. The limit becomes the
    /// capacity, less what drains the queue within one interval.
    fn backlog(&self, answered: u64, admitted: u64, quantile_ns: u64, target: Span) -> Reading {
        let capacity = ratio(answered, admitted).min(2 * ONE);
        let drain = ratio(quantile_ns.saturating_sub(target.as_ns()), self.every.as_ns());
        let limit = capacity.saturating_mul(ONE.saturating_sub(drain)) >> 16;
        if limit >= ONE { Reading::Draining } else { Reading::Over(Cut { limit, ceiling: capacity }) }
    }

    /// Whether the limit held requests back, or was at least half used. Otherwise the measurements
    /// say nothing about a higher limit.
    fn is_used(&self, state: AdaptiveState, interval: &Interval) -> bool {
        interval.refused > 0 || self.used(interval).saturating_mul(2) >= state.limit
    }

    /// The used part of the limit, in 1/65536; saturates above any limit.
    fn used(&self, interval: &Interval) -> u64 {
        match self.resource {
            Resource::Permits => interval.in_flight.saturating_mul(ONE),
            Resource::Rate { unit } => {
                let [unit, every] = [unit, self.every].map(|span| span.as_ns() / 1_000_000);
                // 32 bits behind the point, because an interval may be much longer than the unit.
                let units = (unit.min(u64::from(u32::MAX)) << 32).div_ceil(every.max(1));
                interval.admitted.saturating_mul(units) >> (32 - POINT)
            }
        }
    }

    /// Without measurements, moves the limit an eighth of the way back to the start.
    fn drift(&self, state: AdaptiveState) -> AdaptiveState {
        let limit = approach(state.limit, self.start, 8);
        AdaptiveState { limit, ceiling: limit, streak: 0 }
    }

    /// Raises the limit to the goal at once, and lowers it by a quarter of the way.
    fn follow(&self, state: AdaptiveState, interval: &Interval, percent: u32) -> AdaptiveState {
        let goal = self.used(interval).saturating_mul(u64::from(percent)) / 100;
        let limit = if goal > state.limit { goal } else { approach(state.limit, goal, 4) };
        AdaptiveState { limit, ..state }
    }
}

/// Reduces the limit by at least 1/32 and at most 1/2.
fn reduce(state: AdaptiveState, cut: &Cut) -> AdaptiveState {
    let of = |ratio: u64| state.limit.saturating_mul(ratio) >> 16;
    let limit = of(cut.limit.clamp(ONE / 2, ONE - ONE / 32));
    AdaptiveState { limit, ceiling: of(cut.ceiling).max(limit), streak: 0 }
}

fn grow(state: AdaptiveState) -> AdaptiveState {
    let least = (state.limit / 64).max(ONE / 16);
    if state.limit < state.ceiling {
        let step = (state.ceiling.saturating_sub(state.limit) / 2).max(least);
        return AdaptiveState { limit: state.limit.saturating_add(step), ..state };
    }
    let step = least.saturating_mul(1 << state.streak.min(4));
    AdaptiveState { limit: state.limit.saturating_add(step), streak: state.streak.saturating_add(1), ..state }
}

/// Moves from one limit toward another by 1/`part` of the distance, and by at least 1/65536.
fn approach(from: u64, to: u64, part: u64) -> u64 {
    debug_assert!(part > 0, "a part of nothing");
    let distance = from.abs_diff(to);
    let step = distance.checked_div(part).unwrap_or(distance).max(1).min(distance);
    if from < to { from.saturating_add(step) } else { from.saturating_sub(step) }
}

/// `part` of `whole` in 1/65536.
fn ratio(part: u64, whole: u64) -> u64 {
    let [part, whole] = [part, whole].map(|number| number.min(u64::MAX >> 16));
    (part << 16).checked_div(whole).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
