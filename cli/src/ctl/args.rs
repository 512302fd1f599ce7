//! The arguments of `diana ctl`.

use crate::gateways::Gateways;
use crate::number::within;
use crate::output::Format;
use clap::{Subcommand, ValueEnum};
use diana_console::fleet::Target;
use diana_limiter::algorithm::grant;
use std::str::FromStr;

/// The arguments of `diana ctl`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
    /// The gateways
    #[command(flatten)]
    pub gateways: Gateways,
    /// The output format
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
    /// The same as `--format json`
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the rules
    Rules,
    /// Show what a rule, or each rule that counts an actor, has counted: `diana ctl who user=ann`
    Who(Who),
    /// Let an actor begin anew
    Reset(Change),
    /// Give an actor more for some time
    Grant(Grant),
    /// End an actor's penalty, and go on counting
    Penalty(Change),
    /// List the actors that a rule has refused most; needs `inspect.top`
    Top {
        /// The rule's name
        rule: String,
        /// What the list counts
        #[arg(long, value_enum, default_value_t)]
        by: By,
        /// How many actors of each gateway to list
        #[arg(long, value_name = "N", default_value = "10", value_parser = within(1..=1_000usize))]
        limit: usize,
    },
    /// Compare documents, versions and secrets of the store. Exits with code 1 if gateways differ
    Diff,
}

impl Command {
    /// The rule, if the command names no actor.
    #[must_use]
    pub fn rule_alone(&self) -> Option<&str> {
        let (rule, actor) = match self {
            Self::Rules | Self::Diff => return None,
            Self::Who(Who { first, rest, .. }) => {
                (first.as_ref().filter(|first| !first.contains('='))?, rest)
            }
            Self::Reset(Change { actor, .. })
            | Self::Penalty(Change { actor, .. })
            | Self::Grant(Grant { change: Change { actor, .. }, .. }) => (&actor.rule, &actor.actor),
            Self::Top { rule, .. } => return Some(rule),
        };
        actor.is_empty().then_some(rule)
    }
}

/// An actor, and optionally the only rule to ask.
#[derive(Clone, Debug, clap::Args)]
pub struct Who {
    /// The rule's name; without it, all rules that count the actor
    #[arg(value_name = "RULE")]
    first: Option<String>,
    /// The actor, such as `user=ann`, once for each actor of the rule; none for a rule on `all`
    #[arg(value_name = "ACTOR=VALUE")]
    rest: Vec<Actor>,
    /// Show the count under the quota of a plan
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

impl Who {
    /// The rule, if one is named, and what the gateways look for. The error is a message for
    /// people.
    pub fn target(&self) -> Result<(bool, Target), String> {
        let (mut rule, mut actors) = (None, Vec::new());
        match &self.first {
            // No rule's name has this sign.
            Some(first) if first.contains('=') => actors.push(first.parse::<Actor>()?),
            Some(first) => rule = Some(first.clone()),
            None => {
                return Err(
                    "who? name an actor, such as `user=ann`; `diana ctl rules` lists the rules".into()
                );
            }
        }
        actors.extend(self.rest.iter().cloned());
        let actor = actors.into_iter().map(|Actor { name, value }| (name, value)).collect();
        let plan = self.plan.clone();
        Ok((rule.is_some(), Target { rule: rule.unwrap_or_default(), actor, plan }))
    }
}

/// A rule and one of its actors.
#[derive(Clone, Debug, clap::Args)]
pub struct Question {
    /// The rule's name
    #[arg(value_parser = rule)]
    pub rule: String,
    /// The actor, such as `user=ann`, once for each actor of the rule; none for a rule on `all`
    #[arg(value_name = "ACTOR=VALUE")]
    pub actor: Vec<Actor>,
    /// Show the count under the quota of a plan
    #[arg(long, value_name = "NAME")]
    pub plan: Option<String>,
}

impl Question {
    /// What the gateways look for.
    #[must_use]
    pub fn target(&self) -> Target {
        let actor = self.actor.iter().map(|Actor { name, value }| (name.clone(), value.clone()));
        Target { rule: self.rule.clone(), actor: actor.collect(), plan: self.plan.clone() }
    }
}

/// A change of what a rule has counted.
#[derive(Clone, Debug, clap::Args)]
pub struct Change {
    /// The actor
    #[command(flatten)]
    pub actor: Question,
    /// Do not ask first
    #[arg(short, long)]
    pub yes: bool,
}

/// A grant.
#[derive(Clone, Debug, clap::Args)]
pub struct Grant {
    /// The actor
    #[command(flatten)]
    pub change: Change,
    /// How many units the actor gets beside its quota
    #[arg(long, value_name = "N", value_parser = within(1..=grant::MAX_AMOUNT))]
    pub amount: u64,
    /// How long, from 1 s to 24 h, such as `30m`, `1h` or `1d`
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub duration: String,
}

/// No rule's name has a `=`.
fn rule(text: &str) -> Result<String, String> {
    match text.contains('=') {
        true => Err("expected the name of a rule first: `diana ctl who` finds the rules of an actor".into()),
        false => Ok(text.into()),
    }
}

/// A time that the filter would take, as it is written.
fn duration(text: &str) -> Result<String, String> {
    let parameter = |name: &str| Some(if name == "for" { text } else { "1" }.to_owned());
    diana_config::grant(parameter).map(|_| text.to_owned())
}

/// What a list counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Refused requests
    #[default]
    Refused,
    /// Used units
    Used,
}

impl By {
    /// The word for the gateways.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Used => "used",
        }
    }
}

/// A value of one of the rule's actors: `user=ann`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The actor's name.
    pub name: String,
    /// The value, which may contain `=`.
    pub value: String,
}

impl FromStr for Actor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            // Gateways would look for an actor with this value, and find a new one.
            Some((_, value)) if is_hash(value) => {
                Err("this is the hash of a hidden value: name the value, and the answer has the hash".into())
            }
            Some((_, value)) if value.ends_with('…') => {
                Err("the value is cut: name the whole value".into())
            }
            Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                Ok(Self { name: name.into(), value: value.into() })
            }
            _ => Err("expected an actor and its value, such as `user=ann`".into()),
        }
    }
}

/// Whether a list of actors shows a hidden value in this way.
fn is_hash(value: &str) -> bool {
    let digits = value.strip_prefix('#').unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
