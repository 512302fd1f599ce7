//! Reads the ticket of a refusal, and finds its rule in a document.

use super::args::Args;
use super::document::get;
use super::name;
use super::request::{seconds, timestamp};
use super::seconds_in_words as time;
use super::visible::{quoted, visible};
use diana_config::{Configuration, Secret, Source, rule_places};
use diana_document::Value;
use diana_filter::access_log::escape;
use diana_limiter::policy::ActorSource;
use diana_response::{TicketError, TicketKey, TicketReason, TicketRecord};
use miette::{Result, bail, miette};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// What the ticket of a refusal says.
#[derive(Clone, Debug, Serialize)]
pub struct TicketView {
    /// The file with the document.
    pub document: String,
    /// Whether the refusal was under this document.
    pub is_same_document: bool,
    /// The fingerprint of the document under which the request was refused.
    pub fingerprint: String,
    /// When the request was refused.
    pub at: String,
    /// What refused: `quota`, `penalty`, `fallback`, `store_down`, `missing` or `deny`.
    pub reason: &'static str,
    /// The rule that refused, if the document has it.
    pub rule: Option<TicketRule>,
    /// The rule's quota for the actor.
    pub quota: u64,
    /// The span of the quota in seconds; 0 for requests in flight.
    pub unit_s: f64,
    /// How much of the quota was used.
    pub used: u64,
    /// How long the client had to wait, in seconds. `None` if no wait helps.
    pub wait_s: Option<f64>,
    /// How the rule found the actor.
    pub actor: Option<&'static str>,
    /// Whether the actor is the one in the arguments. `None` if they have none, or if the rule
    /// counts no particular actor.
    pub is_given_actor: Option<bool>,
    /// The number of the gateway, as in `GET policy` of `inspect`.
    pub gateway: u32,
}

/// A rule of a document.
#[derive(Clone, Debug, Serialize)]
pub struct TicketRule {
    /// The name.
    pub name: String,
    /// The place, such as `limits[0].rules[1]`.
    pub place: String,
    /// The url patterns of the limit.
    pub url: String,
}

const PLACEHOLDER: &str = "-in-the-environment-of-the-gateway";

/// What the ticket says, for this document in JSON.
pub fn read(args: &Args, ticket: &str, document: &[u8]) -> Result<TicketView> {
    let configuration = compile(document)?;
    let fingerprint = configuration.fingerprint;
    let (key, record) = open(&keys(args, document, configuration)?, ticket.trim())?;
    let places = rule_places(document).unwrap_or_default();
    let rule = places.into_iter().find(|place| TicketRecord::rule_hash(&place.name) == record.rule);
    let given = escape(&args.actor, usize::MAX);
    let is_compared = !args.actor.is_empty() && record.actor != 0;
    Ok(TicketView {
        document: name(&args.file),
        is_same_document: record.document == fingerprint,
        fingerprint: format!("{:016x}", record.document),
        at: timestamp(record.at),
        reason: match record.reason {
            TicketReason::Quota => "quota",
            TicketReason::Penalty => "penalty",
            TicketReason::Fallback => "fallback",
            TicketReason::StoreDown => "store_down",
            TicketReason::NoActor => "missing",
            TicketReason::DenyList => "deny",
        },
        rule: rule.map(|place| TicketRule { name: place.name, place: place.place, url: place.url }),
        quota: record.quota,
        unit_s: seconds(record.unit),
        used: record.used,
        wait_s: record.wait.map(seconds),
        actor: record.source.map(ActorSource::name),
        is_given_actor: is_compared.then(|| key.actor(&given) == record.actor),
        gateway: record.gateway,
    })
}

/// The key that opens the ticket, and the record.
fn open(keys: &[TicketKey], ticket: &str) -> Result<(TicketKey, TicketRecord)> {
    let mut why = TicketError::Key;
    for key in keys {
        match key.open(ticket) {
            Ok(record) => return Ok((key.clone(), record)),
            Err(error) => why = error,
        }
    }
    match why {
        TicketError::Length => bail!("--ticket: {why}, found {}", ticket.chars().count()),
        _ => bail!("--ticket: {why}"),
    }
}

