//! The bytes of stored formats, as literals: the keys and values in a gateway's shared data, and
//! the keys and arguments of queries to Redis. Gateways of two versions share both during an
//! upgrade, so a change of any literal here loses counts.

mod remote;

use crate::harness::{Gateway, at, get, store};
use diana_base::time::Time;
use diana_config::{Configuration, compile};
use diana_limiter::cells::store::{Rules, SharedData, Simulated};
use diana_limiter::check::Outcome;
use diana_limiter::global::{Call, CallResult, Message};
use diana_limiter::policy::Policy;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use std::fmt::Write as _;

/// Every algorithm, alone and in groups.
const LOCAL: &str = r#"{"limits": [
    {"url": "/", "rules": [
        {"name": "total", "rpu": 1000, "unit": "second"},
        {"name": "bucket", "actor": "user", "rpu": 600, "unit": "minute", "start": "empty",
            "overrides": {"vip": {"rpu": 900}}}]},
    {"url": "/w", "rules": [{"name": "w", "actor": "ip", "algo": "W", "rpu": 3, "unit": "minute"}]},
    {"url": "/sw", "rules": [
        {"name": "sw", "actor": ["user", "ip"], "algo": "SW", "rpu": 3, "unit": "minute", "slices": 6}]},
    {"url": "/a/*/sl", "rules": [
        {"name": "sl", "actor": "user", "algo": "SL", "rpu": 3, "unit": "minute", "missing": "skip"}]},
    {"url": "=/lb", "methods": "GET", "rules": [
        {"name": "lb", "actor": "user", "algo": "LB", "rpu": 2, "unit": "second", "queue": 2}]},
    {"url": "/c", "headers": {"x-user-id": {"regex": "[a-z]+"}}, "rules": [
        {"name": "c", "actor": "user", "algo": "C", "rpu": 2, "max_hold": "10s"}]},
    {"url": "/stacked", "exclusive": true, "rules": [
        {"name": "s-w", "actor": "user", "algo": "W", "rpu": 2, "unit": "hour", "missing": "share",
            "overrides": {"bot": {"rpu": 0}}},
        {"name": "s-sw", "actor": "user", "algo": "SW", "rpu": 2, "unit": "hour", "missing": "share",
            "mode": "shadow"},
        {"name": "s-tb", "actor": "user", "rpu": 4, "unit": "hour", "missing": "share",
            "max_wait": "1s", "overrides": {"vip": {"rpu": 8}}}]}
], "local": {"max_actors": 100}}"#;

/// `bytes` in hexadecimal. Four zeros or more become their number in parentheses.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for run in bytes.chunk_by(|one, next| (*one == 0) == (*next == 0)) {
        match run {
            [0, 0, 0, 0, ..] => write!(text, "({})", run.len()).unwrap(),
            _ => run.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap()),
        }
    }
    text
}

/// A line for each key of `host` but the host's rules, sorted: the key, and its value in
/// hexadecimal.
fn contents(host: &Simulated) -> Vec<String> {
    let mut keys = host.keys();
    keys.retain(|key| key != b"diana/rules");
    keys.sort();
    let line = |key: &Vec<u8>| {
        let value = host.get(key).unwrap().0.unwrap_or_default();
        format!("{} {}", std::str::from_utf8(key).unwrap(), hex(&value))
    };
    keys.iter().map(line).collect()
}

/// Fails with all lines, to be copied after a change that is meant.
#[track_caller]
fn pinned(lines: &[String], expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert!(lines == expected, "the stored bytes differ; they are\n{}\n", lines.join("\n"));
}

/// Requests of two users and of a client without a name, for every limit.
fn run(host: &Simulated) {
    let mut gateway = Gateway::new(LOCAL, store(host));
    let nobody = |target: &str| {
        Values::default().with(Part::Method, "GET").with(Part::Path, target).with(Part::Address, "10.0.0.2:0")
    };
    let (mut ms, mut open) = (0, Vec::new());
    for worker in [0, 1, 0] {
        for target in ["/w", "/sw", "/a/1/sl", "/lb", "/c", "/stacked"] {
            for request in [get(target, "ann"), get(target, "vip"), nobody(target)] {
                ms += 171;
                let (session, _) = gateway.start(worker, &request, at(ms));
                open.push((worker, session));
            }
        }
    }
    // The later sessions keep their permits.
    for (worker, session) in open.iter_mut().take(20) {
        ms += 7;
        gateway.settle(*worker, session, at(ms));
    }
}

