//! A minimal HTTP/1.1 client over a plain socket, which sends exactly the bytes that a test
//! specifies.

use anyhow::{Context, Result, bail};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A read fails after this long without a byte.
const PATIENCE: Duration = Duration::from_secs(30);

/// A complete response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// 200, 429, …
    pub status: u16,
    /// Names in lower case, in the order received; bytes that are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One connection to a server, used for one request after the other.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::with_capacity(64 << 10, stream) })
    }

    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Whether a byte of a response has come, or comes within `limit`. If the server closes, the
    /// response is to be read, too.
    pub fn has_response(&mut self, limit: Duration) -> io::Result<bool> {
        if !self.stream.buffer().is_empty() {
            return Ok(true);
        }
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(limit))?;
        let peeked = stream.peek(&mut [0]);
        stream.set_read_timeout(Some(PATIENCE))?;
        match peeked {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    /// Reads one response; `Err` of kind `UnexpectedEof` if the server closes first.
    pub fn receive(&mut self, to_head: bool) -> io::Result<Response> {
        let mut response = Response::default();
        let mut headers = Vec::new();
        let mut keep = |name: &[u8], value: &[u8]| {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            headers.push((name, String::from_utf8_lossy(value).into_owned()));
        };
        let head = read_response(&mut self.stream, to_head, &mut response.body, &mut Vec::new(), &mut keep)?;
        response.status = head.status;
        response.headers = headers;
        Ok(response)
    }

    /// Reads `length` bytes of a body whose head `receive(true)` has read.
    pub fn receive_part(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut part = Vec::new();
        read_exactly(&mut self.stream, length, &mut part)?;
        Ok(part)
    }

    /// Sends a request and reads its response. `host` and, with a body, `content-length` are added.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response> {
        let mut bytes = Vec::new();
        write_request(&mut bytes, method, path, headers, body);
        self.send(&bytes).context("cannot send the request")?;
        self.receive(method == "HEAD").context("no answer to the request")
    }

    /// The stream, for the load generator's own reads.
    pub(crate) fn stream(&mut self) -> &mut BufReader<TcpStream> {
        &mut self.stream
    }
}

/// Appends a request as bytes. A `host` among the headers replaces the default one.
pub(crate) fn write_request(
    bytes: &mut Vec<u8>,
    method: &str,
    path: &str,
    headers: &[(impl AsRef<str>, impl AsRef<str>)],
    body: &[u8],
) {
    let mut put = |parts: &[&str]| parts.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
    put(&[method, " ", path, " HTTP/1.1\r\n"]);
    if !headers.iter().any(|(name, _)| name.as_ref().eq_ignore_ascii_case("host")) {
        put(&["host: gateway\r\n"]);
    }
    for (name, value) in headers {
        put(&[name.as_ref(), ": ", value.as_ref(), "\r\n"]);
    }
    if !body.is_empty() {
        put(&["content-length: ", &body.len().to_string(), "\r\n"]);
    }
    put(&["\r\n"]);
    bytes.extend_from_slice(body);
}

/// The fields of a head that its reader needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    pub status: u16,
    pub length: Option<usize>,
    pub chunked: bool,
    pub close: bool,
}

/// Reads one response, its body into `body`; `line` is scratch space, and `keep` gets every header.
pub(crate) fn read_response(
    stream: &mut impl BufRead,
    to_head: bool,
    body: &mut Vec<u8>,
    line: &mut Vec<u8>,
    keep: &mut dyn FnMut(&[u8], &[u8]),
) -> io::Result<Head> {
    body.clear();
    loop {
        read_line(stream, line)?;
        let digits = line.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(status) = digits.and_then(|digits| digits.parse().ok()) else {
            return Err(io::Error::other(format!("not a status line: {}", String::from_utf8_lossy(line))));
        };
        let head = Head { status, ..read_headers(stream, line, keep)? };
        if status < 200 && status != 101 {
            continue; // 100 Continue and its like announce the real one.
        }
        if !(to_head || [101, 204, 304].contains(&status)) {
            match head.length {
                _ if head.chunked => read_chunks(stream, body, line)?,
                Some(length) => read_exactly(stream, length, body)?,
                None => drop(stream.read_to_end(body)?),
            }
        }
        return Ok(head);
    }
}

/// Reads header lines up to the empty one.
pub(crate) fn read_headers(
    stream: &mut impl BufRead,
    line: &mut Vec<u8>,
    keep: &mut dyn FnMut(&[u8], &[u8]),
) -> io::Result<Head> {
    let mut head = Head::default();
    loop {
        read_line(stream, line)?;
        if line.is_empty() {
            return Ok(head);
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        keep(name, value);
        if name.eq_ignore_ascii_case(b"content-length") {
            head.length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            head.chunked = value.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            head.close = value.eq_ignore_ascii_case(b"close");
        }
    }
}

/// Reads a chunked body and its trailers.
pub(crate) fn read_chunks(
    stream: &mut impl BufRead,
    body: &mut Vec<u8>,
    line: &mut Vec<u8>,
) -> io::Result<()> {
    loop {
        read_line(stream, line)?;
        let text = String::from_utf8_lossy(line);
        let digits = text.split(';').next().unwrap_or_default().trim();
        let length = usize::from_str_radix(digits, 16).map_err(io::Error::other)?;
        if length == 0 {
            break;
        }
        read_exactly(stream, length, body)?;
        read_line(stream, line)?;
    }
    read_headers(stream, line, &mut |_, _| {}).map(drop)
}

/// Appends exactly `length` bytes to the body, or fewer and returns an error.
pub(crate) fn read_exactly(stream: &mut impl BufRead, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
    let limit = length.try_into().unwrap_or(u64::MAX);
    let copied = stream.by_ref().take(limit).read_to_end(body)?;
    if copied < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Reads a line without its end.
pub(crate) fn read_line(stream: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<()> {
    line.clear();
    stream.read_until(b'\n', line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(())
}

/// Sends raw bytes and reads until the server closes, or until one response is complete.
pub(crate) fn raw(address: SocketAddr, bytes: &[u8]) -> Result<Option<Response>> {
    let mut connection = Connection::open(address)?;
    // A server that refuses early closes during the write; its response still counts.
    let sent = connection.send(bytes);
    match connection.receive(bytes.starts_with(b"HEAD ")) {
        Ok(response) => Ok(Some(response)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        Err(error) => match sent {
            Ok(()) => bail!("no answer to raw bytes: {error}"),
            Err(error) => bail!("cannot send raw bytes: {error}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: (u16, &str)) {
        let mut body = Vec::new();
        let head = read_response(&mut text.as_bytes(), false, &mut body, &mut Vec::new(), &mut |_, _| {});
        assert_eq!((head.unwrap().status, String::from_utf8(body).unwrap().as_str()), expected);
    }

    #[test]
    fn bodies_end_where_they_say() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi there", (200, "hi"));
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n", (429, ""));
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n3;x\r\n ho\r\n0\r\n\r\n",
            (200, "hi ho"),
        );
        check("HTTP/1.1 204 None\r\n\r\nleft alone", (204, ""));
        check("HTTP/1.1 200 OK\r\n\r\nto the end", (200, "to the end"));
    }
}
