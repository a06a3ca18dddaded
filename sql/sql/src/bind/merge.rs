//! MERGE.
//!
//! ```text
//!   source ⟕ target ON …  ─► which clause each row takes  ─► none: away
//!                         ─► then, row by row: the same target row again: 21000,
//!                                              else UPDATE, DELETE or INSERT
//! ```
//!
//! All is read, and each row's clause is chosen, before the first change: no clause sees what
//! another has done. Where foreign keys have to wait for the end, what the clauses write is
//! computed with the rows, which are kept, and looked at again ([`end_checks`](super::end_checks)).
//! Without a clause that inserts, the join is an inner one, which may look the target's rows up by
//! their keys, and so reads no others.

use std::sync::Arc;

use identity::Privileges;
use procedure::query::Repeats;
use procedure::{Expr, Query, Reg};
use sqlparser::ast;
use types::{ColumnId, Error, Result, SqlState, Value};

use super::binder::Binder;
use super::cycles::Followers;
use super::dml::{Dml, Returning, RowResult};
use super::insert::with_generated_columns;
use super::plan::{Wishes, conjuncts, plan};
use super::relations::From;
use super::state::{Following, Place, Waits};
use crate::schema::catalog::{Commented, Table};
use crate::syntax::merge::{DEFAULTS, NOTHING};

struct Clause {
    matched: bool,
    condition: Option<Expr>,
    action: Action,
}

enum Action {
    Nothing,
    Update(Vec<(ColumnId, Expr)>),
    Delete,
    Insert { columns: Vec<ColumnId>, values: Vec<Expr> },
}

/// What the actions of all rows have in common.
struct Merging {
    table: Arc<Table>,
    returning: Returning,
    clauses: Vec<Clause>,
    /// Columns that are there in a turn, among all of FROM.
    needed: Vec<ColumnId>,
    /// Columns of FROM.
    width: ColumnId,
    /// Where what each clause writes is in a kept row; none where rows are not kept.
    written: Vec<usize>,
    /// What follows each clause when all rows are changed.
    followers: Vec<Option<Followers>>,
}

