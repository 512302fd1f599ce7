//! Priorities in Envoy: browsing drains a shared quota from several connections, and checkouts pass
//! until the quota is really empty.

use crate::start;
use gateway::{Gateway, Response};
use serde_json::json;

/// The numbers of responses with the statuses 200 and 429. There are no others.
fn passed(responses: &[Response]) -> (usize, usize) {
    let count = |status| responses.iter().filter(|response| response.status == status).count();
    assert_eq!(count(200) + count(429), responses.len());
    (count(200), count(429))
}

fn many(gateway: &Gateway, path: &str, connections: usize, each: usize) -> Vec<Response> {
    std::thread::scope(|scope| {
        let ask = || (0..each).map(|_| gateway.get(path, &[]).unwrap()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn checkouts_pass_while_browsing_drains_the_quota() {
    for algo in ["W", "SL"] {
        let gateway = start(json!({
            "headers": "ietf",
            "limits": [
                {"url": "/", "rules": [{"name": "shop", "algo": algo, "rpu": 100, "unit": "day",
                    "headroom": "30%"}]},
                {"url": "/checkout", "priority": "high"},
            ],
        }));
        let (browsed, refused) = passed(&many(&gateway, "/browse", 8, 25));
        println!("{algo}: {browsed} of 200 browsing requests passed, {refused} were refused");
        assert_eq!((browsed, refused), (70, 130), "30 of 100 are headroom");

        // Both at once: nobody who browses takes the headroom.
        let (checkouts, others) = std::thread::scope(|scope| {
            let others = scope.spawn(|| many(&gateway, "/browse", 4, 20));
            (passed(&many(&gateway, "/checkout", 4, 5)), passed(&others.join().unwrap()))
        });
        println!("{algo}: then {} of 20 checkouts passed, and {} of 80 others", checkouts.0, others.0);
        assert_eq!((checkouts, others), ((20, 0), (0, 80)));

        let remaining = |path| {
            let response = gateway.get(path, &[]).unwrap();
            (response.status, response.header("ratelimit").unwrap_or_default().to_owned())
        };
        // A request that browses sees what is left for browsing.
        let (status, shown) = remaining("/checkout");
        assert!(status == 200 && shown.contains("r=9"), "{status} {shown}");
        let (status, shown) = remaining("/browse");
        assert!(status == 429 && shown.contains("r=0"), "{status} {shown}");
        let policy = gateway.get("/browse", &[]).unwrap().header("ratelimit-policy").map(str::to_owned);
        assert!(policy.as_deref().is_some_and(|policy| policy.contains("q=100")), "{policy:?}");

        let (last, refused) = passed(&many(&gateway, "/checkout", 3, 5));
        println!("{algo}: {last} more checkouts passed until the quota was empty, {refused} were refused");
        assert_eq!((last, refused), (9, 6), "the quota is really empty");
        let ambiguous = gateway.get("/browse/..;/checkout", &[]).unwrap().status;
        assert_eq!(ambiguous, 429);
    }
}
