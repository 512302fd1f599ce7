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
}

/// Where the states of one rule lie in a cell, in bytes. A rule has a count. It has a grant if
/// operators may give one, a penalty if any of its quotas has one, and a limit if requests bring
/// theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    at: u32,
    /// The size of the count.
    size: u32,
    /// Where the grant, the penalty and the limit begin; [`NOWHERE`] without one.
    grant: u32,
    penalty: u32,
    limit: u32,
}

/// The size of a limit in a cell.
const LIMIT_SIZE: usize = 8;

/// No cell is as long.
const NOWHERE: u32 = u32::MAX;

impl Place {
    /// The place of a rule whose states begin at `at`, and where the next rule's begin. `size` is
    /// that of the count. The flags say whether the rule has a grant, a penalty and a limit.
    pub(crate) fn new(at: usize, size: usize, [grant, penalty, limit]: [bool; 3]) -> (Place, usize) {
        let number = |number: usize| u32::try_from(number).unwrap_or(NOWHERE);
        let mut end = at.saturating_add(size);
        let mut place = |has_state: bool, size: usize| {
            let at = if has_state { number(end) } else { NOWHERE };
            end = end.saturating_add(if has_state { size } else { 0 });
            at
        };
        let (grant, penalty) = (place(grant, grant::SIZE), place(penalty, Penalty::SIZE));
        let limit = place(limit, LIMIT_SIZE);
        (Place { at: number(at), size: number(size), grant, penalty, limit }, end)
    }

    /// The same states from `at` on, and where the next rule's begin.
    pub(crate) fn moved(self, at: usize) -> (Place, usize) {
        let others = [self.grant, self.penalty, self.limit];
        Place::new(at, size(self.size), others.map(|at| at != NOWHERE))
    }

    /// The states, each with its size.
    pub(crate) fn parts(self) -> impl Iterator<Item = (StateKind, usize)> + use<> {
        let grant = if self.has_grant() { grant::SIZE } else { 0 };
        let penalty = if self.penalty == NOWHERE { 0 } else { Penalty::SIZE };
        let limit = if self.limit == NOWHERE { 0 } else { LIMIT_SIZE };
        let parts = [
            (StateKind::Count, size(self.size)),
            (StateKind::Grant, grant),
            (StateKind::Penalty, penalty),
            (StateKind::Limit, limit),
        ];
        parts.into_iter().filter(|(_, size)| *size > 0)
    }

    /// Where the states end.
    pub(crate) fn end(self) -> usize {
        let ends = [(self.grant, grant::SIZE), (self.penalty, Penalty::SIZE), (self.limit, LIMIT_SIZE)];
        let ends = ends.into_iter();
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

    /// The limit that the last counted request brought. `None`: none was counted.
    pub(crate) fn limit(self, cell: &[u8]) -> Option<u64> {
        let limit = states(cell, self.limit, LIMIT_SIZE).first_chunk().copied().map(u64::from_le_bytes);
        limit.filter(|limit| *limit > 0)
    }

    pub(crate) fn set_limit(self, cell: &mut [u8], limit: u64) {
        let state = states_mut(cell, self.limit, LIMIT_SIZE);
        state.first_chunk_mut().into_iter().for_each(|to| *to = limit.to_le_bytes());
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
