//! Binding: from a syntax tree to a program. Words of the picture are files here.
//!
//! ```text
//! ast ─ from ─ expression ─ aggregates ─► bound expressions ─ plan ─► Query
//!        └ scope                            │
//!                 insert · update ──────────┴─ dml · constraints ───► Steps
//! ```
//!
//! A statement becomes steps over registers; `$n` is register n-1. Bound expressions name columns
//! by their number in the whole FROM clause until [`plan`] has placed them. The same [`Binder`]
//! serves single statements, LANGUAGE sql and PL/pgSQL bodies; they differ in the variables in
//! scope.

mod access;
mod aggregates;
mod applied;
mod arrays;
mod binder;
mod calls;
pub mod catalogs;
mod clocks;
mod collated;
mod columns;
mod constraints;
mod cycles;
mod deferred;
mod digits;
mod dml;
mod end_checks;
mod expression;
mod from;
mod functions;
mod grouping;
mod insert;
mod insert_plan;
mod items;
mod joins;
mod json;
mod load;
mod materialized;
mod merge;
mod moments;
mod operator_names;
mod operators;
pub mod origins;
mod output_names;
mod past;
mod paths;
mod placeholders;
mod plan;
mod predicates;
mod proofs;
mod quantified;
mod records;
mod recursive;
mod refused;
mod regexes;
mod relations;
mod routine;
mod row_calls;
mod row_functions;
mod rows;
pub(crate) mod scope;
mod select;
mod select_body;
mod sequences;
mod session;
mod session_calls;
mod shape;
mod sort_keys;
mod state;
pub mod statement;
mod subquery;
pub mod system;
mod unions;
mod update;
mod volatility;
mod windows;
mod with;

use std::sync::Arc;

use procedure::{Output, Procedure, Query, Step, draws};
use sqlparser::ast;
use types::cast::{CastContext, cast_context};
use types::{DataType, Result};

pub use binder::{Binder, Typed, fold};
pub use calls::{SHARED_FUNCTIONS, call_of, operator_of};
pub use dml::Dml;
pub use output_names::output_name;
pub use proofs::no_value;
pub(crate) use refused::would_differ;
pub(crate) use routine::{compile_sql, is_missing, parameter_defaults};
pub use scope::{Relation, Scope, ScopeColumn, Variable};
pub use state::BoundQuery;
pub use statement::{Level, PastQuery, ProofQuery, SessionCall, SessionFunction, WhichRows};

use crate::bind::statement::{Program, Statement};
use crate::syntax::changes::{modifying, names_changes};
use crate::syntax::ddl::Ddl;

impl Binder<'_> {
    pub(crate) fn statement(
        &mut self,
        statement: &ast::Statement,
        text: &str,
    ) -> Result<(Statement, Output)> {
        use ast::Statement as S;
        match statement {
            S::Query(query) if modifying(query).is_none() && names_changes(query) => {
                self.select_with_changes(query, text)
            }
            S::Query(query) if let Some(changes) = modifying(query) => {
                let tag = match changes {
                    S::Insert(_) => "INSERT 0",
                    S::Update(_) => "UPDATE",
                    S::Delete(_) => "DELETE",
                    _ => "MERGE",
                };
                self.dml_statement(statement, text, tag)
            }
            S::Query(query) => match self.lone_select(query)? {
                Some(call) => Ok(call),
                None => {
                    if let Some(bound) = self.sequence_statement(query, text)? {
                        return Ok(bound);
                    }
                    let bound = self.query(query)?;
                    self.steps.push(Step::EmitQuery { query: bound.query });
                    self.program(text, Output::Rows(bound.columns), "SELECT")
                }
            },
            S::Insert(_) => self.dml_statement(statement, text, "INSERT 0"),
            S::Update(_) => self.dml_statement(statement, text, "UPDATE"),
            S::Delete(_) => self.dml_statement(statement, text, "DELETE"),
            S::Merge(_) => self.dml_statement(statement, text, "MERGE"),
            S::Call(call) => self.call_statement(call),
            S::Copy { source, to, options, legacy_options, .. } => {
                self.copy(source, *to, (options, legacy_options), text)
            }
            _ => match Ddl::of_statement(statement)? {
                Some(ddl) => Ok((Statement::Ddl(ddl), Output::Tag)),
                None => self.session_statement(statement, text),
            },
        }
    }

    /// A query that calls what stands alone.
    fn lone_select(&mut self, query: &ast::Query) -> Result<Option<(Statement, Output)>> {
        match self.session_select(query)? {
            Some(calls) => Ok(Some(calls)),
            None => self.select_call(query),
        }
    }

    fn dml_statement(
        &mut self,
        statement: &ast::Statement,
        text: &str,
        tag: &str,
    ) -> Result<(Statement, Output)> {
        let dml = self.dml(statement, true)?;
        self.steps.push(Step::CountRows { by: dml.count });
        let output = dml.columns.map_or(Output::Tag, Output::Rows);
        self.program(text, output, tag)
    }

    /// The steps so far as a program over the parameters.
    fn program(&mut self, text: &str, output: Output, tag: &str) -> Result<(Statement, Output)> {
        let procedure = self.procedure(text, output.clone(), tag)?;
        Ok((Statement::Program(Program::Procedure(Arc::new(procedure))), output))
    }

    pub(crate) fn procedure(&mut self, name: &str, output: Output, tag: &str) -> Result<Procedure> {
        let steps = std::mem::take(&mut self.steps);
        let parameters = self.parameter_types().into_iter().enumerate();
        let mut procedure = Procedure {
            name: name.to_owned(),
            parameters: parameters
                .map(|(i, data_type)| procedure::Column { name: format!("${}", i + 1), data_type })
                .collect(),
            registers: self.next_register,
            register_names: Box::default(),
            read_only: is_read_only(&steps),
            body: steps.into(),
            output,
            tag: tag.to_owned(),
            draws: false,
            sequences: Box::default(),
        };
        draws::place(&mut procedure)?;
        Ok(procedure)
    }
}

/// Whether a value of one type may be an argument of another.
fn supports(from: &DataType, to: &DataType) -> bool {
    cast_context(from, to).is_some_and(|context| context == CastContext::Implicit)
}

/// Whether no step writes.
pub fn is_read_only(steps: &[Step]) -> bool {
    steps.iter().all(|step| match step {
        Step::Update { .. } | Step::Insert { .. } | Step::Delete { .. } => false,
        Step::ForRows { body, .. }
        | Step::ForRange { body, .. }
        | Step::ForEach { body, .. }
        | Step::While { body, .. } => is_read_only(body),
        Step::If { then, otherwise, .. } => is_read_only(then) && is_read_only(otherwise),
        _ => true,
    })
}

/// A query as a program of its own.
pub(crate) fn query_program(
    text: &str,
    binder: &mut Binder<'_>,
    query: Query,
    output: Output,
) -> Result<Procedure> {
    binder.steps.push(Step::EmitQuery { query });
    binder.procedure(text, output, "SELECT")
}
