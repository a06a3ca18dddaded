//! What orders a ledger: Raft among its members, or a service that they all use.
//!
//! | `--order` | the order is | feature |
//! |---|---|---|
//! | `raft` | that of more than half of the members; one of them leads | |
//! | `kafka` | that of the records of a topic, on the user's own brokers | `kafka` |
//!
//! The ledger's first block names it, for good. Here it is told which is which; the rest of the
//! program knows a [`Place`], and a [`Standing`] for people. What a member keeps beside the ledger
//! lies in a folder named for its orderer.

#[cfg(feature = "kafka")]
mod door;
#[cfg(feature = "kafka")]
mod kafka;
mod raft;
mod standing;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Result, bail};
use bytes::Bytes;
use clap::ValueEnum;
use cluster::{Answer, Members, Peers, Plan};
use engine::limits::Limits;
use engine::{BlockLimits, Elsewhere, Engine, Journal, Replica};
use futures::future::BoxFuture;
use ledger::{BlockWriter, Files, Hash, Parameters};
use types::Height;

use super::recover::Pending;
use crate::config::Settings;
use crate::folders;
use crate::metrics::Order;

pub use standing::{OfTopic, Standing};

/// Where members keep what is their orderer's, in their data folders.
pub const FOLDERS: [&str; 2] = [order_raft::SIDE_FOLDER, "kafka"];

/// What orders a ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// The members among themselves: more than half of them must run.
    Raft,
    /// A topic of Kafka's brokers: any member goes on as long as it reaches them.
    Kafka,
}

/// A member's place in the order, from its start on.
pub trait Place: Send + Sync {
    fn orderer(&self) -> Elsewhere;

    fn standing(&self) -> Standing;

    /// For the metrics.
    fn order(&self) -> Order;

    /// The answer to another member's request that is about the order.
    fn answer(&self, request: Bytes) -> BoxFuture<'static, Answer>;

    /// The hash of a block's order.
    fn hash_of(&self, height: Height) -> std::io::Result<Hash>;

    /// The oldest block that was not pruned.
    fn first_height(&self) -> Height;

    /// What one that takes the ledger up to this block goes on with: [`Kind::begin_behind`].
    fn up_to(&self, height: Height) -> std::io::Result<Vec<u8>>;

    /// Takes no part any more.
    fn stop(&self) -> BoxFuture<'static, ()>;

    /// What the orderer has written of the ledger is in order on disk, and a mark says so.
    fn rest(&self) -> std::io::Result<()>;
}

/// What a member begins with.
pub struct Beginning<'a> {
    pub plan: &'a Plan,
    pub id: u64,
    pub files: Arc<dyn Files>,
    /// Of the ledger, behind its last block.
    pub log: BlockWriter,
    pub replica: &'a Replica,
    pub limits: BlockLimits,
    pub settings: &'a Settings,
    pub ahead_max: Option<Duration>,
    pub peers: Arc<Peers>,
    pub members: Arc<Members>,
    /// As soon as there is one.
    pub engine: Arc<OnceLock<Arc<Engine>>>,
    /// Of a member that was told to go on alone.
    pub pending: Option<Pending>,
}

impl Kind {
    /// As the ledger's parameters name it, and as `--order` does.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Raft => engine::limits::RAFT,
            Kind::Kafka => "kafka",
        }
    }

    /// One of this name, if this program has it.
    pub fn named(name: &str) -> Result<Kind> {
        let found = Kind::value_variants().iter().find(|kind| kind.name() == name);
        let Some(kind) = found else {
            bail!("the ledger is ordered by {name}, which this program does not know");
        };
        kind.check()?;
        Ok(*kind)
    }

    /// What orders a ledger, if this program has it; `None`: a lone node.
    pub fn of(parameters: &Parameters) -> Result<Option<Kind>> {
        Limits::orderer(parameters).map(Kind::named).transpose()
    }

    /// Whether this program was built with it.
    pub fn check(self) -> Result<()> {
        let is_there = match self {
            Kind::Raft => true,
            Kind::Kafka => cfg!(feature = "kafka"),
        };
        if is_there { Ok(()) } else { Err(self.is_missing()) }
    }

    fn is_missing(self) -> anyhow::Error {
        let name = self.name();
        let what = format!("the order by {name} is not in this program");
        let hint = format!(
            "It is a feature, {name:?}: build the program with it, cargo build --release --package \
             node --features {name}."
        );
        folders::refused(what).with_hint(hint).into()
    }

    /// What has to be there before the ledger of a new cluster begins; a line about it.
    pub fn prepare(self, settings: &Settings, ledger_id: [u8; 16]) -> Result<Option<String>> {
        match self {
            Kind::Raft => Ok(None),
            #[cfg(feature = "kafka")]
            Kind::Kafka => kafka::prepare(settings, ledger_id).map(Some),
            #[cfg(not(feature = "kafka"))]
            Kind::Kafka => {
                let _ = (settings, ledger_id);
                Err(self.is_missing())
            }
        }
    }

    /// Takes part behind the last block that the replica has executed. In a runtime of its own.
    pub async fn begin(self, beginning: Beginning<'_>) -> Result<(Arc<dyn Place>, Journal)> {
        match self {
            Kind::Raft => raft::begin(beginning).await,
            #[cfg(feature = "kafka")]
            Kind::Kafka => kafka::begin(beginning).await,
            #[cfg(not(feature = "kafka"))]
            Kind::Kafka => Err(self.is_missing()),
        }
    }

    /// Whether the other members send this one the blocks that it lacks, as long as they have them.
    pub fn members_send_blocks(self) -> bool {
        self == Kind::Raft
    }

    /// This member may have known more than its folder says.
    pub fn forget(self, files: &Arc<dyn Files>) -> std::io::Result<()> {
        match self {
            Kind::Raft => order_raft::forget(files),
            // What it put into the topic is there.
            Kind::Kafka => Ok(()),
        }
    }

    /// A folder that was given another member's ledger goes on where that one's [`Place::up_to`]
    /// says.
    pub fn begin_behind(self, files: &Arc<dyn Files>, place: &[u8]) -> Result<()> {
        match self {
            Kind::Raft => Ok(order_raft::begin_behind(files, place)?),
            #[cfg(feature = "kafka")]
            Kind::Kafka => Ok(order_kafka::begin_behind(files, place)?),
            #[cfg(not(feature = "kafka"))]
            Kind::Kafka => Err(self.is_missing()),
        }
    }
}

/// Whether a data folder is that of a member, whose blocks others may be taking.
pub fn is_of_member(data: &Path) -> bool {
    data.join(cluster::plan::FOLDER).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orderer_that_is_missing_is_refused_by_its_feature() {
        assert_eq!(Kind::named("raft").unwrap(), Kind::Raft);
        let unknown = Kind::named("zookeeper").unwrap_err().to_string();
        assert!(unknown.contains("ordered by zookeeper, which this program does not"), "{unknown}");
        for kind in Kind::value_variants() {
            let Err(missing) = kind.check() else { continue };
            let hint = folders::hint_of(&missing).unwrap_or_default();
            assert!(hint.contains(&format!("--features {}", kind.name())), "{missing}: {hint}");
        }
        assert_eq!(Kind::Kafka.check().is_ok(), cfg!(feature = "kafka"));
    }
}
