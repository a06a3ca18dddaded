//! What an engine does besides blocks: checkpoints, retention, bounds, who orders.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ledger::signatures::SecretKey;
use types::Error;

use crate::checkpoint::{Checkpointer, ServiceSettings};
use crate::clock::ClockBound;
use crate::recovery::Progress;
use crate::remote_orders::RemoteOrderer;
use crate::retention::RetentionSettings;
use crate::watchdog::Watchdog;

/// What an engine needs to take checkpoints.
pub struct Checkpoints {
    pub checkpointer: Checkpointer,
    pub settings: ServiceSettings,
    /// What has come since the last checkpoint.
    pub since: Progress,
}

/// What an engine does besides blocks: checkpoints, retention, bounds, who orders.
#[derive(Default)]
pub struct EngineOptions {
    pub checkpoints: Option<Checkpoints>,
    pub retention: RetentionSettings,
    /// The digest of each checkpoint is ordered: see [`crate::checkpoint::vouched`].
    pub vouch: bool,
    /// When nothing has come for so long, results are written and the logs are marked.
    pub rest: Option<Duration>,
    /// How far the times of blocks may be ahead of the clock; `None`: as far as they like.
    pub clock_bound: Option<ClockBound>,
    /// Bytes that the tables may hold, beyond which this node takes no more; 0: any number.
    pub memory_bytes_max: u64,
    /// What they hold, where engines of one process share that bound.
    pub memory_together: Arc<AtomicU64>,
    /// Keeps what block this process dies in.
    pub watchdog: Option<Arc<Watchdog>>,
    /// Why there are reads only, from the start on.
    pub stopped: Option<Error>,
    /// Who orders, where that is not this node alone.
    pub remote_orderer: Option<RemoteOrderer>,
    /// A disk that is full is waited for, and not taken for one that has failed.
    pub waits_for_room: bool,
    /// What this start's envelopes are numbered under, where the head is no name for it since other
    /// nodes have the same: 16 bytes that were never used.
    pub submitter: Option<[u8; 16]>,
    /// What this node signs by for users of its organisation.
    pub signer: Option<SecretKey>,
}
