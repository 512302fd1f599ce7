//! The explanation as text. Values of the request are escaped for the terminal.

use super::report::{ActorView, Explanation, LimitView, OutcomeRun, Response, RuleRun, RuleView};
use super::visible::{quoted, visible};
use diana_replay::printable::printable;
use std::fmt::{self, Write};

/// The most runs of a rule or of the outcome that are shown.
const MOST_RUNS: usize = 12;

/// The text.
pub fn render(explanation: &Explanation) -> String {
    let mut text = String::new();
    // A `String` takes any text.
    let _ = write_all(&mut text, explanation);
    text
}

fn write_all(to: &mut String, explanation: &Explanation) -> fmt::Result {
    request(to, explanation)?;
    if let Some(list) = &explanation.list {
        let effect = match (list.list, list.is_enforced) {
            ("allow", _) => "no rule limits the request",
            (_, true) => "the request is refused",
            (_, false) => "in shadow mode the list only reports",
        };
        writeln!(to, "\nThe {} list names the client by {}: {effect}.", list.list, quoted(&list.entry))?;
    }
    if let Some(plan) = &explanation.plan {
        writeln!(to, "\nThe client is on the plan {}.", quoted(plan))?;
    }
    limits(to, explanation)?;
    nearly(to, explanation)?;
    writeln!(to, "\nOutcome")?;
    outcomes(to, &explanation.outcomes)?;
    if explanation.admitted.is_some() || explanation.refused.is_some() {
        writeln!(to, "\nThe client sees")?;
    }
    explanation.admitted.iter().try_for_each(|seen| response(to, seen))?;
    explanation.refused.iter().try_for_each(|seen| response(to, seen))?;
    if !explanation.notes.is_empty() {
        writeln!(to, "\nAssumed")?;
    }
    explanation.notes.iter().try_for_each(|note| writeln!(to, "  {}", printable(note)))
}

fn request(to: &mut String, explanation: &Explanation) -> fmt::Result {
    let request = &explanation.request;
    write!(to, "{} {}", visible(&request.method), visible(&request.url))?;
    if let Some(host) = &request.host {
        write!(to, " at {}", visible(host))?;
    }
    write!(to, " from {}", visible(&request.ip))?;
    if request.times > 1 {
        write!(to, ", {} times", request.times)?;
        match request.every_s > 0.0 {
            true => write!(to, ", one every {}", time(request.every_s))?,
            false => write!(to, " at once")?,
        }
    }
    if request.lasts_s > 0.0 {
        write!(to, ", each in flight for {}", time(request.lasts_s))?;
    }
    writeln!(to, ", from {}", request.at)
}

fn limits(to: &mut String, explanation: &Explanation) -> fmt::Result {
    if explanation.limits.is_empty() {
        return writeln!(to, "\nNo limit applies.");
    }
    writeln!(to, "\nLimits that apply, in the order of their checks")?;
    explanation.limits.iter().try_for_each(|view| limit(to, view))
}

fn limit(to: &mut String, limit: &LimitView) -> fmt::Result {
    write!(to, "  {}", visible(&limit.url))?;
    if !limit.place.is_empty() {
        write!(to, "  {}", limit.place)?;
    }
    if limit.is_exclusive {
        write!(to, ", exclusive")?;
    }
    if limit.is_high_priority {
        write!(to, ", high priority")?;
    }
    for condition in &limit.conditions {
        write!(to, ", {}", visible(condition))?;
    }
    writeln!(to)?;
    if limit.rules.is_empty() {
        writeln!(to, "    no rules")?;
    }
    limit.rules.iter().try_for_each(|view| rule(to, view))
}

fn rule(to: &mut String, rule: &RuleView) -> fmt::Result {
    write!(to, "    {}  {} {}  {}", rule.name, rule.algorithm, rule.quota, actor(&rule.actor))?;
    writeln!(
        to,
        "{}{}",
        if rule.is_global { ", counted as if by one gateway" } else { "" },
        enforcement(rule)
    )?;
    if rule.actor.found == "skipped" {
        return Ok(());
    }
    let lines = rule.runs.iter().map(|run| (range(run.from, run.to), run_words(run)));
    columns(to, "      ", lines.collect())
}

