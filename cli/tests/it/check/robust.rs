//! Any text is checked without a panic, every finding has a place in the file, and large documents
//! are checked whole.

use diana_cli::check::report::{Fleet, Report};
use diana_cli::source::content::File;
use proptest::prelude::*;
use std::fs;
use std::path::Path;

fn corpus() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/check");
    let mut files: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension != "expect"))
        .map(|path| {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            (path.file_name().unwrap().to_str().unwrap().into(), text)
        })
        .collect();
    files.sort();
    files
}

fn check(name: &str, text: &str) {
    let report = Report::of(File::new(name, text), Fleet { replicas: Some(3), ..Fleet::default() });
    for finding in &report.findings {
        let range = finding.range.clone();
        assert!(range.start <= range.end && range.end <= text.len(), "{finding:?}");
        let _ = diana_cli::check::render::text(std::slice::from_ref(&report), false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_checked(
        file in 0usize..1_000,
        at in 0.0..1.0f64,
        length in 0usize..40,
        put in prop::sample::select(vec!["", "{", "}", "[", "]", "'", "\"", "\n", ": ", "- ", "é", "&a ", "*a", "|\n", "\\", "\t", "\u{1b}"]),
        crlf: bool,
    ) {
        let corpus = corpus();
        let (name, text) = &corpus[file % corpus.len()];
        let mut bytes = text.clone().into_bytes();
        let at = (at * bytes.len() as f64) as usize;
        let end = (at + length).min(bytes.len());
        bytes.splice(at..end, put.bytes());
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if crlf {
            text = text.replace('\n', "\r\n");
        }
        check(name, &text);
        check("other", &text);
    }
}

/// Lines keep their numbers if they end as in Windows.
#[test]
fn a_carriage_return_moves_no_line() {
    for (name, text) in corpus() {
        let lines = |text: &str| super::found(&name, text);
        assert_eq!(lines(&text.replace('\n', "\r\n")), lines(&text), "{name}");
    }
}

/// Prints the time, too. The order of the findings is that of the document.
#[test]
fn ten_thousand_limits_are_checked_whole() {
    let mut text = String::from("limits:\n");
    for limit in 0..10_000 {
        let unit = if limit % 1_000 == 7 { "dya" } else { "day" };
        text.push_str(&format!(
            "  - url: /tenants/{limit}\n    headers: {{x-plan: gold}}\n    rules:\n      - {{name: r{limit}, actor: apikey, \
             missing: skip, rpu: 10, unit: {unit}}}\n"
        ));
    }
    text.push_str("actors: {apikey: {query: key}}\nlocal: {max_actors: 100}\n");
    let check = |text: &str| {
        let begin = std::time::Instant::now();
        let found = super::found("a.yaml", text);
        println!("{} limits, {} findings: {:?}", 10_000, found.len(), begin.elapsed());
        found
    };
    let wrong: Vec<usize> = check(&text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(wrong, (0..10).map(|it| 1 + (it * 1_000 + 7) * 4 + 4).collect::<Vec<_>>());
    let warned = check(&text.replace("dya", "day"));
    assert_eq!(warned.len(), 10_000);
    assert!(warned.iter().enumerate().all(|(it, found)| *found == (it * 4 + 5, "skips-protection")));
    let more = text.replace("dya", "day").replacen(
        "limits:\n",
        "limits:\n  - {url: /, rules: [{rpu: 9, unit: day}]}\n",
        1,
    );
    assert_eq!(check(&more), []);
}

/// A file may be one line of megabytes, and may have many YAML documents. Quadratic work would take
/// hours here.
#[test]
fn a_file_of_one_line_or_of_many_documents_is_checked_in_linear_time() {
    let limit = |at: usize| format!(r#"{{"url": "/{at}", "rules": [{{"rpu": 1, "unit": "dya"}}]}}"#);
    let line = format!("[{}]", (0..50_000).map(limit).collect::<Vec<_>>().join(", "));
    let documents = "a: 1\n---\n".repeat(50_000);
    // Of one document, a thousand mistakes are shown, and that there are more.
    for (name, text, shown) in [("a.json", line, 1_001), ("a.yaml", documents, 50_000)] {
        let report = Report::of(File::new(name, text), Fleet::default());
        let places: usize = diana_cli::check::render::findings(&report).count();
        assert_eq!(places, shown, "{name}");
    }
}
