//! Objects of one session, beside the ledger's: temporary tables, with their sequences and views.
//!
//! ```text
//!   the ledger's catalog ──────────────┬─► what the ledger is asked, routines, every replica
//!                                      │
//!   a session's objects ──► laid over ─┴─► what the session binds: a catalog of its own
//! ```
//!
//! They are in a catalog as other objects are, under a schema of their own and with numbers that no
//! ledger gives, so that all that knows a catalog knows them. Which is laid over which is a value:
//! when the ledger's schema changes, the objects are laid over the next one.
//!
//! *Invariant.* What the ledger runs is bound without them. A routine means the same to all that
//! call it, so it is compiled against the catalog [below](Catalog::ledger).

use std::collections::BTreeMap;
use std::sync::Arc;

use identity::{Acl, BOOTSTRAP, Kind};
use procedure::Expr;
use sqlparser::ast::OnCommit;
use types::{Error, Result, SqlState, TableId};

use crate::schema::access::Access;
use crate::schema::catalog::{Catalog, Commented, Table};
use crate::schema::sequence::SequenceOwner;
use crate::syntax::names::{PG_TEMP, bare, quoted, quoted_if_needed, schema_of};
use crate::syntax::size;

/// By estimate, what a table or a sequence takes in the catalogs of its session and of its rows.
const OBJECT_BYTES: usize = 4096;
/// The same of a column, an index, a comment.
const PART_BYTES: usize = 256;

/// That a catalog has objects of a session.
#[derive(Clone, Debug)]
pub struct Temporary {
    /// The schema that they are in.
    pub schema: Arc<str>,
    /// The ledger's catalog, which they are laid over.
    below: Arc<Catalog>,
    /// What becomes of a table when its transaction commits, where its rows do not stay.
    pub(crate) on_commit: BTreeMap<TableId, OnCommit>,
}

impl Catalog {
    /// Of a session: what it has beside the ledger.
    pub fn temporary(&self) -> Option<&Temporary> {
        self.temporary.as_deref()
    }

    /// The schema of temporary tables, where the session has one.
    pub fn temporary_schema(&self) -> Option<&str> {
        self.temporary().map(|temporary| &*temporary.schema)
    }

    /// The same without what is a session's own.
    pub fn ledger(&self) -> &Catalog {
        self.temporary().map_or(self, |temporary| &temporary.below)
    }

    /// With a schema for temporary tables that has none yet.
    pub fn with_room(self: &Arc<Catalog>, schema: Arc<str>, next_table: TableId) -> Catalog {
        let mut catalog = Catalog::clone(self);
        // As PostgreSQL has it without a REVOKE.
        let all = Kind::Schema.all();
        let access =
            Access { acl: Some(Acl::of_new(BOOTSTRAP, all, all)), ..Access::of(BOOTSTRAP) };
        catalog.access.insert(Commented::Schema(schema.to_string()), Arc::new(access));
        catalog.namespaces.insert(schema.to_string());
        catalog.next_table = next_table.0;
        let below = Arc::clone(self);
        let on_commit = BTreeMap::new();
        catalog.temporary = Some(Arc::new(Temporary { schema, below, on_commit }));
        catalog
    }

    /// With the objects of a session that another catalog has.
    pub fn with_temporary_of(self: &Arc<Catalog>, other: &Catalog) -> Catalog {
        let Some(temporary) = other.temporary() else { return Catalog::clone(self) };
        let schema = &temporary.schema;
        let mut catalog = self.with_room(Arc::clone(schema), TableId(other.next_table));
        if let Some(own) = &mut catalog.temporary {
            Arc::make_mut(own).on_commit.clone_from(&temporary.on_commit);
        }
        for (id, table) in other.tables.range(TableId::FIRST_TEMPORARY..) {
            catalog.table_names.insert(table.key().to_owned(), *id);
            catalog.tables.insert(*id, Arc::clone(table));
        }
        for (id, sequence) in other.sequences.range(TableId::FIRST_TEMPORARY..) {
            catalog.sequence_names.insert(sequence.name.clone(), *id);
            catalog.sequences.insert(*id, Arc::clone(sequence));
        }
        let views = other.views.iter().filter(|(name, _)| schema_of(name) == &**schema);
        catalog.views.extend(views.map(|(name, view)| (name.clone(), Arc::clone(view))));
        let is_own = |object: &Commented| is_temporary(object, schema);
        let comments = other.comments.iter().filter(|(object, _)| is_own(object));
        catalog.comments.extend(comments.map(|(object, text)| (object.clone(), text.clone())));
        let access = other.access.iter().filter(|(object, _)| is_own(object));
        catalog.access.extend(access.map(|(object, access)| (object.clone(), access.clone())));
        catalog
    }

