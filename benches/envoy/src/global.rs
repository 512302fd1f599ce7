//! Measures rules that two gateways share through Redis: processor time and latency of a request,
//! calls to Redis, and the most requests that keep the latency low.
//!
//! The baselines are no filter, the same rule as a local rule, and Envoy's own filter with
//! Limitador on the same Redis. All gateways live through all rounds, and take turns within each
//! round.

use crate::cpu::used_when_still_ns;
use crate::format::{range, thousands};
use crate::line::PATH;
use crate::machine::Machine;
use crate::paced::{Answered, Paced};
use crate::page;
use crate::speed::order;
use crate::statistics::{Summary, percentile};
use crate::traffic::Target;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use gateway::config::cluster;
use gateway::limitador::Limitador;
use gateway::{Carrier, Config, Gateway, Redis, Shell, filter};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Gateways that share one Redis.
const GATEWAYS: u32 = 2;
/// Connections to each gateway. Requests that wait for Redis do not delay others, because enough
/// connections remain free.
const CONNECTIONS: usize = 64;
/// Requests per second for one user, over all gateways together.
const QUOTA: u32 = 20_000;
/// The cluster of Limitador.
const LIMITADOR: &str = "limitador";
/// A process is idle if it has used no processor time for this long.
const STILL: Duration = Duration::from_millis(2);
/// The latency that bounds the requests of a line, in milliseconds.
const BOUND: f64 = 5.0;
/// The first rate that [`Measured::most`] tries, and the factor between its rates.
const LEAST: f64 = 1_000.0;
const STEP: f64 = 1.15;
/// A rate holds if one of these runs stays within the bound: the machine may be busy in another.
const TRIES: u32 = 3;

/// Measures rules that two gateways share through Redis, and writes their section of the page.
#[derive(Args)]
pub struct Arguments {
    /// Rounds; each round measures every line once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=60))]
    rounds: u32,
    /// Seconds for each line in each round
    #[arg(long, default_value = "2", value_parser = crate::seconds)]
    seconds: Duration,
    /// Requests per second to both gateways together
    #[arg(long, default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(2..=18_000))]
    rate: u32,
    /// Workers of each gateway
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Measure only these lines. Writes no file
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    only: Vec<String>,
}

/// What limits the requests of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Nothing.
    Nothing,
    /// A local rule.
    Local(Shell),
    /// A rule with `scope: global` and this `lease`.
    Global(Shell, Carrier, &'static str),
    /// Envoy's own filter, which asks Limitador.
    Limitador,
}

const SHELLS: [Shell; 2] = [Shell::Wasm, Shell::Native];
const LEASES: [&str; 2] = ["0", "5%"];

fn ways() -> Vec<Way> {
    let global = LEASES.iter().flat_map(|lease| {
        let of = move |shell| Carrier::ALL.map(|carrier| Way::Global(shell, carrier, lease));
        SHELLS.into_iter().flat_map(of)
    });
    [Way::Nothing].into_iter().chain(SHELLS.map(Way::Local)).chain(global).chain([Way::Limitador]).collect()
}

impl Way {
    /// The name for `--only`.
    fn name(self) -> String {
        match self {
            Way::Nothing => "none".into(),
            Way::Local(shell) => format!("local-{}", short(shell)),
            Way::Global(shell, carrier, lease) => {
                format!("{}-{carrier:?}-{}", short(shell), lease.trim_end_matches('%')).to_lowercase()
            }
            Way::Limitador => "limitador".into(),
        }
    }

    fn title(self) -> String {
        match self {
            Way::Nothing => "no filter".into(),
            Way::Local(shell) => format!("a local rule, {}", short(shell)),
            Way::Global(shell, carrier, lease) => {
                format!("`lease: {lease}`, {carrier:?}, {}", short(shell))
            }
            Way::Limitador => "Envoy's `ratelimit` with Limitador".into(),
        }
    }

