//! Owners and privileges: what a role may do with the objects of a catalog.
//!
//! An object without an entry is of the superuser that the ledger began with, and has the
//! privileges of a new one. A compiler of a statement asks here once for each object in it, and
//! keeps the answer with the program for as long as the schema is of that version.

use std::borrow::Cow;
use std::collections::BTreeMap;

use identity::{Acl, BOOTSTRAP, Closure, Kind, Privileges, RoleId, Roles};
use types::{ColumnId, Error, SqlState, TableId};

use crate::schema::catalog::{Catalog, Commented, Table};
use crate::syntax::names::{PUBLIC, bare, quoted_if_needed, schema_of};

/// Whose an object is, and what was granted of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    pub owner: RoleId,
    /// `None`: nothing was granted or revoked.
    pub acl: Option<Acl>,
    /// Of a table or a view, by column, beside what is granted of it as a whole.
    pub columns: BTreeMap<GrantedColumn, Acl>,
}

/// A view's columns have no other name than their text: what CREATE OR REPLACE moves keeps its
/// grants, and what takes its place gets none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GrantedColumn {
    OfTable(ColumnId),
    OfView(String),
}

/// Which objects default privileges are of: those that a role makes, of a kind, in a schema or
/// anywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefaultsOf {
    pub role: RoleId,
    pub schema: Option<String>,
    pub kind: Kind,
}

impl DefaultsOf {
    /// What stands where nothing was said: of a schema no more than what is said of all.
    pub(crate) fn usual(&self) -> Acl {
        match self.schema {
            Some(_) => Acl::default(),
            None => Acl::of_new(self.role, self.kind.all(), self.kind.of_public()).sorted(),
        }
    }
}

impl Access {
    pub fn of(owner: RoleId) -> Access {
        Access { owner, acl: None, columns: BTreeMap::new() }
    }
}

impl Commented {
    /// What privileges there are for it; `None`: it has none of its own.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Commented::Table(_) | Commented::View(_) => Some(Kind::Table),
            Commented::Sequence(_) => Some(Kind::Sequence),
            Commented::Routine(_) => Some(Kind::Routine),
            Commented::Schema(_) => Some(Kind::Schema),
            Commented::Database => Some(Kind::Database),
            Commented::Column(..) => Some(Kind::Column),
            Commented::Index(..) | Commented::Constraint(..) => None,
            Commented::Type(_) | Commented::Collation(_) => None,
        }
    }
}

impl Catalog {
    pub fn owner(&self, object: &Commented) -> RoleId {
        self.access.get(object).map_or(BOOTSTRAP, |access| access.owner)
    }

    /// What was granted of it, where anything was.
    pub fn granted(&self, object: &Commented) -> Option<&Acl> {
        self.access.get(object)?.acl.as_ref()
    }

    /// What was granted of a column beside what was granted of all.
    pub fn column_grants(&self, object: &Commented, column: &GrantedColumn) -> Option<&Acl> {
        self.access.get(object)?.columns.get(column)
    }

