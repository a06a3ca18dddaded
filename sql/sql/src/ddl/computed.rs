//! Indexes that are over more than columns: of expressions, of some rows (WHERE), in another order.
//!
//! What an index computes is stored in hidden columns, which are generated as others are:
//!
//! ```text
//!   CREATE UNIQUE INDEX ON t (lower(a), b) WHERE c
//!   hidden   "\0lower(a)"  GENERATED ALWAYS AS (CASE WHEN c THEN lower(a) END) STORED
//!   index    ("\0lower(a)", b)
//! ```
//!
//! Keys with a NULL in them are never equal, so rows that the condition leaves out take part in no
//! comparison, and nothing else has to know of either kind. An index over plain columns that is not
//! unique holds all rows, whatever its condition: that is of use to more queries.
//!
//! *Invariants.* A hidden column is a part of one index and goes with it; an index goes with each
//! column that it is computed from.
//!
//! *Departures.* Queries do not look expressions up by such an index, and ON CONFLICT does not name
//! one. DESC and NULLS FIRST are shown, and any order is read from an index that is ascending. A
//! column that an index computes with keeps its type.
//!
//! *Cost.* With hidden columns every row is written anew, and is as much longer.

use std::sync::Arc;

use procedure::Expr;
use sqlparser::ast;
use types::{
    ColumnId, ColumnSchema, DataType, Error, IndexId, IndexSchema, Result, SqlState, Value,
};

use super::ColumnSource;
use super::apply::Transition;
use super::table::Draft;
use crate::bind::{Binder, Scope, Typed};
use crate::schema::catalog::{Catalog, DeclaredIndex, Generated, KeyPart, Table};
use crate::schema::collations::{Collation, check_collatable, check_key};
use crate::settings::session_info::SessionInfo;
use crate::syntax::names::{as_sql, fold, quoted_if_needed};
use crate::syntax::renamed::with_column_renamed;
use crate::syntax::walk;

/// What `pg_index.indoption` says.
const DESCENDING: u8 = 1;
const NULLS_FIRST: u8 = 2;

/// A part of a key, as it is bound.
struct Part {
    shown: KeyPart,
    /// As it stands in a query.
    text: String,
    value: Expr,
    data_type: DataType,
    /// What its texts are compared by, where the one that it names is another.
    collated: Option<Arc<Collation>>,
}

/// Whether an index is of columns alone.
pub(super) fn is_plain(create: &ast::CreateIndex) -> bool {
    let is_column = |part: &ast::IndexColumn| {
        matches!(part.column.expr, ast::Expr::Identifier(_)) && options(part) == 0
    };
    create.predicate.is_none() && create.columns.iter().all(is_column)
}

fn options(part: &ast::IndexColumn) -> u8 {
    let descending = part.column.options.asc == Some(false);
    let nulls_first = part.column.options.nulls_first.unwrap_or(descending);
    u8::from(descending) * DESCENDING | u8::from(nulls_first) * NULLS_FIRST
}

impl Transition {
    pub(super) fn create_computed(
        &mut self,
        draft: &mut Draft,
        create: &ast::CreateIndex,
        name: String,
    ) -> Result<IndexId> {
        let table = draft.original.clone();
        let parts: Vec<Part> =
            create.columns.iter().map(|it| draft.part(&self.catalog, it)).collect::<Result<_>>()?;
        for part in parts.iter().filter(|_| create.unique) {
            let compared = part.shown.collation.iter().chain(&part.collated).next();
            compared.map_or(Ok(()), |collation| check_key(collation))?;
        }
        let condition = create.predicate.as_ref();
        let condition = condition.map(|it| draft.condition(&self.catalog, it)).transpose()?;
        // One that was never filled has no rows that could be looked at.
        if create.unique && table.check_populated().is_ok() {
            self.require_distinct_parts(&table, &parts, create, &name)?;
        }
        let mut inputs: Vec<ColumnId> =
            parts.iter().flat_map(|part| part.value.columns()).collect();
        inputs.extend(condition.iter().flat_map(Expr::columns));
        let old = 0..table.schema.columns.len() as ColumnId;
        let mut sources: Vec<ColumnSource> = old.map(ColumnSource::Old).collect();
        let mut columns = Vec::with_capacity(parts.len());
        let mut is_longer = false;
        for (place, part) in parts.iter().enumerate() {
            let of_some_rows = create.unique && condition.is_some() && place == 0;
            columns.push(match (part.shown.column, of_some_rows) {
                (Some(column), false) => column,
                _ => {
                    is_longer = true;
                    let value = part.value.clone();
                    let value = match &condition {
                        None => value,
                        Some(condition) => Expr::Case {
                            whens: [(condition.clone(), value)].into(),
                            otherwise: Box::new(Expr::Const(Value::Null)),
                        },
                    };
                    let shown = part.shown.shown(&table);
                    draft.add_hidden(&shown, value, part.data_type.clone(), &mut sources)?
                }
            });
        }
        let index = match is_longer {
            false => self.add_index(draft, name, columns, create.unique.then_some(false))?,
            true => {
                let unique = create.unique;
                let index =
                    draft.push_index(IndexSchema { name, columns, unique, dropped: false })?;
                self.rebuild(&draft.table, sources);
                index
            }
        };
        let predicate = create.predicate.as_ref().map(spelled);
        let parts = parts.into_iter().map(|part| part.shown).collect();
        let declared = DeclaredIndex { parts, predicate, inputs };
        draft.table.declared.insert(index, Arc::new(declared));
        Ok(index)
    }

