//! Endorsed transactions: a program that is simulated on a snapshot, and what is ordered in its
//! place.
//!
//! ```text
//!   program ─► run on a snapshot ─► versions of all that it read ┐
//!                                 └► values of all that it wrote ┴► ordered: require, then write
//! ```
//!
//! It is the product's own form (`sql`'s `session/endorse.rs`), made here a second time. What makes
//! it right is that the program itself, run where the transaction stands in the serial order, would
//! have answered the same and have written the same rows: that is what the twin asks of each that
//! commits.

use std::collections::BTreeSet;
use std::sync::Arc;

use concurrency::{
    Expectation, Interactive, Moment, NoRecord, Overlay, PendingWrite, RangeDigest,
    RangeRequirement, Recorder, RowRead, RowRequirement, Statement, Work, WriteState, seal_range,
};
use procedure::access::Range;
use procedure::step::{OnError, Procedure, Step};
use procedure::{CommandCode, Expr, Frame, Meter, ProgramResult, Reg};
use storage::{Catalog, Snapshot, Store};
use types::{ColumnId, Height, Key, SqlState, Stamp, Stop, TableId, Value};

use crate::programs::{LOG, load_by};

/// What a simulation has read.
#[derive(Default)]
struct Seen {
    values: Vec<RowRequirement>,
    existences: Vec<RowRequirement>,
    ranges: Vec<RangeRequirement>,
    /// Of each written row, the columns that commands assign which have not looked at it.
    assigned: Vec<Vec<ColumnId>>,
    off: bool,
}

fn required(read: RowRead<'_>) -> RowRequirement {
    RowRequirement { table: read.table, key: read.key.clone(), stamp: read.stamp }
}

impl Recorder for Seen {
    const DIGESTS: bool = true;

    fn value_read(&mut self, read: RowRead<'_>) {
        if !self.off {
            self.values.push(required(read));
        }
    }

    fn existence_read(&mut self, read: RowRead<'_>) {
        if !self.off {
            self.existences.push(required(read));
        }
    }

    fn range_read(&mut self, range: &Range, digest: RangeDigest) {
        if !self.off {
            self.ranges.push(RangeRequirement { range: range.clone(), digest, seal: None });
        }
    }
}

/// A program that was simulated.
pub(crate) struct Endorsed {
    pub(crate) result: ProgramResult,
    /// Of the snapshot.
    pub(crate) height: Height,
    /// What is ordered in its place.
    pub(crate) work: Arc<Work>,
}

/// Simulate a program on the newest snapshot. `None`: it fails there, so that nothing is ordered.
pub(crate) fn endorse(store: &Store, procedure: &Arc<Procedure>) -> Option<Endorsed> {
    let snapshot = store.snapshot();
    let height = snapshot.height();
    let catalog = Arc::clone(snapshot.catalog());
    let mut overlay = Overlay::new(catalog, height, moment(height), Seen::default());
    let result = run(&program(procedure), &mut overlay, |overlay| {
        // A command that looks at its row has read it.
        let looked_at = looked_at(overlay);
        overlay.recorder.values.extend(looked_at);
        overlay.recorder.assigned = assigned(overlay);
        overlay.recorder.off = true;
    })?;
    let seen = std::mem::take(&mut overlay.recorder);
    let (rows, ranges) = (rows_of(&seen, &overlay), sealed(&snapshot, seen.ranges.clone()));
    let writes = overlay.writes().writes().iter().zip(&seen.assigned);
    let writes = writes.filter_map(|(write, assigned)| {
        let is_read = seen.values.iter().any(|it| it.table == write.table && it.key == write.key);
        let before = before(&overlay, write);
        let is_written = |column: ColumnId, differs: bool| {
            differs || assigned.contains(&column) || !is_read && assigned.is_empty()
        };
        let procedure = lowered(write, &before, is_written)?;
        Some((statement(procedure), Expectation { count: 1, rows: Vec::new() }))
    });
    let writes = writes.collect();
    let work = Work::Interactive(Interactive { now_us: height as i64, rows, ranges, writes });
    Some(Endorsed { result, height, work: Arc::new(work) })
}

