//! Measures the CPU time of each line, in rounds.
//!
//! All Envoys start first and live through all rounds, because an idle Envoy costs almost nothing.
//! A restarted Envoy compiles its filter, and V8 optimises the filter at run time. Rounds with
//! restarts would have to be much longer.
//!
//! A round measures every line in short slices. The lines take turns, and their order changes from
//! turn to turn. Other load on the machine only ever increases a request's CPU time; on a shared
//! machine, the CPU time can double. For each line, the slice with the lowest CPU time per request
//! therefore counts. Differences and ratios are computed within a round.

use crate::cpu;
use crate::filter::Filters;
use crate::generator::{Generator, Load};
use crate::line::{Line, PATH};
use crate::statistics::Summary;
use crate::traffic::Target;
use anyhow::{Context, Result};
use gateway::Gateway;
use std::time::Duration;

/// The length of a slice. The slice is short, so that some slices are undisturbed, but long
/// compared with the warm-up of the CPU caches.
const SLICE: Duration = Duration::from_millis(50);

/// The parameters of a measurement.
pub struct Plan<'a> {
    /// The number of rounds.
    pub rounds: u32,
    /// The time for each line in each round.
    pub each: Duration,
    /// The load generator.
    pub generator: &'a Generator,
}

/// One line's results in a round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The slice with the lowest CPU time per request.
    pub least: Sample,
    /// The mean over all slices.
    pub mean: Sample,
}

/// One line's results in one or more slices.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// CPU time of the whole Envoy process per request, in microseconds.
    pub cpu_us: f64,
    /// Requests per second.
    pub rate: f64,
}

/// A line and its results in the least disturbed slice of each round.
pub struct Measured {
    /// The line.
    pub line: Line,
    /// One sample per round.
    pub samples: Vec<Sample>,
}

impl Measured {
    /// CPU time per request, in microseconds.
    pub fn cpu(&self) -> Summary {
        Summary::of(self.samples.iter().map(|sample| sample.cpu_us))
    }

    /// Requests per second.
    pub fn rate(&self) -> Summary {
        Summary::of(self.samples.iter().map(|sample| sample.rate))
    }

    /// The line's cost over `base`, by rounds.
    pub fn added<'a>(&'a self, base: &'a Measured) -> impl Iterator<Item = f64> + 'a {
        self.samples.iter().zip(&base.samples).map(|(sample, base)| sample.cpu_us - base.cpu_us)
    }

    /// The line's cost over `base`, as a multiple of `other`'s cost over `base`, by rounds.
    pub fn ratio<'a>(&'a self, base: &'a Measured, other: &'a Measured) -> impl Iterator<Item = f64> + 'a {
        self.added(base).zip(other.added(base)).map(|(added, other)| added / other)
    }
}

/// Measures all lines.
pub fn measure(lines: Vec<Line>, filters: &Filters, plan: &Plan) -> Result<Vec<Measured>> {
    eprintln!("starting {} Envoys …", lines.len());
    let gateways =
        lines.iter().map(|line| Gateway::start(filters.gateway(&line.filter)).context(line.name.clone()));
    let gateways: Vec<Gateway> = gateways.collect::<Result<_>>()?;
    let mut meters = Vec::new();
    for (line, gateway) in lines.iter().zip(&gateways) {
        // Exhausts the quota of lines that expect a refusal.
        gateway.get(PATH, &[])?;
        meters.push(Meter::new(&line.title, gateway, &[PATH], line.status, plan)?);
    }
    let measured = rounds("round", &mut meters, plan)?;
    let least = |rounds: Vec<Round>| rounds.iter().map(|round| round.least).collect();
    Ok(lines
        .into_iter()
        .zip(measured)
        .map(|(line, rounds)| Measured { line, samples: least(rounds) })
        .collect())
}

/// Runs a warm-up round and all measured rounds. Returns the measured rounds of each meter.
pub fn rounds(title: &str, meters: &mut [Meter], plan: &Plan) -> Result<Vec<Vec<Round>>> {
    let mut rounds = vec![Vec::new(); meters.len()];
    let slice = plan.each.min(SLICE).max(plan.generator.least());
    let slices = (plan.each.as_secs_f64() / slice.as_secs_f64()).round().max(1.0) as u32;
    for round in 0..=plan.rounds {
        eprint!("\r{title} {round} of {} ", plan.rounds);
        for turn in 0..slices {
            for index in order(meters.len(), round * slices + turn) {
                let meter = &mut meters[index];
                meter.measure(slice).with_context(|| meter.title.clone())?;
            }
        }
        for (meter, rounds) in meters.iter_mut().zip(&mut rounds) {
            let measured = Round::of(&std::mem::take(&mut meter.slices));
            if round > 0 {
                rounds.push(measured);
            }
        }
    }
    eprintln!();
    Ok(rounds)
}

/// One gateway, and its results in the slices of a round.
pub struct Meter {
    title: String,
    process: u32,
    load: Load,
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
    /// Requests these paths. All answers must have this status.
    pub fn new(title: &str, gateway: &Gateway, paths: &[&str], status: u16, plan: &Plan) -> Result<Self> {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let load =
            plan.generator.aim(Target { address: gateway.address(), paths }).context(title.to_owned())?;
        Ok(Self { title: title.to_owned(), process: gateway.process_id(), load, status, slices: Vec::new() })
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

impl Slice {
    fn sample(self) -> Sample {
        Sample { cpu_us: self.used_ns / 1e3 / self.requests, rate: self.requests / self.seconds }
    }
}

impl Round {
    fn of(slices: &[Slice]) -> Self {
        let mut sum = Slice::default();
        let mut least = None::<Sample>;
        for slice in slices {
            sum.requests += slice.requests;
            sum.used_ns += slice.used_ns;
            sum.seconds += slice.seconds;
            let sample = slice.sample();
            least = Some(least.filter(|least| least.cpu_us <= sample.cpu_us).unwrap_or(sample));
        }
        let mean = sum.sample();
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
        let round = Round::of(&[slice(100.0, 4e6), slice(300.0, 6e6), slice(100.0, 10e6)]);
        assert_eq!((round.least.cpu_us, round.least.rate), (20.0, 600.0));
        assert_eq!((round.mean.cpu_us, round.mean.rate), (40.0, 1000.0 / 3.0));
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
