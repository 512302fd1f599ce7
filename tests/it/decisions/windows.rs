//! The fixed window, the sliding window and the sliding log, side by side at a window's boundary.
//!
//! START is in the middle of a second and twenty seconds into a minute of UTC.

use super::check;

fn rule(algo: &str, keys: &str) -> String {
    format!(r#"{{"url": "/", "rules": [{{"name": "r", "actor": "user", "algo": "{algo}", {keys}}}]}}"#)
}

#[test]
fn a_window_begins_at_a_full_minute_of_utc() {
    check(
        &rule("W", r#""rpu": 3, "unit": "minute""#),
        "0ms     3x user=ann GET / -> pass
         0ms        user=ann GET / -> refuse r retry=40s r=refused
         39999ms w1 user=ann GET / -> refuse r retry=1ms
         40s     w1 user=ann GET / -> pass r=2
         99s     2x user=ann GET / -> pass
         99s        user=ann GET / -> refuse r retry=1s
         100s       user=ann GET / -> pass r=2
         100s       user=bob GET / -> pass r=2",
    );
}

#[test]
fn requests_that_windows_admit_around_a_boundary() {
    let quota = r#""rpu": 3, "unit": "10s""#;
    // Twice the quota within a second.
    check(
        &rule("window", quota),
        "9500ms  3x user=ann GET / -> pass
         9500ms     user=ann GET / -> refuse r retry=500ms
         10s     3x user=ann GET / -> pass
         10s        user=ann GET / -> refuse r retry=10s",
    );
    check(
        &rule("sliding_window", quota),
        "9500ms  3x user=ann GET / -> pass
         9500ms     user=ann GET / -> refuse r retry=9500ms
         10s        user=ann GET / -> refuse r retry=9s
         19s     3x user=ann GET / -> pass
         19s        user=ann GET / -> refuse r retry=10s",
    );
    check(
        &rule("SLIDING-LOG", quota),
        "9500ms  3x user=ann GET / -> pass
         9500ms     user=ann GET / -> refuse r retry=10s
         10s        user=ann GET / -> refuse r retry=9500ms
         19500ms 3x user=ann GET / -> pass
         19500ms    user=ann GET / -> refuse r retry=10s",
    );
}

#[test]
fn a_sliding_window_frees_a_slice_when_the_slice_leaves() {
    check(
        &rule("SW", r#""rpu": 4, "unit": "10s", "slices": 5"#),
        "0ms       user=ann GET / -> pass r=3
         1999ms    user=ann GET / -> pass r=2
         2s     w1 user=ann GET / -> pass r=1
         5s     w2 user=ann GET / -> pass r=0
         5s        user=ann GET / -> refuse r retry=5s
         9999ms w1 user=ann GET / -> refuse r retry=1ms
         10s    w2 user=ann GET / -> pass r=1
         11s    w2 user=ann GET / -> pass r=0
         11s    w3 user=ann GET / -> refuse r retry=1s
         12s       user=ann GET / -> pass r=0
         1m        user=ann GET / -> pass r=3",
    );
}

#[test]
fn a_sliding_log_frees_each_request_a_unit_after_it() {
    check(
        &rule("SL", r#""rpu": 3, "unit": "10s""#),
        "1s           user=ann GET / -> pass r=2
         4s     w1 2x user=ann GET / -> pass
         9s        3x user=ann GET / -> refuse r retry=2s
         10999ms      user=ann GET / -> refuse r retry=1ms
         11s       w2 user=ann GET / -> pass r=0
         11s          user=ann GET / -> refuse r retry=3s
         14s          user=ann GET / -> pass r=1
         14s          user=bob GET / -> pass r=2",
    );
}

#[test]
fn a_clock_that_steps_back_opens_no_new_window() {
    for algo in ["W", "SW", "SL"] {
        check(
            &rule(algo, r#""rpu": 2, "unit": "minute""#),
            "1d     2x user=ann GET / -> pass
             1d        user=ann GET / -> refuse r
             86399s w1 user=ann GET / -> refuse r
             1h     w2 user=ann GET / -> refuse r
             3661s  w3 user=ann GET / -> pass r=1",
        );
    }
}
