//! CREATE TYPE … AS ENUM, ALTER TYPE and DROP TYPE.
//!
//! A type has two numbers of those that tables have, for itself and for its arrays. No statement
//! about a type touches a row: rows hold positions ([`types::enums`]), which neither a new label
//! nor another name changes.
//!
//! A label that is renamed is renamed in the views that name it
//! ([`relabelled`](super::relabelled)).
//!
//! Departure: values that a transaction has added may be used in it at once.

use std::sync::Arc;

use sqlparser::ast;
use types::enums::{LabelPlace, label_exists};
use types::{DataType, EnumType, Error, Result, SqlState, TableId};

use super::StoreChange;
use super::apply::Transition;
use super::schemas::named;
use super::table::Draft;
use crate::schema::catalog::{Catalog, Commented, Table, View};
use crate::schema::collations::FIRST_USER;
use crate::schema::user_types::{domain_uses, is_of, names_type, uses_type};
use crate::syntax::names::{bare, beside, fold, key, no_schema, object_name};
use crate::syntax::user_types::TypeStatement;
use crate::syntax::walk;

pub(super) fn no_type(key: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{key}\" does not exist"))
}

fn type_exists(key: &str) -> Error {
    Error::new(SqlState::DUPLICATE_OBJECT, format!("type \"{}\" already exists", bare(key)))
}

/// What a type cannot be dropped for.
struct Dependent {
    shown: String,
    what: Uses,
}

pub(super) enum Uses {
    Column(TableId, String),
    Default(TableId, usize),
    Check(TableId, String),
    Routine(String),
    View(String),
    Index(String),
    Domain(TableId),
}

impl Transition {
    pub(super) fn type_statement(&mut self, statement: &TypeStatement) -> Result<()> {
        use TypeStatement as S;
        match statement {
            S::CreateEnum { name, labels, if_not_exists } => {
                self.create_enum(&object_name(name)?, labels, *if_not_exists)
            }
            S::AddLabel { name, label, place, if_not_exists } => {
                self.add_label(&object_name(name)?, label, place, *if_not_exists)
            }
            S::RenameLabel { name, label, to } => self.rename_label(&object_name(name)?, label, to),
            S::Rename { name, to } => {
                let name = object_name(name)?;
                self.rename_enum(&name, beside(&name, &fold(to)))
            }
            S::SetSchema { name, schema } => {
                let (name, schema) = (object_name(name)?, fold(schema));
                match self.catalog.has_namespace(&schema) {
                    true => self.rename_enum(&name, key(&schema, bare(&name))),
                    false => Err(no_schema(&schema)),
                }
            }
            S::Drop { names, if_exists, cascade } => self.drop_types(names, *if_exists, *cascade),
        }
    }

    fn create_enum(&mut self, key: &str, labels: &[String], if_not_exists: bool) -> Result<()> {
        self.check_namespace(key)?;
        let is_there = self.catalog.find_enum(key).is_some();
        if is_there && if_not_exists {
            return Ok(());
        }
        // A relation's rows are of a type of its name.
        if self.catalog.has_type(key) {
            return Err(type_exists(key));
        }
        let id = TableId(self.catalog.next_table);
        self.catalog.next_table += 2;
        let of = EnumType::new(FIRST_USER + id.0, key, labels)?;
        self.catalog.enums.insert(id, Arc::new(of));
        Ok(())
    }

    fn add_label(
        &mut self,
        key: &str,
        label: &str,
        place: &LabelPlace,
        if_not_exists: bool,
    ) -> Result<()> {
        self.change_enum(key, |of| match of.position(label) {
            None => of.add(label, place),
            Some(_) if if_not_exists => Ok(()),
            Some(_) => Err(label_exists(label)),
        })
    }

    fn rename_enum(&mut self, name: &str, new: String) -> Result<()> {
        if self.catalog.find_enum(name).is_some() && self.catalog.has_type(&new) {
            return Err(type_exists(&new));
        }
        self.change_enum(name, |of| {
            of.name = new;
            Ok(())
        })
    }

    pub(super) fn change_enum(
        &mut self,
        key: &str,
        change: impl FnOnce(&mut EnumType) -> Result<()>,
    ) -> Result<()> {
        let Some((id, of)) = self.catalog.find_enum(key) else { return Err(no_type(key)) };
        let mut of = EnumType::clone(of);
        change(&mut of)?;
        for table in self.catalog.renew_type(id, of) {
            if let Some(table) = self.catalog.table_by_id(table) {
                self.store.push(StoreChange::Describe((*table.schema).clone()));
            }
        }
        Ok(())
    }

    /// What is to be made with this key is a relation, whose rows are to have a type of its name.
    pub(super) fn check_no_type(&self, key: &str) -> Result<()> {
        match self.catalog.find_enum(key) {
            None => Ok(()),
            Some(_) => Err(type_exists(key).with_hint(
                "A relation has an associated type of the same name, so you must use a name that \
                 doesn't conflict with any existing type.",
            )),
        }
    }

