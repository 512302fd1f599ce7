//! Streams with bodies and responses, which overlap and end in all ways, against a slow model. Each
//! stream is settled exactly once, and is charged what it used. Any bytes are a list of operations.

mod model;

use super::faults::{FaultKind, Faults};
use super::gateway::{Fate, Gateway};
use super::vm::Vm;
use diana::Exports;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;
pub use model::Seen;
use model::{Model, RULES, Used};

const USERS: [&str; 2] = ["ann", "bob"];
/// No refusal is served from the cache of a worker after so many milliseconds.
const STEP_MS: u64 = 150;

/// The rules of the model; most requests for `/slow` wait. `neighbour` changes another limit.
fn document(neighbour: u64) -> String {
    format!(
        r#"{{"limits": [
            {{"url": "/", "rules": [{RULES}]}},
            {{"url": "/slow", "rules": [
                {{"name": "turns", "algo": "LB", "rpu": 1, "unit": "10s", "queue": 60}}]}},
            {{"url": "/neighbour", "rules": [{{"rpu": {neighbour}, "unit": "day"}}]}}]}}"#
    )
}

/// A response as it passes, in parts.
struct Response {
    status: u32,
    headers: Vec<(&'static str, &'static str)>,
    parts: Vec<&'static str>,
    /// The number in the body after each part.
    numbers: Vec<Option<u64>>,
    /// Whether the number is known after so many parts. The flag says whether the response has
    /// ended.
    is_known: fn(usize, bool) -> bool,
}

