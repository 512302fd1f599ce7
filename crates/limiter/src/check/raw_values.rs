//! The raw values of all actors that a request is counted by.

use crate::actor::{Named, Raw};
use crate::policy::{Group, Missing, Policy};
use crate::request::Request;

/// The most raw values of one request, of which each actor has one.
const MOST: usize = 4;

/// The longest raw value, in bytes. Clients choose the length.
pub(super) const LONGEST: usize = 128;

/// The raw values of the actors of all limits that apply to a request, and which groups lack their
/// actors. For the same limits, they alone decide which cells the request charges.
pub(super) struct RawValues<'r> {
    values: [&'r [u8]; MOST],
    count: usize,
    groups: u32,
    /// A bit for each group whose actor the request lacks.
    pub(super) lacking: u32,
}

impl<'r> RawValues<'r> {
    /// Reads the raw values for `limits`, in the order in which the actors are identified. `None`
    /// if more than these values decides which cells the request charges.
    pub(super) fn read(policy: &Policy, limits: &[usize], request: &Request<'r>) -> Option<RawValues<'r>> {
        let mut raw = RawValues { values: [&[]; MOST], count: 0, groups: 0, lacking: 0 };
        let mut actors = [None; MOST];
        for at in limits {
            let limit = policy.limits.get(*at).filter(|limit| limit.is_cacheable)?;
            for group in &limit.groups {
                raw.read_group(policy, group, request, &mut actors)?;
            }
        }
        Some(raw)
    }

    fn read_group<'p>(
        &mut self,
        policy: &'p Policy,
        group: &'p Group,
        request: &Request<'r>,
        actors: &mut [Option<&'p Named>; MOST],
    ) -> Option<()> {
        let bit = 1u32.checked_shl(self.groups)?;
        self.groups = self.groups.saturating_add(1);
        let before = self.count;
        for named in &group.actors {
            if !self.read_actor(named, request, actors)? {
                // The group counts the request by other values, or not at all.
                self.count = before;
                self.lacking |= bit;
                return match group.missing {
                    Missing::Ip => self.read_actor(&policy.address, request, actors)?.then_some(()),
                    Missing::Skip | Missing::Share => Some(()),
                    Missing::Deny => None,
                };
            }
        }
        Some(())
    }

    /// Reads the raw value of an actor, once. Returns whether the request has the actor.
    fn read_actor<'p>(
        &mut self,
        named: &'p Named,
        request: &Request<'r>,
        actors: &mut [Option<&'p Named>; MOST],
    ) -> Option<bool> {
        if actors.iter().take(self.count).flatten().any(|other| *other == named) {
            return Some(true);
        }
        let value = match named.actor().raw(request) {
            Raw::Value(value) if value.len() <= LONGEST => value,
            Raw::Missing => return Some(false),
            Raw::Value(_) | Raw::Unknown => return None,
        };
        *actors.get_mut(self.count)? = Some(named);
        *self.values.get_mut(self.count)? = value;
        self.count = self.count.saturating_add(1);
        Some(true)
    }

    /// The values.
    pub(super) fn values(&self) -> &[&'r [u8]] {
        self.values.get(..self.count).unwrap_or_default()
    }
}
