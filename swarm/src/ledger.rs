//! What Redis charged, and what became of it: each unit is admitted, refunded or lost, once.

use crate::server::Executed;
use std::collections::HashMap;

/// A check that failed: what happened, in words.
pub type Violation = String;

/// A charge as the script names it: when it was made, when it was booked, and two stamps.
type Name = [u64; 4];

#[derive(Default)]
struct Charge {
    charged: u64,
    admitted: u64,
    refunded: u64,
}

/// All charges and leases of a run.
#[derive(Default)]
pub struct Ledger {
    charges: HashMap<Name, Charge>,
    /// Leased units by key and generation, and how many came back or were reported as used.
    leases: HashMap<(String, u64), (u64, u64)>,
    /// Units that were leased, spent by gateways, and returned.
    leased: u64,
    spent: u64,
    returned: u64,
    /// Charges by the instant of the true clock, in µs, for failovers.
    recent: Vec<(u64, u64)>,
}

impl Ledger {
    /// Notes a command that Redis carried out.
    pub fn executed(&mut self, true_us: u64, executed: &Executed) -> Result<(), Violation> {
        let mut keys = executed.keys.iter();
        let mut replies = executed.numbers.iter().copied();
        for command in &executed.commands {
            let mut words = command.split(' ').map(|word| word.parse::<u64>().unwrap_or(u64::MAX));
            let mut next = || words.next().ok_or_else(|| format!("the command `{command}` is cut"));
            let (verb, count) = (next()?, next()?);
            if verb == 1 {
                for _ in 0..count {
                    for _ in 0..next()? {
                        let [kind, flags] = [next()?, next()?];
                        for _ in 0..8 + (flags / 4 % 2) * 3 + flags / 8 % 2 {
                            next()?;
                        }
                        let reply: Vec<u64> = replies.by_ref().take(13).collect();
                        let key = keys.next().ok_or("a key is missing")?;
                        self.decided(true_us, kind, key, &reply);
                    }
                }
                continue;
            }
            if replies.next() != Some(0) {
                return Err(format!("the reply to `{command}` is not 0"));
            }
            for _ in 0..count {
                let key = keys.next().ok_or("a key is missing")?;
                for _ in 0..7 {
                    next()?;
                }
                match verb {
                    2 => {
                        let [cost, at, booked, first, second] = [next()?, next()?, next()?, next()?, next()?];
                        let charge = self.charges.entry([at, booked, first, second]).or_default();
                        charge.refunded += cost;
                        charge.check(&format!("a refund of {cost} units, charged at {at}"))?;
                    }
                    3 => {
                        let [generation, used, left] = [next()?, next()?, next()?];
                        let (leased, back) = self.leases.entry((key.clone(), generation)).or_default();
                        *back += used + left;
                        if *back > *leased {
                            return Err(format!(
                                "{back} units of the lease {generation} came back or were used, of {leased}"
                            ));
                        }
                        self.returned += left;
                        self.check_leases()?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn decided(&mut self, true_us: u64, kind: u64, key: &str, reply: &[u64]) {
        let &[_, _, _, _, _, cost, at, booked, first, second, leased, generation, _] = reply else { return };
        // Permits are reported, not refunded.
        if kind != 7 {
            self.charges.entry([at, booked, first, second]).or_default().charged += cost;
        }
        self.leased += leased;
        self.leases.entry((key.to_owned(), generation)).or_default().0 += leased;
        self.recent.push((true_us, cost + leased));
    }

    /// Notes that a request passed that Redis charged.
    pub fn admitted(&mut self, [cost, at, booked, first, second]: [u64; 5]) -> Result<(), Violation> {
        let charge = self.charges.entry([at, booked, first, second]).or_default();
        charge.admitted += cost;
        charge.check(&format!("a request of {cost} units, charged at {at}"))
    }

    /// Notes that a request passed on leased quota.
    pub fn spent(&mut self, cost: u64) -> Result<(), Violation> {
        self.spent += cost;
        self.check_leases()
    }

    fn check_leases(&self) -> Result<(), Violation> {
        let Ledger { leased, spent, returned, .. } = self;
        match spent + returned <= *leased {
            true => Ok(()),
            false => Err(format!("{leased} units leased, but {spent} spent and {returned} returned")),
        }
    }

    /// The leased units that were neither spent nor returned.
    pub fn missing(&self) -> u64 {
        self.leased - self.spent - self.returned
    }

    /// The units that Redis charged or leased since an instant.
    pub fn charged_since(&self, true_us: u64) -> u64 {
        self.recent.iter().rev().take_while(|(at, _)| *at >= true_us).map(|(_, units)| units).sum()
    }
}

impl Charge {
    fn check(&self, what: &str) -> Result<(), Violation> {
        let Charge { charged, admitted, refunded } = self;
        match admitted + refunded <= *charged {
            true => Ok(()),
            false => {
                Err(format!("{what}: {charged} charged, but {admitted} admitted and {refunded} refunded"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(command: &str, numbers: &[u64]) -> Executed {
        let (keys, commands) = (vec!["a".into()], vec![command.into()]);
        Executed { keys, commands, numbers: numbers.into() }
    }

    #[test]
    fn a_charge_is_admitted_or_refunded_once() {
        let ask = executed("1 1 1 2 1 3 9 5 1000 0 0 0 0", &[0, 0, 2, 9, 9, 3, 70, 60, 0, 0, 2, 960, 9]);
        let refund = executed("2 1 2 5 1000 0 0 0 0 3 70 60 0 0", &[0]);
        let back = |left| executed(&format!("3 1 2 5 1000 0 0 0 0 960 0 {left}"), &[0]);
        let mut ledger = Ledger::default();
        ledger.executed(1, &ask).unwrap();
        ledger.executed(2, &refund).unwrap();
        assert!(ledger.admitted([3, 70, 60, 0, 0]).is_err());
        let mut ledger = Ledger::default();
        ledger.executed(1, &ask).unwrap();
        ledger.admitted([3, 70, 60, 0, 0]).unwrap();
        assert!(ledger.executed(2, &refund).is_err());
        ledger.spent(1).unwrap();
        ledger.executed(3, &back(1)).unwrap();
        assert!(ledger.executed(4, &back(1)).is_err());
        let mut ledger = Ledger::default();
        ledger.executed(1, &ask).unwrap();
        ledger.executed(3, &back(1)).unwrap();
        ledger.spent(1).unwrap();
        assert!(ledger.spent(1).is_err());
        assert_eq!((ledger.charged_since(1), ledger.charged_since(2)), (5, 0));
    }
}
