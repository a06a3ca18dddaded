//! Rows that a SELECT … FOR UPDATE or FOR SHARE locks, where the protocol itself locks nothing.
//!
//! ```text
//!   SELECT n FROM jobs … LIMIT 1 FOR UPDATE        bound once more as
//!   SELECT n, jobs.id FROM jobs … LIMIT 1          its answer is n, its locks are by jobs.id
//!
//!   newest state ─► run ─► lock what is answered ─┬─► nothing waited for, nothing moved ─► answer
//!        ▲          │ SKIP LOCKED: without rows   │
//!        └─── undo ◄┘ that others have locked ◄───┘ else
//! ```
//!
//! The locks are in the node's [lock table](engine::locks) and concern nothing but such statements:
//! of transactions that are open on one node, two do not get one row. They are no part of the
//! ledger. COMMIT asks for what was read as ever, so what comes by another way, a plain UPDATE or
//! another node, ends in 40001 as it does without them; nothing becomes less than serializable by a
//! lock that was not asked for.
//!
//! *SKIP LOCKED.* The statement says that it does not mind which rows it gets, so COMMIT requires
//! those that were answered, and nothing else of the tables concerned
//! ([`sparing`](concurrency::sparing)): two workers that take from one queue have no conflict.
//!
//! *Which rows.* Those of tables that stand in FROM by their name. What a view, a subquery or a
//! cursor reads is not locked. Locks are held until COMMIT was answered, or ROLLBACK; also those
//! that were taken behind a savepoint.

use std::ops::Range;
use std::sync::Arc;

use concurrency::claims::Place;
use concurrency::sparing::Spared;
use concurrency::{Claim, Statement as Call, Work};
use engine::locks::{LockOwner, Locked, Patience};
use procedure::{Output, Procedure, ProgramResult};
use sqlparser::ast;
use types::key::encode_column;
use types::{DataType, Key, Result, SqlState, TableId, Value};

use super::answer::{Answer, answer};
use super::lock_clauses::{Locking, is_not_of_rows};
use super::locking::{ATTEMPTS_MAX, Waiting, no_transaction, unsettled};
use super::prepared::{Action, Prepared};
use super::{Session, View};
use crate::bind::scope::ROW_ID_NAME;
use crate::bind::statement::Program;
use crate::schema::catalog::{Catalog, Table};
use crate::syntax::names::{bare, fold, object_name};
use crate::syntax::parsed::{Body, Parsed};

/// A query that answers its rows' keys, too.
#[derive(Debug)]
pub(super) struct Keyed {
    procedure: Arc<Procedure>,
    /// Columns that the client gets; those behind them are keys.
    shown: usize,
    tables: Vec<KeyedTable>,
}

#[derive(Debug)]
struct KeyedTable {
    id: TableId,
    exclusive: bool,
    /// Of the row that is answered.
    places: Range<usize>,
    columns: Vec<(DataType, bool)>,
}

impl KeyedTable {
    /// `None`: an outer join found no row.
    fn key_of(&self, row: &[Value]) -> Result<Option<Key>> {
        let mut key = Key::default();
        for ((data_type, nullable), value) in self.columns.iter().zip(&row[self.places.clone()]) {
            if value.is_null() && !nullable {
                return Ok(None);
            }
            encode_column(data_type, *nullable, value, &mut key)?;
        }
        Ok(Some(key))
    }
}

impl Keyed {
    fn keys(&self, rows: &[Box<[Value]>]) -> Result<Vec<(TableId, Key)>> {
        let of_row = |row| {
            let keys =
                self.tables.iter().map(move |it| Ok(it.key_of(row)?.map(|key| (it.id, key))));
            keys.filter_map(Result::transpose)
        };
        rows.iter().flat_map(|row| of_row(row)).collect()
    }

    fn is_exclusive(&self, table: TableId) -> bool {
        self.tables.iter().any(|it| it.id == table && it.exclusive)
    }

    /// In one order for all, so that two statements do not each hold what the other needs.
    fn claims(&self, keys: &[(TableId, Key)]) -> Vec<Claim> {
        let mut keys: Vec<_> = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let claim = |(table, key)| Claim {
            table,
            index: 0,
            exclusive: self.is_exclusive(table),
            place: Place::Key(key),
        };
        keys.into_iter().map(claim).collect()
    }

    fn spared(&self, owner: &LockOwner) -> Spared {
        let taken = |it: &KeyedTable| (it.id, owner.taken_from(it.id, self.is_exclusive(it.id)));
        self.tables.iter().map(taken).collect()
    }
}

