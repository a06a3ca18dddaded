//! Queries that lock rows within a statement that writes.
//!
//! ```text
//!   UPDATE jobs SET taken = true WHERE id = (SELECT id FROM jobs … LIMIT 1 FOR UPDATE SKIP LOCKED)
//!   1. SELECT id FROM jobs … LIMIT 1 FOR UPDATE SKIP LOCKED              locks row 7
//!   2. UPDATE jobs SET taken = true WHERE id = (SELECT * FROM (VALUES ($1)) AS locked (id))
//! ```
//!
//! What such a query answers depends on what sessions of this node have locked, which no replica
//! can know. So it is a statement of its own, and the other one is recorded with the rows that it
//! got, as parameters. Outside of a transaction both are one, which begins anew where something
//! else than a lock came between.
//!
//! A query that needs what is around it (a correlated one) or that reads no tables by name stays
//! where it is, and locks nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use procedure::{Output, Row};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, Value};

use super::answer::Answer;
use super::blocks::ATTEMPTS_MAX;
use super::lock_clauses::locking_queries;
use super::prepared::{Action, Prepared};
use super::{Session, View};
use crate::bind::statement::Program;
use crate::syntax::names::quoted;
use crate::syntax::parse::parse_query;
use crate::syntax::parsed::{Body, Cover, Parsed};
use crate::syntax::walk;

/// A statement has as many parameters as the protocol can count.
const PARAMETERS_MAX: usize = u16::MAX as usize;

impl Session {
    /// Answers a statement that writes in which queries lock rows. `None`: none of them does.
    pub(super) async fn answer_with_locked_rows(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
    ) -> Result<Option<Answer>> {
        let sub = locking_queries(&prepared.parsed);
        if sub.is_empty() || self.database.engine.locks().are_in_force() {
            return Ok(None);
        }
        if self.transaction.is_some() {
            return self.answer_in_two(prepared, parameters, &sub).await;
        }
        self.check_may_write_alone()?;
        let mut left = if self.settings.has_transaction_key() { 1 } else { ATTEMPTS_MAX };
        loop {
            self.begin_implicit_block()?;
            let answered = self.answer_in_two(prepared, parameters, &sub).await;
            let counts = matches!(answered, Ok(Some(_)));
            if let Some(answered) = self.end_own_block(&mut left, answered, counts).await {
                return answered;
            }
        }
    }

    async fn answer_in_two(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        sub: &[ast::Query],
    ) -> Result<Option<Answer>> {
        let view = self.view();
        let mut types = prepared.bound.parameters.clone();
        let mut values = parameters.to_vec();
        let mut replaced = Vec::new();
        for query in sub {
            let Some((columns, rows)) =
                self.locked_rows(query, prepared, parameters, &view).await?
            else {
                return Ok(None);
            };
            let many = values.len() + rows.len().max(1) * columns.len();
            if many > PARAMETERS_MAX {
                return Err(Error::new(
                    SqlState::PROGRAM_LIMIT_EXCEEDED,
                    "a query in a statement that writes locks too many rows",
                )
                .with_hint("Give it a LIMIT."));
            }
            replaced.push(in_its_place(&columns, &rows, values.len())?);
            let rows = if rows.is_empty() { vec![nothing(columns.len())] } else { rows };
            for row in rows {
                types.extend(columns.iter().map(|(_, data_type)| data_type.clone()));
                values.extend(row);
            }
        }
        let parsed = with_rows(&prepared.parsed, replaced, values.len());
        let reported: Vec<_> = types.into_iter().map(Some).collect();
        let again = Arc::new(self.bind(&view.versioned, parsed, &reported, false)?);
        match &again.bound.statement {
            Action::Program(Program::Procedure(procedure)) => {
                self.running.version = view.versioned.ledger().version;
                let procedure = Arc::clone(procedure);
                self.run_and_answer(&procedure, &again, &values, view).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// What a query answers, its rows locked.
    async fn locked_rows(
        &mut self,
        query: &ast::Query,
        around: &Prepared,
        parameters: &[Value],
        view: &View,
    ) -> Result<Option<(Vec<(String, DataType)>, Vec<Row>)>> {
        let parsed = Parsed {
            text: query.to_string(),
            body: Body::Statement(Box::new(ast::Statement::Query(Box::new(query.clone())))),
            placeholders: around.parsed.placeholders,
            as_of: None,
            cover: Cover::default(),
            has_path: false,
            start: None,
        };
        let reported: Vec<_> = around.bound.parameters.iter().cloned().map(Some).collect();
        // One that does not stand by itself is none of ours.
        let Ok(prepared) = self.bind(&view.versioned, parsed, &reported, false) else {
            return Ok(None);
        };
        let (Some(keyed), Output::Rows(columns)) =
            (self.row_locks(&prepared, view)?, &prepared.bound.output)
        else {
            return Ok(None);
        };
        let result = self.rows_locked_by(&keyed, parameters, prepared.locking).await?;
        let columns = columns.iter().map(|it| (it.name.clone(), it.data_type.clone()));
        Ok(Some((columns.collect(), result.rows)))
    }
}

fn nothing(columns: usize) -> Row {
    vec![Value::Null; columns].into()
}

/// `SELECT * FROM (VALUES ($3, $4), …) AS locked (a, b)`; a WHERE false where there is no row.
fn in_its_place(
    columns: &[(String, DataType)],
    rows: &[Row],
    before: usize,
) -> Result<Box<ast::Query>> {
    let mut number = before;
    let mut row = || {
        let values = columns.iter().map(|_| {
            number += 1;
            format!("${number}")
        });
        format!("({})", values.collect::<Vec<_>>().join(", "))
    };
    let values: Vec<String> = (0..rows.len().max(1)).map(|_| row()).collect();
    let names: Vec<String> = columns.iter().map(|(name, _)| quoted(name)).collect();
    let (values, names) = (values.join(", "), names.join(", "));
    let condition = if rows.is_empty() { " WHERE false" } else { "" };
    let text = format!("SELECT * FROM (VALUES {values}) AS locked ({names}){condition}");
    parse_query(&text)?
        .ok_or_else(|| Error::new(SqlState::INTERNAL_ERROR, "rows that were locked are no query"))
}

/// The statement with other queries in place of those that lock.
fn with_rows(parsed: &Parsed, replaced: Vec<Box<ast::Query>>, placeholders: usize) -> Parsed {
    struct Replace(std::vec::IntoIter<Box<ast::Query>>);
    impl ast::VisitorMut for Replace {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
            if !query.locks.is_empty()
                && let Some(rows) = self.0.next()
            {
                *query = *rows;
            }
            ControlFlow::Continue(())
        }
    }
    let mut parsed = parsed.clone();
    if let Body::Statement(statement) = &mut parsed.body {
        _ = walk::change(&mut **statement, &mut Replace(replaced.into_iter()));
        parsed.text = statement.to_string();
    }
    Parsed { placeholders, has_path: false, start: None, ..parsed }
}