/// Whether the program of an endorsed transaction writes, on the newest state of a store, what is
/// written in its place: if not, both.
pub(crate) fn differing_writes(
    procedure: &Arc<Procedure>,
    ordered: &Work,
    catalog: &Arc<Catalog>,
    height: Height,
) -> Option<String> {
    let on = |work: &Work| {
        let catalog = Arc::clone(catalog);
        let mut overlay = Overlay::new(catalog, storage::LATEST, moment(height), NoRecord);
        run(work, &mut overlay, |_| {}).map(|_| changes(&overlay))
    };
    let (own, ordered) = (on(&program(procedure)), on(ordered));
    (own != ordered).then(|| format!("its program writes {own:?}, in its place {ordered:?}"))
}

fn moment(height: Height) -> Moment {
    let position = Stamp::POSITIONS_MAX;
    Moment { height: height + 1_000, position, now_us: height as i64 }
}

fn program(procedure: &Arc<Procedure>) -> Work {
    statement(Arc::clone(procedure))
}

fn statement(procedure: Arc<Procedure>) -> Work {
    Work::Statement(Statement { procedure, arguments: Box::default() })
}

/// Run it, and evaluate what no step has looked at.
fn run<R: Recorder>(
    work: &Work,
    overlay: &mut Overlay<R>,
    at_end: impl FnOnce(&mut Overlay<R>),
) -> Option<ProgramResult> {
    let answer = work.run(&mut Frame::default(), overlay);
    at_end(overlay);
    match answer.and_then(|answer| overlay.evaluate_all().map(|()| answer)) {
        Ok(answer) => Some(answer),
        Err(Stop::Rejected(_) | Stop::Retry(_)) => None,
        Err(Stop::Halt(why)) => panic!("halted: {why}"),
    }
}

fn looked_at(overlay: &Overlay<Seen>) -> Vec<RowRequirement> {
    let looks = |write: &&PendingWrite| match &write.state {
        WriteState::Commands(commands) => commands.iter().any(|it| !it.code.columns.is_empty()),
        WriteState::Put(_) | WriteState::Delete => false,
    };
    let writes = overlay.writes().writes().iter().filter(looks);
    let read = writes.filter_map(|write| {
        let stamp = overlay.catalog().table(write.table)?.stamp(write.slot?, overlay.at());
        Some(RowRequirement { table: write.table, key: write.key.clone(), stamp })
    });
    read.collect()
}

fn assigned(overlay: &Overlay<Seen>) -> Vec<Vec<ColumnId>> {
    let columns = |write: &PendingWrite| match &write.state {
        WriteState::Commands(commands) => {
            let code = commands.iter().flat_map(|command| &*command.code.assignments);
            code.map(|(column, _)| *column).collect()
        }
        WriteState::Put(_) | WriteState::Delete => Vec::new(),
    };
    overlay.writes().writes().iter().map(columns).collect()
}

/// Of a row that is written, and stays, the write itself asks whether it is there.
fn rows_of(seen: &Seen, overlay: &Overlay<Seen>) -> Vec<RowRequirement> {
    let writes = overlay.writes().writes().iter();
    let asked =
        writes.filter(|write| if write.existed { write.exists() } else { write.table == LOG });
    let asked: BTreeSet<(TableId, &Key)> = asked.map(|write| (write.table, &write.key)).collect();
    let existences = seen.existences.iter().filter(|it| !asked.contains(&(it.table, &it.key)));
    let mut rows: Vec<RowRequirement> = seen.values.iter().chain(existences).cloned().collect();
    rows.sort_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
    rows.dedup_by(|a, b| a.table == b.table && a.key == b.key);
    rows
}