impl Binder<'_> {
    pub(super) fn merge(&mut self, merge: &ast::Merge, emit: bool) -> Result<Dml> {
        let items = match &merge.output {
            None => None,
            Some(ast::OutputClause::Returning { select_items, .. }) => Some(&select_items[..]),
            Some(_) => return Err(Error::unsupported("OUTPUT")),
        };
        if merge.clauses.is_empty() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "MERGE without a WHEN clause"));
        }
        let alone = |relation: &ast::TableFactor| {
            [ast::TableWithJoins { relation: relation.clone(), joins: Vec::new() }]
        };
        let (table, mut from) = self.target(&alone(&merge.table), &alone(&merge.source))?;
        let on = self.condition(&from.scope, &merge.on, Place::JoinCondition, "JOIN/ON")?;
        conjuncts(on, &mut from.conditions);
        let returning = self.returning_clause(&from.scope, items, emit)?;
        let mut clauses = Vec::with_capacity(merge.clauses.len());
        for clause in &merge.clauses {
            clauses.push(self.merge_clause(&table, &from, clause)?);
        }
        check_reachable(&clauses)?;
        let width = from.scope.width();
        let mut needed = returning.columns_used();
        needed.extend(clauses.iter().flat_map(Clause::columns_used));
        needed.extend(0..table.schema.columns.len() as ColumnId);
        needed.sort_unstable();
        needed.dedup();
        let written = Vec::new();
        let followers = clauses.iter().map(|clause| self.clause_followers(&table, clause));
        let followers: Vec<Option<Followers>> = followers.collect();
        let follows = followers.iter().any(Option::is_some);
        let mut merging = Merging { table, returning, clauses, needed, width, written, followers };
        let mut query = merging.rows(from)?;
        let waits = merging.clauses.iter().any(|clause| self.clause_awaits(&merging.table, clause));
        if waits || follows {
            query = self.merge_kept(&mut merging, query)?;
        }
        let registers = usize::from(query.width());
        let row =
            self.for_rows(query.clone(), registers, merging.returning.width(), |binder, row| {
                let repeated = Expr::Reg(row[merging.repeated()]);
                binder.require(Expr::negated(repeated), changed_twice(), None);
                let merge = |binder: &mut Self| binder.merge_row(&merging, row, 0);
                binder.waiting(Waits::all_if(waits), merge)
            })?;
        if waits {
            self.check_merged_at_end(&merging, &query)?;
        }
        if follows {
            self.follow_merged(&merging, &query)?;
        }
        Ok(merging.returning.finish(row))
    }

    /// Whether rows that a clause acts on have to be looked at again.
    fn clause_awaits(&self, table: &Table, clause: &Clause) -> bool {
        match &clause.action {
            Action::Nothing => false,
            Action::Insert { .. } => self.rows_await_parents(table),
            Action::Update(assigned) => {
                self.updated_await(table, &|c| assigned.iter().any(|(a, _)| *a == c), false)
            }
            Action::Delete => self.deleted_await(table),
        }
    }

    /// What the keys that a clause changes set in motion, where that comes back to the table.
    fn clause_followers(&self, table: &Arc<Table>, clause: &Clause) -> Option<Followers> {
        let Action::Update(assigned) = &clause.action else { return None };
        let changed = |column| assigned.iter().any(|(c, _)| *c == column);
        self.followers(table, &changed).filter(|followers| followers.come_to(table.id()))
    }

    /// When all rows are changed, those that point at them follow, clause by clause.
    fn follow_merged(&mut self, merging: &Merging, rows: &Query) -> Result<()> {
        for (number, followers) in merging.followers.iter().enumerate() {
            let Some(followers) = followers else { continue };
            let Action::Update(assigned) = &merging.clauses[number].action else { continue };
            let before = |column: ColumnId| merging.needed.binary_search(&column).ok();
            let after = |column: ColumnId| {
                let place = assigned.iter().position(|(c, _)| *c == column)?;
                Some(merging.written[number] + place)
            };
            let rows = merging.rows_of(number, rows);
            self.follow_updated(&merging.table, &rows, (before, after), followers)?;
        }
        Ok(())
    }

    /// The rows, read now, with what their clauses write.
    fn merge_kept(&mut self, merging: &mut Merging, rows: Query) -> Result<Query> {
        let taken = merging.taken_place() as u16;
        let mut expressions: Vec<Expr> = (0..rows.width()).map(Expr::Column).collect();
        for (number, clause) in merging.clauses.iter().enumerate() {
            merging.written.push(expressions.len());
            let values = match &clause.action {
                Action::Nothing | Action::Delete => Vec::new(),
                Action::Update(assigned) => assigned.iter().map(|(_, v)| v.clone()).collect(),
                Action::Insert { columns, values } => {
                    self.whole_merged(&merging.table, columns, values)
                }
            };
            for mut value in values {
                value.map_columns(&mut |column| {
                    let place = merging.needed.binary_search(&column);
                    Expr::Column(place.map_or(u16::MAX, |place| place as u16))
                });
                // Only a row that takes the clause has them, and may fail to.
                let takes = Expr::equal(Expr::Column(taken), number_of(number));
                let otherwise = Box::new(Expr::Const(Value::Null));
                expressions.push(Expr::Case { whens: [(takes, value)].into(), otherwise });
            }
        }
        let expressions = expressions.into();
        self.rows_kept(Query::Project { input: Box::new(rows), expressions })
    }

    /// Adds to the statement's end a look at the rows that each clause has written.
    fn check_merged_at_end(&mut self, merging: &Merging, rows: &Query) -> Result<()> {
        let table = &merging.table;
        for (number, clause) in merging.clauses.iter().enumerate() {
            if !self.clause_awaits(table, clause) {
                continue;
            }
            let of_clause = merging.rows_of(number, rows);
            let written = merging.written[number];
            let place = |column: ColumnId| merging.needed.binary_search(&column).ok();
            match &clause.action {
                Action::Nothing => {}
                Action::Insert { .. } => {
                    let columns = 0..table.schema.columns.len();
                    let whole = columns.map(|c| Expr::Column((written + c) as u16)).collect();
                    let whole = Query::Project { input: Box::new(of_clause), expressions: whole };
                    self.check_inserted_at_end(table, &with_generated_columns(table, whole), None)?;
                }
                Action::Update(assigned) => {
                    let new = |column| {
                        let place = assigned.iter().position(|(c, _)| *c == column)?;
                        Some(written + place)
                    };
                    let width = usize::from(rows.width());
                    let follows = merging.followers[number].is_some();
                    self.check_updated_at_end(table, (&of_clause, width), &place, &new, follows)?;
                }
                Action::Delete => {
                    let columns = self.columns_of_going(table);
                    let kept = columns.iter().filter_map(|c| place(*c));
                    let kept = kept.map(|place| Expr::Column(place as u16)).collect();
                    let going = Query::Project { input: Box::new(of_clause), expressions: kept };
                    self.check_deleted_at_end(table, (&going, &columns), 0)?;
                }
            }
        }
        Ok(())
    }

    fn merge_clause(
        &mut self,
        table: &Arc<Table>,
        from: &From,
        clause: &ast::MergeClause,
    ) -> Result<Clause> {
        use ast::{MergeAction as A, MergeClauseKind as K};
        let matched = match clause.clause_kind {
            K::Matched => true,
            K::NotMatched | K::NotMatchedByTarget => false,
            K::NotMatchedBySource => {
                return Err(Error::unsupported("WHEN NOT MATCHED BY SOURCE"));
            }
        };
        // A row without a match has no target to speak of.
        let scope = if matched { from.scope.clone() } else { from.in_sight() };
        let condition = match &clause.predicate {
            None => None,
            Some(condition) => Some(self.condition(&scope, condition, Place::Where, "WHEN AND")?),
        };
        let action = match &clause.action {
            A::Delete { .. } => {
                self.needs(&Commented::Table(table.id()), Privileges::DELETE);
                Action::Delete
            }
            A::Update(update) => match update.assignments.as_slice() {
                [one] if one.target.to_string().contains(NOTHING) => Action::Nothing,
                assignments => {
                    let assignments = self.assignments(&scope, table, assignments)?;
                    Action::Update(assignments)
                }
            },
            A::Insert(insert) => {
                let only = |name| names_only(&insert.columns, name);
                let values = match &insert.kind {
                    _ if only(NOTHING) || only(DEFAULTS) => None,
                    ast::MergeInsertKind::Values(values) => match values.rows.as_slice() {
                        [row] => Some(row.content.as_slice()),
                        _ => {
                            return Err(Error::new(
                                SqlState::SYNTAX_ERROR,
                                "MERGE inserts one row",
                            ));
                        }
                    },
                    ast::MergeInsertKind::Row => return Err(Error::unsupported("INSERT ROW")),
                };
                match only(NOTHING) {
                    true => Action::Nothing,
                    false => {
                        let names = values.map_or(&[][..], |_| &insert.columns);
                        let (columns, values) =
                            self.merged_values(&scope, table, names, values.unwrap_or_default())?;
                        Action::Insert { columns, values }
                    }
                }
            }
        };
        Ok(Clause { matched, condition, action })
    }

    /// The actions from the given clause on.
    fn merge_row(&mut self, merging: &Merging, row: &[Reg], first: usize) -> Result<RowResult> {
        let rest = merging.clauses.iter().enumerate().skip(first);
        let Some((number, _)) = rest.into_iter().find(|(_, clause)| clause.acts()) else {
            return Ok(RowResult::none());
        };
        let takes = Expr::equal(Expr::Reg(row[merging.taken_place()]), number_of(number));
        self.either(
            takes,
            merging.returning.width(),
            |binder| binder.merge_action(merging, number, row),
            |binder| binder.merge_row(merging, row, number + 1),
        )
    }

    fn merge_action(&mut self, merging: &Merging, number: usize, row: &[Reg]) -> Result<RowResult> {
        let Merging { table, returning, needed, width, clauses, .. } = merging;
        let written = merging.written.get(number).map(|from| &row[*from..]);
        let old = |column: ColumnId| match needed.binary_search(&column) {
            Ok(place) => Expr::Reg(row[place]),
            Err(_) => Expr::Const(Value::Null),
        };
        let in_place = |value: &Expr| {
            let mut value = value.clone();
            value.map_columns(&mut |column| old(column));
            value
        };
        let own = table.schema.columns.len() as ColumnId;
        match &clauses[number].action {
            Action::Nothing => Ok(RowResult::none()),
            Action::Update(assignments) => {
                let assigned = assignments.iter().enumerate().map(|(place, (column, value))| {
                    let known = written.map(|written| Expr::Reg(written[place]));
                    (*column, known.unwrap_or_else(|| in_place(value)))
                });
                let assigned: Vec<(ColumnId, Expr)> = assigned.collect();
                let following = match merging.followers[number] {
                    Some(_) => Following::Later,
                    None => Following::AtOnce,
                };
                let around = std::mem::replace(&mut self.following, following);
                let new = self.update_row(table, &old, &assigned);
                self.following = around;
                let mut new = new?;
                new.extend((own..*width).map(old));
                self.row_done(returning, &new)
            }
            Action::Delete => {
                self.delete_row(table, &old, 0)?;
                let values: Vec<Expr> = (0..*width).map(old).collect();
                self.row_done(returning, &values)
            }
            Action::Insert { columns, values } => {
                let shown = (returning.clone(), (own..*width).map(old).collect());
                let Some(written) = written else {
                    let values = values.iter().map(in_place).collect();
                    return self.insert_merged(table, columns, values, shown);
                };
                let mut whole: Vec<Expr> =
                    written[..usize::from(own)].iter().map(|reg| Expr::Reg(*reg)).collect();
                for (column, generated) in &table.generated {
                    let mut value = generated.value.clone();
                    value.map_columns(&mut |c| whole[usize::from(c)].clone());
                    whole[usize::from(*column)] = self.let_value(value)?;
                }
                self.insert_whole_merged(table, &whole, shown)
            }
        }
    }
}

