//! Random requests that a document's limits match, and what happens to them.

use crate::case::{Case, Change, Step, Usage, WORKERS};
use crate::random::Random;
use serde_json::Value;
use std::collections::BTreeMap;

/// `{"plan": "42", "sub": "ann"}` as an unsigned bearer token.
const TOKEN: &str = "Bearer eyJhbGciOiJub25lIn0.eyJwbGFuIjogIjQyIiwgInN1YiI6ICJhbm4ifQ.";

const USERS: [&[&str]; 10] =
    [&[], &["ann"], &["ann"], &["ann"], &["bob"], &["bob"], &["eve"], &["root"], &[""], &["ann", "bob"]];

/// How far the clock moves at once.
const SPANS_MS: [u64; 16] =
    [1, 5, 20, 50, 99, 100, 101, 150, 200, 500, 999, 1_000, 1_001, 5_000, 60_000, 3_600_000];

const STATUSES: [u16; 8] = [200, 200, 200, 200, 401, 403, 500, 503];

pub(crate) fn random(random: &mut Random, seed: u64, document: Value) -> Case {
    let urls: Vec<&str> = document["limits"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|limit| limit["url"].as_str())
        .collect();
    let requests: Vec<_> = (0..2 + random.below(4)).map(|_| request(random, &urls)).collect();
    let rules = names(&document);
    let mut traffic = Traffic { steps: Vec::new(), ids: 0, open: Vec::new(), requests: requests.len() };
    for _ in 0..10 + random.below(70) {
        traffic.step(random, &rules);
    }
    traffic.finish();
    let reserves = !random.one_in(8);
    Case { seed, document, reserves, requests, steps: traffic.steps }
}

fn names(document: &Value) -> Vec<String> {
    let limits = document["limits"].as_array().into_iter().flatten();
    let rules = limits.flat_map(|limit| limit["rules"].as_array().into_iter().flatten());
    rules.filter_map(|rule| rule["name"].as_str().map(str::to_owned)).collect()
}

fn request(random: &mut Random, urls: &[&str]) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut add = |part: &str, line: &str| lines.push((part.into(), line.into()));
    let path = match urls.get(random.below(urls.len().max(1))) {
        Some(url) if !random.one_in(6) => {
            url.trim_start_matches('=').replace("{tenant}", "t1").replace('*', "x")
        }
        _ => random.pick(&["/", "/api/1", "/users/t2/x", "/%61pi"]).into(),
    };
    let path = if random.one_in(3) { path + "?q=abc" } else { path };
    add("path", &path);
    add("method", random.pick(&["GET", "GET", "POST"]));
    add("host", random.pick(&["a.example", "A.example:80", "b.test"]));
    let addresses =
        ["10.0.0.1:0", "10.0.0.1:9", "10.0.0.2:1", "10.0.0.9:1", "10.0.0.8:1", "[2001:db8::1]:80", "pipe"];
    add("address", random.pick(&addresses));
    random.pick(&USERS).iter().for_each(|user| add("header x-user-id", user));
    let optional: [(&str, &[&str]); 8] = [
        ("header x-device-id", &["d1", "d2"]),
        ("header x-forwarded-for", &["10.0.0.2", "x, 10.0.0.1", "none"]),
        ("header x-plan", &["free", "gold", "gold", "other"]),
        ("header x-cost", &["0", "1", "2", "7", "x"]),
        ("header x-key", &["k1", "k2"]),
        ("header cookie", &["id=7", "id=8; x=1"]),
        ("header authorization", &[TOKEN, "Bearer x"]),
        ("body_size", &["0", "3", "20"]),
    ];
    for (part, values) in optional {
        if random.one_in(2) {
            add(part, random.pick(values));
        }
    }
    add("property route", random.pick(&["r1", "s1"]));
    lines
}

struct Traffic {
    steps: Vec<Step>,
    ids: u32,
    /// The requests that have not ended.
    open: Vec<u32>,
    requests: usize,
}