pub(crate) fn sealed(snapshot: &Snapshot, ranges: Vec<RangeRequirement>) -> Vec<RangeRequirement> {
    let nowhere = Moment { height: 0, position: 0, now_us: 0 };
    let catalog = Arc::clone(snapshot.catalog());
    let mut below = Overlay::new(catalog, snapshot.height(), nowhere, NoRecord);
    let meter = Meter::default();
    let mut seal = |required: RangeRequirement| {
        let (rows, seal) = seal_range(&mut below, &required.range, &required.digest, &meter)
            .expect("a range that was read can be read again");
        assert_eq!(rows, required.digest.rows, "on the same snapshot");
        RangeRequirement { seal: Some(Box::new(seal)), ..required }
    };
    ranges.into_iter().map(&mut seal).collect()
}

/// A row's values below the transaction; none, if it is not there.
fn before<R: Recorder>(overlay: &Overlay<R>, write: &PendingWrite) -> Vec<Value> {
    let mut row = Vec::new();
    let table = overlay.catalog().table(write.table);
    if let (Some(table), Some(slot), true) = (table, write.slot, write.existed) {
        table.read_row(slot, overlay.at(), &mut row);
    }
    row
}

/// The net change of each row that has another value, or comes, or goes.
fn changes<R: Recorder>(overlay: &Overlay<R>) -> Vec<(TableId, Vec<u8>, Option<Vec<Value>>)> {
    let writes = overlay.writes().writes().iter().filter(|write| !write.is_void());
    let changes = writes.filter_map(|write| {
        let after = match &write.state {
            WriteState::Put(row) => Some(row.to_vec()),
            WriteState::Delete => None,
            WriteState::Commands(_) => panic!("a command was not evaluated"),
        };
        let stays = write.existed && after.as_deref() == Some(&before(overlay, write));
        (!stays).then(|| (write.table, write.key.as_bytes().to_vec(), after))
    });
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    changes
}

/// One row's change as a program of its own, which fails where the row is not as it was. A column
/// is written that has another value, and one that the program writes whatever it was.
fn lowered(
    write: &PendingWrite,
    before: &[Value],
    is_written: impl Fn(ColumnId, bool) -> bool,
) -> Option<Arc<Procedure>> {
    if write.is_void() {
        return None;
    }
    let (table, found) = (write.table, Reg(0));
    let constant = |value: &Value| Expr::Const(value.clone());
    let key = || -> Box<[Expr]> { Box::new([constant(&before[0])]) };
    let step = match &write.state {
        WriteState::Put(row) if !write.existed => {
            let (column, values) = if table == LOG { (1, &row[..1]) } else { (0, &row[..]) };
            Step::Insert {
                table,
                key: Box::new([column]),
                hidden_row_id: table == LOG,
                values: values.iter().map(constant).collect(),
                inserted: found,
            }
        }
        WriteState::Put(row) => {
            let columns = (0..).zip(before.iter().zip(&row[..])).skip(1);
            let written = columns.filter(|(column, (old, new))| is_written(*column, old != new));
            let assignments: Box<[(ColumnId, Expr)]> =
                written.map(|(column, (_, new))| (column, constant(new))).collect();
            if assignments.is_empty() {
                return None;
            }
            let code = Arc::new(CommandCode::new(assignments, Box::default()));
            Step::Update { table, key: key(), code, inputs: Box::default(), found }
        }
        WriteState::Delete => Step::Delete { table, key: key(), long: Box::default(), found },
        WriteState::Commands(_) => panic!("a command was not evaluated"),
    };
    let error = OnError::new(SqlState::NO_DATA_FOUND, "the row is not as it was");
    let as_it_was = Step::Require { condition: Expr::Reg(found), error };
    let counted = Step::CountRows { by: Expr::Const(Value::Int(1)) };
    Some(load_by(0, vec![step, as_it_was, counted]))
}
