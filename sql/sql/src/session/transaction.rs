//! An interactive transaction, from BEGIN to COMMIT, under optimistic concurrency control.
//!
//! It reads the snapshot of the block that it began on, overlaid by its own writes, and records two
//! things: what its queries showed the client (the footprint: rows and ranges with their version
//! stamps), and the statements that wrote, with their answers. COMMIT turns both into one request
//! for a block: *validate the footprint, then run the statements again*, which must give the same
//! answers.
//!
//! *Locking sessions* ([`locking`](super::locking)). Each statement runs on the newest state
//! instead. All that the transaction read before is locked, and so is unchanged in that state.
//! COMMIT validates it all the same. A transaction that has written nothing asks nothing of the
//! ledger at COMMIT; it checks that all it read still holds in the last state that it read.
//!
//! *Schema changes* run over the snapshot and the writes as well ([`changes`](super::changes)), and
//! COMMIT runs their statements again like the others. After the first one the transaction has a
//! private schema, under a version that no other schema has, and stays on its snapshot.

mod own;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use concurrency::overlay::{Mark, StatementMark};
use concurrency::skip_locked::{SkippedRows, SkippingLocked};
use concurrency::{
    Claim, Expectation, Footprint, FootprintMark, Interactive, Moment, NoRecord, Overlay,
    RangeDigest, RangeRequirement, Work,
};
use engine::locks::LockOwner;
use engine::transaction::{Asked, SchemaSeen};
use engine::{Body, Head};
use kit::pool::Lease;
use procedure::access::Range;
use procedure::draws::Draws;
use procedure::{Frame, ProgramResult};
use storage::{Snapshot, Store};
use types::{Error, Key, Result, SqlState, Stamp, Stop, TableId};

use crate::schema::catalog::Catalog;
use crate::schema::sequence::Sequence;
use crate::session::changes::{SchemaText, change_schema};
use crate::session::cursors::CursorMark;
use crate::session::deferring::Deferring;
use crate::session::guard::{Guard, aside, error_of, query_frame, transaction_frame};
use crate::session::shared_state::advisory::Wanted;
use crate::session::side_effects::{SideEffects, SideEffectsMark};
use crate::session::temporaries::Kept;
use crate::session::versioned::{Versioned, own_version};
use crate::settings::SettingsMark;

/// A transaction that holds more takes a while to be lowered, or forgotten.
const SMALL_BYTES: u64 = 64 << 10;

pub struct OpenTransaction {
    /// What its next statement is bound under.
    pub versioned: Arc<Versioned>,
    /// The snapshot's schema.
    begun_under: Arc<Versioned>,
    /// Keeps the snapshot's versions while the transaction lives, unless it is ended.
    snapshot: Arc<Snapshot>,
    overlay: Overlay<Footprint>,
    frame: Frame,
    /// The snapshot's block.
    head: Head,
    /// `now()`: the time of the block that it began on.
    now_us: i64,
    /// Where sessions lock.
    locks: Option<LockOwner>,
    /// Of rows that statements have locked where sessions do not ([`row_locks`]).
    ///
    /// [`row_locks`]: super::row_locks
    pub row_locks: Option<LockOwner>,
    /// It has read more than one block.
    moved: bool,
    access: AccessMode,
    /// Opened for the statements of one simple query, without a BEGIN.
    pub implicit: bool,
    writes: Vec<(Write, Expectation)>,
    /// The role that they are written as, where that is another than the session's user.
    pub role: Option<String>,
    savepoints: Vec<Savepoint>,
    /// A statement has run that looked at rows.
    queried: bool,
    /// Rows were read that are not in the footprint, so nothing may be written.
    read_aside: bool,
    /// It rests on more of the schema than the tables that it has read: it has changed some of it,
    /// has asked for it, or was told that something is not there.
    rests_on_schema: bool,
    /// What its writing statements have left to draw from.
    draws: Draws,
    /// What it has done outside of the ledger.
    pub side_effects: SideEffects,
    /// The session's own tables, as it has them.
    pub(super) temporary: Kept,
    pub(super) deferring: Deferring,
    /// Covers the objects of the session that it has made.
    objects_lease: Lease,
}

/// What a transaction may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessMode {
    ReadWrite,
    ReadOnly,
    /// Of a past block, which is not written to.
    ReadPast,
}

