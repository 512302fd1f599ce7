//! A server that a test controls: an upstream, a slow store, or a document server. HTTP/1.1, a
//! thread a connection; the handler may block.

use crate::http::{Head, read_chunks, read_exactly, read_headers, read_line};
use anyhow::Result;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A request as the server received it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// `GET`, …
    pub method: String,
    /// With the query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// The first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The server's response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// 200, …
    pub status: u16,
    /// Besides `content-length`.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// How much of the response is sent.
    pub ending: Ending,
    /// How the body is sent; at once by default.
    pub pace: Option<Pace>,
}

/// A body that is sent in parts, each after some work.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The bytes of a part; at least one.
    pub bytes: usize,
    /// How long the server works for each part.
    pub work: Duration,
}

/// How a response ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// The response is complete.
    #[default]
    Whole,
    /// Nothing is sent until the client disconnects.
    Silence,
    /// Nothing is sent: the server closes the connection.
    Closed,
    /// The response stalls after the first byte of its body, until the client disconnects.
    Stall,
    /// The response stalls after this number of bytes of its body, until the client disconnects.
    StallAfter(usize),
    /// The server closes the connection after the first byte of the body.
    HangUp,
}

impl Reply {
    /// A status and a body.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), ending: Ending::Whole, pace: None }
    }

    /// The same with another ending.
    pub fn ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }

    /// The same with a body in parts.
    pub fn pace(self, bytes: usize, work: Duration) -> Self {
        Self { pace: Some(Pace { bytes: bytes.max(1), work }), ..self }
    }

    /// The same with one more header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The headers have arrived.
    Begun,
    /// The body has arrived, and the response is about to be sent.
    Answered,
    /// The response is sent, or the client has left. The body has what arrived.
    Over,
}

type Handler = Box<dyn Fn(&Received) -> Reply + Send + Sync>;
type Watch = Box<dyn Fn(&Received, Stage) + Send + Sync>;

struct Shared {
    handler: Handler,
    watch: Watch,
    requests: AtomicU64,
    stopped: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// A running server; it ends when this is dropped.
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Upstream {
    /// Starts a server on a free port.
    pub fn start(handler: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Result<Self> {
        Self::start_watched(handler, |_, _| {})
    }

    /// The same, with `watch` called at each stage of a request.
    pub fn start_watched(
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
        watch: impl Fn(&Received, Stage) + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            watch: Box::new(watch),
            requests: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            open: Mutex::new(Vec::new()),
        });
        let server = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &server));
        Ok(Self { address, shared })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of requests received so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes `accept`, which then sees the flag and closes the port.
        let _ = TcpStream::connect(self.address);
        for stream in self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(copy) = stream.try_clone() else { continue };
        shared.open.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let peer = stream.peer_addr().ok();
            // The peer usually ends the connection.
            drop(serve(stream, &shared));
            // The copy exists only so that the server can end the connection, and holds a
            // descriptor.
            let other = |open: &TcpStream| open.peer_addr().is_ok_and(|open| Some(open) != peer);
            shared.open.lock().unwrap_or_else(PoisonError::into_inner).retain(other);
        });
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut write = stream.try_clone()?;
    let mut read = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        read_line(&mut read, &mut line)?;
        let start = String::from_utf8_lossy(&line).into_owned();
        let mut words = start.split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut request = Received { method, path, ..Received::default() };
        let mut headers = Vec::new();
        let head = read_headers(&mut read, &mut line, &mut |name, value| {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            headers.push((name, String::from_utf8_lossy(value).into_owned()));
        })?;
        request.headers = headers;
        (shared.watch)(&request, Stage::Begun);
        let ends = exchange(&mut read, &mut write, &mut request, head, shared);
        (shared.watch)(&request, Stage::Over);
        if ends? {
            return Ok(());
        }
    }
}