    /// All that is granted of it, what it has from the beginning too.
    pub fn acl(&self, object: &Commented) -> Cow<'_, Acl> {
        match self.granted(object) {
            Some(acl) => Cow::Borrowed(acl),
            None => Cow::Owned(first_acl(object, self.owner(object))),
        }
    }

    /// All default privileges.
    pub fn defaults(&self) -> impl Iterator<Item = (&DefaultsOf, &Acl)> {
        self.defaults.iter()
    }

    /// What default privileges give a new object of a role; `None`: no other than without them.
    pub(crate) fn acl_of_new(&self, object: &Commented, owner: RoleId) -> Option<Acl> {
        let kind = object.kind().filter(|_| !self.defaults.is_empty())?;
        let schema = match object {
            Commented::Schema(_) | Commented::Database => None,
            object => Some(self.schema_of(object)),
        };
        let everywhere = DefaultsOf { role: owner, schema: None, kind };
        let found = schema.and_then(|schema| {
            self.defaults.get(&DefaultsOf { role: owner, schema: Some(schema), kind })
        });
        let usual = everywhere.usual();
        let acl = self.defaults.get(&everywhere).unwrap_or(&usual).clone();
        let acl = found.into_iter().fold(acl, Acl::with).sorted();
        (acl != usual).then_some(acl)
    }

    /// What a role may do with an object, a column by itself left aside. An owner has no more than
    /// the grants say, which it can change.
    pub fn privileges(&self, closure: &Closure, object: &Commented) -> Privileges {
        let all = object.kind().map_or(Privileges::NONE, Kind::all);
        if closure.is_superuser() {
            return all;
        }
        self.acl(object).privileges(closure) | predefined(closure, object)
    }

    /// What a role may do with a column, be it by what it may do with the table.
    pub fn column_privileges(
        &self,
        closure: &Closure,
        table: TableId,
        column: ColumnId,
    ) -> Privileges {
        self.privileges_by_column(
            closure,
            &Commented::Table(table),
            &GrantedColumn::OfTable(column),
        )
    }

    /// The same of a view's column.
    pub fn view_column_privileges(
        &self,
        closure: &Closure,
        view: &str,
        column: &str,
    ) -> Privileges {
        let column = GrantedColumn::OfView(column.to_owned());
        self.privileges_by_column(closure, &Commented::View(view.to_owned()), &column)
    }

    fn privileges_by_column(
        &self,
        closure: &Closure,
        object: &Commented,
        column: &GrantedColumn,
    ) -> Privileges {
        let own = self.column_grants(object, column);
        let own = own.map_or(Privileges::NONE, |acl| acl.privileges(closure));
        self.privileges(closure, object) | own
    }

    /// Whether a role may do this with one column of a view at least.
    pub fn may_with_any_view_column(
        &self,
        closure: &Closure,
        view: &str,
        wanted: Privileges,
    ) -> bool {
        let object = Commented::View(view.to_owned());
        let by_column = self.access.get(&object).into_iter().flat_map(|a| a.columns.values());
        let mut by_column = by_column.map(|acl| acl.privileges(closure));
        self.privileges(closure, &object).contains(wanted)
            || by_column.any(|own| own.contains(wanted))
    }

    /// Whether a role may do this with one column at least.
    pub fn may_with_any_column(
        &self,
        closure: &Closure,
        table: &Table,
        wanted: Privileges,
    ) -> bool {
        let mut columns = table.schema.visible_columns();
        let may = |column| self.column_privileges(closure, table.id(), column).contains(wanted);
        self.privileges(closure, &Commented::Table(table.id())).contains(wanted)
            || columns.any(|(column, _)| may(column))
    }

    /// Who may begin a session.
    ///
    /// # Errors
    /// 28000: it is no role that logs in; 42501: it may not connect to the database.
    pub fn check_connects(&self, user: &str) -> Result<(), Error> {
        let closure = self.roles.closure(self.roles.principal(user)?.id);
        match self.privileges(&closure, &Commented::Database).contains(Privileges::CONNECT) {
            true => Ok(()),
            false => {
                let (kind, name) = self.called(&Commented::Database);
                Err(denied(kind, &format!("\"{name}\""))
                    .with_detail("User does not have CONNECT privilege."))
            }
        }
    }

    /// # Errors
    /// 42501: a role may have no temporary objects.
    pub fn check_temporary_by(&self, role: RoleId) -> Result<(), Error> {
        let (closure, object) = (self.roles.closure(role), Commented::Database);
        let own = self.privileges(&closure, &object);
        match self.roles.is_superuser(role) || own.contains(Privileges::TEMPORARY) {
            true => Ok(()),
            false => Err(Error::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!(
                    "permission denied to create temporary tables in database \"{}\"",
                    self.called(&object).1
                ),
            )),
        }
    }

    /// What a role may give to others of an object.
    pub fn grantable(&self, closure: &Closure, object: &Commented) -> Privileges {
        match closure.has(self.owner(object)) {
            true => object.kind().map_or(Privileges::NONE, Kind::all),
            false => self.acl(object).grantable(closure),
        }
    }

    /// # Errors
    /// 42501: a role may not use what is in the schema of this key.
    pub fn check_usage(&self, closure: &Closure, key: &str) -> Result<(), Error> {
        let schema = schema_of(key);
        let object = Commented::Schema(schema.to_owned());
        let usual = schema == PUBLIC && !self.access.contains_key(&object);
        match usual || self.privileges(closure, &object).contains(Privileges::USAGE) {
            true => Ok(()),
            false => Err(denied("schema", schema)),
        }
    }

    /// All that has an owner.
    pub(crate) fn owned_objects(&self) -> impl Iterator<Item = Commented> {
        let tables = self.tables().map(|table| Commented::Table(table.id()));
        let sequences = self.sequences().map(|sequence| Commented::Sequence(sequence.id));
        let views = self.views().map(|view| Commented::View(view.name.clone()));
        let routines = self.routines().map(|(name, _)| Commented::Routine(name.to_owned()));
        let schemas = self.namespaces().map(|name| Commented::Schema(name.to_owned()));
        let types = self.made_types().map(Commented::Type);
        let collations = self.collations.keys().map(|id| Commented::Collation(*id));
        let all = tables.chain(sequences).chain(views).chain(routines);
        all.chain(schemas).chain(types).chain(collations)
    }

    /// What errors call it: its kind and its name.
    pub fn called(&self, object: &Commented) -> (&'static str, String) {
        let table = |id: &TableId| {
            self.table_by_id(*id).map_or_else(String::new, |table| table.name().to_owned())
        };
        match object {
            Commented::Table(id) => {
                (self.table_by_id(*id).map_or("table", |table| table.kind()), table(id))
            }
            Commented::Column(id, _) => ("table", table(id)),
            Commented::Index(id, _) | Commented::Constraint(id, _) => ("table", table(id)),
            Commented::Sequence(id) => {
                let sequence = self.sequence_by_id(*id);
                ("sequence", sequence.map_or_else(String::new, |s| bare(&s.name).to_owned()))
            }
            Commented::View(name) => ("view", bare(name).to_owned()),
            Commented::Routine(name) => {
                let kind = self.routine(name).map(|routine| routine.definition.kind);
                let word = match kind {
                    Some(crate::syntax::routine::RoutineKind::Procedure) => "procedure",
                    _ => "function",
                };
                (word, bare(name).to_owned())
            }
            Commented::Schema(name) => ("schema", name.clone()),
            Commented::Type(id) => {
                ("type", self.made_type(*id).map_or_else(String::new, |key| bare(key).to_owned()))
            }
            Commented::Collation(id) => {
                let of = self.collation_by_id(*id);
                ("collation", of.map_or_else(String::new, |of| of.name().to_owned()))
            }
            Commented::Database => ("database", "tally".to_owned()),
        }
    }

    /// 42501 for an object.
    pub fn denied(&self, object: &Commented) -> Error {
        let (kind, name) = self.called(object);
        denied(kind, &name)
    }
}

