//! `cargo xtask demo`: the repository's `envoy.yaml` in a real Envoy, some requests, and what became of them.

mod show;

use anyhow::{Context, Result, bail};
use gateway::{Gateway, Response, envoy, filter, root};
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

const FILE: &str = "envoy.yaml";

/// Equal requests, sent one after the other.
struct Burst {
    count: usize,
    method: &'static str,
    path: &'static str,
    /// The value of `x-user-id`.
    user: Option<&'static str>,
}

/// What the demo sends: each burst uses up another rule of `envoy.yaml`.
const BURSTS: &[Burst] = &[
    Burst { count: 30, method: "GET", path: "/hello", user: None },
    Burst { count: 8, method: "POST", path: "/login", user: None },
    Burst { count: 8, method: "GET", path: "/api/items", user: Some("ann") },
    Burst { count: 8, method: "GET", path: "/api/items", user: Some("vip-42") },
    Burst { count: 2, method: "GET", path: "/api/items", user: Some("bot") },
    Burst { count: 2, method: "GET", path: "/api/items", user: Some("mallory") },
    Burst { count: 30, method: "GET", path: "/health", user: None },
];

/// What to try while it stays up.
const TRY: &[(&str, &str)] = &[
    ("one request, with its headers", "curl -i http://127.0.0.1:10000/hello"),
    ("as a user", "curl -i -H 'x-user-id: ann' http://127.0.0.1:10000/api/items"),
    (
        "a burst: 20 pass, and some of the rest",
        "for i in $(seq 40); do curl -s -o /dev/null -w '%{http_code} ' http://127.0.0.1:10000/hello; done; echo",
    ),
    ("the counts", "curl -s http://127.0.0.1:9901/stats/prometheus | grep '^diana'"),
];

/// The answers to one burst.
struct Outcome {
    burst: &'static Burst,
    answers: Vec<Response>,
}

/// Runs it; unless `once`, until Ctrl-C.
pub fn run(once: bool) -> Result<()> {
    let file = root().join(FILE);
    check_ports(&fs::read_to_string(&file).with_context(|| format!("cannot read `{FILE}`"))?)?;
    eprintln!("building the filter …");
    filter::build()?;
    // Before Envoy starts, so that there is no moment at which Ctrl-C would leave it behind.
    let (sender, ended) = mpsc::channel();
    // Nobody is there to receive it only when all is over anyway.
    let end = move || sender.send(()).unwrap_or_default();
    ctrlc::set_handler(end).context("cannot handle Ctrl-C")?;
    eprintln!("starting `{}` …", envoy::find()?.display());
    let mut gateway = Gateway::from_file(&file, |port| port)?;

    let mut outcomes: Vec<Outcome> = Vec::new();
    for burst in BURSTS {
        if let Some(before) = outcomes.last() {
            thread::sleep(recovery(before));
        }
        outcomes.push(send(&gateway, burst)?);
    }
    show::table(&outcomes);
    show::examples(&outcomes);
    if !once && ended.try_recv().is_err() {
        let log = gateway.log_file();
        show::invitation(TRY, &format!("tail -f {}", log.display()));
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_millis(200)) {
            if !gateway.alive() {
                bail!("Envoy has ended; the last it said:\n{}", last_lines(&gateway.logs()));
            }
        }
        println!();
    }
    Ok(())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

fn send(gateway: &Gateway, burst: &'static Burst) -> Result<Outcome> {
    let mut connection = gateway.connect()?;
    let headers: Vec<(&str, &str)> = burst.user.map(|user| ("x-user-id", user)).into_iter().collect();
    let mut one = || connection.request(burst.method, burst.path, &headers, b"");
    let answers = (0..burst.count).map(|_| one()).collect::<Result<_>>()?;
    Ok(Outcome { burst, answers })
}

/// How long a client should wait after a burst, so that the next one does not meet rules that this one used up. A
/// rule that takes longer than a demo may is met all the same.
fn recovery(outcome: &Outcome) -> Duration {
    let seconds =
        outcome.answers.iter().filter_map(|answer| answer.header("retry-after")?.parse().ok()).max();
    Duration::from_secs(seconds.unwrap_or(0).min(2))
}

/// Envoy's own complaint about a port that is taken is long, and easily missed.
fn check_ports(yaml: &str) -> Result<()> {
    let mut ports: Vec<u16> = yaml
        .split("port_value:")
        .skip(1)
        .filter_map(|rest| {
            rest.trim_start().split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    for port in ports {
        match TcpListener::bind(("127.0.0.1", port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
                "port {port} of 127.0.0.1 is taken: end the process that listens there (`ss -ltnp 'sport = :{port}'` \
                 names it), or change the port in `{FILE}`"
            ),
            _ => {}
        }
    }
    Ok(())
}
