//! The key of a zone: variables, and the `map` and `geo` blocks that set them.

use crate::convert::address::Network;
use crate::convert::draft::Object;
use crate::source::nginx::Directive;
use serde_json::{Value, json};

/// The longest chain of blocks that set variables by one another.
const MAX_DEPTH: usize = 3;

/// A part of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Actor {
    /// The client's address.
    Ip,
    /// A header of the request.
    Header(String),
    /// A name that the actor may have, and its source.
    Source(String, Value),
    /// The server, each of which has limits of its own.
    Server,
}

impl Actor {
    /// Whether every request has it.
    pub fn is_always_there(&self) -> bool {
        match self {
            Actor::Ip | Actor::Server => true,
            Actor::Header(_) => false,
            Actor::Source(_, source) => source.is_string(),
        }
    }
}

/// A key for some requests.
#[derive(Clone, Debug, Default)]
pub struct Variant {
    /// What it consists of.
    pub actors: Vec<Actor>,
    /// Which requests have it.
    pub conditions: Object,
    /// Whether the actor lacks a part, such as a port.
    pub is_loose: bool,
    /// Whether the key has text beside its variables, so that it is never empty.
    pub has_text: bool,
}

impl Variant {
    /// Whether a request may lack a part of the key that no address stands in for.
    pub fn may_lack_a_part(&self) -> bool {
        !self.actors.contains(&Actor::Ip) && !self.actors.iter().all(Actor::is_always_there)
    }
}

/// The pattern of an entry and its result.
struct Case<'a> {
    pattern: &'a str,
    result: &'a str,
}

/// A `map` or a `geo`.
struct Block<'a> {
    index: usize,
    is_geo: bool,
    source: &'a str,
    target: &'a str,
    default: &'a str,
    cases: Vec<Case<'a>>,
    /// A parameter that the conversion does not know.
    unknown: Option<&'a str>,
}

/// Networks, each with its result, and the result for all other addresses.
type Networks<'b> = (Vec<(Network, &'b str)>, &'b str);

/// Reads keys.
pub struct Reader<'a> {
    blocks: Vec<Block<'a>>,
}

impl<'a> Reader<'a> {
    /// A reader of keys among these directives.
    pub fn new(directives: Vec<&'a Directive>) -> Reader<'a> {
        let mut blocks = Vec::new();
        for (index, directive) in directives.iter().enumerate() {
            let (is_geo, source, target) = match directive.texts()[..] {
                ["map", source, target] => (false, source, target),
                ["geo", target] => (true, "$remote_addr", target),
                ["geo", source, target] => (true, source, target),
                _ => continue,
            };
            let mut block =
                Block { index, is_geo, source, target, default: "", cases: Vec::new(), unknown: None };
            for inner in directives.iter().filter(|inner| inner.parent == Some(index)) {
                match inner.texts()[..] {
                    ["default", result] => block.default = result,
                    ["volatile"] => {}
                    [pattern, result] if !matches!(pattern, "include" | "proxy" | "delete") => {
                        let pattern = match pattern.strip_prefix('\\') {
                            Some(pattern) if !is_geo => pattern,
                            _ => pattern,
                        };
                        block.cases.push(Case { pattern, result });
                    }
                    [word, ..] => block.unknown = Some(word),
                    [] => {}
                }
            }
            blocks.push(block);
        }
        Reader { blocks }
    }

    /// The keys of a zone with this text, or why it has none in Diana.
    pub fn variants(&self, key: &str) -> Result<Vec<Variant>, String> {
        self.of(key, 0)
    }

    /// The blocks that set variables of these keys, as indices of directives.
    pub fn used_blocks<'k>(&self, keys: impl Iterator<Item = &'k str>) -> Vec<usize> {
        let mut used = Vec::new();
        let mut open: Vec<String> = keys.flat_map(variables).collect();
        while let Some(name) = open.pop() {
            let Some(block) = self.block(&name).filter(|block| !used.contains(&block.index)) else {
                continue;
            };
            used.push(block.index);
            open.extend(variables(block.source));
            open.extend(block.cases.iter().flat_map(|case| variables(case.result)));
        }
        used.sort_unstable();
        used
    }

