//! Logs one line for each accepted configuration, although every worker accepts it. The first
//! worker records the configuration in the store; the others find the record and stay silent.

use super::calls;
use super::plugin::{MAX_LOGGED, Plugin};
use diana_base::format;
use diana_base::time::{Span, Time};
use diana_limiter::store::{Rules, Store, Swap};
use diana_limiter::table::Hasher;
use log::{info, warn};

const KEY: &[u8] = b"diana/announced";

/// All workers accept a configuration within this span of one another.
const REPEAT_AFTER: Span = Span::from_secs(10);

/// At most this many configurations are recorded: filters that share a `vm_id` accept theirs at
/// once.
const MAX_REMEMBERED: usize = 16;

const NO_VM_ID: &str = "`vm_id` is empty: all filters of this gateway without a `vm_id` share their data, those of \
    other programs included; give this filter a `vm_id` of its own in `vm_config`";

/// After this many lost swaps the worker gives up without a log line.
const MAX_SWAPS: u32 = 8;

/// Logs that a configuration with these bytes was accepted, unless another worker has just logged
/// it.
pub(super) fn announce(plugin: &Plugin, bytes: &[u8]) {
    let (store, hash) = (&plugin.store, Hasher::name(bytes));
    for _ in 0..MAX_SWAPS {
        let now = plugin.now();
        let Ok(found) = store.load(KEY) else {
            return;
        };
        let mut announced = found.as_ref().map(|loaded| read(&loaded.bytes)).unwrap_or_default();
        if announced.iter().any(|(known, at)| *known == hash && now.since(*at) < REPEAT_AFTER) {
            return;
        }
        announced.retain(|(known, _)| *known != hash);
        announced.insert(0, (hash, now));
        announced.truncate(MAX_REMEMBERED);
        match store.swap(KEY, &write(&announced), found.map(|loaded| loaded.version)) {
            Ok(Swap::Done) => {
                info!("{}", summary(plugin));
                if plugin.refuses_to_wait {
                    warn!("this host cannot hold requests: requests that would wait are refused");
                }
                warn(plugin);
                return;
            }
            Ok(Swap::Lost) => {}
            Err(_) => return,
        }
    }
}

/// Logs settings that are accepted but probably not meant.
fn warn(plugin: &Plugin) {
    for warning in plugin.configuration.warnings.iter().take(MAX_LOGGED) {
        warn!("configuration, {warning}");
    }
    // nginx has no such identifier. Reading it while a plugin is configured can crash the nginx
    // worker.
    let is_nginx = plugin.store.rules() == Rules::Strict;
    if !is_nginx && calls::property(b"plugin_vm_id").is_none_or(|id| id.is_empty()) {
        warn!("{NO_VM_ID}");
    }
}

fn summary(plugin: &Plugin) -> String {
    let policy = &plugin.configuration.policy;
    let (keys, size) = policy.footprint();
    let (rules, keys) = (plural(policy.rules().count(), "rule"), plural(keys, "key"));
    let mut words = format!(
        "configuration taken, {rules}; at most {keys} and {} KiB of shared data",
        size.div_ceil(1024)
    );
    let clusters = plugin.worker.with(|worker| worker.clusters().join(", ")).unwrap_or_default();
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

fn write(announced: &[(u64, Time)]) -> Vec<u8> {
    announced.iter().flat_map(|(hash, at)| [hash.to_le_bytes(), at.as_ns().to_le_bytes()]).flatten().collect()
}
