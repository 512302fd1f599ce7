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
    pub outstanding: i64,
    /// `W`: the window and its used quota.
    window: u64,
    used: u64,
    /// `TB` and `LB`: when the bucket is full, or when the next turn is, in µs / `b`.
    full_at: u64,
    /// `TB`: the leased quota by second.
    leased: Vec<(u64, u64)>,
    /// `C`: by holder, its last call, how many permits it holds and when it reported.
    holders: BTreeMap<u64, (u64, u64, u64)>,
}

/// A kind by its number, and `a` to `f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WireRule(pub u64, pub [u64; 6]);

impl WireRule {
    /// The same kind without the values that a worker reports.
    pub fn known(self) -> WireRule {
        match self {
            WireRule(7, [a, b, ..]) => WireRule(7, [a, b, 0, 0, 0, 0]),
            kind => kind,
        }
    }

    /// The units that arrive in a second, whatever was used.
    pub fn arriving(self) -> u64 {
        match self {
            WireRule(1, [us, per, ..]) => SECOND * per / us,
            _ => 0,
        }
    }
}

fn rule_reply(outcome: u64, wait: u64, remaining: u64, full_in: u64, charge: [u64; 3]) -> RuleReply {
    let [cost, at, booked] = charge;
    [outcome, wait, remaining, 0, full_in, cost, at, booked, 0, 0, 0, 0, 0]
}

impl Count {
    /// Counts a lease as spent once its second is over.
    fn expire_leases(&mut self, token: u64, per: u64, now: u64) {
        let (over, live): (Vec<_>, Vec<_>) =
            self.leased.drain(..).partition(|(second, _)| (second + 2) * SECOND <= now);
        self.leased = live;
        for (second, leased) in over {
            self.full_at = self.full_at.max((second + 2) * SECOND * per) + leased * token;
        }
    }

    fn leased(&self) -> u64 {
        self.leased.iter().map(|(_, leased)| leased).sum()
    }

    /// `C`: records a worker's report, unless a later call of the worker has already reported.
    pub fn report(&mut self, WireRule(_, [_, _, holder, call, level, expire]): WireRule, now: u64) {
        self.holders.retain(|_, (.., at)| {
            *at = now.min(*at);
            now - *at < expire
        });
        let known = self.holders.get(&holder).map(|(call, ..)| *call);
        if known.is_some_and(|known| known < call) || known.is_none() && level > 0 {
            self.holders.insert(holder, (call, level, now));
        }
        self.outstanding = self.holders.values().map(|(_, level, _)| *level as i64).sum();
    }

