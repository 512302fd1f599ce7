//! Runs all controllers in all scenarios, and writes the tables and the chart.

use crate::chart::{self, Panel};
use crate::measures::{Measures, measure};
use crate::rules::{Aimd, Diana, Envoy, Fixed, Gradient2, Rule, Signal, Target, Vegas};
use crate::run::{Point, run};
use crate::scenario::{Arrivals, Resource, Scenario};
use crate::traffic;
use std::fmt::Write;

/// The target of the latency in seconds, and of the share of errors.
const LATENCY: Signal = Signal::Latency(0.2);
const ERRORS: Signal = Signal::Errors(0.05);

/// The tables as Markdown and the chart as SVG.
pub struct Report {
    /// The tables.
    pub markdown: String,
    /// The chart.
    pub svg: String,
}

/// A controller of the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Fixed,
    AimdSlow,
    AimdFast,
    Gradient2,
    Vegas,
    Envoy,
    Target,
    Diana,
}

const NAMES: [Name; 8] = [
    Name::Fixed,
    Name::AimdSlow,
    Name::AimdFast,
    Name::Gradient2,
    Name::Vegas,
    Name::Envoy,
    Name::Target,
    Name::Diana,
];

impl Name {
    fn title(self) -> &'static str {
        match self {
            Name::Fixed => "no controller",
            Name::AimdSlow => "AIMD, + 1, × 0.9",
            Name::AimdFast => "AIMD, + max / 50, × 0.5",
            Name::Gradient2 => "Gradient2",
            Name::Vegas => "Vegas",
            Name::Envoy => "Envoy's gradient",
            Name::Target => "Envoy's gradient, with a target",
            Name::Diana => "`adapt`",
        }
    }

    /// Whether the controller's formula has errors in it.
    fn reads_errors(self) -> bool {
        matches!(self, Name::Fixed | Name::AimdSlow | Name::AimdFast | Name::Diana)
    }

    fn rule(self, scenario: &Scenario, signal: Signal) -> Box<dyn Rule> {
        let (min, max, start) = scenario.limits;
        let (range, limit) = ((min as f64, max as f64), start as f64);
        let aimd = |increase, decrease| Box::new(Aimd { limit, signal, increase, decrease, range });
        match self {
            Name::Fixed => Box::new(Fixed(limit)),
            Name::AimdSlow => aimd(1.0, 0.9),
            Name::AimdFast => aimd(range.1 / 50.0, 0.5),
            Name::Gradient2 => Box::new(Gradient2::new(limit, range)),
            Name::Vegas => Box::new(Vegas::new(limit, range)),
            Name::Envoy => Box::new(Envoy::new(limit, range)),
            Name::Target => Box::new(Target { limit, target: 0.2, range }),
            Name::Diana => Box::new(Diana::new(scenario, signal)),
        }
    }
}

/// The scenario of a table.
fn scenario(signal: Signal, resource: Resource, every: f64, seed: u64) -> Scenario {
    let scenario = Scenario::new(resource, every, seed);
    // Errors come from a short queue.
    if signal == ERRORS { Scenario { queue: 40, ..scenario } } else { scenario }
}

/// Runs everything, with the seeds from 1 to `seeds`.
pub fn report(seeds: u64) -> Report {
    let mut markdown = String::new();
    for (signal, what) in [(LATENCY, "Latency, p90 ≤ 200 ms"), (ERRORS, "Errors, at most 5 %")] {
        for (resource, limit) in [(Resource::Rate, "requests a second"), (Resource::Permits, "permits")] {
            for every in [10.0, 1.0] {
                let title = format!("{what}; {limit}; every {every} s");
                table(&mut markdown, &title, signal, seeds, |seed| scenario(signal, resource, every, seed));
            }
        }
    }
    let closed = Arrivals::Closed { clients: 300, think: 1.0 };
    table(
        &mut markdown,
        "Latency, p90 ≤ 200 ms; permits; every 10 s; 300 clients",
        LATENCY,
        seeds,
        |seed| Scenario { arrivals: closed, ..scenario(LATENCY, Resource::Permits, 10.0, seed) },
    );
    traffic_table(&mut markdown, seeds);
    Report { markdown, svg: drawing() }
}

