//! What the command prints, and its exit codes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, process, thread};

/// Runs the command on a text, and returns the exit code and the standard output.
fn check(text: &str, options: &[&str]) -> (i32, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_diana"))
        .arg("check")
        .args(options)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty() || output.status.code() == Some(2));
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

const FINE: &str = "limits:\n  - {url: /, rules: [{actor: ip, rpu: 10, unit: second}]}\n";
const WARNED: &str = "limits:\n  - url: /\n    rules:\n      - {name: a, actor: ip, rpu: 5, unit: second}\n      \
    - {name: b, actor: ip, rpu: 500, unit: second}\n";
const WRONG: &str = "limits:\n  - url: /api\n    rules:\n      - {actor: ip, rpu: 10, unit: secnd}\n      - {actor: ip, brust: 5}\n";

#[test]
fn the_exit_code_tells_whether_there_are_findings() {
    assert_eq!(check(FINE, &[]).0, 0);
    assert_eq!(check(FINE, &["--deny-warnings"]).0, 0);
    assert_eq!(check(WARNED, &[]).0, 0);
    assert_eq!(check(WARNED, &["--deny-warnings"]).0, 1);
    assert_eq!(check(WRONG, &[]).0, 1);
    assert_eq!(
        Command::new(env!("CARGO_BIN_EXE_diana")).arg("check").output().unwrap().status.code(),
        Some(2)
    );
}

#[test]
fn a_file_that_cannot_be_read_hides_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    fs::write(path("wrong.yaml"), WRONG).unwrap();
    fs::write(path("latin1.yaml"), b"# caf\xe9\n").unwrap();
    let files = [
        path("missing.yaml"),
        path("latin1.yaml"),
        folder.path().to_str().unwrap().into(),
        path("wrong.yaml"),
    ];
    let check = |options: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_diana")).arg("check").args(options).args(&files).output();
        let output = output.unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(2), 0));
        String::from_utf8(output.stdout).unwrap()
    };
    let value: serde_json::Value = serde_json::from_str(&check(&["--format", "json"])).unwrap();
    let of = |finding: &serde_json::Value| {
        let name = |key: &str| finding[key].as_str().unwrap().to_string();
        (name("file"), name("code"), finding["line"].as_u64().unwrap(), finding["column"].as_u64().unwrap())
    };
    let found: Vec<_> = value["findings"].as_array().unwrap().iter().map(of).collect();
    let unreadable = |file: &String, column| (file.clone(), "diana::unreadable".to_string(), 1, column);
    assert_eq!(found[..3], [unreadable(&files[0], 1), unreadable(&files[1], 6), unreadable(&files[2], 1)]);
    assert!(found.len() > 3 && found[3..].iter().all(|(file, ..)| *file == files[3]), "{found:?}");
    assert_eq!(value["errors"], found.len());
    let text = check(&[]);
    assert!(text.contains("missing.yaml`: No such file") && text.contains("unknown unit `secnd`"), "{text}");
    assert!(text.contains("latin1.yaml`: byte 5 is not UTF-8"), "{text}");
}

#[test]
fn a_document_says_how_far_its_rules_are_enforced() {
    let line = |top: &str, keys: [&str; 2]| {
        let [first, second] = keys;
        let text = format!(
            "{top}\nlimits:\n  - url: /\n    rules:\n      - {{name: a, actor: ip, rpu: 5, unit: second, {first}}}\n      \
             - {{name: b, actor: user, rpu: 5, unit: day, {second}}}\n"
        );
        let (code, text) = check(&text, &[]);
        assert_eq!(code, 0, "{text}");
        let line = text.lines().find(|line| line.contains("of shared data")).unwrap().to_owned();
        line.split_once("wasm`").unwrap().1.to_owned()
    };
    let (five, none) = ("enforce: 5%", "enforce: 0%");
    let in_shadow = "; all rules are in shadow";
    for (top, keys, expected) in [
        ("", ["", ""], ""),
        ("", ["", five], "; 1 of them enforced for a part of the actors"),
        (five, ["", ""], "; 2 of them enforced for a part of the actors"),
        (five, [none, "enforce: 100%"], ""),
        (none, ["", ""], in_shadow),
        (none, ["", five], "; 1 of them enforced for a part of the actors"),
        ("mode: shadow", ["", five], in_shadow),
    ] {
        assert_eq!(line(top, keys), expected, "{top} {keys:?}");
    }
}

