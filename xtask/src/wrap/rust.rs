//! Comments of Rust files. Only lines that hold a comment and nothing else are wrapped.

use super::paragraph::{self, columns};
use super::width::{TooLong, WIDTH};
use anyhow::{Result, ensure};
use proc_macro2::{Span, TokenStream, TokenTree};

/// What a line of a file holds.
#[derive(PartialEq)]
enum Line<'t> {
    /// Code or nothing.
    Code,
    /// Code and a comment after the code.
    Trailing,
    /// A comment: the text before the comment's own, for example `    /// `, and the comment's own.
    Comment(&'t str, &'t str),
}

/// The text with all comments wrapped.
pub fn wrapped(text: &str) -> Result<String> {
    let (lines, all) = (lines(text)?, text.lines().collect::<Vec<_>>());
    let mut output: Vec<String> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Line::Comment(before, _) = lines[at] else {
            output.push(all[at].to_owned());
            at += 1;
            continue;
        };
        let block: Vec<&str> = lines[at..]
            .iter()
            .map_while(|line| match line {
                Line::Comment(other, own) if *other == before => Some(*own),
                _ => None,
            })
            .collect();
        // The marker, and the space after it.
        let width = WIDTH.saturating_sub(columns(before) + 1);
        let own: Vec<&str> = block.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        if block.iter().all(|line| line.is_empty() || line.starts_with(' ')) {
            let wrapped = paragraph::wrapped(&own, width);
            output.extend(wrapped.iter().map(|line| format!("{before} {line}").trim_end().to_owned()));
        } else {
            output.extend(all[at..at + block.len()].iter().map(|line| (*line).to_owned()));
        }
        at += block.len();
    }
    let mut wrapped = output.join("\n");
    if text.ends_with('\n') {
        wrapped.push('\n');
    }
    ensure!(meaning(&wrapped)? == meaning(text)?, "wrapping would change more than line breaks");
    Ok(wrapped)
}

/// Lines with a comment that are too long.
pub fn too_long(text: &str) -> Result<Vec<TooLong>> {
    let found = lines(text)?.into_iter().zip(text.lines()).enumerate().filter_map(|(at, (line, all))| {
        let what = match line {
            Line::Code => return None,
            Line::Trailing => "a comment after code",
            Line::Comment(_, own) if paragraph::is_unbreakable(own) => return None,
            Line::Comment(..) => "a comment",
        };
        let columns = columns(all);
        (columns > WIDTH).then_some(TooLong { line: at + 1, columns, what })
    });
    Ok(found.collect())
}

/// What each line holds.
fn lines(text: &str) -> Result<Vec<Line<'_>>> {
    let all: Vec<&str> = text.lines().collect();
    let mut code = Code { lines: &all, ends: vec![0; all.len()], is_inside: vec![false; all.len()] };
    code.visit(tokens(text)?, &mut Vec::new());
    let kinds = all.iter().enumerate().map(|(at, line)| {
        let own = line.trim_start();
        let indent = line.len() - own.len();
        if code.is_inside[at] && code.ends[at] == 0 {
            return Line::Code;
        }
        if own.starts_with("//") && !code.is_inside[at] {
            let slashes = if own.starts_with("///") || own.starts_with("//!") { 3 } else { 2 };
            return Line::Comment(&line[..indent + slashes], &own[slashes..]);
        }
        let after: String = line.chars().skip(code.ends[at]).collect();
        if after.trim_start().starts_with("//") { Line::Trailing } else { Line::Code }
    });
    Ok(kinds.collect())
}

/// All but line breaks in comments: the tokens, and the words of comments.
fn meaning(text: &str) -> Result<(Vec<String>, Vec<String>)> {
    let all: Vec<&str> = text.lines().collect();
    let mut code = Code { lines: &all, ends: vec![0; all.len()], is_inside: vec![false; all.len()] };
    let mut seen = Vec::new();
    code.visit(tokens(text)?, &mut seen);
    let words = lines(text)?.into_iter().filter_map(|line| match line {
        Line::Comment(_, own) => Some(own.split_whitespace().map(str::to_owned)),
        _ => None,
    });
    Ok((seen, words.flatten().collect()))
}

/// The tokens, of which documentation comments are some and other comments are none.
fn tokens(text: &str) -> Result<TokenStream> {
    text.parse().map_err(|error: proc_macro2::LexError| {
        anyhow::anyhow!("line {} is no Rust: {error}", error.span().start().line)
    })
}

/// Where the code of a file stands.
struct Code<'t> {
    lines: &'t [&'t str],
    /// The column after the last token of each line.
    ends: Vec<usize>,
    /// Whether the line begins inside a string or a block comment.
    is_inside: Vec<bool>,
}

impl Code<'_> {
    fn visit(&mut self, tokens: TokenStream, seen: &mut Vec<String>) {
        for token in tokens {
            if self.is_line_comment(token.span()) {
                continue;
            }
            match token {
                TokenTree::Group(group) => {
                    seen.push(format!("{:?}", group.delimiter()));
                    self.mark(group.span_open());
                    self.visit(group.stream(), seen);
                    self.mark(group.span_close());
                    seen.push("end".to_owned());
                }
                other => {
                    self.mark(other.span());
                    seen.push(other.to_string());
                }
            }
        }
    }

    fn mark(&mut self, span: Span) {
        let (start, end) = (span.start(), span.end());
        for line in start.line..end.line {
            self.is_inside[line] = true;
        }
        let last = &mut self.ends[end.line - 1];
        *last = end.column.max(*last);
    }

    /// A documentation comment becomes tokens at the place of the comment.
    fn is_line_comment(&self, span: Span) -> bool {
        let start = span.start();
        let line = self.lines.get(start.line.saturating_sub(1)).copied().unwrap_or_default();
        let rest: String = line.chars().skip(start.column).take(2).collect();
        rest == "//"
    }
}
