//! What operators see of a count is what the next response would show.

use diana_base::time::{Span, Time};
use diana_calendar::{Calendar, Unit, Zone};
use diana_limiter::cells::store::{CasSemantics, SharedDataStore};
use diana_limiter::inspect::{ActorCount, Grant, Target};
use diana_limiter::policy::{Policy, Usage};
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_response::ResponseOptions;
use diana_testing::shared_data::Simulated;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const RULES: [&str; 8] = [
    r#""rpu": 6, "unit": "minute""#,
    r#""rpu": 6, "unit": "minute", "start": "empty""#,
    r#""algo": "W", "rpu": 6, "unit": "minute""#,
    r#""algo": "SW", "rpu": 6, "unit": "minute""#,
    r#""algo": "SL", "rpu": 6, "unit": "minute""#,
    r#""algo": "LB", "rpu": 6, "unit": "minute", "queue": 3"#,
    r#""algo": "W", "rpu": 6, "unit": "minute", "headroom": 2"#,
    r#""algo": "W", "rpu": 6, "unit": "minute", "penalty": {"after": 2, "for": "1h"}"#,
];

const INSPECT: &str = r#""inspect": {"path": "/.diana", "token": "0123456789abcdef0123456789abcdef"},"#;

/// A rule, a worker that reserves, and a clock.
struct Gateway {
    policy: Arc<Policy>,
    response: ResponseOptions,
    worker: Worker<Rc<SharedDataStore<Simulated>>>,
    now: Cell<Time>,
}

impl Gateway {
    fn new(rule: &str) -> Gateway {
        let document = format!(
            r#"{{{INSPECT} "limits": [{{"url": "/", "rules": [{{"name": "rule", "actor": "user", {rule}}}]}},
                {{"url": "/high", "priority": "high", "rules": [{{"name": "other", "rpu": "1M", "unit": "second"}}]}}]}}"#
        );
        Gateway::of(&document)
    }

    fn of(document: &str) -> Gateway {
        let compiled = diana_config::compile(document.as_bytes()).unwrap();
        let store = SharedDataStore::probe(Simulated::new(CasSemantics::Strict)).unwrap();
        let worker = Worker::new(compiled.policy.clone(), Rc::new(store), &[7; 16]);
        let now = Cell::new(Time::from_ns(1_795_392_000_000_000_000));
        Gateway { policy: compiled.policy, response: compiled.response, worker, now }
    }

    /// Sends a request of the user. Returns what the response shows as left, and whether it passes.
    fn request(&mut self, user: &str) -> (u64, bool) {
        self.request_with(user, "")
    }

    /// Sends a request of the user, whose month begins on this day.
    fn request_with(&mut self, user: &str, day: &str) -> (u64, bool) {
        let values = Values::default().with(Part::Path, "/").with(Part::Header("x-user-id".into()), user);
        let values = values.with(Part::Header("x-day".into()), day);
        let request = self.policy.request(&values);
        let now = || self.now.get();
        let (_, decision) = Session::start(&mut self.worker, &request, now);
        let headers = self.response.headers(&self.policy, decision);
        let (_, shown) = headers.iter().find(|(name, _)| *name == "ratelimit").unwrap();
        let left = shown.split(r#""rule";r="#).nth(1).unwrap().split(';').next().unwrap();
        (left.parse().unwrap(), !decision.is_rejected())
    }

    fn target(&self, user: &str) -> Target {
        let parameter = |name: &str| (name == "rule").then(|| "rule".to_owned());
        let actor = |name: &str| (name == "user").then(|| user.to_owned());
        Target::find(&self.worker, parameter, actor).unwrap()
    }

    fn count(&self, user: &str) -> ActorCount {
        self.target(user).count(&self.worker, || self.now.get()).unwrap()
    }

    fn end_penalty(&mut self, user: &str) {
        let target = self.target(user);
        target.end_penalty(&mut self.worker, || self.now.get()).unwrap();
    }

    fn grant(&mut self, user: &str, amount: u64, seconds: u64) {
        let (target, grant) = (self.target(user), Grant { amount, lasts: Span::from_secs(seconds) });
        assert!(target.takes_grants(&self.policy));
        target.grant(grant, &mut self.worker, || self.now.get()).unwrap();
    }

    fn reserved(&self, user: &str) -> Option<u64> {
        self.target(user).reserved(&self.worker, || self.now.get())
    }

    fn wait(&self, ms: u64) {
        self.now.set(self.now.get().after(Span::from_ms(ms)));
    }

    /// How many requests of the user pass at this instant.
    fn passing(&mut self, user: &str) -> usize {
        (0..5_000).take_while(|_| self.request(user).1).count()
    }

    /// Goes on in another worker of the same gateway.
    fn another_worker(&mut self) {
        self.worker = Worker::new(self.policy.clone(), self.worker.store().clone(), &[7; 16]);
    }

    fn reload(&mut self, document: &str) {
        let compiled = diana_config::compile(document.as_bytes()).unwrap();
        self.worker.tick(|| self.now.get(), true);
        (self.policy, self.response) = (compiled.policy, compiled.response);
        self.worker = Worker::new(self.policy.clone(), self.worker.store().clone(), &[7; 16]);
    }

    fn reset(&mut self, user: &str) {
        let target = self.target(user);
        target.reset(&mut self.worker, || self.now.get()).unwrap();
    }
}

