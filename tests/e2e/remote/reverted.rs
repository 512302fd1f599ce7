//! Documents of a server go forwards and back, and the server goes away for `max_stale`.

use super::{LOCAL, Remote, local};
use crate::reverted::{document, inspect, mark, nothing_revives, upstream};
use gateway::Config;
use serde_json::json;

#[test]
fn documents_of_a_server_revive_nothing() {
    let upstream = upstream();
    let stale = json!({"max_stale": "1500ms"});
    let mut own = local(&stale);
    own["inspect"] = inspect();
    let config = |config| Config { upstream: Some(upstream.address()), plugin: own.into(), ..config };
    let Remote { mut gateway, mut documents } = Remote::with(stale, config);
    nothing_revives(&mut gateway, &upstream, |gateway, (rpu, neighbours)| {
        documents.put(document(rpu, neighbours).to_string());
        super::wait_for(gateway, mark(rpu, neighbours));
    });
    // Without an operator: the local document serves, and then the one before.
    documents.put(document(3, 0).to_string());
    super::wait_for(&gateway, mark(3, 0));
    for _ in 0..2 {
        documents.kill();
        super::wait_for(&gateway, LOCAL);
        documents.restart().unwrap();
        super::wait_for(&gateway, mark(3, 0));
        let refused = gateway.get("/counted", &[("x-user-id", "ann")]).unwrap();
        assert_eq!(refused.status, 429);
    }
}
