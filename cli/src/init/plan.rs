//! What to write: the kind of file, the limits, the gateway around them, and the document in JSON.

use super::args::Args;
use super::endpoint::Endpoint;
use super::limit::{self, LimitSpec};
use super::target::{Kind, Store};
use miette::{Result, bail, miette};
use serde_json::{Map, Value, json};

/// What to write.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kind of file.
    pub kind: Kind,
    /// The limits, each with a name for its rule.
    pub limits: Vec<Named>,
    /// The address of the upstream.
    pub upstream: Endpoint,
    /// The address of the gateway.
    pub listen: Endpoint,
    /// The store of all rules.
    pub store: Option<Store>,
    /// The secret of the store.
    secret: String,
    /// The proxies in front of the gateway.
    pub proxies: u8,
    /// Whether no rule refuses.
    pub is_shadow: bool,
    /// The filter's file.
    pub filter: String,
}

/// A limit with the name of its rule.
#[derive(Clone, Debug)]
pub struct Named {
    /// The unique name.
    pub name: String,
    /// The limit.
    pub spec: LimitSpec,
}

impl Plan {
    /// Reads the arguments. The error names the argument, and what is allowed.
    pub fn of(args: &Args) -> Result<Plan> {
        let mut specs = args.limits.clone();
        if let Some(rpu) = &args.rpu {
            let unit = args.unit.clone().ok_or_else(|| {
                miette!("--unit is missing: expected second, minute, hour, day or a span such as `30s`")
            })?;
            let words: Vec<&str> = args.per.as_deref().unwrap_or("all").split_whitespace().collect();
            let actors = limit::actors(&words).map_err(|why| miette!("--per: {why}"))?;
            let url = args.url.as_deref().unwrap_or("/");
            let spec = LimitSpec::new(rpu, Some(unit), actors, &[], url);
            specs.push(spec.map_err(|why| miette!("--rpu, --url: {why}"))?);
        }
        let kind = args.kind.unwrap_or(Kind::Envoy);
        if args.store.is_some() && kind == Kind::Nginx {
            bail!("--store: the filter in nginx asks no store, leave it out: each nginx counts by itself");
        }
        let filter = args.filter.clone().unwrap_or_else(|| match kind {
            Kind::Nginx => "/etc/nginx/diana-nginx.wasm".into(),
            _ => "diana.wasm".into(),
        });
        if filter.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
            bail!("--filter: expected a path without control characters, quotes and backslashes");
        }
        let upstream = Endpoint { host: "127.0.0.1".into(), port: 8080 };
        Ok(Plan {
            kind,
            limits: named(specs),
            upstream: args.upstream.clone().unwrap_or(upstream),
            listen: args.listen.clone(),
            store: args.store.clone(),
            secret: secret()?,
            proxies: args.proxies,
            is_shadow: args.shadow,
            filter,
        })
    }

    /// Compiles the document. The warnings are settings that are probably mistakes.
    pub fn warnings(&self) -> Result<Vec<String>> {
        match diana_config::compile(self.document().to_string().as_bytes()) {
            Ok(configuration) => Ok(configuration.warnings.iter().map(ToString::to_string).collect()),
            Err(mistakes) => {
                let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
                Err(miette!("these limits do not make a valid document:\n{}", lines.join("\n")))
            }
        }
    }

    /// The number of `trusted_hops`: Envoy adds the peer to `x-forwarded-for`, nginx does not.
    pub fn trusted_hops(&self) -> u8 {
        match (self.proxies, self.kind) {
            (0, _) => 0,
            (proxies, Kind::Nginx) => proxies,
            (proxies, _) => proxies.saturating_add(1),
        }
    }

    /// The document, as JSON.
    pub fn document(&self) -> Value {
        let mut document = json!({"limits": self.limits()});
        let mut actors = Map::new();
        for actor in self.limits.iter().flat_map(|limit| &limit.spec.actors) {
            if let Some((source, value)) = &actor.source {
                actors.insert(actor.name.clone(), json!({source: value}));
            }
        }
        let mut set = |key: &str, value: Value| {
            if let Value::Object(entries) = &mut document {
                entries.insert(key.into(), value);
            }
        };
        if !actors.is_empty() {
            set("actors", actors.into());
        }
        if self.trusted_hops() > 0 {
            set("ip", json!({"trusted_hops": self.trusted_hops()}));
        }
        match &self.store {
            Some(store @ Store::Redis(_)) => {
                set("store", json!({"redis": {"cluster": store.cluster(), "secret": self.secret}}));
            }
            Some(store @ Store::Rls(_)) => {
                set("store", json!({"rls": {"cluster": store.cluster(), "secret": self.secret}}));
            }
            None => {}
        }
        if self.is_shadow {
            set("mode", json!("shadow"));
        }
        if self.kind == Kind::Nginx {
            set("local", json!({"max_actors": 20_000}));
        }
        document
    }

    /// The limits; those of one url and the same methods are one limit.
    fn limits(&self) -> Vec<Value> {
        let mut limits: Vec<(&LimitSpec, Vec<Value>)> = Vec::new();
        for Named { name, spec } in &self.limits {
            let rule = self.rule(name, spec);
            match limits
                .iter_mut()
                .find(|(first, _)| (&first.url, &first.methods) == (&spec.url, &spec.methods))
            {
                Some((_, rules)) => rules.push(rule),
                None => limits.push((spec, vec![rule])),
            }
        }
        let limit = |(spec, rules): (&LimitSpec, Vec<Value>)| match spec.methods.as_slice() {
            [] => json!({"url": spec.url, "rules": rules}),
            methods => json!({"url": spec.url, "methods": methods, "rules": rules}),
        };
        limits.into_iter().map(limit).collect()
    }

    fn rule(&self, name: &str, spec: &LimitSpec) -> Value {
        let mut rule = json!({"name": name, "rpu": spec.quota()});
        let names: Vec<&str> = spec.actors.iter().map(|actor| actor.name.as_str()).collect();
        let entries = [
            match names.as_slice() {
                [] => None,
                [only] => Some(("actor", json!(only))),
                all => Some(("actor", json!(all))),
            },
            match (&spec.unit, &self.store) {
                (None, _) => Some(("algo", json!("C"))),
                // A rate limit service counts in windows.
                (_, Some(Store::Rls(_))) => Some(("algo", json!("W"))),
                _ => None,
            },
            spec.unit.as_ref().map(|unit| ("unit", json!(unit))),
            self.store.as_ref().map(|_| ("scope", json!("global"))),
        ];
        for (key, value) in entries.into_iter().flatten() {
            if let Value::Object(entries) = &mut rule {
                entries.insert(key.into(), value);
            }
        }
        rule
    }
}

/// The limits with unique names.
fn named(specs: Vec<LimitSpec>) -> Vec<Named> {
    let mut named: Vec<Named> = Vec::new();
    for spec in specs {
        let stem = spec.stem();
        let numbered = (2u32..).map(|number| format!("{stem}-{number}"));
        let is_free = |name: &String| named.iter().all(|other| other.name != *name);
        let name = std::iter::once(stem.clone()).chain(numbered).find(is_free).unwrap_or_default();
        named.push(Named { name, spec });
    }
    named
}

/// A random secret, in hexadecimal.
fn secret() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| miette!("the system has no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