/// A question brings no day, but the stored end shows when the actor's month ends.
#[test]
fn a_month_by_the_request_ends_when_the_actors_own_month_does() {
    let zone = Zone::named("Europe/Berlin").unwrap().unwrap();
    for (default, day) in [1, 15, 31].into_iter().flat_map(|default| (1..=31).map(move |day| (default, day)))
    {
        let mut gateway = Gateway::new(&format!(
            r#""algo": "W", "rpu": 1000, "unit": "month", "timezone": "Europe/Berlin",
            "anchor": {{"hour": 6, "day": {{"header": "x-day", "default": {default}}}}}"#
        ));
        let calendar = Calendar { day, hour: 6, zone, ..Calendar::new(Unit::Month) };
        let (mut counted, mut end) = (0, 0);
        for _ in 0..120 {
            gateway.wait(97 * 3_600_000);
            let now = gateway.now.get();
            let period = calendar.period(now.as_ns() / 1_000_000_000);
            if period.end != end {
                (counted, end) = (0, period.end);
            }
            let ends_in = Time::ZERO.after(Span::from_secs(end)).since(now);
            for _ in 0..2 {
                let count = gateway.count("ann");
                let expected = if counted > 0 { ends_in } else { Span::ZERO };
                let seen = (count.used, count.more_in, count.full_in);
                assert_eq!(
                    seen,
                    (counted, expected, expected),
                    "day {day}, by default {default}, at {now:?}"
                );
                counted += u64::from(gateway.request_with("ann", &day.to_string()).1);
            }
        }
    }
}

#[test]
fn a_look_is_what_the_next_response_shows_and_changes_nothing() {
    for rule in RULES {
        let mut gateway = Gateway::new(rule);
        let mut other = Gateway::new(rule);
        for round in 0..40 {
            let before = gateway.count("ann");
            let (left, passes) = gateway.request("ann");
            assert_eq!((left, passes), other.request("ann"), "{rule}, {round}: a look changes nothing");
            assert_eq!(before.is_refused, !passes, "{rule}, {round}: {before:?}");
            assert_eq!(gateway.count("ann").remaining, left, "{rule}, {round}");
            assert_eq!(gateway.count("bob"), other.count("bob"), "{rule}");
            for gateway in [&gateway, &other] {
                let later = gateway.now.get().after(Span::from_ms(if round % 7 == 6 { 20_000 } else { 30 }));
                gateway.now.set(later);
            }
        }
    }
}

#[test]
fn a_reset_actor_is_like_a_new_one_and_nobody_else_is() {
    for rule in RULES {
        let mut gateway = Gateway::new(rule);
        let new = gateway.count("ann");
        for _ in 0..12 {
            gateway.request("ann");
            gateway.request("bob");
        }
        let bob = gateway.count("bob");
        gateway.reset("ann");
        assert_eq!((gateway.count("ann"), gateway.count("bob")), (new, bob), "{rule}");
        assert_eq!((gateway.request("ann").1, gateway.request("bob").1), (!new.is_refused, !bob.is_refused));
        gateway.reset("nobody");
    }
}

