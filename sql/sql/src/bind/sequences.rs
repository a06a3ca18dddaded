//! Binding of sequence functions.
//!
//! *`nextval`, `currval`, `lastval`* are ordinary expressions. The program does not read the
//! sequence when it runs: the node that accepts the transaction reserves values beforehand and
//! attaches them to it, so every replica computes the same ones ([`procedure::sequences`]).
//!
//! *`setval`* changes the ledger, so it cannot be an expression of a program that may only read.
//! It is accepted only as a whole statement, `SELECT setval(…), …`, and takes effect in two steps:
//!
//! ```text
//!   SELECT setval('s', max(id)) FROM t
//!     bound as     SELECT max(id), true FROM t         value, is_called: evaluated by the session
//!     per result   one write transaction of its own    ordered, durable before SELECT answers
//! ```
//!
//! As in PostgreSQL `setval` is not transactional: it stays after ROLLBACK of the transaction that
//! called it. *Exception:* for a sequence that the open transaction itself has created or altered,
//! it is a write of that transaction.
//!
//! *Restriction.* A sequence has to be named by a constant, since the values to reserve must be
//! known before the program runs.

use std::sync::Arc;

use identity::Privileges;
use procedure::build::int;
use procedure::{Column, Expr, Function, Output};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, Value};

use super::binder::{Binder, Typed};
use super::scope::Scope;
use crate::bind::statement::{Program, Statement};
use crate::schema::catalog::Catalog;
use crate::schema::deferred::CHECK_CONSTRAINT;
use crate::schema::sequence::{SET_VALUE, Sequence, TAKE_VALUES};
use crate::syntax::names::{fold, function_name, quoted_if_needed, split};
use crate::syntax::path::SearchPath;
use crate::syntax::sequence::named_by;

/// What it takes to have values of a sequence: one of these.
const TAKES: Privileges = Privileges::USAGE.with(Privileges::UPDATE);

