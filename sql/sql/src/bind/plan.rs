//! Planning a FROM clause: which index answers what, and in which order relations are joined.
//!
//! There are no statistics: a plan is a function of catalog and text alone, so that every replica
//! plans alike. What counts is the *access path* that conditions give each relation:
//!
//! 1. the whole primary key by equality: a point read;
//! 2. the longest prefix of an index by equality, then a range on the column after it;
//! 3. everything, in primary-key order.
//!
//! Inner joins start with the relation that has the best path by itself and go on with the one that
//! has the best path given those before (nested loop), or else with a hash join; ties go to the
//! order of the text, which also rules when there is an outer join. `c IN (…)` and `c = ANY (…)`
//! over an indexed column become a join with the list.
//!
//! Conditions are split into conjuncts. Each is used exactly once: by an access path, as a
//! relation's filter, or as a join's condition, as early as its columns are there.

use std::ops::Bound;

use procedure::query::{Repeats, RowFunction, SortKey, WindowCall, Yields};
use procedure::{BinaryOp, Expr, Query};
use types::Result;

use super::items::{Item, Source};
use super::paths::{Bounding, Path, index_nullability, indexes, mirrored, path_by};
use super::placeholders::{FIRST_CALLED, FIRST_WINDOW};
use super::row_calls::{each_input, side_by_side};
use super::state::{Applied, Gives};
use crate::schema::catalog::Table;

/// A planned FROM clause.
pub(super) struct Planned {
    pub query: Query,
    /// Number, among all columns, of each output column.
    layout: Vec<u16>,
    /// The rows come in the order that was asked for.
    pub ordered: bool,
}

impl Planned {
    /// Its rows as they come, to whose columns [`place`](Planned::place) leads.
    pub fn into_query(self) -> Query {
        self.query
    }

    /// Exactly these columns, in this order.
    pub fn project(self, columns: &[u16]) -> Query {
        if self.layout == columns {
            return self.query;
        }
        let mut expressions: Vec<Expr> = columns.iter().map(|c| Expr::Column(*c)).collect();
        expressions.iter_mut().for_each(|e| self.place(e));
        Query::Project { input: Box::new(self.query), expressions: expressions.into() }
    }

    /// With the calls of the select list after all other columns.
    pub fn with_calls(mut self, mut calls: Vec<Query>) -> Planned {
        if calls.is_empty() {
            return self;
        }
        for call in &mut calls {
            each_input(call, &mut |input| place(input, &self.layout));
        }
        let inner_width = calls.len() as u16;
        self.layout.extend((0..inner_width).map(|n| FIRST_CALLED + n));
        self.query = Query::NestedLoop {
            outer: Box::new(self.query),
            inner: Box::new(side_by_side(calls, false)),
            condition: None,
            left: false,
            inner_width,
        };
        self
    }

    /// With the values of calls with OVER after all other columns; in an order of their own.
    pub fn with_windows(mut self, mut calls: Vec<WindowCall>) -> Planned {
        if calls.is_empty() {
            return self;
        }
        calls.iter_mut().flat_map(WindowCall::exprs_mut).for_each(|expr| self.place(expr));
        self.layout.extend((0..calls.len() as u16).map(|n| FIRST_WINDOW + n));
        self.query = Query::Window { input: Box::new(self.query), calls: calls.into() };
        self.ordered = false;
        self
    }

    /// Rewrites an expression over all columns to one over the plan's output.
    pub fn place(&self, expr: &mut Expr) {
        place(expr, &self.layout);
    }
}

fn place(expr: &mut Expr, layout: &[u16]) {
    expr.map_columns(&mut |column| {
        let place = layout.iter().position(|c| *c == column);
        // Every column that an expression uses was asked for.
        Expr::Column(place.map_or(u16::MAX, |place| place as u16))
    });
}

/// What the rest of the statement wants of the rows.
#[derive(Default)]
pub(super) struct Wishes<'a> {
    /// Columns used above.
    pub columns: Vec<u16>,
    pub order: &'a [SortKey],
    /// Few rows will be taken, so an order may be worth a detour.
    pub limited: bool,
}

/// Cuts a condition into conjuncts.
pub(super) fn conjuncts(condition: Expr, out: &mut Vec<Expr>) {
    match condition {
        Expr::And(parts) => parts.into_iter().for_each(|part| conjuncts(part, out)),
        other => out.push(other),
    }
}