impl Response {
    fn of(what: u8) -> Response {
        let status = [200, 200, 204, 401, 404, 500, 503][usize::from(what % 7)];
        let mut headers = Vec::new();
        let x_tokens = [None, Some("11"), Some("0"), Some("many")][usize::from(what / 7 % 4)];
        headers.extend(x_tokens.map(|value| ("x-tokens", value)));
        type IsKnown = fn(usize, bool) -> bool;
        let (kind, is_known, parts): (_, IsKnown, Vec<_>) = match what / 28 % 5 {
            0 => (
                "application/json",
                |parts, _| parts > 1,
                vec![
                    (r#"{"id": "x", "us"#, None),
                    (r#"age": {"total_tokens": 120}"#, Some(120)),
                    ("}", Some(120)),
                ],
            ),
            1 => (
                "text/event-stream",
                |parts, has_ended| parts > 0 && has_ended,
                vec![
                    ("data: {\"choices\": []}\n\n", None),
                    ("data: {\"usage\": {\"total_tokens\": 9}}\n\n", Some(9)),
                    ("data: {\"choices\": []}\n\ndata: {\"usage\": {\"total_tokens\": 900}}\n\n", Some(900)),
                    ("data: [DONE]\n\n", Some(900)),
                ],
            ),
            2 => (
                "application/problem+json; charset=utf-8",
                |parts, has_ended| parts > 0 && has_ended,
                vec![("{\"usage\": null}", None)],
            ),
            3 if status >= 300 => ("text/plain", |_, _| true, vec![("no", None)]),
            3 => (
                "text/plain",
                |parts, has_ended| parts == 0 && has_ended,
                vec![(r#"{"usage": {"total_tokens": 3}}"#, None); 9],
            ),
            _ => ("application/json", |_, _| false, Vec::new()),
        };
        headers.push(("content-type", kind));
        let is_encoded = what >= 140 && what.is_multiple_of(2);
        headers.extend(is_encoded.then_some(("content-encoding", "gzip")));
        // A response with the status 204 has no number, whatever comes.
        let is_known: IsKnown = match is_encoded {
            _ if status == 204 => |_, _| true,
            true => |_, _| false,
            false => is_known,
        };
        let is_read = !is_encoded && status != 204;
        let numbers = parts.iter().map(|(_, number)| number.filter(|_| is_read)).collect();
        let parts = parts.into_iter().map(|(part, _)| part).collect();
        Response { status, headers, parts, numbers, is_known }
    }

    /// The number in the header, and whether there is no other.
    fn named(&self) -> (Option<u64>, bool) {
        let value = self.headers.iter().find(|(name, _)| *name == "x-tokens").map(|(_, value)| value);
        let number = value.and_then(|value| value.parse().ok());
        (number, number.is_some() || value.is_none())
    }
}

/// A stream that has not ended.
struct Open {
    worker: usize,
    id: u32,
    request: usize,
    user: usize,
    /// What each rule charged on arrival, and showed as left.
    charged: Vec<u64>,
    left: Vec<u64>,
    used: Used,
    /// The response, and how many of its parts have passed.
    response: Option<(Response, usize)>,
}

struct Run {
    gateway: Gateway,
    model: Model,
    open: Vec<Open>,
}

/// The setup of a run.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub workers: usize,
    pub reenters: bool,
    /// Whether the host reports the parts of a body that it holds.
    pub reports_held: bool,
    /// One swap in so many is lost.
    pub one_in: u64,
    pub seed: u64,
}

/// Runs one operation for each two bytes, and checks each decision and what is left.
pub fn play(setup: Setup, bytes: &[u8]) -> Seen {
    let mut run = Run::new(setup);
    let (operations, _) = bytes.as_chunks::<2>();
    operations.iter().for_each(|operation| run.step(*operation));
    run.conclude()
}

impl Run {
    fn new(setup: Setup) -> Run {
        let Setup { workers, reenters, reports_held, one_in, seed } = setup;
        let gateway = Gateway::new(CasSemantics::Lenient, workers, Exports::Useful, reenters);
        assert!(gateway.configure(&document(1)), "{:?}", gateway.world.log.borrow());
        gateway.world.reports_held.set(reports_held);
        *gateway.world.faults.borrow_mut() = Faults { kind: FaultKind::LostSwaps, one_in, seed };
        Run { gateway, model: Model::default(), open: Vec::new() }
    }

    fn step(&mut self, [kind, what]: [u8; 2]) {
        let which = usize::from(kind >> 4);
        match kind % 16 {
            0..5 => self.arrive(which, what),
            5..7 => self.request_body(which, what),
            7..10 => self.respond(which, what),
            10 => self.pass_parts(which, usize::from(what % 4)),
            11..13 => self.end(which, what),
            13 => self.gateway.pass(u64::from(what) * 10),
            14 => self.reload(which, what),
            _ => self.gateway.vms[which % self.gateway.vms.len()].repeat(what, 2_000_000 + u32::from(what)),
        }
        self.gateway.pass(STEP_MS);
    }

    fn vm(&self, worker: usize) -> &Vm {
        &self.gateway.vms[worker % self.gateway.vms.len()]
    }

    fn arrive(&mut self, worker: usize, what: u8) {
        let user = usize::from(what % 2);
        let declared = [None, Some(0), Some(40), Some(700), None][usize::from(what / 2 % 5)];
        let path = if (what / 10).is_multiple_of(4) { "/slow" } else { "/" };
        let mut parts: Vec<(Part, Vec<u8>)> = vec![
            (Part::Method, "POST".into()),
            (Part::Path, path.into()),
            (Part::Host, "a".into()),
            (Part::Header("x-user-id".into()), USERS[user].into()),
            (Part::Address, "10.0.0.1:0".into()),
        ];
        parts.extend(declared.map(|size| (Part::Header("content-length".into()), size.to_string().into())));
        let request = self.vm(worker).ask(parts);
        let fate = self.gateway.fate(request);
        let Some((charged, left)) = self.model.arrive(user, declared.unwrap_or(0)) else {
            return assert_eq!(fate, Fate::Answered(429), "{what}: {:?}", self.model);
        };
        assert!(matches!(fate, Fate::Upstream | Fate::Paused), "{what}: {fate:?} {:?}", self.model);
        let id = self.vm(worker).stream_of(request);
        let used = Used::default();
        self.open.push(Open { worker, id, request, user, charged, left, used, response: None });
    }

    fn request_body(&mut self, which: usize, what: u8) {
        let Some(index) = self.pick(which) else { return };
        let (worker, id) = (self.open[index].worker, self.open[index].id);
        self.vm(worker).request_body(id, what.into());
        self.open[index].used.request_bytes += u64::from(what);
    }

    /// The upstream's response begins.
    fn respond(&mut self, which: usize, what: u8) {
        let Some(index) = self.pick(which) else { return };
        let open = &self.open[index];
        if open.response.is_none() && self.gateway.fate(open.request) == Fate::Upstream {
            self.begin(index, Response::of(what));
        }
    }

    fn begin(&mut self, index: usize, response: Response) {
        let (worker, id) = (self.open[index].worker, self.open[index].id);
        self.vm(worker).respond(id, response.status, &response.headers);
        self.check_headers(self.open[index].request, &self.open[index].left);
        let open = &mut self.open[index];
        open.used.status = Some(response.status);
        open.used.named = response.named();
        open.response = Some((response, 0));
    }

    /// Some parts of the response pass, each in two pieces.
    fn pass_parts(&mut self, which: usize, count: usize) {
        let Some(index) = self.pick(which) else { return };
        for _ in 0..count {
            let open = &mut self.open[index];
            let Some((response, passed)) = &mut open.response else { return };
            let Some(part) = response.parts.get(*passed).copied() else { return };
            open.used.number.0 = response.numbers[*passed];
            open.used.response_bytes += part.len() as u64;
            *passed += 1;
            let (worker, id) = (open.worker, open.id);
            let (first, second) = part.as_bytes().split_at(part.len() / 2);
            [first, second].into_iter().for_each(|piece| self.vm(worker).response_body(id, piece));
        }
    }

    fn end(&mut self, which: usize, what: u8) {
        let Some(index) = self.pick(which) else { return };
        let has_response = self.open[index].response.is_some();
        match what % 3 {
            // The response is complete.
            0 if has_response => self.pass_parts(which, 99),
            // The host replies itself, even to a request that waits.
            1 if !has_response => {
                let headers = vec![("content-type", "text/plain")];
                let (parts, numbers) = (vec!["upstream request timeout"], vec![None]);
                let is_known = |_, _| true;
                self.begin(index, Response { status: 504, headers, parts, numbers, is_known });
                self.pass_parts(which, 1);
            }
            // The client leaves, or the upstream breaks off.
            _ => {}
        }
        let mut open = self.open.remove(index);
        if let Some((response, passed)) = &open.response {
            open.used.number.1 = (response.is_known)(*passed, what % 3 < 2);
        }
        let is_waiting = self.gateway.fate(open.request) == Fate::Paused;
        match what % 3 {
            2 => self.vm(open.worker).reset(open.id),
            _ => self.vm(open.worker).end(open.id),
        }
        if is_waiting {
            self.model.refund(open.user, &open.charged);
        } else {
            self.model.settle(open.user, &open.charged, &open.used);
        }
    }

    /// Replaces the configuration of a worker, or deletes an old one without streams.
    fn reload(&mut self, worker: usize, what: u8) {
        *self.gateway.world.configuration.borrow_mut() = document(1 + u64::from(what % 2));
        let vm = self.vm(worker);
        match what / 2 % 3 {
            0 => assert!(vm.configure()),
            1 => assert!(vm.configure_again()),
            _ => {
                let old = vm.oldest_root().filter(|root| Some(*root) != vm.newest_root());
                old.filter(|root| vm.streams_of(*root) == 0)
                    .into_iter()
                    .for_each(|root| vm.delete_root(root));
            }
        }
    }

    fn pick(&self, which: usize) -> Option<usize> {
        (!self.open.is_empty()).then(|| which % self.open.len())
    }

    /// The response shows what each rule had left when the request came.
    fn check_headers(&self, request: usize, left: &[u64]) {
        let records = self.gateway.world.records.borrow();
        let (_, line) = records[request].headers.iter().find(|(name, _)| name == "ratelimit").unwrap();
        let items: Vec<&str> = line.split(", ").map(|item| item.split(";t=").next().unwrap()).collect();
        for (name, left) in model::names().zip(left) {
            let expected = format!("\"{name}\";r={left}");
            assert!(items.contains(&&*expected), "{expected}: {line}");
        }
    }

    /// Ends all streams. What the model counts is left, and nothing else remains.
    fn conclude(mut self) -> Seen {
        for what in 0.. {
            if self.open.is_empty() {
                break;
            }
            self.end(0, what as u8);
        }
        self.gateway.pass(STEP_MS);
        for what in [10, 11] {
            self.arrive(0, what);
            if !self.open.is_empty() {
                self.begin(0, Response::of(0));
                self.end(0, 0);
            }
            self.gateway.pass(STEP_MS);
        }
        assert_eq!(self.gateway.kept_streams(), 0);
        self.gateway.no_crash();
        let unread = self.gateway.world.counters.borrow()["diana.unread_costs"];
        assert_eq!(u64::try_from(unread), Ok(self.model.seen.unread));
        self.model.seen
    }
}
