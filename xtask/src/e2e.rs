//! `cargo xtask e2e [--native] [FILTER]`: the tests in a real Envoy, which run the proxy-wasm
//! filter or the native module. Both run the same list of tests.

use crate::programs;
use crate::step::{Line, Step, cargo};
use anyhow::Result;
use gateway::Shell;

/// The tests of things that the native module does not have: the names of the tests begin so.
const WASM_ONLY: [(&str, &str); 12] = [
    ("capabilities::", "Envoy's restriction of callbacks and host calls"),
    ("configuration::the_proxy_wasm_filter", "the filter's refusal of secrets by SDS"),
    ("examples::", "the examples, which load `diana.wasm`"),
    ("manifests::envoy_gateway_counts", "an internal listener, which the native module cannot call"),
    ("manifests::istio_", "Istio, which loads no native module"),
    ("migrating::", "the migration guides, which load `diana.wasm`"),
    ("size::", "the size of the files"),
    ("embedded::", "the engine in a filter on the SDK"),
    ("original::an_empty_vm_id", "`vm_id`; a module has a `filter_name`"),
    ("remote::refused::a_document_that_needs_removed", "Envoy's restriction of callbacks"),
    ("remote::updates::restarted_workers", "a VM that Envoy replaces after a trap"),
    ("soak::", "VMs that trap under load"),
];

/// The tests of things that only the native module has.
const NATIVE_ONLY: [(&str, &str); 6] = [
    ("enforce::envoys_runtime", "Envoy's runtime, which a proxy-wasm filter cannot read"),
    ("kept::", "counts that are kept"),
    ("manifests::kubernetes_counts_in_redis", "an overlay of the native module"),
    ("panics::", "panics that are caught"),
    ("routes::", "documents of routes; proxy-wasm has none"),
    ("secrets::", "secrets by SDS, which a proxy-wasm filter cannot read"),
];

/// The tests that `cargo xtask test` leaves to `cargo xtask e2e`, because they take minutes: of
/// failures of a store and of its connections, of the engine in another filter, and of the guides
/// and manifests, whose documents `check` reads in any case.
const LONG: [&str; 13] = [
    "budgets::",
    "embedded::",
    "global::batches",
    "global::carriers",
    "global::faults",
    "global::hop",
    "global::matrix",
    "global::outage",
    "global::refunds",
    "global::repointed",
    "global::stalls",
    "manifests::",
    "migrating::",
];

/// Runs the tests whose names contain `filter`, or all.
pub fn run(filter: Option<&str>, shell: Shell) -> Result<()> {
    programs::install()?;
    programs::install_fetchers()?;
    let mut line = line(shell);
    line.args.extend(filter.map(str::to_owned));
    step(line, shell).run()
}

/// The command of all end-to-end tests of a shell. Three run at a time: each has an Envoy with
/// workers of its own, and waits for something a third of its time. The output has a line for each
/// test, and the figures that tests print.
pub fn line(shell: Shell) -> Line {
    let harness = ["--test-threads", "3", "--format", "pretty", "--nocapture"];
    let mut line = cargo(&[&["test", "--quiet", "--test", "e2e", "--"], &harness[..]].concat());
    let skipped = match shell {
        Shell::Wasm => &NATIVE_ONLY[..],
        Shell::Native => &WASM_ONLY,
    };
    if shell == Shell::Native {
        line.env.push(("DIANA_SHELL", "native".to_owned()));
    }
    skip(&mut line, skipped.iter().map(|(name, _)| *name));
    line
}

/// The command of `cargo xtask test`.
pub fn short_line() -> Line {
    let mut line = line(Shell::Wasm);
    skip(&mut line, LONG);
    line
}

fn skip<'a>(line: &mut Line, names: impl IntoIterator<Item = &'a str>) {
    line.args.extend(names.into_iter().flat_map(|name| ["--skip".to_owned(), name.to_owned()]));
}

/// The step that runs this command.
pub fn step(line: Line, shell: Shell) -> Step {
    let name = match shell {
        Shell::Wasm => "end to end, in Envoy",
        Shell::Native => "end to end, the native module",
    };
    Step::new(name, line).shown()
}

#[cfg(test)]
mod tests {
    use gateway::root;
    use std::fs;

    /// The test harness succeeds if a filter matches no test, so a renamed test would be left out
    /// by a command without a word.
    #[test]
    fn the_filters_of_other_commands_name_tests() {
        for (file, start) in [
            ("examples/compose.rs", "fn real_"),
            ("examples/func_e.rs", "fn real_"),
            ("observability.rs", "fn real_"),
            ("migrating.rs", "fn nginx"),
            ("migrating.rs", "fn traefik"),
            ("convert.rs", "fn nginx"),
            ("manifests.rs", "fn istio_"),
        ] {
            let text = fs::read_to_string(root().join("tests/e2e").join(file)).unwrap();
            assert!(text.contains(start), "{file} has no `{start}`");
        }
    }
}
