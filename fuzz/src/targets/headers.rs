//! Lines of a request, read by actors of all kinds, in more than one spelling.
//!
//! ```text
//!   P/a/b?k=1 ⏎ Happ.example:80 ⏎ Cs=1; t=2 ⏎ F203.0.113.9, 10.0.0.1 ⏎ Uann
//!   the first letter is the kind of the part
//! ```

use super::path::escaped;
use diana_config::actor::{Actors, Scope, client_ip};
use diana_document::{Errors, Node, parse, parse_json};
use diana_limiter::actor::{NamedActor, address, key};
use diana_limiter::matcher::pattern::Pattern;
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::pairs::{Pairs, encode};
use diana_limiter::request::syntax::is_token;
use diana_limiter::request::{HeaderLines, Part, PartId, Parts, Request, Source, Values, syntax};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::LazyLock;

const IP: &[u8] = br#"{"trusted_hops": 2}"#;
const ACTORS: &[u8] = br#"{
    "header": {"header": "x-user-id"}, "cookie": {"cookie": "s"}, "query": {"query": "k"}, "first": {"path": 1},
    "third": {"path": 3}, "claim": {"jwt": "sub"}, "deep": {"jwt": "a.b.c"}, "property": {"property": "x.y"},
    "net": {"ip": {"v4_prefix": 24, "v6_prefix": 56}}, "method": "method", "host": "host"}"#;

/// An actor that belongs to a limit on the url.
const SEGMENT: (&[u8], &str) = (br#"{"segment": "t"}"#, "/a/{t}");

/// The letters of the parts that are headers.
const HEADERS: [(u8, &str); 4] =
    [(b'C', "cookie"), (b'F', "x-forwarded-for"), (b'J', "authorization"), (b'U', "x-user-id")];

struct Reader {
    parts: Parts,
    actors: Vec<NamedActor>,
}

static READER: LazyLock<Reader> = LazyLock::new(|| {
    let (mut parts, errors) = (Parts::default(), Errors::default());
    let (ip, actors) = (parse(IP).unwrap(), parse(ACTORS).unwrap());
    let ip = client_ip(Some(Node::root(&ip, &errors)), &mut parts);
    let mut scope = Scope { parts: &mut parts, ip: &ip };
    let node = Node::root(&actors, &errors);
    let names: Vec<&str> = node.entries().unwrap().into_iter().map(|(name, _)| name).chain(["ip"]).collect();
    let place = Node::root(&actors, &errors);
    let compiled = Actors::compile(Some(node), &mut scope);
    let found = names.iter().map(|name| compiled.find(name, &place, &mut scope).unwrap());
    let mut actors: Vec<NamedActor> = found.collect();
    let (segment, url) = (parse(SEGMENT.0).unwrap(), SEGMENT.1.parse::<Pattern>().unwrap());
    actors.extend(compiled.select(Node::root(&segment, &errors), Some(&[url]), &mut scope).unwrap());
    assert!(errors.is_empty(), "{:?}", errors.into_vec());
    Reader { parts, actors }
});

/// Any lines have keys or no keys, and the same keys in every spelling.
pub fn run(bytes: &[u8]) {
    raw(bytes);
    let lines = lines(bytes);
    let expected = keys(&values(&lines));
    assert_eq!(keys(&Serialised::of(&lines)), expected, "serialised, with names in capitals");
    for (spelling, respell) in SPELLINGS {
        let respelt = respell(lines.clone());
        assert_eq!(
            keys(&values(&respelt)),
            expected,
            "{spelling}: {:?}",
            String::from_utf8_lossy(&respelt.concat())
        );
    }
}

/// Readers of bytes without a request.
fn raw(bytes: &[u8]) {
    let pairs = Pairs::of(bytes);
    let (count, size) =
        pairs.fold((0, 0), |(count, size), (name, value)| (count + 1, size + name.len() + value.len()));
    // Each pair has two sizes of four bytes, and two zeros.
    assert!(count * 10 + size <= bytes.len());
    let name = syntax::host_name(bytes);
    assert_eq!(syntax::host_name(&bytes.to_ascii_uppercase()), name);
    if let Some(address) = address::parse(bytes) {
        spelt(address);
    }
    let _ = is_token(bytes);
    let _ = parse_json(bytes);
}

fn spelt(address: IpAddr) {
    let with_port = match address {
        IpAddr::V4(address) => format!(" {address}:65535 "),
        IpAddr::V6(address) => format!("\"[{address}]:0\""),
    };
    for text in [address.to_string(), with_port] {
        assert_eq!(address::parse(text.as_bytes()), Some(address), "{text}");
    }
    if let IpAddr::V4(address) = address {
        assert_eq!(address::parse(address.to_ipv6_mapped().to_string().as_bytes()), Some(address.into()));
    }
}

/// The lines, each with its letter. If a part cannot occur twice, its first line counts.
fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let is_header = HEADERS.iter().any(|(letter, _)| *letter == line[0]);
        if is_header || lines.iter().all(|known| known[0] != line[0]) {
            lines.push(line.to_vec());
        }
    }
    lines
}