impl Clause {
    fn acts(&self) -> bool {
        !matches!(self.action, Action::Nothing)
    }

    fn columns_used(&self) -> Vec<ColumnId> {
        let values: Vec<&Expr> = match &self.action {
            Action::Update(assignments) => assignments.iter().map(|(_, value)| value).collect(),
            Action::Insert { values, .. } => values.iter().collect(),
            Action::Nothing | Action::Delete => Vec::new(),
        };
        values.into_iter().chain(&self.condition).flat_map(Expr::columns).collect()
    }
}

impl Merging {
    /// Of the rows, those that take a clause.
    fn rows_of(&self, number: usize, rows: &Query) -> Query {
        let taken = Expr::Column(self.taken_place() as u16);
        let condition = Expr::equal(taken, number_of(number));
        Query::Filter { input: Box::new(rows.clone()), condition }
    }

    /// Where a row says which clause it takes.
    fn taken_place(&self) -> usize {
        self.needed.len()
    }

    /// Where it says whether one before it is of the same row of the target.
    fn repeated(&self) -> usize {
        self.needed.len() + 1
    }

    /// The rows that a clause acts on: the columns that are needed, the clause's number, and
    /// whether one before it is of the same row of the target.
    fn rows(&self, from: From) -> Result<Query> {
        let From { mut items, mut conditions, .. } = from;
        let inserts = self.clauses.iter().any(|clause| !clause.matched && clause.acts());
        if inserts && let Some(target) = items.first_mut() {
            target.left = Some(std::mem::take(&mut conditions));
        }
        items.rotate_left(1);
        let wishes = Wishes { columns: self.needed.clone(), ..Wishes::default() };
        let planned = plan(items, conditions, &wishes)?;
        let mut expressions: Vec<Expr> = self.needed.iter().map(|c| Expr::Column(*c)).collect();
        expressions.push(self.taken());
        expressions.iter_mut().for_each(|expr| planned.place(expr));
        let chosen = Query::Project {
            input: Box::new(planned.into_query()),
            expressions: expressions.into(),
        };
        let number = self.needed.len() as u16;
        let acting = Query::Filter {
            input: Box::new(chosen),
            condition: Expr::is_null(Expr::Column(number), true),
        };
        let key = self.table.schema.primary_key.iter();
        let by = key.filter_map(|key| self.needed.binary_search(key).ok());
        Ok(Query::Distinct {
            input: Box::new(acting),
            by: by.map(|place| place as u16).collect(),
            repeats: Repeats::Marked(None),
        })
    }

