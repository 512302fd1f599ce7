//! `examples/docker-compose`, run without a container engine by the example's own script.

use super::release::{Release, Running};
use gateway::{Connection, Response, envoy, free_port, prometheus, wait_until};
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);
const GATEWAYS: [u16; 2] = [10000, 20000];
const ADMIN: u16 = 9901;
const PROMETHEUS: u16 = 9090;
/// All that the script opens.
const PORTS: [u16; 7] = [GATEWAYS[0], GATEWAYS[1], ADMIN, 9902, 8080, 6379, PROMETHEUS];

/// The services that the script has started.
struct Services {
    // Before the folder: the services must have ended before it is removed.
    running: Option<Running>,
    release: Release,
    offset: u16,
}

impl Services {
    /// Starts the services, and waits until both gateways reach the upstream.
    fn start() -> Self {
        // Another test may take a port before a service listens there.
        (0..5).find_map(|_| Self::try_start()).expect("the services start")
    }

    fn try_start() -> Option<Self> {
        // A long timeout, because a test machine may be busy.
        let patient = |line: &str| match line.split_once("replicas: auto") {
            Some((indent, _)) => format!("{indent}timeout: 5s\n{line}\n"),
            None => format!("{line}\n"),
        };
        let change = |text: String| -> String {
            text.replace("_interval: 5s", "_interval: 1s").lines().map(patient).collect()
        };
        let release = Release::with("docker-compose", change);
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        let offset = wait_until("free ports", LIMIT, || {
            let offset = 20_000 + free_port().unwrap() % 20_000;
            PORTS.iter().all(|port| is_free(port + offset)).then_some(offset)
        });
        let offset = offset.unwrap();
        let mut command = Command::new("examples/docker-compose/run");
        command.env("OFFSET", offset.to_string()).env("ENVOY", envoy::find().unwrap());
        let mut running = release.start(command);
        let answers = |port: u16| {
            let address = SocketAddr::from(([127, 0, 0, 1], port + offset));
            let answer = Connection::open(address).ok()?.request("GET", "/", &[], b"").ok()?;
            (answer.status == 200 && answer.text() == "hello from upstream\n").then_some(())
        };
        let started = wait_until("the gateways", LIMIT, || match running.has_ended() {
            true => Some(false),
            false => GATEWAYS.iter().all(|port| answers(*port).is_some()).then_some(true),
        });
        match started {
            Ok(true) => Some(Self { running: Some(running), release, offset }),
            Ok(false) => {
                eprintln!("{}", release.log());
                None
            }
            Err(error) => panic!("{error}\n{}", release.log()),
        }
    }

    fn get(&self, port: u16, path: &str, headers: &[(&str, &str)]) -> Response {
        let address = SocketAddr::from(([127, 0, 0, 1], port + self.offset));
        Connection::open(address).unwrap().request("GET", path, headers, b"").unwrap()
    }

    /// How many of 30 requests of a user pass, at the gateways in turn.
    fn passed(&self, user: &str) -> usize {
        let passes =
            |index: &usize| self.get(GATEWAYS[index % 2], "/api", &[("x-user-id", user)]).status == 200;
        (0..30).filter(passes).count()
    }

    /// The result of a query of Prometheus.
    fn query(&self, expression: &str) -> Vec<Value> {
        prometheus::query(SocketAddr::from(([127, 0, 0, 1], PROMETHEUS + self.offset)), expression).unwrap()
    }
}

#[test]
fn the_services_of_compose_count_together() {
    let mut services = Services::start();
    let begun = Instant::now();
    let passed = services.passed("ann");
    // A token refills every 6 s. Without Redis, each gateway counts alone.
    let most = 10 + (begun.elapsed().as_secs() / 6) as usize + 1;
    assert!((10..=most).contains(&passed), "{passed} passed, from 10 to {most} may");
    assert_eq!(services.get(GATEWAYS[0], "/api", &[("x-user-id", "bob")]).status, 200);
    assert_eq!(services.get(ADMIN, "/config_dump", &[]).status, 403, "it would show the secret");
    let log = services.release.log();
    assert!(log.contains("gateway-2 | "), "{log}");
    drop(services.running.take());
    let is_closed = |port: &u16| TcpListener::bind(("127.0.0.1", port + services.offset)).is_ok();
    wait_until("all services to have ended", LIMIT, || PORTS.iter().all(is_closed).then_some(())).unwrap();
}

