//! A SELECT whose parts are bound: as a plan.

use procedure::query::{Aggregate, Repeats, SortKey, WindowCall};
use procedure::{Expr, Query};
use types::{Error, Result};

use super::aggregates::over_groups;
use super::applied::OfGroups;
use super::grouping::{Groups, grouped};
use super::placeholders::{FIRST_WINDOW, is_applied, is_called, is_window};
use super::plan::{Planned, Wishes, plan};
use super::relations::From;
use super::row_calls::needs;
use super::scope::Scope;
use super::shape::{Tail, first_of_each, limited, projected, sorted};
use super::state::{Applications, Applied};

/// The bound parts of a SELECT, over the columns of its FROM.
pub(super) struct SelectBody {
    pub expressions: Vec<Expr>,
    pub keys: Vec<SortKey>,
    pub having: Option<Expr>,
    pub distinct: bool,
    /// DISTINCT ON.
    pub first_of: Vec<Expr>,
    pub row_calls: Vec<Query>,
    pub applied: Applications,
    pub windows: Vec<WindowCall>,
}

impl SelectBody {
    pub fn plain(mut self, mut from: From, tail: Tail<'_>) -> Result<Query> {
        from.items.extend(std::mem::take(&mut self.applied).into_items());
        let used = self.expressions.iter().chain(self.keys.iter().map(|k| &k.expr));
        let used = used.chain(&self.first_of);
        let used = used.chain(self.windows.iter().flat_map(WindowCall::exprs));
        let needed = self.row_calls.iter().flat_map(needs);
        // What calls give comes after the relations, in whichever order these are.
        let by_calls = |key: &SortKey| key.expr.columns().into_iter().any(is_called);
        let by_relations = self.windows.is_empty() && !self.keys.iter().any(by_calls);
        let wishes = Wishes {
            columns: used.flat_map(Expr::columns).chain(needed).collect(),
            order: if by_relations { &self.keys } else { &[] },
            limited: tail.limit.is_some(),
        };
        let planned = plan(from.items, from.conditions, &wishes)?;
        let planned = planned.with_calls(std::mem::take(&mut self.row_calls));
        let planned = planned.with_windows(std::mem::take(&mut self.windows));
        self.place(&planned);
        if planned.ordered && by_relations {
            // DISTINCT keeps first appearances, so an order below it survives.
            self.keys.clear();
        }
        Ok(self.finish(planned.query, tail))
    }

    pub fn grouped(
        mut self,
        mut from: From,
        scope: &Scope,
        mut groups: Groups,
        (mut calls, groupings): (Vec<Aggregate>, Vec<Vec<Expr>>),
        tail: Tail<'_>,
    ) -> Result<Query> {
        groups.add_whole_keys(scope);
        let OfGroups { for_each_row, for_each_group } =
            std::mem::take(&mut self.applied).of_groups(&groups.exprs);
        from.items.extend(for_each_row);
        let inputs = calls.iter().flat_map(Aggregate::exprs);
        let used = inputs.chain(&groups.exprs).flat_map(Expr::columns).collect();
        let extreme = extreme_key(&groups, &calls);
        let wishes =
            Wishes { columns: used, order: extreme.as_slice(), limited: extreme.is_some() };
        let planned = plan(from.items, from.conditions, &wishes)?;
        for expr in self.each_expr_mut() {
            over_groups(expr, &groups.exprs, scope)?;
        }
        groups.answer(&groupings, calls.len(), self.each_expr_mut())?;
        let for_each_group =
            self.applied_to_groups(for_each_group, (&groups, calls.len()), scope)?;
        let inputs = calls.iter_mut().flat_map(Aggregate::exprs_mut);
        inputs.chain(&mut groups.exprs).for_each(|e| planned.place(e));
        let input = match extreme {
            Some(_) if planned.ordered => first_not_null(planned.query, &calls),
            _ => planned.query,
        };
        let mut query = grouped(input, groups, calls);
        for applied in for_each_group {
            query = applied.over(query);
        }
        if let Some(condition) = self.having.take() {
            query = Query::Filter { input: Box::new(query), condition };
        }
        let query = self.windowed(query);
        Ok(self.finish(query, tail))
    }

    /// Windows over groups: after their columns each call has one.
    fn windowed(&mut self, input: Query) -> Query {
        let calls = std::mem::take(&mut self.windows);
        if calls.is_empty() {
            return input;
        }
        let first = input.width();
        self.each_expr_mut().for_each(|expr| {
            expr.map_columns(&mut |column| match is_window(column) {
                true => Expr::Column(column - FIRST_WINDOW + first),
                false => Expr::Column(column),
            });
        });
        Query::Window { input: Box::new(input), calls: calls.into() }
    }

