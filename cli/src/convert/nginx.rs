//! From nginx' `limit_req` and `limit_conn`.
//!
//! A zone has a key and a rate; a location uses zones, or inherits those of its server. Each
//! location becomes a place, each use of a zone with the same numbers a rule.

mod key;

use super::draft::{Draft, Object, Rule};
use super::envoy::IPV6;
use super::finish;
use super::input::Input;
use super::notes::{Notes, Spot};
use super::places::{self, Counter, Place};
use super::shape::{Early, PERMITS, Requests, connections};
use crate::check::nginx::includes;
use crate::files::Disk;
use crate::source::files::Around;
use crate::source::nginx::{self, Directive, Word};
use key::{Actor, Reader, Variant};
use miette::Result;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Directives that concern limits and have no counterpart, and why.
const WITHOUT: [(&str, &str); 4] = [
    ("limit_rate", "Diana does not slow responses down"),
    ("limit_rate_after", "Diana does not slow responses down"),
    ("limit_zone", "nginx has removed this directive: use `limit_conn_zone`"),
    (
        "real_ip_header",
        "which address counts depends on the new gateway: set `ip.trusted_hops` to the number of proxies",
    ),
];

/// The status of a refusal, unless the configuration sets one.
const STATUS: u64 = 503;

/// Keys that a megabyte of a zone holds, of 128 bytes each.
const KEYS_OF_A_MEGABYTE: u64 = 8_000;

/// The actors for which a table has room by default.
const DEFAULT_ACTORS: u64 = 100_000;

/// How deep blocks may be nested.
const MAX_DEPTH: usize = 32;

/// A directive of a file.
struct Line<'a> {
    input: &'a Input,
    directive: Directive,
}

impl Line<'_> {
    fn name(&self) -> &str {
        self.directive.words.first().map_or("", |word| word.text.as_str())
    }

    fn arguments(&self) -> &[Word] {
        self.directive.words.get(1..).unwrap_or_default()
    }

    fn spot(&self) -> Spot {
        let text = self.directive.texts().join(" ");
        let first = self.directive.words.first().map_or(0..0, |word| word.range.clone());
        let mut spot = self.input.spot_as(&first, text);
        if let Some((file, line)) =
            self.directive.included.as_deref().and_then(|place| place.rsplit_once(':'))
        {
            spot.file = file.into();
            spot.line = line.parse().unwrap_or(spot.line);
        }
        spot
    }

    fn wrong(&self, word: Option<&Word>, why: &str, expected: &str) -> miette::Report {
        let word = word.or(self.directive.words.first());
        self.input.wrong(&word.map_or(0..1, |word| word.range.clone()), why, expected)
    }
}

/// A zone.
struct Zone {
    spot: Spot,
    key: String,
    /// Requests per unit, and the unit in milliseconds; `None` for a zone of connections.
    rate: Option<(u64, u64)>,
}

/// A use of a zone.
#[derive(Clone)]
struct Use {
    line: usize,
    is_connections: bool,
    zone: String,
    burst: u64,
    early: Early,
    most: u64,
}

/// What a location limits.
#[derive(Clone, Default)]
struct Scope {
    requests: Vec<Use>,
    connections: Vec<Use>,
    request_status: Option<u64>,
    connection_status: Option<u64>,
    is_request_dry: bool,
    is_connection_dry: bool,
}

/// Converts configurations of nginx.
pub fn convert(inputs: &[Input], draft: &mut Draft, notes: &mut Notes) -> Result<()> {
    let lines = lines(inputs)?;
    let limits_something =
        |line: &Line| line.name().starts_with("limit_req") || line.name().starts_with("limit_conn");
    if let (Some(input), false) = (inputs.first(), lines.iter().any(limits_something)) {
        return Err(input.nothing(
            "the file has no `limit_req` and no `limit_conn`",
            "name the files of nginx that have them",
        ));
    }
    let zones = zones(&lines)?;
    Conversion { lines: &lines, zones, draft, notes, counters: Vec::new(), known: BTreeMap::new() }.run()
}