impl Traffic {
    fn step(&mut self, random: &mut Random, rules: &[String]) {
        match random.below(100) {
            0..4 => {
                // Two workers decide at once, in the cells of one actor or of two.
                let (worker, request) = (random.below(WORKERS), random.below(self.requests));
                let other = if random.one_in(2) { request } else { random.below(self.requests) };
                self.ids += 1;
                self.open.push(self.ids);
                let (swaps, id) = (random.below(2) as u32, self.ids);
                let worker_then = (worker + 1) % WORKERS;
                self.steps.push(Step::Meanwhile { swaps, worker: worker_then, request: other, id });
                self.ask(worker, request, 1);
            }
            4..48 => {
                // A burst makes an actor busy, so that its worker reserves.
                let times = random.pick(&[1, 1, 1, 2, 3, 5, 8, 20, 20]);
                self.ask(random.below(WORKERS), random.below(self.requests), times);
            }
            48..62 => self.end(random),
            62..66 => {
                if let Some(id) = self.pick(random) {
                    let forwarded = random.one_in(2).then_some(Step::Forward { id });
                    let status = (!random.one_in(8)).then(|| random.pick(&STATUSES));
                    self.steps.extend(forwarded.into_iter().chain([Step::Respond { id, status }]));
                }
            }
            66..70 => {
                let id = self.pick(random);
                self.steps.extend(id.map(|id| Step::Resume { id }));
            }
            70..72 => {
                // A host that cannot hold a request refuses it before the worker's next decision.
                self.ask(random.below(WORKERS), random.below(self.requests), 1);
                self.steps.push(Step::Refuse { id: self.ids });
            }
            72..90 => {
                let days = random.one_in(60);
                let ms = if days { 86_400_000 } else { random.pick(&SPANS_MS) };
                self.steps.push(Step::Pass { ms });
                if ms >= 100 && !random.one_in(8) {
                    (0..WORKERS).for_each(|worker| self.tick(worker, false));
                }
            }
            90..94 => self.tick(random.below(WORKERS), random.one_in(12)),
            94 => self.steps.push(Step::Back { ms: random.pick(&[1, 50, 2_000]) }),
            95 => {
                let fails = random.one_in(3);
                self.steps.push(Step::Fail { fails });
            }
            96 if random.one_in(3) => {
                let request = (!random.one_in(3)).then(|| random.below(self.requests));
                self.steps.push(Step::Panic { worker: random.below(WORKERS), request });
            }
            96 => self.steps.push(Step::Lose { swaps: 1 + random.below(2) as u32 }),
            _ => self.inspect(random, rules),
        }
    }

    fn ask(&mut self, worker: usize, request: usize, times: u32) {
        self.ids += 1;
        self.open.push(self.ids);
        self.steps.push(Step::Ask { worker, request, id: self.ids, times });
    }

    fn tick(&mut self, worker: usize, retires: bool) {
        self.steps.push(Step::Tick { worker, retires });
    }

    fn pick(&self, random: &mut Random) -> Option<u32> {
        self.open.get(random.below(self.open.len().max(1))).copied()
    }

    fn end(&mut self, random: &mut Random) {
        if self.open.is_empty() {
            return;
        }
        let id = self.open.remove(random.below(self.open.len()));
        let usage = Usage {
            status: (!random.one_in(6)).then(|| random.pick(&STATUSES)),
            request_bytes: random.pick(&[0, 3, 20, 40]),
            response_bytes: random.pick(&[0, 1, 9, 200]),
            number: (!random.one_in(4)).then(|| random.pick(&[0, 1, 2, 7, 100])),
            is_final: !random.one_in(5),
        };
        let usage = (!random.one_in(6)).then_some(usage);
        self.steps.push(Step::End { id, usage });
    }

    fn inspect(&mut self, random: &mut Random, rules: &[String]) {
        let Some(rule) = rules.get(random.below(rules.len().max(1))) else { return };
        let mut parameters = BTreeMap::new();
        let values = [
            ("user", "ann"),
            ("ip", "10.0.0.1"),
            ("device", "d1"),
            ("key", "k1"),
            ("route", "r1"),
            ("net", "10.0.0.1"),
            ("crumb", "7"),
            ("q", "abc"),
            ("claim", "ann"),
            ("part", "t1"),
            ("verb", "GET"),
            ("site", "a.example"),
            ("tenant", "t1"),
            ("rule", rule),
        ];
        values
            .iter()
            .for_each(|(name, value)| _ = parameters.insert((*name).to_owned(), (*value).to_owned()));
        let change = match random.below(6) {
            0 => Change::Reset,
            1 => Change::EndPenalty,
            2 | 3 => Change::Grant { amount: random.pick(&[1, 5, 50]), secs: random.pick(&[1, 60, 3_600]) },
            _ => Change::Look,
        };
        self.steps.push(Step::Inspect { worker: random.below(WORKERS), change, parameters });
    }

    /// Shows what the store holds, to workers without any memory: with the reservations of the
    /// others, after these are back, and after all requests have ended.
    fn finish(&mut self) {
        self.steps.push(Step::Fail { fails: false });
        let ask_all = |traffic: &mut Traffic, worker: usize| {
            (0..traffic.requests).for_each(|request| traffic.ask(worker, request, 1));
        };
        ask_all(self, WORKERS);
        self.steps.push(Step::Pass { ms: 200 });
        (0..WORKERS).for_each(|worker| self.tick(worker, true));
        ask_all(self, WORKERS + 1);
        let open = std::mem::take(&mut self.open);
        self.steps.extend(open.into_iter().map(|id| Step::End { id, usage: None }));
        ask_all(self, WORKERS + 2);
    }
}
