//! What a SELECT says about locks: FOR UPDATE, FOR SHARE, NOWAIT, SKIP LOCKED.

use std::ops::ControlFlow;

use sqlparser::ast::{self, LockType, NonBlock};
use types::{Error, Result, SqlState, TableId};

use crate::schema::catalog::Catalog;
use crate::syntax::locks::check_rows;
use crate::syntax::names::{fold, object_name};
use crate::syntax::parsed::{Body, Parsed};
use crate::syntax::walk;

/// What a SELECT says about locks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Locking {
    /// There is a clause.
    pub rows: bool,
    pub exclusive: Exclusive,
    pub shared: Exclusive,
    pub nowait: bool,
    /// SKIP LOCKED.
    pub skips: bool,
    /// It writes, and there are clauses in queries within it.
    pub within: bool,
}

/// What a clause concerns.
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
        let mut locking = Locking::default();
        let Some(query) = parsed.query() else {
            locking.within = !locking_queries(parsed).is_empty();
            return Ok(locking);
        };
        if let Some(clause) = query.locks.first() {
            locking.rows = true;
            check_rows(query, clause)?;
        }
        for clause in &query.locks {
            locking.nowait |= clause.nonblock == Some(NonBlock::Nowait);
            locking.skips |= clause.nonblock == Some(NonBlock::SkipLocked);
            let concerned = match &clause.of {
                None => Exclusive::All,
                Some(name) => locked_relation(query, name, catalog)?,
            };
            match clause.lock_type {
                LockType::Update => locking.exclusive = locking.exclusive.and(concerned),
                LockType::Share => locking.shared = locking.shared.and(concerned),
            }
        }
        Ok(locking)
    }

    pub fn is_exclusive(self, table: TableId) -> bool {
        self.exclusive.concerns(table)
    }

    /// NOWAIT where only statements of [`row_locks`] lock rows, and this is none of them.
    ///
    /// [`row_locks`]: super::row_locks
    pub fn check_without_locks(self) -> Result<()> {
        match self.nowait {
            false => Ok(()),
            true => Err(Error::unsupported("NOWAIT in a query whose rows cannot be locked")
                .with_hint("Rows of tables can be, in a transaction that may write.")),
        }
    }
}

impl Exclusive {
    fn and(self, other: Exclusive) -> Exclusive {
        match (self, other) {
            (Exclusive::Nothing, other) => other,
            (known, other) if known == other => known,
            _ => Exclusive::All,
        }
    }

    pub fn concerns(self, table: TableId) -> bool {
        match self {
            Exclusive::Nothing => false,
            Exclusive::Table(only) => only == table,
            Exclusive::All => true,
        }
    }
}

/// The table after a name of a query's FROM; all that is read, where it is no table.
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

/// Queries within a statement that writes which lock rows, in the order of the text; none if one is
/// within another.
pub(super) fn locking_queries(parsed: &Parsed) -> Vec<ast::Query> {
    #[derive(Default)]
    struct Find {
        found: Vec<ast::Query>,
        depth: usize,
        nested: bool,
    }
    impl ast::Visitor for Find {
        type Break = ();

        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            if !query.locks.is_empty() {
                self.nested |= self.depth > 0;
                self.depth += 1;
                self.found.push(query.clone());
            }
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            self.depth -= usize::from(!query.locks.is_empty());
            ControlFlow::Continue(())
        }
    }
    use ast::Statement as S;
    let Body::Statement(statement) = &parsed.body else { return Vec::new() };
    match &**statement {
        S::Update(_) | S::Delete(_) | S::Insert(_) => {}
        S::Query(query) if query.locks.is_empty() => {}
        _ => return Vec::new(),
    }
    let mut find = Find::default();
    _ = walk::read(&**statement, &mut find);
    if find.nested { Vec::new() } else { find.found }
}
