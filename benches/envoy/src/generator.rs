//! The load generators: `wrk` or `oha` where installed, otherwise our own. The generator uses one
//! core; the other core is Envoy's.

use crate::own::Connections;
use crate::traffic::{Answers, CONNECTIONS, HEADERS, Target};
use anyhow::{Context, Result, bail};
use gateway::envoy::on_path;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A load generator.
pub enum Generator {
    /// <https://github.com/wg/wrk>
    Wrk(PathBuf),
    /// <https://github.com/hatoo/oha>
    Oha(PathBuf),
    /// `own.rs`
    Own,
}

impl Generator {
    /// Returns the generator of this name. Without a name, returns the first one installed.
    pub fn find(name: Option<&str>) -> Result<Self> {
        let there = |name: &str| on_path(name).with_context(|| format!("`PATH` has no `{name}`"));
        match name {
            Some("wrk") => Ok(Self::Wrk(there("wrk")?)),
            Some("oha") => Ok(Self::Oha(there("oha")?)),
            Some("own") => Ok(Self::Own),
            Some(other) => bail!("unknown generator `{other}`; the generators are wrk, oha and own"),
            None => Ok(on_path("wrk")
                .map(Self::Wrk)
                .or_else(|| on_path("oha").map(Self::Oha))
                .unwrap_or(Self::Own)),
        }
    }

    /// The generator's name in the report.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Wrk(_) => "wrk",
            Self::Oha(_) => "oha",
            Self::Own => "own, on hyper",
        }
    }

    /// The generator's shortest run.
    pub fn least(&self) -> Duration {
        match self {
            Self::Wrk(_) | Self::Oha(_) => Duration::from_secs(1),
            Self::Own => Duration::from_millis(1),
        }
    }

    /// Prepares the load for a target.
    pub fn aim(&self, target: Target) -> Result<Load> {
        Ok(match self {
            Self::Wrk(program) => Load::Wrk(program.clone(), target),
            Self::Oha(program) => Load::Oha(program.clone(), target),
            Self::Own => Load::Own(Connections::open(&target)?),
        })
    }
}

/// A generator and its target. External programs support one path, and open new connections for
/// each run.
pub enum Load {
    Wrk(PathBuf, Target),
    Oha(PathBuf, Target),
    Own(Connections),
}

impl Load {
    /// Sends requests for the duration `each`.
    pub fn run(&mut self, each: Duration) -> Result<Answers> {
        match self {
            Self::Wrk(program, target) => wrk(Command::new(program), target, each),
            Self::Oha(program, target) => oha(Command::new(program), target, each),
            Self::Own(connections) => connections.run(each),
        }
    }
}

fn url(target: &Target) -> String {
    format!("http://{}{}", target.address, target.paths.first().map_or("/", String::as_str))
}

/// Formats whole seconds, because wrk rejects fractions.
fn whole(each: Duration) -> String {
    format!("{:.0}s", each.as_secs_f64().ceil())
}

/// Runs the command and returns its standard output.
fn output(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn wrk(mut command: Command, target: &Target, each: Duration) -> Result<Answers> {
    command.args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{}", whole(each))]);
    for (name, value) in HEADERS {
        command.args(["-H", &format!("{name}: {value}")]);
    }
    command.arg(url(target));
    from_wrk(&output(command)?)
}

/// Parses `  N requests in 2.00s, …`, and the optional lines `Non-2xx or 3xx responses: N` and
/// `Socket errors: …`.
///
/// wrk does not report single statuses. The parser counts every response outside 2xx and 3xx as
/// 429, the only such status that a line expects.
fn from_wrk(text: &str) -> Result<Answers> {
    if let Some(errors) = text.lines().find(|line| line.contains("Socket errors")) {
        bail!("wrk: {}", errors.trim());
    }
    let line = text
        .lines()
        .find(|line| line.contains(" requests in "))
        .context("`wrk` printed no number of requests")?;
    let (requests, rest) = line.trim().split_once(" requests in ").context("`wrk` printed no duration")?;
    let time = rest.split(',').next().unwrap_or_default();
    let seconds = match (time.strip_suffix("ms"), time.strip_suffix('s'), time.strip_suffix('m')) {
        (Some(ms), _, _) => ms.parse::<f64>()? / 1e3,
        (_, Some(seconds), _) => seconds.parse()?,
        (_, _, Some(minutes)) => minutes.parse::<f64>()? * 60.0,
        _ => bail!("`wrk` printed the unknown duration `{time}`"),
    };
    let bad = text.lines().find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses: "));
    let bad: u64 = bad.map_or(Ok(0), str::parse)?;
    let good = requests.parse::<u64>()?.saturating_sub(bad);
    let by_status = BTreeMap::from([(200, good), (429, bad)]);
    Ok(Answers { by_status: by_status.into_iter().filter(|(_, count)| *count > 0).collect(), seconds })
}

fn oha(mut command: Command, target: &Target, each: Duration) -> Result<Answers> {
    // `-w`: oha waits for the requests that are in flight at the end.
    command.args(["--no-tui", "--output-format", "json", "-w"]);
    command.args(["-c", &CONNECTIONS.to_string(), "-z", &whole(each)]);
    for (name, value) in HEADERS {
        command.args(["-H", &format!("{name}: {value}")]);
    }
    command.arg(url(target));
    from_oha(&output(command)?)
}

fn from_oha(text: &str) -> Result<Answers> {
    let answer: Value = serde_json::from_str(text).context("the output of `oha` is not JSON")?;
    if let Some(errors) = answer["errorDistribution"].as_object().filter(|errors| !errors.is_empty()) {
        bail!("oha: {errors:?}");
    }
    let counts =
        answer["statusCodeDistribution"].as_object().context("the output of `oha` has no statuses")?;
    let one = |(status, count): (&String, &Value)| Some((status.parse().ok()?, count.as_u64()?));
    let by_status = counts
        .iter()
        .map(one)
        .collect::<Option<_>>()
        .context("a status in the output of `oha` is not a number")?;
    Ok(Answers {
        by_status,
        seconds: answer["summary"]["total"].as_f64().context("the output of `oha` has no duration")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_wrk_is_read() {
        let text = "Running 2s test @ http://127.0.0.1:1/\n  1 threads and 16 connections\n\
                    \x20 62311 requests in 2.01s, 8.20MB read\nRequests/sec:  31000.00\n";
        let answers = from_wrk(text).unwrap();
        assert_eq!((answers.all(200).unwrap(), answers.seconds), (62311, 2.01));
        let refused =
            from_wrk(&text.replace("Requests/", "  Non-2xx or 3xx responses: 62311\nRequests/")).unwrap();
        assert_eq!(refused.all(429).unwrap(), 62311);
        let some = from_wrk(&text.replace("Requests/", "  Non-2xx or 3xx responses: 3\nRequests/")).unwrap();
        assert!(some.all(200).is_err() && some.all(429).is_err());
        assert!(
            from_wrk(&text.replace("Requests/", "  Socket errors: connect 1, read 0\nRequests/")).is_err()
        );
    }

    #[test]
    fn the_output_of_oha_is_read() {
        let text =
            r#"{"summary": {"total": 2.5}, "statusCodeDistribution": {"429": 7}, "errorDistribution": {}}"#;
        let answers = from_oha(text).unwrap();
        assert_eq!((answers.all(429).unwrap(), answers.seconds), (7, 2.5));
        assert!(answers.all(200).is_err());
        assert!(
            from_oha(&text.replace(r#""errorDistribution": {}"#, r#""errorDistribution": {"refused": 1}"#))
                .is_err()
        );
    }
}
