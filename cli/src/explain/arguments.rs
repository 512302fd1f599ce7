//! The request of the command line.

use super::args::Args;
use diana_base::time::{Span, Time};
use diana_document::{Errors, Node, Value};
use diana_workbench::explain::request::{
    Answer, Description, Incoming, Wrong, instant_of, parsed_instant, steps,
};
use jiff::Timestamp;
use miette::{Result, miette};
use std::ops::RangeInclusive;

const SPANS: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(366 * 86_400);

/// Reads the arguments. The error names the argument, and what is allowed.
pub fn incoming(args: &Args, body: Option<&[u8]>) -> Result<Incoming> {
    let headers = args.headers.iter().map(|header| read_header(header)).collect::<Result<_>>()?;
    let properties = args.properties.iter().map(|property| read_property(property));
    let properties = properties.collect::<Result<_, String>>().map_err(|why| miette!("--property: {why}"))?;
    let description = Description {
        method: &args.method,
        url: args.url.as_deref().unwrap_or_default(),
        ip: &args.ip,
        headers,
        host: args.host.as_deref(),
        scheme: args.scheme.as_deref(),
        body,
        body_size: args.body_size.as_deref(),
        properties,
    };
    let incoming = description.read().map_err(|Wrong { field, why }| match field {
        "headers" => miette!("-H: {why}"),
        field => miette!("--{}: {why}", field.replace('_', "-")),
    })?;
    Ok(Incoming {
        times: args.times,
        every: span("--every", &args.every)?,
        lasts: span("--lasts", &args.lasts)?,
        start: instant(args.at.as_deref()).map_err(|why| miette!("--at: {why}"))?,
        response: Answer { status: args.status, bytes: args.response_bytes, ..Answer::default() },
        store_down: args.store_down,
        ..incoming
    })
}

fn read_header(text: &str) -> Result<(String, String)> {
    match text.split_once(':') {
        Some((name, value)) => Ok((name.trim().into(), value.into())),
        None => Err(miette!("-H: expected `name: value`, found `{}`", text.escape_debug())),
    }
}

fn read_property(text: &str) -> Result<(Vec<String>, String), String> {
    match text.split_once('=').filter(|(path, _)| !path.is_empty()) {
        Some((path, value)) => Ok((steps(path), value.into())),
        None => Err(format!(
            "expected `path=value` such as `xds.route_name=main`, found `{}`",
            text.escape_debug()
        )),
    }
}

/// A span in the syntax of documents.
fn span(argument: &str, text: &str) -> Result<Span> {
    let (value, errors) = (Value::Text(text.into()), Errors::default());
    let span = Node::root(&value, &errors).span(SPANS);
    span.ok_or_else(|| {
        let why = errors.into_vec().into_iter().map(|error| error.why).next().unwrap_or_default();
        miette!("{argument}: {why}")
    })
}

fn instant(text: Option<&str>) -> Result<Time, String> {
    match text {
        // Whole seconds, so that `--at` with the instant in the output repeats the run.
        None => Timestamp::from_second(Timestamp::now().as_second()).ok().and_then(instant_of),
        Some(text) => return parsed_instant(text),
    }
    .ok_or_else(|| "the clock of this machine is before 1970".into())
}
