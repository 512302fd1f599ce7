//! A limit in one line: `100/minute per ip on POST /api; gold 1000/minute; penalty 10m after 5`.

use diana_config::keys::{self, Shape};
use diana_limiter::request::syntax::is_token;
use serde_json::{Map, Value, json};
use std::str::FromStr;

/// A limit with one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The plans, each with its requests per unit; `None` if it is unlimited.
    pub plans: Vec<(String, Option<[String; 2]>)>,
    /// The length of a penalty, and the refusals after which it begins.
    pub penalty: Option<[String; 2]>,
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

/// The expected form of what follows a limit.
const CLAUSE: &str = "expected a plan such as `gold 1000/minute` or `internal unlimited`, or a penalty such as \
    `penalty 10m after 5`";

impl FromStr for LimitSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<LimitSpec, String> {
        let mut clauses = text.split("; ");
        let mut spec = LimitSpec::plain(clauses.next().unwrap_or_default())?;
        clauses.try_for_each(|clause| spec.add(clause))?;
        spec.compile()?;
        Ok(spec)
    }
}

impl LimitSpec {
    /// Adds a plan or a penalty.
    pub fn add(&mut self, clause: &str) -> Result<(), String> {
        let words: Vec<&str> = clause.split_whitespace().collect();
        if let Some(name) = words.first().filter(|name| self.plans.iter().any(|(known, _)| known == *name)) {
            return Err(format!("the plan `{}` is given twice", name.escape_debug()));
        }
        match words.as_slice() {
            ["penalty", span, "after", refusals] => {
                self.penalty = Some([*span, *refusals].map(Into::into));
            }
            [name, "unlimited"] => self.plans.push(((*name).into(), None)),
            [name, quota @ ..] => {
                let quota = match quota {
                    [quota] => quota.split_once('/'),
                    [rpu, "/" | "per", unit] => Some((*rpu, *unit)),
                    _ => None,
                };
                let (rpu, unit) = quota.ok_or_else(|| format!("`{}`: {CLAUSE}", clause.escape_debug()))?;
                self.plans.push(((*name).into(), Some([rpu, unit].map(Into::into))));
            }
            [] => {}
        }
        Ok(())
    }

    fn plain(text: &str) -> Result<LimitSpec, String> {
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
        let (rpu, url) = (rpu.into(), url.into());
        let spec = LimitSpec { url, methods, actors, rpu, unit, ..LimitSpec::default() };
        spec.compile()?;
        Ok(spec)
    }

    /// Compiles a document with this limit alone. The error has no place in this document, which
    /// the user does not see.
    pub fn compile(&self) -> Result<(), String> {
        let mut document = json!({"limits": [self.limit(vec![self.rule(&self.stem()).into()])]});
        let actors: Map<String, Value> = self.definitions().collect();
        if let (Value::Object(entries), false) = (&mut document, actors.is_empty()) {
            entries.insert("actors".into(), actors.into());
        }
        if let (Value::Object(entries), false) = (&mut document, self.plans.is_empty()) {
            entries.insert("plan".into(), json!({"header": "x-plan"}));
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
        let mut rule =
            Map::from_iter([("name".to_owned(), json!(name)), ("rpu".to_owned(), number(&self.rpu))]);
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
        let plan = |(name, quota): &(String, Option<[String; 2]>)| {
            let quota = match quota {
                None => json!("unlimited"),
                // The unit of the rule holds for its plans.
                Some([rpu, unit]) if Some(unit) == self.unit.as_ref() => json!({"rpu": number(rpu)}),
                Some([rpu, unit]) => json!({"rpu": number(rpu), "unit": unit}),
            };
            (name.clone(), quota)
        };
        if !self.plans.is_empty() {
            rule.insert("plans".into(), self.plans.iter().map(plan).collect::<Map<String, Value>>().into());
        }
        if let Some([span, refusals]) = &self.penalty {
            rule.insert("penalty".into(), json!({"after": number(refusals), "for": span}));
        }
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

/// A number, or text such as `10k`.
fn number(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// The source of an actor or of a plan, such as `header x-plan`.
pub fn source(text: &str) -> Result<(String, String), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [source, value] if is_source(source) => Ok(((*source).into(), (*value).into())),
        _ => Err("expected `header NAME`, `query NAME`, `cookie NAME` or `jwt CLAIM`".into()),
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
