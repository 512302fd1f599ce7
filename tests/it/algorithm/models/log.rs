//! The model of the sliding log.

use super::{MAX_SKEW_NS, Reference, span};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, Charge, Verdict};

/// The instant of each admitted unit. Only instants of the last unit count.
///
/// If the clock steps back by at most [`MAX_SKEW_NS`], the newest instant stays the present until
/// the clock reaches it again. If it steps back further, every instant keeps its distance from the
/// newest one.
#[derive(Clone, Debug)]
pub struct Log {
    rpu: usize,
    unit: i128,
    /// Oldest first.
    instants: Vec<i128>,
}

impl Log {
    pub fn new(quota: Allowance) -> Log {
        let rpu = usize::try_from(quota.rpu).unwrap();
        Log { rpu, unit: quota.unit.as_ns().into(), instants: Vec::new() }
    }

    /// Moves the log to `now` and returns the present.
    fn present(&mut self, now: i128) -> i128 {
        let Some(newest) = self.instants.last().copied() else {
            return now;
        };
        let ahead = newest - now;
        if ahead > MAX_SKEW_NS {
            self.instants.iter_mut().for_each(|instant| *instant -= ahead);
        }
        if ahead > MAX_SKEW_NS { now } else { now.max(newest) }
    }

    fn live(&self, present: i128) -> &[i128] {
        let dead = self.instants.iter().filter(|instant| present - **instant >= self.unit).count();
        &self.instants[dead..]
    }
}

impl Reference for Log {
    fn step(&mut self, now: Time, cost: u64) -> Verdict {
        let now = i128::from(now.as_ns());
        let present = self.present(now);
        let mut live = self.live(present).to_vec();
        let wait = |instant: i128| span(instant + self.unit - now);
        let room = self.rpu - live.len();
        let cost = usize::try_from(cost).unwrap();
        let outcome = if cost > self.rpu {
            Admission::Refuse { retry_after: None }
        } else if cost > room {
            Admission::Refuse { retry_after: Some(wait(live[cost - room - 1])) }
        } else {
            live.extend(std::iter::repeat_n(present, cost));
            if cost > 0 {
                self.instants.clone_from(&live);
            }
            Admission::Admit { delay: Span::ZERO }
        };
        Verdict {
            admission: outcome,
            remaining: (self.rpu - live.len()).try_into().unwrap(),
            more_in: live.first().map_or(Span::ZERO, |oldest| wait(*oldest)),
            full_in: live.last().map_or(Span::ZERO, |newest| wait(*newest)),
            charge: Charge::default(),
        }
    }

    fn most(&self, elapsed_ns: u128, _: u64) -> u128 {
        (elapsed_ns / self.unit.unsigned_abs() + 1) * u128::try_from(self.rpu).unwrap()
    }

    /// An expired instant counts again if the clock steps back.
    fn coarse_ns(&self) -> u128 {
        self.unit.unsigned_abs()
    }
}
