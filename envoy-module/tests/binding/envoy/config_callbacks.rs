//! Envoy's functions for configurations: calls to clusters, secrets, and the runtime.

use super::exchange::{copy, lend, lines};
use super::flow;
use super::world::{Call, Config, with};
use diana_envoy_module::abi::{Bytes, Header};
use std::ffi::c_void;

type Pointer = *mut c_void;

/// Starts a call; the result is Envoy's number of it, or an error.
pub unsafe extern "C" fn http_filter_config_http_callout(
    config: Pointer,
    id: *mut u64,
    cluster: Bytes,
    headers: *const Header,
    count: usize,
    body: Bytes,
    _timeout_ms: u64,
) -> u32 {
    const FAILS: u32 = 4;
    // SAFETY: the module lends all bytes.
    let (cluster, headers, _) = unsafe { (copy(cluster), lines(headers, count), copy(body)) };
    let made = with(|world| {
        world.check_main("a call");
        let has = |wanted: &[u8]| headers.iter().any(|(name, value)| name == wanted && !value.is_empty());
        if ![&b":method"[..], b":path", b":authority"].into_iter().all(has) {
            world.mistake("a call without the headers that Envoy requires");
        }
        world.config(config, "a call")?;
        if world.is_down || cluster == b"absent" {
            return None;
        }
        world.last_call += 1;
        world.calls.insert(world.last_call, Call { config: config as usize });
        Some(world.last_call)
    });
    if made.is_some() {
        flow::filter_call();
    }
    // SAFETY: the module has room for a number.
    made.map_or(FAILS, |made| unsafe {
        *id = made;
        0
    })
}

pub unsafe extern "C" fn secret_subscribe(config: Pointer, name: Bytes, _: Bytes) -> usize {
    // SAFETY: the module lends the name.
    let name = unsafe { copy(name) };
    let subscribe = |config: &mut Config| {
        let is_known = name != b"unknown";
        config.secrets.extend(is_known.then_some(name));
        if is_known { config.secrets.len() } else { 0 }
    };
    with(|world| world.new_config(config, "secret_subscribe").map_or(0, subscribe))
}

pub unsafe extern "C" fn get_secret(config: Pointer, id: usize, value: *mut Bytes) -> bool {
    let found = with(|world| {
        let is_known = world.config(config, "get_secret")?.secrets.len() >= id && id > 0;
        if !is_known {
            world.mistake("an unknown secret");
        }
        is_known.then(|| world.secret.clone())
    });
    // SAFETY: the module has room for a value.
    unsafe { lend(value, found) }
}

/// Envoy has a runtime on the main thread only.
pub unsafe extern "C" fn get_runtime_number(key: Bytes, otherwise: f64) -> f64 {
    // SAFETY: the module lends the key.
    let key = unsafe { copy(key) };
    with(|world| {
        world.check_main("the runtime");
        world.runtime.get(&key).copied().unwrap_or(otherwise)
    })
}
