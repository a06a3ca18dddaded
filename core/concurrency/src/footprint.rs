//! What a transaction read: recorded as it runs, for checks that come later.
//!
//! Serial execution records nothing ([`NoRecord`] compiles away); simulation records the accesses
//! that make edges between transactions; an interactive session records stamps, so that its COMMIT
//! can require that they still hold ([`Footprint`]).

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use kit::pool::Lease;
use procedure::Meter;
use procedure::access::{Access, Range};
use sha2::{Digest, Sha256};
use types::{Error, Key, Stamp, Stop, TableId};

use crate::pending::RecordId;
use crate::reach::Reach;
use crate::test_mode::{Mutant, mutated};
use crate::work::{RangeRequirement, RowRequirement, Work};

/// Told of every read of the state below a transaction's own writes.
pub trait Recorder {
    /// Whether ranges are to be summed up row by row.
    const DIGESTS: bool;

    fn value_read(&mut self, read: RowRead<'_>);
    fn existence_read(&mut self, read: RowRead<'_>);
    fn range_read(&mut self, range: &Range, digest: RangeDigest);

    /// A read was answered, in whole or in part, by the transaction's own writes.
    fn own_read(&mut self) {}

    /// The same of a scan over a table that the transaction has written to, whatever it will meet.
    fn own_scan(&mut self) {
        self.own_read();
    }

    /// Such a scan has met a row that the transaction itself has written, or what was written there
    /// has been evaluated and rests from now on on what was read for that.
    fn own_row_met(&mut self) {}

    /// The transaction itself has made a table, or put it under another schema.
    fn table_altered(&mut self, _: TableId) {}
}

#[derive(Clone, Copy, Debug)]
pub struct RowRead<'k> {
    pub table: TableId,
    pub key: &'k Key,
    pub record: RecordId,
    /// `None`: there was no row.
    pub stamp: Option<Stamp>,
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecord;

impl Recorder for NoRecord {
    const DIGESTS: bool = false;

    fn value_read(&mut self, _: RowRead<'_>) {}
    fn existence_read(&mut self, _: RowRead<'_>) {}
    fn range_read(&mut self, _: &Range, _: RangeDigest) {}
}

/// What an interactive transaction was shown.
///
/// Statements that write run again at COMMIT and their answers are compared, so what they read need
/// not hold still: that is why hot counters do not conflict. It must when the client learned more
/// than the answer: when a query looked at rows that they wrote, or that they did not write though
/// they [might](Reach) at COMMIT; or when they were undone (a savepoint) or failed, so that nothing
/// runs again. Their reads are kept aside until then. Whatever a query looks at is thus either
/// beyond the reach of the statements before it, or they do at COMMIT what they did.
///
/// *Memory.* What is recorded is covered by a lease, where there is one. What that does not get is
/// not recorded, and the footprint says so ([`Footprint::check`]): such a transaction cannot go on.
///
/// *Tables of the session.* No block knows of them, and no other transaction changes them: what is
/// read of them is not recorded.
///
/// Keys and ranges of a table that the transaction itself has altered mean nothing where it is not
/// altered yet, as when COMMIT looks at requirements. Of such a table it is noted that it was read:
/// all of it must be as it was.
#[derive(Debug, Default)]
pub struct Footprint {
    pub rows: Vec<RowRequirement>,
    pub ranges: Vec<RangeRequirement>,
    /// Off while a writing statement runs.
    pub enabled: bool,
    /// Nothing is recorded: there will be no COMMIT that could require it.
    pub off: bool,
    /// What writing statements read.
    rows_aside: Vec<RowRequirement>,
    ranges_aside: Vec<RangeRequirement>,
    /// Of the writing statements whose reads are aside.
    reach: Reach,
    /// Tables that the transaction itself has made or altered.
    pub altered: BTreeSet<TableId>,
    /// Those of which something was read since.
    pub tables: BTreeSet<TableId>,
    tables_aside: BTreeSet<TableId>,
    memory: Option<Memory>,
}

/// What a footprint takes of memory that others share.
#[derive(Debug)]
struct Memory {
    lease: Lease,
    bytes: u64,
    refused: Option<Error>,
}

impl Recorder for Footprint {
    const DIGESTS: bool = true;

    fn value_read(&mut self, read: RowRead<'_>) {
        if self.off || read.table.is_temporary() {
            return;
        }
        if self.enabled && self.reach.has_row(read.table, read.key) {
            self.require_all();
        }
        if self.altered.contains(&read.table) {
            return self.table_read(read.table);
        }
        if !self.takes::<RowRequirement>(read.key.heap_bytes()) {
            return;
        }
        let rows = match self.enabled {
            true => &mut self.rows,
            false => &mut self.rows_aside,
        };
        rows.push(RowRequirement { table: read.table, key: read.key.clone(), stamp: read.stamp });
    }

    fn existence_read(&mut self, read: RowRead<'_>) {
        self.value_read(read);
    }

    fn range_read(&mut self, range: &Range, digest: RangeDigest) {
        if self.off || range.table.is_temporary() {
            return;
        }
        if self.enabled && self.reach.has_row_of(range.table) {
            self.require_all();
        }
        if self.altered.contains(&range.table) {
            return self.table_read(range.table);
        }
        let heap_bytes = [&range.low, &range.high].map(|bound| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.heap_bytes(),
            Bound::Unbounded => 0,
        });
        if !self.takes::<RangeRequirement>(heap_bytes.iter().sum()) {
            return;
        }
        let ranges = match self.enabled {
            true => &mut self.ranges,
            false => &mut self.ranges_aside,
        };
        ranges.push(RangeRequirement { range: range.clone(), digest, seal: None });
    }

    fn own_read(&mut self) {
        if self.enabled {
            self.require_all();
        }
    }

    fn table_altered(&mut self, table: TableId) {
        if !table.is_temporary() {
            self.altered.insert(table);
        }
    }
}

impl Footprint {
    /// What is recorded is to be covered by this.
    pub fn covered_by(lease: Lease) -> Footprint {
        let memory = Some(Memory { lease, bytes: 0, refused: None });
        Footprint { memory, ..Footprint::default() }
    }

    /// Whether all that was read was recorded.
    pub fn check(&self) -> Result<(), Error> {
        match self.memory.as_ref().and_then(|memory| memory.refused.clone()) {
            Some(refused) => Err(refused),
            None => Ok(()),
        }
    }

    /// Makes sure of memory for one more requirement. A list that grows is there twice for a while.
    fn takes<R>(&mut self, more: usize) -> bool {
        let Some(Memory { lease, bytes, refused }) = &mut self.memory else { return true };
        if refused.is_some() {
            return false;
        }
        let taken = *bytes + (2 * size_of::<R>() + more) as u64;
        match lease.cover(taken) {
            Ok(()) => *bytes = taken,
            Err(exhausted) => *refused = Some(exhausted.into()),
        }
        refused.is_none()
    }

    /// So many of the last requirements are forgotten, and what was refused after them.
    pub(crate) fn release(&mut self, rows: usize, ranges: usize) {
        let Some(Memory { lease, bytes, refused }) = &mut self.memory else { return };
        let gone = rows * size_of::<RowRequirement>() + ranges * size_of::<RangeRequirement>();
        *bytes = bytes.saturating_sub(2 * gone as u64);
        lease.shrink(*bytes);
        *refused = None;
    }

    fn table_read(&mut self, table: TableId) {
        match self.enabled {
            true => self.tables.insert(table),
            false => self.tables_aside.insert(table),
        };
    }

    /// A writing statement has run, and will run again at COMMIT.
    pub fn wrote(&mut self, work: &Work) {
        if !mutated(Mutant::ReachIgnored) {
            self.reach.add(work);
        }
    }

    /// What writing statements read so far must hold at COMMIT as well: they will not speak for it.
    pub fn require_all(&mut self) {
        if mutated(Mutant::UndoneReadsForgotten) {
            return;
        }
        self.rows.append(&mut self.rows_aside);
        self.ranges.append(&mut self.ranges_aside);
        self.tables.append(&mut self.tables_aside);
        self.reach.clear();
    }

    /// Reads of one row collapse to one requirement: a transaction has one snapshot, so they agree.
    pub fn compact(&mut self) {
        self.rows.sort_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
        self.rows.dedup_by(|a, b| a.table == b.table && a.key == b.key);
    }
}

/// The rows of a range summed up in order: how many, and a 128-bit digest of keys and stamps. It
/// guards a transaction against its own staleness, not against an adversary, so it need not be
/// cryptographic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeDigest {
    pub rows: u64,
    /// The scan was stopped after `rows` rows, so only those are meant.
    pub stopped: bool,
    lanes: [u64; 2],
}

impl Default for RangeDigest {
    fn default() -> Self {
        RangeDigest {
            rows: 0,
            stopped: false,
            lanes: [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344],
        }
    }
}

impl RangeDigest {
    pub fn from_parts(rows: u64, stopped: bool, lanes: [u64; 2]) -> Self {
        RangeDigest { rows, stopped, lanes }
    }

    pub fn lanes(&self) -> [u64; 2] {
        self.lanes
    }

    pub fn add(&mut self, key: &[u8], stamp: Stamp) {
        self.rows += 1;
        if !mutated(Mutant::DigestWithoutStamps) {
            self.mix(stamp.0);
        }
        self.mix(key.len() as u64);
        for chunk in key.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_be_bytes(word));
        }
    }

