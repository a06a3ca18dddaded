//! What is simulated, and what came of it.

use serde::Serialize;

use super::network::Network;
use super::parts::Nanos;

/// How a system's transactions reach a block and what a replica does with one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct System {
    pub block_transactions: usize,
    /// For a full block, from its order to the end of its execution; its part for a smaller one.
    pub block: Nanos,
    /// What is ordered for a transaction.
    pub transaction_bytes: u64,
    /// `None`: it is ordered first.
    pub endorsing: Option<Endorsing>,
}

/// Before it is ordered, a transaction is run and signed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Endorsing {
    pub endorsers: usize,
    pub proposal_bytes: u64,
    /// To run it and to sign what came of it.
    pub simulate: Nanos,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Ordering {
    /// A batch is a block; one that is not full goes when its first transaction has waited so long.
    Kafka {
        linger: Nanos,
        sync: Nanos,
    },
    HotStuff {
        batch_max: usize,
        crypto: Crypto,
    },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Crypto {
    pub sign: Nanos,
    pub verify: Nanos,
    /// Each of many that are checked together.
    pub verify_of_many: Nanos,
    pub hash_nanos_per_byte: f64,
}

impl Crypto {
    pub(super) fn verify_all(&self, count: usize) -> Nanos {
        self.verify.min(self.verify_of_many) * count as Nanos
    }

    pub(super) fn hash(&self, bytes: u64) -> Nanos {
        (bytes as f64 * self.hash_nanos_per_byte) as Nanos
    }
}

#[derive(Clone, Debug)]
pub struct Scene {
    pub replicas: usize,
    pub system: System,
    pub ordering: Ordering,
    pub network: Network,
    /// Transactions a second that clients send, at random moments.
    pub offered_per_second: f64,
    pub transactions: usize,
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Of the slowest replica, between a tenth and nine tenths of the transactions.
    pub per_second: f64,
    pub latency_ms_mean: f64,
    pub latency_ms_p50: f64,
    pub latency_ms_p99: f64,
    /// By replica.
    pub executed: Vec<u64>,
    /// Transactions whose clients waited, over time.
    pub waiting_mean: f64,
    /// What was at work for the longest time, and for which part of all.
    pub busiest: Busiest,
    /// Until the last replica had executed the last transaction.
    pub seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Busiest {
    pub what: &'static str,
    pub share: f64,
}
