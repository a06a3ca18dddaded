//! Schema changes in a transaction's workspace: the same code for all callers.
//!
//! ```text
//!   by itself, in a block       newest state, no writes     ─┐
//!   COMMIT of a migration       newest state, its writes     ├─► catalog, tables, validations
//!   open transaction            its snapshot, its writes    ─┘    in the workspace alone
//! ```
//!
//! *Atomicity.* Only the workspace is changed, so a change that fails half way has no effect on
//! what is stored. In a block the new catalog becomes the store's. An open transaction keeps it
//! private, and its COMMIT makes the same change again.
//!
//! *Cost.* A change by itself may take as long as its data needs. Within a transaction each change,
//! each row that is rewritten and each index entry that is built is charged to the transaction's
//! limits like any row, so that one request with many changes holds a block up no longer than other
//! requests do.

use std::sync::Arc;

use concurrency::overlay::Convert;
use concurrency::{Overlay, Recorder};
use engine::{AskedChange, KeyId, Party};
use procedure::access::Access;
use procedure::{Frame, Meter, Procedure, run, run_within};
use storage::{CatalogChange, Store};
use types::{
    Error, Height, IndexSchema, Key, Result, SqlState, Stamp, Stop, TableId, TableSchema, Value,
};

use super::versioned::{Stated, Versioned};
use crate::ddl::{Brought, ColumnSource, StoreChange, Validation};
use crate::schema::sequence::Sequence;
use crate::syntax::ddl::Ddl;

/// What a transaction pays for a row that a schema change writes, or an entry of an index.
const CHANGED_ROW_UNITS: u64 = 32;

/// What it pays for a change, whatever that does: the catalog is copied, bound to and looked over.
const CHANGE_UNITS: u64 = 8_000;

/// A schema change as a client has sent it.
#[derive(Clone, Copy)]
pub struct SchemaText<'t> {
    pub party: Party<'t>,
    pub signers: &'t [KeyId],
    pub approvers: &'t [KeyId],
    pub ddl: &'t Ddl,
    pub text: &'t str,
}

/// The schema after a change, which the workspace has from now on. `frame`: what the transaction
/// has left to spend; `None`: the change stands by itself. After an error the workspace is of no
/// use but to go back to a mark.
pub fn change_schema<R: Recorder>(
    before: &Versioned,
    change: SchemaText<'_>,
    version: u64,
    (overlay, store): (&mut Overlay<R>, &Store),
    mut frame: Option<&mut Frame>,
) -> Result<Arc<Versioned>, Stop> {
    let Party { principal, role } = change.party;
    let actor = before.catalog.roles().actor(principal, role)?;
    if let Some(frame) = frame.as_deref() {
        frame.meter().spend(CHANGE_UNITS)?;
    }
    let height = overlay.moment().height;
    let SchemaText { signers, approvers, .. } = change;
    let brought = Brought { signers, approvers, height };
    let (catalog, changes, validations) =
        before.catalog.apply_brought(actor, brought, change.ddl)?;
    apply_all(&changes, &validations, (overlay, store), frame.as_deref_mut())?;
    let mut statements = before.statements.clone();
    if !matches!(change.ddl, Ddl::Truncate { restart_identity: false, .. }) {
        let SchemaText { party, text, .. } = change;
        statements.push(Stated::new(AskedChange { party, signers, approvers, text }, height));
    }
    let emptied = changes.iter().filter_map(|change| match change {
        StoreChange::Truncate(table) => Some(*table),
        _ => None,
    });
    let last_changes = before.last_changes.behind((&before.catalog, &catalog), emptied, version);
    let catalog = Arc::new(catalog);
    let next = Arc::new(Versioned { catalog, version, statements, last_changes, below: None });
    overlay.annotate(store, next.clone())?;
    Ok(next)
}

/// Makes changes to tables, and looks in between whether they may be made.
pub(super) fn apply_all<R: Recorder>(
    changes: &[StoreChange],
    validations: &[Validation],
    (overlay, store): (&mut Overlay<R>, &Store),
    mut frame: Option<&mut Frame>,
) -> Result<(), Stop> {
    let mut validations = validations.iter().peekable();
    for made in 0..=changes.len() {
        while let Some(Validation { query, error, .. }) =
            validations.next_if(|next| next.after == made)
        {
            if emits_rows(query, overlay, frame.as_deref_mut())? {
                return Err(error.clone().into());
            }
        }
        if let Some(change) = changes.get(made) {
            let meter = frame.as_deref().map(Frame::meter);
            apply_change(change, overlay, store, meter)?;
        }
    }
    Ok(())
}

/// Run a validation query over what the changes before it have left.
fn emits_rows<R: Recorder>(
    query: &Procedure,
    overlay: &mut Overlay<R>,
    frame: Option<&mut Frame>,
) -> Result<bool, Stop> {
    let result = match frame {
        Some(frame) => run_within(query, &[], frame, overlay),
        None => run(query, &[], &mut Frame::default(), overlay),
    };
    result.map(|result| !result.rows.is_empty())
}

