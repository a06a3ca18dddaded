//! COPY FROM: the program that inserts one of its rows, and the one that looks at it again when all
//! are there.

use std::sync::Arc;

use procedure::{Column, Expr, Reg, Step};
use types::{ColumnId, Result, Value};

use super::binder::Binder;
use super::constraints::Moment;
use super::dml::Returning;
use super::insert::parameters;
use crate::schema::catalog::Table;

impl Binder<'_> {
    /// Steps that insert one row whose listed columns are the first parameters: COPY's. `answers`:
    /// what its keys into its own table are made of is the answer.
    pub(super) fn insert_parameters(
        &mut self,
        table: &Arc<Table>,
        columns: &[ColumnId],
        answers: bool,
    ) -> Result<Option<Vec<Column>>> {
        let (mut plan, values) = parameters(table, columns);
        let shown = answers.then(|| {
            let column = |c: &ColumnId| Column {
                name: table.column_name(*c).to_owned(),
                data_type: table.column_type(*c).clone(),
            };
            columns_of_own_keys(table).iter().map(column).collect::<Vec<_>>()
        });
        if let Some(shown) = &shown {
            let exprs = columns_of_own_keys(table).into_iter().map(Expr::Column).collect();
            plan.returning = Returning::emitted(exprs, shown.clone());
        }
        let row = self.insert_values(&plan, values)?;
        self.steps.push(Step::CountRows { by: row.count });
        Ok(shown)
    }

    /// How the rows of a COPY are looked at when all are there.
    pub(super) fn looks_at_loaded(&mut self, table: &Arc<Table>, columns: &[ColumnId]) -> Looks {
        let (plan, values) = parameters(table, columns);
        let row = self.whole_row(&plan, &values);
        let is_known = |column: &ColumnId| {
            let value = &row[usize::from(*column)];
            matches!(value, Expr::Reg(_) | Expr::Const(_)) && table.generated(*column).is_none()
        };
        match columns_of_own_keys(table).as_slice() {
            [] => Looks::None,
            columns if columns.iter().all(is_known) => Looks::AtGiven,
            _ => Looks::AtAnswers,
        }
    }

    /// Steps that look for the parents of a row that COPY has inserted, among its own table's.
    pub(super) fn look_at_loaded(
        &mut self,
        table: &Arc<Table>,
        columns: &[ColumnId],
        looks: Looks,
    ) -> Result<()> {
        let row = match looks {
            Looks::AtAnswers => {
                let mut row = vec![Expr::Const(Value::Null); table.schema.columns.len()];
                for (place, column) in columns_of_own_keys(table).into_iter().enumerate() {
                    row[usize::from(column)] = Expr::Reg(Reg(place as u16));
                }
                row
            }
            _ => {
                let (plan, values) = parameters(table, columns);
                self.whole_row(&plan, &values)
            }
        };
        self.loaded(table, true, |binder| binder.check_parents(table, &row, &|_| true, Moment::End))
    }
}

/// What foreign keys that lead from a table to itself are made of, on both sides, in ascending
/// order.
pub(super) fn columns_of_own_keys(table: &Table) -> Vec<ColumnId> {
    let keys = table.foreign_keys.iter().filter(|key| key.parent == table.id());
    let mut columns: Vec<ColumnId> =
        keys.flat_map(|key| key.columns.iter().chain(&key.parent_columns).copied()).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// How the foreign keys of a COPY's rows into its own table are judged when all rows are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Looks {
    /// There are none.
    None,
    /// By what COPY gives.
    AtGiven,
    /// By what the rows have become: a column of a key is given by a sequence, a generated column
    /// or another default.
    AtAnswers,
}
