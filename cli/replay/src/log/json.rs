//! One JSON object a line, with the names of Envoy's, Istio's and nginx's fields.

use super::escape;
use super::field::{Field, MILLIS, SECONDS};
use super::incoming::{Incoming, Rank};
use super::record::{Slot, Slots};
use super::time::{TIME_LOCAL, TimeFormat};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The meaning of keys in JSON lines, by [`plain`] key.
#[derive(Clone, Debug)]
pub struct Keys {
    fields: HashMap<String, (Field, Rank)>,
    /// The keys of objects that may contain the values of JSON pointers.
    objects: HashSet<String>,
}

const METHOD: &[&str] = &["method", "request_method", REQUEST_LINE];
/// Before all others come the paths that the filter reads: in Envoy the one before a route rewrites
/// it, in nginx `$request_uri`. In nginx, the others may be rewritten and may lack the query.
const TARGET: &[&str] = &[
    "x_envoy_original_path",
    "x_envoy_origin_path",
    "request_uri",
    REQUEST_LINE,
    "path",
    "request_path",
    "uri",
    "url",
];
const REQUEST_LINE: &str = "request";
const ADDRESS: &[&str] = &[
    "downstream_remote_address",
    "downstream_remote_address_without_port",
    "remote_addr",
    "remote_address",
    "remote_ip",
    "client_ip",
    "client_addr",
    "source_address",
];

/// Keys with one meaning. A key's place is its rank.
type Aliases = Vec<(String, Field)>;

impl Keys {
    /// The keys of `slots` and of what every replay reads.
    #[must_use]
    pub fn new(slots: &Slots) -> Keys {
        let mut fields = HashMap::new();
        let request_line = Field::request_line(slots, rank_of_line(METHOD), rank_of_line(TARGET));
        fields.insert(REQUEST_LINE.into(), (request_line, 0));
        for aliases in numbers_and_times().into_iter().chain(values(slots)) {
            for (rank, (key, field)) in (0..).zip(aliases) {
                fields.entry(key).or_insert((field, rank));
            }
        }
        Keys { fields, objects: objects(slots) }
    }

    /// Reads a line. The error says what is wrong.
    pub fn read(&self, line: &[u8], to: &mut Incoming) -> Result<(), Cow<'static, str>> {
        let line = escape::of_json(line);
        let line = text(&line);
        let mut reader = serde_json::Deserializer::from_str(&line);
        let read = reader.deserialize_map(Line { keys: self, to, within: "" }).and_then(|()| reader.end());
        read.map_err(|error| match error.is_data() {
            // The position would be the one after the value.
            true => error.to_string().split(" at line").next().unwrap_or_default().to_owned().into(),
            false => "the line is not a JSON object".into(),
        })
    }
}

/// The rank of the request line among keys with one meaning.
fn rank_of_line(keys: &[&str]) -> Rank {
    (0..).zip(keys).find_map(|(rank, key)| (*key == REQUEST_LINE).then_some(rank)).unwrap_or_default()
}

fn aliases(keys: &[&str], field: &Field) -> Aliases {
    keys.iter().map(|key| ((*key).to_owned(), field.clone())).collect()
}

/// The keys of what every replay reads. The most exact keys come first.
fn numbers_and_times() -> [Aliases; 6] {
    let (duration, latency) = (Field::Duration, Field::Latency);
    let time_local = Field::End(TimeFormat::Strftime(TIME_LOCAL.into()));
    [
        [
            aliases(&["start_time", "request_start_time"], &Field::Start(TimeFormat::Any)),
            aliases(&["msec"], &Field::End(TimeFormat::Seconds)),
            aliases(&["time_iso8601"], &Field::End(TimeFormat::Any)),
            aliases(&["time_local"], &time_local),
            // Names of no gateway: nginx may write an end here, often in whole seconds.
            aliases(&["timestamp", "time", "ts"], &Field::Start(TimeFormat::Any)),
        ]
        .concat(),
        [
            aliases(&["duration_ms"], &duration(MILLIS)),
            aliases(&["duration_s", "request_time"], &duration(SECONDS)),
            aliases(&["duration"], &duration(MILLIS)),
        ]
        .concat(),
        [
            aliases(
                &["response_duration", "upstream_service_time", "x_envoy_upstream_service_time"],
                &latency(MILLIS),
            ),
            aliases(&["upstream_header_time", "upstream_response_time"], &latency(SECONDS)),
        ]
        .concat(),
        aliases(&["response_code", "status", "status_code"], &Field::Status),
        aliases(&["bytes_received"], &Field::Received),
        // nginx's `$bytes_sent` includes the headers.
        aliases(&["body_bytes_sent", "bytes_sent"], &Field::Sent),
    ]
}

