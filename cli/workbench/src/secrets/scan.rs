//! Finds secrets in a text by their names alone: in comments, in files of other programs, and in
//! texts that cannot be read. `password: x`, `"password": "x"`, `password=x`.

use super::is_secret;
use diana_document::nearest;
use std::ops::Range;

/// The bytes of the secrets. In a broken text, a secret may go on in the lines below, and all
/// `headers` and `tokens` are secret.
pub fn secrets(text: &str, is_broken: bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0usize;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        let in_text =
            |range: Range<usize>| start.saturating_add(range.start)..start.saturating_add(range.end);
        for word in words(content) {
            let name = content.get(word.clone()).unwrap_or_default();
            let Some(value) = value(content, word.end) else {
                continue;
            };
            // Keys of a broken text may be misspelt.
            let is_whole = is_broken && nearest(name, &["headers", "tokens"]).is_some();
            if !(is_whole || is_secret(name) || is_broken && nearest(name, &["secret"]).is_some()) {
                continue;
            }
            let after = start.saturating_add(value.start);
            if is_broken && continues(content.get(value.start..).unwrap_or_default()) {
                found.push(after..deeper(text, start, after));
            } else {
                found
                    .extend(span(content, &value, is_whole, is_broken.then_some((text, start))).map(in_text));
            }
        }
        found.extend(userinfo(content).map(in_text));
        start = start.saturating_add(line.len());
    }
    found
}

/// The bytes of the secrets in lines that end like a directive of nginx, where a space is in front
/// of the value: `proxy_set_header Authorization "x";`. All that is behind the name is one. With
/// `only_comments`, the rest of the text is left out.
pub fn directives(text: &str, only_comments: bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0usize;
    for line in text.split_inclusive('\n') {
        let from = if only_comments { line.find('#').unwrap_or(line.len()) } else { 0 };
        let end = line.rfind(';').unwrap_or(0);
        let value = words(line).filter(|word| word.start >= from).find_map(|word| {
            let rest = line.get(word.end..end)?.trim_start_matches(['"', '\'']);
            let value = rest.trim_start();
            let is_behind = value.len() < rest.len() && !value.is_empty();
            (is_behind && is_secret(line.get(word)?)).then(|| end.saturating_sub(value.len())..end)
        });
        found.extend(value.map(|value| start.saturating_add(value.start)..start.saturating_add(value.end)));
        start = start.saturating_add(line.len());
    }
    found
}

/// The names in a line.
fn words(line: &str) -> impl Iterator<Item = Range<usize>> {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut at = 0usize;
    std::iter::from_fn(move || {
        let rest = line.get(at..)?;
        let start = at.saturating_add(rest.find(is_of_name)?);
        let word = line.get(start..)?;
        at = start.saturating_add(word.find(|c| !is_of_name(c)).unwrap_or(word.len()));
        Some(start..at)
    })
}

/// The start of the value behind a name, and whether `=` is in front of it.
struct Found {
    start: usize,
    is_assigned: bool,
}

/// Behind the name: perhaps a quote, then `:` or `=`.
fn value(line: &str, name_end: usize) -> Option<Found> {
    let rest = line.get(name_end..)?;
    let rest = rest.trim_start_matches(['\\', '"', '\'']).trim_start();
    let value = rest.strip_prefix([':', '='])?;
    let start = line.len().saturating_sub(value.trim_start().len());
    Some(Found { start, is_assigned: rest.starts_with('=') })
}

/// Whether the value is in the lines below.
fn continues(value: &str) -> bool {
    value.is_empty() || value.starts_with(['|', '>'])
}

/// The end of the lines below that are indented more than the line at `start`.
fn deeper(text: &str, start: usize, after: usize) -> usize {
    let indentation = |line: &str| line.len().saturating_sub(line.trim_start().len());
    let rest = text.get(start..).unwrap_or_default();
    let own = indentation(rest.lines().next().unwrap_or_default());
    let mut end = start;
    for (index, line) in rest.split_inclusive('\n').enumerate() {
        if index > 0 && !line.trim().is_empty() && indentation(line.trim_end()) <= own {
            break;
        }
        end = end.saturating_add(line.len());
    }
    end.max(after)
}

