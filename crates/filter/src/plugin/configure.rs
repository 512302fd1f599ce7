//! Builds the plugin of a configuration: finds out the kind of host, and agrees with other workers
//! on the seed.

use super::{Plugin, Sampler};
use crate::Host;
use crate::clock::Clock;
use crate::host_kind::HostKind;
use crate::metering::MeteredValues;
use crate::metrics::{Ids, Metrics};
use crate::remote_source::{RemoteSource, source};
use crate::request_body::BodyParts;
use crate::sampling::Sampling;
use crate::timer_queue::TimerQueue;
use crate::wording::mistakes;
use crate::zone::Zone;
use diana_base::exclusive::Exclusive;
use diana_base::time::{Span, Time};
use diana_config::Configuration;
use diana_limiter::cells::store::{EvictionDetector, Fault};
use diana_limiter::cells::table::{Dated, Seed, shared_seed};
use diana_limiter::session::Worker;
use log::error;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

impl<H: Host> Plugin<H> {
    /// Reads and compiles the plugin's configuration of `size` bytes; only during
    /// `proxy_on_configure`. `before` is the previous configuration. Mistakes are logged.
    pub(crate) fn configure(
        host: H,
        size: usize,
        before: Option<&Plugin<H>>,
        ids: &Rc<Ids>,
    ) -> Option<Plugin<H>> {
        let (bytes, secret) = (host.configuration(size), host.secret());
        let source = source(&bytes, &secret, host.max_enforce());
        let configuration = source.compile().map_err(|errors| mistakes(&errors));
        let plugin = configuration.and_then(|configuration| Plugin::build(host, configuration, before, ids));
        match plugin {
            Ok(mut plugin) => {
                plugin.announce(&bytes);
                let mut generation = 0;
                if let Some(options) = plugin.configuration.remote.take() {
                    let source = Rc::new(RemoteSource::new((host, plugin.kind), (bytes, secret), options));
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

    /// The plugin for a route, whose document lies over the listener's; or why there is none.
    pub(crate) fn configure_route(
        host: H,
        listener: &[u8],
        route: &[u8],
        before: Option<&Plugin<H>>,
        ids: &Rc<Ids>,
    ) -> Result<Plugin<H>, String> {
        let secret = host.secret();
        let source = source(listener, &secret, host.max_enforce());
        let mut configuration = source.compile_route(route).map_err(|errors| mistakes(&errors))?;
        let own = source.compile().map_err(|errors| mistakes(&errors))?;
        configuration.count_apart(Some(&own.policy), false);
        if own.soft_limits.reroutes() {
            return Err(REROUTES.into());
        }
        configuration.soft_limits.remove_headers_of(&own.soft_limits);
        let mut plugin = Plugin::build(host, configuration, before, ids)?;
        plugin.is_of_route = true;
        plugin.announce(&[listener, b"\0", route].concat());
        Ok(plugin)
    }

    /// The plugin of a configuration, or why it cannot be built.
    pub(super) fn build(
        host: H,
        configuration: Configuration,
        before: Option<&Plugin<H>>,
        ids: &Rc<Ids>,
    ) -> Result<Plugin<H>, String> {
        let broken =
            |Fault(status)| format!("the host's clock or its shared data does not work: status {status}");
        let (store, kind) = host.open().map_err(broken)?;
        let refusals = host.refusals(kind, &configuration);
        if !refusals.is_empty() {
            return Err(refusals.join("; "));
        }
        Plugin::new((host, kind), store, configuration, before, ids).map_err(broken)
    }

    fn new(
        (host, kind): (H, HostKind),
        store: H::Store,
        mut configuration: Configuration,
        before: Option<&Plugin<H>>,
        ids: &Rc<Ids>,
    ) -> Result<Plugin<H>, Fault> {
        let fresh = fresh_seed(host);
        if kind.has_documents_side_by_side() {
            configuration.count_apart(None, true);
        }
        let refuses_to_wait = !kind.holds_requests() && configuration.refuse_to_wait();
        let store = Rc::new(EvictionDetector::new(store, kind.evicts_keys()));
        let since = if kind.evicts_keys() { host.now()? } else { Time::from_ns(0) };
        let dated = shared_seed(&store, Dated { since, seed: fresh })?;
        let mut worker = Worker::new(Arc::clone(&configuration.policy), Rc::clone(&store), &dated.seed);
        let mut host_timeout = Span::ZERO;
        if !kind.holds_requests() {
            worker.disable_reservations();
        } else if let Some(options) = configuration.store.take() {
            host_timeout = options.host_timeout();
            worker = worker.with_global_store(options, host.random());
            worker.load_replicas();
        }
        let inspect = configuration.inspect.as_ref();
        let top = inspect.is_some_and(|inspect| inspect.top).then(Exclusive::default);
        let has_rates = inspect.is_some() && kind.holds_requests();
        let body = BodyParts::new(&configuration);
        let metered = MeteredValues::new(configuration.policy.measures());
        let metrics = Metrics::new((host, kind), &configuration, worker.clusters(), ids);
        // There is one timer, and it resumes waiting requests under any configuration.
        let timer_queue = match before {
            Some(before) => Rc::clone(&before.timer_queue),
            None => Rc::new(Exclusive::new(TimerQueue::new(host))),
        };
        timer_queue.with(|queue| queue.set_gauge(metrics.waiting_requests()));
        let prng_state = Cell::new(host.random());
        let clock = Clock::new(host, kind)?;
        let sampler = has_rates.then(|| Sampler::new(clock.monotonic(), host.random()));
        Ok(Plugin {
            host,
            kind,
            configuration,
            is_of_route: false,
            clock,
            store,
            zone: kind.evicts_keys().then(|| Zone::new(dated)),
            has_lost_refusal: Cell::new(false),
            worker: Exclusive::new(worker),
            top,
            remote: None,
            timer_queue,
            refuses_to_wait,
            call_timeout_ms: u32::try_from(host_timeout.as_ns() / 1_000_000).unwrap_or(u32::MAX),
            querying: Exclusive::default(),
            wakes_at: Cell::new(None),
            wanted: Cell::new(None),
            metered,
            body,
            missed_bodies: Cell::new(0),
            metrics,
            wrong_tokens: Exclusive::default(),
            responses: Exclusive::default(),
            sampling: Sampling::default(),
            sampler,
            prng_state,
        })
    }
}

const REROUTES: &str = "the listener's document has `reroute: true`, and the next route may have no document that \
    counts the request: leave it out, or the documents of routes";

/// A seed from the host's source of randomness.
fn fresh_seed(host: impl Host) -> Seed {
    let (low, high) = (host.random(), host.random());
    let mut seed = Seed::default();
    seed.iter_mut()
        .zip(low.to_le_bytes().into_iter().chain(high.to_le_bytes()))
        .for_each(|(to, byte)| *to = byte);
    seed
}