/// Whether the rule refuses this actor, unless it refuses everybody.
fn enforcement(rule: &RuleView) -> String {
    match (&*rule.enforce, rule.is_enforced) {
        ("100%", _) => String::new(),
        ("0%", _) => ", only counts (shadow)".into(),
        (part, true) => format!(", enforced for {part} of its actors, as for this one"),
        (part, false) => format!(", enforced for {part} of its actors, only counts this one (shadow)"),
    }
}

/// The actor that the rule counts.
fn actor(actor: &ActorView) -> String {
    let value = actor.value.as_deref().map(quoted).unwrap_or_default();
    let effect = match actor.found {
        "all" => return "all requests together".into(),
        "actor" => return format!("{} {value}", actor.name),
        "ip" => format!("counted by ip {value} (`missing: ip`)"),
        "shared" => "counted with all such requests (`missing: share`)".into(),
        "denied" => "refused (`missing: deny`)".into(),
        _ => "not counted (`missing: skip`)".into(),
    };
    let lacks = actor.lacks.join(" and ");
    let name = if actor.lacks.len() == 1 && lacks == actor.name {
        String::new()
    } else {
        format!("{}: ", actor.name)
    };
    format!("{name}{lacks} is absent, {effect}")
}

fn run_words(run: &RuleRun) -> String {
    let mut words = run.result.to_owned();
    if let (Some([first, last]), Some([least, most])) = (run.left, run.left_range) {
        let left = match (least == most, least == first.min(last) && most == first.max(last)) {
            (true, _) => format!(", {first} left"),
            (_, true) => format!(", {first}…{last} left"),
            (..) => format!(", {least} to {most} left"),
        };
        words.push_str(&left);
    }
    if let Some([first, last]) = run.wait_s {
        let what = match run.result {
            "delayed" => "waits",
            "would delay" => "wait",
            _ => "retry after",
        };
        let wait =
            if time(first) == time(last) { time(first) } else { format!("{}…{}", time(first), time(last)) };
        words.push_str(&format!(", {what} {wait}"));
    }
    if let Some(percent) = run.over {
        words.push_str(&format!(", over {percent} %"));
    }
    words
}

fn nearly(to: &mut String, explanation: &Explanation) -> fmt::Result {
    if !explanation.nearly.is_empty() {
        writeln!(to, "\nLimits that do not apply")?;
    }
    for limit in &explanation.nearly {
        let place = if limit.place.is_empty() { String::new() } else { format!("  {}", limit.place) };
        writeln!(to, "  {}{place}", visible(&limit.url))?;
        limit.why.iter().try_for_each(|why| writeln!(to, "    {why}"))?;
    }
    match (explanation.others, explanation.nearly.is_empty()) {
        (0, _) => Ok(()),
        (1, true) => writeln!(to, "\nAnother limit does not apply."),
        (others, true) => writeln!(to, "\n{others} other limits do not apply."),
        (others, false) => writeln!(to, "  and {others} more"),
    }
}

fn outcomes(to: &mut String, runs: &[OutcomeRun]) -> fmt::Result {
    let words = |run: &OutcomeRun| {
        let mut words = match (run.outcome, run.wait_s) {
            ("pass", _) => "passes".to_owned(),
            ("allowed", _) => "passes, uncounted".to_owned(),
            ("delayed", Some([first, last])) if time(first) == time(last) => {
                format!("passes after {}", time(first))
            }
            ("delayed", Some([first, last])) => format!("passes after {}…{}", time(first), time(last)),
            _ => format!("refused: {}", run.details.as_deref().unwrap_or_default()),
        };
        if let Some(shadow) = &run.shadow {
            words.push_str(&format!(", would be refused in shadow mode by {shadow}"));
        }
        words
    };
    columns(to, "  ", runs.iter().map(|run| (range(run.from, run.to), words(run))).collect())
}

