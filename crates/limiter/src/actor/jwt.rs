//! The actor is a claim of the bearer token: `{jwt: sub}`, `{jwt: realm.tenant}`. **The signature
//! is not verified**, so a filter in front must verify it, such as Envoy's `jwt_authn`. If the
//! token is malformed, a key on the path occurs twice or the claim is a list, the actor is missing.
//!
//! ```text
//!   authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl
//!                         └──── header ──────┘ └ {"sub":"alice"} ─┘ └ signature
//! ```

use super::kind::append;
use super::{Actor, ActorError};
use crate::request::claims::{ClaimValue, claim, is_claim_path};
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::netstring;

/// A claim of the bearer token, as text.
#[derive(Debug)]
pub struct Jwt {
    authorization: PartId,
    /// The dotted path of the claim.
    path: Box<str>,
}

impl Jwt {
    /// The claim at this dotted path.
    pub fn new(path: &str, parts: &mut Parts) -> Result<Jwt, ActorError> {
        if !is_claim_path(path) {
            return Err(ActorError::Claim);
        }
        Ok(Jwt { authorization: parts.intern(Part::Header("authorization".into())), path: path.into() })
    }

    fn claim(&self, request: &Request) -> Option<ClaimValue> {
        claim(request, request.get(self.authorization)?, &self.path)
    }
}

impl Actor for Jwt {
    fn canonical_form(&self, _: &Parts) -> String {
        ["jwt ", &netstring(&self.path)].concat()
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        self.claim(request).and_then(ClaimValue::only).is_some_and(|claim| append(claim.as_bytes(), key))
    }

    fn elements(&self, request: &Request) -> Vec<Vec<u8>> {
        self.claim(request).iter().flat_map(ClaimValue::values).map(<[u8]>::to_vec).collect()
    }
}