    fn block(&self, name: &str) -> Option<&Block<'a>> {
        self.blocks.iter().rev().find(|block| block.target.strip_prefix('$') == Some(name))
    }

    fn of(&self, key: &str, depth: usize) -> Result<Vec<Variant>, String> {
        if depth > MAX_DEPTH {
            return Err("the key depends on a chain of more than three blocks".into());
        }
        let names = variables(key);
        let blocks = names.iter().filter(|name| self.block(name).is_some()).count();
        if let ([name], 1) = (names.as_slice(), blocks)
            && let Some(block) = self.block(name)
        {
            return self.of_block(block, depth);
        }
        if blocks > 0 {
            return Err("a key of several variables, one of which a block sets, has no counterpart".into());
        }
        let mut variant = Variant { has_text: has_text(key), ..Variant::default() };
        for name in names {
            variant.is_loose |= name == "http_host";
            variant.actors.push(actor(&name)?);
        }
        Ok(vec![variant])
    }

    fn of_block(&self, block: &Block, depth: usize) -> Result<Vec<Variant>, String> {
        if let Some(word) = block.unknown {
            return Err(format!("`{word}` in this block has no counterpart"));
        }
        let groups = match self.networks(block)? {
            Some((networks, default)) => of_networks(&networks, default)?,
            None => named(block)?,
        };
        let mut variants = Vec::new();
        for (result, conditions) in groups {
            // An empty key is not limited.
            if result.is_empty() {
                continue;
            }
            for mut variant in self.of(result, depth.saturating_add(1))? {
                for (key, condition) in &conditions {
                    if variant.conditions.contains_key(key) {
                        return Err(format!("two blocks of this key both test `{key}`"));
                    }
                    variant.conditions.insert(key.clone(), condition.clone());
                }
                variants.push(variant);
            }
        }
        Ok(variants)
    }

    /// The result for each network, and for all others, if a block reads the client's address,
    /// itself or by a `geo`.
    fn networks<'b>(&'b self, block: &'b Block<'a>) -> Result<Option<Networks<'b>>, String> {
        let is_address = |source: &str| matches!(source, "$remote_addr" | "$binary_remote_addr");
        let read = |block: &'b Block<'a>| -> Result<Vec<(Network, &'b str)>, String> {
            let network = |case: &'b Case<'a>| match Network::parse(case.pattern) {
                Some(_) if !block.is_geo && case.pattern.contains('/') => Err(format!(
                    "`map` compares text, so no address is `{}`: use `geo` for networks",
                    case.pattern
                )),
                Some(network) => Ok((network, case.result)),
                None => Err(format!("`{}` is not a network", case.pattern)),
            };
            block.cases.iter().map(network).collect()
        };
        if block.is_geo || is_address(block.source) {
            return match is_address(block.source) {
                true => Ok(Some((read(block)?, block.default))),
                false => Err(format!(
                    "`geo` by `{}` has no counterpart: `ip` finds the client's address",
                    block.source
                )),
            };
        }
        let geo = block.source.strip_prefix('$').and_then(|name| self.block(name)).filter(|geo| geo.is_geo);
        let Some(geo) = geo else { return Ok(None) };
        if let Some(word) = geo.unknown {
            return Err(format!("`{word}` in this `geo` has no counterpart"));
        }
        if !is_address(geo.source) {
            return Err(format!(
                "`geo` by `{}` has no counterpart: `ip` finds the client's address",
                geo.source
            ));
        }
        let result = |value: &str| {
            let case = block.cases.iter().find(|case| case.pattern == value);
            case.map_or(block.default, |case| case.result)
        };
        let networks = read(geo)?.into_iter().map(|(network, value)| (network, result(value))).collect();
        Ok(Some((networks, result(geo.default))))
    }
}