#[test]
fn limits_that_overlap_have_one_line() {
    let line = |limits: &str| {
        let rules = "rules: [{actor: ip, rpu: 10, unit: second}]";
        let (_, text) = check(&format!("limits:\n{}", limits.replace("RULES", rules)), &[]);
        text.lines().find_map(|line| line.strip_prefix("<stdin>:1: requests for ").map(str::to_owned))
    };
    let meaning = "as well: all limits that match apply, not the first or the longest";
    for (limits, urls) in [
        ("  - {url: /api, RULES}\n  - {url: /, RULES}\n", Some("`/api` count in `/`")),
        ("  - {url: /, RULES}\n  - {url: =/a/b, methods: GET, RULES}\n", Some("`=/a/b` count in `/`")),
        ("  - {url: /, RULES}\n  - {url: /a, exclusive: true, RULES}\n", None),
        ("  - {url: /, RULES}\n  - {url: /a, exclusive: true}\n  - {url: /a/b, RULES}\n", None),
        ("  - {url: /, methods: GET, RULES}\n  - {url: /a, methods: POST, RULES}\n", None),
        ("  - {url: /a, RULES}\n  - {url: /b, RULES}\n", None),
        ("  - {url: /, priority: high}\n  - {url: /b, RULES}\n", None),
    ] {
        assert_eq!(line(limits), urls.map(|urls| format!("{urls} {meaning}")), "{limits}");
    }
    let (_, json) = check("limits:\n  - {url: /, rules: []}\n", &["--format", "json"]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["documents"][0]["overlap"], serde_json::Value::Null);
}

#[test]
fn files_that_a_gateway_loads_are_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("conf/deep")).unwrap();
    fs::write(folder.path().join("here.wasm"), "").unwrap();
    let file = folder.path().join("conf/deep/envoy.yaml");
    let found = |filter: &str| {
        let text = format!(
            "name: diana\ntyped_config:\n  '@type': type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm\n  \
             config:\n    failure_policy: FAIL_RELOAD\n    vm_config: {{vm_id: a, code: {{local: {{filename: {filter}}}}}}}\n    \
             configuration: {{'@type': type.googleapis.com/google.protobuf.Struct, value: {{limits: []}}}}\n"
        );
        fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_diana")).arg("check").arg(&file).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("does not exist")
    };
    let absolute = |name: &str| folder.path().join(name).display().to_string();
    assert!(found("none.wasm") && found("target/here.wasm") && found(&absolute("none.wasm")));
    assert!(!found("here.wasm") && !found(&absolute("here.wasm")));
    assert!(!found(&absolute("elsewhere/here.wasm")), "a file for another machine");
}

#[test]
fn an_empty_file_has_a_finding_with_its_name() {
    let (code, text) = check("", &[]);
    assert!(code == 1 && text.contains("[<stdin>:1:1]"), "{text}");
}

#[test]
fn a_byte_order_mark_moves_no_column() {
    for text in ["{\"limits\": 7}", "limits: 7\n", "limits: []\nmdoe: shadow\n", "[7"] {
        let places = |text: &str| {
            let value: serde_json::Value =
                serde_json::from_str(&check(text, &["--format", "json"]).1).unwrap();
            value["findings"].clone()
        };
        let expected = places(text);
        assert_eq!(expected.as_array().unwrap().len(), 1, "{expected}");
        assert_eq!(places(&format!("\u{feff}{text}")), expected, "{text}");
    }
    let (_, text) = check("\u{feff}{\"limits\": 7}", &[]);
    assert!(text.contains("<stdin>:1:2") || text.contains("<stdin>:1:12"), "{text}");
}

#[test]
fn the_summary_names_the_native_module() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let envoy = fs::read_to_string(root.join("envoy-native.yaml")).unwrap();
    let (code, text) = check(&envoy, &[]);
    assert!(code == 0 && text.contains("of shared data; for `libdiana.so`\n"), "{text}");
}

#[test]
fn people_see_the_place_and_what_to_do() {
    insta::assert_snapshot!("fine", check(FINE, &[]).1);
    insta::assert_snapshot!("warned", check(WARNED, &[]).1);
    insta::assert_snapshot!("wrong", check(WRONG, &[]).1);
    let broken = "limits:\n  - url: \"\u{1b}[31m\n";
    let (_, text) = check(broken, &[]);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn programs_see_json() {
    let (code, json) = check(WRONG, &["--format", "json"]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &value["errors"], &value["warnings"]), (1, &4.into(), &0.into()));
    let first = &value["findings"][0];
    assert_eq!(first["file"], "<stdin>");
    assert_eq!((&first["line"], &first["column"]), (&4.into(), &36.into()));
    assert_eq!(first["end"], serde_json::json!({"line": 4, "column": 41}));
    assert_eq!((&first["code"], &first["severity"]), (&"diana::wrong-value".into(), &"error".into()));
    assert_eq!(first["message"], "unknown unit `secnd`");
    assert_eq!(
        first["hint"],
        "expected second, minute, hour, day, week, month, year or a span such as `30s`"
    );
    assert!(first["page"].as_str().unwrap().ends_with("/docs/cli/check.md#wrong-value"));
    let (code, json) = check(FINE, &["--format", "json"]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, value["findings"].as_array().map(Vec::len)), (0, Some(0)));
    let document = &value["documents"][0];
    assert_eq!((&document["rules"], &document["filter"]), (&1.into(), &"diana.wasm".into()));
}

