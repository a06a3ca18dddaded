//! CREATE TABLE, and the constraints that CREATE and ALTER have in common.

use std::sync::Arc;

use procedure::{Expr, Function};
use sqlparser::ast;
use types::{
    ColumnId, ColumnSchema, DataType, Error, IndexId, IndexSchema, Layout, Result, SqlState,
    TableId, TableSchema,
};

use super::apply::{free_among, free_name, plain_columns, relation_exists};
use super::options::{check_temporary, layout_of};
use super::parts::{COLUMNS_MAX, check_parts};
use super::sequence::{next_value, serial_type};
use crate::bind::{Binder, Scope};
use crate::schema::catalog::{Catalog, Generated, ReferenceAction, Table};
use crate::schema::domains::CheckConstraint;
use crate::settings::session_info::SessionInfo;
use crate::syntax::names::{bare, beside, fold};

/// Name of the column that is the key of a table without one.
pub const ROW_ID: &str = "tally_row_id";

/// A table being made or changed.
pub(super) struct Draft {
    /// As it is in the catalog; the same as `table` while it is being created.
    pub original: Arc<Table>,
    pub table: Table,
}

impl Draft {
    pub fn alter(table: &Arc<Table>) -> Draft {
        Draft { original: table.clone(), table: (**table).clone() }
    }

    pub fn create(
        catalog: &Catalog,
        id: TableId,
        name: &str,
        create: &ast::CreateTable,
    ) -> Result<Table> {
        refuse_unsupported(create)?;
        check_temporary(id, create)?;
        let layout = match &create.table_options {
            ast::CreateTableOptions::With(options) => layout_of(options)?.unwrap_or_default(),
            _ => Layout::default(),
        };
        let table = Table {
            schema: Arc::new(TableSchema {
                id,
                name: name.to_owned(),
                columns: Vec::new(),
                primary_key: Vec::new(),
                indexes: Vec::new(),
                hidden_row_id: false,
            }),
            primary_key_name: format!("{}_pkey", bare(name)),
            layout,
            defaults: Vec::new(),
            bare_unique: Default::default(),
            nulls_alike: Default::default(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            referenced_by: Vec::new(),
            generated: Vec::new(),
            domains: Default::default(),
            collations: Default::default(),
            materialized: None,
            deferrable: Default::default(),
            declared: Default::default(),
        };
        let mut draft = Draft { original: Arc::new(table.clone()), table };
        let mut constraints: Vec<(Option<String>, ast::TableConstraint)> = Vec::new();
        for column in &create.columns {
            let place = draft.add_column(catalog, column)?;
            for constraint in column_constraints(column) {
                constraints.push((Some(draft.table.column_name(place).to_owned()), constraint));
            }
        }
        for (place, column) in (0..).zip(&create.columns) {
            if let Some(expr) = generation(column) {
                draft.add_generated(catalog, place, expr)?;
            }
        }
        constraints.extend(create.constraints.iter().map(|c| (None, c.clone())));
        let primary_keys = constraints.iter().filter(|(_, c)| is_primary_key(c)).count();
        if primary_keys > 1 {
            return Err(Error::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("multiple primary keys for table \"{}\" are not allowed", bare(name)),
            ));
        }
        if primary_keys == 0 {
            draft.add_row_id();
        }
        // Foreign keys may point at this table's own keys, so those come first.
        let is_foreign =
            |c: &ast::TableConstraint| matches!(c, ast::TableConstraint::ForeignKey(_));
        constraints.sort_by_key(|(_, c)| (is_foreign(c), !is_primary_key(c)));
        for (column, constraint) in &constraints {
            draft.constraint_of_new_table(catalog, column.as_deref(), constraint)?;
        }
        Ok(draft.table)
    }

