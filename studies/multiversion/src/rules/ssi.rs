//! Serializable snapshot isolation (section 5.3.4; Cahill, Röhm and Fekete, SIGMOD 2008).
//!
//! *Idea.* Under snapshot isolation every cycle that breaks serializability contains a *pivot*: a
//! transaction with an outgoing conflict (it did not see a concurrent transaction's write) and an
//! incoming one (another concurrent transaction did not see its write). No transaction with both
//! commits.
//!
//! *The serial order*, which the papers leave implicit: a transaction without an outgoing conflict
//! stands at its commit timestamp, as nothing that it read was changed until then. One with an
//! outgoing conflict has no incoming one. It stands *early*: at its snapshot, after all that it
//! saw.
//!
//! ```text
//!              snapshot S                      commit c
//! no out   ─────┼───────────────────────────────●      what it read is still current at c
//! out      ─────●───────────────────────────────┼      what it overwrote was not read
//!                                                       between S and c
//! ```
//!
//! A transaction that missed a write of an *early* one therefore aborts, as it would have to
//! precede that; and a writer whose snapshot is of a closed block must not be early.
//!
//! **Committing readers leave a mark**: a row's head holds the newest commit timestamp among the
//! readers of its newest version. A reader that is still running detects at its own commit that its
//! version was replaced. Reads of gaps count as reads, new index entries as writes.
//!
//! *Departure.* Commits are decided one at a time under one mutex: the centralised structure that
//! the thesis names as the limit of this family. A decision takes a few loads for each read.

use kit::sync::MutexGuard;
use kit::sync::atomic::Ordering::SeqCst;

use super::snapshot::{self, Reads};
use super::{CLOSED, CommitSequenceNumber, Context, Miss, OVERWRITTEN, Permit, Rule};
use crate::chains::Seen;
use crate::clock::{Inside, Timestamp};
use crate::gaps::{Fallen, GapId};
use crate::mutant::{Mutant, mutated};
use crate::pool::Unit;
use crate::table::Table;
use crate::workspace::Write;

pub struct Ssi;

const PIVOT: Miss = Miss::Conflict("The transaction would be the pivot of a dangerous structure.");
const BEFORE_EARLY: Miss = Miss::Conflict("It missed what a pivot-to-be has written.");

#[derive(Default)]
pub struct Notes {
    pub reads: Reads,
    pub drawn: bool,
}

type Cx<'d> = Context<'d, Notes>;

/// Whether an overlapping transaction has changed what was read.
fn has_outgoing(cx: &mut Cx<'_>) -> Result<bool, Miss> {
    let mut outgoing = false;
    for at in 0..cx.notes.reads.tuples.len() {
        let (table, tuple, mark) = cx.notes.reads.tuples[at];
        let table = cx.db.at(table);
        let newest = table.head(tuple).newest();
        if newest.is_dead() {
            return Err(OVERWRITTEN);
        }
        if newest != mark {
            let seen = table.visible(tuple, None, cx.at, &mut cx.copy);
            if seen.ended_early() && !mutated(Mutant::EarlyForgotten) {
                return Err(BEFORE_EARLY);
            }
            outgoing = true;
        }
    }
    for (table, gap) in &cx.notes.reads.gaps {
        let gap = cx.db.at(*table).gaps.gap(*gap);
        if gap.early.load(SeqCst) > cx.at.0 {
            return Err(BEFORE_EARLY);
        }
        outgoing |= gap.insert.load(SeqCst) > cx.at.0;
    }
    Ok(outgoing)
}

/// Whether an overlapping transaction, which has committed, has read what is about to change.
fn has_incoming(cx: &Cx<'_>, writes: &[Write], fallen: &[(u32, Fallen)]) -> bool {
    let read = |write: &Write| {
        let head = cx.db.at(write.table).head(write.tuple);
        head.readers().load(SeqCst) > cx.at.0
    };
    let looked = |(table, gaps): &(u32, Fallen)| {
        let table = cx.db.at(*table);
        gaps.iter().any(|gap| table.gaps.gap(*gap).readers.load(SeqCst) > cx.at.0)
    };
    writes.iter().any(read) || fallen.iter().any(looked)
}

