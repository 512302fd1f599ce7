//! The store of a replay: values in memory.

use diana_limiter::cells::store::{Fault, Loaded, Store, Swap, Version};
use foldhash::fast::FixedState;
use std::cell::RefCell;
use std::collections::HashMap;

/// Value and version of each key.
type Values = HashMap<Vec<u8>, (Vec<u8>, Version), FixedState>;

/// Values in memory, for one worker.
#[derive(Debug, Default)]
pub struct Memory(RefCell<Values>);

impl Store for Memory {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        let values = self.0.try_borrow().map_err(|_| Fault(1))?;
        let loaded =
            |(bytes, version): &(Vec<u8>, Version)| Loaded { bytes: bytes.clone(), version: *version };
        Ok(values.get(key).map(loaded))
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        let mut values = self.0.try_borrow_mut().map_err(|_| Fault(1))?;
        match (values.get_mut(key), expected) {
            (Some((bytes, version)), Some(expected)) if *version == expected => {
                bytes.clear();
                bytes.extend_from_slice(value);
                *version = Version(version.0.wrapping_add(1));
            }
            (None, None) => _ = values.insert(key.into(), (value.into(), Version(1))),
            _ => return Ok(Swap::Conflict),
        }
        Ok(Swap::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_needs_the_present_version() {
        let memory = Memory::default();
        assert_eq!(memory.load(b"a"), Ok(None));
        assert_eq!(memory.swap(b"a", b"1", Some(Version(1))), Ok(Swap::Conflict));
        assert_eq!(memory.swap(b"a", b"1", None), Ok(Swap::Done));
        assert_eq!(memory.swap(b"a", b"2", None), Ok(Swap::Conflict));
        let version = memory.load(b"a").unwrap().unwrap().version;
        assert_eq!(memory.swap(b"a", b"two", Some(version)), Ok(Swap::Done));
        assert_eq!(memory.swap(b"a", b"3", Some(version)), Ok(Swap::Conflict));
        assert_eq!(memory.load(b"a").unwrap().unwrap().bytes, b"two");
    }
}