#[test]
fn the_keys_and_values_in_shared_data() {
    for (rules, word) in [(Rules::Lenient, "lenient"), (Rules::Strict, "strict")] {
        let host = Simulated::new(rules);
        run(&host);
        assert_eq!(host.get(b"diana/rules").unwrap().0.as_deref(), Some(word.as_bytes()));
        pinned(&contents(&host), SHARED_DATA);
    }
}

/// Every algorithm, each `on_error`, a lease, and two rules with the same meaning.
const GLOBAL: &str = r#"{"limits": [
    {"url": "/", "rules": [
        {"name": "total", "rpu": 1000, "unit": "second", "scope": "global"},
        {"name": "tb", "actor": "user", "rpu": 5, "unit": "minute", "burst": 9, "scope": "global",
            "overrides": {"vip": {"rpu": 50}}},
        {"name": "w", "actor": "user", "algo": "W", "rpu": 40, "unit": "minute", "scope": "global"},
        {"name": "w-too", "actor": "user", "algo": "W", "rpu": 40, "unit": "minute",
            "scope": "global"},
        {"name": "lease", "actor": "user", "rpu": 100, "unit": "minute", "scope": "global",
            "lease": "10%"}]},
    {"url": "/a/*", "methods": "GET", "rules": [
        {"name": "sw", "actor": ["user", "ip"], "algo": "SW", "rpu": 30, "unit": "minute",
            "slices": 6, "scope": "global", "on_error": "deny", "mode": "shadow"},
        {"name": "sl", "actor": "ip", "algo": "SL", "rpu": 3, "unit": "minute", "scope": "global",
            "on_error": "allow"},
        {"name": "lb", "actor": "user", "algo": "LB", "rpu": 2, "unit": "second", "queue": 2,
            "scope": "global", "missing": "share"},
        {"name": "c", "actor": "user", "algo": "C", "rpu": 8, "max_hold": "10s",
            "scope": "global", "missing": "share"}]}
], "store": {"redis": {"clusters": ["one", "two"], "secret": "a secret of the tests only"}},
"local": {"max_actors": 100}}"#;

/// A worker of one gateway, its policy, and its requests so far.
struct Global<'h> {
    policy: Policy,
    worker: Worker,
    host: &'h Simulated,
    sessions: Vec<Session>,
}