/// A statement that wrote: as the ledger will hold it, and as it runs; `None`: it changed the
/// schema.
struct Write {
    request: Vec<u8>,
    work: Option<Work>,
}

/// A statement that has run, and where it began.
pub struct Attempt {
    pub answered: Result<ProgramResult>,
    footprint: FootprintMark,
    statement: StatementMark,
    units_left: u64,
    memory_left: u64,
}

struct Savepoint {
    name: String,
    mark: Mark,
    versioned: Arc<Versioned>,
    altered: BTreeSet<TableId>,
    writes: usize,
    draws: Draws,
    memory_left: u64,
    side_effects: SideEffectsMark,
    temporary: Option<Arc<Catalog>>,
    deferring: Deferring,
    access: AccessMode,
    session: SessionMark,
}

/// What a savepoint remembers of the session.
#[derive(Clone, Copy)]
pub struct SessionMark {
    pub cursors: CursorMark,
    pub settings: SettingsMark,
}

impl OpenTransaction {
    pub fn begin(
        versioned: Arc<Versioned>,
        snapshot: Arc<Snapshot>,
        head: Head,
        guard: &Arc<Guard>,
        (access, implicit): (AccessMode, bool),
        (draws, temporary): (Draws, Kept),
    ) -> OpenTransaction {
        // Rows that get a hidden id here get another one at COMMIT: it is the block's to give.
        let (height, now_us) = (snapshot.height() + 1, head.time_us);
        let moment = Moment { height, position: Stamp::POSITIONS_MAX, now_us };
        let at = snapshot.height();
        let catalog = match &temporary.tables {
            Some(own) => Arc::new(snapshot.catalog().joined(own)),
            None => Arc::clone(snapshot.catalog()),
        };
        let footprint = Footprint::covered_by(guard.lease());
        let mut overlay = Overlay::new(catalog, at, moment, footprint);
        // Rows of the session's tables keep the ids that they get here.
        overlay.count_row_ids_from(temporary.row_ids_given(height));
        OpenTransaction {
            begun_under: Arc::clone(&versioned),
            versioned,
            overlay,
            snapshot,
            frame: frame_of(access, guard),
            head,
            now_us,
            locks: None,
            row_locks: None,
            moved: false,
            access,
            implicit,
            writes: Vec::new(),
            role: None,
            savepoints: Vec::new(),
            queried: false,
            read_aside: false,
            rests_on_schema: false,
            draws,
            side_effects: SideEffects::default(),
            temporary,
            deferring: Deferring::default(),
            objects_lease: guard.lease(),
        }
    }

    /// SET TRANSACTION, or a BEGIN within a block. What was read without a note of it cannot be
    /// required at COMMIT, so who has read may not begin to write. After a savepoint it holds
    /// until that one ends.
    pub fn set_read_only(&mut self, read_only: bool, guard: &Arc<Guard>) -> Result<()> {
        let access = match (self.access, read_only) {
            (AccessMode::ReadPast, false) => return Err(writes_to_the_past()),
            (AccessMode::ReadOnly, false) if !self.savepoints.is_empty() => {
                let what = "cannot set transaction read-write mode inside a read-only transaction";
                return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
            }
            (AccessMode::ReadOnly, false) if self.queried => {
                let what = "transaction read-write mode must be set before any query";
                return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
            }
            (AccessMode::ReadPast, true) => AccessMode::ReadPast,
            (_, true) => AccessMode::ReadOnly,
            (_, false) => AccessMode::ReadWrite,
        };
        if access != self.access {
            self.access = access;
            // What writes hold is counted by the frame that they ran in.
            if self.writes.is_empty() && self.savepoints.is_empty() {
                self.frame = frame_of(access, guard);
            }
        }
        Ok(())
    }

    pub fn is_read_only(&self) -> bool {
        self.access != AccessMode::ReadWrite
    }

    /// Another write is about to come. The ledger is told one role for each transaction.
    pub fn writes_as(&mut self, role: Option<&str>) -> Result<()> {
        if self.writes.is_empty() {
            self.role = role.map(str::to_owned);
        }
        match self.role.as_deref() == role {
            true => Ok(()),
            false => Err(Error::unsupported("a transaction that writes as several roles")
                .with_detail("The ledger records one role for each transaction.")
                .with_hint("Set the role before the first statement that writes.")),
        }
    }

    /// Whether COMMIT will have nothing to ask of the ledger.
    pub fn only_reads(&self) -> bool {
        self.never_writes_again() && self.writes.is_empty()
    }

