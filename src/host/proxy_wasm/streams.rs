//! Streams by the numbers that hosts give them.
//!
//! It does not know: what is kept of a stream.

pub(super) use crate::map::NumberMap;

/// Whose stream a stream is, from its creation to its headers. Hosts create one when its headers have come, so
/// there is one at a time, and nothing is inserted anywhere.
#[derive(Debug, Default)]
pub(super) struct NewStreams {
    /// The stream and its plugin.
    last: Option<(u32, u32)>,
    before: NumberMap<u32>,
}

impl NewStreams {
    pub(super) fn put(&mut self, id: u32, plugin: u32) {
        if let Some((id, plugin)) = self.last.replace((id, plugin)) {
            self.before.insert(id, plugin);
        }
        self.before.remove(id);
    }

    /// The plugin of a stream that has not been asked for before.
    pub(super) fn take(&mut self, id: u32) -> Option<u32> {
        match self.last {
            Some((last, plugin)) if last == id => {
                self.last = None;
                Some(plugin)
            }
            _ => self.before.remove(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_told_once() {
        let mut newest = NewStreams::default();
        newest.put(2, 1);
        assert_eq!((newest.take(3), newest.take(2), newest.take(2)), (None, Some(1), None));
        for id in 2..9 {
            newest.put(id, id + 10);
        }
        newest.put(8, 1);
        assert_eq!((newest.take(8), newest.take(8)), (Some(1), None));
        for id in (2..8).rev() {
            assert_eq!((newest.take(id), newest.take(id)), (Some(id + 10), None));
        }
        assert_eq!(newest.before.len(), 0);
    }
}
