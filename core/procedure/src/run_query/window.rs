//! Window functions: of each row a value that the rows around it decide.
//!
//! All rows are gathered. For each window they are put in its order by their places, partition by
//! partition; groups are rows of a partition that are alike in the order. A frame is two places in
//! a partition; those at a distance of values are looked up by halving. Where a frame begins with
//! the partition, an aggregate takes each row in once; other frames are gone over for each row, and
//! paid for.

use std::ops::{ControlFlow, Range};

use smallvec::SmallVec;
use types::compare::sort_cmp;
use types::{Error, Interval, SqlState, Stop, Value};

use super::{Flow, Run, Sink, SortRow, compare_sort_keys};
use crate::access::{Access, Row};
use crate::aggregate::Accumulator;
use crate::query::{
    Aggregate, Frame, FrameBound, FrameUnit, Limits, Query, SortKey, WindowCall, WindowFunction,
};

/// A partition's rows in the window's order, as places among all rows.
struct Partition {
    rows: Vec<usize>,
    /// Where groups begin, and at last where the partition ends.
    groups: Vec<usize>,
    /// Which group each row is of.
    group_of: Vec<usize>,
}

/// The frames of a partition's rows.
struct Frames<'f> {
    frame: &'f Frame,
    /// How far away a frame begins and ends, in rows or groups.
    start: usize,
    end: usize,
    /// Where frames begin and end, if that is at a distance of values.
    starts: Option<Vec<usize>>,
    ends: Option<Vec<usize>>,
}