    /// A savepoint from before it became read-only leads back to where it may write.
    fn never_writes_again(&self) -> bool {
        let before = self.savepoints.iter().map(|savepoint| savepoint.access);
        before.chain([self.access]).all(|access| access != AccessMode::ReadWrite)
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub fn head(&self) -> Head {
        self.head
    }

    /// `now()` of all its statements.
    pub fn now_us(&self) -> i64 {
        self.now_us
    }

    /// From its first statement on it locks what its statements touch.
    pub fn lock_by(&mut self, owner: impl FnOnce() -> LockOwner) {
        if self.access == AccessMode::ReadWrite && !self.queried && self.locks.is_none() {
            self.locks = Some(owner());
            self.overlay.recorder.enabled = true;
        }
    }

    /// Who holds its locks, if its next statement takes some.
    pub fn lock_owner(&mut self) -> Option<&mut LockOwner> {
        self.locks.as_mut().filter(|_| self.access == AccessMode::ReadWrite)
    }

    /// To be let go of when its COMMIT was answered.
    pub fn take_locks(&mut self) -> Option<LockOwner> {
        self.locks.take()
    }

    /// It failed. Only a savepoint leads back, for which the locks are kept.
    pub fn fail(&mut self) {
        self.rests_on_schema = true;
        if self.savepoints.is_empty() {
            (self.locks, self.row_locks) = (None, None);
        }
    }

    /// Goes on with a newer state, in which all that is locked is as it was. False: it stays with
    /// its snapshot, whose schema is no longer the newest, or of which it read without a note.
    pub fn advance(&mut self, snapshot: Snapshot, head: Head) -> Result<bool> {
        let is_its_schema = Arc::ptr_eq(snapshot.catalog(), self.snapshot.catalog());
        if self.read_aside || self.has_own_schema() || !is_its_schema {
            return Ok(false);
        }
        if head.height > self.head.height {
            self.overlay.advance(head.height).map_err(error_of)?;
            self.snapshot = Arc::new(snapshot.shared());
            self.head = head;
            self.moved |= self.queried;
        }
        Ok(true)
    }

    pub fn memory_left(&self) -> u64 {
        self.frame.meter().memory_left()
    }

    /// What a query answers leaves the transaction, with what covers it.
    pub fn hand_over(&mut self, memory_left: u64) -> Option<Lease> {
        self.frame.meter().hand_over(memory_left)
    }

    /// Runs a statement that may have to be run again on a newer state.
    pub fn attempt(&mut self, work: &Work) -> Result<Attempt> {
        self.attempt_by(work.is_short(), |frame, overlay| {
            let answered = work.run_within(frame, overlay)?;
            overlay.evaluate_all().map(|()| answered)
        })
    }

    /// The same of a query that does not see some rows. What it reads is required at COMMIT, and
    /// what writing statements have read before, so that the attempt can be undone.
    pub fn attempt_skipping(&mut self, work: &Work, skipped: &SkippedRows) -> Result<Attempt> {
        self.overlay.recorder.require_all();
        self.overlay.recorder.enabled = true;
        let attempt = self.attempt_by(work.is_short(), |frame, overlay| {
            work.run_within(frame, &mut SkippingLocked { inner: overlay, skipped })
        });
        self.overlay.recorder.enabled = false;
        attempt
    }

    fn attempt_by(
        &mut self,
        is_short: bool,
        run: impl FnOnce(&mut Frame, &mut Overlay<Footprint>) -> Result<ProgramResult, Stop>,
    ) -> Result<Attempt> {
        self.queried = true;
        let (units_left, memory_left) = (self.frame.meter().left(), self.memory_left());
        let footprint = self.overlay.recorder.mark();
        let statement = self.overlay.begin_statement();
        let (frame, overlay) = (&mut self.frame, &mut self.overlay);
        let answered = aside(is_short, || run(frame, overlay)).map_err(error_of);
        self.check()?;
        Ok(Attempt { answered, footprint, statement, units_left, memory_left })
    }

    /// Of what such an attempt has read of tables whose rows it may not have seen, only those rows
    /// are required that it has answered.
    pub fn require_only(
        &mut self,
        attempt: &Attempt,
        skipped: &SkippedRows,
        answered: &[(TableId, Key)],
    ) -> Result<()> {
        self.overlay.recorder.enabled = true;
        let rows = answered.iter().map(|(table, key)| (*table, key));
        let rows = rows.filter(|(table, _)| skipped.contains_key(table));
        let required = self.overlay.require_only(attempt.footprint, skipped, rows);
        self.overlay.recorder.enabled = false;
        self.check()?;
        required.map_err(error_of)
    }

    /// What has to be locked so that an attempt stays true.
    pub fn claims(
        &mut self,
        attempt: &Attempt,
        is_exclusive: &dyn Fn(TableId) -> bool,
    ) -> Result<Vec<Claim>> {
        self.overlay.claims(attempt.footprint, is_exclusive).map_err(error_of)
    }

    /// How many values of sequences a statement takes; nothing else is left of its run.
    pub fn rehearse(&mut self, work: &Work) -> Result<Vec<(TableId, u64)>> {
        self.frame.meter().taken_values();
        let attempt = self.attempt(work)?;
        let taken = self.frame.meter().taken_values();
        self.undo(&attempt);
        Ok(taken.into_vec())
    }

    /// A statement begins that may be undone.
    pub(super) fn begin_to_undo(&mut self) -> Attempt {
        Attempt {
            answered: Ok(ProgramResult::default()),
            footprint: self.overlay.recorder.mark(),
            statement: self.overlay.begin_statement(),
            units_left: self.frame.meter().left(),
            memory_left: self.memory_left(),
        }
    }

    pub fn undo(&mut self, attempt: &Attempt) {
        self.overlay.undo_statement(attempt.statement);
        self.overlay.recorder.return_to(attempt.footprint);
        self.frame.meter().return_to(attempt.units_left);
        self.frame.meter().release_to(attempt.memory_left);
    }

    /// A statement has written for good.
    pub fn keep(&mut self, asked: Asked, work: Work, answered: &ProgramResult, draws: Draws) {
        let ProgramResult { count, rows, .. } = answered.clone();
        let write = Write { request: asked.request, work: Some(work) };
        self.writes.push((write, Expectation { count, rows }));
        self.draws = draws;
    }

    /// Before a COMMIT that asks nothing of the ledger: whether all that was read still held in
    /// the last state that was read, where the transaction then stands in the serial order.
    pub fn confirm(&mut self) -> Result<()> {
        if !self.moved || !self.writes.is_empty() {
            return Ok(());
        }
        let work = Work::Interactive(self.requirements()?);
        let (height, now_us) = (self.head.height, self.now_us);
        let moment = Moment { height, position: 0, now_us };
        let catalog = Arc::clone(self.snapshot.catalog());
        let mut overlay = Overlay::new(catalog, height, moment, NoRecord);
        let frame = &mut self.frame;
        let held = aside(work.is_short(), || work.run(frame, &mut overlay));
        self.check()?;
        held.map(drop).map_err(error_of)
    }

    /// What the next writing statement draws from.
    pub fn draws(&self) -> Draws {
        self.draws
    }

    /// Nothing that was read by an ended snapshot may leave, nor what was read without a note for
    /// want of memory. A transaction that could write is one that a client knows to try again.
    fn check(&self) -> Result<()> {
        self.overlay.recorder.check()?;
        self.snapshot.check().map_err(|error| match self.only_reads() {
            true => error,
            false => error.with_code(SqlState::SERIALIZATION_FAILURE),
        })
    }

    /// Run a statement that cannot write; what it reads becomes part of the footprint.
    pub fn query(&mut self, work: &Work) -> (Result<ProgramResult>, Option<Lease>) {
        self.query_by(work, false)
    }

    /// The same of one that may write to what is the session's own.
    pub(super) fn query_by(
        &mut self,
        work: &Work,
        writes: bool,
    ) -> (Result<ProgramResult>, Option<Lease>) {
        self.queried = true;
        let only_reads = self.only_reads();
        (self.overlay.recorder.enabled, self.overlay.recorder.off) = (!only_reads, only_reads);
        let memory_left = self.memory_left();
        let (frame, overlay) = (&mut self.frame, &mut self.overlay);
        let run = aside(work.is_short(), || {
            let answered = work.run_within(frame, overlay)?;
            if writes {
                overlay.evaluate_all()?;
            }
            Ok(answered)
        });
        // What it has written stays with the transaction, and what covers it.
        let lease = if writes { None } else { self.hand_over(memory_left) };
        (self.overlay.recorder.enabled, self.overlay.recorder.off) = (false, false);
        (self.check().and_then(|()| run.map_err(error_of)), lease)
    }

    /// The snapshot, for a query whose reads are not recorded.
    pub fn read_aside(&mut self, reads_tables: bool) -> Result<(Arc<Snapshot>, Head)> {
        if reads_tables && !self.writes.is_empty() {
            return Err(Error::unsupported(
                "an analytical query in a transaction that has written",
            )
            .with_hint("Run it in a READ ONLY transaction, or outside of this one."));
        }
        self.queried = true;
        self.read_aside |= reads_tables && !self.never_writes_again();
        self.rests_on_schema |= !reads_tables;
        Ok((self.snapshot.clone(), self.head))
    }

    pub fn check_may_write(&self) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                "cannot execute a writing statement in a read-only transaction",
            ));
        }
        if self.read_aside {
            return Err(Error::unsupported("a write after an analytical query of its transaction")
                .with_detail("What the query read cannot be checked again at COMMIT.")
                .with_hint("Run the query in a READ ONLY transaction, or outside of this one."));
        }
        Ok(())
    }

    /// Run a statement that may write. Its commands are evaluated at once, so that it fails where
    /// it stands and not at COMMIT. `draws`: what is left to be drawn from after it.
    pub fn write(&mut self, asked: Asked, work: Work, draws: Draws) -> Result<ProgramResult> {
        self.check_may_write()?;
        self.queried = true;
        let (frame, overlay) = (&mut self.frame, &mut self.overlay);
        let run = aside(work.is_short(), || {
            let answered = work.run_within(frame, overlay)?;
            overlay.evaluate_all().map(|()| answered)
        });
        self.check()?;
        let answered = run.map_err(error_of)?;
        self.overlay.recorder.wrote(&work);
        self.keep(asked, work, &answered, draws);
        Ok(answered)
    }

    /// Whether it has changed the schema, for itself so far.
    pub fn has_own_schema(&self) -> bool {
        !Arc::ptr_eq(&self.versioned, &self.begun_under)
    }

    /// Whether it has made the sequence, or made it another one than the ledger knows.
    pub fn has_own_sequence(&self, sequence: &Sequence) -> bool {
        if sequence.id.is_temporary() {
            return true;
        }
        let known = self.begun_under.catalog.sequence_by_id(sequence.id);
        self.has_own_schema() && known.is_none_or(|known| **known != *sequence)
    }

    /// The schema that its COMMIT is asked under.
    pub fn schema_version(&self) -> u64 {
        self.begun_under.version
    }

    /// Runs a schema change: what follows in the transaction sees it.
    pub fn change_schema(&mut self, change: SchemaText<'_>, store: &Store) -> Result<()> {
        self.check_may_write()?;
        self.queried = true;
        self.rests_on_schema = true;
        let (before, version) = (Arc::clone(&self.versioned), own_version());
        let workspace = (&mut self.overlay, store);
        let frame = Some(&mut self.frame);
        let next = aside(false, || change_schema(&before, change, version, workspace, frame));
        self.check()?;
        self.versioned = next.map_err(error_of).map_err(hint_of_schema_change)?;
        let text = change.text.to_owned();
        let request = Asked::from(&Body::Schema { text }).request;
        self.writes.push((Write { request, work: None }, Expectation::default()));
        Ok(())
    }

    pub fn savepoint(&mut self, name: String, session: SessionMark) {
        let mark = self.overlay.mark();
        let (writes, draws, side_effects) =
            (self.writes.len(), self.draws, self.side_effects.mark());
        let (versioned, altered) =
            (Arc::clone(&self.versioned), self.overlay.recorder.altered.clone());
        let (memory_left, temporary) = (self.memory_left(), self.temporary.objects.clone());
        self.savepoints.push(Savepoint {
            name,
            mark,
            versioned,
            altered,
            writes,
            draws,
            memory_left,
            side_effects,
            temporary,
            deferring: self.deferring.clone(),
            access: self.access,
            session,
        });
    }

    /// The savepoint that is the newest now. Whether the transaction may write is what it was
    /// before the one that is released, as in PostgreSQL.
    pub fn release(&mut self, name: &str) -> Result<Option<SessionMark>> {
        let at = self.find(name)?;
        self.access = self.savepoints[at].access;
        self.savepoints.truncate(at);
        Ok(self.savepoints.last().map(|savepoint| savepoint.session))
    }

    /// Undo the writes since the savepoint, which stays. What was read stays read, and what the
    /// undone statements read as well: the client had their answers. Locks on rows stay; advisory
    /// ones that were taken since are to be given back, cursors of since then closed, and settings
    /// set back.
    pub fn roll_back_to(&mut self, name: &str) -> Result<(Vec<Wanted>, SessionMark)> {
        let at = self.find(name)?;
        self.savepoints.truncate(at + 1);
        let savepoint = &self.savepoints[at];
        self.overlay.return_to(savepoint.mark.clone());
        self.overlay.recorder.require_all();
        self.overlay.recorder.altered.clone_from(&savepoint.altered);
        self.versioned = Arc::clone(&savepoint.versioned);
        self.temporary.objects.clone_from(&savepoint.temporary);
        self.deferring.clone_from(&savepoint.deferring);
        self.writes.truncate(savepoint.writes);
        self.draws = savepoint.draws;
        self.access = savepoint.access;
        self.frame.meter().release_to(savepoint.memory_left);
        Ok((self.side_effects.return_to(savepoint.side_effects), savepoint.session))
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|s| s.name == name).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_SAVEPOINT_SPECIFICATION,
                format!("savepoint \"{name}\" does not exist"),
            )
        })
    }

    /// What COMMIT asks of the ledger, and its program unless it changes the schema; `None` when
    /// nothing was written: the transaction read one snapshot and is serializable where that
    /// snapshot is.
    pub fn lower(mut self) -> Result<Option<(Asked, Option<Interactive>)>> {
        if self.writes.is_empty() {
            return Ok(None);
        }
        self.overlay.recorder.check()?;
        self.overlay.recorder.compact();
        let required: Interactive = self.requirements()?;
        let Interactive { now_us, rows, ranges, .. } = required;
        let seen = SchemaSeen { version: self.schema_version(), whole: self.rests_on_schema };
        let written = Interactive { now_us, rows, ranges, writes: self.writes };
        let asked = Asked::interactive(seen, &written, |write| &write.request);
        let program = written.try_map(|write| write.work.ok_or(())).ok();
        Ok(Some((asked, program)))
    }

    /// Whether what it holds is given back in no time.
    pub fn is_small(&self) -> bool {
        self.frame.meter().held() <= SMALL_BYTES
    }

    /// What must be so at COMMIT; no writes.
    fn requirements(&mut self) -> Result<Interactive> {
        let footprint = std::mem::take(&mut self.overlay.recorder);
        let Footprint { rows, mut ranges, tables, .. } = footprint;
        for table in tables {
            ranges.extend(self.whole(table)?);
        }
        Ok(Interactive { now_us: self.now_us, rows, ranges, writes: Vec::new() })
    }

    /// All of a table as the snapshot has it; `None`: it is the transaction's own.
    fn whole(&mut self, table: TableId) -> Result<Option<RangeRequirement>> {
        let catalog = self.snapshot.catalog();
        if catalog.table(table).is_none() {
            return Ok(None);
        }
        let (height, now_us) = (self.head.height, self.now_us);
        let moment = Moment { height, position: 0, now_us };
        let mut below = Overlay::new(Arc::clone(catalog), height, moment, NoRecord);
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let range = Range { table, index: 0, low, high, reverse: false };
        let (like, meter) = (RangeDigest::default(), self.frame.meter());
        let digest = aside(false, || RangeDigest::again(&mut below, &range, &like, meter));
        self.check()?;
        let required = |digest| Some(RangeRequirement { range, digest, seal: None });
        digest.map(required).map_err(error_of)
    }
}

/// A schema change by itself is not metered.
fn hint_of_schema_change(error: Error) -> Error {
    match error.code() {
        SqlState::STATEMENT_TOO_COMPLEX | SqlState::PROGRAM_LIMIT_EXCEEDED => error.with_hint(
            "Run it outside of BEGIN … COMMIT, where a schema change may take as long as it needs.",
        ),
        _ => error,
    }
}

/// What a transaction only reads, no block reads again.
fn frame_of(access: AccessMode, guard: &Arc<Guard>) -> Frame {
    match access {
        AccessMode::ReadWrite => transaction_frame(guard),
        AccessMode::ReadOnly | AccessMode::ReadPast => query_frame(guard),
    }
}

pub fn writes_to_the_past() -> Error {
    Error::unsupported("a transaction that writes to a past block")
}
