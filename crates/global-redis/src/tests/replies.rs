//! Incomplete replies: errors, replies to other calls, answers of other servers, and pipelines in
//! which some commands fail.

use super::*;

/// Replies to other clients, and the right reply to an earlier call.
#[test]
fn a_reply_without_the_number_of_its_call_is_stray() {
    let query = GlobalQuery::Decide(vec![vec![rule_query(1, 7)]]);
    let earlier =
        [NUMBER - 4, NUMBER + 1, 0, (1 << 53) - 1].map(|number| list(&[&[number], &NUMBERS[..]].concat()));
    for reply in earlier.iter().chain(&[list(&NUMBERS), list(&[7]), list(&[])]) {
        assert_eq!(read(&[&query], reply), Err(CallError::Stray), "{reply}");
    }
}

#[test]
fn errors_of_redis_are_read() {
    let [query, ..] = &one_of_each();
    let answer = |status, body: &str| redis().read_reply(&[query], NUMBER, status, body.as_bytes());
    assert_eq!(answer(200, "-NOSCRIPT No matching script. Please use EVAL.\r\n"), Err(CallError::NoScript));
    for (is_unfit, words) in [
        (true, "NOAUTH Authentication required."),
        (
            true,
            "READONLY You can't write against a read only replica. script: 3ad64e045b020f4654b4e7de8d3ad85a59fa42da, on @user_script:1.",
        ),
        (
            false,
            "OOM command not allowed when used memory > 'maxmemory'. script: 3ad64e045b020f4654b4e7de8d3ad85a59fa42da, on @user_script:1.",
        ),
        (
            true,
            "NOREPLICAS Not enough good replicas to write. script: 3ad64e045b020f4654b4e7de8d3ad85a59fa42da, on @user_script:1.",
        ),
        (true, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
        (
            true,
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        ),
        (true, "CLUSTERDOWN The cluster is down"),
        (false, "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
        (
            false,
            "ERR Script killed by user with SCRIPT KILL... script: 694a5fe1ddb97a4c6a1bf299d9537c7d3d0f84e7, on @user_script:1.",
        ),
        (false, "ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'"),
        (true, "LOADING Redis is loading the dataset in memory"),
        (false, "MOVED 3999 127.0.0.1:6381"),
    ] {
        let cut = words.chars().take(128).collect();
        let expected = if is_unfit { CallError::Unfit(cut) } else { CallError::Refused(cut) };
        assert_eq!(answer(200, &format!("-{words}\r\n")), Err(expected));
    }
    // Envoy's own answers.
    for (status, body) in [
        (503, "no healthy upstream"),
        (503, "{\"error\": \"no healthy upstream\"}"),
        (502, "<html>"),
        (504, "-NOSCRIPT x\r\n"),
        (403, "unknown command"),
        (0, ""),
    ] {
        assert_eq!(answer(status, body), Err(CallError::status(status, body.as_bytes())));
    }
    for wrong in ["", "+OK\r\n", ":7\r\n", "$2\r\n[]\r\n", "*-1\r\n", "[]"] {
        assert_eq!(answer(200, wrong), Err(CallError::Garbage), "{wrong:?}");
    }
    // A refused login says more than what follows from it.
    let body = b"-WRONGPASS invalid username-password pair\r\n-NOAUTH Authentication required.\r\n";
    let refused = Err(CallError::Unfit("WRONGPASS invalid username-password pair".into()));
    assert_eq!(redis().with_login(login()).read_reply(&[query], NUMBER, 200, body), refused);
}

/// What the filter gets from HTTP fronts of Redis and from a web server: directly, through a tunnel,
/// and through the bridge.
#[test]
fn a_server_that_speaks_http_is_named() {
    let [query, ..] = &one_of_each();
    for (status, body) in [
        (200, r#"{"*5\r\n$7":[false,"ERR unknown command"]}"#),
        (400, r#"{"error":"Unauthorized"}"#),
        (405, "<html><body>405 Not Allowed</body></html>"),
        (403, ""),
        (200, "HTTP/1.1 400 Bad Request\r\n\r\n"),
        (502, "HTTP/1.1 400 Bad Request\r\n\r\n"),
    ] {
        let answer = redis().read_reply(&[query], NUMBER, status, body.as_bytes());
        assert_eq!(answer, Err(CallError::Http), "{status}: {body}");
    }
}

#[test]
fn of_a_pipeline_some_may_fail() {
    let [decide, refund, lease] = &one_of_each();
    let queries: Vec<&GlobalQuery> = [vec![refund; 64], vec![lease; 64], vec![decide; 2]].concat();
    let zeros = |at| listed(at, &[0; 64]);
    let (first, second) = (&*zeros(0), &*zeros(1));
    let (error, noscript) = ("-OOM x\r\n", "-NOSCRIPT y\r\n");
    let decided = listed(2, &[NUMBERS, [0; 13], [0; 13]].concat().repeat(2));
    let answer = |bodies: &[&str]| read(&queries, &bodies.concat());

    let all = answer(&[first, second, &decided]).unwrap();
    assert!(all.len() == 130 && all.iter().all(Result::is_ok));
    assert_eq!(all[129].as_ref().unwrap()[0], reply());
    let some = answer(&[noscript, second, error]).unwrap();
    assert!(some[..64].iter().all(|reply| *reply == Err(CallError::NoScript)));
    assert!(some[64..128].iter().all(|reply| *reply == Ok(Vec::new())));
    assert!(some[128..].iter().all(|reply| *reply == Err(CallError::Refused("OOM x".into()))));
    let short = answer(&[&listed(0, &[0; 63]), second, &decided]).unwrap();
    assert!(short.len() == 130 && short[..64].iter().all(|reply| *reply == Err(CallError::Garbage)));
    let other = answer(&[&first.replacen(":0\r\n", ":1\r\n", 1), second, &decided]).unwrap();
    assert_eq!((&other[0], &other[64]), (&Err(CallError::Garbage), &Ok(Vec::new())));

    assert_eq!(answer(&[noscript, error, error]), Err(CallError::NoScript), "no query has a reply");
    assert_eq!(answer(&[first, second]), Err(CallError::Garbage), "one is missing");
    assert_eq!(answer(&[first, second, &decided, first]), Err(CallError::Garbage), "one is too many");
    assert_eq!(answer(&[first, second, "+OK\r\n"]), Err(CallError::Garbage), "no reply of the script");
    for swapped in [[second, first, &decided], [first, &decided, second], [first, first, &decided]] {
        assert_eq!(answer(&swapped), Err(CallError::Stray), "no reply of that call is trusted");
    }
}

const CENTURY_US: u64 = 100 * 365 * 86_400_000_000;

/// A global store that admits with a longer wait than the rule's own would hold the request that
/// long.
#[test]
fn impossible_spans_are_garbage() {
    let of = |kind, numbers| Parameters { kind, numbers };
    let cases = [
        // Another quota may have left a bucket that takes 100 years to fill.
        (of(1, [100_000, 1, 10, 3_000_000, 0, 0]), 3_000_000, CENTURY_US + 3_601_000_002),
        (of(1, [100_000, 1, 10, 0, 0, 0]), 0, CENTURY_US + 3_601_000_002),
        (of(2, [10, 60_000_000, 0, 0, 0, 0]), 0, 61_000_002),
        (of(3, [10, 60_000_000, 6, 0, 0, 0]), 0, 61_000_002),
        (of(4, [10, 60_000_000, 0, 0, 0, 0]), 0, 61_000_002),
        // Another quota may have left a turn a week after the end of an hour.
        (of(5, [1_000_000, 3, 666_666, 2, 8, 0]), 666_667, (7 * 24 + 1) * 3_600_000_000 + 1_000_002),
        (of(7, [2, 8_000_000, 0, 0, 0, 0]), 0, 2_000_002),
        (of(0, [0; 6]), 0, 1_000_002),
    ];
    for (parameters, wait, longest) in cases {
        let query = GlobalQuery::Decide(vec![vec![RuleQuery { parameters, ..rule_query(1, 7) }]]);
        let is_read = |admission, wait, more_in, full_in| {
            let numbers = [admission, wait, 0, more_in, full_in, 0, 0, 0, 0, 0, 0, 0, 0];
            match read(&[&query], &listed(0, &numbers)) {
                Ok(_) => true,
                Err(failure) => {
                    assert_eq!(failure, CallError::Garbage);
                    false
                }
            }
        };
        assert!(is_read(0, wait, longest, longest) && is_read(1, longest, 0, 0), "{parameters:?}");
        assert!(!is_read(0, wait + 1, 0, 0) && !is_read(1, longest + 1, 0, 0), "{parameters:?}");
        assert!(!is_read(0, 0, longest + 1, 0) && !is_read(1, 0, 0, longest + 1), "{parameters:?}");
    }
}

/// A worker would keep a lease that lasts for ever, and no other worker could spend the quota.
#[test]
fn a_lease_longer_than_its_generation_is_refused() {
    // A bucket's second and the next, and a window of a minute.
    for (parameters, longest) in [
        (Parameters { kind: 1, numbers: [100_000, 1, 10, 0, 0, 0] }, 3_000_002),
        (Parameters { kind: 2, numbers: [10, 60_000_000, 0, 0, 0, 0] }, 61_000_002),
    ] {
        let query = GlobalQuery::Decide(vec![vec![RuleQuery { parameters, ..rule_query(1, 7) }]]);
        let is_read = |amount, lasts| {
            let numbers = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, amount, 5, lasts];
            read(&[&query], &listed(0, &numbers)).is_ok()
        };
        assert!(is_read(7, longest) && !is_read(7, longest + 1), "{parameters:?}");
        assert!(is_read(0, longest + 1), "nothing is lent: {parameters:?}");
    }
}

/// Ten minutes after five refusals within a minute.
const PENALTY: PenaltyParameters = PenaltyParameters { after: 5, unit_us: 60_000_000, lasts_us: 600_000_000 };

#[test]
fn a_penalty_is_sent_behind_its_rule() {
    let plain = RuleQuery {
        parameters: Parameters { kind: 2, numbers: [10, 60_000_000, 0, 0, 0, 0] },
        ..rule_query(1, 0)
    };
    let penalty = Some(PENALTY);
    let with = RuleQuery { penalty, peeks: true, ..plain.clone() };
    let query = GlobalQuery::Decide(vec![vec![with, plain]]);
    let argument = "1 1 2 2 7 3 0 10 60000000 0 0 0 0 5 60000000 600000000 2 1 3 0 10 60000000 0 0 0 0";
    assert_eq!(said(&redis(), &[&query], false)[0].last().unwrap(), argument);
}

#[test]
fn kept_units_are_sent_behind_their_rule_and_its_penalty() {
    let plain = RuleQuery {
        parameters: Parameters { kind: 2, numbers: [10, 60_000_000, 0, 0, 0, 0] },
        ..rule_query(1, 0)
    };
    let keeps = RuleQuery { headroom: 4, ..plain.clone() };
    let both = RuleQuery { penalty: Some(PENALTY), ..keeps.clone() };
    let query = GlobalQuery::Decide(vec![vec![keeps, both, plain]]);
    let argument = "1 1 3 2 9 3 0 10 60000000 0 0 0 0 4 \
        2 13 3 0 10 60000000 0 0 0 0 5 60000000 600000000 4 2 1 3 0 10 60000000 0 0 0 0";
    assert_eq!(said(&redis(), &[&query], false)[0].last().unwrap(), argument);
}

/// A penalty may last longer than the quota would refuse, and than the penalty of this quota. Only
/// a rule with a penalty has one.
#[test]
fn a_refusal_by_a_penalty_is_read() {
    let parameters = Parameters { kind: 2, numbers: [10, 60_000_000, 0, 0, 0, 0] };
    let verdict = |penalty, outcome: u64, wait: u64, full_in: u64| {
        let query = GlobalQuery::Decide(vec![vec![RuleQuery { parameters, penalty, ..rule_query(1, 0) }]]);
        let numbers = [outcome, wait, 0, full_in, full_in, 0, 0, 0, 0, 0, 0, 0, 0];
        let replies = read(&[&query], &listed(0, &numbers)).ok()?;
        Some(replies[0].as_ref().unwrap()[0].verdict)
    };
    let longest = 7 * 86_400_000_000 + 1_000_002;
    let seen = |outcome, wait| verdict(Some(PENALTY), outcome, wait, longest).unwrap();
    let wait = |us: u64| Admission::Refuse { retry_after: Some(Span::from_ns(us * 1_000)) };
    assert_eq!((seen(3, longest).admission, seen(3, longest).is_penalty()), (wait(longest), true));
    assert_eq!((seen(1, 5).admission, seen(1, 5).is_penalty()), (wait(5), false));
    let never = seen(4, 0);
    assert_eq!((never.admission, never.is_penalty()), (Admission::Refuse { retry_after: None }, true));
    assert!(!seen(2, 0).is_penalty() && !seen(0, 0).is_penalty());
    assert_eq!(verdict(Some(PENALTY), 3, longest + 1, 0), None);
    assert_eq!(verdict(Some(PENALTY), 3, 0, longest + 1), None);
    assert_eq!(verdict(Some(PENALTY), 5, 0, 0), None);
    assert!([3, 4].iter().all(|outcome| verdict(None, *outcome, 0, 0).is_none()));
}

/// A Redis Cluster needs all keys of a script in advance, in one slot.
#[test]
fn the_key_of_a_grant_follows_that_of_its_rule() {
    let grants = |key| RuleQuery { takes_grants: true, ..rule_query(key, 0) };
    let charge = |key, booked_at| GlobalCharge {
        key: [key; 16],
        parameters: PARAMETERS,
        numbers: [3, 1, booked_at, 5, 0],
    };
    let settled = |charge| Settlement { charge, cost: 1 };
    let (paid, unpaid) = (MOST_NUMBER, MOST_NUMBER - 1);
    let look = Inspection { change: StoreChange::Nothing, queries: [grants(1), grants(1)] };
    let report = LevelReport { key: [1; 16], parameters: PARAMETERS };
    for (query, keys) in [
        (GlobalQuery::Decide(vec![vec![rule_query(1, 0), grants(2)], vec![grants(3)]]), "1 2 2:g 3 3:g"),
        (GlobalQuery::Inspect(Box::new(look)), "1 1:g 1 1:g"),
        (GlobalQuery::Refund(vec![charge(1, unpaid), charge(2, paid)]), "1 2 2:g"),
        (GlobalQuery::Settle(vec![settled(charge(1, paid)), settled(charge(2, unpaid))]), "1 1:g 2"),
        (GlobalQuery::ReportPermits(vec![report]), "1"),
    ] {
        let expected: Vec<String> = keys
            .split(' ')
            .map(|key| format!("diana:{{0}}:{}{}", format!("0{}", &key[..1]).repeat(16), &key[1..]))
            .collect();
        let command = said(&redis(), &[&query], false).remove(0);
        let (count, keys) = (expected.len().to_string(), &command[3..3 + expected.len()]);
        assert_eq!((&command[2], keys), (&count, &expected[..]), "{query:?}");
    }
}