/// The keys that may open a ticket: that of the file, or those of the document.
fn keys(args: &Args, document: &[u8], configuration: Configuration) -> Result<Vec<TicketKey>> {
    if let Some(file) = &args.secret_file {
        return Ok(vec![TicketKey::new(&secret(file)?)]);
    }
    let Some(tickets) = configuration.tickets else {
        bail!("the document has no `tickets`: name a file with their secret, as in `--secret-file FILE`");
    };
    if let Some(name) = unset_variable(document) {
        bail!(
            "`tickets.secret` of the document is the variable {}, which is not set here: set it, or name a file with \
             the secret, as in `--secret-file FILE`",
            quoted(&name)
        );
    }
    Ok([tickets.key].into_iter().chain(tickets.previous).collect())
}

fn secret(file: &Path) -> Result<String> {
    let named = file.display();
    let bytes = fs::read(file).map_err(|error| miette!("--secret-file: cannot read `{named}`: {error}"))?;
    match Secret::of(&bytes) {
        Some(Secret::Known(secret)) => Ok(secret),
        _ => bail!("--secret-file: `{named}` has no text of at least 16 letters"),
    }
}

/// The variable in place of the secret, if the environment lacks it.
fn unset_variable(document: &[u8]) -> Option<String> {
    let document = diana_document::parse(document).ok()?;
    match get(get(get(&document, "tickets")?, "secret")?, "env")? {
        Value::Text(name) => own_variable(name).is_none().then(|| name.clone()),
        _ => None,
    }
}

fn own_variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

/// The configuration with the variables of this environment. Secrets that are not here have no
/// effect on the fingerprint, so a placeholder replaces them.
fn compile(document: &[u8]) -> Result<Configuration> {
    let secret = Secret::Known(["a-secret", PLACEHOLDER].concat());
    let variable = |name: &str| own_variable(name).or_else(|| Some([name, PLACEHOLDER].concat()));
    Source::new(document, &secret).with_variables(variable).compile().map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        miette!("the document has mistakes: {}", lines.join("; "))
    })
}

/// What the ticket says, as text.
pub fn render(view: &TicketView) -> String {
    let rule = match &view.rule {
        Some(rule) => format!("{}  {} on {}", rule.name, rule.place, visible(&rule.url)),
        None => "a rule that the document does not have".into(),
    };
    let why = match view.reason {
        "quota" => format!("refused by the quota of {rule}"),
        "penalty" => format!("refused by the penalty of {rule}"),
        "fallback" => format!("refused by the gateway's own share, without the store, of {rule}"),
        "store_down" => format!("refused while the store was down, by `on_error: deny` of {rule}"),
        "missing" => format!("refused without the actor, by `missing: deny` of {rule}"),
        _ => "refused by the deny list".into(),
    };
    let mut text = format!("{}  {why}\n", view.at);
    let mut line = |name: &str, value: &str| {
        // A `String` takes any text.
        let _ = writeln!(text, "  {name:<8}  {value}");
    };
    if view.quota > 0 || view.used > 0 {
        let unit = match view.unit_s > 0.0 {
            true => format!(" per {}", time(view.unit_s)),
            false => " in flight".into(),
        };
        line("used", &format!("{} of {}{unit}", view.used, view.quota));
    }
    line("wait", &view.wait_s.map_or("no wait helps".into(), time));
    if let Some(source) = view.actor {
        let found = match source {
            "actor" => "",
            "ip" => "counted by ip (`missing: ip`)",
            "shared" => "counted with all such requests (`missing: share`)",
            _ => "missing",
        };
        let given = match view.is_given_actor {
            Some(true) => "the given one",
            Some(false) => "not the given one",
            None => "",
        };
        let words: Vec<&str> = [found, given].into_iter().filter(|words| !words.is_empty()).collect();
        if !words.is_empty() {
            line("actor", &words.join(", "));
        }
    }
    line("gateway", &view.gateway.to_string());
    let which = if view.is_same_document { "this one" } else { "another one, or another version" };
    line("document", &format!("{which}, {}", view.fingerprint));
    text
}
