//! The secrets of a file, which no excerpt and no message shows: values that the configuration
//! keeps secret, such as `secret` of a store, and what stands beside a word such as `password` in a
//! comment or in a text that cannot be read.

mod scan;

use crate::source::content::Content;
use crate::source::documents::{Body, Document};
use crate::source::nginx::Directive;
use crate::source::parts::{Form, Part};
use crate::source::value::{Entry, Kind, Value};
use diana_document::{nearest, quoted};
use std::collections::HashSet;
use std::ops::Range;

/// What replaces a secret in a message.
const HIDDEN: &str = "`…`";

/// The secrets of a file.
#[derive(Debug, Default)]
pub struct Secrets {
    /// The bytes of the file.
    ranges: Vec<Range<usize>>,
    /// The secrets as messages quote them, with the backticks.
    quoted: HashSet<String>,
}

/// What stands around a value.
#[derive(Clone, Copy, Default)]
struct Around<'a> {
    /// The key of the object that has the value.
    key: &'a str,
    /// The nearest definitions of actors.
    actors: Option<&'a Value>,
    /// Whether the value is in a list of clients, `allow` or `deny`.
    is_in_list: bool,
    /// Whether the value is in `store` or `remote`, at any depth.
    is_in_call: bool,
}

impl Secrets {
    /// The secrets of a text that is not read further.
    #[must_use]
    pub fn of_text(text: &str) -> Secrets {
        let mut ranges = scan::secrets(text, true);
        ranges.extend(scan::directives(text, false));
        Secrets { ranges, quoted: HashSet::new() }
    }

    /// The secrets of the file with this text, these parts and these documents.
    #[must_use]
    pub fn of(text: &str, parts: &[Part], documents: &[Document]) -> Secrets {
        let is_unread = |document: &Document| matches!(document.body, Body::Text(_, Err(_)));
        let is_broken =
            parts.iter().any(|part| matches!(part.form, Form::Wrong(_))) || documents.iter().any(is_unread);
        let mut secrets = Secrets { ranges: scan::secrets(text, is_broken), quoted: HashSet::new() };
        for part in parts {
            let mut walk = Walk { content: &part.content, secrets: &mut secrets };
            match &part.form {
                Form::Nginx(directives) => {
                    walk.nginx(directives);
                    walk.hide_directives(true);
                }
                Form::Wrong(_) => walk.hide_directives(false),
                _ => part.value().into_iter().for_each(|value| walk.visit(value, Around::default())),
            }
        }
        for document in documents {
            if let Body::Text(content, Ok(value)) = &document.body {
                Walk { content, secrets: &mut secrets }.visit(value, Around::default());
            }
        }
        secrets
    }

    /// The text of the file with `*` in place of each secret. Places stay true. `text` may have
    /// other characters than the file, but in the same bytes.
    #[must_use]
    pub fn masked(&self, text: String) -> String {
        if self.ranges.is_empty() {
            return text;
        }
        let mut ranges = self.ranges.clone();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let mut ranges = ranges.into_iter().peekable();
        let mut masked = String::with_capacity(text.len());
        // Indentation and line breaks stay.
        let mut is_indentation = true;
        for (at, c) in text.char_indices() {
            while ranges.next_if(|range| range.end <= at).is_some() {}
            let is_secret = ranges.peek().is_some_and(|range| range.start <= at);
            is_indentation = c == '\n' || is_indentation && c.is_whitespace();
            match is_secret && !is_indentation {
                true => masked.extend(std::iter::repeat_n('*', c.len_utf8())),
                false => masked.push(c),
            }
        }
        masked
    }

    /// A message without the secrets that it quotes. A secret may itself have backticks, so the
    /// longest text that is one ends at any backtick.
    #[must_use]
    pub fn redacted(&self, message: String) -> String {
        if self.quoted.is_empty() {
            return message;
        }
        let quotes = |text: &str| text.match_indices('`').map(|(at, _)| at).collect::<Vec<_>>();
        let (mut redacted, mut rest) = (String::with_capacity(message.len()), &*message);
        while let Some((before, quote)) = rest.find('`').and_then(|at| rest.split_at_checked(at)) {
            redacted.push_str(before);
            let ends = quotes(quote).into_iter().skip(1).rev();
            let secret = ends.filter_map(|end| quote.get(..=end)).find(|text| self.quoted.contains(*text));
            let (shown, length) = secret.map_or(("`", 1), |secret| (HIDDEN, secret.len()));
            redacted.push_str(shown);
            rest = quote.get(length..).unwrap_or_default();
        }
        redacted + rest
    }
}

struct Walk<'a> {
    content: &'a Content,
    secrets: &'a mut Secrets,
}

