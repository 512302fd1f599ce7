//! The reader of `url`, and what to write in place of a text that is no pattern.

use diana_document::{MAX_QUOTED, Node, Value, quoted};
use diana_limiter::matcher::pattern::{self, Pattern, PatternError};

/// The urls of a limit. An empty list is reported at its place.
pub(super) fn items<'a>(node: &Node<'a>) -> Vec<Node<'a>> {
    let urls = node.one_or_many();
    if urls.is_empty() {
        node.fail("no url is listed: write `/`, which matches every request");
    }
    urls
}

/// The text of the first url. A rule without a name is named after it.
pub(super) fn first<'a>(urls: &[Node<'a>]) -> &'a str {
    match urls.first().map(Node::value) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

/// Reads the urls of a limit. Reports each mistake at its place and then returns `None`.
pub(super) fn read(urls: &[Node], case_sensitive: bool) -> Option<Vec<Pattern>> {
    let mut patterns: Vec<Pattern> = Vec::new();
    let compile = |text: &str| match text.parse::<Pattern>() {
        Ok(pattern) if !case_sensitive => pattern.ignoring_case(),
        pattern => pattern,
    };
    for node in urls {
        let read = |text| compile(text).map_err(|error| node.fail(why(text, error))).ok();
        match node.text().and_then(read) {
            Some(pattern) if patterns.contains(&pattern) => {
                node.fail("another url of the limit matches the same paths: leave this out");
            }
            pattern => patterns.extend(pattern),
        }
    }
    let is_complete = !patterns.is_empty() && patterns.len() == urls.len();
    is_complete.then(|| pattern::sorted(patterns))
}

/// Reads a pattern. The error is a message for the author of the document.
///
/// ```
/// let why = diana_config::pattern("api").expect_err("no slash");
/// assert_eq!(why, "a pattern begins with `/` or `=/`, found `api`, did you mean `/api`?");
/// ```
pub fn pattern(text: &str) -> Result<Pattern, String> {
    text.parse().map_err(|error| why(text, error))
}

fn why(text: &str, error: PatternError) -> String {
    match error {
        PatternError::NoSlash => no_leading_slash(text, text.strip_prefix('=').unwrap_or(text)),
        PatternError::Query(path) => {
            format!("the query is not part of a pattern, leave it out: {} is the path", quoted(&path))
        }
        PatternError::ExactAndBelow => format!(
            "`=` asks for the path alone and `**` for all below it, leave out one of them in {}",
            quoted(text)
        ),
        PatternError::NotLast => {
            "`**` is allowed as the last segment only, `*` stands for one segment".into()
        }
        PatternError::TooLong => "a pattern has at most 64 segments".into(),
        PatternError::SameName(word) => {
            format!("{} is in the pattern already, names are unique", quoted(&word))
        }
        PatternError::Name(word) => {
            format!("{} does not name a segment, expected {SEGMENT_NAME} between the braces", quoted(&word))
        }
        PatternError::Type(word) => format!(
            "{} has an unknown type, expected `int`, `uuid` or an expression such as `[a-z]+`",
            quoted(&word)
        ),
        PatternError::Regex(word, error) => {
            format!("{} has no regular expression: {error}", quoted(&word))
        }
        PatternError::PartName(word) => {
            format!("`{{name}}` stands for a whole segment, not for a part of {}; {BY_PART}", quoted(&word))
        }
        PatternError::PartStar(word) => {
            format!("`*` stands for a whole segment, not for a part of {}; {BY_PART}", quoted(&word))
        }
        PatternError::Colon(word) => format!(
            "{} names a segment in other routers: write `{{name}}` or `*` for any one segment, `%3A` for the character",
            quoted(&word)
        ),
        PatternError::Parent(word) => {
            format!("{} is not allowed in a pattern, write the path it leads to", quoted(&word))
        }
    }
}

/// The letters and the length of a segment's name, for messages.
pub(super) const SEGMENT_NAME: &str = "1 to 64 of A to Z, a to z, 0 to 9, `_` and `-`";

/// How to match what a pattern cannot.
const BY_PART: &str = "a part matches by `property: {request.url_path: {regex: …}}`, as it was sent";

