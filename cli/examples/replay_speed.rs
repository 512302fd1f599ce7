//! Times `diana replay` over a log of five million lines: `cargo xtask bench replay`.
//!
//! The log lies below `target/` and is the same on every machine: a day, a million users whose
//! traffic follows Zipf's law, 200,000 addresses, durations that put the lines out of order. Each
//! replay runs in a process of its own, which prints its time and its highest memory.
#![allow(clippy::unwrap_used, reason = "a measuring program")]

use clap::Parser;
use diana_base::prng::next;
use diana_cli::Arguments;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const LINES: u64 = 5_000_000;
const USERS: u32 = 1_000_000;
const ADDRESSES: u32 = 200_000;
const DAY_NS: u64 = 86_400_000_000_000;
const START_NS: u64 = 1_795_392_000_000_000_000;

const FORMAT: &str = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" \
    %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% \
    \"%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%\" \"%REQ(USER-AGENT)%\" \"%REQ(X-USER-ID)%\"";

const DOCUMENT: &str = r#"{
    "limits": [
        {"url": "/", "rules": [
            {"name": "all", "rpu": 120, "unit": "second"},
            {"name": "per-ip", "actor": "ip", "rpu": 30, "unit": "minute", "algo": "SW"}
        ]},
        {"url": "/orders", "methods": ["POST"], "rules": [
            {"name": "per-user", "actor": "user", "rpu": 20, "unit": "hour"}
        ]}
    ],
    "local": {"max_actors": 200000}
}"#;

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    if arguments.next().as_deref() == Some("--run") {
        return run(arguments);
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/replay");
    fs::create_dir_all(&folder)?;
    let (log, document) = (folder.join("access.log"), folder.join("limits.json"));
    fs::write(&document, DOCUMENT)?;
    if fs::metadata(&log).is_err() {
        let started = Instant::now();
        let unfinished = folder.join("access.log.part");
        generate(&unfinished)?;
        fs::rename(&unfinished, &log)?;
        println!("{LINES} lines in {:.1} s", started.elapsed().as_secs_f64());
    }
    println!("{} MB in {}", fs::metadata(&log)?.len() / 1_000_000, log.display());
    for extra in [&[][..], &["--what-if"]] {
        let name = if extra.is_empty() { "replay" } else { "replay --what-if" };
        print!("{name:<18}");
        io::stdout().flush()?;
        let mut command = Command::new(env::current_exe()?);
        command.args(["--run", "diana", "replay"]).arg(&document).arg("--log").arg(&log);
        let status =
            command.args(["--json", "--format", FORMAT]).args(extra).stdout(Stdio::null()).status()?;
        assert!(status.success(), "{name} has failed");
    }
    Ok(())
}

/// Runs the command with these arguments, and prints what it took.
fn run(arguments: impl Iterator<Item = String>) -> io::Result<()> {
    let started = Instant::now();
    let _ = diana_cli::run(Arguments::parse_from(arguments));
    let seconds = started.elapsed().as_secs_f64();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    // The standard output has the summary.
    eprintln!("{seconds:>6.1} s, {:>7.0} lines/s, at most {peak}", LINES as f64 / seconds);
    Ok(())
}

/// A number from 0 to `most`, exclusive, by Zipf's law with the exponent 1.
fn zipf(random: &mut u64, most: u32) -> u32 {
    let place = f64::from(next(random)) / f64::from(u32::MAX);
    (f64::from(most).powf(place) as u32).min(most).saturating_sub(1)
}

fn generate(path: &Path) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = 20_261_123;
    let mut waiting = BinaryHeap::new();
    for number in 0..LINES {
        let start = START_NS + number * (DAY_NS / LINES) + u64::from(next(&mut random)) % 4_000_000;
        let duration_ms = 1 + u64::from(zipf(&mut random, 5_000));
        waiting.push(Reverse((start + duration_ms * 1_000_000, start, duration_ms)));
        while waiting.peek().is_some_and(|Reverse((end, ..))| *end <= start) {
            let Some(Reverse((_, start, duration_ms))) = waiting.pop() else { break };
            line(&mut file, &mut random, start, duration_ms)?;
        }
    }
    for Reverse((_, start, duration_ms)) in waiting.into_sorted_vec().into_iter().rev() {
        line(&mut file, &mut random, start, duration_ms)?;
    }
    file.flush()
}

fn line(file: &mut impl Write, random: &mut u64, start: u64, duration_ms: u64) -> io::Result<()> {
    let ms = (start - START_NS) / 1_000_000;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    let (user, address) = (zipf(random, USERS), zipf(random, ADDRESSES));
    let draw = next(random);
    let method = if draw.is_multiple_of(5) { "POST" } else { "GET" };
    let path = ["/orders", "/items", "/search?q=lamp&page=2", "/orders/17/lines", "/"][draw as usize / 8 % 5];
    let [_, a, b, c] = (address + 1).to_be_bytes();
    writeln!(
        file,
        "[2026-11-23T{hour:02}:{minute:02}:{second:02}.{:03}Z] \"{method} {path} HTTP/1.1\" 200 - 0 {} {duration_ms} \
         \"10.{a}.{b}.{c}\" \"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0\" \"user-{user}\"",
        ms % 1_000,
        200 + draw % 5_000,
    )
}
