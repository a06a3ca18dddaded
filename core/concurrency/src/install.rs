//! From pending writes to stored records.
//!
//! Two phases, since a command may fail (an overflow, a CHECK) and a transaction is installed
//! whole or not at all: [`resolve`] evaluates against the newest state and changes nothing,
//! [`Resolved::install`] cannot fail.
//!
//! Only columns that changed are written: unchanged long strings keep their place in the heap.

use std::sync::Arc;

use procedure::Budget;
use procedure::access::{Command, CommandCode, Row};
use smallvec::SmallVec;
use storage::{Catalog, LATEST, Slot, Table, UndoArena};
use types::{ColumnId, Key, Stamp, Stop, Value};

use crate::pending::{PendingWrite, WriteState};
use crate::test_mode::{Mutant, mutated};

/// New values of some columns.
pub type Patch = SmallVec<[(ColumnId, Value); 4]>;

/// A write whose every value is known.
#[derive(Debug)]
pub enum Resolved {
    Insert(Row),
    Patch(Slot, Patch),
    Delete(Slot),
    Nothing,
}

/// Evaluate one transaction's write on the newest state.
#[inline]
pub fn resolve(
    table: &Table,
    write: &PendingWrite,
    now_us: i64,
    scratch: &mut Vec<Value>,
) -> Result<Resolved, Stop> {
    let mut patch = Patch::new();
    if let Some(slot) = brief_patch(table, write, now_us, scratch, &mut patch) {
        return slot.map(|slot| Resolved::Patch(slot, patch));
    }
    fold(table, write, now_us, scratch)
}

fn fold(
    table: &Table,
    write: &PendingWrite,
    now_us: i64,
    scratch: &mut Vec<Value>,
) -> Result<Resolved, Stop> {
    let mut fold = Fold::new(table, write.slot, scratch);
    fold.apply(write, now_us)?;
    fold.finish()
}

/// As [`resolve`]; a patch is long, so that it is filled where it stays.
fn push_resolved(
    table: &Table,
    write: &PendingWrite,
    now_us: i64,
    scratch: &mut Vec<Value>,
    all: &mut Vec<Option<Resolved>>,
) -> Result<(), Stop> {
    if let Some(slot) = write.slot {
        all.push(Some(Resolved::Patch(slot, Patch::new())));
        if let Some(Some(Resolved::Patch(_, patch))) = all.last_mut()
            && let Some(filled) = brief_patch(table, write, now_us, scratch, patch)
        {
            // A patch that is filled by half is none.
            return filled.map(drop).inspect_err(|_| drop(all.pop()));
        }
        all.pop();
    }
    all.push(Some(fold(table, write, now_us, scratch)?));
    Ok(())
}

/// One command whose text bounds its work, on a row that is there: of the row no more is put
/// together than what the command looks at. The row's slot, and its values in `patch`.
fn brief_patch(
    table: &Table,
    write: &PendingWrite,
    now_us: i64,
    scratch: &mut Vec<Value>,
    patch: &mut Patch,
) -> Option<Result<Slot, Stop>> {
    let WriteState::Commands(commands) = &write.state else {
        return None;
    };
    let ([command], Some(slot)) = (&commands[..], write.slot) else {
        return None;
    };
    let code = &command.code;
    if !code.is_brief() {
        return None;
    }
    let columns = table.schema().columns.len();
    if scratch.len() < columns {
        scratch.resize_with(columns, Value::default);
    }
    match &*code.columns {
        [] => table.stamp(slot, LATEST)?,
        columns => table.read_places(slot, LATEST, columns, scratch)?,
    };
    let resolved = brief_values(code, &command.inputs, now_us, scratch, patch);
    Some(resolved.map(|()| slot).map_err(Stop::from))
}