impl Run<'_> {
    pub(super) fn window<A: Access>(
        &self,
        access: &mut A,
        input: &Query,
        calls: &[WindowCall],
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let rows = self.gather(access, input, outer)?;
        let mut values: Vec<Vec<Value>> = Vec::with_capacity(calls.len());
        let mut order = (0..rows.len()).collect();
        let mut partitions: Vec<Partition> = Vec::new();
        for (place, call) in calls.iter().enumerate() {
            let known = place > 0
                && calls[place - 1].partition == call.partition
                && calls[place - 1].order == call.order;
            if !known {
                partitions = self.partitions(&rows, call)?;
                order = partitions.iter().flat_map(|part| part.rows.iter().copied()).collect();
            }
            values.push(self.values_of(&rows, &partitions, call)?);
        }
        let mut shown: SmallVec<[Value; 8]> = SmallVec::new();
        let order: Vec<usize> = order;
        for place in order {
            self.meter.spend(1)?;
            shown.clear();
            shown.extend(rows[place].iter().cloned());
            shown.extend(values.iter_mut().map(|column| std::mem::take(&mut column[place])));
            if sink(&shown)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn partitions(&self, rows: &[Row], call: &WindowCall) -> Result<Vec<Partition>, Stop> {
        let by = |expr: &crate::expr::Expr| SortKey {
            expr: expr.clone(),
            descending: false,
            nulls_first: false,
        };
        let keys: Vec<SortKey> =
            call.partition.iter().map(by).chain(call.order.iter().cloned()).collect();
        let mut sorted: Vec<SortRow> = Vec::with_capacity(rows.len());
        for (place, row) in rows.iter().enumerate() {
            let mut values = SmallVec::with_capacity(keys.len());
            for key in &keys {
                values.push(self.eval(&key.expr, row)?);
            }
            self.hold(&values)?;
            sorted.push((values, [Value::Int(place as i64)].into()));
        }
        self.hold_bytes(rows.len() * 4 * size_of::<usize>())?;
        self.sort_rows(&mut sorted, &keys)?;
        let width = call.partition.len();
        let mut partitions: Vec<Partition> = Vec::new();
        let mut before: Option<&SortRow> = None;
        for row in &sorted {
            let differs = |keys: &[SortKey], range: Range<usize>| {
                before.is_none_or(|before| {
                    compare_sort_keys(keys, &before.0[range.clone()], &row.0[range]).is_ne()
                })
            };
            if differs(&keys[..width], 0..width) {
                partitions.push(Partition {
                    rows: Vec::new(),
                    groups: Vec::new(),
                    group_of: Vec::new(),
                });
            }
            let place = row.1[0].as_int().unwrap_or(0) as usize;
            if let Some(partition) = partitions.last_mut() {
                let is_new =
                    partition.rows.is_empty() || differs(&keys[width..], width..keys.len());
                if is_new {
                    partition.groups.push(partition.rows.len());
                }
                partition.group_of.push(partition.groups.len() - 1);
                partition.rows.push(place);
            }
            before = Some(row);
        }
        for partition in &mut partitions {
            partition.groups.push(partition.rows.len());
        }
        Ok(partitions)
    }

    /// A value for each row.
    fn values_of(
        &self,
        rows: &[Row],
        partitions: &[Partition],
        call: &WindowCall,
    ) -> Result<Vec<Value>, Stop> {
        let mut values = vec![Value::Null; rows.len()];
        let frame = &call.frame;
        let start = self.distance(frame, &frame.start, "starting")?;
        let end = self.distance(frame, &frame.end, "ending")?;
        for partition in partitions {
            let mut frames = Frames { frame, start, end, starts: None, ends: None };
            if let Some(limits) = &frame.limits {
                self.look_up(rows, partition, limits, &mut frames)?;
            }
            match call.function {
                WindowFunction::Aggregate(_) => {
                    self.aggregates(rows, partition, call, &frames, &mut values)?;
                }
                _ => self.others(rows, partition, call, &frames, &mut values)?,
            }
        }
        Ok(values)
    }

    /// What each row gets counts as soon as it is there: an aggregate may gather all rows for each.
    fn keep(&self, values: &mut [Value], place: usize, value: Value) -> Result<(), Error> {
        self.hold_bytes(value.weight())?;
        values[place] = value;
        Ok(())
    }

    /// In rows or groups; of values nothing but whether it may be.
    fn distance(&self, frame: &Frame, bound: &FrameBound, which: &str) -> Result<usize, Error> {
        let (FrameBound::Preceding(distance) | FrameBound::Following(distance)) = bound else {
            return Ok(0);
        };
        let distance = self.eval(distance, &[])?;
        let what = match (&distance, frame.unit) {
            (Value::Null, _) => {
                let what = format!("frame {which} offset must not be null");
                return Err(Error::new(SqlState(*b"22004"), what));
            }
            (distance, FrameUnit::Range) if is_negative(distance) => {
                "invalid preceding or following size in window function".to_owned()
            }
            (_, FrameUnit::Range) => return Ok(0),
            (Value::Int(distance), _) if *distance >= 0 => {
                return Ok(usize::try_from(*distance).unwrap_or(usize::MAX));
            }
            _ => format!("frame {which} offset must not be negative"),
        };
        Err(Error::new(SqlState(*b"22013"), what))
    }

    /// Rows whose value is NULL stand together, and are within no distance of others.
    fn look_up(
        &self,
        rows: &[Row],
        partition: &Partition,
        limits: &Limits,
        frames: &mut Frames<'_>,
    ) -> Result<(), Stop> {
        let count = partition.rows.len();
        let mut values = Vec::with_capacity(count);
        for place in &partition.rows {
            let value = self.eval(&limits.value, &rows[*place])?;
            self.hold_bytes(size_of::<Value>() + value.weight())?;
            values.push(value);
        }
        let first = values.iter().position(|value| !value.is_null()).unwrap_or(count);
        let known = values[first..].iter().take_while(|value| !value.is_null()).count();
        let known = &values[first..first + known];
        let in_order = |a: &Value, b: &Value| match limits.descending {
            true => sort_cmp(b, a),
            false => sort_cmp(a, b),
        };
        debug_assert!(known.is_sorted_by(|a, b| in_order(a, b).is_le()), "as the window orders");
        self.hold_bytes(2 * count * size_of::<usize>())?;
        let places = |limit: &crate::expr::Expr, is_start: bool| -> Result<Vec<usize>, Stop> {
            let mut places = Vec::with_capacity(count);
            for (at, value) in values.iter().enumerate() {
                self.meter.spend(1)?;
                if value.is_null() {
                    let group = partition.group_of[at] + usize::from(!is_start);
                    places.push(partition.groups[group]);
                    continue;
                }
                let limit = self.eval(limit, &rows[partition.rows[at]])?;
                places.push(
                    first
                        + known.partition_point(|value| match is_start {
                            true => in_order(value, &limit).is_lt(),
                            false => in_order(value, &limit).is_le(),
                        }),
                );
            }
            Ok(places)
        };
        frames.starts = limits.start.as_ref().map(|limit| places(limit, true)).transpose()?;
        frames.ends = limits.end.as_ref().map(|limit| places(limit, false)).transpose()?;
        Ok(())
    }

    fn aggregates(
        &self,
        rows: &[Row],
        partition: &Partition,
        call: &WindowCall,
        frames: &Frames<'_>,
        values: &mut [Value],
    ) -> Result<(), Stop> {
        let WindowFunction::Aggregate(function) = call.function else { return Ok(()) };
        let aggregate = Aggregate {
            function,
            input: call.arguments.first().cloned(),
            separator: call.arguments.get(1).cloned(),
            distinct: false,
            filter: call.filter.clone(),
            order: Box::default(),
            result: call.result.clone(),
        };
        let grows = call.frame.start == FrameBound::First;
        let (mut state, mut taken) = (Accumulator::new(&aggregate), 0);
        let mut last: Option<(Range<usize>, Value)> = None;
        for at in 0..partition.rows.len() {
            let frame = partition.frame(at, frames);
            if let Some((range, value)) = &last
                && *range == frame
            {
                self.keep(values, partition.rows[at], value.clone())?;
                continue;
            }
            if !grows || frame.end < taken {
                (state, taken) = (Accumulator::new(&aggregate), frame.start);
            }
            for place in taken..frame.end {
                self.meter.spend(1)?;
                let row = &rows[partition.rows[place]];
                let one = std::slice::from_ref(&aggregate);
                self.take_in(std::slice::from_mut(&mut state), one, row)?;
            }
            taken = taken.max(frame.end);
            self.meter.spend_bytes(state.copied_bytes())?;
            let value = state.clone().finish(&aggregate)?;
            self.keep(values, partition.rows[at], value.clone())?;
            last = Some((frame, value));
        }
        Ok(())
    }

    fn others(
        &self,
        rows: &[Row],
        partition: &Partition,
        call: &WindowCall,
        frames: &Frames<'_>,
        values: &mut [Value],
    ) -> Result<(), Stop> {
        for at in 0..partition.rows.len() {
            self.meter.spend(1)?;
            let row = &rows[partition.rows[at]];
            let value = match call.function {
                WindowFunction::Lag | WindowFunction::Lead => {
                    self.neighbour(rows, partition, call, at)?
                }
                WindowFunction::FirstValue
                | WindowFunction::LastValue
                | WindowFunction::NthValue => {
                    let frame = partition.frame(at, frames);
                    match (self.nth(call, row, &frame)?, call.arguments.first()) {
                        (Some(place), Some(value)) => {
                            self.eval(value, &rows[partition.rows[place]])?
                        }
                        _ => Value::Null,
                    }
                }
                WindowFunction::Ntile => {
                    // The first row of a partition says into how many parts it goes.
                    let parts = match call.arguments.first() {
                        Some(parts) => self.eval(parts, &rows[partition.rows[0]])?,
                        None => Value::Null,
                    };
                    partition.part(at, &parts)?
                }
                function => partition.rank(at, function),
            };
            self.keep(values, partition.rows[at], value)?;
        }
        Ok(())
    }

    fn neighbour(
        &self,
        rows: &[Row],
        partition: &Partition,
        call: &WindowCall,
        at: usize,
    ) -> Result<Value, Error> {
        let row = &rows[partition.rows[at]];
        let [value, rest @ ..] = &*call.arguments else { return Ok(Value::Null) };
        let distance = match rest.first() {
            None => 1,
            Some(distance) => match self.eval(distance, row)? {
                Value::Int(distance) => distance,
                _ => return Ok(Value::Null),
            },
        };
        let distance = match call.function {
            WindowFunction::Lag => distance.checked_neg(),
            _ => Some(distance),
        };
        let place = distance.and_then(|distance| (at as i64).checked_add(distance));
        let place = place.and_then(|place| usize::try_from(place).ok());
        match (place.and_then(|place| partition.rows.get(place)), rest.get(1)) {
            (Some(place), _) => self.eval(value, &rows[*place]),
            (None, Some(missing)) => self.eval(missing, row),
            (None, None) => Ok(Value::Null),
        }
    }

    /// The place of the row that a function of the frame's rows shows.
    fn nth(
        &self,
        call: &WindowCall,
        row: &Row,
        frame: &Range<usize>,
    ) -> Result<Option<usize>, Error> {
        if frame.is_empty() {
            return Ok(None);
        }
        match call.function {
            WindowFunction::FirstValue => Ok(Some(frame.start)),
            WindowFunction::LastValue => Ok(Some(frame.end - 1)),
            _ => {
                let number = match call.arguments.get(1) {
                    Some(number) => self.eval(number, row)?,
                    None => Value::Null,
                };
                match number {
                    Value::Int(number) if number > 0 => {
                        let number = usize::try_from(number).unwrap_or(usize::MAX);
                        let place = frame.start.checked_add(number - 1);
                        Ok(place.filter(|place| *place < frame.end))
                    }
                    Value::Int(_) => {
                        let what = "argument of nth_value must be greater than zero";
                        Err(Error::new(SqlState(*b"22016"), what))
                    }
                    _ => Ok(None),
                }
            }
        }
    }
}

fn is_negative(distance: &Value) -> bool {
    match distance {
        Value::Int(distance) => *distance < 0,
        Value::Float(distance) => *distance < 0.0 || distance.is_nan(),
        Value::Numeric(distance) => distance.is_negative() || distance.is_nan(),
        Value::Interval(distance) => *distance < Interval { months: 0, days: 0, us: 0 },
        _ => false,
    }
}

impl Partition {
    /// The frame of a row, as places in the partition.
    fn frame(&self, at: usize, frames: &Frames<'_>) -> Range<usize> {
        let Frames { frame, start, end, starts, ends } = frames;
        let (from, to) = (*start, *end);
        let count = self.rows.len();
        let groups = self.groups.len() - 1;
        let group = self.group_of[at];
        let is_by_rows = frame.unit == FrameUnit::Rows;
        let begin = |group: usize| self.groups[group.min(groups)];
        let start = match (&frame.start, is_by_rows) {
            (FrameBound::First, _) => 0,
            (FrameBound::Last, _) => count,
            (FrameBound::Current, true) => at,
            (FrameBound::Current, false) => begin(group),
            (FrameBound::Preceding(_), true) => at.saturating_sub(from),
            (FrameBound::Preceding(_), false) => begin(group.saturating_sub(from)),
            (FrameBound::Following(_), true) => at.saturating_add(from).min(count),
            (FrameBound::Following(_), false) => begin(group.saturating_add(from)),
        };
        let end = match (&frame.end, is_by_rows) {
            (FrameBound::First, _) => 0,
            (FrameBound::Last, _) => count,
            (FrameBound::Current, true) => at + 1,
            (FrameBound::Current, false) => begin(group + 1),
            (FrameBound::Preceding(_), true) => (at + 1).saturating_sub(to),
            (FrameBound::Preceding(_), false) => begin((group + 1).saturating_sub(to)),
            (FrameBound::Following(_), true) => at.saturating_add(to).saturating_add(1).min(count),
            (FrameBound::Following(_), false) => begin(group.saturating_add(to).saturating_add(1)),
        };
        let start = starts.as_ref().map_or(start, |starts| starts[at]);
        let end = ends.as_ref().map_or(end, |ends| ends[at]);
        start..end.max(start)
    }

    fn rank(&self, at: usize, function: WindowFunction) -> Value {
        let (count, group) = (self.rows.len(), self.group_of[at]);
        let first = self.groups[group];
        match function {
            WindowFunction::Rank => Value::Int(first as i64 + 1),
            WindowFunction::DenseRank => Value::Int(group as i64 + 1),
            WindowFunction::PercentRank if count < 2 => Value::Float(0.0),
            WindowFunction::PercentRank => Value::Float(first as f64 / (count - 1) as f64),
            WindowFunction::CumeDist => Value::Float(self.groups[group + 1] as f64 / count as f64),
            _ => Value::Int(at as i64 + 1),
        }
    }

    /// The first parts have one row more, where they cannot be of one size.
    fn part(&self, at: usize, parts: &Value) -> Result<Value, Error> {
        let parts = match parts {
            Value::Int(parts) if *parts > 0 => usize::try_from(*parts).unwrap_or(usize::MAX),
            Value::Int(_) => {
                let what = "argument of ntile must be greater than zero";
                return Err(Error::new(SqlState(*b"22014"), what));
            }
            _ => return Ok(Value::Null),
        };
        let (size, larger) = (self.rows.len() / parts, self.rows.len() % parts);
        let in_larger = larger * (size + 1);
        let part = match at < in_larger {
            true => at / (size + 1),
            false => larger + (at - in_larger) / size.max(1),
        };
        Ok(Value::Int(part as i64 + 1))
    }
}
