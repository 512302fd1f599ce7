//! A request of a log as the filter would see it.

use super::log::field::Known;
use super::log::record::{Record, Slot, Slots};
use diana_limiter::policy::Policy;
use diana_limiter::request::joined::Joined;
use diana_limiter::request::{HeaderLines, Part, PartId, Source};

/// Where a log has the parts of a request that a policy reads.
#[derive(Clone, Debug)]
pub struct Columns {
    /// By the index of the part.
    columns: Vec<Column>,
    /// Whether the log has lines of a header joined by a comma, as nginx writes them.
    is_joined: bool,
    reads_size: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    /// The value of this slot.
    Value(usize),
    /// The header in this slot, under its name.
    Header(usize, Box<str>),
    /// The last address of the list in this slot.
    LastOf(usize),
    /// The number of body bytes that the gateway received.
    Received,
    /// The log does not have the part.
    Absent,
}

/// The slots of the parts that a policy reads. Parts that may stand for others are added.
pub fn add_slots(policy: &Policy, slots: &mut Slots) {
    for slot in [Slot::Method, Slot::Target, Slot::Host, Slot::Address] {
        slots.add(slot);
    }
    for header in ["x-forwarded-for", "content-length"] {
        slots.add(Slot::Header(header.into()));
    }
    for part in policy.request_parts() {
        slots.add(slot(part));
    }
    for measure in &policy.measures().values {
        if let diana_limiter::policy::Measure::Header(name) = measure {
            slots.add(Slot::ResponseHeader(name.clone()));
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
        Part::Property(path) => {
            let path: Vec<&str> = path.iter().map(|step| &**step).collect();
            Slot::Attribute(path.join(".").into())
        }
        Part::BodySize => Slot::Header("content-length".into()),
    }
}

impl Columns {
    /// The columns of a log with these slots.
    #[must_use]
    pub fn new(policy: &Policy, slots: &Slots, known: &Known, is_nginx: bool) -> Columns {
        let has = |slot: &Slot| slots.find(slot).filter(|index| known.has(*index));
        let column = |part: &Part| match (part, has(&slot(part))) {
            (Part::Header(name), Some(index)) => Column::Header(index, name.clone()),
            (_, Some(index)) => Column::Value(index),
            (Part::Address, None) => {
                has(&Slot::Header("x-forwarded-for".into())).map_or(Column::Absent, Column::LastOf)
            }
            (Part::BodySize, None) if known.received => Column::Received,
            _ => Column::Absent,
        };
        let columns: Vec<Column> = policy.request_parts().map(column).collect();
        let reads_size = columns.contains(&Column::Received);
        Columns { columns, is_joined: is_nginx, reads_size }
    }

    /// The values that the policy reads and the log lacks, with what replaces each: one sentence
    /// each. `counts_addresses`: whether the policy may count by address.
    #[must_use]
    pub fn assumptions(&self, policy: &Policy, counts_addresses: bool) -> Vec<String> {
        let parts = policy.request_parts().zip(&self.columns);
        let read_by_all = |part: &Part| *part == Part::Header("content-type".into());
        let stated = parts.filter_map(|(part, column)| match (part, column) {
            (Part::Address, _) if !counts_addresses => None,
            (Part::Address, Column::LastOf(_)) => Some(
                "The log has no client address: the last address of `x-forwarded-for` stands for it.".into(),
            ),
            (Part::BodySize, Column::Received) => Some(
                "The log has no `content-length`: the bytes that came stand for the declared size.".into(),
            ),
            // Only the form of a refusal depends on the content type.
            (part, Column::Absent) if !read_by_all(part) => Some(match part {
                Part::Header(name) => format!("The log has no header `{name}`: every request lacks it."),
                Part::Property(_) | Part::Path => match slot(part) {
                    Slot::Attribute(name) => {
                        format!("The log has no attribute `{name}`: every request lacks it.")
                    }
                    _ => "The log has no path.".into(),
                },
                Part::Method => "The log has no method: every request lacks it.".into(),
                Part::Host => "The log has no host: every request lacks it.".into(),
                Part::Address => {
                    "The log has no client address: rules that count by address count all requests together."
                        .into()
                }
                Part::BodySize => {
                    "The log has no size of bodies: every request counts as of unknown size.".into()
                }
            }),
            _ => None,
        });
        stated.collect()
    }

    /// The request of a record.
    #[must_use]
    pub fn request<'a>(&'a self, record: &'a Record) -> LogRequest<'a> {
        let size = record.received.filter(|_| self.reads_size);
        LogRequest { columns: self, record, size: size.map(|size| size.to_string()) }
    }
}

/// A request of a log.
#[derive(Debug)]
pub struct LogRequest<'a> {
    columns: &'a Columns,
    record: &'a Record,
    /// The size of the body, if it stands for the declared size.
    size: Option<String>,
}

impl Source for LogRequest<'_> {
    fn lines<'s>(&'s self, id: PartId, _: &'s Part) -> HeaderLines<'s> {
        let LogRequest { columns, record, size } = self;
        let line = match columns.columns.get(id.index()) {
            Some(Column::Value(slot)) => record.get(*slot),
            Some(Column::Header(slot, name)) => match record.get(*slot) {
                Some(value) if columns.is_joined => {
                    return HeaderLines::Joined(Joined::new(value, diana_filter::nginx::separator(name)));
                }
                value => value,
            },
            Some(Column::LastOf(slot)) => record.get(*slot).and_then(last),
            Some(Column::Received) => size.as_deref().map(str::as_bytes),
            Some(Column::Absent) | None => None,
        };
        HeaderLines::One(line)
    }
}

fn last(list: &[u8]) -> Option<&[u8]> {
    list.rsplit(|byte| *byte == b',').next().map(<[u8]>::trim_ascii)
}
