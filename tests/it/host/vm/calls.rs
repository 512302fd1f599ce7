//! The replies of a worker's host to each host call, by the rules of Envoy or of nginx, unless a
//! fault is due.

use super::{Inner, Later, LocalResponse, Stream, Timer};
use crate::host::callouts::{self, CallRequest};
use crate::host::faults::CallOutcome;
use crate::host::request;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;
use diana_limiter::request::pairs::Pairs;
use diana_testing::host::{Call, Host, Reply};

const BAD_ARGUMENT: u32 = 2;

const COUNTER: u32 = 0;
const HISTOGRAM: u32 = 2;

/// The number of metrics that fit into 5 MiB, nginx's default, with 40 workers: 1 KiB each.
const NGINX_METRICS: usize = 5_120;

impl Host for Inner {
    fn call(&self, call: Call) -> Reply {
        self.world.called.set(self.world.called.get() + 1);
        let turn = self.world.faults.borrow_mut().next(&call);
        match turn {
            CallOutcome::Works => self.answer(call),
            CallOutcome::Fails(status) => Reply::status(status),
            CallOutcome::WorksAndFails(status) => {
                self.answer(call);
                Reply::status(status)
            }
        }
    }
}

impl Inner {
    /// The effective stream.
    fn effective<R>(&self, read: impl FnOnce(&mut Stream) -> R) -> Option<R> {
        self.streams.borrow_mut().get_mut(&self.current.get().1).map(read)
    }

