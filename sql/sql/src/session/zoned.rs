//! Times as the session's clocks show them, in statements that write.
//!
//! ```text
//!   SET TIME ZONE 'America/Chicago'
//!   INSERT INTO t VALUES ('2026-01-01 00:00')                            what a client sends
//!   INSERT INTO t VALUES ('2026-01-01 06:00:00+00'::TIMESTAMPTZ)         what the ledger records
//! ```
//!
//! The ledger speaks of moments, and no replica knows a zone. So constants that the session's zone
//! has a say in are written with what they have come to, in the tree, whose text is read again:
//!
//! - Literals in the rows of an INSERT are moments where their column says so. They are written
//!   before anything is bound, and the statement is bound once.
//! - What other constants come to is known when they are bound. What is written then is bound
//!   again, as every replica will bind it, and has to come to the program that the session has
//!   bound. Where it does not (one literal that is a moment here and a text there), the statement
//!   is refused.
//!
//! What only reads is read by this node alone, and may convert each row's times: the clocks' rules
//! are constants of its program ([`types::rules`]).
//!
//! *Departure.* A prepared statement keeps what its constants meant when it was prepared, for
//! `timestamp` literals that become moments as well.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast;
use types::{DataType, Error, Result, Value, Zone};

use super::Session;
use super::prepared::Action;
use super::versioned::Versioned;
use crate::bind::statement::{Bound, Program, ZonedConstant};
use crate::schema::catalog::Catalog;
use crate::settings::session_info::SessionInfo;
use crate::syntax::merge;
use crate::syntax::names::{data_type, fold, object_name, simple_name};
use crate::syntax::parse::{parse, parse_expression};
use crate::syntax::parsed::{Body, Parsed};
use crate::syntax::walk;

impl Session {
    /// A statement that writes, as replicas bind it.
    ///
    /// # Errors
    /// 0A000: it depends on the zone by more than its constants.
    pub(super) fn bound_in_utc(
        &self,
        versioned: &Versioned,
        (bound, parsed): (Bound<Action>, Parsed),
        declared: &[Option<DataType>],
    ) -> Result<(Bound<Action>, Parsed)> {
        if bound.by_clocks {
            return Err(self.clocks_refused());
        }
        if !bound.zone_dependent || self.info.zone.is_utc() {
            return Ok((bound, parsed));
        }
        let rewritten = rewritten(&parsed, &bound.zoned)?.ok_or_else(|| self.zone_refused())?;
        let info = SessionInfo { zone: Zone::default(), reads_here: false, ..self.info.clone() };
        let (again, parsed) = self.bind_by(&info, versioned.ledger(), rewritten, declared)?;
        let mut again = again?.map(Action::from);
        if !same(&bound, &again) {
            return Err(self.zone_refused());
        }
        again.zone_dependent = true;
        Ok((again, parsed))
    }

    /// What a column has where a row says nothing is a moment in the session's zone.
    pub(super) fn defaults_in_utc(&self, catalog: &Catalog, parsed: &mut Parsed) -> Result<()> {
        let zone = &self.info.zone;
        let Body::Statement(statement) = &mut parsed.body else { return Ok(()) };
        if zone.is_utc() {
            return Ok(());
        }
        let mut any = false;
        match &mut **statement {
            ast::Statement::CreateTable(create) => {
                for column in &mut create.columns {
                    any |= default_in_utc(column, zone)?;
                }
            }
            ast::Statement::AlterTable(alter) => {
                let table = object_name(&alter.name).ok();
                let table = table.and_then(|name| catalog.find_table(&name));
                for operation in &mut alter.operations {
                    any |= match operation {
                        ast::AlterTableOperation::AddColumn { column_def, .. } => {
                            default_in_utc(column_def, zone)?
                        }
                        ast::AlterTableOperation::AlterColumn {
                            column_name,
                            op: ast::AlterColumnOperation::SetDefault { value },
                        } => {
                            let name = fold(column_name);
                            let place = table.and_then(|table| table.schema.column(&name));
                            let of = table.zip(place).map(|(table, c)| table.column_type(c));
                            in_utc(value, of, zone)?
                        }
                        _ => false,
                    };
                }
            }
            _ => {}
        }
        if any {
            parsed.text = statement.to_string();
            parsed.start = None;
        }
        Ok(())
    }

    /// Of a statement that writes and computes by the clocks of a place.
    pub(super) fn clocks_refused(&self) -> Error {
        Error::unsupported("a conversion by a time zone's clocks, in a statement that writes")
            .with_hint(
                "Replicas do not know time zones: read the value first and write it as a parameter, \
                 or use a zone that has one offset.",
            )
    }