    /// Whether a session has any object of its own.
    pub fn has_temporary(&self) -> bool {
        let tables = self.tables.range(TableId::FIRST_TEMPORARY..).next();
        let sequences = self.sequences.range(TableId::FIRST_TEMPORARY..).next();
        let is_own = |view: &str| self.temporary_schema() == Some(schema_of(view));
        tables.is_some() || sequences.is_some() || self.views.keys().any(|view| is_own(view))
    }

    /// What the session's own objects take, by estimate.
    pub fn temporary_bytes(&self) -> u64 {
        let Some(own) = self.temporary_schema() else { return 0 };
        let tables = self.tables.range(TableId::FIRST_TEMPORARY..);
        let tables: usize = tables.map(|(_, table)| table_bytes(table)).sum();
        let sequences = self.sequences.range(TableId::FIRST_TEMPORARY..).count();
        let views = self.views.iter().filter(|(name, _)| schema_of(name) == own);
        let views: u64 = views.map(|(_, view)| size::memory_of(&view.text)).sum();
        let comments = self.comments.iter().filter(|(object, _)| is_temporary(object, own));
        let comments: usize = comments.map(|(_, text)| PART_BYTES + text.len()).sum();
        let access = self.access.keys().filter(|object| is_temporary(object, own)).count();
        let all = tables + sequences * OBJECT_BYTES + comments + access * PART_BYTES;
        all as u64 + views
    }

    /// The number of the session's next table.
    pub fn next_temporary(&self) -> TableId {
        TableId(self.next_table.max(TableId::FIRST_TEMPORARY.0))
    }

    /// A change that concerns the session alone: nothing of the ledger is another one after it.
    ///
    /// # Errors
    /// 0A000, or 42P16 where a constraint leads from one to the other.
    pub fn check_temporary_change(&self, before: &Catalog) -> Result<()> {
        let own = self.temporary_schema();
        let is_misplaced =
            |table: &&Arc<Table>| table.id().is_temporary() && Some(table.namespace()) != own;
        if let Some(table) = self.tables().find(is_misplaced) {
            if table.foreign_keys.iter().any(|key| key.parent.is_temporary()) {
                return Err(keys_of("permanent"));
            }
            return Err(Error::unsupported("a permanent table that rests on temporary objects"));
        }
        self.check_sequences()?;
        let keys =
            self.tables().flat_map(|table| table.foreign_keys.iter().map(move |k| (table, k)));
        for (table, foreign) in keys {
            let what = match (table.id().is_temporary(), foreign.parent.is_temporary()) {
                (true, false) => "temporary",
                (false, true) => "permanent",
                _ => continue,
            };
            return Err(keys_of(what));
        }
        let tables = |catalog: &Catalog| -> Vec<_> {
            let permanent = catalog.tables.range(..TableId::FIRST_TEMPORARY);
            permanent.map(|(_, table)| Arc::as_ptr(table)).collect()
        };
        let sequences = |catalog: &Catalog| -> Vec<_> {
            let permanent = catalog.sequences.range(..TableId::FIRST_TEMPORARY);
            permanent.map(|(_, sequence)| Arc::as_ptr(sequence)).collect()
        };
        let views = |catalog: &Catalog| -> Vec<String> {
            let is_own = |view: &str| catalog.temporary_schema() == Some(schema_of(view));
            catalog.views.keys().filter(|view| !is_own(view)).cloned().collect()
        };
        let routines = |catalog: &Catalog| catalog.routines.keys().cloned().collect::<Vec<_>>();
        let is_same = self.says_of_others(&self.comments)
            == before.says_of_others(&before.comments)
            && self.says_of_others(&self.access) == before.says_of_others(&before.access)
            && self.says_of_others(&self.policies) == before.says_of_others(&before.policies)
            && self.defaults == before.defaults
            && tables(self) == tables(before)
            && sequences(self) == sequences(before)
            && views(self) == views(before)
            && routines(self) == routines(before);
        match is_same {
            true => Ok(()),
            false => {
                Err(Error::unsupported("a schema change of temporary objects together with others")
                    .with_hint("Change what is temporary by a statement of its own."))
            }
        }
    }