/// # Errors
/// 42501: a role is neither a superuser nor a member of the one that may do this.
pub fn must_be(roles: &Roles, role: RoleId, needed: RoleId, what: &str) -> Result<(), Error> {
    if roles.has_privileges_of(role, needed) {
        return Ok(());
    }
    let (role, needed) = (roles.name(role), roles.name(needed));
    let message = format!("permission denied to {what}");
    Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
        .with_detail(format!("Role \"{role}\" is neither a superuser nor a member of {needed}."))
        .with_hint(format!("A superuser can say: GRANT {needed} TO {}.", quoted_if_needed(role))))
}

/// 42501 in PostgreSQL's words.
pub fn denied(kind: &str, name: &str) -> Error {
    let what = format!("permission denied for {kind} {name}");
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
}

/// What an object has from the beginning.
fn first_acl(object: &Commented, owner: RoleId) -> Acl {
    let Some(kind) = object.kind() else { return Acl::default() };
    let public = match object {
        Commented::Schema(name) if name == PUBLIC => Privileges::USAGE,
        _ => kind.of_public(),
    };
    match kind {
        Kind::Column => Acl::default(),
        kind => Acl::of_new(owner, kind.all(), public),
    }
}

/// What the roles that every ledger has may do with all objects.
fn predefined(closure: &Closure, object: &Commented) -> Privileges {
    let (reads, writes) = (RoleId::READ_ALL_DATA, RoleId::WRITE_ALL_DATA);
    let mut all = Privileges::NONE;
    match object {
        Commented::Table(_) | Commented::View(_) | Commented::Sequence(_) => {
            if closure.has(reads) {
                all |= Privileges::SELECT;
            }
            let is_sequence = matches!(object, Commented::Sequence(_));
            if closure.has(writes) {
                all |= match is_sequence {
                    true => Privileges::UPDATE,
                    false => Privileges::INSERT.with(Privileges::UPDATE).with(Privileges::DELETE),
                };
            }
        }
        Commented::Schema(_) if closure.has(reads) || closure.has(writes) => {
            all |= Privileges::USAGE;
        }
        _ => {}
    }
    all
}