    fn constraint_of_new_table(
        &mut self,
        catalog: &Catalog,
        column: Option<&str>,
        constraint: &ast::TableConstraint,
    ) -> Result<()> {
        match constraint {
            ast::TableConstraint::PrimaryKey(key) => {
                refuse_deferred(key.characteristics.as_ref())?;
                let columns = self.index_columns(&key.columns)?;
                let table = self.table.key().to_owned();
                let is_taken = |name: &str| catalog.relation_exists(&beside(&table, name));
                self.table.primary_key_name = match &key.name {
                    Some(name) if is_taken(&fold(name)) => {
                        return Err(relation_exists(&fold(name)));
                    }
                    Some(name) => fold(name),
                    None => free_name(&self.table.primary_key_name, is_taken),
                };
                self.set_primary_key(columns);
            }
            ast::TableConstraint::Unique(unique) => {
                let (name, columns) = self.unique(catalog, unique)?;
                if self.has_unique(&columns) {
                    return Ok(());
                }
                let index =
                    self.push_index(IndexSchema { name, columns, unique: true, dropped: false })?;
                self.note_deferral(index, unique)?;
            }
            ast::TableConstraint::Check(check) => self.add_check(catalog, check, column)?,
            ast::TableConstraint::ForeignKey(foreign) => {
                self.add_foreign_key(catalog, foreign)?;
            }
            other => return Err(Error::unsupported(format_args!("the constraint {other}"))),
        }
        Ok(())
    }

    pub fn schema(&mut self) -> &mut TableSchema {
        Arc::make_mut(&mut self.table.schema)
    }

    /// Where the next column goes: the hidden row id stays last.
    pub fn next_place(&self) -> ColumnId {
        let hidden = usize::from(self.table.schema.hidden_row_id);
        (self.table.schema.columns.len() - hidden) as ColumnId
    }

