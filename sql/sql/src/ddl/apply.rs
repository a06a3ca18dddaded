//! Applies a DDL statement to a catalog: a new catalog comes out, and what changes in storage.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use identity::{Actor, KeyId};
use parking_lot::Mutex;
use procedure::{Output, Procedure, Step};
use sqlparser::ast;
use types::{Error, Height, IndexSchema, Layout, Result, SqlState, TableId};

use super::computed;
use super::sequence::counted_columns;
use super::table::Draft;
use super::{Brought, ColumnSource, StoreChange, Validation};
use crate::bind::{Binder, is_missing, parameter_defaults};
use crate::compile::compile_routine;
use crate::schema::catalog::{Catalog, Reference, Routine, Table};
use crate::settings::session_info::SessionInfo;
use crate::syntax::ddl::Ddl;
use crate::syntax::names::{self, as_sql, beside, fold, object_name, quoted, simple_name};
use crate::syntax::parse::parse_query;
use crate::syntax::routine::{CreateFunction, RoutineKind};

/// A catalog on its way to the next one, and what must happen besides.
pub(super) struct Transition {
    /// Who asks for it.
    pub actor: Actor,
    pub signers: Vec<KeyId>,
    pub approvers: Vec<KeyId>,
    /// Of its block.
    pub height: Height,
    pub catalog: Catalog,
    pub store: Vec<StoreChange>,
    pub validations: Vec<Validation>,
}

impl Catalog {
    /// The catalog after `ddl`, the changes that storage must make, in order, and queries that must
    /// all come back empty, each over the data as it is before one of the changes, or the statement
    /// fails.
    ///
    /// A pure function: the same catalog and text give the same ids on every replica.
    pub fn apply(&self, ddl: &Ddl) -> Result<(Catalog, Vec<StoreChange>, Vec<Validation>)> {
        self.apply_as(Actor::BOOTSTRAP, ddl)
    }

    /// The same, where it is asked for by another than the superuser that the ledger began with.
    pub fn apply_as(
        &self,
        actor: Actor,
        ddl: &Ddl,
    ) -> Result<(Catalog, Vec<StoreChange>, Vec<Validation>)> {
        self.apply_brought(actor, Brought::default(), ddl)
    }

    /// The same of what came to a block.
    pub fn apply_brought(
        &self,
        actor: Actor,
        Brought { signers, approvers, height }: Brought<'_>,
        ddl: &Ddl,
    ) -> Result<(Catalog, Vec<StoreChange>, Vec<Validation>)> {
        let (store, validations) = Default::default();
        let (signers, approvers) = (signers.to_vec(), approvers.to_vec());
        let catalog = self.clone();
        let mut transition =
            Transition { actor, signers, approvers, height, catalog, store, validations };
        transition.check_may(ddl)?;
        transition.run(ddl)?;
        transition.check_references(self)?;
        transition.check_collated_keys()?;
        transition.assign_access(self);
        transition.drop_orphaned_comments();
        transition.drop_orphaned_policies();
        // What a session has for itself needs no one's approval.
        if self.temporary().is_none() {
            transition.check_approvers(self)?;
            transition.check_approved(self, ddl)?;
        }
        transition.renew_routines();
        transition.catalog.version += 1;
        Ok((transition.catalog, transition.store, transition.validations))
    }
}

