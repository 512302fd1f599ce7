//! Urls that are written as other programs write them: as regular expressions, globs or routes, or
//! with a method or a host. A hint names a pattern that matches what was meant, or a wider one if
//! no pattern is as narrow.

use diana_document::quoted;
use diana_limiter::matcher::pattern::{self, Pattern};

/// How to narrow a pattern that is wider than what was meant.
const NARROW: &str = "and narrow it by `property: {request.url_path: {regex: …}}`, which compares the path as it was \
    sent: `%61` is no `a` there";

/// Marks of regular expressions, and nginx's marks of prefixes.
const MARKS: [&str; 7] = ["^~", "~*", "~", "regex:", "re:", "(?i)", "^"];

/// The hint about a url that the engine refuses.
#[must_use]
pub fn hint(url: &str) -> Option<String> {
    let url = url.trim();
    if let Some((_, rest)) = url.split_once("://") {
        let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if host.is_empty() {
            return None;
        }
        return Some(format!("write {} here and {} in `hosts`", quoted(&meant(path)), quoted(host)));
    }
    if let Some((method, path)) = url.split_once(' ')
        && !method.is_empty()
        && method.bytes().all(|byte| byte.is_ascii_uppercase())
        && path.starts_with('/')
    {
        return Some(format!("write {} here and `{method}` in `methods`", quoted(&meant(path))));
    }
    if let Some((host, path)) = url.split_once('/')
        && is_host(host)
    {
        let path = meant(&format!("/{path}"));
        return Some(format!("write {} here and `{host}` in `hosts`", quoted(&path)));
    }
    Some(instead(url))
}

/// Why a valid pattern is probably one of another program, and what to write instead.
#[must_use]
pub fn doubt(url: &str) -> Option<(String, String)> {
    let mut words = pattern::words(url.strip_prefix('=').unwrap_or(url));
    let found = words.find_map(|word| suspect(word).filter(|_| !word.starts_with('{')))?;
    Some((
        format!("{} stands for itself here, and hardly any client's path has it", quoted(found)),
        instead(url),
    ))
}

fn instead(url: &str) -> String {
    let meant = meant(url);
    let is_narrow = meant.split('/').count() == url.split('/').count() && suspect(url).is_none();
    let narrow = if is_narrow { String::new() } else { format!(", {NARROW}") };
    format!("write {}{narrow}", quoted(&meant))
}

/// The pattern of the leading segments that a pattern can express; `/` if there are none.
fn meant(url: &str) -> String {
    let mut rest = url.trim();
    let is_exact = rest.starts_with('=') || rest.ends_with('$');
    rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    while let Some(path) = MARKS.iter().find_map(|mark| rest.strip_prefix(mark)) {
        rest = path.trim_start();
    }
    let path = rest.strip_suffix('$').unwrap_or(rest);
    // In an expression, `?` begins no query.
    let is_expression = path != url.trim().trim_start_matches('=').trim_start();
    let path = if is_expression { path } else { path.split(['?', '#']).next().unwrap_or(path) };
    let path = path.replace(r"\/", "/");
    let Some(path) = path.strip_prefix('/').filter(|path| !path.contains('|')) else {
        return "/".into();
    };
    let mut segments: Vec<String> = Vec::new();
    let mut words = path.split('/').filter(|word| !word.is_empty()).peekable();
    let is_whole = loop {
        let Some(word) = words.next() else { break true };
        match (segment(word), word.strip_suffix('*').and_then(literal)) {
            (Some(segment), _) => segments.push(segment),
            // The prefix as a segment, and all below it.
            (None, Some(prefix)) if words.peek().is_none() && !prefix.ends_with('.') => {
                segments.push(prefix);
                break false;
            }
            _ => break false,
        }
    };
    let equals = if is_exact && is_whole { "=" } else { "" };
    let pattern = format!("{equals}/{}", segments.join("/"));
    if pattern.parse::<Pattern>().is_ok() { pattern } else { "/".into() }
}

/// The segment that a word of another program stands for.
fn segment(word: &str) -> Option<String> {
    let between = |open: char, close: char| word.strip_prefix(open)?.strip_suffix(close);
    let typed = || between('<', '>').map(|inner| inner.rsplit_once(':').map_or(inner, |(_, name)| name));
    let kind = between('<', '>').and_then(|inner| inner.split_once(':')).map(|(kind, _)| kind);
    let kind = kind.filter(|kind| ["int", "uuid"].contains(kind)).map(|kind| format!(":{kind}"));
    let name = between('{', '}').or_else(|| between('[', ']')).or_else(typed);
    let is_name = |name: &&str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_allowed)
    };
    match name.or_else(|| word.strip_prefix(':')).filter(is_name) {
        // `[a-z]` is a class of characters.
        Some(name) => Some(format!("{{{name}{}}}", kind.unwrap_or_default())),
        None if word == "*" => Some("*".into()),
        None => literal(word),
    }
}

/// The text of a word that stands for itself.
fn literal(word: &str) -> Option<String> {
    let word = word.replace(r"\.", ".").replace(r"\-", "-");
    let is_literal = !word.is_empty() && !word.contains(['*', '+', '?', '#', '(', ')', '{', '}', ':']);
    (is_literal && suspect(&word).is_none()).then_some(word)
}

/// The first mark in a segment that clients' paths hardly ever contain.
fn suspect(word: &str) -> Option<&str> {
    let is_never = |c: char| c.is_control() || " ^[]|\\\"<>`".contains(c);
    if let Some((at, found)) = word.char_indices().find(|(_, c)| is_never(*c)) {
        return word.get(at..at + found.len_utf8());
    }
    // Gateways resolve `.;x` and `..;x` as `.` and `..`.
    let begins = [".;", "..;"].into_iter().find(|dots| word.starts_with(dots));
    let contains = [".+", ")+", "%00"].into_iter().find(|mark| word.contains(mark) && !word.contains("++"));
    begins.or(contains).or_else(|| (word.len() > 1 && word.ends_with('$')).then_some("$"))
}

