//! The store's secret, if Envoy's secret discovery service delivers it. Envoy keeps the present
//! secret for each thread, and the document has only its name.

use crate::abi::{Bytes, ConfigPtr, Exports};
use diana_config::SecretSource;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The secret of one configuration.
pub struct SharedSecret {
    envoy: &'static Exports,
    /// Envoy's number.
    id: usize,
    name: String,
    is_missed: AtomicBool,
    /// The last secret that was refused.
    refused: Mutex<Vec<u8>>,
}

impl SharedSecret {
    /// Follows the secret that a document names. `None` if the document names none, or if this
    /// Envoy delivers none. Fails if Envoy does not know the secret.
    ///
    /// # Safety
    /// Envoy is making the configuration `pointer`.
    pub unsafe fn follow(
        envoy: &'static Exports,
        pointer: ConfigPtr,
        document: &[u8],
    ) -> Result<Option<SharedSecret>, String> {
        let Some(follow) = envoy.http_filter_config_generic_secret_subscribe else {
            return Ok(None);
        };
        let Some(SecretSource { name, config }) = SecretSource::of(document) else {
            return Ok(None);
        };
        // SAFETY: by the caller's promise; both texts live through the call.
        let id = unsafe { follow(pointer, Bytes::of(name.as_bytes()), Bytes::of(config.as_bytes())) };
        match (id, &*config) {
            (0, "") => Err(format!(
                "Envoy has no secret `{}`: add it to `static_resources.secrets` of the bootstrap, or say in `sds_config` \
                 where it comes from",
                name.escape_debug()
            )),
            (0, _) => Err(format!("Envoy refuses `sds_config` of the secret `{}`", name.escape_debug())),
            _ => {
                let (is_missed, refused) = (AtomicBool::new(false), Mutex::default());
                Ok(Some(SharedSecret { envoy, id, name, is_missed, refused }))
            }
        }
    }

    /// The present secret of this thread; empty until it arrives.
    ///
    /// # Safety
    /// This is an event of the configuration `pointer` or of one of its streams. The bytes live
    /// until it ends.
    pub unsafe fn read<'a>(&self, pointer: ConfigPtr) -> &'a [u8] {
        let (mut value, read) = (Bytes::NONE, self.envoy.http_filter_config_get_generic_secret);
        // SAFETY: by the caller's promise; Envoy writes a value.
        let found = read.is_some_and(|read| unsafe { read(pointer, self.id, &raw mut value) });
        // SAFETY: Envoy lends the value until the event ends.
        if found { unsafe { value.get() } } else { &[] }
    }

    /// Logs once that a request is decided before the secret has arrived.
    pub fn miss(&self) {
        if !self.is_missed.swap(true, Ordering::Relaxed) {
            let name = self.name.escape_debug();
            log::warn!(
                "the store's secret `{name}` has not arrived: until it does, `on_error` of each global rule decides"
            );
        }
    }

    /// Logs once that a delivered secret cannot be used.
    pub fn refuse(&self, value: &[u8]) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if *refused != value {
            *refused = value.to_vec();
            let name = self.name.escape_debug();
            log::error!(
                "the store's secret `{name}` is refused, expected a text of at least 16 letters; the one before stays"
            );
        }
    }
}
