//! How a simulated store counts, in the numbers that the script gets: plain models of `TB`, `W`,
//! `SW`, `LB` and `C`. The models never forget old entries; clocks of stores do not step.

use std::collections::BTreeMap;

/// The reply of one rule: OUTCOME WAIT REMAINING MORE_IN FULL_IN, a receipt of five, and the lease.
pub type RuleReply = [u64; 13];

const SECOND: u64 = 1_000_000;

/// One key's count, of any kind.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// The quota that was granted and has not come back: charges and leases.
    pub taken: i64,
    /// `W`: the window and its used quota.
    window: u64,
    used: u64,
    /// `TB` and `LB`: when the bucket is full, or when the next turn is, in µs / `b`.
    full_at: u64,
    /// `TB`: the leased quota by second.
    lent: Vec<(u64, u64)>,
    /// `C`: by holder, its last call, how many permits it holds and when it reported.
    holders: BTreeMap<u64, (u64, u64, u64)>,
}

/// A kind by its number, and `a` to `f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(pub u64, pub [u64; 6]);

impl Kind {
    /// The same kind without the values that a worker reports.
    pub fn known(self) -> Kind {
        match self {
            Kind(7, [a, b, ..]) => Kind(7, [a, b, 0, 0, 0, 0]),
            kind => kind,
        }
    }
}

fn said(outcome: u64, wait: u64, remaining: u64, full_in: u64, receipt: [u64; 3]) -> RuleReply {
    let [cost, at, booked] = receipt;
    [outcome, wait, remaining, 0, full_in, cost, at, booked, 0, 0, 0, 0, 0]
}

impl Count {
    /// Counts a lease as spent once its second is over.
    fn lapse(&mut self, token: u64, per: u64, now: u64) {
        let (over, live): (Vec<_>, Vec<_>) =
            self.lent.drain(..).partition(|(second, _)| (second + 2) * SECOND <= now);
        self.lent = live;
        for (second, lent) in over {
            self.full_at = self.full_at.max((second + 2) * SECOND * per) + lent * token;
        }
    }

    fn lent(&self) -> u64 {
        self.lent.iter().map(|(_, lent)| lent).sum()
    }

    /// `C`: records a worker's report, unless a later call of the worker has already reported.
    pub fn report(&mut self, Kind(_, [_, _, holder, call, level, expire]): Kind, now: u64) {
        self.holders.retain(|_, (.., at)| {
            *at = now.min(*at);
            now - *at < expire
        });
        let known = self.holders.get(&holder).map(|(call, ..)| *call);
        if known.is_some_and(|known| known < call) || known.is_none() && level > 0 {
            self.holders.insert(holder, (call, level, now));
        }
        self.taken = self.holders.values().map(|(_, level, _)| *level as i64).sum();
    }