fn table(out: &mut String, title: &str, signal: Signal, seeds: u64, scenario: impl Fn(u64) -> Scenario) {
    let meets = |point: &Point| match signal {
        Signal::Latency(target) => point.p90 <= 1.25 * target * 1e3,
        Signal::Errors(target) => point.errors as f64 <= target * (point.errors + point.answered) as f64,
    };
    let mut put = |line: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{line}");
    };
    put(&format!("## {title}\n"));
    put(
        "| controller | reacts | slow p90 | slow share | slow errors | recovers | steady p90 | steady share | oscillation |",
    );
    put("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for name in NAMES.into_iter().filter(|name| signal == LATENCY || name.reads_errors()) {
        let all: Vec<Measures> = (1..=seeds)
            .map(|seed| {
                let scenario = scenario(seed);
                measure(&scenario, &run(&scenario, &mut *name.rule(&scenario, signal)), meets)
            })
            .collect();
        let of = |number: fn(&Measures) -> f64| median(all.iter().map(number).collect());
        put(&format!(
            "| {} | {} | {:.0} ms | {:.0} % | {:.0} % | {} | {:.0} ms | {:.0} % | {:.0} % |",
            name.title(),
            seconds(of(|all| all.react.unwrap_or(f64::INFINITY))),
            of(|all| all.slow_p90),
            of(|all| 100.0 * all.slow_share),
            of(|all| 100.0 * all.slow_errors),
            seconds(of(|all| all.recover.unwrap_or(f64::INFINITY))),
            of(|all| all.steady_p90),
            of(|all| 100.0 * all.steady_share),
            of(|all| 100.0 * all.oscillation),
        ));
    }
    put("");
}

fn traffic_table(out: &mut String, seeds: u64) {
    out.push_str("## Traffic, 150 % of the last interval; requests a second; every 1 s\n\n");
    out.push_str("| rule | refused, steady | refused of a spike | refused after a lull | admits a rise |\n");
    out.push_str("| --- | ---: | ---: | ---: | ---: |\n");
    for index in 0..traffic::rules().len() {
        let mut title = "";
        let all: Vec<traffic::Measures> = (1..=seeds)
            .map(|seed| {
                let (name, mut rule) = traffic::rules().swap_remove(index);
                title = name;
                traffic::run(&mut rule, seed)
            })
            .collect();
        let of = |number: fn(&traffic::Measures) -> f64| median(all.iter().map(number).collect());
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "| {title} | {:.1} % | {:.0} % | {:.0} % | {} |",
            of(|all| 100.0 * all.steady),
            of(|all| 100.0 * all.spike),
            of(|all| 100.0 * all.lull),
            seconds(of(|all| all.rise)),
        );
    }
}

/// The lower median.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

fn seconds(seconds: f64) -> String {
    if seconds.is_finite() { format!("{seconds:.0} s") } else { "never".to_owned() }
}

/// Limits over time, of the first seed.
fn drawing() -> String {
    let names = [Name::Gradient2, Name::AimdSlow, Name::Envoy, Name::Diana];
    let panel = |resource, title: &str, top, mark, value: fn(&Point) -> f64| {
        let scenario = scenario(LATENCY, resource, 10.0, 1);
        let line = |name: &Name| {
            let trace = run(&scenario, &mut *name.rule(&scenario, LATENCY));
            trace.points.iter().map(|point| (point.start, value(point))).collect()
        };
        Panel { title: title.to_owned(), top, mark, lines: names.iter().map(line).collect() }
    };
    let panels = [
        panel(Resource::Rate, "Limit: requests a second", 400.0, 200.0, |point| point.limit),
        panel(Resource::Rate, "p90 in ms, with a limit of requests a second", 1_000.0, 200.0, |point| {
            point.p90
        }),
        panel(Resource::Permits, "Limit: permits", 120.0, 32.0, |point| point.limit),
        panel(Resource::Permits, "p90 in ms, with a limit of permits", 1_000.0, 200.0, |point| point.p90),
    ];
    let titles: Vec<String> = names.map(|name| name.title().replace('`', "")).to_vec();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let scenario = scenario(LATENCY, Resource::Rate, 10.0, 1);
    chart::svg(&titles, &panels, scenario.slow, scenario.end)
}
