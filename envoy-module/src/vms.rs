//! The VMs of all threads: one for each namespace in each thread that has streams, and one for the
//! main thread's own events.

use crate::abi::Exports;
use crate::config::FilterConfig;
use crate::host::Module;
use crate::namespace::Namespace;
use crate::streams;
use crate::thread;
use crate::vm::{Context, Vm};
use diana_base::exclusive::Exclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::LocalKey;

/// The VM of a thread.
pub type ModuleVm = Vm<Module>;

/// A stream of a thread.
pub type Stream = streams::Stream<ModuleVm, FilterConfig>;

type VmRef = &'static ModuleVm;

/// The VMs for streams: those that threads have, and those that wait for a worker's first stream.
static FOR_STREAMS: Mutex<Vec<VmRef>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Own = LocalKey<Exclusive<Vec<VmRef>>>;

thread_local! {
    /// The VMs for the streams of this thread.
    static OF_STREAMS: Exclusive<Vec<VmRef>> = const { Exclusive::new(Vec::new()) };
    /// The VMs for the main thread's own events.
    static OF_MAIN: Exclusive<Vec<VmRef>> = const { Exclusive::new(Vec::new()) };
}

fn is_of(vm: VmRef, config: &FilterConfig) -> bool {
    Arc::ptr_eq(&vm.namespace, &config.namespace)
}

fn find(own: &'static Own, is_it: impl Fn(VmRef) -> bool) -> Option<VmRef> {
    own.with(|vms| vms.with(|vms| vms.iter().copied().find(|vm| is_it(vm)))).flatten()
}

fn keep(own: &'static Own, vm: VmRef) -> Option<VmRef> {
    own.with(|vms| vms.with(|vms| vms.push(vm))).map(|()| vm)
}

/// The main thread's VM for the namespace of a configuration. Only on the main thread.
pub fn of_main(config: &FilterConfig) -> Option<VmRef> {
    of_main_here(config).or_else(|| keep(&OF_MAIN, Vm::new(config.envoy, &config.namespace, true)))
}

/// The main thread's VM for the namespace of a configuration; `None` on other threads, and if there
/// is none.
pub fn of_main_here(config: &FilterConfig) -> Option<VmRef> {
    find(&OF_MAIN, |vm| is_of(vm, config))
}

/// The VM for the calling thread's streams of a configuration. Envoy's number of the worker would
/// not do: Envoy also runs streams on the main thread, which then has a worker's number.
pub fn of_this_thread(config: &FilterConfig) -> Option<VmRef> {
    let is_own = |vm: VmRef| is_of(vm, config) && vm.owner() == thread::number();
    find(&OF_STREAMS, is_own).or_else(|| {
        let mut all = lock(&FOR_STREAMS);
        let of_this: Vec<VmRef> = all.iter().copied().filter(|vm| is_of(vm, config)).collect();
        let find = |is_it: fn(VmRef) -> bool| of_this.iter().copied().find(|vm| is_it(vm));
        // The main thread may begin a stream by a call that it makes in place of an idle VM. It
        // would wait for itself in that VM.
        let known = find(|vm| vm.owner() == thread::number()).or_else(|| find(|vm| vm.is_idle()));
        let vm = known.unwrap_or_else(|| {
            let vm = Vm::new(config.envoy, &config.namespace, false);
            all.push(vm);
            vm
        });
        vm.take();
        keep(&OF_STREAMS, vm)
    })
}

/// The VMs of a namespace for streams, at least one for each worker. Only on the main thread.
pub fn of_workers(envoy: &'static Exports, namespace: &Arc<Namespace>) -> Vec<VmRef> {
    // SAFETY: this is the main thread.
    let workers = unsafe { (envoy.get_concurrency)() };
    let mut all = lock(&FOR_STREAMS);
    let of_this = |vm: &&VmRef| Arc::ptr_eq(&vm.namespace, namespace);
    let known = u32::try_from(all.iter().filter(of_this).count()).unwrap_or(u32::MAX);
    all.extend((known..workers).map(|_| Vm::new(envoy, namespace, false)));
    all.iter().filter(of_this).copied().collect()
}

/// Makes a new configuration known to all threads with streams except busy ones, which learn it
/// when their next stream begins. Runs in an event of the configuration.
pub fn introduce(config: &FilterConfig, workers: &[VmRef]) {
    for vm in workers {
        vm.in_its_place(|| vm.within(Context::of_config(config), || _ = vm.knows(config)));
    }
}

/// Acts in place of the workers of a namespace that have no waiting streams: runs their timers,
/// delivers their replies, and frees the memory of configurations that have ended. Runs in an event
/// of `config`. Returns whether a worker was busy; a busy worker may not check its mark again soon.
pub fn stand_in(config: &FilterConfig, context: Context) -> bool {
    let of_this = lock(&FOR_STREAMS).clone().into_iter().filter(|vm| is_of(vm, config));
    let mut is_busy = false;
    for vm in of_this.filter(|vm| vm.needs_deputy()) {
        is_busy |= !vm.in_its_place(|| vm.act_as_deputy(context));
    }
    is_busy
}

/// The open streams and the configurations of all workers that are not busy.
pub fn held() -> (usize, usize) {
    let all = lock(&FOR_STREAMS).clone();
    let mut held = (0_usize, 0_usize);
    for vm in all {
        vm.in_its_place(|| {
            held = (held.0.saturating_add(vm.streams.count()), held.1.saturating_add(vm.known_count()));
        });
    }
    held
}
