//! `diana test`: what cases may say, and that a case fails if the limits do something else.

mod gateways;
mod mistakes;

use diana_cli::test::{self, FileReport};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The report about these requests, the steps of one case.
pub fn report(document: &str, case: &str) -> FileReport {
    let cases = format!("cases:\n  - name: a case\n{case}");
    test::text_report(document, &cases).unwrap_or_else(|error| panic!("{error:?}\n{cases}"))
}

pub fn passes(document: &str, case: &str) {
    let report = report(document, case);
    let why: Vec<&String> = report.cases[0].failures.iter().flat_map(|failure| &failure.why).collect();
    assert!(why.is_empty(), "{case}\n{why:?}");
}

/// The reasons for which the only step that differs differs.
pub fn differs(document: &str, case: &str) -> Vec<String> {
    let mut report = report(document, case);
    let failures = &mut report.cases[0].failures;
    assert_eq!(failures.len(), 1, "{case}\n{failures:?}");
    failures.remove(0).why
}

const WINDOW: &str = "{url: /, rules: [{name: w, actor: ip, algo: W, rpu: 2, unit: minute}]}";

/// A step, and what is wrong about it; nothing if it passes.
#[test]
fn each_part_of_an_expectation_is_compared() {
    let document = r#"
limits:
  - url: /
    rules:
      - {name: w, actor: ip, algo: W, rpu: 4, unit: minute,
         over: {at: "50%", request_header: {x-budget: low}}}
      - {name: quiet, actor: ip, algo: W, rpu: 1, unit: minute, mode: shadow}
allow: [{user: root}]
deny: [192.0.2.0/24]
response: {jitter: "50%"}
"#;
    let steps = |last: &str| format!("    requests:\n      - {{repeat: 2}}\n      - {last}\n");
    for (step, expected) in [
        ("{expect: pass}", ""),
        ("{expect: Pass}", ""),
        ("{expect: refused}", "expected refused, found pass"),
        ("{expect: refused by w}", "expected refused by `w`, found pass"),
        ("{expect: allowed}", "expected allowed, found pass"),
        ("{headers: {x-user-id: root}, expect: allowed}", ""),
        ("{headers: {x-user-id: root}, expect: pass}", "expected pass, found allowed"),
        ("{from: 192.0.2.7, expect: refused by deny}", ""),
        (
            "{from: 192.0.2.7, expect: refused by w}",
            "expected refused by `w`, found refused by the deny list",
        ),
        ("{expect: {outcome: pass, remaining: {w: 1}}}", ""),
        ("{expect: {remaining: {w: 2}}}", "expected 2 left of `w`, found 1"),
        ("{expect: {remaining: {x: 2}}}", "expected 2 left of `x`, found nothing: it did not count"),
        (
            "{expect: {remaining: 1}}",
            "expected 1 left of one rule, but `w`, `quiet` checked the request: write `remaining: {NAME: 1}`",
        ),
        ("{expect: {shadow: quiet}}", ""),
        ("{expect: {shadow: w}}", "expected that `w` would refuse in shadow, found `quiet`"),
        ("{expect: {over: 50%, request_headers: {X-Budget: low}}}", ""),
        ("{expect: {over: 80%}}", "expected the threshold 80%, found 50%"),
        ("{from: 203.0.113.9, expect: {shadow: null, over: null, retry_after: null}}", ""),
        ("{expect: {shadow: null}}", "expected that no rule would refuse in shadow, found `quiet`"),
        ("{expect: {over: null}}", "expected the threshold none, found 50%"),
        (
            "{expect: {request_headers: {x-budget: null}}}",
            "expected no header for the upstream `x-budget`, found `low`",
        ),
        ("{from: 203.0.113.9, expect: {request_headers: {x-budget: null}}}", ""),
        ("{expect: {headers: {retry-after: null}}}", ""),
        ("{expect: {status: 429}}", "expected status 429, found that of the upstream"),
        ("{expect: {retry_after: 1}}", "expected `retry-after` 1 s, found none"),
        ("{expect: {delay: 1s}}", "expected a wait of 1s, found 0s"),
        ("{repeat: 4, expect: {pass: 2, refused: 2}}", ""),
        ("{repeat: 4, expect: {pass: 3, refused: 1}}", "expected 3 pass, 1 refused, found 2 pass, 2 refused"),
        ("{repeat: 4, expect: {pass: 4}}", "expected 4 pass, found 2 pass, 2 refused"),
    ] {
        let case = steps(step);
        match expected {
            "" => passes(document, &case),
            expected => assert_eq!(differs(document, &case), [expected], "{step}"),
        }
    }
    let refused = |last: &str| {
        format!("    requests:\n      - {{repeat: 4, every: 10s}}\n      - {{expect: {last}}}\n")
    };
    for last in [
        "{status: 429, retry_after: 30}",
        "{retry_after: 45s}",
        "{body: {status: 429, violated-policies: [w]}}",
        "{headers: {content-type: application/problem+json}}",
    ] {
        passes(document, &refused(last));
    }
    for (last, expected) in [
        ("{retry_after: null}", "expected no `retry-after`, found 30 s to 45 s"),
        ("{retry_after: 29}", "expected `retry-after` 29 s, found 30 s to 45 s"),
        ("{retry_after: 46}", "expected `retry-after` 46 s, found 30 s to 45 s"),
        ("{status: 503}", "expected status 503, found 429"),
        ("{headers: {retry-after: \"9\"}}", "expected the header `retry-after`: `9`, found `30`"),
    ] {
        assert_eq!(differs(document, &refused(last)), [expected]);
    }
    let [why] = &differs(document, &refused("{body: {status: 503}}"))[..] else { panic!("one reason") };
    assert!(why.starts_with("expected a body with `{\"status\":503}`, found `{"), "{why}");
}