impl Session {
    /// What locks the rows of a query, if some are to be locked.
    pub(super) fn row_locks(&self, prepared: &Prepared, view: &View) -> Result<Option<Arc<Keyed>>> {
        let may_lock = match &self.transaction {
            Some(transaction) => !transaction.is_read_only() && !transaction.has_own_schema(),
            None => !self.settings.read_only() && view.snapshot.is_some(),
        };
        let is_past = prepared.parsed.as_of.is_some() || self.settings.as_of_block().is_some();
        let locks = prepared.locking.rows && !self.database.engine.locks().are_in_force();
        if !locks || !may_lock || is_past {
            return Ok(None);
        }
        if let Some(keyed) = prepared.keyed.get() {
            return Ok(keyed.clone());
        }
        let keyed = self.bind_keyed(prepared, view)?.map(Arc::new);
        Ok(prepared.keyed.get_or_init(|| keyed).clone())
    }

    fn bind_keyed(&self, prepared: &Prepared, view: &View) -> Result<Option<Keyed>> {
        let catalog = &view.versioned.catalog;
        let Output::Rows(columns) = &prepared.bound.output else { return Ok(None) };
        let shown = columns.len();
        let Some((parsed, tables)) = with_keys(&prepared.parsed, prepared.locking, catalog, shown)
        else {
            return Ok(None);
        };
        let types: Vec<_> = prepared.bound.parameters.iter().cloned().map(Some).collect();
        let (bound, _) = self.bind_by(&self.info, &view.versioned, parsed, &types)?;
        let bound = bound.map_err(|error| match error.code() {
            SqlState::GROUPING_ERROR => is_not_of_rows(prepared.locking, "aggregate functions"),
            _ => error,
        })?;
        match Action::from(bound.statement) {
            Action::Program(Program::Procedure(procedure)) if procedure.sequences.is_empty() => {
                Ok(Some(Keyed { procedure, shown, tables }))
            }
            _ => Ok(None),
        }
    }

    /// Answers a query and locks the rows that it answers until the transaction ends; outside of
    /// one that is at once, but it has waited for others, or passed their rows over.
    pub(super) async fn answer_locking_rows(
        &mut self,
        keyed: &Keyed,
        prepared: &Prepared,
        parameters: &[Value],
    ) -> Result<Answer> {
        let is_alone = self.transaction.is_none();
        if is_alone {
            self.begin_implicit_block()?;
        }
        let result = self.rows_locked_by(keyed, parameters, prepared.locking).await;
        if is_alone {
            self.end_implicit_block(false).await?;
        }
        let mut result = result?;
        self.running.notices.append(&mut result.notices);
        let output = &prepared.bound.output;
        Ok(answer(&keyed.procedure.tag, output, result, self.running.answered.take()))
    }

    /// What the query answers, without the keys, its rows locked.
    pub(super) async fn rows_locked_by(
        &mut self,
        keyed: &Keyed,
        parameters: &[Value],
        locking: Locking,
    ) -> Result<ProgramResult> {
        let mut result = self.run_locking_rows(keyed, parameters, locking).await?;
        for row in &mut result.rows {
            *row = row[..keyed.shown].into();
        }
        Ok(result)
    }

    async fn run_locking_rows(
        &mut self,
        keyed: &Keyed,
        parameters: &[Value],
        locking: Locking,
    ) -> Result<ProgramResult> {
        let mut draws = self.draws(&keyed.procedure)?;
        let arguments = draws.arguments(&keyed.procedure, parameters)?;
        let procedure = Arc::clone(&keyed.procedure);
        let work = Work::Statement(Call { procedure, arguments });
        for _ in 0..ATTEMPTS_MAX {
            let memory_left = self.transaction.as_ref().map_or(0, |open| open.memory_left());
            let answered = self.attempt_row_locks(&work, keyed, locking).await?;
            let Some(answered) = answered else { continue };
            if let Some(transaction) = &mut self.transaction {
                self.running.answered = transaction.hand_over(memory_left);
                let head = transaction.head();
                self.has_read(head);
            }
            return answered;
        }
        Err(unsettled())
    }