/// The groups of clients by address, with the result of each.
fn of_networks<'b>(
    networks: &[(Network, &'b str)],
    default: &'b str,
) -> Result<Vec<(&'b str, Object)>, String> {
    let mut networks = networks.to_vec();
    let of_family = |is_ipv4: bool| {
        let all = networks.iter().find(|(network, _)| network.is_all() && network.is_ipv4() == is_ipv4);
        all.map_or(default, |(_, result)| *result)
    };
    let (default, of_ipv6) = (of_family(true), of_family(false));
    if default != of_ipv6 {
        return Err(
            "IPv4 and IPv6 clients have different keys by default: write a limit for each by hand".into()
        );
    }
    networks.retain(|(network, _)| !network.is_all());
    let is_default = |result: &str| result == default;
    for (inner, result) in &networks {
        // The longest prefix decides.
        let around = networks.iter().find(|(outer, other)| outer.contains(inner) && other != result);
        if let Some((outer, _)) = around {
            return Err(format!(
                "`{}` within `{}` has another key: a condition on `ip` has no exceptions of its own",
                inner.text(),
                outer.text()
            ));
        }
    }
    networks.retain(|(_, result)| !is_default(result));
    let texts = |wanted: Option<&str>| -> Vec<String> {
        let of = networks.iter().filter(|(_, result)| wanted.is_none_or(|wanted| wanted == *result));
        of.map(|(network, _)| network.text()).collect()
    };
    let mut groups: Vec<(&str, Object)> = Vec::new();
    let exceptions = texts(None);
    let conditions = match exceptions.is_empty() {
        true => Object::new(),
        false => Object::from_iter([("ip".to_owned(), json!({"not": exceptions}))]),
    };
    groups.push((default, conditions));
    for (_, result) in &networks {
        if !groups.iter().any(|(known, _)| known == result) {
            groups.push((result, Object::from_iter([("ip".to_owned(), json!(texts(Some(result))))])));
        }
    }
    Ok(groups)
}

/// The groups of requests by a header or the like, with the result of each.
fn named<'b>(block: &'b Block) -> Result<Vec<(&'b str, Object)>, String> {
    let source = block.source.strip_prefix('$').unwrap_or_default();
    let default = block.default;
    // An empty value of the source itself needs no entry to be empty.
    let is_same = |case: &Case| case.pattern.is_empty() && case.result.is_empty() && default == block.source;
    is_clear(block)?;
    let others: Vec<&Case> =
        block.cases.iter().filter(|case| case.result != default && !is_same(case)).collect();
    let mut results: Vec<&str> = Vec::new();
    for case in &others {
        if !results.contains(&case.result) {
            results.push(case.result);
        }
    }
    let named = |kind: &str, name: &str| -> Result<Vec<(&'b str, Object)>, String> {
        let under = |condition: Value| Object::from_iter([(kind.to_owned(), json!({name: condition}))]);
        let patterns = |wanted: Option<&str>| -> Vec<&str> {
            let of = others.iter().filter(|case| wanted.is_none_or(|wanted| wanted == case.result));
            of.map(|case| case.pattern).collect()
        };
        let all = patterns(None);
        let rest = match all.as_slice() {
            [] => Object::new(),
            [""] => under(json!({"present": true})),
            [only] => under(json!({"not": value(only)})),
            several if several.contains(&"") => {
                return Err("an empty value among others has no counterpart in a condition".into());
            }
            several => under(json!({"not": several.iter().map(|one| value(one)).collect::<Vec<_>>()})),
        };
        let mut groups = vec![(default, rest)];
        for result in &results {
            let own = patterns(Some(result));
            let condition = match own.as_slice() {
                [""] => json!({"present": false}),
                [only] => value(only),
                several if several.contains(&"") => {
                    return Err("an empty value among others has no counterpart in a condition".into());
                }
                several => {
                    let any: Vec<String> = several.iter().map(|one| expression(one)).collect();
                    json!({"regex": any.join("|")})
                }
            };
            groups.push((result, under(condition)));
        }
        Ok(groups)
    };
    let listed = |kind: &str| -> Result<Vec<(&'b str, Object)>, String> {
        if let Some(case) =
            others.iter().find(|case| case.pattern.starts_with('~') || case.pattern.is_empty())
        {
            return Err(format!("`{kind}` has names, not `{}`", case.pattern));
        }
        let texts = |wanted: Option<&str>| -> Vec<&str> {
            let of = others.iter().filter(|case| wanted.is_none_or(|wanted| wanted == case.result));
            of.map(|case| case.pattern).collect()
        };
        let under = |condition: Value| Object::from_iter([(kind.to_owned(), condition)]);
        let rest = if others.is_empty() { Object::new() } else { under(json!({"not": texts(None)})) };
        let mut groups = vec![(default, rest)];
        groups.extend(results.iter().map(|result| (*result, under(json!(texts(Some(result)))))));
        Ok(groups)
    };
    if source == "http_host" || source == "host" {
        return listed("hosts");
    }
    if source == "request_method" {
        return listed("methods");
    }
    match (source.strip_prefix("http_"), source.strip_prefix("arg_")) {
        (Some(header), _) => named("headers", &header.replace('_', "-")),
        (_, Some(parameter)) => named("query", parameter),
        _ => Err(format!("a condition cannot read `${source}`")),
    }
}