    fn answer(&self, call: Call) -> Reply {
        let world = &*self.world;
        match call {
            Call::Log { level, message } => {
                world.log.borrow_mut().push((level, String::from_utf8_lossy(message).into_owned()));
                Reply::status(0)
            }
            Call::CurrentTime => {
                let now = world.clock.get();
                // nginx converts its milliseconds as a `double`.
                let of_nginx = || ((now / 1_000_000) as f64 * 1e6) as u64;
                Reply::number(if world.rules == CasSemantics::Strict { of_nginx() } else { now })
            }
            Call::Random => {
                world.randoms.set(world.randoms.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
                Reply::number(world.randoms.get())
            }
            Call::BufferBytes { buffer: 7, start, max } => {
                let configuration = world.configuration.borrow();
                let bytes = configuration.as_bytes().iter().skip(start).take(max).copied();
                Reply::bytes(bytes.collect())
            }
            Call::ClockTime { clock: 1 } => Reply::number(world.clock.get() + world.set_back.get()),
            Call::HeaderMapPairs { map: 0 } => self.request_headers(),
            Call::HeaderMapPairs { map: 2 } => self.response_headers(),
            Call::HeaderValue { map: 0, name } => self.request_header(name),
            Call::HeaderValue { map: 2, name } => self.response_header(name),
            Call::BufferBytes { buffer: 0, start, max } => {
                let read = |stream: &mut Stream| stream.frame.iter().skip(start).take(max).copied().collect();
                self.effective(read).map_or(Reply::status(BAD_ARGUMENT), Reply::bytes)
            }
            Call::BufferBytes { buffer: 1, start, max } => {
                let read = |stream: &mut Stream| stream.part.iter().skip(start).take(max).copied().collect();
                self.effective(read).map_or(Reply::status(BAD_ARGUMENT), Reply::bytes)
            }
            Call::AddHeader { map: 2, name, value } | Call::ReplaceHeader { map: 2, name, value } => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let responds =
                    self.effective(|stream| stream.response.as_ref().map(|_| stream.request)).flatten();
                let Some(request) = responds else { return Reply::status(BAD_ARGUMENT) };
                world.records.borrow_mut()[request].headers.push((text(name), text(value)));
                Reply::status(0)
            }
            Call::ReplaceHeader { map: 0, name, value } => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let Some(request) = self.effective(|stream| stream.request) else { return Reply::status(1) };
                world.records.borrow_mut()[request].marks.push((text(name), text(value)));
                Reply::status(0)
            }
            Call::RemoveHeader { map: 0, .. } => Reply::status(0),
            Call::Property { path } => self.property(path),
            Call::SetProperty { path, value } => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let Some(request) = self.effective(|stream| stream.request) else { return Reply::status(1) };
                world.records.borrow_mut()[request].attributes.push((text(path), text(value)));
                Reply::status(0)
            }
            Call::SharedData { key } => match world.load(key) {
                Ok((bytes, version)) => Reply { number: version.into(), ..Reply::bytes(bytes) },
                Err(status) => Reply::status(status),
            },
            Call::SetSharedData { key, value, cas } => Reply::status(world.store(key, value, cas)),
            Call::LocalResponse { status, details, body, headers, grpc_status } => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let is_grpc = |(part, line): &(Part, Vec<u8>)| {
                    matches!(part, Part::Header(name) if &**name == "content-type")
                        && (line == b"application/grpc" || line.starts_with(b"application/grpc+"))
                };
                let is_grpc = self.parts().is_some_and(|parts| parts.iter().any(is_grpc));
                let has_status = Pairs::of(headers).any(|(name, _)| name == b"grpc-status");
                let converted = is_grpc.then_some(grpc_status).filter(|_| !has_status);
                let (status, body, more) = request::local_response(world.rules, status, body, converted);
                if world.rules == CasSemantics::Strict && grpc_status != -1 {
                    world.crash("a gRPC status was given, over which a debug build of the module ends");
                }
                let headers = Pairs::of(headers).map(|(name, value)| (text(name), text(value)));
                let headers: Vec<_> = headers.chain(more).collect();
                if let Some(request) = self.effective(|stream| stream.request) {
                    let record = &mut world.records.borrow_mut()[request];
                    record.headers.extend(headers.iter().cloned());
                    // nginx sends the details to the client; Envoy logs them.
                    record.reason =
                        if world.rules == CasSemantics::Strict { text(details) } else { String::new() };
                }
                world.sent.borrow_mut().push((text(details), text(&body)));
                self.local_response((status, headers))
            }
            Call::ForeignFunction { name, argument } => self.foreign_function(name, argument),
            Call::TickPeriod { ms } => self.tick_period(ms),
            Call::EffectiveContext { id } => {
                let known = self.streams.borrow().contains_key(&id) || self.roots.borrow().contains_key(&id);
                match (world.rules, known) {
                    // nginx accepts the call and does nothing.
                    (CasSemantics::Strict, _) => Reply::status(0),
                    (CasSemantics::Lenient, true) => {
                        self.current.set((self.current.get().0, id));
                        Reply::status(0)
                    }
                    (CasSemantics::Lenient, false) => Reply::status(BAD_ARGUMENT),
                }
            }
            Call::ContinueStream { stream: 0 } => {
                if world.rules == CasSemantics::Strict && self.in_tick.get() {
                    world.crash("a request was resumed from a timer");
                }
                if self.effective(|_| ()).is_none() {
                    return Reply::status(BAD_ARGUMENT);
                }
                self.later(Later::Resume(self.current.get().1));
                Reply::status(0)
            }
            Call::DefineMetric { kind, name } => {
                self.define(kind, String::from_utf8_lossy(name).into_owned())
            }
            Call::IncrementMetric { id, by } => self.increment(id, by),
            Call::RecordMetric { id, value } => self.record(id, value),
            Call::GetMetric { id } => self.total(id),
            Call::HttpCall { cluster, headers, body, timeout_ms } => {
                let (clusters, id) = (&world.clusters, self.current.get().1);
                let root = self.effective(|stream| stream.root).unwrap_or(id);
                let now = world.clock.get();
                match self.calls.make(
                    clusters,
                    now,
                    root,
                    CallRequest::of(cluster, headers, body),
                    timeout_ms,
                ) {
                    Ok(token) => Reply::number(token.into()),
                    Err(status) => Reply::status(status),
                }
            }
            Call::HeaderValue { map: 6, name: b":status" } => {
                let status = self.answer.borrow().as_ref().and_then(|(status, _)| *status);
                status.map_or(Reply::status(1), |status| Reply::bytes(status.to_string().into_bytes()))
            }
            Call::HeaderValue { map: 6, name: b"etag" } => match &*self.answer.borrow() {
                Some((Some(200), body)) => Reply::bytes(callouts::etag(body).into_bytes()),
                _ => Reply::status(1),
            },
            Call::BufferBytes { buffer: 4, start, max } => match &*self.answer.borrow() {
                Some((_, body)) => {
                    let read: Vec<u8> = body.iter().skip(start).take(max).copied().collect();
                    world.longest.set(world.longest.get().max(read.len()));
                    Reply::bytes(read)
                }
                None => Reply::status(BAD_ARGUMENT),
            },
            Call::BufferBytes { .. }
            | Call::ClockTime { .. }
            | Call::HeaderMapPairs { .. }
            | Call::HeaderValue { .. }
            | Call::AddHeader { .. }
            | Call::ReplaceHeader { .. }
            | Call::RemoveHeader { .. }
            | Call::ContinueStream { .. } => Reply::status(BAD_ARGUMENT),
        }
    }

    /// Envoy's CEL functions. Expressions belong to the plugin of the callback's context, whatever
    /// the effective context is.
    fn foreign_function(&self, name: &[u8], argument: &[u8]) -> Reply {
        let context = self.current.get().0;
        let root = self.streams.borrow().get(&context).map_or(context, |stream| stream.root);
        let mut expressions = self.expressions.borrow_mut();
        let own = expressions.entry(root).or_default();
        match (self.world.rules, name) {
            (CasSemantics::Lenient, b"expr_create") => {
                own.push(argument.into());
                Reply::bytes((own.len() as u32 - 1).to_le_bytes().into())
            }
            (CasSemantics::Lenient, b"expr_evaluate") => {
                let number = argument.try_into().map(u32::from_le_bytes).unwrap_or(u32::MAX);
                let Some(expression) = own.get(number as usize) else { return Reply::status(1) };
                let value = std::str::from_utf8(expression).ok().and_then(|text| text.parse::<i64>().ok());
                value.map_or(Reply::status(10), |value| Reply::bytes(value.to_le_bytes().into()))
            }
            _ => Reply::status(1),
        }
    }

    fn define(&self, kind: u32, name: String) -> Reply {
        let world = &*self.world;
        if kind == HISTOGRAM {
            world.recorded.borrow_mut().entry(name.clone()).or_default();
        } else {
            world.counters.borrow_mut().entry(name.clone()).or_default();
        }
        if world.rules == CasSemantics::Strict && world.counters.borrow().len() > NGINX_METRICS {
            world.crash("the memory of metrics is full");
        }
        let mut metrics = self.metrics.borrow_mut();
        let id = metrics.len() as u32 + 1;
        metrics.insert(id, (kind, name));
        Reply::number(id.into())
    }

    fn increment(&self, id: u32, by: i64) -> Reply {
        let Some((kind, name)) = self.metrics.borrow().get(&id).cloned() else { return Reply::status(1) };
        if self.world.rules == CasSemantics::Strict && kind != COUNTER {
            self.world.crash("a metric was incremented that is no counter");
        }
        if kind == HISTOGRAM || (kind == COUNTER && by <= 0) {
            return Reply::status(BAD_ARGUMENT);
        }
        *self.world.counters.borrow_mut().entry(name).or_default() += by;
        Reply::status(0)
    }

    fn record(&self, id: u32, value: u64) -> Reply {
        let Some((kind, name)) = self.metrics.borrow().get(&id).cloned() else { return Reply::status(1) };
        match kind {
            COUNTER => *self.world.counters.borrow_mut().entry(name).or_default() += value as i64,
            HISTOGRAM => self.world.recorded.borrow_mut().entry(name).or_default().push(value),
            _ => _ = self.world.counters.borrow_mut().insert(name, value as i64),
        }
        Reply::status(0)
    }

    /// The value of a counter or a gauge, over all workers.
    fn total(&self, id: u32) -> Reply {
        let counters = self.world.counters.borrow();
        let value = self.metrics.borrow().get(&id).and_then(|(_, name)| counters.get(name).copied());
        value.map_or(Reply::status(1), |value| Reply::number(value as u64))
    }

    /// The parts of the effective request.
    fn parts(&self) -> Option<Vec<(Part, Vec<u8>)>> {
        let request = self.effective(|stream| stream.request)?;
        Some(self.world.records.borrow()[request].parts.clone())
    }

    fn request_headers(&self) -> Reply {
        let rules = self.world.rules;
        let Some(parts) = self.parts() else { return Reply::status(BAD_ARGUMENT) };
        let headers = request::headers(rules, &parts);
        let lines = headers.iter().filter(|(name, _)| !name.starts_with(':')).count();
        if rules == CasSemantics::Strict && lines >= request::MANY {
            self.world.crash(format!("a map of {lines} headers was read whole"));
        }
        Reply::bytes(request::pairs(&request::map(rules, headers)))
    }

    fn request_header(&self, name: &[u8]) -> Reply {
        let Some(parts) = self.parts() else { return Reply::status(BAD_ARGUMENT) };
        let mut headers = request::headers(self.world.rules, &parts).into_iter();
        let found = headers.find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map_or(Reply::status(1), |(_, value)| Reply::bytes(value))
    }

    fn response_headers(&self) -> Reply {
        let response = self.effective(|stream| stream.response.clone()).flatten();
        response.map_or(Reply::status(BAD_ARGUMENT), |headers| {
            Reply::bytes(request::pairs(&request::map(self.world.rules, headers)))
        })
    }

    fn response_header(&self, name: &[u8]) -> Reply {
        let Some(Some(headers)) = self.effective(|stream| stream.response.clone()) else {
            return Reply::status(BAD_ARGUMENT);
        };
        let found = headers.into_iter().find(|(known, _)| known.as_bytes() == name);
        found.map_or(Reply::status(1), |(_, value)| Reply::bytes(value))
    }

    fn property(&self, path: &[u8]) -> Reply {
        if path == b"plugin_vm_id" {
            if self.world.rules == CasSemantics::Strict {
                self.world.crash("a property of the plugin was read");
            }
            return Reply::bytes(self.world.vm_id.borrow().clone().into_bytes());
        }
        let found = self.parts().and_then(|parts| request::property(self.world.rules, &parts, path));
        found.map_or(Reply::status(1), Reply::bytes)
    }

    fn local_response(&self, response: LocalResponse) -> Reply {
        let id = self.current.get().1;
        if self.effective(|_| ()).is_none() {
            return Reply::status(BAD_ARGUMENT);
        }
        if self.world.rules == CasSemantics::Strict && self.in_tick.get() {
            self.world.crash("a request was answered from a timer");
        }
        match self.world.rules {
            CasSemantics::Lenient => self.later(Later::Answer(id, response)),
            CasSemantics::Strict => _ = self.effective(|stream| stream.kept = Some(response)),
        }
        Reply::status(0)
    }

    fn tick_period(&self, ms: u32) -> Reply {
        let (world, id) = (&*self.world, self.current.get().1);
        let root = self.effective(|stream| stream.root);
        if world.rules == CasSemantics::Strict && root.is_some() {
            world.crash("the timer was set for a stream");
        }
        let (root, period) = (root.unwrap_or(id), u64::from(ms) * 1_000_000);
        let mut roots = self.roots.borrow_mut();
        let Some(timer) = roots.get_mut(&root) else { return Reply::status(BAD_ARGUMENT) };
        if world.rules == CasSemantics::Strict && timer.period > 0 && period > 0 {
            world.crash("the timer was set twice");
        }
        *timer = Timer { period, at: world.clock.get() + period };
        Reply::status(0)
    }
}
