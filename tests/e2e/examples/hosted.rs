//! `examples/global-redis/hosted.yaml`: a Redis with TLS and the users of the example.

use super::passed;
use crate::global::{PATIENCE, client};
use crate::production::{Files, set_users};
use gateway::{Carrier, Config, Gateway, Redis, Tunnel, filter, free_port, root, wait_until};
use rcgen::SanType;
use serde_json::{Value, json};
use std::fs;

const NAME: &str = "redis.example.com";

/// A running Redis that only the user `diana` may ask, with TLS.
pub struct Hosted {
    admin: redis::Connection,
    files: Files,
    port: u16,
    _redis: Redis,
}

impl Hosted {
    /// That of `diana`.
    pub const PASSWORD: &str = "a password";

    pub fn start() -> Hosted {
        let files = Files::signed(&[("server", vec![SanType::DnsName(NAME.try_into().unwrap())])]);
        files.write("redis-password", &format!("{}\n", Self::PASSWORD));
        let port = free_port().unwrap();
        let path = |name: &str| files.folder().join(name).display().to_string();
        let (certificate, key) = (path("server.crt"), path("server.key"));
        let options = [
            ["--tls-port", &port.to_string()],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &path("ca.crt")],
            ["--tls-auth-clients", "no"],
        ];
        let redis = Redis::start_with(options.as_flattened()).unwrap();
        let mut admin = client(&redis);
        redis::cmd("ACL").arg(&["SETUSER", "admin", "on", ">admin", "~*", "+@all"]).exec(&mut admin).unwrap();
        redis::cmd("AUTH").arg("admin").arg("admin").exec(&mut admin).unwrap();
        set_users(&redis, &read("hosted.yaml"));
        Hosted { admin, files, port, _redis: redis }
    }

    /// Where it speaks TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// An example's text with this address and these files.
    pub fn replaced(&self, text: &str) -> String {
        let address = format!("address: {NAME}, port_value: 6379");
        assert!(text.contains(&address), "{text}");
        self.with_files(&text.replace(&address, &format!("address: 127.0.0.1, port_value: {}", self.port)))
    }

    /// The text with these files.
    pub fn with_files(&self, text: &str) -> String {
        let folder = self.files.folder().display().to_string();
        text.replace("/etc/ssl/certs/ca-certificates.crt", &format!("{folder}/ca.crt"))
            .replace("/etc/diana", &folder)
    }

    pub fn forget_script(&mut self) {
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut self.admin).unwrap();
    }
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join("examples/global-redis").join(name)).unwrap()
}

/// A gateway with the document of the example, whose calls take this way.
fn gateway(carrier: Carrier, cluster: &Value) -> Gateway {
    let mut document = super::document();
    let mut cluster = cluster.clone();
    let config = match carrier {
        Carrier::Bridge => {
            filter::module().unwrap();
            Config { clusters: vec![cluster], ..Config::new(document) }
        }
        Carrier::Tunnel => {
            cluster["name"] = json!("redis-itself");
            cluster.as_object_mut().unwrap().remove("upstream_config");
            let store = &mut document["store"]["redis"];
            (store["user"], store["password"]) = (json!("diana"), json!({"env": "DIANA_REDIS_PASSWORD"}));
            Config {
                env: vec![("DIANA_REDIS_PASSWORD".into(), Hosted::PASSWORD.into())],
                tunnels: vec![Tunnel { name: Carrier::CLUSTER.into(), redis: cluster }],
                ..Config::new(document)
            }
        }
    };
    Gateway::start(config).unwrap()
}

#[test]
fn gateways_count_in_a_hosted_redis_by_bridge_and_by_tunnel() {
    let redis = Hosted::start();
    let cluster = |text: &str| -> Value {
        let file: Value = serde_norway::from_str(&redis.replaced(text)).unwrap();
        file["static_resources"]["clusters"][0].clone()
    };
    let text = read("hosted.yaml");
    let gateways = Carrier::ALL.map(|carrier| gateway(carrier, &cluster(&text)));
    let count = passed(&gateways, "ann", 150);
    assert!((100..150).contains(&count), "{count}");
    let failed = |gateway: &Gateway| gateway.counted("store.redis.failed_calls").unwrap();
    assert_eq!(gateways.each_ref().map(failed), [0; 2]);
    // Another server's certificate, and another password.
    let other = cluster(&text.replace(&format!("exact: {NAME}"), "exact: other.example.com"));
    let mut wrong = cluster(&text);
    wrong["upstream_config"]["typed_config"]["bridge_config"]["value"] =
        json!({"user": "diana", "password": "wrong"});
    for (carrier, cluster, why) in [
        (Carrier::Bridge, &other, "remote connection failure; nobody listens"),
        (Carrier::Tunnel, &other, "remote connection failure; nobody listens"),
        (Carrier::Bridge, &wrong, "probe: WRONGPASS"),
    ] {
        let gateway = gateway(carrier, cluster);
        assert_eq!(passed(std::slice::from_ref(&gateway), "bob", 1), 1, "counted alone");
        assert!(failed(&gateway) > 0, "{}", gateway.logs());
        let clusters = ["redis", "redis-itself"].map(|name| format!("cluster.{name}.ssl.fail_verify_san"));
        let wrong_names = clusters.iter().map(|name| gateway.admin().counter(name).unwrap()).sum::<u64>();
        assert_eq!(wrong_names > 0, why.contains("connection failure"), "{carrier:?}");
        let is_logged = || {
            passed(std::slice::from_ref(&gateway), "eve", 1);
            gateway
                .logs()
                .lines()
                .any(|line| line.contains("is not asked") && line.contains(why))
                .then_some(())
        };
        assert!(wait_until(why, PATIENCE, is_logged).is_ok(), "{carrier:?}: {}", gateway.logs());
    }
}
