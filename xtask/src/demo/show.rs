//! The demo's output on the terminal.

use gateway::Response;
use std::collections::BTreeMap;
use std::env;
use std::io::{self, IsTerminal};

const BOLD: u8 = 1;
const DIM: u8 = 2;
const RED: u8 = 31;
const GREEN: u8 = 32;

/// The answers to one burst.
pub struct BurstResult {
    /// The request as the table shows it.
    pub request: String,
    /// The number of the gateway, if there are several.
    pub gateway: Option<usize>,
    pub answers: Vec<Response>,
}

/// Prints a line for each burst: how many requests passed, how many were refused, by which rule.
pub fn table(outcomes: &[BurstResult]) {
    let wide = |text: &str, width: usize| format!("{text:>width$}");
    println!();
    println!(
        "{}",
        paint(DIM, &format!("  {:<31}{:>6}{:>9}{:>10}   why", "request", "sent", "passed", "refused"))
    );
    for outcome in outcomes {
        let answers = &outcome.answers;
        let refused: Vec<&Response> = answers.iter().filter(|answer| refused(answer)).collect();
        let line = format!(
            "  {:<31}{:>6}{}{}   {}",
            title(outcome),
            answers.len(),
            paint(GREEN, &wide(&(answers.len() - refused.len()).to_string(), 9)),
            paint(RED, &wide(&refused.len().to_string(), 10)),
            reasons(&refused),
        );
        println!("{}", line.trim_end());
    }
}

/// Prints a line for each request that went to several gateways: how many passed in all.
pub fn together(outcomes: &[BurstResult]) {
    for line in sums(outcomes) {
        println!("\n  {}", paint(BOLD, &line));
    }
}

fn sums(outcomes: &[BurstResult]) -> Vec<String> {
    let mut sums: Vec<(&str, Vec<&BurstResult>)> = Vec::new();
    for outcome in outcomes {
        match sums.iter_mut().find(|(request, _)| *request == outcome.request) {
            Some((_, same)) => same.push(outcome),
            None => sums.push((&outcome.request, vec![outcome])),
        }
    }
    let line = |(request, same): (&str, Vec<&BurstResult>)| {
        let several = same.iter().any(|outcome| outcome.gateway != same[0].gateway);
        let answers = || same.iter().flat_map(|outcome| &outcome.answers);
        let passed = answers().filter(|answer| !refused(answer)).count();
        several.then(|| format!("{request}, all gateways: {passed} of {} passed", answers().count()))
    };
    sums.into_iter().filter_map(line).collect()
}

/// Prints one admitted and one refused response as the client sees them.
pub fn examples(outcomes: &[BurstResult]) {
    let find = |wanted: bool| {
        outcomes.iter().find_map(|outcome| {
            let answer = outcome.answers.iter().find(|answer| refused(answer) == wanted)?;
            Some((outcome, answer))
        })
    };
    for (color, found) in [(GREEN, find(false)), (RED, find(true))] {
        let Some((outcome, answer)) = found else { continue };
        let title = format!("{} → {}", title(outcome), answer.status);
        println!("\n  {}", paint(color, &title));
        for (name, value) in &answer.headers {
            println!("    {} {value}", paint(DIM, &format!("{name}:")));
        }
        println!();
        for line in answer.text().lines() {
            println!("    {line}");
        }
    }
}

/// Prints what to try next.
pub fn invitation(lines: &[(&str, &str)], log: (&str, &str)) {
    println!("\n  {}", paint(BOLD, "The gateway stays up until Ctrl-C. To try:"));
    for (what, command) in lines.iter().chain([&log]) {
        println!("\n    {}\n    {command}", paint(DIM, &format!("# {what}")));
    }
}

fn title(outcome: &BurstResult) -> String {
    let which = outcome.gateway.map(|number| format!(", gateway {number}")).unwrap_or_default();
    format!("{}{which}", outcome.request)
}

fn refused(answer: &Response) -> bool {
    answer.status >= 400
}

/// How often it was which reason, and when to come back: `3 × rule login (try again in 12–14 s)`.
fn reasons(refused: &[&Response]) -> String {
    let mut reasons = BTreeMap::<String, Vec<&Response>>::new();
    for &answer in refused {
        reasons.entry(reason(answer)).or_default().push(answer);
    }
    let text = |(reason, answers): (String, Vec<&Response>)| {
        let waits = answers.iter().filter_map(|answer| answer.header("retry-after")?.parse::<u64>().ok());
        let when = match (waits.clone().min(), waits.max()) {
            (Some(least), Some(most)) if least < most => format!(" (try again in {least}–{most} s)"),
            (Some(wait), _) => format!(" (try again in {wait} s)"),
            _ => String::new(),
        };
        format!("{} × {reason}{when}", answers.len())
    };
    reasons.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

const DENIED: &str = "the deny list";

/// The rules that refuse, by the body's problem details.
fn reason(answer: &Response) -> String {
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let names = body["violated-policies"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(|name| name.as_str()).collect();
    match names.as_slice() {
        [] => format!("status {}", answer.status),
        ["deny"] => DENIED.into(),
        names => format!("rule {}", names.join(", ")),
    }
}

fn paint(code: u8, text: &str) -> String {
    if io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_several_gateways_are_summed() {
        let outcome = |request: &str, gateway, statuses: &[u16]| {
            let answer = |status: &u16| Response { status: *status, ..Response::default() };
            BurstResult { request: request.into(), gateway, answers: statuses.iter().map(answer).collect() }
        };
        let outcomes = [
            outcome("a", Some(1), &[200, 200]),
            outcome("b", Some(1), &[200]),
            outcome("a", Some(2), &[200, 429]),
            outcome("b", Some(1), &[200]),
        ];
        assert_eq!(sums(&outcomes), ["a, all gateways: 3 of 4 passed"]);
        assert_eq!(sums(&[outcome("a", None, &[200]), outcome("a", None, &[200])]), [""; 0]);
    }

    #[test]
    fn refusals_are_grouped_by_rule_whatever_their_waits() {
        let answer = |(rules, wait): (&str, &str)| Response {
            status: 429,
            headers: vec![("retry-after".into(), wait.into())],
            body: format!(r#"{{"violated-policies": [{rules}]}}"#).into_bytes(),
        };
        for (refused, expected) in [
            (&[][..], ""),
            (
                &[(r#""login""#, "12"), (r#""login""#, "14"), (r#""login""#, "13")],
                "3 × rule login (try again in 12–14 s)",
            ),
            (
                &[(r#""a", "b""#, "1"), (r#""a""#, "2")],
                "1 × rule a (try again in 2 s), 1 × rule a, b (try again in 1 s)",
            ),
            (&[(r#""deny""#, ""), (r#""deny""#, "")], "2 × the deny list"),
            (&[("", "soon")], "1 × status 429"),
        ] {
            let answers: Vec<Response> = refused.iter().copied().map(answer).collect();
            assert_eq!(reasons(&answers.iter().collect::<Vec<_>>()), expected);
        }
    }
}
