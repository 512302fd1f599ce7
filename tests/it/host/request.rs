//! A request as a host presents it to a filter: Envoy in one way, nginx in another.
//!
//! nginx decodes a path before it presents the path, and presents the original as well. Dot
//! segments and merged slashes are left out here. Sources: ngx_wasm_module `src/common/proxy_wasm`,
//! nginx 1.27.4 `src/http/ngx_http_variables.c`.

use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::{Part, syntax};

/// The value that nginx has in `:authority`, whatever the client requests.
const MACHINE: &str = "machine";

/// All headers with their lines, in their order.
pub fn headers(rules: CasSemantics, parts: &[(Part, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let named = |(part, line): &(Part, Vec<u8>)| {
        let name = match (part, rules) {
            (Part::Method, _) => ":method".into(),
            (Part::Path, _) => ":path".into(),
            (Part::Host, CasSemantics::Lenient) => ":authority".into(),
            (Part::Host, CasSemantics::Strict) => "Host".into(),
            (Part::Header(name), CasSemantics::Lenient) => name.to_string(),
            (Part::Header(name), CasSemantics::Strict) => as_sent(name),
            // A request without a body declares no size.
            (Part::BodySize, _) if line == b"0" => return None,
            (Part::BodySize, CasSemantics::Lenient) => "content-length".into(),
            (Part::BodySize, CasSemantics::Strict) => "Content-Length".into(),
            (Part::Address | Part::Property(_) | Part::RequestJson(_), _) => return None,
        };
        let line = match (part, rules) {
            (Part::Path, CasSemantics::Strict) => decoded(line),
            (Part::Header(_), _) => received(rules, line).into(),
            _ => line.clone(),
        };
        Some((name, line))
    };
    let machine = (rules == CasSemantics::Strict).then(|| (":authority".into(), MACHINE.into()));
    parts.iter().filter_map(named).chain(machine).collect()
}

/// A header's value as a host receives it over HTTP/1: nginx keeps tabs around the value.
fn received(rules: CasSemantics, line: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| *byte == b' ' || rules == CasSemantics::Lenient && *byte == b'\t';
    let start = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// `X-User-Id`: nginx keeps the client's spelling.
fn as_sent(name: &str) -> String {
    let words = name.split('-').map(|word| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    });
    words.collect::<Vec<_>>().join("-")
}

/// The path decoded once, and the query as it was sent.
fn decoded(target: &[u8]) -> Vec<u8> {
    let end = target.iter().position(|byte| b"?#".contains(byte)).unwrap_or(target.len());
    let (mut rest, query) = target.split_at(end);
    let mut path = Vec::new();
    while let [first, tail @ ..] = rest {
        let escaped = syntax::leading_escape(rest);
        path.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &rest[syntax::ESCAPE_LENGTH..] } else { tail };
    }
    path.extend(query);
    path
}

/// Whether a host says that the request ends with its headers. nginx never does.
pub fn ends(rules: CasSemantics, parts: &[(Part, Vec<u8>)]) -> bool {
    rules == CasSemantics::Lenient && parts.iter().any(|(part, line)| *part == Part::BodySize && line == b"0")
}

/// An attribute by its path. nginx has an address without a port.
pub fn property(rules: CasSemantics, parts: &[(Part, Vec<u8>)], path: &[u8]) -> Option<Vec<u8>> {
    if rules == CasSemantics::Strict
        && let Some(variable) = path.strip_prefix(b"ngx\0")
    {
        return self::variable(parts, str::from_utf8(variable).ok()?);
    }
    if rules == CasSemantics::Lenient && path == b"request\0query" {
        let (_, target) = parts.iter().find(|(part, _)| *part == Part::Path)?;
        let query = target.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default();
        return Some(query.split(|byte| *byte == b'#').next().unwrap_or_default().to_vec());
    }
    let is = |part: &Part| match part {
        Part::Address => path == b"source\0address",
        Part::Property(steps) => steps.join("\0").as_bytes() == path,
        _ => false,
    };
    let (part, line) = parts.iter().find(|(part, _)| is(part))?;
    let line = match (part, rules) {
        (Part::Address, CasSemantics::Strict) => line.strip_suffix(b":0").unwrap_or(line),
        _ => line,
    };
    Some(line.to_vec())
}

/// A variable of nginx; a variable that a test has set as a property is found as well.
fn variable(parts: &[(Part, Vec<u8>)], name: &str) -> Option<Vec<u8>> {
    let line = |wanted: Part| parts.iter().find(|(part, _)| *part == wanted).map(|(_, line)| line.clone());
    match name {
        "request_uri" => line(Part::Path).map(|target| in_origin_form(&target)),
        "request_method" => line(Part::Method),
        "http_content_length" => line(Part::BodySize).filter(|size| size != b"0"),
        // Over HTTP/1 nginx knows the size of each body that is not chunked.
        "server_protocol" => {
            let is_known = parts.iter().any(|(part, _)| *part == Part::BodySize);
            Some(if is_known { b"HTTP/1.1".to_vec() } else { b"HTTP/2.0".to_vec() })
        }
        "host" => Some(host(&line(Part::Path).unwrap_or_default(), &line(Part::Host).unwrap_or_default())),
        _ => match name.strip_prefix("http_") {
            Some(name) => header(parts, name),
            None => line(Part::Property(vec!["ngx".into(), name.into()])),
        },
    }
}

/// The target without a scheme and a host.
fn in_origin_form(target: &[u8]) -> Vec<u8> {
    let behind = target.windows(3).position(|window| window == b"://").map(|at| at + 3);
    let Some(at) = behind.filter(|_| !target.starts_with(b"/")) else { return target.to_vec() };
    let path = target[at..].iter().position(|byte| b"/?".contains(byte)).map(|end| &target[at + end..]);
    let slash: &[u8] = if path.is_some_and(|path| path.starts_with(b"/")) { b"" } else { b"/" };
    [slash, path.unwrap_or_default()].concat()
}

/// The host in the request line comes before the line `Host`: lower case, without a port.
fn host(target: &[u8], line: &[u8]) -> Vec<u8> {
    let target = String::from_utf8_lossy(target).into_owned();
    let authority = match target.split_once("://").filter(|_| !target.starts_with('/')) {
        Some((_, rest)) => rest.split(['/', '?']).next().unwrap().as_bytes(),
        None => line,
    };
    let name = match authority.iter().rposition(|byte| *byte == b':') {
        Some(colon) if !authority.ends_with(b"]") => &authority[..colon],
        _ => authority,
    };
    name.strip_suffix(b".").unwrap_or(name).to_ascii_lowercase()
}

/// The joined lines of all headers whose name matches except for case and for `-` in place of `_`.
/// By default nginx drops headers with other characters than letters, digits and `-` in the name.
fn header(parts: &[(Part, Vec<u8>)], name: &str) -> Option<Vec<u8>> {
    let is_named = |known: &str| {
        known.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && known.to_ascii_lowercase().replace('-', "_") == name
    };
    let lines = parts.iter().filter(|(part, _)| matches!(part, Part::Header(known) if is_named(known)));
    let lines: Vec<&[u8]> = lines.map(|(_, line)| received(CasSemantics::Strict, line)).collect();
    let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
    (!lines.is_empty()).then(|| lines.join(separator))
}

/// The status, the body and further headers of the response that a client gets for a local one.
/// If the request is one of gRPC, Envoy turns the response into gRPC, with this status if its own
/// headers have none. nginx ignores the status, and adds a line feed to a body.
pub fn local_response(
    rules: CasSemantics,
    status: u32,
    body: &[u8],
    grpc_status: Option<i32>,
) -> (u32, Vec<u8>, Vec<(String, String)>) {
    let line_feed: &[u8] = if body.is_empty() { b"" } else { b"\n" };
    match rules {
        CasSemantics::Strict => (status, [body, line_feed].concat(), Vec::new()),
        CasSemantics::Lenient if grpc_status.is_some() => {
            let header = |name: &str, value: String| (name.to_owned(), value);
            let status = grpc_status.map(|status| header("grpc-status", status.to_string()));
            let message = String::from_utf8_lossy(body).into_owned();
            let message = (!body.is_empty()).then(|| header("grpc-message", message));
            let kind = header("content-type", "application/grpc".into());
            (200, Vec::new(), [kind].into_iter().chain(status).chain(message).collect())
        }
        CasSemantics::Lenient => (status, body.into(), Vec::new()),
    }
}

/// This many lines of headers overflow the buffer that ngx_wasm_module makes for a filter that
/// reads the whole map. The buffer has room for 100 lines and one pseudo-header, but the module
/// writes all pseudo-headers.
pub const MANY: usize = 97;

/// The map that a filter gets: all pseudo-headers, and in nginx the first 100 headers.
pub fn map(rules: CasSemantics, headers: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let (pseudo, mut others): (Vec<_>, Vec<_>) =
        headers.into_iter().partition(|(name, _)| name.starts_with(':'));
    if rules == CasSemantics::Strict {
        others.truncate(100);
    }
    pseudo.into_iter().chain(others).collect()
}

/// The headers, serialised in the format of the ABI.
pub fn pairs(headers: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = (headers.len() as u32).to_le_bytes().to_vec();
    for (name, value) in headers {
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend((value.len() as u32).to_le_bytes());
    }
    for text in headers.iter().flat_map(|(name, value)| [name.as_bytes(), value]) {
        bytes.extend(text);
        bytes.push(0);
    }
    bytes
}
