//! Measures the CPU time of each line, in several starts of all Envoys.
//!
//! What a line costs differs by up to a third from one Envoy process to the next, because of the
//! code's place in memory. So all Envoys start anew several times, and the report shows medians
//! over the starts. Differences and ratios are computed within a start.
//!
//! In a start, all Envoys live through a warm-up round and all measured rounds, because an idle
//! Envoy costs almost nothing. A round measures every line in short slices. The lines take turns,
//! and their order changes from turn to turn.

use crate::cpu;
use crate::filter::Filters;
use crate::line::{Line, PATH};
use crate::load::Connections;
use crate::statistics::Summary;
use crate::traffic::Target;
use anyhow::{Context, Result};
use gateway::{Config, Gateway};
use std::time::Duration;

/// The length of a slice. The slice is short, so that some slices are undisturbed, but long
/// compared with the warm-up of the CPU caches.
const SLICE: Duration = Duration::from_millis(20);

/// The parameters of a measurement.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The number of starts.
    pub starts: u32,
    /// The number of rounds in each start, without the warm-up.
    pub rounds: u32,
    /// The time for each line in each round.
    pub each: Duration,
}

/// One line of the measurement: a gateway and its load.
pub struct Subject {
    /// The title in messages.
    pub title: String,
    /// The gateway.
    pub config: Config,
    /// The expected status of every answer.
    pub status: u16,
    /// The loads, which are measured separately. A load is the list of its paths.
    pub loads: &'static [&'static [&'static str]],
}

impl Subject {
    /// The subject of a line of the table.
    pub fn of(line: &Line, filters: &Filters) -> Self {
        let config = filters.gateway(&line.filter);
        Self { title: line.title.clone(), config, status: line.status, loads: &[&[PATH]] }
    }
}

/// The results of one load in one start.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The slice with the lowest CPU time per request.
    pub least: Sample,
    /// All slices.
    pub mean: Sample,
}

/// The means over some slices.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// CPU time of the whole Envoy process per request, in microseconds.
    pub cpu_us: f64,
    /// Requests per second.
    pub rate: f64,
}

/// A line and its results in the least disturbed slice of each start.
pub struct Measured {
    /// The line.
    pub line: Line,
    /// One sample per start.
    pub samples: Vec<Sample>,
}

impl Measured {
    /// CPU time per request, in microseconds.
    pub fn cpu(&self) -> Summary {
        Summary::quartiles(self.samples.iter().map(|sample| sample.cpu_us))
    }

    /// Requests per second.
    pub fn rate(&self) -> Summary {
        Summary::quartiles(self.samples.iter().map(|sample| sample.rate))
    }

    /// The line's cost over `base`, by starts.
    pub fn added<'a>(&'a self, base: &'a Measured) -> impl Iterator<Item = f64> + 'a {
        self.samples.iter().zip(&base.samples).map(|(sample, base)| sample.cpu_us - base.cpu_us)
    }

    /// The line's cost over `base`, as a multiple of `other`'s cost over `base`, by starts.
    pub fn ratio<'a>(&'a self, base: &'a Measured, other: &'a Measured) -> impl Iterator<Item = f64> + 'a {
        self.added(base).zip(other.added(base)).map(|(added, other)| added / other)
    }
}

/// Measures all lines.
pub fn measure(lines: Vec<Line>, filters: &Filters, plan: &Plan) -> Result<Vec<Measured>> {
    let subjects: Vec<Subject> = lines.iter().map(|line| Subject::of(line, filters)).collect();
    let measured = starts("lines", &subjects, plan)?;
    let least = |starts: Vec<Start>| starts.iter().map(|start| start.least).collect();
    Ok(lines
        .into_iter()
        .zip(measured)
        .map(|(line, starts)| Measured { line, samples: least(starts) })
        .collect())
}

/// Starts all gateways anew `plan.starts` times. Returns the results of each load of each subject,
/// by starts.
pub fn starts(title: &str, subjects: &[Subject], plan: &Plan) -> Result<Vec<Vec<Start>>> {
    let mut results = Vec::new();
    for start in 0..plan.starts {
        let heading = format!("{title}, start {} of {}", start + 1, plan.starts);
        eprint!("\r{heading}: {} Envoys ", subjects.len());
        let (mut gateways, mut meters) = (Vec::new(), Vec::new());
        for subject in subjects {
            let gateway = Gateway::start(subject.config.clone()).context(subject.title.clone())?;
            // Exhausts the quota of lines that expect a refusal.
            gateway.get(subject.loads[0][0], &[])?;
            for paths in subject.loads {
                meters.push(Meter::new(subject, &gateway, paths)?);
            }
            gateways.push(gateway);
        }
        rounds(&heading, start, &mut meters, plan)?;
        results.resize(meters.len(), Vec::new());
        for (meter, results) in meters.iter().zip(&mut results) {
            results.push(Start::of(&meter.slices));
        }
    }
    eprintln!();
    Ok(results)
}

