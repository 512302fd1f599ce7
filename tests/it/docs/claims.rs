//! `docs/internals/claims.md`: each claim is in the section that it links to, and its tests exist.

use super::names::anchor;
use super::text;

/// A row of the index: the words of a page, where they are, and the tests that show them.
struct Claim<'t> {
    words: &'t str,
    page: String,
    anchor: &'t str,
    /// Each file with its tests. Without tests, all of the file are meant.
    tests: Vec<(&'t str, Vec<&'t str>)>,
}

/// Parses `| [words](../page.md#anchor) | tests |`, where the tests are `` `file.rs`: `test`, `test` ``,
/// separated by semicolons.
fn claim(row: &str) -> Option<Claim<'_>> {
    let (words, rest) = row.strip_prefix("| [")?.split_once("](")?;
    let (link, tests) = rest.strip_suffix(" |")?.split_once(") | ")?;
    let (page, anchor) = link.split_once('#')?;
    let page = match page.strip_prefix("../../") {
        Some(page) => page.to_owned(),
        None => format!("docs/{}", page.strip_prefix("../")?),
    };
    let tests = tests.split("; ").map(tests_of).collect::<Option<_>>()?;
    Some(Claim { words, page, anchor, tests })
}

/// A file and its tests.
fn tests_of(part: &str) -> Option<(&str, Vec<&str>)> {
    let (file, tests) = part.split_once("`: ").unwrap_or((part.strip_suffix('`').unwrap_or(part), ""));
    let tests = tests.split(", ").filter(|test| !test.is_empty());
    let tests = tests.map(|test| test.strip_prefix('`')?.strip_suffix('`')).collect::<Option<_>>()?;
    Some((file.strip_prefix('`')?, tests))
}

/// The text of the section with this anchor, in one line.
fn section(page: &str, wanted: &str) -> Option<String> {
    let (mut found, mut is_code) = (None, false);
    for line in text(page).lines() {
        is_code ^= line.starts_with("```");
        if line.starts_with('#') && !is_code {
            if found.is_some() {
                break;
            }
            found = (anchor(line.trim_start_matches('#')) == wanted).then(Vec::new);
        } else if let Some(words) = &mut found {
            words.extend(line.split_whitespace().map(str::to_owned));
        }
    }
    found.map(|words| words.join(" "))
}

#[test]
fn every_claim_is_on_its_page_and_has_its_tests() {
    let index = text("docs/internals/claims.md");
    let rows: Vec<&str> = index.lines().filter(|line| line.starts_with("| [")).collect();
    assert!(rows.len() > 100, "{}", rows.len());
    for row in rows {
        let Claim { words, page, anchor, tests } = claim(row).unwrap_or_else(|| panic!("{row}"));
        let section = section(&page, anchor).unwrap_or_else(|| panic!("{page} has no #{anchor}: {words}"));
        assert!(section.contains(words), "{page}#{anchor} does not say: {words}");
        for (file, tests) in tests {
            let code = text(file);
            for test in tests {
                assert!(code.contains(&format!("fn {test}(")), "{file} has no `{test}`");
            }
        }
    }
    assert_eq!(section("docs/accuracy.md", "no-such-section"), None);
    assert!(claim("| [words](../accuracy.md) | `tests/it/faults.rs` |").is_none());
    assert!(claim("| [words](../accuracy.md#bounds) | tests/it/faults.rs |").is_none());
}

#[test]
fn the_promises_name_no_tests() {
    for page in ["docs/accuracy.md", "docs/threat-model.md"] {
        assert!(!text(page).contains(".rs`"), "{page}: name the test in docs/internals/claims.md");
    }
}
