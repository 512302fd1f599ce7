//! The Chinese pages against the English ones: the same code, links and numbers, in the same order
//! of sections. A difference is a warning, so that a change in English waits for no translation.

use super::text;
use std::io::{Write, stderr};

/// The English pages and their translations.
const PAGES: [(&str, &str); 2] = [("README.md", "README.zh-CN.md"), ("docs/guide.md", "docs/zh-CN/guide.md")];

/// What a section of a page says in every language. Words may stand in another order within it.
#[derive(Debug, Default, PartialEq)]
struct Section {
    /// The lines of its blocks of code, without comments.
    code: Vec<String>,
    /// `-`, `1` or `|` for each list item and each row of a table.
    shape: String,
    names: Vec<String>,
    links: Vec<String>,
    numbers: Vec<String>,
}

/// The line without its comment, which is translated.
fn uncommented(line: &str) -> &str {
    let comment = line.match_indices('#').find(|(at, _)| *at == 0 || line[..*at].ends_with(' '));
    comment.map_or(line, |(at, _)| &line[..at]).trim_end()
}

/// The path from the root of the repository for a link on the page `file`, and its anchor. Links
/// between translated pages stay in their language, where headings have other anchors.
fn target(file: &str, link: &str) -> String {
    if link.contains("://") {
        return link.to_owned();
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let mut parts: Vec<&str> = file.split('/').collect();
    if !path.is_empty() {
        parts.pop();
    }
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == ".." {
            assert!(parts.pop().is_some(), "{file}: {link}");
        } else {
            parts.push(part);
        }
    }
    let path = parts.join("/");
    let page = PAGES.iter().find(|(english, chinese)| path == *english || path == *chinese);
    page.map_or(format!("{path}#{anchor}"), |(english, _)| (*english).to_owned())
}

/// What a section says, from its Markdown.
fn section(file: &str, text: &str) -> Section {
    let mut section = Section::default();
    let mut prose = String::new();
    for (index, part) in text.split("```").enumerate() {
        if index % 2 == 1 {
            section.code.extend(part.lines().map(|line| uncommented(line).to_owned()));
            continue;
        }
        for line in part.lines() {
            let after_number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
            section.shape += match line {
                _ if line.starts_with('|') => "|",
                _ if line.starts_with("- ") => "-",
                _ if after_number.starts_with(". ") && after_number != line => "1",
                _ => "",
            };
        }
        prose += part;
    }
    let mut words = String::new();
    for (index, part) in prose.split('`').enumerate() {
        if index % 2 == 1 {
            section.names.push(part.to_owned());
        } else {
            words += part;
        }
    }
    let mut plain = words.split("](");
    let mut rest = plain.next().unwrap_or_default().to_owned();
    for part in plain {
        let (link, more) = part.split_once(')').unwrap_or_else(|| panic!("{file}: {part}"));
        section.links.push(target(file, link));
        rest += more;
    }
    let is_part = |letter: char| letter.is_ascii_digit() || ".,".contains(letter);
    let numbers = rest.split(|letter| !is_part(letter)).map(|number| number.trim_matches(['.', ',']));
    section.numbers.extend(numbers.filter(|number| !number.is_empty()).map(str::to_owned));
    for list in [&mut section.names, &mut section.links, &mut section.numbers] {
        list.sort();
    }
    section
}

/// The sections of a page. A comment in code may begin like a heading.
fn sections(file: &str, text: &str) -> Vec<Section> {
    let mut sections = vec![String::new()];
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        if line.starts_with('#') && !is_code {
            sections.push(String::new());
        }
        if let Some(section) = sections.last_mut() {
            *section += &format!("{line}\n");
        }
    }
    sections.iter().map(|text| section(file, text)).collect()
}

/// The sections of a page that differ from the translation, each with what it says in both.
fn differences(english: &[Section], chinese: &[Section]) -> Vec<String> {
    let pairs = english.iter().zip(chinese).enumerate().filter(|(_, (english, chinese))| english != chinese);
    let mut found: Vec<String> = pairs
        .map(|(number, (english, chinese))| format!("section {number}: {english:?}, translated {chinese:?}"))
        .collect();
    if english.len() != chinese.len() {
        found.push(format!("{} sections, translated {}", english.len(), chinese.len()));
    }
    found
}

/// Writes past the capture of the test's output, so that each run shows the warnings.
#[test]
fn the_chinese_pages_are_compared_with_the_english_ones() {
    for (english, chinese) in PAGES {
        let [expected, actual] = [english, chinese].map(|file| sections(file, &text(file)));
        assert!(expected.len() > 6 && expected.iter().any(|section| !section.code.is_empty()));
        for difference in differences(&expected, &actual) {
            writeln!(stderr(), "warning: {chinese} differs from {english}, {difference}").unwrap();
        }
    }
}

#[test]
fn a_change_of_one_language_is_noticed() {
    let of = |text: &str| sections("docs/guide.md", text);
    let page = "## A\n\n- `rpu` of 859 kB, see [key](files.md#a).\n\n```yaml\nrpu: 5   # five\n```\n";
    let translated = "## 甲\n\n- 见[键](files.md#a)：859 kB 的 `rpu`。\n\n```yaml\nrpu: 5 # 五\n```\n";
    assert_eq!(differences(&of(page), &of(translated)), [""; 0]);
    for (from, to) in [("859", "860"), ("`rpu`", "`burst`"), ("files.md", "guide.md"), ("#a)", "#b)")] {
        assert_eq!(differences(&of(page), &of(&page.replace(from, to))).len(), 1, "{from}");
    }
    for changed in [
        page.replace("rpu: 5", "rpu: 6"),
        page.replace("- ", ""),
        page.replace("\n\n```", "\n- more\n\n```"),
        format!("{page}## B\n"),
    ] {
        assert_eq!(differences(&of(page), &of(&changed)).len(), 1, "{changed}");
    }
}
