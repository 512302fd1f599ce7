//! A refusal's ticket, which the command reads with the document.

use gateway::{Config, Gateway, root};
use serde_json::{Value, json};
use std::env;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn the_command_reads_the_ticket_of_a_refusal() {
    let document = json!({
        "limits": [{"url": "/", "rules": [{"name": "per-user", "actor": "user", "algo": "W", "rpu": 2, "unit": "day"}]}],
        "tickets": {"secret": "0123456789abcdef"},
        "response": {"headers": {"x-own": "1"}},
    });
    let format = Some("%FILTER_STATE(wasm.diana.ticket:PLAIN)%".into());
    let config = Config { access_log: format, ..Config::new(document.clone()) };
    let gateway = Gateway::start(config).unwrap();
    let ask = || gateway.get("/", &[("x-user-id", "ann")]).unwrap();
    assert_eq!([ask().status, ask().status], [200, 200]);
    let refused = ask();
    assert_eq!(refused.status, 429);
    let problem: Value = serde_json::from_slice(&refused.body).unwrap();
    let ticket = problem["ticket"].as_str().unwrap_or_else(|| panic!("{problem}"));
    assert_eq!(gateway.access_log_of(3).unwrap(), ["-", "-", ticket]);

    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--package", "diana-cli", "--", "explain", "-", "--format", "json"]);
    command.args(["--ticket", ticket, "--actor", "ann"]).current_dir(root());
    let mut command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    command.stdin.take().unwrap().write_all(document.to_string().as_bytes()).unwrap();
    let output = command.wait_with_output().unwrap();
    assert!(output.status.success());
    let view: Value = serde_json::from_slice(&output.stdout).unwrap();
    let shown = ["reason", "is_same_document", "is_given_actor", "quota", "used"].map(|key| &view[key]);
    assert_eq!(shown, [&json!("quota"), &json!(true), &json!(true), &json!(2), &json!(2)], "{view}");
    assert_eq!(view["rule"]["place"], "limits[0].rules[0]");
}
