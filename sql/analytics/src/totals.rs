//! The sums of groups, of which there may be millions.
//!
//! What a group costs is what a query with many of them waits for: memory that no cache holds. So a
//! sum has 64 bits until one does not fit, which for most columns is never; from then on all have
//! 128. A sum that needs no count has none, and whether a group has seen a value is written down
//! only once one may not have: with neither NULLs nor a filter, each has.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, Decimal128Array, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use crate::exact::{Answer, Bound, each, plus};
use crate::variable_scale_sums::counts;

/// A state's sum, whatever the scale of what was added.
pub(crate) const STATE: ArrowType = ArrowType::Decimal128(38, 0);

/// The columns of a state.
pub(crate) fn state_fields(answer: Answer) -> Vec<FieldRef> {
    let sum = Arc::new(Field::new("sum", STATE, true));
    match answer.needs_count() {
        true => vec![sum, Arc::new(Field::new("count", ArrowType::Int64, true))],
        false => vec![sum],
    }
}

/// The sums of all groups.
#[derive(Default)]
struct Sums {
    narrow: Vec<i64>,
    /// All of them, from the first one on that has no place in 64 bits.
    wide: Option<Vec<i128>>,
}

impl Sums {
    fn resize(&mut self, groups: usize) {
        match &mut self.wide {
            None => self.narrow.resize(groups, 0),
            Some(sums) => sums.resize(groups, 0),
        }
    }

    #[inline]
    fn add(&mut self, group: usize, units: i128) -> Result<()> {
        let narrow = &mut self.narrow;
        if self.wide.is_none()
            && let Some(sum) = i64::try_from(units).ok().and_then(|u| narrow[group].checked_add(u))
        {
            narrow[group] = sum;
            return Ok(());
        }
        let widened = || std::mem::take(narrow).into_iter().map(i128::from).collect();
        let sum = &mut self.wide.get_or_insert_with(widened)[group];
        *sum = plus(*sum, units)?;
        Ok(())
    }

    fn take(&mut self, emit: EmitTo) -> Vec<i128> {
        match &mut self.wide {
            None => emit.take_needed(&mut self.narrow).into_iter().map(i128::from).collect(),
            Some(sums) => emit.take_needed(sums),
        }
    }

    fn bytes(&self) -> usize {
        let wide = self.wide.as_ref().map_or(0, Vec::capacity);
        self.narrow.capacity() * size_of::<i64>() + wide * size_of::<i128>()
    }
}

/// What else is known of each group.
enum Seen {
    /// That there was a value.
    All,
    /// Whether there was one.
    Some(Vec<bool>),
    /// How many.
    Counts(Vec<i64>),
}

impl Seen {
    /// For so many groups before a batch and so many with it, of which each has a value in it that
    /// counts, or perhaps not.
    fn resize(&mut self, before: usize, groups: usize, all_count: bool) {
        match self {
            Seen::All if all_count => {}
            Seen::All => {
                let mut seen = vec![true; before];
                seen.resize(groups, false);
                *self = Seen::Some(seen);
            }
            Seen::Some(seen) => seen.resize(groups, false),
            Seen::Counts(counts) => counts.resize(groups, 0),
        }
    }

    #[inline]
    fn add(&mut self, group: usize) {
        match self {
            Seen::All => {}
            Seen::Some(seen) => seen[group] = true,
            Seen::Counts(counts) => counts[group] += 1,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Seen::All => 0,
            Seen::Some(seen) => seen.capacity(),
            Seen::Counts(counts) => counts.capacity() * size_of::<i64>(),
        }
    }
}

/// Sums, or what averages are made of.
pub(crate) struct Totals {
    answer: Answer,
    bound: Bound,
    groups: usize,
    sums: Sums,
    seen: Seen,
}

impl Totals {
    pub(crate) fn new(answer: Answer, bound: Bound) -> Totals {
        let seen = if answer.needs_count() { Seen::Counts(Vec::new()) } else { Seen::All };
        Totals { answer, bound, groups: 0, sums: Sums::default(), seen }
    }

    fn resize(&mut self, groups: usize, all_count: bool) {
        self.sums.resize(groups);
        self.seen.resize(self.groups, groups, all_count);
        self.groups = groups;
    }

