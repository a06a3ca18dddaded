//! A transaction under a rule: `Access` for programs, then commit, or not.
//!
//! ```text
//! begin ── read, lock, write aside … ── evaluate ── publish ─┬─ gate ─ permit ── install ── unlock
//!                                        commands   entries  └─ (a conflict takes all of it back)
//! ```
//!
//! * *Publish*: new index entries, and versions where those have places of their own, before
//!   the rule is asked: what guards against phantoms relies on it ([`gaps`](crate::gaps)).
//! * *Gate*: an epoch holds whole transactions ([`clock`](crate::clock)).
//! * *Rejected* transactions are answers too: what they read is held to be valid by the same rules,
//!   and they have a place in the serial order.

use std::ops::ControlFlow;

use concurrency::Moment;
use kit::sync::Spin;
use kit::sync::atomic::Ordering::Relaxed;
use procedure::access::{Access, Command, Range, Row};
use smallvec::SmallVec;
use types::{ColumnId, Error, Key, Position, SqlState, Stamp, Stop, TableId, Value};

use crate::chains::{Mark, RowAt, Seen};
use crate::clock::Timestamp;
use crate::collect::Retired;
use crate::gaps::Fallen;
use crate::mutant::{Mutant, mutated};
use crate::pool::Full;
use crate::rules::{CommitSequenceNumber, Context, Miss, Permit, Rule};
use crate::spec::Collector;
use crate::table::{Created, Table};
use crate::workspace::{State, Workspace, Write};
use crate::write_back::{ALL_COLUMNS, Changed, Deleted};

pub struct Transaction<'d, R: Rule> {
    pub(crate) cx: Context<'d, R::Notes>,
    pub(crate) work: Workspace,
    moment: Moment,
    row_ids: u32,
    pub(crate) passed_over: u64,
    scratch: Vec<Value>,
    /// When its last commit took place.
    pub(crate) committed_at: Timestamp,
    /// It was a rule that stopped the transaction.
    pub(crate) conflicted: bool,
    pub(crate) retired: Retired,
    fallen: Vec<(u32, Fallen)>,
    /// Of the block's room for row images.
    image_bytes: usize,
    /// What was changed, where that is to be known.
    pub(crate) log: Option<Log>,
    /// The number in its hidden row ids, and the turn to add such rows.
    number: Option<u32>,
    /// It was not given a turn in time.
    out_of_turn: bool,
}

/// What a block must know to be sealed.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) changed: Vec<Changed>,
    pub(crate) deleted: Vec<Deleted>,
    /// Numbers in hidden row ids, and the positions at which their transactions arrived.
    pub(crate) numbers: Vec<(u32, Position)>,
}

/// Table, kind, lengths.
const IMAGE_FRAME_BYTES: usize = 32;

/// Turns of a wait for the turn to add rows under hidden ids.
const TURN_WAITS_MAX: u32 = 24;

/// A row of the transaction's own, or one below.
enum Found<'d> {
    Own(usize),
    Below(Seen<'d>),
    Nothing,
}

impl<'d, R: Rule> Transaction<'d, R> {
    pub(crate) fn new(cx: Context<'d, R::Notes>) -> Self {
        Transaction {
            cx,
            work: Workspace::default(),
            moment: Moment { height: 0, position: 0, now_us: 0 },
            row_ids: 0,
            passed_over: 0,
            scratch: Vec::new(),
            committed_at: Timestamp::ZERO,
            conflicted: false,
            retired: Retired::default(),
            fallen: Vec::new(),
            image_bytes: 0,
            log: None,
            number: None,
            out_of_turn: false,
        }
    }

    pub(crate) fn begin(&mut self, moment: Moment, must_see: Timestamp, read_only: bool) {
        self.moment = moment;
        self.row_ids = 0;
        self.passed_over = 0;
        self.conflicted = false;
        self.out_of_turn = false;
        self.cx.read_only = read_only;
        self.cx.at = R::begin(self.cx.db, self.cx.worker, must_see, read_only);
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::new(self.moment.height, self.moment.position)
    }

