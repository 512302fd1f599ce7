//! An open-loop load: so many requests a second, whether answers come or not. What a gateway is
//! slow with others then wait for, as they would in life; a load that waits for each answer would
//! ask less of a slow gateway.

use crate::generator::Target;
use crate::own::Client;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How often requests are sent: those that are due by then, together. The timer knows no less.
const TICK: Duration = Duration::from_millis(1);
/// How long what is under way in the end may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections that are kept from one run to the next, and a thread's worth of a runtime.
pub struct Paced {
    runtime: Runtime,
    clients: Vec<Client>,
}

/// What came back.
#[derive(Debug, Default)]
pub struct Answered {
    /// Of each request, in nanoseconds: from when it was sent, or would have been if a connection
    /// had been free, until its answer had been read.
    pub latencies: Vec<u64>,
    /// Answers by status.
    pub by_status: BTreeMap<u16, u64>,
}

type Queue = Arc<Mutex<UnboundedReceiver<Instant>>>;

impl Paced {
    /// Opens so many connections.
    pub fn open(target: &Target, connections: usize) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let clients = runtime.block_on(async {
            let mut clients = Vec::new();
            for path in target.paths.iter().cycle().take(connections) {
                let mut client = Client::open(target, path).await?;
                client.ask().await?;
                clients.push(client);
            }
            anyhow::Ok(clients)
        })?;
        Ok(Self { runtime, clients })
    }

    /// Sends `rate` requests a second for so long.
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

/// Says of each request when it was due, and ends the queue.
async fn pace(due: UnboundedSender<Instant>, rate: u32, each: Duration) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (start, mut sent) = (Instant::now(), 0);
    loop {
        let now = ticks.tick().await.into_std();
        let now = now.max(Instant::now());
        let until = due_by(now.duration_since(start).min(each), rate);
        // Who takes them goes only when this one has.
        (sent..until).for_each(|_| due.send(now).unwrap_or_default());
        sent = until;
        if now.duration_since(start) >= each {
            return;
        }
    }
}

/// How many requests are due after so long.
fn due_by(elapsed: Duration, rate: u32) -> u64 {
    let due = elapsed.as_nanos() * u128::from(rate) / 1_000_000_000;
    u64::try_from(due).unwrap_or(u64::MAX)
}

/// Takes what is due, one after the other, until there is no more.
async fn serve(mut client: Client, due: Queue) -> Result<(Client, Vec<u64>)> {
    let mut latencies = Vec::new();
    client.by_status.clear();
    loop {
        // In a statement of its own: the lock is let go before the request is sent.
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
    fn so_many_are_due_as_the_rate_says() {
        let due = |micros| due_by(Duration::from_micros(micros), 5_000);
        assert_eq!([0, 199, 200, 1_000, 2_000_000].map(due), [0, 0, 1, 5, 10_000]);
    }

    #[test]
    fn all_are_answered_and_what_waits_for_a_connection_counts_the_wait() {
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
            // One connection, of 50 a second: of ten that were due within 100 ms the last is
            // answered after 200 ms.
            let longest = *answered.latencies.iter().max().unwrap();
            assert!(longest >= 80_000_000, "{longest} ns");
        }
    }
}
