//! ALTER COLUMN … TYPE: every row is written anew, in the block.
//!
//! The new value is the old one as an assignment would store it, or what USING says. What looks at
//! the column is bound again (CHECK constraints, its default), and what the new values may break is
//! looked at after the change: unique indexes, foreign keys of either side.
//!
//! *Cost.* That of a row for each row, and of an entry for each of its indexes; in a transaction it
//! is paid for and bounded as its writes are.

use std::sync::Arc;

use procedure::Expr;
use sqlparser::ast;
use types::{ColumnId, DataType, Error, Result, SqlState};

use super::ColumnSource;
use super::apply::Transition;
use super::foreign::{comparable, orphans};
use super::sequence::next_value;
use super::table::Draft;
use crate::bind::{Binder, Scope, Typed};
use crate::schema::catalog::Table;
use crate::schema::sequence::Sequence;
use crate::settings::session_info::SessionInfo;
use crate::syntax::collations::column_collation;
use crate::syntax::ddl::{AlterSequence, SequenceOptions};
use crate::syntax::names::{as_sql, quoted};
use crate::syntax::parse::{name_in, parse_expression};
use types::cast::CastContext;

impl Transition {
    pub(super) fn alter_type(
        &mut self,
        draft: &mut Draft,
        column: ColumnId,
        said: &ast::DataType,
        using: Option<&ast::Expr>,
    ) -> Result<()> {
        let (table, place) = (draft.original.clone(), usize::from(column));
        let (using, collation) = match using.and_then(column_collation) {
            Some((value, collation)) => (Some(value), Some(collation)),
            None => (using, None),
        };
        let (to, domain) = Draft::declared_type(&self.catalog, said)?;
        if !to.is_storable() {
            return Err(Error::unsupported(format_args!("a column of type {to}")));
        }
        self.refuse_dependents(&table, column, &to)?;
        let value = converted(self, &table, column, &to, using)?;
        let owned = self.catalog.owned_sequences(table.id(), Some(column));
        let default = table.defaults[place].as_ref();
        let is_default = |sequence: &&Arc<Sequence>| {
            default == Some(&next_value(sequence, table.column_type(column)))
        };
        if let Some(sequence) = owned.iter().find(is_default) {
            let is_identity = sequence.owner.is_some_and(|owner| owner.identity.is_some());
            draft.table.defaults[place] = Some(next_value(sequence, &to));
            if is_identity {
                self.retype_sequence(&sequence.name, said)?;
            }
        } else if let Some(default) = draft.table.defaults[place].take() {
            let name = table.column_name(column);
            draft.table.defaults[place] =
                Some(recast(self, default, table.column_type(column), &to, name)?);
        }
        draft.schema().columns[place].data_type = to;
        draft.collate(&self.catalog, column, collation.as_ref())?;
        draft.set_domain(column, domain.as_ref());
        self.rebind_checks(draft, column)?;
        self.check_keys(&draft.table)?;
        let columns = 0..table.schema.columns.len() as ColumnId;
        let source = |c: ColumnId| match c == column {
            true => ColumnSource::Computed(value.clone()),
            false => ColumnSource::Old(c),
        };
        self.rebuild(&draft.table, columns.map(source).collect());
        self.put(draft.table.clone());
        self.check_behind(&draft.table, column)
    }