    /// No two rows have the key that is to be unique.
    fn require_distinct_parts(
        &mut self,
        table: &Table,
        parts: &[Part],
        create: &ast::CreateIndex,
        name: &str,
    ) -> Result<()> {
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        let shown: Vec<String> = parts.iter().map(|part| part.shown.shown(table)).collect();
        let what = format!("could not create unique index \"{name}\"");
        let error = Error::new(SqlState::UNIQUE_VIOLATION, what)
            .with_detail(format!("Key ({}) is duplicated.", shown.join(", ")));
        let mut wanted: Vec<String> =
            texts.iter().map(|text| format!("{text} IS NOT NULL")).collect();
        wanted.extend(create.predicate.iter().map(|condition| format!("({condition})")));
        let text = format!(
            "SELECT 1 FROM {} WHERE {} GROUP BY {} HAVING count(*) > 1 LIMIT 1",
            as_sql(table.key()),
            wanted.join(" AND "),
            texts.join(", ")
        );
        self.require_no_row(&text, error)
    }
}

impl Draft {
    fn part(&self, catalog: &Catalog, part: &ast::IndexColumn) -> Result<Part> {
        let options = options(part);
        let (expr, collation) = without_collation(&part.column.expr);
        let collation = collation.map(|name| catalog.collation(name)).transpose()?;
        if let ast::Expr::Identifier(name) = expr {
            let name = fold(name);
            let column = self.table.schema.column(&name).ok_or_else(|| {
                let what = format!("column \"{name}\" does not exist");
                Error::new(SqlState::UNDEFINED_COLUMN, what)
            })?;
            let data_type = self.table.column_type(column).clone();
            if collation.is_some() {
                check_collatable(&data_type)?;
            }
            return Ok(Part {
                text: compared_by(quoted_if_needed(&name), collation.as_deref()),
                shown: KeyPart { column: Some(column), text: String::new(), options, collation },
                value: Expr::Column(column),
                data_type,
                collated: self.table.collations.get(&column).cloned(),
            });
        }
        let Typed { expr: value, data_type, collated } =
            self.computed(catalog, expr, "expression")?;
        let collated = collated.named().cloned();
        let data_type = match data_type {
            DataType::Unknown => DataType::Text,
            known => known.without_modifier(),
        };
        if !data_type.is_storable() {
            return Err(Error::unsupported(format_args!(
                "an index over values of type {data_type}"
            )));
        }
        if collation.is_some() {
            check_collatable(&data_type)?;
        }
        let text = compared_by(format!("({expr})"), collation.as_deref());
        let shown = KeyPart { column: None, text: spelled(expr), options, collation };
        Ok(Part { shown, text, value, data_type, collated })
    }