    /// Adds a column with its default; its constraints are the caller's.
    pub fn add_column(&mut self, catalog: &Catalog, column: &ast::ColumnDef) -> Result<ColumnId> {
        let name = fold(&column.name);
        if self.table.schema.column(&name).is_some() || name == ROW_ID {
            return Err(Error::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        if self.table.schema.columns.len() >= COLUMNS_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("tables can have at most {COLUMNS_MAX} columns"),
            ));
        }
        let place = usize::from(self.next_place());
        let serial = serial_type(&column.data_type);
        let (data_type, domain) = match serial {
            Some(integer) => (integer, None),
            None => Draft::declared_type(catalog, &column.data_type)?,
        };
        if !data_type.is_storable() {
            return Err(Error::unsupported(format_args!("a column of type {data_type}")));
        }
        let owned = catalog.owned_sequences(self.table.id(), Some(place as ColumnId));
        let mut default = owned.first().map(|sequence| next_value(sequence, &data_type));
        let mut nullable = default.is_none();
        let mut collation = None;
        for option in &column.options {
            match &option.option {
                ast::ColumnOption::NotNull => nullable = false,
                ast::ColumnOption::Default(_) if default.is_some() => {
                    return Err(two_defaults(&name, self.table.name()));
                }
                ast::ColumnOption::Default(expr) => {
                    default = Some(default_value(catalog, expr, &name, &data_type)?);
                }
                ast::ColumnOption::Collation(_) if collation.is_some() => {
                    let what = "multiple COLLATE clauses not allowed";
                    return Err(Error::new(SqlState::SYNTAX_ERROR, what));
                }
                ast::ColumnOption::Collation(name) => collation = Some(name),
                option => accept_option(option)?,
            }
        }
        let schema = self.schema();
        schema.columns.insert(place, ColumnSchema::new(name, data_type).nullable(nullable));
        if schema.hidden_row_id {
            schema.primary_key = vec![place as ColumnId + 1];
        }
        self.table.defaults.insert(place, default);
        self.collate(catalog, place as ColumnId, collation)?;
        self.set_domain(place as ColumnId, domain.as_ref());
        Ok(place as ColumnId)
    }

    /// What a column of the row is computed from.
    pub fn add_generated(
        &mut self,
        catalog: &Catalog,
        column: ColumnId,
        expr: &ast::Expr,
    ) -> Result<()> {
        let scope = self.scope();
        let (name, to) = (self.table.column_name(column), self.table.column_type(column).clone());
        if self.table.defaults[usize::from(column)].is_some() {
            let what = format!("both default and generation expression specified for \"{name}\"");
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
        let session = SessionInfo::default();
        let mut binder = Binder::new(catalog, &session, Vec::new());
        binder.clause = "in column generation expressions";
        binder.bound_by_text(expr.to_string().len());
        let typed = binder.expression(&scope, expr)?;
        let value = binder.assign(typed, name, &to)?;
        if !binder.steps.is_empty() {
            return Err(Error::unsupported("a subquery in a column generation expression"));
        }
        let mut changes = binder.session_dependent || binder.stable || value.draws();
        changes |= value.any(&mut |part| matches!(part, Expr::Now));
        if changes {
            let what = "generation expression is not immutable";
            return Err(Error::new(SqlState::INVALID_OBJECT_DEFINITION, what));
        }
        let inputs = value.columns();
        if let Some(input) =
            inputs.iter().find(|input| **input == column || self.table.generated(**input).is_some())
        {
            let input = self.table.column_name(*input);
            return Err(Error::new(
                SqlState::INVALID_OBJECT_DEFINITION,
                format!("cannot use generated column \"{input}\" in column generation expression"),
            )
            .with_detail("A generated column cannot reference another generated column."));
        }
        self.table.generated.push((column, Generated { value, text: bare_text(expr) }));
        self.table.generated.sort_by_key(|(column, _)| *column);
        Ok(())
    }

    pub fn add_row_id(&mut self) {
        let schema = self.schema();
        schema.primary_key = vec![schema.columns.len() as ColumnId];
        schema.columns.push(ColumnSchema::new(ROW_ID, DataType::Uuid));
        schema.hidden_row_id = true;
        self.table.defaults.push(None);
    }

    pub fn set_primary_key(&mut self, columns: Vec<ColumnId>) {
        let schema = self.schema();
        for column in &columns {
            schema.columns[usize::from(*column)].nullable = false;
        }
        schema.primary_key = columns;
    }

    pub fn push_index(&mut self, index: IndexSchema) -> Result<IndexId> {
        check_parts(self.table.live_indexes().count(), "indexes")?;
        let schema = self.schema();
        schema.indexes.push(index);
        // Numbers of those that were dropped are not given again.
        IndexId::try_from(schema.indexes.len()).map_err(|_| {
            let what = format!("a table can have had at most {} indexes", IndexId::MAX);
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_hint("Make another table like it, and move the rows there.")
        })
    }

    pub fn has_unique(&self, columns: &[ColumnId]) -> bool {
        !self.table.schema.hidden_row_id && self.table.schema.primary_key == columns
            || self.table.live_indexes().any(|(_, i)| i.unique && i.columns == columns)
    }

    pub fn index_columns(&self, columns: &[ast::IndexColumn]) -> Result<Vec<ColumnId>> {
        self.columns_named(&plain_columns(columns)?)
    }

    fn column_of_key(&self, name: &str, key: &str) -> Result<ColumnId> {
        self.table.schema.column(name).ok_or_else(|| {
            let what = format!("column \"{name}\" {key} does not exist");
            Error::new(SqlState::UNDEFINED_COLUMN, what)
        })
    }

    /// Columns of a foreign key, which may be some column's more than once.
    pub(super) fn referring(&self, names: &[String]) -> Result<Vec<ColumnId>> {
        let key = "referenced in foreign key constraint";
        names.iter().map(|name| self.column_of_key(name, key)).collect()
    }

    fn columns_named(&self, names: &[String]) -> Result<Vec<ColumnId>> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let column = self.column_of_key(name, "named in key")?;
            if columns.contains(&column) {
                return Err(Error::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{name}\" appears twice in a key"),
                ));
            }
            columns.push(super::keys::indexable(&self.table, column)?);
        }
        Ok(columns)
    }

    pub fn names(&self, columns: &[ColumnId]) -> String {
        let names: Vec<&str> = columns.iter().map(|c| self.table.column_name(*c)).collect();
        names.join(", ")
    }

    /// `table_column_column_suffix`.
    pub fn default_name(&self, columns: &[ColumnId], suffix: &str) -> String {
        let mut name = self.table.name().to_owned();
        for column in columns {
            name.push('_');
            name.push_str(self.table.column_name(*column));
        }
        format!("{name}_{suffix}")
    }

    pub fn unique(
        &self,
        catalog: &Catalog,
        unique: &ast::UniqueConstraint,
    ) -> Result<(String, Vec<ColumnId>)> {
        let waits = deferrable(unique.characteristics.as_ref())?;
        if waits.is_some() && nulls_alike(unique) {
            return Err(Error::unsupported("NULLS NOT DISTINCT of a constraint that can wait"));
        }
        let columns = self.index_columns(&unique.columns)?;
        let taken = |name: &str| {
            catalog.relation_exists(&beside(self.table.key(), name))
                || self.table.live_indexes().any(|(_, i)| i.name == name)
        };
        let name = match &unique.name {
            Some(name) => fold(name),
            None => free_name(&self.default_name(&columns, "key"), taken),
        };
        match taken(&name) {
            true => Err(relation_exists(&name)),
            false => Ok((name, columns)),
        }
    }

    /// Whether a UNIQUE constraint can wait, and what NULLs are to it.
    pub fn note_deferral(&mut self, index: IndexId, unique: &ast::UniqueConstraint) -> Result<()> {
        if nulls_alike(unique) {
            self.table.nulls_alike.insert(index);
        }
        if let Some(initially) = deferrable(unique.characteristics.as_ref())? {
            self.table.deferrable.insert(index, initially);
        }
        Ok(())
    }

    pub fn add_check(
        &mut self,
        catalog: &Catalog,
        check: &ast::CheckConstraint,
        column: Option<&str>,
    ) -> Result<()> {
        check_parts(self.table.checks.len(), "CHECK constraints")?;
        let session = SessionInfo::default();
        let mut binder = Binder::new(catalog, &session, Vec::new());
        let scope = self.scope();
        binder.clause = "in check constraints";
        binder.bound_by_text(check.expr.to_string().len());
        let typed = binder.expression(&scope, &check.expr)?;
        let condition = binder.boolean(typed, "CHECK")?;
        if !binder.steps.is_empty() {
            return Err(Error::unsupported("a subquery in a check constraint"));
        }
        if binder.session_dependent {
            return Err(Error::unsupported("a session's own functions in a check constraint"));
        }
        if condition.draws() {
            return Err(Error::unsupported("a random value in a check constraint"));
        }
        let name = match &check.name {
            Some(name) => fold(name),
            None => {
                let mut used = condition.columns();
                used.dedup();
                let column = column.or(match used.as_slice() {
                    [only] => Some(self.table.column_name(*only)),
                    _ => None,
                });
                let table = self.table.name();
                let wanted = match column {
                    Some(column) => format!("{table}_{column}_check"),
                    None => format!("{table}_check"),
                };
                free_among(&wanted, self.constraint_names())
            }
        };
        if self.has_constraint(&name) {
            return Err(self.duplicate_constraint(&name));
        }
        self.table.checks.push(CheckConstraint {
            name,
            condition,
            text: bare_text(&check.expr),
            validated: true,
        });
        Ok(())
    }

    pub fn has_constraint(&self, name: &str) -> bool {
        self.constraint_names().any(|taken| taken == name)
    }

    pub fn constraint_names(&self) -> impl Iterator<Item = &str> {
        let checks = self.table.checks.iter().map(|check| check.name.as_str());
        let foreign_keys = self.table.foreign_keys.iter().map(|key| key.name.as_str());
        let indexes = self.table.live_indexes().filter(|(_, index)| index.unique);
        checks.chain(foreign_keys).chain(indexes.map(|(_, index)| index.name.as_str()))
    }

    /// The columns as an expression of the table names them.
    pub fn scope(&mut self) -> Scope {
        // Whatever there are of them, they are not copied for each.
        let checks = std::mem::take(&mut self.table.checks);
        let foreign_keys = std::mem::take(&mut self.table.foreign_keys);
        let scope = Scope::of_table(&Arc::new(self.table.clone()));
        (self.table.checks, self.table.foreign_keys) = (checks, foreign_keys);
        scope
    }

    pub fn duplicate_constraint(&self, name: &str) -> Error {
        Error::new(
            SqlState::DUPLICATE_OBJECT,
            format!("constraint \"{name}\" for relation \"{}\" already exists", self.table.name()),
        )
    }
}