pub(super) fn plan(
    mut items: Vec<Item>,
    pending: Vec<Expr>,
    wishes: &Wishes<'_>,
) -> Result<Planned> {
    // What an expression looks at is there when all relations are.
    items.sort_by_key(Item::is_value);
    if items.is_empty() {
        let one_row = Query::Values([Box::default()].into());
        return Ok(Planned {
            query: filtered(one_row, pending),
            layout: Vec::new(),
            ordered: true,
        });
    }
    // What draws is asked of each row of the result, and of no other.
    let (drawn, undrawn): (Vec<Expr>, Vec<Expr>) = pending.into_iter().partition(Expr::draws);
    let mut pending = undrawn;
    let reorder = items.iter().all(|item| item.left.is_none());
    if reorder {
        lists_as_items(&mut items, &mut pending);
    }
    let alone = items.iter().filter(|item| !item.is_value()).count() == 1;
    let mut planner = Planner {
        pending,
        wanted: &wishes.columns,
        later: items
            .iter()
            .flat_map(|i| i.left.clone().unwrap_or_default())
            .chain(drawn.iter().cloned())
            .chain(items.iter().flat_map(Item::needs).map(Expr::Column))
            .collect(),
        layout: Vec::new(),
        query: None,
        ordered: wishes.order.is_empty(),
    };
    while !items.is_empty() {
        let next = if reorder { planner.best(&items) } else { 0 };
        let item = items.remove(next);
        let order = if alone && !item.is_value() { wishes.order } else { &[] };
        planner.join(item, order, wishes.limited);
    }
    let query = planner.query.take().unwrap_or(Query::Values(Box::default()));
    let mut left_over = planner.pending;
    left_over.extend(drawn);
    left_over.iter_mut().for_each(|e| place(e, &planner.layout));
    Ok(Planned {
        query: filtered(query, left_over),
        layout: planner.layout,
        ordered: planner.ordered,
    })
}

fn filtered(input: Query, conditions: Vec<Expr>) -> Query {
    match Expr::all(conditions) {
        Some(condition) => Query::Filter { input: Box::new(input), condition },
        None => input,
    }
}

/// `c IN (…)` over a column that an index could look up becomes `c = list.value`.
fn lists_as_items(items: &mut Vec<Item>, pending: &mut [Expr]) {
    let mut next_column = items.iter().map(|i| i.offset + i.width).max().unwrap_or(0);
    for conjunct in pending.iter_mut() {
        let (column, query) = match &*conjunct {
            Expr::InList { input, list, negated: false }
                if list.iter().all(|e| e.columns().is_empty()) =>
            {
                match **input {
                    Expr::Column(column) => {
                        let rows = list.iter().map(|e| Box::from([e.clone()]));
                        (column, Query::Values(rows.collect()))
                    }
                    _ => continue,
                }
            }
            Expr::AnyEqual { input, array } if array.columns().is_empty() => match **input {
                Expr::Column(column) => (column, elements((**array).clone())),
                _ => continue,
            },
            _ => continue,
        };
        let leads_an_index = items.iter().any(|item| match &item.source {
            Source::Table(table) if (item.offset..item.offset + item.width).contains(&column) => {
                let local = column - item.offset;
                let mut indexes = indexes(table);
                indexes.any(|index| table.index_columns(index).first() == Some(&local))
            }
            _ => false,
        });
        if !leads_an_index {
            continue;
        }
        *conjunct = Expr::equal(Expr::Column(column), Expr::Column(next_column));
        let list = Query::Distinct {
            input: Box::new(query),
            by: Box::default(),
            repeats: Repeats::Dropped,
        };
        items.push(Item::new(Source::List(list), next_column, 1));
        next_column += 1;
    }
}

fn elements(array: Expr) -> Query {
    Query::Call { function: RowFunction::Elements, inputs: [array].into() }
}

struct Planner<'a> {
    /// Conjuncts that no operator has taken yet.
    pending: Vec<Expr>,
    wanted: &'a [u16],
    /// ON conjuncts of outer joins and conditions that draw, whose columns must stay in reach.
    later: Vec<Expr>,
    layout: Vec<u16>,
    query: Option<Query>,
    ordered: bool,
}