/// Adds to a patch what a command assigns whose text bounds its work. In `row` are the columns that
/// it looks at, and room for the others.
pub fn brief_values(
    code: &CommandCode,
    inputs: &[Value],
    now_us: i64,
    row: &mut [Value],
    patch: &mut Patch,
) -> Result<(), types::Error> {
    if code.only_sets(inputs) {
        patch.extend(code.settings(inputs).map(|(column, value)| (column, value.copied())));
        return Ok(());
    }
    for (column, expression) in &code.assignments {
        patch.push((*column, expression.eval(inputs, row, now_us)?));
    }
    if !code.checks.is_empty() {
        let exchange = |patch: &mut Patch, row: &mut [Value]| {
            for (column, value) in patch.iter_mut() {
                std::mem::swap(value, &mut row[usize::from(*column)]);
            }
        };
        exchange(patch, row);
        let checked = code.check(inputs, row, now_us);
        exchange(patch, row);
        checked?;
    }
    Ok(())
}

/// Whether nothing has to be evaluated to install a write: a new row, or values of columns that no
/// secondary index knows of and that are set whatever they were.
fn stands_as_it_is(table: &Table, write: &PendingWrite) -> bool {
    let is_stored = || write.slot.is_some_and(|slot| table.stamp(slot, LATEST).is_some());
    match &write.state {
        WriteState::Put(_) => !is_stored(),
        WriteState::Commands(commands) => match &commands[..] {
            [command] => command.only_sets() && !table.has_secondary_indexes() && is_stored(),
            _ => false,
        },
        WriteState::Delete => false,
    }
}

/// Installs transactions one after another.
pub struct Installer {
    catalog: Arc<Catalog>,
    /// `None`: it is installed as the write has it.
    resolved: Vec<Option<Resolved>>,
    scratch: Vec<Value>,
}

impl Installer {
    pub fn new(catalog: Arc<Catalog>) -> Installer {
        Installer { catalog, resolved: Vec::new(), scratch: Vec::new() }
    }

    /// All of a transaction's writes, or none if one cannot be evaluated.
    pub fn install(
        &mut self,
        writes: &[PendingWrite],
        now_us: i64,
        stamp: Stamp,
        undo: &mut UndoArena,
    ) -> Result<(), Stop> {
        if mutated(Mutant::HalfInstalled) {
            return writes.iter().try_for_each(|write| {
                self.resolve(std::slice::from_ref(write), now_us)?;
                self.put(std::slice::from_ref(write), stamp, undo)
            });
        }
        self.resolve(writes, now_us)?;
        self.put(writes, stamp, undo)
    }

    /// Evaluates a transaction's writes on the newest state, which they leave as it is.
    pub fn resolve(&mut self, writes: &[PendingWrite], now_us: i64) -> Result<(), Stop> {
        self.resolved.clear();
        for write in writes {
            let table = self.catalog.table(write.table).ok_or_else(gone)?;
            if write.is_void() {
                self.resolved.push(Some(Resolved::Nothing));
                continue;
            }
            if stands_as_it_is(table, write) {
                self.resolved.push(None);
                continue;
            }
            push_resolved(table, write, now_us, &mut self.scratch, &mut self.resolved)?;
        }
        Ok(())
    }

    /// What [`Installer::resolve`] has made of the writes; `None`: a new row or new values, as the
    /// write has them.
    pub fn resolved(&self) -> &[Option<Resolved>] {
        &self.resolved
    }

    /// Installs the writes that were resolved.
    pub fn put(
        &mut self,
        writes: &[PendingWrite],
        stamp: Stamp,
        undo: &mut UndoArena,
    ) -> Result<(), Stop> {
        for (write, resolved) in writes.iter().zip(&self.resolved) {
            let table = self.catalog.table(write.table).ok_or_else(gone)?;
            put(table, write, resolved.as_ref(), stamp, undo);
        }
        self.resolved.clear();
        Ok(())
    }
}

/// Without anything resolved, a write is installed as it stands.
fn put(
    table: &Table,
    write: &PendingWrite,
    resolved: Option<&Resolved>,
    stamp: Stamp,
    undo: &mut UndoArena,
) {
    match (resolved, &write.state, write.slot) {
        (Some(resolved), ..) => resolved.install(table, &write.key, stamp, undo),
        (None, WriteState::Put(row), _) => {
            table.insert(write.key.as_bytes(), row, stamp, undo);
        }
        (None, WriteState::Commands(commands), Some(slot)) => commands
            .iter()
            .for_each(|command| table.update_each(slot, command.settings(), stamp, undo)),
        (None, ..) => {}
    }
}

