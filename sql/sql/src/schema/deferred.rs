//! Foreign keys and UNIQUE constraints that are looked at when a transaction commits.
//!
//! ```text
//!   statement ─► every key is looked at ─┬─► all hold               recorded as it is
//!                                        └─► one does not, and is deferred
//!                                             │ undone, run without that key
//!   SET CONSTRAINTS "s"."key" DEFERRED; … ◄───┘                     recorded so
//!   COMMIT, SET CONSTRAINTS … IMMEDIATE ─► SELECT tally_check_constraint('s.key')
//! ```
//!
//! So a transaction pays for a deferred key only where a statement has broken it, and then by a
//! look at the whole child, or at all that is to be unique. What is recorded says which keys a
//! statement does not look at and where they are looked at again, and every replica does the same.
//!
//! *Invariant.* No key stays broken. Envelopes are worded by clients, so replicas take no text that
//! defers a key but in a transaction that looks at it afterwards ([`Unchecked`]), and no schema
//! change in between that would have the look find another key, or none ([`keeps_pending`]).
//!
//! What is UNIQUE and can wait is looked at when a statement ends, if not later: one whose rows
//! break it one by one is run without it, be it a transaction by itself, and followed by the look.
//!
//! *Departure.* A routine and a COPY look at a deferred key when a statement ends, and at what is
//! UNIQUE row by row; any statement looks at a foreign key that is
//! NOT VALID, whose old rows a look at the whole child would find. Of a key whose actions are not
//! both NO ACTION the parents' side is looked at at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::Body;
use types::{ColumnId, Error, IndexId, IndexSchema, Result, SqlState};

use crate::schema::catalog::{Catalog, ForeignKey, Table};
use crate::syntax::names::{as_sql, key, quoted, split};
use crate::syntax::parse::parse;
use crate::syntax::parsed::Parsed;

/// How a ledger says that a key is looked at.
pub const CHECK_CONSTRAINT: &str = "tally_check_constraint";

/// By which constraints of a name in a schema go.
pub fn constraint_key(table: &Table, foreign: &ForeignKey) -> String {
    key(table.namespace(), &foreign.name)
}

/// What a text begins with that is run without some keys.
const DEFERRING: &str = "SET CONSTRAINTS ";

/// The text by which a key is looked at again.
pub(crate) fn checking(called: &str) -> String {
    format!("SELECT {CHECK_CONSTRAINT}('{}')", called.replace('\'', "''"))
}

/// A text that is run without some keys.
pub(crate) fn deferring(keys: &[String], text: &str) -> String {
    let written = keys.iter().map(|known| {
        let (schema, name) = split(known);
        format!("{}.{}", quoted(schema), quoted(name))
    });
    let written: Vec<String> = written.collect();
    format!("{DEFERRING}{} DEFERRED; {text}", written.join(", "))
}

/// Takes what a recorded text defers off its statements. Others than those in our own words defer
/// nothing: they hold more statements than a transaction may.
pub(crate) fn taken_off(text: &str, parsed: &mut Vec<Parsed>) -> Option<Vec<String>> {
    let keys = parsed.first().and_then(Parsed::deferred);
    let keys = keys.filter(|_| text.starts_with(DEFERRING) && parsed.len() > 1)?;
    parsed.remove(0);
    Some(keys)
}

/// The keys that a recorded transaction has deferred, statement by statement, and not looked at
/// since.
#[derive(Default, Debug)]
pub(crate) struct Unchecked(BTreeSet<String>);

impl Unchecked {
    /// # Errors
    /// 42809: what is a transaction by itself defers a key.
    pub fn none_of(write: &Body) -> Result<()> {
        let mut unchecked = Unchecked::default();
        unchecked.behind(write)?;
        unchecked.end()
    }

    /// After what stands in a transaction.
    pub fn behind(&mut self, write: &Body) -> Result<()> {
        let text = match write {
            Body::Statement(statement) => &statement.procedure.text,
            Body::Load(load) => &load.procedure,
            _ => return Ok(()),
        };
        if text.starts_with(DEFERRING) {
            self.0.extend(taken_off(text, &mut parse(text)?).into_iter().flatten());
        } else if !self.0.is_empty() {
            self.0.retain(|called| checking(called) != *text);
        }
        Ok(())
    }

    /// # Errors
    /// 55006: a schema change would lose sight of a key.
    pub fn kept_by(&self, before: &Catalog, after: &Catalog) -> Result<()> {
        keeps_pending(before, after, &self.0)
    }

    /// # Errors
    /// 42809: a key may be left broken.
    pub fn end(self) -> Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some(called) => {
                let what = "a transaction defers a constraint and does not look at it again";
                let called = format!("The constraint is {called}.");
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what).with_detail(called))
            }
        }
    }
}

/// A schema change after statements that have broken keys which wait: each is there still, of the
/// same table.
///
/// # Errors
/// 55006: it is not. PostgreSQL says so of any change of such a table but the name of a constraint.
pub(crate) fn keeps_pending(
    before: &Catalog,
    after: &Catalog,
    pending: &BTreeSet<String>,
) -> Result<()> {
    for called in pending {
        for (table, foreign) in before.keys_called(called) {
            let same = |(now, key): (&Arc<Table>, &ForeignKey)| {
                now.id() == table.id() && key.parent == foreign.parent && key.name == foreign.name
            };
            if !after.keys_called(called).any(same) {
                return Err(has_pending(table, &foreign.name));
            }
        }
        for (table, _, index) in before.unique_called(called) {
            let same = |(now, _, key): (&Arc<Table>, IndexId, &IndexSchema)| {
                now.id() == table.id() && key.name == index.name
            };
            if !after.unique_called(called).any(same) {
                return Err(has_pending(table, &index.name));
            }
        }
    }
    Ok(())
}