    fn condition(&self, catalog: &Catalog, expr: &ast::Expr) -> Result<Expr> {
        let typed = self.computed(catalog, expr, "predicate")?;
        match typed.data_type {
            DataType::Bool | DataType::Unknown => Ok(typed.expr),
            other => Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of WHERE must be type boolean, not type {other}"),
            )),
        }
    }

    /// What follows from a row and nothing else, over columns that are stored as they are given.
    fn computed(&self, catalog: &Catalog, expr: &ast::Expr, part: &str) -> Result<Typed> {
        let session = SessionInfo::default();
        let mut binder = Binder::new(catalog, &session, Vec::new());
        let scope = Scope::of_table(&Arc::new(self.table.clone()));
        binder.clause = "in index expressions";
        binder.bound_by_text(expr.to_string().len());
        let mut typed = binder.expression(&scope, expr)?;
        if !binder.steps.is_empty() {
            let what = "cannot use subquery in index expression";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        let mut changes = binder.session_dependent
            || binder.stable
            || binder.zone_dependent
            || binder.by_clocks
            || typed.expr.draws();
        changes |= typed.expr.any(&mut |part| matches!(part, Expr::Now));
        if changes {
            let what = format!("functions in index {part} must be marked IMMUTABLE");
            return Err(Error::new(SqlState::INVALID_OBJECT_DEFINITION, what));
        }
        typed.expr.map_columns(&mut |column| match self.table.generated(column) {
            Some(generated) => generated.value.clone(),
            None => Expr::Column(column),
        });
        Ok(typed)
    }

    fn add_hidden(
        &mut self,
        shown: &str,
        value: Expr,
        data_type: DataType,
        sources: &mut Vec<ColumnSource>,
    ) -> Result<ColumnId> {
        let place = self.next_place();
        let schema = self.schema();
        if schema.columns.len() >= super::parts::COLUMNS_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("tables can have at most {} columns", super::parts::COLUMNS_MAX),
            ));
        }
        let column = ColumnSchema::new(format!("\0{shown}"), data_type).nullable(true);
        schema.columns.insert(usize::from(place), column);
        if schema.hidden_row_id {
            schema.primary_key = vec![place + 1];
        }
        self.table.defaults.insert(usize::from(place), None);
        sources.insert(usize::from(place), ColumnSource::Computed(value.clone()));
        self.table.generated.push((place, Generated { value, text: shown.to_owned() }));
        self.table.generated.sort_by_key(|(column, _)| *column);
        Ok(place)
    }

    /// An index goes, and with it what it alone has computed. Whether there was any.
    pub(super) fn forget_computed(&mut self, index: IndexId) -> bool {
        self.table.declared.remove(&index);
        let columns = self.table.index_columns(index).to_vec();
        let mut any = false;
        for column in columns {
            let schema = &mut self.schema().columns[usize::from(column)];
            if schema.is_hidden() && !schema.dropped {
                schema.dropped = true;
                self.table.generated.retain(|(place, _)| *place != column);
                any = true;
            }
        }
        any
    }

    /// Indexes over a column, or computed from it.
    pub(super) fn indexes_with(&self, column: ColumnId) -> Vec<IndexId> {
        let is_it = |(id, index): &(IndexId, &IndexSchema)| {
            let declared = self.table.declared.get(id);
            index.columns.contains(&column)
                || declared.is_some_and(|declared| declared.inputs.contains(&column))
        };
        self.table.live_indexes().filter(is_it).map(|(id, _)| id).collect()
    }
}

fn compared_by(text: String, collation: Option<&Collation>) -> String {
    match collation {
        Some(collation) => format!("{text} COLLATE {}", collation.shown()),
        None => text,
    }
}

/// What an index is over, and the collation that is named behind it.
fn without_collation(mut expr: &ast::Expr) -> (&ast::Expr, Option<&ast::ObjectName>) {
    let mut named = None;
    loop {
        expr = match expr {
            ast::Expr::Nested(inner) => inner,
            ast::Expr::Collate { expr, collation } => {
                named = named.or(Some(collation));
                expr
            }
            other => return (other, named),
        }
    }
}

/// As definitions show it: names of functions in lower case, nothing quoted that need not be, and
/// no parentheses around all of it.
fn spelled(mut expr: &ast::Expr) -> String {
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    let mut shown = expr.clone();
    let plain = |name: &mut ast::Ident| {
        let folded = fold(name);
        *name = match quoted_if_needed(&folded) == folded {
            true => ast::Ident::new(folded),
            false => ast::Ident::with_quote('"', folded),
        };
    };
    let _ = walk::change_expressions(&mut shown, |expr| {
        match expr {
            ast::Expr::Identifier(name) => plain(name),
            ast::Expr::Function(call) => {
                for part in &mut call.name.0 {
                    if let ast::ObjectNamePart::Identifier(name) = part {
                        plain(name);
                    }
                }
            }
            _ => {}
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    shown.to_string()
}

/// `table_column_expr_idx`.
pub(super) fn default_name(table: &Table, create: &ast::CreateIndex) -> String {
    let mut name = table.name().to_owned();
    for part in &create.columns {
        name.push('_');
        match without_collation(&part.column.expr).0 {
            ast::Expr::Identifier(column) => name.push_str(&fold(column)),
            ast::Expr::Function(call) => name.push_str(&call.name.to_string().to_lowercase()),
            _ => name.push_str("expr"),
        }
    }
    name.push_str("_idx");
    name
}

impl Draft {
    /// Texts of what is computed from a column that has another name now.
    pub(super) fn rename_in_indexes(&mut self, old: &str, new: &str) {
        for declared in self.table.declared.values_mut() {
            let declared = Arc::make_mut(declared);
            let parts = declared.parts.iter_mut().filter(|part| part.column.is_none());
            let texts = parts.map(|part| &mut part.text).chain(&mut declared.predicate);
            for text in texts {
                if let Ok(renamed) = with_column_renamed(text, old, new) {
                    *text = renamed;
                }
            }
        }
        for column in self.schema().columns.iter_mut().filter(|column| column.is_hidden()) {
            if let Ok(renamed) = with_column_renamed(column.name.trim_start_matches('\0'), old, new)
            {
                column.name = format!("\0{renamed}");
            }
        }
    }
}
