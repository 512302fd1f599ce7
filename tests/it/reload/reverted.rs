//! Documents go forwards and back: no count, grant, penalty or permit revives.

use super::changes::{Host, left, limit, next, rule};
use crate::harness::{Counting, Gateway, at, get, store};
use diana_base::time::Time;
use diana_limiter::algorithm::Admission;
use diana_limiter::cells::store::{CasSemantics, SharedData};
use diana_limiter::session::Session;
use diana_testing::shared_data::Simulated;

const HOUR: u64 = 3_600_000;

/// How many of so many requests of ann pass, each at another worker.
fn passed(gateway: &Gateway<Host>, requests: usize, now: Time) -> usize {
    let passes = |_: &usize| !gateway.ask_new_worker(&get("/", "ann"), now).is_rejected();
    (0..requests).filter(passes).count()
}

const KINDS: [&str; 5] = [
    r#", "algo": "W", "unit": "day""#,
    r#", "algo": "SW", "unit": "day""#,
    r#", "algo": "SL", "unit": "day""#,
    r#", "unit": "7d""#,
    r#", "algo": "C", "max_hold": "1d""#,
];

/// Permits are held: no request of these ends.
#[test]
fn going_back_to_an_earlier_number_revives_no_count() {
    for kind in KINDS {
        for name in ["", r#", "name": "counted""#] {
            let host = Simulated::new(CasSemantics::Lenient);
            let passes = |rpu: u32, requests| {
                passed(&next(&host, &limit(&[rule(rpu, &format!("{kind}{name}"))])), requests, at(0))
            };
            assert_eq!(passes(3, 1), 1);
            assert_eq!([4, 5, 6].map(|rpu| passes(rpu, 9)), [3, 1, 1], "{kind}");
            assert_eq!(passes(3, 9), 0, "{kind}");
            assert_eq!([4, 7, 5, 3, 7].map(|rpu| passes(rpu, 9)), [0, 1, 0, 0, 0], "{kind}");
        }
    }
}

