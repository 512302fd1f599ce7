//! A limit in one line: `100/minute per ip on POST /api`.

use diana_limiter::matcher::pattern::Pattern;
use diana_limiter::request::token::is_token;
use serde_json::{Value, json};
use std::str::FromStr;

/// A limit with one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSpec {
    /// The url pattern.
    pub url: String,
    /// The methods; all without any.
    pub methods: Vec<String>,
    /// The actors; all requests together without any.
    pub actors: Vec<Actor>,
    /// Requests per unit, or requests in flight.
    pub rpu: String,
    /// The unit; `None` for requests in flight.
    pub unit: Option<String>,
}

/// Whom a limit counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The actor's name.
    pub name: String,
    /// The source, for `actors` in the document; `None` for a predefined actor.
    pub source: Option<(String, String)>,
}

/// The expected form of a limit, for errors.
const FORM: &str = "expected a limit such as `100/minute per ip on /api`, `5/second per user on POST /orders`, \
    `1000/second`, `20/30s per header x-api-key`, or `8 in flight per user on /export`";

/// The actors that exist without a definition.
const PREDEFINED: [&str; 3] = ["ip", "user", "device"];
/// The sources that an actor may have.
const SOURCES: [&str; 4] = ["header", "cookie", "query", "jwt"];

impl FromStr for LimitSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<LimitSpec, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = |word: &str| words.iter().position(|known| *known == word);
        let on = at("on").unwrap_or(words.len());
        let per = at("per").filter(|per| *per < on).unwrap_or(on);
        let part = |from: usize, to: usize| words.get(from..to).unwrap_or_default();
        let (rpu, unit) = match part(0, per) {
            [quota] => quota.split_once('/').map(|(rpu, unit)| (rpu, Some(unit.to_owned()))).ok_or(FORM)?,
            [rpu, "/", unit] => (*rpu, Some((*unit).to_owned())),
            [rpu, "in", "flight"] => (*rpu, None),
            _ => return Err(FORM.into()),
        };
        let actors = if per < on { actors(part(per.saturating_add(1), on))? } else { Vec::new() };
        let (methods, url) = match part(on.saturating_add(1), words.len()) {
            [] if on == words.len() => (Vec::new(), "/"),
            [methods @ .., url] => (methods.to_vec(), *url),
            [] => return Err(FORM.into()),
        };
        LimitSpec::new(rpu, unit, actors, &methods, url)
    }
}

impl LimitSpec {
    /// A limit of these parts. The error says what is allowed.
    pub fn new(
        rpu: &str,
        unit: Option<String>,
        actors: Vec<Actor>,
        methods: &[&str],
        url: &str,
    ) -> Result<LimitSpec, String> {
        if rpu.is_empty() || !rpu.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(format!("`{}` is not a number of requests, {FORM}", rpu.escape_debug()));
        }
        url.parse::<Pattern>()?;
        if let Some(method) = methods.iter().find(|method| !is_token(method.as_bytes())) {
            return Err(format!("`{}` is not a method, {FORM}", method.escape_debug()));
        }
        let methods = methods.iter().map(|method| method.to_ascii_uppercase()).collect();
        Ok(LimitSpec { url: url.into(), methods, actors, rpu: rpu.into(), unit })
    }

    /// The quota for the document: a number, or text such as `10k`.
    pub fn quota(&self) -> Value {
        self.rpu.parse::<u64>().map_or_else(|_| json!(self.rpu), |rpu| json!(rpu))
    }

    /// The rule's name: url and actors. `[a-z0-9_-]`, at most 60 characters.
    pub fn stem(&self) -> String {
        let actors: Vec<&str> = self.actors.iter().map(|actor| actor.name.as_str()).collect();
        let actors = if actors.is_empty() { "total".to_owned() } else { actors.join("-") };
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let words: String = format!("{} {}", self.methods.join(" "), self.url).chars().map(plain).collect();
        let words: Vec<&str> =
            words.split('-').filter(|word| !word.is_empty()).chain([actors.as_str()]).collect();
        words.join("-").chars().take(60).collect()
    }
}

/// The actors after `per`: `ip`, `header x-api-key`, or several with `and`.
pub fn actors(words: &[&str]) -> Result<Vec<Actor>, String> {
    let one = |words: &[&str]| match words {
        ["all" | "everyone"] => Ok(None),
        ["account"] => Ok(Some(Actor { name: "user".into(), source: None })),
        [name] if PREDEFINED.contains(name) => Ok(Some(Actor { name: (*name).into(), source: None })),
        [source, value] if SOURCES.contains(source) => {
            let plain =
                |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
            let name: String = value.chars().map(plain).take(60).collect();
            // A definition must not replace an actor that exists.
            let is_taken = PREDEFINED.contains(&name.as_str()) || matches!(name.as_str(), "all" | "account");
            let name = if is_taken { format!("{source}-{name}") } else { name };
            Ok(Some(Actor { name, source: Some(((*source).into(), (*value).into())) }))
        }
        other => Err(format!(
            "unknown actor `{}`, expected ip, user, device, all, `header NAME`, `cookie NAME`, `query NAME` or `jwt CLAIM`",
            other.join(" ").escape_debug()
        )),
    };
    let found: Vec<Option<Actor>> = words.split(|word| *word == "and").map(one).collect::<Result<_, _>>()?;
    Ok(found.into_iter().flatten().collect())
}
