//! An open-loop load: sends requests at a fixed rate, whether or not answers arrive. `oha` can do
//! so too, but only over new connections in each run, and reports percentiles alone.
//!
//! If the gateway is slow with one request, later requests wait, as in production. A closed-loop
//! load waits for each answer, so a slow gateway would receive fewer requests.

use crate::load::Client;
use crate::traffic::Target;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The interval between batches. Each batch sends all requests that are due. The timer has no
/// finer resolution.
const TICK: Duration = Duration::from_millis(1);
/// The timeout for requests that are in flight at the end of a run.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections that stay open from one run to the next, and their single-threaded runtime.
pub struct Paced {
    runtime: Runtime,
    clients: Vec<Client>,
}

/// The results of one run.
#[derive(Debug, Default)]
pub struct Answered {
    /// The latency of each request, in nanoseconds. The latency starts when the request is due,
    /// even if no connection is free, and ends when the whole answer has been read.
    pub latencies: Vec<u64>,
    /// The number of answers by status.
    pub by_status: BTreeMap<u16, u64>,
}

type Queue = Arc<Mutex<UnboundedReceiver<Instant>>>;

impl Paced {
    /// Opens `connections` connections.
    pub fn open(target: &Target, connections: usize) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let clients = runtime.block_on(Client::open_all(target, connections))?;
        Ok(Self { runtime, clients })
    }

    /// Sends `rate` requests per second for the duration `each`.
    pub fn run(&mut self, rate: u32, each: Duration) -> Result<Answered> {
        let clients = std::mem::take(&mut self.clients);
        let mut answered = Answered::default();
        self.runtime.block_on(async {
            let (sender, due) = unbounded_channel();
            let due = Arc::new(Mutex::new(due));
            let tasks: Vec<_> =
                clients.into_iter().map(|client| tokio::spawn(serve(client, Arc::clone(&due)))).collect();
            pace(sender, rate, each).await;
            for task in tasks {
                let ended = timeout(PATIENCE, task).await.context("the gateway cannot keep up")?;
                let (mut client, latencies) = ended??;
                answered.latencies.extend(latencies);
                for (status, count) in std::mem::take(&mut client.by_status) {
                    *answered.by_status.entry(status).or_default() += count;
                }
                self.clients.push(client);
            }
            anyhow::Ok(())
        })?;
        Ok(answered)
    }
}

/// Queues the due time of each request, and closes the queue at the end.
async fn pace(due: UnboundedSender<Instant>, rate: u32, each: Duration) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (start, mut sent) = (Instant::now(), 0);
    loop {
        let now = ticks.tick().await.into_std();
        let now = now.max(Instant::now());
        let until = due_by(now.duration_since(start).min(each), rate);
        // `send` cannot fail, because `run` keeps the receiver until `pace` returns.
        (sent..until).for_each(|_| due.send(now).unwrap_or_default());
        sent = until;
        if now.duration_since(start) >= each {
            return;
        }
    }
}

/// Returns the number of requests that are due after `elapsed`.
fn due_by(elapsed: Duration, rate: u32) -> u64 {
    let due = elapsed.as_nanos() * u128::from(rate) / 1_000_000_000;
    u64::try_from(due).unwrap_or(u64::MAX)
}

/// Sends the due requests one after the other, until the queue is closed.
async fn serve(mut client: Client, due: Queue) -> Result<(Client, Vec<u64>)> {
    let mut latencies = Vec::new();
    client.by_status.clear();
    loop {
        // A separate statement, so that the lock is released before the request is sent.
        let next = due.lock().await.recv().await;
        let Some(due) = next else { return Ok((client, latencies)) };
        client.ask().await?;
        latencies.push(u64::try_from(due.elapsed().as_nanos())?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway::{Reply, Upstream};
    use std::thread;

    #[test]
    fn the_rate_determines_the_number_of_due_requests() {
        let due = |micros| due_by(Duration::from_micros(micros), 5_000);
        assert_eq!([0, 199, 200, 1_000, 2_000_000].map(due), [0, 0, 1, 5, 10_000]);
    }

    #[test]
    fn every_request_gets_a_response_and_latency_includes_the_wait_for_a_connection() {
        let slow = Duration::from_millis(20);
        let upstream = Upstream::start(move |_| {
            thread::sleep(slow);
            Reply::new(200, "")
        })
        .unwrap();
        let target = Target { address: upstream.address(), paths: vec!["/".into()] };
        let mut paced = Paced::open(&target, 1).unwrap();
        for _ in 0..2 {
            let answered = paced.run(100, Duration::from_millis(100)).unwrap();
            assert_eq!(answered.by_status, BTreeMap::from([(200, 10)]));
            assert_eq!(answered.latencies.len(), 10);
            // One connection serves 50 requests per second. Ten requests are due within 100 ms, so
            // the last answer arrives after 200 ms.
            let longest = *answered.latencies.iter().max().unwrap();
            assert!(longest >= 80_000_000, "{longest} ns");
        }
    }
}