/// Leaves the marks of a reader that commits.
pub fn mark_reads(reads: &Reads, db: &crate::database::Database, at: Timestamp) {
    for (table, tuple, _) in &reads.tuples {
        db.at(*table).head(*tuple).readers().fetch_max(at.0, SeqCst);
    }
    for (table, gap) in &reads.gaps {
        db.at(*table).gaps.gap(*gap).readers.fetch_max(at.0, SeqCst);
    }
}

/// Leaves the marks of one that inserted.
pub fn mark_inserts(
    fallen: &[(u32, Fallen)],
    db: &crate::database::Database,
    at: Timestamp,
    early: bool,
) {
    for (table, gaps) in fallen {
        for gap in gaps {
            let gap = db.at(*table).gaps.gap(*gap);
            gap.insert.fetch_max(at.0, SeqCst);
            if early {
                gap.early.fetch_max(at.0, SeqCst);
            }
        }
    }
}

impl Rule for Ssi {
    type Notes = Notes;
    const NAME: &'static str = "ssi";

    fn owner(cx: &Cx<'_>) -> u64 {
        snapshot::owner(cx)
    }

    fn centre<'d>(cx: &Cx<'d>) -> Option<MutexGuard<'d, ()>> {
        Some(cx.db.centre())
    }

    #[inline]
    fn read<'d>(
        cx: &mut Cx<'d>,
        table: &'d Table,
        tuple: u32,
        hint: Option<Unit>,
    ) -> Result<Seen<'d>, Miss> {
        let seen = snapshot::read(cx, table, tuple, hint)?;
        cx.notes.reads.tuples.push((table.schema.id.0, tuple, seen.mark));
        Ok(seen)
    }

    fn lock<'d>(cx: &mut Cx<'d>, table: &'d Table, tuple: u32) -> Result<Seen<'d>, Miss> {
        snapshot::lock::<Self>(cx, table, tuple)
    }

    fn read_gap(cx: &mut Cx<'_>, table: &Table, gap: GapId) -> Result<(), Miss> {
        cx.notes.reads.add_gap(table, gap);
        Ok(())
    }

    fn permit(
        cx: &mut Cx<'_>,
        inside: &Inside<'_>,
        writes: &[Write],
        fallen: &[(u32, Fallen)],
    ) -> Result<Permit, Miss> {
        let early = has_outgoing(cx)?;
        if early && has_incoming(cx, writes, fallen) && !mutated(Mutant::PivotCommits) {
            return Err(PIVOT);
        }
        if early && cx.at.epoch() < inside.epoch {
            return Err(CLOSED);
        }
        cx.notes.drawn = true;
        let at = cx.db.clock.draw(cx.worker);
        let csn = match early {
            // After all that it saw.
            true => CommitSequenceNumber { then: at.0, ..CommitSequenceNumber::reader(cx.at) },
            false => CommitSequenceNumber::writer(at),
        };
        Ok(Permit { at, csn })
    }

    fn permit_reads(cx: &mut Cx<'_>, kept: &[Write]) -> Result<CommitSequenceNumber, Miss> {
        cx.notes.reads.keep(kept);
        has_outgoing(cx)?;
        cx.notes.drawn = true;
        let at = cx.db.clock.draw(cx.worker);
        mark_reads(&cx.notes.reads, cx.db, at);
        Ok(CommitSequenceNumber { then: at.0, ..CommitSequenceNumber::reader(cx.at) })
    }

    fn installed(cx: &mut Cx<'_>, permit: &Permit, fallen: &[(u32, Fallen)]) {
        mark_reads(&cx.notes.reads, cx.db, permit.at);
        mark_inserts(fallen, cx.db, permit.at, permit.csn.order != permit.at);
    }

    fn forget(cx: &mut Cx<'_>) {
        cx.notes.reads.clear();
        if std::mem::take(&mut cx.notes.drawn) {
            cx.db.clock.installed(cx.worker);
        }
    }
}
