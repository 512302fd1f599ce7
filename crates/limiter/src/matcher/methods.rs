//! `methods`: the methods to which a limit applies: `[GET, POST]` or a single `GET`, which includes
//! `HEAD`, because the backend does the same work (RFC 9110 §9.3.2), or `{not: …}`: all others.
//!
//! Methods are case-sensitive (§9.1), but Envoy passes `post` over HTTP/2, and many backends take
//! it for `POST`. The case that a client chooses therefore evades no limit, whether the method is
//! listed or excluded, but only upper case is certain.

use super::condition::{holds_by_all, holds_by_one};
use super::{ConditionError, Matcher};
use crate::request::syntax::is_token;
use crate::request::{Part, PartId, Parts, Request};
use diana_base::sort;

/// The condition `methods`.
///
/// ```
/// use diana_limiter::matcher::{ConditionError, Matcher, Methods};
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let mut parts = Parts::default();
/// let reads = Methods::new(&["GET"], &mut parts)?;
/// let head = Values::default().with(Part::Method, "HEAD");
/// assert!(reads.matches(&Request::new(&head, &parts)));
/// # Ok::<(), ConditionError>(())
/// ```
#[derive(Debug)]
pub struct Methods {
    part: PartId,
    /// Sorted, without duplicates.
    listed: Vec<Box<[u8]>>,
    /// Whether the limit applies to all other methods.
    is_negated: bool,
}

impl Methods {
    /// The condition that the method is one of these. `GET` includes `HEAD`.
    pub fn new(methods: &[&str], parts: &mut Parts) -> Result<Methods, ConditionError> {
        if methods.is_empty() {
            return Err(ConditionError::Nothing);
        }
        if !methods.iter().all(|method| is_token(method.as_bytes())) {
            return Err(ConditionError::Method);
        }
        let upper_case = |method: &&str| method.to_ascii_uppercase().into_bytes().into();
        let mut listed: Vec<Box<[u8]>> = methods.iter().map(upper_case).collect();
        if listed.iter().any(|method| **method == *b"GET") {
            listed.push(b"HEAD"[..].into());
        }
        sort::sort_by_key(&mut listed, Clone::clone);
        listed.dedup();
        Ok(Methods { part: parts.intern(Part::Method), listed, is_negated: false })
    }

    /// The condition that the method is none of these.
    #[must_use]
    pub fn negated(self) -> Methods {
        Methods { is_negated: true, ..self }
    }

    /// Whether the condition holds for a method; `None` if that depends on its case.
    fn verdict(&self, method: &[u8]) -> Option<bool> {
        match self.listed.iter().find(|listed| listed.eq_ignore_ascii_case(method)) {
            None => Some(self.is_negated),
            Some(listed) => (**listed == *method).then_some(!self.is_negated),
        }
    }
}

impl Matcher for Methods {
    fn canonical_form(&self, parts: &Parts) -> String {
        let mut canonical_form = parts.canonical_form(self.part);
        canonical_form.push_str(if self.is_negated { " not" } else { "" });
        for method in &self.listed {
            canonical_form.extend([" ", &String::from_utf8_lossy(method)]);
        }
        canonical_form
    }

    fn matches(&self, request: &Request) -> bool {
        holds_by_one(request.lines(self.part), &|method| self.verdict(method))
    }

    fn is_certain(&self, request: &Request) -> bool {
        holds_by_all(request.lines(self.part), &|method| self.verdict(method))
    }
}
