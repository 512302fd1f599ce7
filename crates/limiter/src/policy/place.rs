//! Where the states of one rule lie in a cell of its group.
//!
//! ```text
//!   cell of a group   │ count │ grant │ penalty │ limit │ count │ penalty │ …
//!                     └─ states of one rule ────────────┘
//! ```

use crate::algorithm::{Penalty, grant};
use diana_base::part;

/// What a state is to its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateKind {
    Count,
    Grant,
    Penalty,
    /// The limit that the last counted request brought, for operators. It decides nothing.
    Limit,
    /// What the actor's requests cost: see [`RequestEstimate`](super::RequestEstimate).
    Learned,
}

/// Where the states of one rule lie in a cell, in bytes. A rule has a count. It has a grant if
/// operators may give one, a penalty if any of its quotas has one, a limit if requests bring
/// theirs, and a learned cost if estimates learn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    at: u32,
    /// The size of the count.
    size: u32,
    /// Where the grant, the penalty, the limit and the learned cost begin; [`NOWHERE`] without one.
    grant: u32,
    penalty: u32,
    limit: u32,
    learned: u32,
}

/// The size of a limit, and of a learned cost, in a cell.
const NUMBER_SIZE: usize = 8;

/// No cell is as long.
const NOWHERE: u32 = u32::MAX;

impl Place {
    /// The place of a rule whose states begin at `at`, and where the next rule's begin. `size` is
    /// that of the count. The flags say whether the rule has a grant, a penalty, a limit and a
    /// learned cost.
    pub(crate) fn new(at: usize, size: usize, has: [bool; 4]) -> (Place, usize) {
        let [grant, penalty, limit, learned] = has;
        let number = |number: usize| u32::try_from(number).unwrap_or(NOWHERE);
        let mut end = at.saturating_add(size);
        let mut place = |has_state: bool, size: usize| {
            let at = if has_state { number(end) } else { NOWHERE };
            end = end.saturating_add(if has_state { size } else { 0 });
            at
        };
        let (grant, penalty) = (place(grant, grant::SIZE), place(penalty, Penalty::SIZE));
        let (limit, learned) = (place(limit, NUMBER_SIZE), place(learned, NUMBER_SIZE));
        (Place { at: number(at), size: number(size), grant, penalty, limit, learned }, end)
    }

    /// The same states from `at` on, and where the next rule's begin.
    pub(crate) fn moved(self, at: usize) -> (Place, usize) {
        Place::new(at, size(self.size), self.others().map(|(_, at, _)| at != NOWHERE))
    }

    /// The states next to the count: where each begins, and its size.
    fn others(self) -> [(StateKind, u32, usize); 4] {
        [
            (StateKind::Grant, self.grant, grant::SIZE),
            (StateKind::Penalty, self.penalty, Penalty::SIZE),
            (StateKind::Limit, self.limit, NUMBER_SIZE),
            (StateKind::Learned, self.learned, NUMBER_SIZE),
        ]
    }

    /// The states, each with its size.
    pub(crate) fn parts(self) -> impl Iterator<Item = (StateKind, usize)> + use<> {
        let others = self.others().into_iter().filter(|(_, at, _)| *at != NOWHERE);
        let others = others.map(|(part, _, size)| (part, size));
        [(StateKind::Count, size(self.size))].into_iter().chain(others).filter(|(_, size)| *size > 0)
    }

    /// Where the states end.
    pub(crate) fn end(self) -> usize {
        let behind = self.others().into_iter().filter(|(_, at, _)| *at != NOWHERE);
        let behind = behind.map(|(_, at, len)| size(at).saturating_add(len)).max();
        behind.unwrap_or(size(self.at.saturating_add(self.size)))
    }

    /// Whether there is room for a grant.
    pub(crate) fn has_grant(self) -> bool {
        self.grant != NOWHERE
    }

    pub(crate) fn count(self, cell: &[u8]) -> &[u8] {
        states(cell, self.at, size(self.size))
    }

    pub(crate) fn count_mut(self, cell: &mut [u8]) -> &mut [u8] {
        states_mut(cell, self.at, size(self.size))
    }

    pub(crate) fn grant(self, cell: &[u8]) -> &[u8] {
        states(cell, self.grant, grant::SIZE)
    }

    pub(crate) fn grant_mut(self, cell: &mut [u8]) -> &mut [u8] {
        states_mut(cell, self.grant, grant::SIZE)
    }

    pub(crate) fn penalty(self, cell: &[u8]) -> &[u8] {
        states(cell, self.penalty, Penalty::SIZE)
    }

    pub(crate) fn penalty_mut(self, cell: &mut [u8]) -> &mut [u8] {
        states_mut(cell, self.penalty, Penalty::SIZE)
    }

    /// The limit that the last counted request brought. `None`: none was counted.
    pub(crate) fn limit(self, cell: &[u8]) -> Option<u64> {
        number(cell, self.limit)
    }

    pub(crate) fn set_limit(self, cell: &mut [u8], limit: u64) {
        set_number(cell, self.limit, limit);
    }

    /// What the actor's requests cost, in thousandths of a unit. `None`: nothing is learned yet.
    pub(crate) fn learned(self, cell: &[u8]) -> Option<u64> {
        number(cell, self.learned)
    }

    pub(crate) fn set_learned(self, cell: &mut [u8], cost: u64) {
        set_number(cell, self.learned, cost);
    }
}

/// A number above 0.
fn number(cell: &[u8], at: u32) -> Option<u64> {
    let number = states(cell, at, NUMBER_SIZE).first_chunk().copied().map(u64::from_le_bytes);
    number.filter(|number| *number > 0)
}

fn set_number(cell: &mut [u8], at: u32, number: u64) {
    let state = states_mut(cell, at, NUMBER_SIZE);
    state.first_chunk_mut().into_iter().for_each(|to| *to = number.to_le_bytes());
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn states(cell: &[u8], at: u32, len: usize) -> &[u8] {
    let at = size(at);
    part(cell, at.min(cell.len())..at.saturating_add(len).min(cell.len()))
}

fn states_mut(cell: &mut [u8], at: u32, len: usize) -> &mut [u8] {
    let (at, end) = (size(at), cell.len());
    cell.get_mut(at.min(end)..at.saturating_add(len).min(end)).unwrap_or_default()
}
