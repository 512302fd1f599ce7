//! A thread that serves HTTP, 1.1 and 2 without TLS, until it is dropped.

use anyhow::{Context, Result};
use axum::Router;
use axum::serve::ListenerExt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread::{self, JoinHandle};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// Any free port.
pub(crate) const FREE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A running server.
pub(crate) struct Serving {
    address: SocketAddr,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Starts a server on a free port. `router` is called on the server's runtime.
    pub(crate) fn start(router: impl FnOnce() -> Result<Router>) -> Result<Self> {
        Self::accept(FREE, |listener| {
            let router = router()?;
            let listener = listener.tap_io(|stream| {
                // Otherwise a reply may wait for an acknowledgement. An error here does no harm.
                let _ = stream.set_nodelay(true);
            });
            Ok(async move { _ = axum::serve(listener, router).await })
        })
    }

    /// Starts a server at this address. `server` is called on the runtime, and accepts the
    /// connections.
    pub(crate) fn accept<F: Future<Output = ()> + Send + 'static>(
        address: SocketAddr,
        server: impl FnOnce(TcpListener) -> Result<F>,
    ) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let server = runtime.block_on(async { server(listener) })?;
        let (stop, stopped) = channel();
        let thread = thread::Builder::new()
            .name("server".into())
            .spawn(move || serve(&runtime, server, stopped))
            .context("cannot start a thread")?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The connections end with the runtime, whatever they wait for.
fn serve(runtime: &Runtime, server: impl Future<Output = ()> + Send + 'static, stopped: Receiver<()>) {
    runtime.block_on(async {
        tokio::spawn(server);
        // Also ends if the other side was dropped.
        let _ = stopped.await;
    });
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