impl Transition {
    fn run(&mut self, ddl: &Ddl) -> Result<()> {
        match ddl {
            Ddl::CreateTable(create) => return self.create_table(create),
            Ddl::AlterTable(alter) => self.alter_table(alter)?,
            Ddl::DropTables { .. } | Ddl::DropViews { .. } | Ddl::DropMaterialized { .. } => {
                self.drop_relations(ddl)?
            }
            Ddl::Truncate { names, cascade, restart_identity } => {
                return self.truncate(names, *cascade, *restart_identity);
            }
            Ddl::CreateSequence { name, if_not_exists, options } => {
                self.create_sequence(name, *if_not_exists, options)?
            }
            Ddl::AlterSequence { name, if_exists, change } => {
                self.alter_sequence(name, *if_exists, change)?
            }
            Ddl::DropSequences { names, if_exists, cascade } => {
                self.drop_sequences(names, *if_exists, *cascade)?
            }
            Ddl::AlterIdentity { table, if_exists, column, change } => {
                self.alter_identity(table, *if_exists, column, change)?
            }
            Ddl::CreateIndex(create) => self.create_index(create)?,
            Ddl::DropIndexes { names, if_exists } => self.drop_indexes(names, *if_exists)?,
            Ddl::CreateView(create) => self.create_view(create)?,
            Ddl::CreateMaterialized { create, with_data } => {
                self.create_materialized(create, *with_data)?
            }
            Ddl::Refresh { name, with_data } => self.populate(name, *with_data)?,
            Ddl::Rename { what, name, to, if_exists } => {
                let name = object_name(name)?;
                self.rename(*what, (&name, &beside(&name, &fold(to))), *if_exists)?;
            }
            Ddl::CreateRoutine { function, or_replace } => {
                return self.create_routine(function, *or_replace);
            }
            Ddl::DropRoutines { kind, names, if_exists } => {
                return self.drop_routines(*kind, names, *if_exists);
            }
            Ddl::CreateSchema { name, if_not_exists, owner } => {
                return self.create_schema(name, *if_not_exists, owner.as_ref());
            }
            Ddl::DropSchemas { names, if_exists, cascade } => {
                self.drop_schemas(names, *if_exists, *cascade)?;
            }
            Ddl::Type(statement) => self.type_statement(statement)?,
            Ddl::Domain(statement) => self.domain_statement(statement)?,
            Ddl::Collation(statement) => self.collation_statement(statement)?,
            Ddl::Role(statement) => return self.role_statement(statement),
            Ddl::Organisation(statement) => return self.organisation_statement(statement),
            Ddl::ApprovalPolicy(statement) => return self.approval_policy(statement),
            Ddl::Database(statement) => return self.database_statement(statement),
            Ddl::Grant(statement) => return self.grant(statement),
            Ddl::DefaultPrivileges(said) => return self.default_privileges(said),
            Ddl::DropOwned { roles, cascade } => return self.drop_all_owned(roles, *cascade),
            Ddl::ReassignOwned { roles, to } => return self.reassign_owned(roles, to),
            Ddl::ChangeOwner { owned, if_exists, name, role } => {
                return self.change_owner(*owned, *if_exists, name, role);
            }
            Ddl::CommentOnConstraint { name, table, text } => {
                return self.comment_on_constraint(name, table, text.as_deref());
            }
            Ddl::Comment { kind, name, text } => {
                return self.comment(*kind, name, text.as_deref());
            }
        }
        self.link_references();
        Ok(())
    }

    pub(super) fn create_table(&mut self, create: &ast::CreateTable) -> Result<()> {
        let name = object_name(&create.name)?;
        if self.catalog.relation_exists(&name) {
            if create.if_not_exists && self.catalog.find_table(&name).is_some() {
                return Ok(());
            }
            return Err(relation_exists(&name));
        }
        self.check_namespace(&name)?;
        self.check_no_type(&name)?;
        let id = TableId(self.catalog.next_table);
        self.catalog.next_table += 1;
        for (column, column_name, counted) in counted_columns(create)? {
            self.add_counted((id, &name), (column, &column_name), counted)?;
        }
        let table = Draft::create(&self.catalog, id, &name, create)?;
        self.store.push(StoreChange::CreateTable((*table.schema).clone()));
        self.set_layout(id, Layout::Row, table.layout);
        let parents: Vec<TableId> = table.foreign_keys.iter().map(|key| key.parent).collect();
        self.catalog.table_names.insert(name, id);
        self.catalog.tables.insert(id, Arc::new(table));
        if let (Some(end), Some(temporary)) = (create.on_commit, &mut self.catalog.temporary)
            && end != ast::OnCommit::PreserveRows
        {
            Arc::make_mut(temporary).on_commit.insert(id, end);
        }
        // No table has a higher number, so this is where links are that are made for all at once.
        for (key, parent) in parents.into_iter().enumerate() {
            self.edit(parent, |parent| parent.referenced_by.push(Reference { child: id, key }));
        }
        Ok(())
    }

