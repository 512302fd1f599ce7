//! Lines → rounds → what each line costs.
//!
//! All Envoys are started first and live through all rounds. An idle one costs next to nothing,
//! while one that is started anew compiles its filter, and V8 optimises it while it runs: a round
//! would have to be much longer.
//!
//! A round measures every line in short slices, all lines in turn, in an order that changes from
//! turn to turn. What else a machine does only ever adds to what a request takes, on a shared one
//! as much again: of each line the slice of the round counts in which a request took least.
//! Differences and ratios are taken within a round.

use crate::cpu;
use crate::generator::{Generator, Load, Target};
use crate::line::{Filters, Line, PATH};
use crate::statistics::Summary;
use anyhow::{Context, Result};
use gateway::Gateway;
use std::time::Duration;

/// Short, so that some go undisturbed; and long beside what it takes to warm the processor's
/// caches.
const SLICE: Duration = Duration::from_millis(50);

/// How to measure.
pub struct Plan<'a> {
    /// How often.
    pub rounds: u32,
    /// How long each line, in each.
    pub each: Duration,
    /// With what.
    pub generator: &'a Generator,
}

/// What one line did in a round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// In the slice in which a request took least.
    pub least: Sample,
    /// In all slices.
    pub mean: Sample,
}

/// What one line did.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Microseconds on a processor of the whole Envoy process, a request.
    pub cpu_us: f64,
    /// Requests a second.
    pub rate: f64,
}

/// A line and what it did when it was disturbed least, by rounds.
pub struct Measured {
    /// Which.
    pub line: Line,
    /// By rounds.
    pub samples: Vec<Sample>,
}

impl Measured {
    /// Microseconds on a processor, a request.
    pub fn cpu(&self) -> Summary {
        Summary::of(self.samples.iter().map(|sample| sample.cpu_us))
    }

    /// Requests a second.
    pub fn rate(&self) -> Summary {
        Summary::of(self.samples.iter().map(|sample| sample.rate))
    }

    /// What it costs beyond `base`, by rounds.
    pub fn added<'a>(&'a self, base: &'a Measured) -> impl Iterator<Item = f64> + 'a {
        self.samples.iter().zip(&base.samples).map(|(sample, base)| sample.cpu_us - base.cpu_us)
    }

    /// What it costs beyond `base`, as a multiple of what `other` does, by rounds.
    pub fn ratio<'a>(&'a self, base: &'a Measured, other: &'a Measured) -> impl Iterator<Item = f64> + 'a {
        self.added(base).zip(other.added(base)).map(|(added, other)| added / other)
    }
}

/// Measures all lines.
pub fn measure(lines: Vec<Line>, filters: &Filters, plan: &Plan) -> Result<Vec<Measured>> {
    eprintln!("starting {} Envoys …", lines.len());
    let gateways = lines.iter().map(|line| Gateway::start(filters.gateway(&line.filter)).context(line.name));
    let gateways: Vec<Gateway> = gateways.collect::<Result<_>>()?;
    let mut meters = Vec::new();
    for (line, gateway) in lines.iter().zip(&gateways) {
        // Uses up what a refused flood finds used up.
        gateway.get(PATH, &[])?;
        meters.push(Meter::new(line.title, gateway, &[PATH], line.status, plan)?);
    }
    let measured = rounds("round", &mut meters, plan)?;
    let least = |rounds: Vec<Round>| rounds.iter().map(|round| round.least).collect();
    Ok(lines
        .into_iter()
        .zip(measured)
        .map(|(line, rounds)| Measured { line, samples: least(rounds) })
        .collect())
}

/// Runs all rounds, and one before them that warms everything up and is not counted; returns those
/// of each meter.
pub fn rounds(title: &str, meters: &mut [Meter], plan: &Plan) -> Result<Vec<Vec<Round>>> {
    let mut rounds = vec![Vec::new(); meters.len()];
    let slice = plan.each.min(SLICE).max(plan.generator.least());
    let slices = (plan.each.as_secs_f64() / slice.as_secs_f64()).round().max(1.0) as u32;
    for round in 0..=plan.rounds {
        eprint!("\r{title} {round} of {} ", plan.rounds);
        for turn in 0..slices {
            for index in order(meters.len(), round * slices + turn) {
                let meter = &mut meters[index];
                meter.measure(slice).context(meter.title)?;
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

/// One gateway, and what it did in the slices of a round.
pub struct Meter {
    title: &'static str,
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
    /// Asks for these paths. All answers have to be of this status.
    pub fn new(
        title: &'static str,
        gateway: &Gateway,
        paths: &[&str],
        status: u16,
        plan: &Plan,
    ) -> Result<Self> {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let load = plan.generator.aim(Target { address: gateway.address(), paths }).context(title)?;
        Ok(Self { title, process: gateway.process_id(), load, status, slices: Vec::new() })
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

/// The numbers below `count` in an order that depends on the turn only (Fisher and Yates, with
/// SplitMix64).
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