impl Planner<'_> {
    /// The relation to join next.
    fn best(&self, items: &[Item]) -> usize {
        let is_ready = |item: &Item| item.needs().iter().all(|c| self.layout.contains(c));
        let rank = |item: &Item| match &item.source {
            Source::Table(table) => {
                let path = self.path(item, table, &self.pending, &[], false);
                let by_hash = self.query.is_some() && self.has_equi_join(item);
                match path.rank() {
                    (true, ..) => 5,
                    (_, equal, ..) if equal > 0 => 4,
                    (_, _, range, _) if range > 0 => 2,
                    _ if by_hash => 2,
                    _ => 1,
                }
            }
            Source::System(_) if self.lookup(item, &self.pending).is_some() => 4,
            Source::System(_) if self.query.is_some() && self.has_equi_join(item) => 2,
            Source::System(_) => 1,
            Source::List(_) => 3,
            // Calls may be made from values of subqueries, and these from what calls give.
            Source::Applied(_) | Source::Calls(_) if !is_ready(item) => -1,
            Source::Applied(_) if item.is_value() => 0,
            Source::Applied(_) => 1,
            Source::Calls(_) => 3,
            Source::Query(_) if self.query.is_some() && self.has_equi_join(item) => 2,
            Source::Query(_) => 1,
        };
        let ranks: Vec<i8> = items.iter().map(rank).collect();
        let best = ranks.iter().max();
        ranks.iter().position(|r| Some(r) == best).unwrap_or(0)
    }

    fn has_equi_join(&self, item: &Item) -> bool {
        self.pending.iter().any(|c| self.equi_join(c, item).is_some())
    }

    /// The sides of `outer = inner`, if the conjunct is such an equation.
    fn equi_join(&self, conjunct: &Expr, item: &Item) -> Option<(Expr, Expr)> {
        let Expr::Binary { op: BinaryOp::Equal, left, right, .. } = conjunct else {
            return None;
        };
        let outer = |e: &Expr| {
            let columns = e.columns();
            !columns.is_empty() && columns.iter().all(|c| self.layout.contains(c))
        };
        let inner = |e: &Expr| {
            let columns = e.columns();
            !columns.is_empty() && columns.iter().all(|c| item.has(*c))
        };
        if outer(left) && inner(right) {
            Some(((**left).clone(), (**right).clone()))
        } else if outer(right) && inner(left) {
            Some(((**right).clone(), (**left).clone()))
        } else {
            None
        }
    }

    /// The best way to read a table, given the columns that are there already.
    fn path(
        &self,
        item: &Item,
        table: &Table,
        conjuncts: &[Expr],
        order: &[SortKey],
        limited: bool,
    ) -> Path {
        let bounds: Vec<Bounding> =
            conjuncts.iter().enumerate().flat_map(|(i, c)| self.boundings(i, c, item)).collect();
        let paths = indexes(table).map(|index| path_by(table, index, &bounds, item, order));
        let useful = paths.filter(|path| {
            path.index == 0 || !path.is_full_scan() || (limited && path.ordered.is_some())
        });
        // Of equals the first one, so that the primary key comes before other indexes.
        useful
            .reduce(|best, path| if path.rank() > best.rank() { path } else { best })
            .unwrap_or_else(|| path_by(table, 0, &[], item, &[]))
    }

    /// The equation by which rows of a system's relation are looked up: that with a value of the
    /// rows before rather than with one that all rows share.
    fn lookup(&self, item: &Item, conjuncts: &[Expr]) -> Option<Bounding> {
        let all = conjuncts.iter().enumerate().flat_map(|(i, c)| self.boundings(i, c, item));
        let equal =
            all.filter(|bounding| bounding.op == BinaryOp::Equal && !bounding.value.draws());
        let rank = |bounding: &Bounding| match &bounding.value {
            Expr::Const(_) => 2,
            value if value.columns().is_empty() => 1,
            _ => 0,
        };
        equal.min_by_key(rank)
    }

    /// `column op value` read off a conjunct, for columns of `item` and values known before it.
    fn boundings(&self, number: usize, conjunct: &Expr, item: &Item) -> Vec<Bounding> {
        let Expr::Binary { op, left, right, .. } = conjunct else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (column, value, op) in [(left, right, Some(*op)), (right, left, mirrored(*op))] {
            let (Expr::Column(column), Some(op)) = (&**column, op) else {
                continue;
            };
            let usable = matches!(
                op,
                BinaryOp::Equal
                    | BinaryOp::Less
                    | BinaryOp::LessOrEqual
                    | BinaryOp::Greater
                    | BinaryOp::GreaterOrEqual
            );
            let known = value.columns().iter().all(|c| self.layout.contains(c));
            if usable && known && item.has(*column) {
                found.push(Bounding {
                    conjunct: number,
                    op,
                    value: (**value).clone(),
                    column: *column - item.offset,
                });
            }
        }
        found
    }

    fn join(&mut self, item: Item, order: &[SortKey], limited: bool) {
        let is_left = item.left.is_some();
        // An outer join's row is matched by its ON alone; WHERE sees the result.
        let mut conjuncts = match &item.left {
            Some(on) => {
                self.later.retain(|c| !on.contains(c));
                on.clone()
            }
            None => std::mem::take(&mut self.pending),
        };
        let path = match &item.source {
            Source::Table(table) if item.full => Some(self.path(&item, table, &[], &[], false)),
            Source::Table(table) => Some(self.path(&item, table, &conjuncts, order, limited)),
            _ => None,
        };
        let key = match &item.source {
            Source::System(_) if !item.full => self.lookup(&item, &conjuncts),
            _ => None,
        };
        let mut used = path.as_ref().map(|path| path.exactly_used(&item)).unwrap_or_default();
        used.extend(key.iter().map(|key| key.conjunct));
        let mut number = 0;
        conjuncts.retain(|_| {
            number += 1;
            !used.contains(&(number - 1))
        });
        let (inside, rest): (Vec<Expr>, Vec<Expr>) =
            conjuncts.into_iter().partition(|c| item.decides(c));
        let (mut across, unready): (Vec<Expr>, Vec<Expr>) = rest.into_iter().partition(|c| {
            is_left || c.columns().iter().all(|c| item.has(*c) || self.layout.contains(c))
        });
        if !is_left {
            self.pending = unready;
        }
        let columns = self.columns_needed(&item, inside.iter().chain(&across));
        if let Some(path) = &path
            && !order.is_empty()
        {
            self.ordered = path.ordered.is_some() || path.point;
        }
        let by_path = matches!(item.source, Source::Calls(_))
            || key.is_some()
            || path.as_ref().is_some_and(|path| !path.is_full_scan());
        if let Source::Applied(applied) = item.source {
            let outer = self.query.take().unwrap_or(Query::Values([Box::default()].into()));
            let filter = (inside, across);
            self.query = Some(self.applied(outer, *applied, columns, filter, is_left));
            return;
        }
        let Some(outer) = self.query.take() else {
            let inner = self.read(&item, (path, key), &columns, inside);
            self.layout = columns;
            across.iter_mut().for_each(|e| place(e, &self.layout));
            self.query = Some(filtered(inner, across));
            return;
        };
        let keys = match by_path {
            true => Vec::new(),
            false => self.take_equi_joins(&mut across, &item),
        };
        let inner = self.read(&item, (path, key), &columns, inside);
        let mut query = self.joined(outer, inner, columns, keys, across, by_path, is_left);
        if let (true, Query::HashJoin { right, .. }) = (item.full, &mut query) {
            *right = true;
        }
        self.query = Some(query);
    }

    /// A subquery run for each row of what is there, whose columns go after.
    fn applied(
        &mut self,
        outer: Query,
        mut applied: Applied,
        columns: Vec<u16>,
        (mut inside, mut across): (Vec<Expr>, Vec<Expr>),
        left: bool,
    ) -> Query {
        applied.each_expr_mut(&mut |expr| place(expr, &self.layout));
        let gives = applied.gives;
        if gives == Gives::Rows {
            inside.iter_mut().for_each(|e| place(e, &columns));
            applied.query = filtered(applied.query, std::mem::take(&mut inside));
        }
        self.layout.extend(&columns);
        across.extend(inside);
        across.iter_mut().for_each(|e| place(e, &self.layout));
        let mut query = applied.over(outer);
        match &mut query {
            Query::Apply { yields: Yields::Rows { condition, left: is_left, .. }, .. } => {
                *condition = Expr::all(across);
                *is_left = left;
                query
            }
            _ => filtered(query, across),
        }
    }

    fn take_equi_joins(&self, conditions: &mut Vec<Expr>, item: &Item) -> Vec<(Expr, Expr)> {
        let mut keys = Vec::new();
        conditions.retain(|c| match self.equi_join(c, item) {
            Some(sides) => {
                keys.push(sides);
                false
            }
            None => true,
        });
        keys
    }

    /// The join of what is there with one relation more, whose columns go after.
    #[allow(clippy::too_many_arguments)]
    fn joined(
        &mut self,
        outer: Query,
        inner: Query,
        columns: Vec<u16>,
        keys: Vec<(Expr, Expr)>,
        mut across: Vec<Expr>,
        by_path: bool,
        left: bool,
    ) -> Query {
        let outer_layout = self.layout.clone();
        self.layout.extend(&columns);
        across.iter_mut().for_each(|e| place(e, &self.layout));
        let (outer, inner) = (Box::new(outer), Box::new(inner));
        let condition = Expr::all(across);
        let inner_width = columns.len() as u16;
        match by_path {
            true => Query::NestedLoop { outer, inner, condition, left, inner_width },
            false => {
                let (outer_keys, inner_keys) = placed_keys(keys, &outer_layout, &columns);
                Query::HashJoin {
                    outer,
                    inner,
                    outer_keys,
                    inner_keys,
                    condition,
                    left,
                    right: false,
                    inner_width,
                }
            }
        }
    }

    /// Columns of `item`, numbered among all, that something still has to see.
    fn columns_needed<'e>(
        &'e self,
        item: &Item,
        conditions: impl Iterator<Item = &'e Expr>,
    ) -> Vec<u16> {
        if !matches!(item.source, Source::Table(_) | Source::System(_)) {
            return (item.offset..item.offset + item.width).collect();
        }
        let conditions = conditions.chain(&self.pending).chain(&self.later);
        let used = conditions.flat_map(Expr::columns).chain(self.wanted.iter().copied());
        let mut columns: Vec<u16> = used.filter(|c| item.has(*c)).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The operator that reads a system's relation.
    fn around(
        &self,
        item: &Item,
        source: u16,
        key: Option<Bounding>,
        columns: &[u16],
        inside: Vec<Expr>,
    ) -> Query {
        let key = key.map(|key| {
            let mut value = key.value;
            place(&mut value, &self.layout);
            (key.column, value)
        });
        let columns = columns.iter().map(|column| column - item.offset).collect();
        Query::Around { source, columns, key, filter: Expr::all(inside) }
    }

    /// The operator that reads one relation.
    fn read(
        &self,
        item: &Item,
        (path, key): (Option<Path>, Option<Bounding>),
        columns: &[u16],
        mut inside: Vec<Expr>,
    ) -> Query {
        inside.iter_mut().for_each(|e| place(e, columns));
        if let Source::System(source) = item.source {
            return self.around(item, source, key, columns, inside);
        }
        let (table, path) = match (&item.source, path) {
            (Source::Table(table), Some(path)) => (table, path),
            (Source::Query(query) | Source::List(query), _) => {
                return filtered(query.clone(), inside);
            }
            (Source::Calls(calls), _) => {
                let mut calls = calls.clone();
                each_input(&mut calls, &mut |input| place(input, &self.layout));
                return filtered(calls, inside);
            }
            (Source::Table(_), None) | (Source::Applied(_) | Source::System(_), _) => {
                return Query::Values(Box::default());
            }
        };
        let local = columns.iter().map(|c| *c - item.offset).collect();
        let value = |bounding: &Bounding| {
            let mut value = bounding.value.clone();
            place(&mut value, &self.layout);
            value
        };
        let prefix: Vec<Expr> = path.equal.iter().map(value).collect();
        if path.point {
            return Query::Get {
                table: table.id(),
                key: prefix.into(),
                columns: local,
                filter: Expr::all(inside),
            };
        }
        let bound = |bounding: &Option<Bounding>| match bounding {
            None if prefix.is_empty() => Bound::Unbounded,
            None => Bound::Included(prefix.clone().into_boxed_slice()),
            Some(bounding) => {
                let mut key = prefix.clone();
                key.push(value(bounding));
                match bounding.op {
                    BinaryOp::Less | BinaryOp::Greater => Bound::Excluded(key.into()),
                    _ => Bound::Included(key.into()),
                }
            }
        };
        Query::Scan {
            table: table.id(),
            index: path.index,
            nullable: index_nullability(table, path.index),
            low: bound(&path.low),
            high: bound(&path.high),
            reverse: path.ordered.unwrap_or(false),
            columns: local,
            filter: Expr::all(inside),
        }
    }
}

fn placed_keys(
    keys: Vec<(Expr, Expr)>,
    outer_layout: &[u16],
    inner_layout: &[u16],
) -> (Box<[Expr]>, Box<[Expr]>) {
    let placed = |(mut outer, mut inner): (Expr, Expr)| {
        place(&mut outer, outer_layout);
        place(&mut inner, inner_layout);
        (outer, inner)
    };
    let (outer, inner): (Vec<Expr>, Vec<Expr>) = keys.into_iter().map(placed).unzip();
    (outer.into(), inner.into())
}
