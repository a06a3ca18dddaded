//! What exists: tables with their constraints, procedures and functions.
//!
//! A catalog is an immutable value. DDL makes a new one that shares all that did not change, so a
//! session, a block or a cached plan can keep the one it was made with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use identity::{Acl, Organisations, Policy, Privileges, RoleId, Roles};
use parking_lot::Mutex;
use procedure::{Expr, OnError, Output, Procedure, Step};
use sqlparser::ast;
use types::{
    ColumnId, DataType, EnumType, Error, Height, IndexId, Layout, Result, SqlState, TableId,
    TableSchema,
};

use crate::schema::access::{Access, DefaultsOf};
use crate::schema::collations::Collation;
use crate::schema::databases::Databases;
use crate::schema::domains::{CheckConstraint, Domain};
use crate::schema::sequence::{Identity, Sequence};
use crate::schema::temporary::Temporary;
use crate::syntax::names::{self, PUBLIC};
use crate::syntax::routine::{CreateFunction, parameter_columns, result_columns};

#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Counts the DDL statements applied; plans are valid for one version.
    pub version: u64,
    pub(crate) next_table: u32,
    pub(crate) roles: Arc<Roles>,
    pub(crate) organisations: Arc<Organisations>,
    pub(crate) policies: Arc<BTreeMap<Commented, ApprovalPolicy>>,
    pub(crate) databases: Arc<Databases>,
    pub(crate) access: BTreeMap<Commented, Arc<Access>>,
    /// What was granted of objects that are yet to be made.
    pub(crate) defaults: Arc<BTreeMap<DefaultsOf, Acl>>,
    /// Schemas, but those of the system.
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) tables: BTreeMap<TableId, Arc<Table>>,
    pub(crate) table_names: BTreeMap<String, TableId>,
    pub(crate) routines: BTreeMap<String, Arc<Routine>>,
    pub(crate) views: BTreeMap<String, Arc<View>>,
    pub(crate) comments: BTreeMap<Commented, Arc<str>>,
    pub(crate) sequences: BTreeMap<TableId, Arc<Sequence>>,
    pub(crate) sequence_names: BTreeMap<String, TableId>,
    pub(crate) enums: BTreeMap<TableId, Arc<EnumType>>,
    pub(crate) domains: BTreeMap<TableId, Arc<Domain>>,
    /// Those that users have made.
    pub(crate) collations: BTreeMap<TableId, Arc<Collation>>,
    /// Of a session that has tables of its own.
    pub(crate) temporary: Option<Arc<Temporary>>,
}

/// Of a table, a routine, or the whole ledger.
#[derive(Clone, PartialEq, Debug)]
pub struct ApprovalPolicy {
    pub policy: Policy,
    /// The block that set it.
    pub since: Height,
}

/// Views that one statement may use, counted as often as they are used, by others or by itself.
const VIEW_USES_MAX: usize = 1000;

/// Counts the views that a statement uses: each use is planned anew.
#[derive(Debug, Default)]
pub struct ViewUses(usize);

impl ViewUses {
    /// # Errors
    /// There are too many.
    pub fn add_one(&mut self) -> Result<()> {
        self.0 += 1;
        match self.0 <= VIEW_USES_MAX {
            true => Ok(()),
            false => Err(Error::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                "the statement uses too many views",
            )
            .with_detail(format!(
                "There can be {VIEW_USES_MAX} at most, with those that views use."
            ))),
        }
    }
}

/// A table and its rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub schema: Arc<TableSchema>,
    pub primary_key_name: String,
    pub layout: Layout,
    /// By column: what an INSERT that leaves it out stores. Over no columns and no registers.
    pub defaults: Vec<Option<Expr>>,
    /// Columns whose values follow from the others of their row, ascending.
    pub generated: Vec<(ColumnId, Generated)>,
    /// Of columns whose types are domains, these; the columns' types are what they are over.
    pub domains: BTreeMap<ColumnId, TableId>,
    /// Of columns that have another than the default one.
    pub collations: BTreeMap<ColumnId, Arc<Collation>>,
    /// Unique indexes that CREATE UNIQUE INDEX made: those are no constraints.
    pub bare_unique: BTreeSet<IndexId>,
    /// Unique indexes in which NULLs are alike.
    pub nulls_alike: BTreeSet<IndexId>,
    pub checks: Vec<CheckConstraint>,
    pub foreign_keys: Vec<ForeignKey>,
    /// Foreign keys of other tables (or this one) that point here.
    pub referenced_by: Vec<Reference>,
    /// It holds what a query has found.
    pub materialized: Option<Materialized>,
    /// UNIQUE constraints that can wait, and whether they do where nothing else was said.
    pub deferrable: BTreeMap<IndexId, bool>,
    /// Indexes that are over more than columns.
    pub declared: BTreeMap<IndexId, Arc<DeclaredIndex>>,
}