    /// Diana's document.
    fn document(self) -> Option<Value> {
        let mut rule = json!({"name": "one", "actor": "user", "rpu": QUOTA, "unit": "second"});
        let Way::Global(_, _, lease) = self else {
            return matches!(self, Way::Local(_)).then(|| json!({"limits": [{"url": "/", "rules": [rule]}]}));
        };
        rule["scope"] = json!("global");
        rule["lease"] = lease.parse::<u32>().map_or(json!(lease), |tokens| json!(tokens));
        let mut store = Carrier::keys();
        store["secret"] = json!("measured-on-loopback");
        store["replicas"] = json!(GATEWAYS);
        Some(json!({"limits": [{"url": "/", "rules": [rule]}], "store": {"redis": store}}))
    }

    fn config(self, arguments: &Arguments, filter: &Path, stores: &Stores) -> Result<Config> {
        let config = Config { concurrency: arguments.workers, balanced: true, ..Config::new("") };
        let plugin = || self.document().unwrap_or_default().into();
        let diana = |shell| Config {
            shell,
            filter: (shell == Shell::Wasm).then(|| filter.to_owned()),
            plugin: plugin(),
            ..config.clone()
        };
        match self {
            Way::Nothing => Ok(Config { instead: Some(Vec::new()), ..config }),
            Way::Local(shell) => Ok(diana(shell)),
            Way::Global(shell, carrier, _) => carrier.lead(diana(shell), stores.redis.address(), &json!({})),
            Way::Limitador => {
                let limitador = stores.limitador.as_ref().context("Limitador runs")?;
                Ok(Config {
                    instead: Some(vec![asks_limitador()]),
                    routes: vec![named_user()],
                    clusters: vec![cluster(LIMITADOR, limitador.address(), true)],
                    ..config
                })
            }
        }
    }
}

fn short(shell: Shell) -> &'static str {
    match shell {
        Shell::Wasm => "wasm",
        Shell::Native => "native",
    }
}

/// Envoy's own filter.
fn asks_limitador() -> Value {
    json!({"name": "envoy.filters.http.ratelimit", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
        "domain": "diana",
        "failure_mode_deny": true,
        "timeout": "1s",
        "rate_limit_service": {
            "transport_api_version": "V3",
            "grpc_service": {"envoy_grpc": {"cluster_name": LIMITADOR}},
        },
    }})
}

/// The route whose requests Envoy's filter counts by user.
fn named_user() -> Value {
    let user = json!({"request_headers": {"header_name": "x-user-id", "descriptor_key": "user"}});
    json!({
        "match": {"prefix": "/"},
        "route": {"cluster": "upstream", "rate_limits": [{"actions": [user]}]},
    })
}

/// Limitador's limits.
fn limits() -> String {
    json!([{
        "namespace": "diana",
        "max_value": QUOTA,
        "seconds": 1,
        "conditions": [],
        "variables": ["descriptors[0]['user']"],
    }])
    .to_string()
}

/// The processes that all lines share.
struct Stores {
    // It is connected to Redis, and ends before it.
    limitador: Option<Limitador>,
    redis: Redis,
}

impl Stores {
    fn start(ways: &[Way]) -> Result<Stores> {
        let redis = Redis::start()?;
        let asks = ways.contains(&Way::Limitador);
        let limitador = asks.then(|| Limitador::start_on(&limits(), &redis)).transpose()?;
        Ok(Stores { limitador, redis })
    }

    /// The process of Limitador.
    fn service(&self) -> Vec<u32> {
        self.limitador.iter().map(Limitador::process_id).collect()
    }
}

/// One line's results in a round.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// The processor time of a request in the gateway, Limitador and Redis, in microseconds.
    cpu: [f64; 3],
    /// Calls per request.
    calls: f64,
    /// Latency percentiles, in milliseconds.
    p50: f64,
    p99: f64,
}

/// The latencies of the requests to all gateways. All passed.
fn latencies(answered: Vec<Answered>) -> Result<Vec<u64>> {
    let mut latencies = Vec::new();
    let mut by_status = BTreeMap::<u16, u64>::new();
    for one in answered {
        latencies.extend(one.latencies);
        one.by_status.iter().for_each(|(status, count)| *by_status.entry(*status).or_default() += count);
    }
    ensure!(
        by_status.keys().eq(&[200]),
        "all responses must have status 200; responses by status: {by_status:?}"
    );
    Ok(latencies)
}

/// A percentile in milliseconds.
fn milliseconds(latencies: &mut [u64], percent: usize) -> f64 {
    percentile(latencies, percent) as f64 / 1e6
}

