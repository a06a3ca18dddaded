//! Snapshot isolation (Berenson et al., SIGMOD 1995): not serializable, and here to show it.
//!
//! *Idea.* Read at a snapshot; of two who write the same row, the first wins. Write skew and the
//! read-only anomaly pass; lost updates, read skew and everything weaker do not. The order it names
//! is that of commits, in which the *effects* are right and the reads need not be: a ledger of it
//! holds row images.

use super::{Context, Miss, Permit, Place, Rule, snapshot};
use crate::chains::Seen;
use crate::clock::Inside;
use crate::gaps::{Fallen, GapId};
use crate::pool::Unit;
use crate::table::Table;
use crate::workspace::Write;

pub struct Si;

impl Rule for Si {
    /// Whether it has drawn.
    type Notes = bool;
    const NAME: &'static str = "si";

    fn owner(cx: &Context<'_, bool>) -> u64 {
        snapshot::owner(cx)
    }

    #[inline]
    fn read<'d>(
        cx: &mut Context<'d, bool>,
        table: &'d Table,
        tuple: u32,
        hint: Option<Unit>,
    ) -> Result<Seen<'d>, Miss> {
        snapshot::read(cx, table, tuple, hint)
    }

    fn lock<'d>(
        cx: &mut Context<'d, bool>,
        table: &'d Table,
        tuple: u32,
    ) -> Result<Seen<'d>, Miss> {
        snapshot::lock::<Self>(cx, table, tuple)
    }

    fn read_gap(_: &mut Context<'_, bool>, _: &Table, _: GapId) -> Result<(), Miss> {
        Ok(())
    }

    fn permit(
        cx: &mut Context<'_, bool>,
        _: &Inside<'_>,
        _: &[Write],
        _: &[(u32, Fallen)],
    ) -> Result<Permit, Miss> {
        cx.notes = true;
        let at = cx.db.clock.draw(cx.worker);
        Ok(Permit { at, place: Place::writer(at) })
    }

    fn permit_reads(cx: &mut Context<'_, bool>, _: &[Write]) -> Result<Place, Miss> {
        Ok(Place::reader(cx.at))
    }

    fn forget(cx: &mut Context<'_, bool>) {
        if std::mem::take(&mut cx.notes) {
            cx.db.clock.installed(cx.worker);
        }
    }
}
