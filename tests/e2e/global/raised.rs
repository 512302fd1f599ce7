//! A raised global limit keeps its count in the store, also for a gateway that starts later.

use super::{Shared, connections, counted, in_redis, passed, shared_rule};
use crate::remote::raised::passed_until;
use gateway::Update;
use serde_json::{Value, json};

const BEFORE: usize = 20;
const AFTER: usize = 2_000;
const PATHS: [&str; 3] = ["/tb", "/w", "/sw"];

fn limits(rpu: usize) -> Value {
    let rule = |algo: &str| {
        let name = algo.to_lowercase();
        shared_rule(&format!("=/{name}"), &name, &json!({"algo": algo, "rpu": rpu, "unit": "7d"}))
    };
    json!(["TB", "W", "SW"].map(rule))
}

#[test]
fn a_raised_limit_frees_exactly_the_difference() {
    let patient = json!({"timeout": "5s"});
    let mut shared = Shared::with(patient.clone(), &limits(BEFORE), |config| config);
    shared.gateways.truncate(1);
    for path in PATHS {
        let mut connections = connections(&shared.gateways, 2);
        assert_eq!(passed(&mut connections, path, "ann", BEFORE + 5), BEFORE, "{path}");
    }
    let raised = json!({"limits": limits(AFTER), "store": in_redis(patient)});
    assert_eq!(shared.gateways[0].update(raised.clone()).unwrap(), Update::Accepted);
    let later = shared.another(&raised);
    shared.gateways.push(later);
    let mut connections = connections(&shared.gateways, 2);
    for path in PATHS {
        assert_eq!(passed_until(&mut connections, path, AFTER - BEFORE), AFTER - BEFORE, "{path}");
        assert_eq!(counted(&shared.gateways, &format!("rule.{}.degraded", &path[1..])), 0, "{path}");
    }
}
