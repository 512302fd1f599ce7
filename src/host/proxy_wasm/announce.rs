//! One log line for a configuration that was taken, though every worker takes it.
//!
//! It does not know: which worker it runs in. Whoever is first notes the configuration in the store.

use super::calls::{self, Level};
use super::plugin::{MOST_TOLD, Plugin};
use crate::format;
use crate::store::{Rules, Store, Swap};
use crate::table::Hasher;
use crate::time::{Span, Time};

const KEY: &[u8] = b"diana/announced";

/// Workers take a configuration within so long of one another.
const AGAIN_AFTER: Span = Span::from_secs(10);

/// So many configurations are remembered: filters that share a `vm_id` take theirs at once.
const REMEMBERED: usize = 16;

const NO_VM_ID: &str = "`vm_id` is empty: all filters of this gateway without a `vm_id` share their data, those of \
    other programs included; give this filter a `vm_id` of its own in `vm_config`";

/// So often another worker may be faster before it is left at that.
const ROUNDS: u32 = 8;

/// Says that a configuration, whose bytes these are, was taken, unless another worker has just said so.
pub(super) fn announce(gateway: &Plugin, bytes: &[u8]) {
    let (store, hash) = (&gateway.store, Hasher::name(bytes));
    for _ in 0..ROUNDS {
        let now = gateway.now();
        let Ok(found) = store.load(KEY) else {
            return;
        };
        let mut said = found.as_ref().map(|loaded| read(&loaded.bytes)).unwrap_or_default();
        if said.iter().any(|(known, at)| *known == hash && now.since(*at) < AGAIN_AFTER) {
            return;
        }
        said.retain(|(known, _)| *known != hash);
        said.insert(0, (hash, now));
        said.truncate(REMEMBERED);
        match store.swap(KEY, &write(&said), found.map(|loaded| loaded.version)) {
            Ok(Swap::Done) => {
                calls::log(Level::Info, &words(gateway));
                if gateway.refuses_to_wait {
                    calls::log(
                        Level::Warn,
                        "this host cannot hold requests: requests that would wait are refused",
                    );
                }
                warn(gateway);
                return;
            }
            Ok(Swap::Lost) => {}
            Err(_) => return,
        }
    }
}

/// Logs settings that are accepted but probably not meant.
fn warn(gateway: &Plugin) {
    for warning in gateway.configuration.warnings.iter().take(MOST_TOLD) {
        calls::log(Level::Warn, &["configuration, ", &*warning.to_string()].concat());
    }
    // nginx has no such identifier, and reading it while a plugin is configured can crash the worker.
    let is_nginx = gateway.store.rules() == Rules::Strict;
    if !is_nginx && calls::property(b"plugin_vm_id").is_none_or(|id| id.is_empty()) {
        calls::log(Level::Warn, NO_VM_ID);
    }
}

fn words(gateway: &Plugin) -> String {
    let policy = &gateway.configuration.policy;
    let (keys, size) = policy.footprint();
    let (rules, keys) = (plural(policy.rules().count(), "rule"), plural(keys, "key"));
    let mut words = format!(
        "configuration taken, {rules}; at most {keys} and {} KiB of shared data",
        size.div_ceil(1024)
    );
    let clusters = gateway.worker.with(|worker| worker.clusters().join(", ")).unwrap_or_default();
    if !clusters.is_empty() {
        let secret = policy.fingerprint().to_be_bytes();
        words.extend(["; store ", &clusters, ", fingerprint of its secret "]);
        secret.into_iter().for_each(|byte| format::hex(&mut words, byte));
    }
    words
}

/// `1 rule`, `2 rules`.
pub(super) fn plural<N: PartialEq + From<u8> + std::fmt::Display>(count: N, word: &str) -> String {
    if count == N::from(1) { format!("1 {word}") } else { format!("{count} {word}s") }
}

fn read(bytes: &[u8]) -> Vec<(u64, Time)> {
    let (words, _) = bytes.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    let number = |word: &[u8; 8]| u64::from_le_bytes(*word);
    pairs.iter().map(|[hash, at]| (number(hash), Time::from_ns(number(at)))).collect()
}

fn write(said: &[(u64, Time)]) -> Vec<u8> {
    said.iter().flat_map(|(hash, at)| [hash.to_le_bytes(), at.as_ns().to_le_bytes()]).flatten().collect()
}
