//! Kafka as an orderer: one partition of a topic is the order.
//!
//! ```text
//! node 1  submit ─► outbox ─► bundle ─┐                           ┌─► cutter ─► poll  node 1
//! node 2  submit ─► outbox ─► bundle ─┼─► topic: 0 1 2 3 4 5 6 … ─┼─► cutter ─► poll  node 2
//! node 3  submit ─► outbox ─► bundle ─┘  records, kept by brokers └─► cutter ─► poll  node 3
//! ```
//!
//! The brokers put [records](record) in one order; every node reads them all and [cuts](cutter)
//! them into the same batches, each for itself. There is no leader among the nodes. A node writes
//! what it executes to the ledger's own log of orders, as a lone one does, and needs the topic no
//! more for what it has there. Sequences are heights: every delivery has content.
//!
//! **Idle means at once, load means batches.** A bundle asks for the end of the open batch if its
//! node has nothing left to execute; else the batch stays open until a node has. Then each node
//! with a record in it sends a time-to-cut message, and the others do so a little later if none has
//! come.
//!
//! **Restart.** [Positions](positions) are kept beside the ledger without a sync. What is read
//! behind one and is in the ledger already is compared: a topic that holds something else than the
//! ledger is not gone on with.
//!
//! **Copies.** An append whose answer was lost is repeated with the same bytes; all pass over the
//! second. A node has one append under way, so its envelopes keep their order.
//!
//! **Faults borne**: nodes that stop at any moment, and lie about results (votes find that);
//! brokers that stop or are away for long, as long as they lose nothing that they acknowledged:
//! replicate the topic, with `min.insync.replicas` above one and no unclean elections. *Not*: a
//! broker that lies, or a program that can write into the topic and means harm. A topic that was
//! truncated, emptied or made anew stops the node, with a cause that says so, before it executes
//! another order.
//!
//! **While brokers are away**, envelopes wait, bounded in number, bytes and time; then their
//! clients are told: of one that was never sent that it is in no block, of others that nothing is
//! known.
//!
//! What becomes of envelopes and records is decided by [a value](mailbox); [`Node`] gives it time
//! and the topic.
//!
//! **Cost.** A lone batch takes one append, one answer to a fetch that waits, and the node's own
//! sync.
//!
//! *Absence*: what an envelope means, execution. Sockets are [`broker`]'s alone.

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
    /// Puts a record behind the others. After an error it may be there all the same, also later.
    fn append(&self, record: Bytes) -> BoxFuture<'static, Result<(), LogError>>;

    /// Records from an offset on, each with its own; waits a little if there are none.
    fn read(&self, from: u64) -> BoxFuture<'static, Result<Vec<(u64, Bytes)>, LogError>>;

    /// Offsets of the first record and of the one behind the last.
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
    pub life: Drawn,
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
