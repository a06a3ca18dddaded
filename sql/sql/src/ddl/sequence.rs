//! CREATE, ALTER and DROP SEQUENCE; serial and identity columns.

use std::sync::Arc;

use procedure::sequences::Steps;
use procedure::{Expr, Function};
use sqlparser::ast;
use types::{ColumnId, DataType, Error, Result, SqlState, TableId};

use super::StoreChange;
use super::apply::{Transition, relation_exists};
use crate::schema::catalog::{Catalog, Table};
use crate::schema::sequence::{Identity, Sequence, SequenceOwner};
use crate::syntax::ddl::{AlterIdentity, AlterSequence, SequenceOptions};
use crate::syntax::names::{bare, beside, fold, object_name};

/// The column that a definition makes the sequence of.
pub(super) enum Counted {
    Serial(DataType),
    Identity(DataType, Identity, SequenceOptions),
}

impl Counted {
    /// `None`: its values come from elsewhere.
    pub fn of(column: &ast::ColumnDef) -> Result<Option<Counted>> {
        if let Some(data_type) = serial_type(&column.data_type) {
            return Ok(Some(Counted::Serial(data_type)));
        }
        let mut found = None;
        for option in &column.options {
            if let ast::ColumnOption::Generated {
                generated_as: kind @ (ast::GeneratedAs::Always | ast::GeneratedAs::ByDefault),
                sequence_options: Some(options),
                ..
            } = &option.option
            {
                let identity = match kind {
                    ast::GeneratedAs::Always => Identity::Always,
                    _ => Identity::ByDefault,
                };
                let data_type = crate::syntax::names::data_type(&column.data_type)?;
                let options = SequenceOptions::from(options.as_slice());
                found = Some(Counted::Identity(data_type, identity, options));
            }
        }
        Ok(found)
    }
}

/// The type of a column that is said to be serial.
pub(super) fn serial_type(data_type: &ast::DataType) -> Option<DataType> {
    match data_type.to_string().to_ascii_lowercase().as_str() {
        "serial" | "serial4" => Some(DataType::Int4),
        "bigserial" | "serial8" => Some(DataType::Int8),
        "smallserial" | "serial2" => Some(DataType::Int2),
        _ => None,
    }
}

/// The next value of a sequence, as a column of this type has it by default.
pub(super) fn next_value(sequence: &Sequence, to: &DataType) -> Expr {
    let arguments = [
        Expr::Const(types::Value::Int(i64::from(sequence.id.0))),
        // Each use of the default is marked anew.
        procedure::draws::mark(0),
    ];
    let next = Expr::Call {
        function: Function::Nextval,
        arguments: arguments.into(),
        result: DataType::Int8,
    };
    match to {
        DataType::Int8 => next,
        to => Expr::Cast { input: Box::new(next), to: to.clone(), explicit: false },
    }
}

/// Whether an expression takes values of a sequence.
fn takes_from(expr: &Expr, sequence: TableId) -> bool {
    expr.any(&mut |part| match part {
        Expr::Call { function: Function::Nextval | Function::Currval, arguments, .. } => {
            let id = types::Value::Int(i64::from(sequence.0));
            arguments.first() == Some(&Expr::Const(id))
        }
        _ => false,
    })
}

