//! A request of a log as the filter would see it.

use super::log::known::Known;
use super::log::record::{Record, Slot, Slots};
use diana_limiter::policy::{Measure, Policy};
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::joined::{Joined, separator};
use diana_limiter::request::{HeaderLines, Part, PartId, Source, protocol};

/// Where a record has the parts of a request that a policy reads.
#[derive(Clone, Debug)]
pub struct Columns {
    /// By the index of the part.
    columns: Vec<Column>,
    /// The slot of `content-length`, if the policy reads the size.
    size: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    /// The value of this slot.
    Value(usize),
    /// The header in this slot, under its name.
    Header(usize, Box<str>),
    /// The client address in this slot, or else the last address of the list in the second slot.
    Address(usize, Option<usize>),
    /// The size of the body.
    Size,
    /// The replay does not read the part.
    Absent,
}

/// The header with the addresses of proxies.
pub const FORWARDED_FOR: &str = "x-forwarded-for";
const CONTENT_LENGTH: &str = "content-length";

/// The slots of the parts that a policy reads. Parts that may replace others are added.
pub fn add_slots(policy: &Policy, slots: &mut Slots) {
    for slot in [Slot::Method, Slot::Target, Slot::Host, Slot::Address] {
        slots.add(slot);
    }
    for header in [FORWARDED_FOR, CONTENT_LENGTH] {
        slots.add(Slot::Header(header.into()));
    }
    for part in policy.request_parts() {
        slots.add(slot(part));
    }
    for measure in &policy.measures().values {
        match measure {
            Measure::Header(name) => _ = slots.add(Slot::ResponseHeader(name.clone())),
            Measure::Property(path) => _ = slots.add(attribute(path)),
            Measure::Json(pointer) => _ = slots.add(Slot::ResponseJson(pointer.clone())),
        }
    }
}

fn slot(part: &Part) -> Slot {
    match part {
        Part::Path => Slot::Target,
        Part::Method => Slot::Method,
        Part::Host => Slot::Host,
        Part::Address => Slot::Address,
        Part::Header(name) => Slot::Header(name.clone()),
        Part::Property(path) => attribute(path),
        Part::BodySize => Slot::Header(CONTENT_LENGTH.into()),
        Part::RequestJson(part) => Slot::RequestJson(part.pointer.clone()),
    }
}

/// The slot of the host attribute at this path.
pub(super) fn attribute(path: &[Box<str>]) -> Slot {
    Slot::Attribute(path.join(".").into())
}

impl Columns {
    /// The columns of records with these slots.
    #[must_use]
    pub fn new(policy: &Policy, slots: &Slots) -> Columns {
        let forwarded = slots.find(&Slot::Header(FORWARDED_FOR.into()));
        let column = |part: &Part| match (part, slots.find(&slot(part))) {
            (Part::BodySize, _) => Column::Size,
            (_, None) => Column::Absent,
            (Part::Header(name), Some(index)) => Column::Header(index, name.clone()),
            (Part::Address, Some(index)) => Column::Address(index, forwarded),
            (_, Some(index)) => Column::Value(index),
        };
        let columns: Vec<Column> = policy.request_parts().map(column).collect();
        let size = slots.find(&Slot::Header(CONTENT_LENGTH.into()));
        let size = size.filter(|_| columns.contains(&Column::Size));
        Columns { columns, size }
    }

    /// The declared size of the body in a record.
    #[must_use]
    pub fn declared(&self, record: &Record) -> Option<u64> {
        std::str::from_utf8(record.get(self.size?)?).ok()?.trim().parse().ok()
    }

    /// The request of a record.
    #[must_use]
    pub fn request<'a>(&'a self, record: &'a Record) -> LogRequest<'a> {
        let size = self.size.and_then(|slot| Size::of(record, slot));
        LogRequest { columns: self, record, size }
    }
}

