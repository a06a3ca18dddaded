//! What a transaction may read and write: rows of tables, as narrowly as its statements tell.
//!
//! A condition pins a column where each row that it is true of has one of some values there. Only
//! what each system computes without fault on any row narrows anything: a condition that may fail
//! (`1 / balance > 0`) may do so by any row.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    AssignmentTarget, BinaryOperator, Delete, Expr, FromTable, Insert, ObjectName, Query, SetExpr,
    Statement, TableFactor, TableObject, UnaryOperator, Update, Value, Visit, Visitor,
};

use super::pins::{Pin, Pins};
use super::rules::{Reference, Rules};
use crate::schema::{Column, Kind, Schema, Table};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// Its number.
    pub table: u32,
    pub does: Does,
    /// Rows that it is of.
    pub pins: Pins,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Does {
    /// These columns; `None`: all of them, and which rows there are.
    Read(Option<BTreeSet<usize>>),
    Insert,
    Delete,
    /// These columns.
    Update(BTreeSet<usize>),
}

impl Access {
    fn all_of(table: u32, does: Does) -> Access {
        Access { table, does, pins: Pins::default() }
    }

    pub fn is_write(&self) -> bool {
        !matches!(self.does, Does::Read(_))
    }

    pub fn updates(&self, column: usize) -> bool {
        matches!(&self.does, Does::Update(columns) if columns.contains(&column))
    }

    /// Whether it puts a value into one of these columns, or takes one away.
    pub fn moves(&self, columns: &[usize]) -> bool {
        match &self.does {
            Does::Read(_) => false,
            Does::Insert | Does::Delete => true,
            Does::Update(_) => columns.iter().any(|column| self.updates(*column)),
        }
    }
}

/// Of all statements of a transaction, which [`crate::statement`] has taken.
pub fn accesses(statements: &[Statement], schema: &Schema, rules: &Rules) -> Vec<Access> {
    let mut all = Vec::new();
    for statement in statements {
        of(statement, schema, rules, &mut all);
    }
    let mut at = 0;
    while at < all.len() {
        let access = all[at].clone();
        for reference in &rules.references {
            follow(&access, reference, rules, &mut all);
        }
        at += 1;
    }
    all
}

/// What a foreign key reads or writes beside.
fn follow(access: &Access, reference: &Reference, rules: &Rules, all: &mut Vec<Access>) {
    let Reference { from, from_columns, to, to_columns, acts } = reference;
    let read = |columns: &[usize]| {
        // MariaDB locks the rows that it looks for.
        Does::Read((!rules.locks_what_it_reads).then(|| columns.iter().copied().collect()))
    };
    let puts = matches!(access.does, Does::Insert | Does::Update(_));
    if access.table == *from && puts && access.moves(from_columns) {
        let pins = match access.does {
            Does::Insert => access.pins.renamed(from_columns, to_columns),
            _ => Pins::default(),
        };
        all.push(Access { table: *to, does: read(to_columns), pins });
    }
    let takes = matches!(access.does, Does::Delete | Does::Update(_));
    if access.table == *to && takes && access.moves(to_columns) {
        let added = match acts {
            true => Access::all_of(*from, Does::Delete),
            false => {
                let pins = access.pins.renamed(to_columns, from_columns);
                Access { table: *from, does: read(from_columns), pins }
            }
        };
        if !all.contains(&added) {
            all.push(added);
        }
    }
}

fn of(statement: &Statement, schema: &Schema, rules: &Rules, all: &mut Vec<Access>) {
    let mut reads = Reads { schema, rules, all: Vec::new() };
    let _ = statement.visit(&mut reads);
    let Reads { all: read, .. } = reads;
    let first = all.len();
    let written = match statement {
        Statement::Insert(insert) => inserted(insert, schema, rules, all),
        Statement::Update(update) => updated(update, schema, rules),
        Statement::Delete(delete) => deleted(delete, schema, rules),
        _ => None,
    };
    match written {
        Some(access) => all.push(access),
        None if all.len() > first => {}
        // Nothing is known: everything.
        None => {
            let tables = schema.numbered();
            all.extend(tables.map(|(number, _)| Access::all_of(number, Does::Delete)));
        }
    }
    all.extend(read);
}

