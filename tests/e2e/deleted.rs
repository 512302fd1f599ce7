//! The native module deletes counts that no configuration uses.

use gateway::{Config, Gateway, Shell, Update, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const USERS: usize = 500;
const PATIENCE: Duration = Duration::from_secs(20);

/// One rule that stays, and one for this path.
fn document(path: &str) -> Value {
    let rules = |name: &str| json!([{"name": name, "actor": "user", "algo": "W", "rpu": 2, "unit": "7d"}]);
    json!({"limits": [
        {"url": "/stays", "rules": rules("stays")},
        {"url": path, "rules": rules("changes")},
    ]})
}

#[test]
fn counts_of_a_rule_that_goes_are_deleted_and_all_others_stay() {
    let config =
        Config { shell: Shell::Native, drain: Duration::from_secs(1), ..Config::new(document("/first")) };
    let mut gateway = Gateway::start(config).unwrap();
    let ask = |gateway: &Gateway, path: &str| {
        let mut connection = gateway.connect().unwrap();
        let mut status = |user: usize| {
            let user = format!("user-{user}");
            connection.request("GET", path, &[("x-user-id", &user)], b"").unwrap().status
        };
        (0..USERS).map(&mut status).filter(|status| *status == 200).count()
    };
    assert_eq!((ask(&gateway, "/stays"), ask(&gateway, "/first")), (USERS, USERS));
    assert_eq!(gateway.update(document("/second")).unwrap(), Update::Accepted);
    let deleted =
        || gateway.log_contains("keys of counts that no configuration uses are deleted").then_some(());
    wait_until("the deletion", PATIENCE, deleted)
        .unwrap_or_else(|error| panic!("{error}\n{}", gateway.logs()));
    assert_eq!([(); 2].map(|()| ask(&gateway, "/stays")), [USERS, 0], "the second request, and no third");
    assert_eq!(ask(&gateway, "/second"), USERS);
    assert_eq!(gateway.update(document("/first")).unwrap(), Update::Accepted);
    assert_eq!(ask(&gateway, "/stays"), 0);
    assert_eq!([(); 3].map(|()| ask(&gateway, "/first")), [USERS, USERS, 0], "the rule begins anew");
}