/// Reads a request's body and sends the reply. Returns whether the connection ends.
fn exchange(
    read: &mut BufReader<TcpStream>,
    write: &mut TcpStream,
    request: &mut Received,
    head: Head,
    shared: &Shared,
) -> io::Result<bool> {
    if head.chunked {
        read_chunks(read, &mut request.body, &mut Vec::new())?;
    } else {
        read_exactly(read, head.length.unwrap_or(0), &mut request.body)?;
    }
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let reply = (shared.handler)(request);
    (shared.watch)(request, Stage::Answered);
    let sent = match reply.ending {
        Ending::Silence => return io::copy(read, &mut io::sink()).map(|_| true),
        Ending::Closed => return write.shutdown(Shutdown::Both).map(|()| true),
        _ if request.method == "HEAD" => 0,
        Ending::Whole => reply.body.len(),
        Ending::Stall | Ending::HangUp => 1,
        Ending::StallAfter(bytes) => bytes,
    };
    let body = reply.body.get(..sent).unwrap_or(&reply.body);
    let mut bytes = format!("HTTP/1.1 {} -\r\n", reply.status);
    if reply.status != 101 {
        bytes.push_str(&format!("content-length: {}\r\n", reply.body.len()));
    }
    for (name, value) in &reply.headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    bytes.push_str("\r\n");
    let mut bytes = bytes.into_bytes();
    match reply.pace {
        None => {
            bytes.extend_from_slice(body);
            write.write_all(&bytes)?;
        }
        Some(Pace { bytes: size, work }) => {
            write.write_all(&bytes)?;
            for part in body.chunks(size) {
                thread::sleep(work); // the server's work
                write.write_all(part)?;
            }
        }
    }
    match reply.ending {
        Ending::HangUp => write.shutdown(Shutdown::Both).map(|()| true),
        Ending::Stall | Ending::StallAfter(_) => io::copy(read, &mut io::sink()).map(|_| true),
        Ending::Whole | Ending::Silence | Ending::Closed => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Connection;

    #[test]
    fn a_request_is_received_and_its_reply_comes_back() {
        let upstream = Upstream::start(|received| {
            let text = format!("{} {} ", received.method, received.path).into_bytes();
            let body = [text.as_slice(), &received.body].concat();
            Reply::new(201, body).header("x-seen", received.header("x-sent").unwrap_or("nothing"))
        })
        .unwrap();
        let mut connection = Connection::open(upstream.address()).unwrap();
        let answer = connection.request("POST", "/a?b", &[("X-Sent", "this")], b"body").unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (201, "POST /a?b body"));
        assert_eq!(answer.header("x-seen"), Some("this"));
        // The next request on the same connection, and one on another.
        let head = connection.request("HEAD", "/", &[], b"").unwrap();
        assert_eq!((head.status, head.body.len(), head.header("x-seen")), (201, 0, Some("nothing")));
        let chunked = b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        let answer = crate::http::raw(upstream.address(), chunked).unwrap().unwrap();
        assert_eq!(answer.text(), "PUT / hi");
        assert_eq!(upstream.requests(), 3);
    }

    #[test]
    fn the_upstream_ends_a_reply_as_configured() {
        let upstream = Upstream::start(|received| {
            let ending = match received.path.as_str() {
                "/closed" => Ending::Closed,
                "/cut" => Ending::HangUp,
                _ => Ending::Whole,
            };
            Reply::new(200, vec![b'x'; 5 << 20]).ending(ending)
        })
        .unwrap();
        let get = |path: &str| Connection::open(upstream.address()).unwrap().request("GET", path, &[], b"");
        assert_eq!(get("/").unwrap().body.len(), 5 << 20);
        for path in ["/closed", "/cut"] {
            let error = get(path).unwrap_err().downcast::<io::Error>().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{path}");
        }
        assert_eq!(upstream.requests(), 3);
    }

    #[test]
    fn each_stage_of_a_request_is_seen_with_the_bytes_that_came() {
        let stages = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&stages);
        let upstream = Upstream::start_watched(
            |_| Reply::new(200, "in parts").pace(3, Duration::ZERO),
            move |received, stage| seen.lock().unwrap().push((stage, received.body.len())),
        )
        .unwrap();
        let mut expected = Vec::new();
        for (body, length) in [
            ("content-length: 2\r\n\r\nhi", 2),
            ("content-length: 9\r\n\r\nhalf", 4),
            ("transfer-encoding: chunked\r\n\r\n9\r\nhalf", 4),
        ] {
            let mut connection = Connection::open(upstream.address()).unwrap();
            connection.send(format!("PUT / HTTP/1.1\r\n{body}").as_bytes()).unwrap();
            expected.push((Stage::Begun, 0));
            if length == 2 {
                assert_eq!(connection.receive(false).unwrap().text(), "in parts");
                expected.push((Stage::Answered, 2));
            }
            drop(connection);
            expected.push((Stage::Over, length));
            let all = || (stages.lock().unwrap().len() == expected.len()).then_some(());
            crate::wait_until("the end of a request", Duration::from_secs(10), all).unwrap();
        }
        assert_eq!(*stages.lock().unwrap(), expected);
    }

    #[test]
    fn a_dropped_upstream_ends() {
        let upstream = Upstream::start(|_| Reply::new(200, "")).unwrap();
        let address = upstream.address();
        let mut connection = Connection::open(address).unwrap();
        assert_eq!(connection.request("GET", "/", &[], b"").unwrap().status, 200);
        drop(upstream);
        assert!(connection.request("GET", "/", &[], b"").is_err(), "an open connection is closed");
        let patience = std::time::Duration::from_secs(10);
        let refused = || TcpStream::connect(address).is_err().then_some(());
        crate::wait_until("the port to be let go", patience, refused).unwrap();
    }
}
