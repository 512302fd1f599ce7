//! A month's budget of tokens for each tenant: the document of the cookbook, in Envoy and in Redis.

use crate::global::{Shared, in_redis};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use diana_calendar::{Calendar, Unit, Zone, timestamp};
use gateway::{Carrier, Config, Gateway, Received, Reply, Response, Upstream, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, SystemTime};

const PATIENCE: Duration = Duration::from_secs(20);
const INSPECT: &str = "0123456789abcdef0123456789abcdef";
const BUDGET: u64 = 100_000;

/// The document of the cookbook with a smaller budget.
fn document() -> Value {
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cookbook/token-month.yaml");
    let mut document: Value = serde_norway::from_str(&fs::read_to_string(recipe).unwrap()).unwrap();
    document["inspect"] = json!({"path": "/.diana", "token": INSPECT});
    document["store"] = in_redis(json!({}));
    let rule = &mut document["limits"][0]["rules"][0];
    rule["rpu"] = json!(BUDGET);
    for (key, tokens) in [("estimate", 100), ("default", 100), ("max", BUDGET)] {
        rule["cost"][key] = json!(tokens);
    }
    document
}

/// A model that uses as many tokens as the path says, and echoes the mark that it got.
fn model() -> Upstream {
    Upstream::start(|request: &Received| {
        let tokens: u64 = request.path.rsplit('/').next().and_then(|last| last.parse().ok()).unwrap_or(0);
        let marks = request.headers.iter().filter(|(name, _)| name == "x-budget");
        let marks: Vec<&str> = marks.map(|(_, value)| value.as_str()).collect();
        let body = json!({"usage": {"total_tokens": tokens}}).to_string();
        Reply::new(200, body)
            .header("content-type", "application/json")
            .header("x-seen", format!("[{}]", marks.join("|")))
    })
    .unwrap()
}

/// A tenant whose month begins on this day.
struct Tenant<'g> {
    /// They take turns.
    gateways: &'g [Gateway],
    name: &'static str,
    day: u8,
}

impl Tenant<'_> {
    fn uses(&self, turn: usize, tokens: u64) -> Response {
        let claims = json!({"tenant": self.name, "billing": {"day": self.day}}).to_string();
        let bearer = format!("Bearer e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let gateway = &self.gateways[turn % self.gateways.len()];
        // The client sends a mark of its own choice.
        let headers = [("authorization", &*bearer), ("x-budget", "high")];
        gateway.get(&format!("/v1/chat/{tokens}"), &headers).unwrap()
    }

    /// The tenant's count, by any gateway.
    fn count(&self, turn: usize) -> Value {
        let headers = [("authorization", &*format!("Bearer {INSPECT}"))];
        let path = format!("/.diana/actor?rule=tokens&tenant={}", self.name);
        let gateway = &self.gateways[turn % self.gateways.len()];
        serde_json::from_str(&gateway.get(&path, &headers).unwrap().text()).unwrap()
    }

    /// Waits until this many tokens are used.
    fn wait_for(&self, used: u64) {
        let count = || self.count(1);
        wait_until("the tokens to be settled", PATIENCE, || (count()["used"] == used).then_some(()))
            .unwrap_or_else(|error| panic!("{error}: {}: {}, not {used}", self.name, count()));
    }

    /// The seconds from 1970 to the end of the month, and those that are left.
    fn end(&self) -> (u64, u64) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let zone = Zone::named("Europe/Berlin").unwrap().unwrap();
        let end = Calendar { day: self.day, zone, ..Calendar::new(Unit::Month) }.period(now).end;
        (end, end - now)
    }

    /// Checks that the tenant is refused until its month ends, and that the operator sees it.
    fn assert_refused(&self) {
        for turn in 0..3 {
            let refused = self.uses(turn, 1);
            let (end, left) = self.end();
            assert_eq!(refused.status, 403, "{}", self.name);
            assert_eq!(refused.header("content-type"), Some("application/problem+json"));
            let problem: Value = serde_json::from_str(&refused.text()).unwrap();
            let expected = json!({
                "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "title": "Quota Exceeded", "status": 403,
                "resets": timestamp(end), "violated-policies": ["tokens"],
            });
            assert_eq!(problem, expected, "{} from day {}", self.name, self.day);
            let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
            assert!(wait >= left, "{wait} of {left}");
            let count = self.count(turn);
            assert_eq!((&count["remaining"], &count["is_refused"]), (&json!(0), &json!(true)), "{count}");
            let more_in = count["more_in_ms"].as_u64().unwrap() / 1_000;
            assert!((left.saturating_sub(2)..=left + 2).contains(&more_in), "{more_in} of {left}");
        }
    }
}

fn months_of_two_tenants(gateways: &[Gateway]) {
    let seen = |response: &Response| (response.status, response.header("x-seen").map(str::to_owned));
    let (passed, marked) = ((200, Some("[]".to_owned())), (200, Some("[low]".to_owned())));
    let acme = Tenant { gateways, name: "acme", day: 15 };
    assert_eq!(seen(&acme.uses(0, 79_800)), passed);
    acme.wait_for(79_800);
    // On arrival, each takes the estimate: 80 % is not beyond 80 %.
    assert_eq!(seen(&acme.uses(1, 200)), passed);
    acme.wait_for(80_000);
    assert_eq!(seen(&acme.uses(0, 1_000)), marked);
    acme.wait_for(81_000);
    // The last one may use more than is left.
    assert_eq!(seen(&acme.uses(1, 60_000)), marked);
    acme.wait_for(BUDGET);
    acme.assert_refused();

    let globex = Tenant { gateways, name: "globex", day: 31 };
    assert_eq!(seen(&globex.uses(0, BUDGET)), passed);
    globex.wait_for(BUDGET);
    globex.assert_refused();
    acme.assert_refused();
    assert_ne!(acme.end(), globex.end());
    assert_eq!(gateways[0].get("/v1/chat/1", &[]).unwrap().status, 401);
}

#[test]
fn a_gateway_refuses_each_tenant_until_its_own_month_ends() {
    let upstream = model();
    let mut document = document();
    for key in ["scope", "on_error"] {
        document["limits"][0]["rules"][0].as_object_mut().unwrap().remove(key);
    }
    document.as_object_mut().unwrap().remove("store");
    let config = Config { upstream: Some(upstream.address()), ..Config::new(document) };
    months_of_two_tenants(&[Gateway::start(config).unwrap()]);
}

#[test]
fn gateways_share_the_months_in_redis() {
    let upstream = model();
    let address = upstream.address();
    let shared =
        Shared::of(Carrier::Bridge, document(), |config| Config { upstream: Some(address), ..config });
    months_of_two_tenants(&shared.gateways);
}
