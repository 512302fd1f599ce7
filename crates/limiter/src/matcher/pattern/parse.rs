//! Reads the text of a pattern.

use super::{Pattern, Segment, allowed_name, is_name};
use crate::request::path;
use diana_document::quoted;
use std::str::FromStr;

/// The most segments that a pattern may have: matching recurses once per segment.
const MAX_SEGMENTS: usize = 64;

impl FromStr for Pattern {
    /// The mistake, and what is allowed.
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let (exact, path) = match text.strip_prefix('=') {
            Some(path) => (true, path),
            None => (false, text),
        };
        let Some(rest) = path.strip_prefix('/') else {
            return Err(no_leading_slash(text, path));
        };
        if let Some((path, _)) = text.split_once(['?', '#']) {
            return Err(format!(
                "the query is not part of a pattern, leave it out: {} instead of {}",
                quoted(path),
                quoted(text)
            ));
        }
        let rest = match rest.trim_end_matches('/') {
            "**" => Some(""),
            rest => rest.strip_suffix("/**"),
        }
        .map_or(Ok(rest), |above| if exact { Err(exact_and_below(text)) } else { Ok(above) })?;
        let mut pattern = Pattern { segments: Vec::new(), exact, names: Vec::new() };
        for word in rest.split('/') {
            if let Some(name) = name(word)? {
                if pattern.place(name).is_some() {
                    return Err(format!("{} is in the pattern already, names are unique", quoted(word)));
                }
                pattern.names.push((name.into(), pattern.segments.len()));
                pattern.segments.push(Segment::Any);
            } else {
                pattern.segments.extend(segment(word)?);
            }
            if pattern.segments.len() > MAX_SEGMENTS {
                return Err(format!("a pattern has at most {MAX_SEGMENTS} segments"));
            }
        }
        Ok(pattern)
    }
}

/// The name in `{name}`. A brace elsewhere is refused: a limit on a path with the character would
/// match nothing that its author expects.
fn name(word: &str) -> Result<Option<&str>, String> {
    if !word.contains(['{', '}']) {
        return Ok(None);
    }
    let Some(name) = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return Err(format!(
            "`{{name}}` stands for a whole segment, not for a part of {}; write `%7B` and `%7D` for the characters",
            quoted(word)
        ));
    };
    match is_name(name) {
        true => Ok(Some(name)),
        false => Err(format!(
            "{} does not name a segment, expected {} between the braces",
            quoted(word),
            allowed_name()
        )),
    }
}

/// One segment of a pattern without a name; `Ok(None)` for an empty segment and `.`, which are
/// dropped.
fn segment(word: &str) -> Result<Option<Segment>, String> {
    match word {
        "*" => return Ok(Some(Segment::Any)),
        "**" => return Err("`**` is allowed as the last segment only, `*` stands for one segment".into()),
        _ if word.starts_with(':') && word.len() > 1 => {
            return Err(format!(
                "{} names a segment in other routers: write `{{name}}` or `*` for any one segment, `%3A` for the character",
                quoted(word)
            ));
        }
        _ if word.contains('*') => {
            return Err(format!(
                "`*` stands for a whole segment, not for a part of {}; write `%2A` for the character",
                quoted(word)
            ));
        }
        _ => {}
    }
    match path::segment(word.as_bytes()) {
        Some(bytes) => Ok(Some(Segment::Literal(bytes.into()))),
        None if path::is_parent(word.as_bytes()) => {
            Err(format!("{} is not allowed in a pattern, write the path it leads to", quoted(word)))
        }
        None => Ok(None),
    }
}

fn no_leading_slash(text: &str, path: &str) -> String {
    if path.is_empty() || path == "*" || path == "**" {
        return format!(
            "a pattern begins with `/` or `=/`, found {}; `/` matches every request",
            quoted(text)
        );
    }
    if let Some((_, rest)) = path.split_once("://") {
        let (host, path) = rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or((rest, ""));
        let path = if path.is_empty() { "/" } else { path };
        return format!(
            "a pattern is a path, not a full url: write {} here and {} in `hosts`",
            quoted(path),
            quoted(host)
        );
    }
    let equals = if text == path { "" } else { "=" };
    let path = path.trim_start();
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!(
        "a pattern begins with `/` or `=/`, found {}, did you mean {}?",
        quoted(text),
        quoted(&format!("{equals}{slash}{path}"))
    )
}

fn exact_and_below(text: &str) -> String {
    format!(
        "`=` asks for the path alone and `/**` for all below it, leave out one of them in {}",
        quoted(text)
    )
}