    /// An INSERT whose rows are spelled out, with its literals as moments; `None`: it has none that
    /// the zone has a say in.
    pub(super) fn rows_in_utc(&self, catalog: &Catalog, parsed: &Parsed) -> Result<Option<Parsed>> {
        let zone = &self.info.zone;
        let Body::Statement(statement) = &parsed.body else { return Ok(None) };
        let ast::Statement::Insert(insert) = &**statement else { return Ok(None) };
        let ast::TableObject::TableName(name) = &insert.table else { return Ok(None) };
        let name = object_name(name).ok().filter(|_| !zone.is_utc());
        let Some(table) = name.and_then(|name| catalog.find_table(&name)) else { return Ok(None) };
        let types: Vec<Option<&DataType>> = match insert.columns.is_empty() {
            true => {
                table.schema.visible_columns().map(|(c, _)| Some(table.column_type(c))).collect()
            }
            false => {
                let named = insert.columns.iter().map(|name| simple_name(name).ok());
                let columns = named.map(|name| table.schema.column(&name?));
                columns.map(|column| Some(table.column_type(column?))).collect()
            }
        };
        if !types.iter().any(|of| matches!(of, Some(DataType::Timestamptz(_)))) {
            return Ok(None);
        }
        let mut insert = insert.clone();
        let body = insert.source.as_mut().map(|source| &mut *source.body);
        let Some(ast::SetExpr::Values(values)) = body else { return Ok(None) };
        let mut any = false;
        for row in &mut values.rows {
            for (value, of) in row.content.iter_mut().zip(&types) {
                any |= in_utc(value, *of, zone)?;
            }
        }
        match any {
            true => read_again(parsed, &ast::Statement::Insert(insert)),
            false => Ok(None),
        }
    }

    pub(super) fn zone_refused(&self) -> Error {
        Error::unsupported(format_args!(
            "a time without an offset, in a statement that writes, in the time zone {}",
            self.info.zone.name()
        ))
        .with_hint("Give its offset, or hand it over as a parameter.")
    }
}

fn default_in_utc(column: &mut ast::ColumnDef, zone: &Zone) -> Result<bool> {
    let of = data_type(&column.data_type).ok();
    let mut any = false;
    for option in &mut column.options {
        if let ast::ColumnOption::Default(value) = &mut option.option {
            any |= in_utc(value, of.as_ref(), zone)?;
        }
    }
    Ok(any)
}

/// Whether a literal is written otherwise now.
fn in_utc(value: &mut ast::Expr, of: Option<&DataType>, zone: &Zone) -> Result<bool> {
    let (Some(of), Some(said)) = (of, given(value)) else { return Ok(false) };
    let says_itself = match &said {
        Value::Text(text) => Value::says_offset(text),
        Value::Date(_) | Value::Timestamp(_) => false,
        _ => true,
    };
    if !matches!(of, DataType::Timestamptz(_)) || says_itself {
        return Ok(false);
    }
    // What is no moment is reported where it is bound.
    let Ok(moment) = zone.cast(&said, of, false) else { return Ok(false) };
    let text = moment.to_text(of);
    *value = parse_expression(&format!("'{text}'::{of}"))?;
    Ok(true)
}

/// Whether they do the same, whatever they are called.
fn same(one: &Bound<Action>, other: &Bound<Action>) -> bool {
    let (
        Action::Program(Program::Procedure(program)),
        Action::Program(Program::Procedure(other_program)),
    ) = (&one.statement, &other.statement)
    else {
        return false;
    };
    one.parameters == other.parameters
        && one.output == other.output
        && program.body == other_program.body
        && program.parameters == other_program.parameters
}

/// The statement, with constants as they were converted; `None`: it has another form.
fn rewritten(parsed: &Parsed, zoned: &[ZonedConstant]) -> Result<Option<Parsed>> {
    let Body::Statement(statement) = &parsed.body else { return Ok(None) };
    let known = zoned.iter().map(|constant| (&constant.given, constant));
    let known: HashMap<&Value, &ZonedConstant> = known.collect();
    let mut statement = statement.clone();
    let flow = walk::change_expressions(&mut *statement, |expr| {
        let constant = given(expr).and_then(|value| known.get(&value));
        if let Some(ZonedConstant { to, value, .. }) = constant {
            let text = value.to_text(to).replace('\'', "''");
            match parse_expression(&format!("'{text}'::{to}")) {
                Ok(converted) => *expr = converted,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    });
    if let ControlFlow::Break(error) = flow {
        return Err(error);
    }
    read_again(parsed, &statement)
}

/// The statement as its text is read; `None`: it is none.
fn read_again(parsed: &Parsed, statement: &ast::Statement) -> Result<Option<Parsed>> {
    let mut again = parse(&merge::shown(&statement.to_string()))?;
    Ok(again.pop().filter(|_| again.is_empty()).map(|again| Parsed {
        cover: parsed.cover.clone(),
        placeholders: parsed.placeholders,
        ..again
    }))
}

/// The value of a literal, with a type or without, or of an array of some.
fn given(expr: &ast::Expr) -> Option<Value> {
    let text = |value: &ast::ValueWithSpan| match &value.value {
        ast::Value::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    };
    let typed = |text: &str, of: &ast::DataType| {
        let of = data_type(of).ok()?;
        let element = match &of {
            DataType::Array(element) => element,
            of => of,
        };
        element.is_datetime().then(|| Value::read_text(&of, text).ok())?
    };
    match expr {
        ast::Expr::Array(array) => {
            let elements = array.elem.iter().map(given).collect::<Option<Vec<_>>>()?;
            Some(Value::from(elements))
        }
        ast::Expr::Value(value) => text(value).map(Value::from),
        ast::Expr::TypedString(string) => {
            let said = text(&string.value)?;
            match data_type(&string.data_type).ok()? {
                DataType::Timestamptz(_) => Some(Value::from(said)),
                _ => typed(&said, &string.data_type),
            }
        }
        ast::Expr::Cast { expr, data_type, .. } => match &**expr {
            ast::Expr::Value(value) => typed(&text(value)?, data_type),
            _ => None,
        },
        _ => None,
    }
}
