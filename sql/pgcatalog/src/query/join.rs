//! Rows of FROM.
//!
//! A row is as wide as all of FROM from the beginning; what is not reached yet is NULL. So tables
//! may be joined in any order, and a table function sees what was joined before it.

use std::collections::HashMap;

use types::{DataType, Result, Value};

use super::plan::*;
use super::run::{Env, Kept, Run};
use crate::relation;
use crate::world::{Contents, Row};

/// A condition `leaf's column = something that does not depend on the leaf`.
struct Tie<'a> {
    place: usize,
    other: &'a Expr,
}

/// Rows that are there, with lookups; `hidden` stands behind the columns of each.
struct Known<'a> {
    contents: &'a Contents,
    types: &'a [&'a DataType],
    hidden: &'a [Value],
}

/// Whether all columns of this row that an expression uses satisfy `is_known`.
fn only_uses(expr: &Expr, is_known: impl Fn(usize) -> bool) -> bool {
    let mut only = true;
    expr.columns(0, &mut |place| only &= is_known(place));
    only
}

fn uses(expr: &Expr, source: &Source) -> bool {
    !only_uses(expr, |place| !source.has(place))
}

/// What makes looking up possible: an equality with a column of `source`.
fn tie<'a>(condition: &'a Expr, source: &Source) -> Option<Tie<'a>> {
    let Expr::Compare { op: CompareOp::Equal, sides } = condition else {
        return None;
    };
    let [left, right] = &**sides;
    let one_way = |column: &Expr, other: &'a Expr| match column {
        Expr::Column { level: 0, place } if source.has(*place) && !uses(other, source) => {
            Some(Tie { place: *place, other })
        }
        _ => None,
    };
    one_way(left, right).or_else(|| one_way(right, left))
}