    /// `None`: others came first, or the rows may have changed before they were locked.
    async fn attempt_row_locks(
        &mut self,
        work: &Work,
        keyed: &Keyed,
        locking: Locking,
    ) -> Result<Option<Result<ProgramResult>>> {
        let (snapshot, head) = self.newest()?;
        let Waiting { guard, names, lock_timeout } = self.waiting();
        let locks = self.database.engine.locks();
        let process = self.info.backend_pid;
        let Some(transaction) = &mut self.transaction else { return Err(no_transaction()) };
        let is_newest = transaction.advance(snapshot, head)?;
        let owner = transaction.row_locks.get_or_insert_with(|| locks.owner(process, false));
        let spared = if locking.skips { keyed.spared(owner) } else { Spared::new() };
        let attempt = transaction.attempt_sparing(work, &spared)?;
        let keys = match &attempt.answered {
            Ok(result) => keyed.keys(&result.rows)?,
            Err(_) => return Ok(Some(attempt.answered)),
        };
        let nowait = locking.nowait || locking.skips;
        let patience = Patience { lock_timeout, nowait, check: &guard, table_name: &names };
        let claims = keyed.claims(&keys);
        let locked = match &mut transaction.row_locks {
            Some(owner) => owner.lock(&claims, &patience).await,
            None => Err(no_transaction()),
        };
        let is_settled = match locked {
            Ok(Locked::Had) => true,
            Ok(Locked::AtOnce) => !is_newest || self.database.engine.head().height == head.height,
            Ok(Locked::Waited) => !is_newest,
            Err(error) if locking.skips && error.code() == SqlState::LOCK_NOT_AVAILABLE => false,
            Err(error) => {
                transaction.undo(&attempt);
                return Err(error);
            }
        };
        if !is_settled {
            transaction.undo(&attempt);
            return Ok(None);
        }
        transaction.require_only(&attempt, &spared, &keys)?;
        Ok(Some(attempt.answered))
    }
}

/// The same query with its rows' keys behind its columns, and which those are. `None`: it answers
/// no rows of tables.
fn with_keys(
    parsed: &Parsed,
    locking: Locking,
    catalog: &Catalog,
    shown: usize,
) -> Option<(Parsed, Vec<KeyedTable>)> {
    let mut parsed = parsed.clone();
    let Body::Statement(statement) = &mut parsed.body else { return None };
    let ast::Statement::Query(query) = &mut **statement else { return None };
    let with = query.with.iter().flat_map(|with| &with.cte_tables);
    let common: Vec<String> = with.map(|table| fold(&table.alias.name)).collect();
    let ast::SetExpr::Select(select) = &mut *query.body else { return None };
    let (mut tables, mut places) = (Vec::new(), shown);
    let relations: Vec<_> = select.from.iter().flat_map(relations_of).collect();
    for (name, relation) in relations {
        let named = object_name(relation).ok()?;
        let table = match relation.0.len() == 1 && common.contains(&named) {
            true => None,
            false => catalog.find_table(&named),
        };
        let Some(table) = table else { continue };
        let exclusive = locking.exclusive.concerns(table.id());
        if !exclusive && !locking.shared.concerns(table.id()) {
            continue;
        }
        let keys = key_columns(table);
        let columns = keys.iter().map(|(_, data_type, nullable)| (data_type.clone(), *nullable));
        let columns: Vec<_> = columns.collect();
        let at = places..places + keys.len();
        places = at.end;
        tables.push(KeyedTable { id: table.id(), exclusive, places: at, columns });
        let ident = |text: &str| ast::Ident::with_quote('"', text);
        select.projection.extend(keys.iter().map(|(column, ..)| {
            let path = vec![ident(&name), ident(column)];
            ast::SelectItem::UnnamedExpr(ast::Expr::CompoundIdentifier(path))
        }));
    }
    (!tables.is_empty()).then_some((parsed, tables))
}

/// Tables of a FROM that it names, by what they are called in the statement. Those whose columns
/// have other names there are left out.
fn relations_of(from: &ast::TableWithJoins) -> Vec<(String, &ast::ObjectName)> {
    let joined = from.joins.iter().map(|join| &join.relation);
    let mut found = Vec::new();
    for factor in std::iter::once(&from.relation).chain(joined) {
        match factor {
            ast::TableFactor::Table { name, alias, args: None, .. } => {
                let shown = match alias {
                    Some(alias) if !alias.columns.is_empty() => continue,
                    Some(alias) => fold(&alias.name),
                    None => match object_name(name) {
                        Ok(name) => bare(&name).to_owned(),
                        Err(_) => continue,
                    },
                };
                found.push((shown, name));
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias: None } => {
                found.extend(relations_of(table_with_joins));
            }
            _ => {}
        }
    }
    found
}

/// Of each column of the primary key: its name, its type, whether it may be NULL.
fn key_columns(table: &Table) -> Vec<(String, DataType, bool)> {
    let schema = &table.schema;
    let columns = schema.primary_key.iter().map(|id| &schema.columns[usize::from(*id)]);
    let name = |column: &types::ColumnSchema| match schema.hidden_row_id {
        true => ROW_ID_NAME.to_owned(),
        false => column.name.clone(),
    };
    columns.map(|column| (name(column), column.data_type.clone(), column.nullable)).collect()
}
