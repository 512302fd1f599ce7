//! Identifies requests by several values in the body, including objects and lists: `{fingerprint:
//! [{request_json: /params/name}, {request_json: /params/arguments}]}`.
//!
//! Absence is a value of its own, because many calls have no arguments. If all values are absent,
//! or one cannot be read, the actor is missing.

use super::{Actor, ActorError};
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::hex;
use diana_base::sort;

/// The fingerprints of values in the request's body.
#[derive(Debug)]
pub struct Fingerprint(Vec<PartId>);

impl Fingerprint {
    /// The values at these pointers, in any order: see [`Part::request_json`].
    pub fn new(pointers: &[&str], parts: &mut Parts) -> Result<Fingerprint, ActorError> {
        let mut pointers = pointers.to_vec();
        sort::sort_by_key(&mut pointers, |pointer| *pointer);
        pointers.dedup();
        let part = |pointer: &str| Part::fingerprint(pointer).map(|part| parts.intern(part));
        let found: Option<Vec<PartId>> = pointers.into_iter().map(part).collect();
        found.map(Fingerprint).ok_or(ActorError::Pointer)
    }
}

impl Actor for Fingerprint {
    fn canonical_form(&self, parts: &Parts) -> String {
        self.0.iter().map(|part| parts.canonical_form(*part)).collect()
    }

    /// Appends hexadecimal digits for each value, with `-` between them.
    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let (mut text, mut is_found) = (String::new(), false);
        for (at, part) in self.0.iter().enumerate() {
            let mut lines = request.lines(*part);
            if lines.are_unread() {
                return false;
            }
            if at > 0 {
                text.push('-');
            }
            if let Some(bytes) = lines.next() {
                is_found = true;
                bytes.iter().for_each(|byte| hex(&mut text, *byte));
            }
        }
        if is_found {
            key.extend(text.into_bytes());
        }
        is_found
    }
}
