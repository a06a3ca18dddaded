//! SQL statements inside a body: queries into variables, and data changes.

use procedure::step::OnError;
use procedure::{BinaryOp, Expr, Query, Reg, Step};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, Value};

use super::lower::Lowering;
use super::scope::Place;
use super::syntax::{Into, Target};
use crate::bind::{BoundQuery, Dml, Typed};
use crate::syntax::changes::modifying;

impl Lowering<'_> {
    pub(super) fn sql(&mut self, statement: &ast::Statement, into: Option<&Into>) -> Result<()> {
        match (statement, into) {
            (ast::Statement::Query(query), _) if modifying(query).is_some() => {
                self.change(statement, into)
            }
            (ast::Statement::Query(query), Some(into)) => self.select_into(query, into),
            (ast::Statement::Query(_), None) => {
                Err(Error::new(SqlState::SYNTAX_ERROR, "query has no destination for result data")
                    .with_hint(
                        "If you want to discard the results of a SELECT, use PERFORM instead.",
                    ))
            }
            _ => self.change(statement, into),
        }
    }

    /// `SELECT … INTO`.
    fn select_into(&mut self, query: &ast::Query, into: &Into) -> Result<()> {
        let BoundQuery { query, columns, .. } = self.binder.query(query)?;
        let places = self.places(&into.targets)?;
        let (values, found) = self.first_row(query, columns.len(), &places, into.strict)?;
        let named = columns
            .into_iter()
            .zip(values)
            .map(|(column, value)| (column.name, Typed::new(value, column.data_type)));
        let named: Vec<_> = named.collect();
        self.store_row(&into.targets, named)?;
        let found = Expr::Reg(found);
        let count = flag_as_count(&found);
        self.set_diagnostics(found, count)
    }

    /// The first row of a query, in expressions, and the flag that says whether there is one.
    fn first_row(
        &mut self,
        query: Query,
        width: usize,
        places: &[Place],
        strict: bool,
    ) -> Result<(Vec<Expr>, Reg)> {
        match as_point_read(query) {
            Ok(read) => self.point_read(read, places, strict),
            Err(query) => {
                let outputs = self.named_registers(width, places)?;
                let found = self.binder.register()?;
                self.binder.steps.push(Step::Fetch {
                    query: *query,
                    outputs: outputs.clone().into(),
                    found,
                    strict,
                });
                Ok((outputs.into_iter().map(Expr::Reg).collect(), found))
            }
        }
    }

    fn point_read(
        &mut self,
        read: PointRead,
        places: &[Place],
        strict: bool,
    ) -> Result<(Vec<Expr>, Reg)> {
        let PointRead { table, key, columns, outputs } = read;
        let registers = self.binder.registers(columns.len())?;
        for (place, output) in places.iter().zip(&outputs) {
            if let (Place::Variable(slot), Expr::Column(column)) = (place, output) {
                self.name_register(registers[usize::from(*column)], *slot);
            }
        }
        let found = self.binder.register()?;
        self.binder.steps.push(Step::Read {
            table,
            key,
            columns,
            out: registers.first().copied().unwrap_or(found),
            found,
        });
        if strict {
            self.binder.steps.push(Step::Require {
                condition: Expr::Reg(found),
                error: OnError::new(SqlState::NO_DATA_FOUND, "query returned no rows"),
            });
        }
        let values = outputs.into_iter().map(|mut output| {
            let is_plain = matches!(output, Expr::Column(_));
            output.map_columns(&mut |column| Expr::Reg(registers[usize::from(column)]));
            if is_plain || strict {
                return output;
            }
            // Without a row, an expression is NULL whatever it would make of NULLs.
            Expr::Case {
                whens: [(Expr::Reg(found), output)].into(),
                otherwise: Box::new(Expr::Const(Value::Null)),
            }
        });
        Ok((values.collect(), found))
    }

    /// Registers for a row that goes to `places`, named after them where that is plain.
    fn named_registers(&mut self, width: usize, places: &[Place]) -> Result<Vec<Reg>> {
        let registers = self.binder.registers(width)?;
        for (register, place) in registers.iter().zip(places) {
            if let Place::Variable(slot) = place {
                self.name_register(*register, *slot);
            }
        }
        Ok(registers)
    }

    pub(super) fn places(&self, targets: &[Target]) -> Result<Vec<Place>> {
        targets.iter().map(|target| self.place(target)).collect()
    }

    pub(super) fn assign_to(&mut self, target: &Target, value: Typed) -> Result<()> {
        match self.place(target)? {
            Place::Variable(slot) => self.assign(slot, value),
            Place::Record(_) => Err(Error::unsupported("assignment to a whole record")
                .with_hint("Assign to its fields, or use SELECT … INTO.")),
        }
    }

    /// Puts a row into variables, or into a record. As PL/pgSQL does it, a missing column is NULL
    /// and a column too many is dropped.
    pub(super) fn store_row(
        &mut self,
        targets: &[Target],
        row: Vec<(String, Typed)>,
    ) -> Result<()> {
        let places = self.places(targets)?;
        if let [Place::Record(record)] = places[..] {
            return self.store_record(record, row);
        }
        let mut values = row.into_iter().map(|(_, value)| value);
        for (target, place) in targets.iter().zip(places) {
            match place {
                Place::Variable(slot) => {
                    let value = values.next().unwrap_or_else(Typed::null);
                    self.assign(slot, value)?;
                }
                Place::Record(_) => {
                    return Err(Error::new(
                        SqlState::SYNTAX_ERROR,
                        format!(
                            "record variable \"{}\" cannot be part of multiple-item INTO list",
                            target.0.join(".")
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    fn store_record(&mut self, record: usize, mut row: Vec<(String, Typed)>) -> Result<()> {
        let Some(slots) = self.records[record].fields.clone() else {
            let slots = self.declare_fields(record, row);
            for slot in slots {
                if let Expr::Reg(register) = *self.value(slot) {
                    self.name_register(register, slot);
                }
            }
            return Ok(());
        };
        if self.records[record].has_type {
            row.resize_with(slots.len(), || (String::new(), Typed::null()));
        }
        if slots.len() != row.len() {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "record \"{}\" has {} fields, but the row has {} columns",
                    self.records[record].name,
                    slots.len(),
                    row.len()
                ),
            ));
        }
        for (slot, (_, value)) in slots.into_iter().zip(row) {
            self.assign(slot, value)?;
        }
        Ok(())
    }

    /// `PERFORM`: all rows are made, and forgotten.
    pub(super) fn perform(&mut self, query: &ast::Query) -> Result<()> {
        let BoundQuery { query, columns, .. } = self.binder.query(query)?;
        if !self.tracks_row_count {
            let (_, found) = self.first_row(query, columns.len(), &[], false)?;
            return self.set_diagnostics(Expr::Reg(found), Expr::Const(Value::Int(0)));
        }
        let row = self.binder.registers(columns.len())?;
        let (count, next) = (self.binder.register()?, self.binder.register()?);
        let body =
            [Step::Let { out: next, value: plus(Expr::Reg(count), Expr::Const(Value::Int(1))) }];
        self.binder.steps.push(Step::ForRows {
            query,
            row: row.into(),
            body: body.into(),
            carried: [procedure::step::Carried {
                register: count,
                initial: Expr::Const(Value::Int(0)),
                next: Expr::Reg(next),
            }]
            .into(),
        });
        self.set_counted(Expr::Reg(count))
    }

    pub(super) fn return_query(&mut self, query: &ast::Query) -> Result<()> {
        let expected = self.returned_columns()?;
        let BoundQuery { query, columns, .. } = self.binder.query(query)?;
        if columns.len() != expected.len() {
            return Err(mismatch(format!(
                "Number of returned columns ({}) does not match expected column count ({}).",
                columns.len(),
                expected.len()
            )));
        }
        let mut expressions = Vec::new();
        let mut is_same = true;
        for (place, (column, to)) in columns.into_iter().zip(&expected).enumerate() {
            let value = Typed::new(Expr::Column(place as u16), column.data_type.clone());
            let context = types::cast::CastContext::Assignment;
            let value = self.binder.coerce(value, to, context).map_err(|_| {
                mismatch(format!(
                    "Returned type {} does not match expected type {to} in column {}.",
                    column.data_type,
                    place + 1
                ))
            })?;
            is_same &= value == Expr::Column(place as u16);
            expressions.push(value);
        }
        let query = match is_same {
            true => query,
            false => Query::Project { input: Box::new(query), expressions: expressions.into() },
        };
        self.binder.steps.push(Step::EmitQuery { query });
        Ok(())
    }

    /// INSERT, UPDATE, DELETE, with RETURNING or without.
    fn change(&mut self, statement: &ast::Statement, into: Option<&Into>) -> Result<()> {
        let Dml { count, columns, returned } = self.binder.dml(statement, false)?;
        match (columns, into) {
            (None, None) => {}
            (None, Some(_)) => {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    "INTO used with a command that cannot return data",
                ));
            }
            (Some(_), None) => {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    "query has no destination for result data",
                ));
            }
            (Some(columns), Some(into)) => {
                self.require_single(&count, into.strict);
                let named = columns
                    .into_iter()
                    .zip(returned)
                    .map(|(column, value)| (column.name, Typed::new(value, column.data_type)));
                self.store_row(&into.targets, named.collect())?;
            }
        }
        self.set_counted(count)
    }

    /// A data change INTO variables may not return more than one row, and with STRICT no less
    /// either.
    fn require_single(&mut self, count: &Expr, strict: bool) {
        if let Expr::Const(Value::Int(1)) = count {
            return;
        }
        let compared = |op, limit| Expr::Binary {
            op,
            left: Box::new(count.clone()),
            right: Box::new(Expr::Const(Value::Int(limit))),
            result: DataType::Bool,
        };
        self.binder.steps.push(Step::Require {
            condition: compared(BinaryOp::LessOrEqual, 1),
            error: OnError::new(SqlState::TOO_MANY_ROWS, "query returned more than one row"),
        });
        if strict {
            self.binder.steps.push(Step::Require {
                condition: compared(BinaryOp::GreaterOrEqual, 1),
                error: OnError::new(SqlState::NO_DATA_FOUND, "query returned no rows"),
            });
        }
    }

    fn set_counted(&mut self, count: Expr) -> Result<()> {
        let found = match &count {
            Expr::Const(Value::Int(count)) => Expr::Const(Value::Bool(*count > 0)),
            Expr::Case { whens, .. } => whens[0].0.clone(),
            count => Expr::Binary {
                op: BinaryOp::Greater,
                left: Box::new(count.clone()),
                right: Box::new(Expr::Const(Value::Int(0))),
                result: DataType::Bool,
            },
        };
        self.set_diagnostics(found, count)
    }

    /// FOUND and ROW_COUNT, if they are read.
    fn set_diagnostics(&mut self, found: Expr, count: Expr) -> Result<()> {
        if self.tracks_found {
            let found = self.binder.let_value(found)?;
            if let Expr::Reg(register) = found {
                self.flags.insert(register);
            }
            self.set(self.found, found);
        }
        if self.tracks_row_count {
            let count = self.binder.let_value(count)?;
            self.set(self.row_count, count);
        }
        Ok(())
    }
}

