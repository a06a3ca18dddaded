//! Clients that write down what was acknowledged to them.
//!
//! Each makes payments one after another, each in a transaction that also inserts
//! (client, sequence) into the journal. What a client was told lives in this process, which is not
//! killed. After a crash the journal must hold, for every client, all that was acknowledged and at
//! most the one payment whose answer was still to come.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kit::random::Random;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::pgbench::Target;

/// Before a node is asked once more that takes no session.
const PAUSE: Duration = Duration::from_millis(100);

pub struct Recording {
    clients: Vec<JoinHandle<Result<u64>>>,
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
}

/// What all of its clients saw together.
#[derive(Default)]
pub struct Seen {
    pub acknowledged: AtomicU64,
    /// The longest wait for an answer, in microseconds.
    pub slowest_us: AtomicU64,
}

/// What ends a client, beside its being stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// A connection that breaks. An error that the node says is a failure of all.
    Broken,
    /// An error, too: its node may be stopped, cut off or sick.
    Refused,
}

/// Starts the clients, each with its number.
pub fn start(
    runtime: &Runtime,
    target: &Target,
    clients: Range<u32>,
    customers: u64,
    ends: Ends,
) -> Recording {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::<Seen>::default();
    let clients = clients.map(|client| {
        let recorder =
            Recorder { client, customers, ends, stop: Arc::clone(&stop), seen: Arc::clone(&seen) };
        runtime.spawn(recorder.pay(target.clone()))
    });
    Recording { clients: clients.collect(), stop, seen }
}

impl Recording {
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// How many payments each client saw acknowledged.
    pub fn join(self, runtime: &Runtime) -> Result<Vec<u64>> {
        let joined = runtime.block_on(futures::future::join_all(self.clients));
        joined.into_iter().map(|client| client?).collect()
    }
}

struct Recorder {
    client: u32,
    customers: u64,
    ends: Ends,
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
}

impl Recorder {
    async fn pay(self, target: Target) -> Result<u64> {
        let Recorder { client, customers, ends, stop, seen } = self;
        let connection = loop {
            match target.connect().await {
                Ok(connection) => break connection,
                Err(error) if ends == Ends::Broken => return Err(error),
                // Its node may have to catch up first.
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(0),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        let payment = connection.prepare("SELECT sb_recorded_payment($1, $2, $3, $4, $5)").await?;
        let mut random = Random::new(u64::from(client));
        let mut acknowledged = 0u64;
        while !stop.load(Ordering::Relaxed) {
            let sequence = (acknowledged + 1) as i64;
            let sender = random.below(customers);
            let receiver = (sender + 1 + random.below(customers - 1)) % customers;
            let arguments = [
                i64::from(client),
                sequence,
                sender as i64 + 1,
                receiver as i64 + 1,
                random.below(10_000) as i64,
            ];
            let parameters = arguments.each_ref().map(|a| a as _);
            let began = Instant::now();
            let answer = connection.query_one(&payment, &parameters).await;
            seen.slowest_us.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
            match answer {
                Ok(row) if row.try_get::<_, i64>(0)? == sequence => {
                    acknowledged += 1;
                    seen.acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Ok(_) => bail!("client {client}: an answer belongs to another payment"),
                Err(error) => match error.as_db_error() {
                    Some(said) if ends == Ends::Broken => {
                        bail!("client {client}: {}: {}", said.code().code(), said.message())
                    }
                    _ => break,
                },
            }
        }
        Ok(acknowledged)
    }
}

/// The journal against what was acknowledged.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub acknowledged: u64,
    /// Acknowledged and not in the journal.
    pub lost: u64,
    /// In the journal, sent, not yet acknowledged.
    pub unanswered: u64,
    /// In the journal and never sent, or there twice.
    pub invented: u64,
}

/// `acknowledged[c]` payments of client c were confirmed, numbered from 1; `journal[c]` is what the
/// database holds, in ascending order.
pub fn compare(acknowledged: &[u64], journal: &[Vec<u64>]) -> Comparison {
    let mut found = Comparison::default();
    for (&confirmed, sequences) in acknowledged.iter().zip(journal) {
        let mut distinct = sequences.clone();
        distinct.dedup();
        let known = |range: std::ops::RangeInclusive<u64>| {
            distinct.iter().filter(|s| range.contains(*s)).count() as u64
        };
        let kept = known(1..=confirmed);
        let under_way = known(confirmed + 1..=confirmed + 1);
        found.acknowledged += confirmed;
        found.lost += confirmed - kept;
        found.unanswered += under_way;
        found.invented += sequences.len() as u64 - kept - under_way;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comparison_tells_lost_from_unanswered_from_invented() {
        let of = |acknowledged: u64, journal: &[u64]| {
            let found = compare(&[acknowledged], &[journal.to_vec()]);
            (found.lost, found.unanswered, found.invented)
        };
        assert_eq!(of(3, &[1, 2, 3]), (0, 0, 0));
        assert_eq!(of(3, &[1, 2, 3, 4]), (0, 1, 0));
        assert_eq!(of(3, &[1, 3]), (1, 0, 0));
        assert_eq!(of(3, &[1, 2, 3, 5]), (0, 0, 1));
        assert_eq!(of(2, &[1, 1, 2]), (0, 0, 1));
        assert_eq!(of(0, &[0]), (0, 0, 1));
        assert_eq!(of(2, &[]), (2, 0, 0));
    }
}