fn gone() -> Stop {
    Stop::Halt("a table vanished within a block".into())
}

/// Several writes to one record, applied in order to one in-memory row: the look-up, the undo
/// version and the install happen once, however hot the record is.
pub struct Fold<'a> {
    table: &'a Table,
    slot: Option<Slot>,
    row: &'a mut Vec<Value>,
    /// Columns of `row` that hold the record's values; the others were not asked for.
    loaded: ColumnSet,
    assigned: ColumnSet,
    state: FoldState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FoldState {
    /// `row` is the stored row but for `assigned`.
    Stored,
    /// `row` replaces whatever is stored.
    Whole,
    Deleted,
}

impl<'a> Fold<'a> {
    pub fn new(table: &'a Table, slot: Option<Slot>, scratch: &'a mut Vec<Value>) -> Self {
        // Values of earlier folds may stay: a column that was neither loaded nor assigned is not
        // looked at, and clearing a wide row costs more than the update of one column.
        scratch.resize_with(table.schema().columns.len(), Value::default);
        Fold {
            table,
            slot,
            row: scratch,
            loaded: ColumnSet::default(),
            assigned: ColumnSet::default(),
            state: FoldState::Stored,
        }
    }

    /// An `Err` names the transaction's own fault (`Rejected`), or a sick replica (`Halt`). The
    /// fold is of no use afterwards.
    pub fn apply(&mut self, write: &PendingWrite, now_us: i64) -> Result<(), Stop> {
        match &write.state {
            WriteState::Put(row) => {
                self.row.clone_from_slice(row);
                self.state = FoldState::Whole;
            }
            WriteState::Delete => self.state = FoldState::Deleted,
            WriteState::Commands(commands) => {
                for command in commands {
                    self.command(command, now_us)?;
                }
            }
        }
        Ok(())
    }

    fn command(&mut self, command: &Command, now_us: i64) -> Result<(), Stop> {
        match self.state {
            FoldState::Deleted => {
                return Err(Stop::Halt("an update command met a deleted row".into()));
            }
            FoldState::Stored => self.load(&command.code.columns)?,
            FoldState::Whole => {}
        }
        match mutated(Mutant::CommandUnmetered) {
            false => command.apply(self.row, now_us)?,
            true => {
                command.code.apply(&command.inputs, self.row, now_us, Budget::UNBOUNDED)?;
            }
        }
        for (column, _) in &command.code.assignments {
            self.assigned.insert(*column);
            if !mutated(Mutant::FoldLoadsAgain) {
                self.loaded.insert(*column);
            }
        }
        Ok(())
    }

    /// One read for all columns that are still missing.
    fn load(&mut self, columns: &[ColumnId]) -> Result<(), Stop> {
        let fresh = columns.iter().filter(|&&column| self.loaded.insert(column));
        let fresh: SmallVec<[ColumnId; 8]> = fresh.copied().collect();
        if fresh.is_empty() {
            return Ok(());
        }
        let mut values: SmallVec<[Value; 4]> = SmallVec::from_elem(Value::Null, fresh.len());
        let read = |slot| self.table.read(slot, LATEST, &fresh, &mut values);
        if self.slot.and_then(read).is_none() {
            return Err(Stop::Halt("an update command met no row".into()));
        }
        for (column, value) in fresh.into_iter().zip(values) {
            self.row[usize::from(column)] = value;
        }
        Ok(())
    }

