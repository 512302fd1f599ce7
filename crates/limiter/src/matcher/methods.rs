//! `methods`: the methods to which a limit applies: `[GET, POST]` or a single `GET`, which includes
//! `HEAD`, because the backend does the same work (RFC 9110 §9.3.2).
//!
//! Methods are case-sensitive (§9.1), but Envoy passes `post` over HTTP/2, and many backends take
//! it for `POST`. Case is therefore ignored, but only upper case matches with certainty.

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
    allowed: Vec<Box<[u8]>>,
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
        let mut allowed: Vec<Box<[u8]>> = methods.iter().map(upper_case).collect();
        if allowed.iter().any(|method| **method == *b"GET") {
            allowed.push(b"HEAD"[..].into());
        }
        sort::sort_by_key(&mut allowed, Clone::clone);
        allowed.dedup();
        Ok(Methods { part: parts.intern(Part::Method), allowed })
    }
}

impl Matcher for Methods {
    fn canonical_form(&self, parts: &Parts) -> String {
        let mut canonical_form = parts.canonical_form(self.part);
        for method in &self.allowed {
            canonical_form.extend([" ", &String::from_utf8_lossy(method)]);
        }
        canonical_form
    }

    fn matches(&self, request: &Request) -> bool {
        let is_allowed = |method: &[u8]| self.allowed.iter().any(|it| it.eq_ignore_ascii_case(method));
        request.lines(self.part).any(is_allowed)
    }

    fn is_certain(&self, request: &Request) -> bool {
        request.lines(self.part).any(|method| self.allowed.iter().any(|allowed| **allowed == *method))
    }
}
