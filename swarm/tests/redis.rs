//! Compares the simulated server with a real Redis: the same calls of the script at the same
//! instants must have the same replies, values and lifetimes.

use diana_base::prng;
use diana_global_redis::script::SCRIPT;
use gateway::Redis;
use redis::cmd;
use swarm::server::Server;

/// The parameters a to f of each kind of rule, as `Parameters` documents them.
const RULES: [(u64, [u64; 6]); 9] = [
    (1, [100_000, 1, 20, 0, 0, 2_000_000]),
    (1, [1_000_000, 7, 9, 0, 1, 1_000_000]),
    (1, [1_000_000, 3, 5, 700_000, 0, 1_000_000]),
    (2, [12, 1_000_000, 4, 0, 0, 0]),
    (3, [30, 1_000_000, 10, 2, 0, 0]),
    (4, [9, 700_000, 0, 0, 0, 0]),
    (5, [50_000, 1, 500_000, 0, 11, 0]),
    (8, [100_000, 1, 20, 3_000_000, 0, 2_000_000]),
    (6, [0, 0, 0, 0, 0, 0]),
];

#[test]
fn the_server_answers_like_a_real_redis() {
    let redis = Redis::start().unwrap();
    let client = redis::Client::open(format!("redis://{}/", redis.address())).unwrap();
    let mut connection = client.get_connection().unwrap();
    // The instant is the last argument.
    let script = SCRIPT.replace("redis.call('TIME')", "{0,table.remove(ARGV)}");
    assert_ne!(script, SCRIPT);
    let sha: String = cmd("SCRIPT").arg("LOAD").arg(script).query(&mut connection).unwrap();

    let mut server = Server::default();
    let mut random = 5;
    let mut below = |most: u64| u64::from(prng::next(&mut random)) % most;
    let mut now = 1_795_392_000_123_456;
    // Charges and leases so far: the rule, the key, and the numbers to hand back.
    let (mut charges, mut leases) = (Vec::new(), Vec::new());
    let (mut refused, mut leased, mut expired) = (0, 0, 0);
    for step in 0..3_000_u64 {
        now = match below(50) {
            0 => now + below(9_000_000),
            1 => now - below(3_000_000),
            _ => now + below(60_000),
        };
        let (kind, parameters) = RULES[below(RULES.len() as u64) as usize];
        let key = format!("diana:{{0}}:{kind}-{}-{}", parameters[1], below(3));
        let text = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        let command = match below(8) {
            0 if !charges.is_empty() => {
                let (kind, parameters, key, charge): (u64, [u64; 6], String, Vec<u64>) =
                    charges.swap_remove(below(charges.len() as u64) as usize);
                let (verb, more) = if below(3) > 0 { (2, vec![]) } else { (5, vec![below(9)]) };
                let command = [&[verb, 1, kind][..], &parameters, &charge, &more].concat();
                (text(&command), key)
            }
            1 if !leases.is_empty() => {
                let (kind, parameters, key, generation, amount): (u64, [u64; 6], String, u64, u64) =
                    leases.swap_remove(below(leases.len() as u64) as usize);
                let used = below(amount + 1);
                let command = [&[3, 1, kind][..], &parameters, &[generation, used, amount - used]].concat();
                (text(&command), key)
            }
            2 => {
                // Permits: the parameters have the holder, the number of the call, the level.
                let permits = [6, 0, 100 + below(3), step, below(4), 6_000_000];
                let verb = [&[1, 1, 1, 7, 1, below(3), 0][..], &permits].concat();
                (text(&verb), "diana:{0}:permits".to_owned())
            }
            _ => {
                let (cost, lease) = (below(4), if below(2) > 0 { below(9) } else { 0 });
                let penalty = if kind == 2 && below(3) == 0 { vec![3, 1_000_000, 2_000_000] } else { vec![] };
                let flags = 1 + if penalty.is_empty() { 0 } else { 4 };
                let command = [&[1, 1, 1, kind, flags, cost, lease][..], &parameters, &penalty].concat();
                (text(&command), key)
            }
        };
        let (command, key) = command;
        // Redis' own clock stands almost still.
        if server.entry(&key).is_some() && !server.reads(now, &key) {
            let _: u64 = cmd("DEL").arg(&key).query(&mut connection).unwrap();
            expired += 1;
        }
        let number = (step * 4).to_string();
        let mut evalsha = cmd("EVALSHA");
        evalsha.arg(&sha).arg(1).arg(&key).arg(&number).arg(&command).arg(now);
        let expected: Vec<u64> = evalsha.query(&mut connection).unwrap();
        let keys = [key.clone()];
        let numbers = server.run(now, now, &keys, &[number, command.clone()]).unwrap();
        assert_eq!(numbers, expected, "step {step}: {command}");
        if let [_, outcome, _, _, _, _, cost, at, booked, first, second, amount, generation, _] = numbers[..]
        {
            let words: Vec<u64> = command.split(' ').map(|word| word.parse().unwrap()).collect();
            let (kind, parameters) = (words[3], words[7..13].try_into().unwrap());
            refused += u64::from(outcome > 0);
            leased += amount;
            if cost > 0 {
                charges.push((kind, parameters, key.clone(), vec![cost, at, booked, first, second]));
            }
            if amount > 0 {
                leases.push((kind, parameters, key.clone(), generation, amount));
            }
        }
        let value: Option<String> = cmd("GET").arg(&key).query(&mut connection).unwrap();
        let entry = server.entry(&key);
        assert_eq!(entry.filter(|_| server.reads(now, &key)).map(|(value, _)| value), value);
    }
    assert!(refused > 300 && leased > 300 && expired > 30, "{refused}, {leased}, {expired}");

    // A probe lives for a second in both. Redis' clock goes on meanwhile.
    let probe = "diana:{0}:probe".to_owned();
    let mut evalsha = cmd("EVALSHA");
    evalsha.arg(&sha).arg(1).arg(&probe).arg(8).arg(now);
    assert_eq!(evalsha.query::<Vec<u64>>(&mut connection).unwrap(), [8]);
    let life: u64 = cmd("PTTL").arg(&probe).query(&mut connection).unwrap();
    let keys = [probe];
    assert_eq!(server.run(now, now, &keys, &["8".into()]).unwrap(), [8]);
    let (value, own) = server.entry(&keys[0]).unwrap();
    assert!(value == "1" && own == 1_000 && life <= own, "{life}");
    let end = now / 1_000 * 1_000 + 1_001_000;
    assert_eq!([end - 1, end].map(|now| server.reads(now, &keys[0])), [true, false]);
}

/// A text that Redis refuses is an error here, too.
#[test]
fn other_commands_are_errors() {
    for script in ["return redis.call('DEL', 'a')", "return redis.call('SET', 'a', 1, 'PX', 0)"] {
        assert!(Server::with_script(script).run(1, 1, &[], &[]).is_err());
    }
}

#[test]
fn a_replica_lacks_the_latest_writes() {
    let mut server = Server::with_script("redis.call('SET', KEYS[1], ARGV[1], 'PX', 90000) return {1}");
    let [a, b] = [["a".to_owned()], ["b".to_owned()]];
    let set = |server: &mut Server, at: u64, key: &[String], value: &str| {
        assert_eq!(server.run(at, at, key, &[value.to_owned()]).unwrap(), [1]);
    };
    set(&mut server, 1_000, &a, "1");
    set(&mut server, 2_000, &a, "2");
    set(&mut server, 3_000, &b, "3");
    set(&mut server, 4_000, &a, "4");
    server.fail_over(2_500);
    let value = |server: &Server, key: &str| server.entry(key).map(|(value, _)| value);
    assert_eq!((value(&server, "a").as_deref(), value(&server, "b")), (Some("2"), None));
    server.restart_empty();
    assert_eq!(value(&server, "a"), None);
}
