//! Measures what one request used: the status, the bytes of both bodies, and the values of the
//! response that costs name.

use crate::Host;
use diana_limiter::policy::{Measure, Measures, ResponseNumber, Usage};
use diana_response_meter::{Meter, Pointers, ResponseHead};

/// The longest JSON body that is read, in bytes. Event streams have no limit.
const MAX_JSON_BYTES: usize = 1 << 20;

/// The most bytes of a body that a worker copies at once.
const CHUNK_BYTES: usize = 64 << 10;

/// What a policy measures of each request that it settles.
#[derive(Debug, Default)]
pub(super) struct MeteredValues {
    measures: Measures,
    /// The parsed [`Measures::pointers`]; `None` without any.
    pointers: Option<Pointers>,
}

impl MeteredValues {
    pub(super) fn new(measures: &Measures) -> MeteredValues {
        // The configuration refuses an invalid pointer.
        let pointers = Pointers::parse(measures.pointers());
        debug_assert!(pointers.is_ok(), "a pointer that the configuration refuses");
        let pointers = pointers.ok().filter(|pointers| !pointers.is_empty());
        MeteredValues { measures: measures.clone(), pointers }
    }

    /// Whether the policy measures anything.
    pub(super) fn any(&self) -> bool {
        self.measures.any()
    }

    /// Whether the policy depends on the times of responses.
    pub(super) fn latency(&self) -> bool {
        self.measures.latency
    }

    /// Whether the policy counts the bytes of request bodies.
    pub(super) fn request_bytes(&self) -> bool {
        self.measures.request_bytes
    }
}

/// The measurement of one request.
#[derive(Default)]
pub(super) struct Metering {
    usage: Usage,
    /// The reader of the response's body.
    meter: Option<Meter>,
    /// Whether the response has passed to its end.
    has_response_ended: bool,
    /// Whether the response tells a gRPC client that time is up.
    is_grpc_timeout: bool,
}

impl Metering {
    /// The status of the response, if the policy depends on statuses.
    pub(super) fn status(&self) -> Option<u16> {
        self.usage.status
    }

    /// A part of the request's body has arrived.
    pub(super) fn request_body(&mut self, size: usize) {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        self.usage.request_bytes = self.usage.request_bytes.saturating_add(size);
    }

    /// The response's headers have arrived.
    pub(super) fn response_headers(&mut self, host: impl Host, values: &MeteredValues) {
        if values.measures.status {
            let status = host.response_header(b":status");
            self.usage.status = status.and_then(|status| std::str::from_utf8(&status).ok()?.parse().ok());
        }
        self.has_response_ended = false;
        let value = |measure: &Measure| match measure {
            Measure::Header(name) => {
                ResponseNumber::in_header(host.response_lines(name.as_bytes()).as_deref())
            }
            Measure::Json(_) | Measure::Property(_) => ResponseNumber::default(),
        };
        self.usage.values.clear();
        self.usage.values.extend(values.measures.values.iter().map(value));
        self.meter = values.pointers.as_ref().map(|pointers| {
            let header = |name: &[u8]| host.response_header(name).unwrap_or_default();
            let (content_type, content_encoding) = (&*header(b"content-type"), &*header(b"content-encoding"));
            let status = self.usage.status.unwrap_or(0);
            Meter::new(pointers, ResponseHead { status, content_type, content_encoding }, MAX_JSON_BYTES)
        });
        // A gateway answers gRPC clients with the status 200 and with `DEADLINE_EXCEEDED` or, in
        // place of 504 and 408, with `UNAVAILABLE` and `UNKNOWN`. The client chooses the timeout by
        // `grpc-timeout`, or by not sending the rest of its request. Such an answer has one status;
        // Envoy joins the lines of an upstream that repeats it.
        self.is_grpc_timeout = !self.usage.values.is_empty()
            && host.response_header(b"grpc-status").is_some_and(|code| matches!(&*code, b"2" | b"4" | b"14"));
    }

    /// Nothing of the response's body is still to come.
    pub(super) fn response_ended(&mut self) {
        self.has_response_ended = true;
    }

    /// A part of the response's body passes.
    pub(super) fn response_body(&mut self, host: impl Host, size: usize) {
        let bytes = u64::try_from(size).unwrap_or(u64::MAX);
        self.usage.response_bytes = self.usage.response_bytes.saturating_add(bytes);
        let Some(meter) = self.meter.as_mut().filter(|meter| !meter.is_done()) else {
            return;
        };
        let mut start = 0;
        while start < size {
            let Some(chunk) = host.response_body(start, CHUNK_BYTES).filter(|chunk| !chunk.is_empty()) else {
                return meter.lose();
            };
            meter.push(&chunk);
            start = start.saturating_add(chunk.len());
        }
    }

    /// What the request used, at its end.
    pub(super) fn usage(&mut self, host: impl Host, values: &MeteredValues) -> &Usage {
        let Metering { usage, meter, has_response_ended: has_ended, is_grpc_timeout } = self;
        let mut pointers = 0..;
        for (value, measure) in usage.values.iter_mut().zip(&values.measures.values) {
            match measure {
                Measure::Header(_) => {}
                Measure::Json(_) => {
                    if let (Some(at), Some(meter)) = (pointers.next(), &meter) {
                        let (seen, is_final) = (meter.value(at), meter.is_final(at, *has_ended));
                        *value = ResponseNumber { seen, is_final };
                    }
                }
                Measure::Property(path) => {
                    *value = ResponseNumber::in_property(host.property(path).as_deref(), *has_ended);
                }
            }
            value.is_final &= value.seen.is_some() || !*is_grpc_timeout;
        }
        usage
    }
}
