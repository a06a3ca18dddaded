//! What orders a ledger: Raft among its members, or a service that they all use.
//!
//! | `--order` | the order is | feature |
//! |---|---|---|
//! | `raft` | that of more than half of the members; one of them leads | |
//! | `kafka` | that of the records of a topic, on the user's own brokers | `kafka` |
//! | `cometbft` | that of blocks that over two thirds of the members have signed | `cometbft` |
//!
//! The ledger's first block names it, for good. Here it is told which is which; the rest of the
//! program knows a [`Place`], and a [`Standing`] for people. What a member keeps beside the ledger
//! lies in a folder named for its orderer.

#[cfg(feature = "cometbft")]
mod cometbft;
#[cfg(feature = "kafka")]
mod kafka;
mod kind;
#[cfg(any(feature = "kafka", feature = "cometbft"))]
mod listener;
mod place;
mod raft;
mod standing;
#[cfg(any(feature = "kafka", feature = "cometbft"))]
mod timekeeping;

use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "cometbft")]
use anyhow::Context;
use anyhow::Result;
use cluster::plan::Made;
use cluster::{Plan, Secrets};
use engine::Journal;

use crate::config::Settings;

pub use kind::Kind;
pub use place::{Beginning, Place};
pub use standing::{OfTopic, Standing};

/// Where members keep what is their orderer's, in their data folders, and can be set aside: what
/// a member has signed for CometBFT stays.
pub const FOLDERS: [&str; 2] = [order_raft::SIDE_FOLDER, "kafka"];

impl Kind {
    /// What has to be there before the ledger of a new cluster begins; a line about it.
    pub fn prepare(self, settings: &Settings, ledger_id: [u8; 16]) -> Result<Option<String>> {
        match self {
            Kind::Raft => Ok(None),
            #[cfg(feature = "cometbft")]
            Kind::CometBft => cometbft::program(settings).map(|_| None),
            #[cfg(not(feature = "cometbft"))]
            Kind::CometBft => Err(self.is_missing()),
            #[cfg(feature = "kafka")]
            Kind::Kafka => kafka::prepare(settings, ledger_id).map(Some),
            #[cfg(not(feature = "kafka"))]
            Kind::Kafka => {
                let _ = (settings, ledger_id);
                Err(self.is_missing())
            }
        }
    }

    /// What a member has in its folder beside its keys. `first`: writes the ledger's first block
    /// into a folder, which is new.
    pub fn make(
        self,
        data: &Path,
        plan: &Plan,
        made: &Made,
        first: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        match self {
            Kind::Raft | Kind::Kafka => Ok(()),
            #[cfg(feature = "cometbft")]
            Kind::CometBft => {
                first(&cometbft::first_block_of(data))?;
                let (_, secrets) = Plan::read(data)?.context("the keys were not written")?;
                cometbft::make(data, plan, made.member.id, secrets.own.now()[0].key.secret_der())
            }
            #[cfg(not(feature = "cometbft"))]
            Kind::CometBft => {
                let _ = (data, plan, made, first);
                Err(self.is_missing())
            }
        }
    }

    /// The same for a member that comes to a ledger, of which `other` is a member's folder.
    pub fn make_beside(self, data: &Path, plan: &Plan, made: &Made, other: &Path) -> Result<()> {
        #[cfg(feature = "cometbft")]
        let first = |to: &Path| cometbft::copy_first_block(&cometbft::first_block_of(other), to);
        #[cfg(not(feature = "cometbft"))]
        let first = |_: &Path| {
            let _ = other;
            Ok(())
        };
        self.make(data, plan, made, first)
    }

    /// Takes part after the last block that the replica has executed. In a runtime of its own.
    pub async fn begin(self, beginning: Beginning<'_>) -> Result<(Arc<dyn Place>, Journal)> {
        match self {
            Kind::Raft => raft::begin(beginning).await,
            #[cfg(feature = "kafka")]
            Kind::Kafka => kafka::begin(beginning).await,
            #[cfg(not(feature = "kafka"))]
            Kind::Kafka => Err(self.is_missing()),
            #[cfg(feature = "cometbft")]
            Kind::CometBft => cometbft::begin(beginning).await,
            #[cfg(not(feature = "cometbft"))]
            Kind::CometBft => Err(self.is_missing()),
        }
    }

    /// A folder without a ledger gets what it begins with, where that comes from no other member.
    /// Whether it is so.
    pub fn begin_anew(self, data: &Path, plan: &Plan, secrets: &Secrets) -> Result<bool> {
        match self {
            Kind::Raft | Kind::Kafka => Ok(false),
            #[cfg(feature = "cometbft")]
            Kind::CometBft => {
                cometbft::begin_anew(data, plan, secrets)?;
                Ok(true)
            }
            #[cfg(not(feature = "cometbft"))]
            Kind::CometBft => {
                let _ = (data, plan, secrets);
                Err(self.is_missing())
            }
        }
    }
}

/// Whether a data folder is that of a member, whose blocks others may be taking.
pub fn is_of_member(data: &Path) -> bool {
    data.join(cluster::plan::FOLDER).exists()
}