    /// Sums, and the counts or which of them are none.
    fn take(&mut self, emit: EmitTo) -> (Vec<i128>, Option<Vec<i64>>, Option<NullBuffer>) {
        let sums = self.sums.take(emit);
        self.groups -= sums.len();
        let (counts, nulls) = match &mut self.seen {
            Seen::All => (None, None),
            Seen::Some(seen) => (None, Some(NullBuffer::from(emit.take_needed(seen)))),
            Seen::Counts(counts) => (Some(emit.take_needed(counts)), None),
        };
        (sums, counts, nulls)
    }
}

impl GroupsAccumulator for Totals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        let values = &values[0];
        self.bound.add(values);
        self.resize(count, filter.is_none() && values.null_count() == 0);
        let (sums, seen) = (&mut self.sums, &mut self.seen);
        let mut add = |place: usize, units| {
            seen.add(groups[place]);
            sums.add(groups[place], units)
        };
        match filter {
            None => each(values, &mut add),
            filter => each(values, &mut |place, units| match counts(filter, place) {
                true => add(place, units),
                false => Ok(()),
            }),
        }
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.bound.check()?;
        let (sums, counts, nulls) = self.take(emit);
        match (counts, nulls) {
            (Some(counts), _) => self.answer.array(sums.into_iter().zip(counts)),
            (None, None) => self.answer.array(sums.into_iter().map(|sum| (sum, 1))),
            (None, Some(seen)) => {
                self.answer.array(sums.into_iter().zip(seen.iter().map(i64::from)))
            }
        }
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.bound.check()?;
        let (sums, counts, nulls) = self.take(emit);
        Ok(state_of(sums, counts, nulls))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.bound.add(&states[0]);
        self.resize(count, states[0].null_count() == 0);
        let (sums, seen) = (&mut self.sums, &mut self.seen);
        if let (Seen::Counts(totals), [_, counts]) = (&mut *seen, states) {
            each(counts, &mut |place, count| {
                totals[groups[place]] += count as i64;
                Ok(())
            })?;
            return each(&states[0], &mut |place, sum| sums.add(groups[place], sum));
        }
        each(&states[0], &mut |place, sum| {
            seen.add(groups[place]);
            sums.add(groups[place], sum)
        })
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let (mut sums, mut seen) = (vec![0; rows], vec![false; rows]);
        each(&values[0], &mut |place, units| {
            if counts(filter, place) {
                (sums[place], seen[place]) = (units, true);
            }
            Ok(())
        })?;
        Ok(match self.answer.needs_count() {
            true => {
                let counts = seen.into_iter().map(i64::from).collect();
                state_of(sums, Some(counts), None)
            }
            false => state_of(sums, None, Some(NullBuffer::from(seen))),
        })
    }

    fn size(&self) -> usize {
        self.sums.bytes() + self.seen.bytes()
    }
}