fn no_leading_slash(text: &str, path: &str) -> String {
    if path.is_empty() || path == "*" || path == "**" {
        return format!(
            "a pattern begins with `/` or `=/`, found {}; `/` matches every request",
            quoted(text)
        );
    }
    if path.contains("://") {
        return "a pattern is a path, not a full url: write its path here and its host in `hosts`".into();
    }
    let found = format!("a pattern begins with `/` or `=/`, found {}", quoted(text));
    let path = path.trim_start();
    let equals = if text.starts_with('=') { "=" } else { "" };
    let slash = if path.starts_with('/') { "" } else { "/" };
    let meant = format!("{equals}{slash}{path}");
    // `a.example/b` begins with a host, and other marks are those of expressions.
    let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.{}*%".contains(&byte);
    let has_host = path.split_once('/').is_some_and(|(host, _)| host.contains('.'));
    let is_meant = meant.len() <= MAX_QUOTED
        && path.bytes().all(is_path)
        && !has_host
        && meant.parse::<Pattern>().is_ok();
    if is_meant { format!("{found}, did you mean {}?", quoted(&meant)) } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            let found = pattern(text).map(|pattern| pattern.to_string()).unwrap_or_else(|why| why);
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn a_mistake_in_a_pattern_says_what_to_write() {
        check(&[
            ("", "a pattern begins with `/` or `=/`, found ``; `/` matches every request"),
            ("*", "a pattern begins with `/` or `=/`, found `*`; `/` matches every request"),
            ("api", "a pattern begins with `/` or `=/`, found `api`, did you mean `/api`?"),
            ("=api", "a pattern begins with `/` or `=/`, found `=api`, did you mean `=/api`?"),
            (" /api", "a pattern begins with `/` or `=/`, found ` /api`, did you mean `/api`?"),
            (
                "https://example.com:8080/api",
                "a pattern is a path, not a full url: write its path here and its host in `hosts`",
            ),
            (
                "http://example.com",
                "a pattern is a path, not a full url: write its path here and its host in `hosts`",
            ),
            ("=/api?x=1", "the query is not part of a pattern, leave it out: `=/api` is the path"),
            ("/a#b", "the query is not part of a pattern, leave it out: `/a` is the path"),
            (
                "/x/a*b",
                "`*` stands for a whole segment, not for a part of `a*b`; a part matches by `property: {request.url_path: {regex: …}}`, as it was sent",
            ),
            (
                "/users/x{id}",
                "`{name}` stands for a whole segment, not for a part of `x{id}`; a part matches by `property: {request.url_path: {regex: …}}`, as it was sent",
            ),
            (
                "/{id",
                "`{name}` stands for a whole segment, not for a part of `{id`; a part matches by `property: {request.url_path: {regex: …}}`, as it was sent",
            ),
            (
                "=/users/:id",
                "`:id` names a segment in other routers: write `{name}` or `*` for any one segment, `%3A` for the character",
            ),
            (
                "/{}",
                "`{}` does not name a segment, expected 1 to 64 of A to Z, a to z, 0 to 9, `_` and `-` between the braces",
            ),
            (
                "/{a.b}",
                "`{a.b}` does not name a segment, expected 1 to 64 of A to Z, a to z, 0 to 9, `_` and `-` between the braces",
            ),
            ("/{a}/x/{a}", "`{a}` is in the pattern already, names are unique"),
            ("/**/a", "`**` is allowed as the last segment only, `*` stands for one segment"),
            ("/a/../b", "`..` is not allowed in a pattern, write the path it leads to"),
            ("/a/.%2E", "`.%2E` is not allowed in a pattern, write the path it leads to"),
            (
                "=/a/**",
                "`=` asks for the path alone and `**` for all below it, leave out one of them in `=/a/**`",
            ),
        ]);
        check(&[
            (&"/a".repeat(64), &"/a".repeat(64)),
            (&"/a".repeat(65), "a pattern has at most 64 segments"),
            (&format!("/{{{}}}", "a".repeat(64)), "/*"),
        ]);
    }
}
