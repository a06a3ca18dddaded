//! Functions that answer with proofs: `tally_last_commit`, `tally_receipt`, `tally_row_proof` and
//! others, which `docs/proofs.md` lists. Like those about the past they stand alone.

use std::sync::Arc;

use identity::Privileges;
use procedure::{Column, Expr, Output};
use sqlparser::ast;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState};

use super::Binder;
use super::past::{column, literal, wanted};
use crate::bind::statement::{PastQuery, Program, ProofQuery, Statement, WhichRows};
use crate::schema::catalog::{Commented, Table};

impl Binder<'_> {
    /// `None` for a function that is none of these.
    pub(super) fn proof_call(
        &mut self,
        name: &str,
        call: &ast::Function,
    ) -> Result<Option<(Statement, Output)>> {
        let query = match name {
            "tally_last_commit" => {
                let [] = self.past_arguments(call, &[])?;
                let query =
                    Statement::Program(Program::Past(PastQuery::Proof(ProofQuery::LastCommit)));
                return Ok(Some((query, Output::Rows(last_commit_columns()))));
            }
            "tally_receipt" => {
                let [block, index] = self.two(call, "tally_receipt(block bigint, index bigint)")?;
                ProofQuery::Receipt { block, index }
            }
            "tally_row_proof" => self.rows_call(call, WhichRows::One)?,
            "tally_absence_proof" => self.rows_call(call, WhichRows::None)?,
            "tally_range_proof" => self.rows_call(call, WhichRows::Between)?,
            "tally_prefix_proof" => self.rows_call(call, WhichRows::Beginning)?,
            "tally_head_proof" => {
                let [block] = self.past_arguments(call, &[DataType::Int8])?;
                let block = block.ok_or_else(|| wanted("tally_head_proof(block bigint)"))?;
                ProofQuery::Head { block }
            }
            "tally_signed_head" | "tally_verifier_key" => {
                let [] = self.past_arguments(call, &[])?;
                match name {
                    "tally_signed_head" => ProofQuery::SignedHead,
                    _ => ProofQuery::VerifierKey,
                }
            }
            "tally_consistency_proof" => {
                let [old, new] =
                    self.two(call, "tally_consistency_proof(old bigint, new bigint)")?;
                ProofQuery::Consistency { old, new }
            }
            _ => return Ok(None),
        };
        let columns = vec![column(name, DataType::Text)];
        Ok(Some((
            Statement::Program(Program::Past(PastQuery::Proof(query))),
            Output::Rows(columns),
        )))
    }

    fn two(&mut self, call: &ast::Function, usage: &str) -> Result<[Expr; 2]> {
        match self.past_arguments(call, &[DataType::Int8, DataType::Int8])? {
            [Some(first), Some(second)] => Ok([first, second]),
            _ => Err(wanted(usage)),
        }
    }

    fn rows_call(&mut self, call: &ast::Function, which: WhichRows) -> Result<ProofQuery> {
        let usage = || wanted(&format!("{}('table', …)", call.name));
        let ast::FunctionArguments::List(list) = &call.args else { return Err(usage()) };
        let table = list.args.first().and_then(literal).ok_or_else(usage)?;
        let table: Arc<Table> = self.catalog.table(&table.to_ascii_lowercase())?.clone();
        self.check_usage(table.key())?;
        self.needs(&Commented::Table(table.id()), Privileges::SELECT);
        let mut rest = call.clone();
        if let ast::FunctionArguments::List(list) = &mut rest.args {
            list.args.remove(0);
        }
        let given = self.call_arguments(&super::Scope::default(), &rest)?;
        let schema = &table.schema;
        if schema.hidden_row_id && !(which == WhichRows::Beginning && given.is_empty()) {
            let what = format!("the proof of a row of \"{}\"", table.name());
            return Err(Error::unsupported(what)
                .with_detail("The table has no primary key to name a row by.")
                .with_hint(format!("tally_prefix_proof('{}') proves all rows.", table.name())));
        }
        let names: Vec<&str> = schema.primary_key.iter().map(|&id| table.column_name(id)).collect();
        let fits = match which {
            WhichRows::One | WhichRows::None => given.len() == names.len(),
            WhichRows::Between => given.len() == 2,
            WhichRows::Beginning => given.len() <= names.len(),
        };
        if !fits {
            let arguments = match which {
                WhichRows::Between => format!("first {0}, last {0}", names[0]),
                _ => names.join(", "),
            };
            return Err(wanted(&format!("{}('{}', {arguments})", call.name, table.name())));
        }
        let mut key = Vec::with_capacity(given.len());
        for (place, argument) in given.into_iter().enumerate() {
            let place = if which == WhichRows::Between { 0 } else { place };
            let data_type = table.column_type(schema.primary_key[place]);
            key.push(self.coerce(argument, data_type, CastContext::Assignment)?);
        }
        Ok(ProofQuery::Rows { table: table.id(), which, key })
    }
}

fn last_commit_columns() -> Vec<Column> {
    vec![
        column("block", DataType::Int8),
        column("index", DataType::Int8),
        column("decided", DataType::Int8),
        column("head", DataType::Text),
    ]
}

/// A NULL where a value is needed.
pub fn no_value(what: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("{what} must not be null"))
}
