//! The rules of the made-up week. Actors stand in groups of equal peaks, so that what a quota
//! refuses follows from the same numbers everywhere.

use super::load::{incident, mornings, nights, noise, spread};
use super::{INTERVAL, START, WEEK_S};
use diana_replay::suggest::suggestion;
use diana_replay::summary::{ActorSummary, Least, Quantile, RuleSummary, WhatIf};

/// A rule, and who meets it.
pub struct Rule {
    name: &'static str,
    url: &'static str,
    actor: &'static str,
    algorithm: &'static str,
    pub rpu: u64,
    unit_s: f64,
    is_enforced: bool,
    checked: u64,
    delayed: u64,
    groups: Vec<Group>,
    when: fn(usize) -> f64,
    value: fn(usize) -> String,
}

/// Actors that have the same peak, and as many busy units, each less busy than the one before.
struct Group {
    actors: u64,
    peak: u64,
    units: u64,
}

impl Group {
    fn loads(&self) -> impl Iterator<Item = u64> {
        (1..=self.units).map(|unit| self.peak * unit / self.units)
    }

    fn refused(&self, rpu: u64) -> u64 {
        self.loads().map(|load| load.saturating_sub(rpu)).sum()
    }
}

/// The rules, after `change` has had each of them.
pub fn all(change: fn(Rule) -> Rule) -> Vec<RuleSummary> {
    let places = [(0, 0), (0, 1), (1, 0), (2, 0)];
    let rules = [per_address(), per_user(), sign_in(), export()];
    let placed = rules.into_iter().zip(places);
    placed
        .map(|(rule, (limit, index))| change(rule).summary(format!("limits[{limit}].rules[{index}]")))
        .collect()
}

fn per_address() -> Rule {
    let mut groups = groups(&[(8_900, 4, 8), (6_200, 11, 5), (2_400, 26, 4), (610, 48, 4), (140, 82, 4)]);
    groups.extend((0..50).map(|index| Group {
        actors: 1,
        peak: decay(940, 93, index),
        units: 18 - index / 4,
    }));
    Rule {
        name: "per-address",
        url: "/api/",
        actor: "ip",
        algorithm: "TB",
        rpu: 120,
        unit_s: 60.0,
        is_enforced: true,
        checked: 1_088_410,
        delayed: 0,
        groups,
        when: incident,
        value: address,
    }
}

fn per_user() -> Rule {
    let mut groups = groups(&[(5_100, 30, 2), (2_300, 90, 2), (460, 260, 2)]);
    groups.extend((0..50).map(|index| Group { actors: 1, peak: decay(3_900, 96, index), units: 3 }));
    Rule {
        name: "per-user-hourly",
        url: "/api/",
        actor: "header: x-user-id",
        algorithm: "SW",
        rpu: 3_000,
        unit_s: 3_600.0,
        is_enforced: false,
        checked: 1_088_410,
        delayed: 0,
        groups,
        when: nights,
        value: |index| format!("user-{}", 10_007 + index * 7_919 % 80_021),
    }
}

fn sign_in() -> Rule {
    let mut groups = groups(&[(4_800, 1, 3), (1_900, 2, 4), (700, 4, 3)]);
    groups.extend((0..50).map(|index| Group {
        actors: 1,
        peak: decay(64, 95, index),
        units: 16 - index / 4,
    }));
    Rule {
        name: "sign-in",
        url: "/login",
        actor: "ip",
        algorithm: "SL",
        rpu: 6,
        unit_s: 60.0,
        is_enforced: true,
        checked: 61_877,
        delayed: 0,
        groups,
        when: mornings,
        value: |index| address(index + 17),
    }
}

fn export() -> Rule {
    let mut groups = groups(&[(310, 2, 30), (96, 5, 30), (20, 9, 30)]);
    groups.extend((0..50).map(|index| Group { actors: 1, peak: decay(31, 97, index), units: 20 }));
    Rule {
        name: "export",
        url: "/api/reports/*/export",
        actor: "account",
        algorithm: "LB",
        rpu: 20,
        unit_s: 1.0,
        is_enforced: true,
        checked: 61_240,
        delayed: 18_906,
        groups,
        when: mornings,
        value: |index| format!("acme-{:03}", 11 + index * 37 % 480),
    }
}

fn groups(of: &[(u64, u64, u64)]) -> Vec<Group> {
    of.iter().map(|(actors, peak, units)| Group { actors: *actors, peak: *peak, units: *units }).collect()
}

/// `first`, reduced `times` times to this percentage.
fn decay(first: u64, percentage: u64, times: u64) -> u64 {
    (0..times).fold(first * 100, |number, _| number * percentage / 100) / 100
}

/// With two digits that are not 0.
fn rounded(number: u64) -> u64 {
    let unit = 10u64.pow(number.max(1).ilog10().saturating_sub(1));
    number / unit * unit
}

/// Addresses of the blocks that are kept for documents.
fn address(index: usize) -> String {
    match index % 4 {
        0 => format!("203.0.113.{}", 4 + index * 5 % 250),
        1 => format!("198.51.100.{}", 9 + index * 3 % 240),
        2 => format!("192.0.2.{}", 1 + index * 11 % 250),
        _ => format!("2001:db8:{:x}:{:x}::/64", 0x40 + index, 0x1f0 + index * 53),
    }
}