/// What CREATE INDEX said of an index beside its columns' names.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredIndex {
    pub parts: Vec<KeyPart>,
    /// WHERE.
    pub predicate: Option<String>,
    /// The columns that it is computed from.
    pub inputs: Vec<ColumnId>,
}

/// A part of an index's key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPart {
    /// `None`: it is an expression.
    pub column: Option<ColumnId>,
    pub text: String,
    /// 1: descending, 2: NULLs first.
    pub options: u8,
    /// The one that it names; keys are ordered by bytes whatever it says.
    pub collation: Option<Arc<Collation>>,
}

impl KeyPart {
    /// Its column's name, or its expression.
    pub fn shown(&self, table: &Table) -> String {
        match self.column {
            Some(column) => table.column_name(column).to_owned(),
            None => self.text.clone(),
        }
    }
}

/// Of a materialized view.
#[derive(Clone, Debug, PartialEq)]
pub struct Materialized {
    pub view: Arc<View>,
    /// Not WITH NO DATA: it can be read.
    pub populated: bool,
}

/// GENERATED ALWAYS AS (…) STORED.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Over the row, of which no generated column is asked.
    pub value: Expr,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ForeignKey {
    pub name: String,
    pub columns: Vec<ColumnId>,
    pub parent: TableId,
    /// In the order of the parent's index.
    pub parent_columns: Vec<ColumnId>,
    /// The parent's unique index that answers: 0 is its primary key.
    pub parent_index: IndexId,
    pub on_delete: ReferenceAction,
    pub on_update: ReferenceAction,
    /// Not NOT VALID.
    pub validated: bool,
    /// `None`: NOT DEFERRABLE; otherwise whether it is deferred where nothing else was said.
    pub deferrable: Option<bool>,
    /// Whether the statement at hand does not look for parents.
    pub(crate) unchecked: bool,
}

/// What becomes of rows whose parent goes, or takes another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferenceAction {
    /// Refused if a child is left without a parent when the statement ends.
    NoAction,
    /// Refused if the key was a child's, even if another row has it when the statement ends.
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl ReferenceAction {
    /// Whether nothing is done to the child.
    pub fn rejects(self) -> bool {
        matches!(self, ReferenceAction::NoAction | ReferenceAction::Restrict)
    }
}

/// `child.foreign_keys[key]` points at the table that has this.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    pub child: TableId,
    pub key: usize,
}

/// A query with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub name: String,
    /// Names of its first columns; the others are named by the query.
    pub columns: Vec<String>,
    pub text: String,
    pub query: Box<ast::Query>,
    /// Tables and views that it reads.
    pub reads: BTreeSet<String>,
    /// How many columns each of the tables had when it was made.
    pub(crate) widths: BTreeMap<String, ColumnId>,
}

/// A stored procedure or function.
#[derive(Debug)]
pub struct Routine {
    pub definition: CreateFunction,
    /// Defaults of the trailing parameters that have one, bound and cast.
    pub defaults: Vec<Option<Expr>>,
    /// By its language's compiler.
    pub(crate) compile: fn(&Catalog, &CreateFunction, Option<RoleId>) -> Result<Procedure>,
    /// Compiled against the one catalog that has this value, when something asks first: most
    /// schema changes concern few routines, and which is not known before they are compiled.
    pub(crate) compiled: OnceLock<Arc<Procedure>>,
    /// What roles that are no superusers run of it, so far.
    pub(crate) decided: Mutex<BTreeMap<RoleId, Decided>>,
}

