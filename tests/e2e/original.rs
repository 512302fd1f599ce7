//! The original document, unchanged: `scope: global` and no store.

use gateway::{Config, Gateway, Plugin};
use serde_json::Value;

const ORIGINAL: &str = "
Url: /
rules:
  - actor: device
    unit: second
    rpu: 10
    algo: TB
    scope: global
  - actor: all
    unit: second
    rpu: 50
    algo: W
    scope: local
";

const WARNING: &str = "there is no `store`: each gateway counts this rule";

/// The statuses of `count` requests of a device, sent as fast as possible.
fn statuses(gateway: &Gateway, device: &str, count: usize) -> Vec<u16> {
    let mut connection = gateway.connect().unwrap();
    let status = |_| connection.request("GET", "/", &[("x-device-id", device)], b"").unwrap().status;
    (0..count).map(status).collect()
}

#[test]
fn the_original_document_limits_with_one_warning() {
    let document: Value = serde_norway::from_str(ORIGINAL).unwrap();
    for plugin in [Plugin::Struct(document.clone()), Plugin::Text(document.to_string())] {
        let gateway = Gateway::start(Config::new(plugin)).unwrap();
        let sent = 40;
        let statuses = statuses(&gateway, "phone", sent);
        let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
        assert_eq!(count(200) + count(429), sent, "{statuses:?}");
        // Both quotas refill within the second that a slow machine may take.
        assert!(count(200) >= 10 && count(429) > 0, "{statuses:?}");
        assert_eq!(self::statuses(&gateway, "tablet", 1), [200], "another device has a quota of its own");
        let degraded = gateway.stats().unwrap().sum("diana_degraded", &[("rule", "root-0")]);
        assert!(degraded > 10, "{degraded} counted alone");
        assert_eq!(gateway.logs().matches(WARNING).count(), 1, "{}", gateway.logs());
    }
}

#[test]
fn an_empty_vm_id_is_logged_once() {
    let logged = |vm_id: &str| {
        let document: Value = serde_norway::from_str(ORIGINAL).unwrap();
        let config = Config { vm_id: vm_id.into(), ..Config::new(document) };
        let gateway = Gateway::start(config).unwrap();
        gateway.logs().matches("`vm_id` is empty").count()
    };
    assert_eq!((logged(""), logged("diana")), (1, 0));
}
