//! Builds the plugin of a configuration: finds out the kind of host, agrees with other workers on
//! the seed, and migrates counts of the previous configuration.

use super::Plugin;
use crate::host::nginx;
use crate::host::proxy_wasm::callbacks::Callbacks;
use crate::host::proxy_wasm::calls::{self, HostData};
use crate::host::proxy_wasm::clock::Clock;
use crate::host::proxy_wasm::host_kind::HostKind;
use crate::host::proxy_wasm::metering::MeteredValues;
use crate::host::proxy_wasm::metrics::{Ids, Metrics};
use crate::host::proxy_wasm::remote_source::RemoteSource;
use crate::host::proxy_wasm::sampling::Sampling;
use crate::host::proxy_wasm::timer_queue::TimerQueue;
use crate::host::proxy_wasm::wording::mistakes;
use crate::host::proxy_wasm::zone::Zone;
use diana_base::exclusive::Exclusive;
use diana_base::time::{Span, Time};
use diana_config::Configuration;
use diana_limiter::cells::Replacement;
use diana_limiter::cells::store::{Fault, Portable, Watched};
use diana_limiter::cells::table::{Dated, Seed, shared_seed};
use diana_limiter::session::Worker;
use log::error;
use std::cell::Cell;
use std::rc::Rc;

impl Plugin {
    /// Reads and compiles the plugin's configuration of `size` bytes; only during
    /// `proxy_on_configure`. `before` is the previous configuration. Mistakes are logged.
    pub(crate) fn configure(
        size: usize,
        before: Option<&Plugin>,
        ids: &Rc<Ids>,
        callbacks: Callbacks,
    ) -> Option<Plugin> {
        let bytes = calls::plugin_configuration(size);
        let configuration = diana_config::compile(&bytes).map_err(|errors| mistakes(&errors));
        let plugin =
            configuration.and_then(|configuration| Plugin::build(configuration, before, ids, callbacks));
        match plugin {
            Ok(mut plugin) => {
                plugin.announce(&bytes);
                let mut generation = 0;
                if let Some(options) = plugin.configuration.remote.take() {
                    let source = Rc::new(RemoteSource::new(bytes, options, callbacks));
                    plugin.remote = Some(Rc::clone(&source));
                    // Another worker, or the configuration before this one, may already have a
                    // document.
                    plugin = plugin.follow(&source, ids).unwrap_or(plugin);
                    generation = source.generation();
                }
                match generation {
                    0 => plugin.metrics.generation(0),
                    generation => plugin.metrics.switched(generation),
                }
                Some(plugin)
            }
            Err(why) => {
                error!("configuration refused, {why}");
                None
            }
        }
    }

    /// The plugin of a configuration, or why it cannot be built.
    pub(super) fn build(
        configuration: Configuration,
        before: Option<&Plugin>,
        ids: &Rc<Ids>,
        callbacks: Callbacks,
    ) -> Result<Plugin, String> {
        callbacks.suffice(&configuration.response, configuration.policy.measures())?;
        let plugin = Plugin::new(configuration, before, ids).map_err(|Fault(status)| {
            format!("the host's clock or its shared data does not work: status {status}")
        })?;
        callbacks.suffice_for(plugin.host)?;
        let refusals = match plugin.host {
            HostKind::Envoy => Vec::new(),
            HostKind::Nginx => nginx::refusals(&plugin.configuration),
        };
        if refusals.is_empty() { Ok(plugin) } else { Err(refusals.join("; ")) }
    }

    fn new(
        mut configuration: Configuration,
        before: Option<&Plugin>,
        ids: &Rc<Ids>,
    ) -> Result<Plugin, Fault> {
        let store = Portable::probe(HostData)?;
        let fresh = fresh_seed();
        let host = HostKind::of(store.rules());
        let is_nginx = host.is_nginx();
        let refuses_to_wait = is_nginx && configuration.policy.refuse_to_wait();
        let store = Watched::new(store, is_nginx);
        // Only nginx loses seeds.
        let since = if is_nginx { calls::now()? } else { Time::from_ns(0) };
        let dated = shared_seed(&store, Dated { since, seed: fresh })?;
        let seed = dated.seed;
        let mut worker = Worker::new(&configuration.policy, &seed);
        let mut timeout = Span::ZERO;
        if is_nginx {
            worker.disable_reservations();
        } else if let Some(options) = configuration.store.take() {
            timeout = options.timeout;
            worker = worker.with_global_store(options, calls::random());
        }
        let metered = MeteredValues::new(configuration.policy.measures());
        let metrics = Metrics::new(&configuration, worker.clusters(), host, ids);
        // There is one timer, and it resumes waiting requests under any configuration.
        let timer_queue: Rc<Exclusive<TimerQueue>> =
            before.map(|before| Rc::clone(&before.timer_queue)).unwrap_or_default();
        timer_queue.with(|queue| queue.set_gauge(metrics.waiting_requests()));
        let prng_state = Cell::new(calls::random());
        Ok(Plugin {
            configuration,
            host,
            clock: Clock::new()?,
            store,
            seed,
            zone: is_nginx.then(|| Zone::new(dated)),
            worker: Exclusive::new(worker),
            remote: None,
            candidate: Exclusive::default(),
            timer_queue,
            refuses_to_wait,
            timeout_ms: u32::try_from(timeout.as_ns() / 1_000_000).unwrap_or(u32::MAX),
            querying: Exclusive::default(),
            wakes_at: Cell::new(None),
            wanted: Cell::new(None),
            metered,
            metrics,
            sampling: Sampling::default(),
            prng_state,
        })
    }

    /// Migrates the counts of actors from the configuration `before`. A new plugin may replace
    /// another one or stand beside it. In either case the counts of rules that both have continue.
    pub(crate) fn migrate_from(&self, before: Option<&Plugin>, plugins: &[(u32, Option<Rc<Plugin>>)]) {
        let mut previous = Vec::new();
        let mut add = |other: &Plugin| {
            previous.extend(other.worker.with(|worker| worker.previous(&other.configuration.policy)));
        };
        let replacement = if before.is_some() { Replacement::Certain } else { Replacement::Likely };
        match before {
            Some(before) => add(before),
            None => plugins.iter().rev().filter_map(|(_, other)| other.as_deref()).for_each(add),
        }
        let now = self.now();
        self.worker
            .with(|worker| worker.migrate_from(&self.configuration.policy, &previous, replacement, now));
    }
}

/// A seed from the host's source of randomness.
fn fresh_seed() -> Seed {
    let (low, high) = (calls::random(), calls::random());
    let mut seed = Seed::default();
    seed.iter_mut()
        .zip(low.to_le_bytes().into_iter().chain(high.to_le_bytes()))
        .for_each(|(to, byte)| *to = byte);
    seed
}
