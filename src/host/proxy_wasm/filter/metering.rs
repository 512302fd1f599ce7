//! The callbacks by which the filter measures what a request uses; see
//! [`metering`](crate::host::proxy_wasm::metering).

use super::{Action, Filter, Stream};
use crate::host::proxy_wasm::metering::{MeteredValues, Metering};

impl Filter {
    /// A part of the request's body has arrived.
    pub fn on_request_body(&self, id: u32, size: usize) -> Action {
        self.meter(id, |stream, metering, values| {
            if values.request_bytes() {
                metering.request_body(size, stream.is_waiting);
            }
        });
        self.on_request_more(id)
    }

    /// A part of the response's body passes.
    pub fn on_response_body(&self, id: u32, size: usize) -> Action {
        self.meter(id, |_, metering, _| metering.response_body(size));
        Action::Continue
    }

    pub(super) fn meter_response_headers(&self, id: u32) {
        self.meter(id, |_, metering, values| metering.response_headers(values));
    }

    /// Measures a stream that has to be settled, or may have to be after its wait.
    fn meter(&self, id: u32, measure: impl FnOnce(&Stream, &mut Metering, &MeteredValues)) {
        self.streams.with(|streams| {
            let stream = streams.get_mut(id)?;
            let plugin = std::rc::Rc::clone(&stream.plugin);
            if plugin.metered.any() && (stream.is_waiting || stream.session.settles()) {
                let mut metering = stream.metering.take().unwrap_or_default();
                measure(stream, &mut metering, &plugin.metered);
                stream.metering = Some(metering);
            }
            Some(())
        });
    }
}
