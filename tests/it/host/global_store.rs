//! A simulated global store: Redis with the script in it.

use super::counts::{Count, RuleReply, WireRule};
use super::wire::{self, Command, NO_SCRIPT, list};
use diana_global_redis::script::{SCRIPT, SHA1};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct GlobalStore {
    counts: BTreeMap<String, (WireRule, Count)>,
    /// Whether the store has the script.
    has_script: bool,
    /// Commands that the store has executed, whatever became of the replies.
    pub decisions: usize,
    pub refunds: usize,
    pub returned_leases: usize,
    /// Reports of permits.
    pub reports: usize,
    /// The most that was ever granted of one key, by kind.
    pub most: BTreeMap<WireRule, i64>,
}

impl GlobalStore {
    pub fn forget_script(&mut self) {
        self.has_script = false;
    }

    /// The quota that all rules of this kind and first number have granted and not got back.
    pub fn outstanding(&self, kind: u64, first: u64) -> i64 {
        let of = self.counts.values().filter(|(WireRule(known, [a, ..]), _)| (*known, *a) == (kind, first));
        of.map(|(_, count)| count.outstanding).sum()
    }

    /// The body of the reply to a call with this body, at an instant in µs.
    pub fn answer(&mut self, now: u64, body: &[u8]) -> Vec<u8> {
        wire::commands(body).iter().flat_map(|command| self.run(now, command)).collect()
    }

    fn run(&mut self, now: u64, command: &Command) -> Vec<u8> {
        let Command { name, script, keys, number, arguments } = command;
        match &**name {
            "EVAL" => {
                assert_eq!(script, SCRIPT);
                self.has_script = true;
            }
            _ => assert_eq!((&**name, &**script), ("EVALSHA", SHA1)),
        }
        if !self.has_script {
            return NO_SCRIPT.into();
        }
        assert!(*number < 1 << 53, "{number}");
        let (mut keys, mut answer) = (keys.iter(), vec![*number]);
        for argument in arguments {
            let numbers: Vec<u64> = argument.split(' ').map(|number| number.parse().unwrap()).collect();
            self.command(now, &numbers, &mut keys, &mut answer);
        }
        let left: Vec<&String> = keys.collect();
        let is_probe = || arguments.is_empty() && left.len() == 1 && left[0].ends_with("}:probe");
        assert!(left.is_empty() || is_probe(), "{left:?}");
        list(&answer)
    }

    fn command<'a>(
        &mut self,
        now: u64,
        numbers: &[u64],
        keys: &mut impl Iterator<Item = &'a String>,
        answer: &mut Vec<u64>,
    ) {
        let [verb, _, rest @ ..] = numbers else { panic!("{numbers:?}") };
        let size = match verb {
            2 => 12,
            4 => 7,
            5 => 13,
            _ => 10,
        };
        if *verb == 1 {
            self.decisions += 1;
            return self.decide(now, rest, numbers[1], keys, answer);
        }
        for rule in rest.chunks(size) {
            let kind = WireRule(rule[0], rule[1..7].try_into().unwrap());
            if *verb == 4 {
                self.reports += 1;
                let count = self.counts.entry(keys.next().unwrap().clone());
                let (known, count) = count.or_insert((kind.known(), Count::default()));
                assert_eq!(known.0, kind.known().0);
                count.report(kind, now);
                continue;
            }
            // A garbage reply may have reported a charge that never was: then there is no count.
            let Some(count) = self.counts.get_mut(keys.next().unwrap()) else { continue };
            assert_eq!(count.0.0, kind.0);
            if *verb == 5 {
                let [cost, rest @ .., last] = &rule[7..] else { unreachable!() };
                let back = cost.checked_sub(*last).expect("no test charges more after the fact");
                let charge = [&[back][..], rest].concat();
                count.1.refund(kind, now, charge.try_into().unwrap());
            } else if *verb == 2 {
                self.refunds += 1;
                count.1.refund(kind, now, rule[7..].try_into().unwrap());
            } else {
                self.returned_leases += 1;
                count.1.return_lease(kind, now, rule[7..].try_into().unwrap());
            }
        }
        answer.push(0);
    }

    fn decide<'a>(
        &mut self,
        now: u64,
        mut rest: &[u64],
        groups: u64,
        keys: &mut impl Iterator<Item = &'a String>,
        answer: &mut Vec<u64>,
    ) {
        struct Query<'a> {
            group: u64,
            key: &'a String,
            kind: WireRule,
            enforced: bool,
            cost: u64,
            lease: u64,
        }
        let mut queries = Vec::new();
        for group in 0..groups {
            let (rules, tail) = rest[1..].split_at(rest[0] as usize * 10);
            rest = tail;
            for rule in rules.chunks(10) {
                let kind = WireRule(rule[0], rule[4..].try_into().unwrap());
                let key = keys.next().unwrap();
                let (enforced, cost, lease) = (rule[1] & 1 == 1, rule[2], rule[3]);
                let known = kind.known();
                // All quotas of a rule have one count; it is found by the first of them.
                assert_eq!(self.counts.entry(key.clone()).or_insert((known, Count::default())).0.0, known.0);
                queries.push(Query { group, key, kind, enforced, cost, lease });
            }
        }
        let mut step = |one: &Query, cost| self.counts.get_mut(one.key).unwrap().1.step(one.kind, now, cost);
        // A check without cost applies only the effects of time.
        queries.iter().for_each(|one| _ = step(one, 0));
        let before: Vec<Count> = queries.iter().map(|one| self.counts[one.key].1.clone()).collect();
        let mut step = |one: &Query, cost| self.counts.get_mut(one.key).unwrap().1.step(one.kind, now, cost);
        let mut reply: Vec<RuleReply> = queries.iter().map(|one| step(one, one.cost)).collect();
        let refused = queries.iter().zip(&reply).any(|(one, reply)| one.enforced && reply[0] > 0);
        let passes = reply.iter().all(|reply| reply[0] + reply[1] == 0);
        if refused {
            for (one, before) in queries.iter().zip(before) {
                self.counts.get_mut(one.key).unwrap().1 = before;
            }
            for (one, reply) in queries.iter().zip(&mut reply).filter(|(_, reply)| reply[0] == 0) {
                *reply = self.counts.get_mut(one.key).unwrap().1.step(one.kind, now, 0);
            }
        }
        for group in (0..groups).filter(|_| passes) {
            let of = |one: &&Query| one.group == group;
            let part = queries.iter().zip(&reply).filter(|(one, _)| of(one)).map(|(one, reply)| {
                let share = (reply[2] + one.kind.arriving()) / 8;
                share.min(one.lease).min(reply[2]).min(self.counts[one.key].1.leasable(one.kind))
            });
            let part = part.min().unwrap_or(0);
            for (one, reply) in queries.iter().zip(&mut reply).filter(|(one, _)| of(one) && part > 0) {
                let count = &mut self.counts.get_mut(one.key).unwrap().1;
                let lease = count.grant_lease(one.kind, now, part);
                reply[2] = count.step(one.kind, now, 0)[2];
                reply[10..].copy_from_slice(&lease);
            }
        }
        // Workers may report more permits than there are, after they were cut off from the store.
        let granted = queries.iter().zip(&reply).filter(|(one, reply)| one.kind.0 != 7 || reply[5] > 0);
        for (one, _) in granted {
            let most = self.most.entry(one.kind.known()).or_default();
            *most = self.counts[one.key].1.outstanding.max(*most);
        }
        answer.extend(reply.iter().flatten());
    }
}
