//! The engine of the playground's page: a question in JSON, an answer in JSON. The page writes the
//! question into this module's memory and reads the answer from there.
//!
//! ```text
//!   page ─ allocate(length) ─► address, where the page writes the question
//!        ─ answer(address, length) ─► address << 32 | length of the answer
//!        ─ release(address, length) of both
//! ```

mod exports;
mod traffic;

use diana_replay::{Replay, text};
use diana_workbench::check::{render, report};
use diana_workbench::explain::document::{Document, compile};
use diana_workbench::explain::request::{Description, Wrong, parsed_instant, span_of};
use diana_workbench::explain::{self, simulation};
use diana_workbench::source::content::File;
use diana_workbench::test::{self, Observed};
use diana_workbench::{source, valid};
use miette::{Result, miette};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::rc::Rc;

/// The most requests that an answer lists.
const MOST_REQUESTS: usize = 20_000;

/// What the page asks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Question {
    /// The mistakes of a document.
    Check { document: String },
    /// The results of test cases.
    Test { document: String, cases: String },
    /// The decisions about the requests of some clients.
    Traffic(traffic::Traffic),
    /// What `diana explain` shows of a request.
    Explain(Explained),
    /// What the limits would do with the requests of a log.
    Replay { document: String, log: String },
}

/// A request to explain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Explained {
    document: String,
    method: String,
    url: String,
    ip: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default = "one")]
    times: u32,
    #[serde(default)]
    every_ms: u64,
    #[serde(default)]
    at: Option<String>,
}

fn one() -> u32 {
    1
}

/// The most times that a request is explained.
const MOST_TIMES: u32 = 10_000;

/// The answer to a question, both in JSON. A question that cannot be read, and what is wrong in it,
/// are answered by `{"error": TEXT}`.
///
/// ```
/// let question = r#"{"check": {"document": "limits: [{url: /, rules: [{rpu: 1, unit: secnd}]}]"}}"#;
/// assert!(diana_playground::answer(question).contains("unknown unit `secnd`"));
/// ```
#[must_use]
pub fn answer(question: &str) -> String {
    let answer = serde_json::from_str(question)
        .map_err(|error| miette!("the question cannot be read: {error}"))
        .and_then(answered);
    let answer = answer.unwrap_or_else(|error| {
        let messages: Vec<String> = error.chain().map(ToString::to_string).collect();
        json!({"error": messages.join(": ")})
    });
    answer.to_string()
}

fn answered(question: Question) -> Result<Value> {
    match question {
        Question::Check { document } => Ok(checked(&document)),
        Question::Test { document, cases } => tested(&document, &cases),
        Question::Traffic(traffic) => {
            let requests = traffic::decided(&json_of(&traffic.document)?, &traffic)?;
            Ok(json!({"requests": requests}))
        }
        Question::Explain(explained) => Ok(json!({"text": explanation(&explained)?})),
        Question::Replay { document, log } => replayed(&json_of(&document)?, log),
    }
}

/// The name of the document in messages.
const DOCUMENT: &str = "limits.yaml";

fn checked(document: &str) -> Value {
    let report = report::Report::of(File::new(DOCUMENT, document), report::Fleet::default());
    let findings: Vec<Value> = render::findings(&report).collect();
    let documents: Vec<Value> = render::documents(&report).collect();
    json!({"findings": findings, "documents": documents})
}

/// The document as JSON.
fn json_of(document: &str) -> Result<Vec<u8>> {
    Ok(valid::document_of(File::new(DOCUMENT, document), None)?.1)
}

#[derive(Serialize)]
struct Tested {
    report: test::FileReport,
    requests: Vec<Observed>,
}

fn tested(document: &str, cases: &str) -> Result<Value> {
    let mut requests = Vec::new();
    let report = test::observed_report(document, cases, &mut |observed| {
        if requests.len() < MOST_REQUESTS {
            requests.push(observed);
        }
    })?;
    serde_json::to_value(Tested { report, requests }).map_err(|error| miette!("{error}"))
}

fn explanation(explained: &Explained) -> Result<String> {
    let Explained { document, method, url, ip, headers, times, every_ms, at } = explained;
    let json = json_of(document)?;
    let value = source::parsed(&json)?;
    let description = Description { method, url, ip, headers: headers.clone(), ..Description::default() };
    let mut incoming = description.read().map_err(|Wrong { field, why }| miette!("{field}: {why}"))?;
    incoming.times = (*times).clamp(1, MOST_TIMES);
    incoming.every = span_of(*every_ms);
    incoming.start = parsed_instant(at.as_deref().unwrap_or(START)).map_err(|why| miette!("at: {why}"))?;
    let incoming = Rc::new(incoming);
    let document = Document::of(&value);
    compile(&value)?;
    let simulation = simulation::run(&document, &incoming)?;
    Ok(explain::text(&explain::of_decisions(&document, &incoming, &simulation, DOCUMENT, false)?))
}

/// The instant of the first request, if the page names none.
const START: &str = "2026-01-01T00:00:00Z";

fn replayed(document: &[u8], log: String) -> Result<Value> {
    let replay = Replay::of_log(document, "the log", log.into_bytes()).map_err(|error| miette!("{error}"))?;
    let summary = replay.run(|_, _, _| {}, |_, _| {}).map_err(|error| miette!("{error}"))?;
    let text = text::report(&summary, false);
    let summary = serde_json::to_value(&summary).map_err(|error| miette!("{error}"))?;
    Ok(json!({"text": text, "summary": summary}))
}
