//! Wraps paragraphs of Markdown. Code, tables, headings, links' definitions and drawings stay.

/// What a line is for the wrapper.
#[derive(Clone, Copy, PartialEq)]
pub enum LineKind {
    /// A line of a paragraph or of a list item.
    Prose,
    /// In a block of code, or a fence.
    Code,
    /// A row of a table.
    Table,
    /// Any other line that stays as the line is.
    Fixed,
}

/// What each line of a text is.
pub fn kinds(lines: &[&str]) -> Vec<LineKind> {
    let mut kinds: Vec<LineKind> = Vec::new();
    let mut fence: Option<&str> = None;
    // Columns before the text of the list item around the line.
    let mut list = 0;
    let mut after_blank = true;
    for line in lines {
        let (text, indent) = (line.trim(), indent(line));
        let kind = if let Some(open) = fence {
            if text.starts_with(open) && text.chars().all(|letter| open.starts_with(letter)) {
                fence = None;
            }
            LineKind::Code
        } else if let Some(open) = fence_of(text) {
            fence = Some(open);
            LineKind::Code
        } else if text.is_empty() {
            LineKind::Fixed
        } else {
            let in_paragraph = kinds.last() == Some(&LineKind::Prose);
            if after_blank && indent < list {
                list = 0;
            }
            if !in_paragraph && indent >= list + 4 {
                LineKind::Code
            } else if text.starts_with('|') {
                LineKind::Table
            } else if is_fixed(text) {
                LineKind::Fixed
            } else {
                if let Some(marker) = marker(text) {
                    list = indent + marker;
                }
                LineKind::Prose
            }
        };
        after_blank = text.is_empty();
        kinds.push(kind);
    }
    kinds
}

/// The lines, in which each paragraph with a line that is too long is wrapped anew.
pub fn wrapped(lines: &[&str], width: usize) -> Vec<String> {
    let kinds = kinds(lines);
    let mut output = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if kinds[at] != LineKind::Prose {
            output.push(lines[at].to_owned());
            at += 1;
            continue;
        }
        let mut end = at + 1;
        while end < lines.len()
            && kinds[end] == LineKind::Prose
            && starts(lines[end].trim()).is_none()
            && !ends_hard(lines[end - 1])
        {
            end += 1;
        }
        let paragraph = &lines[at..end];
        let is_wide = paragraph.iter().any(|line| columns(line) > width);
        let is_drawn = paragraph.iter().any(|line| is_drawn(line));
        if is_wide && !is_drawn {
            fill(paragraph, width, &mut output);
        } else {
            output.extend(paragraph.iter().map(|line| (*line).to_owned()));
        }
        at = end;
    }
    output
}

/// Columns of a line. Letters of two columns do not occur.
pub fn columns(line: &str) -> usize {
    line.chars().count()
}

/// Whether a line that is too long cannot be shorter: one word, or the definition of a link.
pub fn is_unbreakable(line: &str) -> bool {
    let text = line.trim();
    let text = text.get(starts(text).unwrap_or(0)..).unwrap_or(text);
    words(text).len() <= 1 || is_definition(text)
}

