//! A limit: the conditions beside its url pattern, and its groups.

use super::global_group::GlobalGroup;
use super::group::Group;
use super::rule::Role;
use crate::matcher::Matcher;
use crate::request::Request;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) conditions: Vec<Box<dyn Matcher>>,
    pub(crate) exclusive: bool,
    /// Whether requests that match have a high priority.
    pub(crate) high_priority: bool,
    /// Limits of one rank are equally specific.
    pub(crate) rank: usize,
    pub(crate) groups: Vec<Arc<Group>>,
    pub(crate) global_groups: Vec<GlobalGroup>,
    /// Whether the actors alone decide which cells a request charges, and how much. Then the
    /// identity cache may serve the limit.
    pub(crate) is_cacheable: bool,
}

impl Limit {
    /// The value of [`Limit::is_cacheable`] for a limit with these groups.
    pub(super) fn is_cacheable(groups: &[Arc<Group>], global_groups: &[GlobalGroup]) -> bool {
        let is_known = |group: &Group| {
            let Group { role, varies, has_plans, has_headroom, ends_with_request, .. } = *group;
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
