//! `adapt`: a limit that moves with what its requests find upstream.

use super::check;

fn rule(keys: &str) -> String {
    format!(r#"{{"url": "/", "rules": [{{"name": "backend", {keys}}}]}}"#)
}

/// 20 permits. The limit halves while the upstream is slow, and grows when it is fast.
fn permits() -> String {
    rule(
        r#""algo": "C", "rpu": 20,
           "adapt": {"signal": "latency_p90", "target": "200ms", "min": 4, "max": 40, "every": "10s"}"#,
    )
}

#[test]
fn permits_follow_the_latency() {
    check(
        &permits(),
        "0ms    20x GET / -> pass
         0ms        GET / -> refuse backend
         5s     20x settle status=200 latency=1s
         9999ms     GET / -> pass backend=19
         10s        GET / -> pass backend=8
         10s     8x GET / -> pass
         10s w1     GET / -> refuse backend
         12s    10x settle status=200 latency=50ms
         20s        GET / -> pass backend=14
         20s w2     GET / -> pass backend=13
         1h  w1     GET / -> pass backend=19",
    );
}

#[test]
fn requests_that_end_without_a_response_are_no_measurement() {
    check(
        &permits(),
        "0ms    20x GET / -> pass
         5s     20x settle
         10s        GET / -> pass backend=19",
    );
}

/// Their latency is longer than the target, so impatient clients hide nothing.
#[test]
fn requests_that_end_after_the_target_without_a_response_are_slow() {
    for (latency, left) in [("200ms", 19), ("201ms", 17), ("300ms", 12), ("1s", 9)] {
        check(
            &permits(),
            &format!(
                "0ms    20x GET / -> pass
                 5s     20x settle latency={latency}
                 10s        GET / -> pass backend={left}"
            ),
        );
    }
    // Nobody knows what the response would have been.
    check(
        &rule(
            r#""rpu": 20, "unit": "second",
               "adapt": {"signal": "errors", "target": "10%", "min": 4, "max": 40, "every": "10s"}"#,
        ),
        "0ms    20x GET / -> pass
         5s     20x settle latency=5s
         10s        GET / -> pass backend=19",
    );
}

#[test]
fn a_rate_follows_the_share_of_errors() {
    check(
        &rule(
            r#""rpu": 20, "unit": "second",
               "adapt": {"signal": "errors", "target": "10%", "min": 4, "max": 40, "every": "10s"}"#,
        ),
        "0ms    20x GET / -> pass
         1s      2x settle status=499 latency=1ms
         1s     18x settle status=503 latency=1ms
         10s        GET / -> pass backend=9
         10s w1  9x GET / -> pass
         10s w1     GET / -> refuse backend retry=100ms
         11s    10x settle status=200 latency=1ms
         20s w1     GET / -> pass backend=14
         20s w1 14x GET / -> pass
         20s w2     GET / -> refuse backend",
    );
}

#[test]
fn a_rate_follows_the_traffic_of_the_last_interval() {
    let json = rule(
        r#""rpu": 20, "unit": "second",
           "adapt": {"signal": "traffic", "target": "150%", "min": 4, "max": 40, "every": "10s"}"#,
    );
    check(
        &json,
        "0ms    20x GET / -> pass
         0ms        GET / -> refuse backend
         10s        GET / -> pass backend=14
         20s        GET / -> pass backend=10",
    );
    // 20 in a second: 30 is the limit at once.
    check(
        &json.replace("10s", "1s"),
        "0ms    20x GET / -> pass
         1s         GET / -> pass backend=29",
    );
}

/// The bucket keeps the tokens that it lacks when the limit moves: here 10 after 10 s.
#[test]
fn what_was_taken_stays_taken_when_the_limit_moves() {
    check(
        &rule(
            r#""rpu": 20, "unit": "20s",
               "adapt": {"signal": "errors", "target": "10%", "min": 4, "max": 40, "every": "10s"}"#,
        ),
        "0ms    20x GET / -> pass
         1s     20x settle status=503 latency=1ms
         10s        GET / -> refuse backend retry=1s
         15s     5x GET / -> pass
         15s        GET / -> refuse backend retry=2s",
    );
}

#[test]
fn a_refusal_by_another_rule_is_neither_traffic_nor_a_refusal() {
    check(
        r#"{"url": "/", "rules": [
            {"name": "few", "algo": "W", "rpu": 10, "unit": "7d"},
            {"name": "backend", "rpu": 20, "unit": "second",
             "adapt": {"signal": "traffic", "target": "200%", "min": 1, "max": 40, "every": "1s"}}]}"#,
        "0ms    10x GET / -> pass
         0ms    90x GET / -> refuse few
         1s         GET / -> refuse few few=refused backend=20",
    );
}