fn is_host(text: &str) -> bool {
    let (name, port) = text.rsplit_once(':').unwrap_or((text, "0"));
    let is_label = |label: &str| {
        label == "*" || !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let is_dotted = name.contains('.') || name == "localhost";
    is_dotted && name.split('.').all(is_label) && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_limiter::request::path::Readings;
    use diana_limiter::request::{Parts, Request, Values};
    use proptest::prelude::*;

    /// The pattern that the mistake or the warning about a url says to write.
    fn hinted(url: &str) -> Option<String> {
        let hint = match diana_config::pattern(url) {
            Ok(_) => doubt(url)?.1,
            Err(why) if why.contains("did you mean") => why,
            Err(_) => hint(url)?,
        };
        let at =
            ["did you mean `", "write `"].into_iter().find_map(|mark| Some(hint.find(mark)? + mark.len()))?;
        hint[at..].split('`').next().map(str::to_owned)
    }

    #[test]
    fn what_other_programs_write_leads_to_a_pattern() {
        for (url, expected) in [
            ("~ ^/api/v[0-9]+", "/api"),
            ("~* ^/users/\\d+/orders$", "/users"),
            ("^/api/.*", "/api"),
            (r"^\/api\/v1$", "=/api/v1"),
            ("~ \\.php$", "/"),
            ("^~ /static", "/static"),
            ("*.css", "/"),
            ("/static/*.css", "/static"),
            ("/api*", "/api"),
            ("/api/v[0-9]+", "/api"),
            ("/posts/[id]", "/posts/{id}"),
            ("/posts/<int:id>", "/posts/{id:int}"),
            ("/posts/<path:id>", "/posts/{id}"),
            ("/users/:id/x", "/users/{id}/x"),
            ("/v1/{id}.json", "/v1"),
            ("/api/(a|b)/x", "/"),
            ("/api$", "=/api"),
            ("/api ", "/api"),
            ("/a b", "/"),
            ("/x/..;/y", "/x"),
            ("GET /api", "/api"),
            ("GET /api?x=1", "/api"),
            ("~ ^/apis?/x", "/"),
            ("example.com/api", "/api"),
            ("*.example.com/api", "/api"),
            ("https://a.example/b", "/b"),
            ("https://a.example/b?x=1", "/b"),
            ("https://a.example?x=1", "/"),
            ("robots.txt", "/robots.txt"),
            ("api", "/api"),
        ] {
            assert_eq!(hinted(url).as_deref(), Some(expected), "{url}");
        }
        for url in [
            "/",
            "/api",
            "=/a/b",
            "/$metadata",
            "/a(b)",
            "/a+b",
            "/caf%C3%A9",
            "/a;b",
            "/a%2Fb",
            "/...",
            "/wiki/C.++",
            r"/{name:[a-z^/]+\.css$}",
        ] {
            assert_eq!(doubt(url), None, "{url}");
        }
    }

    /// A path, and how other programs write the urls of such paths.
    fn spelt() -> impl Strategy<Value = (String, String)> {
        let segment = prop_oneof![
            "[a-z]{1,5}".prop_map(|word| (word.clone(), word)),
            (
                "[0-9]{1,4}",
                prop::sample::select(vec![
                    r"\d+", "[0-9]+", "[^/]+", ".+", "([0-9]*)", ":id", "<id>", "<uid:id>", "[id]"
                ])
            )
                .prop_map(|(word, text)| (word, text.to_owned())),
            ("[a-z]{1,3}", prop::sample::select(vec!["*.css", "*", "{x}.css"]))
                .prop_map(|(word, text)| (word + ".css", text.to_owned())),
            "[a-z]{1,3}".prop_map(|word| (format!("{word}.js"), format!(r"{word}\.js"))),
        ];
        let marks = [
            ("", ""),
            ("~ ^", ""),
            ("^", "$"),
            ("~* ", ""),
            ("GET ", ""),
            ("^~ ", ""),
            ("https://a.example", ""),
        ];
        (prop::collection::vec(segment, 1..4), prop::sample::select(marks.to_vec())).prop_map(
            |(segments, (before, after))| {
                let (path, text): (Vec<String>, Vec<String>) = segments.into_iter().unzip();
                (format!("/{}", path.join("/")), format!("{before}/{}{after}", text.join("/")))
            },
        )
    }

    proptest! {
        #[test]
        fn each_hint_is_valid_and_matches_what_was_meant((path, url) in spelt()) {
            if let Some(hint) = hinted(&url) {
                let pattern: Pattern = hint.parse().map_err(|why| TestCaseError::fail(format!("{url}: {why}")))?;
                let readings = Readings::of(path.as_bytes());
                let (values, parts) = (Values::default(), Parts::default());
                let request = Request::new(&values, &parts);
                let is_matched = readings.iter().any(|path| pattern.matches(path, &request));
                prop_assert!(is_matched, "{url}: {hint} for {path}");
                prop_assert_eq!(doubt(&hint), None, "{}", url);
            }
        }

        #[test]
        fn any_url_has_a_hint_that_is_valid(url in "[/=~^*.\\[\\](){}|a-z:; $\\\\<>+%0é-]{0,16}") {
            if let Some(hint) = hinted(&url) {
                prop_assert!(hint.parse::<Pattern>().is_ok() && doubt(&hint).is_none(), "{url}: {hint}");
            }
        }
    }
}