/// The directives of all files, as if one file had them.
fn lines(inputs: &[Input]) -> Result<Vec<Line<'_>>> {
    let (mut lines, mut depths): (Vec<Line>, Vec<usize>) = (Vec::new(), Vec::new());
    for input in inputs {
        let first = lines.len();
        let directives = nginx::directives(&input.file.text).map_err(|error| input.syntax(&error))?;
        let around = Around { path: Path::new(&input.file.name), files: &Disk };
        for mut directive in includes::expanded(&directives, around) {
            directive.parent = directive.parent.map(|parent| parent.saturating_add(first));
            let line = Line { input, directive };
            let depth = line
                .directive
                .parent
                .and_then(|parent| depths.get(parent))
                .map_or(0, |depth: &usize| depth.saturating_add(1));
            if depth > MAX_DEPTH {
                return Err(line.wrong(
                    None,
                    "blocks are nested more than 32 deep",
                    "blocks as nginx nests them",
                ));
            }
            depths.push(depth);
            lines.push(line);
        }
    }
    Ok(lines)
}

fn zones(lines: &[Line]) -> Result<BTreeMap<(bool, String), Zone>> {
    let mut zones = BTreeMap::new();
    for line in lines {
        let is_connections = match line.name() {
            "limit_req_zone" => false,
            "limit_conn_zone" => true,
            _ => continue,
        };
        let expected = if is_connections {
            "limit_conn_zone KEY zone=NAME:SIZE"
        } else {
            "limit_req_zone KEY zone=NAME:SIZE rate=10r/s"
        };
        let Some(key) = line.arguments().first() else {
            return Err(line.wrong(None, "the zone has no key", expected));
        };
        let value = |prefix: &str| {
            line.arguments().iter().find_map(|word| Some((word, word.text.strip_prefix(prefix)?)))
        };
        let Some((_, zone)) = value("zone=") else {
            return Err(line.wrong(None, "the zone has no name", expected));
        };
        let name = zone.split(':').next().unwrap_or_default().to_owned();
        let rate = match (is_connections, value("rate=")) {
            (true, _) => None,
            (false, Some((word, rate))) => Some(self::rate(rate).ok_or_else(|| {
                line.wrong(
                    Some(word),
                    "this is not a rate",
                    "a whole number of requests, such as `10r/s` or `30r/m`",
                )
            })?),
            // `ngx_http_limit_req_zone` begins with one request per second.
            (false, None) => Some((1, 1_000)),
        };
        zones.insert((is_connections, name), Zone { spot: line.spot(), key: key.text.clone(), rate });
    }
    Ok(zones)
}

/// `10r/s` or `30r/m`: the number, and the unit in milliseconds.
fn rate(text: &str) -> Option<(u64, u64)> {
    let (number, unit_ms) = match (text.strip_suffix("r/s"), text.strip_suffix("r/m")) {
        (Some(number), _) => (number, 1_000),
        (_, Some(number)) => (number, 60_000),
        _ => (text, 1_000),
    };
    let number: u64 = number.parse().ok()?;
    (1..=1_000_000_000).contains(&number).then_some((number, unit_ms))
}

/// `10m` in megabytes, rounded up.
fn megabytes(size: &str) -> Option<u64> {
    let size = size.to_ascii_lowercase();
    let (number, unit) = match (size.strip_suffix('m'), size.strip_suffix('k')) {
        (Some(number), _) => (number, 1_048_576),
        (_, Some(number)) => (number, 1_024),
        _ => (size.as_str(), 1),
    };
    Some(number.parse::<u64>().ok()?.checked_mul(unit)?.div_ceil(1_048_576))
}

/// The rules of a use of a zone.
struct Known {
    /// The numbers of the use.
    numbers: String,
    /// The server, if the zone counts by server.
    server: String,
    rules: Vec<usize>,
}

struct Conversion<'a> {
    lines: &'a [Line<'a>],
    zones: BTreeMap<(bool, String), Zone>,
    draft: &'a mut Draft,
    notes: &'a mut Notes,
    counters: Vec<Counter>,
    /// The rule of each use of a zone, by the zone and all that distinguishes its uses.
    known: BTreeMap<(bool, String), Vec<Known>>,
}

