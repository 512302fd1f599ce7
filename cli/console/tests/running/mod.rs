//! A console that runs until it is dropped.

use super::fake::TOKEN;
use diana_console::fleet::Fleet;
use diana_console::server::Console;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// The console in a thread of its own.
pub struct Running {
    link: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Shows these gateways.
    pub fn start(gateways: &[&str]) -> Self {
        Self::with_timeout(gateways, 20)
    }

    /// The same, and each gateway may take so many seconds.
    pub fn with_timeout(gateways: &[&str], seconds: u64) -> Self {
        let addresses = gateways.iter().map(|url| url.parse().unwrap()).collect();
        let fleet = Fleet::new(addresses, TOKEN, Duration::from_secs(seconds)).unwrap();
        let ((stop, stopped), (tell, told)) = (oneshot::channel(), mpsc::channel());
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let console = Console::bind("127.0.0.1:0".parse().unwrap(), fleet).await.unwrap();
                tell.send(console.link()).unwrap();
                tokio::spawn(console.serve());
                let _ = stopped.await;
            });
        });
        Self { link: told.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    /// The link of the page.
    #[allow(dead_code, reason = "only a browser opens it")]
    pub fn link(&self) -> &str {
        &self.link
    }

    /// Address and port.
    pub fn address(&self) -> &str {
        self.link.strip_prefix("http://").unwrap().split('/').next().unwrap()
    }

    /// The key of this start.
    pub fn key(&self) -> &str {
        self.link.split('#').nth(1).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().unwrap().join();
    }
}
