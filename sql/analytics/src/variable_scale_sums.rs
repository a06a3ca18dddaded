//! `sum` and `avg` of numbers that bring [variable scale](crate::variable_scale).
//!
//! A sum has as many digits after the point as the number that has most. It is exact in 256 bits;
//! one of more digits than a [number](crate::variable_scale) has here is refused. A
//! state on its way from one operator to another is one value:
//!
//! ```text
//! byte   0 ····· 31   32 ····· 63   64      65 ···· 72
//!        sum          of sizes      digits  count, both units × 10^28, least significant first
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder,
};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use types::numeric::{self, Numeric};

use crate::faults::{raise, too_long};
use crate::variable_scale::{self, BYTES, Units, VARIABLE_SCALE};

const STATE_BYTES: usize = 32 + 32 + 1 + 8;
const STATE: ArrowType = ArrowType::FixedSizeBinary(STATE_BYTES as i32);

/// 96 bits of units.
const SIZE_MAX: i128 = (1 << 96) - 1;

#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    sum: Units,
    /// The sum of what was added without its signs: no partial sum is larger.
    size: Units,
    scale: u8,
    count: i64,
}

impl Sum {
    fn of((units, scale): (Units, u8)) -> Sum {
        Sum { sum: units, size: units.wrapping_abs(), scale, count: 1 }
    }

    fn add(&mut self, other: Sum) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.size = self.size.wrapping_add(other.size);
        self.scale = self.scale.max(other.scale);
        self.count += other.count;
    }

    fn answer(&self, average: bool, agreeing: bool) -> types::Result<Option<Numeric>> {
        if self.count == 0 {
            return Ok(None);
        }
        if agreeing && self.size > variable_scale::units(SIZE_MAX, self.scale) {
            return Err(too_long());
        }
        let sum = variable_scale::number(self.sum, self.scale)?;
        match average {
            true => numeric::div(&sum, &self.count.into()).map(Some),
            false => Ok(Some(sum)),
        }
    }

    fn to_bytes(self) -> [u8; STATE_BYTES] {
        let mut bytes = [0; STATE_BYTES];
        bytes[..32].copy_from_slice(&self.sum.to_le_bytes());
        bytes[32..64].copy_from_slice(&self.size.to_le_bytes());
        bytes[64] = self.scale;
        bytes[65..].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Sum {
        let units = |at: usize| {
            let mut of = [0; 32];
            of.copy_from_slice(&bytes[at..at + 32]);
            Units::from_le_bytes(of)
        };
        let mut count = [0; 8];
        count.copy_from_slice(&bytes[65..STATE_BYTES]);
        Sum { sum: units(0), size: units(32), scale: bytes[64], count: i64::from_le_bytes(count) }
    }
}

fn known(array: &ArrayRef) -> impl Iterator<Item = (usize, &[u8])> {
    let array: &FixedSizeBinaryArray = array.as_fixed_size_binary();
    (0..array.len()).filter(|row| array.is_valid(*row)).map(|row| (row, array.value(row)))
}

fn states(sums: impl Iterator<Item = Sum>) -> Result<ArrayRef> {
    let mut column = FixedSizeBinaryBuilder::new(STATE_BYTES as i32);
    for sum in sums {
        column.append_value(sum.to_bytes())?;
    }
    Ok(Arc::new(column.finish()))
}

/// The sum of all that came; of each value once if it has seen any.
#[derive(Debug)]
pub(crate) struct VariableScaleTotal {
    average: bool,
    agreeing: bool,
    sum: Sum,
    seen: Option<BTreeMap<Units, u8>>,
}

impl VariableScaleTotal {
    pub(crate) fn new(average: bool, agreeing: bool, distinct: bool) -> VariableScaleTotal {
        let seen = distinct.then(BTreeMap::new);
        VariableScaleTotal { average, agreeing, sum: Sum::default(), seen }
    }

    pub(crate) fn state_fields(distinct: bool) -> Vec<FieldRef> {
        let state = match distinct {
            true => ArrowType::List(Arc::new(Field::new("item", VARIABLE_SCALE, true))),
            false => STATE,
        };
        vec![Arc::new(Field::new("sum", state, true))]
    }
}

impl Accumulator for VariableScaleTotal {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for (_, bytes) in known(&values[0]) {
            let (units, scale) = variable_scale::parts(bytes);
            match &mut self.seen {
                None => self.sum.add(Sum::of((units, scale))),
                Some(seen) => _ = seen.entry(units).or_insert(scale),
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = self.sum;
        for (units, scale) in self.seen.iter().flatten() {
            sum.add(Sum::of((*units, *scale)));
        }
        let answer = sum.answer(self.average, self.agreeing).map_err(raise)?;
        let bytes =
            answer.map(|number| variable_scale::encode(&number)).transpose().map_err(raise)?;
        Ok(ScalarValue::FixedSizeBinary(BYTES as i32, bytes.map(Into::into)))
    }

    fn size(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, BTreeMap::len);
        size_of_val(self) + seen * 2 * size_of::<(Units, u8)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Some(seen) = &self.seen else {
            let bytes = self.sum.to_bytes().to_vec();
            return Ok(vec![ScalarValue::FixedSizeBinary(STATE_BYTES as i32, Some(bytes))]);
        };
        let number = |(units, scale): (&Units, &u8)| {
            let number = variable_scale::number(*units, *scale).map_err(raise)?;
            let bytes = variable_scale::encode(&number).map_err(raise)?;
            Ok(ScalarValue::FixedSizeBinary(BYTES as i32, Some(bytes.into())))
        };
        let numbers = seen.iter().map(number).collect::<Result<Vec<_>>>()?;
        Ok(vec![ScalarValue::List(ScalarValue::new_list(&numbers, &VARIABLE_SCALE, true))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if self.seen.is_none() {
            known(&states[0]).for_each(|(_, bytes)| self.sum.add(Sum::from_bytes(bytes)));
            return Ok(());
        }
        for values in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }
}

/// The sum of each group.
pub(crate) struct VariableScaleTotals {
    average: bool,
    agreeing: bool,
    sums: Vec<Sum>,
}

impl VariableScaleTotals {
    pub(crate) fn new(average: bool, agreeing: bool) -> VariableScaleTotals {
        VariableScaleTotals { average, agreeing, sums: Vec::new() }
    }
}

/// Whether an aggregate's FILTER lets the row through.
pub(crate) fn counts(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl GroupsAccumulator for VariableScaleTotals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.sums.resize(count, Sum::default());
        for (row, bytes) in known(&values[0]).filter(|(row, _)| counts(filter, *row)) {
            self.sums[groups[row]].add(Sum::of(variable_scale::parts(bytes)));
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let mut column = FixedSizeBinaryBuilder::new(BYTES as i32);
        for sum in emit.take_needed(&mut self.sums) {
            match sum.answer(self.average, self.agreeing).map_err(raise)? {
                Some(number) => {
                    column.append_value(variable_scale::encode(&number).map_err(raise)?)?
                }
                None => column.append_null(),
            }
        }
        Ok(Arc::new(column.finish()))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![states(emit.take_needed(&mut self.sums).into_iter())?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.sums.resize(count, Sum::default());
        for (row, bytes) in known(&states[0]) {
            self.sums[groups[row]].add(Sum::from_bytes(bytes));
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let mut sums = vec![Sum::default(); values[0].len()];
        for (row, bytes) in known(&values[0]).filter(|(row, _)| counts(filter, *row)) {
            sums[row] = Sum::of(variable_scale::parts(bytes));
        }
        Ok(vec![states(sums.into_iter())?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Sum>()
    }
}