impl Binder<'_> {
    pub(super) fn sequence_function(
        &mut self,
        name: &str,
        arguments: &[Typed],
    ) -> Result<Option<Typed>> {
        let int8 = DataType::Int8;
        let expr = match (name, arguments) {
            ("nextval", [which]) => {
                let sequence = self.sequence_of(which)?;
                self.needs_sequence(&sequence, TAKES);
                let id = int(i64::from(sequence.id.0));
                self.draw(Function::Nextval, vec![id], int8.clone())
            }
            ("currval", [which]) => {
                let sequence = self.sequence_of(which)?;
                self.needs_sequence(&sequence, Privileges::USAGE.with(Privileges::SELECT));
                let name = Expr::Const(Value::text(&sequence.name));
                let id = int(i64::from(sequence.id.0));
                self.draw(Function::Currval, vec![id, name], int8.clone())
            }
            ("lastval", []) => {
                let name = Expr::Const(Value::Null);
                self.draw(Function::Currval, vec![int(0), name], int8.clone())
            }
            ("setval", [_, _] | [_, _, _]) => {
                return Err(Error::unsupported("setval() inside a larger statement")
                    .with_hint("Call it alone: SELECT setval(…)."));
            }
            ("pg_get_serial_sequence", [table, column]) => {
                let (Some(table), Some(column)) = (constant(&table.expr), constant(&column.expr))
                else {
                    return Ok(None);
                };
                let owned = self.catalog.serial_sequence(&self.session.path, &table, &column)?;
                let value = owned.map_or(Value::Null, |name| Value::text(&name));
                return Ok(Some(Typed::new(Expr::Const(value), DataType::Text)));
            }
            _ => return Ok(None),
        };
        Ok(Some(Typed::new(expr, int8)))
    }

    /// The sequence that an argument names.
    fn sequence_of(&self, which: &Typed) -> Result<Arc<Sequence>> {
        match constant(&which.expr) {
            Some(name) => {
                let key = self.session.path.relation(self.catalog, &name)?;
                self.catalog.sequence(&key).cloned()
            }
            None => Err(Error::unsupported("a sequence that is not named by a constant")
                .with_hint("Write its name: nextval('name').")),
        }
    }

    /// A SELECT of `setval` alone, and the two by which a ledger holds that a sequence moves.
    pub(super) fn sequence_statement(
        &mut self,
        query: &ast::Query,
        text: &str,
    ) -> Result<Option<(Statement, Output)>> {
        let ast::SetExpr::Select(select) = &*query.body else { return Ok(None) };
        let calls: Option<Vec<_>> = select.projection.iter().map(called).collect();
        let Some(calls) = calls.filter(|calls| !calls.is_empty()) else { return Ok(None) };
        let names = calls.iter().map(|(call, _)| function_name(&call.name));
        let names = names.collect::<Result<Vec<_>>>()?;
        match names.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [CHECK_CONSTRAINT] => self.constraint_check(calls[0].0, text),
            [TAKE_VALUES] => self.ledger_call(calls[0].0, text, |sequence, rest| match rest {
                [Value::Int(count)] => Some(sequence.take_values(text, *count)),
                _ => None,
            }),
            [SET_VALUE] => self.ledger_call(calls[0].0, text, |sequence, rest| match rest {
                [Value::Int(value), Value::Bool(called)] => {
                    Some(sequence.set_value(text, *value, *called))
                }
                _ => None,
            }),
            names if names.iter().all(|name| *name == "setval") => {
                self.set_values(query, &calls, text).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn ledger_call(
        &mut self,
        call: &ast::Function,
        text: &str,
        program: impl FnOnce(&Sequence, &[Value]) -> Option<Result<procedure::Procedure>>,
    ) -> Result<Option<(Statement, Output)>> {
        let arguments = self.call_arguments(&Scope::default(), call)?;
        let (Some(which), rest) = (arguments.first(), arguments.get(1..).unwrap_or_default())
        else {
            return Ok(None);
        };
        let rest: Option<Vec<Value>> = rest
            .iter()
            .map(|typed| match &typed.expr {
                Expr::Const(value) => Some(value.clone()),
                _ => None,
            })
            .collect();
        let sequence = self.sequence_of(which)?;
        self.needs_sequence(&sequence, TAKES);
        let program = rest.and_then(|rest| program(&sequence, &rest));
        let program = program.ok_or_else(|| {
            Error::new(SqlState::UNDEFINED_FUNCTION, format!("no such call: {text}"))
        })??;
        let output = program.output.clone();
        Ok(Some((Statement::Program(Program::Procedure(Arc::new(program))), output)))
    }

    fn set_values(
        &mut self,
        query: &ast::Query,
        calls: &[(&ast::Function, Option<&ast::Ident>)],
        text: &str,
    ) -> Result<(Statement, Output)> {
        let (mut sequences, mut projection, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for (call, alias) in calls {
            let arguments = arguments_of(call).unwrap_or_default();
            let (which, value, taken) = match arguments.as_slice() {
                [which, value] => (which, value, None),
                [which, value, taken] => (which, value, Some(taken)),
                _ => {
                    return Err(Error::new(
                        SqlState::UNDEFINED_FUNCTION,
                        "function setval takes two or three arguments",
                    ));
                }
            };
            let which = self.expression(&Scope::default(), named_by(call, which))?;
            let sequence = self.sequence_of(&which)?;
            self.needs_sequence(&sequence, Privileges::UPDATE);
            sequences.push(sequence);
            let always = ast::Expr::value(ast::Value::Boolean(true));
            projection.push((*value).clone());
            projection.push(taken.map_or(always, |taken| (*taken).clone()));
            let name = alias.map_or_else(|| "setval".to_owned(), fold);
            columns.push(Column { name, data_type: DataType::Int8 });
        }
        let mut asked = query.clone();
        if let ast::SetExpr::Select(select) = &mut *asked.body {
            select.projection = projection.into_iter().map(ast::SelectItem::UnnamedExpr).collect();
        }
        let targets: Vec<_> = calls.iter().flat_map(|_| [DataType::Int8, DataType::Bool]).collect();
        let bound = self.query_into(&asked, &targets)?;
        let found = bound.columns.iter().map(|column| &column.data_type);
        if !found
            .zip(&targets)
            .all(|(found, wanted)| found == wanted || found.is_integer() && wanted.is_integer())
        {
            let what = "setval takes a sequence, a bigint and a boolean";
            return Err(Error::new(SqlState::UNDEFINED_FUNCTION, what));
        }
        let rows = Output::Rows(bound.columns);
        let query = Arc::new(super::query_program(text, self, bound.query, rows)?);
        Ok((Statement::Program(Program::SetValues { sequences, query }), Output::Rows(columns)))
    }
}

impl Catalog {
    /// `pg_get_serial_sequence`: of a table's name as SQL has it, and of a column's as it is.
    pub fn serial_sequence(
        &self,
        path: &SearchPath,
        table: &str,
        column: &str,
    ) -> Result<Option<String>> {
        let table = self.table(&path.relation(self, table)?)?;
        let column = table.column_named(column)?;
        let owned = self.owned_sequences(table.id(), Some(column));
        Ok(owned.first().map(|sequence| {
            let (schema, name) = split(&sequence.name);
            format!("{}.{}", quoted_if_needed(schema), quoted_if_needed(name))
        }))
    }
}

fn called(item: &ast::SelectItem) -> Option<(&ast::Function, Option<&ast::Ident>)> {
    match item {
        ast::SelectItem::UnnamedExpr(ast::Expr::Function(call)) => Some((call, None)),
        ast::SelectItem::ExprWithAlias { expr: ast::Expr::Function(call), alias } => {
            Some((call, Some(alias)))
        }
        _ => None,
    }
}

fn arguments_of(call: &ast::Function) -> Option<Vec<&ast::Expr>> {
    let ast::FunctionArguments::List(list) = &call.args else { return None };
    let argument = |argument| match argument {
        &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().map(argument).collect()
}

/// A text that is known when the statement is bound, whatever it is cast to.
fn constant(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Const(Value::Text(text)) => Some(text.to_string()),
        Expr::Cast { input, .. } => constant(input),
        _ => None,
    }
}
