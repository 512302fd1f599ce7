//! The configurations in `tests/corpus`: accepted ones, which stay accepted for ever; refused ones,
//! with their exact messages; and documents of the same shape with mistakes in them.
//!
//! Those in `over` are laid over `over/local.json`, like remote documents, and those in `route`
//! over `route/listener.json`, like documents of routes. Those in `route-alone` are documents of
//! routes that are checked before the listener's document is known.
//!
//! To add one, put a file into `accept`. Or put a file into `refuse`, run `UPDATE=1 cargo test
//! corpus`, and review the messages that the test writes beside the file. Files in `accept` are
//! never edited.

mod shapes;

use diana_config::{Secret, Source, check_route, compile, compile_over, compile_route};
use diana_document::Error;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The files of a corpus folder with this extension, sorted.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<_> =
        entries.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    assert!(extension == "txt" || !files.is_empty(), "no `.{extension}` files in {}", folder.display());
    files.into_iter().collect()
}

/// Reads a document alone, or laid over another one.
pub(crate) type Read = fn(&[u8]) -> Result<(), Vec<Error>>;

const KINDS: [(&str, Read); 5] =
    [("", alone), ("over/", over), ("route/", route), ("route-alone/", route_alone), ("native/", native)];

fn alone(bytes: &[u8]) -> Result<(), Vec<Error>> {
    compile(bytes).map(drop)
}

fn over(bytes: &[u8]) -> Result<(), Vec<Error>> {
    compile_over(include_bytes!("../corpus/over/local.json"), bytes).map(drop)
}

fn route(bytes: &[u8]) -> Result<(), Vec<Error>> {
    compile_route(include_bytes!("../corpus/route/listener.json"), bytes).map(drop)
}

fn native(bytes: &[u8]) -> Result<(), Vec<Error>> {
    let known = Secret::of(b"0123456789abcdef").unwrap();
    let compile = |secret| Source::new(bytes, &secret).compile().map(drop);
    // The mistakes do not depend on the arrival of the secret.
    let (early, late) = (compile(Secret::Absent), compile(known));
    assert_eq!(early, late);
    late
}

fn route_alone(bytes: &[u8]) -> Result<(), Vec<Error>> {
    check_route(bytes).map(drop)
}

/// The documents of a folder, and how each is compiled.
pub(crate) fn documents(folder: &str) -> Vec<(PathBuf, Read)> {
    let of = |(kind, read): (&str, Read)| {
        files(&format!("{kind}{folder}"), "json").into_iter().map(move |path| (path, read))
    };
    KINDS.into_iter().flat_map(of).collect()
}

pub(crate) fn name(path: &Path) -> String {
    path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string()
}

/// One message per line.
fn printed(errors: &[Error]) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}

#[test]
fn accepted_configurations_stay_accepted() {
    let mut report = String::new();
    for (path, read) in documents("accept") {
        if let Err(errors) = read(&fs::read(&path).unwrap()) {
            writeln!(report, "{} is refused:\n{}", name(&path), printed(&errors)).unwrap();
        }
    }
    assert!(report.is_empty(), "\n{report}Configurations that were accepted once are accepted for ever.");
}

#[test]
fn a_route_that_fits_its_listener_has_no_mistake_alone() {
    for path in files("route/accept", "json").into_iter().chain(files("over/accept", "json")) {
        assert!(check_route(&fs::read(&path).unwrap()).is_ok(), "{}", name(&path));
    }
}

#[test]
fn refused_configurations_say_why() {
    let update = env::var_os("UPDATE").is_some();
    let mut report = String::new();
    for (path, read) in documents("refuse") {
        let Err(errors) = read(&fs::read(&path).unwrap()) else {
            writeln!(report, "{} is accepted\n", name(&path)).unwrap();
            continue;
        };
        errors.iter().for_each(|error| assert_eq!(fault(error), None, "{}: {error}", name(&path)));
        let (found, beside) = (printed(&errors), path.with_extension("txt"));
        match fs::read_to_string(&beside) {
            Ok(expected) if expected == found => {}
            Ok(expected) => {
                let difference = difference(&expected, &found);
                writeln!(report, "{} (- expected, + found)\n{difference}", name(&path)).unwrap();
            }
            Err(_) if update => fs::write(&beside, found).unwrap(),
            Err(_) => writeln!(report, "{} has no .txt beside it\n{found}", name(&path)).unwrap(),
        }
    }
    assert!(
        report.is_empty(),
        "\n{report}\n`UPDATE=1 cargo test corpus` writes the .txt files that are not there; \
         one that has become wrong is deleted first, by hand."
    );
}

#[test]
fn every_expected_message_has_its_configuration() {
    for path in KINDS.iter().flat_map(|(kind, _)| files(&format!("{kind}refuse"), "txt")) {
        assert!(path.with_extension("json").exists(), "{} has no .json beside it", name(&path));
    }
}

/// The defect of a message, if it breaks the style of messages.
fn fault(error: &Error) -> Option<&'static str> {
    const TYPES: [&str; 9] = ["Some(", "None", "u64", "f64", "usize", "String", "Vec<", "Value::", "Err("];
    let why = error.why.as_str();
    // The user's own words may be anything.
    let ours: String = why.split('`').step_by(2).collect();
    match why.chars().next() {
        None => Some("says nothing"),
        Some(first) if !first.is_lowercase() && first != '`' => Some("begins with a capital or a mark"),
        _ if error.to_string().contains(char::is_control) => Some("has a control character"),
        _ if why.ends_with(['.', ' ', ',', ':']) => Some("does not end with its last word"),
        _ if TYPES.iter().any(|name| ours.contains(name)) => Some("names a type of the code"),
        _ => None,
    }
}

/// The lines of both texts, common ones once: the longest common subsequence (Wagner and Fischer
/// 1974).
fn difference(expected: &str, found: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let mut common = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = match a[i] == b[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, String::new());
    while i < a.len() || j < b.len() {
        let (mark, line) = if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
            (' ', a[i - 1])
        } else if i < a.len() && (j == b.len() || common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ('-', a[i - 1])
        } else {
            j += 1;
            ('+', b[j - 1])
        };
        writeln!(lines, "  {mark} {line}").unwrap();
    }
    lines
}

#[test]
fn a_difference_shows_common_lines_once() {
    assert_eq!(difference("a\nb\nc\n", "a\nx\nc\nd\n"), "    a\n  - b\n  + x\n    c\n  + d\n");
}
