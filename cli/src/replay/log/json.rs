//! One JSON object a line, with the names of Envoy's, Istio's and nginx' fields.

use super::field::{Field, Incoming, Known, MILLIS, SECONDS};
use super::record::{Slot, Slots};
use super::time::{TIME_LOCAL, TimeFormat};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// The meaning of keys in JSON lines, by [`plain`] key.
#[derive(Clone, Debug)]
pub struct Keys {
    fields: HashMap<String, Field>,
}

impl Keys {
    /// The keys of `slots` and of what every replay reads.
    #[must_use]
    pub fn new(slots: &Slots) -> Keys {
        let mut fields = HashMap::new();
        let mut add = |keys: &[&str], field: &Field| {
            for key in keys {
                fields.entry((*key).to_owned()).or_insert_with(|| field.clone());
            }
        };
        let value = |slot| Field::value(slots, &slot);
        add(START, &Field::Start(TimeFormat::Any));
        add(&["time_iso8601"], &Field::End(TimeFormat::Any));
        add(&["time_local"], &Field::End(TimeFormat::Strftime(TIME_LOCAL.into())));
        add(&["msec"], &Field::End(TimeFormat::Seconds));
        add(&["duration", "duration_ms"], &Field::Duration(MILLIS));
        add(&["request_time", "duration_s"], &Field::Duration(SECONDS));
        add(
            &["response_duration", "upstream_service_time", "x_envoy_upstream_service_time"],
            &Field::Latency(MILLIS),
        );
        add(&["upstream_header_time", "upstream_response_time"], &Field::Latency(SECONDS));
        add(&["response_code", "status", "status_code"], &Field::Status);
        add(&["bytes_received"], &Field::Received);
        add(&["bytes_sent", "body_bytes_sent"], &Field::Sent);
        add(&["method", "request_method"], &value(Slot::Method));
        add(TARGET, &value(Slot::Target));
        add(&["request"], &Field::request_line(slots));
        add(&["authority", "host", "http_host"], &value(Slot::Host));
        add(ADDRESS, &value(Slot::Address));
        add(&["protocol", "server_protocol"], &value(Slot::Attribute("request.protocol".into())));
        add(&["route_name"], &value(Slot::Attribute("xds.route_name".into())));
        add(&["upstream_cluster"], &value(Slot::Attribute("xds.cluster_name".into())));
        add(&["requested_server_name"], &value(Slot::Attribute("connection.requested_server_name".into())));
        add(&["request_id"], &value(Slot::Header("x-request-id".into())));
        for slot in slots.iter() {
            match slot {
                Slot::Header(name) => {
                    let name = plain(name);
                    add(
                        &[&*name, &format!("http_{name}"), &format!("request_header_{name}")],
                        &value(slot.clone()),
                    );
                }
                Slot::ResponseHeader(name) => {
                    let name = plain(name);
                    add(
                        &[&format!("response_header_{name}"), &format!("sent_http_{name}")],
                        &value(slot.clone()),
                    );
                }
                Slot::Attribute(name) => add(&[&*plain(name)], &value(slot.clone())),
                Slot::Method | Slot::Target | Slot::Host | Slot::Address => {}
            }
        }
        Keys { fields }
    }

    /// Reads a line. The error says what is wrong.
    pub fn read(&self, line: &[u8], to: &mut Incoming) -> Result<(), Cow<'static, str>> {
        self.walk(line, |field, text| text.map_or(Ok(()), |text| field.put(text, to)))
    }

    /// Adds the keys that a line has, also those without a value: another line may have one.
    pub fn note(&self, line: &[u8], known: &mut Known) {
        let _ = self.walk(line, |field, _| {
            known.add(field);
            Ok(())
        });
    }

    /// Calls `put` with each field of a line and its text; `None` if the field has no value.
    fn walk(
        &self,
        line: &[u8],
        put: impl FnMut(&Field, Option<&[u8]>) -> Result<(), &'static str>,
    ) -> Result<(), Cow<'static, str>> {
        let mut reader = serde_json::Deserializer::from_slice(line);
        let read = reader.deserialize_map(Line { keys: self, put }).and_then(|()| reader.end());
        read.map_err(|error| match error.is_data() {
            // The position would be the one after the value.
            true => error.to_string().split(" at line").next().unwrap_or_default().to_owned().into(),
            false => "the line is not a JSON object".into(),
        })
    }
}

const START: &[&str] = &["start_time", "request_start_time", "timestamp", "time", "ts"];
const TARGET: &[&str] =
    &["x_envoy_original_path", "x_envoy_origin_path", "path", "request_uri", "request_path", "uri", "url"];
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

/// The key in lower case, with `_` for `-` and `.`, and without the mark before `:authority` and
/// `@timestamp`.
fn plain(key: &str) -> Cow<'_, str> {
    let key = key.trim_start_matches([':', '@']);
    if key.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return key.into();
    }
    key.to_ascii_lowercase().replace(['-', '.'], "_").into()
}

struct Line<'a, P> {
    keys: &'a Keys,
    put: P,
}

impl<'de, P: FnMut(&Field, Option<&[u8]>) -> Result<(), &'static str>> Visitor<'de> for Line<'_, P> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<Cow<str>>()? {
            let value: &RawValue = map.next_value()?;
            let Some(field) = self.keys.fields.get(&*plain(&key)).filter(|field| **field != Field::Unread)
            else {
                continue;
            };
            let text = match value.get() {
                text if text.starts_with('"') => serde_json::from_str(text).map_err(Error::custom)?,
                // Objects and lists belong to other programs.
                text if text.starts_with(['{', '[']) => continue,
                "null" => Cow::Borrowed(""),
                text => Cow::Borrowed(text),
            };
            let value = (!text.is_empty() && text != "-").then(|| text.as_bytes());
            (self.put)(field, value).map_err(Error::custom)?;
        }
        Ok(())
    }
}
