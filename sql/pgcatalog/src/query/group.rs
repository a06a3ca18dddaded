//! Groups and windows.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use types::compare::{compare, sort_cmp};
use types::{DataType, Result, Value};

use super::execute::sorted;
use super::functions::json;
use super::plan::*;
use super::run::{Env, Made, Run};
use crate::world::Row;

impl Run<'_> {
    /// A row for each group: its first one, with the aggregates in their places.
    pub fn grouped(
        &self,
        grouping: &Grouping,
        rows: Vec<Row>,
        width: usize,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>> {
        let mut places: HashMap<Vec<Value>, usize> = HashMap::new();
        let mut groups: Vec<Vec<Row>> = Vec::new();
        for row in rows {
            self.step()?;
            let key = self.values(&grouping.keys, &Env { row: &row, outer })?;
            let place = *places.entry(key).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(row);
        }
        if groups.is_empty() && grouping.keys.is_empty() {
            groups.push(Vec::new());
        }
        let mut result = Vec::with_capacity(groups.len());
        for group in groups {
            let first = group.first().cloned();
            let mut row = first.unwrap_or_else(|| vec![Value::Null; width].into());
            for aggregate in &grouping.aggregates {
                let members: Vec<&Row> = group.iter().collect();
                row[aggregate.place] = self.aggregate(aggregate, &members, outer)?;
            }
            let having = grouping.having.iter().collect::<Vec<_>>();
            if self.all_hold(&having, &Env { row: &row, outer })? {
                result.push(row);
            }
        }
        Ok(result)
    }

    fn aggregate(
        &self,
        aggregate: &Aggregate,
        rows: &[&Row],
        outer: Option<&Env<'_>>,
    ) -> Result<Value> {
        let mut inputs: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
        for row in rows {
            self.step()?;
            let env = Env { row, outer };
            let filter: Vec<&Expr> = aggregate.filter.iter().collect();
            if !self.all_hold(&filter, &env)? {
                continue;
            }
            let order = aggregate.order.iter().map(|(expr, _)| self.eval(expr, &env));
            inputs.push((order.collect::<Result<_>>()?, self.values(&aggregate.arguments, &env)?));
        }
        if !aggregate.order.is_empty() {
            self.sort(&mut inputs, |(a, _), (b, _)| by_directions(a, b, &aggregate.order))?;
        }
        let mut inputs: Vec<Vec<Value>> = inputs.into_iter().map(|(_, values)| values).collect();
        if aggregate.distinct && !aggregate.arguments.is_empty() {
            let mut seen = HashSet::new();
            inputs.retain(|values| seen.insert(values.clone()));
            if aggregate.order.is_empty() {
                self.sort(&mut inputs, |a, b| sort_cmp(&a[0], &b[0]))?;
            }
        }
        self.fold(aggregate, inputs)
    }

    fn fold(&self, aggregate: &Aggregate, inputs: Vec<Vec<Value>>) -> Result<Value> {
        use AggregateKind as A;
        let kind = aggregate.kind;
        if kind == A::Count && aggregate.arguments.is_empty() {
            return Ok(Value::Int(inputs.len() as i64));
        }
        let keeps_nulls = matches!(kind, A::Array | A::Json);
        let inputs = inputs.into_iter().filter(|values| keeps_nulls || !values[0].is_null());
        let inputs: Vec<Vec<Value>> = inputs.collect();
        if inputs.is_empty() && kind != A::Count {
            return Ok(Value::Null);
        }
        let firsts = inputs.iter().map(|values| &values[0]);
        Ok(match kind {
            A::Count => Value::Int(inputs.len() as i64),
            A::Min => extreme(firsts, Ordering::is_lt),
            A::Max => extreme(firsts, Ordering::is_gt),
            A::And => Value::Bool(firsts.into_iter().all(|value| value.as_bool() == Some(true))),
            A::Or => Value::Bool(firsts.into_iter().any(|value| value.as_bool() == Some(true))),
            A::Array => Value::from(firsts.cloned().collect::<Vec<_>>()),
            A::Json => {
                let of = aggregate.types.first().unwrap_or(&DataType::Text);
                let mut made = Made::default();
                made.push("[")?;
                for (place, value) in firsts.enumerate() {
                    made.push(if place > 0 { ", " } else { "" })?;
                    made.push(&json(self, value, of)?)?;
                }
                made.push("]")?;
                made.into_value()
            }
            A::Strings => {
                let mut made = Made::default();
                for (at, values) in inputs.iter().enumerate() {
                    if let (1.., Some(separator)) = (at, values.get(1).and_then(Value::as_text)) {
                        made.push(separator)?;
                    }
                    made.push(values[0].as_text().unwrap_or_default())?;
                }
                made.into_value()
            }
            A::Sum | A::Avg => sum(aggregate, &inputs)?,
        })
    }

    pub fn window(&self, window: &Window, rows: &mut [Row], outer: Option<&Env<'_>>) -> Result<()> {
        let mut keys = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            self.step()?;
            let env = Env { row, outer };
            let order = window.order.iter().map(|(expr, _)| self.eval(expr, &env));
            let order = order.collect::<Result<Vec<_>>>()?;
            keys.push((self.values(&window.partition, &env)?, order, at));
        }
        self.sort(&mut keys, |(partition_a, a, _), (partition_b, b, _)| {
            let partitions = types::compare::sort_cmp_rows(partition_a, partition_b);
            partitions.then_with(|| by_directions(a, b, &window.order))
        })?;
        for partition in keys.chunk_by(|a, b| a.0 == b.0) {
            let members: Vec<usize> = partition.iter().map(|(.., at)| *at).collect();
            if let WindowKind::Aggregate(aggregate) = &window.kind {
                let of: Vec<&Row> = members.iter().map(|at| &rows[*at]).collect();
                let value = self.aggregate(aggregate, &of, outer)?;
                members.iter().for_each(|at| rows[*at][window.place] = value.clone());
                continue;
            }
            let (mut rank, mut dense_rank) = (0, 0);
            for (number, (_, order, at)) in partition.iter().enumerate() {
                if number == 0 || partition[number - 1].1 != *order {
                    (rank, dense_rank) = (number + 1, dense_rank + 1);
                }
                let value = match window.kind {
                    WindowKind::Rank => rank,
                    WindowKind::DenseRank => dense_rank,
                    _ => number + 1,
                };
                rows[*at][window.place] = Value::Int(value as i64);
            }
        }
        Ok(())
    }
}

