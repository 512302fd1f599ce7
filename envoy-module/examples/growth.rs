//! Takes a document that grows with a number: `cargo xtask growth` runs it under Callgrind, once
//! with a number and once with twice as much, to find work that grows faster than the document.
//!
//! ```console
//! $ cargo run -p diana-envoy-module --example growth -- limits 1000
//! ```

use diana_envoy_module::metrics::Metrics;
use diana_filter::metrics::{METRICS, Metric, Series};
use std::error::Error;

/// Writes the document with so many.
type Write = fn(usize) -> String;

/// What may be numerous in a document.
const KINDS: &[(&str, Write)] = &[
    ("limits", |count| {
        document(&list(count, |number| {
            format!(
                r#"{{"url": "/items/{number}", "rules": [{{"name": "rule-{number}", "rpu": 9, "unit": "hour"}}]}}"#
            )
        }))
    }),
    ("limits-of-one-url", |count| {
        document(&list(count, |number| {
            format!(
                r#"{{"url": "/", "headers": {{"x-tenant": "t{number}"}}, "rules": [{{"name": "rule-{number}", "rpu": 9, "unit": "hour"}}]}}"#
            )
        }))
    }),
    ("rules-without-a-name", |count| {
        document(&list(count, |number| {
            format!(
                r#"{{"url": "/items/{number}/*", "rules": [{{"actor": "ip", "rpu": {}, "unit": "hour"}}]}}"#,
                number + 1
            )
        }))
    }),
    ("overrides", |count| {
        let all = list(count, |number| format!(r#""user {number}": {{"rpu": {}}}"#, number + 1));
        document(&format!(
            r#"{{"url": "/", "rules": [{{"name": "a", "actor": "user", "rpu": 9, "unit": "hour", "overrides": {{{all}}}}}]}}"#
        ))
    }),
    ("addresses", |count| {
        let all = list(count, |number| format!(r#""10.{}.{}.1""#, number >> 8 & 255, number & 255));
        format!(r#"{{"allow": [{all}], "limits": []}}"#)
    }),
    ("actors", |count| {
        let all = list(count, |number| format!(r#""actor-{number}": {{"header": "x-{number}"}}"#));
        let limits = list(count, |number| {
            format!(
                r#"{{"url": "/{number}", "rules": [{{"actor": "actor-{number}", "rpu": 9, "unit": "hour"}}]}}"#
            )
        });
        format!(r#"{{"actors": {{{all}}}, "limits": [{limits}]}}"#)
    }),
    ("unknown-actors", |count| {
        let all = list(count, |number| format!(r#""actor-{number}": "host""#));
        let limits = list(count, |number| {
            format!(r#"{{"url": "/", "rules": [{{"actor": "tenant-{number}", "rpu": 9, "unit": "hour"}}]}}"#)
        });
        format!(r#"{{"actors": {{{all}}}, "limits": [{limits}]}}"#)
    }),
    ("conditions", |count| {
        let all = list(count, |number| format!(r#""x-{number}": "a""#));
        document(&format!(r#"{{"url": "/", "headers": {{{all}}}, "exclusive": true}}"#))
    }),
    ("measures", |count| {
        document(&list(count, |number| {
            format!(
                r#"{{"url": "/{number}", "rules": [{{"name": "rule-{number}", "rpu": 9, "unit": "hour", "cost": {{"response_json": "/{number}"}}}}]}}"#
            )
        }))
    }),
    ("unknown-keys", |count| format!("{{{}}}", list(count, |number| format!(r#""key {number}": 1"#)))),
    ("repeated-keys", |count| {
        format!(r#"{{"limits": [], {}}}"#, list(count, |_| r#""mode": "shadow""#.into()))
    }),
    ("mistakes", |count| document(&list(count, |_| r#"{"ulr": "/", "rules": [{"rpm": 5}]}"#.into()))),
];

fn list(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(", ")
}

fn document(limits: &str) -> String {
    format!(r#"{{"limits": [{limits}]}}"#)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(kind) = arguments.next() else {
        KINDS.iter().for_each(|(kind, _)| println!("{kind}"));
        return Ok(());
    };
    let count = arguments.next().ok_or("how many?")?.parse()?;
    let (_, document) = KINDS.iter().find(|(name, _)| *name == kind).ok_or("no such kind")?;
    let is_of_rules = |metric: &&Metric| metric.name.starts_with("diana.rule.NAME.result");
    let metric = METRICS.iter().find(is_of_rules).ok_or("no metric of rules")?;
    let (document, metrics) = (document(count), Metrics::default());
    println!("{} bytes, {}", document.len(), measured(document.as_bytes(), metric, &metrics));
    Ok(())
}

/// What a worker does with a document, by the name of this function: compile it, and define the
/// series of its rules. Callgrind would take a closure in it for its end.
#[inline(never)]
fn measured(document: &[u8], metric: &'static Metric, metrics: &Metrics) -> String {
    let configuration = match diana_config::compile(document) {
        Ok(configuration) => configuration,
        Err(errors) => return format!("{} mistakes", errors.len()),
    };
    for (_, rule) in configuration.policy.rules() {
        for value in metric.values {
            _ = metrics.define(&Series { metric, of: rule.name(), value });
        }
    }
    format!("{} rules", configuration.policy.rules().count())
}
