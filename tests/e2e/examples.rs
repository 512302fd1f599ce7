//! The examples of stores for all gateways, as they stand in `examples`, with their servers.

use gateway::{Gateway, free_port, root};
use servers::RateLimitService;

/// A gateway of an example, whose store has moved from one port to another.
fn example(name: &str, store: (u16, u16)) -> Gateway {
    let file = root().join("examples").join(name).join("envoy.yaml");
    let port = |number| if number == store.0 { store.1 } else { free_port().unwrap() };
    Gateway::from_file(&file, port).unwrap()
}

/// How many requests of `count` pass for a user, each gateway in its turn.
fn passed(gateways: &[Gateway], user: &str, count: usize) -> usize {
    let mut connections: Vec<_> = gateways.iter().map(|gateway| gateway.connect().unwrap()).collect();
    let mut passes = |index: usize| {
        let turn = index % connections.len();
        let answer = connections[turn].request("GET", "/api", &[("x-user-id", user)], b"").unwrap();
        answer.status == 200
    };
    (0..count).filter(|index| passes(*index)).count()
}

#[test]
#[ignore = "global rules are not there yet"]
fn two_gateways_ask_one_rate_limit_service() {
    let service = RateLimitService::start().unwrap();
    let store = (8081, service.address().port());
    let gateways = [(); 2].map(|()| example("rate-limit-service", store));
    assert_eq!(passed(&gateways, "ann", 250), 100);
    assert_eq!(passed(&gateways, "bob", 10), 10, "another user");
    assert!(service.calls() > 0);
    drop(service);
    // The service is away: each gateway counts to half of the limit by itself.
    let alone = passed(&gateways[..1], "carl", 150);
    assert!((50..=100).contains(&alone), "{alone}");
}
