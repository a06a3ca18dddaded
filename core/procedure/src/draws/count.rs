//! How many values of a sequence a program takes: as far as its text tells.

use types::{TableId, Value};

use super::{Source, is_mark};
use crate::analysis::visit;
use crate::expr::Expr;
use crate::query::{Query, Yields};
use crate::step::{Block, Procedure, SequenceNeed, SequenceUse, Step};

/// Beyond this the data are asked: a text that says so many seldom means them.
const KNOWN_MAX: u64 = 1 << 16;

/// Of a program whose calls have no places yet.
pub(super) fn uses(procedure: &Procedure, source: Source, sequence: TableId) -> SequenceUse {
    let Count { values_max, takes_all } = block(&procedure.body, source);
    let most = values_max.filter(|most| *most <= KNOWN_MAX);
    SequenceUse { sequence, need: SequenceNeed::Values { most, takes_all } }
}

/// Values that a part takes; see [`SequenceNeed`].
#[derive(Clone, Copy)]
struct Count {
    values_max: Option<u64>,
    takes_all: bool,
}

impl Count {
    const NONE: Count = Count { values_max: Some(0), takes_all: true };

    fn and(self, other: Count) -> Count {
        let both = self.values_max.zip(other.values_max);
        Count {
            values_max: both.and_then(|(one, other)| one.checked_add(other)),
            takes_all: self.takes_all && other.takes_all,
        }
    }

    fn times(self, rows_max: Option<u64>) -> Count {
        match (self.values_max, rows_max) {
            (Some(0), _) => self,
            (Some(values), Some(rows)) => Count { values_max: values.checked_mul(rows), ..self },
            _ => Count { values_max: None, takes_all: false },
        }
    }

    /// Of a part that may be left out.
    fn at_most(self) -> Count {
        Count { takes_all: self.values_max == Some(0), ..self }
    }
}

fn block(steps: &Block, source: Source) -> Count {
    steps.iter().fold(Count::NONE, |count, one| {
        let ends = matches!(one, Step::Return | Step::Exit { .. } | Step::Continue { .. });
        let count = count.and(step(one, source));
        if ends { count.at_most() } else { count }
    })
}

fn step(step: &Step, source: Source) -> Count {
    match step {
        Step::If { condition, then, otherwise, phis } => {
            let (one, other) = (block(then, source), block(otherwise, source));
            let ends = leaves_early(then) || leaves_early(otherwise);
            let phis = phis.iter().flat_map(|phi| [&phi.then, &phi.otherwise]);
            let branches = Count {
                values_max: one.values_max.zip(other.values_max).map(|(a, b)| a.max(b)),
                takes_all: !ends && one.values_max == Some(0) && other.values_max == Some(0),
            };
            exprs([condition].into_iter(), source).and(branches).and(exprs(phis, source).at_most())
        }
        Step::ForRows { query: rows, body, carried, .. } => {
            let once =
                query(rows, source).and(exprs(carried.iter().map(|one| &one.initial), source));
            let turn = block(body, source).and(exprs(carried.iter().map(|one| &one.next), source));
            // VALUES has as many rows as it says; other queries as many or fewer.
            let turns = match rows {
                Query::Values(rows) => turn.times(Some(rows.len() as u64)),
                rows => turn.times(rows_max(rows)).at_most(),
            };
            once.and(turns)
        }
        Step::ForRange { .. } | Step::ForEach { .. } | Step::While { .. } => {
            let mut draws = super::step_draws(step, source);
            draws |= super::each_turn_draws(step, source);
            match draws {
                true => Count { values_max: None, takes_all: false },
                false => Count::NONE,
            }
        }
        Step::Fetch { query: rows, .. } | Step::EmitQuery { query: rows } => query(rows, source),
        step => {
            let mut all = Vec::new();
            visit::each_step_expr(step, &mut |_, expr| all.push(expr));
            exprs(all.into_iter(), source)
        }
    }
}

/// Whether control may leave what is around a block out of it.
fn leaves_early(steps: &Block) -> bool {
    visit::numbered(steps)
        .into_iter()
        .any(|step| matches!(step, Step::Return | Step::Exit { .. } | Step::Continue { .. }))
}

/// Calls of one mark in one step are one draw. One that stands below another operator might not be
/// reached, and its value is gone all the same.
fn exprs<'e>(exprs: impl Iterator<Item = &'e Expr>, source: Source) -> Count {
    let (mut marks, mut reached) = (Vec::new(), true);
    for expr in exprs {
        expr.walk(&mut |part| {
            reached &=
                !matches!(part, Expr::Case { .. } | Expr::Coalesce(_) | Expr::And(_) | Expr::Or(_));
            let Expr::Call { arguments, .. } = part else { return };
            if let Some(mark) = arguments.last().filter(|last| is_mark(last))
                && Source::of(part) == Some(source)
                && !marks.contains(&mark)
            {
                marks.push(mark);
            }
        });
    }
    Count { values_max: Some(marks.len() as u64), takes_all: reached || marks.is_empty() }
}

