//! Reads the parts of a request from the host.
//!
//! It does not know: which parts a policy needs; it is asked. The first header that is asked for brings all
//! of them, in one call: it costs about what a single one does, and only so are all lines of a header seen.

use super::calls;
use crate::host::pairs;
use crate::request::{Part, Source};
use std::cell::OnceCell;

/// The request of the stream whose callback runs.
#[derive(Default)]
pub(super) struct HostRequest {
    headers: OnceCell<Vec<u8>>,
}

impl HostRequest {
    fn lines(&self, name: &[u8]) -> Vec<Vec<u8>> {
        let headers = self.headers.get_or_init(|| calls::request_headers().unwrap_or_default());
        pairs::values(headers, name).into_iter().map(<[u8]>::to_vec).collect()
    }
}

impl Source for HostRequest {
    fn read(&self, part: &Part) -> Vec<Vec<u8>> {
        match part {
            Part::Path => self.lines(b":path"),
            Part::Method => self.lines(b":method"),
            // nginx puts the machine's own name into `:authority`, and what the client asked for into `host`.
            Part::Host => match self.lines(b"host") {
                none if none.is_empty() => self.lines(b":authority"),
                hosts => hosts,
            },
            Part::Header(name) => self.lines(name.as_bytes()),
            Part::Address => calls::property(b"source\0address").into_iter().collect(),
            Part::Property(path) => calls::property(path.join("\0").as_bytes()).into_iter().collect(),
        }
    }
}
