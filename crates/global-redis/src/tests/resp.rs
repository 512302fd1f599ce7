//! The dialect of Redis itself: what a call says, and replies that are cut, too long or wrong.

use super::*;

/// A list of numbers, as Redis writes it.
fn list(at: u64, numbers: &[u64]) -> String {
    let all = [&[NUMBER + at], numbers].concat();
    let lines: Vec<String> = all.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*{}\r\n{}", all.len(), lines.concat())
}

fn login() -> Login {
    Login { user: Some("diana".into()), password: "a secret".into() }
}

/// The commands in a body.
fn commands(body: &[u8]) -> Vec<Vec<String>> {
    let (mut rest, mut commands) = (body, Vec::new());
    while let Some(parts) = diana_resp::next_command(&mut rest, 9_999) {
        commands.push(parts.iter().map(|part| String::from_utf8(part.to_vec()).unwrap()).collect());
    }
    assert!(rest.is_empty());
    commands
}

#[test]
fn each_call_logs_in() {
    let [query, ..] = &one_of_each();
    let say = |login: Option<Login>| {
        let redis = redis(Dialect::Resp);
        let redis = login.into_iter().fold(redis, Redis::with_login);
        let call = redis.call("redis", &[query], false, NUMBER);
        assert_eq!((call.path, call.headers.len()), ("/", 0));
        commands(&call.body)
    };
    let evalsha = |command: &Vec<String>| command[..3] == ["EVALSHA", script::SHA1, "3"];
    let with_user = say(Some(login()));
    assert_eq!((with_user.len(), &*with_user[0]), (2, &["AUTH", "diana", "a secret"].map(String::from)[..]));
    assert!(evalsha(&with_user[1]));
    assert_eq!(say(Some(Login { user: None, ..login() }))[0], ["AUTH", "a secret"]);
    let without = say(None);
    assert!(without.len() == 1 && evalsha(&without[0]));
    // A proxy gets its login in a header.
    let webdis = redis(Dialect::Webdis).with_login(login());
    assert_eq!(
        webdis.call("redis", &[query], false, NUMBER),
        redis(Dialect::Webdis).call("redis", &[query], false, NUMBER)
    );
}

/// A script's keys have to lie in one slot of a Redis Cluster, and those of another cluster in
/// another slot.
#[test]
fn each_of_several_clusters_has_a_hash_tag_of_its_own() {
    let queries = one_of_each();
    let redis = redis(Dialect::Resp);
    let keys = |redis: &Redis, cluster: &str, queries: &[&GlobalQuery]| {
        let said = commands(&redis.call(cluster, queries, false, NUMBER).body).remove(0);
        let count: usize = said[2].parse().unwrap();
        said[3..3 + count].to_vec()
    };
    let tags = |redis: &Redis, cluster| {
        let mut tags = [keys(redis, cluster, &queries.each_ref()), keys(redis, cluster, &[])].concat();
        tags.iter_mut().for_each(|key| key.truncate(key.rfind(':').unwrap()));
        tags.dedup();
        tags
    };
    assert_eq!(tags(&redis, "a"), ["diana:{0}"]);
    let sharded = redis.sharded();
    assert_eq!(tags(&sharded, "shard-1"), ["diana:{shard-1}"]);
    // A tag that is empty or ends early would leave the whole key to choose the slot.
    assert_eq!(tags(&sharded, "}.{x"), ["diana:{___x}"]);
    // Gateways of an older version share the keys of the other dialects.
    let webdis = self::redis(Dialect::Webdis);
    let call = |redis: &Redis| redis.call("a", &queries.each_ref(), false, NUMBER).body;
    assert_eq!(call(&webdis.clone().sharded()), call(&webdis));
}

#[test]
fn replies_of_redis_are_read() {
    let queries = one_of_each();
    let refused: [u64; 13] = [1, 5, 0, 700, 800, 0, 0, 0, 0, 0, 0, 0, 0];
    let body = list(0, &[&NUMBERS[..], &refused, &refused, &[0, 0]].concat());
    let replies = redis(Dialect::Resp).read_reply(&queries.each_ref(), NUMBER, 200, body.as_bytes()).unwrap();
    let [Ok(decided), Ok(refunded), Ok(returned)] = replies.as_slice() else { panic!("{replies:?}") };
    assert_eq!(decided[0], reply());
    assert!(refunded.is_empty() && returned.is_empty());
}

