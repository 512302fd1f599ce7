//! The clients that are refused most, over all rules, in bounded memory.

use crate::summary::ClientSummary;
use foldhash::fast::FixedState;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The most clients that are counted at once. Beyond that, the half with the fewest refusals goes.
const MOST: usize = 1 << 16;
/// The clients and the rules of a client that a summary shows.
const SHOWN: usize = 50;
const SHOWN_RULES: usize = 8;

/// A refused request, as one rule counts it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refused {
    /// The value of the actor.
    pub client: Box<str>,
    /// The actor, such as `ip`.
    pub actor: Box<str>,
}

/// The refused clients.
#[derive(Clone, Debug, Default)]
pub struct Clients(HashMap<Refused, Counts, FixedState>);

#[derive(Clone, Debug, Default)]
struct Counts {
    refused: u64,
    rules: Vec<Box<str>>,
}

impl Clients {
    /// Adds a refused request of a client, once for all of its rules.
    pub fn add<'a>(&mut self, client: Refused, rules: impl Iterator<Item = &'a str>) {
        if self.0.len() >= MOST && !self.0.contains_key(&client) {
            self.forget();
        }
        let counts = self.0.entry(client).or_default();
        counts.refused = counts.refused.saturating_add(1);
        for rule in rules {
            if counts.rules.len() < SHOWN_RULES && counts.rules.iter().all(|known| **known != *rule) {
                counts.rules.push(rule.into());
            }
        }
    }

    /// Forgets the half with the fewest refusals, or all.
    fn forget(&mut self) {
        let mut all: Vec<u64> = self.0.values().map(|counts| counts.refused).collect();
        all.sort_unstable();
        let middle = all.get(all.len() / 2).copied().unwrap_or(0);
        self.0.retain(|_, counts| counts.refused > middle);
    }

    /// The clients with the most refusals.
    #[must_use]
    pub fn top(&self) -> Vec<ClientSummary> {
        let mut all: Vec<(&Refused, &Counts)> = self.0.iter().collect();
        all.sort_by_key(|(client, counts)| (Reverse(counts.refused), &client.actor, &client.client));
        let summary = |(client, counts): (&Refused, &Counts)| ClientSummary {
            client: client.client.to_string(),
            actor: client.actor.to_string(),
            refused: counts.refused,
            rules: counts.rules.iter().map(ToString::to_string).collect(),
        };
        all.into_iter().take(SHOWN).map(summary).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_refused_stay_known() {
        let mut clients = Clients::default();
        let client = |number: usize| Refused { client: number.to_string().into(), actor: "ip".into() };
        for number in 0..3 * MOST {
            clients.add(client(number), ["once"].into_iter());
            clients.add(client(number % 3), ["often", "often", "too"].into_iter());
        }
        assert!(clients.0.len() <= MOST);
        let top = clients.top();
        assert!((3..=SHOWN).contains(&top.len()));
        assert_eq!((&*top[0].client, top[0].refused), ("0", MOST as u64 + 1));
        assert_eq!(top[2].rules, ["once", "often", "too"]);
    }
}
