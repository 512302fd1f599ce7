//! Two gateways with made-up traffic, and one that is down.

use crate::fake::{Fake, Fault, policy};
use serde_json::{Value, json};

/// Three gateways: one with an older document, and the last one down.
pub fn gateways() -> [Fake; 3] {
    let gateways = [Fake::start(), Fake::start(), Fake::start()];
    for (place, gateway) in gateways.iter().enumerate() {
        let mut state = gateway.state();
        state.policy = policy();
        state.policy["rules"] = rules();
        state.rates = rates(place);
        state.top = top(place);
        state.counts.insert("rule=per%2Duser&user=mallory".into(), count(place));
    }
    gateways[1].state().policy["fingerprint"] = "5c0de1f00d5c0de1".into();
    gateways[1].state().policy["rules"][1]["rpu"] = json!(200);
    gateways[2].fault(Fault::CutOff);
    gateways
}

fn rules() -> Value {
    json!([
        {"name": "per-user", "scope": "local", "actors": ["user"], "rpu": 100, "unit_ms": 60_000, "algorithm": "TB", "enforce": "100%"},
        {"name": "per-ip", "scope": "global", "actors": ["ip"], "rpu": 20, "unit_ms": 1_000, "algorithm": "W", "enforce": "100%"},
        {"name": "log-in", "scope": "local", "rpu": 5, "unit_ms": 60_000, "algorithm": "SL", "enforce": "20%"},
    ])
}

/// A wave of requests, and a burst that one rule refuses.
fn rates(place: usize) -> Value {
    let wave = |base: f64, height: f64| -> Vec<u64> {
        let second = |at: u32| base + height * (f64::from(at + 7 * place as u32) / 8.0).sin();
        (0..60).map(|at| second(at).round() as u64).collect()
    };
    let burst = |most: u64| -> Vec<u64> {
        (0..60u64).map(|at| if at < 32 { 0 } else { most * (30 - at.abs_diff(48)) / 30 }).collect()
    };
    json!({"seconds": 60, "waiting": 3 - place, "rules": [
        {"rule": "per-user", "ok": wave(80.0, 18.0), "refused": burst(44), "shadow": vec![0; 60], "error": vec![0; 60]},
        {"rule": "per-ip", "ok": wave(140.0, 30.0), "refused": vec![0; 60], "shadow": vec![0; 60], "error": vec![0; 60]},
        {"rule": "log-in", "ok": wave(6.0, 3.0), "refused": vec![0; 60], "shadow": burst(7), "error": vec![0; 60]},
    ], "stores": [{
        "store": "redis",
        "breaker": if place == 1 { "open" } else { "closed" },
        "calls": wave(30.0, 5.0),
        "failed": if place == 1 { burst(5) } else { vec![0; 60] },
    }]})
}

fn top(place: usize) -> Value {
    let actor = |user: &str, count: u64| json!({"actor": {"user": user}, "count": count, "error": 2 * place});
    json!({"rule": "per-user", "by": "refused", "since_ms": 1_795_702_500_000_u64, "error_bound": 2, "actors": [
        actor("mallory", 611 - 90 * place as u64), actor("trudy", 48), actor("batch-import", 17), actor("ann", 2),
    ]})
}

fn count(place: usize) -> Value {
    json!({
        "rule": "per-user", "quota": 100, "quota_ms": 60_000, "used": 100 - 31 * place, "remaining": 31 * place,
        "more_in_ms": 600, "full_in_ms": 60_000 - 20_000 * place, "penalty_ms": 90_000 * (1 - place.min(1)),
        "granted": 0, "granted_for_ms": 0, "reserved": 4 * place, "is_refused": place == 0,
    })
}