fn mismatch(detail: String) -> Error {
    Error::new(
        SqlState::DATATYPE_MISMATCH,
        "structure of query does not match function result type",
    )
    .with_detail(detail)
}

fn plus(left: Expr, right: Expr) -> Expr {
    Expr::Binary {
        op: BinaryOp::Add,
        left: Box::new(left),
        right: Box::new(right),
        result: DataType::Int8,
    }
}

/// 1 where the flag is true, else 0.
fn flag_as_count(flag: &Expr) -> Expr {
    Expr::Case {
        whens: [(flag.clone(), Expr::Const(Value::Int(1)))].into(),
        otherwise: Box::new(Expr::Const(Value::Int(0))),
    }
}

/// A query that is one read by primary key with expressions above it.
struct PointRead {
    table: types::TableId,
    key: Box<[Expr]>,
    columns: Box<[types::ColumnId]>,
    /// Over the read's columns.
    outputs: Vec<Expr>,
}

fn as_point_read(query: Query) -> std::result::Result<PointRead, Box<Query>> {
    let is_get = |query: &Query| matches!(query, Query::Get { filter: None, .. });
    match query {
        Query::Get { table, key, columns, filter: None } => Ok(PointRead {
            outputs: (0..columns.len() as u16).map(Expr::Column).collect(),
            table,
            key,
            columns,
        }),
        Query::Project { input, expressions } if is_get(&input) => {
            let read = as_point_read(*input)?;
            Ok(PointRead { outputs: expressions.into(), ..read })
        }
        query => Err(Box::new(query)),
    }
}