#[test]
fn hops_that_do_not_fit_are_explained() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/check");
    let text = |file: &str| check(&fs::read_to_string(corpus.join(file)).unwrap(), &["--format", "json"]).1;
    assert!(text("envoy.yaml").contains("but `trusted_hops: 1` means 0"));
    assert!(text("hops.yaml").contains("so the first hop is the peer itself"));
}

#[test]
fn the_number_of_gateways_is_an_option() {
    let few = FINE.replace("10", "3");
    assert_eq!(check(&few, &["--deny-warnings"]).0, 0);
    let (code, text) = check(&few, &["--deny-warnings", "--replicas", "5"]);
    assert_eq!(code, 1);
    assert!(text.contains("all gateways together admit 15, not 3"), "{text}");
}

/// The examples of the page, with `limits.yaml` as the excerpt shows it.
#[test]
fn the_page_shows_what_the_command_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/cli/check.md")).unwrap();
    let folder = env::temp_dir().join(format!("diana-check-page-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let limits = "limits:\n  - url: /api\n    rules:\n      - {actor: ip, rpu: 10, unit: secnd}\n";
    fs::write(folder.join("limits.yaml"), limits).unwrap();
    // What `cargo xtask build` leaves in a clone.
    fs::create_dir_all(folder.join("target")).unwrap();
    fs::write(folder.join("target/diana.wasm"), "").unwrap();
    fs::copy(root.join("envoy.yaml"), folder.join("envoy.yaml")).unwrap();
    let mut count = 0;
    for block in page.split("```console\n$ diana check ").skip(1) {
        let (file, shown) = block.split("\n```").next().unwrap().split_once('\n').unwrap();
        let output =
            Command::new(env!("CARGO_BIN_EXE_diana")).args(["check", file]).current_dir(&folder).output();
        assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap().trim_end(), shown, "{file}");
        count += 1;
    }
    fs::remove_dir_all(folder).unwrap();
    assert_eq!(count, 2);
}

/// A Redis that answers `INFO memory` once, after the password if it asks for one.
fn redis(password: Option<&'static str>, info: &'static str) -> (u16, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut read = |command: String| {
            let mut bytes = vec![0; command.len()];
            stream.read_exact(&mut bytes).unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), command);
            stream.try_clone().unwrap()
        };
        if let Some(password) = password {
            let command = format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{password}\r\n", password.len());
            read(command).write_all(b"+OK\r\n").unwrap();
        }
        let reply = read("*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n".into()).write_all(info.as_bytes());
        reply.unwrap();
    };
    (port, thread::spawn(serve))
}

#[test]
fn a_redis_that_may_evict_a_month_is_named() {
    let text = "limits:\n  - url: /\n    rules:\n      - {name: a, algo: W, rpu: 5, unit: month, scope: global}\n\
        store:\n  redis: {cluster: redis, secret: 0123456789abcdef, replicas: auto}\n";
    let evicting = "$60\r\n# Memory\r\nmaxmemory:1048576\r\nmaxmemory_policy:volatile-lfu\r\n\r\n";
    let unlimited = "$54\r\n# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:volatile-lfu\r\n\r\n";
    let later = "$55\r\n# Memory\r\nmaxmemory:1048576\r\nmaxmemory_policy:all-new\r\n\r\n";
    let kept = "$58\r\n# Memory\r\nmaxmemory:1048576\r\nmaxmemory_policy:noeviction\r\n\r\n";
    let silent = "$29\r\n# Memory\r\nmaxmemory:1048576\r\n\r\n";
    let refused = "-NOAUTH Authentication required.\r\n";
    for (password, info, is_answered, is_named) in [
        (None, evicting, true, true),
        (Some("a secret"), evicting, true, true),
        (None, later, true, true),
        (None, kept, true, false),
        (None, silent, false, false),
        (None, unlimited, true, false),
        (None, refused, false, false),
    ] {
        let (port, server) = redis(password, info);
        let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        fs::write(file.path(), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_diana"));
        command.args(["check", "--redis", &format!("127.0.0.1:{port}")]).arg(file.path());
        match password {
            Some(password) => command.env("REDISCLI_AUTH", password),
            None => command.env_remove("REDISCLI_AUTH"),
        };
        let output = command.output().unwrap();
        server.join().unwrap();
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(printed.contains("evicting-store"), is_named, "{printed}");
        assert_eq!(printed.contains("NOAUTH"), info == refused, "{printed}");
        assert_eq!(output.status.success(), is_answered, "{printed}");
    }
}