#[test]
fn traffic_counts_what_its_requests_cost() {
    for penalty in ["", r#""penalty": {"after": 9, "for": "1m"},"#] {
        let adapt = r#"{"signal": "traffic", "target": "150%", "min": 10, "max": 400, "every": "1s"}"#;
        check(
            &rule(&format!(r#""rpu": 100, "unit": "second", "cost": 10, {penalty} "adapt": {adapt}"#)),
            "0ms    10x GET / -> pass
             1s         GET / -> pass backend=140",
        );
    }
}

/// Two rules that are equal except for their names count the same requests, each for itself.
#[test]
fn equal_rules_adapt_apart() {
    let keys = r#""rpu": 20, "unit": "second",
        "adapt": {"signal": "traffic", "target": "200%", "min": 1, "max": 400, "every": "1s"}"#;
    check(
        &format!(r#"{{"url": "/", "rules": [{{"name": "one", {keys}}}, {{"name": "two", {keys}}}]}}"#),
        "0ms    20x GET / -> pass
         500ms      GET / -> pass
         1s         GET / -> pass one=40 two=40",
    );
}

/// A refusal by a penalty does not tell that the limit was used.
#[test]
fn a_penalty_lets_no_limit_grow() {
    check(
        &rule(
            r#""actor": "ip", "rpu": 100, "unit": "second", "penalty": {"after": 2, "for": "1h"},
               "adapt": {"signal": "latency_p90", "target": "200ms", "min": 10, "max": 400, "every": "10s"}"#,
        ),
        "0ms   100x ip=10.0.0.1 GET / -> pass
         0ms     2x ip=10.0.0.1 GET / -> refuse backend
         0ms   100x settle status=200 latency=1ms
         10s        ip=10.0.0.1 GET / -> refuse backend
         10s     8x ip=10.0.0.2 GET / -> pass
         10s     8x settle status=200 latency=1ms
         10s        ip=10.0.0.3 GET / -> pass backend=100
         20s        ip=10.0.0.3 GET / -> pass backend=100",
    );
}

#[test]
fn the_lowest_number_of_permits_suffices_for_one_request() {
    let some = |from: u32, at_once: u32, times: u32| {
        let turn = |n: u32| {
            let now = from * 1_000 + n;
            format!("{now}ms {at_once}x GET / -> pass\n {now}ms {at_once}x settle status=200 latency=1s\n")
        };
        (0..times).map(turn).collect::<String>()
    };
    let adapt = r#"{"signal": "latency_p90", "target": "100ms", "every": "10s"}"#;
    check(
        &rule(&format!(r#""algo": "C", "rpu": 20, "cost": 5, "adapt": {adapt}"#)),
        &[some(0, 4, 2), some(10, 2, 4), some(20, 1, 8), some(30, 1, 8), some(40, 1, 1)].concat(),
    );
}

/// Requests that have just gone on are no sign of an upstream that has stopped.
#[test]
fn only_requests_that_hang_halve_the_limit() {
    let json = permits();
    check(
        &json,
        "0ms        GET / -> pass
         0ms        forward
         9900ms 16x GET / -> pass
         9900ms 16x forward
         10s        GET / -> pass backend=2",
    );
    check(
        &json,
        "0ms    16x GET / -> pass
         0ms    16x forward
         3s      2x GET / -> pass
         10s        GET / -> refuse backend",
    );
}

/// A rate that halves if the upstream seems to have stopped or to be slow.
fn rate(signal: &str) -> String {
    rule(&format!(
        r#""rpu": 200, "unit": "second",
           "adapt": {{"signal": {signal}, "min": 10, "max": 200, "every": "1s"}}"#
    ))
}

/// Ten requests a second for four seconds, each with these lines at their times in ms.
fn ten_a_second<const N: usize>(lines: impl Fn(u64) -> [(u64, &'static str); N]) -> String {
    let mut all: Vec<_> = (0..40).flat_map(|number| lines(number * 100)).collect();
    all.sort_by_key(|(ms, _)| *ms);
    all.iter().map(|(ms, line)| format!("{ms}ms {line}\n")).collect()
}

const LATENCY: &str = r#""latency_p90", "target": "250ms""#;
const ERRORS: &str = r#""errors", "target": "5%""#;

/// WebSockets and event streams last for hours.
#[test]
fn a_response_counts_when_its_headers_come() {
    let after = |latency: u64| {
        ten_a_second(|ms| [(ms, "GET / -> pass"), (ms, "forward"), (ms + latency, "respond status=101")])
    };
    check(&rate(LATENCY), &format!("{} 5s GET / -> pass backend=199", after(1)));
    check(&rate(LATENCY), &format!("{} 4s GET / -> pass backend=138", after(300)));
}

#[test]
fn a_slow_upload_is_no_latency() {
    let fed_for = |upload: u64| {
        ten_a_second(|ms| {
            let end = ms + upload;
            [(ms, "GET / -> pass"), (end, "forward"), (end, "respond status=200")]
        })
    };
    for upload in [0, 400, 1_600, 3_000] {
        check(&rate(LATENCY), &format!("{} 8s GET / -> pass backend=199", fed_for(upload)));
    }
}

/// A response before the end of the request tells nothing about the latency, but it may be an
/// error.
#[test]
fn a_response_before_the_end_of_its_request_may_be_an_error() {
    let early = |response| ten_a_second(|ms| [(ms, "GET / -> pass"), (ms + 900, response)]);
    let [fine, error] = ["respond status=200", "respond status=503"].map(early);
    check(&rate(LATENCY), &format!("{error} 5s GET / -> pass backend=199"));
    check(&rate(ERRORS), &format!("{fine} 5s GET / -> pass backend=199"));
    check(&rate(ERRORS), &format!("{error} 5s GET / -> pass backend=45"));
}

/// Permits in the headroom are not in use, and an idle limit does not grow.
#[test]
fn the_headroom_is_no_use_of_the_limit() {
    let json = r#"{"limits": [
        {"url": "/", "rules": [{"name": "backend", "algo": "C", "rpu": 32, "headroom": 20,
            "adapt": {"signal": "latency_p90", "target": "200ms", "min": 24, "max": 64, "every": "10s"}}]},
        {"url": "/pay", "priority": "high"}]}"#;
    let one_by_one = |second: u64| {
        let at = second * 1_000;
        format!("{at}ms GET / -> pass backend=11\n {at}ms settle status=200 latency=10ms\n")
    };
    let script: String = (0..40).map(one_by_one).collect();
    check(json, &format!("{script} 40s GET / -> pass backend=11"));
}
