//! The scripts in docs/cli/README.md run, and find what they promise.

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

/// The script with this title in the page.
fn recipe(title: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli/README.md");
    let page = fs::read_to_string(file).unwrap();
    let (_, rest) = page.split_once(&format!("```sh title={title}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    let own = Path::new(env!("CARGO_BIN_EXE_diana")).parent().unwrap().display().to_string();
    let path = format!("{own}:{}", env::var("PATH").unwrap_or_default());
    Command::new(program).args(arguments).current_dir(folder).env("PATH", path).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const RIGHT: &str = "{url: /, rules: [{name: a, actor: ip, rpu: 1, unit: second}]}\n";
const WRONG: &str = "url: /\nrules:\n  - {actor: ip, rpu: 1, unit: secnd}\n";

#[test]
fn findings_become_annotations() {
    let folder = tempfile::tempdir().unwrap();
    let has_jq = Command::new("jq").arg("--version").output().is_ok();
    let annotated = |document: Option<&str>| {
        let file = folder.path().join("envoy.yaml");
        match document {
            Some(document) => fs::write(file, document).unwrap(),
            None => fs::remove_file(file).unwrap(),
        }
        let output = run(folder.path(), "sh", &["-c", &recipe("annotate")]);
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    if !has_jq {
        return;
    }
    assert_eq!(annotated(Some(RIGHT)), (0, String::new(), String::new()));
    let expected = "::error file=envoy.yaml,line=3,col=31,title=diana%3A%3Awrong-value::unknown unit `secnd`: expected \
                    second, minute, hour, day, week, month, year or a span such as `30s`\n";
    assert_eq!(annotated(Some(WRONG)), (1, expected.into(), String::new()));
    let (code, shown, errors) = annotated(None);
    let expected =
        "::error file=envoy.yaml,line=1,col=1,title=diana%3A%3Aunreadable::cannot read `envoy.yaml`: ";
    assert!(code == 2 && shown.starts_with(expected), "{shown}{errors}");
}

#[test]
#[cfg(unix)]
fn the_hook_refuses_a_commit_with_mistakes() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let git = |words: &[&str]| {
        let own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.hooksPath=.git/hooks"];
        run(folder.path(), "git", &[&own[..], words].concat())
    };
    assert!(git(&["init", "--quiet"]).status.success());
    let hook = folder.path().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, recipe("pre-commit")).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("gateway")).unwrap();
    let commit = |name: &str, document: &str| {
        fs::write(folder.path().join(name), document).unwrap();
        assert!(git(&["add", "."]).status.success());
        git(&["commit", "--quiet", "--message", "change"])
    };
    // Other folders are not checked.
    assert!(commit("notes.yaml", WRONG).status.success());
    let output = commit("gateway/a b.yaml", RIGHT);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = commit("gateway/a b.yaml", WRONG);
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success() && shown.contains("gateway/a b.yaml:3:31"), "{shown}");
}