impl Conversion<'_> {
    fn run(mut self) -> Result<()> {
        self.others();
        self.zone_sizes();
        let servers = self.servers();
        let hosts = self.hosts(&servers);
        let mut places = Vec::new();
        let mut spots = Vec::new();
        for (server, conditions) in servers.iter().zip(hosts) {
            let Some(conditions) = conditions else { continue };
            let scope = match server {
                Some(server) => self.scope(*server)?,
                None => self.own_scope(None, Scope::default())?,
            };
            self.locations(*server, &scope, &conditions, &mut places, &mut spots)?;
        }
        self.note_zones();
        finish(&places, &spots, self.counters, self.draft, self.notes);
        Ok(())
    }

    /// Notes about directives that have no counterpart, or need none.
    fn others(&mut self) {
        for line in self.lines {
            let spot = line.spot();
            let name = line.name();
            if let Some((_, why)) = WITHOUT.iter().find(|(without, _)| *without == name) {
                self.notes.lost(&spot, *why);
            }
            match name {
                "limit_req_log_level" | "limit_conn_log_level" => self.notes.changed(
                    &spot,
                    "metrics and attributes of the access log",
                    "Diana logs no line for each refusal",
                ),
                "include" => {
                    let file = line.arguments().first().map_or("", |word| word.text.as_str());
                    let is_of_limits = !file.ends_with("mime.types") && !file.ends_with("_params");
                    if is_of_limits {
                        self.notes
                            .lost(&spot, "the file cannot be read from here: name it as a further FILE");
                    }
                }
                _ => {}
            }
        }
    }

    fn zone_sizes(&mut self) {
        let mut most = 0;
        for line in self.lines.iter().filter(|line| line.name().ends_with("_zone")) {
            let size =
                line.arguments().iter().find_map(|word| word.text.strip_prefix("zone=")?.split_once(':'));
            most = size.and_then(|(_, size)| megabytes(size)).unwrap_or(0).max(most);
        }
        let keys = most.saturating_mul(KEYS_OF_A_MEGABYTE).min(10_000_000);
        if keys > DEFAULT_ACTORS {
            self.draft.top.insert("local".into(), json!({"max_actors": keys}));
        }
    }

    /// The directives inside of a block.
    fn inside(&self, parent: Option<usize>) -> impl Iterator<Item = (usize, &Line<'_>)> {
        self.lines.iter().enumerate().filter(move |(_, line)| line.directive.parent == parent)
    }

    /// The servers. A file without any is the inside of one.
    fn servers(&self) -> Vec<Option<usize>> {
        let is_server = |line: &Line| line.name() == "server" && line.arguments().is_empty();
        let is_block = |index: usize| self.inside(Some(index)).next().is_some();
        let of_upstream = |line: &Line| line.directive.block == "upstream";
        let servers = self.lines.iter().enumerate();
        let servers =
            servers.filter(|(index, line)| is_server(line) && is_block(*index) && !of_upstream(line));
        let servers: Vec<Option<usize>> = servers.map(|(index, _)| Some(index)).collect();
        if servers.is_empty() { vec![None] } else { servers }
    }

    /// The names of a server, and whether it also takes the requests for all other hosts.
    fn names(&mut self, server: usize) -> (Vec<String>, bool) {
        let mut names = Vec::new();
        let mut is_default = false;
        let mut lost = Vec::new();
        for (_, line) in self.inside(Some(server)) {
            match line.name() {
                "listen" => {
                    is_default |= line
                        .arguments()
                        .iter()
                        .any(|word| word.text == "default_server" || word.text == "default")
                }
                "server_name" => {
                    for word in line.arguments() {
                        match word.text.to_ascii_lowercase().as_str() {
                            "_" | "" | "$hostname" => {}
                            name if name.starts_with('~')
                                || name.ends_with(".*")
                                || name.contains(':') && !name.starts_with('[') =>
                            {
                                lost.push((
                                    line.spot(),
                                    format!("`hosts` has names and `*.name`, but not `{name}`"),
                                ));
                            }
                            name => match name.strip_prefix('.') {
                                Some(name) => names.extend([name.to_owned(), format!("*.{name}")]),
                                None => names.push(name.to_owned()),
                            },
                        }
                    }
                }
                _ => {}
            }
        }
        for (spot, why) in lost {
            self.notes.lost(&spot, why);
        }
        names.sort();
        names.dedup();
        (names, is_default)
    }

    /// The conditions of each server; `None` for one that another server with its names replaces.
    fn hosts(&mut self, servers: &[Option<usize>]) -> Vec<Option<Object>> {
        let mut names: Vec<(Vec<String>, bool)> = Vec::new();
        for server in servers {
            let found = server.map_or((Vec::new(), true), |server| self.names(server));
            names.push(found);
        }
        let has_default = names.iter().any(|(_, is_default)| *is_default);
        let default = names
            .iter()
            .position(|(names, is_default)| if has_default { *is_default } else { names.is_empty() });
        let default = default.or(Some(0));
        let mut conditions = Vec::new();
        let distinct: BTreeSet<&Vec<String>> = names.iter().map(|(names, _)| names).collect();
        for (index, (own, _)) in names.iter().enumerate() {
            let same: Vec<usize> = (0..names.len())
                .filter(|other| names.get(*other).is_some_and(|(names, _)| names == own))
                .collect();
            let limits = |index: &usize| servers.get(*index).is_some_and(|server| self.has_limits(*server));
            // Of servers with the same names, which differ in what they listen on, one counts.
            let chosen = same.iter().find(|index| limits(index)).or(same.first());
            if chosen != Some(&index) {
                conditions.push(None);
                continue;
            }
            let is_default = default.is_some_and(|default| same.contains(&default));
            let condition = if distinct.len() == 1 {
                Object::new()
            } else if is_default {
                let others: BTreeSet<&String> =
                    names.iter().filter(|(names, _)| names != own).flat_map(|(names, _)| names).collect();
                let mut condition = Object::new();
                if !others.is_empty() {
                    condition.insert("hosts".into(), json!({"not": others}));
                }
                condition
            } else {
                Object::from_iter([("hosts".to_owned(), json!(own))])
            };
            // A server without a name that is not the default gets no request.
            let is_reached = is_default || !own.is_empty();
            conditions.push(is_reached.then_some(condition));
        }
        for (server, condition) in servers.iter().zip(&conditions) {
            if let (Some(index), None, true) = (server, condition, self.has_limits(*server))
                && let Some(line) = self.lines.get(*index)
            {
                let why = "another server has the same names: Diana does not tell apart on which port a request came";
                self.notes.lost(&line.spot(), why);
            }
        }
        conditions
    }

    /// Whether a server or one of its locations uses a zone.
    fn has_limits(&self, server: Option<usize>) -> bool {
        let Some(server) = server else { return true };
        let is_use = |line: &Line| matches!(line.name(), "limit_req" | "limit_conn");
        let is_inside = |line: &Line| {
            let mut parent = line.directive.parent;
            let mut steps = 0usize;
            while let Some(index) = parent.filter(|_| steps < 100) {
                if index == server {
                    return true;
                }
                steps = steps.saturating_add(1);
                parent = self.lines.get(index).and_then(|line| line.directive.parent);
            }
            false
        };
        self.lines.iter().any(|line| is_use(line) && is_inside(line))
    }

    /// What a block limits, with what it inherits.
    fn scope(&mut self, block: usize) -> Result<Scope> {
        let parent = self.lines.get(block).and_then(|line| line.directive.parent);
        let parent_scope = match parent {
            Some(parent) => self.scope(parent)?,
            None => self.own_scope(None, Scope::default())?,
        };
        self.own_scope(Some(block), parent_scope)
    }

    fn own_scope(&mut self, block: Option<usize>, inherited: Scope) -> Result<Scope> {
        let mut scope = inherited;
        let (mut requests, mut connections) = (Vec::new(), Vec::new());
        let own: Vec<usize> = self.inside(block).map(|(index, _)| index).collect();
        for index in own {
            let Some(line) = self.lines.get(index) else { continue };
            let argument = line.arguments().first();
            let is_on = argument.is_some_and(|word| word.text == "on");
            match line.name() {
                "limit_req" => requests.push(self.requests(index, line)?),
                "limit_conn" => connections.push(Self::connections(index, line)?),
                "limit_req_status" => scope.request_status = Some(self.status(line)?),
                "limit_conn_status" => scope.connection_status = Some(self.status(line)?),
                "limit_req_dry_run" => {
                    scope.is_request_dry = is_on;
                    self.dry_run(line, is_on);
                }
                "limit_conn_dry_run" => {
                    scope.is_connection_dry = is_on;
                    self.dry_run(line, is_on);
                }
                _ => {}
            }
        }
        if !requests.is_empty() {
            scope.requests = requests;
        }
        if !connections.is_empty() {
            scope.connections = connections;
        }
        Ok(scope)
    }

    fn dry_run(&mut self, line: &Line, is_on: bool) {
        self.notes.kept(&line.spot(), if is_on { "mode: shadow" } else { "mode: enforce, the default" });
    }

    fn status(&mut self, line: &Line) -> Result<u64> {
        let word = line.arguments().first();
        let status =
            word.and_then(|word| word.text.parse::<u64>().ok()).filter(|status| (400..=599).contains(status));
        let status = status.ok_or_else(|| line.wrong(word, "this is not a status", "400 to 599"))?;
        self.notes.kept(&line.spot(), format!("response: {{status: {status}}}"));
        Ok(status)
    }

    fn requests(&self, index: usize, line: &Line) -> Result<Use> {
        let expected = "limit_req zone=NAME [burst=N] [nodelay | delay=N]";
        let mut found = Use {
            line: index,
            is_connections: false,
            zone: String::new(),
            burst: 0,
            early: Early::Waits,
            most: 0,
        };
        for word in line.arguments() {
            let number = |text: &str| match text.parse::<u64>() {
                Ok(number) if number <= 999_999_999 => Ok(number),
                _ => Err(line.wrong(
                    Some(word),
                    "this is not a number of requests",
                    "a whole number up to 999999999",
                )),
            };
            match word.text.split_once('=').unwrap_or((&word.text, "")) {
                ("zone", name) => found.zone = name.into(),
                ("burst", burst) => found.burst = number(burst)?,
                ("delay", delay) => found.early = Early::WaitsBeyond(number(delay)?),
                ("nodelay", "") => found.early = Early::Passes,
                _ => return Err(line.wrong(Some(word), "this is not an argument of `limit_req`", expected)),
            }
        }
        match self.zones.contains_key(&(false, found.zone.clone())) {
            true => Ok(found),
            false => Err(line.wrong(
                line.arguments().first(),
                &format!("no `limit_req_zone` has the name `{}`", found.zone),
                expected,
            )),
        }
    }

    fn connections(index: usize, line: &Line) -> Result<Use> {
        let expected = "limit_conn ZONE NUMBER";
        let [zone, number] = line.arguments() else {
            return Err(line.wrong(None, "`limit_conn` has two arguments", expected));
        };
        let most = number.text.parse::<u64>().ok().filter(|most| (1..=65_535).contains(most));
        let most = most
            .ok_or_else(|| line.wrong(Some(number), "this is not a number of connections", "1 to 65535"))?;
        Ok(Use {
            line: index,
            is_connections: true,
            zone: zone.text.clone(),
            burst: 0,
            early: Early::Passes,
            most,
        })
    }

    /// The places of a server or a location, and of the locations inside of it.
    fn locations(
        &mut self,
        block: Option<usize>,
        scope: &Scope,
        conditions: &Object,
        places: &mut Vec<Place>,
        spots: &mut Vec<Spot>,
    ) -> Result<()> {
        let own: Vec<usize> = self.inside(block).map(|(index, _)| index).collect();
        let names = |line: &Line, name: &str| line.name() == name;
        let is_root = |line: &Line| {
            names(line, "location")
                && matches!(line.directive.texts()[..], ["location", "/"] | ["location", "^~", "/"])
        };
        let is_server =
            block.is_none_or(|block| self.lines.get(block).is_some_and(|line| names(line, "server")));
        let has_root = own.iter().any(|index| self.lines.get(*index).is_some_and(is_root));
        if is_server && !has_root {
            let line = block.and_then(|block| self.lines.get(block));
            let spot = line.or(self.lines.first()).map(Line::spot);
            if let Some(spot) = spot {
                self.place("/".into(), scope, conditions, &spot, (&mut *places, &mut *spots))?;
            }
        }
        for index in own {
            let Some(line) = self.lines.get(index).filter(|line| line.name() == "location") else { continue };
            let scope = self.own_scope(Some(index), scope.clone())?;
            let spot = line.spot();
            let url = self.url(line, &scope).map(places::url);
            match url.transpose().map_err(|why| line.wrong(line.arguments().last(), &why, "a path"))? {
                Some(url) => self.place(url, &scope, conditions, &spot, (&mut *places, &mut *spots))?,
                None => continue,
            }
            self.locations(Some(index), &scope, conditions, places, spots)?;
        }
        Ok(())
    }

    /// The url of a location.
    fn url(&mut self, line: &Line, scope: &Scope) -> Option<String> {
        let texts = line.directive.texts();
        let (modifier, path) = match texts.get(1..)? {
            [modifier, path] => (*modifier, *path),
            [path] => {
                let modifiers = ["=", "^~", "~*", "~"];
                let modifier =
                    modifiers.into_iter().find(|modifier| path.starts_with(modifier)).unwrap_or("");
                (modifier, path.strip_prefix(modifier).unwrap_or(path))
            }
            _ => return None,
        };
        let spot = line.spot();
        let limits = !scope.requests.is_empty() || !scope.connections.is_empty();
        if path.starts_with('@') {
            return None;
        }
        let literal = path.replace('*', "%2A").replace('{', "%7B").replace('}', "%7D");
        match modifier {
            "=" => {
                self.notes.kept(&spot, format!("url: ={literal}"));
                Some(format!("={literal}"))
            }
            "" | "^~" => {
                let becomes = format!("url: {literal}");
                match path {
                    "/" => self.notes.kept(&spot, becomes),
                    path if path.ends_with('/') => {
                        let alone = path.trim_end_matches('/');
                        self.notes.changed(&spot, becomes, format!("Diana's url also matches `{alone}`"));
                    }
                    path => self.notes.changed(
                        &spot,
                        becomes,
                        format!("nginx also matches paths such as `{path}x`"),
                    ),
                }
                Some(literal)
            }
            _ => {
                let what = if limits {
                    "the limits of this location are left out"
                } else {
                    "its requests count as those of the location around it"
                };
                self.notes.lost(&spot, format!("a url is a path, not a regular expression: {what}"));
                None
            }
        }
    }

    fn place(
        &mut self,
        url: String,
        scope: &Scope,
        conditions: &Object,
        spot: &Spot,
        (places, spots): (&mut Vec<Place>, &mut Vec<Spot>),
    ) -> Result<()> {
        let mut rules = BTreeSet::new();
        for used in scope.requests.iter().chain(&scope.connections) {
            rules.extend(self.rules(used, scope, conditions)?);
        }
        places.push(Place { url, conditions: conditions.clone(), rules, from: spot.place() });
        spots.push(spot.clone());
        Ok(())
    }

    /// The rules of a use of a zone, one for each variant of the key.
    fn rules(&mut self, used: &Use, scope: &Scope, place: &Object) -> Result<Vec<usize>> {
        let Use { is_connections, zone: name, burst, early, most, line } = used;
        let Some(line) = self.lines.get(*line) else { return Ok(Vec::new()) };
        let spot = line.spot();
        let Some(zone) = self.zones.get(&(*is_connections, name.clone())) else {
            let expected = "limit_conn_zone KEY zone=NAME:SIZE";
            return Err(line.wrong(
                line.arguments().first(),
                &format!("no `limit_conn_zone` has the name `{name}`"),
                expected,
            ));
        };
        let (status, is_dry) = match is_connections {
            true => (scope.connection_status, scope.is_connection_dry),
            false => (scope.request_status, scope.is_request_dry),
        };
        let status = status.unwrap_or(STATUS);
        let reader = Reader::new(self.lines.iter().map(|line| &line.directive).collect());
        let (key, rate) = (zone.key.clone(), zone.rate);
        let variants = match reader.variants(&key) {
            Ok(variants) => variants,
            Err(why) => {
                self.notes.lost(&spot, why);
                return Ok(Vec::new());
            }
        };
        let by_server = variants.iter().any(|variant| variant.actors.contains(&Actor::Server));
        let server = if by_server { Value::from(place.clone()).to_string() } else { String::new() };
        let numbers = format!("{burst} {early:?} {most} {status} {is_dry}");
        let known = self.known.entry((*is_connections, name.clone())).or_default();
        if let Some(known) = known.iter().find(|known| known.numbers == numbers && known.server == server) {
            return Ok(known.rules.clone());
        }
        if variants.is_empty() {
            self.notes.kept(&spot, "no rule: the key is always empty");
        }
        let mut rules = Vec::new();
        for variant in variants {
            let (mut keys, less) = match (is_connections, rate) {
                (false, Some((rpu, unit_ms))) => {
                    Requests { rpu, unit_ms, burst: *burst, early: *early }.rule()
                }
                _ => (connections(*most), None),
            };
            keys.extend(self.actor_keys(&variant));
            keys.insert("name".into(), self.draft.name(name).into());
            if is_dry {
                keys.insert("mode".into(), json!("shadow"));
            }
            let rule = Rule::new(keys, &spot);
            match (is_connections, less) {
                (_, Some(why)) => self.notes.changed(&spot, rule.numbers(), why),
                (true, None) => self.notes.changed(&spot, rule.numbers(), PERMITS),
                (false, None) => self.notes.kept(&spot, rule.numbers()),
            }
            rules.push(self.counters.len());
            self.counters.push(Counter {
                rule,
                conditions: variant.conditions,
                response: Some(json!({"status": status})),
                spot: spot.clone(),
            });
        }
        let known = self.known.entry((*is_connections, name.clone())).or_default();
        known.push(Known { numbers, server, rules: rules.clone() });
        Ok(rules)
    }

    fn actor_keys(&mut self, variant: &Variant) -> Object {
        let mut names = Vec::new();
        for actor in &variant.actors {
            let name = match actor {
                Actor::Ip => "ip".into(),
                Actor::Header(name) => self.draft.header(name),
                Actor::Source(wish, source) => self.draft.actor(wish, source.clone()),
                Actor::Server => continue,
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let missing = match names.len() {
            _ if !variant.may_lack_a_part() => None,
            // nginx counts no request whose key is empty.
            1 if !variant.has_text && !variant.actors.contains(&Actor::Server) => Some("skip"),
            _ => Some("share"),
        };
        let actor = match names.as_slice() {
            [] => None,
            [only] => Some(json!(only)),
            all => Some(json!(all)),
        };
        let mut keys = Object::new();
        keys.extend(actor.map(|actor| ("actor".to_owned(), actor)));
        keys.extend(missing.map(|missing| ("missing".to_owned(), json!(missing))));
        keys
    }

    /// Notes about the zones, after all their uses.
    fn note_zones(&mut self) {
        let reader = Reader::new(self.lines.iter().map(|line| &line.directive).collect());
        for ((is_connections, name), zone) in &self.zones {
            let uses = self.known.get(&(*is_connections, name.clone())).map_or(&[][..], Vec::as_slice);
            let servers: BTreeSet<&String> = uses.iter().map(|known| &known.server).collect();
            let variants = reader.variants(&zone.key);
            if uses.is_empty() {
                match variants {
                    Ok(_) => self.notes.kept(&zone.spot, "no rule: no location uses the zone"),
                    Err(why) => self.notes.lost(&zone.spot, why),
                }
                continue;
            }
            if uses.len() > servers.len() {
                self.notes.lost(
                    &zone.spot,
                    format!(
                        "nginx counts all locations of the zone `{name}` together, but with different numbers, \
                         which are separate rules here"
                    ),
                );
            }
            let mut why = Vec::new();
            if let Some((rpu, 60_000)) = zone.rate {
                let thousandths = rpu.saturating_mul(1_000);
                if thousandths.checked_rem(60) != Some(0) {
                    let real = thousandths.checked_div(60).unwrap_or(0).saturating_mul(60);
                    let (whole, rest) =
                        (real.checked_div(1_000).unwrap_or(0), real.checked_rem(1_000).unwrap_or(0));
                    why.push(format!("nginx truncates the rate to {whole}.{rest:03} a minute"));
                }
            }
            let variants = variants.unwrap_or_default();
            let has = |actor: &Actor| variants.iter().any(|variant| variant.actors.contains(actor));
            if has(&Actor::Ip) {
                why.push(IPV6.into());
            }
            let is_shared = |variant: &Variant| {
                let others = variant.actors.iter().filter(|actor| **actor != Actor::Server);
                variant.may_lack_a_part() && others.count() > 1
            };
            if variants.iter().any(is_shared) {
                why.push("requests that lack a part of the key count together".into());
            }
            if variants.iter().any(|variant| variant.is_loose) {
                why.push("`host` has no port".into());
            }
            let becomes = match zone.rate {
                Some((rpu, unit_ms)) => format!("rpu: {rpu}, unit: {}", super::rate::unit(unit_ms)),
                None => "algo: C".into(),
            };
            match why.is_empty() {
                true => self.notes.kept(&zone.spot, becomes),
                false => self.notes.changed(&zone.spot, becomes, why.join("; ")),
            }
        }
        let blocks = reader.used_blocks(self.zones.values().map(|zone| zone.key.as_str()));
        for index in blocks {
            if let Some(line) = self.lines.get(index) {
                self.notes.kept(&line.spot(), "conditions and actors of the rules");
            }
        }
    }
}
