//! The request values in Envoy's access log, from the parts that the compiled limits read. With
//! these values, `diana replay` decides as the filter does.

use super::yaml::scalar;
use diana_limiter::actor::sounds_secret;
use diana_limiter::policy::Policy;
use diana_limiter::request::{Part, protocol};

/// What the log has for every document.
const ALWAYS: [(&str, &str); 5] = [
    ("start_time", "START_TIME"),
    ("method", "REQ(:METHOD)"),
    ("path", "REQ(X-ENVOY-ORIGINAL-PATH?:PATH)"),
    ("authority", "REQ(:AUTHORITY)"),
    ("downstream_remote_address", "DOWNSTREAM_REMOTE_ADDRESS"),
];

/// The lines of `json_format`, with this indent.
pub fn lines(policy: &Policy, indent: &str) -> String {
    let always = ALWAYS.iter().map(|(key, operator)| format!("{indent}{key}: \"%{operator}%\"\n"));
    let line = |name: &&str| format!("{}: \"%REQ({})%\"\n", scalar(&key(name)), name.to_ascii_uppercase());
    let (secret, open): (Vec<&str>, Vec<&str>) =
        policy.request_parts().filter_map(header).partition(|name| sounds_secret(name));
    let mut headers = match open.is_empty() {
        true => {
            format!("{indent}# Add each header that a new limit names, such as x-plan: \"%REQ(X-PLAN)%\"\n")
        }
        false => format!("{indent}# The headers that the limits read; add those of new limits.\n"),
    };
    headers.extend(open.iter().map(line).map(|line| format!("{indent}{line}")));
    if !secret.is_empty() {
        headers.push_str(&format!(
            "{indent}# Secrets that the limits read. `diana replay` needs them: log them if the log is protected.\n"
        ));
    }
    headers.extend(secret.iter().map(line).map(|line| format!("{indent}# {line}")));
    always.chain([headers]).collect()
}

/// The header that the log needs for a part, unless the log always has the part.
fn header(part: &Part) -> Option<&str> {
    match part {
        Part::Header(name) => Some(&**name).filter(|name| !protocol::HEADERS.contains(name)),
        Part::BodySize => Some("content-length"),
        // No limit of `diana init` reads an attribute or a body.
        Part::Path | Part::Method | Part::Host | Part::Address | Part::Property(_) | Part::RequestJson(_) => {
            None
        }
    }
}

/// The key of a header. A name such as `status` alone would be a value of the response.
fn key(header: &str) -> String {
    let is_clear = ["authorization", "cookie", "content-length"].contains(&header)
        || header.starts_with("x-") && !header.starts_with("x-envoy-");
    if is_clear { header.into() } else { format!("request_header_{header}") }
}
