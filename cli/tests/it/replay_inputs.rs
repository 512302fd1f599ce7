//! `diana replay`: values that only later lines have, and what the command refuses to do.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const DOCUMENT: &str = r#"{"url": "/", "rules": [
    {"name": "each", "actor": "user", "missing": "skip", "rpu": 2, "unit": "hour"}
]}"#;

/// A folder with the document and a log.
fn folder(log: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("limits.json"), DOCUMENT).unwrap();
    fs::write(folder.path().join("access.log"), log).unwrap();
    folder
}

fn replay(folder: &Path, options: &[&str]) -> Output {
    let fixed = ["replay", "limits.json", "--log", "access.log"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_diana"));
    command.args(fixed).args(options).current_dir(folder).output().unwrap()
}

fn line(number: usize, user: &str) -> String {
    format!(
        r#"{{"start_time": {}, "method": "GET", "path": "/", "x-user-id": {user}}}"#,
        1_795_392_000 + number
    ) + "\n"
}

#[test]
fn a_header_that_many_first_lines_lack_counts_where_it_comes() {
    let log: String = (0..2_000).map(|number| line(number, "null")).collect();
    let log = log + &(2_000..2_010).map(|number| line(number, "\"ann\"")).collect::<String>();
    let folder = folder(&log);
    let output = replay(folder.path(), &["--json"]);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rule = &summary["rules"][0];
    assert_eq!((rule["checked"].as_u64(), rule["refused"].as_u64()), (Some(10), Some(8)), "{summary:#}");
    let assumptions = summary["log"]["assumptions"].to_string();
    assert!(!assumptions.contains("x-user-id"), "{assumptions}");
}

#[test]
fn a_replay_that_reads_no_request_cannot_pass() {
    for (log, format, why) in [
        ("", "json", "the log has no requests"),
        (&*line(0, "\"ann\""), "nginx", "no line can be read as a request (format nginx); access.log:1: "),
    ] {
        let folder = folder(log);
        let output = replay(folder.path(), &["--format", format, "--fail-above", "0", "--json"]);
        let error = String::from_utf8(output.stderr).unwrap();
        // The message is wrapped.
        let words: Vec<&str> = error.split_whitespace().filter(|word| *word != "│").collect();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{error}");
        assert!(words.join(" ").contains(why.trim_end()), "{error}");
    }
}

#[test]
fn a_report_replaces_neither_the_document_nor_a_log() {
    let folder = folder(&line(0, "\"ann\""));
    for input in ["limits.json", "access.log", "./access.log"] {
        let before = fs::read(folder.path().join(input)).unwrap();
        let output = replay(folder.path(), &["--report", input]);
        assert_eq!(output.status.code(), Some(2), "{input}");
        assert_eq!(fs::read(folder.path().join(input)).unwrap(), before, "{input}");
    }
    let output = replay(folder.path(), &["--report", "out.html"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(fs::read_to_string(folder.path().join("out.html")).unwrap().contains("</html>"));
}

#[cfg(target_os = "linux")]
#[test]
fn errors_that_nobody_can_read_end_with_the_right_exit_code() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_diana"));
    let status = command.args(["check", "no-such-file"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
}
