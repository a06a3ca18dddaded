//! Multi-version two-phase locking, no-wait (section 5.3.3).
//!
//! *Idea.* A transaction takes a shared lock on each row it reads and an exclusive lock on each row
//! it writes, and holds them until it ends. If a lock is not free, it aborts at once, so deadlocks
//! cannot occur and need no detector. Old versions serve declared read-only transactions, which
//! read a snapshot without locks. Commit timestamps are drawn while all locks are held; their order
//! is the serial order.
//!
//! ```text
//! lock           [ writer's worker + 1: 32 | readers: 32 ]
//! gap, readers   [ scans: 32 | inserts: 32 ]   not both at once, except for one's own scan
//! ```
//!
//! The only reader of a row may upgrade its lock to exclusive.
//!
//! *Cost.* Two atomic writes to a shared word for each read: lock and unlock.

use kit::sync::atomic::Ordering::SeqCst;

use super::{CommitSequenceNumber, Context, GapOf, Miss, PHANTOM, Permit, Rule, snapshot};
use crate::chains::{Head, Seen};
use crate::clock::Inside;
use crate::gaps::{Fallen, GapId};
use crate::mutant::{Mutant, mutated};
use crate::pool::Unit;
use crate::table::{DEAD_LOCK, Table};
use crate::workspace::Write;

pub struct Mv2pl;

const WRITER_SHIFT: u32 = 32;
const READERS_MASK: u64 = (1 << WRITER_SHIFT) - 1;
const SCAN: u64 = 1 << 32;
const INSERTS_MASK: u64 = SCAN - 1;
const LOCKED: Miss = Miss::Conflict("Another transaction has a lock on a row.");

#[derive(Default)]
pub struct Notes {
    reads: Vec<(u32, u32)>,
    scans: Vec<GapOf>,
    inserts: Vec<GapOf>,
    drawn: bool,
}

fn share(head: Head<'_>) -> Result<(), Miss> {
    let word = head.lock_word();
    let mut lock = word.load(SeqCst);
    loop {
        if lock == DEAD_LOCK {
            return Err(Miss::Gone);
        }
        if lock >> WRITER_SHIFT != 0 {
            return Err(LOCKED);
        }
        match word.compare_exchange_weak(lock, lock + 1, SeqCst, SeqCst) {
            Ok(_) => return Ok(()),
            Err(now) => lock = now,
        }
    }
}

impl Rule for Mv2pl {
    type Notes = Notes;
    const NAME: &'static str = "mv2pl";

    fn owner(cx: &Context<'_, Notes>) -> u64 {
        (cx.worker as u64 + 1) << WRITER_SHIFT
    }

    fn is_own(cx: &Context<'_, Notes>, lock: u64) -> bool {
        lock & !READERS_MASK == Self::owner(cx)
    }

    #[inline]
    fn read<'d>(
        cx: &mut Context<'d, Notes>,
        table: &'d Table,
        tuple: u32,
        hint: Option<Unit>,
    ) -> Result<Seen<'d>, Miss> {
        if cx.read_only {
            return snapshot::read(cx, table, tuple, hint);
        }
        if !mutated(Mutant::NoReadLock) {
            share(table.head(tuple))?;
            cx.notes.reads.push((table.schema.id.0, tuple));
        }
        let seen = table.newest(tuple, &mut cx.copy);
        if seen.mark.is_dead() { Err(Miss::Gone) } else { Ok(seen) }
    }

    fn lock<'d>(
        cx: &mut Context<'d, Notes>,
        table: &'d Table,
        tuple: u32,
    ) -> Result<Seen<'d>, Miss> {
        let word = table.head(tuple).lock_word();
        let this = (table.schema.id.0, tuple);
        // As many as the word says, and mostly just now: one that writes many rows has read more.
        let shared = (word.load(SeqCst) & READERS_MASK) as usize;
        let own = cx.notes.reads.iter().rev().filter(|read| **read == this).take(shared);
        let own = own.count() as u64;
        let mut readers = own;
        if mutated(Mutant::CarelessUpgrade) && own > 0 {
            readers = word.load(SeqCst) & READERS_MASK;
        }
        match word.compare_exchange(readers, Self::owner(cx) | readers, SeqCst, SeqCst) {
            Ok(_) => Ok(table.newest(tuple, &mut cx.copy)),
            Err(DEAD_LOCK) => Err(Miss::Gone),
            Err(_) => Err(LOCKED),
        }
    }

    fn unlock(cx: &Context<'_, Notes>, head: Head<'_>) {
        head.lock_word().fetch_sub(Self::owner(cx), SeqCst);
    }

    fn read_gap(cx: &mut Context<'_, Notes>, table: &Table, gap: GapId) -> Result<(), Miss> {
        let this = (table.schema.id.0, gap);
        if cx.read_only || cx.notes.scans.contains(&this) || mutated(Mutant::PhantomsIgnored) {
            return Ok(());
        }
        let word = &table.gaps.gap(gap).readers;
        let mut seen = word.load(SeqCst);
        loop {
            if seen & INSERTS_MASK != 0 {
                return Err(PHANTOM);
            }
            match word.compare_exchange_weak(seen, seen + SCAN, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        cx.notes.scans.push(this);
        Ok(())
    }

    fn permit(
        cx: &mut Context<'_, Notes>,
        _: &Inside<'_>,
        _: &[Write],
        fallen: &[(u32, Fallen)],
    ) -> Result<Permit, Miss> {
        for (table, gaps) in fallen {
            for gap in gaps {
                let this = (*table, *gap);
                let own = if cx.notes.scans.contains(&this) { SCAN } else { 0 };
                let word = &cx.db.at(*table).gaps.gap(*gap).readers;
                let mut seen = word.load(SeqCst);
                loop {
                    if seen & !INSERTS_MASK != own {
                        return Err(PHANTOM);
                    }
                    match word.compare_exchange_weak(seen, seen + 1, SeqCst, SeqCst) {
                        Ok(_) => break,
                        Err(now) => seen = now,
                    }
                }
                cx.notes.inserts.push(this);
            }
        }
        let csn = Self::permit_reads(cx, &[])?;
        Ok(Permit { at: csn.order, csn })
    }

    fn permit_reads(
        cx: &mut Context<'_, Notes>,
        _: &[Write],
    ) -> Result<CommitSequenceNumber, Miss> {
        if cx.read_only {
            return Ok(CommitSequenceNumber::reader(cx.at));
        }
        cx.notes.drawn = true;
        Ok(CommitSequenceNumber::writer(cx.db.clock.draw(cx.worker)))
    }

    fn forget(cx: &mut Context<'_, Notes>) {
        for (table, tuple) in cx.notes.reads.drain(..) {
            cx.db.at(table).head(tuple).lock_word().fetch_sub(1, SeqCst);
        }
        for (table, gap) in cx.notes.scans.drain(..) {
            cx.db.at(table).gaps.gap(gap).readers.fetch_sub(SCAN, SeqCst);
        }
        for (table, gap) in cx.notes.inserts.drain(..) {
            cx.db.at(table).gaps.gap(gap).readers.fetch_sub(1, SeqCst);
        }
        if std::mem::take(&mut cx.notes.drawn) {
            cx.db.clock.installed(cx.worker);
        }
    }
}
