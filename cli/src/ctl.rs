//! Looks into running gateways, and changes what they have counted for one actor. All gateways are
//! asked at once, and each is a line of the result.

mod args;
mod difference;
mod search;
mod table;

use table::Named;

pub use args::{Actor, Args, By, Command, Grant, Question as QuestionArgs};

use crate::gateways::block_on;
use crate::output::{Format, print, print_json};
use dialoguer::Confirm;
use diana_console::answer::{Count, Policy, Top};
use diana_console::fleet::{Failure, Fleet, Question, Target};
use diana_limiter::actor::sounds_secret;
use diana_replay::number::plural;
use diana_replay::printable::printable;
use jiff::Timestamp;
use miette::{IntoDiagnostic, Result, bail, miette};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write, stderr, stdin};
use std::process::ExitCode;

/// The exit code if gateways differ.
const DIFFERENT: u8 = 1;

/// The exit code if a gateway does not answer, or refuses.
const UNANSWERED: u8 = 2;

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let fleet = args.gateways.fleet()?;
    if let Some(rule) = args.command.rule_alone()
        && let Some(code) = unknown(args, &fleet, rule)?
    {
        return Ok(code);
    }
    match &args.command {
        Command::Rules => {
            let answers = ask::<Policy>(&fleet, &Question::Policy)?;
            finish(args, &fleet, &answers, table::rules, json!({}))?;
            Ok(code(&answers, false))
        }
        Command::Who(who) => match who.target().map_err(|why| miette!("{why}"))? {
            (true, target) => counts(args, &fleet, Question::Actor(target)),
            (false, target) => everywhere(args, &fleet, &target),
        },
        Command::Reset(change) => {
            let target = change.actor.target();
            let does = "forgets what it has counted, and ends the penalty";
            confirm(&fleet, &target, does, change.yes)?;
            counts(args, &fleet, Question::Reset(target))
        }
        Command::Grant(Grant { change, amount, duration }) => {
            let target = change.actor.target();
            let does = format!(
                "admits {} more for {}; a gateway that counts alone gives the whole grant",
                plural(*amount, "unit"),
                printable(duration)
            );
            confirm(&fleet, &target, &does, change.yes)?;
            counts(args, &fleet, Question::Grant { target, amount: *amount, duration: duration.clone() })
        }
        Command::Penalty(change) => {
            let target = change.actor.target();
            confirm(&fleet, &target, "ends the penalty, and goes on counting", change.yes)?;
            counts(args, &fleet, Question::EndPenalty(target))
        }
        Command::Top { rule, by, limit } => {
            let answers = ask::<Top>(&fleet, &Question::Top { rule: rule.clone(), by: by.name().into() })?;
            finish(args, &fleet, &answers, |answers| table::top(answers, *limit), json!({}))?;
            Ok(code(&answers, false))
        }
        Command::Diff => {
            let answers = ask::<Policy>(&fleet, &Question::Policy)?;
            let differences = difference::Differences::of(&names(&fleet), &answers);
            let fields = json!({"differ": differences.fields, "rules": differences.rules});
            finish(args, &fleet, &answers, |answers| differences.table(answers), fields)?;
            Ok(code(&answers, !differences.fields.is_empty()))
        }
    }
}

/// Answers for a rule that no gateway has. It is not asked about, because access logs record the
/// rule, and this may be a customer's key, written without the actor's name.
fn unknown(args: &Args, fleet: &Fleet, rule: &str) -> Result<Option<ExitCode>> {
    let policies = ask::<Policy>(fleet, &Question::Policy)?;
    if policies.iter().flatten().flat_map(|policy| &policy.rules).any(|known| known.name == rule) {
        return Ok(None);
    }
    if policies.iter().any(Result::is_ok) {
        bail!("{}", search::no_rule(&policies));
    }
    finish(args, fleet, &policies, table::rules, json!({}))?;
    Ok(Some(code(&policies, false)))
}

