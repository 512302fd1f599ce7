//! What Diana needs from its host, by the SDK's calls: shared data, parts of a request, the time.

use diana_limiter::cells::store::{Fault, SharedData, Swap};
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::{HeaderLines, Part, PartId, Source, Values};
use diana_limiter::time::Time;
use proxy_wasm::hostcalls;
use proxy_wasm::types::{MapType, Status};
use std::cell::OnceCell;

/// The host's shared data. The engine makes a store of these two calls.
pub struct HostData;

/// The key as text, as the SDK takes keys. The engine's keys are ASCII.
fn text(key: &[u8]) -> Result<&str, Fault> {
    str::from_utf8(key).map_err(|_| failed(Status::BadArgument))
}

fn failed(status: Status) -> Fault {
    Fault(status as u32)
}

impl SharedData for HostData {
    fn get(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, Option<u32>), Fault> {
        hostcalls::get_shared_data(text(key)?).map_err(failed)
    }

    fn set(&self, key: &[u8], value: &[u8], cas: Option<u32>) -> Result<Swap, Fault> {
        match hostcalls::set_shared_data(text(key)?, Some(value), cas) {
            Ok(()) => Ok(Swap::Done),
            Err(Status::CasMismatch) => Ok(Swap::Conflict),
            Err(status) => Err(failed(status)),
        }
    }
}

/// The request of the stream that the host is calling about.
pub struct HostRequest {
    headers: Values,
    /// Values of host attributes by part, each read at most once.
    properties: Vec<OnceCell<Option<Vec<u8>>>>,
}

impl HostRequest {
    /// Reads all headers. `parts` is the number of parts of the policy. `ends` says whether the
    /// request ends with its headers.
    pub fn read(parts: usize, ends: bool) -> HostRequest {
        // As bytes: the SDK panics if code reads a header value as text and the value is not UTF-8.
        let headers = hostcalls::get_map_bytes(MapType::HttpRequestHeaders).unwrap_or_default();
        let with = |values: Values, (name, line): (String, Vec<u8>)| {
            let part = match &*name {
                ":path" => Part::Path,
                ":method" => Part::Method,
                ":authority" => Part::Host,
                _ => Part::Header(name.into()),
            };
            values.with(part, line)
        };
        let is_tunnel = |(name, line): &(String, Vec<u8>)| match &**name {
            ":method" => line == b"CONNECT",
            name => name == "upgrade",
        };
        let size = match headers.iter().find(|(name, _)| name == "content-length") {
            // Whatever a tunnel declares, more may follow.
            _ if !ends && headers.iter().any(is_tunnel) => None,
            Some((_, size)) => Some(size.clone()),
            // A request without a body need not declare its size.
            None => ends.then(|| b"0".to_vec()),
        };
        let headers = headers.into_iter().fold(Values::default(), with);
        let headers = match size {
            Some(size) => headers.with(Part::BodySize, size),
            None => headers,
        };
        HostRequest { headers, properties: vec![OnceCell::new(); parts] }
    }

    fn property(&self, id: PartId, path: Vec<&str>) -> HeaderLines<'_> {
        let read = || hostcalls::get_property(path).ok().flatten();
        let value = self.properties.get(id.index()).and_then(|cell| cell.get_or_init(read).as_deref());
        HeaderLines::One(value)
    }
}

impl Source for HostRequest {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        match part {
            Part::Address => self.property(id, vec!["source", "address"]),
            Part::Property(path) => self.property(id, path.iter().map(|step| &**step).collect()),
            _ => self.headers.lines(id, part),
        }
    }

    /// No rule of this filter reads tokens.
    fn claim(&self, _: &[u8], _: &str) -> Option<ClaimValue> {
        None
    }
}

/// The host's clock.
pub fn now() -> Time {
    hostcalls::get_current_time().map_or(Time::ZERO, Time::from)
}
