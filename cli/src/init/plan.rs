//! What to write: the kind of file, the limits, the gateway around them, and the document in JSON.

use super::args::Args;
use super::endpoint::Endpoint;
use super::limit::{self, LimitSpec};
use super::release;
use super::target::{Kind, Redis, Remote};
use diana_config::Configuration;
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
    /// The address of Envoy's admin interface.
    pub admin: Endpoint,
    /// The store of all rules.
    pub store: Option<Redis>,
    /// The gateways that share the store.
    pub replicas: u64,
    /// The secret of the store.
    secret: String,
    /// The proxies in front of the gateway.
    pub proxies: u8,
    /// Whether no rule refuses.
    pub is_shadow: bool,
    /// The filter's file.
    pub filter: String,
    /// Whether the filter's file is to be put in its place.
    is_filter_missing: bool,
    /// The folder with `libdiana.so`, if it is known.
    pub modules: Option<String>,
    /// The server of a document that changes the limits.
    pub remote: Option<Remote>,
    /// Where a request shows its plan.
    plan: (String, String),
    /// The addresses without limits.
    exempt: Vec<String>,
    /// Whether the document is written in JSON, not in YAML.
    pub is_json: bool,
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
            specs.push(spec.map_err(|why| miette!("--rpu, --unit, --per, --url: {why}"))?);
        }
        let kind = if args.document { Kind::Document } else { args.kind.unwrap_or(Kind::Envoy) };
        fits(args, kind)?;
        let plan = args.plan.as_deref().unwrap_or("header x-plan");
        let plan = limit::source(plan).map_err(|why| miette!("--plan: {why}"))?;
        if args.plan.is_some() && specs.iter().all(|spec| spec.plans.is_empty()) {
            bail!(
                "--plan: no limit has plans: write, for example, `--limit '100/minute per user; gold 1000/minute'`"
            );
        }
        let (name, place) = match kind {
            Kind::Nginx => (release::NGINX_FILTER, "/etc/nginx/diana-nginx.wasm"),
            _ => (release::FILTER, release::FILTER),
        };
        let found = release::folder_of(name).map(|folder| folder.join(name));
        // nginx takes a relative path from its own folder.
        let found = found
            .map(|file| if kind == Kind::Nginx { std::path::absolute(&file).unwrap_or(file) } else { file });
        let is_filter_missing = args.filter.is_none() && found.is_none();
        let found = found.map_or_else(|| place.into(), |file| file.display().to_string());
        let filter = args.filter.clone().unwrap_or(found);
        let upstream = Endpoint { host: "127.0.0.1".into(), port: 8080 };
        Ok(Plan {
            kind,
            limits: named(specs),
            upstream: args.upstream.clone().unwrap_or(upstream),
            listen: args.listen.clone().unwrap_or(Endpoint { host: "127.0.0.1".into(), port: 10_000 }),
            admin: args.admin.clone().unwrap_or(Endpoint { host: "127.0.0.1".into(), port: 9901 }),
            store: args.store.clone(),
            replicas: replicas(args)?,
            secret: secret()?,
            proxies: args.proxies,
            is_shadow: args.shadow,
            filter,
            is_filter_missing,
            modules: release::folder_of(release::MODULE).map(|folder| match folder.display().to_string() {
                here if here.is_empty() => ".".into(),
                folder => folder,
            }),
            remote: args.remote.clone(),
            plan,
            exempt: args.exempt.clone(),
            is_json: kind == Kind::Document && has_extension(args, &["json"]),
        })
    }

    /// Compiles the document.
    pub fn compile(&self) -> Result<Configuration> {
        diana_config::compile(self.document().to_string().as_bytes()).map_err(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            miette!("these limits do not make a valid document:\n{}", lines.join("\n"))
        })
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
        let actors: Map<String, Value> =
            self.limits.iter().flat_map(|limit| limit.spec.definitions()).collect();
        let mut set = |key: &str, value: Value| {
            if let Value::Object(entries) = &mut document {
                entries.insert(key.into(), value);
            }
        };
        if !actors.is_empty() {
            set("actors", actors.into());
        }
        if self.limits.iter().any(|limit| !limit.spec.plans.is_empty()) {
            let (source, name) = &self.plan;
            set("plan", json!({source: name}));
        }
        if !self.exempt.is_empty() {
            set("allow", json!(self.exempt));
        }
        if let Some(remote) = &self.remote {
            set("remote", json!({"cluster": "documents", "path": remote.path}));
        }
        if self.trusted_hops() > 0 {
            set("ip", json!({"trusted_hops": self.trusted_hops()}));
        }
        if self.store.is_some() {
            let redis = json!({"cluster": "redis", "replicas": self.replicas, "secret": self.secret});
            set("store", json!({"redis": redis}));
        }
        if self.is_shadow {
            set("mode", json!("shadow"));
        }
        if self.kind == Kind::Nginx {
            set("local", json!({"max_actors": 20_000}));
        }
        document
    }

    /// Whether Envoy loads `libdiana.so`: as the filter, or for its calls to Redis.
    pub fn needs_module(&self) -> bool {
        self.kind == Kind::EnvoyNative || self.store.is_some()
    }

    /// The name of the filter's file, if the file is to be put in its place.
    pub fn missing_filter(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Envoy if self.is_filter_missing => Some(release::FILTER),
            Kind::Nginx if self.is_filter_missing => Some(release::NGINX_FILTER),
            _ => None,
        }
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
        limits.into_iter().map(|(spec, rules)| spec.limit(rules)).collect()
    }

    fn rule(&self, name: &str, spec: &LimitSpec) -> Value {
        let mut rule = spec.rule(name);
        if self.store.is_some() {
            rule.insert("scope".into(), json!("global"));
        }
        rule.into()
    }
}

