//! The cluster of `examples/global-redis/production.yaml` with real Redis servers: mutual TLS, a
//! user of the access control list, health checks that find the primary, and a failover under load.

use crate::global::{PATIENCE, ask, client, in_redis, info, shared_rule, wait_replicated};
use gateway::{Config, Gateway, Redis, Sentinel, filter, free_port, root, wait_until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

const QUOTA: usize = 40;

/// A folder with the certificates and the password, as the example expects it.
pub struct Files(PathBuf);

impl Files {
    pub fn create() -> Files {
        let host = |name: &str| vec![SanType::DnsName(name.try_into().unwrap())];
        let files =
            Files::signed(&[("server", host("redis.internal")), ("client", host("gateway.internal"))]);
        files.write("redis-password", "a password\n");
        files
    }

    /// A folder with an authority, `ca.crt`, and for each name a certificate, `NAME.crt`, with its
    /// key, `NAME.key`.
    pub fn signed(certificates: &[(&str, Vec<SanType>)]) -> Files {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("production-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        let folder = gateway::target().join(name);
        fs::create_dir_all(&folder).unwrap();
        let files = Files(folder);
        let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // With the same name as its certificates, they would look as if they had signed themselves.
        ca.distinguished_name.push(DnType::CommonName, "the tests' authority");
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        files.write("ca.crt", &ca.pem());
        for (name, names) in certificates {
            let key = KeyPair::generate().unwrap();
            let mut certificate = CertificateParams::new(Vec::<String>::new()).unwrap();
            certificate.subject_alt_names.clone_from(names);
            files.write(&format!("{name}.crt"), &certificate.signed_by(&key, &ca).unwrap().pem());
            files.write(&format!("{name}.key"), &key.serialize_pem());
        }
        files
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A Redis that speaks TLS on a second port, with the users of the example.
fn server(files: &Files) -> (Redis, u16) {
    let port = free_port().unwrap();
    let (certificate, key, ca) = (files.path("server.crt"), files.path("server.key"), files.path("ca.crt"));
    let redis = Redis::start_with(
        &[
            ["--repl-diskless-sync-delay", "0"],
            ["--tls-port", &port.to_string()],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &ca],
            ["--tls-auth-clients", "yes"],
        ]
        .concat(),
    )
    .unwrap();
    set_users(&redis, &fs::read_to_string(example()).unwrap());
    (redis, port)
}

/// Gives Redis the users in an example's comments.
pub fn set_users(redis: &Redis, example: &str) {
    let mut users = 0;
    for line in example.lines().filter_map(|line| line.trim().strip_prefix("# ACL ")) {
        let mut command = redis::cmd("ACL");
        line.replace("PASSWORD", "a_password")
            .split(' ')
            .for_each(|word| _ = command.arg(word.replace('_', " ")));
        command.exec(&mut client(redis)).unwrap();
        users += 1;
    }
    assert!(users > 0);
}

pub fn example() -> PathBuf {
    root().join("examples/global-redis/production.yaml")
}

/// The example's cluster, with these servers and files.
fn cluster(files: &Files, ports: [u16; 3]) -> Value {
    let text = fs::read_to_string(example()).unwrap();
    let text = text.replace("/etc/diana/", &format!("{}/", files.0.display()));
    let text = ports.iter().zip(["redis-a.internal", "redis-b.internal", "redis-c.internal"]).fold(
        text,
        |text, (port, name)| {
            let those = format!("address: {name}, port_value: 6380");
            assert!(text.contains(&those));
            text.replace(&those, &format!("address: localhost, port_value: {port}"))
        },
    );
    let file: Value = serde_norway::from_str(&text).unwrap();
    assert!(Path::new(&files.path("ca.crt")).exists());
    file["static_resources"]["clusters"][0].clone()
}

/// Sentinel promotes a replica.
#[test]
fn a_failover_under_load_fails_no_request_and_keeps_the_counts() {
    filter::module().unwrap();
    let files = Files::create();
    let [(mut first, first_port), (second, second_port), (third, third_port)] =
        [(); 3].map(|()| server(&files));
    for redis in [&second, &third] {
        redis::cmd("REPLICAOF").arg("127.0.0.1").arg(first.port()).exec(&mut client(redis)).unwrap();
    }
    // Sentinel prefers the other one.
    redis::cmd("CONFIG").arg("SET").arg("replica-priority").arg(200).exec(&mut client(&third)).unwrap();
    let rule = json!({"algo": "W", "rpu": QUOTA, "unit": "7d"});
    let document = json!({
        "limits": [shared_rule("/", "quota", &rule)],
        "store": in_redis(json!({"timeout": "2s", "replicas": 1})),
    });
    let mut config = Config { balanced: true, ..Config::new(document) };
    config.clusters.push(cluster(&files, [first_port, second_port, third_port]));
    let gateway = Gateway::start(config).unwrap();
    let degraded = || gateway.stats().unwrap().sum("diana_degraded", &[("rule", "quota")]);
    let counts_together = |what: &str| {
        let mut tries = 0;
        wait_until(what, PATIENCE, || {
            let before = degraded();
            tries += 1;
            let user = format!("{what} {tries}");
            (0..8).for_each(|_| assert_eq!(gateway.get("/", &[("x-user-id", &user)]).unwrap().status, 200));
            (degraded() == before).then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", last(&gateway)));
    };
    let passed = |user: &str| {
        let status = |_: &usize| gateway.get("/", &[("x-user-id", user)]).unwrap().status == 200;
        (0..2 * QUOTA).filter(status).count()
    };
    counts_together("the primary to count");
    assert_eq!(passed("ann"), QUOTA);
    // The replica has all of that.
    wait_replicated(&first, "written", 2);
    let sentinel = Sentinel::start(&first).unwrap();
    let mut sentinel =
        redis::Client::open(format!("redis://{}", sentinel.address())).unwrap().get_connection().unwrap();
    let knows = || {
        let mut command = redis::cmd("SENTINEL");
        let replicas: Vec<redis::Value> = command.arg("REPLICAS").arg("primary").query(&mut sentinel).ok()?;
        (replicas.len() == 2).then_some(())
    };
    wait_until("Sentinel to know the replicas", PATIENCE, knows).unwrap();

    let (stopped, sent, failed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let ending = crate::machine::Ending(&stopped);
        for client in 0..4 {
            let (stopped, sent, failed, gateway) = (&stopped, &sent, &failed, &gateway);
            scope.spawn(move || {
                let mut connection = gateway.connect().unwrap();
                while !stopped.load(Ordering::SeqCst) {
                    let user = format!("load {client} {}", sent.fetch_add(1, Ordering::SeqCst));
                    let answer = connection.request("GET", "/", &[("x-user-id", &user)], b"").unwrap();
                    failed.fetch_add(u64::from(answer.status != 200), Ordering::SeqCst);
                }
            });
        }
        let more = |count: u64| {
            let enough = sent.load(Ordering::SeqCst) + count;
            wait_until("requests", PATIENCE, || (sent.load(Ordering::SeqCst) >= enough).then_some(()))
                .unwrap();
        };
        more(200);
        let killed = Instant::now();
        first.kill();
        let promoted = || info(&second).contains("role:master").then(|| killed.elapsed());
        // Sentinel pauses for 30 s if a write to the disk has taken seconds.
        let promoted = wait_until("Sentinel to promote the replica", 3 * PATIENCE, promoted).unwrap();
        counts_together("the promoted replica to count");
        println!("promoted after {promoted:?}, counts after {:?}", killed.elapsed());
        more(200);
        drop(ending);
    });
    println!(
        "a failover: {} requests, {} failed; {} counted alone",
        sent.load(Ordering::SeqCst),
        failed.load(Ordering::SeqCst),
        degraded()
    );
    assert_eq!(failed.load(Ordering::SeqCst), 0);
    assert_eq!(passed("ann"), 0, "usage survives");
    assert_eq!(passed("ben"), QUOTA);
    // The first primary returns, empty. Envoy checks it, and asks it nothing.
    first.restart().unwrap();
    let checks = || gateway.admin().counter("cluster.redis.health_check.attempt").unwrap();
    let enough = checks() + 9;
    wait_until("health checks", PATIENCE, || (checks() >= enough).then_some(())).unwrap();
    assert_eq!((passed("ann"), passed("ben")), (0, 0));
    // Sentinel may have made it a replica, with the keys of its primary.
    let (role, keys): (Vec<redis::Value>, u64) =
        ask(&first, |client| redis::pipe().atomic().cmd("ROLE").cmd("DBSIZE").query(client));
    if role[0] == redis::Value::BulkString(b"master".to_vec()) {
        assert_eq!(keys, 0);
    }
    // Redis itself says who asked, and how.
    let log: Vec<redis::Value> = ask(&second, |client| redis::cmd("ACL").arg("LOG").query(client));
    assert!(log.is_empty(), "{log:?}");
}

/// The end of Envoy's log.
fn last(gateway: &Gateway) -> String {
    let logs = gateway.logs();
    let lines: Vec<&str> = logs.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