    /// Checks a request of this cost, and charges it if it is admitted.
    pub fn step(&mut self, all: WireRule, now: u64, cost: u64) -> RuleReply {
        let WireRule(kind, [a, b, c, d, ..]) = all;
        let reply = match kind {
            1 => {
                self.expire_leases(a, b, now);
                let (full, from) = ((c - self.leased()) * a, self.full_at.max(now * b));
                let after = from + cost * a - now * b;
                if after > full {
                    rule_reply(
                        1,
                        (after - full).div_ceil(b),
                        full.saturating_sub(from - now * b) / a,
                        0,
                        [0; 3],
                    )
                } else {
                    if cost > 0 {
                        self.full_at = from + cost * a;
                    }
                    rule_reply(0, 0, (full - after) / a, after.div_ceil(b), [cost, now, from])
                }
            }
            2 => {
                if now / b > self.window {
                    (self.window, self.used, self.outstanding) = (now / b, 0, 0);
                }
                let ends = (self.window + 1) * b - now;
                if cost > 0 && self.used + cost > a {
                    rule_reply(1, ends, a.saturating_sub(self.used), ends, [0; 3])
                } else {
                    self.used += cost;
                    rule_reply(0, 0, a.saturating_sub(self.used), ends, [cost, now, self.window])
                }
            }
            5 => {
                // A clock that seems to step back, because gateways' clocks differ, leaves no queue
                // longer than the bound.
                let latest = (now + SECOND) * b + c * b + d + a;
                let from = self.full_at.max(now * b).min(latest);
                let wait = from - now * b;
                if cost > 0 && wait > c * b + d {
                    rule_reply(1, (wait - c * b - d).div_ceil(b), 0, wait.div_ceil(b), [0; 3])
                } else if cost > 0 {
                    self.full_at = from + cost * a;
                    rule_reply(0, wait.div_ceil(b), 0, 0, [cost, now, from])
                } else {
                    rule_reply(0, 0, 0, wait.div_ceil(b), [0; 3])
                }
            }
            7 => {
                self.report(all, now);
                let outstanding = self.outstanding as u64;
                if cost > 0 && outstanding + cost > a {
                    rule_reply(1, SECOND, a.saturating_sub(outstanding), 0, [0; 3])
                } else {
                    if cost > 0 {
                        self.holders.entry(c).or_insert((d, 0, now)).1 += cost;
                    }
                    rule_reply(0, 0, a.saturating_sub(outstanding + cost), 0, [cost, now, 0])
                }
            }
            // Like a window with one slice, which begins with the first charge and does not end.
            3 if cost > 0 && self.used + cost > a => rule_reply(1, b, a.saturating_sub(self.used), b, [0; 3]),
            3 => {
                self.used += cost;
                rule_reply(0, 0, a.saturating_sub(self.used), b, [cost, now, 0])
            }
            _ => panic!("kind {kind}"),
        };
        self.outstanding += reply[5] as i64;
        reply
    }

    pub fn refund(
        &mut self,
        WireRule(kind, [a, b, ..]): WireRule,
        now: u64,
        [cost, at, booked, ..]: [u64; 5],
    ) {
        match kind {
            // The refund excludes what the bucket gained meanwhile only because of the charge.
            1 => {
                self.expire_leases(a, b, now);
                self.full_at -= (cost * a).saturating_sub((now - at) * b).min(self.full_at);
            }
            2 if booked == self.window => self.used = self.used.checked_sub(cost).expect("a charge"),
            5 if self.full_at == booked + cost * a => self.full_at = booked,
            3 => self.used = self.used.checked_sub(cost).expect("a charge"),
            _ => return,
        }
        self.outstanding -= cost as i64;
    }

    /// Leases up to `part`. Returns how much, of which generation, and for how long.
    pub fn grant_lease(&mut self, kind: WireRule, now: u64, part: u64) -> [u64; 3] {
        self.outstanding += part as i64;
        let WireRule(number, [_, b, ..]) = kind;
        if number == 2 {
            self.used += part;
            return [part, self.window, (self.window + 1) * b - now];
        }
        if number == 3 {
            self.used += part;
            return [part, 0, b / 10];
        }
        let second = now / SECOND;
        match self.leased.iter_mut().find(|(known, _)| *known == second) {
            Some((_, leased)) => *leased += part,
            None => self.leased.push((second, part)),
        }
        [part, second, (second + 2) * SECOND - 750_000 - now]
    }

    pub fn leasable(&self, WireRule(kind, [_, _, burst, ..]): WireRule) -> u64 {
        match kind {
            1 => burst - 1 - self.leased().min(burst - 1),
            2 | 3 => u64::MAX,
            _ => 0,
        }
    }

    pub fn return_lease(
        &mut self,
        WireRule(kind, [a, b, ..]): WireRule,
        now: u64,
        [generation, used, left]: [u64; 3],
    ) {
        match kind {
            1 => {
                self.expire_leases(a, b, now);
                let Some((_, leased)) = self.leased.iter_mut().find(|(second, _)| *second == generation)
                else {
                    return;
                };
                assert!(used + left <= *leased, "an account exceeds its lease");
                *leased -= used + left;
                self.full_at = self.full_at.max(now * b) + used * a;
            }
            2 if generation != self.window => return,
            2 | 3 => self.used = self.used.checked_sub(left).expect("a lease"),
            _ => return,
        }
        self.outstanding -= left as i64;
    }
}
