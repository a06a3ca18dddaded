//! Snapshot isolation (Berenson et al., SIGMOD 1995): not serializable, and here to show it.
//!
//! *Idea.* Read at a snapshot; of two who write the same row, the first wins. Write skew and the
//! read-only anomaly pass; lost updates, read skew and everything weaker do not. The order it names
//! is that of commits, in which the *effects* are right and the reads need not be: a ledger of it
//! holds row images.
//!
//! **Constraints** are steps of programs, so they can be skewed like everything else that is read.
//! Unique values are not: of two who looked in one range of a unique index and both put an entry
//! there, the first wins. Having looked decides alone, by the mutex that [`ssi`](super::ssi)
//! has. Foreign keys are: a parent may be deleted while a child of it is inserted.

use kit::sync::MutexGuard;
use kit::sync::atomic::Ordering::SeqCst;

use super::ssi::mark_inserts;
use super::{CommitSequenceNumber, Context, GapOf, Miss, PHANTOM, Permit, Rule, snapshot};
use crate::chains::Seen;
use crate::clock::Inside;
use crate::gaps::{Fallen, GapId};
use crate::mutant::{Mutant, mutated};
use crate::pool::Unit;
use crate::table::Table;
use crate::workspace::Write;

pub struct Si;

#[derive(Default)]
pub struct Notes {
    drawn: bool,
    /// Where it looked whether a value is there that must be unique.
    unique: Vec<GapOf>,
}

/// When an entry was last put where the transaction looked and puts one too.
fn taken<'a>(
    cx: &'a Context<'_, Notes>,
    fallen: &'a [(u32, Fallen)],
) -> impl Iterator<Item = u64> + 'a {
    let gaps = fallen.iter().flat_map(|(table, gaps)| gaps.iter().map(|gap| (*table, *gap)));
    let looked = gaps.filter(|gap| cx.notes.unique.contains(gap));
    looked.map(|(table, gap)| cx.db.at(table).gaps.gap(gap).insert.load(SeqCst))
}

impl Rule for Si {
    type Notes = Notes;
    const NAME: &'static str = "si";
    const KEEPS_IMAGES: bool = true;

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
        snapshot::read(cx, table, tuple, hint)
    }

    fn lock<'d>(
        cx: &mut Context<'d, Notes>,
        table: &'d Table,
        tuple: u32,
    ) -> Result<Seen<'d>, Miss> {
        snapshot::lock::<Self>(cx, table, tuple)
    }

    fn read_gap(_: &mut Context<'_, Notes>, _: &Table, _: GapId) -> Result<(), Miss> {
        Ok(())
    }

    fn read_unique(cx: &mut Context<'_, Notes>, table: &Table, gap: GapId) {
        let this = (table.schema.id.0, gap);
        let known = cx.read_only || cx.notes.unique.contains(&this);
        if !known && !mutated(Mutant::UniqueSkewed) {
            cx.notes.unique.push(this);
        }
    }

    fn centre<'d>(cx: &Context<'d, Notes>) -> Option<MutexGuard<'d, ()>> {
        (!cx.notes.unique.is_empty()).then(|| cx.db.centre())
    }

    fn permit(
        cx: &mut Context<'_, Notes>,
        _: &Inside<'_>,
        _: &[Write],
        fallen: &[(u32, Fallen)],
    ) -> Result<Permit, Miss> {
        if taken(cx, fallen).any(|insert| insert > cx.at.0) {
            return Err(PHANTOM);
        }
        cx.notes.drawn = true;
        let at = cx.db.clock.draw(cx.worker);
        Ok(Permit { at, csn: CommitSequenceNumber::writer(at) })
    }

    fn permit_reads(
        cx: &mut Context<'_, Notes>,
        _: &[Write],
    ) -> Result<CommitSequenceNumber, Miss> {
        Ok(CommitSequenceNumber::reader(cx.at))
    }

    fn installed(cx: &mut Context<'_, Notes>, permit: &Permit, fallen: &[(u32, Fallen)]) {
        if !cx.notes.unique.is_empty() {
            mark_inserts(fallen, cx.db, permit.at, false);
        }
    }

    fn forget(cx: &mut Context<'_, Notes>) {
        cx.notes.unique.clear();
        if std::mem::take(&mut cx.notes.drawn) {
            cx.db.clock.installed(cx.worker);
        }
    }
}