    pub(crate) fn table(&self, id: TableId) -> Result<&'d Table, Stop> {
        Ok(self.cx.db.table(id)?)
    }

    pub(crate) fn conflict(&mut self, why: &'static str) -> Stop {
        self.conflicted = true;
        Stop::Retry(Error::serialization(why))
    }

    /// Calls `attempt` again as long as it meets tuples that are gone.
    pub(crate) fn retry_gone<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Miss>,
    ) -> Result<T, Stop> {
        let mut spin = Spin::new();
        loop {
            match attempt(self) {
                Ok(done) => return Ok(done),
                Err(Miss::Gone) => spin.wait(),
                Err(miss) => return Err(self.stop(miss)),
            }
        }
    }

    /// What an access that did not come to an end is to the transaction.
    pub(crate) fn stop(&mut self, miss: Miss) -> Stop {
        match miss {
            Miss::Conflict(why) => self.conflict(why),
            Miss::Gone => self.conflict("A row is gone."),
            Miss::Full(full) => full.into(),
        }
    }

    /// The transaction's own write of a tuple.
    #[inline]
    pub(crate) fn own(&mut self, table: &Table, tuple: u32) -> Option<usize> {
        if self.work.writes.is_empty() {
            return None;
        }
        let lock = table.head(tuple).lock_word().load(Relaxed);
        if !R::is_own(&self.cx, lock) {
            return None;
        }
        self.work.find(table.schema.id.0, tuple)
    }

    /// A key that no tuple has: others must know that this was seen.
    fn absent(&mut self, table: &Table, key: &Key) -> Result<(), Miss> {
        let gap = table.gaps.look(0, key.as_bytes());
        R::read_gap(&mut self.cx, table, gap)?;
        // Another may have come in between.
        if table.find(key).is_some() { Err(Miss::Gone) } else { Ok(()) }
    }

    fn look(&mut self, table: &'d Table, key: &Key) -> Result<Found<'d>, Miss> {
        let Some(tuple) = table.find(key) else {
            self.absent(table, key)?;
            return Ok(Found::Nothing);
        };
        if let Some(at) = self.own(table, tuple) {
            return Ok(Found::Own(at));
        }
        let seen = R::read(&mut self.cx, table, tuple, None)?;
        self.cooperate(table, tuple, &seen);
        Ok(if seen.exists() { Found::Below(seen) } else { Found::Nothing })
    }

    /// A transaction that walked past old versions may take them out.
    pub(crate) fn cooperate(&mut self, table: &Table, tuple: u32, seen: &Seen<'_>) {
        if seen.passed > 0 && table.spec.collector == Collector::Cooperative {
            self.retired.cooperate(self.cx.db, table, tuple);
        }
    }

    /// Locks the row of a key, if there is one, or with `make` in any case but that.
    fn lock_row(&mut self, table: &'d Table, key: &Key, make: bool) -> Result<Found<'d>, Miss> {
        let Some(tuple) = table.find(key) else {
            if make {
                return self.create(table, key);
            }
            self.absent(table, key)?;
            return Ok(Found::Nothing);
        };
        if let Some(at) = self.own(table, tuple) {
            return Ok(Found::Own(at));
        }
        let seen = R::lock(&mut self.cx, table, tuple)?;
        if seen.exists() != make {
            return Ok(Found::Own(self.begin_write(table, tuple, &seen, false)));
        }
        // There is nothing to write, only to know.
        R::unlock(&self.cx, table.head(tuple));
        let seen = R::read(&mut self.cx, table, tuple, None)?;
        match seen.exists() == make {
            true if make => Ok(Found::Below(seen)),
            true => Ok(Found::Nothing),
            false => Err(Miss::Gone),
        }
    }

    fn create(&mut self, table: &'d Table, key: &Key) -> Result<Found<'d>, Miss> {
        let owner = R::owner(&self.cx);
        let horizon = self.cx.db.clock.horizon();
        match table.create(key, owner, self.cx.worker, horizon) {
            Ok(Created::New(tuple)) => {
                let seen = table.newest(tuple, &mut self.cx.copy);
                Ok(Found::Own(self.begin_write(table, tuple, &seen, true)))
            }
            Ok(Created::Exists(_)) => Err(Miss::Gone),
            Err(full) => Err(Miss::Full(full)),
        }
    }

    /// Writes down a lock that was just taken.
    fn begin_write(&mut self, table: &Table, tuple: u32, seen: &Seen<'_>, created: bool) -> usize {
        let row = match seen.row {
            RowAt::Version(words) => self.work.copy_row(words.iter().map(|w| w.load(Relaxed))),
            RowAt::Copied => self.work.copy_row(self.cx.copy.iter().copied()),
            RowAt::Nowhere => self.work.new_row(table.layout.words),
        };
        self.work.writes.push(Write {
            table: table.schema.id.0,
            tuple,
            base: seen.mark,
            base_unit: seen.unit,
            base_stamp: seen.stamp,
            created,
            state: State::Commands(SmallVec::new()),
            row,
            changed: crate::layout::ColumnSet::default(),
            prepared: None,
            is_prepared: false,
        });
        self.work.writes.len() - 1
    }

    fn assign(
        &mut self,
        table: &Table,
        at: usize,
        column: ColumnId,
        value: &Value,
    ) -> Result<(), Full> {
        let layout = &table.layout;
        let cell = layout.encode(column, value, self.cx.worker)?;
        let write = &mut self.work.writes[at];
        let (row, again) = (write.row, write.changed.contains(column));
        write.changed.insert(column);
        let row = self.work.row_mut(row, layout);
        if again {
            layout.release_cell(column, layout.cell(column, |i| row[i]));
        }
        layout.set(column, cell, row);
        Ok(())
    }

    fn apply(&mut self, table: &Table, at: usize, command: &Command) -> Result<(), Stop> {
        let code = &command.code;
        if let ([(column, expression)], []) = (&*code.assignments, &*code.checks)
            && code.columns.is_empty()
            && code.is_brief()
        {
            let value = expression.eval(&command.inputs, &[], self.moment.now_us)?;
            return Ok(self.assign(table, at, *column, &value)?);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(table.layout.column_count(), Value::Null);
        let row = self.work.row(self.work.writes[at].row, &table.layout);
        for &column in &code.columns {
            scratch[usize::from(column)] = table.layout.decode(column, |i| row[i]);
        }
        let applied = command.apply(&mut scratch, self.moment.now_us);
        let stored = applied.map_err(Stop::from).and_then(|()| {
            let mut columns = code.assignments.iter().map(|(column, _)| *column);
            Ok(columns.try_for_each(|c| self.assign(table, at, c, &scratch[usize::from(c)]))?)
        });
        self.scratch = scratch;
        stored
    }

    /// Turns the commands of a write into the row that they make; gives the stamp of the row below
    /// if they were still to be evaluated.
    pub(crate) fn evaluate(&mut self, at: usize) -> Result<Option<Stamp>, Stop> {
        let write = &mut self.work.writes[at];
        let State::Commands(commands) = &mut write.state else { return Ok(None) };
        let (commands, stamp) = (std::mem::take(commands), write.base_stamp);
        let table = self.cx.db.at(write.table);
        for command in &commands {
            self.apply(table, at, command)?;
        }
        self.work.writes[at].state = State::Put;
        Ok(Some(stamp))
    }

    fn read_own(
        &mut self,
        at: usize,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        let stamp = self.evaluate(at)?.unwrap_or_else(|| self.stamp());
        let write = &self.work.writes[at];
        if !write.exists() {
            return Ok(None);
        }
        let layout = &self.cx.db.at(write.table).layout;
        let row = self.work.row(write.row, layout);
        for (value, &column) in out.iter_mut().zip(columns) {
            *value = layout.decode(column, |i| row[i]);
        }
        Ok(Some(stamp))
    }

    fn put(&mut self, table: &Table, at: usize, row: &[Value]) -> Result<(), Stop> {
        for (column, value) in row.iter().enumerate() {
            self.assign(table, at, column as ColumnId, value)?;
        }
        self.work.writes[at].state = State::Put;
        Ok(())
    }

    /// Commits what was written, or says why not.
    pub(crate) fn commit(&mut self) -> Result<CommitSequenceNumber, Stop> {
        (0..self.work.writes.len()).try_for_each(|at| self.evaluate(at).map(drop))?;
        if R::KEEPS_IMAGES && self.log.is_some() {
            self.take_image_room()?;
        }
        if self.work.writes.is_empty() {
            return self.finish_reads(false);
        }
        self.publish()?;
        let inside = self.cx.db.clock.enter(self.cx.worker);
        let centre = R::centre(&self.cx);
        let permit = R::permit(&mut self.cx, &inside, &self.work.writes, &self.fallen)
            .map_err(|miss| self.stop(miss))?;
        if self.number.is_some() {
            let appending = &self.cx.db.appending;
            if !appending.allows(permit.csn.order) {
                return Err(self.conflict("A later transaction has added a row without a key."));
            }
            appending.commit(permit.csn.order);
        }
        self.install(&permit)?;
        self.committed_at = permit.at;
        R::installed(&mut self.cx, &permit, &self.fallen);
        self.write_log();
        for write in &self.work.writes {
            R::unlock(&self.cx, self.cx.db.at(write.table).head(write.tuple));
        }
        R::forget(&mut self.cx);
        drop(centre);
        drop(inside);
        self.end_turn();
        self.cx.db.clock.end(self.cx.worker);
        self.image_bytes = 0;
        self.retired.add(self.cx.db, &self.work.writes, permit.at);
        self.work.clear();
        Ok(permit.csn)
    }

    /// Room in the block for the rows that it writes.
    fn take_image_room(&mut self) -> Result<(), Stop> {
        let wanted: usize = (0..self.work.writes.len()).map(|at| self.image_bytes(at)).sum();
        let left = |room: usize| room.checked_sub(wanted);
        match self.cx.db.image_room_bytes.fetch_update(Relaxed, Relaxed, left) {
            Ok(_) => {
                self.image_bytes = wanted;
                Ok(())
            }
            Err(room) => Err(Stop::Rejected(
                Error::new(
                    SqlState::PROGRAM_LIMIT_EXCEEDED,
                    "the transaction writes too many rows for its block",
                )
                .with_detail(format!(
                    "Under \"{}\" a block holds the rows that it leaves: some {wanted} bytes, with \
                     room for {room}.",
                    R::NAME
                ))
                .with_hint("Write fewer rows in each transaction, or choose another protocol."),
            )),
        }
    }

    /// What the image of a written row takes in its block, its frame included.
    fn image_bytes(&mut self, at: usize) -> usize {
        let write = &self.work.writes[at];
        let table = self.cx.db.at(write.table);
        let key_bytes = table.key(write.tuple).as_bytes().len();
        let row_bytes = match write.exists() {
            true => {
                let row = self.work.row(write.row, &table.layout);
                table.layout.image_bytes_max(|i| row[i])
            }
            false => 0,
        };
        key_bytes + row_bytes + IMAGE_FRAME_BYTES
    }

    fn end_turn(&mut self) {
        if self.number.take().is_some() {
            self.cx.db.appending.end();
        }
    }

    /// The number that stands in hidden row ids until positions are known.
    fn draw_number(&mut self) -> Option<u32> {
        let mut spin = Spin::new();
        for _ in 0..TURN_WAITS_MAX {
            if self.number.is_none() {
                self.number = self.cx.db.appending.begin(self.cx.worker);
            }
            if self.number.is_some() {
                return self.number;
            }
            spin.wait();
        }
        None
    }

    fn write_log(&mut self) {
        let stamp = self.stamp();
        let Some(log) = &mut self.log else { return };
        for write in &self.work.writes {
            let Write { table, tuple, .. } = *write;
            let schema = &self.cx.db.at(table).schema;
            if write.exists() {
                // A row that was put has its key as well.
                let put = !write.existed() || write.changed.contains(schema.primary_key[0]);
                let columns = write.changed.bits().filter(|_| !put).unwrap_or(ALL_COLUMNS);
                log.changed.push(Changed { table, tuple, columns });
            } else {
                log.deleted.push((schema.id, self.cx.db.at(table).key(tuple), stamp));
            }
        }
        log.numbers.extend(self.number.map(|number| (number, stamp.position())));
    }

    /// Ends a transaction whose writes, if any, are dropped and whose reads must hold.
    pub(crate) fn finish_reads(&mut self, rejected: bool) -> Result<CommitSequenceNumber, Stop> {
        debug_assert!(rejected || self.work.writes.is_empty());
        let centre = R::centre(&self.cx);
        let csn = R::permit_reads(&mut self.cx, &self.work.writes);
        let csn = csn.map_err(|miss| self.stop(miss))?;
        drop(centre);
        self.abort();
        Ok(csn)
    }

    /// Takes back everything.
    pub(crate) fn abort(&mut self) {
        let room = std::mem::take(&mut self.image_bytes);
        self.cx.db.image_room_bytes.fetch_add(room, Relaxed);
        let (db, stamp) = (self.cx.db, self.stamp());
        for at in 0..self.work.writes.len() {
            let write = &self.work.writes[at];
            let table = db.at(write.table);
            if write.is_prepared {
                let new = self.work.version(at, &table.layout, stamp, None);
                table.unpublish(&new, write.prepared);
                write.prepared.into_iter().for_each(|unit| table.unprepare(unit));
                let owns = write.prepared.is_some();
                self.work.writes[at].is_prepared = owns;
            }
            self.work.release(&self.work.writes[at], &table.layout);
        }
        for write in &self.work.writes {
            R::unlock(&self.cx, db.at(write.table).head(write.tuple));
        }
        R::forget(&mut self.cx);
        self.end_turn();
        db.clock.end(self.cx.worker);
        self.retired.add_aborted(db, &self.work.writes);
        self.work.clear();
    }

    /// Versions and entries that others may meet before it is decided whether they count.
    fn publish(&mut self) -> Result<(), Stop> {
        self.fallen.clear();
        let stamp = self.stamp();
        let (mut published, mut before) = (Vec::new(), Vec::new());
        for at in 0..self.work.writes.len() {
            let write = &self.work.writes[at];
            let table = self.cx.db.at(write.table);
            let new = self.work.version(at, &table.layout, stamp, None);
            let prepared = table.prepare(&new, self.cx.worker)?;
            let mut row = None;
            if table.has_secondaries() && write.existed() {
                let seen = table.newest(write.tuple, &mut self.cx.copy);
                before.clear();
                match seen.row {
                    RowAt::Version(words) => before.extend(words.iter().map(|w| w.load(Relaxed))),
                    _ => before.extend_from_slice(&self.cx.copy),
                }
                row = Some(&before[..]);
            }
            published.clear();
            table.publish(&new, row, prepared, &mut published)?;
            let mut gaps = Fallen::new();
            // Whether or not a row comes of it, and also where an insert that came to nothing has
            // left the tuple: ranges that were read before that have not met its entry.
            let is_first = write.base == Mark::ABSENT;
            if is_first && (write.created || !mutated(Mutant::LeftoverFilled)) {
                table.gaps.fall(0, table.key(write.tuple).as_bytes(), &mut gaps);
            }
            for (index, entry) in &published {
                table.gaps.fall(*index, entry.as_bytes(), &mut gaps);
            }
            if !gaps.is_empty() {
                self.fallen.push((write.table, gaps));
            }
            let write = &mut self.work.writes[at];
            (write.prepared, write.is_prepared) = (prepared, true);
        }
        Ok(())
    }

    fn install(&self, permit: &Permit) -> Result<(), Stop> {
        let stamp = self.stamp();
        for (at, write) in self.work.writes.iter().enumerate() {
            let table = self.cx.db.at(write.table);
            let new = self.work.version(at, &table.layout, stamp, Some(permit));
            table.install(&new, write.prepared, self.cx.worker)?;
        }
        Ok(())
    }
}

impl<R: Rule> Access for Transaction<'_, R> {
    #[inline]
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        let table = self.table(table)?;
        match self.retry_gone(|this| this.look(table, key))? {
            Found::Nothing => Ok(None),
            Found::Own(at) => self.read_own(at, columns, out),
            Found::Below(seen) => {
                for (value, &column) in out.iter_mut().zip(columns) {
                    *value = table.decode(column, seen.row, &self.cx.copy);
                }
                Ok(Some(seen.stamp))
            }
        }
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let table = self.table(table)?;
        Ok(match self.retry_gone(|this| this.look(table, key))? {
            Found::Nothing => false,
            Found::Own(at) => self.work.writes[at].exists(),
            Found::Below(_) => true,
        })
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        let table = self.table(table)?;
        let Found::Own(at) = self.retry_gone(|this| this.lock_row(table, key, false))? else {
            return Ok(false);
        };
        self.work.own_rows.note(at);
        match &mut self.work.writes[at].state {
            State::Commands(commands) => commands.push(command),
            State::Put => self.apply(table, at, &command)?,
            State::Deleted => return Ok(false),
        }
        Ok(true)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        let table = self.table(table)?;
        if self.out_of_turn {
            return Err(self.conflict("Another transaction is adding rows without a key."));
        }
        let count = self.work.writes.len();
        let Found::Own(at) = self.retry_gone(|this| this.lock_row(table, &key, true))? else {
            return Ok(false);
        };
        let is_new = at == count;
        if !is_new && self.work.writes[at].exists() {
            return Ok(false);
        }
        self.work.own_rows.note(at);
        self.put(table, at, &row)?;
        Ok(true)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let table = self.table(table)?;
        let Found::Own(at) = self.retry_gone(|this| this.lock_row(table, key, false))? else {
            return Ok(false);
        };
        // A command that fails must not vanish with the row.
        self.evaluate(at)?;
        self.work.own_rows.note(at);
        let write = &mut self.work.writes[at];
        let existed = write.exists();
        write.state = State::Deleted;
        Ok(existed)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        self.scan_range(range, columns, visit)
    }

    fn take_passed_over(&mut self) -> u64 {
        std::mem::take(&mut self.passed_over)
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        let mut id = self.stamp().row_id(self.row_ids);
        self.row_ids += 1;
        if self.log.is_some() {
            match self.draw_number() {
                Some(number) => id[8..12].copy_from_slice(&number.to_be_bytes()),
                None => self.out_of_turn = true,
            }
        }
        id
    }

    fn now_us(&self) -> i64 {
        self.moment.now_us
    }

    fn prefetch(&mut self, table: TableId, key: &Key) {
        if let Ok(table) = self.cx.db.table(table) {
            table.place(key);
        }
    }
}
