//! The events of a configuration, on the main thread.

use crate::abi::{Bytes, ConfigPtr, Header};
use crate::config::FilterConfig;
use crate::guard::guarded;
use crate::hooks::start;
use crate::namespace::Namespace;
use crate::vm::Context;
use crate::vms::{self, ModuleVm};
use std::ptr::null;
use std::slice;

/// A configuration as Envoy keeps it.
type Config = *const FilterConfig;

/// Makes a configuration; null refuses it.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    pointer: ConfigPtr,
    name: Bytes,
    document: Bytes,
) -> Config {
    let made = guarded(null(), || {
        let Ok(envoy) = start() else {
            return null();
        };
        // SAFETY: Envoy lends both texts, and makes the configuration now.
        let made = unsafe { FilterConfig::new(envoy, pointer, name.get(), document.get()) };
        let Some(config) = made else {
            return null();
        };
        let is_taken = vms::of_main(&config).is_some_and(|vm| {
            vm.within(Context::of_config(&config), || {
                vm.forget_the_gone();
                vm.knows(&config)
            })
        });
        if !is_taken {
            config.leave();
            return null();
        }
        vms::introduce(&config, &vms::of_workers(envoy, &config.namespace));
        // SAFETY: Envoy makes the configuration now.
        unsafe { config.flush() };
        Box::into_raw(Box::new(config)).cast_const()
    });
    if made.is_null() {
        guarded((), Namespace::rest);
    }
    made
}

/// Deletes a configuration, on any thread: all streams have ended.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(config: Config) {
    guarded((), || {
        if config.is_null() {
            return;
        }
        // SAFETY: this is the box of `config_new`, and Envoy does not use it again.
        let config = *unsafe { Box::from_raw(config.cast_mut()) };
        config.leave();
        if let Some(vm) = vms::of_main_here(&config) {
            vm.within(Context::of_config(&config), || vm.forget_the_gone());
        }
        vms::stand_in(&config, Context::of_config(&config));
        config.namespace.main.ring();
        // SAFETY: Envoy's configuration lives until this event ends.
        unsafe { config.flush() };
    });
    guarded((), Namespace::rest);
}

/// Runs `work` on the main thread, in an event of this configuration.
fn on_main(config: Config, work: impl FnOnce(&FilterConfig, &'static ModuleVm)) {
    guarded((), || {
        // SAFETY: Envoy keeps the configuration until the event ends.
        let Some(config) = (unsafe { config.as_ref() }) else {
            return;
        };
        if let Some(vm) = vms::of_main(config) {
            vm.within(Context::on_main(config), || work(config, vm));
        }
    });
}

/// A bell has rung: makes calls, runs the timers of the main thread, and reports the metrics to
/// Envoy.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_config_scheduled(_: ConfigPtr, config: Config, _: u64) {
    on_main(config, |config, vm| {
        vm.forget_the_gone();
        // No stream waits in the main thread.
        _ = vm.run_due();
        let is_busy = vms::stand_in(config, Context::on_main(config));
        if is_busy {
            config.retry_soon();
        }
        if config.namespace.runtime.take_due() {
            config.namespace.read_runtime(config.envoy);
        }
        config.namespace.sweep();
        // SAFETY: this is an event of the configuration on the main thread.
        unsafe { config.make_calls() };
        // SAFETY: the same.
        unsafe { config.flush_if_due() };
    });
}

/// The bytes that Envoy lends in an array.
///
/// # Safety
/// `start` points to `count` elements, which live for `'a`, or is null.
unsafe fn list<'a, T>(start: *const T, count: usize) -> &'a [T] {
    // SAFETY: by the caller's promise.
    if start.is_null() || count == 0 { &[] } else { unsafe { slice::from_raw_parts(start, count) } }
}

/// The lines of a header map that Envoy lends until the event ends.
///
/// # Safety
/// As for [`list`].
unsafe fn lines<'a>(start: *const Header, count: usize) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    // SAFETY: by the caller's promise; Envoy lends the texts as well.
    let headers = unsafe { list(start, count) };
    // SAFETY: the same.
    headers.iter().map(|header| unsafe { (header.name.get(), header.value.get()) })
}

/// An HTTP call has a reply, or has failed.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_config_http_callout_done(
    _: ConfigPtr,
    config: Config,
    id: u64,
    _result: u32,
    headers: *const Header,
    headers_count: usize,
    chunks: *const Bytes,
    chunks_count: usize,
) {
    on_main(config, |config, _| {
        // SAFETY: Envoy lends the headers and the body until the event ends.
        let (headers, body) = unsafe { (lines(headers, headers_count), list(chunks, chunks_count)) };
        // SAFETY: the same.
        config.callouts.done(id, headers, body.iter().map(|chunk| unsafe { chunk.get() }));
    });
}