/// The values that the policy reads and no line of the log has, with what replaces each: one
/// sentence each. `counts_addresses`: whether the policy may count by address.
#[must_use]
pub fn assumptions(policy: &Policy, slots: &Slots, known: &Known, counts_addresses: bool) -> Vec<String> {
    let has = |slot: &Slot| slots.find(slot).is_some_and(|index| known.has(index));
    let has_header = |name: &str| has(&Slot::Header(name.into()));
    let lacks = |part: &Part| {
        let is_stated = match part {
            Part::Address => counts_addresses,
            Part::Header(name) => !protocol::HEADERS.contains(&&**name),
            _ => true,
        };
        (is_stated && !has(&slot(part))).then(|| match part {
            Part::Header(name) => format!("The log has no header `{name}`: the header counts as absent."),
            Part::Property(path) => {
                let name = path.iter().map(|step| &**step).collect::<Vec<&str>>().join(".");
                format!("The log has no attribute `{name}`: the attribute counts as absent.")
            }
            Part::Path => "The log has no path.".into(),
            Part::Method => "The log has no method: the method counts as absent.".into(),
            Part::Host => "The log has no host: the host counts as absent.".into(),
            Part::Address if has_header(FORWARDED_FOR) => {
                "The log has no client address: the replay uses the last address of `x-forwarded-for`.".into()
            }
            Part::Address => {
                "The log has no client address: rules that count by client address count all requests together."
                    .into()
            }
            Part::BodySize if known.received => {
                "The log has no `content-length`: the replay uses the bytes received as the declared size.".into()
            }
            Part::RequestJson(part) => {
                format!("The log has no `{}` of requests: the value counts as absent.", part.pointer)
            }
            Part::BodySize => {
                "The log has no body sizes: the size of each body counts as unknown.".into()
            }
        })
    };
    policy.request_parts().filter_map(lacks).collect()
}

/// The declared size of a body.
#[derive(Clone, Debug)]
enum Size<'a> {
    /// The text of `content-length`.
    Declared(&'a [u8]),
    /// The number of body bytes that the gateway received, which replaces a missing declared size.
    Received(String),
}

impl Size<'_> {
    /// The size in a record, `None` if the gateway did not know the size. `slot` is the one of
    /// `content-length`.
    fn of(record: &Record, slot: usize) -> Option<Size<'_>> {
        let received = || record.received.map(|bytes| Size::Received(bytes.to_string()));
        match record.get(slot) {
            Some(declared) => Some(Size::Declared(declared)),
            None if !record.has(slot) => received(),
            // A request with a body but without a length is chunked.
            None => received().filter(|_| record.received == Some(0)),
        }
    }

    fn text(&self) -> &[u8] {
        match self {
            Size::Declared(text) => text,
            Size::Received(text) => text.as_bytes(),
        }
    }
}

/// A request of a log.
#[derive(Debug)]
pub struct LogRequest<'a> {
    columns: &'a Columns,
    record: &'a Record,
    size: Option<Size<'a>>,
}

impl Source for LogRequest<'_> {
    fn lines<'s>(&'s self, id: PartId, _: &'s Part) -> HeaderLines<'s> {
        let LogRequest { columns, record, size } = self;
        let line = match columns.columns.get(id.index()) {
            Some(Column::Value(slot)) => record.get(*slot),
            Some(Column::Header(slot, name)) => match record.get(*slot) {
                Some(value) if record.is_nginx => {
                    return HeaderLines::Joined(Joined::new(value, separator(name)));
                }
                value => value,
            },
            Some(Column::Address(slot, forwarded)) => {
                let last = || last(record.get((*forwarded)?)?);
                record.get(*slot).or_else(last)
            }
            Some(Column::Size) => size.as_ref().map(Size::text),
            Some(Column::Absent) | None => None,
        };
        HeaderLines::One(line)
    }

    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        diana_config::claim(token, path)
    }
}

fn last(list: &[u8]) -> Option<&[u8]> {
    list.rsplit(|byte| *byte == b',').next().map(<[u8]>::trim_ascii)
}