fn state_of(sums: Vec<i128>, counts: Option<Vec<i64>>, nulls: Option<NullBuffer>) -> Vec<ArrayRef> {
    let sums = Decimal128Array::new(sums.into(), nulls).with_data_type(STATE);
    let sums: ArrayRef = Arc::new(sums);
    let counts = counts.map(|counts| Arc::new(Int64Array::from(counts)) as ArrayRef);
    std::iter::once(sums).chain(counts).collect()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Decimal128Type;
    use kit::random::Random;

    use super::*;

    const SUM: Answer = Answer::Decimal { digits: 38, scale: 0 };

    fn decimals(units: Vec<Option<i128>>) -> ArrayRef {
        Arc::new(Decimal128Array::from(units).with_data_type(STATE))
    }

    fn totals(answer: Answer) -> Totals {
        Totals::new(answer, Bound::default())
    }

    /// What batches of random values come to, in any number of parts that are merged.
    #[test]
    fn sums_of_groups_are_sums_however_wide_and_however_they_come() {
        let mut random = Random::new(11);
        for round in 0..200 {
            let groups = 1 + random.below(9) as usize;
            let mut expected: Vec<Option<i128>> = vec![None; groups];
            let mut last = totals(SUM);
            for _ in 0..1 + random.below(4) {
                let mut part = totals(SUM);
                for _ in 0..1 + random.below(3) {
                    batch(&mut random, round, &mut part, &mut expected);
                }
                let state = part.state(EmitTo::All).expect("within 128 bits");
                let places: Vec<usize> = (0..groups).collect();
                last.merge_batch(&state, &places, groups).expect("within 128 bits");
            }
            let sums = last.evaluate(EmitTo::All).expect("within 128 bits");
            let sums: Vec<Option<i128>> = sums.as_primitive::<Decimal128Type>().iter().collect();
            assert_eq!(sums, expected, "round {round}");
        }
    }

    /// Rounds differ in how long numbers are, whether some are NULL, and whether some are left out.
    fn batch(random: &mut Random, round: u64, to: &mut Totals, expected: &mut [Option<i128>]) {
        let shift = [100, 64, 61, 0][(round % 4) as usize];
        let mut rows: Vec<usize> = (0..expected.len()).collect();
        rows.extend((0..20).map(|_| random.below(expected.len() as u64) as usize));
        let values = rows.iter().map(|_| {
            let units = (i128::from(random.next_u64() as i64) << 60) >> shift;
            (!round.is_multiple_of(3) || random.below(3) > 0).then_some(units)
        });
        let values: Vec<Option<i128>> = values.collect();
        let filter: Option<Vec<bool>> =
            round.is_multiple_of(5).then(|| rows.iter().map(|_| random.below(2) == 0).collect());
        for (place, (group, value)) in rows.iter().zip(&values).enumerate() {
            if let Some(units) = value
                && filter.as_ref().is_none_or(|filter| filter[place])
            {
                expected[*group] = Some(expected[*group].unwrap_or(0) + units);
            }
        }
        let filter = filter.map(BooleanArray::from);
        let groups = expected.len();
        to.update_batch(&[decimals(values)], &rows, filter.as_ref(), groups).expect("a batch");
    }

    #[test]
    fn a_sum_of_few_bits_takes_eight_bytes_a_group() {
        let mut few = totals(SUM);
        let groups: Vec<usize> = (0..1_000).collect();
        let ones = decimals(vec![Some(1); 1_000]);
        few.update_batch(&[ones], &groups, None, 1_000).expect("sums");
        assert_eq!(few.size(), 8_000);
        few.update_batch(&[decimals(vec![Some(i64::MAX.into())])], &[7], None, 1_000).expect("one");
        assert_eq!(few.size(), 16_000);
        let first = few.evaluate(EmitTo::First(8)).expect("sums");
        let first = first.as_primitive::<Decimal128Type>();
        assert_eq!((first.value(6), first.value(7)), (1, i128::from(i64::MAX) + 1));
        assert_eq!(few.evaluate(EmitTo::All).expect("the others").len(), 992);
    }

    #[test]
    fn a_sum_beyond_128_bits_is_refused() {
        let values = decimals([i128::MAX / 2, i128::MAX / 2, 2].map(Some).into());
        for (groups, count) in [([0, 0, 0], 1), ([0, 1, 0], 2)] {
            let mut totals = totals(SUM);
            let refused = totals.update_batch(std::slice::from_ref(&values), &groups, None, count);
            assert_eq!(refused.is_err(), count == 1);
        }
    }

    #[test]
    fn averages_count_what_came() {
        let answer = Answer::Average { scale: 0 };
        let values = decimals(vec![Some(3), None, Some(4), Some(8)]);
        let (mut part, mut last) = (totals(answer), totals(answer));
        part.update_batch(&[values], &[0, 0, 0, 1], None, 3).expect("a batch");
        let state = part.state(EmitTo::All).expect("a state");
        assert_eq!(state.len(), state_fields(answer).len());
        last.merge_batch(&state, &[0, 1, 2], 3).expect("merged");
        let averages = last.evaluate(EmitTo::All).expect("quotients");
        let shown = |row: usize| {
            let bytes = averages.as_fixed_size_binary();
            let number =
                bytes.is_valid(row).then(|| crate::variable_scale::decode(bytes.value(row)));
            number.map(|number| number.expect("a number").to_string())
        };
        assert_eq!(
            [shown(0), shown(1)],
            ["3.5000000000000000", "8.0000000000000000"].map(|n| Some(n.to_owned()))
        );
        assert_eq!(shown(2), None);
    }
}