/// Shows what each rule that counts the actor has counted.
fn everywhere(args: &Args, fleet: &Fleet, target: &Target) -> Result<ExitCode> {
    let (policies, found) = block_on(async {
        let policies = texts(&Question::Policy, fleet.ask_all::<Policy>(&Question::Policy).await);
        let mut found = Vec::new();
        for (target, has) in search::questions(&policies, target) {
            let (rule, question) = (target.rule.clone(), Question::Actor(target));
            // Gateways without the rule are not asked.
            let known = |place: usize| (!has.contains(&place)).then_some(Failure::NotAsked(0));
            let answers = fleet.ask_unless::<Count>(&question, known).await.into_iter().enumerate();
            let own = answers.filter(|(place, _)| has.contains(place));
            found.extend(own.map(|(place, answer)| search::Found { rule: rule.clone(), place, answer }));
        }
        (policies, found)
    })?;
    if found.is_empty() && policies.iter().any(Result::is_ok) {
        bail!("{}", search::nobody(&policies, target));
    }
    let is_missing = |found: &search::Found| match &found.answer {
        // A gateway knows no count of some rules, which is an answer.
        Err(failure) => !matches!(failure, Failure::Refused { status: 400, .. }),
        Ok(_) => false,
    };
    let is_unanswered = policies.iter().any(Result::is_err) || found.iter().any(is_missing);
    match args.json || args.format == Format::Json {
        true => print_json(&search::json(fleet.addresses(), &policies, &found))?,
        false => print(&search::text(&names(fleet), &policies, &found))?,
    }
    Ok(if is_unanswered { ExitCode::from(UNANSWERED) } else { ExitCode::SUCCESS })
}

/// What each gateway has answered or why not, in the order of the arguments.
type Answers<T> = [Result<T, String>];

fn ask<T: DeserializeOwned + Send + 'static>(
    fleet: &Fleet,
    question: &Question,
) -> Result<Vec<Result<T, String>>> {
    Ok(texts(question, block_on(fleet.ask_all::<T>(question))?))
}

fn texts<T>(question: &Question, answers: Vec<Result<T, Failure>>) -> Vec<Result<T, String>> {
    answers.into_iter().map(|answer| answer.map_err(|failure| question.failure_text(&failure))).collect()
}

fn counts(args: &Args, fleet: &Fleet, question: Question) -> Result<ExitCode> {
    let answers = ask::<Count>(fleet, &question)?;
    let shown = |named: &[Named<Count>]| {
        let rows = named.iter().map(|(gateway, answer)| table::Row { gateway, rule: None, answer });
        table::counts(&rows.collect::<Vec<_>>(), Timestamp::now())
    };
    finish(args, fleet, &answers, shown, json!({}))?;
    Ok(code(&answers, false))
}

fn code<T>(answers: &Answers<T>, is_different: bool) -> ExitCode {
    match (answers.iter().any(Result::is_err), is_different) {
        (true, _) => ExitCode::from(UNANSWERED),
        (false, true) => ExitCode::from(DIFFERENT),
        (false, false) => ExitCode::SUCCESS,
    }
}

fn names(fleet: &Fleet) -> Vec<String> {
    fleet.addresses().iter().map(|address| printable(address.name())).collect()
}

/// Prints the answers, as a table or as JSON with these further fields.
fn finish<T: Serialize>(
    args: &Args,
    fleet: &Fleet,
    answers: &Answers<T>,
    table: impl Fn(&[(String, &Result<T, String>)]) -> String,
    mut fields: Value,
) -> Result<()> {
    if !args.json && args.format == Format::Text {
        let named: Vec<_> = names(fleet).into_iter().zip(answers).collect();
        return print(&table(&named));
    }
    let gateways = fleet.addresses().iter().zip(answers).map(|(address, answer)| match answer {
        Ok(answer) => json!({"gateway": address.name(), "url": address.url(), "answer": answer}),
        Err(why) => json!({"gateway": address.name(), "url": address.url(), "error": why}),
    });
    fields["gateways"] = gateways.collect();
    print_json(&fields)
}

/// Says what a change does, and asks for confirmation unless that is given.
fn confirm(fleet: &Fleet, target: &Target, does: &str, is_sure: bool) -> Result<()> {
    // Whoever keeps this text must not get a key. The terminal shows above what was typed.
    let shown = |(name, value): &(String, String)| {
        let value = if sounds_secret(name) { "…".into() } else { value.clone() };
        (name.clone(), value)
    };
    let actor = Target { actor: target.actor.iter().map(shown).collect(), ..Target::default() };
    let (rule, actor) = (printable(&target.rule), printable(&actor.actor_text()));
    let gateways = names(fleet).join(", ");
    let does = format!("the rule `{rule}` {does}, for the actor {actor}, in {gateways}");
    if is_sure {
        // `eprintln!` panics if nobody reads the message.
        let _ = writeln!(stderr(), "{does}");
        return Ok(());
    }
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        bail!("{does}: `--yes` confirms this where no terminal can ask");
    }
    let prompt = format!("{}{}. Continue?", does[..1].to_uppercase(), &does[1..]);
    match Confirm::new().with_prompt(prompt).default(false).interact().into_diagnostic()? {
        true => Ok(()),
        false => bail!("nothing has changed"),
    }
}
