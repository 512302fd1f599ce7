//! The load: one thread keeps a few HTTP/1.1 connections open with `hyper`, each of which sends one
//! request after the other.
//!
//! `wrk` and `oha` open new connections for each run of at least a second and ask for one path, but
//! the Envoys of all lines take turns every 20 ms, and each connection of a line may ask for another
//! path.

use crate::traffic::{Answers, CONNECTIONS, HEADERS, Target};
use anyhow::Result;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// Connections that stay open from one run to the next.
pub struct Connections {
    runtime: Runtime,
    clients: Vec<Client>,
}

impl Connections {
    /// Opens all connections.
    pub fn open(target: &Target) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let clients = runtime.block_on(Client::open_all(target, CONNECTIONS))?;
        Ok(Self { runtime, clients })
    }

    /// Sends requests for the duration `each`.
    pub fn run(&mut self, each: Duration) -> Result<Answers> {
        let clients = std::mem::take(&mut self.clients);
        let mut answers = Answers::default();
        self.runtime.block_on(async {
            let start = Instant::now();
            let ask = |client: Client| tokio::spawn(client.keep_asking(start, each));
            let tasks: Vec<_> = clients.into_iter().map(ask).collect();
            for task in tasks {
                let mut client = task.await??;
                for (status, count) in std::mem::take(&mut client.by_status) {
                    *answers.by_status.entry(status).or_default() += count;
                }
                self.clients.push(client);
            }
            answers.seconds = start.elapsed().as_secs_f64();
            anyhow::Ok(())
        })?;
        Ok(answers)
    }
}

/// One connection.
pub struct Client {
    sender: SendRequest<Empty<Bytes>>,
    path: Uri,
    headers: HeaderMap,
    /// The number of answers by status.
    pub by_status: BTreeMap<u16, u64>,
}

impl Client {
    /// Opens `connections` connections. The `n`th connection requests the `n`th path. After
    /// the last path, the first path follows again.
    pub async fn open_all(target: &Target, connections: usize) -> Result<Vec<Self>> {
        let mut clients = Vec::new();
        for path in target.paths.iter().cycle().take(connections) {
            let mut client = Self::open(target, path).await?;
            // Wait for an answer before opening the next connection, so that the workers accept the
            // connections in turn.
            client.ask().await?;
            clients.push(client);
        }
        Ok(clients)
    }

    /// Opens one connection that requests this path.
    async fn open(target: &Target, path: &str) -> Result<Self> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Drop the connection's error, because the request in flight fails first and reports the
        // error.
        tokio::spawn(async move { drop(connection.await) });
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(&target.address.to_string())?);
        for (name, value) in HEADERS {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Ok(Self { sender, path: path.parse()?, headers, by_status: BTreeMap::new() })
    }

    /// Sends one request and reads the whole answer.
    pub async fn ask(&mut self) -> Result<()> {
        self.sender.ready().await?;
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = self.headers.clone();
        let mut response = self.sender.send_request(request).await?;
        *self.by_status.entry(response.status().as_u16()).or_default() += 1;
        while let Some(frame) = response.frame().await {
            frame?;
        }
        Ok(())
    }

    async fn keep_asking(mut self, start: Instant, each: Duration) -> Result<Self> {
        self.by_status.clear();
        while start.elapsed() < each {
            self.ask().await?;
        }
        Ok(self)
    }
}