    /// The number of the clause that a row takes; NULL where none acts on it.
    fn taken(&self) -> Expr {
        let key = self.table.schema.primary_key.first().copied().unwrap_or_default();
        let whens = self.clauses.iter().enumerate().map(|(number, clause)| {
            let is_of_its_kind = Expr::is_null(Expr::Column(key), clause.matched);
            let conditions = std::iter::once(is_of_its_kind).chain(clause.condition.clone());
            let when = Expr::And(conditions.collect());
            let number = if clause.acts() { number_of(number) } else { Expr::Const(Value::Null) };
            (when, number)
        });
        Expr::Case { whens: whens.collect(), otherwise: Box::new(Expr::Const(Value::Null)) }
    }
}

fn changed_twice() -> Error {
    let what = "MERGE command cannot affect row a second time";
    Error::new(SqlState::CARDINALITY_VIOLATION, what)
        .with_hint("Ensure that not more than one source row matches any one target row.")
}

/// Whether a list of columns is one that stands for something else.
fn names_only(columns: &[ast::ObjectName], name: &str) -> bool {
    matches!(columns, [one] if one.to_string().contains(name))
}

fn number_of(clause: usize) -> Expr {
    Expr::Const(Value::Int(clause as i64))
}

fn check_reachable(clauses: &[Clause]) -> Result<()> {
    for matched in [true, false] {
        let mut of_kind = clauses.iter().filter(|clause| clause.matched == matched);
        if of_kind.any(|clause| clause.condition.is_none()) && of_kind.next().is_some() {
            let what = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
    }
    Ok(())
}
