//! The host's shared data.

use super::abi::*;
use super::calls::{CAS_MISMATCH, NOT_FOUND, OK};
use super::memory;
use diana_limiter::cells::store::{Fault, SharedData, Swap};
use std::ptr::null_mut;

/// The host's shared data.
#[derive(Clone, Copy, Debug)]
pub struct HostData;

impl SharedData for HostData {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, Option<u32>), Fault> {
        let (mut data, mut size, mut cas) = (null_mut(), 0, 0);
        // SAFETY: the key lives through the call; the host writes a pointer, a size and four bytes.
        match unsafe { proxy_get_shared_data(key.as_ptr(), key.len(), &mut data, &mut size, &mut cas) } {
            // SAFETY: a host returns what it has just allocated and written.
            OK => Ok((unsafe { memory::take(data, size) }, (cas != 0).then_some(cas))),
            NOT_FOUND => Ok((None, None)),
            status => Err(Fault(status)),
        }
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8], cas: Option<u32>) -> Result<Swap, Fault> {
        let cas = cas.unwrap_or(0);
        // SAFETY: key and value live through the call.
        match unsafe { proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), cas) } {
            OK => Ok(Swap::Done),
            CAS_MISMATCH => Ok(Swap::Conflict),
            status => Err(Fault(status)),
        }
    }
}