#[test]
fn a_delay_is_exact() {
    let document = "{url: /, rules: [{name: q, actor: ip, algo: LB, rpu: 10, unit: second, queue: 5}]}";
    passes(
        document,
        "    requests:
      - {expect: pass}
      - {expect: {outcome: delayed, delay: 100ms}}
      - {expect: {outcome: delayed, delay: 200ms}}
      - {after: 1s, expect: pass}
",
    );
    assert_eq!(
        differs(document, "    requests:\n      - {repeat: 2}\n      - {expect: {delay: 100ms}}\n"),
        ["expected a wait of 100ms, found 200ms"]
    );
}

/// Steps begin where the one before ended, at an instant, or after a span, and may overlap.
#[test]
fn requests_come_in_the_order_of_their_instants() {
    passes(
        WINDOW,
        "    start: 2026-03-01T23:59:00Z
    requests:
      - {repeat: 2, every: 5s, expect: pass}
      - {every: 19s, expect: refused}
      - {every: 1s, expect: {outcome: refused, retry_after: 35}}
      - {at: 2026-03-02T00:00:10Z, expect: pass}
      - {at: '23:59:30', expect: refused}
      - {at: 59s, expect: {outcome: refused, retry_after: 1}}
      - {at: '00:00', expect: pass}
      - {at: '00:00:20', expect: refused}
      - {after: 365d, repeat: 2, expect: pass}
",
    );
}

#[test]
fn clients_are_layers_of_requests() {
    let document = "
limits:
  - {url: /, methods: POST, rules: [{name: per-tenant, actor: tenant, missing: deny, algo: W, rpu: 1, unit: hour}]}
  - {url: /, rules: [{name: per-ip, actor: ip, algo: W, rpu: 3, unit: hour}]}
actors: {tenant: {jwt: org.tenant}}
";
    let cases = "
clients:
  ann: {ip: 203.0.113.7, claims: {org: {tenant: acme}}}
  bob: {ip: 203.0.113.8, claims: {org: {tenant: globex}}, method: GET}
request: {url: /orders, method: POST}
cases:
  - name: a
    requests:
      - {from: [ann, bob], expect: pass}
      - {from: ann, expect: refused by per-tenant}
      - {from: ann, claims: {org: {tenant: other}}, expect: pass}
      - {from: ann, headers: {authorization: null}, method: GET, expect: pass}
      - {from: bob, repeat: 2, expect: pass}
      - {from: [bob, ann], expect: refused by per-ip}
  - name: a case begins without counts
    request: {headers: {authorization: Bearer x}}
    requests:
      - {from: ann, expect: {outcome: refused by per-tenant, status: 429}}
      - {from: 198.51.100.0/30, method: GET, expect: pass}
";
    let report = test::text_report(document, cases).unwrap();
    assert!(!report.is_failed(), "{report:#?}");
    assert_eq!(report.cases.iter().map(|case| case.requests).collect::<Vec<_>>(), [9, 5]);
}