/// The number of gateways that share the store. A wrong number would divide each quota wrongly
/// while the store is down, so there is no default.
fn replicas(args: &Args) -> Result<u64> {
    match (&args.store, args.replicas) {
        (Some(_), Some(replicas)) => Ok(replicas),
        (Some(_), None) => bail!(
            "--replicas is missing: `--store` needs the number of gateways that count together, by which each quota is \
             divided while the store is down"
        ),
        (None, Some(_)) => {
            bail!("--replicas: without `--store`, each gateway counts alone: leave the option out")
        }
        (None, None) => Ok(1),
    }
}

/// Refuses arguments that this kind of file has no place for.
fn fits(args: &Args, kind: Kind) -> Result<()> {
    if args.store.is_some() && kind == Kind::Nginx {
        bail!(
            "--store: the filter in nginx supports no store, so each nginx counts alone: leave the option out"
        );
    }
    if args.remote.is_some() && kind == Kind::Nginx {
        bail!("--remote: the filter in nginx has no timer that polls a server: leave the option out");
    }
    if args.admin.is_some() && kind == Kind::Nginx {
        bail!("--admin: nginx has no admin interface: leave the option out");
    }
    if kind == Kind::Document {
        for (option, is_given) in [
            ("--upstream", args.upstream.is_some()),
            ("--listen", args.listen.is_some()),
            ("--admin", args.admin.is_some()),
            ("--remote", args.remote.is_some()),
        ] {
            if is_given {
                bail!(
                    "{option}: a document alone names no address: leave the option out, or write another `--kind`"
                );
            }
        }
    }
    if let Some(filter) = &args.filter {
        if matches!(kind, Kind::Document | Kind::EnvoyNative) {
            bail!(
                "--filter: only files of the kinds `envoy` and `nginx` name the filter's file: leave the option out"
            );
        }
        if filter.is_empty() || filter.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
            bail!("--filter: expected a path without control characters, quotes and backslashes");
        }
    }
    // A reader that goes by the name would read the file in another format.
    let (wrong, format, right): (&[&str], _, _) = match kind {
        Kind::Envoy | Kind::EnvoyNative => (&["json", "conf"], "YAML", ".yaml"),
        Kind::Nginx => (&["json", "yaml", "yml"], "nginx's own format", ".conf"),
        Kind::Document => (&["conf"], "YAML or JSON", ".yaml` or `.json"),
    };
    if let (true, Some(file)) = (has_extension(args, wrong), &args.file) {
        bail!(
            "--output: a file of this kind is written in {format}: expected a name that ends in `{right}`, found `{}`",
            file.display()
        );
    }
    Ok(())
}

/// Whether the name of the output ends in one of these extensions.
fn has_extension(args: &Args, extensions: &[&str]) -> bool {
    let extension = args.file.as_ref().and_then(|file| file.extension());
    extension.is_some_and(|extension| extensions.iter().any(|known| extension.eq_ignore_ascii_case(known)))
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
    getrandom::fill(&mut bytes).map_err(|error| miette!("the system provides no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