#[test]
fn the_end_of_a_penalty_leaves_the_count_and_the_next_penalty() {
    let mut gateway =
        Gateway::new(r#""algo": "SW", "rpu": 6, "unit": "minute", "penalty": {"after": 2, "for": "1h"}"#);
    let mut other = Gateway::new(r#""algo": "SW", "rpu": 6, "unit": "minute""#);
    for gateway in [&mut gateway, &mut other] {
        (0..9).for_each(|_| _ = gateway.request("ann"));
        (0..9).for_each(|_| _ = gateway.request("bob"));
    }
    let bob = gateway.count("bob");
    assert_eq!(gateway.count("ann").penalty, Span::from_secs(3_600));
    gateway.end_penalty("ann");
    assert_eq!((gateway.count("ann"), gateway.count("bob")), (other.count("ann"), bob));
    assert_eq!(gateway.request("ann"), other.request("ann"), "the quota still refuses");

    // One more refusal, and the next penalty begins. Counted refusals stay counted without one.
    gateway.end_penalty("ann");
    assert_eq!(gateway.request("ann"), other.request("ann"));
    assert_eq!(gateway.count("ann").penalty, Span::from_secs(3_600));
    gateway.end_penalty("ann");
    gateway.now.set(gateway.now.get().after(Span::from_secs(120)));
    assert_eq!(gateway.request("ann"), (5, true));
}

/// Each rule that a grant can lift: all but the one whose penalty runs once the quota is used up.
fn granting() -> impl Iterator<Item = &'static str> {
    RULES.into_iter().filter(|rule| !rule.contains("penalty"))
}

#[test]
fn a_grant_adds_exactly_its_amount_in_every_worker() {
    for rule in granting() {
        let mut gateway = Gateway::new(rule);
        gateway.passing("ann");
        gateway.passing("bob");
        let (ann, bob) = (gateway.count("ann"), gateway.count("bob"));
        gateway.grant("ann", 3, 60);
        let granted = ActorCount { granted: 3, granted_for: Span::from_secs(60), is_refused: false, ..ann };
        assert_eq!((gateway.count("ann"), gateway.count("bob")), (granted, bob), "{rule}");

        // At once here, and after 100 ms in a worker that has cached a refusal. The header shows
        // the quota alone, of which nothing is left.
        assert_eq!(gateway.request("ann"), (0, true), "{rule}");
        gateway.another_worker();
        assert_eq!(gateway.passing("ann"), 2, "{rule}");
        assert_eq!(gateway.count("ann"), ann, "{rule}: used up");
        gateway.wait(100);
        assert_eq!((gateway.passing("ann"), gateway.passing("bob")), (0, 0), "{rule}");
    }
}

#[test]
fn a_grant_is_spent_only_where_the_quota_refuses_and_ends() {
    for rule in granting() {
        let (mut gateway, mut other) = (Gateway::new(rule), Gateway::new(rule));
        gateway.grant("ann", 3, 60);
        let quota = other.passing("ann");
        assert_eq!(gateway.passing("ann"), quota + 3, "{rule}");
        // The quota refills as without a grant.
        [&gateway, &other].iter().for_each(|gateway| gateway.wait(25_000));
        let refilled = other.passing("ann");
        assert_eq!(gateway.passing("ann"), refilled, "{rule}");

        // A second grant replaces the first, which has 2 units left.
        gateway.grant("ann", 3, 60);
        assert!(gateway.request("ann").1);
        gateway.grant("ann", 5, 1);
        assert!(gateway.request("ann").1);
        assert_eq!(gateway.count("ann").granted, 4, "{rule}");
        [&gateway, &other].iter().for_each(|gateway| gateway.wait(1_000));
        assert_eq!(
            (gateway.count("ann"), gateway.passing("ann")),
            (other.count("ann"), other.passing("ann"))
        );

        // A reset forgets the grant, too, also of an actor that never came.
        for user in ["ann", "carl"] {
            gateway.grant(user, 3, 60);
            gateway.reset(user);
            assert_eq!(gateway.count(user).granted, 0, "{rule}");
        }
    }
}

#[test]
fn a_reload_keeps_counts_and_grants() {
    let document = |inspect: &str, rpu: u64| {
        format!(
            r#"{{{inspect} "limits": [{{"url": "/", "rules": [
                {{"name": "rule", "actor": "user", "algo": "W", "rpu": {rpu}, "unit": "day"}},
                {{"name": "open", "actor": "user", "algo": "C", "rpu": 1000}}]}}]}}"#
        )
    };
    let mut gateway = Gateway::of(&document("", 6));
    assert_eq!(gateway.passing("ann"), 6);
    assert!(!gateway.target("ann").takes_grants(&gateway.policy), "no room without `inspect`");
    gateway.wait(1_000);
    gateway.reload(&document(INSPECT, 6));
    assert_eq!(gateway.passing("ann"), 0, "a document with `inspect` keeps what was used");
    gateway.grant("ann", 5, 3_600);
    assert!(gateway.request("ann").1);

    gateway.wait(1_000);
    gateway.reload(&document(INSPECT, 5));
    assert_eq!(gateway.count("ann").granted, 4);
    assert!(gateway.request("ann").1);
    // Back again: the grant has what is left of it.
    gateway.wait(1_000);
    gateway.reload(&document(INSPECT, 6));
    assert_eq!(gateway.passing("ann"), 3);
    assert_eq!(gateway.count("ann").granted, 0);
    gateway.wait(1_000);
    gateway.reload(&document(INSPECT, 5));
    assert_eq!(gateway.passing("ann"), 0);

    gateway.grant("ann", 2, 3_600);
    gateway.reload(&document("", 5));
    assert_eq!(gateway.passing("ann"), 0, "without `inspect` there are no grants");

    let open = |name: &str| (name == "rule").then(|| "open".to_owned());
    let target = Target::find(&gateway.worker, open, |_| Some("ann".to_owned())).unwrap();
    assert!(!target.takes_grants(&gateway.policy));
}

