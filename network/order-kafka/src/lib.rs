//! Kafka as an orderer: the order is that of the records in one partition of a topic.
//!
//! ```text
//! node 1  submit ─► outbox ─► bundle ─┐                           ┌─► cutter ─► poll  node 1
//! node 2  submit ─► outbox ─► bundle ─┼─► topic: 0 1 2 3 4 5 6 … ─┼─► cutter ─► poll  node 2
//! node 3  submit ─► outbox ─► bundle ─┘  records, kept by brokers └─► cutter ─► poll  node 3
//! ```
//!
//! The brokers put [records](record) in one order. Every node reads them all and [cuts](cutter)
//! them into the same batches by itself; there is no leader among the nodes. A node writes what it
//! executes to the ledger's own order log, as a lone node does, and no longer needs the topic for
//! that part. Sequences are heights: every delivery has content.
//!
//! **Batching adapts to load.** A bundle asks for the end of the open batch if its node has nothing
//! left to execute. Otherwise the batch stays open until some node is idle. Then each node with a
//! record in it sends a time-to-cut message, and the other nodes do so a little later if none has
//! come.
//!
//! **Restart.** [Positions](positions) in the topic are stored beside the ledger without a sync.
//! Records after a position that are in the ledger already are compared with it: if the topic holds
//! something else than the ledger, the node stops.
//!
//! **Duplicates.** An append whose answer was lost is repeated with the same bytes, and all nodes
//! skip the second copy. A node has one append in flight, so its envelopes keep their order.
//!
//! **Faults tolerated**: nodes that stop at any moment, or lie about results (votes find that);
//! brokers that stop or are away for long, as long as they lose nothing that they acknowledged:
//! replicate the topic, with `min.insync.replicas` above one and no unclean elections. *Not
//! tolerated*: a broker that lies, or a malicious program that can write to the topic. A topic that
//! was truncated, emptied or recreated stops the node, with an error that says so, before it
//! executes another order.
//!
//! **While brokers are away**, envelopes wait, bounded in number, bytes and time. Then their
//! clients get an answer: for an envelope that was never sent, that it is in no block; for the
//! others, that the outcome is unknown.
//!
//! Envelopes and records are handled by [a state machine without I/O](mailbox); [`Node`] gives it
//! time and the topic.
//!
//! **Cost.** A lone batch takes one append, one answer to a fetch that waits, and the node's own
//! sync.
//!
//! *Absent here*: what an envelope means, execution. Only [`broker`] has sockets.

pub mod broker;
mod confirm;
pub mod cutter;
mod mailbox;
mod node;
pub mod positions;
pub mod record;
mod topic_check;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use order::{Limits, Proposer};

pub use node::{Node, Standing};
pub use positions::{Positions, begin_behind};
pub use record::Drawn;

/// Tells the time: microseconds since 2000-01-01 UTC.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What went wrong with a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogError {
    /// It cannot be reached, or does not answer, now. Whether an append was done is not known.
    Away(String),
    /// The offset is not in it.
    OutOfRange,
    /// There is no such topic.
    NoTopic,
    /// The record is larger than the topic takes.
    TooLarge,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Away(why) => f.write_str(why),
            LogError::OutOfRange => f.write_str("the offset is not in the topic"),
            LogError::NoTopic => f.write_str("there is no such topic"),
            LogError::TooLarge => f.write_str("the record is larger than the topic takes"),
        }
    }
}

/// One partition: records, numbered from 0.
pub trait Log: Send + Sync + 'static {
    /// Puts a record after the others. After an error it may be there all the same, also later.
    fn append(&self, record: Bytes) -> BoxFuture<'static, Result<(), LogError>>;

    /// Records from an offset on, each with its own; waits a little if there are none.
    fn read(&self, from: u64) -> BoxFuture<'static, Result<Vec<(u64, Bytes)>, LogError>>;

    /// Offsets of the first record and of the one after the last.
    fn ends(&self) -> BoxFuture<'static, Result<(u64, u64), LogError>>;

    /// Makes the topic, where there is none.
    fn create(&self) -> BoxFuture<'static, Result<(), LogError>>;
}

/// A node of a cluster.
#[derive(Clone)]
pub struct Config {
    /// The name that it proposes under.
    pub proposer: Proposer,
    pub ledger_id: [u8; 16],
    /// Drawn at this start.
    pub incarnation: Drawn,
    pub limits: Limits,
    pub timing: Timing,
    /// Of what this node bundles.
    pub clock: Clock,
    /// For people.
    pub topic: String,
}

/// How long a node waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// For others to end a batch that holds nothing of its own.
    pub cut: Duration,
    /// Before it tries again what failed.
    pub retry: Duration,
    /// With brokers away, before clients are told.
    pub away: Duration,
    /// For what was appended to be delivered, before it is sent again.
    pub lost: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            cut: Duration::from_millis(30),
            retry: Duration::from_millis(200),
            away: Duration::from_secs(5),
            lost: Duration::from_secs(20),
        }
    }
}
