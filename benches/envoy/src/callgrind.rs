//! Counts instructions and cache misses of the worker of a real Envoy, under Valgrind's Callgrind.
//!
//! The counts do not depend on other load of the machine, and hardly on the place of the code in
//! memory.

use anyhow::{Context, Result, bail};
use gateway::envoy::on_path;
use gateway::{Config, Connection, Gateway};
use std::fs;
use std::process::Command;

/// The name of Callgrind's own file, which stays empty, in the folder where Envoy starts. A dump
/// adds a file for each thread, whose name continues with a full stop.
const FILE: &str = "callgrind.out";

/// Requests before Callgrind watches, so that V8 has optimised the filter and all caches are full.
const WARM_UP: u32 = 300;

/// Requests that Callgrind watches before the counted ones, so that the simulated caches are full.
const FILL: u32 = 50;

/// What a thread executes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions.
    pub instructions: u64,
    /// Instructions that are not in the first-level cache.
    pub code_misses: u64,
    /// Reads and writes of data that are not in the first-level cache.
    pub data_misses: u64,
}

/// Fails unless Valgrind is installed.
pub fn check_installed() -> Result<()> {
    match ["valgrind", "vgdb"].into_iter().find(|program| on_path(program).is_none()) {
        Some(program) => bail!("`PATH` has no `{program}`: install Valgrind, by `apt-get install valgrind`"),
        None => Ok(()),
    }
}

/// The program that runs Envoy.
fn valgrind() -> Vec<String> {
    let arguments = [
        "valgrind",
        "--tool=callgrind",
        "--separate-threads=yes",
        // V8 writes code, and writes other code to the same place later.
        "--smc-check=all-non-file",
        "--instr-atstart=no",
        "--cache-sim=yes",
        // The sizes are fixed, so that the counts do not depend on the machine's processor.
        "--I1=32768,8,64",
        "--D1=32768,8,64",
        "--LL=8388608,16,64",
    ];
    arguments.into_iter().map(str::to_owned).chain([format!("--callgrind-out-file={FILE}")]).collect()
}

/// Returns the counts of the worker during `requests` requests, each of which `ask` sends. All
/// answers but the first must have this status.
pub fn count(
    config: Config,
    requests: u32,
    status: u16,
    ask: impl Fn(&mut Connection) -> Result<u16>,
) -> Result<Counts> {
    let gateway =
        Gateway::start(Config { under: valgrind(), log_level: "warning".into(), concurrency: 1, ..config })?;
    let mut connection = gateway.connect()?;
    // Exhausts the quota of lines that expect a refusal.
    ask(&mut connection)?;
    let mut repeat = |requests| repeat(&mut connection, requests, status, &ask);
    repeat(WARM_UP)?;
    control(&gateway, &["instrumentation", "on"])?;
    repeat(FILL)?;
    control(&gateway, &["zero"])?;
    repeat(requests)?;
    control(&gateway, &["dump"])?;
    worker(&gateway)
}

fn repeat(
    connection: &mut Connection,
    requests: u32,
    status: u16,
    ask: impl Fn(&mut Connection) -> Result<u16>,
) -> Result<()> {
    for _ in 0..requests {
        let answered = ask(connection)?;
        if answered != status {
            bail!("a response has status {answered} in place of {status}");
        }
    }
    Ok(())
}

/// Sends a command to Callgrind, and returns after Callgrind has executed the command.
fn control(gateway: &Gateway, command: &[&str]) -> Result<()> {
    let process = format!("--pid={}", gateway.process_id());
    let output = Command::new("vgdb").arg(process).args(command).output().context("cannot run `vgdb`")?;
    if !output.status.success() {
        bail!("`vgdb {}` failed: {}", command.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Reads the counts of all threads. The worker is the thread with the most instructions, because
/// only the worker serves requests.
fn worker(gateway: &Gateway) -> Result<Counts> {
    let log = gateway.log_file();
    let folder = log.parent().context("the log is in no folder")?;
    let mut threads = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with(&format!("{FILE}.")) {
            let text = fs::read_to_string(file.path())?;
            threads
                .push(Counts::parse(&text).with_context(|| format!("{:?} has no counts", file.file_name()))?);
        }
    }
    threads.into_iter().max_by_key(|counts| counts.instructions).context("Callgrind has written no file")
}

impl Counts {
    /// Reads the sums of a file of Callgrind. `events:` names the columns of `totals:`, which may
    /// leave out zeros at the end.
    fn parse(text: &str) -> Option<Self> {
        let row =
            |start: &str| Some(text.lines().find_map(|line| line.strip_prefix(start))?.split_whitespace());
        let numbers: Vec<u64> = row("totals:")?.map(str::parse).collect::<Result<_, _>>().ok()?;
        let names: Vec<&str> = row("events:")?.collect();
        let of = |name: &str| {
            let column = names.iter().position(|other| *other == name)?;
            Some(numbers.get(column).copied().unwrap_or(0))
        };
        Some(Self {
            instructions: of("Ir")?,
            code_misses: of("I1mr")?,
            data_misses: of("D1mr")? + of("D1mw")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_a_file_are_read() {
        let text = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\nsummary: 9 9 9\n\nfn=(1) f\n1 2 3\n\
                    totals: 900 80 70 60 50 4 3 2 1\n";
        let counts = Counts { instructions: 900, code_misses: 60, data_misses: 54 };
        assert_eq!(Counts::parse(text), Some(counts));
    }

    #[test]
    fn zeros_may_be_left_out_at_the_end_but_columns_may_not() {
        let text = "events: Ir Dr Dw I1mr D1mr D1mw\ntotals: 900 80 70 6\n";
        let counts = Counts { instructions: 900, code_misses: 6, data_misses: 0 };
        assert_eq!(Counts::parse(text), Some(counts));
        assert_eq!(Counts::parse("events: Ir\ntotals: 900\n"), None);
        assert_eq!(Counts::parse(&text.replace("totals", "sums")), None);
        assert_eq!(Counts::parse(&text.replace("900", "-1")), None);
    }
}