/// The bytes of the value in the line. A quoted value of a broken text may end in a later line.
/// `None` if the value is no secret: an object, a list, a flag.
fn span(line: &str, found: &Found, is_whole: bool, broken: Option<(&str, usize)>) -> Option<Range<usize>> {
    let rest = line.get(found.start..)?;
    let quote = ["\\\"", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote));
    if let Some(quote) = quote {
        let rest = match broken {
            Some((text, start)) => text.get(start.saturating_add(found.start)..)?,
            None => rest,
        };
        let (start, inner) = (found.start.saturating_add(quote.len()), rest.get(quote.len()..)?);
        return Some(start..start.saturating_add(closing(inner, quote).unwrap_or(inner.len())));
    }
    if rest.starts_with(['{', '[']) && !is_whole || matches!(rest, "" | "true" | "false" | "null" | "~") {
        return None;
    }
    let before = line.get(..found.start)?;
    let is_flow = before.matches(['{', '[']).count() > before.matches(['}', ']']).count();
    let ends: &[char] = match (found.is_assigned, is_flow && !is_whole) {
        (true, _) => &[' ', '&', '"', '\'', ';', ',', '\\'],
        (_, true) => &[',', '}', ']'],
        _ => &[],
    };
    let comment = rest.find(" #").unwrap_or(rest.len());
    let length = rest.find(ends).unwrap_or(rest.len()).min(comment);
    Some(found.start..found.start.saturating_add(length))
}

/// The closing quote. A backslash takes the next character along, unless the quotes have one.
fn closing(inner: &str, quote: &str) -> Option<usize> {
    if quote != "\"" {
        return inner.find(quote);
    }
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '"' => return Some(at),
            _ => {}
        }
    }
    None
}

/// The user and the password in addresses such as `redis://user:password@host`.
fn userinfo(line: &str) -> impl Iterator<Item = Range<usize>> {
    line.match_indices("://").filter_map(|(at, scheme)| {
        let start = at.saturating_add(scheme.len());
        let authority = line.get(start..)?;
        let authority = authority.split(|c: char| c.is_whitespace() || "/\"'`,".contains(c)).next()?;
        let end =
            authority.rfind('@').filter(|end| authority.get(..*end).is_some_and(|it| it.contains(':')))?;
        Some(start..start.saturating_add(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str, is_broken: bool) -> String {
        let mut masked: Vec<char> = text.chars().collect();
        for range in secrets(text, is_broken) {
            masked.get_mut(range).unwrap().iter_mut().filter(|c| !c.is_whitespace()).for_each(|c| *c = '*');
        }
        masked.into_iter().collect()
    }

    #[test]
    fn a_secret_ends_where_its_value_does() {
        for (text, shown) in [
            ("# secret: old # why", "# secret: *** # why"),
            ("secret: a,b c", "secret: *** *"),
            ("{secret: ab, cluster: c}", "{secret: **, cluster: c}"),
            (r#"{"secret": "a\"b", "c": 1}"#, r#"{"secret": "****", "c": 1}"#),
            (r#"x: "{\"password\": \"ab\"}""#, r#"x: "{\"password\": \"**\"}""#),
            ("- authorization: 'Bearer ab'", "- authorization: '****** **'"),
            ("uri: /x?api-key=ab&b=c", "uri: /x?api-key=**&b=c"),
            ("uri: redis://u:p@host/0", "uri: redis://***@host/0"),
            ("uri: http://host/a@b:c", "uri: http://host/a@b:c"),
            ("secret: {sds: a}", "secret: {sds: a}"),
            ("secret:", "secret:"),
            ("use_token: true", "use_token: true"),
            ("the secret is shared", "the secret is shared"),
            ("actor: token", "actor: token"),
        ] {
            assert_eq!(masked(text, false), shown, "{text}");
        }
    }

    #[test]
    fn a_secret_of_a_directive_ends_with_the_directive() {
        for (text, all, comments) in [
            ("a Authorization \"b;c\"; # d", Some("\"b;c\""), None),
            ("#a 'Authorization' b c;", Some("b c"), Some("b c")),
            ("a b; # c $api_key d;\n", Some("d"), Some("d")),
            ("# the secret is shared", None, None),
            ("# pass_header Authorization;", None, None),
            ("# a token_bucket b;", None, None),
        ] {
            let found =
                |only_comments| directives(text, only_comments).pop().and_then(|range| text.get(range));
            assert_eq!((found(false), found(true)), (all, comments), "{text}");
        }
    }

    #[test]
    fn a_secret_of_a_broken_text_may_go_on_below() {
        assert_eq!(masked("secret: |\n  ab\n\n  c\nd: e", true), "secret: *\n  **\n\n  *\nd: e");
        assert_eq!(masked("a:\n  secret:\n    ab\n  b: c", true), "a:\n  secret:\n    **\n  b: c");
        assert_eq!(masked("secret: \"ab\n c\" d", true), "secret: \"**\n *\" d");
        assert_eq!(masked("headers: {x: ab}\nb", true), "headers: *** ***\nb");
        assert_eq!(masked("headers:\n  x: ab\nb: c", true), "headers:\n  ** **\nb: c");
    }
}