/// What a role runs that calls a routine.
#[derive(Clone, Debug)]
pub(crate) enum Decided {
    Denied(Error),
    Plain,
    /// Refusals stand where it may not do something.
    Own(Arc<Procedure>),
}

/// Roles for which that is remembered, of one routine at one version of the schema.
const DECIDED_MAX: usize = 1000;

impl Routine {
    /// Its program under `catalog`, which it is of. One that no longer compiles says why when it is
    /// called.
    pub fn procedure(&self, catalog: &Catalog) -> Arc<Procedure> {
        let compile = || {
            let compiled = (self.compile)(catalog.ledger(), &self.definition, None);
            Arc::new(compiled.unwrap_or_else(|error| failing(&self.definition, error)))
        };
        Arc::clone(self.compiled.get_or_init(compile))
    }

    /// Its program for a role that calls it, or for any role (`None`).
    ///
    /// # Errors
    /// 42501: the role may not call it.
    pub fn procedure_for(
        &self,
        catalog: &Catalog,
        caller: Option<RoleId>,
    ) -> Result<Arc<Procedure>> {
        let Some(caller) = caller else { return Ok(self.procedure(catalog)) };
        if let Some(decided) = self.decided.lock().get(&caller) {
            return match decided {
                Decided::Denied(error) => Err(error.clone()),
                Decided::Plain => Ok(self.procedure(catalog)),
                Decided::Own(procedure) => Ok(Arc::clone(procedure)),
            };
        }
        let decision = self.decide(catalog, caller);
        let mut decided = self.decided.lock();
        if decided.len() >= DECIDED_MAX {
            decided.clear();
        }
        decided.insert(caller, decision);
        drop(decided);
        self.procedure_for(catalog, Some(caller))
    }

    fn decide(&self, catalog: &Catalog, caller: RoleId) -> Decided {
        let closure = catalog.roles.closure(caller);
        let object = Commented::Routine(self.definition.name.clone());
        if let Err(error) = catalog.check_usage(&closure, &self.definition.name) {
            return Decided::Denied(error);
        }
        if !catalog.privileges(&closure, &object).contains(Privileges::EXECUTE) {
            return Decided::Denied(catalog.denied(&object));
        }
        let role = match self.definition.security_definer {
            true => catalog.owner(&object),
            false => caller,
        };
        if catalog.roles.is_superuser(role) {
            return Decided::Plain;
        }
        let compiled = (self.compile)(catalog.ledger(), &self.definition, Some(role));
        let compiled = compiled.unwrap_or_else(|error| failing(&self.definition, error));
        match compiled.body == self.procedure(catalog).body {
            true => Decided::Plain,
            false => Decided::Own(Arc::new(compiled)),
        }
    }

    /// The same routine of another catalog.
    pub(crate) fn of_another(&self) -> Routine {
        Routine {
            definition: self.definition.clone(),
            defaults: self.defaults.clone(),
            compile: self.compile,
            compiled: OnceLock::new(),
            decided: Mutex::default(),
        }
    }
}

fn failing(definition: &CreateFunction, error: Error) -> Procedure {
    let parameters = parameter_columns(definition);
    let columns = result_columns(definition);
    Procedure {
        name: definition.name.clone(),
        registers: u16::try_from(parameters.len()).unwrap_or(u16::MAX),
        parameters,
        register_names: Box::default(),
        body: [Step::Raise { error: OnError::from(error) }].into(),
        output: match columns.is_empty() {
            true => Output::Tag,
            false => Output::Rows(columns),
        },
        tag: "CALL".into(),
        read_only: true,
        draws: false,
        sequences: Box::default(),
    }
}

impl Catalog {
    /// The catalog of a ledger without blocks.
    pub fn genesis() -> Catalog {
        let namespaces = [PUBLIC.to_owned()].into();
        Catalog { next_table: 1, namespaces, ..Catalog::default() }
    }

    /// The same, with a superuser of that name.
    pub fn genesis_of(owner: &str) -> Catalog {
        Catalog { roles: Arc::new(Roles::bootstrap(owner)), ..Catalog::genesis() }
    }

