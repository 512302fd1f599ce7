//! When configurations and documents of routes begin and end. Envoy keeps both while a stream has
//! them, so they may end on the worker of the last stream.

use super::flow::event;
use super::hooks;
use super::world::{Config, Owner, Thread, with};
use diana_envoy_module::abi::Bytes;
use std::ffi::c_void;

fn lend(bytes: &[u8]) -> Bytes {
    with(|world| world.lender.lend(bytes))
}

/// Envoy makes a configuration; returns whether the module takes the document.
pub fn add_config(name: &'static str, document: &[u8]) -> bool {
    let address = with(|world| {
        let address = world.address();
        let (metrics, secrets) = (Vec::new(), Vec::new());
        let config = Config { entry: 0, is_new: true, is_removed: false, metrics, secrets };
        world.configs.insert(address, config);
        address
    });
    // SAFETY: Envoy lends both texts and makes the configuration now.
    let entry = event(Thread::Main, || unsafe {
        hooks::config_new(address as *mut c_void, lend(name.as_bytes()), lend(document))
    });
    with(|world| {
        if entry.is_null() {
            world.configs.remove(&address);
        } else if let Some(config) = world.configs.get_mut(&address) {
            (config.entry, config.is_new) = (entry as usize, false);
        }
    });
    check_schedulers(address);
    !entry.is_null()
}

/// A configuration that has gone must have no scheduler.
fn check_schedulers(config: usize) {
    with(|world| {
        let is_left = world.schedulers.values().any(|owner| *owner == Owner::Config(config));
        if !world.configs.contains_key(&config) && is_left {
            world.mistake("a scheduler remains of a configuration that has gone");
        }
    });
}

/// The routes get a document; returns the module's pointer, if the module takes the document.
pub fn add_route(name: &str, document: &[u8]) -> Option<usize> {
    // SAFETY: Envoy lends both texts.
    let entry = event(Thread::Main, || unsafe { hooks::route_new(lend(name.as_bytes()), lend(document)) });
    let entry = (!entry.is_null()).then_some(entry as usize);
    // Routes with the same document may have the same pointer.
    with(|world| world.routes.extend(entry.map(|entry| (entry, false))));
    entry
}

/// Ends what has been removed and what no stream has. `thread` is the one that had the last stream.
pub fn end_unused(thread: Thread) {
    loop {
        let unused = with(|world| {
            let streams = &world.streams;
            let is_unused = |address: usize| streams.values().all(|stream| stream.config != address);
            let mut removed = world.configs.iter().filter(|(_, config)| config.is_removed);
            removed
                .find(|(address, _)| is_unused(**address))
                .map(|(address, config)| (*address, config.entry))
        });
        let Some((address, entry)) = unused else { break };
        // SAFETY: no stream has the configuration, and Envoy does not use it again.
        event(thread, || unsafe { hooks::config_destroy(entry as hooks::Entry) });
        with(|world| {
            world.configs.remove(&address);
            world.gauges.retain(|_, gauge| {
                gauge.keepers.remove(&address);
                !gauge.keepers.is_empty()
            });
            world.calls.retain(|_, call| call.config != address);
        });
        check_schedulers(address);
    }
    loop {
        let unused = with(|world| {
            // A stream keeps one of the routes that share a pointer.
            let holders = |entry| world.streams.values().filter(|stream| stream.route == Some(entry)).count();
            let is_unused = |(entry, is_removed): &(usize, bool)| {
                let same = world.routes.iter().filter(|(other, _)| other == entry).count();
                *is_removed && (same > 1 || holders(*entry) == 0)
            };
            let index = world.routes.iter().position(is_unused)?;
            Some(world.routes.remove(index).0)
        });
        let Some(entry) = unused else { break };
        // SAFETY: no stream has this route, and Envoy does not use it again.
        event(thread, || unsafe { hooks::route_destroy(entry as hooks::Entry) });
    }
}
