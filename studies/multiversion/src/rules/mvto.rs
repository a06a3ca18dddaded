//! Multi-version timestamp ordering (section 5.3.1; Reed, 1978; Bernstein and Goodman, 1983).
//!
//! *Idea.* The serial order is that of the timestamps drawn at begin. A reader takes the version of
//! its time, and leaves its timestamp on the newest; a writer who comes with a smaller one is late
//! and gives up.
//!
//! ```text
//! lock     0, or the timestamp of the transaction that writes the tuple
//! readers  largest timestamp that has read the newest version (older ones need none: no version
//!          can be put after them any more)
//! ```
//!
//! **The race that the thesis leaves open**: between looking at the lock and leaving the timestamp
//! a writer may slip in. Here a reader first leaves its timestamp, then looks at the lock, then
//! whether its version is still the newest; a writer first locks, then looks at the readers. In
//! sequentially consistent order one of the two sees the other.
//!
//! **Waiting.** A reader or writer that meets an *older* writer waits a moment for it to end before
//! it gives up: none waits for a younger one, so there is no cycle of waits. Meeting a younger
//! writer a reader reads on, for that one's version will begin later; a writer gives up.
//!
//! **Blocks.** A transaction of a closed epoch must not write; it gets 40001 at the gate. A
//! rejected one has read whether rows are there under its locks, so it leaves its timestamp there
//! before it unlocks: no writer may undercut an answer that was given.
//!
//! *Cost.* One draw that no other worker writes; one atomic maximum for each read of a newest
//! version, unless a later reader has been there; one compare-and-swap for each write.

use kit::sync::atomic::Ordering::SeqCst;

use super::{
    CLOSED, CommitSequenceNumber, Context, Miss, OVERWRITTEN, PHANTOM, Patience, Permit, Rule,
};
use crate::chains::Seen;
use crate::clock::{Inside, Timestamp};
use crate::database::Database;
use crate::gaps::{Fallen, GapId};
use crate::mutant::{Mutant, mutated};
use crate::pool::Unit;
use crate::table::{DEAD_LOCK, Table};
use crate::workspace::Write;

pub struct Mvto;

const OLDER_WRITER: Miss = Miss::Conflict("An earlier transaction is writing a row.");
const LATE: Miss = Miss::Conflict("A later transaction has read a row.");

impl Rule for Mvto {
    type Notes = ();
    const NAME: &'static str = "mvto";
    const STRIPED: bool = true;

    fn begin(db: &Database, worker: usize, must_see: Timestamp, read_only: bool) -> Timestamp {
        let settled = || db.clock.begin_settled(worker, must_see);
        let past = read_only.then(settled).flatten();
        past.unwrap_or_else(|| db.clock.begin_striped(worker, must_see))
    }

    fn owner(cx: &Context<'_, ()>) -> u64 {
        cx.at.0
    }

    #[inline]
    fn read<'d>(
        cx: &mut Context<'d, ()>,
        table: &'d Table,
        tuple: u32,
        hint: Option<Unit>,
    ) -> Result<Seen<'d>, Miss> {
        let head = table.head(tuple);
        let mut patience = Patience::new();
        loop {
            let seen = table.visible(tuple, hint, cx.at, &mut cx.copy);
            if seen.mark.is_dead() {
                return Err(Miss::Gone);
            }
            if !seen.is_newest() {
                return Ok(seen);
            }
            if head.readers().load(SeqCst) < cx.at.0 && !mutated(Mutant::ReadUnmarked) {
                head.readers().fetch_max(cx.at.0, SeqCst);
            }
            let lock = head.lock_word().load(SeqCst);
            if lock == DEAD_LOCK {
                return Err(Miss::Gone);
            }
            if lock != 0 && lock < cx.at.0 && !mutated(Mutant::LockIgnored) {
                if !patience.wait() {
                    return Err(OLDER_WRITER);
                }
            } else if head.newest() == seen.mark {
                return Ok(seen);
            }
        }
    }

    fn lock<'d>(cx: &mut Context<'d, ()>, table: &'d Table, tuple: u32) -> Result<Seen<'d>, Miss> {
        let head = table.head(tuple);
        let mut patience = Patience::new();
        while let Err(holder) = head.lock_word().compare_exchange(0, cx.at.0, SeqCst, SeqCst) {
            if holder == DEAD_LOCK {
                return Err(Miss::Gone);
            }
            if holder > cx.at.0 || !patience.wait() {
                return Err(OLDER_WRITER);
            }
        }
        let seen = table.newest(tuple, &mut cx.copy);
        let late = head.readers().load(SeqCst) > cx.at.0;
        if seen.mark.begin() > cx.at || late {
            Self::unlock(cx, head);
            return Err(if late { LATE } else { OVERWRITTEN });
        }
        Ok(seen)
    }

    fn read_gap(cx: &mut Context<'_, ()>, table: &Table, gap: GapId) -> Result<(), Miss> {
        let readers = &table.gaps.gap(gap).readers;
        if readers.load(SeqCst) < cx.at.0 && !mutated(Mutant::PhantomsIgnored) {
            readers.fetch_max(cx.at.0, SeqCst);
        }
        Ok(())
    }

    fn permit(
        cx: &mut Context<'_, ()>,
        inside: &Inside<'_>,
        _: &[Write],
        fallen: &[(u32, Fallen)],
    ) -> Result<Permit, Miss> {
        if cx.at.epoch() < inside.epoch && !mutated(Mutant::GateIgnored) {
            return Err(CLOSED);
        }
        for (table, gaps) in fallen {
            let table = cx.db.at(*table);
            let read = |gap: &GapId| table.gaps.gap(*gap).readers.load(SeqCst) > cx.at.0;
            if gaps.iter().any(read) {
                return Err(PHANTOM);
            }
        }
        Ok(Permit { at: cx.at, csn: CommitSequenceNumber::writer(cx.at) })
    }

    fn permit_reads(
        cx: &mut Context<'_, ()>,
        kept: &[Write],
    ) -> Result<CommitSequenceNumber, Miss> {
        if !mutated(Mutant::RejectedForgotten) {
            for write in kept {
                let head = cx.db.at(write.table).head(write.tuple);
                head.readers().fetch_max(cx.at.0, SeqCst);
            }
        }
        Ok(CommitSequenceNumber { reads_only: cx.read_only, ..CommitSequenceNumber::writer(cx.at) })
    }
}
