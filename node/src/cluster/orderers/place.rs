//! [`Place`]: what the node needs of whichever orderer this member runs (Raft, Kafka, CometBFT):
//! its seam for the engine, its status, its clock offsets, its answers to other members.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use cluster::{Answer, Members, Own, Peers, Plan};
use engine::{BlockLimits, Engine, RemoteOrderer, Replica};
use futures::future::BoxFuture;
use ledger::{BlockWriter, Files, Hash};
#[cfg(any(feature = "kafka", feature = "cometbft"))]
use ledger::{Stream, read_record};
use pgcatalog::Misbehaviour;
use types::Height;

use super::Standing;
use crate::cluster::pending::Pending;
use crate::config::Settings;
use crate::metrics::Order;

/// [`Place::hash_of`], where the orders that the node writes are the only ones it has.
#[cfg(any(feature = "kafka", feature = "cometbft"))]
pub fn written_hash_of(files: &dyn Files, height: Height) -> io::Result<Hash> {
    let read = read_record(files, Stream::Orders, height)?;
    let gone = || io::Error::new(io::ErrorKind::NotFound, format!("no block {height}"));
    Ok(read.ok_or_else(gone)?.hash())
}

/// A member's place in the order, from its start on.
pub trait Place: Send + Sync {
    fn orderer(&self) -> RemoteOrderer;

    fn standing(&self) -> Standing;

    /// For the metrics.
    fn order(&self) -> Order;

    /// How far each member's clock is ahead of most, as far as they are known, by microseconds.
    fn clocks(&self) -> BTreeMap<u64, i64>;

    /// Why this member is no one to lead by its clock.
    fn clock_trouble(&self) -> Option<String>;

    /// Whether what orders knows this node by this key.
    fn has_key(&self, _key: &[u8; 32]) -> bool {
        true
    }

    /// What members were convicted of, by an order that holds evidence of it.
    fn misbehaviour(&self) -> Vec<Misbehaviour> {
        Vec::new()
    }

    /// The answer to another member's request that is about the order.
    fn answer(&self, request: Bytes) -> BoxFuture<'static, Answer>;

    /// The hash of a block's order.
    fn hash_of(&self, height: Height) -> io::Result<Hash>;

    /// The oldest block that was not pruned.
    fn first_height(&self) -> Height;

    /// What one that takes the ledger up to this block goes on with: [`super::Kind::begin_behind`].
    fn up_to(&self, height: Height) -> io::Result<Vec<u8>>;

    /// Takes no part any more.
    fn stop(&self) -> BoxFuture<'static, ()>;

    /// What the orderer has written of the ledger is in order on disk, and a mark says so.
    fn rest(&self) -> io::Result<()>;
}

/// What a member begins with.
pub struct Beginning<'a> {
    pub plan: &'a Plan,
    pub id: u64,
    pub files: Arc<dyn Files>,
    /// Of the ledger, after its last block.
    pub log: BlockWriter,
    pub replica: &'a Replica,
    pub limits: BlockLimits,
    pub settings: &'a Settings,
    /// The keys of this node.
    pub own: Arc<Own>,
    pub ahead_max: Option<Duration>,
    pub peers: Arc<Peers>,
    pub members: Arc<Members>,
    /// As soon as there is one.
    pub engine: Arc<OnceLock<Arc<Engine>>>,
    /// Of a member that was told to go on alone.
    pub pending: Option<Pending>,
}
