//! The actor is a named segment of the limit's url, in its normal form: `{segment: tenant}` in a
//! limit on `/tenants/{tenant}/orders`. It is missing if the readings that the url matches
//! disagree, see `docs/internals/design/named-segments.md`.

use super::kind::only;
use super::{Actor, ActorKind, Scope};
use crate::matcher::pattern::{Pattern, Segment, allowed_name, is_name};
use crate::request::path::{self, Readings};
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::{decimal, netstring};
use diana_document::{Node, nearest, one_of, quoted};
use std::sync::Arc;

/// The kind `segment`.
pub static KIND: ActorKind = ActorKind { key: "segment", compile, bare: None };

/// A segment by its name, in no url yet. Requests always lack this actor.
#[derive(Debug)]
struct Name {
    part: PartId,
    name: Box<str>,
}

impl Actor for Name {
    fn canonical_form(&self, _: &Parts) -> String {
        ["segment called ", &*self.name].concat()
    }

    fn write(&self, _: &Request, _: &mut Vec<u8>) -> bool {
        false
    }

    fn in_limit(&self, url: Option<&Pattern>) -> Option<Result<Arc<dyn Actor>, String>> {
        let Some(url) = url else {
            return Some(Err("the actor is a segment of a limit's url, and there is no url here".into()));
        };
        let placed =
            |place| Arc::new(UrlSegment { part: self.part, url: url.clone(), place }) as Arc<dyn Actor>;
        Some(url.place(&self.name).map(placed).ok_or_else(|| self.no_place(url)))
    }
}

impl Name {
    fn no_place(&self, url: &Pattern) -> String {
        let names: Vec<&str> = url.names().collect();
        let hint = match (nearest(&self.name, &names), &*names) {
            (_, []) => format!("write `{{{}}}` in place of a `*`", self.name),
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, names) => format!("expected {}", one_of(names)),
        };
        format!("the limit's url has no segment `{{{}}}`, {hint}", self.name)
    }
}

/// A segment of a limit's url.
#[derive(Debug)]
struct UrlSegment {
    part: PartId,
    url: Pattern,
    /// The number of segments before this one.
    place: usize,
}

impl UrlSegment {
    /// The segment in all readings that the url matches, if they agree.
    fn find<'r>(&self, readings: &'r Readings) -> Option<&'r [u8]> {
        let matched = readings.iter().filter(|path| self.url.matches(path));
        only(matched.map(|path| path.segments().nth(self.place)))?
    }
}

impl Actor for UrlSegment {
    /// The url is a part of the text, because the url decides which readings count.
    fn canonical_form(&self, _: &Parts) -> String {
        let place = decimal(u64::try_from(self.place).unwrap_or(0));
        ["url segment ", &place, " of ", &netstring(&self.url.to_string())].concat()
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let Some(readings) = request.get(self.part).map(Readings::of) else { return false };
        let Some(segment) = self.find(&readings) else { return false };
        key.extend_from_slice(segment);
        true
    }

    /// Reads the value in a path that the url matches, because some values are missing in some urls
    /// only.
    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        let Some(segment) = path::segment(value.as_bytes()) else {
            return Err("expected a segment of a path, such as `acme`".into());
        };
        let mut target = Vec::new();
        for (place, expected) in self.url.segments().iter().enumerate() {
            target.push(b'/');
            target.extend_from_slice(match expected {
                _ if place == self.place => &segment,
                Segment::Literal(bytes) => bytes,
                Segment::Any => b"x",
            });
        }
        if self.find(&Readings::of(&target)) != Some(&*segment) {
            let why = "a segment that backends read differently is never counted";
            return Err(format!("{why}, found {}", quoted(value)));
        }
        Ok(segment)
    }
}

fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let name = node.text()?;
    if !is_name(name) {
        node.fail(format!("{} is not a segment name, expected {}", quoted(name), allowed_name()));
        return None;
    }
    Some(Box::new(Name { part: scope.parts.intern(Part::Path), name: name.into() }))
}

#[cfg(test)]
mod tests;