    fn mix(&mut self, word: u64) {
        const ODD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
        for (lane, odd) in self.lanes.iter_mut().zip(ODD) {
            let product = u128::from(*lane ^ word) * u128::from(odd);
            *lane = (product as u64) ^ ((product >> 64) as u64).rotate_left(29);
        }
    }

    /// Read the range again and sum it up as `like` was: to the end, or to as many rows.
    pub fn again<A: Access>(
        access: &mut A,
        range: &Range,
        like: &RangeDigest,
        meter: &Meter,
    ) -> Result<RangeDigest, Stop> {
        let mut digest = RangeDigest { stopped: like.stopped, ..RangeDigest::default() };
        if like.stopped && like.rows == 0 {
            return Ok(digest);
        }
        access.scan(range, &[], |key, stamp, _| {
            meter.spend(1)?;
            digest.add(key.as_bytes(), stamp);
            let enough = like.stopped && digest.rows == like.rows;
            Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(digest)
    }
}

/// SHA-256 of the keys of a range's rows and their stamps, in order: of it no other range can be
/// found that has the same one.
pub type RangeSeal = [u8; 32];

/// Bytes that are hashed for one unit of work.
const SEALED_BYTES_PER_UNIT: usize = 64;

/// Reads a range and sums it up as `like` was: how many rows, and their seal.
pub fn seal_range<A: Access>(
    access: &mut A,
    range: &Range,
    like: &RangeDigest,
    meter: &Meter,
) -> Result<(u64, RangeSeal), Stop> {
    let (mut rows, mut hash) = (0, Sha256::new());
    if !(like.stopped && like.rows == 0) {
        access.scan(range, &[], |key, stamp, _| {
            let key = key.as_bytes();
            meter.spend(1 + (key.len() / SEALED_BYTES_PER_UNIT) as u64)?;
            rows += 1;
            hash.update((key.len() as u64).to_be_bytes());
            hash.update(key);
            hash.update(stamp.0.to_be_bytes());
            let enough = like.stopped && like.rows == rows;
            Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    Ok((rows, hash.finalize().into()))
}