#[test]
fn costs_are_settled_by_the_response() {
    let document = "
limits:
  - url: /v1
    rules:
      - {name: tokens, actor: user, algo: W, rpu: 100, unit: day, missing: deny,
         cost: {response_json: /usage/total, estimate: 10, max: 1000}}
      - {name: bytes, actor: user, algo: W, rpu: 1000, unit: day, missing: deny, cost: response_bytes}
      - {name: at-once, actor: user, algo: C, rpu: 2, missing: deny}
";
    passes(
        document,
        "    request: {url: /v1/x, headers: {x-user-id: ann}, lasts: 10s}
    requests:
      - {response: {json: {usage: {total: 70}}, bytes: 200}, expect: {remaining: {tokens: 90, bytes: 1000, at-once: 1}}}
      - {after: 10s, response: {json: {usage: {total: 1}}}, expect: {remaining: {tokens: 20, bytes: 800, at-once: 1}}}
      - {response: {json: {}}, expect: {remaining: {tokens: 10, at-once: 0}}}
      - {expect: refused by at-once}
",
    );
}

#[test]
fn bodies_are_read_as_by_a_gateway() {
    let document = "
limits:
  - url: /v1
    request_json: {/method: tools/call}
    rules: [{name: per-tool, actor: [tool], missing: deny, algo: W, rpu: 1, unit: day}]
actors: {tool: {request_json: /params/name}}
";
    passes(
        document,
        "    request: {url: /v1, method: POST}
    requests:
      - {body: {method: tools/call, params: {name: a}}, repeat: 1, expect: pass}
      - {body: {method: tools/call, params: {name: a}}, expect: refused by per-tool}
      - {body: {method: tools/call, params: {name: b}}, expect: pass}
      - {body: {method: tools/list}, repeat: 3, expect: pass}
      - {body: '{\"method\":', headers: {content-type: application/json}, expect: refused by per-tool}
",
    );
}

/// As a gateway reads them: fractions and numbers beyond 32 bits are numbers.
#[test]
fn numbers_keep_their_type() {
    let document = "
limits:
  - url: /
    rules:
      - {name: w, actor: sub, missing: deny, algo: W, rpu: 10G, unit: day, cost: {response_json: /t, estimate: 5, max: 10G}}
actors: {sub: {jwt: sub}}
";
    passes(
        document,
        "    request: {claims: {sub: ann}}
    requests:
      - {response: {json: {t: 3000000000}}, expect: pass}
      - {response: {json: {t: 1.5}}, expect: {remaining: 6999999995}}
      - {expect: {remaining: 6999999993}}
      - {claims: {sub: 1.5}, expect: refused by w}
",
    );
    // A missing actor exhausts no quota.
    let report = report(document, "    requests: [{expect: refused by w}]\n");
    assert_eq!(report.uncovered[0].never, "refused by its quota");
}

/// `/method` and `/id` of a body decide the form of a refusal.
#[test]
fn json_rpc_is_answered_by_json_rpc() {
    let document = "
limits:
  - {url: /mcp, rules: [{name: calls, actor: ip, algo: W, rpu: 1, unit: day}]}
response: {json_rpc: {status: 200}}
";
    passes(
        document,
        "    request: {url: /mcp, method: POST, body: {jsonrpc: '2.0', id: 7, method: tools/call}}
    requests:
      - {expect: pass}
      - {expect: {outcome: refused by calls, status: 200, body: {error: {code: -32029}, id: 7}}}
      - {body: {jsonrpc: '2.0', method: note}, expect: {outcome: refused, body: ''}}
      - {body: {method: x}, expect: {status: 429, body: {status: 429}}}
",
    );
}

