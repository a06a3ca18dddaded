//! Rows of queries.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::rc::Rc;

use types::compare::sort_cmp;
use types::{Result, Value};

use super::eval::{Env, Run};
use super::plan::*;
use crate::world::Row;

impl Run<'_> {
    pub fn query(&self, query: &Query, outer: Option<&Env<'_>>) -> Result<Vec<Row>> {
        for cte in &query.ctes {
            self.cte(cte, outer)?;
        }
        let mut rows = match &query.body {
            Body::Select(select) => self.select(select, outer)?,
            Body::Values(values) => {
                let env = Env { row: &[], outer };
                let row = |exprs: &Vec<Expr>| self.values(exprs, &env).map(Row::from);
                values.iter().map(row).collect::<Result<_>>()?
            }
            Body::Set { op, all, left, right } => {
                let (left, right) = (self.query(left, outer)?, self.query(right, outer)?);
                set_operation(*op, *all, left, right)
            }
        };
        if !query.order.is_empty() {
            rows.sort_by(|a, b| {
                let by =
                    |order: &Order| sorted(&a[order.output], &b[order.output], order.direction);
                query.order.iter().map(by).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
            });
        }
        if let Body::Select(select) = &query.body
            && let Distinct::On(outputs) = &select.distinct
        {
            let mut seen = HashSet::new();
            rows.retain(|row| {
                seen.insert(outputs.iter().map(|at| row[*at].clone()).collect::<Vec<_>>())
            });
        }
        let env = Env { row: &[], outer };
        let count = |expr: &Option<Expr>| -> Result<Option<i64>> {
            let value = expr.as_ref().map(|expr| self.eval(expr, &env)).transpose()?;
            Ok(value.and_then(|value| value.as_int()))
        };
        let offset = count(&query.offset)?.map_or(0, |n| usize::try_from(n).unwrap_or(0));
        let limit = count(&query.limit)?.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(0));
        let width = query.columns.len();
        let rows = rows.into_iter().skip(offset).take(limit);
        Ok(rows.map(|row| if row.len() == width { row } else { row[..width].into() }).collect())
    }

    fn cte(&self, cte: &Cte, outer: Option<&Env<'_>>) -> Result<()> {
        let mut rows = self.query(&cte.query, outer)?;
        let Some((step, all)) = &cte.recursion else {
            self.ctes.borrow_mut().insert(cte.number, Rc::new(rows));
            return Ok(());
        };
        let mut seen: HashSet<Row> = HashSet::new();
        if !all {
            rows.retain(|row| seen.insert(row.clone()));
        }
        let mut total = rows.clone();
        while !rows.is_empty() {
            self.ctes.borrow_mut().insert(cte.number, Rc::new(rows));
            rows = self.query(step, outer)?;
            if !all {
                rows.retain(|row| seen.insert(row.clone()));
            }
            rows.iter().try_for_each(|row| self.keep(&mut total, row.clone()))?;
        }
        self.ctes.borrow_mut().insert(cte.number, Rc::new(total));
        Ok(())
    }

    fn select(&self, select: &Select, outer: Option<&Env<'_>>) -> Result<Vec<Row>> {
        let base = vec![Value::Null; select.width];
        let mut rows = self.rows(&select.source, &base, &[], outer)?;
        if let Some(grouping) = &select.grouping {
            rows = self.grouped(grouping, rows, select.width, outer)?;
        }
        for window in &select.windows {
            self.window(window, &mut rows, outer)?;
        }
        if !select.sets.is_empty() {
            rows = self.sets(&select.sets, rows, outer)?;
        }
        let mut outputs = Vec::with_capacity(rows.len());
        for row in &rows {
            self.step()?;
            outputs.push(self.values(&select.outputs, &Env { row, outer })?.into());
        }
        if let Distinct::Rows = select.distinct {
            distinct(&mut outputs);
        }
        Ok(outputs)
    }

    /// A row for each value of its sets, which go side by side; the shorter ones end in NULLs.
    fn sets(&self, sets: &[SetCall], rows: Vec<Row>, outer: Option<&Env<'_>>) -> Result<Vec<Row>> {
        let mut result = Vec::new();
        for row in rows {
            let env = Env { row: &row, outer };
            let mut values = Vec::new();
            for set in sets {
                let arguments = self.values(&set.arguments, &env)?;
                values.push((set.place, (set.function.eval)(self, &arguments, &set.types)?));
            }
            let length = values.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
            for at in 0..length {
                let mut row = row.clone();
                for (place, rows) in &values {
                    let fields = rows.get(at).map(|fields| Value::array(&**fields));
                    row[*place] = fields.unwrap_or_default();
                }
                self.keep(&mut result, row)?;
            }
        }
        Ok(result)
    }
}

pub fn sorted(a: &Value, b: &Value, direction: Direction) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if direction.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if direction.nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ if direction.descending => sort_cmp(b, a),
        _ => sort_cmp(a, b),
    }
}

fn distinct(rows: &mut Vec<Row>) {
    let mut seen = HashSet::with_capacity(rows.len());
    rows.retain(|row| seen.insert(row.clone()));
}

fn set_operation(op: SetOp, all: bool, mut left: Vec<Row>, right: Vec<Row>) -> Vec<Row> {
    let mut others = right.clone();
    // With ALL, each row of the right counts once.
    let mut take = |row: &Row| match others.iter().position(|other| other == row) {
        Some(at) if all => {
            others.swap_remove(at);
            true
        }
        found => found.is_some(),
    };
    match op {
        SetOp::Union => left.extend(right),
        SetOp::Intersect => left.retain(|row| take(row)),
        SetOp::Except => left.retain(|row| !take(row)),
    }
    if !all {
        distinct(&mut left);
    }
    left
}
