//! Prints how long `diana check` takes for 10,000 limits: `cargo run --release -p diana-cli
//! --example check_speed`.

use diana_cli::check::{
    render,
    report::{Fleet, Report},
};
use diana_cli::source::content::File;
use std::time::Instant;

/// The number of limits.
const LIMITS: usize = 10_000;

fn main() {
    let limit = |it: usize, missing: &str| {
        format!(
            "  - {{url: /tenants/{it}, headers: {{x-plan: gold}}, rules: [{{name: r{it}, actor: apikey, missing: {missing}, \
             rpu: 10, unit: day}}]}}\n"
        )
    };
    let document = |missing: &str, rest: &str| {
        let limits: String = (0..LIMITS).map(|it| limit(it, missing)).collect();
        format!("limits:\n{limits}actors: {{apikey: {{query: key}}}}\nlocal: {{max_actors: 100}}\n{rest}")
    };
    let total = "  - {url: /, rules: [{rpu: 1000, unit: second}]}\n";
    let limit = |it: usize| {
        format!("  - {{url: /t, headers: {{x-tenant: t{it}}}, rules: [{{actor: ip, rpu: 10, unit: day}}]}}\n")
    };
    let nameless = format!("limits:\n{}", (0..LIMITS).map(limit).collect::<String>());
    for (name, text) in [
        ("no finding", document("ip", "")),
        ("a warning about each", document("skip", "")),
        ("covered by `/`", document("skip", "").replacen("limits:\n", &format!("limits:\n{total}"), 1)),
        ("a mistake in each", document("skipp", "")),
        ("default names of one stem", nameless),
    ] {
        let begin = Instant::now();
        let report = Report::of(File::new("limits.yaml", text), Fleet::default());
        let checked = begin.elapsed();
        let text = render::text(std::slice::from_ref(&report), false);
        let (findings, shown) = (report.findings.len(), begin.elapsed());
        println!(
            "{name}: {LIMITS} limits, {findings} findings in {checked:?}; with {} KiB of text {shown:?}",
            text.len() >> 10
        );
    }
}