/// The rule itself does not change.
#[test]
fn changing_neighbours_revive_no_count() {
    for kind in KINDS {
        let host = Simulated::new(CasSemantics::Strict);
        let own = rule(3, &format!(r#"{kind}, "name": "counted""#));
        let neighbour = |n: usize| rule(1_000, &format!(r#", "algo": "SW", "unit": "hour", "name": "n{n}""#));
        let passes = |neighbours: &[usize], requests| {
            let rules = neighbours.iter().map(|n| neighbour(*n)).chain([own.clone()]);
            passed(&next(&host, &limit(&rules.collect::<Vec<_>>())), requests, at(0))
        };
        assert_eq!(passes(&[], 1), 1, "{kind}");
        for neighbours in [&[0][..], &[1], &[2], &[0, 1, 2], &[]] {
            passes(neighbours, 1);
        }
        assert_eq!(passes(&[], 9) + passes(&[2], 9) + passes(&[0, 1], 9), 0, "{kind}");
    }
}

/// How long a penalty still refuses ann, in seconds.
fn rest(gateway: &Gateway<Host>, ms: u64) -> u64 {
    let verdict =
        gateway.ask_new_worker(&get("/", "ann"), at(ms)).checks.first().unwrap().verdict().copied().unwrap();
    match verdict.admission {
        Admission::Refuse { retry_after: Some(wait) } if verdict.is_penalty() => wait.as_ns() / 1_000_000_000,
        _ => 0,
    }
}

/// Also while a document lies between that has no penalty, and none that is over comes back.
#[test]
fn penalties_run_on_and_do_not_return() {
    let host = Simulated::new(CasSemantics::Lenient);
    let penalized = |rpu: u32, after: u32| {
        let penalty = format!(r#", "penalty": {{"after": {after}, "for": "1h"}}"#);
        next(&host, &limit(&[rule(rpu, &format!(r#", "algo": "W", "unit": "second"{penalty}"#))]))
    };
    let plain = |rpu| next(&host, &limit(&[rule(rpu, r#", "algo": "W", "unit": "second""#)]));
    assert_eq!([(); 3].map(|()| rest(&penalized(1, 2), 0)), [0, 0, 3_600]);
    for (ms, rpu) in (1..).map(|n| n * 60_000).zip([2, 3, 4]) {
        assert_eq!(rest(&penalized(rpu, 9), ms), 3_600 - ms / 1_000);
        assert_eq!(rest(&plain(rpu), ms), 0, "there is no penalty");
    }
    assert_eq!(rest(&penalized(1, 2), HOUR - 1_000), 1, "as it began");
    assert_eq!(rest(&penalized(1, 2), HOUR), 0);
    for rpu in [2, 3, 4, 1] {
        assert_eq!(rest(&penalized(rpu, 2), HOUR + 2_000), 0, "it is over");
    }
}

/// Requests that began under several documents release their permits in whichever document is in
/// force then.
#[test]
fn permits_in_flight_count_under_each_document_and_return_once() {
    let host = Simulated::new(CasSemantics::Lenient);
    let permits = |rpu: u32, beside: u32| {
        let rules = [
            rule(rpu, r#", "algo": "C", "max_hold": "1h""#),
            rule(beside, r#", "algo": "W", "unit": "day""#),
        ];
        next(&host, &limit(&rules))
    };
    let mut begun: Vec<(Gateway<Host>, Session)> = Vec::new();
    let mut take = |rpu, beside| {
        let mut gateway = permits(rpu, beside);
        let (session, decision) = gateway.start(0, &get("/", "ann"), at(1));
        let passes = !decision.is_rejected();
        begun.extend(passes.then_some((gateway, session)));
        passes
    };
    assert!(take(2, 100) && take(3, 200));
    assert_eq!([(2, 100), (1, 300), (2, 400), (2, 100)].map(|(rpu, beside)| take(rpu, beside)), [false; 4]);
    assert!(take(4, 100), "two of four are out");
    for (gateway, session) in &mut begun {
        // The second end of a request releases nothing. The request that looks holds a permit.
        gateway.settle(0, session, at(2));
        gateway.settle(0, session, at(3));
        assert_eq!(left(&permits(4, 100), 4)[0], 1, "three of four are out");
    }
}

/// A worker that is one or several documents behind counts in the same state.
#[test]
fn workers_that_are_behind_count_together_with_the_others() {
    for kind in &KINDS[..4] {
        let host = Simulated::new(CasSemantics::Lenient);
        let of = |rpu: u32| next(&host, &limit(&[rule(rpu, kind)]));
        let mut gateways: Vec<_> = [9, 8, 7, 9].map(of).into();
        let mut passed = 0;
        for turn in 0..40 {
            let gateway = &mut gateways[turn % 4];
            passed += usize::from(!gateway.ask(0, &get("/", "ann"), at(0)).is_rejected());
        }
        assert_eq!(passed, 9, "{kind}");
    }
}

/// The longest value in the shared data.
fn longest(host: &Simulated) -> usize {
    let size =
        |key: &Vec<u8>| (&host).get(key).ok().and_then(|(value, _)| value).map_or(0, |value| value.len());
    host.keys().iter().map(size).max().unwrap_or(0)
}

/// Ten thousand documents, each with rules that no other has.
#[test]
fn values_stay_bounded_over_any_number_of_documents() {
    let host = Simulated::new(CasSemantics::Lenient);
    let kept = rule(20, r#", "algo": "W", "unit": "7d", "name": "kept""#);
    let mut most = 0;
    for document in 0..10_000_u64 {
        let invented =
            |n: u64| rule(9, &format!(r#", "algo": "W", "unit": "7d", "name": "r{}""#, document * 2 + n));
        let gateway = next(&host, &limit(&[kept.clone(), invented(0), invented(1)]));
        let left = left(&gateway, document);
        assert_eq!(left, [19_u64.saturating_sub(document), left[1], left[1]]);
        most = most.max(longest(&host));
    }
    // Sixteen ways, each with three known states and 24 others of 16 bytes.
    assert_eq!(most, 8 + 27 * 12 + 16 * (8 + 27 * 16));
    assert!(host.len() <= 4, "{:?}", host.keys());
}

/// As with two directives of nginx: values keep their sizes, and other numbers count apart.
#[test]
fn documents_side_by_side_count_apart_in_values_that_do_not_grow() {
    let host = Simulated::new(CasSemantics::Strict);
    let policy = |rules: &[String]| {
        let mut configuration = diana_config::compile(limit(rules).as_bytes()).unwrap();
        configuration.count_apart(None, true);
        configuration.policy
    };
    let named = |name: &str, rpu| rule(rpu, &format!(r#", "algo": "W", "unit": "day", "name": "{name}""#));
    let documents = [vec![named("a", 5)], vec![named("a", 6)], vec![named("a", 5), named("b", 7)]];
    let mut sizes = Vec::new();
    for left in (0..5).rev() {
        for (rules, most) in documents.iter().zip([5, 6, 5]) {
            let mut gateway = Gateway::new("[]", Counting::new(store(&host)));
            gateway.policy = policy(rules);
            let found = super::remaining(&gateway.ask_new_worker(&get("/", "ann"), at(0)))[0];
            assert_eq!(found, left + most - 5, "{rules:?}");
        }
        let size = |key: &Vec<u8>| host.get(key).unwrap().0.unwrap().len();
        sizes.push(host.keys().iter().map(size).collect::<Vec<_>>());
    }
    assert!(sizes.iter().all(|of| *of == sizes[0]), "{sizes:?}");
}

/// Documents of routes: equal rules count with the listener's, rules of other names apart from each
/// other, whatever their numbers.
#[test]
fn documents_of_routes_count_with_the_listener_while_all_numbers_agree() {
    let host = Simulated::new(CasSemantics::Lenient);
    let named =
        |name: &str, rpu| limit(&[rule(rpu, &format!(r#", "algo": "W", "unit": "day", "name": "{name}""#))]);
    let ask = |listener: &str, route: &str| {
        let listener = diana_config::compile(listener.as_bytes()).unwrap().policy;
        let mut configuration = diana_config::compile(route.as_bytes()).unwrap();
        configuration.count_apart(Some(&listener), false);
        let mut gateway = Gateway::new("[]", store(&host));
        gateway.policy = configuration.policy;
        super::remaining(&gateway.ask_new_worker(&get("/", "ann"), at(0)))[0]
    };
    let listener = named("all", 9);
    assert_eq!(left(&next(&host, &listener), 0), [8]);
    assert_eq!(ask(&listener, &listener), 7, "the same rule");
    assert_eq!(ask(&listener, &named("all", 5)), 4, "another number");
    assert_eq!([(); 3].map(|()| ask(&listener, &named("downloads", 2))), [1, 0, 0]);
    assert_eq!(ask(&listener, &named("uploads", 2)), 1, "another name");
    assert_eq!(left(&next(&host, &listener), 0), [6]);
}

/// A full set of users, each refused by the tightened document, gives way once the document is
/// relaxed again; what they used stays used.
#[test]
fn a_full_set_is_judged_by_the_document_in_force() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = |rpu: u32| {
        let rules = limit(&[rule(rpu, r#", "algo": "W", "unit": "day", "name": "counted""#)]);
        format!(r#"{{"local": {{"max_actors": 8}}, "limits": {rules}}}"#)
    };
    let ask = |rpu, user: &str| {
        let decision = next(&host, &json(rpu)).ask_new_worker(&get("/", user), at(0));
        (decision.is_rejected(), decision.events.set_full, decision.events.evicted_lossy)
    };
    for user in 0..16 {
        (0..=user % 3).for_each(|_| assert_eq!(ask(9, &format!("user-{user}")), (false, 0, 0)));
    }
    assert_eq!(ask(1, "new"), (true, 1, 0), "all of them refuse by one a day");
    assert_eq!(ask(2, "new"), (false, 0, 1), "of those with one of two used, one gives way");
    assert_eq!(ask(1, "newer"), (true, 1, 0));
    assert_eq!(ask(3, "user-2"), (true, 0, 0), "what was used stays used");
    assert_eq!(ask(4, "user-2"), (false, 0, 0));
}