fn part(letter: u8) -> Part {
    match letter {
        b'P' => Part::Path,
        b'M' => Part::Method,
        b'H' => Part::Host,
        b'A' => Part::Address,
        b'X' => Part::Property(vec!["x".into(), "y".into()]),
        _ => Part::Header(name(letter).into()),
    }
}

fn name(letter: u8) -> &'static str {
    HEADERS.iter().find(|(known, _)| *known == letter).map_or("x-other", |(_, name)| name)
}

fn values(lines: &[Vec<u8>]) -> Values {
    lines.iter().fold(Values::default().with_claims(diana_config::claim), |values, line| {
        values.with(part(line[0]), &line[1..])
    })
}

/// The keys of all actors; an empty value has no key.
fn keys(source: &dyn Source) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let request = Request::new(source, &READER.parts);
    let key_of = |named: &'static NamedActor| {
        let mut out = Vec::new();
        let found = key(std::slice::from_ref(named), &request, &mut out);
        assert!(found && out.len() > 4 || !found && out.is_empty());
        (named.name(), found.then_some(out))
    };
    READER.actors.iter().map(key_of).collect()
}

/// The same lines in the format of a host.
struct Serialised {
    values: Values,
    headers: Vec<u8>,
}

impl Serialised {
    fn of(lines: &[Vec<u8>]) -> Serialised {
        // `encode` accepts text only, so the bytes replace as many letters afterwards.
        let names: Vec<String> = lines.iter().map(|line| name(line[0]).to_uppercase()).collect();
        let filler = |line: &Vec<u8>| Cow::Owned("~".repeat(line.len() - 1));
        let pairs: Vec<_> =
            names.iter().zip(lines).map(|(name, line)| (name.as_str(), filler(line))).collect();
        let mut headers = encode(&pairs);
        let mut at = 4 + 8 * lines.len();
        for (name, line) in names.iter().zip(lines) {
            at += name.len() + 1;
            headers[at..at + line.len() - 1].copy_from_slice(&line[1..]);
            at += line.len();
        }
        assert_eq!(at, headers.len());
        Serialised { values: values(lines), headers }
    }
}

impl Source for Serialised {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        match part {
            Part::Header(name) => HeaderLines::Named(Pairs::of(&self.headers), name.as_bytes()),
            _ => self.values.lines(id, part),
        }
    }

    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        self.values.claim(token, path)
    }
}

type Respell = fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>;

/// Ways to write the same request.
const SPELLINGS: [(&str, Respell); 6] = [
    ("escapes in the url", |lines| {
        // The scheme and the host of an absolute URL have no escapes.
        each(lines, b'P', |line| if line.starts_with(b"/") { escaped(line) } else { line.to_vec() })
    }),
    ("the host in capitals", |lines| each(lines, b'H', <[u8]>::to_ascii_uppercase)),
    ("space around a header", |lines| each(lines, b'U', |line| [b" ", line, b"\t"].concat())),
    ("space around a token", |lines| each(lines, b'J', |line| [b" ", line, b" "].concat())),
    ("cookies in one line", |lines| joined(lines, b'C', b"; ")),
    ("proxies in one line", |lines| joined(lines, b'F', b" , ")),
];

fn each(lines: Vec<Vec<u8>>, letter: u8, respell: impl Fn(&[u8]) -> Vec<u8>) -> Vec<Vec<u8>> {
    let respell = |line: Vec<u8>| match line.split_first() {
        Some((first, rest)) if *first == letter => [&[letter], respell(rest).as_slice()].concat(),
        _ => line,
    };
    lines.into_iter().map(respell).collect()
}

/// Joins all lines of this letter into one line at the end.
fn joined(lines: Vec<Vec<u8>>, letter: u8, between: &[u8]) -> Vec<Vec<u8>> {
    let (of_it, mut others): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line[0] == letter);
    if !of_it.is_empty() {
        let values: Vec<&[u8]> = of_it.iter().map(|line| &line[1..]).collect();
        others.push([&[letter], values.join(between).as_slice()].concat());
    }
    others
}
