//! The callbacks of a request and its response.

use super::{Action, Filter, Stream};
use crate::Host;
use crate::plugin::{Decided, Plugin, Rejection, Response};
use crate::request_body::ReadBody;
use crate::timer_queue::Held;
use diana_base::time::Time;
use diana_limiter::decide::Outcome;
use std::mem::take;
use std::rc::Rc;

/// At most this many refused streams wait for their responses, which may be other ones.
const MAX_REFUSED: usize = 1_024;

impl<H: Host> Filter<H> {
    /// Decides about a stream when its request headers arrive. `ends`: whether the request ends
    /// with them.
    pub fn on_request_headers(&self, id: u32, ends: bool) -> Action {
        self.go_live();
        match self.plugin_of(id) {
            Some(plugin) => self.decide(id, &plugin, ends),
            None => Action::of_part(self.is_waiting(id)),
        }
    }

    /// Decides about a stream of the plugin `root` when its request headers arrive, for hosts that
    /// say with the headers whose stream it is. Returns the action, and whether the filter keeps
    /// state for the stream. Without state, no later callback of the stream does anything.
    pub fn on_request_of(&self, root: u32, id: u32, ends: bool) -> (Action, bool) {
        match self.plugin(root).flatten() {
            Some(plugin) => {
                let action = self.decide(id, &plugin, ends);
                let may_have_trailers = !ends && !plugin.configuration.soft_limits.headers().is_empty();
                (action, may_have_trailers || self.has_stream(id))
            }
            None => (Action::Continue, false),
        }
    }

    fn decide(&self, id: u32, plugin: &Rc<Plugin<H>>, ends: bool) -> Action {
        if plugin.body.is_some() && !ends && self.wait_for_body(id, plugin) {
            return Action::Read;
        }
        // A request that ends with its headers has no body.
        let body = ends.then(ReadBody::default);
        let Some(Decided { session, mut response, form }) = plugin.decide(ends, body.as_ref()) else {
            return Action::Continue;
        };
        let (headers, is_waiting) = (take(&mut response.headers), response.is_held());
        let refusal = if plugin.kind.replaces_refusals() { response.rejection.take() } else { None };
        let sent = refusal.as_ref().map(|refusal| self.send(&refusal.reply));
        // Most streams have no state.
        if is_waiting || session.has_charges() || headers.is_some() || refusal.is_some() {
            let (plugin, metering) = (Rc::clone(plugin), None);
            let is_complete = ends || plugin.metered.latency() && self.opens_tunnel();
            let refusal_number = refusal.as_ref().map_or(0, |_| self.next_refusal());
            let stream = Stream {
                plugin,
                session,
                headers,
                is_waiting,
                is_complete,
                form,
                refusal,
                refusal_number,
                metering,
                body: None,
            };
            self.keep(id, stream);
        }
        if let Some(action) = sent {
            self.limit_refused(id);
            return action;
        }
        match response.outcome {
            Outcome::Query(ticket) => self.hold_for_query(id, ticket, plugin),
            _ => self.carry_out(id, plugin, response),
        }
    }

    /// Whether the upstream answers a request before the request ends: an upgrade, as to a
    /// WebSocket, or CONNECT. Envoy withholds a declared body until the upstream has agreed to the
    /// upgrade; an upstream that does not would wait for the client, so such a request is no
    /// sample.
    fn opens_tunnel(&self) -> bool {
        let header = |name: &[u8]| self.host.request_header(name);
        let has_body = header(b"transfer-encoding").is_some()
            || header(b"content-length").is_some_and(|length| length.trim_ascii() != b"0");
        let is_tunnel = header(b"upgrade").is_some() || header(b":method").as_deref() == Some(b"CONNECT");
        is_tunnel && !has_body
    }

    /// A host may never end a stream that was refused and then redirected, so the filter ends it
    /// after many later refusals.
    #[inline(never)]
    fn limit_refused(&self, id: u32) {
        let oldest = self.refused.with(|refused| {
            refused.push_back((id, self.refusals.get()));
            (refused.len() > MAX_REFUSED).then(|| refused.pop_front()).flatten()
        });
        let Some((id, number)) = oldest.flatten() else {
            return;
        };
        let is_same = |stream: &mut Box<Stream<H>>| stream.refusal_number == number;
        if self.streams.with(|streams| streams.get_mut(id).map(is_same)).flatten() == Some(true) {
            self.end_stream(id);
        }
    }

