//! `diana init` as a user runs it: files, reports, and the interview in a terminal.

use super::FILTER;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::{fs, process};

fn diana(folder: &Path, words: &[&str]) -> (i32, String, String) {
    run(Path::new(env!("CARGO_BIN_EXE_diana")), folder, words)
}

fn run(command: &Path, folder: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = process::Command::new(command);
    let output =
        command.arg("init").args(words).current_dir(folder).stdin(process::Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_file_is_never_replaced_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy.yaml");
    fs::write(&file, "mine").unwrap();
    let (code, _, errors) = diana(folder.path(), &["--limit", "1/second"]);
    assert!(code == 2 && errors.contains("`envoy.yaml` exists: `--force` replaces it"), "{errors}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    // A mistake is found before the file is touched.
    let (code, ..) = diana(folder.path(), &["--limit", "1/minit", "--force"]);
    assert_eq!((code, fs::read_to_string(&file).unwrap().as_str()), (2, "mine"));
    let (code, report, _) = diana(folder.path(), &["--limit", "1/second", "--force", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let expected = json!({"file": "envoy.yaml", "test": "envoy.test.yaml", "kind": "envoy", "rules": ["total"], "is_shadow": false, "warnings": []});
    assert_eq!((code, report), (0, expected));
    assert!(fs::read_to_string(&file).unwrap().starts_with("# A gateway with Diana"));
    // A test that somebody has changed stays.
    let test = folder.path().join("envoy.test.yaml");
    fs::write(&test, "mine").unwrap();
    fs::remove_file(&file).unwrap();
    let (code, report, _) = diana(folder.path(), &["--limit", "1/second"]);
    assert!(code == 0 && !report.contains("test"), "{report}");
    assert_eq!(fs::read_to_string(&test).unwrap(), "mine");
}

/// The first test passes, whatever the limits are, and reaches each rule.
#[test]
fn the_first_test_passes() {
    for (kind, limits) in [
        ("envoy", &["100/minute per ip on /api", "5/second per user on POST /orders/{id:int}"][..]),
        (
            "envoy-native",
            &["10k/day per header X-Api-Key; gold 20k/day", "1/second per device and ip on =/a/*"],
        ),
        ("nginx", &["2 in flight per cookie session on /export/**", "3/minute per query key"]),
        ("document", &["1000/second on /a", "5/hour per jwt org.user on /b; gold 10/hour"]),
    ] {
        for shadow in [&[][..], &["--shadow"]] {
            let folder = tempfile::tempdir().unwrap();
            let words = limits.iter().flat_map(|limit| ["--limit", limit]);
            let words: Vec<&str> =
                ["--kind", kind].into_iter().chain(words).chain(shadow.iter().copied()).collect();
            let (code, report, errors) = diana(folder.path(), &words);
            assert_eq!(code, 0, "{report}{errors}");
            let output = process::Command::new(env!("CARGO_BIN_EXE_diana"))
                .args(["test", "--require-coverage"])
                .current_dir(folder.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{kind} {shadow:?} {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[test]
fn warnings_and_the_next_step_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["--kind", "document", "--limit", "5/second", "--limit", "500/second", "--shadow"];
    let (code, report, _) = diana(folder.path(), &words);
    assert_eq!(code, 0);
    assert!(
        report.starts_with("wrote `diana.yaml` with the rules total, total-2, in shadow mode"),
        "{report}"
    );
    assert!(report.contains("next: diana explain diana.yaml --url /\n"), "{report}");
    let put = ["--kind", "document", "--force", "--limit", "5/second on PUT /users/*/orders"];
    let (_, report, _) = diana(folder.path(), &put);
    let (_, command) = report.split_once("next: diana ").unwrap();
    assert_eq!(command, "explain diana.yaml --url /users/x/orders --method PUT\n");
    let mut explain = process::Command::new(env!("CARGO_BIN_EXE_diana"));
    let shown = explain.args(command.split_whitespace()).current_dir(folder.path()).output().unwrap();
    assert!(String::from_utf8(shown.stdout).unwrap().contains("Limits that apply"));
    let (code, report, _) = diana(
        folder.path(),
        &["--kind", "document", "--limit", "5/second", "--limit", "500/second", "--force"],
    );
    assert!(code == 0 && report.contains("warning: limits[0].rules[1]: "), "{report}");
    let (code, _, errors) = diana(folder.path(), &[]);
    assert!(code == 2 && errors.contains("no limit is given"), "{errors}");
    let (code, shown, _) = diana(folder.path(), &["--limit", "1/second", "-o", "-"]);
    assert!(code == 0 && shown.contains("static_resources:") && !folder.path().join("envoy.yaml").exists());
    let (code, shown, warnings) = diana(folder.path(), &[&words[..6], &["-o", "-"]].concat());
    assert!(code == 0 && shown.starts_with("# yaml-language-server: "), "{shown}");
    assert!(warnings.starts_with("warning: limits[0].rules[1]: "), "{warnings}");
    let (code, _, errors) = diana(folder.path(), &["--limit", "1/second", "-o", "-", "--format", "json"]);
    assert!(code == 2 && errors.contains("--format json reports the name of the file"), "{errors}");
}

/// A folder on the disk of the command.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The command in a [`folder`] with these empty files.
pub fn installed(folder: &Path, command: &str, files: &[&str]) -> PathBuf {
    for file in files.iter().chain([&command]) {
        fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
    }
    files.iter().for_each(|file| fs::write(folder.join(file), "").unwrap());
    // A copy could not run while a process that another thread starts has the file open.
    fs::hard_link(env!("CARGO_BIN_EXE_diana"), folder.join(command)).unwrap();
    folder.join(command)
}

/// The files of a release's folder.
pub const RELEASE: [&str; 3] = ["diana.wasm", "diana-nginx.wasm", "linux-amd64/libdiana.so"];

/// The last line of the report.
fn next(command: &Path, folder: &Path, words: &[&str]) -> String {
    let (code, report, errors) = run(command, folder, &[&["--limit", "1/second", "--force"], words].concat());
    assert_eq!((code, errors.as_str()), (0, ""));
    report.lines().last().unwrap().to_owned()
}

#[test]
fn the_next_step_can_be_copied() {
    let folder = folder();
    let command = installed(folder.path(), "linux-amd64/diana", &RELEASE);
    let next = |words: &[&str]| next(&command, folder.path(), words);
    assert_eq!(next(&["-o", "it's a.yaml"]), r"next: envoy --mode validate -l warning -c 'it'\''s a.yaml'");
    let nginx = ["--kind", "nginx"];
    assert_eq!(next(&nginx), "next: diana check nginx.conf && nginx -t -c \"$PWD\"/nginx.conf");
    let file = folder.path().join("own.conf").display().to_string();
    assert_eq!(
        next(&[&nginx[..], &["-o", &file]].concat()),
        format!("next: diana check {file} && nginx -t -c {file}")
    );
    let (code, _, errors) = diana(folder.path(), &["--limit", "1/second", "-o", ".", "--force"]);
    assert!(code == 2 && errors.contains("`.` is a folder: `--output FILE` names a file"), "{errors}");
}

#[test]
fn the_files_beside_the_command_are_found() {
    let folder = folder();
    let place = folder.path().canonicalize().unwrap();
    let read = |folder: &Path, name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let has_finding = |command: &Path, file: &Path| {
        let output = process::Command::new(command).arg("check").arg(file).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("missing-file")
    };
    let validate = "envoy --mode validate -l warning -c";
    let native = ["--kind", "envoy-native"];
    // In the folder of a release.
    let release = place.join("release");
    let command = installed(&release, "linux-amd64/diana", &RELEASE);
    assert_eq!(next(&command, &release, &[]), format!("next: {validate} envoy.yaml"));
    assert!(read(&release, "envoy.yaml").contains("{filename: diana.wasm}"));
    assert!(!has_finding(&command, &release.join("envoy.yaml")));
    let expected =
        format!("next: ENVOY_DYNAMIC_MODULES_SEARCH_PATH=linux-amd64 {validate} envoy-native.yaml");
    assert_eq!(next(&command, &release, &native), expected);
    next(&command, &release, &["--kind", "nginx"]);
    let nginx = format!("module diana \"{}\";", release.join("diana-nginx.wasm").display());
    assert!(read(&release, "nginx.conf").contains(&nginx));
    // In another folder.
    let other = place.join("other");
    fs::create_dir(&other).unwrap();
    assert_eq!(next(&command, &other, &[]), format!("next: {validate} envoy.yaml"));
    let filename = format!("{{filename: {}}}", release.join("diana.wasm").display());
    assert!(read(&other, "envoy.yaml").contains(&filename));
    let modules = release.join("linux-amd64").display().to_string();
    let expected = format!("next: ENVOY_DYNAMIC_MODULES_SEARCH_PATH={modules} {validate} envoy-native.yaml");
    assert_eq!(next(&command, &other, &native), expected);
    // In a clone, where cargo leaves another library of the same name.
    let clone = place.join("clone");
    let files =
        ["target/diana.wasm", "target/libdiana.so", "target/debug/libdiana.so", "target/debug/deps/a"];
    let command = installed(&clone, "target/debug/diana", &files);
    assert_eq!(next(&command, &clone, &[]), format!("next: {validate} envoy.yaml"));
    assert!(read(&clone, "envoy.yaml").contains("{filename: target/diana.wasm}"));
    let expected = format!("next: ENVOY_DYNAMIC_MODULES_SEARCH_PATH=target {validate} envoy-native.yaml");
    assert_eq!(next(&command, &clone, &native), expected);
}

#[test]
fn what_is_to_be_filled_in_is_said() {
    let folder = folder();
    let command = installed(folder.path(), "bin/diana", &[]);
    let next = |words: &[&str]| next(&command, folder.path(), words);
    let fill = |name: &str, place: &str| {
        format!("next: put `{name}` of a release at `{place}`, or name another place with `--filter`; then ")
    };
    assert!(next(&[]).starts_with(&format!("{}envoy --mode", fill("diana.wasm", "diana.wasm"))));
    let nginx = fill("diana-nginx.wasm", "/etc/nginx/diana-nginx.wasm");
    assert!(next(&["--kind", "nginx"]).starts_with(&format!("{nginx}diana check")));
    let native = next(&["--kind", "envoy-native"]);
    let (start, end) = (
        "next: ENVOY_DYNAMIC_MODULES_SEARCH_PATH=FOLDER envoy",
        ", where FOLDER has `libdiana.so` of a release",
    );
    assert!(native.starts_with(start) && native.ends_with(end), "{native}");
    assert!(next(&["--filter", "/a/b.wasm"]).starts_with("next: envoy --mode"));
    assert!(next(&["--document"]).starts_with("next: diana explain"));
}

/// A user at a terminal, who makes two mistakes.
#[test]
#[cfg(unix)]
fn the_interview_writes_what_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    for taken in ["envoy.yaml", "taken.yaml"] {
        fs::write(folder.path().join(taken), "mine").unwrap();
    }
    let mut command = process::Command::new(env!("CARGO_BIN_EXE_diana"));
    command
        .args(["init", "--proxies", "1", "--store", "redis=10.0.0.8:7379"])
        .current_dir(folder.path())
        .env("TERM", "xterm");
    let mut terminal = rexpect::session::spawn_command(command, Some(20_000)).unwrap();
    terminal.exp_string("What to write").unwrap();
    terminal.send("\r").unwrap();
    terminal.flush().unwrap();
    terminal.exp_string("A limit").unwrap();
    terminal.send_line("100 per ip").unwrap();
    terminal.exp_string("expected a limit such as").unwrap();
    // Deletes the wrong answer.
    terminal.send(&"\u{7f}".repeat(10)).unwrap();
    terminal.send_line("7/minute per user on /api").unwrap();
    terminal.exp_string("Its plans").unwrap();
    terminal.send_line("gold 70/minit").unwrap();
    terminal.exp_string("unknown unit").unwrap();
    terminal.send(&"\u{7f}".repeat(13)).unwrap();
    terminal.send_line("gold 70/minute; internal unlimited").unwrap();
    terminal.exp_string("Its penalty").unwrap();
    terminal.send_line("10m after 5").unwrap();
    terminal.exp_string("Another limit").unwrap();
    terminal.send_line("9/hour per ip").unwrap();
    terminal.exp_string("Its plans").unwrap();
    terminal.send_line("").unwrap();
    terminal.exp_string("Its penalty").unwrap();
    terminal.send_line("").unwrap();
    terminal.exp_string("Another limit").unwrap();
    terminal.send_line("").unwrap();
    terminal.exp_string("Where a request shows its plan").unwrap();
    terminal.send_line("").unwrap();
    terminal.exp_string("without limits, or nothing").unwrap();
    terminal.send_line("10.0.0.0/8, 192.0.2.7").unwrap();
    terminal.exp_string("The address of your service, HOST:PORT").unwrap();
    terminal.send_line("10.0.0.7:81").unwrap();
    terminal.exp_string("The number of gateways").unwrap();
    terminal.send_line("0").unwrap();
    terminal.exp_string("expected a number from 1 to 10000").unwrap();
    terminal.send(&"\u{7f}".repeat(10)).unwrap();
    terminal.send_line("4").unwrap();
    terminal.exp_string("shadow").unwrap();
    terminal.send("n").unwrap();
    terminal.flush().unwrap();
    terminal.exp_string("File").unwrap();
    terminal.send_line("taken.yaml").unwrap();
    terminal.exp_string("`taken.yaml` exists").unwrap();
    terminal.send(&"\u{7f}".repeat(10)).unwrap();
    terminal.send_line("").unwrap();
    terminal.exp_string("wrote `my-envoy.yaml` with the rules api-user, ip").unwrap();
    terminal.exp_eof().unwrap();
    let written: Value =
        serde_norway::from_str(&fs::read_to_string(folder.path().join("my-envoy.yaml")).unwrap()).unwrap();
    let document = written.pointer(&format!("{FILTER}/config/configuration/value")).unwrap();
    assert_eq!(document["store"]["redis"]["replicas"], 4);
    let mut without_store = document.clone();
    without_store.as_object_mut().unwrap().remove("store");
    assert_eq!(
        &without_store,
        &json!({"ip": {"trusted_hops": 2}, "plan": {"header": "x-plan"}, "allow": ["10.0.0.0/8", "192.0.2.7"], "limits": [
            {"url": "/api", "rules": [{
                "name": "api-user", "actor": "user", "rpu": 7, "unit": "minute", "scope": "global",
                "plans": {"gold": {"rpu": 70}, "internal": "unlimited"}, "penalty": {"after": 5, "for": "10m"},
            }]},
            {"url": "/", "rules": [{"name": "ip", "actor": "ip", "rpu": 9, "unit": "hour", "scope": "global"}]}
        ]})
    );
}