impl Rule {
    fn summary(self, place: String) -> RuleSummary {
        let refused = self.refused(self.rpu);
        let refusals = spread(refused, self.when);
        let at = |index: usize| START + INTERVAL * (index as f64 + noise(index));
        let highest = self.highest();
        let least = |share: u64| (1..=highest).find(|rpu| self.refused(*rpu) * share <= self.checked);
        let least = Least {
            none: (1..=highest).find(|rpu| self.refused(*rpu) == 0),
            per_mille: least(1000),
            percent: least(100),
        };
        let summary = RuleSummary {
            by_address: false,
            name: self.name.to_owned(),
            place,
            url: self.url.to_owned(),
            actor: self.actor.to_owned(),
            algorithm: self.algorithm.to_owned(),
            rpu: self.rpu,
            unit_s: self.unit_s,
            burst: (self.algorithm == "TB").then_some(self.rpu),
            one_address: false,
            is_enforced: self.is_enforced,
            enforce: if self.is_enforced { "100%".into() } else { "0%".into() },
            checked: self.checked,
            without_actor: 0,
            refused,
            shadow_refused: if self.is_enforced { 0 } else { refused },
            delayed: self.delayed,
            longest_delay_s: if self.delayed > 0 { 0.95 } else { 0.0 },
            actors: self.groups.iter().map(|group| group.actors).sum(),
            refused_actors: self.refused_actors(self.rpu),
            first_refusal_s: refusals.iter().position(|number| *number > 0).map(at),
            last_refusal_s: refusals.iter().rposition(|number| *number > 0).map(at),
            top: self.top(&refusals),
            refusals,
            what_if: Vec::new(),
            least,
            peaks: [0.5, 0.9, 0.99, 0.999, 1.0]
                .map(|share| Quantile { share, peak: self.peak(share) })
                .to_vec(),
            suggestion: None,
        };
        let share = |rpu, _| Some(self.refused(rpu) as f64 / self.checked as f64);
        let suggestion = suggestion(&summary, WEEK_S, &share);
        let what_if = self.what_if(&summary.least, suggestion.as_ref().unwrap().rpu);
        RuleSummary { suggestion, what_if, ..summary }
    }

    fn refused(&self, rpu: u64) -> u64 {
        self.groups.iter().map(|group| group.actors * group.refused(rpu)).sum()
    }

    fn refused_actors(&self, rpu: u64) -> u64 {
        self.groups.iter().filter(|group| group.peak > rpu).map(|group| group.actors).sum()
    }

    fn highest(&self) -> u64 {
        self.groups.iter().map(|group| group.peak).max().unwrap()
    }

    fn what_if(&self, least: &Least, suggested: u64) -> Vec<WhatIf> {
        let mut quotas = vec![self.rpu, suggested];
        quotas.extend([least.none, least.per_mille, least.percent].into_iter().flatten());
        quotas.extend((0..44).map(|step| rounded(decay(self.highest(), 90, step))));
        quotas.retain(|rpu| *rpu > 0);
        quotas.sort_unstable();
        quotas.dedup();
        let point =
            |rpu| WhatIf { rpu, refused: self.refused(rpu), refused_actors: self.refused_actors(rpu) };
        quotas.into_iter().map(point).collect()
    }

    /// The peak that this share of the actors does not exceed.
    fn peak(&self, share: f64) -> u64 {
        let mut peaks: Vec<_> = self.groups.iter().map(|group| (group.peak, group.actors)).collect();
        peaks.sort_unstable();
        let all: u64 = peaks.iter().map(|(_, actors)| actors).sum();
        let mut seen = 0;
        let reached = peaks.into_iter().find(|(_, actors)| {
            seen += actors;
            seen as f64 >= share * all as f64
        });
        reached.unwrap().0
    }

    /// The fifty actors that stand alone, busiest first.
    fn top(&self, refusals: &[u64]) -> Vec<ActorSummary> {
        let first = refusals.iter().position(|number| *number > 0).unwrap();
        let busiest = refusals.iter().enumerate().max_by_key(|(_, number)| **number).unwrap().0;
        let alone = self.groups.iter().filter(|group| group.actors == 1).enumerate();
        alone
            .map(|(index, group)| {
                let refused = group.refused(self.rpu);
                let peak_s = START + INTERVAL * (busiest as f64 + noise(index));
                let span = INTERVAL * (busiest - first).min(2) as f64;
                ActorSummary {
                    actor: (self.value)(index),
                    is_address: false,
                    checked: group.loads().sum::<u64>() + 40,
                    refused,
                    delayed: self.delayed * 2 / (60 + 4 * index as u64),
                    peak: group.peak,
                    peak_s,
                    first_refusal_s: (refused > 0).then_some(peak_s - span * noise(index + 50)),
                    last_refusal_s: (refused > 0).then_some(peak_s + span * noise(index + 90)),
                }
            })
            .collect()
    }
}
