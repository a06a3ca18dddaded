//! The protocols: what a read, a lock and a commit mean.
//!
//! | Rule | reads | writes | serial order |
//! |---|---|---|---|
//! | [`mvto`] | at its timestamp, left on what is newest | lock; late ones give up | timestamp |
//! | [`mvocc`] | at a snapshot, validated | lock the newest version | commit timestamp |
//! | [`mv2pl`] | the newest version, locked | lock, no-wait | commit timestamp |
//! | [`si`] | at a snapshot | lock, first updater wins | none: not serializable |
//! | [`ssi`] | at a snapshot, remembered | as SI; no pivot commits | commit, or snapshot |
//! | [`ssn`] | at a snapshot, remembered | as SI; the exclusion window | the window's upper end |
//!
//! What all share, the workspace, the gate, installing and collecting, is in
//! [`transaction`](crate::transaction). A rule is a type, so that a transaction's data path is
//! compiled for it.

pub mod mv2pl;
pub mod mvocc;
pub mod mvto;
pub mod si;
mod snapshot;
pub mod ssi;
pub mod ssn;

use kit::sync::MutexGuard;
use kit::sync::Spin;
use kit::sync::atomic::Ordering::SeqCst;

use crate::chains::{Head, Seen};
use crate::clock::{Inside, Timestamp};
use crate::database::Database;
use crate::gaps::{Fallen, GapId};
use crate::pool::{Full, Unit};
use crate::table::{DEAD_LOCK, Table};
use crate::workspace::Write;

/// Why an access did not come to an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Miss {
    /// Another was first: the transaction gives up and may be tried again.
    Conflict(&'static str),
    /// The tuple is dead: look its key up again.
    Gone,
    /// There is no room for what the transaction writes.
    Full(Full),
}

/// Where a transaction stands in the serial order: by `order`, those who only read after those who
/// wrote up to there, and then by `then`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommitSequenceNumber {
    pub order: Timestamp,
    pub reads_only: bool,
    pub then: u64,
}

impl CommitSequenceNumber {
    pub fn writer(order: Timestamp) -> CommitSequenceNumber {
        CommitSequenceNumber { order, reads_only: false, then: 0 }
    }

    pub fn reader(order: Timestamp) -> CommitSequenceNumber {
        CommitSequenceNumber { order, reads_only: true, then: 0 }
    }
}

/// What a commit was allowed to do.
#[derive(Clone, Copy, Debug)]
pub struct Permit {
    /// When its versions begin.
    pub at: Timestamp,
    pub csn: CommitSequenceNumber,
}

/// What a rule sees of the transaction that it rules.
pub struct Context<'d, N> {
    pub db: &'d Database,
    pub worker: usize,
    /// What it reads at.
    pub at: Timestamp,
    /// Declared so: it neither writes nor leaves traces.
    pub read_only: bool,
    pub notes: N,
    /// Where rows are copied that lie in place.
    pub copy: Vec<u64>,
}

/// A table and one of its gaps.
pub type GapOf = (u32, GapId);

/// One protocol.
pub trait Rule: Send + Sync + Sized + 'static {
    /// What a transaction must remember beside its writes.
    type Notes: Default + Send;
    const NAME: &'static str;
    /// Timestamps are drawn by stripes.
    const STRIPED: bool = false;
    /// Blocks hold the rows that its transactions leave.
    const KEEPS_IMAGES: bool = false;

    /// Draws what a transaction reads at; `must_see` is the newest that its session has seen.
    fn begin(db: &Database, worker: usize, must_see: Timestamp, read_only: bool) -> Timestamp {
        let _ = read_only;
        db.clock.begin_snapshot(worker, must_see)
    }

    /// The lock word of one who writes.
    fn owner(cx: &Context<'_, Self::Notes>) -> u64;

    /// Whether a lock word says that the transaction writes the tuple.
    fn is_own(cx: &Context<'_, Self::Notes>, lock: u64) -> bool {
        lock == Self::owner(cx)
    }

    fn read<'d>(
        cx: &mut Context<'d, Self::Notes>,
        table: &'d Table,
        tuple: u32,
        hint: Option<Unit>,
    ) -> Result<Seen<'d>, Miss>;

    /// Locks a tuple for writing and shows its newest version.
    fn lock<'d>(
        cx: &mut Context<'d, Self::Notes>,
        table: &'d Table,
        tuple: u32,
    ) -> Result<Seen<'d>, Miss>;

    fn unlock(cx: &Context<'_, Self::Notes>, head: Head<'_>) {
        let _ = cx;
        head.lock_word().store(0, SeqCst);
    }

    /// A range or an absent key was looked for.
    fn read_gap(cx: &mut Context<'_, Self::Notes>, table: &Table, gap: GapId) -> Result<(), Miss>;

    /// The gap just read is of an index whose values are unique.
    fn read_unique(cx: &mut Context<'_, Self::Notes>, table: &Table, gap: GapId) {
        let _ = (cx, table, gap);
    }

    /// What is held while a commit is decided and installed, where one structure serves all.
    fn centre<'d>(cx: &Context<'d, Self::Notes>) -> Option<MutexGuard<'d, ()>> {
        let _ = cx;
        None
    }

    /// Whether and where the transaction may commit. All of its entries are published by now, and
    /// `fallen` are the gaps that they fall into. After an `Err` comes [`Rule::forget`].
    fn permit(
        cx: &mut Context<'_, Self::Notes>,
        inside: &Inside<'_>,
        writes: &[Write],
        fallen: &[(u32, Fallen)],
    ) -> Result<Permit, Miss>;

    /// The same for one whose writes, if it had any, are dropped, but whose reads must hold: `kept`
    /// are those that came with its writes.
    fn permit_reads(
        cx: &mut Context<'_, Self::Notes>,
        kept: &[Write],
    ) -> Result<CommitSequenceNumber, Miss>;

    /// The versions are installed and the tuples not unlocked yet.
    fn installed(cx: &mut Context<'_, Self::Notes>, permit: &Permit, fallen: &[(u32, Fallen)]) {
        let _ = (cx, permit, fallen);
    }

    /// The transaction is over, and the tuples that it wrote are unlocked.
    fn forget(cx: &mut Context<'_, Self::Notes>) {
        let _ = cx;
    }
}

/// Waits for another transaction, but not for ever.
struct Patience {
    spin: Spin,
    left: u32,
}

const WAITS_MAX: u32 = 24;

impl Patience {
    fn new() -> Patience {
        Patience { spin: Spin::new(), left: WAITS_MAX }
    }

    /// `false`: it has waited long enough.
    fn wait(&mut self) -> bool {
        self.spin.wait();
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

/// Takes a free lock, or says why not.
fn lock_free(head: Head<'_>, owner: u64) -> Result<(), Miss> {
    match head.lock_word().compare_exchange(0, owner, SeqCst, SeqCst) {
        Ok(_) => Ok(()),
        Err(DEAD_LOCK) => Err(Miss::Gone),
        Err(_) => Err(Miss::Conflict("Another transaction is writing a row.")),
    }
}

const OVERWRITTEN: Miss = Miss::Conflict("A row was changed by a later transaction.");
const CLOSED: Miss = Miss::Conflict("Its place would be in a block that is closed.");
const PHANTOM: Miss = Miss::Conflict("A row came into a range that was read.");