    pub fn finish(self) -> Result<Resolved, Stop> {
        let stored = self.slot.filter(|&slot| self.table.stamp(slot, LATEST).is_some());
        Ok(match (self.state, stored) {
            (FoldState::Deleted, Some(slot)) => Resolved::Delete(slot),
            (FoldState::Deleted, None) => Resolved::Nothing,
            (FoldState::Whole, None) => Resolved::Insert(self.row.drain(..).collect()),
            (FoldState::Whole, Some(slot)) => {
                let mut old = Vec::with_capacity(self.row.len());
                self.table.read_row(slot, LATEST, &mut old);
                let changed = self.row.drain(..).zip(old).enumerate();
                Resolved::Patch(
                    slot,
                    changed
                        .filter(|(_, (new, old))| !identical(new, old))
                        .map(|(column, (new, _))| (column as ColumnId, new))
                        .collect(),
                )
            }
            (FoldState::Stored, Some(slot)) => Resolved::Patch(
                slot,
                self.assigned
                    .iter()
                    .map(|column| (column, std::mem::take(&mut self.row[usize::from(column)])))
                    .collect(),
            ),
            (FoldState::Stored, None) => Resolved::Nothing,
        })
    }
}

/// Equal to the last bit: SQL holds -0.0 and 0.0 for the same, the ledger's row images do not.
fn identical(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Jsonb(a), Value::Jsonb(b)) => a.as_str() == b.as_str(),
        (Value::Interval(a), Value::Interval(b)) => a.is_same(b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| identical(a, b))
        }
        _ => a == b,
    }
}

impl Resolved {
    pub fn install(&self, table: &Table, key: &Key, stamp: Stamp, undo: &mut UndoArena) {
        match self {
            Resolved::Insert(row) => {
                table.insert(key.as_bytes(), row, stamp, undo);
            }
            Resolved::Patch(slot, columns) => table.update(*slot, columns, stamp, undo),
            Resolved::Delete(slot) => table.delete(*slot, stamp, undo),
            Resolved::Nothing => {}
        }
    }
}

/// A set of column numbers; the first 64 cost no allocation.
#[derive(Clone, Default)]
struct ColumnSet(SmallVec<[u64; 1]>);

impl ColumnSet {
    /// True when it was not in.
    fn insert(&mut self, column: ColumnId) -> bool {
        let (word, bit) = (usize::from(column) / 64, column % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let fresh = self.0[word] >> bit & 1 == 0;
        self.0[word] |= 1 << bit;
        fresh
    }

    fn iter(&self) -> impl Iterator<Item = ColumnId> + '_ {
        self.0.iter().enumerate().flat_map(|(word, &bits)| {
            let next = |left: &u64| Some(left & left.wrapping_sub(1)).filter(|&left| left != 0);
            std::iter::successors(Some(bits).filter(|&bits| bits != 0), next)
                .map(move |left| (word * 64) as ColumnId + left.trailing_zeros() as ColumnId)
        })
    }
}

#[cfg(test)]
mod tests {
    use kit::random::Random;
    use procedure::access::Check;
    use procedure::{BinaryOp, Expr, Reg};
    use smallvec::smallvec;
    use storage::Store;
    use types::schema::{ColumnSchema, TableSchema};
    use types::{DataType, Error, SqlState, TableId};

    use super::*;
    use crate::pending::RecordId;

    const COLUMNS: u16 = 4;

    /// A key, three numbers and a text.
    fn table(store: &Store) -> Arc<Table> {
        let column = |name: &str| ColumnSchema::new(name, DataType::Int8);
        let mut columns: Vec<_> = ["key", "a", "b", "c"].map(column).into();
        columns.push(ColumnSchema::new("text", DataType::Text));
        store.create_table(Arc::new(TableSchema {
            id: TableId(1),
            name: "t".into(),
            columns,
            primary_key: vec![0],
            indexes: Vec::new(),
            hidden_row_id: false,
        }))
    }

    fn number(random: &mut Random) -> Expr {
        let sides = |random: &mut Random| {
            Box::new(match random.below(3) {
                0 => Expr::Reg(Reg(random.below(2) as u16)),
                1 => Expr::Column(1 + random.below(3) as u16),
                _ => Expr::Const(Value::Int(random.below(9) as i64)),
            })
        };
        match random.below(4) {
            0 => Expr::Reg(Reg(random.below(2) as u16)),
            1 => Expr::Const(Value::Int(random.below(9) as i64)),
            _ => Expr::Binary {
                op: [BinaryOp::Add, BinaryOp::Multiply][random.below(2) as usize],
                left: sides(random),
                right: sides(random),
                result: DataType::Int4,
            },
        }
    }