impl Run<'_> {
    /// The rows of `source` beside `base`, a row that has what comes before, for which the
    /// conditions hold; they use nothing but what is in one or the other.
    pub fn rows(
        &self,
        source: &Source,
        base: &[Value],
        conditions: &[&Expr],
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        match source {
            Source::Leaf(leaf) => self.leaf_rows(source, leaf, base, conditions, outer),
            Source::Product { items, on } => {
                let conditions: Vec<&Expr> = conditions.iter().copied().chain(on).collect();
                self.product(items, base, conditions, outer)
            }
            Source::Outer { left, right, on, keep_left, keep_right } => {
                let on: Vec<&Expr> = on.iter().collect();
                let (kept, other) = match keep_left {
                    true => (left, right),
                    false => (right, left),
                };
                // What is about the side that is kept may be asked at once, the rest at the end.
                let (early, late): (Vec<&Expr>, Vec<&Expr>) =
                    conditions.iter().partition(|c| !(uses(c, other) || *keep_left && *keep_right));
                let rows = self.rows(kept, base, &early, outer)?;
                let mut joined = self.join(rows, other, &on, true, outer)?;
                if *keep_left && *keep_right {
                    let unmatched = self.unmatched(left, right, base, &on, outer)?;
                    joined.extend(unmatched);
                }
                self.filtered(joined, &late, outer)
            }
        }
    }

    fn filtered(
        &self,
        mut rows: Vec<Row>,
        conditions: &[&Expr],
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        if conditions.is_empty() {
            return Ok(rows);
        }
        let mut kept = Vec::with_capacity(rows.len());
        for row in rows.drain(..) {
            self.step()?;
            if self.all_hold(conditions, &Env { row: &row, outer })? {
                kept.push(row);
            }
        }
        Ok(kept)
    }

    /// Rows of `right` that no row of `left` goes with.
    fn unmatched(
        &self,
        left: &Source,
        right: &Source,
        base: &[Value],
        on: &[&Expr],
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let mut unmatched = Vec::new();
        for row in self.rows(right, base, &[], outer)? {
            if self.rows(left, &row, on, outer)?.is_empty() {
                unmatched.push(row);
            }
        }
        Ok(unmatched)
    }

    fn product(
        &self,
        items: &[Source],
        base: &[Value],
        mut conditions: Vec<&Expr>,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = vec![base.into()];
        let mut left: Vec<&Source> = items.iter().collect();
        while !left.is_empty() {
            let missing = |place: usize, but: &Source| {
                left.iter().any(|item| !std::ptr::eq(*item, but) && item.has(place))
            };
            let is_ready = |item: &Source| {
                let mut ready = true;
                item.columns(0, &mut |place| ready &= !missing(place, item));
                ready
            };
            let is_tied = |item: &Source| {
                let usable = |c: &&&Expr| only_uses(c, |place| !missing(place, item));
                conditions.iter().filter(usable).any(|c| tie(c, item).is_some())
            };
            let ready = || left.iter().enumerate().filter(|(_, item)| is_ready(item));
            let tied = ready().find(|(_, item)| is_tied(item));
            let next = tied.or_else(|| ready().next()).map_or(0, |(at, _)| at);
            let item = left.remove(next);
            let known = |place: usize| !left.iter().any(|item| item.has(place));
            let (now, later): (Vec<&Expr>, Vec<&Expr>) =
                conditions.into_iter().partition(|condition| only_uses(condition, known));
            conditions = later;
            rows = self.join(rows, item, &now, false, outer)?;
        }
        self.filtered(rows, &conditions, outer)
    }

    /// Each row beside the rows of `item` that go with it; a row that none goes with stays as it
    /// is if `keep`.
    fn join(
        &self,
        rows: Vec<Row>,
        item: &Source,
        on: &[&Expr],
        keep: bool,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let mut depends = false;
        item.columns(0, &mut |place| depends |= !item.has(place));
        let by_lookup = matches!(
            item,
            Source::Leaf(Leaf { kind: LeafKind::Relation(_) | LeafKind::Table { .. }, .. })
        ) && on.iter().any(|condition| tie(condition, item).is_some());
        if depends || by_lookup || rows.len() == 1 {
            let mut joined = Kept::default();
            for row in rows {
                let found = self.rows(item, &row, on, outer)?;
                if found.is_empty() && keep {
                    self.keep(&mut joined, row)?;
                } else {
                    found.into_iter().try_for_each(|row| self.keep(&mut joined, row))?;
                }
            }
            return Ok(joined.rows);
        }
        self.hash_join(rows, item, on, keep, outer)
    }

    /// `item` is evaluated once, and its rows found by what ties them, if anything does.
    fn hash_join(
        &self,
        rows: Vec<Row>,
        item: &Source,
        on: &[&Expr],
        keep: bool,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let Some(width) = rows.first().map(|row| row.len()) else {
            return Ok(rows);
        };
        let (own, shared): (Vec<&Expr>, Vec<&Expr>) =
            on.iter().partition(|condition| only_uses(condition, |place| item.has(place)));
        let found = self.rows(item, &vec![Value::Null; width], &own, outer)?;
        let ties: Vec<Tie<'_>> = shared.iter().filter_map(|c| tie(c, item)).collect();
        let mut by_key: HashMap<Vec<Value>, Vec<&Row>> = HashMap::new();
        for row in &found {
            let key = ties.iter().map(|tie| row[tie.place].clone()).collect();
            by_key.entry(key).or_default().push(row);
        }
        let mut joined = Kept::default();
        for row in rows {
            let env = Env { row: &row, outer };
            let key: Result<Vec<Value>> =
                ties.iter().map(|tie| self.eval(tie.other, &env)).collect();
            let before = joined.rows.len();
            for candidate in by_key.get(&key?).into_iter().flatten() {
                self.step()?;
                let mut both = row.clone();
                for (place, value) in candidate.iter().enumerate() {
                    if item.has(place) {
                        both[place] = value.clone();
                    }
                }
                if self.all_hold(&shared, &Env { row: &both, outer })? {
                    self.keep(&mut joined, both)?;
                }
            }
            if joined.rows.len() == before && keep {
                self.keep(&mut joined, row)?;
            }
        }
        Ok(joined.rows)
    }

    fn leaf_rows(
        &self,
        source: &Source,
        leaf: &Leaf,
        base: &[Value],
        conditions: &[&Expr],
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let env = Env { row: base, outer };
        let found: Vec<Row> = match &leaf.kind {
            LeafKind::Relation(place) => {
                return self.relation_rows(source, leaf, *place, base, conditions, outer);
            }
            LeafKind::Table { id, columns, types } => {
                let contents = self.user_table(*id, columns)?;
                let types: Vec<&DataType> = types.iter().collect();
                let known = Known { contents: &contents, types: &types, hidden: &[] };
                return self.known_rows(source, leaf, &known, base, conditions, outer);
            }
            LeafKind::Query(query) => self.query(query, Some(&env))?,
            LeafKind::Cte(number) => {
                let rows = self.ctes.borrow().get(number).cloned();
                rows.map(|rows| rows.to_vec()).unwrap_or_default()
            }
            LeafKind::Function { calls, ordinality } => {
                self.function_rows(calls, *ordinality, leaf.width, &env)?
            }
        };
        let mut rows = Kept::default();
        for values in found {
            self.keep(&mut rows, placed(base, leaf, &values))?;
        }
        self.filtered(rows.rows, conditions, outer)
    }

    fn relation_rows(
        &self,
        source: &Source,
        leaf: &Leaf,
        place: usize,
        base: &[Value],
        conditions: &[&Expr],
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let relation = &relation::all()[place];
        let contents = self.contents(place)?;
        let hidden = [Value::Int(relation.oid.into()), Value::Int(super::FROZEN_XID)];
        let types: Vec<&DataType> = relation.columns.iter().map(|c| &c.data_type).collect();
        let known = Known { contents: &contents, types: &types, hidden: &hidden };
        self.known_rows(source, leaf, &known, base, conditions, outer)
    }

    fn known_rows(
        &self,
        source: &Source,
        leaf: &Leaf,
        known: &Known<'_>,
        base: &[Value],
        conditions: &[&Expr],
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let Known { contents, types, hidden } = *known;
        let mut rows = Kept::default();
        let mut consider = |row: &Row| -> Result<()> {
            self.step()?;
            let mut row = placed(base, leaf, row);
            row[leaf.offset + types.len()..][..hidden.len()].clone_from_slice(hidden);
            if self.all_hold(conditions, &Env { row: &row, outer })? {
                self.keep(&mut rows, row)?;
            }
            Ok(())
        };
        let ties = conditions.iter().filter_map(|condition| tie(condition, source));
        let tie = ties.into_iter().find(|tie| {
            let column = types.get(tie.place - leaf.offset);
            column.is_some_and(|data_type| is_hashed(data_type))
        });
        match tie {
            Some(tie) => {
                let key = self.eval(tie.other, &Env { row: base, outer })?;
                let lookup = contents.lookup(tie.place - leaf.offset);
                let found = lookup.get(&key).filter(|_| !key.is_null());
                found.into_iter().flatten().try_for_each(|at| consider(&contents.rows[*at]))?;
            }
            None => contents.rows.iter().try_for_each(consider)?,
        }
        Ok(rows.rows)
    }

    fn function_rows(
        &self,
        calls: &[SetCall],
        ordinality: bool,
        width: usize,
        env: &Env<'_>,
    ) -> Result<Vec<Row>> {
        let mut columns = Vec::new();
        for call in calls {
            let values = self.values(&call.arguments, env)?;
            let rows = (call.function.eval)(self.around, &values, &call.types)?;
            let fields = rows.first().map_or(1, |row| row.len());
            columns.push((rows, fields));
        }
        let length = columns.iter().map(|(rows, _)| rows.len()).max().unwrap_or(0);
        let mut result = Vec::with_capacity(length);
        for at in 0..length {
            let mut row = Vec::with_capacity(width);
            for (rows, fields) in &columns {
                match rows.get(at) {
                    Some(values) => row.extend(values.iter().cloned()),
                    None => row.resize(row.len() + fields, Value::Null),
                }
            }
            if ordinality {
                row.push(Value::Int(at as i64 + 1));
            }
            result.push(row.into());
        }
        Ok(result)
    }
}

/// Values of these types are equal exactly if they are the same.
pub(super) fn is_hashed(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Numeric(_) | DataType::Float8 | DataType::Timestamp)
}

fn placed(base: &[Value], leaf: &Leaf, values: &[Value]) -> Row {
    let mut row: Row = base.into();
    row[leaf.offset..leaf.offset + values.len()].clone_from_slice(values);
    if let Some(place) = leaf.presence {
        row[place] = Value::Bool(true);
    }
    row
}
