//! A limit in one line: `100/minute per ip on POST /api`.

use diana_config::keys::{self, Shape};
use diana_limiter::request::syntax::is_token;
use serde_json::{Map, Value, json};
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

/// The actor that a limit counts.
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

impl FromStr for LimitSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<LimitSpec, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (rpu, unit, rest) = match words.as_slice() {
            [rpu, "in", "flight", rest @ ..] => (*rpu, None, rest),
            [rpu, "/", unit, rest @ ..] => (*rpu, Some(*unit), rest),
            [rpu, "per", unit, rest @ ..] if is_unit(unit) => (*rpu, Some(*unit), rest),
            [quota, rest @ ..] => {
                quota.split_once('/').map(|(rpu, unit)| (rpu, Some(unit), rest)).ok_or(FORM)?
            }
            [] => return Err(FORM.into()),
        };
        let on = rest.iter().position(|word| *word == "on").unwrap_or(rest.len());
        let (whom, place) = rest.split_at_checked(on).unwrap_or((rest, &[]));
        let actors = match whom {
            [] => Vec::new(),
            ["per" | "by", words @ ..] => actors(words)?,
            _ => return Err(FORM.into()),
        };
        let (methods, url) = match place {
            [] => (Vec::new(), "/"),
            ["on", methods @ .., url] => (methods.iter().flat_map(|word| word.split(',')).collect(), *url),
            _ => return Err(FORM.into()),
        };
        let methods: Vec<&str> = methods.into_iter().filter(|method| !method.is_empty()).collect();
        LimitSpec::new(rpu, unit.map(str::to_owned), actors, &methods, url)
    }
}

/// Whether an actor may have this source, whose value is text.
fn is_source(word: &str) -> bool {
    keys::of_actor().any(|key| key.name == word && matches!(key.shape, Shape::Text))
}

/// Whether `100 per WORD` states a unit, not an actor.
fn is_unit(word: &str) -> bool {
    matches!(word, "second" | "minute" | "hour" | "day")
        || word.starts_with(|first: char| first.is_ascii_digit())
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
        diana_config::pattern(url)?;
        if let Some(method) = methods.iter().find(|method| !is_token(method.as_bytes())) {
            return Err(format!("`{}` is not a method, {FORM}", method.escape_debug()));
        }
        let methods = methods.iter().map(|method| method.to_ascii_uppercase()).collect();
        let spec = LimitSpec { url: url.into(), methods, actors, rpu: rpu.into(), unit };
        spec.compile()?;
        Ok(spec)
    }

    /// Compiles a document with this limit alone. The error has no place in this document, which
    /// the user does not see.
    fn compile(&self) -> Result<(), String> {
        let mut document = json!({"limits": [self.limit(vec![self.rule(&self.stem()).into()])]});
        let actors: Map<String, Value> = self.definitions().collect();
        if let (Value::Object(entries), false) = (&mut document, actors.is_empty()) {
            entries.insert("actors".into(), actors.into());
        }
        let mistakes = diana_config::compile(document.to_string().as_bytes()).err().unwrap_or_default();
        let why: Vec<String> = mistakes.into_iter().map(|mistake| mistake.why).collect();
        if why.is_empty() { Ok(()) } else { Err(why.join("; ")) }
    }

    /// The limit with these rules, for the document.
    pub fn limit(&self, rules: Vec<Value>) -> Value {
        match self.methods.as_slice() {
            [] => json!({"url": self.url, "rules": rules}),
            methods => json!({"url": self.url, "methods": methods, "rules": rules}),
        }
    }

    /// The rule with this name, for the document.
    pub fn rule(&self, name: &str) -> Map<String, Value> {
        // A number, or text such as `10k`.
        let rpu = self.rpu.parse::<u64>().map_or_else(|_| json!(self.rpu), |rpu| json!(rpu));
        let mut rule = Map::from_iter([("name".to_owned(), json!(name)), ("rpu".to_owned(), rpu)]);
        let names: Vec<&str> = self.actors.iter().map(|actor| actor.name.as_str()).collect();
        let actor = match names.as_slice() {
            [] => None,
            [only] => Some(json!(only)),
            all => Some(json!(all)),
        };
        rule.extend(actor.map(|actor| ("actor".to_owned(), actor)));
        rule.insert(
            if self.unit.is_some() { "unit" } else { "algo" }.into(),
            json!(self.unit.as_deref().unwrap_or("C")),
        );
        rule
    }

    /// The definitions of the actors that do not exist anyway, for `actors` of the document.
    pub fn definitions(&self) -> impl Iterator<Item = (String, Value)> {
        self.actors.iter().filter_map(|actor| {
            let (source, value) = actor.source.as_ref()?;
            Some((actor.name.clone(), json!({ source: value })))
        })
    }

    /// The limit as the user may write it.
    pub fn line(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{}/{unit}", self.rpu),
            None => format!("{} in flight", self.rpu),
        }
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
        [source, value] if is_source(source) => {
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
