//! Where the states of one rule lie in a cell of its group.
//!
//! ```text
//!   cell of a group   │ count │ grant │ penalty │ count │ penalty │ …
//!                     └─ states of one rule ────┘
//! ```

use crate::algorithm::{Penalty, grant};
use diana_base::part;

/// What a state is to its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateKind {
    Count,
    Grant,
    Penalty,
}

/// Where the states of one rule lie in a cell, in bytes. A rule has a count. It has a grant if
/// operators may give one, and a penalty if any of its quotas has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    at: u32,
    /// The size of the count.
    size: u32,
    /// Where the grant and the penalty begin; [`NOWHERE`] without one.
    grant: u32,
    penalty: u32,
}

/// No cell is as long.
const NOWHERE: u32 = u32::MAX;

impl Place {
    /// The place of a rule whose states begin at `at`, and where the next rule's begin. `size` is
    /// that of the count.
    pub(crate) fn new(at: usize, size: usize, has_grant: bool, has_penalty: bool) -> (Place, usize) {
        let number = |number: usize| u32::try_from(number).unwrap_or(NOWHERE);
        let grant = at.saturating_add(size);
        let penalty = if has_grant { grant.saturating_add(grant::SIZE) } else { grant };
        let end = if has_penalty { penalty.saturating_add(Penalty::SIZE) } else { penalty };
        let place = Place {
            at: number(at),
            size: number(size),
            grant: if has_grant { number(grant) } else { NOWHERE },
            penalty: if has_penalty { number(penalty) } else { NOWHERE },
        };
        (place, end)
    }

    /// The same states from `at` on, and where the next rule's begin.
    pub(crate) fn moved(self, at: usize) -> (Place, usize) {
        Place::new(at, size(self.size), self.has_grant(), self.penalty != NOWHERE)
    }

    /// The states, each with its size.
    pub(crate) fn parts(self) -> impl Iterator<Item = (StateKind, usize)> + use<> {
        let grant = if self.has_grant() { grant::SIZE } else { 0 };
        let penalty = if self.penalty == NOWHERE { 0 } else { Penalty::SIZE };
        let parts =
            [(StateKind::Count, size(self.size)), (StateKind::Grant, grant), (StateKind::Penalty, penalty)];
        parts.into_iter().filter(|(_, size)| *size > 0)
    }

    /// Where the states end.
    pub(crate) fn end(self) -> usize {
        let ends = [(self.grant, grant::SIZE), (self.penalty, Penalty::SIZE)].into_iter();
        let behind = ends.filter(|(at, _)| *at != NOWHERE).map(|(at, len)| size(at).saturating_add(len));
        behind.max().unwrap_or(size(self.at.saturating_add(self.size)))
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