/// The keys of slots.
fn values(slots: &Slots) -> Vec<Aliases> {
    let of = |slot: Slot, keys: &[&str]| aliases(keys, &Field::value(slots, &slot));
    let attribute =
        |name: &str, keys: &[&str]| of(Slot::Attribute(name.into()), &[keys, &[&*plain(name)]].concat());
    let mut all = vec![
        of(Slot::Method, METHOD),
        of(Slot::Target, TARGET),
        of(Slot::Host, &["authority", "host", "http_host"]),
        of(Slot::Address, ADDRESS),
        attribute("request.protocol", &["protocol", "server_protocol"]),
        attribute("xds.route_name", &["route_name"]),
        attribute("xds.cluster_name", &["upstream_cluster"]),
        attribute("connection.requested_server_name", &["requested_server_name"]),
    ];
    all.extend(slots.iter().map(|slot| match slot {
        Slot::Header(name) => {
            let name = plain(name);
            let keys = [&*name, &format!("http_{name}"), &format!("request_header_{name}")];
            let more: &[&str] = if name == "x_request_id" { &["request_id"] } else { &[] };
            of(slot.clone(), &[&keys, more].concat())
        }
        Slot::ResponseHeader(name) => {
            let name = plain(name);
            of(slot.clone(), &[&*format!("response_header_{name}"), &format!("sent_http_{name}")])
        }
        Slot::Attribute(name) => of(slot.clone(), &[&*plain(name)]),
        Slot::RequestJson(_) | Slot::ResponseJson(_) => {
            let keys = keys_of_json(slot, slots);
            of(slot.clone(), &keys.iter().map(String::as_str).collect::<Vec<_>>())
        }
        Slot::Method | Slot::Target | Slot::Host | Slot::Address => Aliases::new(),
    }));
    all
}

/// The keys of the value at a JSON pointer: the one that `--field` names, or else, for
/// `/usage/total_tokens`, `usage_total_tokens` with and without a prefix, for logs that use the
/// short name for something else.
fn keys_of_json(slot: &Slot, slots: &Slots) -> Vec<String> {
    let (pointer, prefix) = match slot {
        Slot::RequestJson(pointer) => (pointer, "request_json_"),
        Slot::ResponseJson(pointer) => (pointer, "response_json_"),
        _ => return Vec::new(),
    };
    if let Some(key) = slots.field(pointer) {
        return vec![plain(key).into_owned()];
    }
    let names = pointer.trim_start_matches('/').replace('/', "_").replace("~1", "/").replace("~0", "~");
    let name = plain(&names).into_owned();
    vec![format!("{prefix}{name}"), name]
}

/// The keys of all objects that lead to values of JSON pointers.
fn objects(slots: &Slots) -> HashSet<String> {
    let keys = slots.iter().flat_map(|slot| keys_of_json(slot, slots)).collect::<Vec<_>>();
    let within = |key: &String| {
        let ends = key.match_indices('_').filter_map(|(end, _)| key.get(..end)).map(str::to_owned);
        ends.collect::<Vec<_>>()
    };
    keys.iter().flat_map(within).collect()
}

/// The text of a line. A byte that is not UTF-8 becomes the character of its number, so that
/// different values stay different.
fn text(line: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(line) {
        return text.into();
    }
    let mut text = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| char::from(*byte)));
    }
    text.into()
}

/// The key in lower case, with `_` for `-` and `.`, and without the mark before `:authority` and
/// `@timestamp`.
fn plain(key: &str) -> Cow<'_, str> {
    let key = key.trim_start_matches([':', '@']);
    if key.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return key.into();
    }
    key.to_ascii_lowercase().replace(['-', '.'], "_").into()
}

/// Whether the key is named after a variable that only nginx has.
fn is_of_nginx(key: &str) -> bool {
    let is_header = key.starts_with("http_") || key.starts_with("sent_http_");
    is_header || ["msec", "time_iso8601", "time_local"].contains(&key)
}

struct Line<'a, 'r> {
    keys: &'a Keys,
    to: &'a mut Incoming<'r>,
    /// The keys of the objects around this one.
    within: &'a str,
}

impl<'de> Visitor<'de> for Line<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<Cow<str>>()? {
            let value: &RawValue = map.next_value()?;
            let key = match self.within {
                "" => plain(&key),
                within => format!("{within}_{}", plain(&key)).into(),
            };
            if value.get().starts_with('{') && self.keys.objects.contains(&*key) {
                let inner = Line { keys: self.keys, to: &mut *self.to, within: &key };
                let read = serde_json::Deserializer::from_str(value.get()).deserialize_map(inner);
                read.map_err(Error::custom)?;
                continue;
            }
            let known = self.keys.fields.get(&*key);
            let Some((field, rank)) = known.filter(|(field, _)| *field != Field::Unread) else { continue };
            self.to.is_nginx |= is_of_nginx(&key);
            let text = match value.get() {
                text if text.starts_with('"') => serde_json::from_str(text).map_err(Error::custom)?,
                // Objects and lists belong to other programs.
                text if text.starts_with(['{', '[']) => continue,
                "null" => Cow::Borrowed(""),
                text => Cow::Borrowed(text),
            };
            // A key without a value is known nevertheless: another line may have a value.
            let value = (!text.is_empty() && text != "-").then(|| text.as_bytes());
            field.put(*rank, value, self.to);
        }
        Ok(())
    }
}
