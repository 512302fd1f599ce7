//! A [`Store`] over the shared data of proxy-wasm. Envoy and nginx give the version of a write
//! opposite meanings (proxy-wasm-cpp-host `src/shared_data.cc`, ngx_wasm_module `ngx_wa_shm_kv.c`),
//! so a probe at the start finds out the host's rules.
//!
//! ```text
//!                              set(k, v, none or 0)       set(k, v, n) and k is absent
//!   Envoy, ATS (cpp-host)      writes in any case         creates it
//!   ngx_wasm_module            creates; else mismatch     mismatch
//! ```

use super::{Fault, Loaded, Store, Swap, Version};

/// The two calls of the host, unchanged.
pub trait SharedData {
    /// Value and version. `(None, Some(version))` is a key with an empty value, `(None, None)` no
    /// key.
    fn get(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, Option<u32>), Fault>;

    /// Writes under the host's own rules. [`Swap::Conflict`]: the version did not match.
    fn set(&self, key: &[u8], value: &[u8], cas: Option<u32>) -> Result<Swap, Fault>;
}

/// How a host interprets the version of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CasSemantics {
    /// Envoy: compares versions only if the key exists.
    Lenient,
    /// ngx_wasm_module: no version means "must be absent", and an absent key has no version.
    Strict,
}

/// The keys where the first worker records the rules that it found. If a key holds a foreign value,
/// the next key is used.
const RULES_KEYS: [&[u8]; 3] = [b"diana/rules", b"diana/rules2", b"diana/rules3"];

/// A version that no key has. Envoy counts versions up from 1 over the life of the process. A
/// second creation could pass only if the count reached this number at exactly this key.
const NO_VERSION: u32 = 0xffff_fff0;

/// A [`Store`] over any host's shared data.
#[derive(Clone, Debug)]
pub struct SharedDataStore<D> {
    data: D,
    rules: CasSemantics,
}

impl<D: SharedData> SharedDataStore<D> {
    /// Finds out the host's rules: only a lenient host lets a write with a version create a key.
    pub fn probe(data: D) -> Result<SharedDataStore<D>, Fault> {
        for key in RULES_KEYS {
            if let Some(rules) = probe(&data, key)? {
                return Ok(SharedDataStore { data, rules });
            }
        }
        Err(Fault(0))
    }

    /// The rules that were found.
    pub fn rules(&self) -> CasSemantics {
        self.rules
    }
}

/// Finds out the rules by reading `key` or by writing to it. `None` if the key holds a foreign
/// value.
fn probe<D: SharedData>(data: &D, key: &[u8]) -> Result<Option<CasSemantics>, Fault> {
    let (written, version) = data.get(key)?;
    if version.is_some() {
        return Ok(read(written.as_deref()));
    }
    if data.set(key, b"lenient", Some(NO_VERSION))? == Swap::Done {
        return Ok(Some(CasSemantics::Lenient));
    }
    // Another worker may have been faster, and then its record decides. If there is none, the host
    // is strict.
    let (written, version) = data.get(key)?;
    if version.is_none() {
        data.set(key, b"strict", None)?;
        return Ok(Some(CasSemantics::Strict));
    }
    Ok(read(written.as_deref()))
}

fn read(written: Option<&[u8]>) -> Option<CasSemantics> {
    match written {
        Some(b"lenient") => Some(CasSemantics::Lenient),
        Some(b"strict") => Some(CasSemantics::Strict),
        _ => None,
    }
}

impl<D: SharedData> Store for SharedDataStore<D> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        Ok(match self.data.get(key)? {
            (bytes, Some(version)) => {
                Some(Loaded { bytes: bytes.unwrap_or_default(), version: Version(version) })
            }
            (_, None) => None,
        })
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        let cas = match (expected, self.rules) {
            (Some(Version(version)), _) => Some(version),
            (None, CasSemantics::Lenient) => Some(NO_VERSION),
            (None, CasSemantics::Strict) => None,
        };
        self.data.set(key, value, cas)
    }
}