impl Transition {
    pub(super) fn create_sequence(
        &mut self,
        name: &ast::ObjectName,
        if_not_exists: bool,
        options: &SequenceOptions,
    ) -> Result<()> {
        let name = object_name(name)?;
        if self.catalog.relation_exists(&name) {
            return match if_not_exists {
                true => Ok(()),
                false => Err(relation_exists(&name)),
            };
        }
        self.check_namespace(&name)?;
        if options.restart.is_some() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "RESTART is for ALTER SEQUENCE"));
        }
        let owner = match &options.owned_by {
            Some(Some(column)) => Some(self.owner_named(column)?),
            _ => None,
        };
        let data_type = match &options.data_type {
            Some(data_type) => crate::syntax::names::data_type(data_type)?,
            None => DataType::Int8,
        };
        self.add_sequence(name, &data_type, options, owner)
    }

    fn add_sequence(
        &mut self,
        name: String,
        data_type: &DataType,
        options: &SequenceOptions,
        owner: Option<SequenceOwner>,
    ) -> Result<()> {
        let id = TableId(self.catalog.next_table);
        let sequence = Sequence { owner, ..defined(&name, id, data_type, options)? };
        self.catalog.next_table += 1;
        self.store.push(StoreChange::CreateTable(sequence.state_schema()));
        self.catalog.sequence_names.insert(name, id);
        self.catalog.sequences.insert(id, Arc::new(sequence));
        Ok(())
    }

    /// The sequence of a column that is about to be added at this place.
    pub(super) fn add_counted(
        &mut self,
        table: (TableId, &str),
        (column, name): (ColumnId, &str),
        counted: Counted,
    ) -> Result<()> {
        let wanted = format!("{}_{name}_seq", bare(table.1));
        let sequence_name = beside(table.1, &self.free_name(table.1, &wanted));
        let (data_type, identity, options) = match counted {
            Counted::Serial(data_type) => (data_type, None, SequenceOptions::default()),
            Counted::Identity(data_type, identity, options) => {
                if !data_type.is_integer() {
                    return Err(not_an_integer("identity column type"));
                }
                (data_type, Some(identity), options)
            }
        };
        let owner = SequenceOwner { table: table.0, column, identity };
        self.add_sequence(sequence_name, &data_type, &options, Some(owner))
    }

    pub(super) fn alter_sequence(
        &mut self,
        name: &ast::ObjectName,
        if_exists: bool,
        change: &AlterSequence,
    ) -> Result<()> {
        let name = object_name(name)?;
        let Some(sequence) = self.catalog.find_sequence(&name).cloned() else {
            return match if_exists {
                true => Ok(()),
                false => self.catalog.sequence(&name).map(drop),
            };
        };
        match change {
            AlterSequence::Rename(to) => {
                let to = beside(&name, &fold(to));
                if self.catalog.relation_exists(&to) {
                    return Err(relation_exists(&to));
                }
                self.catalog.sequence_names.remove(&name);
                let renamed = Sequence { name: to.clone(), ..(*sequence).clone() };
                self.store.push(StoreChange::Describe(renamed.state_schema()));
                self.catalog.sequence_names.insert(to, renamed.id);
                self.catalog.sequences.insert(renamed.id, Arc::new(renamed));
            }
            AlterSequence::Options(options) => {
                let mut altered = altered(&sequence, options)?;
                if let Some(owned_by) = &options.owned_by {
                    if sequence.owner.is_some_and(|owner| owner.identity.is_some()) {
                        let what = "cannot change ownership of identity sequence";
                        return Err(Error::unsupported(what));
                    }
                    altered.owner = match owned_by {
                        Some(column) => Some(self.owner_named(column)?),
                        None => None,
                    };
                }
                self.catalog.sequences.insert(altered.id, Arc::new(altered));
            }
        }
        Ok(())
    }

    /// `table.column`.
    fn owner_named(&self, name: &ast::ObjectName) -> Result<SequenceOwner> {
        let mut parts = name.0.clone();
        let (Some(ast::ObjectNamePart::Identifier(column)), false) =
            (parts.pop(), parts.is_empty())
        else {
            let what = "invalid OWNED BY option";
            return Err(Error::new(SqlState::SYNTAX_ERROR, what)
                .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
        };
        let table = self.catalog.table(&object_name(&ast::ObjectName(parts))?)?;
        let column = table.column_named(&fold(&column))?;
        Ok(SequenceOwner { table: table.id(), column, identity: None })
    }

    pub(super) fn drop_sequences(
        &mut self,
        names: &[ast::ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        for name in names {
            let name = object_name(name)?;
            let Some(sequence) = self.catalog.find_sequence(&name).cloned() else {
                if if_exists {
                    continue;
                }
                return Err(Error::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("sequence \"{name}\" does not exist"),
                ));
            };
            if let Some(owner) = sequence.owner.filter(|owner| owner.identity.is_some()) {
                let table = self.catalog.table_by_id(owner.table);
                let column = table.map(|table| (table.column_name(owner.column), table.name()));
                let (column, table) = column.unwrap_or_default();
                return Err(Error::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop sequence {name} because column {column} of table {table} \
                         requires it"
                    ),
                )
                .with_hint(format!("You can drop column {column} of table {table} instead.")));
            }
            self.drop_sequence(&sequence, None, cascade)?;
        }
        Ok(())
    }

    /// `spared`: the column that goes with it.
    fn drop_sequence(
        &mut self,
        sequence: &Sequence,
        spared: Option<(TableId, Option<ColumnId>)>,
        cascade: bool,
    ) -> Result<()> {
        let users: Vec<(TableId, usize)> = self
            .catalog
            .tables()
            .flat_map(|table| {
                let defaults = table.defaults.iter().enumerate();
                let uses = defaults.filter(|(_, default)| {
                    default.as_ref().is_some_and(|expr| takes_from(expr, sequence.id))
                });
                uses.map(|(column, _)| (table.id(), column)).collect::<Vec<_>>()
            })
            .filter(|(table, column)| {
                !spared.is_some_and(|(of, only)| {
                    of == *table && only.is_none_or(|only| usize::from(only) == *column)
                })
            })
            .collect();
        if let (Some((table, column)), false) = (users.first(), cascade) {
            let table = self.catalog.table_by_id(*table);
            let (table, column) = table
                .map(|table| (table.name(), table.column_name(*column as ColumnId)))
                .unwrap_or_default();
            let name = &sequence.name;
            return Err(Error::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop sequence {name} because other objects depend on it"),
            )
            .with_detail(format!(
                "default value for column {column} of table {table} depends on sequence {name}"
            ))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for (table, column) in users {
            self.edit(table, |table| table.defaults[column] = None);
        }
        self.catalog.sequence_names.remove(&sequence.name);
        self.catalog.sequences.remove(&sequence.id);
        self.store.push(StoreChange::DropTable(sequence.id));
        Ok(())
    }

    /// A table or a column is dropped, and what it owns with it.
    pub(super) fn drop_owned(
        &mut self,
        table: TableId,
        column: Option<ColumnId>,
        cascade: bool,
    ) -> Result<()> {
        for sequence in self.catalog.owned_sequences(table, column) {
            self.drop_sequence(&sequence, Some((table, column)), cascade)?;
        }
        Ok(())
    }

    /// TRUNCATE … RESTART IDENTITY.
    pub(super) fn restart_owned(&mut self, table: TableId) {
        for sequence in self.catalog.owned_sequences(table, None) {
            let restarted = begun_again(&sequence, sequence.start);
            self.catalog.sequences.insert(restarted.id, Arc::new(restarted));
        }
    }

    pub(super) fn alter_identity(
        &mut self,
        table: &ast::ObjectName,
        if_exists: bool,
        column: &ast::Ident,
        change: &AlterIdentity,
    ) -> Result<()> {
        let table = object_name(table)?;
        let table = match self.catalog.find_table(&table) {
            None if if_exists => return Ok(()),
            _ => self.catalog.table(&table)?.clone(),
        };
        let column = table.column_named(&fold(column))?;
        let owned = self.catalog.owned_sequences(table.id(), Some(column)).into_iter();
        let sequence = owned.into_iter().find(|s| s.owner.is_some_and(|o| o.identity.is_some()));
        let Some(sequence) = sequence else {
            return match change {
                AlterIdentity::Drop { if_exists: true } => Ok(()),
                _ => Err(not_identity(&table, column)),
            };
        };
        match change {
            AlterIdentity::Drop { .. } => {
                self.drop_sequence(&sequence, Some((table.id(), Some(column))), false)?;
                self.edit(table.id(), |table| table.defaults[usize::from(column)] = None);
            }
            AlterIdentity::Set { always, options } => {
                let mut altered = altered(&sequence, options)?;
                if let (Some(always), Some(owner)) = (always, &mut altered.owner) {
                    let kind = if *always { Identity::Always } else { Identity::ByDefault };
                    owner.identity = Some(kind);
                }
                self.catalog.sequences.insert(altered.id, Arc::new(altered));
            }
        }
        Ok(())
    }
}