#[test]
#[ignore = "needs Prometheus: `cargo xtask examples`"]
fn real_prometheus_has_the_series_of_the_example() {
    let services = Services::start();
    services.passed("ann");
    let is_ready = || {
        let address = SocketAddr::from(([127, 0, 0, 1], PROMETHEUS + services.offset));
        let answer = Connection::open(address).ok()?.request("GET", "/-/ready", &[], b"").ok()?;
        (answer.status == 200).then_some(())
    };
    wait_until("Prometheus", LIMIT, is_ready).unwrap();
    let refused = r#"sum({__name__=~"(envoy_)?diana_requests",rule="per-user",result="refused"})"#;
    wait_until("the refusals in Prometheus", LIMIT, || {
        let result = services.query(refused);
        result.first()?["value"][1].as_str()?.parse::<f64>().ok().filter(|count| *count >= 19.0)
    })
    .unwrap();
    assert_eq!(services.query("count(up == 1)")[0]["value"][1], "2", "both gateways");
    // `tests/e2e/observability.rs` has all series of the dashboard. A rate needs two scrapes.
    services.passed("ann");
    let recorded = [
        r#"sum by (outcome) (diana:decisions:rate5m{outcome="refused"}) > 0"#,
        r#"sum by (store) (diana:calls:rate5m{shell="native"}) > 0"#,
        r#"sum by (store) (diana:calls:rate5m{shell="wasm"}) > 0"#,
        "diana:replicas:value == 2",
    ];
    for expression in recorded {
        let is_there = || (!services.query(expression).is_empty()).then_some(());
        wait_until(expression, LIMIT, is_there).unwrap();
    }
    assert_eq!(services.query(r#"ALERTS{alertname!~"DianaTableFills"}"#), [Value::Null; 0]);
}

fn yaml(text: &str) -> Value {
    let mut value: serde_norway::Value = serde_norway::from_str(text).unwrap();
    value.apply_merge().unwrap();
    serde_json::to_value(value).unwrap()
}

/// What only the container engine would notice: files that a release does not have, and hosts that
/// are no services.
#[test]
fn the_compose_file_fits_its_files() {
    let release = Release::with("docker-compose", |text| text);
    let folder = release.path().join("examples/docker-compose");
    let file = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let compose = yaml(&file("compose.yaml"));
    let services = compose["services"].as_object().unwrap();
    let mut files = 0;
    for (name, service) in services {
        let version = service["image"].as_str().unwrap().split_once(':').unwrap().1;
        assert!(version.trim_start_matches('v').split('.').all(|part| part.parse::<u32>().is_ok()), "{name}");
        for limit in ["cpus", "mem_limit"] {
            assert!(!service[limit].is_null(), "{name}: {limit}");
        }
        for volume in service["volumes"].as_array().unwrap() {
            let short = volume.as_str().map(|volume| volume.split(':').next().unwrap());
            let source = short.or(volume["source"].as_str()).unwrap();
            // A variable with a default.
            let source = source.trim_start_matches("${DIANA_MODULE:-").trim_end_matches('}');
            assert!(folder.join(source).is_file(), "{name}: {source}");
            files += 1;
        }
    }
    assert!(files >= 8, "{files}");
    let files = ["envoy.yaml", "envoy-native.yaml", "prometheus.yaml", "grafana/datasource.yaml"];
    let texts = files.map(file).concat();
    let addresses =
        texts.match_indices("address: {socket_address: {address: ").map(|(at, start)| at + start.len());
    let targets = texts.match_indices("\"gateway-").map(|(at, _)| at + 1);
    let urls = texts.match_indices("http://").map(|(at, start)| at + start.len());
    let hosts: Vec<&str> = addresses
        .chain(targets)
        .chain(urls)
        .map(|at| texts[at..].split([',', ':']).next().unwrap())
        .filter(|host| *host != "0.0.0.0")
        .collect();
    assert_eq!(hosts.len(), 7, "{hosts:?}");
    for host in hosts {
        assert!(services.contains_key(host), "{host}");
    }
}

#[test]
fn both_gateways_of_compose_have_the_same_document() {
    let release = Release::with("docker-compose", |text| text);
    let document = |name: &str, path: &str| {
        let text = fs::read_to_string(release.path().join("examples/docker-compose").join(name)).unwrap();
        let manager = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
        let path = format!("{manager}/http_filters/0/typed_config/{path}/value");
        let document = yaml(&text).pointer(&path).cloned();
        document.unwrap_or_else(|| panic!("{name} has no {path}"))
    };
    assert_eq!(
        document("envoy.yaml", "config/configuration"),
        document("envoy-native.yaml", "filter_config")
    );
}
