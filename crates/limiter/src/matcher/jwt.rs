//! `jwt`: a limit's conditions on claims of the bearer token: `{plan: free, realm.tenant: acme}`.
//! **The signature is not verified**, see the actor `jwt`. Of several tokens one match is enough; a
//! line without the claim makes the condition uncertain, see [`claims`].

use super::{ConditionError, Lookup};
use crate::request::claims::{ClaimValue, claim, claims, is_claim_path, is_of_token};
use crate::request::{HeaderLines, Part, PartId, Parts, Request};
use diana_base::format::netstring;

/// A claim of the bearer tokens, as text.
#[derive(Debug)]
pub struct Claim {
    authorization: PartId,
    /// The dotted path of the claim.
    path: Box<str>,
}

impl Claim {
    /// The claim at this dotted path.
    pub fn new(path: &str, parts: &mut Parts) -> Result<Claim, ConditionError> {
        if !is_claim_path(path) {
            return Err(ConditionError::Claim);
        }
        Ok(Claim { authorization: parts.intern(Part::Header("authorization".into())), path: path.into() })
    }
}

impl Lookup for Claim {
    fn any(&self, request: &Request, test: &mut dyn FnMut(&[&[u8]]) -> bool) -> bool {
        // `Bearer TOKEN` has one byte that stands in no token. More may separate joined lines.
        let is_plain = |line: &[u8]| line.iter().filter(|byte| !is_of_token(**byte)).count() == 1;
        let only = |line: &[u8]| claim(request, line, &self.path).filter(|_| is_plain(line.trim_ascii()));
        let mut test_claim = |claim: &ClaimValue| test(&claim.values().collect::<Vec<_>>());
        let mut test_line = |line| match only(line) {
            Some(claim) => test_claim(&claim),
            None => {
                let mut all = claims(request, line, &self.path);
                all.any(|claim| test_claim(&claim)) || test_claim(&ClaimValue::List(Vec::new()))
            }
        };
        match request.lines(self.authorization) {
            // No separator occurs in a bearer token, so a line with a token is one piece.
            HeaderLines::Joined(joined) => joined.pieces().any(test_line),
            mut lines => lines.any(&mut test_line),
        }
    }

    fn canonical_form(&self, _: &Parts) -> String {
        ["jwt ", &netstring(&self.path)].concat()
    }
}