fn not_identity(table: &Table, column: ColumnId) -> Error {
    Error::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "column \"{}\" of relation \"{}\" is not an identity column",
            table.column_name(column),
            table.name()
        ),
    )
}

fn not_an_integer(what: &str) -> Error {
    let what = format!("{what} must be smallint, integer, or bigint");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

fn bounds_of(data_type: &DataType) -> Result<(i64, i64)> {
    match data_type {
        DataType::Int2 => Ok((i64::from(i16::MIN), i64::from(i16::MAX))),
        DataType::Int4 => Ok((i64::from(i32::MIN), i64::from(i32::MAX))),
        DataType::Int8 => Ok((i64::MIN, i64::MAX)),
        _ => Err(not_an_integer("sequence type")),
    }
}

/// A sequence that a statement describes.
fn defined(
    name: &str,
    id: TableId,
    data_type: &DataType,
    options: &SequenceOptions,
) -> Result<Sequence> {
    let (lowest, highest) = bounds_of(data_type)?;
    let increment = options.increment.unwrap_or(1);
    let up = increment > 0;
    let min = options.min.flatten().unwrap_or(if up { 1 } else { lowest });
    let max = options.max.flatten().unwrap_or(if up { highest } else { -1 });
    let start = options.start.unwrap_or(if up { min } else { max });
    let steps = Steps { increment, min, max, cycles: options.cycles.unwrap_or(false) };
    let sequence = Sequence {
        name: name.to_owned(),
        id,
        data_type: data_type.clone(),
        steps,
        start,
        cache: cache_of(options)?.unwrap_or(1),
        epoch: 0,
        first: start,
        version: 0,
        owner: None,
    };
    checked(sequence, true)
}

/// The same after ALTER.
fn altered(sequence: &Sequence, options: &SequenceOptions) -> Result<Sequence> {
    let mut altered = sequence.clone();
    if let Some(data_type) = &options.data_type {
        let data_type = crate::syntax::names::data_type(data_type)?;
        let (was, now) = (bounds_of(&sequence.data_type)?, bounds_of(&data_type)?);
        // A bound that was the type's goes with the type.
        if altered.steps.min == was.0 {
            altered.steps.min = now.0;
        }
        if altered.steps.max == was.1 {
            altered.steps.max = now.1;
        }
        altered.data_type = data_type;
    }
    let (lowest, highest) = bounds_of(&altered.data_type)?;
    let steps = &mut altered.steps;
    steps.increment = options.increment.unwrap_or(steps.increment);
    let up = steps.increment > 0;
    if let Some(min) = options.min {
        steps.min = min.unwrap_or(if up { 1 } else { lowest });
    }
    if let Some(max) = options.max {
        steps.max = max.unwrap_or(if up { highest } else { -1 });
    }
    steps.cycles = options.cycles.unwrap_or(steps.cycles);
    altered.start = options.start.unwrap_or(altered.start);
    altered.cache = cache_of(options)?.unwrap_or(altered.cache);
    altered.version += 1;
    if let Some(restart) = options.restart {
        altered = begun_again(&altered, restart.unwrap_or(altered.start));
    }
    checked(altered, options.restart.is_some())
}

fn begun_again(sequence: &Sequence, first: i64) -> Sequence {
    let (epoch, version) = (sequence.epoch + 1, sequence.version + 1);
    Sequence { epoch, first, version, ..sequence.clone() }
}

fn cache_of(options: &SequenceOptions) -> Result<Option<u64>> {
    /// What a node that stops may lose at once.
    const CACHE_MAX: i64 = 1 << 20;
    match options.cache {
        None => Ok(None),
        Some(cache @ 1..) => Ok(Some(cache.min(CACHE_MAX) as u64)),
        Some(cache) => Err(invalid(format!("CACHE ({cache}) must be greater than zero"))),
    }
}

fn checked(sequence: Sequence, fresh: bool) -> Result<Sequence> {
    let Sequence { steps, start, first, .. } = &sequence;
    let Steps { increment, min, max, .. } = *steps;
    let (lowest, highest) = bounds_of(&sequence.data_type)?;
    let outside = |what: &str, value: i64| {
        let data_type = &sequence.data_type;
        invalid(format!("{what} ({value}) is out of range for sequence data type {data_type}"))
    };
    if increment == 0 {
        return Err(invalid("INCREMENT must not be zero".to_owned()));
    }
    if min < lowest || min > highest {
        return Err(outside("MINVALUE", min));
    }
    if max < lowest || max > highest {
        return Err(outside("MAXVALUE", max));
    }
    if min >= max {
        return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
    }
    // How far it has come, rows tell, and not the catalog: only a fresh start is looked at.
    let restarted = fresh.then_some(("RESTART", *first));
    for (what, value) in [("START", *start)].into_iter().chain(restarted) {
        if value < min {
            let what = format!("{what} value ({value}) cannot be less than MINVALUE ({min})");
            return Err(invalid(what));
        }
        if value > max {
            let what = format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})");
            return Err(invalid(what));
        }
    }
    Ok(sequence)
}

fn invalid(what: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

impl Catalog {
    /// Those that go with a table, or with one of its columns.
    pub(crate) fn owned_sequences(
        &self,
        table: TableId,
        column: Option<ColumnId>,
    ) -> Vec<Arc<Sequence>> {
        let is_it = |sequence: &&Arc<Sequence>| {
            sequence.owner.is_some_and(|owner| {
                owner.table == table && column.is_none_or(|column| column == owner.column)
            })
        };
        self.sequences.values().filter(is_it).cloned().collect()
    }
}

/// Column places and the sequences that a table about to be created needs.
pub(super) fn counted_columns(
    create: &ast::CreateTable,
) -> Result<Vec<(ColumnId, String, Counted)>> {
    let mut counted = Vec::new();
    for (place, column) in create.columns.iter().enumerate() {
        if let Some(one) = Counted::of(column)? {
            counted.push((place as ColumnId, fold(&column.name), one));
        }
    }
    Ok(counted)
}