/// What workers hold reserved is spent or comes back, and a grant is spent once.
#[test]
fn two_busy_workers_admit_the_quota_and_the_grant() {
    let mut gateway = Gateway::new(r#""algo": "W", "rpu": 1000, "unit": "day""#);
    let mut other = Worker::new(gateway.policy.clone(), gateway.worker.store().clone(), &[7; 16]);
    gateway.grant("ann", 50, 3_600);
    let mut admitted = 0;
    for _ in 0..40 {
        for _ in 0..30 {
            admitted += usize::from(gateway.request("ann").1);
            std::mem::swap(&mut gateway.worker, &mut other);
        }
        gateway.wait(100);
        for worker in [&mut gateway.worker, &mut other] {
            worker.tick(|| gateway.now.get(), false);
        }
    }
    assert_eq!(admitted, 1_050);
}

#[test]
fn a_charge_to_a_grant_is_withdrawn_refunded_and_settled_there() {
    // Another rule refuses: the grant pays for nothing.
    let two =
        r#""algo": "W", "rpu": 1, "unit": "day"}, {"name": "all", "algo": "W", "rpu": 2, "unit": "day""#;
    let mut gateway = Gateway::new(two);
    gateway.grant("ann", 5, 3_600);
    assert_eq!((gateway.passing("ann"), gateway.count("ann").granted), (2, 4));

    // A request that waits for another rule's turn, and leaves.
    let queue = r#""algo": "W", "rpu": 1, "unit": "day"}, {"name": "turn", "algo": "LB", "rpu": 1, "unit": "second", "queue": 5"#;
    let mut gateway = Gateway::new(queue);
    gateway.grant("ann", 5, 3_600);
    assert!(gateway.request("ann").1);
    let values = Values::default().with(Part::Path, "/").with(Part::Header("x-user-id".into()), "ann");
    let request = gateway.policy.request(&values);
    let now = gateway.now.get();
    let (mut session, _) = Session::start(&mut gateway.worker, &request, || now);
    assert!(session.is_waiting());
    let left = |gateway: &Gateway| gateway.count("ann").granted;
    assert_eq!(left(&gateway), 4);
    session.settle(&mut gateway.worker, || now);
    assert_eq!(left(&gateway), 5);

    // The response decides about the charge.
    let failed = r#""algo": "W", "rpu": 1, "unit": "day", "charge": {"status": [401]}"#;
    let mut gateway = Gateway::new(failed);
    gateway.grant("ann", 2, 3_600);
    let log_in = |gateway: &mut Gateway, status: u16| {
        let Gateway { policy, worker, .. } = &mut *gateway;
        let request = policy.request(&values);
        let (mut session, decision) = Session::start(worker, &request, || now);
        let passes = !decision.is_rejected();
        let usage = Usage { status: Some(status), ..Usage::default() };
        session.settle_used(worker, &usage, || now);
        (passes, gateway.count("ann").granted)
    };
    let seen: Vec<_> = [401, 200, 401, 200, 401, 401].map(|status| log_in(&mut gateway, status)).into();
    assert_eq!(seen, [(true, 2), (true, 2), (true, 1), (true, 1), (true, 0), (false, 0)]);
}

/// A quota of 0 has no state of its own.
#[test]
fn a_blocked_actor_can_get_a_grant() {
    let overridden = Gateway::new(r#""rpu": 6, "unit": "minute", "overrides": {"ann": {"rpu": 0}}"#);
    for mut gateway in [Gateway::new(r#""rpu": 0, "unit": "minute""#), overridden] {
        assert_eq!(gateway.passing("ann"), 0);
        gateway.grant("ann", 2, 60);
        assert_eq!((gateway.passing("ann"), gateway.count("ann").granted), (2, 0));
    }
}

#[test]
fn a_penalty_outlasts_a_grant() {
    let mut gateway =
        Gateway::new(r#""algo": "W", "rpu": 2, "unit": "day", "penalty": {"after": 2, "for": "1h"}"#);
    (0..4).for_each(|_| _ = gateway.request("ann"));
    gateway.grant("ann", 3, 7_200);
    assert!(gateway.count("ann").is_refused && !gateway.request("ann").1);
    gateway.end_penalty("ann");
    assert_eq!(gateway.passing("ann"), 3);
}

/// What the worker has reserved does not count as used, and other workers have none of it.
#[test]
fn a_look_tells_what_the_worker_has_reserved() {
    let mut gateway = Gateway::new(r#""algo": "W", "rpu": 1000, "unit": "minute""#);
    assert_eq!(gateway.reserved("ann"), None);
    // From the fourth request on the worker reserves a 64th of what is left.
    (0..4).for_each(|_| _ = gateway.request("ann"));
    assert_eq!((gateway.reserved("ann"), gateway.count("ann").used), (Some(996 / 64), 4));
    gateway.request("ann");
    assert_eq!((gateway.reserved("ann"), gateway.count("ann").used), (Some(996 / 64 - 1), 5));
    assert_eq!(gateway.reserved("bob"), None);
    gateway.another_worker();
    assert_eq!((gateway.reserved("ann"), gateway.count("ann").used), (None, 4 + 996 / 64));
}

/// After a reset, going back to an earlier configuration brings no grant back.
#[test]
fn a_reset_takes_a_grant_for_good() {
    let document = |rpu: u64| {
        format!(
            r#"{{{INSPECT} "limits": [{{"url": "/", "rules": [
                {{"name": "rule", "actor": "user", "algo": "W", "rpu": {rpu}, "unit": "day"}},
                {{"name": "open", "actor": "user", "algo": "C", "rpu": {rpu}}}]}}]}}"#
        )
    };
    let mut gateway = Gateway::of(&document(6));
    gateway.grant("ann", 3, 3_600);
    gateway.reload(&document(7));
    assert_eq!(gateway.count("ann").granted, 3);
    gateway.reset("ann");
    gateway.reload(&document(6));
    assert_eq!(gateway.count("ann").granted, 0);
}

