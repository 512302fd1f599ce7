//! The body of a request, and its response.

use super::Vm;
use crate::host::gateway::Fate;

impl Vm {
    /// Reports a part of the body. `ends`: whether it is the last part.
    pub fn body(&self, id: u32, size: usize, ends: bool) {
        if self.tells_all() {
            let action = self.enter(id, |filter| filter.on_request_body(id, size, ends));
            self.go_on(id, action);
        }
    }

    /// A part of the request's body arrives, and the host hands it on, as it does with
    /// `allow_on_headers_stop_iteration`. `ends`: whether it is the last part.
    pub fn frame(&self, id: u32, bytes: &[u8], ends: bool) {
        self.with_stream(id, |stream| stream.frame = bytes.into());
        self.body(id, bytes.len(), ends);
        self.with_stream(id, |stream| stream.frame.clear());
    }

    /// A part of the request's body arrives. While the request waits, the host holds the body, and
    /// reports it when the request goes on. A host that reports each part at once is simulated as
    /// well.
    pub fn request_body(&self, id: u32, size: usize) {
        self.request_part(id, size, false);
    }

    /// The last part of the request's body arrives.
    pub fn end_request(&self, id: u32, size: usize) {
        self.request_part(id, size, true);
    }

    fn request_part(&self, id: u32, size: usize, ends: bool) {
        let Some(request) = self.request_of(id) else { return };
        match self.fate(request) {
            Fate::Paused => {
                self.with_stream(id, |stream| {
                    stream.held += size;
                    stream.holds_end |= ends;
                });
                if self.world().reports_held.get() {
                    self.body(id, size, ends);
                }
            }
            _ => self.body(id, size, ends),
        }
    }

    /// The trailers of the request arrive, which end it.
    pub fn request_trailers(&self, id: u32) {
        if self.tells_all() {
            let action = self.enter(id, |filter| filter.on_request_trailers(id));
            self.go_on(id, action);
        }
    }

    /// The request goes on, and its held body with it.
    pub(super) fn deliver_held(&self, id: u32) {
        let take = |stream: &mut super::Stream| {
            (std::mem::take(&mut stream.held), std::mem::take(&mut stream.holds_end))
        };
        let (held, ends) = self.with_stream(id, take);
        if (held > 0 || ends) && !self.world().reports_held.get() {
            self.body(id, held, ends);
        }
    }

    /// The headers of a response arrive: of the upstream's, or of the host's own.
    pub fn respond(&self, id: u32, status: u32, headers: &[(&str, &str)]) {
        let status = [(":status".to_owned(), status.to_string().into_bytes())];
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().into()));
        self.with_stream(id, |stream| stream.response = Some(status.into_iter().chain(headers).collect()));
        if self.tells_all() {
            self.enter(id, |filter| filter.on_response_headers(id, false));
        }
    }

    /// A part of the response's body passes.
    pub fn response_body(&self, id: u32, part: &[u8]) {
        self.with_stream(id, |stream| stream.part = part.into());
        if self.tells_all() {
            self.enter(id, |filter| filter.on_response_body(id, part.len(), false));
        }
        self.with_stream(id, |stream| stream.part.clear());
    }

    /// The response ends, if it has begun, and the stream with it.
    pub fn end(&self, id: u32) {
        if let Some(request) = self.request_of(id) {
            if self.tells_all() && self.with_stream(id, |stream| stream.response.is_some()) {
                // Some responses end with trailers.
                self.enter(id, |filter| match id % 2 {
                    0 => filter.on_response_body(id, 0, true),
                    _ => filter.on_response_trailers(id),
                });
            }
            self.world().note(request, Fate::Served);
            self.delete(id);
        }
    }

    /// The upstream replies with an empty body, if the request has reached it.
    pub fn serve(&self, id: u32) {
        if let Some(request) = self.request_of(id)
            && self.fate(request) == Fate::Upstream
        {
            self.respond(id, 200, &[]);
            self.end(id);
        }
    }

    /// The upstream replies to the request of this number.
    pub fn serve_request(&self, request: usize) {
        self.serve(self.stream_of(request));
    }

    /// The stream of a request that has not ended.
    pub fn stream_of(&self, request: usize) -> u32 {
        let of = self.streams().into_iter().find(|id| self.request_of(*id) == Some(request));
        of.expect("a request that has not ended")
    }

    fn with_stream<R: Default>(&self, id: u32, change: impl FnOnce(&mut super::Stream) -> R) -> R {
        self.0.streams.borrow_mut().get_mut(&id).map(change).unwrap_or_default()
    }
}
