//! The driver runs, repeats itself, and reaches what it is for.

use sessions::case::Case;
use sessions::{generate, ledger, trace};

fn traces() -> Vec<String> {
    (0..150).flat_map(|seed| trace(&generate(seed))).collect()
}

/// Also after a way through JSON, as the cases come from another program.
#[test]
fn the_same_case_shows_the_same() {
    for seed in 0..20 {
        let case = generate(seed);
        let text = serde_json::to_string(&case).unwrap();
        let again: Case = serde_json::from_str(&text).unwrap();
        assert_eq!(text, serde_json::to_string(&generate(seed)).unwrap());
        assert_eq!(trace(&case), trace(&again), "seed {seed}");
    }
}

#[test]
fn cases_show_every_kind_of_decision() {
    let lines = traces();
    for what in [
        " passes",
        " waits ",
        " refused by ",
        " without the actor of ",
        " no store for ",
        " denied",
        " allowed",
        "would refuse",
        "penalty",
        " settles",
        "meanwhile",
        "uncounted",
        "without store",
        ", high",
        "plan gold",
        "limits [",
        "done",
        "granted",
    ] {
        assert!(lines.iter().any(|line| line.contains(what)), "no case shows `{what}`");
    }
}

/// Documents go forwards and back, also in one worker alone.
#[test]
fn what_was_used_stays_used_and_what_was_granted_is_granted_once() {
    for forward in [true, false] {
        let (found, shown) = ledger::run(0..600, forward);
        assert_eq!(found, 0, "{}", shown.iter().map(ToString::to_string).collect::<String>());
    }
}