/// The processor time that these processes have used, in microseconds.
fn used(processes: &[u32]) -> Result<f64> {
    let each = processes.iter().map(|process| used_when_still_ns(*process, STILL));
    Ok(each.sum::<Result<u64>>()? as f64 / 1e3)
}

/// A line with its gateways and their results, by rounds.
struct Measured {
    way: Way,
    gateways: Vec<Gateway>,
    loads: Vec<Paced>,
    rounds: Vec<Round>,
    /// The most requests per second within the bound; infinite if no rate was too high.
    most: f64,
    /// All calls that failed.
    failed: u64,
}

impl Measured {
    fn start(way: Way, arguments: &Arguments, filter: &Path, stores: &Stores) -> Result<Self> {
        let start = || Gateway::start(way.config(arguments, filter, stores)?);
        let gateways = (0..GATEWAYS).map(|_| start()).collect::<Result<Vec<_>>>();
        let gateways = gateways.with_context(|| way.title())?;
        let target = |gateway: &Gateway| Target { address: gateway.address(), paths: vec![PATH.into()] };
        let loads = gateways.iter().map(|gateway| Paced::open(&target(gateway), CONNECTIONS));
        let loads = loads.collect::<Result<_>>().with_context(|| way.title())?;
        Ok(Self { way, gateways, loads, rounds: Vec::new(), most: 0.0, failed: 0 })
    }

    /// Sums a counter of the store's cluster over all gateways; 0 without a store.
    fn counted(&self, name: &str) -> Result<u64> {
        let cluster = match self.way {
            Way::Nothing | Way::Local(_) => return Ok(0),
            Way::Global(..) => Carrier::CLUSTER,
            Way::Limitador => LIMITADOR,
        };
        let name = format!("cluster.{cluster}.{name}");
        self.gateways.iter().map(|gateway| gateway.admin().counter(&name)).sum()
    }

    /// Sends so many requests per second to all gateways together.
    fn send(&mut self, rate: u32, seconds: Duration) -> Result<Vec<u64>> {
        let each = rate / GATEWAYS;
        let answered = thread::scope(|scope| {
            let run = |load: &mut Paced| load.run(each, seconds);
            let threads: Vec<_> = self.loads.iter_mut().map(|load| scope.spawn(move || run(load))).collect();
            let panicked = |_| bail!("a load thread panicked");
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect::<Result<_>>()
        })?;
        latencies(answered)
    }

    fn measure(&mut self, arguments: &Arguments, stores: &Stores) -> Result<Round> {
        let gateways: Vec<_> = self.gateways.iter().map(Gateway::process_id).collect();
        let parts = [gateways, stores.service(), vec![stores.redis.process_id()]];
        let read = || Ok::<_, anyhow::Error>([used(&parts[0])?, used(&parts[1])?, used(&parts[2])?]);
        let (calls, before) = (self.counted("upstream_rq_total")?, read()?);
        let mut latencies = self.send(arguments.rate, arguments.seconds)?;
        let (after, calls) = (read()?, self.counted("upstream_rq_total")? - calls);
        let requests = latencies.len() as f64;
        let cpu = std::array::from_fn(|part| (after[part] - before[part]) / requests);
        let [p50, p99] = [50, 99].map(|percent| milliseconds(&mut latencies, percent));
        Ok(Round { cpu, calls: calls as f64 / requests, p50, p99 })
    }

    /// Raises the rate until the latency leaves the bound.
    fn most(&mut self, seconds: Duration) -> Result<f64> {
        let (mut most, mut rate) = (0.0, LEAST);
        while rate < f64::from(QUOTA) {
            let mut holds = false;
            for _ in 0..TRIES {
                let mut latencies = self.send(rate as u32, seconds)?;
                holds = milliseconds(&mut latencies, 99) <= BOUND;
                if holds {
                    break;
                }
            }
            if !holds {
                return Ok(most);
            }
            (most, rate) = (rate, rate * STEP);
        }
        Ok(f64::INFINITY)
    }

    fn summary(&self, of: impl Fn(&Round) -> f64) -> Summary {
        Summary::range(self.rounds.iter().map(of))
    }