    /// It sets some columns, and may check one of them.
    fn command(random: &mut Random) -> Command {
        let assigned = (1..COLUMNS).filter(|_| random.below(2) == 0).collect::<Vec<_>>();
        let mut assignments: Vec<_> =
            assigned.into_iter().map(|column| (column, number(random))).collect();
        if random.below(3) == 0 {
            assignments.push((COLUMNS, Expr::Reg(Reg(2))));
        }
        let condition = Expr::Binary {
            op: BinaryOp::Less,
            left: Box::new(Expr::Column(1 + random.below(3) as u16)),
            right: Box::new(Expr::Const(Value::Int(300))),
            result: DataType::Bool,
        };
        let error = Error::new(SqlState::CHECK_VIOLATION, "too large");
        let mut checks: Vec<_> = (0..random.below(2))
            .map(|_| Check { condition: condition.clone(), error: error.clone() })
            .collect();
        for (column, _) in assignments.iter().filter(|_| random.below(2) == 0) {
            let condition = Expr::is_null(Expr::Column(*column), true);
            let error = Error::new(SqlState::NOT_NULL_VIOLATION, "a NULL");
            checks.push(Check { condition, error });
        }
        let code = Arc::new(CommandCode::new(assignments.into(), checks.into()));
        let first = Value::Int(random.below(100) as i64);
        let inputs = smallvec![
            if random.below(9) == 0 { Value::Null } else { first },
            Value::Int(random.below(3) as i64 - 1),
            Value::text("some text that no view can hold"),
        ];
        let allowance = code.allowance(&inputs, Budget::default());
        Command { code, inputs, allowance }
    }

    /// What is not put together leaves what a row that is put together does, and fails where it
    /// does.
    #[test]
    fn a_command_leaves_the_same_row_whichever_way_it_is_installed() {
        let (store, twin) = (Store::new(), Store::new());
        let (table, other) = (table(&store), table(&twin));
        let mut installer = Installer::new(store.catalog());
        let (mut random, mut ended) = (Random::new(11), [0; 3]);
        let mut checked_alike = 0;
        let (mut one, mut two) = (store.begin_block(1, 1), twin.begin_block(1, 1));
        let key = Key::from_int(1);
        let row = [1, 10, 20, 30].map(Value::Int).into_iter().chain([Value::text("short")]);
        let row: Row = row.collect();
        let slot = table.insert(key.as_bytes(), &row, Stamp::new(1, 0), one.arena(0));
        assert_eq!(slot, other.insert(key.as_bytes(), &row, Stamp::new(1, 0), two.arena(0)));
        for position in 1..5000 {
            let state = WriteState::Commands(smallvec![command(&mut random)]);
            let WriteState::Commands(commands) = &state else { unreachable!("it was just made") };
            let only_sets = commands[0].only_sets();
            checked_alike += usize::from(only_sets && !commands[0].code.checks.is_empty());
            let record = RecordId::of(Some(slot), &key);
            let (slot, key) = (Some(slot), key.clone());
            let write = PendingWrite { table: TableId(1), record, slot, key, existed: true, state };
            let stamp = Stamp::new(1, position);
            let writes = std::slice::from_ref(&write);
            let installed = installer.install(writes, 0, stamp, one.arena(0));
            let mut scratch = Vec::new();
            let mut fold = Fold::new(&other, write.slot, &mut scratch);
            let folded = fold.apply(&write, 0).and_then(|()| fold.finish());
            let folded = folded.map(|f| f.install(&other, &write.key, stamp, two.arena(0)));
            assert_eq!(format!("{installed:?}"), format!("{folded:?}"), "{write:?}");
            ended[if installed.is_err() { 2 } else { usize::from(only_sets) }] += 1;
            let rows = [&table, &other].map(|table| {
                let mut row = Vec::new();
                let slot = write.slot.expect("it is there");
                (table.read_row(slot, LATEST, &mut row), row)
            });
            assert_eq!(rows[0], rows[1], "{write:?}");
        }
        assert!(ended.iter().all(|count| *count > 100), "{ended:?}");
        assert!(checked_alike > 100, "{checked_alike}");
    }
}