fn query(query: &Query, source: Source) -> Count {
    let mut own = Vec::new();
    let each_own = |own: &mut Vec<_>| visit::each_query_expr(query, &mut |expr| own.push(expr));
    match query {
        Query::Values(rows) => {
            rows.iter().map(|row| exprs(row.iter(), source)).fold(Count::NONE, Count::and)
        }
        Query::Project { input, .. }
        | Query::Filter { input, .. }
        | Query::Aggregate { input, .. } => {
            each_own(&mut own);
            let each_row = exprs(own.into_iter(), source).times(rows_max(input));
            let exact = matches!(**input, Query::Values(_));
            let each_row = if exact { each_row } else { each_row.at_most() };
            self::query(input, source).and(each_row)
        }
        Query::Sort { input, .. }
        | Query::Distinct { input, .. }
        | Query::Window { input, .. }
        | Query::Numbered { input, .. } => self::query(input, source),
        Query::Limit { input, .. } => {
            each_own(&mut own);
            self::query(input, source).at_most().and(exprs(own.into_iter(), source))
        }
        Query::Append(inputs) | Query::RowsFrom { inputs, .. } => {
            inputs.iter().map(|input| self::query(input, source)).fold(Count::NONE, Count::and)
        }
        Query::NestedLoop { outer, inner, .. } => {
            let inner = self::query(inner, source).times(rows_max(outer)).at_most();
            self::query(outer, source).and(inner)
        }
        Query::HashJoin { outer, inner, .. } => {
            self::query(outer, source).and(self::query(inner, source).at_most())
        }
        // Its step draws nothing.
        Query::Recursive { start, .. } => self::query(start, source),
        Query::CameLast { .. } => Count::NONE,
        // What is inside draws nothing.
        Query::Apply { outer, .. } => self::query(outer, source),
        Query::Sets { inputs, .. } => {
            let [left, right] = &**inputs;
            self::query(left, source).and(self::query(right, source))
        }
        Query::Call { .. } | Query::Around { .. } | Query::Get { .. } | Query::Scan { .. } => {
            each_own(&mut own);
            exprs(own.into_iter(), source)
        }
    }
}

/// Rows that a query yields at most, as far as its text tells.
pub(super) fn rows_max(query: &Query) -> Option<u64> {
    match query {
        Query::Values(rows) => Some(rows.len() as u64),
        Query::Get { .. } => Some(1),
        Query::Around { .. }
        | Query::Scan { .. }
        | Query::Recursive { .. }
        | Query::CameLast { .. } => None,
        Query::Call { inputs, .. } => match &**inputs {
            [
                Expr::Const(Value::Int(first)),
                Expr::Const(Value::Int(last)),
                Expr::Const(Value::Int(1)),
            ] => Some(u64::try_from(i128::from(*last) - i128::from(*first) + 1).unwrap_or(0)),
            _ => None,
        },
        Query::Aggregate { groups, sets, .. } if groups.is_empty() => {
            Some(sets.len().max(1) as u64)
        }
        Query::Aggregate { input, sets, .. } if !sets.is_empty() => {
            let of_each = rows_max(input)?.max(1);
            of_each.checked_mul(sets.len() as u64)
        }
        Query::Filter { input, .. }
        | Query::Project { input, .. }
        | Query::Aggregate { input, .. }
        | Query::Sort { input, .. }
        | Query::Distinct { input, .. }
        | Query::Window { input, .. }
        | Query::Numbered { input, .. } => rows_max(input),
        Query::Limit { input, limit, .. } => {
            let limit = match limit {
                Some(Expr::Const(Value::Int(limit))) => u64::try_from(*limit).ok(),
                _ => None,
            };
            match (rows_max(input), limit) {
                (Some(rows), Some(limit)) => Some(rows.min(limit)),
                (rows, limit) => rows.or(limit),
            }
        }
        Query::Append(inputs) => inputs.iter().map(rows_max).sum(),
        Query::RowsFrom { inputs, .. } => {
            inputs.iter().map(rows_max).try_fold(0, |most, rows| Some(rows?.max(most)))
        }
        Query::NestedLoop { outer, inner, left, .. } => {
            let inner = rows_max(inner)?;
            rows_max(outer)?.checked_mul(if *left { inner.max(1) } else { inner })
        }
        Query::HashJoin { outer, inner, left, right, .. } => {
            let inner = rows_max(inner)?;
            let pairs = rows_max(outer)?.checked_mul(if *left { inner.max(1) } else { inner })?;
            pairs.checked_add(if *right { inner } else { 0 })
        }
        Query::Apply { outer, inner, yields: Yields::Rows { left, .. }, .. } => {
            let inner = rows_max(inner)?;
            rows_max(outer)?.checked_mul(if *left { inner.max(1) } else { inner })
        }
        Query::Apply { outer, .. } => rows_max(outer),
        Query::Sets { inputs, .. } => rows_max(&inputs[0]),
    }
}
