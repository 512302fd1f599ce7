//! Which values the lines of a log have.

use super::incoming::Incoming;

/// Which values the lines of a log have. A value counts as known if any line has its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Whether a line has the start of the request.
    pub start: bool,
    /// Whether a line may have fractions of a second.
    pub fraction: bool,
    /// Whether a line has the duration.
    pub duration: bool,
    /// Whether a line has the latency of the upstream.
    pub latency: bool,
    /// Whether a line has the status.
    pub status: bool,
    /// Whether a line has the bytes of the request's body.
    pub received: bool,
    /// Whether a line has the bytes of the response's body.
    pub sent: bool,
    /// Whether nginx wrote a line.
    pub nginx: bool,
    /// Whether a line has each slot, by index.
    slots: Vec<bool>,
}

impl Known {
    /// Nothing is known about `slots` slots.
    #[must_use]
    pub fn new(slots: usize) -> Known {
        Known { slots: vec![false; slots], ..Known::default() }
    }

    /// Adds a line.
    pub fn add(&mut self, line: &Incoming) {
        self.start |= line.time.value().is_some_and(|instant| !instant.is_end);
        self.fraction |= !line.is_whole();
        self.duration |= line.duration_ns.is_known();
        self.latency |= line.latency_ns.is_known();
        self.status |= line.status.is_known();
        self.received |= line.received.is_known();
        self.sent |= line.sent.is_known();
        self.nginx |= line.is_nginx;
        for (slot, known) in self.slots.iter_mut().enumerate() {
            *known |= line.has(slot);
        }
    }

    /// Adds the lines of another file.
    pub fn merge(&mut self, other: &Known) {
        let Known { start, fraction, duration, latency, status, received, sent, nginx, slots } = other;
        self.start |= start;
        self.fraction |= fraction;
        self.duration |= duration;
        self.latency |= latency;
        self.status |= status;
        self.received |= received;
        self.sent |= sent;
        self.nginx |= nginx;
        if self.slots.len() < slots.len() {
            self.slots.resize(slots.len(), false);
        }
        for (known, other) in self.slots.iter_mut().zip(slots) {
            *known |= other;
        }
    }

    /// Whether a line has the key of this slot.
    #[must_use]
    pub fn has(&self, slot: usize) -> bool {
        self.slots.get(slot).copied().unwrap_or(false)
    }
}
