//! What the rules that read at a snapshot share.

use kit::sync::atomic::Ordering::SeqCst;

use super::{Context, Miss, OVERWRITTEN, Rule, lock_free};
use crate::chains::{Mark, Seen};
use crate::gaps::GapId;
use crate::mutant::{Mutant, mutated};
use crate::pool::Unit;
use crate::table::Table;
use crate::workspace::Write;

/// What was read: tuples with the versions seen, and gaps.
#[derive(Default)]
pub struct Reads {
    pub tuples: Vec<(u32, u32, Mark)>,
    pub gaps: Vec<(u32, GapId)>,
}

impl Reads {
    pub fn clear(&mut self) {
        self.tuples.clear();
        self.gaps.clear();
    }

    pub fn add_gap(&mut self, table: &Table, gap: GapId) {
        let gap = (table.schema.id.0, gap);
        if !self.gaps.contains(&gap) && !mutated(Mutant::PhantomsIgnored) {
            self.gaps.push(gap);
        }
    }

    /// What a rejected transaction knew of the rows that it would have written.
    pub fn keep(&mut self, writes: &[Write]) {
        if !mutated(Mutant::RejectedForgotten) {
            self.tuples.extend(writes.iter().map(|w| (w.table, w.tuple, w.base)));
        }
    }
}

/// The version of the snapshot.
#[inline]
pub fn read<'d, N>(
    cx: &mut Context<'d, N>,
    table: &'d Table,
    tuple: u32,
    hint: Option<Unit>,
) -> Result<Seen<'d>, Miss> {
    let seen = table.visible(tuple, hint, cx.at, &mut cx.copy);
    if seen.mark.is_dead() { Err(Miss::Gone) } else { Ok(seen) }
}

/// First updater wins: the lock must be free, and the newest version that of the snapshot.
pub fn lock<'d, R: Rule>(
    cx: &mut Context<'d, R::Notes>,
    table: &'d Table,
    tuple: u32,
) -> Result<Seen<'d>, Miss> {
    let head = table.head(tuple);
    lock_free(head, R::owner(cx))?;
    let seen = table.newest(tuple, &mut cx.copy);
    if seen.mark.begin() > cx.at && !mutated(Mutant::LostUpdate) {
        head.lock_word().store(0, SeqCst);
        return Err(OVERWRITTEN);
    }
    Ok(seen)
}

/// A worker's lock word.
pub fn owner<N>(cx: &Context<'_, N>) -> u64 {
    cx.worker as u64 + 1
}
