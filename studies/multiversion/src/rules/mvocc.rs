//! Multi-version optimistic concurrency control (section 5.3.2; Larson et al., VLDB 2011).
//!
//! *Idea.* Read at a snapshot without touching what others see, lock what is written, draw a commit
//! timestamp, and check that what was read is still the newest. The serial order is that of the
//! commit timestamps.
//!
//! ```text
//! lock    [ unused | committing: 1 at bit 32 | worker + 1 ]
//! ```
//!
//! **What is about to commit counts.** A writer sets the committing bits of its locks *before*
//! it draws; a validator draws, then looks. If it sees no bit, the writer will draw a later
//! timestamp and stand after it. Inserts do the same with the pending counts of the gaps.
//!
//! *Departures.* One that wrote nothing stands at its snapshot and needs no validation, declared
//! read-only or not; the thesis's validated all the same, which is where its long readers starve.
//! Snapshots are consistent ([`clock`](crate::clock)), so a doomed transaction never sees what
//! cannot be.
//!
//! *Cost.* Readers write no shared word. Conflicts show late: the whole transaction is lost.

use concurrency::test_mode;
use kit::sync::atomic::Ordering::SeqCst;

use super::snapshot::{self, Reads};
use super::{CommitSequenceNumber, Context, Miss, OVERWRITTEN, PHANTOM, Permit, Rule};
use crate::chains::Seen;
use crate::clock::Inside;
use crate::gaps::{Fallen, GapId};
use crate::mutant::{Mutant, mutated};
use crate::pool::Unit;
use crate::table::Table;
use crate::workspace::Write;

pub struct Mvocc;

const COMMITTING: u64 = 1 << 32;

#[derive(Default)]
pub struct Notes {
    reads: Reads,
    /// Gaps whose pending count is one higher for this transaction.
    pending: Vec<(u32, GapId)>,
    drawn: bool,
}

impl Rule for Mvocc {
    type Notes = Notes;
    const NAME: &'static str = "mvocc";

    fn owner(cx: &Context<'_, Notes>) -> u64 {
        snapshot::owner(cx)
    }

    #[inline]
    fn read<'d>(
        cx: &mut Context<'d, Notes>,
        table: &'d Table,
        tuple: u32,
        hint: Option<Unit>,
    ) -> Result<Seen<'d>, Miss> {
        let seen = snapshot::read(cx, table, tuple, hint)?;
        if !cx.read_only {
            cx.notes.reads.tuples.push((table.schema.id.0, tuple, seen.mark));
        }
        Ok(seen)
    }

    fn lock<'d>(
        cx: &mut Context<'d, Notes>,
        table: &'d Table,
        tuple: u32,
    ) -> Result<Seen<'d>, Miss> {
        snapshot::lock::<Self>(cx, table, tuple)
    }

    fn read_gap(cx: &mut Context<'_, Notes>, table: &Table, gap: GapId) -> Result<(), Miss> {
        if !cx.read_only {
            cx.notes.reads.add_gap(table, gap);
        }
        Ok(())
    }

    fn permit(
        cx: &mut Context<'_, Notes>,
        _: &Inside<'_>,
        writes: &[Write],
        fallen: &[(u32, Fallen)],
    ) -> Result<Permit, Miss> {
        let own = Self::owner(cx);
        for write in writes {
            let head = cx.db.at(write.table).head(write.tuple);
            head.lock_word().store(own | COMMITTING, SeqCst);
        }
        for (table, gaps) in fallen {
            for gap in gaps {
                cx.db.at(*table).gaps.gap(*gap).pending.fetch_add(1, SeqCst);
                cx.notes.pending.push((*table, *gap));
            }
        }
        let at = cx.db.clock.draw(cx.worker);
        cx.notes.drawn = true;
        test_mode::pause();
        for (table, tuple, mark) in &cx.notes.reads.tuples {
            let head = cx.db.at(*table).head(*tuple);
            let lock = head.lock_word().load(SeqCst);
            let theirs = lock & COMMITTING != 0 && lock & !COMMITTING != own;
            let committing = theirs && !mutated(Mutant::CommittingIgnored);
            let changed = head.newest() != *mark && !mutated(Mutant::ReadsUnvalidated);
            if committing || changed {
                return Err(OVERWRITTEN);
            }
        }
        for read in &cx.notes.reads.gaps {
            let gap = cx.db.at(read.0).gaps.gap(read.1);
            let own = cx.notes.pending.iter().filter(|pending| *pending == read).count() as u64;
            if gap.pending.load(SeqCst) != own || gap.insert.load(SeqCst) > cx.at.0 {
                return Err(PHANTOM);
            }
        }
        Ok(Permit { at, csn: CommitSequenceNumber::writer(at) })
    }

    fn permit_reads(
        cx: &mut Context<'_, Notes>,
        _: &[Write],
    ) -> Result<CommitSequenceNumber, Miss> {
        Ok(CommitSequenceNumber::reader(cx.at))
    }

    fn is_own(cx: &Context<'_, Notes>, lock: u64) -> bool {
        lock & !COMMITTING == Self::owner(cx)
    }

    fn installed(cx: &mut Context<'_, Notes>, permit: &Permit, _: &[(u32, Fallen)]) {
        for (table, gap) in &cx.notes.pending {
            cx.db.at(*table).gaps.gap(*gap).insert.fetch_max(permit.at.0, SeqCst);
        }
    }

    fn forget(cx: &mut Context<'_, Notes>) {
        for (table, gap) in cx.notes.pending.drain(..) {
            cx.db.at(table).gaps.gap(gap).pending.fetch_sub(1, SeqCst);
        }
        cx.notes.reads.clear();
        if std::mem::take(&mut cx.notes.drawn) {
            cx.db.clock.installed(cx.worker);
        }
    }
}