/// All plans judge one state, so a change needs none to reach it.
#[test]
fn a_change_reaches_the_counts_of_all_plans() {
    let document = format!(
        r#"{{{INSPECT} "plan": {{"header": "x-plan"}}, "limits": [{{"url": "/", "rules": [
            {{"name": "rule", "actor": "user", "algo": "W", "rpu": 9, "unit": "day", "plans": {{
                "gold": {{"rpu": 2, "penalty": {{"after": 2, "for": "1h"}}}}, "internal": "unlimited"}}}}]}}]}}"#
    );
    let mut gateway = Gateway::of(&document);
    let ask = |gateway: &mut Gateway| {
        let values = Values::default().with(Part::Path, "/").with(Part::Header("x-plan".into()), "gold");
        let values = values.with(Part::Header("x-user-id".into()), "ann");
        let request = gateway.policy.request(&values);
        !Session::start(&mut gateway.worker, &request, || gateway.now.get()).1.is_rejected()
    };
    let seen = |gateway: &Gateway, plan: &str| {
        let parameter = |name: &str| match name {
            "rule" => Some("rule".to_owned()),
            "plan" => Some(plan.to_owned()).filter(|plan| !plan.is_empty()),
            _ => None,
        };
        let target = Target::find(&gateway.worker, parameter, |_| Some("ann".to_owned())).unwrap();
        assert!(target.has_penalty(&gateway.policy));
        let count = target.count(&gateway.worker, || gateway.now.get()).unwrap();
        (count.used, count.remaining, count.penalty > Span::ZERO)
    };
    for change in [Gateway::reset, Gateway::end_penalty] {
        let sent: Vec<bool> = (0..5).map(|_| ask(&mut gateway)).collect();
        assert_eq!(sent, [true, true, false, false, false]);
        assert_eq!((seen(&gateway, "gold"), seen(&gateway, "")), ((2, 0, true), (2, 7, true)));
        assert_eq!(seen(&gateway, "internal"), (2, 7, true), "shown by the rule's own quota");
        change(&mut gateway, "ann");
        assert!(!seen(&gateway, "gold").2);
        gateway.reset("ann");
        assert_eq!((seen(&gateway, "gold"), seen(&gateway, "")), ((0, 2, false), (0, 9, false)));
    }
    // A client spends a grant under any plan.
    (0..2).for_each(|_| assert!(ask(&mut gateway)));
    gateway.grant("ann", 3, 60);
    assert_eq!((0..5).map(|_| ask(&mut gateway)).collect::<Vec<_>>(), [true, true, true, false, false]);
}

