//! Runs the commands in the pages of `docs/cli`, and compares what they print with the page.
//! `UPDATE=1` writes the pages.
//!
//! A block ```` ```json title=FILE ```` is a file, and a block ```` ```console ```` has commands
//! after `$ ` and their output.

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

/// The pages whose commands run.
const PAGES: [&str; 3] = ["explain.md", "init.md", "schema.md"];

#[test]
fn commands_in_pages_print_what_the_pages_say() {
    for page in PAGES {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli").join(page);
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{page}: {error}"));
        let folder = tempfile::tempdir().unwrap();
        let actual = executed(&text, folder.path());
        if env::var_os("UPDATE").is_some() {
            fs::write(&file, &actual).unwrap();
        } else {
            assert!(actual == text, "`{page}` differs; UPDATE=1 writes it.\n{actual}");
        }
    }
}

#[test]
fn the_commands_of_the_readme_run_in_a_clone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("examples")).unwrap();
    for file in ["envoy.yaml", "examples/access.log"] {
        fs::copy(root.join(file), folder.path().join(file)).unwrap();
    }
    let changed = fs::read_to_string(root.join("envoy.yaml")).unwrap().replace("rpu: 10,", "rpu: 100,");
    fs::write(folder.path().join("new.yaml"), changed).unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("$ diana ")).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in commands {
        let output = run(&format!("diana {command}"), folder.path());
        assert!(output.status.success(), "`{command}`: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "`{command}`");
    }
    assert!(fs::read_to_string(folder.path().join("report.html")).unwrap().contains("</html>"));
}

/// The page with the output of its commands.
fn executed(page: &str, folder: &Path) -> String {
    let (mut actual, mut lines) = (String::new(), page.lines());
    while let Some(line) = lines.next() {
        actual += &format!("{line}\n");
        let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if let Some((_, name)) = kind.split_once(" title=") {
            fs::write(folder.join(name), block.join("\n")).unwrap();
        }
        match kind {
            "console" => block.iter().filter(|line| line.starts_with("$ ")).for_each(|line| {
                actual += &format!("{line}\n{}", output(&line[2..], folder));
            }),
            _ => block.iter().for_each(|line| actual += &format!("{line}\n")),
        }
        actual += "```\n";
    }
    actual
}

fn run(command: &str, folder: &Path) -> Output {
    let own = Path::new(env!("CARGO_BIN_EXE_diana")).parent().unwrap().display().to_string();
    let path = format!("{own}:{}", env::var("PATH").unwrap_or_default());
    Command::new("sh").args(["-c", command]).current_dir(folder).env("PATH", path).output().unwrap()
}

fn output(command: &str, folder: &Path) -> String {
    let output = run(command, folder);
    assert!(output.stderr.is_empty(), "`{command}`: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
