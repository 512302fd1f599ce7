//! The fast path makes the same decisions as the full path, on random documents and traffic.

mod documents;
mod twins;

use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Values;
use diana_testing::shared_data::Simulated;
use documents::{document, request};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use twins::{Shown, Step, Twin, WORKERS};

/// How many requests were certainly decided on the fast path.
#[derive(Debug, Default)]
struct Fast {
    passed: usize,
    refused: usize,
}

impl Fast {
    /// Counts the requests of a step, which are equal. The fast path reads what the full path
    /// reads. Where the fast path ends before a decision, the full path reads once more.
    fn count(&mut self, shown: &[Shown], reads: &[usize], reads_in_full: &[usize]) {
        let fell_back = |at: usize| reads[at] > reads_in_full[at];
        let decided = shown.iter().enumerate().skip_while(|(at, _)| !fell_back(*at));
        for (_, shown) in decided.filter(|(at, _)| !fell_back(*at)) {
            match shown {
                Shown::Decided(decision, ..) if decision.is_rejected() => self.refused += 1,
                _ => self.passed += 1,
            }
        }
    }
}

/// A step, most often a burst of equal requests. The requests are few, so that actors come back.
fn step(requests: Vec<Values>) -> impl Strategy<Value = Step> {
    let worker = 0..WORKERS;
    let ask = (
        worker.clone(),
        prop::sample::select(requests),
        1usize..24,
        prop::sample::select(vec![0u64, 0, 1, 30, 250]),
    );
    prop_oneof![
        30 => ask.prop_map(|(worker, request, times, apart_ms)| Step::Ask { worker, request, times, apart_ms }),
        2 => Just(Step::End),
        6 => prop::sample::select(vec![1u64, 20, 99, 100, 101, 200, 1_000, 60_000]).prop_map(|ms| Step::Pass { ms }),
        1 => prop::sample::select(vec![1u64, 500, 5_000]).prop_map(|ms| Step::Back { ms }),
        4 => worker.prop_map(|worker| Step::Tick { worker }),
        1 => prop::bool::weighted(0.3).prop_map(|fails| Step::Fail { fails }),
        1 => (0usize..100).prop_map(|key| Step::Evict { key }),
        1 => any::<u8>().prop_map(|byte| Step::Reseed { byte }),
        1 => (0usize..3).prop_map(|document| Step::Replace { document }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(request(), 1..6)
        .prop_flat_map(|requests| prop::collection::vec(step(requests), 1..60))
}

/// Documents that are accepted.
fn documents() -> impl Strategy<Value = Vec<String>> {
    let accepted = document().prop_filter("refused", |json| diana_config::compile(json.as_bytes()).is_ok());
    prop::collection::vec(accepted, 1..4)
}

fn play(documents: &[String], rules: CasSemantics, steps: &[Step], seen: &mut Fast) {
    let hosts = [Simulated::new(rules), Simulated::new(rules)];
    let mut fast = Twin::new(&hosts[0], documents, true);
    let mut full = Twin::new(&hosts[1], documents, false);
    for (at, step) in steps.iter().enumerate() {
        let (mut shown, mut shown_in_full) = (Vec::new(), Vec::new());
        fast.take(step, &mut shown);
        full.take(step, &mut shown_in_full);
        assert_eq!(shown, shown_in_full, "step {at}: {step:?}");
        assert_eq!(fast.state(), full.state(), "step {at}: {step:?}");
        if let Step::Ask { .. } = step {
            seen.count(&shown, &fast.reads, &full.reads);
        }
    }
}

/// Decisions, events, refunds, and all bytes in the store.
#[test]
fn the_fast_path_decides_as_the_full_path() {
    let cases = (documents(), prop_oneof![Just(CasSemantics::Lenient), Just(CasSemantics::Strict)], steps());
    let seen = RefCell::new(Fast::default());
    let play = |(documents, rules, steps): (Vec<String>, CasSemantics, Vec<Step>)| {
        play(&documents, rules, &steps, &mut seen.borrow_mut());
        Ok(())
    };
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) };
    TestRunner::new(config).run(&cases, play).unwrap_or_else(|why| panic!("{why}"));
    let Fast { passed, refused } = seen.into_inner();
    assert!(passed > 1_000 && refused > 1_000, "{passed} passed and {refused} refused on the fast path");
}