fn default_value(catalog: &Catalog, expr: &ast::Expr, column: &str, to: &DataType) -> Result<Expr> {
    let session = SessionInfo::default();
    let mut binder = Binder::new(catalog, &session, Vec::new());
    binder.clause = "in DEFAULT expressions";
    binder.bound_by_text(expr.to_string().len());
    let typed = binder.bare_expression(expr)?;
    let value = without_rules(binder.assign(typed, column, to)?)?;
    if !binder.steps.is_empty() {
        return Err(Error::unsupported("a subquery in a default"));
    }
    if binder.session_dependent {
        return Err(Error::unsupported("a session's own functions in a default")
            .with_hint("Give the value in the INSERT."));
    }
    Ok(value)
}

/// What a constant that is cast to a domain comes to: with the rules in it, a default would keep
/// those that the domain has now, and have no text that shows it.
fn without_rules(value: Expr) -> Result<Expr> {
    let is_rule = |part: &Expr| matches!(part, Expr::Call { function: Function::DomainFault, .. });
    if !value.any(&mut |part| is_rule(part)) {
        return Ok(value);
    }
    if value.draws() || value.any(&mut |part| matches!(part, Expr::Now)) {
        return Err(Error::unsupported("a cast to a domain in a default that is no constant")
            .with_hint("Cast to the domain's base type."));
    }
    value.eval(&[], &[], 0).map(Expr::Const)
}

