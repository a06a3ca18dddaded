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
mod kind;
mod place;
mod raft;
mod standing;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use engine::Journal;

use crate::config::Settings;

pub use kind::Kind;
pub use place::{Beginning, Place};
pub use standing::{OfTopic, Standing};

/// Where members keep what is their orderer's, in their data folders.
pub const FOLDERS: [&str; 2] = [order_raft::SIDE_FOLDER, "kafka"];

impl Kind {
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
}

/// Whether a data folder is that of a member, whose blocks others may be taking.
pub fn is_of_member(data: &Path) -> bool {
    data.join(cluster::plan::FOLDER).exists()
}