    pub fn organisations(&self) -> &Arc<Organisations> {
        &self.organisations
    }

    pub fn roles(&self) -> &Arc<Roles> {
        &self.roles
    }

    /// Schemas that are not the system's, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(String::as_str)
    }

    pub fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.contains(name)
    }

    /// By its [key](crate::syntax::names), as everything here that goes by a name.
    pub fn table(&self, name: &str) -> Result<&Arc<Table>> {
        // Of sessions' own tables all are known.
        let is_own = name.starts_with("pg_temp.") || name.starts_with("pg_temp_");
        self.find_table(name).ok_or_else(|| match name.starts_with("pg_") && !is_own {
            true => names::no_catalog(name),
            false => {
                Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
            }
        })
    }

    pub fn find_table(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.get(self.table_names.get(name)?)
    }

    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.get(&id)
    }

    /// All tables, by id.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// # Errors
    /// 42P01, or 42809 where something else has the name.
    pub fn sequence(&self, name: &str) -> Result<&Arc<Sequence>> {
        self.find_sequence(name).ok_or_else(|| match self.relation_exists(name) {
            true => {
                Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence"))
            }
            false => {
                Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
            }
        })
    }

    pub fn find_sequence(&self, name: &str) -> Option<&Arc<Sequence>> {
        self.sequences.get(self.sequence_names.get(name)?)
    }

    /// By the table that holds its state.
    pub fn sequence_by_id(&self, id: TableId) -> Option<&Arc<Sequence>> {
        self.sequences.get(&id)
    }

    /// All sequences, by id.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.sequences.values()
    }

    /// The identity columns of a table, by their place, and which values they take.
    pub fn identities(&self, table: TableId) -> Vec<(ColumnId, Identity)> {
        let owners = self.sequences.values().filter_map(|sequence| sequence.owner);
        let own = owners.filter(|owner| owner.table == table);
        own.filter_map(|owner| Some((owner.column, owner.identity?))).collect()
    }

    pub fn routine(&self, name: &str) -> Option<&Arc<Routine>> {
        self.routines.get(name)
    }

    /// All procedures and functions, by name.
    pub fn routines(&self) -> impl Iterator<Item = (&str, &Arc<Routine>)> {
        self.routines.iter().map(|(name, r)| (name.as_str(), r))
    }

    pub fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.get(name)
    }

    /// All views, by name.
    pub fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.views.values()
    }

    /// The views that read a table or view, by name; after them those that are materialized.
    pub fn views_on(&self, relation: &str) -> impl Iterator<Item = &Arc<View>> {
        let kept = self.tables.values().filter_map(|table| table.view());
        self.views.values().chain(kept).filter(move |view| view.reads.contains(relation))
    }

    /// The index of that name and its table; primary keys count as index 0.
    pub fn find_index(&self, name: &str) -> Option<(&Arc<Table>, IndexId)> {
        let (namespace, name) = names::split(name);
        // Names differ more often than schemas do, and are distinguished in less time.
        let is_it = |table: &Table| {
            if !table.schema.hidden_row_id && table.primary_key_name == name {
                return Some(0);
            }
            let mut indexes = table.schema.indexes.iter();
            let place = indexes.position(|i| !i.dropped && i.name == name)?;
            Some(place as IndexId + 1)
        };
        let mut found = self.tables.values().filter_map(|table| Some((table, is_it(table)?)));
        found.find(|(table, _)| table.namespace() == namespace)
    }

    /// Tables hold what points at them; it follows from the foreign keys.
    pub(crate) fn link_references(&mut self) {
        let mut links: BTreeMap<TableId, Vec<Reference>> = BTreeMap::new();
        for table in self.tables.values() {
            for (key, foreign) in table.foreign_keys.iter().enumerate() {
                let child = table.id();
                links.entry(foreign.parent).or_default().push(Reference { child, key });
            }
        }
        for (id, table) in &mut self.tables {
            let here = links.remove(id).unwrap_or_default();
            if table.referenced_by != here {
                Arc::make_mut(table).referenced_by = here;
            }
        }
    }

    /// Whether a table, a view, a sequence or an index already has this name.
    pub(crate) fn relation_exists(&self, name: &str) -> bool {
        self.table_names.contains_key(name)
            || self.views.contains_key(name)
            || self.sequence_names.contains_key(name)
            || self.find_index(name).is_some()
    }
}

