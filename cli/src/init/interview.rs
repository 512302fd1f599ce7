//! The interview: a few questions in a terminal, each with a default.

use super::args::Args;
use super::endpoint::Endpoint;
use super::limit::{LimitSpec, source};
use super::target::Kind;
use dialoguer::{Confirm, Input, Select};
use miette::{IntoDiagnostic, Result};
use std::path::Path;
use std::str::FromStr;

/// Asks questions: a terminal, or a test.
pub trait Questions {
    /// One of these answers, by its index.
    fn select(&mut self, question: &str, answers: &[&str]) -> Result<usize>;
    /// Text that `check` accepts. An empty answer is the default.
    fn text(
        &mut self,
        question: &str,
        default: &str,
        check: &dyn Fn(&str) -> Result<(), String>,
    ) -> Result<String>;
    /// Yes or no.
    fn confirm(&mut self, question: &str, default: bool) -> Result<bool>;
}

/// The user's terminal.
pub struct Terminal;

impl Questions for Terminal {
    fn select(&mut self, question: &str, answers: &[&str]) -> Result<usize> {
        Select::new().with_prompt(question).items(answers).default(0).interact().into_diagnostic()
    }

    fn text(
        &mut self,
        question: &str,
        default: &str,
        check: &dyn Fn(&str) -> Result<(), String>,
    ) -> Result<String> {
        let input = Input::<String>::new().with_prompt(question).default(default.into());
        let input = input.show_default(!default.is_empty()).allow_empty(true);
        input.validate_with(|text: &String| check(text)).interact_text().into_diagnostic()
    }

    fn confirm(&mut self, question: &str, default: bool) -> Result<bool> {
        Confirm::new().with_prompt(question).default(default).interact().into_diagnostic()
    }
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Envoy, "envoy.yaml, for Envoy with the filter"),
    (Kind::EnvoyNative, "envoy-native.yaml, for Envoy with the native module"),
    (Kind::Nginx, "nginx.conf, for nginx with ngx_wasm_module"),
    (Kind::Document, "diana.yaml, a document alone"),
];

/// Asks for the values that `args` lacks.
pub fn ask(args: &Args, questions: &mut dyn Questions) -> Result<Args> {
    let mut args = args.clone();
    let kind = match args.kind {
        Some(kind) => kind,
        None if args.document => Kind::Document,
        None => {
            let index = questions.select("What to write", &KINDS.map(|(_, about)| about))?;
            KINDS.get(index).map_or(Kind::Envoy, |(kind, _)| *kind)
        }
    };
    args.kind = Some(kind);
    args.document = false;
    let first = "A limit, such as `100/minute per ip on /api`";
    let limit = questions.text(first, "100/minute per ip", &is_a::<LimitSpec>)?;
    if let Ok(limit) = limit.parse() {
        args.limits.push(more(limit, questions)?);
    }
    loop {
        let or_none = |text: &str| if text.trim().is_empty() { Ok(()) } else { is_a::<LimitSpec>(text) };
        let limit = questions.text("Another limit, or nothing", "", &or_none)?;
        match limit.parse::<LimitSpec>() {
            Ok(limit) => args.limits.push(more(limit, questions)?),
            Err(_) => break,
        }
    }
    if args.plan.is_none() && args.limits.iter().any(|limit| !limit.plans.is_empty()) {
        let is_source = |text: &str| source(text).map(|_| ());
        args.plan = Some(questions.text("Where a request shows its plan", "header x-plan", &is_source)?);
    }
    if args.exempt.is_empty() {
        let exempt =
            questions.text("Addresses and networks without limits, or nothing", "", &are_addresses)?;
        args.exempt = addresses(&exempt).map(Into::into).collect();
    }
    if kind != Kind::Document {
        if args.upstream.is_none() {
            let upstream = questions.text(
                "The address of your service, HOST:PORT",
                "127.0.0.1:8080",
                &is_a::<Endpoint>,
            )?;
            args.upstream = upstream.parse().ok();
        }
        if args.proxies == 0 {
            let proxies =
                questions.text("The number of your own proxies in front of the gateway", "0", &is_proxies)?;
            args.proxies = proxies.parse().unwrap_or(0);
        }
    }
    if args.store.is_some() && args.replicas.is_none() {
        let replicas = questions.text("The number of gateways that share the store", "1", &is_replicas)?;
        args.replicas = replicas.parse().ok();
    }
    if !args.shadow {
        args.shadow = questions.confirm("Start in shadow mode, which refuses nothing", true)?;
    }
    if args.file.is_none() {
        let is_free = |name: &str| match args.force || !Path::new(name).exists() {
            true => Ok(()),
            false => Err(format!("`{name}` exists: expected the name of a new file, or `--force`")),
        };
        // The folder of a release has an `envoy.yaml`.
        let other = format!("my-{}", kind.file());
        let name = if is_free(kind.file()).is_ok() { kind.file() } else { &other };
        args.file = Some(questions.text("File", name, &is_free)?.into());
    }
    Ok(args)
}

/// Asks for the plans and the penalty of a limit that has an actor and a unit.
fn more(mut limit: LimitSpec, questions: &mut dyn Questions) -> Result<LimitSpec> {
    if limit.actors.is_empty() || limit.unit.is_none() {
        return Ok(limit);
    }
    if limit.plans.is_empty() {
        let check = |text: &str| with(&limit, text).map(|_| ());
        let question = "Its plans, such as `gold 1000/minute; internal unlimited`, or nothing";
        let plans = questions.text(question, "", &check)?;
        limit = with(&limit, &plans).unwrap_or(limit);
    }
    if limit.penalty.is_none() {
        let penalty = |text: &str| match text.trim() {
            "" => Ok(limit.clone()),
            text => with(&limit, &format!("penalty {text}")),
        };
        let question = "Its penalty for refused clients that go on, such as `10m after 5`, or nothing";
        let text = questions.text(question, "", &|text| penalty(text).map(|_| ()))?;
        limit = penalty(&text).unwrap_or(limit);
    }
    Ok(limit)
}

/// The limit with more clauses.
fn with(limit: &LimitSpec, clauses: &str) -> Result<LimitSpec, String> {
    let mut limit = limit.clone();
    clauses.split(';').try_for_each(|clause| limit.add(clause))?;
    limit.compile()?;
    Ok(limit)
}

fn addresses(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).filter(|address| !address.is_empty())
}

fn are_addresses(text: &str) -> Result<(), String> {
    let allow: Vec<&str> = addresses(text).collect();
    let document = serde_json::json!({"limits": [], "allow": allow}).to_string();
    let mistakes = diana_config::compile(document.as_bytes()).err().unwrap_or_default();
    mistakes.into_iter().next().map_or(Ok(()), |mistake| Err(mistake.why))
}

/// Whether the text is a value of this type.
fn is_a<T: FromStr<Err = String>>(text: &str) -> Result<(), String> {
    text.parse::<T>().map(|_| ())
}

fn is_replicas(text: &str) -> Result<(), String> {
    match text.parse::<u64>() {
        Ok(1..=10_000) => Ok(()),
        _ => Err("expected a number from 1 to 10000".into()),
    }
}

fn is_proxies(text: &str) -> Result<(), String> {
    match text.parse::<u8>() {
        Ok(0..=31) => Ok(()),
        _ => Err("expected a number from 0 to 31".into()),
    }
}
