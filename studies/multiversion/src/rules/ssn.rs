//! Serial safety net over snapshot isolation (Wang, Johnson, Fekete and Pandis, VLDB Journal 2017);
//! the variant of section 5.3.4 that the thesis measures.
//!
//! *Idea.* Of every transaction T two bounds are kept: η(T), the latest commit among those that
//! must come before it, and π(T), the lowest place among those that committed first and must come
//! after it. T may commit if η(T) < π(T): then no cycle closes with T.
//!
//! ```text
//! η(T) = max  creators of what it read, readers and creators of what it overwrote
//! π(T) = min  c(T), π of what overwrote what it read
//!
//! ──── η(T) ──────── π(T) ═══════ c(T) ───►   commits;  T stands at π(T)
//! ```
//!
//! *The serial order* is (π ascending, c descending). A predecessor U that committed before T has
//! π(U) ≤ c(U) ≤ η(T) < π(T). A successor U that committed before T has π(T) ≤ π(U), and where they
//! are equal T has the later commit. A version carries its writer's π, so that readers of what it
//! replaced find it; a writer whose π lies in a closed block gives up.
//!
//! *Gaps* are coarser than rows: an insert is not known by its π but by whether π was its commit. A
//! range that missed an early insert gives up; one that missed others takes the lowest place that
//! is above its snapshot.
//!
//! Fewer needless aborts than [`ssi`](super::ssi): a pivot may commit if its window is not empty.
//! Commits are decided one at a time, as there.

use kit::sync::MutexGuard;
use kit::sync::atomic::Ordering::SeqCst;

use super::ssi::{Notes, mark_inserts, mark_reads};
use super::{
    CLOSED, CommitSequenceNumber, Context, Miss, OVERWRITTEN, PHANTOM, Permit, Rule, snapshot,
};
use crate::chains::Seen;
use crate::clock::{Inside, Timestamp};
use crate::gaps::{Fallen, GapId};
use crate::mutant::{Mutant, mutated};
use crate::pool::Unit;
use crate::table::Table;
use crate::workspace::Write;

pub struct Ssn;

type Cx<'d> = Context<'d, Notes>;

const WINDOW: Miss = Miss::Conflict("The transaction's exclusion window is empty.");

/// The exclusion window so far.
struct Window {
    eta: u64,
    pi: u64,
}

impl Window {
    fn reads(&mut self, cx: &mut Cx<'_>) -> Result<(), Miss> {
        for at in 0..cx.notes.reads.tuples.len() {
            let (table, tuple, mark) = cx.notes.reads.tuples[at];
            let table = cx.db.at(table);
            self.eta = self.eta.max(mark.begin().0);
            let newest = table.head(tuple).newest();
            if newest.is_dead() {
                return Err(OVERWRITTEN);
            }
            if newest != mark {
                let seen = table.visible(tuple, None, cx.at, &mut cx.copy);
                self.pi = self.pi.min(seen.end_order.0);
            }
        }
        for (table, gap) in &cx.notes.reads.gaps {
            let gap = cx.db.at(*table).gaps.gap(*gap);
            let insert = gap.insert.load(SeqCst);
            if gap.early.load(SeqCst) > cx.at.0 {
                return Err(PHANTOM);
            }
            self.eta = self.eta.max(insert.min(cx.at.0));
            if insert > cx.at.0 {
                self.pi = self.pi.min(cx.at.0 + 1);
            }
        }
        Ok(())
    }

    fn writes(&mut self, cx: &Cx<'_>, writes: &[Write], fallen: &[(u32, Fallen)]) {
        for write in writes {
            let readers = cx.db.at(write.table).head(write.tuple).readers().load(SeqCst);
            self.eta = self.eta.max(readers).max(write.base.begin().0);
        }
        for (table, gaps) in fallen {
            for gap in gaps {
                let readers = cx.db.at(*table).gaps.gap(*gap).readers.load(SeqCst);
                self.eta = self.eta.max(readers);
            }
        }
    }

    fn check(&self) -> Result<(), Miss> {
        let open = self.eta < self.pi || mutated(Mutant::WindowIgnored);
        if open { Ok(()) } else { Err(WINDOW) }
    }

    /// Where one stands that commits at `at`.
    fn csn(&self, at: Timestamp) -> CommitSequenceNumber {
        let order = if mutated(Mutant::CommitOrderClaimed) { at.0 } else { self.pi };
        CommitSequenceNumber {
            order: Timestamp(order),
            reads_only: false,
            then: Timestamp::INFINITY.0 - at.0,
        }
    }
}

/// A window that ends at the commit, which is drawn here.
fn open(cx: &mut Cx<'_>) -> (Window, Timestamp) {
    cx.notes.drawn = true;
    let at = cx.db.clock.draw(cx.worker);
    (Window { eta: 0, pi: at.0 }, at)
}

impl Rule for Ssn {
    type Notes = Notes;
    const NAME: &'static str = "ssn";

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
        let (mut window, at) = open(cx);
        window.reads(cx)?;
        window.writes(cx, writes, fallen);
        window.check()?;
        if Timestamp(window.pi).epoch() < inside.epoch {
            return Err(CLOSED);
        }
        Ok(Permit { at, csn: window.csn(at) })
    }

    fn permit_reads(cx: &mut Cx<'_>, kept: &[Write]) -> Result<CommitSequenceNumber, Miss> {
        cx.notes.reads.keep(kept);
        let (mut window, at) = open(cx);
        window.reads(cx)?;
        window.check()?;
        mark_reads(&cx.notes.reads, cx.db, at);
        Ok(window.csn(at))
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
