//! ALTER TABLE.

use std::sync::Arc;

use procedure::Expr;
use sqlparser::ast;
use types::{ColumnId, Error, Result, SqlState, Value};

use super::apply::{Transition, relation_exists};
use super::foreign::orphans;
use super::options::layout_of;
use super::sequence::{Counted, next_value};
use super::table::{
    Draft, column_constraints, default_of, generation, nulls_alike, refuse_deferred,
};
use super::{ColumnSource, StoreChange};
use crate::schema::catalog::{DeclaredIndex, Generated, Table};
use crate::schema::sequence::Identity;
use crate::syntax::ddl::SequenceOptions;
use crate::syntax::names::{as_sql, beside, fold, object_name, quoted, simple_name};
use crate::syntax::renamed::with_column_renamed;

/// OWNER TO, and nothing else.
fn gives_away(alter: &ast::AlterTable) -> bool {
    alter.operations.iter().all(|o| matches!(o, ast::AlterTableOperation::OwnerTo { .. }))
}

impl Transition {
    pub(super) fn alter_table(&mut self, alter: &ast::AlterTable) -> Result<()> {
        let name = object_name(&alter.name)?;
        let mut name = match self.catalog.find_table(&name) {
            // Dumps give views and sequences to their owner by this statement, too.
            None if self.catalog.relation_exists(&name) && gives_away(alter) => return Ok(()),
            None if alter.if_exists => return Ok(()),
            _ => name,
        };
        for operation in &alter.operations {
            let table = self.catalog.table(&name)?.clone();
            self.refuse_if_viewed(&name, operation)?;
            let mut draft = Draft::alter(&table);
            draft.check_alters_view(operation)?;
            self.alter_once(&mut draft, operation)?;
            if draft.table.key() != name {
                self.catalog.table_names.remove(&name);
                name = draft.table.key().to_owned();
                self.catalog.table_names.insert(name.clone(), table.id());
            }
            self.put(draft.table);
        }
        Ok(())
    }