    fn each_expr_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let keys = self.keys.iter_mut().map(|key| &mut key.expr);
        let shown = self.expressions.iter_mut().chain(keys);
        let windows = self.windows.iter_mut().flat_map(WindowCall::exprs_mut);
        shown.chain(&mut self.having).chain(&mut self.first_of).chain(windows)
    }

    /// Subqueries that are run for each group: after its columns each has one.
    fn applied_to_groups(
        &mut self,
        applied: Vec<(u16, Applied)>,
        (groups, calls): (&Groups, usize),
        scope: &Scope,
    ) -> Result<Vec<Applied>> {
        let first = groups.exprs.len() + calls + usize::from(!groups.sets.is_empty());
        let columns: Vec<u16> = applied.iter().map(|(column, _)| *column).collect();
        let mut unknown = None;
        let mut placed = |expr: &mut Expr| {
            expr.map_columns(&mut |column| {
                let place = columns.iter().position(|known| *known == column);
                if place.is_none() && is_applied(column) {
                    unknown = Some(column);
                }
                Expr::Column(place.map_or(column, |place| (first + place) as u16))
            });
        };
        self.each_expr_mut().for_each(&mut placed);
        let mut ready = Vec::with_capacity(applied.len());
        for (_, mut applied) in applied {
            let mut ungrouped = None;
            applied.each_expr_mut(&mut |expr| {
                ungrouped = ungrouped.take().or(over_groups(expr, &groups.exprs, scope).err());
                placed(expr);
            });
            if let Some(error) = ungrouped {
                return Err(of_subquery(error));
            }
            ready.push(applied);
        }
        match unknown {
            None => Ok(ready),
            Some(_) => Err(Error::unsupported("a subquery of a row beside groups")),
        }
    }

    fn place(&mut self, planned: &Planned) {
        self.each_expr_mut().for_each(|expr| planned.place(expr));
    }

    fn finish(self, query: Query, tail: Tail<'_>) -> Query {
        if !self.keys.is_empty() && self.first_of.is_empty() && self.draws() {
            return self.finish_drawn(query, tail);
        }
        let query = sorted(query, self.keys);
        if !self.first_of.is_empty() {
            return limited(first_of_each(query, self.expressions, self.first_of), tail);
        }
        let mut query = projected(query, self.expressions);
        if self.distinct {
            query = Query::Distinct {
                input: Box::new(query),
                by: Box::default(),
                repeats: Repeats::Dropped,
            };
        }
        limited(query, tail)
    }
}

impl SelectBody {
    fn draws(&self) -> bool {
        let keys = self.keys.iter().map(|key| &key.expr);
        self.expressions.iter().chain(keys).any(Expr::draws)
    }

    /// A random value that is shown and sorted by is drawn once: the rows are made, then sorted.
    fn finish_drawn(mut self, query: Query, tail: Tail<'_>) -> Query {
        let shown = self.expressions.len() as u16;
        for key in &mut self.keys {
            let known = self.expressions.iter().position(|expr| *expr == key.expr);
            let place = known.unwrap_or(self.expressions.len());
            let expr = std::mem::replace(&mut key.expr, Expr::Column(place as u16));
            if known.is_none() {
                self.expressions.push(expr);
            }
        }
        let made = Query::Project { input: Box::new(query), expressions: self.expressions.into() };
        let query = sorted(made, std::mem::take(&mut self.keys));
        let mut query = projected(query, (0..shown).map(Expr::Column).collect());
        if self.distinct {
            query = Query::Distinct {
                input: Box::new(query),
                by: Box::default(),
                repeats: Repeats::Dropped,
            };
        }
        limited(query, tail)
    }
}

fn of_subquery(error: Error) -> Error {
    match error.message().strip_prefix("column \"").and_then(|rest| rest.split_once('"')) {
        Some((column, _)) => Error::new(
            error.code(),
            format!("subquery uses ungrouped column \"{column}\" from outer query"),
        ),
        None => error,
    }
}

/// `min(c)` and `max(c)` alone are the first row in the order of c.
fn extreme_key(groups: &Groups, calls: &[Aggregate]) -> Option<SortKey> {
    use procedure::query::AggregateFunction::{Max, Min};
    match calls {
        [call] if groups.exprs.is_empty() && groups.sets.is_empty() && call.filter.is_none() => {
            let descending = match call.function {
                Min => false,
                Max => true,
                _ => return None,
            };
            let expr = call.input.clone().filter(|e| matches!(e, Expr::Column(_)))?;
            // NULLs are filtered out, so they may be wherever the index has them.
            Some(SortKey { expr, descending, nulls_first: descending })
        }
        _ => None,
    }
}

fn first_not_null(input: Query, calls: &[Aggregate]) -> Query {
    let value = calls.first().and_then(|c| c.input.clone());
    let condition = Expr::is_null(value.unwrap_or(Expr::Const(types::Value::Null)), true);
    Query::Limit {
        input: Box::new(Query::Filter { input: Box::new(input), condition }),
        limit: Some(Expr::Const(types::Value::Int(1))),
        offset: None,
    }
}
