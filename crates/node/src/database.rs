//! What the node asks of the database underneath: open it and serve, verify a folder, take and
//! check a receipt. The only module of the node that names the engine, the SQL layer and the
//! PostgreSQL front.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::config::Settings;
use crate::metrics::Metrics;

/// An open ledger.
pub struct Database {}

/// Reads the ledger in `settings.data`, or begins one, and recovers its state.
pub fn open(settings: &Settings, metrics: Arc<Metrics>) -> Result<Database> {
    let _ = (settings, metrics);
    bail!("the engine is not wired up in this build")
}

impl Database {
    /// Height of the newest durable block.
    pub fn height(&self) -> u64 {
        0
    }

    /// Admits sessions until `stop` becomes true, then waits for open transactions as long as the
    /// settings allow.
    pub async fn serve(&self, listener: TcpListener, stop: watch::Receiver<bool>) -> Result<()> {
        let _ = (listener, stop);
        Ok(())
    }

    /// Seals what is under way and closes the files.
    pub fn close(self) -> Result<()> {
        Ok(())
    }
}

/// What `tally verify` found.
#[derive(Debug)]
pub struct Verification {
    /// Height of the newest block that was read.
    pub height: u64,
    pub blocks: u64,
    pub transactions: u64,
    pub ledger_bytes: u64,
    /// Hash of the newest block's header.
    pub block_hash: [u8; 32],
    pub verdict: Verdict,
}

/// The first thing that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every hash, root and re-executed effect is as recorded.
    Sound,
    /// The last record is incomplete or its checksum is wrong; all before it holds.
    TornTail { height: u64, detail: String },
    /// A record before the last one is damaged, or a hash or root is not as recorded.
    Damaged { height: u64, detail: String },
    /// The block holds, but running it again gives something else.
    Differs {
        height: u64,
        transaction: Option<u32>,
        table: Option<String>,
        key: Option<String>,
        detail: String,
    },
}

/// Checks the ledger in `data`; `workers` of 0 means one for each core.
pub fn verify(data: &Path, workers: u32) -> Result<Verification> {
    let _ = (data, workers);
    bail!("the engine is not wired up in this build")
}

/// What a receipt says, for people.
#[derive(Debug)]
pub struct ReceiptSummary {
    pub height: u64,
    pub index: u32,
    pub block_hash: [u8; 32],
    /// The transaction and its outcome, in words.
    pub transaction: String,
    pub outcome: String,
}

/// The receipt of one transaction: its canonical bytes, and what they say.
pub fn take_receipt(data: &Path, height: u64, index: u32) -> Result<(Vec<u8>, ReceiptSummary)> {
    let _ = (data, height, index);
    bail!("the engine is not wired up in this build")
}

/// What the receipt proves under the header hash that the caller trusts; an error if it does not.
pub fn check_receipt(receipt: &[u8], block_hash: &[u8; 32]) -> Result<ReceiptSummary> {
    let _ = (receipt, block_hash);
    bail!("the engine is not wired up in this build")
}