fn by_directions(a: &[Value], b: &[Value], order: &[(Expr, Direction)]) -> Ordering {
    let pairs = a.iter().zip(b).zip(order);
    let mut orderings = pairs.map(|((a, b), (_, direction))| sorted(a, b, *direction));
    orderings.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
}

fn extreme<'a>(values: impl Iterator<Item = &'a Value>, better: fn(Ordering) -> bool) -> Value {
    let best = values.reduce(|best, value| match compare(value, best).is_some_and(better) {
        true => value,
        false => best,
    });
    best.cloned().unwrap_or_default()
}

fn sum(aggregate: &Aggregate, inputs: &[Vec<Value>]) -> Result<Value> {
    let result = match aggregate.types.first() {
        Some(of) if of.stored() == DataType::Float8 => DataType::Float8,
        Some(DataType::Int2 | DataType::Int4) if aggregate.kind == AggregateKind::Sum => {
            DataType::Int8
        }
        _ => DataType::Numeric(None),
    };
    let mut total = types::cast::cast(&Value::Int(0), &result, true)?;
    for values in inputs {
        let value = types::cast::cast(&values[0], &result, true)?;
        total = types::arithmetic::add(&total, &value, &result)?;
    }
    match aggregate.kind {
        AggregateKind::Avg => {
            let count = types::cast::cast(&Value::Int(inputs.len() as i64), &result, true)?;
            types::arithmetic::div(&total, &count, &result)
        }
        _ => Ok(total),
    }
}
