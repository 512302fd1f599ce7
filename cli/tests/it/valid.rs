//! The commands that need one valid document show mistakes as `diana check` does, with their
//! places.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The exit code, standard output, and standard error.
fn diana(folder: &Path, words: &[&str], input: &str) -> (i32, String, String) {
    let file = folder.join("input");
    fs::write(&file, input).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_diana"));
    command.args(words).current_dir(folder).stdin(Stdio::from(fs::File::open(file).unwrap()));
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The lines that name a place of a file, without the frame.
fn places(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_once(",-[")?.1.strip_suffix(']')).collect()
}

const WRONG: &str = "limits:\n  - url: /\n    rules:\n      - {rpu: 1, unit: minit}\n      - {rpu: 2}\n";

#[test]
fn explain_and_replay_show_what_check_shows() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("limits.yaml"), WRONG).unwrap();
    let (_, checked, _) = diana(folder.path(), &["check", "limits.yaml"], "");
    assert_eq!(places(&checked), ["limits.yaml:4:24", "limits.yaml:5:9"], "{checked}");
    for words in
        [vec!["explain", "limits.yaml", "--url", "/"], vec!["replay", "limits.yaml", "--log", "access.log"]]
    {
        let (code, shown, errors) = diana(folder.path(), &words, "");
        assert_eq!((code, shown.as_str()), (2, ""), "{words:?}");
        assert_eq!(errors, checked.replace("2 errors, 0 warnings", "2 errors"), "{words:?}");
    }
}

#[test]
fn only_mistakes_of_the_chosen_document_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("{WRONG}---\nlimits: []\n---\nlimits: []\nmode: shado\n");
    fs::write(folder.path().join("all.yaml"), file).unwrap();
    let explained = |path| diana(folder.path(), &["explain", path, "--url", "/"], "");
    let (code, shown, errors) = explained("all.yaml:7");
    assert_eq!((code, errors.as_str()), (0, ""), "{shown}");
    let (code, _, errors) = explained("all.yaml:9");
    assert_eq!((code, places(&errors)), (2, vec!["all.yaml:10:7"]), "{errors}");
    let (code, _, errors) = explained("all.yaml:6");
    let expected = "`all.yaml` has no Diana document at line 6: name one of `all.yaml:1`, `all.yaml:7`";
    assert!(code == 2 && errors.contains(expected), "{errors}");
    let (code, _, errors) = explained("all.yaml");
    assert!(code == 2 && errors.contains("has 3 Diana documents: name one of"), "{errors}");
}

#[test]
fn a_file_without_a_document_says_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    for (text, place, expected) in [
        ("", "empty.yaml:1:1", "write a document with `limits`"),
        ("static_resources: {}\n", "empty.yaml:1:1", "write a document with `limits`"),
        ("limits:\n  - url: /\n   x: 3\n", "empty.yaml:3:4", "not valid YAML"),
        ("{\"limits\": [,]}", "empty.yaml:1:13", "not valid"),
    ] {
        fs::write(folder.path().join("empty.yaml"), text).unwrap();
        let (code, _, errors) = diana(folder.path(), &["explain", "empty.yaml", "--url", "/"], "");
        assert!(code == 2 && places(&errors) == [place] && errors.contains(expected), "{text:?}: {errors}");
    }
    for path in ["absent.yaml", "."] {
        let (code, _, errors) = diana(folder.path(), &["explain", path, "--url", "/"], "");
        assert!(code == 2 && errors.contains(&format!("cannot read `{path}`")), "{errors}");
    }
}

#[test]
fn standard_input_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let document = r#"{"url": "/", "rules": [{"name": "one", "rpu": 1, "unit": "second"}]}"#;
    let (code, shown, errors) = diana(folder.path(), &["explain", "-", "--url", "/"], document);
    assert!(code == 0 && errors.is_empty() && shown.contains("one  TB 1/s"), "{shown}{errors}");
    let (code, _, errors) = diana(folder.path(), &["explain", "-", "--url", "/"], WRONG);
    assert_eq!((code, places(&errors)), (2, vec!["<stdin>:4:24", "<stdin>:5:9"]), "{errors}");
}

#[test]
fn a_long_error_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, errors) = diana(folder.path(), &["init"], "");
    assert!(errors.lines().any(|line| line.len() > 100 && line.contains("`diana init`")), "{errors}");
}