    /// # Errors
    /// A sequence of the session is elsewhere than its other objects, or goes with a table that is
    /// none of them.
    fn check_sequences(&self) -> Result<()> {
        let own = self.temporary_schema();
        for (_, sequence) in self.sequences.range(TableId::FIRST_TEMPORARY..) {
            let is_placed = Some(schema_of(&sequence.name)) == own;
            let is_owned = |owner: &SequenceOwner| owner.table.is_temporary();
            match &sequence.owner {
                None if is_placed => {}
                Some(owner) if is_placed && is_owned(owner) => {}
                None => {
                    let what = "a permanent sequence that rests on temporary objects";
                    return Err(Error::unsupported(what));
                }
                Some(_) => {
                    let what = "sequence must be in same schema as table it is linked to";
                    return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
                }
            }
        }
        Ok(())
    }

    /// Of what is said of objects, what is said of those that are not the session's.
    fn says_of_others<'c, V>(
        &self,
        said: &'c BTreeMap<Commented, V>,
    ) -> BTreeMap<&'c Commented, &'c V> {
        let own = self.temporary_schema().unwrap_or_default();
        said.iter().filter(|(object, _)| !is_temporary(object, own)).collect()
    }

    /// The temporary schema in place of `pg_temp`.
    pub(crate) fn real_schema<'a>(&'a self, schema: &'a str) -> &'a str {
        match self.temporary_schema() {
            Some(own) if schema == PG_TEMP => own,
            _ => schema,
        }
    }

    /// As SQL text, what drops all that is the session's own.
    pub(crate) fn drop_temporary(&self) -> Vec<String> {
        let Some(schema) = self.temporary_schema() else { return Vec::new() };
        let shown = |key: &str| {
            let name = bare(key);
            format!("{}.{}", quoted_if_needed(schema), quoted(name))
        };
        let own = |keys: Vec<&str>| -> String {
            keys.into_iter().map(shown).collect::<Vec<_>>().join(", ")
        };
        let views = self.views.keys().map(String::as_str);
        let views = own(views.filter(|view| schema_of(view) == schema).collect());
        let tables = self.tables.range(TableId::FIRST_TEMPORARY..);
        let tables = own(tables.map(|(_, table)| table.key()).collect());
        let sequences = self.sequences.range(TableId::FIRST_TEMPORARY..);
        let free = sequences.filter(|(_, sequence)| sequence.owner.is_none());
        let sequences = own(free.map(|(_, sequence)| sequence.name.as_str()).collect());
        let drops = [("VIEW", views), ("TABLE", tables), ("SEQUENCE", sequences)];
        let drops = drops.into_iter().filter(|(_, names)| !names.is_empty());
        drops.map(|(what, names)| format!("DROP {what} {names} CASCADE")).collect()
    }
}

fn table_bytes(table: &Table) -> usize {
    let columns = table.schema.columns.iter().map(|column| PART_BYTES + column.name.len());
    let defaults = table.defaults.iter().flatten().map(expr_bytes);
    let generated = table.generated.iter().map(|(_, it)| it.text.len() + expr_bytes(&it.value));
    let checks = table.checks.iter().map(|it| it.text.len() + expr_bytes(&it.condition));
    let parts = columns.chain(defaults).chain(generated).chain(checks).sum::<usize>();
    let more = table.schema.indexes.len() + table.foreign_keys.len() + table.referenced_by.len();
    OBJECT_BYTES + parts + more * PART_BYTES
}

fn expr_bytes(expr: &Expr) -> usize {
    let mut bytes = 0;
    expr.walk(&mut |part| {
        bytes += size_of::<Expr>();
        if let Expr::Const(value) = part {
            bytes += value.weight();
        }
    });
    bytes
}

fn keys_of(what: &str) -> Error {
    let what = format!("constraints on {what} tables may reference only {what} tables");
    Error::new(SqlState::INVALID_TABLE_DEFINITION, what)
}

/// Whether what is said of an object is said of a session's own.
fn is_temporary(object: &Commented, schema: &str) -> bool {
    match object {
        Commented::Table(id)
        | Commented::Column(id, _)
        | Commented::Index(id, _)
        | Commented::Constraint(id, _)
        | Commented::Sequence(id) => id.is_temporary(),
        Commented::View(name) => schema_of(name) == schema,
        Commented::Routine(_)
        | Commented::Schema(_)
        | Commented::Type(_)
        | Commented::Collation(_)
        | Commented::Database => false,
    }
}

/// What the schema of a session's temporary tables is called.
pub fn schema_name(process: i32) -> Arc<str> {
    format!("{PG_TEMP}_{process}").into()
}