    pub(super) fn drop_types(
        &mut self,
        names: &[ast::ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        for name in names {
            let name = object_name(name)?;
            if let Some(domain) = self.catalog.find_domain(&name).cloned() {
                self.drop_domain(&domain, cascade)?;
                continue;
            }
            let Some((id, of)) = self.catalog.find_enum(&name) else {
                match if_exists {
                    true => continue,
                    false => return Err(no_type(&name)),
                }
            };
            let of = Arc::clone(of);
            let dependents = self.catalog.dependents_of(&of);
            if !dependents.is_empty() && !cascade {
                let what = format!("cannot drop type {name} because other objects depend on it");
                let details: Vec<String> = dependents
                    .iter()
                    .take(100)
                    .map(|it| format!("{} depends on type {name}", it.shown))
                    .collect();
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                    .with_detail(details.join("\n"))
                    .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            for dependent in dependents {
                self.drop_dependent(dependent.what)?;
            }
            self.catalog.enums.remove(&id);
        }
        Ok(())
    }

    pub(super) fn drop_dependent(&mut self, what: Uses) -> Result<()> {
        match what {
            Uses::Column(id, column) => {
                let Some(table) = self.catalog.table_by_id(id).cloned() else { return Ok(()) };
                let operation = ast::AlterTableOperation::DropColumn {
                    has_column_keyword: true,
                    column_names: vec![ast::Ident::with_quote('"', &column)],
                    if_exists: true,
                    drop_behavior: Some(ast::DropBehavior::Cascade),
                };
                self.refuse_if_viewed(table.key(), &operation)?;
                let mut draft = Draft::alter(&table);
                self.drop_column(&mut draft, &column, (true, true))?;
                self.put(draft.table);
            }
            Uses::Default(id, column) => self.edit(id, |table| table.defaults[column] = None),
            Uses::Check(id, name) => {
                self.edit(id, |table| table.checks.retain(|check| check.name != name));
            }
            Uses::Domain(id) => {
                if let Some(domain) = self.catalog.domain_by_id(id).cloned() {
                    self.drop_domain(&domain, true)?;
                }
            }
            Uses::Index(name) => self.drop_indexes(&named(&[name]), true)?,
            Uses::Routine(name) => _ = self.catalog.routines.remove(&name),
            Uses::View(name) => {
                if self.catalog.view(&name).is_some() {
                    self.drop_views_on("view", &name, &[], true)?;
                    self.catalog.views.remove(&name);
                }
            }
        }
        Ok(())
    }
}

impl Catalog {
    fn dependents_of(&self, of: &EnumType) -> Vec<Dependent> {
        let mut found = Vec::new();
        for view in self.views().filter(|view| self.view_names_type(view, of)) {
            let shown = format!("view {}", view.name);
            found.push(Dependent { shown, what: Uses::View(view.name.clone()) });
        }
        for domain in self.domains().filter(|domain| domain_uses(domain, of)) {
            let shown = format!("type {}", bare(&domain.name));
            found.push(Dependent { shown, what: Uses::Domain(domain.id) });
        }
        for table in self.tables() {
            self.dependents_in(table, of, &mut found);
        }
        for (name, routine) in self.routines() {
            if uses_type(&routine.definition, of) {
                let (kind, _) = self.called(&Commented::Routine(name.to_owned()));
                let types: Vec<String> =
                    routine.definition.input_types().map(DataType::name).collect();
                let shown = format!("{kind} {name}({})", types.join(","));
                found.push(Dependent { shown, what: Uses::Routine(name.to_owned()) });
            }
        }
        found
    }

    fn dependents_in(&self, table: &Table, of: &EnumType, found: &mut Vec<Dependent>) {
        let id = table.id();
        for (column, declared) in table.schema.visible_columns() {
            let on = format!("column {} of table {}", declared.name, table.key());
            if is_of(&declared.data_type, of) {
                let what = Uses::Column(id, declared.name.clone());
                found.push(Dependent { shown: on, what });
                continue;
            }
            let generated = table.generated(column);
            if generated.is_some_and(|generated| names_type(&generated.value, of)) {
                let what = Uses::Column(id, declared.name.clone());
                found.push(Dependent { shown: on, what });
                continue;
            }
            let place = usize::from(column);
            if table.defaults[place].as_ref().is_some_and(|default| names_type(default, of)) {
                let what = Uses::Default(id, place);
                found.push(Dependent { shown: format!("default value for {on}"), what });
            }
        }
        let checks = table.checks.iter().filter(|check| {
            // Those of the type's columns go with them.
            let mut columns = check.condition.columns().into_iter();
            names_type(&check.condition, of)
                && !columns.any(|column| is_of(table.column_type(column), of))
        });
        for check in checks {
            let shown = format!("constraint {} on table {}", check.name, table.key());
            found.push(Dependent { shown, what: Uses::Check(id, check.name.clone()) });
        }
    }

    /// Whether the text of a view has the type's name.
    fn view_names_type(&self, view: &View, of: &EnumType) -> bool {
        walk::casts(&*view.query, |named| {
            self.data_type(named).is_ok_and(|found| is_of(&found, of))
        })
    }
}
