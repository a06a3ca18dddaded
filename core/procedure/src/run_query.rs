//! Running a [`Query`] against [`Access`].
//!
//! Rows are pushed: each operator runs its input with a closure that receives the rows, and a
//! closure may stop the flow, which is how LIMIT ends a scan before it has read a row too many (a
//! row read is a row in the transaction's footprint). The point read allocates nothing but what its
//! values own.
//!
//! `Access::scan` keeps the access borrowed while it pushes, so a nested loop gathers its outer
//! rows before it asks for inner ones. Whatever is gathered (by joins, sorts, groups, DISTINCT)
//! counts as memory until the query ends, and every row that an operator makes or moves is paid for
//! (see [`meter`](crate::meter)).
//!
//! Order is deterministic everywhere: scans go in key order, groups and distinct rows come out in
//! the order in which they first appear, and sorts are stable. Hash tables are only looked up, so
//! that their hashes may differ between replicas: each run draws its own, which no client can aim
//! collisions at.

mod apply;
mod gathered;
mod grouping;
mod hash_join;
mod recursive;
mod sets;
mod window;

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};
use std::ops::{Bound, ControlFlow};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use smallvec::{SmallVec, smallvec};
use types::compare::sort_cmp;
use types::value::VALUE_WEIGHT;
use types::{Error, Key, SqlState, Stop, Value};

use crate::access::{Access, Range, Row};
use crate::draws::ROWS_MAX;
use crate::expr::Expr;
use crate::key::eval_index_key;
use crate::meter::{HELD_ROW_UNITS, Meter, PAIR_UNITS, ROW_WEIGHT};
use crate::query::{Query, Repeats, RowFunction, SortKey};
use crate::row_functions;
use recursive::CameLast;

/// What a sort compares of a long key, for each merge of a first run.
const COMPARISONS_PER_ROW: usize = 16;

/// Rows that are sorted in one go.
const FIRST_RUN_ROWS: usize = 1 << 14;

/// Rows that a merge moves between two looks at the interrupt.
const ROWS_PER_LOOK: usize = 1 << 10;

/// What a row is sorted by, and the row.
pub(crate) type SortRow = (SmallVec<[Value; 2]>, Row);

/// Whether more rows are wanted.
pub type Flow = Result<ControlFlow<()>, Stop>;

/// Where rows go.
pub type Sink<'s> = &'s mut dyn FnMut(&[Value]) -> Flow;

/// Runs `query` and pushes its rows into `sink`, which may stop it.
pub fn run_query<A: Access>(
    access: &mut A,
    query: &Query,
    registers: &[Value],
    meter: &Meter,
    sink: Sink<'_>,
) -> Result<(), Stop> {
    let came = CameLast::default();
    let run = Run { registers, now_us: access.now_us(), meter, held: Cell::new(0), came: &came };
    run.query(access, query, &[], sink).map(drop)
}

struct Run<'r> {
    registers: &'r [Value],
    now_us: i64,
    meter: &'r Meter,
    /// What the query has gathered.
    held: Cell<usize>,
    came: &'r CameLast,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.meter.release(self.held.get());
    }
}

