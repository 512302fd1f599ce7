//! Leases of rules with plans.

use super::*;
use crate::harness::{START, get, store};
use diana_config::{Configuration, compile};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::decide::Outcome;
use diana_limiter::request::Part;
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;

#[test]
fn a_lease_belongs_to_the_quota_for_which_it_was_fetched() {
    let json = r#"{"plan": {"header": "x-plan"}, "limits": [{"url": "/", "rules": [{"name": "r",
            "actor": "user", "rpu": 100, "unit": "minute", "scope": "global", "lease": 10,
            "plans": {"gold": {"rpu": 1000}}}]}],
        "store": {"redis": {"cluster": "a", "secret": "a secret of the tests only"}}}"#;
    let Configuration { policy, store: options, .. } = compile(json.as_bytes()).unwrap();
    let host = Simulated::new(CasSemantics::Lenient);
    let mut worker =
        Worker::new(policy.clone(), store(&host), &[1; 16]).with_global_store(options.unwrap(), 1);
    let start = |worker: &mut Worker<_>, plan: &str| {
        let values = get("/", "ann").with(Part::Header("x-plan".into()), plan);
        let (session, decision) = Session::start(worker, &policy.request(&values), || START);
        (session, decision.outcome)
    };
    let (mut session, _) = start(&mut worker, "gold");
    let call = worker.next_call(at(0)).unwrap();
    // Admitted, 980 left, a charge, and 10 units of generation 3 for a second.
    let granted = reply(&call, &[0, 0, 980, 600_000, 6_000_000, 1, 7, 7, 0, 0, 10, 3, 1_000_000]);
    let completions = worker.call_done(call.id, http(&granted), at(0));
    assert_eq!(session.answer(&mut worker, &completions[0], || START).unwrap().outcome, Outcome::Pass);
    assert_eq!(start(&mut worker, "gold").1, Outcome::Pass, "spends the lease");
    assert!(matches!(start(&mut worker, "").1, Outcome::Query(_)), "has no lease");
    assert_eq!(start(&mut worker, "gold").1, Outcome::Pass);
}