/// Runs a warm-up round and all measured rounds. The meters keep the slices of the measured rounds.
fn rounds(heading: &str, start: u32, meters: &mut [Meter], plan: &Plan) -> Result<()> {
    let slice = plan.each.min(SLICE);
    let slices = (plan.each.as_secs_f64() / slice.as_secs_f64()).round().max(1.0) as u32;
    for round in 0..=plan.rounds {
        eprint!("\r{heading}, round {round} of {}  ", plan.rounds);
        for turn in 0..slices {
            let turn = (start * (plan.rounds + 1) + round) * slices + turn;
            for index in order(meters.len(), turn) {
                let meter = &mut meters[index];
                meter.measure(slice).with_context(|| meter.title.clone())?;
            }
        }
        if round == 0 {
            meters.iter_mut().for_each(|meter| meter.slices.clear());
        }
    }
    Ok(())
}

/// One load of a gateway, and the results of its slices.
struct Meter {
    title: String,
    process: u32,
    load: Connections,
    status: u16,
    slices: Vec<Slice>,
}

#[derive(Clone, Copy, Default)]
struct Slice {
    requests: f64,
    used_ns: f64,
    seconds: f64,
}

impl Meter {
    fn new(subject: &Subject, gateway: &Gateway, paths: &[&str]) -> Result<Self> {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let target = Target { address: gateway.address(), paths };
        let load = Connections::open(&target).context(subject.title.clone())?;
        Ok(Self {
            title: subject.title.clone(),
            process: gateway.process_id(),
            load,
            status: subject.status,
            slices: Vec::new(),
        })
    }

    fn measure(&mut self, slice: Duration) -> Result<()> {
        let before = cpu::used_when_idle_ns(self.process)?;
        let answers = self.load.run(slice)?;
        let used_ns = cpu::used_when_idle_ns(self.process)?.saturating_sub(before) as f64;
        let requests = answers.all(self.status)? as f64;
        self.slices.push(Slice { requests, used_ns, seconds: answers.seconds });
        Ok(())
    }
}

impl Sample {
    fn of(slices: &[Slice]) -> Self {
        let sum = |of: fn(&Slice) -> f64| slices.iter().map(of).sum::<f64>();
        let requests = sum(|slice| slice.requests);
        Self {
            cpu_us: sum(|slice| slice.used_ns) / 1e3 / requests,
            rate: requests / sum(|slice| slice.seconds),
        }
    }
}

impl Start {
    /// Other load on the machine only ever increases a request's CPU time; on a shared machine, the
    /// CPU time can double. So the slice with the lowest CPU time per request counts.
    ///
    /// On a busy machine, the least of 75 slices of 20 ms has a standard deviation of 2.7 %. The
    /// mean of their lowest tenth has 2.8 %. With slices of 40 ms, the two are 4.3 % and 3.6 %.
    fn of(slices: &[Slice]) -> Self {
        let mean = Sample::of(slices);
        let each = slices.iter().map(|slice| Sample::of(std::slice::from_ref(slice)));
        let least = each.min_by(|a, b| a.cpu_us.total_cmp(&b.cpu_us));
        Self { least: least.unwrap_or(mean), mean }
    }
}

/// Returns the numbers below `count` in an order that depends only on the turn (Fisher–Yates
/// shuffle with SplitMix64).
pub fn order(count: usize, turn: u32) -> Vec<usize> {
    let mut state = u64::from(turn);
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, (random() % (last as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_disturbed_slice_counts() {
        let slice = |requests, used_ns| Slice { requests, used_ns, seconds: 0.5 };
        let few = Start::of(&[slice(100.0, 4e6), slice(300.0, 6e6), slice(100.0, 10e6)]);
        assert_eq!((few.least.cpu_us, few.least.rate), (20.0, 600.0));
        assert_eq!((few.mean.cpu_us, few.mean.rate), (40.0, 1000.0 / 3.0));
    }

    #[test]
    fn each_turn_has_every_line_once() {
        for turn in 0..20 {
            let mut order = order(14, turn);
            assert_ne!(order, super::order(14, turn + 1));
            order.sort_unstable();
            assert_eq!(order, (0..14).collect::<Vec<_>>());
        }
    }
}
