//! What is wrapped, and what stays.

use super::width::WIDTH;
use super::{markdown, paragraph, rust};

/// Wraps text at 30 columns, and checks that a second time changes nothing.
#[track_caller]
fn assert_wraps(before: &str, after: &str) {
    let wrap = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        paragraph::wrapped(&lines, 30).join("\n")
    };
    assert_eq!(wrap(before), after);
    assert_eq!(wrap(after), after, "a second time");
}

#[test]
fn a_paragraph_with_a_long_line_is_filled() {
    assert_wraps(
        "one two three four five six seven\neight\n\nshort\nlines",
        "one two three four five six\nseven eight\n\nshort\nlines",
    );
}

#[test]
fn list_items_keep_their_markers_and_indentation() {
    assert_wraps(
        "- one two three four five six seven\n  eight\n- nine\n  1. ten eleven twelve thirteen 14",
        "- one two three four five six\n  seven eight\n- nine\n  1. ten eleven twelve\n     thirteen 14",
    );
    assert_wraps(
        "> one two three four five six seven\n> eight",
        "> one two three four five six\n> seven\n> eight",
    );
}

#[test]
fn code_tables_headings_and_links_stay() {
    for fixed in [
        "```text\nfour five six seven eight nine ten eleven\n```",
        "~~~\nfour five six seven eight nine ten ```\n\neleven twelve thirteen fourteen\n~~~",
        "| four five six | seven eight | nine ten |\n|---|---|---|",
        "## four five six seven eight nine ten",
        "text\n\n    four five six seven eight nine ten",
        "- item\n\n      four five six seven eight nine ten",
        "[name]: https://example.com/four-five-six-seven",
        "<img src=\"four five six seven eight nine\">",
        "https://example.com/four-five-six-seven-eight",
        "a ──► b      four five six seven eight nine",
    ] {
        assert_wraps(fixed, fixed);
    }
    // A second paragraph of a list item is no code.
    assert_wraps(
        "- item\n\n  four five six seven eight nine",
        "- item\n\n  four five six seven eight\n  nine",
    );
}

#[test]
fn code_in_backticks_is_one_word_and_no_line_begins_a_block_by_chance() {
    assert_wraps("one two three four five `six seven`", "one two three four five\n`six seven`");
    assert_wraps("one two three four five six se - eight", "one two three four five six\nse - eight");
    assert_wraps("one two three four five six is 10. Then", "one two three four five six\nis 10. Then");
    assert_wraps("one two three four five six se # eight", "one two three four five six\nse # eight");
}

#[test]
fn only_comments_of_rust_change() {
    let long = "word ".repeat(30);
    let long = long.trim();
    let (first, second) = (&long[..95 - 1], &long[95..]);
    let text = format!(
        "//! {long}\n\nconst A: &str = \"\n// {long}\n\"; // {long}\n\n    /// {long}\n    ///\n    \
         /// ```\n    /// let x = 1; // {long}\n    /// ```\n    fn f() {{}}\n"
    );
    let wrapped = rust::wrapped(&text).unwrap();
    assert!(wrapped.starts_with(&format!("//! {first}\n//! {second}\n\nconst")), "{wrapped}");
    assert!(wrapped.contains(&format!("\"\n// {long}\n\"; // {long}\n")), "{wrapped}");
    assert!(wrapped.contains(&format!("    /// let x = 1; // {long}\n")), "{wrapped}");
    assert_eq!(rust::wrapped(&wrapped).unwrap(), wrapped);
    let found = rust::too_long(&wrapped).unwrap();
    let found: Vec<_> = found.iter().map(|found| (found.line, found.what)).collect();
    assert_eq!(found, [(6, "a comment after code"), (12, "a comment")]);
}

#[test]
fn strings_of_every_kind_stay() {
    let long = "word ".repeat(30);
    for text in [
        format!("const A: &str = r#\"\n// {long} \" \n/// {long}\n\"#;\n"),
        format!("m! {{ \"a\n// {long}\" }}\n"),
        format!("/* a\n// {long}\n*/\nfn f() {{}}\n"),
        format!("const A: &[u8] = b\"\\\n// {long}\";\n"),
    ] {
        let wrapped = rust::wrapped(&text).unwrap();
        assert!(text.starts_with("/*") || wrapped == text, "{wrapped}");
    }
    assert!(rust::wrapped("fn f( {").is_err());
}

#[test]
fn a_web_address_may_be_longer() {
    let address = format!("https://example.com/{}", "x".repeat(WIDTH));
    let text = format!("/// Words.\n/// {address}\n///\n/// [a]: {address}\nfn f() {{}}\n");
    assert_eq!(rust::wrapped(&text).unwrap(), text);
    assert!(rust::too_long(&text).unwrap().is_empty());
    assert!(markdown::too_long(&format!("- [a]({address})\n")).is_empty());
    assert_eq!(markdown::too_long(&format!("- [a]({address}) and more\n")).len(), 1);
}