    /// The processor time of a request in all processes.
    fn cpu(&self) -> f64 {
        self.summary(|round| round.cpu.iter().sum()).median
    }

    fn p99(&self) -> f64 {
        self.summary(|round| round.p99).median
    }

    /// The line's row in the table. `none` is the time of a request without a filter.
    fn row(&self, none: Option<f64>) -> String {
        let calls = self.summary(|round| round.calls);
        let asks = calls.high > 0.0;
        let when = |text: String| if asks { text } else { String::new() };
        let [gateway, service, redis] = [0, 1, 2].map(|part| self.summary(|round| round.cpu[part]).median);
        let most = match self.most.is_finite() {
            true => format!("{:.0}", self.most),
            false => format!("more than {}", thousands(QUOTA.into())),
        };
        format!(
            "| {} | {gateway:.0} | {} | {} | {} | {} | {} | {} | {most} | {} |\n",
            self.way.title(),
            when(format!("{service:.0}")),
            when(format!("{redis:.0}")),
            none.map_or(String::new(), |none| format!("{:.0}", self.cpu() - none)),
            range(self.summary(|round| round.p50), 2),
            range(self.summary(|round| round.p99), 2),
            when(format!("{:.3}", calls.median)),
            when(self.failed.to_string()),
        )
    }
}

/// Measures all lines, prints the table and writes it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut ways = ways();
    if !arguments.only.is_empty() {
        let names = ways.iter().map(|way| way.name()).collect::<Vec<_>>().join(", ");
        ways.retain(|way| arguments.only.contains(&way.name()));
        ensure!(ways.len() == arguments.only.len(), "unknown line; the lines are {names}");
    }
    eprintln!("building the filter …");
    let filter = filter::build()?;
    filter::module()?;
    let stores = Stores::start(&ways)?;
    eprintln!("starting {} Envoys …", GATEWAYS as usize * ways.len());
    let started = ways.into_iter().map(|way| Measured::start(way, arguments, &filter, &stores));
    let mut measured = started.collect::<Result<Vec<_>>>()?;
    for round in 0..=arguments.rounds {
        eprint!("\rround {round} of {} ", arguments.rounds);
        for index in order(measured.len(), round) {
            let measured = &mut measured[index];
            let done = measured.measure(arguments, &stores).with_context(|| measured.way.title())?;
            // Round 0 is the warm-up.
            if round > 0 {
                measured.rounds.push(done);
            }
        }
    }
    for measured in &mut measured {
        measured.failed = measured.counted("upstream_rq_5xx")?;
        eprint!("\rthe most requests: {} \x1b[K", measured.way.name());
        measured.most = measured.most(arguments.seconds / 2)?;
    }
    eprintln!();
    let text = markdown(arguments, &Machine::find()?, &measured);
    print!("{text}");
    if let Some(none) = measured.iter().find(|line| line.way == Way::Nothing) {
        print!("{}", ratios(&measured, none.cpu()));
    }
    if arguments.only.is_empty() {
        page::write("bench global", &text)?;
    }
    Ok(())
}

fn markdown(arguments: &Arguments, machine: &Machine, measured: &[Measured]) -> String {
    let Machine { cores, kernel, envoy, commit } = machine;
    let workers = match arguments.workers {
        1 => "one worker".to_owned(),
        several => format!("{several} workers"),
    };
    let mut text = format!(
        "Measured on commit {commit}, Envoy {envoy}, Linux {kernel}, {cores} cores for {GATEWAYS} gateways of {workers} \
         each, Redis and the generator. {} requests a second over {CONNECTIONS} connections to each gateway, one rule of \
         {} a second, {} rounds of {} s: medians, latencies with minimum and maximum.\n\n",
        thousands(arguments.rate.into()),
        thousands(QUOTA.into()),
        arguments.rounds,
        arguments.seconds.as_secs_f64(),
    );
    text += "| | gateway | Limitador | Redis | added | p50 | p99 | calls a request | most | calls that failed |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    let none = measured.iter().find(|line| line.way == Way::Nothing).map(Measured::cpu);
    text.extend(measured.iter().map(|line| line.row(none)));
    text
}

