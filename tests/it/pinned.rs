//! The bytes of stored formats, as literals: the keys and values in a gateway's shared data, and
//! the keys and arguments of queries to Redis. Gateways of two versions share both during an
//! upgrade, so a change of any literal here loses counts.

mod remote;

use crate::harness::{Gateway, at, get, store};
use crate::host::wire::{Command, commands, list};
use diana_base::time::Time;
use diana_config::{Configuration, compile};
use diana_limiter::cells::store::SharedDataStore;
use diana_limiter::cells::store::{CasSemantics, SharedData};
use diana_limiter::decide::Outcome;
use diana_limiter::global::{Call, CallResult};
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
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
    for (rules, word) in [(CasSemantics::Lenient, "lenient"), (CasSemantics::Strict, "strict")] {
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
    worker: Worker<SharedDataStore<&'h Simulated>>,
    sessions: Vec<Session>,
}

impl<'h> Global<'h> {
    fn new(json: &str, host: &'h Simulated) -> Global<'h> {
        let Configuration { policy, store, .. } = compile(json.as_bytes()).unwrap();
        let worker = Worker::new(policy, crate::harness::store(host), &[7; 16]);
        let worker = worker.with_global_store(store.unwrap(), 1);
        Global { worker, sessions: Vec::new() }
    }

    fn start(&mut self, request: &Values) {
        let Global { worker, sessions } = self;
        let policy = worker.policy().clone();
        let request = policy.request(request);
        let (session, decision) = Session::start(worker, &request, || at(0));
        assert!(matches!(decision.outcome, Outcome::Query(_)), "{decision:?}");
        sessions.push(session);
    }

    fn next_call(&mut self) -> Option<Call> {
        self.worker.next_call(Time::ZERO)
    }
}

/// The keys and arguments of a call, and its number.
fn parts(call: &Call) -> (Vec<String>, u64, Vec<String>) {
    let [command] = <[Command; 1]>::try_from(commands(&call.message.body)).ok().unwrap();
    let arguments = command.arguments.iter().map(|argument| argument.replace(' ', "+")).collect();
    (command.keys, command.number, arguments)
}

/// The cluster of each key is pinned too: gateways that disagree on it count apart.
#[test]
fn the_keys_and_arguments_in_redis() {
    let host = Simulated::new(CasSemantics::Lenient);
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
    let Global { mut worker, sessions } = global;
    for mut session in sessions {
        assert!(session.give_up(&mut worker, || at(50)).is_some());
    }
    pinned(&contents(&host), FALLBACK);
}

/// A list of one cluster means the same as one cluster, so both have the same keys.
#[test]
fn the_hash_tags_of_several_clusters() {
    let host = Simulated::new(CasSemantics::Lenient);
    let first_tag = |clusters: &str| {
        let json = GLOBAL.replace(r#""clusters": ["one", "two"]"#, clusters);
        let mut global = Global::new(&json, &host);
        global.start(&get("/a/1", "ann"));
        let (keys, ..) = parts(&global.next_call().unwrap());
        keys[0].strip_prefix("diana:{").unwrap().split('}').next().unwrap().to_owned()
    };
    for (clusters, tag) in [
        (r#""cluster": "one""#, "0"),
        (r#""clusters": ["one"]"#, "0"),
        (r#""clusters": ["one", "two"]"#, "one"),
    ] {
        assert_eq!(first_tag(clusters), tag);
        assert_eq!(first_tag(&format!(r#""dialect": "resp", {clusters}"#)), tag);
    }
}

/// The keys of a document's store in the shared data, and the fingerprint in the log, are those of
/// versions that had several dialects and kinds of store.
#[test]
fn the_hashes_of_a_store() {
    let hashes = |keys: &str| {
        let json = format!(
            r#"{{"limits": [{{"url": "/", "rules": [
                {{"name": "a", "actor": "user", "rpu": 5, "unit": "minute", "scope": "global"}}]}}],
                "store": {{"redis": {{{keys}, "secret": "a secret of the tests only"}}}}}}"#
        );
        let configuration = compile(json.as_bytes()).unwrap();
        (configuration.fingerprint, configuration.policy.replicas().unwrap().stores())
    };
    let auto = r#""clusters": ["one", "two"], "replicas": "auto", "prefix": "mine", "in_flight": 3"#;
    for (keys, hashed) in [
        (r#""cluster": "one""#, (0x0bba_62f0_984a_8fa3, None)),
        (auto, (0xb6dd_6483_e5cd_3b66, Some(1_390_896_685_232_933_584))),
    ] {
        assert_eq!(hashes(keys), hashed, "{keys}");
        assert_eq!(hashes(&format!(r#"{keys}, "dialect": "resp""#)), hashed, "{keys}");
    }
}

#[test]
fn the_keys_and_values_of_a_lease() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"limits": [{"url": "/", "rules": [{"name": "lease", "actor": "user", "rpu": 100,
        "unit": "minute", "scope": "global", "lease": 10}]}], "local": {"max_actors": 100},
        "store": {"redis": {"cluster": "one", "secret": "a secret of the tests only"}}}"#;
    let mut global = Global::new(json, &host);
    global.start(&get("/", "ann"));
    let call = global.next_call().unwrap();
    let (keys, number, arguments) = parts(&call);
    // Admitted, 80 left, a charge, and 10 units of generation 3 for a second.
    let reply = list(&[number, 0, 0, 80, 600_000, 6_000_000, 1, 7, 7, 0, 0, 10, 3, 1_000_000]);
    let result = CallResult::Response { status: 200, body: &reply };
    let Global { mut worker, mut sessions } = global;
    for completion in worker.call_done(call.id, result, Time::ZERO) {
        assert!(sessions[0].answer(&mut worker, &completion, || at(5)).is_some());
    }
    pinned(&[keys, arguments, contents(&host)].concat(), LEASE);
}

const SHARED_DATA: &str = "
diana/AD3DYNtvVbFBAAA 0100000334dc6a77801aae0930000000c52b5d65007ecdd7223cb815406877a00c9d9717(12)40e6f93d009d9717(4)5802000060ea00005802(846)
diana/AD3DYNtvVbFHAAA 01000003776af9f0801aae0930000000c42b5d658dae4a71bc5c8e96c0051f860c9d9717(12)80a2030b009d9717(4)5802000060ea00005802(846)
diana/AD3DYNtvVbFMAAA 010000034033503f801aae0930000000c52b5d6599288aa00e19a3f680e182720c9d9717(12)40e33415009d9717(4)8403000060ea00008403(846)
diana/BYcNWE_c9GNHAAA 0100000380d7ba4a20e4ccd3380000004df153658dae4a71bc5c8e9604f40f51(8)01(27)01(975)
diana/BYcNWE_c9GNMAAA 01000003095af99420e4ccd3380000004df1536599288aa00e19a3f604f40f51(8)01(27)01(975)
diana/NlxkBh08PPMBAAA 01000003365f560f884afe6e2200000045f15365007ecdd7223cb8150089333d009d9717(8)02000000e803000000ca9a3b(636)
diana/NlxkBh08PPMHAAA 010000032c891fa7884afe6e2200000045f153658dae4a71bc5c8e968007d128009d9717(8)02000000e803000000ca9a3b(636)
diana/NlxkBh08PPMMAAA 010000033b26022d884afe6e2200000045f1536599288aa00e19a3f640480233009d9717(8)02000000e803000000ca9a3b(636)
diana/WO43BMWN0SCAAAA 01000003f6aa699750cdb2b33000000045f153656590cd5f917e7c8b8028093e009d9717(12)40e6f93d009d9717(4)e8030000e8030000e803(6)
diana/cBqR6Y2xP4DBAAA 01000003b30aa848709063552c00000079f15365007ecdd7223cb81580fe210a(8)03(15)03(795)
diana/cBqR6Y2xP4DKAAA 01000003e014e0e3709063552c00000079f1536502601db702b3b0d780fe210a(8)03(15)03(795)
diana/cBqR6Y2xP4DLAAA 01000003a327046a709063552c00000079f15365467bccb3e400aad980fe210a(8)03(15)03(795)
diana/oVGl6NhdiiDHAAA 01000003e6cdd31df0db71553800000080f153658dae4a71bc5c8e9640e06fecff9c9717(4)03(8)808d76b700001bed6e01(985)
diana/oVGl6NhdiiDMAAA 0100000355dc1699f0db71553800000080f1536599288aa00e19a3f60021a1f6ff9c9717(4)03(8)808d76b700001bed6e01(985)
diana/seed 00002a36fe9c9717612073656564206f6620612074657374
diana/vDM_y2UQHBCAAAA 030000039332eddae00483863c0000005801e99210000000202fefe530000000fdfe53652dfc536548f85365713834478237fd042e0e48(9)02(15)02(31)9e3407(5)02(7)80ddfc05a29e9717(13)1b17a5ff9c9717(4)0400000080ee360004000000e8030080(1980)
diana/vDM_y2UQHBCHAAA 03000003aabf4fe4e00483863c0000005801e99210000000202fefe530000000fdfe53652dfc536547f853658dae4a71bc5c8e962e0e48(9)02(15)02(31)9e3407(5)02(8)5c9af1a19e9717(12)8099b490ff9c9717(4)0400000080ee360004000000e8030080(1980)
diana/vDM_y2UQHBCMAAA 03000003675f3cabe00483863c0000005801e99210000000202fefe530000000fdfe53652dfc5365c3f4536599288aa00e19a3f62e0e48(9)02(15)02(31)9e3407(5)02(7)c0749d6fd09d9717(12)40dae59aff9c9717(4)0800000080ee360008000000e8030080(1980)
diana/vQQmy9MoP3EAAAA 010000036cc10275c0f967cf1000000065f153653550b1de350bfb0e1555b001(4)02(367)
diana/vQQmy9MoP3EHAAA 01000003d93906fdc0f967cf1000000065f15365b50d7c61020684941555b001(4)03(367)
";

const REDIS: &str = "
0 diana:{one}:81e7ebdb74a7e121f0ca3c9e8d84327d
0 diana:{one}:65957a6b6ef6c97e240a5f8312289e73
0 diana:{one}:7a402c5ebc49342b765d080df6ab981c
0 diana:{one}:e66350793f4e918a28d8f258c740e93d
0 diana:{one}:f41e7e7eada441741859c67a3e9a7e3a
0 diana:{one}:1e52114d8c9cfeee67830bf570479706
0 diana:{one}:65957a6b6ef6c97e240a5f8312289e73
0 diana:{one}:b4787c389d42bf7416b034f55b67a703
0 diana:{one}:c056eb809c66e8421e0e07b537ca57f6
0 diana:{one}:19300b3a48c98f3b997a4d2f90eb9911
0 diana:{one}:8de8fd529ed49d650a25f7850235f728
0 diana:{one}:5929d4312acf65366985a425fc7b03ac
0 diana:{one}:c512655201a5d994e0cd0d7a5a1363bf
0 diana:{one}:2c77ed7a5c08b861a0b6ff1e1f607f7f
0 diana:{one}:65957a6b6ef6c97e240a5f8312289e73
0 1+2+1+3+0+1+0+30+60000000+6+0+0+0+1+4+1+1+0+3+60000000+0+0+0+0
0 1+4+3+1+1+1+0+12000000+1+9+0+0+13000000+2+1+1+0+40+60000000+0+0+0+0+2+1+1+0+40+60000000+0+0+0+0+1+1+1+1+0+600000+1+100+0+0+1600000+1+4+1+1+0+3+60000000+0+0+0+0+2+5+1+1+0+500000+1+1000000+0+16+0+7+1+1+0+8+10000000+1522966979477680+1+0+6000000
0 1+4+3+1+1+1+0+1200000+1+9+0+0+2200000+2+1+1+0+40+60000000+0+0+0+0+2+1+1+0+40+60000000+0+0+0+0+1+1+1+1+0+600000+1+100+0+0+1600000+1+3+0+1+0+30+60000000+6+0+0+0+1+4+1+1+0+3+60000000+0+0+0+0
1 diana:{two}:cc7d6291652d41223249e30aeee05d7b
1 diana:{two}:eda918d0a3e5516d437092d72860fa48
1 diana:{two}:18bb42769742f923a15b331c1d7b77e1
1 diana:{two}:90cc57855662a087a56070fe34453632
1 diana:{two}:9538b4931eacba80f2bfd5c16caf8fdc
1 diana:{two}:a0efa3c8738a73df59ab006cdf157fdd
1 diana:{two}:6e7cc205b9ee20683286adb8a711f63b
1 diana:{two}:cc7d6291652d41223249e30aeee05d7b
1 diana:{two}:c86dbca0c3de2f5c8aff201bc4525734
1 diana:{two}:cc7d6291652d41223249e30aeee05d7b
1 diana:{two}:88694a9e5b0cdfab8ff65b0a6aa2d6f5
1 diana:{two}:68581689ab06e35094b0646424d051ac
1 1+4+1+1+1+1+0+1000+1+1000+0+0+1000000+3+1+1+1+0+12000000+1+9+0+0+13000000+2+1+1+0+40+60000000+0+0+0+0+2+1+1+0+40+60000000+0+0+0+0+1+1+1+1+0+600000+1+100+0+0+1600000+2+5+1+1+0+500000+1+1000000+0+16+0+7+1+1+0+8+10000000+1522966979477680+2+0+6000000
1 1+2+1+1+1+1+0+1000+1+1000+0+0+1000000+1+3+0+1+0+30+60000000+6+0+0+0
1 1+2+1+1+1+1+0+1000+1+1000+0+0+1000000+2+5+1+1+0+500000+1+1000000+0+16+0+7+1+1+0+8+10000000+1522966979477680+2+0+6000000
";

const FALLBACK: &str = "
diana/USybkICoTaHAAAA 01000003aee6aa73a035e342300000003df1536527d04c723cf235e240b75239fe9c9717(12)80f02439fe9c9717(4)e8030000e8030000e803(6)
diana/lWviySaUXYKCAAA 0400000315f4cbb788c4bd5e1000000090c50f7330000000800fa6ba3000000078f270ef1000000065f153653df1536549f1536565f153651af18a58625a66321555b001(4)01(7)8036e85cfe9c9717(12)80f02439fe9c9717(4)6400000060ea000064(7)80686604019d9717(12)80f02439fe9c9717(4)0500000060ea000009(7)1555b001(4)01(2047)
diana/lWviySaUXYKHAAA 0400000320ed9fa388c4bd5e1000000090c50f7330000000800fa6ba3000000078f270ef1000000065f153653df153653ef1536565f153656813ab31740e078a1555b001(4)01(7)8036e85cfe9c9717(12)80f02439fe9c9717(4)6400000060ea000064(7)807cab80fe9c9717(12)80f02439fe9c9717(4)3200000060ea000009(7)1555b001(4)01(2047)
diana/lWviySaUXYKMAAA 040000038ea1ed5088c4bd5e1000000090c50f7330000000800fa6ba3000000078f270ef1000000065f153653df1536549f1536565f15365adc63ee1cc2786ef1555b001(4)01(7)8036e85cfe9c9717(12)80f02439fe9c9717(4)6400000060ea000064(7)80686604019d9717(12)80f02439fe9c9717(4)0500000060ea000009(7)1555b001(4)01(2047)
diana/q5o2AH97sAJCAAA 020000037b78125fa07465042200000020563693380000003df1536548f153651af18a58625a66328055f256fe9c9717(8)02000000e803000000ca9a3b(7)f40f51(8)01(11)01(1501)
diana/q5o2AH97sAJHAAA 0200000394f46a3ca07465042200000020563693380000003df1536548f153656813ab31740e078a8055f256fe9c9717(8)02000000e803000000ca9a3b(7)f40f51(8)01(11)01(1501)
diana/q5o2AH97sAJMAAA 02000003c6883773a07465042200000020563693380000003df1536548f15365adc63ee1cc2786ef8055f256fe9c9717(8)02000000e803000000ca9a3b(7)f40f51(8)01(11)01(1501)
";

const LEASE: &str = "
diana:{0}:9538b4931eacba80f2bfd5c16caf8fdc
1+1+1+1+1+1+10+600000+1+100+0+0+1600000
diana/EAeRnB9OH3EMAAA 01000003261fec79c0b4cf90640000003ef15365654cb33bd80147fc03(9)2a36fe9c971700cac471fe9c97170a(39)50(12)46ed59fe9c971700bcca9bff9c9717(1628)
";
