//! A limit: the conditions beside its url pattern, and its groups.

use super::global_group::GlobalGroup;
use super::group::Group;
use crate::matcher::Matcher;
use crate::request::Request;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) conditions: Vec<Box<dyn Matcher>>,
    pub(crate) exclusive: bool,
    /// Whether requests that match are important.
    pub(crate) important: bool,
    /// Limits of one rank are equally specific.
    pub(crate) rank: usize,
    pub(crate) groups: Vec<Arc<Group>>,
    pub(crate) global_groups: Vec<GlobalGroup>,
}

impl Limit {
    pub(crate) fn matches(&self, request: &Request) -> bool {
        self.conditions.iter().all(|condition| condition.matches(request))
    }

    pub(crate) fn is_certain(&self, request: &Request) -> bool {
        self.conditions.iter().all(|condition| condition.is_certain(request))
    }
}
