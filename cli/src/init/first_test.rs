//! The first test of the limits that `diana init` writes: how many requests of one client pass at
//! once, by the engine.

use super::limit::{Actor, LimitSpec};
use super::plan::{Named, Plan};
use super::yaml::flow;
use crate::explain::document::Document;
use crate::explain::gateways::Gateways;
use crate::explain::request::{Description, bearer, steps};
use diana_base::time::{Span, Time};
use miette::{Result, miette};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The file of the test, next to the file with the limits.
pub fn file(path: &Path) -> PathBuf {
    path.with_extension("test.yaml")
}

/// The most requests that are tried.
const MOST: u32 = 100_000;

/// The test, as YAML. `file`: the file with the limits.
pub fn text(plan: &Plan, file: &Path) -> Result<String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut lines = vec![
        "# `diana test` sends these requests through the limits, on a virtual clock.".to_owned(),
        format!("document: {}", flow(&json!(name))),
        "cases:".into(),
    ];
    for limit in &plan.limits {
        let request = request(&limit.spec);
        let (passing, by) = passing(plan, limit)?;
        let in_flight = if limit.spec.unit.is_none() { ", lasts: 1s" } else { "" };
        lines.push(format!("  - name: {} admits {} at once", limit.name, requests(passing)));
        lines.push(format!("    request: {}", flow(&Value::Object(request))));
        lines.push("    requests:".into());
        if passing > 0 {
            lines.push(format!("      - {{repeat: {passing}{in_flight}, expect: pass}}"));
        }
        lines.extend(by.map(|by| format!("      - {{expect: {by}}}")));
    }
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

fn requests(number: u32) -> String {
    if number == 1 { "one request".into() } else { format!("{number} requests") }
}

/// How many requests pass before a rule refuses one, and the expectation for that one.
fn passing(plan: &Plan, Named { spec, .. }: &Named) -> Result<(u32, Option<String>)> {
    let value = plan.document().to_string();
    let value = diana_document::parse(value.as_bytes()).map_err(|error| miette!("{error}"))?;
    let document = Document::of(&value);
    let mut gateways = Gateways::new(&document, 1)?;
    let request = request(spec);
    let text = |key: &str| request.get(key).and_then(Value::as_str);
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in request.get("headers").and_then(Value::as_object).into_iter().flatten() {
        headers.push((name.clone(), value.as_str().unwrap_or_default().to_owned()));
    }
    if let Some(claims) = request.get("claims") {
        headers.push(bearer(&claims.to_string()));
    }
    let description = Description {
        method: text("method").unwrap_or("GET"),
        url: text("url").unwrap_or("/"),
        ip: "127.0.0.1",
        headers,
        host: None,
        scheme: None,
        body: None,
        body_size: None,
        properties: Vec::new(),
    };
    let mut incoming = description.read().map_err(|wrong| miette!("{}: {}", wrong.field, wrong.why))?;
    incoming.lasts = Span::from_secs(1);
    let (incoming, now) = (Rc::new(incoming), Time::from_ns(1_767_225_600_000_000_000));
    for number in 0..MOST {
        let Some((by, decision)) = gateways.decide(&incoming, 0, false, now) else { break };
        let expected = match (decision.refused_by(by.policy()), decision.shadowed_by(by.policy())) {
            (Some(names), _) => format!("refused by {}", first(&names)),
            (None, Some(names)) => format!("{{outcome: pass, shadow: {}}}", first(&names)),
            (None, None) => continue,
        };
        return Ok((number, Some(expected)));
    }
    Ok((MOST, None))
}

fn first(names: &str) -> &str {
    names.split(',').next().unwrap_or_default()
}

/// A request that the limit counts, with the keys of a test file.
fn request(spec: &LimitSpec) -> Map<String, Value> {
    let (mut headers, mut claims, mut query) = (Map::new(), Map::new(), Vec::new());
    for Actor { name, source } in &spec.actors {
        match (name.as_str(), source.as_ref().map(|(source, value)| (source.as_str(), value.as_str()))) {
            (_, Some(("header", header))) => _ = headers.insert(header.to_ascii_lowercase(), json!("ann")),
            (_, Some(("cookie", cookie))) => {
                _ = headers.insert("cookie".into(), json!(format!("{cookie}=ann")))
            }
            (_, Some(("query", name))) => query.push(format!("{name}=ann")),
            (_, Some(("jwt", claim))) => insert(&mut claims, &steps(claim)),
            ("user", None) => _ = headers.insert("x-user-id".into(), json!("ann")),
            ("device", None) => _ = headers.insert("x-device-id".into(), json!("phone")),
            _ => {}
        }
    }
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let mut request = Map::new();
    request.extend(spec.methods.first().map(|method| ("method".to_owned(), json!(method))));
    request.insert("url".into(), json!(super::path(spec) + &query));
    if !headers.is_empty() {
        request.insert("headers".into(), headers.into());
    }
    if !claims.is_empty() {
        request.insert("claims".into(), claims.into());
    }
    request
}

/// Adds a claim at a path.
fn insert(claims: &mut Map<String, Value>, path: &[String]) {
    match path {
        [] => {}
        [last] => _ = claims.insert(last.clone(), json!("ann")),
        [first, rest @ ..] => {
            let below = claims.entry(first.clone()).or_insert_with(|| json!({}));
            if let Value::Object(below) = below {
                insert(below, rest);
            }
        }
    }
}
