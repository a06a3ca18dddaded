//! Rows of queries.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use types::compare::sort_cmp;
use types::{Error, Result, SqlState, Value};

use super::plan::*;
use super::run::{Env, Kept, Run};
use crate::world::Row;

/// Rows that are sorted between two looks at whether to go on.
const FIRST_RUN_ROWS: usize = 1 << 12;

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
                self.set_operation(*op, *all, left, right)?
            }
        };
        if !query.order.is_empty() {
            self.sort(&mut rows, |a, b| {
                let by =
                    |order: &Order| sorted(&a[order.output], &b[order.output], order.direction);
                query.order.iter().map(by).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
            })?;
        }
        if let Body::Select(select) = &query.body
            && let Distinct::On(outputs) = &select.distinct
        {
            let mut seen = HashSet::new();
            self.retained(&mut rows, |row| {
                seen.insert(outputs.iter().map(|at| row[*at].clone()).collect::<Vec<_>>())
            })?;
        }
        let env = Env { row: &[], outer };
        let count = |expr: &Option<Expr>, code: SqlState, what: &str| -> Result<Option<usize>> {
            let value = expr.as_ref().map(|expr| self.eval(expr, &env)).transpose()?;
            let number = value.and_then(|value| value.as_int()).map(usize::try_from);
            let negative = |_| Error::new(code, format!("{what} must not be negative"));
            number.transpose().map_err(negative)
        };
        let offset = count(&query.offset, SqlState(*b"2201X"), "OFFSET")?.unwrap_or(0);
        let limit = count(&query.limit, SqlState(*b"2201W"), "LIMIT")?.unwrap_or(usize::MAX);
        let width = query.columns.len();
        let rows = rows.into_iter().skip(offset).take(limit);
        Ok(rows.map(|row| if row.len() == width { row } else { row[..width].into() }).collect())
    }

    /// A stable sort in runs that double, so that it ends when the statement has to.
    pub fn sort<T: Default>(&self, rows: &mut [T], by: impl Fn(&T, &T) -> Ordering) -> Result<()> {
        for run in rows.chunks_mut(FIRST_RUN_ROWS) {
            self.check()?;
            run.sort_by(&by);
        }
        let mut run = FIRST_RUN_ROWS;
        while run < rows.len() {
            for pair in rows.chunks_mut(2 * run).filter(|pair| pair.len() > run) {
                let mut first: Vec<T> = pair[..run].iter_mut().map(std::mem::take).collect();
                let (mut from_first, mut from_second) = (0, run);
                for to in 0..pair.len() {
                    self.step()?;
                    if from_first == run {
                        break;
                    }
                    let next = pair.get(from_second);
                    let is_second = next.is_some_and(|row| by(row, &first[from_first]).is_lt());
                    let from = if is_second { &mut from_second } else { &mut from_first };
                    *from += 1;
                    pair[to] = match is_second {
                        true => std::mem::take(&mut pair[from_second - 1]),
                        false => std::mem::take(&mut first[from_first - 1]),
                    };
                }
            }
            run *= 2;
        }
        Ok(())
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
        let mut total = Kept::default();
        rows.iter().try_for_each(|row| self.keep(&mut total, row.clone()))?;
        while !rows.is_empty() {
            self.ctes.borrow_mut().insert(cte.number, Rc::new(rows));
            rows = self.query(step, outer)?;
            if !all {
                rows.retain(|row| seen.insert(row.clone()));
            }
            rows.iter().try_for_each(|row| self.keep(&mut total, row.clone()))?;
        }
        self.ctes.borrow_mut().insert(cte.number, Rc::new(total.rows));
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
        let mut outputs = Kept::default();
        for row in &rows {
            let values = self.values(&select.outputs, &Env { row, outer })?;
            self.keep(&mut outputs, values.into())?;
        }
        if let Distinct::Rows = select.distinct {
            self.distinct(&mut outputs.rows)?;
        }
        Ok(outputs.rows)
    }

    /// Leaves the first of each.
    fn distinct(&self, rows: &mut Vec<Row>) -> Result<()> {
        let mut seen = HashSet::with_capacity(rows.len());
        self.retained(rows, |row| seen.insert(row.clone()))
    }

    /// Like [`Vec::retain`], and ends when the statement has to.
    fn retained(&self, rows: &mut Vec<Row>, mut keep: impl FnMut(&Row) -> bool) -> Result<()> {
        let mut stopped = Ok(());
        rows.retain(|row| {
            if stopped.is_ok() {
                stopped = self.step();
            }
            stopped.is_ok() && keep(row)
        });
        stopped
    }

    /// With ALL, each row of the right counts once.
    fn set_operation(
        &self,
        op: SetOp,
        all: bool,
        mut left: Vec<Row>,
        right: Vec<Row>,
    ) -> Result<Vec<Row>> {
        if op == SetOp::Union {
            left.extend(right);
        } else {
            let mut others = counted(&right);
            let mut take = |row: &Row| match others.get_mut(row) {
                Some(0) | None => false,
                Some(count) => {
                    *count -= usize::from(all);
                    true
                }
            };
            let wanted = op == SetOp::Intersect;
            self.retained(&mut left, |row| take(row) == wanted)?;
        }
        if !all {
            self.distinct(&mut left)?;
        }
        Ok(left)
    }

    /// A row for each value of its sets, which go side by side; the shorter ones end in NULLs.
    fn sets(&self, sets: &[SetCall], rows: Vec<Row>, outer: Option<&Env<'_>>) -> Result<Vec<Row>> {
        let mut result = Kept::default();
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
        Ok(result.rows)
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

/// Rows of the right side, each with how often it is there.
fn counted(rows: &[Row]) -> HashMap<&Row, usize> {
    let mut counts = HashMap::with_capacity(rows.len());
    rows.iter().for_each(|row| *counts.entry(row).or_insert(0) += 1);
    counts
}