    /// Checks a request of this cost, and charges it if it is admitted.
    pub fn step(&mut self, all: Kind, now: u64, cost: u64) -> RuleReply {
        let Kind(kind, [a, b, c, d, ..]) = all;
        let told = match kind {
            1 => {
                self.lapse(a, b, now);
                let (full, from) = ((c - self.lent()) * a, self.full_at.max(now * b));
                let after = from + cost * a - now * b;
                if after > full {
                    said(1, (after - full).div_ceil(b), full.saturating_sub(from - now * b) / a, 0, [0; 3])
                } else {
                    if cost > 0 {
                        self.full_at = from + cost * a;
                    }
                    said(0, 0, (full - after) / a, after.div_ceil(b), [cost, now, from])
                }
            }
            2 => {
                if now / b > self.window {
                    (self.window, self.used, self.taken) = (now / b, 0, 0);
                }
                let ends = (self.window + 1) * b - now;
                if self.used + cost > a {
                    said(1, ends, a - self.used, ends, [0; 3])
                } else {
                    self.used += cost;
                    said(0, 0, a - self.used, ends, [cost, now, self.window])
                }
            }
            5 => {
                // A clock that seems to step back, because gateways' clocks differ, leaves no queue
                // longer than the bound.
                let latest = (now + SECOND) * b + c * b + d + a;
                let from = self.full_at.max(now * b).min(latest);
                let wait = from - now * b;
                if cost > 0 && wait > c * b + d {
                    said(1, (wait - c * b - d).div_ceil(b), 0, wait.div_ceil(b), [0; 3])
                } else if cost > 0 {
                    self.full_at = from + cost * a;
                    said(0, wait.div_ceil(b), 0, 0, [cost, now, from])
                } else {
                    said(0, 0, 0, wait.div_ceil(b), [0; 3])
                }
            }
            7 => {
                self.report(all, now);
                let taken = self.taken as u64;
                if cost > 0 && taken + cost > a {
                    said(1, SECOND, a.saturating_sub(taken), 0, [0; 3])
                } else {
                    if cost > 0 {
                        self.holders.entry(c).or_insert((d, 0, now)).1 += cost;
                    }
                    said(0, 0, a.saturating_sub(taken + cost), 0, [cost, now, 0])
                }
            }
            // Like a window with one slice, which begins with the first charge and does not end.
            3 if self.used + cost > a => said(1, b, a - self.used, b, [0; 3]),
            3 => {
                self.used += cost;
                said(0, 0, a - self.used, b, [cost, now, 0])
            }
            _ => panic!("kind {kind}"),
        };
        self.taken += told[5] as i64;
        told
    }

    pub fn refund(&mut self, Kind(kind, [a, b, ..]): Kind, now: u64, [cost, at, booked, ..]: [u64; 5]) {
        match kind {
            // The refund excludes what the bucket gained meanwhile only because of the charge.
            1 => {
                self.lapse(a, b, now);
                self.full_at -= (cost * a).saturating_sub((now - at) * b).min(self.full_at);
            }
            2 if booked == self.window => self.used = self.used.checked_sub(cost).expect("what was charged"),
            5 if self.full_at == booked + cost * a => self.full_at = booked,
            3 => self.used = self.used.checked_sub(cost).expect("what was given"),
            _ => return,
        }
        self.taken -= cost as i64;
    }

    /// Leases up to `part`. Returns how much, of which generation, and for how long.
    pub fn lend(&mut self, kind: Kind, now: u64, part: u64) -> [u64; 3] {
        self.taken += part as i64;
        let Kind(number, [_, b, ..]) = kind;
        if number == 2 {
            self.used += part;
            return [part, self.window, (self.window + 1) * b - now];
        }
        if number == 3 {
            self.used += part;
            return [part, 0, b / 10];
        }
        let second = now / SECOND;
        match self.lent.iter_mut().find(|(known, _)| *known == second) {
            Some((_, lent)) => *lent += part,
            None => self.lent.push((second, part)),
        }
        [part, second, (second + 2) * SECOND - 750_000 - now]
    }

    pub fn lends(&self, Kind(kind, [_, _, burst, ..]): Kind) -> u64 {
        match kind {
            1 => burst - 1 - self.lent().min(burst - 1),
            2 | 3 => u64::MAX,
            _ => 0,
        }
    }

    pub fn account(&mut self, Kind(kind, [a, b, ..]): Kind, now: u64, [generation, used, left]: [u64; 3]) {
        match kind {
            1 => {
                self.lapse(a, b, now);
                let Some((_, lent)) = self.lent.iter_mut().find(|(second, _)| *second == generation) else {
                    return;
                };
                assert!(used + left <= *lent, "more is accounted for than was lent");
                *lent -= used + left;
                self.full_at = self.full_at.max(now * b) + used * a;
            }
            2 if generation != self.window => return,
            2 | 3 => self.used = self.used.checked_sub(left).expect("what was lent"),
            _ => return,
        }
        self.taken -= left as i64;
    }
}
