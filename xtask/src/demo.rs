//! `cargo xtask demo`: runs the repository's `envoy.yaml` in a real Envoy, sends requests and shows
//! the decisions. `--native` runs its twin with the native module. `--global` runs two Envoys of
//! `examples/global-redis`, which count together in a Redis.

mod show;

use crate::programs;
use anyhow::{Context, Result, bail};
use gateway::{Gateway, Redis, envoy, filter, root};
use show::BurstResult;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The gateways of a demo, and the requests.
struct Demo {
    /// The configuration of each gateway.
    file: &'static str,
    /// For each gateway, ports of the file and the ports that replace them.
    gateways: &'static [&'static [(u16, u16)]],
    /// The port of Redis in the file, if there is one.
    store: Option<u16>,
    bursts: &'static [Burst],
    /// Whether the demo waits between two bursts until quota has recovered.
    rests: bool,
    /// Commands to try while the demo stays up.
    invitation: &'static [(&'static str, &'static str)],
    /// What is in the logs.
    log: &'static str,
}

/// Equal requests, sent one after the other.
struct Burst {
    count: usize,
    /// The number of the gateway.
    gateway: usize,
    method: &'static str,
    path: &'static str,
    /// The value of `x-user-id`.
    user: Option<&'static str>,
}

impl Burst {
    const fn new(count: usize, method: &'static str, path: &'static str, user: Option<&'static str>) -> Self {
        Self { count, gateway: 0, method, path, user }
    }

    const fn at(self, gateway: usize) -> Self {
        Self { gateway, ..self }
    }
}

/// Each burst uses up another rule of `envoy.yaml`.
const LOCAL: Demo = Demo {
    file: "envoy.yaml",
    gateways: &[&[]],
    store: None,
    bursts: &[
        Burst::new(30, "GET", "/hello", None),
        Burst::new(8, "POST", "/login", None),
        Burst::new(8, "GET", "/api/items", Some("ann")),
        Burst::new(8, "GET", "/api/items", Some("vip-42")),
        Burst::new(2, "GET", "/api/items", Some("bot")),
        Burst::new(2, "GET", "/api/items", Some("mallory")),
        Burst::new(30, "GET", "/health", None),
    ],
    rests: true,
    invitation: &[
        ("one request, with its headers", "curl -i http://127.0.0.1:10000/hello"),
        ("as a user", "curl -i -H 'x-user-id: ann' http://127.0.0.1:10000/api/items"),
        (
            "a burst: 20 pass, and some of the rest",
            "for i in $(seq 40); do curl -s -o /dev/null -w '%{http_code} ' http://127.0.0.1:10000/hello; done; echo",
        ),
        ("the counts", "curl -s http://127.0.0.1:9901/stats/prometheus | grep '^diana'"),
    ],
    log: "the log, and the access log with the rule that refused",
};

/// The same gateway with the native module.
const NATIVE: Demo = Demo {
    file: "envoy-native.yaml",
    invitation: &[
        ("one request, with its headers", "curl -i http://127.0.0.1:10000/hello"),
        ("as a user", "curl -i -H 'x-user-id: ann' http://127.0.0.1:10000/api/items"),
        ("the counts", "curl -s http://127.0.0.1:9901/stats/prometheus | grep '^envoy_diana'"),
    ],
    ..LOCAL
};

/// Each gateway counts the requests that the other one admits.
const GLOBAL: Demo = Demo {
    file: "examples/global-redis/envoy.yaml",
    gateways: &[&[], &[(10000, 20000), (9901, 9902)]],
    store: Some(6379),
    bursts: &[
        Burst::new(60, "GET", "/api", Some("ann")),
        Burst::new(60, "GET", "/api", Some("ann")).at(1),
        Burst::new(2, "GET", "/api", Some("ann")),
        Burst::new(5, "GET", "/api", Some("bob")).at(1),
    ],
    rests: false,
    invitation: &[
        (
            "one request to each, with its headers",
            "curl -i -H 'x-user-id: carl' http://127.0.0.1:{10000,20000}/api",
        ),
        (
            "a burst to both: 100 pass, and what has come back meanwhile",
            "for i in $(seq 100); do curl -s -o /dev/null -w '%{http_code} ' -H 'x-user-id: carl' \
             http://127.0.0.1:{10000,20000}/api; done; echo",
        ),
        ("the counts of the second", "curl -s http://127.0.0.1:9902/stats/prometheus | grep '^diana'"),
    ],
    log: "the logs",
};

/// Which demo to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// One gateway with the proxy-wasm filter.
    Local,
    /// One gateway with the native module.
    Native,
    /// Two gateways that count together.
    Global,
}

