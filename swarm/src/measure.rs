//! What the swarm measures for docs/accuracy.md: calls, quota that passes, and over-admission, by
//! the number of gateways and the lease.

use crate::ledger::Violation;
use crate::scenario::{Algo, Fault, SECOND, Scenario};
use crate::world::run;
use chart::{Panel, groups};
use std::fmt::Write;

/// The numbers of gateways, and the leases in percent.
pub const GATEWAYS: [usize; 4] = [1, 10, 100, 1_000];
/// The leases in percent of the quota.
pub const LEASES: [u64; 4] = [0, 1, 5, 20];

/// The quota in a second.
const RPU: u64 = 10_000;
/// How long a run without faults takes.
const SECONDS: u64 = 6;

/// The measurements of one number of gateways and one lease.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The gateways, of two workers each.
    pub gateways: usize,
    /// The lease in percent of the quota.
    pub lease: u64,
    /// Calls of Redis a second.
    pub calls: f64,
    /// How many percent of the quota pass.
    pub passed: f64,
    /// By how many percent of the quota more than the quota passes in a window.
    pub over: f64,
    /// The same if Redis is down for two seconds.
    pub over_outage: f64,
}

impl Row {
    /// Measures both runs, one without faults and one with an outage.
    pub fn measure(seed: u64, gateways: usize, lease: u64) -> Result<Row, Violation> {
        let calm = Scenario {
            rpu: RPU,
            load: 120,
            end: SECONDS * SECOND - 1,
            ..Scenario::calm(seed, gateways, Algo::Window, lease)
        };
        // From within a window to within another one.
        let (from, to) = (5 * SECOND / 2, 9 * SECOND / 2);
        let outage = Scenario {
            faults: vec![(from, to, Fault::Dead)],
            calm: to,
            load: 300,
            end: 7 * SECOND - 1,
            ..calm.clone()
        };
        let (calm, outage) = (run(&calm)?, run(&outage)?);
        let percent = |units: u64| 100.0 * units as f64 / RPU as f64;
        Ok(Row {
            gateways,
            lease,
            calls: calm.calls as f64 / SECONDS as f64,
            passed: percent(calm.counted) / SECONDS as f64,
            over: percent(calm.over),
            over_outage: percent(outage.over),
        })
    }
}

/// The rows as a table of Markdown: a line for each number of gateways, with a value for each lease.
pub fn table(rows: &[Row]) -> String {
    let leases = LEASES.map(|lease| lease.to_string()).join("/");
    let mut out = format!(
        "| gateways | calls a second, by a lease of {leases} % | % of the quota that passes | % too many | % too many in an outage |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for rows in rows.chunk_by(|row, next| row.gateways == next.gateways) {
        let gateways = rows.iter().map(|row| row.gateways).next().unwrap_or_default();
        let values = |digits: usize, value: &dyn Fn(&Row) -> f64| {
            rows.iter().map(|row| format!("{:.digits$}", value(row))).collect::<Vec<String>>().join("/")
        };
        let (calls, passed) = (values(0, &|row| row.calls), values(1, &|row| row.passed));
        let (over, outage) = (values(1, &|row| row.over), values(1, &|row| row.over_outage));
        writeln!(out, "| {gateways} | {calls} | {passed} | {over} | {outage} |").expect("a string takes all");
    }
    out
}

/// The rows as bars: a group for each number of gateways, a bar for each lease.
pub fn svg(rows: &[Row]) -> String {
    let panel = |title: &str, top, grid, label, value: &dyn Fn(&Row) -> f64| Panel {
        title: title.into(),
        top,
        grid,
        label,
        mark: None,
        series: LEASES
            .iter()
            .map(|lease| {
                let row = |gateways| rows.iter().find(|row| (row.gateways, row.lease) == (gateways, *lease));
                let bar =
                    |(place, gateways): (usize, &usize)| (place as f64, row(*gateways).map_or(0.0, value));
                GATEWAYS.iter().enumerate().map(bar).collect()
            })
            .collect(),
    };
    let panels = [
        // Each grid line of the first panel is ten times the one below.
        panel("calls of Redis a second, by powers of ten", 5.0, 5, |value| 10_f64.powf(value), &|row| {
            row.calls.max(1.0).log10()
        }),
        panel("passes, in % of the quota", 120.0, 4, |value| value, &|row| row.passed),
        panel(
            "too many in the worst second of an outage, in % of the quota",
            120.0,
            4,
            |value| value,
            &|row| row.over_outage,
        ),
    ];
    let names = LEASES.map(|lease| format!("lease {lease} %"));
    let places = GATEWAYS.map(|count| format!("{count} {}", if count == 1 { "gateway" } else { "gateways" }));
    groups(&names.each_ref().map(String::as_str), &panels, &places)
}
