//! Maps keyed by the host's stream numbers.

pub(super) use diana_limiter::number_map::NumberMap;

/// The plugins of streams, from a stream's creation to its headers. Hosts create a stream when its
/// headers have arrived, so usually there is one entry, and nothing is inserted into the map.
#[derive(Debug, Default)]
pub(super) struct NewStreams {
    /// The stream and its plugin.
    last: Option<(u32, u32)>,
    others: NumberMap<u32>,
}

impl NewStreams {
    pub(super) fn put(&mut self, id: u32, plugin: u32) {
        if let Some((id, plugin)) = self.last.replace((id, plugin)) {
            self.others.insert(id, plugin);
        }
        self.others.remove(id);
    }

    /// Takes the plugin of a stream; `None` at the second call.
    pub(super) fn take(&mut self, id: u32) -> Option<u32> {
        match self.last {
            Some((last, plugin)) if last == id => {
                self.last = None;
                Some(plugin)
            }
            _ => self.others.remove(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_finds_its_plugin_once() {
        let mut streams = NewStreams::default();
        streams.put(2, 1);
        assert_eq!((streams.take(3), streams.take(2), streams.take(2)), (None, Some(1), None));
        for id in 2..9 {
            streams.put(id, id + 10);
        }
        streams.put(8, 1);
        assert_eq!((streams.take(8), streams.take(8)), (Some(1), None));
        for id in (2..8).rev() {
            assert_eq!((streams.take(id), streams.take(id)), (Some(id + 10), None));
        }
        assert_eq!(streams.others.len(), 0);
    }
}