fn has_pending(table: &Table, constraint: &str) -> Error {
    let what =
        format!("cannot ALTER TABLE \"{}\" because it has pending trigger events", table.name());
    Error::new(SqlState::OBJECT_IN_USE, what).with_detail(format!(
        "The constraint \"{constraint}\" is looked at when the transaction commits."
    ))
}

impl Catalog {
    /// Foreign keys by what their constraint is called, with their tables.
    pub fn keys_called<'c>(
        &'c self,
        called: &'c str,
    ) -> impl Iterator<Item = (&'c Arc<Table>, &'c ForeignKey)> {
        let all =
            self.tables().flat_map(|table| table.foreign_keys.iter().map(move |k| (table, k)));
        all.filter(move |(table, foreign)| {
            split(called).1 == foreign.name && constraint_key(table, foreign) == called
        })
    }

    /// UNIQUE constraints that can wait, by what they are called, with their tables.
    pub fn unique_called<'c>(
        &'c self,
        called: &'c str,
    ) -> impl Iterator<Item = (&'c Arc<Table>, IndexId, &'c IndexSchema)> {
        let (schema, name) = split(called);
        let of = move |table: &'c Arc<Table>| {
            let waiting = table
                .unique_constraints()
                .filter(move |(id, index)| index.name == name && table.deferrable.contains_key(id));
            waiting.map(move |(id, index)| (table, id, index))
        };
        self.tables().filter(move |table| table.namespace() == schema).flat_map(of)
    }

    /// Whether a change of a table's rows may break a key that can be deferred.
    pub fn may_defer(&self, table: &Table) -> bool {
        let parents = table.foreign_keys.iter();
        let children = table.referenced_by.iter().filter_map(|reference| {
            self.table_by_id(reference.child)?.foreign_keys.get(reference.key)
        });
        !table.deferrable.is_empty()
            || parents.chain(children).any(|foreign| foreign.deferrable.is_some())
    }

    /// As a statement sees it that does not look at some keys.
    ///
    /// # Errors
    /// One of them is not deferrable.
    pub(crate) fn without_keys(&self, keys: &[String]) -> Result<Catalog> {
        let mut catalog = self.clone();
        for called in keys {
            let mut children = Vec::new();
            for (table, foreign) in self.keys_called(called) {
                if foreign.deferrable.is_none() {
                    return Err(not_deferrable(&foreign.name));
                }
                children.push((table.id(), foreign.name.clone()));
            }
            let unique: Vec<_> =
                self.unique_called(called).map(|(table, index, _)| (table.id(), index)).collect();
            for (table, index) in unique {
                let Some(table) = catalog.tables.get_mut(&table) else { continue };
                let schema = Arc::make_mut(&mut Arc::make_mut(table).schema);
                if let Some(index) = schema.indexes.get_mut(usize::from(index) - 1) {
                    index.unique = false;
                }
            }
            for (child, name) in children {
                let Some(table) = catalog.tables.get_mut(&child) else { continue };
                let of = |foreign: &ForeignKey| foreign.name == name;
                let table = Arc::make_mut(table);
                for foreign in table.foreign_keys.iter_mut().filter(|foreign| of(foreign)) {
                    foreign.unchecked = true;
                }
                table.foreign_keys.retain(|foreign| !(of(foreign) && foreign.is_plain()));
            }
        }
        catalog.link_references();
        Ok(catalog)
    }
}

impl ForeignKey {
    /// Nothing is done to children.
    fn is_plain(&self) -> bool {
        use crate::schema::catalog::ReferenceAction::NoAction;
        self.on_delete == NoAction && self.on_update == NoAction
    }
}

/// Rows of a child that have no parent, of each what is `shown` of `c`: one of them.
pub(crate) fn orphans_with(
    shown: &str,
    (child, columns): (&Table, &[ColumnId]),
    (parent, parent_columns): (&Table, &[ColumnId]),
) -> String {
    let own = |c: &ColumnId| format!("c.{}", quoted(child.column_name(*c)));
    let theirs = |c: &ColumnId| format!("p.{}", quoted(parent.column_name(*c)));
    let pairs = columns.iter().zip(parent_columns);
    let on: Vec<String> = pairs.map(|(c, p)| format!("{} = {}", own(c), theirs(p))).collect();
    let present: Vec<String> = columns.iter().map(|c| format!("{} IS NOT NULL", own(c))).collect();
    format!(
        "SELECT {shown} FROM {} c LEFT JOIN {} p ON {} WHERE {} AND {} IS NULL LIMIT 1",
        as_sql(child.key()),
        as_sql(parent.key()),
        on.join(" AND "),
        present.join(" AND "),
        parent_columns.first().map(theirs).unwrap_or_default(),
    )
}

pub(crate) fn not_deferrable(name: &str) -> Error {
    let what = format!("constraint \"{name}\" is not deferrable");
    Error::new(SqlState::WRONG_OBJECT_TYPE, what)
}

/// Values of an index that several rows have: those of one such key.
pub(crate) fn repeated(table: &Table, index: &IndexSchema) -> String {
    let names: Vec<String> =
        index.columns.iter().map(|column| quoted(table.column_name(*column))).collect();
    let present: Vec<String> = names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
    let names = names.join(", ");
    format!(
        "SELECT {names} FROM {} WHERE {} GROUP BY {names} HAVING count(*) > 1 ORDER BY {names} \
         LIMIT 1",
        as_sql(table.key()),
        present.join(" AND "),
    )
}