pub(super) fn default_of(
    catalog: &Catalog,
    expr: &ast::Expr,
    column: &str,
    to: &DataType,
) -> Result<Expr> {
    default_value(catalog, expr, column, to)
}

fn two_defaults(column: &str, table: &str) -> Error {
    Error::new(
        SqlState::SYNTAX_ERROR,
        format!("multiple default values specified for column \"{column}\" of table \"{table}\""),
    )
}

/// What a stored generated column is computed from.
pub(super) fn generation(column: &ast::ColumnDef) -> Option<&ast::Expr> {
    column.options.iter().find_map(|option| match &option.option {
        ast::ColumnOption::Generated {
            generated_as: ast::GeneratedAs::ExpStored,
            generation_expr,
            ..
        } => generation_expr.as_ref(),
        _ => None,
    })
}

/// The constraints among a column's options, as table constraints over that column.
pub(super) fn column_constraints(column: &ast::ColumnDef) -> Vec<ast::TableConstraint> {
    let own = || {
        vec![ast::IndexColumn {
            column: ast::OrderByExpr {
                expr: ast::Expr::Identifier(column.name.clone()),
                options: ast::OrderByOptions { asc: None, nulls_first: None },
                with_fill: None,
            },
            operator_class: None,
        }]
    };
    let mut constraints = Vec::new();
    for option in &column.options {
        let named = option.name.clone();
        constraints.push(match &option.option {
            ast::ColumnOption::PrimaryKey(key) => {
                let mut key = key.clone();
                key.name = key.name.or(named);
                key.columns = own();
                ast::TableConstraint::PrimaryKey(key)
            }
            ast::ColumnOption::Unique(unique) => {
                let mut unique = unique.clone();
                unique.name = unique.name.or(named);
                unique.columns = own();
                ast::TableConstraint::Unique(unique)
            }
            ast::ColumnOption::ForeignKey(foreign) => {
                let mut foreign = foreign.clone();
                foreign.name = foreign.name.or(named);
                foreign.columns = vec![column.name.clone()];
                ast::TableConstraint::ForeignKey(foreign)
            }
            ast::ColumnOption::Check(check) => {
                let mut check = check.clone();
                check.name = check.name.or(named);
                ast::TableConstraint::Check(check)
            }
            _ => continue,
        });
    }
    constraints
}