    /// What would have to change with the column.
    fn refuse_dependents(&self, table: &Table, column: ColumnId, to: &DataType) -> Result<()> {
        let uses = |expr: &Expr| expr.columns().contains(&column);
        if table.declared.values().any(|declared| {
            declared.inputs.contains(&column)
                && (declared.predicate.is_some()
                    || declared.parts.iter().any(|part| part.column != Some(column)))
        }) {
            return Err(Error::unsupported(
                "changing the type of a column that an index is computed from",
            )
            .with_hint("Drop the index first, and make it again afterwards."));
        }
        let generated = table.generated.iter();
        if generated.into_iter().any(|(c, generated)| *c == column || uses(&generated.value)) {
            let what = "cannot alter type of a column used by a generated column";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        let owned = self.catalog.owned_sequences(table.id(), Some(column));
        match owned.is_empty() || to.is_integer() {
            true => Ok(()),
            false => Err(Error::unsupported(
                "changing the type of a column with a sequence to another than an integer's",
            )),
        }
    }

    /// The sequence of an identity column counts as far as the column's type.
    fn retype_sequence(&mut self, name: &str, to: &ast::DataType) -> Result<()> {
        let options = SequenceOptions { data_type: Some(to.clone()), ..Default::default() };
        let name = name_in(&as_sql(name))?;
        self.alter_sequence(&name, false, &AlterSequence::Options(options))
    }

    fn rebind_checks(&self, draft: &mut Draft, column: ColumnId) -> Result<()> {
        let scope = Scope::of_table(&Arc::new(draft.table.clone()));
        for check in &mut draft.table.checks {
            if check.condition.columns().contains(&column) {
                let expr = parse_expression(&check.text)?;
                let session = SessionInfo::default();
                let mut binder = Binder::new(&self.catalog, &session, Vec::new());
                let typed = binder.expression(&scope, &expr)?;
                check.condition = binder.boolean(typed, "CHECK")?;
            }
        }
        Ok(())
    }

    /// Foreign keys of either side still compare what can be compared.
    fn check_keys(&self, table: &Table) -> Result<()> {
        for key in &table.foreign_keys {
            if let Some(parent) = self.catalog.table_by_id(key.parent) {
                for (own, theirs) in key.columns.iter().zip(&key.parent_columns) {
                    let parent = if key.parent == table.id() { table } else { parent };
                    comparable(table, *own, parent, *theirs)?;
                }
            }
        }
        for reference in &table.referenced_by {
            let child = self.catalog.table_by_id(reference.child);
            let Some(child) = child.filter(|child| child.id() != table.id()) else { continue };
            if let Some(key) = child.foreign_keys.get(reference.key) {
                for (own, theirs) in key.columns.iter().zip(&key.parent_columns) {
                    comparable(child, *own, table, *theirs)?;
                }
            }
        }
        Ok(())
    }

    /// What the new values may break.
    fn check_behind(&mut self, table: &Table, column: ColumnId) -> Result<()> {
        if !table.schema.columns[usize::from(column)].nullable {
            let name = table.column_name(column);
            let error = Error::new(
                SqlState::NOT_NULL_VIOLATION,
                format!("column \"{name}\" of relation \"{}\" contains null values", table.name()),
            );
            let text = format!(
                "SELECT 1 FROM {} WHERE {} IS NULL LIMIT 1",
                as_sql(table.key()),
                quoted(name)
            );
            self.require_no_row(&text, error)?;
        }
        self.require_rules(table, column)?;
        for check in table.checks.iter().filter(|c| c.condition.columns().contains(&column)) {
            self.require_check(table, &check.name, &check.text)?;
        }
        let unique = table.live_indexes().filter(|(_, i)| i.unique && i.columns.contains(&column));
        for (id, index) in unique {
            let what = format!("could not create unique index \"{}\"", index.name);
            let error = Error::new(SqlState::UNIQUE_VIOLATION, what);
            self.require_distinct(table, &index.columns, table.nulls_alike.contains(&id), error)?;
        }
        self.check_orphans(table, column)
    }

    fn check_orphans(&mut self, table: &Table, column: ColumnId) -> Result<()> {
        let mut broken = Vec::new();
        for key in table.foreign_keys.iter().filter(|key| key.columns.contains(&column)) {
            if let Some(parent) = self.catalog.table_by_id(key.parent) {
                let rows = orphans(table, &key.columns, parent, &key.parent_columns);
                broken.push((rows, Arc::new(table.clone()), key.name.clone()));
            }
        }
        for reference in &table.referenced_by {
            let child = self.catalog.table_by_id(reference.child);
            let key = child.and_then(|child| child.foreign_keys.get(reference.key));
            if let (Some(child), Some(key)) = (child, key)
                && key.parent_columns.contains(&column)
            {
                let rows = orphans(child, &key.columns, table, &key.parent_columns);
                broken.push((rows, Arc::clone(child), key.name.clone()));
            }
        }
        for (rows, child, key) in broken {
            self.require_parents(&child, &key, &rows)?;
        }
        Ok(())
    }
}

/// The column's new value, over the row as it was.
fn converted(
    transition: &Transition,
    table: &Arc<Table>,
    column: ColumnId,
    to: &DataType,
    using: Option<&ast::Expr>,
) -> Result<Expr> {
    let name = table.column_name(column);
    let session = SessionInfo::default();
    let mut binder = Binder::new(&transition.catalog, &session, Vec::new());
    let typed = match using {
        None => Typed::new(Expr::Column(column), table.column_type(column).clone()),
        Some(expr) => binder.expression(&Scope::of_table(table), expr)?,
    };
    let value = binder.coerce(typed, to, CastContext::Assignment).map_err(|_| {
        let (what, hint) = match using {
            None => (
                format!("column \"{name}\" cannot be cast automatically to type {to}"),
                format!("You might need to specify \"USING {}::{to}\".", quoted(name)),
            ),
            Some(_) => (
                format!(
                    "result of USING clause for column \"{name}\" cannot be cast automatically \
                     to type {to}"
                ),
                "You might need to add an explicit cast.".to_owned(),
            ),
        };
        Error::new(SqlState::DATATYPE_MISMATCH, what).with_hint(hint)
    })?;
    if !binder.steps.is_empty() {
        return Err(Error::unsupported("a subquery in a USING clause"));
    }
    let varies = value.draws() || value.any(&mut |part| matches!(part, Expr::Now));
    match varies || binder.session_dependent {
        true => Err(Error::unsupported("a USING clause that is not immutable")),
        false => Ok(value),
    }
}

fn recast(
    transition: &Transition,
    default: Expr,
    from: &DataType,
    to: &DataType,
    column: &str,
) -> Result<Expr> {
    let session = SessionInfo::default();
    let mut binder = Binder::new(&transition.catalog, &session, Vec::new());
    let typed = Typed::new(default, from.clone());
    binder.coerce(typed, to, CastContext::Assignment).map_err(|_| {
        Error::new(
            SqlState::DATATYPE_MISMATCH,
            format!("default for column \"{column}\" cannot be cast automatically to type {to}"),
        )
    })
}