fn response(to: &mut String, response: &Response) -> fmt::Result {
    match response.status {
        None => {
            writeln!(to, "  request {}, which passes: the response of the upstream, with", response.request)?
        }
        Some(status) => {
            write!(to, "  request {}, which is refused: status {status}", response.request)?;
            if let Some(grpc) = response.grpc_status {
                write!(to, ", grpc-status {grpc}")?;
            }
            if response.held_back_s > 0.0 {
                write!(to, ", held back for {}", time(response.held_back_s))?;
            }
            writeln!(to)?;
        }
    }
    if response.headers.is_empty() {
        writeln!(to, "    no header from Diana")?;
    }
    for [name, value] in &response.headers {
        write!(to, "    {name}: {value}")?;
        match response.retry_after_up_to {
            Some(latest) if name == "retry-after" => writeln!(to, "  (at random up to {latest})")?,
            _ => writeln!(to)?,
        }
    }
    match &response.body {
        // The body is text of the configuration, and may have several lines.
        Some(body) if !body.is_empty() => {
            body.lines().try_for_each(|line| writeln!(to, "    {}", printable(line)))
        }
        _ => Ok(()),
    }
}

/// Lines of two columns, at most twelve.
fn columns(to: &mut String, indent: &str, lines: Vec<(String, String)>) -> fmt::Result {
    let width = lines.iter().take(MOST_RUNS).map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    for (left, right) in lines.iter().take(MOST_RUNS) {
        writeln!(to, "{indent}{left:width$}  {right}")?;
    }
    match lines.len().saturating_sub(MOST_RUNS) {
        0 => Ok(()),
        more => writeln!(to, "{indent}and {more} more lines, which `--format json` lists"),
    }
}

fn range(from: u32, to: u32) -> String {
    if from == to { from.to_string() } else { format!("{from}–{to}") }
}

/// Seconds in a unit that people read easily.
pub fn time(seconds: f64) -> String {
    let (number, unit) = match seconds {
        0.0 => (0.0, "s"),
        s if s < 0.001 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s if s < 120.0 => (s, "s"),
        s if s < 7_200.0 => (s / 60.0, "min"),
        s if s < 172_800.0 => (s / 3_600.0, "h"),
        s => (s / 86_400.0, "d"),
    };
    let digits = format!("{number:.1}");
    format!("{} {unit}", digits.strip_suffix(".0").unwrap_or(&digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_easy_to_read() {
        for (seconds, expected) in [
            (0.0, "0 s"),
            (0.000_25, "250 µs"),
            (0.1, "100 ms"),
            (1.0, "1 s"),
            (1.5, "1.5 s"),
            (119.96, "120 s"),
            (3_600.0, "60 min"),
            (86_400.0, "24 h"),
            (864_000.0, "10 d"),
        ] {
            assert_eq!(time(seconds), expected);
        }
    }

    #[test]
    fn what_is_left_reads_forward_unless_it_turns() {
        let run = |left, left_range| {
            let run =
                RuleRun { from: 1, to: 9, result: "admitted", left, left_range, wait_s: None, over: None };
            run_words(&run)
        };
        assert_eq!(run(Some([9, 9]), Some([9, 9])), "admitted, 9 left");
        assert_eq!(run(Some([9, 0]), Some([0, 9])), "admitted, 9…0 left");
        assert_eq!(run(Some([4, 5]), Some([0, 9])), "admitted, 0 to 9 left");
        assert_eq!(run(None, None), "admitted");
    }

    #[test]
    fn a_wait_says_who_waits() {
        let waits = |result| {
            let wait_s = Some([0.1, 0.2]);
            run_words(&RuleRun { from: 1, to: 2, result, left: None, left_range: None, wait_s, over: None })
        };
        assert_eq!(waits("delayed"), "delayed, waits 100 ms…200 ms");
        assert_eq!(waits("would delay"), "would delay, wait 100 ms…200 ms");
        assert_eq!(waits("refused"), "refused, retry after 100 ms…200 ms");
    }
}