fn accept_option(option: &ast::ColumnOption) -> Result<()> {
    use ast::ColumnOption as O;
    match option {
        O::Null
        | O::NotNull
        | O::Default(_)
        | O::PrimaryKey(_)
        | O::Unique(_)
        | O::ForeignKey(_)
        | O::Check(_) => Ok(()),
        O::Generated {
            generated_as: ast::GeneratedAs::Always | ast::GeneratedAs::ByDefault,
            generation_expr: None,
            ..
        } => Ok(()),
        O::Generated {
            generated_as: ast::GeneratedAs::ExpStored,
            generation_expr: Some(_),
            ..
        } => Ok(()),
        O::Generated { .. } => Err(Error::unsupported("a generated column that is not stored")
            .with_hint("Say GENERATED ALWAYS AS (…) STORED.")),
        other => Err(Error::unsupported(format_args!("the column option {other}"))),
    }
}

fn is_primary_key(constraint: &ast::TableConstraint) -> bool {
    matches!(constraint, ast::TableConstraint::PrimaryKey(_))
}

pub(super) fn reference_action(action: Option<ast::ReferentialAction>) -> ReferenceAction {
    use ast::ReferentialAction as A;
    match action {
        None | Some(A::NoAction) => ReferenceAction::NoAction,
        Some(A::Restrict) => ReferenceAction::Restrict,
        Some(A::Cascade) => ReferenceAction::Cascade,
        Some(A::SetNull) => ReferenceAction::SetNull,
        Some(A::SetDefault) => ReferenceAction::SetDefault,
    }
}

pub(super) fn nulls_alike(unique: &ast::UniqueConstraint) -> bool {
    matches!(unique.nulls_distinct, ast::NullsDistinctOption::NotDistinct)
}

/// Whether a constraint can be deferred, and is where nothing else is said.
pub(super) fn deferrable(
    characteristics: Option<&ast::ConstraintCharacteristics>,
) -> Result<Option<bool>> {
    let Some(said) = characteristics else { return Ok(None) };
    if said.enforced == Some(false) {
        return Err(Error::unsupported("a constraint that is not enforced"));
    }
    let deferred = said.initially == Some(ast::DeferrableInitial::Deferred);
    if deferred && said.deferrable == Some(false) {
        let what = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
        return Err(Error::new(SqlState::SYNTAX_ERROR, what));
    }
    Ok((deferred || said.deferrable == Some(true)).then_some(deferred))
}

/// A primary key does not wait for COMMIT.
pub(super) fn refuse_deferred(
    characteristics: Option<&ast::ConstraintCharacteristics>,
) -> Result<()> {
    match deferrable(characteristics)? {
        None => Ok(()),
        Some(_) => Err(Error::unsupported("a DEFERRABLE primary key")
            .with_hint("Leave DEFERRABLE out: foreign keys and UNIQUE constraints can wait.")),
    }
}

fn refuse_unsupported(create: &ast::CreateTable) -> Result<()> {
    let refused = [
        (create.query.is_some(), "CREATE TABLE AS"),
        (create.like.is_some(), "CREATE TABLE … LIKE"),
        (create.inherits.is_some(), "INHERITS"),
        (create.partition_by.is_some() || create.partition_of.is_some(), "partitioning"),
        (create.or_replace, "CREATE OR REPLACE TABLE"),
        (create.external, "an external table"),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, what)) => Err(Error::unsupported(what)),
        None => Ok(()),
    }
}

/// Without the parentheses around all of it: a definition that is shown has them again, and a dump
/// of a dump would have one pair more each time.
pub(super) fn bare_text(mut expr: &ast::Expr) -> String {
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr.to_string()
}