/// What has a comment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Commented {
    Table(TableId),
    Column(TableId, ColumnId),
    /// 0 is the primary key's.
    Index(TableId, IndexId),
    /// One of a table's, by its name.
    Constraint(TableId, String),
    Sequence(TableId),
    View(String),
    Routine(String),
    Schema(String),
    /// By its number.
    Type(TableId),
    Collation(TableId),
    Database,
}

impl Table {
    pub fn id(&self) -> TableId {
        self.schema.id
    }

    /// Its own name, without the schema's.
    pub fn name(&self) -> &str {
        names::bare(&self.schema.name)
    }

    /// What the catalog knows it by.
    pub fn key(&self) -> &str {
        &self.schema.name
    }

    pub fn namespace(&self) -> &str {
        names::schema_of(&self.schema.name)
    }

    /// Whose rows it holds, where it is a materialized view.
    pub fn view(&self) -> Option<&Arc<View>> {
        self.materialized.as_ref().map(|kept| &kept.view)
    }

    /// What errors call it.
    pub fn kind(&self) -> &'static str {
        match self.materialized {
            Some(_) => "materialized view",
            None => "table",
        }
    }

    /// # Errors
    /// 42809: it is a materialized view, whose rows are its query's.
    pub(crate) fn check_changes(&self) -> Result<()> {
        match self.materialized {
            None => Ok(()),
            Some(_) => {
                let what = format!("cannot change materialized view \"{}\"", self.name());
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what))
            }
        }
    }

    /// # Errors
    /// 55000: it is a materialized view without rows, since its query was never run.
    pub(crate) fn check_populated(&self) -> Result<()> {
        match &self.materialized {
            Some(Materialized { populated: false, .. }) => {
                let what = format!("materialized view \"{}\" has not been populated", self.name());
                Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
                    .with_hint("Use the REFRESH MATERIALIZED VIEW command."))
            }
            _ => Ok(()),
        }
    }

    pub fn column_type(&self, column: ColumnId) -> &DataType {
        &self.schema.columns[usize::from(column)].data_type
    }

    pub fn generated(&self, column: ColumnId) -> Option<&Generated> {
        self.generated.iter().find(|(place, _)| *place == column).map(|(_, generated)| generated)
    }

    /// What errors call it; of a hidden one, the expression that it holds.
    pub fn column_name(&self, column: ColumnId) -> &str {
        self.schema.columns[usize::from(column)].name.trim_start_matches('\0')
    }

    pub(crate) fn column_named(&self, name: &str) -> Result<ColumnId> {
        self.schema.column(name).ok_or_else(|| {
            Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" of relation \"{}\" does not exist", self.name()),
            )
        })
    }

    /// Columns of an index in key order; 0 is the primary key.
    pub fn index_columns(&self, index: IndexId) -> &[ColumnId] {
        match index {
            0 => &self.schema.primary_key,
            n => &self.schema.indexes[usize::from(n) - 1].columns,
        }
    }

    /// UNIQUE constraints, each the index that keeps it.
    pub fn unique_constraints(&self) -> impl Iterator<Item = (IndexId, &types::IndexSchema)> {
        let unique = self.live_indexes().filter(|(_, index)| index.unique);
        unique.filter(|(id, _)| !self.bare_unique.contains(id))
    }

    pub(crate) fn has_constraint(&self, name: &str) -> bool {
        (self.primary_key_name == name && !self.schema.hidden_row_id)
            || self.unique_constraints().any(|(_, index)| index.name == name)
            || self.checks.iter().any(|check| check.name == name)
            || self.foreign_keys.iter().any(|key| key.name == name)
    }

    /// Secondary indexes that are not dropped.
    pub(crate) fn live_indexes(&self) -> impl Iterator<Item = (IndexId, &types::IndexSchema)> {
        let indexes = self.schema.indexes.iter().enumerate();
        indexes.filter(|(_, index)| !index.dropped).map(|(i, index)| (i as IndexId + 1, index))
    }
}
