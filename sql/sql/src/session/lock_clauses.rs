//! What a SELECT says about locks: FOR UPDATE, FOR SHARE, NOWAIT.

use sqlparser::ast::{self, LockType, NonBlock};
use types::{Error, Result, SqlState, TableId};

use crate::schema::catalog::Catalog;
use crate::syntax::names::{fold, object_name};
use crate::syntax::parsed::Parsed;

/// What a SELECT says about locks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Locking {
    pub exclusive: Exclusive,
    pub nowait: bool,
}

/// What FOR UPDATE concerns.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Exclusive {
    #[default]
    Nothing,
    Table(TableId),
    /// All that is read.
    All,
}

impl Locking {
    /// # Errors
    /// 42P01 for FOR UPDATE OF what is not in FROM.
    pub fn of(parsed: &Parsed, catalog: &Catalog) -> Result<Locking> {
        let Some(query) = parsed.query() else { return Ok(Locking::default()) };
        let mut locking = Locking::default();
        for clause in &query.locks {
            locking.nowait |= clause.nonblock == Some(NonBlock::Nowait);
            let concerned = match &clause.of {
                None => Exclusive::All,
                Some(name) => locked_relation(query, name, catalog)?,
            };
            if clause.lock_type == LockType::Update {
                locking.exclusive = match locking.exclusive {
                    Exclusive::Nothing => concerned,
                    known if known == concerned => known,
                    _ => Exclusive::All,
                };
            }
        }
        Ok(locking)
    }

    pub fn is_exclusive(self, table: TableId) -> bool {
        match self.exclusive {
            Exclusive::Nothing => false,
            Exclusive::Table(only) => only == table,
            Exclusive::All => true,
        }
    }

    /// Every read of a transaction is validated, so a lock would add nothing; but an answer at
    /// once that the rows are locked cannot be given.
    pub fn check_without_locks(self) -> Result<()> {
        match self.nowait {
            false => Ok(()),
            true => Err(Error::unsupported("NOWAIT where no rows are locked").with_hint(
                "Transactions that write lock rows under the protocol 2pl, and no others.",
            )),
        }
    }
}

/// The table behind a name of a query's FROM; all that is read, where it is no table.
fn locked_relation(
    query: &ast::Query,
    name: &ast::ObjectName,
    catalog: &Catalog,
) -> Result<Exclusive> {
    let name = object_name(name)?;
    let from = match &*query.body {
        ast::SetExpr::Select(select) => select.from.as_slice(),
        _ => &[],
    };
    let joined = from.iter().flat_map(|table| table.joins.iter().map(|join| &join.relation));
    for factor in from.iter().map(|table| &table.relation).chain(joined) {
        let (table, alias) = match factor {
            ast::TableFactor::Table { name, alias, args: None, .. } => (Some(name), alias),
            ast::TableFactor::Derived { alias, .. } => (None, alias),
            _ => continue,
        };
        let table = table.map(object_name).transpose()?;
        let shown = alias.as_ref().map(|alias| fold(&alias.name)).or_else(|| table.clone());
        if shown.as_ref() == Some(&name) {
            let table = table.and_then(|table| catalog.find_table(&table));
            return Ok(table.map_or(Exclusive::All, |table| Exclusive::Table(table.id())));
        }
    }
    let what = format!("relation \"{name}\" in FOR UPDATE clause not found in FROM clause");
    Err(Error::new(SqlState::UNDEFINED_TABLE, what))
}