/// Writes the words of a paragraph anew.
fn fill(paragraph: &[&str], width: usize, output: &mut Vec<String>) {
    let Some((first, rest)) = paragraph.split_first() else { return };
    let first_indent = indent(first);
    let start = starts(first.trim()).unwrap_or(0);
    let before = &first[..first_indent + start];
    // A quotation repeats its marker; a list item indents.
    let is_quote = before.contains('>');
    let after = match rest.first() {
        _ if is_quote => before.to_owned(),
        Some(second) => " ".repeat(indent(second)),
        None => " ".repeat(columns(before)),
    };
    let texts = paragraph.iter().enumerate().map(|(number, line)| match number {
        0 => &line[before.len()..],
        _ => line.trim(),
    });
    let text = texts.collect::<Vec<_>>().join(" ");
    let mut line = before.to_owned();
    let mut is_empty = true;
    for word in words(&text) {
        if !is_empty && columns(&line) + 1 + columns(&word) > width {
            output.push(std::mem::replace(&mut line, after.clone()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&word);
        is_empty = false;
    }
    // Two spaces at the end of a paragraph break the line.
    if ends_hard(paragraph.last().unwrap_or(first)) && !line.ends_with('\\') {
        line.push_str("  ");
    }
    output.push(line);
}

/// The words of a text. Code in backticks is one word, and a word that would begin a block at the
/// beginning of a line belongs to the word before.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if letter.is_whitespace() {
            take(&mut word, &mut words);
            rest = &rest[letter.len_utf8()..];
        } else if letter == '`' {
            let code = code_span(rest);
            // A span that two lines share has a line break in place of a space.
            word.push_str(&rest[..code]);
            rest = &rest[code..];
        } else {
            word.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    take(&mut word, &mut words);
    words
}

fn take(word: &mut String, words: &mut Vec<String>) {
    if word.is_empty() {
        return;
    }
    let word = std::mem::take(word);
    match words.last_mut() {
        Some(last) if begins_block(&word) => {
            last.push(' ');
            last.push_str(&word);
        }
        _ => words.push(word),
    }
}

/// Bytes of the code in backticks at the beginning, or of the backticks if nothing closes them.
fn code_span(text: &str) -> usize {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let mut at = ticks;
    while let Some(next) = text[at..].find('`') {
        let start = at + next;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        if run == ticks {
            return start + run;
        }
        at = start + run;
    }
    ticks
}

/// Whether a line that begins with this word is no line of the paragraph before.
fn begins_block(word: &str) -> bool {
    // The word stands alone or has others after it; a marker needs a space.
    starts(&format!("{word} x")).is_some()
        || fence_of(word).is_some()
        || word.starts_with('|')
        || is_fixed(&format!("{word} x"))
        || is_fixed(word)
}

/// Bytes of the marker of a list item or a quotation, with the spaces after it.
fn starts(text: &str) -> Option<usize> {
    marker(text).or_else(|| text.starts_with("> ").then_some(2))
}

/// Bytes of the marker of a list item, with the spaces after it.
fn marker(text: &str) -> Option<usize> {
    let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let sign = match digits {
        0 if text.starts_with(['-', '*', '+']) => 1,
        1..=9 if text[digits..].starts_with(['.', ')']) => digits + 1,
        _ => return None,
    };
    let spaces = text[sign..].len() - text[sign..].trim_start_matches(' ').len();
    (1..=4).contains(&spaces).then_some(sign + spaces)
}

/// Headings, rules, HTML and definitions of links.
fn is_fixed(text: &str) -> bool {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let is_heading = (1..=6).contains(&hashes) && text[hashes..].starts_with(' ');
    let is_rule = ["-", "=", "*", "_"]
        .iter()
        .any(|sign| text.len() >= 3 && text.replace(' ', "").replace(sign, "").is_empty());
    let is_html = text.starts_with('<') && !text.starts_with("<http");
    is_heading || is_rule || is_html || is_definition(text)
}

/// `[name]: address`
fn is_definition(text: &str) -> bool {
    text.starts_with('[') && text.split_once("]: ").is_some_and(|(name, _)| !name.contains(' '))
}

/// A drawing or a table without rules: letters of boxes, or spaces that align.
fn is_drawn(line: &str) -> bool {
    line.contains(|letter: char| ('\u{2500}'..='\u{257f}').contains(&letter) || "▲▼◄►".contains(letter))
        || line.trim().get(starts(line.trim()).unwrap_or(0)..).is_some_and(|text| text.contains("   "))
}

/// Whether Markdown breaks the line at the end.
fn ends_hard(line: &str) -> bool {
    line.ends_with("  ") || line.ends_with('\\')
}

fn fence_of(text: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence))
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
