//! Candidates beside rules, lists, plugins and gateways that also affect the decision.

use super::*;

/// An actor that loses its place on the list is limited by an unchanged rule.
#[test]
fn an_actor_taken_off_the_allow_list_is_compared() {
    let without = rules(&window("w", "user", 10, "day"));
    let with = without.replacen('{', r#"{"allow": [{"user": "probe"}], "#, 1);
    let gateway = with_canary(1, &with, 100, "5%", "");
    put_candidate(&gateway, &without);
    assert_eq!(passes(&gateway, 40, 10, "probe"), 40);
    gateway.pass(61_000);
    let promoted = gateway.world.logged("config promoted: ");
    let later = passes(&gateway, 40, 10, "probe");
    gateway.pass(61_000);
    assert_eq!(
        (promoted, gateway.world.logged("rolled back")),
        (0, 0),
        "30 of 40 would be refused, {later} of 40 pass now, {:?} {:?}",
        comparisons(&gateway),
        log_lines(&gateway)
    );
}

/// The same, with no actor compared while the document is a candidate.
#[test]
fn an_actor_taken_off_the_allow_list_is_watched() {
    let without = rules(&window("w", "user", 10, "day"));
    let with = without.replacen('{', r#"{"allow": [{"user": "probe"}], "#, 1);
    let gateway = with_canary(1, &with, 100, "5%", "");
    put_candidate(&gateway, &without);
    gateway.pass(61_000);
    assert_eq!(gateway.world.logged("config promoted: "), 1);
    gateway.pass(1_000);
    assert!(passes(&gateway, 100, 10, "probe") < 100);
    gateway.pass(61_000);
    assert_eq!(
        gateway.world.logged("rolled back"),
        1,
        "{:?} {:?}",
        comparisons(&gateway),
        log_lines(&gateway)
    );
}

/// An unchanged rule was never reached as long as another rule kept a client out.
fn shielded() -> (String, String) {
    let all = window("all", "all", 100, "day");
    let each = |rpu| window("each", "user", rpu, "day");
    (rules(&[each(5), all.clone()].join(", ")), rules(&[each(100_000), all].join(", ")))
}

fn attack(gateway: &Gateway) -> usize {
    passes(gateway, 300, 1, "bot");
    (0..40).map(|user| passes(gateway, 1, 10, &format!("user-{user}"))).sum()
}

#[test]
fn a_removed_rule_that_shielded_another_prevents_promotion() {
    let (with, without) = shielded();
    let gateway = with_canary(1, &with, 100, "5%", "");
    put_candidate(&gateway, &without);
    assert_eq!(attack(&gateway), 40);
    gateway.pass(61_000);
    assert_eq!(
        gateway.world.logged("config promoted: "),
        0,
        "all of 40 users would be refused: {:?} {:?}",
        comparisons(&gateway),
        log_lines(&gateway)
    );
}

#[test]
fn a_removed_rule_that_shielded_another_causes_a_rollback() {
    let (with, without) = shielded();
    let gateway = with_canary(1, &with, 100, "5%", "");
    put_candidate(&gateway, &without);
    gateway.pass(61_000);
    assert_eq!(gateway.world.logged("config promoted: "), 1);
    gateway.pass(1_000);
    assert_eq!(attack(&gateway), 0);
    gateway.pass(61_000);
    assert_eq!(
        gateway.world.logged("rolled back"),
        1,
        "{:?} {:?}",
        comparisons(&gateway),
        log_lines(&gateway)
    );
}

/// A refused request is charged to no rule, so a new rule would not see it.
#[test]
fn a_refusal_by_an_unchanged_rule_is_not_charged_to_a_new_rule() {
    let minute = window("minute", "user", 5, "minute");
    let gateway = with_canary(1, &rules(&minute), 100, "5%", "");
    put_candidate(&gateway, &rules(&[minute, window("day", "user", 50, "day")].join(", ")));
    let passed = passes(&gateway, 590, 100, "ann");
    assert!(passed <= 10, "{passed}, so none of 50 a day would be refused");
    gateway.pass(2_000);
    assert_eq!(
        gateway.world.logged(" not promoted"),
        0,
        "{:?} {:?}",
        comparisons(&gateway),
        log_lines(&gateway)
    );
}

/// Another exclusive limit makes every rule count as changed, a global rule without its counts.
#[test]
fn an_exclusive_limit_beside_a_global_rule_rolls_nothing_back() {
    let shared =
        rules(r#"{"name": "w", "actor": "user", "algo": "W", "rpu": 3, "unit": "day", "scope": "global"}"#);
    let gateway = with_canary(1, &shared, 100, "5%", STORE);
    for user in 0..40 {
        assert_eq!(passes(&gateway, 3, 10, &format!("user-{user}")), 3);
    }
    put_candidate(
        &gateway,
        &shared.replacen(r#"{"limits": ["#, r#"{"limits": [{"url": "/health", "exclusive": true}, "#, 1),
    );
    gateway.pass(62_000);
    assert_eq!(gateway.world.logged("config promoted: "), 1, "{:?}", log_lines(&gateway));
    gateway.pass(1_000);
    for user in 0..40 {
        assert_eq!(passes(&gateway, 1, 10, &format!("user-{user}")), 0, "as before");
    }
    gateway.pass(2_000);
    assert_eq!(
        gateway.world.logged("rolled back"),
        0,
        "{:?} {:?}",
        comparisons(&gateway),
        log_lines(&gateway)
    );
}

/// In another order, `ip` means the same.
#[test]
fn ip_keys_in_another_order_are_no_difference() {
    let with =
        |ip: &str| rules(&window("w", "user", 10, "day")).replacen('{', &format!(r#"{{"ip": {{{ip}}}, "#), 1);
    let gateway = with_canary(1, &with(r#""v4_prefix": 24, "v6_prefix": 48"#), 100, "5%", "");
    put_candidate(&gateway, &with(r#""v6_prefix": 48, "v4_prefix": 24"#));
    passes(&gateway, 5, 10, "ann");
    assert_eq!(comparisons(&gateway), [0, 0, 0]);
}

fn canary(more: &str) -> String {
    configuration(&format!(r#", "canary": {{"percent": 100, "hold": "1m", "max_refused": "5%"}}{more}"#))
}

/// The previous plugin drains and has no canary: a document that the newest refused is valid for
/// it.
#[test]
fn a_draining_plugin_activates_no_document_that_the_newest_refused() {
    let good = rules(&window("w", "user", 1_000_000, "day"));
    for early in 0..6 {
        let gateway = gateway(2, &good);
        assert!(gateway.configure(&configuration("")));
        gateway.pass(1_000 + early * 37);
        assert!(gateway.configure(&canary("")), "{:?}", log_lines(&gateway));
        gateway.pass(2_000);
        put_candidate(&gateway, &document(431));
        assert_eq!(passes(&gateway, 50, 10, "ann"), 50);
        gateway.pass(62_000);
        assert_eq!(gateway.world.logged(" not promoted: "), 1, "{:?}", log_lines(&gateway));
        gateway.pass(10_000);
        assert_eq!(passes(&gateway, 10, 10, "ann"), 10, "early {early}: {:?}", log_lines(&gateway));
    }
}

/// Two plugins with different local documents: what one has refused, the other tries again, and so
/// on.
#[test]
fn a_rejected_document_is_not_compared_again() {
    let good = rules(&window("w", "user", 1_000_000, "day"));
    let gateway = gateway(2, &good);
    assert!(gateway.configure(&canary("")));
    gateway.pass(1_000);
    assert!(gateway.configure(&canary(r#", "headers": {"x-a": "b"}"#)));
    gateway.pass(2_000);
    put_candidate(&gateway, &document(431));
    for _ in 0..3 {
        assert_eq!(passes(&gateway, 50, 10, "ann"), 50);
        gateway.pass(62_000);
    }
    // At night there are no requests.
    gateway.pass(200_000);
    assert_eq!(passes(&gateway, 50, 10, "ann"), 50, "{:?}", log_lines(&gateway));
    assert_eq!(gateway.world.logged("tried beside the one that serves"), 1, "{:?}", log_lines(&gateway));
}

/// Cells of few sizes: cells of other keys are half as large, and so on.
#[test]
fn tables_of_other_sizes_do_not_pile_up() {
    let gateway = with_canary(1, r#"{"limits": []}"#, 100, "0%", r#", "local": {"max_actors": 100"#);
    let mut sizes = Vec::new();
    // The largest comes first.
    for rpu in (2..=21).rev() {
        put_document(
            &gateway,
            &rules(&format!(r#"{{"actor": "user", "algo": "SL", "rpu": {rpu}, "unit": "day"}}"#)),
        );
        gateway.pass(1_200);
        for user in 0..200 {
            passes(&gateway, 1, 0, &format!("user-{user}"));
        }
        sizes.push(size(&gateway));
    }
    let candidates = gateway.world.logged("tried beside");
    assert!(candidates == 20 && sizes[19] < sizes[0] * 2, "{candidates} candidates: {sizes:?}");
}

/// `all` is the same actor under both documents, wherever it is counted.
#[test]
fn the_actor_all_is_one_actor_in_a_global_store() {
    for scope in ["", r#", "scope": "global""#] {
        let bucket = |rpu: u32, burst: u32| {
            rules(&format!(r#"{{"name": "b", "rpu": {rpu}, "unit": "second", "burst": {burst}{scope}}}"#))
        };
        let gateway = with_canary(1, &bucket(10, 10), 100, "0%", STORE);
        passes(&gateway, 1, 10, "ann");
        put_candidate(&gateway, &bucket(12, 5));
        let passed = passes(&gateway, 2_000, 17, "ann");
        let [_, refused, admitted] = comparisons(&gateway);
        assert!(admitted > refused, "{refused} {admitted}");
        gateway.pass(61_000);
        assert_eq!(
            gateway.world.logged("config promoted: it would newly refuse 0 of "),
            1,
            "{scope} {passed} {refused} {admitted} {:?}",
            log_lines(&gateway)
        );
    }
}

/// A fleet counts together. Under the previous document each gateway alone would admit the whole
/// limit.
#[test]
fn a_raised_global_limit_stays_active_in_a_fleet() {
    let shared = |rpu: u32| {
        rules(&format!(
            r#"{{"name": "w", "actor": "user", "algo": "W", "rpu": {rpu}, "unit": "day", "scope": "global"}}"#
        ))
    };
    let first = with_canary(1, &shared(40), 100, "5%", STORE);
    let second = {
        let gateway = Gateway::among(clusters(&first), 1, false);
        gateway.world.clock.set(first.world.clock.get());
        let canary = r#", "canary": {"percent": 100, "hold": "1m", "max_refused": "5%"}}"#;
        assert!(gateway.configure(&configuration(&[canary, STORE].concat())));
        gateway
    };
    let fleet = [first, second];
    Gateway::pass_all(&fleet, 2_000);
    put_document(&fleet[0], &shared(50));
    Gateway::pass_all(&fleet, 65_000);
    let logged = |words: &str| fleet.iter().map(|gateway| gateway.world.logged(words)).sum::<usize>();
    assert_eq!(logged("config promoted: "), 2, "{:?}", fleet.each_ref().map(log_lines));
    let mut passed = 0;
    for _ in 0..70 {
        for gateway in &fleet {
            let request = gateway.request(0, "/", "ann");
            Gateway::pass_all(&fleet, 10);
            passed += usize::from(gateway.fate(request) == Fate::Upstream);
            gateway.end_all();
        }
    }
    Gateway::pass_all(&fleet, 61_000);
    assert!(passed >= 50, "{passed}, more than before");
    assert_eq!(logged("rolled back"), 0, "{:?}", fleet.each_ref().map(log_lines));
}

/// The previous document would have refused by that rule what the new document refuses by another
/// rule.
#[test]
fn a_refusal_that_an_unchanged_rule_would_also_make_rolls_nothing_back() {
    let minute = window("minute", "user", 5, "minute");
    let both = |day: u32| rules(&[minute.clone(), window("day", "user", day, "day")].join(", "));
    let gateway = with_canary(1, &both(1_000), 100, "50%", "");
    put_candidate(&gateway, &both(9));
    gateway.pass(61_000);
    assert_eq!(gateway.world.logged("config promoted: "), 1);
    gateway.pass(1_000);
    // The previous document would admit ten of them.
    assert!(passes(&gateway, 580, 100, "ann") <= 10);
    gateway.pass(2_000);
    assert_eq!(
        gateway.world.logged("rolled back"),
        0,
        "{:?} {:?}",
        comparisons(&gateway),
        log_lines(&gateway)
    );
}
