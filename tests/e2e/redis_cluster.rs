//! A real Redis Cluster behind the clusters of `examples/global-redis/redis-cluster.yaml`, which
//! find the owner of a slot by themselves, and behind those of `redis-proxy.yaml`.

use crate::global::{PATIENCE, client, connections, in_redis, info, passed, shared_rule, wait_replicated};
use crate::production::{Files, set_users};
use gateway::{Config, Connection, Gateway, Redis, filter, free_port, root, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::thread;
use std::time::Instant;

const QUOTA: usize = 20;
const USERS: usize = 24;
const SHARDS: [&str; 3] = ["shard-1", "shard-2", "shard-3"];

/// Three primaries with a third of the slots each, and a replica of the second.
struct Nodes(Vec<Redis>);

impl Nodes {
    fn start() -> Nodes {
        let node = || {
            let bus = free_port().unwrap().to_string();
            let options = [
                ["--cluster-enabled", "yes"],
                ["--cluster-port", &bus],
                ["--cluster-node-timeout", "2000"],
                ["--repl-diskless-sync-delay", "0"],
            ];
            Redis::start_with(options.as_flattened()).unwrap()
        };
        let nodes = Nodes((0..4).map(|_| node()).collect());
        for (index, (first, last)) in [(0, 5_460), (5_461, 10_922), (10_923, 16_383)].iter().enumerate() {
            nodes.cluster(index, &["ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
        }
        // Gossip alone would take seconds.
        for (index, other) in nodes.0.iter().enumerate() {
            let bus: Vec<String> =
                redis::cmd("CONFIG").arg("GET").arg("cluster-port").query(&mut client(other)).unwrap();
            let meet = ["MEET", "127.0.0.1", &other.port().to_string(), &bus[1]];
            (0..index).for_each(|node| nodes.cluster(node, &meet));
        }
        let ids = [0, 1, 2, 3].map(|node| nodes.says(node, &["MYID"]));
        let knows_all = |node: usize| {
            let known = nodes.says(node, &["NODES"]);
            ids.iter().all(|id| known.contains(id))
        };
        let have_met = || (0..4).all(knows_all).then_some(());
        wait_until("the nodes to meet", PATIENCE, have_met).unwrap();
        nodes.cluster(3, &["REPLICATE", &ids[1]]);
        let is_ok = |index: &usize| nodes.says(*index, &["INFO"]).contains("cluster_state:ok");
        wait_until("the cluster", PATIENCE, || (0..4).all(|index| is_ok(&index)).then_some(())).unwrap();
        let synced = || info(&nodes.0[3]).contains("master_link_status:up").then_some(());
        wait_until("the replica", PATIENCE, synced).unwrap();
        nodes
    }

    fn says(&self, node: usize, words: &[&str]) -> String {
        redis::cmd("CLUSTER").arg(words).query(&mut client(&self.0[node])).unwrap()
    }

    fn cluster(&self, node: usize, words: &[&str]) {
        redis::cmd("CLUSTER").arg(words).exec(&mut client(&self.0[node])).unwrap();
    }

    /// The number of keys of each primary.
    fn keys(&self) -> [usize; 3] {
        [0, 1, 2].map(|node| redis::cmd("DBSIZE").query(&mut client(&self.0[node])).unwrap())
    }

    /// The parts of an example with these nodes, which get the users of its comments.
    fn example(&self, name: &str, files: &Files) -> Value {
        let text = fs::read_to_string(root().join("examples/global-redis").join(name)).unwrap();
        self.0.iter().for_each(|redis| set_users(redis, &text));
        let ports: Vec<u16> = self.0.iter().map(Redis::port).collect();
        parts(&text, files, &ports)
    }
}

/// The parts of an example's text with these ports and files.
fn parts(text: &str, files: &Files, ports: &[u16]) -> Value {
    // Envoy's own proxy would send a line break as well.
    files.write("redis-password", "a password");
    let text = text.replace("/etc/diana/", &format!("{}/", files.folder().display()));
    // Relative to the folder of Envoy.
    let text = text.replace("/run/envoy/", "");
    let text = ports.iter().zip(1..).fold(text, |text, (port, number)| {
        let those = format!("address: redis-{number}.internal, port_value: 6379");
        text.replace(&those, &format!("address: 127.0.0.1, port_value: {port}"))
    });
    assert!(!text.contains(".internal, port"));
    serde_norway::from_str::<Value>(&text).unwrap()["static_resources"].clone()
}

/// A gateway with the clusters and listeners of an example.
fn gateway(example: &Value) -> Gateway {
    let rule = json!({"algo": "W", "rpu": QUOTA, "unit": "7d"});
    let store = in_redis(json!({"clusters": SHARDS, "timeout": "3s"}));
    let document = json!({"limits": [shared_rule("/", "quota", &rule)], "store": store});
    let parts = |name: &str| example[name].as_array().cloned().unwrap_or_default();
    let (clusters, listeners) = (parts("clusters"), parts("listeners"));
    Gateway::start(Config { balanced: true, clusters, listeners, ..Config::new(document) }).unwrap()
}

/// Waits until each worker counts in each shard. No request fails meanwhile.
fn wait_together(gateways: &[Gateway], when: &str) {
    let mut connections = connections(gateways, 4);
    // If one of them counts alone, the last one has another rest.
    let rest = format!("\"quota\";r={};", QUOTA - connections.len());
    let mut users = 0;
    let mut together = |_| {
        users += 1;
        let user = format!("{when} {users}");
        let ask = |connection: &mut Connection| {
            let answer = connection.request("GET", "/", &[("x-user-id", &user)], b"").unwrap();
            assert_eq!(answer.status, 200, "{when}: {}", answer.text());
            answer.header("ratelimit").unwrap_or_default().to_owned()
        };
        connections.iter_mut().map(ask).last().unwrap().starts_with(&rest)
    };
    let all_together = || (0..USERS).all(&mut together).then_some(());
    wait_until("all shards to count", PATIENCE, all_together)
        .unwrap_or_else(|error| panic!("{when}: {error}\n{}", gateways[0].logs()));
}

/// Sends so many requests of each user, and checks how many pass.
fn assert_passed(gateways: &[Gateway], requests: usize, expected: usize) {
    let mut connections = connections(gateways, 4);
    for user in 0..USERS {
        assert_eq!(passed(&mut connections, "/", &user.to_string(), requests), expected, "user {user}");
    }
}

/// Moves the slot of the first shard to the second primary.
fn move_slot(nodes: &mut Nodes) {
    let slot: u64 =
        redis::cmd("CLUSTER").arg("KEYSLOT").arg(SHARDS[0]).query(&mut client(&nodes.0[0])).unwrap();
    let slot = slot.to_string();
    let (from, to) = (nodes.says(0, &["MYID"]), nodes.says(1, &["MYID"]));
    nodes.cluster(1, &["SETSLOT", &slot, "IMPORTING", &from]);
    nodes.cluster(0, &["SETSLOT", &slot, "MIGRATING", &to]);
    let keys: Vec<String> = redis::cmd("CLUSTER")
        .arg("GETKEYSINSLOT")
        .arg(&slot)
        .arg(10_000)
        .query(&mut client(&nodes.0[0]))
        .unwrap();
    assert!(!keys.is_empty());
    let mut migrate = redis::cmd("MIGRATE");
    migrate.arg("127.0.0.1").arg(nodes.0[1].port()).arg("").arg(0).arg(5_000).arg("KEYS").arg(keys);
    migrate.exec(&mut client(&nodes.0[0])).unwrap();
    [1, 0, 2].into_iter().for_each(|node| nodes.cluster(node, &["SETSLOT", &slot, "NODE", &to]));
}

/// Kills the second primary once its replica has all of its keys, and waits for the promotion.
fn fail_over(nodes: &mut Nodes) {
    wait_replicated(&nodes.0[1], &format!("{{{}}}", SHARDS[2]), 1);
    nodes.0[1].kill();
    let promoted = || info(&nodes.0[3]).contains("role:master").then_some(());
    wait_until("a promotion", PATIENCE, promoted).unwrap();
}

/// A gateway of each example. Together they admit each user's quota, while slots move to other
/// nodes and no request fails.
#[test]
fn counts_follow_their_slots() {
    filter::module().unwrap();
    let (mut nodes, files) = (Nodes::start(), Files::create());
    let examples = ["redis-cluster.yaml", "redis-proxy.yaml"].map(|name| nodes.example(name, &files));
    let gateways = thread::scope(|scope| {
        let started = examples.each_ref().map(|example| scope.spawn(|| gateway(example)));
        started.map(|gateway| gateway.join().unwrap())
    });
    wait_together(&gateways, "start");
    assert_passed(&gateways, QUOTA / 2, QUOTA / 2);
    let keys = nodes.keys();
    println!("the primaries have {keys:?} keys");
    assert!(keys.iter().all(|count| *count > 0), "{keys:?}");
    type Change = fn(&mut Nodes);
    for (what, change) in [("a moved slot", move_slot as Change), ("a failover", fail_over)] {
        let begun = Instant::now();
        change(&mut nodes);
        let changed = begun.elapsed();
        wait_together(&gateways, what);
        println!("{what} in {changed:?}: all count after {:?}", begun.elapsed());
    }
    assert_passed(&gateways, QUOTA, QUOTA / 2);
    for node in [0, 2, 3] {
        let log: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query(&mut client(&nodes.0[node])).unwrap();
        assert!(log.is_empty(), "{log:?}");
    }
}

/// No request waits for the nodes, and none fails.
#[test]
fn a_gateway_starts_without_its_nodes() {
    filter::module().unwrap();
    let files = Files::create();
    for name in ["redis-cluster.yaml", "redis-proxy.yaml"] {
        let text = fs::read_to_string(root().join("examples/global-redis").join(name)).unwrap();
        let ports = [(); 4].map(|()| free_port().unwrap());
        let gateway = gateway(&parts(&text, &files, &ports));
        let status = || gateway.get("/", &[("x-user-id", "ann")]).unwrap().status;
        assert_eq!((0..QUOTA).filter(|_| status() == 200).count(), QUOTA / 2, "{name}: alone");
    }
}