    fn alter_once(
        &mut self,
        draft: &mut Draft,
        operation: &ast::AlterTableOperation,
    ) -> Result<()> {
        use ast::AlterTableOperation as O;
        match operation {
            O::AddConstraint { constraint, not_valid: false } => {
                self.add_constraint(draft, constraint)
            }
            O::AddConstraint { constraint, not_valid: true } => {
                self.add_unchecked(draft, constraint)
            }
            O::ValidateConstraint { name } => self.validate(draft, &fold(name)),
            O::RenameConstraint { old_name, new_name } => {
                self.rename_constraint(draft, &fold(old_name), &fold(new_name))
            }
            O::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
                let present = draft.table.schema.column(&fold(&column_def.name)).is_some();
                match *if_not_exists && present {
                    true => Ok(()),
                    false => self.add_column(draft, column_def),
                }
            }
            O::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let cascade = *drop_behavior == Some(ast::DropBehavior::Cascade);
                for name in column_names {
                    self.drop_column(draft, &fold(name), (*if_exists, cascade))?;
                }
                Ok(())
            }
            O::DropConstraint { if_exists, name, drop_behavior } => {
                let cascade = *drop_behavior == Some(ast::DropBehavior::Cascade);
                self.drop_constraint(draft, &fold(name), (*if_exists, cascade))
            }
            O::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(draft, &fold(old_column_name), &fold(new_column_name))
            }
            O::RenameTable {
                table_name: ast::RenameTableNameKind::To(name) | ast::RenameTableNameKind::As(name),
            } => {
                let new = beside(draft.table.key(), &simple_name(name)?);
                self.rename_table(draft, &new)
            }
            O::AlterColumn { column_name, op } => {
                let column = draft.table.column_named(&fold(column_name))?;
                self.alter_column(draft, column, op)
            }
            O::SetOptionsParens { options } => {
                let from = draft.table.layout;
                draft.table.layout = layout_of(options)?.unwrap_or(from);
                self.set_layout(draft.table.id(), from, draft.table.layout);
                Ok(())
            }
            // Owners have no meaning here, and no effect on results.
            O::OwnerTo { .. } => Ok(()),
            other => Err(Error::unsupported(format_args!("ALTER TABLE … {other}"))),
        }
    }

    fn add_constraint(
        &mut self,
        draft: &mut Draft,
        constraint: &ast::TableConstraint,
    ) -> Result<()> {
        let table = draft.original.clone();
        match constraint {
            ast::TableConstraint::PrimaryKey(key) => {
                refuse_deferred(key.characteristics.as_ref())?;
                let columns = draft.index_columns(&key.columns)?;
                self.add_primary_key(draft, key.name.as_ref().map(fold), columns)
            }
            ast::TableConstraint::Unique(unique) => {
                let (name, columns) = draft.unique(&self.catalog, unique)?;
                let unique_in = Some(nulls_alike(unique));
                let index = self.add_index(draft, name, columns, unique_in)?;
                draft.note_deferral(index, unique)
            }
            ast::TableConstraint::UniqueUsingIndex(using) => {
                refuse_deferred(using.characteristics.as_ref())?;
                self.add_unique_using(draft, using)
            }
            ast::TableConstraint::Check(check) => {
                draft.add_check(&self.catalog, check, None)?;
                let name = draft.table.checks.last().map_or("", |c| &c.name);
                self.require_check(&table, name, &check.expr.to_string())
            }
            ast::TableConstraint::ForeignKey(foreign) => {
                let orphans = draft.add_foreign_key(&self.catalog, foreign)?;
                let name = draft.table.foreign_keys.last().map_or("", |f| &f.name);
                self.require_parents(&table, name, &orphans)
            }
            other => Err(Error::unsupported(format_args!("the constraint {other}"))),
        }
    }

    /// An index that is there becomes a constraint, whose name it takes.
    fn add_unique_using(
        &mut self,
        draft: &mut Draft,
        using: &ast::ConstraintUsingIndex,
    ) -> Result<()> {
        let (table, name) = (draft.original.clone(), fold(&using.index_name));
        let Some((index, schema)) = table.live_indexes().find(|(_, index)| index.name == name)
        else {
            let what = format!("index \"{name}\" does not exist");
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, what));
        };
        let declared = table.declared.get(&index);
        let has_expressions =
            |declared: &DeclaredIndex| declared.parts.iter().any(|part| part.column.is_none());
        let has_options =
            |declared: &DeclaredIndex| declared.parts.iter().position(|part| part.options != 0);
        let unfit = match declared {
            _ if !schema.unique => Some(format!("\"{name}\" is not a unique index")),
            Some(declared) if has_expressions(declared) => {
                Some(format!("index \"{name}\" contains expressions"))
            }
            Some(declared) if declared.predicate.is_some() => {
                Some(format!("\"{name}\" is a partial index"))
            }
            Some(declared) => has_options(declared).map(|place| {
                let number = place + 1;
                format!(
                    "index \"{name}\" column number {number} does not have default sorting behavior"
                )
            }),
            None => None,
        };
        if let Some(what) = unfit {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what).with_detail(
                "Cannot create a primary key or unique constraint using such an index.",
            ));
        }
        if !draft.table.bare_unique.remove(&index) {
            let what = format!("index \"{name}\" is already associated with a constraint");
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
        }
        match using.name.as_ref().map(fold).filter(|new| *new != name) {
            Some(new) => self.rename_constraint(draft, &name, &new),
            None => Ok(()),
        }
    }

    pub(super) fn require_check(&mut self, table: &Table, name: &str, text: &str) -> Result<()> {
        let error = Error::new(
            SqlState::CHECK_VIOLATION,
            format!(
                "check constraint \"{name}\" of relation \"{}\" is violated by some row",
                table.name()
            ),
        );
        let table = as_sql(table.key());
        self.require_no_row(&format!("SELECT 1 FROM {table} WHERE NOT ({text}) LIMIT 1"), error)
    }

    /// `orphans`: the query for rows without a parent.
    pub(super) fn require_parents(
        &mut self,
        table: &Table,
        name: &str,
        orphans: &str,
    ) -> Result<()> {
        let error = Error::new(
            SqlState::FOREIGN_KEY_VIOLATION,
            format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{name}\"",
                table.name()
            ),
        );
        self.require_no_row(orphans, error)
    }

    /// NOT VALID: for rows to come.
    fn add_unchecked(
        &mut self,
        draft: &mut Draft,
        constraint: &ast::TableConstraint,
    ) -> Result<()> {
        use ast::TableConstraint as C;
        if !matches!(constraint, C::Check(_) | C::ForeignKey(_)) {
            let what = "this kind of constraint cannot be marked NOT VALID";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        let validations = self.validations.len();
        self.add_constraint(draft, constraint)?;
        self.validations.truncate(validations);
        match constraint {
            C::Check(_) => draft.table.checks.last_mut().map(|check| &mut check.validated),
            _ => draft.table.foreign_keys.last_mut().map(|key| &mut key.validated),
        }
        .into_iter()
        .for_each(|validated| *validated = false);
        Ok(())
    }

    fn validate(&mut self, draft: &mut Draft, name: &str) -> Result<()> {
        let table = draft.original.clone();
        if let Some(check) = draft.table.checks.iter_mut().find(|check| check.name == name) {
            check.validated = true;
            let text = check.text.clone();
            return self.require_check(&table, name, &text);
        }
        if let Some(key) = draft.table.foreign_keys.iter_mut().find(|key| key.name == name) {
            key.validated = true;
            let Some(parent) = self.catalog.table_by_id(key.parent).cloned() else { return Ok(()) };
            let orphans = orphans(&table, &key.columns, &parent, &key.parent_columns);
            return self.require_parents(&table, name, &orphans);
        }
        Err(Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name()),
        ))
    }

    pub(super) fn require_not_null(&mut self, table: &Table, column: ColumnId) -> Result<()> {
        if !table.schema.columns[usize::from(column)].nullable {
            return Ok(());
        }
        let name = table.column_name(column);
        let text =
            format!("SELECT 1 FROM {} WHERE {} IS NULL LIMIT 1", as_sql(table.key()), quoted(name));
        self.require_no_row(&text, contains_nulls(table, name))
    }

    fn add_column(&mut self, draft: &mut Draft, definition: &ast::ColumnDef) -> Result<()> {
        let table = draft.original.clone();
        let constraints = column_constraints(definition);
        if let Some(counted) = Counted::of(definition)? {
            let (place, name) = (draft.next_place(), fold(&definition.name));
            self.add_counted((table.id(), table.key()), (place, &name), counted)?;
        }
        let place = draft.add_column(&self.catalog, definition)?;
        let counted = self.catalog.owned_sequences(table.id(), Some(place)).pop();
        let default = self.catalog.default_of_column(&draft.table, place);
        let value = value_in_old_rows(default, counted.is_some())?;
        if !value.is_null() && !constraints.is_empty() {
            return Err(Error::unsupported("ADD COLUMN with both a default and a constraint")
                .with_hint("Add the constraint in a second statement."));
        }
        let generation = generation(definition);
        if let Some(expr) = generation {
            draft.add_generated(&self.catalog, place, expr)?;
            let nullable = draft.table.schema.columns[usize::from(place)].nullable;
            if !nullable || !constraints.is_empty() {
                return Err(Error::unsupported(
                    "ADD COLUMN of a generated column with a constraint",
                )
                .with_hint("Add the constraint in a second statement."));
            }
        }
        let is_unique = |c: &_| matches!(c, ast::TableConstraint::Unique(_));
        if counted.is_some() && !constraints.iter().all(is_unique) {
            return Err(Error::unsupported("ADD COLUMN with both a sequence and a constraint")
                .with_hint("Add the constraint in a second statement."));
        }
        let nulls = value.is_null() && counted.is_none();
        if nulls && !draft.table.schema.columns[usize::from(place)].nullable {
            let name = draft.table.column_name(place);
            let text = format!("SELECT 1 FROM {} LIMIT 1", as_sql(table.key()));
            self.require_no_row(&text, contains_nulls(&table, name))?;
        }
        let old_columns = table.schema.columns.len() as ColumnId;
        let mut columns: Vec<ColumnSource> = (0..old_columns).map(ColumnSource::Old).collect();
        let source = match (counted, draft.table.generated(place)) {
            (Some(sequence), _) => ColumnSource::Counted(sequence),
            (None, Some(generated)) => ColumnSource::Computed(generated.value.clone()),
            (None, None) => ColumnSource::Constant(value),
        };
        columns.insert(usize::from(place), source);
        self.add_constraints_of_column(draft, place, definition, &constraints)?;
        self.rebuild(&draft.table, columns);
        if draft.table.domains.contains_key(&place) {
            self.put(draft.table.clone());
            self.require_rules(&draft.table, place)?;
        }
        Ok(())
    }

    fn add_constraints_of_column(
        &mut self,
        draft: &mut Draft,
        place: ColumnId,
        definition: &ast::ColumnDef,
        constraints: &[ast::TableConstraint],
    ) -> Result<()> {
        // The rows' values for the new column are all NULL, which no other constraint minds.
        for constraint in constraints {
            match constraint {
                ast::TableConstraint::Unique(unique) => {
                    if nulls_alike(unique) {
                        return Err(Error::unsupported("ADD COLUMN … UNIQUE NULLS NOT DISTINCT")
                            .with_hint("Add the column, then the constraint."));
                    }
                    let (name, columns) = draft.unique(&self.catalog, unique)?;
                    let index = draft.push_index(types::IndexSchema {
                        name,
                        columns,
                        unique: true,
                        dropped: false,
                    })?;
                    draft.note_deferral(index, unique)?;
                }
                ast::TableConstraint::Check(check) => {
                    let column = fold(&definition.name);
                    draft.add_check(&self.catalog, check, Some(&column))?;
                    let holds = draft.table.checks.last().map(|c| c.condition.clone());
                    if holds.is_some_and(|c| c.columns().iter().any(|c| *c != place)) {
                        return Err(Error::unsupported("ADD COLUMN with a check of other columns")
                            .with_hint("Add the constraint in a second statement."));
                    }
                }
                ast::TableConstraint::ForeignKey(foreign) => {
                    draft.add_foreign_key(&self.catalog, foreign)?;
                }
                _ => {
                    return Err(Error::unsupported("ADD COLUMN with a primary key")
                        .with_hint("Add the column, fill it, then ADD PRIMARY KEY."));
                }
            }
        }
        Ok(())
    }

    pub(super) fn drop_column(
        &mut self,
        draft: &mut Draft,
        name: &str,
        (if_exists, cascade): (bool, bool),
    ) -> Result<()> {
        let Some(column) = draft.table.schema.column(name) else {
            return match if_exists {
                true => Ok(()),
                false => draft.table.column_named(name).map(drop),
            };
        };
        if draft.table.schema.primary_key.contains(&column) {
            self.drop_primary_key(draft, cascade)?;
        }
        let table = draft.original.clone();
        let hidden: Vec<ColumnId> = (0..)
            .zip(&draft.table.schema.columns)
            .filter(|(_, c)| c.is_hidden())
            .map(|(id, _)| id)
            .collect();
        let uses = |(place, generated): &&(ColumnId, Generated)| {
            !hidden.contains(place) && generated.value.columns().contains(&column)
        };
        if let Some((generated, _)) = draft.table.generated.iter().find(uses) {
            let (name, generated) = (table.name(), table.column_name(*generated));
            let column = table.column_name(column);
            return Err(Error::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!(
                    "cannot drop column {column} of table {name} because other objects depend on it"
                ),
            )
            .with_detail(format!(
                "column {generated} of table {name} depends on column {column} of table {name}"
            )));
        }
        draft.table.generated.retain(|(place, _)| *place != column);
        for index in draft.indexes_with(column) {
            self.refuse_if_referenced(&table, index)?;
            self.store.push(StoreChange::DropIndex { table: table.id(), index });
            draft.schema().indexes[usize::from(index) - 1].dropped = true;
            draft.forget_computed(index);
        }
        draft.table.checks.retain(|c| !c.condition.columns().contains(&column));
        draft.table.foreign_keys.retain(|f| !f.columns.contains(&column));
        self.drop_owned(table.id(), Some(column), false)?;
        draft.table.defaults[usize::from(column)] = None;
        let dropped = &mut draft.schema().columns[usize::from(column)];
        dropped.dropped = true;
        dropped.nullable = true;
        self.describe(draft);
        Ok(())
    }

    fn drop_constraint(
        &mut self,
        draft: &mut Draft,
        name: &str,
        (if_exists, cascade): (bool, bool),
    ) -> Result<()> {
        let table = draft.original.clone();
        let index = draft.table.unique_constraints().find(|(_, index)| index.name == name);
        if let Some((index, _)) = index {
            self.refuse_if_referenced(&table, index)?;
            draft.schema().indexes[usize::from(index) - 1].dropped = true;
            self.store.push(StoreChange::DropIndex { table: table.id(), index });
            return Ok(());
        }
        if !table.schema.hidden_row_id && table.primary_key_name == name {
            return self.drop_primary_key(draft, cascade);
        }
        let constraints = draft.table.checks.len() + draft.table.foreign_keys.len();
        draft.table.checks.retain(|c| c.name != name);
        draft.table.foreign_keys.retain(|f| f.name != name);
        let left = draft.table.checks.len() + draft.table.foreign_keys.len();
        match left < constraints || if_exists {
            true => Ok(()),
            false => Err(Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name()),
            )),
        }
    }

    fn rename_column(&mut self, draft: &mut Draft, old: &str, new: &str) -> Result<()> {
        let column = draft.table.column_named(old)?;
        if draft.table.schema.column(new).is_some() {
            return Err(Error::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{new}\" of relation \"{}\" already exists", draft.table.name()),
            ));
        }
        for check in &mut draft.table.checks {
            if check.condition.columns().contains(&column) {
                // What is checked is the condition; its text is shown, and may not be read again.
                if let Ok(text) = with_column_renamed(&check.text, old, new) {
                    check.text = text;
                }
            }
        }
        for (_, generated) in &mut draft.table.generated {
            if let Ok(text) = with_column_renamed(&generated.text, old, new) {
                generated.text = text;
            }
        }
        draft.schema().columns[usize::from(column)].name = new.to_owned();
        draft.rename_in_indexes(old, new);
        self.describe(draft);
        Ok(())
    }

    fn rename_table(&mut self, draft: &mut Draft, new: &str) -> Result<()> {
        if self.catalog.relation_exists(new) {
            return Err(relation_exists(new));
        }
        draft.schema().name = new.to_owned();
        draft.rename_view(new);
        self.describe(draft);
        Ok(())
    }

    fn alter_column(
        &mut self,
        draft: &mut Draft,
        column: ColumnId,
        op: &ast::AlterColumnOperation,
    ) -> Result<()> {
        use ast::AlterColumnOperation as O;
        let place = usize::from(column);
        let name = draft.table.column_name(column).to_owned();
        match op {
            O::SetDefault { .. } | O::DropDefault if self.is_identity(draft, column) => {
                let table = draft.table.name();
                let what =
                    format!("column \"{name}\" of relation \"{table}\" is an identity column");
                Err(Error::new(SqlState::SYNTAX_ERROR, what)
                    .with_hint("Use ALTER TABLE … ALTER COLUMN … DROP IDENTITY instead."))
            }
            O::DropNotNull if self.is_identity(draft, column) => {
                let table = draft.table.name();
                let what =
                    format!("column \"{name}\" of relation \"{table}\" is an identity column");
                Err(Error::new(SqlState::SYNTAX_ERROR, what))
            }
            O::SetDefault { .. } if draft.table.generated(column).is_some() => {
                let table = draft.table.name();
                let what =
                    format!("column \"{name}\" of relation \"{table}\" is a generated column");
                Err(Error::new(SqlState::SYNTAX_ERROR, what))
            }
            O::SetDefault { value } => {
                let to = draft.table.column_type(column).clone();
                let value = default_of(&self.catalog, value, &name, &to)?;
                draft.table.defaults[place] = Some(value);
                Ok(())
            }
            O::DropDefault => {
                draft.table.defaults[place] = None;
                Ok(())
            }
            O::SetNotNull => {
                self.require_not_null(&draft.original.clone(), column)?;
                self.set_nullable(draft, column, false);
                Ok(())
            }
            O::DropNotNull if draft.table.schema.primary_key.contains(&column) => Err(Error::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("column \"{name}\" is in a primary key"),
            )),
            O::DropNotNull => {
                self.set_nullable(draft, column, true);
                Ok(())
            }
            O::AddGenerated { generated_as, sequence_options } => {
                self.add_identity(draft, column, *generated_as, sequence_options.as_deref())
            }
            O::SetDataType { data_type, using, .. } => {
                self.alter_type(draft, column, data_type, using.as_ref())
            }
        }
    }

    fn is_identity(&self, draft: &Draft, column: ColumnId) -> bool {
        let identities = self.catalog.identities(draft.table.id());
        identities.iter().any(|(owner, _)| *owner == column)
    }

    fn add_identity(
        &mut self,
        draft: &mut Draft,
        column: ColumnId,
        kind: Option<ast::GeneratedAs>,
        options: Option<&[ast::SequenceOptions]>,
    ) -> Result<()> {
        let (table, place) = (draft.original.clone(), usize::from(column));
        let name = table.column_name(column).to_owned();
        let column_is = |what: &str| {
            let table = table.name();
            let what = format!("column \"{name}\" of relation \"{table}\" {what}");
            Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
        };
        if self.catalog.identities(table.id()).iter().any(|(owner, _)| *owner == column) {
            return Err(column_is("is already an identity column"));
        }
        if table.defaults[place].is_some() {
            return Err(column_is("already has a default value"));
        }
        if table.schema.columns[place].nullable {
            return Err(column_is("must be declared NOT NULL before identity can be added"));
        }
        let identity = match kind {
            Some(ast::GeneratedAs::Always) => Identity::Always,
            _ => Identity::ByDefault,
        };
        let data_type = table.column_type(column).clone();
        let options = SequenceOptions::from(options.unwrap_or_default());
        let counted = Counted::Identity(data_type.clone(), identity, options);
        self.add_counted((table.id(), table.key()), (column, &name), counted)?;
        let owned = self.catalog.owned_sequences(table.id(), Some(column));
        let identity = owned.iter().find(|s| s.owner.is_some_and(|o| o.identity.is_some()));
        draft.table.defaults[place] = identity.map(|sequence| next_value(sequence, &data_type));
        Ok(())
    }

    /// Keys of nullable columns have a byte more, so indexes over the column are built anew.
    fn set_nullable(&mut self, draft: &mut Draft, column: ColumnId, nullable: bool) {
        let changed = &mut draft.schema().columns[usize::from(column)];
        if changed.nullable == nullable {
            return;
        }
        changed.nullable = nullable;
        let indexed = draft.table.live_indexes().any(|(_, i)| i.columns.contains(&column));
        match indexed {
            true => {
                let columns = 0..draft.table.schema.columns.len() as ColumnId;
                self.rebuild(&draft.table, columns.map(ColumnSource::Old).collect());
            }
            false => self.describe(draft),
        }
    }

    fn describe(&mut self, draft: &Draft) {
        let schema = Arc::clone(&draft.table.schema);
        self.store.push(StoreChange::Describe((*schema).clone()));
    }
}

fn contains_nulls(table: &Table, column: &str) -> Error {
    Error::new(
        SqlState::NOT_NULL_VIOLATION,
        format!("column \"{column}\" of relation \"{}\" contains null values", table.name()),
    )
}

/// What rows that are there get in a new column.
fn value_in_old_rows(default: Option<&Expr>, is_counted: bool) -> Result<Value> {
    match default {
        None => Ok(Value::Null),
        Some(_) if is_counted => Ok(Value::Null),
        Some(Expr::Const(value)) => Ok(value.clone()),
        Some(_) => Err(Error::unsupported("ADD COLUMN with a default that is not constant")
            .with_hint("Add the column, UPDATE it, then SET DEFAULT.")),
    }
}