/// Runs the demo, until Ctrl-C unless `once`.
pub fn run(variant: Variant, once: bool) -> Result<()> {
    let demo = match variant {
        Variant::Local => &LOCAL,
        Variant::Native => &NATIVE,
        Variant::Global => &GLOBAL,
    };
    let file = root().join(demo.file);
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", demo.file))?;
    check_ports(demo, &text)?;
    if demo.store.is_some() {
        programs::install()?;
    }
    eprintln!("building the filter …");
    match variant {
        Variant::Native => filter::build_module()?,
        Variant::Local | Variant::Global => {
            programs::install_fetchers()?;
            filter::build()?
        }
    };
    if variant == Variant::Global {
        // It carries the calls to Redis.
        filter::build_module()?;
    }
    // Comes before the first start, so that Ctrl-C never leaves a process behind.
    let interrupted = interruption()?;
    let store = demo.store.map(|_| start_store()).transpose()?;
    let port_of_store = demo.store.zip(store.as_ref().map(Redis::port));
    let mut gateways = Vec::new();
    for ports in demo.gateways {
        eprintln!("starting `{}` …", envoy::find()?.display());
        let moved = |port| ports.iter().chain(&port_of_store).find(|(from, _)| *from == port);
        gateways.push(Gateway::from_file(&file, |port| moved(port).map_or(port, |(_, to)| *to))?);
    }

    let mut outcomes: Vec<BurstResult> = Vec::new();
    for burst in demo.bursts {
        if let Some(before) = outcomes.last().filter(|_| demo.rests) {
            thread::sleep(recovery(before));
        }
        outcomes.push(send(&gateways, burst)?);
    }
    show::table(&outcomes);
    show::together(&outcomes);
    show::examples(&outcomes);
    if !once && interrupted.try_recv().is_err() {
        let logs: Vec<_> = gateways.iter().map(|gateway| gateway.log_file().display().to_string()).collect();
        show::invitation(demo.invitation, (demo.log, &format!("tail -f {}", logs.join(" "))));
        stay(&mut gateways, &interrupted)?;
    }
    Ok(())
}

/// A Redis that this machine runs already is left alone.
fn start_store() -> Result<Redis> {
    let redis = Redis::start()?;
    eprintln!("started Redis at {}", redis.address());
    Ok(redis)
}

/// Tells when Ctrl-C is pressed, which from now on ends nothing by itself.
fn interruption() -> Result<Receiver<()>> {
    let (sender, interrupted) = mpsc::channel();
    // Nobody is there to receive it only when all is over anyway.
    let tell = move || sender.send(()).unwrap_or_default();
    ctrlc::set_handler(tell).context("cannot handle Ctrl-C")?;
    Ok(interrupted)
}

/// Waits for Ctrl-C, or for the end of a gateway.
fn stay(gateways: &mut [Gateway], interrupted: &Receiver<()>) -> Result<()> {
    while let Err(RecvTimeoutError::Timeout) = interrupted.recv_timeout(Duration::from_millis(200)) {
        for gateway in &mut *gateways {
            if !gateway.alive() {
                bail!("Envoy has ended; the last it said:\n{}", last_lines(&gateway.logs()));
            }
        }
    }
    println!();
    Ok(())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

fn send(gateways: &[Gateway], burst: &Burst) -> Result<BurstResult> {
    let gateway = gateways.get(burst.gateway).context("a burst for a gateway that there is not")?;
    let mut connection = gateway.connect()?;
    let headers: Vec<(&str, &str)> = burst.user.map(|user| ("x-user-id", user)).into_iter().collect();
    let mut one = || connection.request(burst.method, burst.path, &headers, b"");
    let answers = (0..burst.count).map(|_| one()).collect::<Result<_>>()?;
    let user = burst.user.map(|user| format!(" as {user}")).unwrap_or_default();
    let gateway = (gateways.len() > 1).then_some(burst.gateway + 1);
    Ok(BurstResult { request: format!("{} {}{user}", burst.method, burst.path), gateway, answers })
}

/// How long to wait after a burst until its rules admit requests again. A demo waits two seconds at
/// most, so the next burst may still meet a slow rule.
fn recovery(outcome: &BurstResult) -> Duration {
    let seconds =
        outcome.answers.iter().filter_map(|answer| answer.header("retry-after")?.parse().ok()).max();
    Duration::from_secs(seconds.unwrap_or(0).min(2))
}

/// Envoy's own message about a port in use is long and easily missed.
fn check_ports(demo: &Demo, yaml: &str) -> Result<()> {
    for port in ports(demo, yaml) {
        match TcpListener::bind(("127.0.0.1", port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
                "port {port} of 127.0.0.1 is taken: end the process that listens there (`ss -ltnp 'sport = :{port}'` \
                 names it), or change the port in `{}`",
                demo.file
            ),
            _ => {}
        }
    }
    Ok(())
}

/// Those that the gateways need: each in the file, and what it is for the others.
fn ports(demo: &Demo, yaml: &str) -> Vec<u16> {
    let digits =
        |text: &str| text.trim_start().split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok();
    let written =
        yaml.split("port_value:").skip(1).filter_map(digits).filter(|port| Some(*port) != demo.store);
    let moved = demo.gateways.iter().flat_map(|ports| ports.iter().map(|(_, to)| *to));
    let mut ports: Vec<u16> = written.chain(moved).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gateway_has_ports_of_its_own() {
        let file = |demo: &Demo| fs::read_to_string(root().join(demo.file)).unwrap();
        assert_eq!(ports(&LOCAL, &file(&LOCAL)), [9901, 10000, 10001]);
        assert_eq!(ports(&GLOBAL, &file(&GLOBAL)), [9901, 9902, 10000, 20000]);
        assert!(GLOBAL.bursts.iter().all(|burst| burst.gateway < GLOBAL.gateways.len()));
    }
}
