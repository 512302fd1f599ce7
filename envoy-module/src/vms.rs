//! The VMs of all threads: one for each namespace in each worker, and one in the main thread.

use crate::abi::Callbacks;
use crate::config::FilterConfig;
use crate::host::Module;
use crate::namespace::Namespace;
use crate::routes;
use crate::streams;
use crate::sweep::Sweep;
use crate::vm::{Context, Vm};
use diana_base::exclusive::Exclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The VM of a thread.
pub type ModuleVm = Vm<Module>;

/// A stream of a thread.
pub type Stream = streams::Stream<ModuleVm, FilterConfig>;

type VmRef = &'static ModuleVm;

/// The VMs of all workers.
static WORKERS: Mutex<Vec<VmRef>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The VMs of this thread.
    static VMS: Exclusive<Vec<VmRef>> = const { Exclusive::new(Vec::new()) };
}

/// The main thread's VM for the namespace of a configuration. Only on the main thread.
pub fn of_main(config: &FilterConfig) -> Option<VmRef> {
    of_thread(config, true)
}

/// The main thread's VM for the namespace of a configuration; `None` on other threads, and if there
/// is none.
pub fn of_main_here(config: &FilterConfig) -> Option<VmRef> {
    known_here(config).filter(|vm| Arc::ptr_eq(&vm.alarm, &config.namespace.main))
}

/// The VM of the worker of this number. `workers` are those of the configuration. Only on this
/// worker.
pub fn of_worker(config: &FilterConfig, workers: &[VmRef], index: u32) -> Option<VmRef> {
    let known = workers.iter().find(|vm| vm.index == Some(index)).copied();
    // Envoy says how many workers it has, so each is known.
    known.or_else(|| of_thread(config, false))
}

/// The VMs of all workers for a namespace, which are made if there are none. Only on the main
/// thread.
pub fn of_workers(envoy: &'static Callbacks, namespace: &Arc<Namespace>) -> Vec<VmRef> {
    // SAFETY: this is the main thread.
    let count = unsafe { (envoy.get_concurrency)() };
    let mut workers = lock(&WORKERS);
    let of = |index: u32| {
        let is_it = |vm: &&VmRef| vm.index == Some(index) && Arc::ptr_eq(&vm.namespace, namespace);
        let known = workers.iter().find(is_it).copied();
        known.unwrap_or_else(|| {
            let vm = Vm::new(envoy, namespace, Some(index), false);
            workers.push(vm);
            vm
        })
    };
    (0..count).map(of).collect()
}

fn known_here(config: &FilterConfig) -> Option<VmRef> {
    let of_this = |vm: &&VmRef| Arc::ptr_eq(&vm.namespace, &config.namespace);
    VMS.with(|vms| vms.with(|vms| vms.iter().find(of_this).copied())).flatten()
}

fn of_thread(config: &FilterConfig, is_main: bool) -> Option<VmRef> {
    known_here(config).or_else(|| {
        let vm = Vm::new(config.envoy, &config.namespace, None, is_main);
        if !is_main {
            lock(&WORKERS).push(vm);
        }
        VMS.with(|vms| vms.with(|vms| vms.push(vm))).map(|()| vm)
    })
}

/// Makes a new configuration known to all workers except busy ones, which learn it when their next
/// stream begins. Runs in an event of the configuration.
pub fn introduce(config: &FilterConfig, workers: &[VmRef]) {
    for vm in workers {
        vm.in_its_place(|| vm.within(Context::of_config(config), || _ = vm.knows(config)));
    }
}

/// Acts in place of the workers of a namespace that have no waiting streams: runs their timers,
/// delivers their replies, and frees the memory of configurations that have ended. Runs in an event
/// of `config`. Returns whether a worker was busy; a busy worker may not check its mark again soon.
pub fn stand_in(config: &FilterConfig, context: Context) -> bool {
    let workers = lock(&WORKERS).clone();
    let of_this = workers.into_iter().filter(|vm| Arc::ptr_eq(&vm.namespace, &config.namespace));
    let mut is_busy = false;
    for vm in of_this.filter(|vm| vm.needs_deputy()) {
        is_busy |= !vm.in_its_place(|| vm.act_as_deputy(context));
    }
    is_busy
}

/// Deletes counts that no configuration of the namespace uses, if there may be any. Returns whether
/// a worker was busy, so that another try is due. Only on the main thread.
///
/// While routes have documents, counts stay: a worker knows a route's rules only after a request
/// has come by the route.
pub fn sweep(config: &FilterConfig) -> bool {
    let namespace = &config.namespace;
    if routes::any() {
        return false;
    }
    let Some(main) = of_main(config).filter(|_| namespace.take_unused()) else {
        return false;
    };
    let (store, is_living) = (&*namespace.store.0, |root| namespace.has(root));
    let sweep = Sweep::begin(store);
    let mut used = main.filter().tables(is_living);
    let mut is_busy = used.is_none();
    let all = lock(&WORKERS).clone().into_iter();
    for vm in all.filter(|vm| Arc::ptr_eq(&vm.namespace, namespace)) {
        let add = || match (&mut used, vm.filter().tables(is_living)) {
            (Some(used), Some(tables)) => used.extend(tables),
            (used, _) => *used = None,
        };
        is_busy |= !vm.in_its_place(add);
    }
    match used.filter(|_| !is_busy) {
        Some(used) => {
            let removed = sweep.end(store, used);
            if removed > 0 {
                log::info!("{removed} keys of counts that no configuration uses are deleted");
            }
            false
        }
        None => {
            namespace.keep_unused();
            true
        }
    }
}

/// The open streams and the configurations of all workers that are not busy.
pub fn held() -> (usize, usize) {
    let workers = lock(&WORKERS).clone();
    let mut held = (0_usize, 0_usize);
    for vm in workers {
        vm.in_its_place(|| {
            held = (held.0.saturating_add(vm.streams.count()), held.1.saturating_add(vm.known_count()));
        });
    }
    held
}