    pub(super) fn drop_tables(
        &mut self,
        names: &[ast::ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut dropped = Vec::new();
        for name in names {
            let name = object_name(name)?;
            match self.catalog.find_table(&name) {
                Some(table) => dropped.push(table.clone()),
                None if if_exists => {}
                None => {
                    return Err(Error::new(
                        SqlState::UNDEFINED_TABLE,
                        format!("table \"{name}\" does not exist"),
                    ));
                }
            }
        }
        let ids: Vec<TableId> = dropped.iter().map(|t| t.id()).collect();
        let names: Vec<String> = dropped.iter().map(|table| table.key().to_owned()).collect();
        for table in &dropped {
            self.drop_views_on(table.kind(), table.key(), &names, cascade)?;
            for reference in &table.referenced_by {
                if ids.contains(&reference.child) {
                    continue;
                }
                if !cascade {
                    return Err(self.still_referenced(table, reference));
                }
                self.edit(reference.child, |child| {
                    child.foreign_keys.retain(|key| key.parent != table.id());
                });
            }
        }
        dropped.iter().try_for_each(|table| self.forget_table(table, cascade))
    }

    /// Nothing depends on it any more.
    pub(super) fn forget_table(&mut self, table: &Table, cascade: bool) -> Result<()> {
        self.drop_owned(table.id(), None, cascade)?;
        self.catalog.table_names.remove(table.key());
        if self.catalog.tables.remove(&table.id()).is_some() {
            self.store.push(StoreChange::DropTable(table.id()));
        }
        Ok(())
    }

    fn still_referenced(&self, table: &Table, reference: &Reference) -> Error {
        let (child, key) = match self.catalog.table_by_id(reference.child) {
            Some(child) => {
                let key = child.foreign_keys.get(reference.key);
                (child.name(), key.map_or("", |key| key.name.as_str()))
            }
            None => ("", ""),
        };
        Error::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop table {} because other objects depend on it", table.name()),
        )
        .with_detail(format!("constraint {key} on table {child} depends on table {}", table.name()))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
    }