/// Checks that no value matches two entries with different results. nginx would decide by order,
/// text before expressions, but conditions have no order.
fn is_clear(block: &Block) -> Result<(), String> {
    let unclear = |one: &str, other: &str| {
        Err(format!("`{one}` and `{other}` may match the same value: conditions have no order"))
    };
    let (expressions, texts): (Vec<&Case>, Vec<&Case>) =
        block.cases.iter().partition(|case| case.pattern.starts_with('~'));
    for (index, case) in expressions.iter().enumerate() {
        let whole = format!("^(?:{})$", expression(case.pattern));
        let Ok(regex) = regex_lite::Regex::new(&whole) else {
            return Err(format!("`{}` is not an expression that a condition can have", case.pattern));
        };
        let is_matched = |text: &&&Case| regex.is_match(text.pattern) && text.result != case.result;
        if let Some(text) = texts.iter().find(is_matched) {
            return unclear(text.pattern, case.pattern);
        }
        let has_empty = texts.iter().any(|text| text.pattern.is_empty());
        if regex.is_match("") && !has_empty && case.result != block.default {
            return Err(format!(
                "`{}` also matches requests without the value, which a condition does not see",
                case.pattern
            ));
        }
        let later = expressions.iter().skip(index.saturating_add(1));
        for other in later.filter(|other| other.result != case.result) {
            let (one, two) = (beginning(case.pattern), beginning(other.pattern));
            if one.starts_with(&two) || two.starts_with(&one) {
                return unclear(case.pattern, other.pattern);
            }
        }
    }
    Ok(())
}

/// The text, in lower case, with which each value of an expression of `map` begins.
fn beginning(pattern: &str) -> String {
    let text = pattern.trim_start_matches('~').trim_start_matches('*');
    let Some(text) = text.strip_prefix('^').filter(|text| !text.contains('|')) else {
        return String::new();
    };
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/');
    let mut plain: String = text.chars().take_while(is_plain).collect();
    // The last character may be repeated, or absent.
    if text.len() > plain.len() {
        plain.pop();
    }
    plain.to_ascii_lowercase()
}

/// The condition of a pattern of `map`: text in any case, or an expression after `~`.
fn value(pattern: &str) -> Value {
    let has_case = pattern.bytes().any(|byte| byte.is_ascii_alphabetic());
    match pattern.starts_with('~') || has_case {
        true => json!({"regex": expression(pattern)}),
        false => json!(pattern),
    }
}

/// The expression of a pattern of `map`, which a condition compares with the whole value.
fn expression(pattern: &str) -> String {
    let (flags, text) = match (pattern.strip_prefix("~*"), pattern.strip_prefix('~')) {
        (Some(text), _) => ("(?i)", text),
        (None, Some(text)) => ("", text),
        // Text is compared in any case.
        (None, None) => return format!("(?i){}", regex_lite::escape(pattern)),
    };
    let (start, text) = text.strip_prefix('^').map_or((".*", text), |text| ("", text));
    let (end, text) = text.strip_suffix('$').map_or((".*", text), |text| ("", text));
    format!("{flags}{start}(?:{text}){end}")
}

/// The names of the variables in a text.
fn variables(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in text.split('$').skip(1) {
        let braced = part.strip_prefix('{').and_then(|part| part.split('}').next());
        let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        let name = braced.map_or_else(|| part.chars().take_while(is_name).collect(), str::to_owned);
        if !name.is_empty() {
            names.push(name);
        }
    }
    names
}

/// Whether a text has more than variables.
fn has_text(text: &str) -> bool {
    let mut parts = text.split('$');
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let rest = |part: &str| match part.strip_prefix('{').and_then(|part| part.split_once('}')) {
        Some((_, rest)) => !rest.is_empty(),
        None => !part.trim_start_matches(is_name).is_empty(),
    };
    parts.next().is_some_and(|first| !first.is_empty()) || parts.any(rest)
}

fn actor(name: &str) -> Result<Actor, String> {
    let source = |wish: &str, source: Value| Ok(Actor::Source(wish.into(), source));
    match name {
        "binary_remote_addr" | "remote_addr" => return Ok(Actor::Ip),
        "server_name" => return Ok(Actor::Server),
        "host" | "http_host" => return source("host", json!("host")),
        "request_method" => return source("method", json!("method")),
        _ => {}
    }
    let prefixed = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    if let Some(header) = prefixed("http_") {
        return Ok(Actor::Header(header.replace('_', "-")));
    }
    if let Some(cookie) = prefixed("cookie_") {
        return source(cookie, json!({"cookie": cookie}));
    }
    if let Some(parameter) = prefixed("arg_") {
        return source(parameter, json!({"query": parameter}));
    }
    if let Some(claim) = prefixed("jwt_claim_") {
        return source(claim, json!({"jwt": claim}));
    }
    Err(format!("no actor has the value of `${name}`"))
}
