//! Replies that shift: from some point on, each connection replies with the reply to the previous
//! call, as webdis does after a late reply on the wrong connection.

use std::collections::HashMap;
use std::mem::replace;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The replies of one server.
#[derive(Debug)]
pub(crate) struct Shift<R>(Mutex<State<R>>);

#[derive(Debug)]
struct State<R> {
    /// How often a shift has begun.
    begun: u64,
    connections: HashMap<SocketAddr, Connection<R>>,
}

#[derive(Debug)]
struct Connection<R> {
    last: R,
    replied: Instant,
    begun: u64,
    is_shifted: bool,
}

impl<R> Default for Shift<R> {
    fn default() -> Self {
        Self(Mutex::new(State { begun: 0, connections: HashMap::new() }))
    }
}

impl<R: Clone> Shift<R> {
    /// After this pause without a call, a connection is in step again.
    pub(crate) const PAUSE: Duration = Duration::from_millis(100);

    /// Shifts all connections that have replied before.
    pub(crate) fn begin(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).begun += 1;
    }

    /// The reply to send to this peer in place of `reply`.
    pub(crate) fn of(&self, peer: SocketAddr, reply: R) -> R {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, begun) = (Instant::now(), state.begun);
        let Some(connection) = state.connections.get_mut(&peer) else {
            let first = Connection { last: reply.clone(), replied: now, begun, is_shifted: false };
            state.connections.insert(peer, first);
            return reply;
        };
        let is_in_step = now - connection.replied >= Self::PAUSE;
        connection.is_shifted = !is_in_step && (connection.is_shifted || connection.begun < begun);
        connection.begun = begun;
        connection.replied = now;
        let last = replace(&mut connection.last, reply.clone());
        if connection.is_shifted { last } else { reply }
    }
}