/// What the bridge and the tunnel cost next to Limitador, and the tunnel next to the bridge.
fn ratios(measured: &[Measured], none: f64) -> String {
    let of = |way| measured.iter().find(|line| line.way == way);
    let mut rows = String::new();
    for (lease, shell) in LEASES.into_iter().flat_map(|lease| SHELLS.map(|shell| (lease, shell))) {
        let [bridge, tunnel] = Carrier::ALL.map(|carrier| Way::Global(shell, carrier, lease));
        for (line, other) in [(tunnel, bridge), (bridge, Way::Limitador), (tunnel, Way::Limitador)] {
            let (Some(line), Some(other)) = (of(line), of(other)) else { continue };
            let cpu = (line.cpu() - none) / (other.cpu() - none);
            let p99 = line.p99() / other.p99();
            // Writing to a string cannot fail.
            _ = writeln!(rows, "| {} | {} | {cpu:.2} | {p99:.2} |", line.way.title(), other.way.title());
        }
    }
    match rows.is_empty() {
        true => rows,
        false => format!(
            "\nThe ratios of the processor time that a request adds, and of the p99:\n\n\
             | | beside | added | p99 |\n| --- | --- | --- | --- |\n{rows}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(way: Way, cpu: f64, calls: f64, most: f64) -> Measured {
        let round = Round { cpu: [cpu - 30.0, 20.0, 10.0], calls, p50: 0.25, p99: 1.5 };
        Measured { way, gateways: Vec::new(), loads: Vec::new(), rounds: vec![round; 3], most, failed: 0 }
    }

    #[test]
    fn a_row_has_the_measurements() {
        let bridge = Way::Global(Shell::Wasm, Carrier::Bridge, "5%");
        assert_eq!(
            measured(bridge, 150.0, 0.25, 3_000.0).row(Some(80.0)),
            "| `lease: 5%`, Bridge, wasm | 120 | 20 | 10 | 70 | 0.25 (0.25–0.25) | 1.50 (1.50–1.50) | 0.250 | \
             3000 | 0 |\n"
        );
        assert!(
            measured(Way::Nothing, 80.0, 0.0, f64::INFINITY).row(None).contains(
                "| no filter | 50 |  |  |  | 0.25 (0.25–0.25) | 1.50 (1.50–1.50) |  | more than 20,000 |"
            ),
            "a line without calls has empty cells"
        );
    }

    #[test]
    fn ratios_compare_what_is_added() {
        let of = |carrier| Way::Global(Shell::Native, carrier, "0");
        let lines = [
            measured(Way::Nothing, 100.0, 0.0, 0.0),
            measured(of(Carrier::Bridge), 150.0, 1.0, 0.0),
            measured(of(Carrier::Tunnel), 200.0, 1.0, 0.0),
            measured(Way::Limitador, 350.0, 1.0, 0.0),
        ];
        let text = ratios(&lines, 100.0);
        assert!(
            text.contains("| `lease: 0`, Tunnel, native | `lease: 0`, Bridge, native | 2.00 | 1.00 |\n"),
            "{text}"
        );
        assert!(text.contains("| Envoy's `ratelimit` with Limitador | 0.20 | 1.00 |\n"), "{text}");
    }

    #[test]
    fn only_status_200_is_measured() {
        let answered = |status, latencies: &[u64]| Answered {
            latencies: latencies.to_vec(),
            by_status: BTreeMap::from([(status, latencies.len() as u64)]),
        };
        let both = vec![answered(200, &[1, 3]), answered(200, &[2])];
        assert_eq!(latencies(both).unwrap(), [1, 3, 2]);
        assert!(latencies(vec![answered(200, &[1]), answered(429, &[1])]).is_err());
    }

    #[test]
    fn the_filter_accepts_the_rules_and_lines_have_names_of_their_own() {
        let ways = ways();
        for document in ways.iter().filter_map(|way| way.document()) {
            let taken = diana_config::compile(document.to_string().as_bytes());
            assert!(taken.is_ok(), "{document}: {:?}", taken.err());
        }
        let names: std::collections::BTreeSet<_> = ways.iter().map(|way| way.name()).collect();
        assert_eq!(names.len(), ways.len());
        assert!(names.contains("native-bridge-5"), "{names:?}");
    }
}