/// What no case reaches is named, with the place of the rule.
#[test]
fn coverage_names_what_never_happened() {
    let document = "
limits:
  - url: /
    rules:
      - {name: refuses, actor: ip, algo: W, rpu: 1, unit: hour}
      - {name: shadow, actor: ip, algo: W, rpu: 1, unit: hour, mode: shadow}
      - {name: queue, actor: ip, algo: LB, rpu: 1, unit: second, queue: 1}
      - {name: marks, actor: ip, algo: W, rpu: 9, unit: hour, over: {at: \"100%\", admit: true, request_header: {x: y}}}
      - {name: everywhere, actor: ip, algo: W, rpu: 9, unit: hour, scope: global}
store: {redis: {cluster: redis, secret: 0123456789abcdef}}
";
    let of = |case: &str| -> Vec<String> {
        let uncovered = report(document, case).uncovered;
        uncovered
            .iter()
            .map(|branch| format!("{} never {} ({})", branch.rule, branch.never, branch.place))
            .collect()
    };
    assert_eq!(
        of("    requests: [{}]\n"),
        [
            "refuses never refused by its quota (limits.yaml:5)",
            "shadow never refused in shadow (limits.yaml:6)",
            "queue never refused by its quota (limits.yaml:7)",
            "queue never delayed (limits.yaml:7)",
            "marks never beyond 100% (limits.yaml:8)",
            "everywhere never refused by its quota (limits.yaml:9)",
            "everywhere never without its store (limits.yaml:9)",
        ]
    );
    let without_refusal = "    store: down\n    requests: [{repeat: 2}]\n";
    assert_eq!(
        of(without_refusal),
        [
            "queue never refused by its quota (limits.yaml:7)",
            "queue never delayed (limits.yaml:7)",
            "marks never beyond 100% (limits.yaml:8)",
            "everywhere never refused by its quota (limits.yaml:9)",
        ]
    );
}

/// The recipes' cases pass and leave no branch out, but for those that say why.
#[test]
fn the_cookbook_is_tested() {
    let cookbook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cookbook");
    let mut cases = 0;
    for entry in fs::read_dir(&cookbook).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if !name.ends_with(".test.yaml") {
            continue;
        }
        let report = test::file_report(&path).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert!(!report.is_failed(), "{name}: {:#?}", report.cases);
        let is_explained = fs::read_to_string(&path).unwrap().contains("# never ");
        assert!(report.uncovered.is_empty() || is_explained, "{name}: {:?}", report.uncovered);
        cases += report.cases.len();
    }
    assert!(cases > 100, "{cases}");
}

fn diana(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_diana")).args(words).current_dir(folder).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn folder(expect: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("limits.yaml"), WINDOW).unwrap();
    write_case(folder.path(), expect);
    folder
}

fn write_case(folder: &Path, expect: &str) {
    let case = format!("cases: [{{name: 'a # \"<b>\"', requests: [{{repeat: 3, expect: {expect}}}]}}]\n");
    fs::write(folder.join("sub/a.test.yaml"), format!("document: ../limits.yaml\n{case}")).unwrap();
}

#[test]
fn results_have_an_exit_code_and_a_form_for_machines() {
    let right = folder("{pass: 2, refused: 1}");
    let (code, text, errors) = diana(right.path(), &["test"]);
    assert_eq!((code, errors.as_str()), (0, ""), "{text}");
    assert!(text.starts_with("sub/a.test.yaml\n  ok    a # \"<b>\" (3 requests)\n"), "{text}");
    assert!(text.ends_with("1 case passed, 0 failed; 1 of 1 branches of rules reached\n"), "{text}");

    let wrong = folder("pass");
    let (code, text, _) = diana(wrong.path(), &["test", "sub"]);
    assert_eq!(code, 1);
    for part in [
        "FAIL  a # \"<b>\"",
        "request 3 of 3, at 2026-01-01T00:00:00Z: expected pass, found refused by `w`",
        "[sub/a.test.yaml:2:",
        "^^^^",
        "1  refused, retry after 60 s",
        "0 cases passed, 1 failed",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let (code, tap, _) = diana(wrong.path(), &["test", "--tap", "--junit", "junit.xml"]);
    assert_eq!(code, 1);
    assert!(
        tap.starts_with("TAP version 14\n1..1\nnot ok 1 - sub/a.test.yaml: a \\# \"<b>\"\n  ---\n"),
        "{tap}"
    );
    let junit = fs::read_to_string(wrong.path().join("junit.xml")).unwrap();
    assert!(junit.contains("failures=\"1\"") && junit.contains("a # &quot;&lt;b&gt;&quot;"), "{junit}");
    let (code, json, _) = diana(wrong.path(), &["test", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["files"][0]["cases"][0]["failures"][0]["line"]), (1, &2.into()));

    let uncovered = folder("{pass: 2, refused: 1}");
    fs::write(uncovered.path().join("limits.yaml"), WINDOW.replace("rpu: 2", "rpu: 9")).unwrap();
    write_case(uncovered.path(), "pass");
    assert_eq!(diana(uncovered.path(), &["test"]).0, 0);
    let (code, text, _) = diana(uncovered.path(), &["test", "--require-coverage"]);
    assert!(code == 1 && text.contains("never refused by its quota: w (sub/../limits.yaml:1)"), "{text}");

    // Another file reaches the rest, and a file that cannot be read hides no result.
    write_case(uncovered.path(), "pass");
    let other = "document: ../limits.yaml\ncases: [{name: b, requests: [{repeat: 10, expect: {pass: 9, refused: 1}}]}]\n";
    fs::write(uncovered.path().join("sub/b.test.yaml"), other).unwrap();
    let (code, text, _) = diana(uncovered.path(), &["test", "--require-coverage", ".", "sub/b.test.yaml"]);
    assert!(
        code == 0 && text.ends_with("2 cases passed, 0 failed; 1 of 1 branches of rules reached\n"),
        "{text}"
    );
    fs::write(
        uncovered.path().join("c.test.yaml"),
        "document: none.yaml\ncases: [{name: c, requests: [{}]}]\n",
    )
    .unwrap();
    let (code, text, errors) = diana(uncovered.path(), &["test", "--tap", "--junit", "junit.xml"]);
    assert!(
        code == 2 && errors.contains("[c.test.yaml:1:11]") && errors.contains("cannot read `none.yaml`"),
        "{errors}"
    );
    assert!(
        text.contains("1..3\n")
            && text.contains("ok 2 - ")
            && text.ends_with("not ok 3 - c.test.yaml: cannot be read\n"),
        "{text}"
    );
    let junit = fs::read_to_string(uncovered.path().join("junit.xml")).unwrap();
    assert!(junit.contains("tests=\"3\"") && junit.contains("errors=\"1\""), "{junit}");

    let empty = tempfile::tempdir().unwrap();
    let (code, _, errors) = diana(empty.path(), &["test"]);
    assert!(code == 2 && errors.contains("no file `*.test.yaml` is here"), "{errors}");
    fs::write(empty.path().join("a.test.yaml"), "cases: []\n").unwrap();
    let (code, _, errors) = diana(empty.path(), &["test"]);
    assert!(code == 2 && errors.contains("`a.test.yaml` tests `a.yaml`, which cannot be read: "), "{errors}");
}

#[test]
fn a_watched_file_runs_again() {
    let folder = folder("pass");
    let mut child = Command::new(env!("CARGO_BIN_EXE_diana"))
        .args(["test", "--watch"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let mut sums = lines.by_ref().filter(|line| line.contains(" passed, "));
    assert!(sums.next().unwrap().starts_with("0 cases passed, 1 failed"));
    // The watch begins after the first run, so the change repeats until it is noticed.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let path = folder.path().to_owned();
    let writer = std::thread::spawn(move || {
        while stopped.recv_timeout(std::time::Duration::from_millis(100)).is_err() {
            write_case(&path, "{pass: 2, refused: 1}");
        }
    });
    let next = sums.find(|line| line.starts_with("1 case passed, 0 failed"));
    stop.send(()).unwrap();
    writer.join().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(next.is_some());
}
