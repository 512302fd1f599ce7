//! Which limits apply to a request, and whether the request is important.

use super::limit::Limit;
use crate::policy::Policy;
use crate::request::Request;
use crate::request::path::Readings;
use diana_base::sort;

impl Policy {
    /// Finds the limits that apply to the request, less specific first. A limit applies if its url
    /// and its conditions match in one reading of the path. An exclusive limit switches less
    /// specific limits off only in the same reading, and only if it matches by every line of a
    /// header. If no url pattern asks for the path, the path is not read. `matches` is working
    /// memory, and `found` begins with the limits of an earlier request under this policy.
    ///
    /// Returns whether the request is important: an important limit applies in every reading of the
    /// path and by every line of a header. If no rule keeps quota, no request is important.
    pub(crate) fn applicable(
        &self,
        request: &Request,
        matches: &mut Vec<usize>,
        found: &mut Vec<usize>,
    ) -> bool {
        if self.matches_all && !found.is_empty() {
            return false;
        }
        found.clear();
        if self.tree.is_root() {
            return self.collect(self.tree.below(), request, found);
        }
        let target = request.get(self.path).unwrap_or_default();
        let mut is_important = true;
        for path in Readings::of(target).iter() {
            self.tree.matches(path, matches);
            is_important &= self.collect(matches, request, found);
        }
        sort::sort_by_key(found, |index| *index);
        found.dedup();
        is_important
    }

    /// Adds the limits that apply in one reading of the path. Returns whether the request is
    /// important in this reading.
    fn collect(&self, matches: &[usize], request: &Request, found: &mut Vec<usize>) -> bool {
        let start = found.len();
        let limit = |index: usize| self.limits.get(index);
        found.extend(
            matches.iter().filter(|index| limit(**index).is_some_and(|limit| limit.matches(request))),
        );
        let of_this = || found.get(start..).unwrap_or_default().iter().filter_map(|index| limit(*index));
        let is_important = self.keeps && is_important(of_this(), request);
        let switches_off = |limit: &&Limit| limit.exclusive && limit.is_certain(request);
        let min_rank = of_this().rev().find(switches_off).map_or(0, |limit| limit.rank);
        if min_rank > 0 {
            let mut place = 0;
            found.retain(|index| {
                let is_kept = place < start || limit(*index).is_some_and(|limit| limit.rank >= min_rank);
                place = place.saturating_add(1);
                is_kept
            });
        }
        is_important
    }
}

/// Whether one of `limits`, which match in one reading, makes the request important. Header lines
/// must not: neither those by which an important limit matches, nor those by which an exclusive
/// limit may not match. So an exclusive limit counts whether or not its match is certain.
fn is_important<'p>(limits: impl DoubleEndedIterator<Item = &'p Limit> + Clone, request: &Request) -> bool {
    let exclusive = limits.clone().rev().find(|limit| limit.exclusive);
    let min_rank = exclusive.map_or(0, |limit| limit.rank);
    let mut important = limits.filter(|limit| limit.important && limit.rank >= min_rank);
    important.any(|limit| limit.is_certain(request))
}