/// One access for each row that is given by literals; else what is returned.
fn inserted(
    insert: &Insert,
    schema: &Schema,
    rules: &Rules,
    all: &mut Vec<Access>,
) -> Option<Access> {
    let TableObject::TableName(name) = &insert.table else { return None };
    let (number, table) = named(schema, name)?;
    let whole = Access::all_of(number, Does::Insert);
    let Some(source) = &insert.source else { return Some(whole) };
    let SetExpr::Values(values) = &*source.body else { return Some(whole) };
    let columns: Option<Vec<usize>> =
        insert.columns.iter().map(|name| column_of(table, &last_of(name)?)).collect();
    let Some(columns) = columns else { return Some(whole) };
    for row in &values.rows {
        let mut pins = Pins::default();
        for (column, value) in columns.iter().zip(&row.content) {
            let of = &table.columns[*column];
            if let Some(pin) = Pin::inserted(of, value).filter(|_| is_sure(of, rules)) {
                pins.add(*column, pin);
            }
        }
        all.push(Access { table: number, does: Does::Insert, pins });
    }
    None
}

fn updated(update: &Update, schema: &Schema, rules: &Rules) -> Option<Access> {
    let TableFactor::Table { name, alias, .. } = &update.table.relation else { return None };
    let (number, table) = named(schema, name)?;
    let mut columns = BTreeSet::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { return None };
        columns.insert(column_of(table, &last_of(name)?)?);
    }
    let names = [Some(table.name.clone()), alias.as_ref().map(|it| lower(&it.name.value))];
    let pins = pins_of(update.selection.as_ref(), table, &names, rules);
    Some(Access { table: number, does: Does::Update(columns), pins })
}

fn deleted(delete: &Delete, schema: &Schema, rules: &Rules) -> Option<Access> {
    let FromTable::WithFromKeyword(from) = &delete.from else { return None };
    let TableFactor::Table { name, alias, .. } = &from.first()?.relation else { return None };
    let (number, table) = named(schema, name)?;
    let names = [Some(table.name.clone()), alias.as_ref().map(|it| lower(&it.name.value))];
    let pins = pins_of(delete.selection.as_ref(), table, &names, rules);
    Some(Access { table: number, does: Does::Delete, pins })
}

/// What subqueries read.
struct Reads<'a> {
    schema: &'a Schema,
    rules: &'a Rules,
    all: Vec<Access>,
}

