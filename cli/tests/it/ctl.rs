//! `diana ctl` as a user runs it, against gateways that answer and gateways that do not.

#[path = "../../console/tests/fake/mod.rs"]
mod fake;

use fake::{Connection, Fake, Fault, TOKEN, policy, refused};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use tempfile::TempDir;

/// A folder with the token, and the command.
struct Shell {
    folder: TempDir,
    gateways: Vec<String>,
}

impl Shell {
    fn new(gateways: &[&Fake]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
        Self { folder, gateways: gateways.iter().map(|gateway| gateway.url()).collect() }
    }

    fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_diana"));
        command.arg("ctl").args(words).arg("--token-file").arg(self.token());
        for gateway in &self.gateways {
            command.args(["--gateway", gateway]);
        }
        command.env_remove("DIANA_GATEWAYS").env_remove("DIANA_TOKEN_FILE").stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> (i32, String, String) {
        output(&mut self.command(words))
    }

    fn json(&self, words: &[&str]) -> (i32, Value) {
        let (code, text, errors) = self.run(words);
        (code, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}")))
    }
}

fn output(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// The line of a gateway, without its name.
fn line(text: &str, gateway: &Fake) -> String {
    let lines = text.lines().filter_map(|line| line.strip_prefix(&gateway.name()));
    let lines: Vec<&str> = lines.map(str::trim).collect();
    assert_eq!(lines.len(), 1, "{text}");
    lines[0].split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_gateway_is_a_line_and_a_failed_one_too() {
    let (one, other) = (Fake::start(), Fake::start());
    one.state().counts.insert("rule=per%2Duser&user=a%26b".into(), refused("per-user"));
    other.fault(Fault::Upstream(404));
    let shell = Shell::new(&[&one, &other]);
    let (code, text, errors) = shell.run(&["who", "per-user", "user=a&b"]);
    assert_eq!((code, &*errors), (2, ""), "{text}");
    assert_eq!(line(&text, &one), "100 0 100 per minute 600 ms 1 min 1.5 s – 0 refused");
    assert_eq!(
        line(&text, &other),
        "`inspect` does not answer (status 404): check its path, and whether `allow` has this address. Whoever answered \
         has the token now"
    );
    assert_eq!(text.lines().count(), 3, "{text}");

    other.fault(Fault::None);
    let (code, value) = shell.json(&["who", "per-user", "user=a&b", "--json"]);
    assert_eq!(code, 0);
    assert_eq!(value["gateways"][0]["answer"]["used"], 100);
    assert_eq!(value["gateways"][1]["gateway"], other.name());
    assert_eq!(shell.json(&["who", "per-user", "user=a&b", "--format", "json"]), (code, value));
    let (code, value) = shell.json(&["who", "none", "user=ann", "--json"]);
    assert_eq!((code, &value["gateways"][1]["error"]), (2, &json!("there is no rule `none`")));
}

/// A customer calls: the key is known, the rule is not.
#[test]
fn who_without_a_rule_asks_all_rules_that_count_the_actor() {
    let rule = |name: &str, actors: Value| json!({"name": name, "scope": "local", "actors": actors, "rpu": 100, "unit_ms": 60_000, "enforce": "100%"});
    let (one, other) = (Fake::start(), Fake::start());
    let rules = [rule("per-user", json!(["user"])), rule("per-ip", json!(["ip"])), rule("all", json!([]))];
    one.state().policy["rules"] = json!(rules);
    other.state().policy["rules"] = json!([rules[0], rule("pair", json!(["tenant", "user"]))]);
    one.state().counts.insert("rule=per%2Duser&user=a%26b".into(), refused("per-user"));
    let shell = Shell::new(&[&one, &other]);
    let words = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let (code, text, errors) = shell.run(&["who", "user=a&b"]);
    assert_eq!((code, &*errors), (0, ""), "{text}");
    let (first, second) = (one.name(), other.name());
    let new = "0 100 100 per minute – – – – 0 admitted";
    assert_eq!(
        words(&text)[1..],
        [
            format!("{first} per-user 100 0 100 per minute 600 ms 1 min 1.5 s – 0 refused"),
            format!("{second} per-user {new}"),
            format!("{first} all {new}"),
        ]
    );
    let asked = ["GET policy", "GET actor?rule=per%2Duser user=a%26b", "GET actor?rule=all"];
    assert_eq!(one.asked(""), asked);
    assert_eq!(other.asked(""), asked[..2]);

    // A tuple needs both values, in any order.
    let (code, value) = shell.json(&["who", "user=ann", "tenant=acme", "--json"]);
    let counts = value["counts"].as_array().unwrap();
    let seen: Vec<_> = counts.iter().map(|one| (&one["rule"], &one["gateway"])).collect();
    let expected = [("per-user", &first), ("per-user", &second), ("all", &first), ("pair", &second)];
    let expected = expected.map(|(rule, gateway)| (json!(rule), json!(gateway)));
    assert_eq!((code, seen), (0, expected.iter().map(|(rule, gateway)| (rule, gateway)).collect()));
    assert!(other.asked("").contains(&"GET actor?rule=pair tenant=acme&user=ann".to_owned()));

    let (code, _, errors) = shell.run(&["who", "usr=ann"]);
    let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "no rule counts `usr`: the rules count `user`, `ip`, `tenant` with `user`";
    assert!(code == 2 && errors.contains(expected), "{errors}");

    // A gateway that does not answer is a line, too.
    other.fault(Fault::CutOff);
    let (code, text, _) = shell.run(&["who", "user=ann"]);
    assert!(code == 2 && line(&text, &other).starts_with("the answer is cut off"), "{text}");
    assert!(words(&text).contains(&format!("{first} per-user {new}")), "{text}");
}

/// A key without `x-api-key=` is no rule, and a question about it would be in the access log.
#[test]
fn a_key_in_place_of_a_rule_reaches_no_gateway() {
    let (one, other) = (Fake::start(), Fake::start());
    other.state().policy["rules"] = json!([]);
    let shell = Shell::new(&[&one, &other]);
    for words in [&["who", "sk-live-42"][..], &["reset", "sk-live-42", "--yes"], &["top", "sk-live-42"]] {
        let (code, text, errors) = shell.run(words);
        let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected =
            "no gateway has this rule: the rules are `per-user`, `per-ip`; an actor is written `NAME=VALUE`";
        assert!(code == 2 && text.is_empty() && errors.contains(expected), "{errors}");
        assert!(!errors.contains("sk-live"), "{errors}");
        assert_eq!((one.asked(""), other.asked("")), (vec!["GET policy".into()], vec!["GET policy".into()]));
    }
    assert_eq!(shell.run(&["who", "per-ip"]).0, 0);
    assert_eq!(one.asked(""), ["GET policy", "GET actor?rule=per%2Dip"]);
    for gateway in [&one, &other] {
        gateway.fault(Fault::CutOff);
    }
    let before = one.received();
    let (code, text, errors) = shell.run(&["who", "sk-live-42"]);
    assert_eq!((code, &*errors, one.received() - before), (2, "", 1));
    assert!(line(&text, &one).starts_with("the answer is cut off") && !text.contains("sk-live"), "{text}");
}

/// The list of the most refused shows a hash in place of a key. No gateway looks an actor up by it.
#[test]
fn a_hidden_value_is_found_in_the_list_and_not_by_it() {
    let (one, other) = (Fake::start(), Fake::start());
    let mut count = refused("per-user");
    count["actor"] = json!({"user": "#f617c86759d96a57"});
    for gateway in [&one, &other] {
        gateway.state().counts.insert("rule=per%2Duser&user=ann".into(), count.clone());
    }
    let shell = Shell::new(&[&one, &other]);
    for words in [&["who", "user=ann"][..], &["who", "per-user", "user=ann"]] {
        let (code, text, _) = shell.run(words);
        let listed = "refused\n`diana ctl top` lists user=#f617c86759d96a57\n";
        assert!(code == 0 && text.ends_with(listed) && text.lines().count() == 4, "{text}");
    }
    one.asked("");
    for (value, expected) in
        [("user=#f617c86759d96a57", "the hash of a hidden value"), ("user=an…", "is cut")]
    {
        for words in [&["who", value][..], &["reset", "per-user", value, "--yes"]] {
            let (code, text, errors) = shell.run(words);
            assert!(code == 2 && text.is_empty() && errors.contains(expected), "{errors}");
        }
    }
    assert_eq!(one.asked(""), [""; 0]);
    assert_eq!(shell.run(&["who", "user=#f617"]).0, 0);
}

/// Of the permits of all gateways, one tells only its own: no fault of the gateway.
#[test]
fn a_rule_without_a_count_does_not_spoil_the_others() {
    let gateway = Fake::start();
    gateway.state().policy["rules"][1] = json!({"name": "none", "actors": ["user"], "rpu": 1});
    let (code, text, _) = Shell::new(&[&gateway]).run(&["who", "user=ann"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((code, lines.len()), (0, 3), "{text}");
    assert!(lines[2].ends_with("none  there is no rule `none`"), "{text}");
}

#[test]
fn rules_are_listed_with_the_gateways_that_have_them() {
    let (one, other, down) = (Fake::start(), Fake::start(), Fake::start());
    other.state().policy["rules"][0]["rpu"] = 200.into();
    other.state().policy["rules"][1]["actors"] = json!([]);
    one.state().policy["rules"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "open", "rpu": 5, "enforce": "100%"}));
    down.fault(Fault::CutOff);
    let shell = Shell::new(&[&one, &other, &down]);
    let (code, text, _) = shell.run(&["rules"]);
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let (first, second) = (one.name(), other.name());
    assert_eq!(code, 2, "{text}");
    assert_eq!(
        lines[..6],
        [
            "rule counts quota scope enforced gateways".to_owned(),
            format!("per-user user 100 per minute local 100% {first}"),
            format!("per-ip ip 20 per second global 5% {first}"),
            format!("open everybody 5 in flight 100% {first}"),
            format!("per-user user 200 per minute local 100% {second}"),
            format!("per-ip everybody 20 per second global 5% {second}"),
        ]
    );
    assert!(lines[6].contains("cut off"), "{text}");
    down.fault(Fault::None);
    other.state().policy = one.state().policy.clone();
    down.state().policy = one.state().policy.clone();
    let (code, text, _) = shell.run(&["rules"]);
    assert!(code == 0 && text.lines().skip(1).all(|line| line.ends_with("  all")), "{text}");
    assert_eq!(text.lines().count(), 4);
}

/// Each gateway answers only after the other was asked.
#[test]
fn gateways_are_asked_at_once() {
    let barrier = Arc::new(Barrier::new(2));
    let (one, other) = (Fake::start(), Fake::start());
    one.fault(Fault::Together(Arc::clone(&barrier)));
    other.fault(Fault::Together(barrier));
    let (code, text, _) = Shell::new(&[&one, &other]).run(&["who", "per-user", "user=ann"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn what_is_wrong_with_a_gateway_is_said() {
    let (healthy, broken) = (Fake::start(), Fake::start());
    let shell = Shell::new(&[&healthy, &broken]);
    for (fault, expected) in [
        (Fault::Silent, "no answer within 1 s"),
        (Fault::CutOff, "the answer is cut off or broken: "),
        (Fault::Garbage, "the answer is cut off or broken: "),
        (Fault::OtherJson, "this answer of the gateway is not understood: "),
        (Fault::Endless, "the answer is larger than 8 MiB"),
        (Fault::Upstream(200), "`inspect` does not answer (status 200): "),
        (Fault::Upstream(302), "`inspect` does not answer (status 302): "),
        (Fault::Upstream(503), "`inspect` does not answer (status 503): "),
        (
            Fault::UpstreamJson(404, r#"{"error": "Not Found", "path": "/.diana/actor"}"#),
            "`inspect` does not answer (status 404): ",
        ),
        (Fault::UpstreamJson(401, r#"{"error": "who?"}"#), "`inspect` does not answer (status 401): "),
    ] {
        broken.fault(fault.clone());
        let timeout = if matches!(fault, Fault::Silent) { "1" } else { "60" };
        let (code, text, errors) = shell.run(&["who", "per-user", "user=ann", "--timeout", timeout]);
        assert_eq!((code, &*errors), (2, ""), "{fault:?}: {text}");
        assert!(line(&text, &broken).starts_with(expected), "{fault:?}: {text}");
        assert_eq!(line(&text, &healthy), "0 100 100 per minute – – – – 0 admitted", "{fault:?}");
    }
    let nobody = Shell { gateways: vec!["http://127.0.0.1:1".into()], ..shell };
    let (code, text, _) = nobody.run(&["who", "per-user", "user=ann"]);
    assert!(code == 2 && text.contains("127.0.0.1:1  cannot connect: Connection refused"), "{text}");
}

#[test]
fn gateways_of_other_versions_say_what_they_lack() {
    let old = Fake::start();
    old.fault(Fault::Old);
    let shell = Shell::new(&[&old]);
    for words in [
        &["grant", "per-user", "user=ann", "--amount", "5", "--for", "1h", "--yes"][..],
        &["top", "per-user"],
    ] {
        let (code, text, _) = shell.run(words);
        let expected =
            format!("the gateway has no `{}`: expected GET policy, GET actor or POST reset. ", words[0]);
        let found = line(&text, &old);
        assert!(code == 2 && found.starts_with(&expected) && found.ends_with("check the path"), "{found}");
    }
    old.fault(Fault::None);
    let (code, text, _) = shell.run(&["top", "per-user"]);
    let found = line(&text, &old);
    let expected = "the gateway has no `top`: `top` needs `inspect.top: true`. ";
    assert!(code == 2 && found.starts_with(expected), "{found}");
}

/// A change whose answer is lost may have happened, a question cannot have.
#[test]
fn a_lost_answer_of_a_change_is_said() {
    let (one, other) = (Fake::start(), Fake::start());
    one.fault(Fault::CutOff);
    other.fault(Fault::Upstream(404));
    let shell = Shell::new(&[&one, &other]);
    let end = ". The change may have taken effect; repeating is safe";
    let (code, text, _) = shell.run(&["reset", "per-user", "user=ann", "--yes"]);
    assert!(code == 2 && line(&text, &one).ends_with(end) && !line(&text, &other).ends_with(end), "{text}");
    let (_, value) = shell.json(&["reset", "per-user", "user=ann", "--yes", "--json"]);
    assert!(value["gateways"][0]["error"].as_str().unwrap().ends_with(end), "{value}");
    assert!(!shell.run(&["who", "per-user", "user=ann"]).1.contains("taken effect"));
    one.fault(Fault::None);
    let (_, text, _) = shell.run(&["reset", "none", "user=ann", "--yes"]);
    assert_eq!(line(&text, &one), "there is no rule `none`");
}

/// The filter would refuse these grants after the question.
#[test]
fn a_grant_has_bounds() {
    let gateway = Fake::start();
    let shell = Shell::new(&[&gateway]);
    for (amount, duration, expected) in [
        ("1000000000000000", "1h", "from 1 to 999999999999999"),
        ("0", "1h", "from 1 to 999999999999999"),
        ("5", "2d", "expected a span from 1s to 1d"),
        ("5", "500ms", "expected a span from 1s to 1d"),
        ("5", "soon", "expected a span such as"),
    ] {
        let words = ["grant", "per-user", "user=ann", "--amount", amount, "--for", duration, "--yes"];
        let (code, text, errors) = shell.run(&words);
        assert!(code == 2 && text.is_empty() && errors.contains(expected), "{errors}");
    }
    assert_eq!(gateway.received(), 0);
    gateway.state().policy["rules"][1]["name"] = json!("all");
    let (code, text, _) = shell.run(&["grant", "all", "--amount", "999999999999999", "--for", "1d", "--yes"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(gateway.asked("POST"), ["POST grant?amount=999999999999999&for=1d&rule=all"]);
}

#[test]
fn a_change_is_said_and_needs_a_yes() {
    let (one, other) = (Fake::start(), Fake::start());
    let shell = Shell::new(&[&one, &other]);
    for (words, expected) in [
        (&["reset", "per-user", "user=ann"][..], "forgets what it has counted, and ends the penalty"),
        (&["grant", "per-user", "user=ann", "--amount", "5", "--for", "1h"], "admits 5 units more for 1h"),
        (&["penalty", "per-user", "user=ann"], "ends the penalty, and goes on counting"),
    ] {
        let (code, text, errors) = shell.run(words);
        assert_eq!((code, &*text), (2, ""));
        let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [expected, "`per-user`", "user=ann", &one.name(), &other.name(), "`--yes`"] {
            assert!(errors.contains(part), "{part}: {errors}");
        }
        assert!(one.asked("").is_empty() && other.asked("").is_empty(), "{words:?}");
    }
}

#[test]
fn changes_reach_every_gateway() {
    let (one, other) = (Fake::start(), Fake::start());
    for gateway in [&one, &other] {
        gateway.state().counts.insert("rule=per%2Duser&plan=gold&user=ann".into(), refused("per-user"));
    }
    let shell = Shell::new(&[&one, &other]);
    for (words, question, expected) in [
        (
            &["penalty", "per-user", "user=ann"][..],
            "POST penalty?rule=per%2Duser&plan=gold user=ann",
            "600 ms 1 min – – 0 refused",
        ),
        (
            &["grant", "per-user", "user=ann", "--amount", "5", "--for", "1h"],
            "POST grant?amount=5&for=1h&rule=per%2Duser&plan=gold user=ann",
            "0 100 per minute 600 ms 1 min – 5 for 1 h 0 admitted",
        ),
        (
            &["reset", "per-user", "user=ann"],
            "POST reset?rule=per%2Duser&plan=gold user=ann",
            "– – – – 0 admitted",
        ),
    ] {
        let (code, text, errors) = shell.run(&[words, &["--plan", "gold", "--yes"]].concat());
        let about = format!(", for the actor user=ann, in {}, {}\n", one.name(), other.name());
        assert!(
            code == 0 && errors.starts_with("the rule `per-user` ") && errors.ends_with(&about),
            "{errors}"
        );
        for gateway in [&one, &other] {
            assert_eq!(gateway.asked(""), [question]);
            assert!(line(&text, gateway).ends_with(expected), "{text}");
        }
    }
}

/// What a script keeps of a change has no key that the change is about.
#[test]
fn a_change_does_not_say_a_key() {
    let gateway = Fake::start();
    let words = ["reset", "per-user", "x-api-key=sk-live-42", "user=ann"];
    let shell = Shell::new(&[&gateway]);
    for words in [&words[..], &[&words[..], &["--yes"]].concat()] {
        let (_, text, errors) = shell.run(words);
        let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(errors.contains("for the actor x-api-key=… user=ann, in"), "{errors}");
        assert!(!text.contains("sk-live") && !errors.contains("sk-live"), "{text}{errors}");
    }
    assert_eq!(gateway.asked(""), ["POST reset?rule=per%2Duser x%2Dapi%2Dkey=sk%2Dlive%2D42&user=ann"]);
}

/// In a terminal the command asks, and only a yes changes something.
#[test]
fn a_terminal_is_asked_first() {
    let gateway = Fake::start();
    let shell = Shell::new(&[&gateway]);
    for (answer, expected, changes) in [("n", "nothing has changed", 0), ("y", "admitted", 1)] {
        let command = shell.command(&["reset", "per-user", "user=ann"]);
        let mut session = rexpect::session::spawn_command(terminal(&command), Some(30_000)).unwrap();
        session.exp_string("Continue?").unwrap();
        session.send(answer).unwrap();
        session.flush().unwrap();
        session.exp_string(expected).unwrap();
        session.exp_eof().unwrap();
        assert_eq!(gateway.asked("POST reset").len(), changes, "{answer}");
    }
}

/// The same command without the closed standard input.
fn terminal(command: &Command) -> Command {
    let mut same = Command::new(command.get_program());
    same.args(command.get_args())
        .env("TERM", "xterm")
        .env_remove("DIANA_GATEWAYS")
        .env_remove("DIANA_TOKEN_FILE");
    same
}

#[test]
fn the_most_refused_are_listed_for_each_gateway() {
    let (one, other) = (Fake::start(), Fake::start());
    one.state().top = json!({"rule": "per-user", "by": "refused", "since_ms": 1_795_695_300_000_u64, "error_bound": 4, "actors": [
        {"actor": {"user": "ann"}, "count": 1_230, "error": 4},
        {"actor": {"user": "b\u{1b}[2J"}, "count": 7, "error": 0},
        {"actor": {"user": "carl"}, "count": 1},
    ]});
    other.state().top = json!({"rule": "per-user", "actors": []});
    let shell = Shell::new(&[&one, &other]);
    let (code, text, _) = shell.run(&["top", "per-user", "--by", "used", "--limit", "2"]);
    assert_eq!(code, 0, "{text}");
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let (first, second) = (one.name(), other.name());
    assert_eq!(
        lines,
        [
            "gateway count error actor".to_owned(),
            format!("{first} 1,230 at most 4 less user=ann"),
            format!("{first} 7 exact user=b\\u{{1b}}[2J"),
            format!("{second} nobody yet"),
            format!(
                "{first}: counted since 2026-11-26T12:15:00Z; 1 more actor beyond `--limit`; any other actor has at most 4"
            ),
        ]
    );
    assert_eq!(one.asked("GET top"), ["GET top?rule=per%2Duser&by=used"]);
}

#[test]
fn differences_are_marked_and_explained() {
    let gateways = [Fake::start(), Fake::start(), Fake::start()];
    let shell = Shell::new(&gateways.each_ref());
    let (code, text, _) = shell.run(&["diff"]);
    assert!(code == 0 && text.ends_with("all gateways are the same\n"), "{text}");

    let mut other = policy();
    other["fingerprint"] = "0000000000000001".into();
    other["rules"][0]["rpu"] = 200.into();
    other["rules"].as_array_mut().unwrap().remove(1);
    gateways[1].state().policy = other;
    gateways[2].state().policy["store_secret"] = "87a3".into();
    let (code, text, _) = shell.run(&["diff"]);
    assert_eq!(code, 1, "{text}");
    assert_eq!(line_of(&text, &gateways[1]), "0000000000000001 * 0.2.0 d0c4 local");
    assert_eq!(line_of(&text, &gateways[2]), "ad62478a83fc1f92 0.2.0 87a3 * local");
    let name = gateways[1].name();
    let end = format!(
        "different (*): document, secret of the store\n  {name}: `per-user` is 200 per minute, elsewhere 100 per \
         minute\n  {name}: the rule `per-ip` is missing\n"
    );
    assert!(text.ends_with(&end), "{text}");
    let (code, value) = shell.json(&["diff", "--json"]);
    assert_eq!((code, &value["differ"]), (1, &json!(["document", "secret of the store"])));

    // A gateway that does not answer may differ, too.
    gateways[1].fault(Fault::CutOff);
    gateways[2].fault(Fault::CutOff);
    let (code, text, _) = shell.run(&["diff"]);
    assert!(code == 2 && text.ends_with("the gateways that have answered are the same\n"), "{text}");
}

/// Two secrets that are unknown may be two, so nobody says that they are the same.
#[test]
fn a_secret_that_a_gateway_does_not_tell_is_unknown() {
    let gateways = [Fake::start(), Fake::start()];
    let shell = Shell::new(&gateways.each_ref());
    let forget = |gateway: &Fake| gateway.state().policy.as_object_mut().unwrap().remove("store_secret");
    forget(&gateways[0]);
    let (code, text, _) = shell.run(&["diff"]);
    assert!(code == 1 && text.ends_with("different or unknown (*): secret of the store\n"), "{text}");
    assert_eq!(line_of(&text, &gateways[0]), "ad62478a83fc1f92 0.2.0 unknown * local");
    forget(&gateways[1]);
    let (code, text, _) = shell.run(&["diff"]);
    assert!(code == 1 && text.ends_with("different or unknown (*): secret of the store\n"), "{text}");

    // Without global rules there is no secret.
    for gateway in &gateways {
        gateway.state().policy["rules"][1]["scope"] = "local".into();
    }
    let (code, text, _) = shell.run(&["diff"]);
    assert!(code == 0 && text.ends_with("all gateways are the same\n"), "{text}");
    assert_eq!(line_of(&text, &gateways[0]), "ad62478a83fc1f92 0.2.0 – local");
}

/// The first line of a gateway.
fn line_of(text: &str, gateway: &Fake) -> String {
    let found = text.lines().find_map(|line| line.strip_prefix(&gateway.name())).unwrap();
    found.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn gateways_and_token_may_come_from_the_environment() {
    let (one, other) = (Fake::start(), Fake::start());
    let shell = Shell::new(&[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_diana"));
    command.args(["ctl", "diff"]).env("DIANA_GATEWAYS", format!("{},{}", one.url(), other.url()));
    let (code, text, _) = output(command.env("DIANA_TOKEN_FILE", shell.token()));
    assert!(code == 0 && text.contains(&one.name()) && text.contains(&other.name()), "{text}");
    // A gateway that is named twice is asked once.
    let (code, text, _) = output(command.env("DIANA_GATEWAYS", format!("{},{}/", one.url(), one.url())));
    assert!(code == 0 && line(&text, &one).starts_with("ad62478a83fc1f92"), "{text}");
}

#[test]
fn a_missing_or_wrong_token_is_explained_and_never_shown() {
    let gateway = Fake::start();
    let shell = Shell::new(&[&gateway]);
    for (token, expected) in
        [("", "expected one line"), ("two words", "expected one line"), (&*"x".repeat(9_999), "it is larger")]
    {
        fs::write(shell.token(), token).unwrap();
        let (code, _, errors) = shell.run(&["diff"]);
        assert!(
            code == 2 && errors.contains("cannot use the token file") && errors.contains(expected),
            "{errors}"
        );
    }
    fs::write(shell.token(), "0123456789abcdef0123456789abcdee").unwrap();
    let (code, text, errors) = shell.run(&["diff"]);
    let expected = "the token is wrong, or too many have been wrong within a minute";
    assert_eq!((code, &*line(&text, &gateway)), (2, expected), "{text}");
    assert!(!format!("{text}{errors}").contains("0123456789abcdee"));
    fs::remove_file(shell.token()).unwrap();
    assert!(shell.run(&["diff"]).2.contains("No such file"));
    for (words, expected) in [
        (&["diff"][..], "no gateway is named"),
        (
            &["diff", "--gateway", "localhost:1"],
            "expected an address such as `http://localhost:10000/.diana`",
        ),
        (&["diff", "--gateway", "http://localhost:1"], "no token is named"),
        (&["who", "per-user", "ann"], "expected an actor and its value, such as `user=ann`"),
        (
            &["reset", "user=ann", "--yes"],
            "expected the name of a rule first: `diana ctl who` finds the rules",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_diana"));
        command.arg("ctl").args(words).env_remove("DIANA_GATEWAYS").env_remove("DIANA_TOKEN_FILE");
        let (code, _, errors) = output(&mut command);
        assert!(code == 2 && errors.contains(expected), "{errors}");
    }
}

/// A gateway behind TLS, with a certificate that this machine knows or does not know.
#[test]
fn https_works_and_checks_certificates() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let gateway = Fake::serve(true, move |stream| {
        let session = rustls::ServerConnection::new(Arc::clone(&config)).map_err(std::io::Error::other)?;
        Ok(Box::new(rustls::StreamOwned::new(session, stream)) as Box<dyn Connection>)
    });
    let shell = Shell::new(&[&gateway]);
    let roots = shell.folder.path().join("roots.pem");
    fs::write(&roots, certified.cert.pem()).unwrap();
    let (code, text, errors) = output(shell.command(&["diff"]).env("SSL_CERT_FILE", &roots));
    assert!(code == 0 && line(&text, &gateway).starts_with("ad62478a83fc1f92"), "{text}{errors}");

    let another = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(&roots, another.cert.pem()).unwrap();
    let (code, text, _) = output(shell.command(&["diff"]).env("SSL_CERT_FILE", &roots));
    assert!(
        code == 2 && line(&text, &gateway).starts_with("cannot connect: invalid peer certificate"),
        "{text}"
    );

    // The token is not what is wrong without roots.
    fs::write(&roots, "").unwrap();
    let (code, text, errors) = output(
        shell.command(&["diff"]).env("SSL_CERT_FILE", &roots).env("SSL_CERT_DIR", shell.folder.path()),
    );
    assert!(
        code == 2 && text.is_empty() && errors.contains("no root certificates") && !errors.contains("token"),
        "{errors}"
    );
}
