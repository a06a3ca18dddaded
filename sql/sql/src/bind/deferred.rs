//! Compiles the check of one deferred key, be it foreign or unique: `tally_check_constraint`, which
//! runs at COMMIT or at SET CONSTRAINTS … IMMEDIATE.

use std::sync::Arc;

use procedure::{Expr, Output, Procedure, Step};
use sqlparser::ast;
use types::{Error, Result, SqlState, Value};

use super::binder::Binder;
use super::scope::Scope;
use crate::bind::statement::{Program, Statement};
use crate::schema::deferred::{orphans_with, repeated};
use crate::settings::session_info::SessionInfo;
use crate::syntax::names::quoted;
use crate::syntax::parse::parse_query;

impl Binder<'_> {
    /// What a call of `tally_check_constraint` by itself comes to: no rows, or 23503.
    pub(super) fn constraint_check(
        &mut self,
        call: &ast::Function,
        text: &str,
    ) -> Result<Option<(Statement, Output)>> {
        let arguments = self.call_arguments(&Scope::default(), call)?;
        let [argument] = arguments.as_slice() else { return Ok(None) };
        let Expr::Const(Value::Text(called)) = &argument.expr else { return Ok(None) };
        // Who runs it need not be allowed to read the tables.
        let session = SessionInfo::default();
        let mut binder = Binder::new(self.catalog, &session, Vec::new());
        for (table, foreign) in self.catalog.keys_called(called) {
            let Some(parent) = self.catalog.table_by_id(foreign.parent) else { continue };
            let shown =
                foreign.columns.iter().map(|c| format!("c.{}", quoted(table.column_name(*c))));
            let shown = shown.collect::<Vec<_>>().join(", ");
            let (own, theirs) = (&foreign.columns, &foreign.parent_columns);
            let orphans = orphans_with(&shown, (table, own), (parent, theirs));
            let Some(query) = parse_query(&orphans)? else {
                return Err(Error::new(SqlState::INTERNAL_ERROR, "a look at a key is no query"));
            };
            let bound = binder.query(&query)?;
            let (outputs, found) = (binder.registers(foreign.columns.len())?, binder.register()?);
            let fetched = outputs.clone().into();
            let query = bound.query;
            binder.steps.push(Step::Fetch { query, outputs: fetched, found, strict: false });
            let values: Vec<Expr> = outputs.into_iter().map(Expr::Reg).collect();
            // Who may not read them is told no values.
            let (error, detail) = self.missing_parent(table, parent, foreign, &values);
            binder.require(Expr::negated(Expr::Reg(found)), error, Some(detail));
        }
        for (table, _, index) in self.catalog.unique_called(called) {
            let Some(query) = parse_query(&repeated(table, index))? else {
                return Err(Error::new(SqlState::INTERNAL_ERROR, "a look at a key is no query"));
            };
            let query = binder.query(&query)?.query;
            let (outputs, found) = (binder.registers(index.columns.len())?, binder.register()?);
            let fetched = outputs.clone().into();
            binder.steps.push(Step::Fetch { query, outputs: fetched, found, strict: false });
            let values: Vec<Expr> = outputs.into_iter().map(Expr::Reg).collect();
            let (error, detail) = self.repeated_key(table, index, &values);
            binder.require(Expr::negated(Expr::Reg(found)), error, detail);
        }
        let procedure = Procedure {
            name: text.to_owned(),
            parameters: Vec::new(),
            registers: binder.next_register,
            register_names: Box::default(),
            body: std::mem::take(&mut binder.steps).into(),
            output: Output::Tag,
            tag: "SELECT".into(),
            read_only: true,
            draws: false,
            sequences: Box::default(),
        };
        Ok(Some((Statement::Program(Program::Procedure(Arc::new(procedure))), Output::Tag)))
    }
}