#[test]
fn a_reply_that_is_cut_or_followed_by_anything_fails_the_call() {
    let query = GlobalQuery::Decide(vec![vec![rule_query(1, 7)]]);
    let redis = redis(Dialect::Resp).with_login(login());
    let whole = format!("+OK\r\n{}", list(0, &NUMBERS));
    let answer = |body: &str| redis.read_reply(&[&query], NUMBER, 200, body.as_bytes());
    assert_eq!(answer(&whole), Ok(vec![Ok(vec![reply()])]));
    for end in 0..whole.len() {
        assert_eq!(answer(&whole[..end]), Err(CallError::Garbage), "{:?}", &whole[..end]);
    }
    for more in ["\r\n", "+OK\r\n", " ", "-ERR Protocol error\r\n", &list(0, &NUMBERS)] {
        assert_eq!(answer(&format!("{whole}{more}")), Err(CallError::Garbage), "{more:?}");
    }
    assert_eq!(answer(&whole.replacen("+OK\r\n", "", 1)), Err(CallError::Garbage), "nobody has logged in");
    assert_eq!(
        answer(&whole.replacen(&NUMBER.to_string(), &(NUMBER - 4).to_string(), 1)),
        Err(CallError::Stray)
    );
    let long = format!("+{}\r\n{}", "x".repeat(1 << 20), list(0, &NUMBERS));
    assert_eq!(answer(&long), Err(CallError::Garbage));
}

#[test]
fn errors_of_redis_are_read() {
    let [query, ..] = &one_of_each();
    let plain = redis(Dialect::Resp);
    let answer = |status, body: &str| plain.read_reply(&[query], NUMBER, status, body.as_bytes());
    assert_eq!(answer(200, "-NOSCRIPT No matching script. Please use EVAL.\r\n"), Err(CallError::NoScript));
    for words in ["NOAUTH Authentication required.", "MOVED 3999 127.0.0.1:6381", "LOADING Redis is loading"]
    {
        assert_eq!(answer(200, &format!("-{words}\r\n")), Err(CallError::Refused(words.into())));
    }
    for (status, body) in [(503, ""), (502, "-NOSCRIPT x\r\n"), (0, "")] {
        assert_eq!(answer(status, body), Err(CallError::Status(status)));
    }
    for wrong in
        ["", "HTTP/1.1 400 Bad Request\r\n\r\n", "+OK\r\n", ":7\r\n", "$2\r\n[]\r\n", "*-1\r\n", "{}"]
    {
        assert_eq!(answer(200, wrong), Err(CallError::Garbage), "{wrong:?}");
    }
    // A refused login says more than what follows from it.
    let redis = plain.clone().with_login(login());
    let body = b"-WRONGPASS invalid username-password pair\r\n-NOAUTH Authentication required.\r\n";
    let refused = Err(CallError::Refused("WRONGPASS invalid username-password pair".into()));
    assert_eq!(redis.read_reply(&[query], NUMBER, 200, body), refused);
}

#[test]
fn many_queries_are_a_pipeline() {
    let [_, refund, lease] = &one_of_each();
    let redis = redis(Dialect::Resp);
    assert_eq!(redis.max_queries(), 256);
    let queries: Vec<&GlobalQuery> = [vec![refund; 64], vec![lease; 2]].concat();
    let said = commands(&redis.call("redis", &queries, true, NUMBER).body);
    let names: Vec<&str> = said.iter().map(|command| command[0].as_str()).collect();
    assert_eq!(names, ["EVAL", "EVALSHA"], "one text is enough");
    let (first, second) = (list(0, &[0; 64]), list(1, &[0; 2]));
    let answer = |body: &str| redis.read_reply(&queries, NUMBER, 200, body.as_bytes());
    assert!(answer(&[&*first, &second].concat()).unwrap().iter().all(Result::is_ok));
    assert_eq!(answer(&[&*second, &first].concat()), Err(CallError::Stray));
    assert_eq!(answer(&first), Err(CallError::Garbage));
    let some = answer(&format!("-OOM x\r\n{second}")).unwrap();
    assert!(some[..64].iter().all(|reply| *reply == Err(CallError::Refused("OOM x".into()))));
    assert!(some[64..].iter().all(Result::is_ok));
}

proptest! {
    #[test]
    fn the_dialects_say_the_same(prefix in ".*", with_script: bool, count in 0usize..200) {
        let all = one_of_each();
        let queries: Vec<&GlobalQuery> = all.iter().cycle().take(count).collect();
        let call = |dialect| Redis::new(dialect, prefix.clone(), Vec::new()).call("redis", &queries, with_script, NUMBER).body;
        let upstash = call(Dialect::Upstash);
        let lists: Vec<Vec<String>> = match serde_json::from_slice(&upstash) {
            Ok(lists) => lists,
            Err(_) => vec![serde_json::from_slice(&upstash).unwrap()],
        };
        prop_assert_eq!(commands(&call(Dialect::Resp)), lists);
    }

    #[test]
    fn any_bytes_are_read_without_harm(body: Vec<u8>, text in "[-+*:$0-9a\r\n]{0,60}", logs_in: bool) {
        let queries = one_of_each();
        let redis = redis(Dialect::Resp);
        let redis = if logs_in { redis.with_login(login()) } else { redis };
        prop_assert!(redis.read_reply(&queries.each_ref(), NUMBER, 200, &body).is_err());
        prop_assert!(redis.read_reply(&queries.each_ref(), NUMBER, 200, text.as_bytes()).is_err());
    }
}
