//! What the swarm measures for docs/accuracy.md: calls, quota that passes, and over-admission, by
//! the number of gateways and the lease.

use crate::ledger::Violation;
use crate::scenario::{Algo, Fault, SECOND, Scenario};
use crate::world::run;
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

const WIDTH: f64 = 760.0;
const LEFT: f64 = 56.0;
const HEAD: f64 = 48.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 52.0;

const STYLE: &str = "
text { font: 12px system-ui, sans-serif; fill: #24292f }
.head { font-weight: 600 }
.axis { fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
.b0 { fill: #9aa4af } .b1 { fill: #bf8700 } .b2 { fill: #cf222e } .b3 { fill: #2f6fde }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .axis { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .b0 { fill: #6e7681 } .b1 { fill: #d29922 } .b2 { fill: #ff7b72 } .b3 { fill: #5b9bff }
}
";

/// A title, the highest value, the number of grid lines, and the value of a row.
type Panel<'a> = (&'a str, f64, f64, &'a dyn Fn(&Row) -> f64);

/// The rows as bars: a group for each number of gateways, a bar for each lease.
pub fn svg(rows: &[Row]) -> String {
    let panels: [Panel; 3] = [
        // Each grid line of the first panel is ten times the one below.
        ("calls of Redis a second, by powers of ten", 5.0, 5.0, &|row| row.calls.max(1.0).log10()),
        ("passes, in % of the quota", 120.0, 4.0, &|row| row.passed),
        ("too many in the worst second of an outage, in % of the quota", 120.0, 4.0, &|row| row.over_outage),
    ];
    let height = HEAD + panels.len() as f64 * (PANEL + GAP);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"Calls and admissions by gateways and lease\">\n\
         <style>{STYLE}</style>\n"
    );
    let mut put = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    for (index, lease) in LEASES.iter().enumerate() {
        let left = LEFT + 110.0 * index as f64;
        put(format!("<rect class=\"b{index}\" x=\"{left}\" y=\"8\" width=\"12\" height=\"12\"/>"));
        put(format!("<text x=\"{}\" y=\"18\">lease {lease} %</text>", left + 18.0));
    }
    for (index, (title, top, lines, value)) in panels.into_iter().enumerate() {
        let y = HEAD + index as f64 * (PANEL + GAP);
        let bottom = y + PANEL;
        put(format!("<text class=\"head\" x=\"{LEFT}\" y=\"{}\">{title}</text>", y - 8.0));
        for line in 0..=lines as u32 {
            let (at, value) = (f64::from(line) / lines, top * f64::from(line) / lines);
            let label = if lines > 4.5 { 10_f64.powf(value) } else { value };
            let at = bottom - PANEL * at;
            put(format!("<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/>", WIDTH - 12.0));
            let (right, base) = (LEFT - 6.0, at + 4.0);
            put(format!(
                "<text class=\"axis\" x=\"{right}\" y=\"{base:.1}\" text-anchor=\"end\">{label}</text>"
            ));
        }
        let group = (WIDTH - LEFT - 12.0) / GATEWAYS.len() as f64;
        for (place, gateways) in GATEWAYS.iter().enumerate() {
            let left = LEFT + group * place as f64;
            for (bar, lease) in LEASES.iter().enumerate() {
                let row = rows.iter().find(|row| row.gateways == *gateways && row.lease == *lease);
                let tall = PANEL * row.map_or(0.0, value).min(top) / top;
                let (x, y) = (left + 24.0 + 32.0 * bar as f64, bottom - tall);
                put(format!(
                    "<rect class=\"b{bar}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"26\" height=\"{tall:.1}\"/>"
                ));
            }
            let noun = if *gateways == 1 { "gateway" } else { "gateways" };
            let (middle, base) = (left + group / 2.0, bottom + 16.0);
            put(format!(
                "<text class=\"axis\" x=\"{middle:.1}\" y=\"{base}\" text-anchor=\"middle\">{gateways} {noun}</text>"
            ));
        }
    }
    put("</svg>".into());
    out
}