impl Walk<'_> {
    fn visit(&mut self, value: &Value, around: Around) {
        value.items().iter().for_each(|item| self.visit(item, around));
        let is_kubernetes_secret = value.get("kind").and_then(Value::text) == Some("Secret");
        let named = ["name", "key"].iter().find_map(|key| value.get(key)?.text());
        let names_secret = named.is_some_and(is_secret_of_request);
        let is_bytes =
            value.get("@type").and_then(Value::text).is_some_and(|name| name.ends_with("BytesValue"));
        let is_condition = matches!(around.key, "headers" | "query");
        // Keys may be misspelt. Distances of words are slow, and most values are no objects.
        let is_near = |names| !value.entries().is_empty() && nearest(around.key, names).is_some();
        let is_in_call = around.is_in_call || is_near(&["remote", "store"]);
        let is_call = is_in_call || is_near(&["redis"]);
        let actors = value.get("actors").or(around.actors);
        if value.get("overrides").is_some() && names(value, actors) {
            let overrides = value.get("overrides").map_or(&[][..], Value::entries);
            overrides.iter().for_each(|entry| self.hide(&entry.key_range, &entry.key));
        }
        if let Some(members) = value.get("members").filter(|_| names(value, actors)) {
            members.entries().iter().for_each(|entry| self.hide_all(&entry.value));
        }
        // All values of `tickets` are secrets.
        let (is_inspect, is_tickets) = (is_near(&["inspect"]), is_near(&["tickets"]));
        for entry in value.entries() {
            let Entry { key, value, .. } = entry;
            if is_inspect && nearest(key, &["tokens"]).is_some() {
                // The names are the user's.
                match value.entries() {
                    [] => self.hide_all(value),
                    entries => entries.iter().for_each(|entry| self.hide_all(&entry.value)),
                }
            }
            let is_hidden = match key.as_str() {
                // A definition names the header, the parameter or the cookie of an actor.
                "actors" => continue,
                "data" | "stringData" => is_kubernetes_secret,
                // Base64, which may hold anything.
                "inline_bytes" | "inlineBytes" => true,
                "value" if is_bytes => true,
                "value" | "exact" | "string_match" | "exact_match" | "prefix_match" => names_secret,
                key => {
                    let is_of_list = around.is_in_list && names_header(key, actors);
                    // Probably the key of tickets, written beside its place.
                    let is_key = key == "tickets" && value.entries().is_empty();
                    is_secret(key)
                        || is_key
                        || is_tickets
                        || is_condition && is_secret_of_request(key)
                        || is_of_list
                        || is_call && is_of_call(key)
                }
            };
            if is_hidden {
                self.hide_all(value);
            }
            let is_in_list = around.is_in_list || matches!(key.as_str(), "allow" | "deny");
            // A merge key of YAML brings entries to the object around it.
            let key = if key == "<<" { around.key } else { key };
            self.visit(value, Around { key, actors, is_in_list, is_in_call });
        }
    }

    fn nginx(&mut self, directives: &[Directive]) {
        let mut variables = HashSet::new();
        for directive in directives {
            for pair in directive.words.windows(2) {
                if let [name, value] = pair
                    && is_secret(name.text.trim_start_matches('$'))
                {
                    self.hide(&value.range, &value.text);
                    variables.extend(variables_in(&value.text));
                }
            }
        }
        for directive in directives {
            match &directive.words[..] {
                [key, value] if directive.block == "map" => {
                    let map = directive.parent.and_then(|map| directives.get(map));
                    let map = map.map(Directive::texts).unwrap_or_default();
                    let ["map", source, target] = map[..] else { continue };
                    let is_named = |variable: &str| variables_in(variable).any(is_secret_of_request);
                    if is_named(source) && !matches!(&*key.text, "default" | "include") {
                        self.hide(&key.range, &key.text);
                    }
                    if is_named(target) || variables_in(target).any(|name| variables.contains(name)) {
                        self.hide(&value.range, &value.text);
                    }
                }
                [set, variable, value]
                    if set.text == "set"
                        && variables_in(&variable.text).any(|name| variables.contains(name)) =>
                {
                    self.hide(&value.range, &value.text);
                }
                _ => {}
            }
        }
    }

    /// Hides what stands behind a word such as `Authorization` in directives that are not read.
    fn hide_directives(&mut self, only_comments: bool) {
        let ranges = scan::directives(&self.content.text, only_comments);
        self.secrets.ranges.extend(ranges.iter().map(|range| self.content.outer(range)));
    }

    /// Hides each scalar, but not the names of files and of what is defined elsewhere.
    fn hide_all(&mut self, value: &Value) {
        const NAMES: [&str; 9] = [
            "name",
            "@type",
            "filename",
            "path",
            "sds",
            "sds_config",
            "environment_variable",
            "header",
            "present",
        ];
        match &value.kind {
            Kind::Text(text) | Kind::Plain(text) | Kind::Number(text) => self.hide(&value.range, text),
            Kind::Null | Kind::Bool(_) => {}
            Kind::List(items) => items.iter().for_each(|item| self.hide_all(item)),
            Kind::Object(entries) => {
                let others = entries.iter().filter(|entry| !NAMES.contains(&entry.key.as_str()));
                others.for_each(|entry| self.hide_all(&entry.value));
            }
        }
    }

    fn hide(&mut self, range: &Range<usize>, text: &str) {
        let raw = self.content.text.get(range.clone()).unwrap_or_default();
        let is_quoted = raw.len() > 1 && raw.starts_with(['"', '\'']) && raw.ends_with(['"', '\'']);
        let inner = usize::from(is_quoted);
        let range = range.start.saturating_add(inner)..range.end.saturating_sub(inner).max(range.start);
        self.secrets.ranges.push(self.content.outer(&range));
        // An empty text hides nothing.
        if !text.is_empty() {
            self.secrets.quoted.insert(quoted(text));
        }
    }
}

