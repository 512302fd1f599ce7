//! A TCP proxy between gateways and a real Redis, which breaks connections as a network or a Redis
//! in trouble does.
//!
//! ```text
//!   Envoy ── requests ──► Proxy ── requests ──► Redis
//!         ◄─ replies, after the fault ─        ◄─ replies ─
//! ```
//!
//! Without a fault it passes on all bytes and both ends of a connection, at once. A fault applies
//! to what arrives while it is set, on old connections and on new ones. What a fault did to a
//! connection stays: a connection that has died never comes back.
//!
//! All that Redis sends at once is one reply here. A call is small enough that Redis writes its
//! replies together.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What happens to connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Each byte of a reply is a packet of its own.
    Bytes,
    /// A reply ends in the middle, and with it the connection.
    CutAndClosed,
    /// A reply ends in the middle, and nothing more comes.
    CutAndOpen,
    /// A reply is followed by these bytes, in the same packet.
    LeftOver(&'static [u8]),
    /// A reply is followed by these bytes in the same packet, and the connection then dies: nothing
    /// passes any more, and neither end learns that the other one has left.
    LeftOverAndDead(&'static [u8]),
    /// A reply is followed by these bytes after this time.
    LateLeftOver(&'static [u8], Duration),
    /// Each call gets the reply to the call before it.
    Shifted,
    /// A request begins with these bytes, which are not the gateway's.
    Garbled(&'static [u8]),
    /// Redis carries calls out, and its replies are lost.
    NoReplies,
    /// The connection dies with the next request: nothing passes any more.
    Dead,
    /// The proxy accepts connections, and nobody serves them. Established connections die.
    NobodyServes,
    /// Connections end as soon as a request arrives.
    Closed,
}

/// A running proxy; it ends with all of its connections when this is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    redis: Mutex<SocketAddr>,
    fault: Mutex<Fault>,
    /// The last reply of any connection.
    last_reply: Mutex<Vec<u8>>,
    accepted: AtomicU64,
    /// Copies, which also keep dead connections open.
    open: Mutex<Vec<TcpStream>>,
    stopped: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// Starts a proxy in front of this Redis, on a free port.
    pub fn start(redis: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            redis: Mutex::new(redis),
            fault: Mutex::default(),
            // No call has this number.
            last_reply: Mutex::new(b"*1\r\n:1\r\n".to_vec()),
            accepted: AtomicU64::new(0),
            open: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &own));
        Proxy { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, connections have this fault.
    pub fn set(&self, fault: Fault) {
        *lock(&self.shared.fault) = fault;
    }

    /// Leads new connections to another Redis, as a Service or a virtual address that moves. Open
    /// ones stay.
    pub fn repoint(&self, redis: SocketAddr) {
        *lock(&self.shared.redis) = redis;
    }

    /// How many connections it has accepted.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes `accept`, which then closes the port.
        _ = TcpStream::connect(self.address);
        lock(&self.shared.open).iter().for_each(|stream| _ = stream.shutdown(Shutdown::Both));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(gateway) = stream else { continue };
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        let Ok(copy) = gateway.try_clone() else { continue };
        lock(&shared.open).push(copy);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let peer = gateway.peer_addr().ok();
            if shared.serve(&gateway).unwrap_or(End::Closed) == End::Closed {
                let other = |open: &TcpStream| open.peer_addr().is_ok_and(|open| Some(open) != peer);
                lock(&shared.open).retain(other);
            }
        });
    }
}

/// How a connection has ended.
#[derive(PartialEq, Eq)]
enum End {
    Closed,
    /// It stays open, and nobody serves it. A peer that has died does not close it.
    Dead,
}

impl Shared {
    fn fault(&self) -> Fault {
        lock(&self.fault).clone()
    }

    /// Serves a connection until an end closes it, or a fault does.
    fn serve(self: &Arc<Self>, gateway: &TcpStream) -> io::Result<End> {
        gateway.set_nodelay(true)?;
        if self.fault() == Fault::NobodyServes {
            return Ok(End::Dead);
        }
        let redis = TcpStream::connect(*lock(&self.redis))?;
        redis.set_nodelay(true)?;
        let is_dead = Arc::new(AtomicBool::new(false));
        let replies = thread::spawn({
            let (shared, gateway, redis) = (Arc::clone(self), gateway.try_clone()?, redis.try_clone()?);
            let is_dead = Arc::clone(&is_dead);
            move || {
                _ = shared.pass_replies(&gateway, &redis, &is_dead);
                // Redis has closed the connection, or a fault has.
                if !is_dead.load(Ordering::SeqCst) {
                    _ = gateway.shutdown(Shutdown::Both);
                }
                _ = redis.shutdown(Shutdown::Both);
            }
        });
        if self.pass_requests(gateway, &redis, &is_dead).is_ok() && !is_dead.load(Ordering::SeqCst) {
            // The gateway sends nothing more, and Redis may still reply.
            _ = redis.shutdown(Shutdown::Write);
        } else {
            _ = redis.shutdown(Shutdown::Both);
        }
        _ = replies.join();
        Ok(if is_dead.load(Ordering::SeqCst) { End::Dead } else { End::Closed })
    }

    /// Passes requests on until the gateway sends nothing more.
    fn pass_requests(
        &self,
        mut gateway: &TcpStream,
        mut redis: &TcpStream,
        is_dead: &AtomicBool,
    ) -> io::Result<()> {
        let mut bytes = [0; 64 << 10];
        loop {
            let count = gateway.read(&mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            match self.fault() {
                Fault::Dead | Fault::NobodyServes => is_dead.store(true, Ordering::SeqCst),
                Fault::Closed => return Err(io::ErrorKind::ConnectionAborted.into()),
                Fault::Garbled(bytes) => redis.write_all(bytes)?,
                _ => {}
            }
            if is_dead.load(Ordering::SeqCst) {
                return Ok(());
            }
            redis.write_all(&bytes[..count])?;
        }
    }

    /// Passes replies on until Redis closes the connection, or a fault ends it.
    fn pass_replies(
        &self,
        mut gateway: &TcpStream,
        mut redis: &TcpStream,
        is_dead: &AtomicBool,
    ) -> io::Result<()> {
        let mut bytes = [0; 64 << 10];
        loop {
            let count = redis.read(&mut bytes)?;
            if count == 0 || is_dead.load(Ordering::SeqCst) {
                return Ok(());
            }
            let (reply, half) = (&bytes[..count], &bytes[..count / 2]);
            let (passed, dies) = match self.fault() {
                Fault::Bytes => {
                    reply.chunks(1).try_for_each(|byte| gateway.write_all(byte))?;
                    continue;
                }
                Fault::CutAndClosed => return gateway.write_all(half),
                Fault::CutAndOpen => (half.to_vec(), true),
                Fault::LeftOver(more) => ([reply, more].concat(), false),
                Fault::LeftOverAndDead(more) => ([reply, more].concat(), true),
                Fault::LateLeftOver(more, after) => {
                    gateway.write_all(reply)?;
                    thread::sleep(after); // the lateness itself
                    (more.to_vec(), false)
                }
                Fault::Shifted => (std::mem::replace(&mut *lock(&self.last_reply), reply.to_vec()), false),
                Fault::NoReplies => (Vec::new(), true),
                _ => (reply.to_vec(), false),
            };
            is_dead.fetch_or(dies, Ordering::SeqCst);
            gateway.write_all(&passed)?;
        }
    }
}
