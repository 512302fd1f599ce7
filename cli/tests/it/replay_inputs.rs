//! `diana replay`: values that only later lines have, and what the command refuses to do.

use std::fs;
use std::io::Write;
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

/// The error of a command, without its line breaks.
fn message(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = error.split_whitespace().filter(|word| *word != "│").collect();
    words.join(" ")
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
        ("", "json", "no requests in `access.log`"),
        (&*line(0, "\"ann\""), "nginx", "no line can be read as a request (format nginx); access.log:1: "),
    ] {
        let folder = folder(log);
        let output = replay(folder.path(), &["--format", format, "--fail-above", "0", "--json"]);
        let error = message(&output);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{error}");
        assert!(error.contains(why.trim_end()), "{error}");
    }
}

#[test]
fn a_value_that_only_late_lines_have_counts_there() {
    let document = r#"{"limits": [
        {"url": "/", "rules": [{"name": "network", "actor": "ip", "rpu": 1, "unit": "hour"}]},
        {"url": "/", "body_size": {"min": 100}, "rules": [{"name": "large", "rpu": 1, "unit": "hour"}]}
    ]}"#;
    let line = |number: usize, more: &str| {
        format!(r#"{{"start_time": {}, "path": "/"{more}}}"#, 1_795_392_000 + number) + "\n"
    };
    let small = r#", "client_ip": "192.0.2.7", "content-length": 9"#;
    // No content length and no body: the gateway knows that the size is 0. Chunked: it does not.
    let (none, chunked) = (
        r#", "content-length": null, "bytes_received": 0"#,
        r#", "content-length": null, "bytes_received": 9"#,
    );
    let received = r#", "x-forwarded-for": "::1, 192.0.2.7", "bytes_received": 500"#;
    let log: String = (0..1_200).map(|number| line(number, none)).collect();
    let log = log
        + &line(1_200, small)
        + &line(1_201, r#", "client_ip": "192.0.2.8", "content-length": 100"#)
        + &line(1_202, received)
        + &line(1_203, chunked)
        + &line(1_204, r#", "bytes_received": 9"#);
    let folder = folder(&log);
    fs::write(folder.path().join("limits.json"), document).unwrap();
    let output = replay(folder.path(), &["--json"]);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checked = |index: usize| {
        let rule = &summary["rules"][index];
        (rule["checked"].as_u64().unwrap(), rule["refused"].as_u64().unwrap())
    };
    // The 1,202 requests without an address count together, and one of them passes.
    assert_eq!((checked(0), checked(1)), ((1_205, 1_202), (3, 2)), "{summary:#}");
    let assumptions = summary["log"]["assumptions"].to_string();
    for stated in ["address", "content-length", "size of bodies"] {
        assert!(!assumptions.contains(stated), "{assumptions}");
    }
}

#[test]
fn a_file_that_ends_early_is_reported_and_cannot_pass() {
    let log: String =
        (0..5_000).map(|number| line(number, &format!("\"u{}\"", number * 7_919 % 1_009))).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(log.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let folder = folder("");
    for kept in [gzip.len() - 8, gzip.len() / 2] {
        fs::write(folder.path().join("access.log"), &gzip[..kept]).unwrap();
        let output = replay(folder.path(), &["--json", "--report", "out.html"]);
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let (log, ended) = (&summary["log"], &summary["log"]["ended_early"][0]);
        let lines = log["lines"].as_u64().unwrap();
        assert_eq!((output.status.code(), &ended["file"]), (Some(2), &"access.log".into()));
        assert!(lines > 1_000 && (lines == 5_000) == (kept > gzip.len() / 2), "{lines}");
        assert_eq!((ended["line"].as_u64(), log["unreadable"].as_u64()), (Some(lines), Some(0)));
        assert_eq!(summary["totals"]["requests"].as_u64(), Some(lines));
        let words = format!("ended early, after line {},{:03}: ", lines / 1_000, lines % 1_000);
        assert!(message(&output).contains(&format!("`access.log` {words}")), "{}", message(&output));
        let text = String::from_utf8(replay(folder.path(), &[]).stdout).unwrap();
        assert!(text.contains(&format!("\naccess.log {words}")), "{text}");
        assert!(
            fs::read_to_string(folder.path().join("out.html")).unwrap().contains("ended early, after line")
        );
    }
    fs::write(folder.path().join("access.log"), &gzip[..12]).unwrap();
    let output = replay(folder.path(), &["--format", "json"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(message(&output).contains("`access.log` ended early, after line 0: "), "{}", message(&output));
}

#[test]
fn too_many_unreadable_lines_cannot_pass() {
    let log: String = (0..90).map(|number| line(number, "\"ann\"")).collect();
    let folder = folder(&(log + &"garbage\n".repeat(10)));
    for (options, code) in [
        (&[][..], 0),
        (&["--max-unreadable", "9.9"], 2),
        (&["--max-unreadable", "10 %"], 0),
        (&["--max-unreadable", "0", "--fail-above", "0"], 2),
        (&["--fail-above", "0"], 1),
    ] {
        let output = replay(folder.path(), options);
        assert_eq!(output.status.code(), Some(code), "{options:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.contains("10 of 100 lines cannot be read, for example:"),
            "the report is printed: {text}"
        );
    }
    let output = replay(folder.path(), &["--max-unreadable", "9.9"]);
    let error = message(&output);
    assert!(
        error.contains("10 of 100 lines cannot be read, but `--max-unreadable` permits only 9.9 %"),
        "{error}"
    );
}

#[test]
fn an_unreadable_line_is_shown_as_it_is() {
    let folder = folder(&(line(0, "\"ann\"") + "{\"path\": \"/a\u{202e}\u{1b}[2J'\"}\n"));
    let output = replay(folder.path(), &["--max-unreadable", "100"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains(r#"  access.log:2: the line is not a JSON object: `{"path": "/a\u{202e}\u{1b}[2J'"}`"#),
        "{text}"
    );
}

#[test]
fn arguments_that_cannot_work_end_before_the_replay() {
    let folder = folder(&line(1, "ann"));
    for (options, why) in [
        (&["--report", "no/such/r.html"][..], "`--report`: the folder of `no/such/r.html` does not exist"),
        (&["--report", "."], "`--report`: `.` is a folder"),
        (&["--log", "-", "--against", "-"], "only one of the files can be `-`"),
        (&["--log", "-", "-"], "only one of the files can be `-`"),
    ] {
        let output = replay(folder.path(), options);
        assert_eq!(output.status.code(), Some(2));
        assert!(message(&output).contains(why) && output.stdout.is_empty(), "{}", message(&output));
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
    assert_eq!(String::from_utf8_lossy(&output.stderr), "wrote `out.html`\n");
}

#[test]
fn the_error_for_longer_lines_has_a_format_that_reads_them() {
    let common = r#"203.0.113.7 - - [23/Nov/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5"#;
    let envoy = r#"[2026-11-23T00:00:00.250Z] "GET / HTTP/1.1" 200 - 0 5 4 3 "-" "-" "-" "h" "-""#;
    for (line, begins) in [
        (format!(r#"{common} "-" "curl" "u1" 0.012"#), "its lines begin as in nginx's `combined`: "),
        (format!("{common} 0.012"), "its lines begin as in the common log format: "),
        (common.into(), "its lines have the common log format: "),
        (format!("{envoy} u1"), "its lines begin as in Envoy's default format: "),
    ] {
        let folder = folder(&format!("{line}\n"));
        let error = message(&replay(folder.path(), &[]));
        assert!(error.contains(begins), "{error}");
        let (_, rest) = error.split_once("--format '").unwrap();
        let (format, _) = rest.split_once('\'').unwrap();
        let output = replay(folder.path(), &["--format", format]);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", message(&output));
    }
    let other = folder("neither nor\n");
    let error = message(&replay(other.path(), &[]));
    assert!(error.contains("`neither nor`: pass `--format` with envoy, istio, nginx, json or a pattern"));
}

#[test]
fn a_log_in_another_format_than_the_other_logs_cannot_pass() {
    let log: String = (0..100).map(|number| line(number, "\"ann\"")).collect();
    let folder = folder(&log);
    let nginx = "203.0.113.7 - - [23/Nov/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\"\n";
    fs::write(folder.path().join("nginx.log"), nginx).unwrap();
    fs::write(folder.path().join("empty.log"), "").unwrap();
    let logs = ["--log", "nginx.log", "empty.log"];
    let output = replay(folder.path(), &[&logs[..], &["--report", "out.html"]].concat());
    let (text, error) = (String::from_utf8_lossy(&output.stdout), message(&output));
    assert_eq!(output.status.code(), Some(2), "{error}");
    let expected = "`nginx.log` has no line in the format json; all logs of one command have the same format";
    assert!(error.contains(expected) && !error.contains("empty.log"), "{error}");
    assert!(text.contains("\nnginx.log has no line in the format json\n"), "{text}");
    let page = fs::read_to_string(folder.path().join("out.html")).unwrap();
    assert!(page.contains(" has no line in the format "));
    let output = replay(folder.path(), &[&logs[..], &["--max-unreadable", "100"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", message(&output));
}

#[cfg(target_os = "linux")]
#[test]
fn errors_that_nobody_can_read_end_with_the_right_exit_code() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_diana"));
    let status = command.args(["check", "no-such-file"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
}
