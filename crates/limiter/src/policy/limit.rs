//! A limit: the conditions beside its url pattern, and its groups. Which limits apply to a request,
//! and whether the request has a high priority.

use super::Policy;
use super::group::{CounterGroup, GlobalGroup};
use super::rule::Role;
use crate::matcher::Matcher;
use crate::request::Request;
use crate::request::path::Readings;
use diana_base::part;
use diana_base::sort;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) conditions: Vec<Box<dyn Matcher>>,
    pub(crate) exclusive: bool,
    /// Whether requests that match have a high priority.
    pub(crate) high_priority: bool,
    /// Limits of one rank are equally specific.
    pub(crate) rank: usize,
    pub(crate) groups: Vec<Arc<CounterGroup>>,
    pub(crate) global_groups: Vec<GlobalGroup>,
    /// Whether the actors alone decide which cells a request charges, and how much. Then the
    /// actor cache may serve the limit.
    pub(crate) is_cacheable: bool,
}

impl Limit {
    /// The value of [`Limit::is_cacheable`] for a limit with these groups.
    pub(super) fn is_cacheable(groups: &[Arc<CounterGroup>], global_groups: &[GlobalGroup]) -> bool {
        let is_known = |group: &CounterGroup| {
            let CounterGroup { role, varies, has_plans, has_headroom, ends_with_request, .. } = *group;
            role == Role::Primary && !varies && !has_plans && !has_headroom && !ends_with_request
        };
        global_groups.is_empty() && groups.iter().all(|group| is_known(group))
    }

    pub(crate) fn matches(&self, request: &Request) -> bool {
        self.conditions.iter().all(|condition| condition.matches(request))
    }

    pub(crate) fn is_certain(&self, request: &Request) -> bool {
        self.conditions.iter().all(|condition| condition.is_certain(request))
    }
}

impl Policy {
    /// Finds the limits that apply to the request, less specific first. A limit applies if its url
    /// and its conditions match in one reading of the path. An exclusive limit switches less
    /// specific limits off only in the same reading, and only if it matches by every line of a
    /// header. If no url pattern asks for the path, the path is not read. `matches` is working
    /// memory, and `found` begins with the limits of an earlier request under this policy.
    ///
    /// Returns whether the request has a high priority: a limit of high priority applies in every
    /// reading of the path and by every line of a header. If no rule has headroom, no request has a
    /// high priority.
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
        let mut is_high_priority = true;
        for path in Readings::of(target).iter() {
            self.tree.matches(path, matches);
            is_high_priority &= self.collect(matches, request, found);
        }
        sort::sort_by_key(found, |index| *index);
        found.dedup();
        is_high_priority
    }

    /// Adds the limits that apply in one reading of the path. Returns whether the request has
    /// a high priority in this reading.
    fn collect(&self, matches: &[usize], request: &Request, found: &mut Vec<usize>) -> bool {
        let start = found.len();
        let limit = |index: usize| self.limits.get(index);
        found.extend(
            matches.iter().filter(|index| limit(**index).is_some_and(|limit| limit.matches(request))),
        );
        let of_this = || part(found, start..).iter().filter_map(|index| limit(*index));
        let is_high_priority = self.has_headroom && is_high_priority(of_this(), request);
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
        is_high_priority
    }
}

/// Whether one of `limits`, which match in one reading, gives the request a high priority. Header
/// lines must not: neither those by which a limit of high priority matches, nor those by which an
/// exclusive limit may not match. An exclusive limit therefore counts whether or not its match is
/// certain.
fn is_high_priority<'p>(
    limits: impl DoubleEndedIterator<Item = &'p Limit> + Clone,
    request: &Request,
) -> bool {
    let exclusive = limits.clone().rev().find(|limit| limit.exclusive);
    let min_rank = exclusive.map_or(0, |limit| limit.rank);
    let mut of_high_priority = limits.filter(|limit| limit.high_priority && limit.rank >= min_rank);
    of_high_priority.any(|limit| limit.is_certain(request))
}