impl Run<'_> {
    /// `outer` is the row of the enclosing nested loop, which keys and bounds may use.
    fn query<A: Access>(
        &self,
        access: &mut A,
        query: &Query,
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        match query {
            Query::Values(rows) => self.values(rows, outer, sink),
            Query::Call { function, inputs } => self.call(*function, inputs, outer, sink),
            Query::RowsFrom { inputs, numbered } => {
                self.beside(access, inputs, *numbered, outer, sink)
            }
            Query::Get { .. } => self.get(access, query, outer, sink),
            Query::Scan { .. } => self.scan(access, query, outer, sink),
            Query::Around { .. } => self.around(query, outer, sink),
            Query::Filter { input, condition } => {
                self.query(access, input, outer, &mut |row| match self.holds(condition, row)? {
                    true => sink(row),
                    false => Ok(ControlFlow::Continue(())),
                })
            }
            Query::Project { input, expressions } => {
                let mut projected: SmallVec<[Value; 8]> = smallvec![];
                self.query(access, input, outer, &mut |row| {
                    projected.clear();
                    for expression in expressions {
                        projected.push(self.eval(expression, row)?);
                    }
                    sink(&projected)
                })
            }
            Query::NestedLoop { .. } => self.nested_loop(access, query, outer, sink),
            Query::HashJoin { .. } => self.hash_join(access, query, outer, sink),
            Query::Window { input, calls } => self.window(access, input, calls, outer, sink),
            Query::Apply { .. } => self.apply(access, query, outer, sink),
            Query::Recursive { .. } => self.recursive(access, query, outer, sink),
            Query::CameLast { number, .. } => self.came_last(*number, sink),
            Query::Sets { op, all, inputs } => self.sets(access, (*op, *all), inputs, outer, sink),
            Query::Aggregate { input, groups, sets, aggregates } if sets.is_empty() => {
                self.aggregate(access, input, groups, aggregates, outer, sink)
            }
            Query::Aggregate { .. } => self.grouping_sets(access, query, outer, sink),
            Query::Sort { input, keys } => self.sort(access, input, keys, outer, sink),
            Query::Limit { input, limit, offset } => {
                let limit = self.row_count(limit.as_ref(), b"2201W", "LIMIT")?;
                let offset = self.row_count(offset.as_ref(), b"2201X", "OFFSET")?;
                self.limit(access, input, limit, offset.unwrap_or(0), outer, sink)
            }
            Query::Distinct { input, by, repeats } => {
                self.distinct(access, input, (by, *repeats), outer, sink)
            }
            Query::Numbered { input, first, step } => {
                self.numbered(access, input, (first, *step), outer, sink)
            }
            Query::Append(inputs) => {
                for input in inputs {
                    if self.query(access, input, outer, sink)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    fn values(&self, rows: &[Box<[Expr]>], outer: &[Value], sink: Sink<'_>) -> Flow {
        for expressions in rows {
            self.meter.spend(1)?;
            let mut row: SmallVec<[Value; 8]> = SmallVec::with_capacity(expressions.len());
            for expression in expressions {
                row.push(self.eval(expression, outer)?);
            }
            if sink(&row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn call(
        &self,
        function: RowFunction,
        inputs: &[Expr],
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let mut values: SmallVec<[Value; 3]> = SmallVec::with_capacity(inputs.len());
        for input in inputs {
            values.push(self.eval(input, outer)?);
        }
        row_functions::call(function, &values, self.meter, sink)
    }

    fn beside<A: Access>(
        &self,
        access: &mut A,
        inputs: &[Query],
        numbered: bool,
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let mut sides = Vec::with_capacity(inputs.len());
        for input in inputs {
            sides.push((self.gather(access, input, outer)?.into_iter(), input.width()));
        }
        let mut row: SmallVec<[Value; 8]> = smallvec![];
        for number in 1.. {
            self.meter.spend(1)?;
            row.clear();
            let mut ended = true;
            for (rows, width) in &mut sides {
                match rows.next() {
                    Some(values) => {
                        ended = false;
                        row.extend(values);
                    }
                    None => row.extend(std::iter::repeat_n(Value::Null, usize::from(*width))),
                }
            }
            if ended {
                break;
            }
            row.extend(numbered.then_some(Value::Int(number)));
            if sink(&row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn get<A: Access>(
        &self,
        access: &mut A,
        query: &Query,
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let Query::Get { table, key, columns, filter } = query else {
            return Ok(ControlFlow::Continue(()));
        };
        let Some(key) = eval_index_key(key, &[], self.registers, outer, self.now_us, self.meter)?
        else {
            return Ok(ControlFlow::Continue(()));
        };
        self.meter.spend(1)?;
        self.meter.note_row(&key)?;
        let mut row: SmallVec<[Value; 8]> = smallvec![Value::Null; columns.len()];
        if access.read(*table, &key, columns, &mut row)?.is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        match self.passes(filter.as_ref(), &row)? {
            true => sink(&row),
            false => Ok(ControlFlow::Continue(())),
        }
    }

    fn scan<A: Access>(
        &self,
        access: &mut A,
        query: &Query,
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let Query::Scan { table, index, nullable, low, high, reverse, columns, filter } = query
        else {
            return Ok(ControlFlow::Continue(()));
        };
        let (Some(low), Some(high)) =
            (self.bound(low, nullable, outer)?, self.bound(high, nullable, outer)?)
        else {
            return Ok(ControlFlow::Continue(()));
        };
        self.meter.spend(1)?;
        let range = Range { table: *table, index: *index, low, high, reverse: *reverse };
        self.meter.note_range(&range)?;
        let mut flow = ControlFlow::Continue(());
        access.scan(&range, columns, |_, _, row| {
            self.meter.spend(1)?;
            if self.passes(filter.as_ref(), row)? {
                flow = sink(row)?;
            }
            Ok(flow)
        })?;
        self.meter.spend(access.take_passed_over())?;
        Ok(flow)
    }

    fn around(&self, query: &Query, outer: &[Value], sink: Sink<'_>) -> Flow {
        let Query::Around { source, columns, key, filter } = query else {
            return Ok(ControlFlow::Continue(()));
        };
        self.meter.spend(1)?;
        let value = key.as_ref().map(|(_, key)| self.eval(key, outer)).transpose()?;
        let key = match (key, &value) {
            (Some(_), Some(Value::Null)) => return Ok(ControlFlow::Continue(())),
            (Some((column, _)), Some(value)) => Some((*column, value)),
            _ => None,
        };
        self.meter.surroundings()?.scan(*source, columns, key, &mut |row| {
            self.meter.spend(1)?;
            match self.passes(filter.as_ref(), row)? {
                true => sink(row),
                false => Ok(ControlFlow::Continue(())),
            }
        })
    }

    /// `None`: a bound is NULL, so that no row can satisfy it.
    fn bound(
        &self,
        bound: &Bound<Box<[Expr]>>,
        nullable: &[bool],
        outer: &[Value],
    ) -> Result<Option<Bound<Key>>, Error> {
        let key = |expressions: &[Expr]| {
            eval_index_key(expressions, nullable, self.registers, outer, self.now_us, self.meter)
        };
        Ok(match bound {
            Bound::Unbounded => Some(Bound::Unbounded),
            Bound::Included(expressions) => key(expressions)?.map(Bound::Included),
            Bound::Excluded(expressions) => key(expressions)?.map(Bound::Excluded),
        })
    }

    fn nested_loop<A: Access>(
        &self,
        access: &mut A,
        query: &Query,
        outer_row: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let Query::NestedLoop { outer, inner, condition, left, inner_width } = query else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut joined: SmallVec<[Value; 16]> = smallvec![];
        for row in self.gather(access, outer, outer_row)? {
            let mut matched = false;
            let flow = self.query(access, inner, &row, &mut |inner_row| {
                self.meter.spend(PAIR_UNITS)?;
                joined.clear();
                joined.extend(row.iter().chain(inner_row).cloned());
                if !self.passes(condition.as_ref(), &joined)? {
                    return Ok(ControlFlow::Continue(()));
                }
                matched = true;
                sink(&joined)
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
            if *left && !matched && sink(&padded(&row, *inner_width))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// `None` where a part is NULL: it joins nothing.
    fn join_key(
        &self,
        keys: &[Expr],
        row: &[Value],
    ) -> Result<Option<SmallVec<[Value; 2]>>, Error> {
        let mut values = SmallVec::with_capacity(keys.len());
        for key in keys {
            let value = self.eval(key, row)?;
            if value.is_null() {
                return Ok(None);
            }
            values.push(value);
        }
        self.meter.spend_on_hash(&values)?;
        Ok(Some(values))
    }

    fn sort<A: Access>(
        &self,
        access: &mut A,
        input: &Query,
        keys: &[SortKey],
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let mut rows: Vec<SortRow> = Vec::new();
        self.query(access, input, outer, &mut |row| {
            self.hold(row)?;
            let mut values = SmallVec::with_capacity(keys.len());
            for key in keys {
                values.push(self.eval(&key.expr, row)?);
            }
            let long = self.hold(&values)? - VALUE_WEIGHT * keys.len() - ROW_WEIGHT;
            self.meter.spend_bytes(long / 4 * COMPARISONS_PER_ROW)?;
            rows.push((values, row.into()));
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)?;
        self.sort_rows(&mut rows, keys)?;
        for (_, row) in &rows {
            if sink(row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// A stable sort in runs that double, so that it is paid for and can be interrupted. Small
    /// sorts, which are nearly all, are paid for by what made their rows.
    fn sort_rows(&self, rows: &mut [SortRow], keys: &[SortKey]) -> Result<(), Error> {
        for chunk in rows.chunks_mut(FIRST_RUN_ROWS) {
            self.meter.check()?;
            chunk.sort_by(|(a, _), (b, _)| compare_sort_keys(keys, a, b));
        }
        let mut run = FIRST_RUN_ROWS;
        while run < rows.len() {
            for pair in rows.chunks_mut(2 * run) {
                if pair.len() > FIRST_RUN_ROWS {
                    self.meter.spend(pair.len() as u64)?;
                }
                if pair.len() > run {
                    self.merge(pair, run, keys)?;
                }
            }
            run *= 2;
        }
        Ok(())
    }

    /// Of two sorted runs one; of equal rows the first run's come first.
    fn merge(&self, rows: &mut [SortRow], middle: usize, keys: &[SortKey]) -> Result<(), Error> {
        let mut first: Vec<_> = rows[..middle].iter_mut().map(std::mem::take).collect();
        let (mut from_first, mut from_second, mut to) = (0, middle, 0);
        while from_first < middle {
            if to % ROWS_PER_LOOK == 0 {
                self.meter.check()?;
            }
            let is_second = rows.get(from_second).is_some_and(|second| {
                compare_sort_keys(keys, &second.0, &first[from_first].0).is_lt()
            });
            rows[to] = match is_second {
                true => {
                    from_second += 1;
                    std::mem::take(&mut rows[from_second - 1])
                }
                false => {
                    from_first += 1;
                    std::mem::take(&mut first[from_first - 1])
                }
            };
            to += 1;
        }
        Ok(())
    }

    fn limit<A: Access>(
        &self,
        access: &mut A,
        input: &Query,
        limit: Option<u64>,
        mut to_skip: u64,
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let mut left = limit.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let mut stopped_above = false;
        self.query(access, input, outer, &mut |row| {
            if to_skip > 0 {
                to_skip -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            left -= 1;
            stopped_above = sink(row)?.is_break();
            Ok(match stopped_above || left == 0 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        })
        .map(drop)?;
        Ok(match stopped_above {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    fn distinct<A: Access>(
        &self,
        access: &mut A,
        input: &Query,
        (by, repeats): (&[u16], Repeats),
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let mut seen = RowSet::default();
        let mut some: SmallVec<[Value; 4]> = smallvec![];
        self.query(access, input, outer, &mut |row| {
            some.clear();
            some.extend(by.iter().map(|column| row[usize::from(*column)].clone()));
            let alike = if by.is_empty() { row } else { &some };
            self.meter.spend_on_hash(alike)?;
            let Repeats::Marked(counts) = repeats else {
                if !seen.insert(alike) {
                    return Ok(ControlFlow::Continue(()));
                }
                self.hold(alike)?;
                return sink(row);
            };
            let counts = counts.is_none_or(|at| row[usize::from(at)] == Value::Bool(true));
            let is_like_none = alike.iter().any(Value::is_null);
            let is_repeated = !is_like_none && seen.0.get(alike).is_some();
            if counts && !is_like_none && seen.insert(alike) {
                self.hold(alike)?;
            }
            let mut marked: SmallVec<[Value; 8]> = row.iter().cloned().collect();
            marked.push(Value::Bool(is_repeated));
            sink(&marked)
        })
    }

    fn numbered<A: Access>(
        &self,
        access: &mut A,
        input: &Query,
        (first, step): (&Expr, i64),
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let mut number = self.eval(first, outer)?.as_int().unwrap_or(0);
        let mut rows = 0;
        let mut numbered: SmallVec<[Value; 8]> = smallvec![];
        self.query(access, input, outer, &mut |row| {
            rows += 1;
            if rows > ROWS_MAX {
                return Err(too_many_drawn().into());
            }
            numbered.clear();
            numbered.extend(row.iter().cloned());
            numbered.push(Value::Int(number));
            number = number.saturating_add(step);
            sink(&numbered)
        })
    }

    fn row_count(
        &self,
        count: Option<&Expr>,
        code: &[u8; 5],
        clause: &str,
    ) -> Result<Option<u64>, Error> {
        let Some(count) = count else {
            return Ok(None);
        };
        match self.eval(count, &[])? {
            Value::Int(n) => match u64::try_from(n) {
                Ok(n) => Ok(Some(n)),
                Err(_) => {
                    Err(Error::new(SqlState(*code), format!("{clause} must not be negative")))
                }
            },
            _ => Ok(None),
        }
    }

    fn gather<A: Access>(
        &self,
        access: &mut A,
        query: &Query,
        outer: &[Value],
    ) -> Result<Vec<Row>, Stop> {
        let mut rows = Vec::new();
        self.query(access, query, outer, &mut |row| {
            self.hold(row)?;
            rows.push(Row::from(row));
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)?;
        Ok(rows)
    }

    fn hold(&self, row: &[Value]) -> Result<usize, Error> {
        self.meter.spend(HELD_ROW_UNITS)?;
        let weight = self.meter.hold_row(row)?;
        self.held.set(self.held.get() + weight);
        Ok(weight)
    }

    fn hold_bytes(&self, bytes: usize) -> Result<(), Error> {
        self.meter.hold(bytes)?;
        self.held.set(self.held.get() + bytes);
        Ok(())
    }

    fn eval(&self, expression: &Expr, row: &[Value]) -> Result<Value, Error> {
        expression.eval_metered(self.registers, row, self.now_us, self.meter)
    }

    fn look<'a>(&'a self, expression: &'a Expr, row: &'a [Value]) -> Result<Cow<'a, Value>, Error> {
        expression.eval_ref_metered(self.registers, row, self.now_us, self.meter)
    }

    fn holds(&self, condition: &Expr, row: &[Value]) -> Result<bool, Error> {
        let truth = condition.eval_truth_metered(self.registers, row, self.now_us, self.meter)?;
        Ok(truth == Some(true))
    }

    fn passes(&self, condition: Option<&Expr>, row: &[Value]) -> Result<bool, Error> {
        condition.map_or(Ok(true), |condition| self.holds(condition, row))
    }
}

fn too_many_drawn() -> Error {
    let what = format!("the query draws random values for more than {ROWS_MAX} rows");
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
        .with_hint("Split the work into several statements.")
}

fn padded(row: &[Value], inner_width: u16) -> Row {
    let nulls = std::iter::repeat_n(Value::Null, usize::from(inner_width));
    row.iter().cloned().chain(nulls).collect()
}

fn compare_sort_keys(keys: &[SortKey], a: &[Value], b: &[Value]) -> Ordering {
    let mut pairs = keys.iter().zip(a.iter().zip(b));
    let first_difference = pairs.find_map(|(key, (a, b))| {
        let ordering = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if key.descending => sort_cmp(b, a),
            (false, false) => sort_cmp(a, b),
        };
        ordering.is_ne().then_some(ordering)
    });
    first_difference.unwrap_or(Ordering::Equal)
}

/// A map from rows that remembers the order in which keys came.
struct RowMap<V> {
    hasher: RandomState,
    places: HashTable<usize>,
    entries: Vec<(Row, V)>,
}

impl<V> Default for RowMap<V> {
    fn default() -> Self {
        RowMap { hasher: RandomState::new(), places: HashTable::new(), entries: Vec::new() }
    }
}

impl<V: Default> RowMap<V> {
    fn entry(&mut self, key: &[Value]) -> &mut V {
        let RowMap { hasher, places, entries } = self;
        let place = match places.entry(
            hasher.hash_one(key),
            |&place| *entries[place].0 == *key,
            |&place| hasher.hash_one(&*entries[place].0),
        ) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let place = entries.len();
                entry.insert(place);
                entries.push((key.into(), V::default()));
                place
            }
        };
        &mut entries[place].1
    }

    fn get(&self, key: &[Value]) -> Option<&V> {
        let place =
            self.places.find(self.hasher.hash_one(key), |&place| *self.entries[place].0 == *key)?;
        Some(&self.entries[*place].1)
    }

    fn get_mut(&mut self, key: &[Value]) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        let place = *self.places.find(hash, |&place| *self.entries[place].0 == *key)?;
        Some(&mut self.entries[place].1)
    }

    fn into_entries(self) -> Vec<(Row, V)> {
        self.entries
    }
}

#[derive(Default)]
struct RowSet(RowMap<bool>);

impl RowSet {
    /// Whether the row is new.
    fn insert(&mut self, row: &[Value]) -> bool {
        !std::mem::replace(self.0.entry(row), true)
    }
}