    fn truncate(
        &mut self,
        names: &[ast::ObjectName],
        cascade: bool,
        restart_identity: bool,
    ) -> Result<()> {
        let tables = self.catalog.truncated(names, cascade)?;
        let mut ids: Vec<TableId> = tables.iter().map(|t| t.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        if restart_identity {
            ids.iter().for_each(|id| self.restart_owned(*id));
        }
        self.store.extend(ids.into_iter().map(StoreChange::Truncate));
        Ok(())
    }

    fn create_index(&mut self, create: &ast::CreateIndex) -> Result<()> {
        let method = create.using.as_ref().map(ToString::to_string).unwrap_or_default();
        if !matches!(method.to_ascii_lowercase().as_str(), "" | "btree" | "hash") {
            return Err(Error::unsupported(format_args!("an index USING {method}"))
                .with_hint("Indexes are ordered; USING btree says so."));
        }
        let table = self.catalog.table(&object_name(&create.table_name)?)?.clone();
        let mut draft = Draft::alter(&table);
        let is_plain = computed::is_plain(create);
        let nulls_alike = create.unique && create.nulls_distinct == Some(false);
        let columns = match is_plain {
            true => draft.index_columns(&create.columns)?,
            false => Vec::new(),
        };
        // An index leads to the row whatever it holds.
        for included in &create.include {
            table.column_named(&fold(included))?;
        }
        let name = match &create.name {
            Some(name) => simple_name(name)?,
            None if is_plain => self.free_name(table.key(), &draft.default_name(&columns, "idx")),
            None => self.free_name(table.key(), &computed::default_name(&table, create)),
        };
        if self.catalog.relation_exists(&beside(table.key(), &name)) {
            return match create.if_not_exists {
                true => Ok(()),
                false => Err(relation_exists(&name)),
            };
        }
        let index = match is_plain {
            true => {
                let unique = create.unique.then_some(nulls_alike);
                self.add_index(&mut draft, name, columns, unique)?
            }
            false if nulls_alike => {
                let what = "NULLS NOT DISTINCT of an index of expressions or of some rows";
                return Err(Error::unsupported(what));
            }
            false => self.create_computed(&mut draft, create, name)?,
        };
        if nulls_alike {
            draft.table.nulls_alike.insert(index);
        }
        if create.unique {
            draft.table.bare_unique.insert(index);
        }
        self.put(draft.table);
        Ok(())
    }

    /// Adds an index to an existing table, its rows included; of a unique one it is said whether
    /// NULLs are alike in it.
    pub(super) fn add_index(
        &mut self,
        draft: &mut Draft,
        name: String,
        columns: Vec<u16>,
        unique: Option<bool>,
    ) -> Result<types::IndexId> {
        if let Some(nulls_alike) = unique {
            let error = Error::new(
                SqlState::UNIQUE_VIOLATION,
                format!("could not create unique index \"{name}\""),
            )
            .with_detail(format!("Key ({}) is duplicated.", draft.names(&columns)));
            self.require_distinct(&draft.original, &columns, nulls_alike, error)?;
        }
        let schema = IndexSchema { name, columns, unique: unique.is_some(), dropped: false };
        let index = draft.push_index(schema.clone())?;
        self.store.push(StoreChange::CreateIndex { table: draft.table.id(), index, schema });
        Ok(index)
    }

    /// No two rows with the same values, none of them NULL unless NULLs are alike.
    pub(super) fn require_distinct(
        &mut self,
        table: &Table,
        columns: &[u16],
        nulls_alike: bool,
        error: Error,
    ) -> Result<()> {
        if table.check_populated().is_err() {
            return Ok(());
        }
        let names: Vec<String> = columns.iter().map(|c| quoted(table.column_name(*c))).collect();
        let not_null: Vec<String> = names.iter().map(|n| format!("{n} IS NOT NULL")).collect();
        let counts = if nulls_alike { "true".to_owned() } else { not_null.join(" AND ") };
        let text = format!(
            "SELECT 1 FROM {} WHERE {} GROUP BY {} HAVING count(*) > 1 LIMIT 1",
            as_sql(table.key()),
            counts,
            names.join(", ")
        );
        self.require_no_row(&text, error)
    }

    /// Adds a validation. It is bound to the catalog after the operations before this one, and runs
    /// over their tables: ALTER TABLE may add a column and a constraint on it.
    pub(super) fn require_no_row(&mut self, text: &str, error: Error) -> Result<()> {
        let session = SessionInfo::default();
        let mut binder = Binder::new(&self.catalog, &session, Vec::new());
        let Some(query) = parse_query(text)? else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "a validation is no query"));
        };
        let bound = binder.query(&query)?;
        let mut steps = std::mem::take(&mut binder.steps);
        steps.push(Step::EmitQuery { query: bound.query });
        self.validations.push(Validation {
            after: self.store.len(),
            query: Procedure {
                name: text.to_owned(),
                parameters: Vec::new(),
                registers: binder.next_register,
                register_names: Box::default(),
                body: steps.into(),
                output: Output::Rows(bound.columns),
                tag: "SELECT".into(),
                read_only: true,
                draws: false,
                sequences: Box::default(),
            },
            error,
        });
        Ok(())
    }

    pub(super) fn drop_indexes(
        &mut self,
        names: &[ast::ObjectName],
        if_exists: bool,
    ) -> Result<()> {
        for name in names {
            let name = object_name(name)?;
            let Some((table, index)) = self.catalog.find_index(&name) else {
                if if_exists {
                    continue;
                }
                return Err(Error::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("index \"{name}\" does not exist"),
                ));
            };
            let table = table.clone();
            if index == 0 {
                return Err(Error::unsupported("dropping a primary key's index"));
            }
            if let Some((_, index)) = table.unique_constraints().find(|(id, _)| *id == index) {
                let (name, table) = (&index.name, table.name());
                return Err(Error::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop index {name} because constraint {name} on table {table} \
                         requires it"
                    ),
                )
                .with_hint(format!("You can drop constraint {name} on table {table} instead.")));
            }
            self.refuse_if_referenced(&table, index)?;
            self.store.push(StoreChange::DropIndex { table: table.id(), index });
            let mut draft = Draft::alter(&table);
            draft.schema().indexes[usize::from(index) - 1].dropped = true;
            if draft.forget_computed(index) {
                self.store.push(StoreChange::Describe((*draft.table.schema).clone()));
            }
            self.put(draft.table);
        }
        Ok(())
    }

    /// Foreign keys look their parents up by an index, which must stay.
    pub(super) fn refuse_if_referenced(&self, table: &Table, index: u16) -> Result<()> {
        for reference in &table.referenced_by {
            let child = self.catalog.table_by_id(reference.child);
            let key = child.and_then(|child| child.foreign_keys.get(reference.key));
            if key.is_some_and(|key| key.parent_index == index) {
                return Err(Error::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop the index because constraint {} on table {} depends on it",
                        key.map_or("", |key| &key.name),
                        child.map_or("", |child| child.name())
                    ),
                ));
            }
        }
        Ok(())
    }

    fn create_routine(&mut self, function: &CreateFunction, or_replace: bool) -> Result<()> {
        if let Some(existing) = self.catalog.routine(&function.name) {
            if existing.definition.kind != function.kind {
                return Err(Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot change the kind of routine \"{}\"", function.name),
                ));
            }
            let inputs = |routine: &CreateFunction| -> Vec<types::DataType> {
                routine.input_types().map(types::DataType::without_modifier).collect()
            };
            if inputs(&existing.definition) != inputs(function) {
                return Err(Error::unsupported(format_args!(
                    "a second routine of the name \"{}\"",
                    function.name
                ))
                .with_hint(
                    "A name stands for one routine here. Use another name, or DROP that one first.",
                ));
            }
            if !or_replace {
                return Err(Error::new(
                    SqlState::DUPLICATE_FUNCTION,
                    format!("routine \"{}\" already exists", function.name),
                )
                .with_hint(
                    "A name stands for one routine here. Use CREATE OR REPLACE, or another name.",
                ));
            }
        }
        self.check_namespace(&function.name)?;
        // What is missing may come later, as it does where a dump is restored: sessions look.
        if let Err(error) = compile_routine(&self.catalog, function, None)
            && !is_missing(&error)
        {
            return Err(error);
        }
        let routine = Routine {
            compile: compile_routine,
            defaults: parameter_defaults(&self.catalog, function)?,
            definition: function.clone(),
            compiled: OnceLock::new(),
            decided: Mutex::default(),
        };
        self.catalog.routines.insert(function.name.clone(), Arc::new(routine));
        Ok(())
    }

    fn drop_routines(
        &mut self,
        kind: RoutineKind,
        names: &[ast::ObjectName],
        if_exists: bool,
    ) -> Result<()> {
        for name in names {
            let name = object_name(name)?;
            let found = self.catalog.routine(&name);
            if found.is_some_and(|r| r.definition.kind == kind) {
                self.catalog.routines.remove(&name);
            } else if !if_exists {
                let word = match kind {
                    RoutineKind::Procedure => "procedure",
                    RoutineKind::Function => "function",
                };
                return Err(Error::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("{word} {name} does not exist"),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn link_references(&mut self) {
        self.catalog.link_references();
    }

    /// Routines are compiled against tables as they are.
    fn renew_routines(&mut self) {
        for routine in self.catalog.routines.values_mut() {
            *routine = Arc::new(routine.of_another());
        }
    }

    pub(super) fn set_layout(&mut self, table: TableId, from: Layout, layout: Layout) {
        if from != layout {
            self.store.push(StoreChange::SetLayout { table, layout });
        }
    }

    pub(super) fn edit(&mut self, id: TableId, change: impl FnOnce(&mut Table)) {
        if let Some(table) = self.catalog.tables.get_mut(&id) {
            change(Arc::make_mut(table));
        }
    }

    pub(super) fn put(&mut self, table: Table) {
        self.catalog.tables.insert(table.id(), Arc::new(table));
    }

    /// A name in the schema of a relation. PostgreSQL numbers default names that are taken.
    pub(super) fn free_name(&self, beside: &str, wanted: &str) -> String {
        free_name(wanted, |name| self.catalog.relation_exists(&names::beside(beside, name)))
    }

    /// All rows anew: column i of the new row is `columns[i]`.
    pub(super) fn rebuild(&mut self, table: &Table, columns: Vec<ColumnSource>) {
        self.store.push(StoreChange::Rebuild {
            table: table.id(),
            schema: (*table.schema).clone(),
            columns,
        });
    }
}

pub(super) fn free_name(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (1..).map(|n| format!("{wanted}{n}"));
    std::iter::once(wanted.to_owned())
        .chain(numbered)
        .find(|name| !taken(name))
        .unwrap_or_else(|| wanted.to_owned())
}

/// The same where all names that are taken are at hand: each is looked at once.
pub(super) fn free_among<'n>(wanted: &str, taken: impl Iterator<Item = &'n str>) -> String {
    let taken: HashSet<&str> = taken.filter(|name| name.starts_with(wanted)).collect();
    free_name(wanted, |name| taken.contains(name))
}

pub(super) fn relation_exists(name: &str) -> Error {
    Error::new(
        SqlState::DUPLICATE_TABLE,
        format!("relation \"{}\" already exists", names::bare(name)),
    )
}

/// Names of columns in a constraint, which may be plain columns only.
pub(super) fn plain_columns(columns: &[ast::IndexColumn]) -> Result<Vec<String>> {
    let plain = |column: &ast::IndexColumn| match &column.column.expr {
        ast::Expr::Identifier(ident) => Ok(fold(ident)),
        other => Err(Error::unsupported(format_args!("an index over the expression {other}"))),
    };
    columns.iter().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::{Catalog, Statement, bind, parse};

    fn applied(catalog: &Catalog, text: &str) -> Catalog {
        let parsed = parse(text).unwrap().remove(0);
        let Statement::Ddl(ddl) = bind(catalog, &parsed, &[]).unwrap().statement else {
            panic!("{text} is no schema change");
        };
        catalog.apply(&ddl).unwrap().0
    }

    /// The work of one change grows with what there is, not with its square.
    #[test]
    fn many_tables_may_point_at_one() {
        const CHILDREN: usize = 1500;
        let begun = Instant::now();
        let mut catalog = applied(&Catalog::genesis(), "CREATE TABLE p (id int PRIMARY KEY)");
        for n in 0..CHILDREN {
            let text = format!("CREATE TABLE c{n} (id int PRIMARY KEY, p int REFERENCES p)");
            catalog = applied(&catalog, &text);
        }
        let parent = catalog.table("public.p").or_else(|_| catalog.table("p")).unwrap();
        assert_eq!(parent.referenced_by.len(), CHILDREN);
        catalog = applied(&catalog, "DROP TABLE c7");
        let parent = catalog.table("public.p").or_else(|_| catalog.table("p")).unwrap();
        assert_eq!(parent.referenced_by.len(), CHILDREN - 1);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }

    /// A program is one of the catalog that it is asked of, whichever was asked first.
    #[test]
    fn routines_are_compiled_when_they_are_asked_for() {
        let mut catalog =
            applied(&Catalog::genesis(), "CREATE TABLE t (id int PRIMARY KEY, v int)");
        let text = "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT sum(v) FROM t'";
        catalog = applied(&catalog, text);
        let before = catalog.clone();
        let after = applied(&catalog, "ALTER TABLE t DROP COLUMN v");
        let of = |catalog: &Catalog| catalog.routine("f").unwrap().procedure(catalog);
        let raises =
            |catalog: &Catalog| matches!(&*of(catalog).body, [procedure::Step::Raise { .. }]);
        assert!(raises(&after));
        assert!(!raises(&before));
        assert!(!raises(&applied(&after, "ALTER TABLE t ADD COLUMN v int")));
        let other = applied(&before, "CREATE SCHEMA s");
        let shown = |catalog: &Catalog| format!("{:?}", of(catalog).body);
        assert_eq!(shown(&other), shown(&before));
        assert!(!std::sync::Arc::ptr_eq(&of(&other), &of(&before)));
    }
}