impl Visitor for Reads<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = &*query.body else { return ControlFlow::Continue(()) };
        let one = match &select.from[..] {
            [one] if one.joins.is_empty() => Some(&one.relation),
            _ => None,
        };
        if let Some(TableFactor::Table { name, alias, .. }) = one
            && let Some((number, table)) = named(self.schema, name)
        {
            let own = alias.as_ref().map_or(table.name.clone(), |it| lower(&it.name.value));
            let names = [Some(own), None];
            let pins = pins_of(select.selection.as_ref(), table, &names, self.rules);
            self.all.push(Access { table: number, does: Does::Read(None), pins });
            return ControlFlow::Continue(());
        }
        for from in &select.from {
            let joined = from.joins.iter().map(|join| &join.relation);
            for relation in std::iter::once(&from.relation).chain(joined) {
                match relation {
                    TableFactor::Table { name, .. } => {
                        let found = named(self.schema, name).map(|(number, _)| number);
                        self.all.extend(found.map(|it| Access::all_of(it, Does::Read(None))));
                    }
                    // A query of its own.
                    TableFactor::Derived { .. } => {}
                    _ => {
                        let all = self.schema.numbered();
                        self.all.extend(all.map(|(it, _)| Access::all_of(it, Does::Read(None))));
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn named<'a>(schema: &'a Schema, name: &ObjectName) -> Option<(u32, &'a Table)> {
    let name = lower(&last_of(name)?);
    schema.numbered().find(|(_, table)| table.name == name)
}

fn last_of(name: &ObjectName) -> Option<String> {
    Some(name.0.last()?.as_ident()?.value.clone())
}

fn lower(name: &str) -> String {
    name.to_ascii_lowercase()
}

fn column_of(table: &Table, name: &str) -> Option<usize> {
    let name = lower(name);
    table.columns.iter().position(|column| column.name == name)
}

/// Rows that a condition may be true of.
fn pins_of(
    condition: Option<&Expr>,
    table: &Table,
    names: &[Option<String>; 2],
    rules: &Rules,
) -> Pins {
    let mut pins = Pins::default();
    if let Some(condition) = condition
        && let Some(found) = (Condition { table, names, rules }).pins(condition)
    {
        pins = found;
    }
    pins
}

struct Condition<'a> {
    table: &'a Table,
    names: &'a [Option<String>; 2],
    rules: &'a Rules,
}

impl Condition<'_> {
    /// `None`: it may fail on a row.
    fn pins(&self, condition: &Expr) -> Option<Pins> {
        match condition {
            Expr::Nested(inner) => self.pins(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                let (mut pins, more) = (self.pins(left)?, self.pins(right)?);
                pins.and(more);
                Some(pins)
            }
            Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                Some(self.pins(left)?.or(self.pins(right)?))
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                self.pins(expr).map(|_| Pins::default())
            }
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
                self.column(inner).map(|_| Pins::default())
            }
            Expr::BinaryOp { left, op, right } => match (self.column(left), self.column(right)) {
                (Some(column), None) => self.compared(column, op, right),
                (None, Some(column)) => self.compared(column, &turned(op)?, left),
                (Some(a), Some(b)) => {
                    let same = self.table.columns[a].kind == self.table.columns[b].kind;
                    (same && is_comparison(op)).then(Pins::default)
                }
                (None, None) => None,
            },
            Expr::Between { expr, negated, low, high } => {
                let column = self.column(expr)?;
                let mut pins = self.compared(column, &BinaryOperator::GtEq, low)?;
                pins.and(self.compared(column, &BinaryOperator::LtEq, high)?);
                Some(if *negated { Pins::default() } else { pins })
            }
            Expr::InList { expr, list, negated } => {
                let column = self.column(expr)?;
                let mut all = self.compared(column, &BinaryOperator::Eq, list.first()?)?;
                for value in &list[1..] {
                    all = all.or(self.compared(column, &BinaryOperator::Eq, value)?);
                }
                Some(if *negated { Pins::default() } else { all })
            }
            _ => None,
        }
    }

    fn column(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Nested(inner) => self.column(inner),
            Expr::Identifier(name) => column_of(self.table, &name.value),
            Expr::CompoundIdentifier(names) => {
                let [table, column] = &names[..] else { return None };
                let table = lower(&table.value);
                let is_own = self.names.iter().flatten().any(|name| *name == table);
                is_own.then(|| column_of(self.table, &column.value)).flatten()
            }
            _ => None,
        }
    }

    fn compared(&self, column: usize, op: &BinaryOperator, value: &Expr) -> Option<Pins> {
        let of = &self.table.columns[column];
        if !is_comparison(op) || !fits(of.kind, value) {
            return None;
        }
        let mut pins = Pins::default();
        if let Some(pin) = Pin::compared(of, op, value).filter(|_| is_sure(of, self.rules)) {
            pins.add(column, pin);
        }
        Some(pins)
    }
}

/// Where a system compares texts otherwise than by bytes, only keys are sure.
fn is_sure(column: &Column, rules: &Rules) -> bool {
    !matches!(column.kind, Kind::Text { .. }) || rules.compares_bytes || column.is_key
}

fn turned(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::Eq,
        BinaryOperator::NotEq => BinaryOperator::NotEq,
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        _ => return None,
    })
}

fn is_comparison(op: &BinaryOperator) -> bool {
    turned(op).is_some()
}

/// Whether no value of the column fails to be compared with a literal, in either system.
fn fits(kind: Kind, value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => fits(kind, inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            matches!(kind, Kind::Integer { .. } | Kind::Numeric { .. }) && fits(kind, expr)
        }
        Expr::Value(value) => match &value.value {
            Value::Number(..) => matches!(kind, Kind::Integer { .. } | Kind::Numeric { .. }),
            Value::SingleQuotedString(_) => matches!(kind, Kind::Text { .. }),
            Value::Boolean(_) => kind == Kind::Boolean,
            _ => false,
        },
        _ => false,
    }
}