/// The names of nginx's variables in a text: those of `$a` and `${b}`.
fn variables_in(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
    })
}

/// Whether a store or a document server keeps secret what is at `key`, or receives it with each
/// call. The key may be misspelt.
fn is_of_call(key: &str) -> bool {
    nearest(key, &["headers", "body", "secret", "password"]).is_some()
}

/// Whether the actor of a rule is a secret, such as an API key.
fn names(rule: &Value, actors: Option<&Value>) -> bool {
    let actor = rule.get("actor");
    let one = actor.into_iter().chain(actor.map_or(&[][..], Value::items));
    one.filter_map(Value::text).any(|name| names_header(name, actors))
}

/// Whether the value of an actor is a secret.
fn names_header(actor: &str, actors: Option<&Value>) -> bool {
    let source = actors.and_then(|actors| actors.get(actor)).map_or(&[][..], Value::entries);
    is_secret(actor) || source.iter().filter_map(|entry| entry.value.text()).any(is_secret_of_request)
}

/// Whether the value with this name is probably a secret: a key of a configuration, a header, a
/// parameter or a variable. `client_secret` is one, and `secret_name` is none.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    const NOUNS: [&str; 14] = [
        "secret",
        "secrets",
        "password",
        "passwords",
        "passwd",
        "passphrase",
        "token",
        "authorization",
        "auth",
        "credential",
        "credentials",
        "apikey",
        "cookie",
        "session",
    ];
    const OF_KEYS: [&str; 8] = ["api", "access", "private", "secret", "signing", "subscription", "auth", "x"];
    let words = words(name);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [.., before, "key" | "keys"] => OF_KEYS.contains(&before),
        // Both are actors' sources, and the kinds of their values.
        ["cookie" | "session"] => false,
        [.., last] => NOUNS.contains(&last) || last == "id" && words.iter().any(|word| word == "session"),
        [] => false,
    }
}

/// Whether a header, a parameter or a cookie of a request with this name is probably a secret. In a
/// configuration, `cookie` and `session` are also names of other things.
#[must_use]
pub fn is_secret_of_request(name: &str) -> bool {
    let is_session = |word: &String| word == "sid" || word.contains("sessid") || word.contains("sessionid");
    is_secret(name)
        || matches!(&*name.to_ascii_lowercase(), "cookie" | "session")
        || words(name).iter().any(is_session)
}

/// The words of a name, in lower case: `downstreamAuthPassword` → `downstream`, `auth`, `password`.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut was_lower) = (vec![String::new()], false);
    for c in name.chars().take(100) {
        if !c.is_alphanumeric() || c.is_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let (Some(word), true) = (words.last_mut(), c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_secret_is_hidden() {
        let quoted = ["ab", "ab`c", "`d"].map(quoted).into_iter().collect();
        let secrets = Secrets { ranges: Vec::new(), quoted };
        for (message, shown) in [
            ("`ab`c` and `ab` are no `x`", "`…` and `…` are no `x`"),
            ("`x`: ``d`, `ab", "`x`: `…`, `ab"),
            ("ab", "ab"),
        ] {
            assert_eq!(secrets.redacted(message.into()), shown);
        }
    }

    #[test]
    fn names_of_secrets_are_known() {
        for name in [
            "secret",
            "client_secret",
            "clientSecret",
            "REDIS_PASSWORD",
            "downstreamAuthPassword",
            "redis_auth",
            "Authorization",
            "proxy-authorization",
            "x-api-key",
            "apikey",
            "X-Auth-Token",
            "private_key",
            "session_id",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "secret_name",
            "token_bucket",
            "x-user-id",
            "x-plan",
            "total_tokens",
            "key",
            "sort_key",
            "cookie",
            "",
        ] {
            assert!(!is_secret(name), "{name}");
        }
        for name in ["cookie", "Session", "connect.sid", "JSESSIONID", "PHPSESSID", "x-api-key"] {
            assert!(is_secret_of_request(name), "{name}");
        }
        for name in ["x-plan", "inside", "sessions", ""] {
            assert!(!is_secret_of_request(name), "{name}");
        }
    }
}