    /// The number of a refusal, from 1.
    fn next_refusal(&self) -> u64 {
        self.refusals.set(self.refusals.get().wrapping_add(1));
        self.refusals.get()
    }

    // Out of line, because most requests skip this function: skipped code costs less if it is
    // elsewhere. The same holds for other functions with this attribute, here and in the engine.
    #[inline(never)]
    fn keep(&self, id: u32, mut stream: Stream<H>) {
        stream.goes_on();
        self.streams.with(|streams| streams.insert(id, Box::new(stream)));
    }

    /// Carries out a decision for the effective stream.
    pub(super) fn carry_out(&self, id: u32, plugin: &Plugin<H>, response: Response<H>) -> Action {
        match response.outcome {
            Outcome::Delay(until) => self.hold(id, plugin, until, Held::Request),
            Outcome::Reject(_) => self.reject(id, plugin, response.rejection),
            // Only `on_request_headers` gets queries.
            Outcome::Pass | Outcome::Allowed | Outcome::Query(_) => Action::Continue,
        }
    }

    #[inline(never)]
    fn reject(&self, id: u32, plugin: &Plugin<H>, rejection: Option<Box<Rejection<H>>>) -> Action {
        let Some(rejection) = rejection else {
            return Action::Continue;
        };
        match *rejection {
            Rejection { reply, send_at: Some(until) } => self.hold(id, plugin, until, Held::Refusal(reply)),
            Rejection { reply, send_at: None } => self.send(&reply),
        }
    }

    /// Holds the effective stream, or acts at once if the host has no timer.
    #[inline(never)]
    fn hold(&self, id: u32, plugin: &Plugin<H>, until: Time, held: Held<H>) -> Action {
        let Err(held) = plugin.hold(id, until, held) else {
            return Action::Hold;
        };
        self.set_waiting(id, false);
        match held {
            Held::Refusal(reply) => self.send(&reply),
            Held::Request | Held::Query | Held::Body => Action::Continue,
        }
    }

    /// The request's trailers have arrived, which end it. They wait with the headers. Upstreams may
    /// take trailers for headers, so no client may send marks there either; whose stream it is does
    /// not matter.
    pub fn on_request_trailers(&self, id: u32) -> Action {
        self.plugins.with(|plugins| {
            let all = plugins.iter().filter_map(|(_, plugin)| plugin.as_ref());
            let headers = all.flat_map(|plugin| plugin.configuration.soft_limits.headers());
            headers.for_each(|name| self.host.remove_request_trailer(name));
        });
        let is_waiting = self.streams.with(|streams| {
            let stream = streams.get_mut(id)?;
            stream.is_complete = true;
            stream.goes_on();
            Some((stream.is_waiting, stream.body.is_some()))
        });
        match is_waiting.flatten() {
            Some((_, true)) => self.decide_by_body(id),
            Some((is_waiting, false)) => Action::of_part(is_waiting),
            None => Action::Continue,
        }
    }

    /// Adds headers to the response before the host sends it. `ends`: whether the response ends
    /// with its headers. The response to a refused request need not be the refusal.
    pub fn on_response_headers(&self, id: u32, ends: bool) -> Action {
        let headers = self.streams.with(|streams| {
            let stream = streams.get_mut(id)?;
            stream.meter(|metering, values| {
                metering.response_headers(self.host, values);
                if ends {
                    metering.response_ended();
                }
            });
            stream.responded(stream.metering.as_ref().and_then(|metering| metering.status()));
            let refusal = stream.refusal.take();
            Some((stream.headers.take(), refusal.map(|refusal| (Rc::clone(&stream.plugin), refusal))))
        });
        let (headers, refusal) = headers.flatten().unwrap_or_default();
        if let Some((plugin, refusal)) = refusal
            && !self.host.is_response(&refusal.reply)
        {
            plugin.lost_refusal(&self.host.response_header(b":status").unwrap_or_default());
        }
        for (name, value) in headers.iter().flat_map(|headers| headers.iter()) {
            // List-valued headers may have several lines, and an upstream's own limits stay valid
            // beside ours.
            if name.starts_with("x-") {
                self.host.replace_response_header(name, value);
            } else {
                self.host.add_response_header(name, value);
            }
        }
        Action::Continue
    }

    /// Sends a reply to the client of the effective stream. If the reply cannot be sent, the host
    /// must not keep the request.
    pub(super) fn send(&self, reply: &H::LocalReply) -> Action {
        match self.host.send(reply) {
            Ok(()) => Action::Stop,
            Err(_) => Action::Continue,
        }
    }
}