impl<'h> Global<'h> {
    fn new(json: &str, host: &'h Simulated) -> Global<'h> {
        let Configuration { policy, store, .. } = compile(json.as_bytes()).unwrap();
        let worker = Worker::new(&policy, &[7; 16]).with_global_store(store.unwrap(), 1);
        Global { policy, worker, host, sessions: Vec::new() }
    }

    fn start(&mut self, request: &Values) {
        let Global { policy, worker, host, sessions } = self;
        let request = policy.request(request);
        let (session, decision) = Session::start(policy, worker, &store(host), &request, || at(0));
        assert!(matches!(decision.outcome, Outcome::Query(_)), "{decision:?}");
        sessions.push(session);
    }

    fn next_call(&mut self) -> Option<Call> {
        self.worker.next_call(&self.policy, Time::ZERO)
    }
}

/// The parts of a call's body: its keys, its number, and its arguments. The command and the hash of
/// the script come before them.
fn parts(call: &Call) -> (Vec<String>, String, Vec<String>) {
    let Message::Http { body, .. } = &call.message else { panic!("an HTTP call") };
    let text = std::str::from_utf8(body).unwrap();
    let mut parts = text.split('/').map(str::to_owned).skip(2);
    let keys = parts.next().unwrap().parse().unwrap();
    let keys = parts.by_ref().take(keys).collect();
    (keys, parts.next().unwrap(), parts.collect())
}

/// The cluster of each key is pinned too: gateways that disagree on it count apart.
#[test]
fn the_keys_and_arguments_in_redis() {
    let host = Simulated::new(Rules::Lenient);
    let mut global = Global::new(GLOBAL, &host);
    for user in ["ann", "bob", "vip"] {
        global.start(&get("/a/1", user));
    }
    let mut lines = Vec::new();
    while let Some(call) = global.next_call() {
        let (keys, _, arguments) = parts(&call);
        lines.extend(keys.into_iter().chain(arguments).map(|part| format!("{} {part}", call.shard)));
    }
    pinned(&lines, REDIS);
    // The stores do not answer, so the gateway counts.
    let Global { policy, mut worker, sessions, .. } = global;
    for mut session in sessions {
        assert!(session.give_up(&policy, &mut worker, &store(&host), || at(50)).is_some());
    }
    pinned(&contents(&host), FALLBACK);
}

/// A list of one cluster means the same as one cluster, so both have the same keys.
#[test]
fn the_hash_tags_of_several_clusters() {
    let host = Simulated::new(Rules::Lenient);
    let first_tag = |clusters: &str| {
        let json = GLOBAL.replace(r#""clusters": ["one", "two"]"#, clusters);
        let mut global = Global::new(&json, &host);
        global.start(&get("/a/1", "ann"));
        let Message::Http { body, .. } = global.next_call().unwrap().message else { panic!("an HTTP call") };
        let body = String::from_utf8(body).unwrap();
        body.split("diana:{").nth(1).unwrap().split('}').next().unwrap().to_owned()
    };
    for one in [r#""cluster": "one""#, r#""clusters": ["one"]"#, r#""clusters": ["one", "two"]"#] {
        assert_eq!(first_tag(one), "0", "{one}");
    }
    assert_eq!(first_tag(r#""dialect": "resp", "clusters": ["one"]"#), "0");
    assert_eq!(first_tag(r#""dialect": "resp", "clusters": ["one", "two"]"#), "one");
}

#[test]
fn the_keys_and_values_of_a_lease() {
    let host = Simulated::new(Rules::Lenient);
    let json = r#"{"limits": [{"url": "/", "rules": [{"name": "lease", "actor": "user", "rpu": 100,
        "unit": "minute", "scope": "global", "lease": 10}]}], "local": {"max_actors": 100},
        "store": {"redis": {"cluster": "one", "secret": "a secret of the tests only"}}}"#;
    let mut global = Global::new(json, &host);
    global.start(&get("/", "ann"));
    let call = global.next_call().unwrap();
    let (keys, number, arguments) = parts(&call);
    // Admitted, 80 left, a charge, and 10 units of generation 3 for a second.
    let reply = format!(r#"{{"EVALSHA":[{number},0,0,80,600000,6000000,1,7,7,0,0,10,3,1000000]}}"#);
    let result = CallResult::Http { status: 200, body: reply.as_bytes() };
    let Global { policy, mut worker, mut sessions, .. } = global;
    let store = store(&host);
    for completion in worker.call_done(call.id, result, Time::ZERO) {
        assert!(sessions[0].answer(&policy, &mut worker, &store, &completion, || at(5)).is_some());
    }
    pinned(&[keys, arguments, contents(&host)].concat(), LEASE);
}

const SHARED_DATA: &str = "
diana/77D7jaZfq9JBAAA 010000000e582ec8dfc9810c2c58cf269e3407(5)02(8)5c9af1a19e9717(12)8099b490ff9c9717(4)2e0e48(9)02(15)02(1771)
diana/77D7jaZfq9JFAAA 01000000bfabe2a8cb39bad78d17f5699e3407(5)02(7)c0749d6fd09d9717(12)40dae59aff9c9717(4)2e0e48(9)02(15)02(1771)
diana/77D7jaZfq9JJAAA 010000003b77fae5235fff3a1233bcb49e3407(5)02(7)80ddfc05a29e9717(13)1b17a5ff9c9717(4)2e0e48(9)02(15)02(1771)
diana/HYSmbxLIlwOHAAA 0100000031f25f00468e3cf96400e19504f40f51(8)01(27)01(1103)
diana/HYSmbxLIlwOMAAA 0100000099e861025208fc28d645ccf504f40f51(8)01(27)01(1103)
diana/J3dyuuuo3DDEAAA 01000000888f6580e6f42e315340c8560089333d009d9717(384)
diana/J3dyuuuo3DDJAAA 01000000535330b37fa269467f65d3b540480233009d9717(384)
diana/J3dyuuuo3DDKAAA 010000001bcc7f666b24a997cd20fed58007d128009d9717(384)
diana/f6XtOz4l7bGEAAA 010000009a72e2783da2bdb3cd0bd65980fe210a(8)03(15)03(15)79b96cb72bb8cc5780fe210a(8)03(15)03(743)
diana/f6XtOz4l7bGHAAA 01000000f86367523fbc6dd3ed84de9b80fe210a(8)03(15)03(795)
diana/fjxgSKkmHVBEAAA 01000000d546631e7b4c3180e135a157406877a00c9d9717(12)40e6f93d009d9717(604)
diana/fjxgSKkmHVBJAAA 0100000077b42e060181f9ef29a690c280e182720c9d9717(12)40e33415009d9717(604)
diana/fjxgSKkmHVBKAAA 01000000719debe5f69cb6267f5597d4c0051f860c9d9717(12)80a2030b009d9717(604)
diana/jUiqM-WYk7PGAAA 010000001aa4f750ef60c826bc9150850021a1f6ff9c9717(4)03(8)808d76b700001bed6e01(585)
diana/jUiqM-WYk7PLAAA 01000000ff2da516fbe608f70ed47de540e06fecff9c9717(4)03(8)808d76b700001bed6e01(585)
diana/jsu_-Oxvi1GAAAA 0100000046e9c8622a5d7bacf66b5b998028093e009d9717(12)40e6f93d009d9717(4)
diana/seed 00002a36fe9c9717612073656564206f6620612074657374
diana/tHBmtrI4VnDBAAA 01000000b3b563765a35bd6d086560271555b001(4)02(367)
diana/tHBmtrI4VnDJAAA 01000000e5547a96da6870d23f681fbd1555b001(4)03(367)
";

const REDIS: &str = "
0 diana:{0}:3843b0a5e4154708a714d5dc70cf66f2
0 diana:{0}:30051e79f4b51a0a7ed39c18658cc51f
0 diana:{0}:c00e07a0e72297b149e3adaedc27295a
0 diana:{0}:50f0ad961d86220b4381321aa3ee3606
0 diana:{0}:c5c8a3f2f1a32b711c4d06d4ed84b7ec
0 diana:{0}:b56d347ab53203d3e033d1c03d3ccc07
0 diana:{0}:30051e79f4b51a0a7ed39c18658cc51f
0 diana:{0}:78df4fd517a9f577283d2febc8fd6bfb
0 diana:{0}:0f847c42f346c4b4ac3288bb98960cc4
0 diana:{0}:03e78750ae54655d0529937387541158
0 diana:{0}:af033590a6999a8c9c037bcc15bbd7b0
0 diana:{0}:ca219dc80aca56a98394984306e4af0e
0 diana:{0}:a0e2f0694406104b544b43ace9a5be38
0 diana:{0}:24c70c73823c54d7ada2068596fecee4
0 diana:{0}:30051e79f4b51a0a7ed39c18658cc51f
0 1+2+1+3+0+1+0+30+60000000+6+0+0+0+1+4+1+1+0+3+60000000+0+0+0+0
0 1+4+3+1+1+1+0+12000000+1+9+0+0+13000000+2+1+1+0+40+60000000+0+0+0+0+2+1+1+0+40+60000000+0+0+0+0+1+1+1+1+0+600000+1+100+0+0+1600000+1+4+1+1+0+3+60000000+0+0+0+0+2+5+1+1+0+500000+1+1000000+0+2+0+7+1+1+0+8+10000000+1522966979477680+1+0+6000000
0 1+4+3+1+1+1+0+1200000+1+9+0+0+2200000+2+1+1+0+40+60000000+0+0+0+0+2+1+1+0+40+60000000+0+0+0+0+1+1+1+1+0+600000+1+100+0+0+1600000+1+3+0+1+0+30+60000000+6+0+0+0+1+4+1+1+0+3+60000000+0+0+0+0
1 diana:{0}:6f54bb550cf16dd65f3c63c001170b0e
1 diana:{0}:b927e981dc2cd3bbc6c258a664dce21b
1 diana:{0}:418d6d3d2ba1d1c681d88edaede5c3a0
1 diana:{0}:b6a8f6285c364a363203d79d22314674
1 diana:{0}:915ff31fd4d342443398cce19720fce6
1 diana:{0}:5b7cff4656b3d56e96ef851d3aa67442
1 diana:{0}:a6d4ad7e5a9414d1ae3fd7e43dcc6fb2
1 diana:{0}:6f54bb550cf16dd65f3c63c001170b0e
1 diana:{0}:55734ada514f1875ca9e6efd96c3d8c7
1 diana:{0}:6f54bb550cf16dd65f3c63c001170b0e
1 diana:{0}:583a0343bc25d776cbf28bfc62dcc2f6
1 diana:{0}:3a7d0b43480b152db6c4782dc6f987e7
1 1+4+1+1+1+1+0+1000+1+1000+0+0+1000000+3+1+1+1+0+12000000+1+9+0+0+13000000+2+1+1+0+40+60000000+0+0+0+0+2+1+1+0+40+60000000+0+0+0+0+1+1+1+1+0+600000+1+100+0+0+1600000+2+5+1+1+0+500000+1+1000000+0+2+0+7+1+1+0+8+10000000+1522966979477680+2+0+6000000
1 1+2+1+1+1+1+0+1000+1+1000+0+0+1000000+1+3+0+1+0+30+60000000+6+0+0+0
1 1+2+1+1+1+1+0+1000+1+1000+0+0+1000000+2+5+1+1+0+500000+1+1000000+0+2+0+7+1+1+0+8+10000000+1522966979477680+2+0+6000000
";

const FALLBACK: &str = "
diana/7bCTNtNpzODAAAA 010000004d51a128681dfa815be712f040b75239fe9c9717(12)80f02439fe9c9717(4)
diana/YEfNoefxkbBAAAA 010000006733cd99cd267826083844071555b001(4)01(7)1555b001(4)01(7)80686604019d9717(12)80f02439fe9c9717(1084)
diana/YEfNoefxkbBDAAA 010000002c3d4b6183f3363fd6f7d0421555b001(4)01(7)1555b001(4)01(7)807cab80fe9c9717(12)80f02439fe9c9717(1084)
diana/YEfNoefxkbBLAAA 01000000ff4cca377a11cc9fa645a4da1555b001(4)01(7)1555b001(4)01(7)80686604019d9717(12)80f02439fe9c9717(1084)
diana/lvnh257HRZFEAAA 01000000eaf6e80666a4a14a429aa6518055f256fe9c9717(10)f40f51(8)01(11)01(1374)
diana/lvnh257HRZFHAAA 01000000777672c6d19315f3ece7468c8055f256fe9c9717(10)f40f51(8)01(11)01(1374)
diana/lvnh257HRZFLAAA 01000000078d8e131446802354cec7e98055f256fe9c9717(10)f40f51(8)01(11)01(1374)
diana/xmWgToxKVpACAAA 01000000247ca72ff56fa029065094358036e85cfe9c9717(12)80f02439fe9c9717(604)
diana/xmWgToxKVpAEAAA 01000000b248470b30ba35f9be7915508036e85cfe9c9717(12)80f02439fe9c9717(604)
diana/xmWgToxKVpAHAAA 01000000273b501b878d81401004f58d8036e85cfe9c9717(12)80f02439fe9c9717(604)
";

const LEASE: &str = "
diana:{0}:915ff31fd4d342443398cce19720fce6
1+1+1+1+1+1+10+600000+1+100+0+0+1600000
diana/bALy5n4N4hLLAAA 01000000323fb7a475de2726af4ae9da03(9)2a36fe9c971700cac471fe9c97170a(39)50(12)46ed59fe9c971700bcca9bff9c9717(1628)
";
