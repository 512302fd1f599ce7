//! Runs the commands in the pages of `docs/cli` and `docs/cookbook`, and in the runbook, and
//! compares what they print with the page. `UPDATE=1` writes the pages.
//!
//! A block ```` ```json title=FILE ```` is a file; if the folder of the page has this file, the
//! block shows it. A block ```` ```console ```` has commands after `$ ` and their output.

use super::init::command::{RELEASE, folder, installed};
use clap::Parser;
use diana_cli::Arguments;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// The pages below `docs` whose commands run.
const PAGES: [&str; 6] =
    ["cli/convert.md", "cli/explain.md", "cli/init.md", "cli/schema.md", "cli/test.md", "runbook.md"];

#[test]
fn commands_in_pages_print_what_the_pages_say() {
    for page in PAGES {
        // The folder of a release.
        let folder = folder();
        installed(folder.path(), "linux-amd64/diana", &RELEASE);
        compare(&docs("").join(page), folder.path());
    }
}

/// Each recipe is a file that `diana check` accepts, and a page that shows and explains it.
#[test]
fn recipes_of_the_cookbook_do_what_their_pages_say() {
    let cookbook = docs("cookbook");
    let index = fs::read_to_string(cookbook.join("README.md")).unwrap();
    let mut recipes = 0;
    for entry in fs::read_dir(&cookbook).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if let Some(stem) = stem.strip_suffix(".test") {
            assert!(cookbook.join(format!("{stem}.yaml")).exists(), "{stem}.test.yaml tests no recipe");
            continue;
        }
        let is_recipe = path.extension().unwrap() == "yaml";
        assert!(!is_recipe || path.with_extension("test.yaml").exists(), "{stem} has no test");
        if !is_recipe {
            let is_page = stem == "README" || path.with_extension("yaml").exists();
            assert!(is_page, "{} has no configuration", path.display());
            continue;
        }
        let page = path.with_extension("md");
        compare(&page, &cookbook);
        let text = fs::read_to_string(&page).unwrap();
        let try_it = format!("[Try it](https://diana-limiter.github.io/diana/playground.html#recipe={stem})");
        let block = format!("```yaml title={stem}.yaml\n");
        for expected in [block, format!("$ diana explain {stem}.yaml "), try_it] {
            assert!(text.contains(&expected), "{stem}.md has no `{expected}`");
        }
        let link = format!("({stem}.md)");
        assert_eq!(index.matches(&link).count(), 1, "{link} in the index");
        let checked = run(&format!("diana check --deny-warnings {stem}.yaml"), &cookbook);
        assert!(checked.status.success(), "{stem}: {}", String::from_utf8_lossy(&checked.stdout));
        recipes += 1;
    }
    assert!(recipes >= 20, "{recipes}");
}

fn docs(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(folder)
}

/// Compares a page with what its commands print in this folder.
fn compare(page: &Path, folder: &Path) {
    let name = page.display();
    let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{name}: {error}"));
    let actual = executed(&text, folder);
    if env::var_os("UPDATE").is_some() {
        fs::write(page, &actual).unwrap();
    } else {
        assert!(actual == text, "`{name}` differs; UPDATE=1 writes it.\n{actual}");
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
    let (_, test) = readme.split_once("```yaml title=limits.test.yaml\n").unwrap();
    let limits = "- {url: /, rules: [{name: per-ip, actor: ip, rpu: 10, unit: second, burst: 20}]}\n";
    assert!(readme.contains("{name: per-ip, actor: ip, rpu: 10, unit: second, burst: 20}"));
    fs::write(folder.path().join("limits.yaml"), limits).unwrap();
    fs::write(folder.path().join("limits.test.yaml"), test.split_once("```").unwrap().0).unwrap();
    let tested = run("diana test --require-coverage", folder.path());
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stdout));
    let commands = readme.lines().filter_map(|line| line.strip_prefix("$ diana "));
    let (asking, commands): (Vec<&str>, Vec<&str>) =
        commands.partition(|command| command.contains("--gateway"));
    assert_eq!((asking.len(), commands.len()), (2, 4), "{asking:?} {commands:?}");
    // Other tests run these beside gateways.
    for command in asking {
        let words = ["diana"].into_iter().chain(command.split(' '));
        assert!(Arguments::try_parse_from(words).is_ok(), "`{command}`");
    }
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
        let mut block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let file;
        if let Some((_, name)) = kind.split_once(" title=") {
            let path = folder.join(name);
            if path.exists() {
                file = fs::read_to_string(path).unwrap();
                block = file.lines().collect();
            } else {
                fs::write(path, block.join("\n")).unwrap();
            }
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
    let release = folder.join("linux-amd64");
    let built = Path::new(env!("CARGO_BIN_EXE_diana")).parent().unwrap();
    let own = if release.exists() { &release } else { built };
    let path = format!("{}:{}", own.display(), env::var("PATH").unwrap_or_default());
    Command::new("sh").args(["-c", command]).current_dir(folder).env("PATH", path).output().unwrap()
}

fn output(command: &str, folder: &Path) -> String {
    let output = run(command, folder);
    assert!(output.stderr.is_empty(), "`{command}`: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