/// However documents go forwards and back: what was granted is granted once, also if it is spent
/// under a document in which nobody can get a grant.
#[test]
fn a_grant_is_spent_once_and_a_penalty_ends_once() {
    let document = |rpu: u64, neighbour: &str| {
        format!(
            r#"{{{INSPECT} "limits": [{{"url": "/", "rules": [
                {{"name": "rule", "actor": "user", "algo": "W", "rpu": {rpu}, "unit": "day",
                  "penalty": {{"after": 40, "for": "2h"}}}}{neighbour}]}}]}}"#
        )
    };
    let beside = r#", {"name": "open", "actor": "user", "rpu": 5000, "unit": "second"}"#;
    let documents =
        [document(3, ""), document(4, ""), document(5, beside), document(6, ""), document(3, beside)];
    let mut gateway = Gateway::of(&documents[0]);
    assert_eq!(gateway.passing("ann"), 3);
    gateway.grant("ann", 10, 3_600);
    let mut passed = 0;
    for at in [1, 2, 3, 0, 4, 0, 2, 1, 3, 0] {
        gateway.reload(&documents[at]);
        passed += (0..2).filter(|_| gateway.request("ann").1).count();
    }
    // Three more than the first quota, by the document with six.
    assert_eq!((passed, gateway.count("ann").granted), (10 + 3, 0));
    gateway.reload(&documents[0]);
    (0..40).for_each(|_| _ = gateway.request("ann"));
    assert!(gateway.count("ann").penalty > Span::ZERO);
    gateway.reload(&documents[1]);
    assert!(gateway.count("ann").penalty > Span::ZERO);
    gateway.end_penalty("ann");
    for at in [2, 3, 0, 4, 1] {
        gateway.reload(&documents[at]);
        assert_eq!(gateway.count("ann").penalty, Span::ZERO);
    }
}

#[test]
fn operators_see_the_limit_that_the_last_counted_request_brought() {
    let rule = r#""algo": "W", "unit": "day", "rpu": {"header": "x-limit", "default": 3, "max": 10}"#;
    let mut gateway = Gateway::new(rule);
    let request = |gateway: &mut Gateway, limit: &str| {
        let values = Values::default()
            .with(Part::Path, "/")
            .with(Part::Header("x-user-id".into()), "ann")
            .with(Part::Header("x-limit".into()), limit);
        let (policy, now) = (gateway.policy.clone(), gateway.now.get());
        let (_, decision) = Session::start(&mut gateway.worker, &policy.request(&values), || now);
        !decision.is_rejected()
    };
    let shown = |gateway: &Gateway| {
        let ActorCount { quota, used, remaining, .. } = gateway.count("ann");
        (quota.rpu, used, remaining)
    };
    assert_eq!(shown(&gateway), (3, 0, 3));
    assert!(request(&mut gateway, "5"));
    assert_eq!(shown(&gateway), (5, 1, 4));
    assert!(request(&mut gateway, "99"));
    assert_eq!(shown(&gateway), (10, 2, 8));
    assert!(request(&mut gateway, "-"));
    assert_eq!(shown(&gateway), (3, 3, 0));
    // A refused request is counted nowhere.
    assert!(!request(&mut gateway, "2"));
    assert_eq!(shown(&gateway), (3, 3, 0));
    assert_eq!(gateway.reserved("ann"), None);
    let target = gateway.target("ann");
    target.reset(&mut gateway.worker, || gateway.now.get()).unwrap();
    assert_eq!(shown(&gateway).1, 0);
}