fn apply_change<R: Recorder>(
    change: &StoreChange,
    overlay: &mut Overlay<R>,
    store: &Store,
    meter: Option<&Meter>,
) -> Result<(), Stop> {
    let mut toll = |weight: usize| match meter {
        Some(meter) => meter.spend(CHANGED_ROW_UNITS).and_then(|()| meter.hold(weight)),
        None => Ok(()),
    };
    match change {
        StoreChange::CreateTable(schema) => overlay.alter_table(store, schema.id, |change| {
            change.create_table(Arc::new(schema.clone()));
            Ok(())
        })?,
        StoreChange::DropTable(id) => overlay.empty_table(store, *id, |change| {
            change.drop_table(*id);
            Ok(())
        })?,
        StoreChange::Truncate(id) => {
            overlay.empty_table(store, *id, |change| change.truncate(*id).map(drop))?;
        }
        StoreChange::Describe(schema) => overlay.alter_table(store, schema.id, |change| {
            change.alter_table(Arc::new(schema.clone()), &mut toll).map(drop)
        })?,
        StoreChange::SetLayout { table, layout } => {
            overlay.alter_table(store, *table, |change| {
                change.set_layout(*table, *layout);
                Ok(())
            })?;
        }
        StoreChange::CreateIndex { table, index, schema } => {
            let place = usize::from(*index) - 1;
            let schema = with_indexes(overlay, *table, |indexes| {
                indexes.truncate(place);
                indexes.push(schema.clone());
            })?;
            overlay.alter_table(store, *table, |change: &mut CatalogChange<'_>| {
                change.alter_table(schema, &mut toll).map(drop)
            })?;
        }
        StoreChange::DropIndex { table, index } => {
            let place = usize::from(*index) - 1;
            let schema = with_indexes(overlay, *table, |indexes| indexes[place].dropped = true)?;
            overlay.alter_table(store, *table, |change: &mut CatalogChange<'_>| {
                change.alter_table(schema, &mut toll).map(drop)
            })?;
        }
        StoreChange::Rebuild { schema, columns, .. } => {
            let (mut rows, height) = (0, overlay.moment().height);
            let mut convert = |old: &[Value]| {
                rows += 1;
                let place = (rows - 1, height);
                columns.iter().map(|source| value_of(source, old, place)).collect()
            };
            let is_counted = |source: &ColumnSource| {
                matches!(source, ColumnSource::Counted(_) | ColumnSource::RowId)
            };
            let how: (Convert<'_>, bool) = (&mut convert, columns.iter().any(is_counted));
            overlay.rebuild_table(store, Arc::new(schema.clone()), how, &mut toll)?;
            for source in columns {
                if let ColumnSource::Counted(sequence) = source {
                    take_all(sequence, rows, (overlay, store), meter.is_some())?;
                }
            }
        }
    }
    Ok(())
}

/// Where the ordinals of rows begin that get a hidden id without being inserted: no transaction
/// inserts so many.
const FIRST_KEPT: u32 = 1 << 31;

/// Of the row that so many others came before, in this block.
fn value_of(source: &ColumnSource, old: &[Value], (place, height): (u64, Height)) -> Result<Value> {
    Ok(match source {
        ColumnSource::Old(column) => old[usize::from(*column)].clone(),
        ColumnSource::Constant(value) => value.clone(),
        // It does not ask for the time.
        ColumnSource::Computed(value) => value.eval(&[], old, 0)?,
        ColumnSource::Counted(sequence) => {
            let value = sequence.all_values().value(place);
            value.map(Value::Int).ok_or_else(|| sequence.at_end())?
        }
        ColumnSource::RowId => {
            match u32::try_from(place).ok().filter(|place| *place < FIRST_KEPT) {
                Some(place) => {
                    let stamp = Stamp::new(height, Stamp::POSITIONS_MAX);
                    Value::Uuid(stamp.row_id(FIRST_KEPT + place))
                }
                None => {
                    let what = "too many rows for hidden row ids";
                    return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
                }
            }
        }
    })
}

/// So many values of a new sequence are in a table. Within a transaction that is one of its writes,
/// to which others of it may follow.
fn take_all<R: Recorder>(
    sequence: &Sequence,
    rows: u64,
    (overlay, store): (&mut Overlay<R>, &Store),
    is_in_transaction: bool,
) -> Result<(), Stop> {
    let Some(last) = rows.checked_sub(1) else { return Ok(()) };
    let last = sequence.all_values().value(last).ok_or_else(|| sequence.at_end())?;
    let row = vec![Value::Int(sequence.epoch), Value::Int(last), Value::Bool(true)];
    if is_in_transaction {
        let is_new = overlay.insert(sequence.id, Key::from_int(sequence.epoch), row.into())?;
        assert!(is_new, "a sequence of which values were taken before it was made");
        return Ok(());
    }
    let stamp = Stamp::new(overlay.moment().height, 0);
    overlay.alter_table(store, sequence.id, |change| change.add_to_new(sequence.id, row, stamp))?;
    Ok(())
}

fn with_indexes<R: Recorder>(
    overlay: &Overlay<R>,
    id: TableId,
    change: impl FnOnce(&mut Vec<IndexSchema>),
) -> Result<Arc<TableSchema>> {
    let table = overlay.catalog().table(id).ok_or_else(|| {
        Error::new(SqlState::UNDEFINED_TABLE, format!("table {} does not exist", id.0))
    })?;
    let mut schema = TableSchema::clone(table.schema());
    change(&mut schema.indexes);
    Ok(Arc::new(schema))
}
