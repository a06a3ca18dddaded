//! `sum` and `avg` of whole and decimal numbers, as PostgreSQL has them.
//!
//! | | smallint, integer | bigint | numeric |
//! |---|---|---|---|
//! | sum | bigint | numeric | numeric, of the same scale |
//! | avg | numeric | numeric | numeric |
//!
//! All are a sum and a count: a sum in 128 bits, beyond which is 22003; of numbers that bring
//! [variable scale](crate::variable_scale), in 256, and the most digits that one had. An average is
//! their quotient as the row executor divides. Sums of float8 and intervals are DataFusion's own.
//!
//! *As the row executor.* Its sums have 96 bits, and lose digits after the point where these do not
//! suffice; which they are depends on the order of rows. Where its answer
//! [matters](Exact::agreeing), a sum is refused that might have come to that in any order: that is
//! known from the number of rows and the largest of each batch.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, FixedSizeBinaryBuilder, Int64Array, PrimitiveArray,
};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Decimal128Type, Field, FieldRef, Int16Type,
    Int32Type, Int64Type,
};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
    Volatility,
};
use types::numeric::{self, Numeric};
use types::{Error, SqlState};

use crate::arithmetic::DIGITS;
use crate::faults::{raise, too_long};
use crate::totals::{STATE, Totals, state_fields};
use crate::variable_scale::{BYTES, VARIABLE_SCALE, encode};
use crate::variable_scale_sums::{VariableScaleTotal, VariableScaleTotals};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Function {
    Sum,
    Avg,
}

/// `sum` or `avg`.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct Exact {
    function: Function,
    agreeing: bool,
    signature: Signature,
    sum: Sum,
    avg: Avg,
}

/// The aggregate of this name that refuses what the row executor may answer otherwise.
pub(crate) fn agreeing(name: &str) -> Option<Arc<AggregateUDF>> {
    let function = match name {
        "sum" => Function::Sum,
        "avg" => Function::Avg,
        _ => return None,
    };
    Some(Arc::new(AggregateUDF::new_from_impl(Exact::agreeing(function))))
}

/// What becomes of a sum and a count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Int,
    Decimal {
        digits: u8,
        scale: i8,
    },
    /// Of a sum of this scale.
    Average {
        scale: i8,
    },
    /// Of numerics of variable scale.
    Free {
        average: bool,
    },
}

impl Exact {
    pub(crate) fn new(function: Function) -> Exact {
        let signature = Signature::user_defined(Volatility::Immutable);
        Exact { function, agreeing: false, signature, sum: Sum::new(), avg: Avg::new() }
    }

    /// One that refuses what the row executor may answer otherwise.
    pub(crate) fn agreeing(function: Function) -> Exact {
        Exact { agreeing: true, ..Exact::new(function) }
    }

    fn bound(&self) -> Bound {
        Bound(self.agreeing.then_some(0))
    }

    fn others(&self) -> &dyn AggregateUDFImpl {
        match self.function {
            Function::Sum => &self.sum,
            Function::Avg => &self.avg,
        }
    }

    /// `None`: DataFusion's own does it.
    fn answer(&self, input: &ArrowType) -> Option<Answer> {
        let digits = if self.agreeing { DIGITS } else { 38 };
        match (self.function, input) {
            (Function::Sum, ArrowType::Int16 | ArrowType::Int32) => Some(Answer::Int),
            (Function::Sum, ArrowType::Int64) => Some(Answer::Decimal { digits, scale: 0 }),
            (Function::Sum, ArrowType::Decimal128(_, scale)) => {
                Some(Answer::Decimal { digits, scale: *scale })
            }
            (Function::Avg, ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64) => {
                Some(Answer::Average { scale: 0 })
            }
            (Function::Avg, ArrowType::Decimal128(_, scale)) => {
                Some(Answer::Average { scale: *scale })
            }
            (function, free) if *free == VARIABLE_SCALE => {
                Some(Answer::Free { average: function == Function::Avg })
            }
            _ => None,
        }
    }
}

impl Answer {
    /// Besides the sum; else it matters only whether there was a value.
    pub(crate) fn needs_count(self) -> bool {
        matches!(self, Answer::Average { .. })
    }

    fn arrow(self) -> ArrowType {
        match self {
            Answer::Int => ArrowType::Int64,
            Answer::Decimal { digits, scale } => ArrowType::Decimal128(digits, scale),
            Answer::Average { .. } | Answer::Free { .. } => VARIABLE_SCALE,
        }
    }

    pub(crate) fn array(self, totals: impl Iterator<Item = (i128, i64)>) -> Result<ArrayRef> {
        let known = totals.map(|(sum, count)| (count != 0).then_some((sum, count)));
        Ok(match self {
            Answer::Int => {
                let int = |sum| i64::try_from(sum).map_err(|_| bigint_overflow());
                let ints = known.map(|known| known.map(|(sum, _)| int(sum)).transpose());
                Arc::new(ints.collect::<Result<Int64Array>>()?)
            }
            Answer::Decimal { .. } => {
                let units = known.map(|known| known.map(|(sum, _)| sum));
                let units: Decimal128Array = units.collect();
                Arc::new(units.with_data_type(self.arrow()))
            }
            Answer::Average { scale } => {
                let average =
                    |(sum, count)| quotient(&Numeric::from_units(sum, scale.unsigned_abs()), count);
                frees(known.map(|known| known.map(average).transpose()))?
            }
            Answer::Free { .. } => return exec_err!("numbers of no scale"),
        })
    }

    fn scalar(self, sum: i128, count: i64) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.array(std::iter::once((sum, count)))?, 0)
    }
}

/// An average, as the row executor divides.
fn quotient(sum: &Numeric, count: i64) -> Result<Numeric> {
    numeric::div(sum, &count.into()).map_err(raise)
}

/// A column of numerics of variable scale.
fn frees(numbers: impl Iterator<Item = Result<Option<Numeric>>>) -> Result<ArrayRef> {
    let mut column = FixedSizeBinaryBuilder::new(BYTES as i32);
    for number in numbers {
        match number? {
            Some(number) => column.append_value(encode(&number).map_err(raise)?)?,
            None => column.append_null(),
        }
    }
    Ok(Arc::new(column.finish()))
}

fn numeric_overflow(detail: &str) -> DataFusionError {
    let error = Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow");
    raise(error.with_detail(detail))
}

pub(crate) fn plus(sum: i128, units: i128) -> Result<i128> {
    sum.checked_add(units).ok_or_else(|| numeric_overflow("The sum has too many digits."))
}

fn minus(sum: i128, units: i128) -> Result<i128> {
    sum.checked_sub(units).ok_or_else(|| numeric_overflow("The sum has too many digits."))
}

fn bigint_overflow() -> DataFusionError {
    raise(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"))
}

impl AggregateUDFImpl for Exact {
    fn name(&self) -> &str {
        self.others().name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[ArrowType]) -> Result<Vec<ArrowType>> {
        let [input] = types else {
            return plan_err!("No function matches {} of {} arguments", self.name(), types.len());
        };
        let input = match input {
            ArrowType::Int8 | ArrowType::UInt8 => ArrowType::Int16,
            ArrowType::UInt16 => ArrowType::Int32,
            ArrowType::UInt32 | ArrowType::UInt64 => ArrowType::Int64,
            ArrowType::Float16 | ArrowType::Float32 | ArrowType::Null => ArrowType::Float64,
            known if self.answer(known).is_some() => known.clone(),
            ArrowType::Float64
            | ArrowType::Decimal128(..)
            | ArrowType::Decimal256(..)
            | ArrowType::Duration(_)
            | ArrowType::Interval(_) => input.clone(),
            other => return plan_err!("No function matches {}({other})", self.name()),
        };
        Ok(vec![input])
    }

    fn return_type(&self, types: &[ArrowType]) -> Result<ArrowType> {
        match types.first().and_then(|input| self.answer(input)) {
            Some(answer) => Ok(answer.arrow()),
            None => self.others().return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match self.answer(args.expr_fields[0].data_type()) {
            None => self.others().accumulator(args),
            Some(Answer::Free { average }) => {
                Ok(Box::new(VariableScaleTotal::new(average, self.agreeing, args.is_distinct)))
            }
            Some(answer) if args.is_distinct => {
                Ok(Box::new(Distinct { answer, bound: self.bound(), values: BTreeSet::new() }))
            }
            Some(answer) => Ok(Box::new(Total { answer, bound: self.bound(), sum: 0, count: 0 })),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match self.answer(args.expr_fields[0].data_type()) {
            None => self.others().create_sliding_accumulator(args),
            Some(_) => self.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(match self.answer(args.input_fields[0].data_type()) {
            None => return self.others().state_fields(args),
            Some(Answer::Free { .. }) => VariableScaleTotal::state_fields(args.is_distinct),
            Some(_) if args.is_distinct => {
                let item = Arc::new(Field::new("item", STATE, true));
                vec![Arc::new(Field::new("values", ArrowType::List(item), true))]
            }
            Some(answer) => state_fields(answer),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match self.answer(args.expr_fields[0].data_type()) {
            None => self.others().groups_accumulator_supported(args),
            Some(_) => !args.is_distinct,
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match self.answer(args.expr_fields[0].data_type()) {
            None => self.others().create_groups_accumulator(args),
            Some(Answer::Free { average }) => {
                Ok(Box::new(VariableScaleTotals::new(average, self.agreeing)))
            }
            Some(answer) => Ok(Box::new(Totals::new(answer, self.bound()))),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// What the sums of all groups are below, in whatever order their rows come; counted only where a
/// sum has to agree.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Bound(Option<u128>);

/// A thousandth of what the row executor's sums hold, since partitions are added up.
const BOUND_MAX: u128 = 1 << 85;

/// Numbers of fewer digits do not reach it in 10^10 rows.
const SHORT_DIGITS: u8 = 15;

impl Bound {
    pub(crate) fn add(&mut self, array: &ArrayRef) {
        let Some(bound) = &mut self.0 else { return };
        if let ArrowType::Decimal128(digits, _) = array.data_type()
            && *digits > SHORT_DIGITS
        {
            let sizes = array.as_primitive::<Decimal128Type>().values().iter();
            let largest = sizes.map(|units| units.unsigned_abs()).max().unwrap_or(0);
            *bound = bound.saturating_add(largest.saturating_mul(array.len() as u128));
        }
    }

    pub(crate) fn check(self) -> Result<()> {
        match self.0 {
            Some(bound) if bound > BOUND_MAX => Err(raise(too_long())),
            _ => Ok(()),
        }
    }
}

/// Calls with the place and the units of each value that is there.
pub(crate) fn each(
    array: &ArrayRef,
    visit: &mut impl FnMut(usize, i128) -> Result<()>,
) -> Result<()> {
    fn of<T>(
        array: &PrimitiveArray<T>,
        visit: &mut impl FnMut(usize, i128) -> Result<()>,
    ) -> Result<()>
    where
        T: ArrowPrimitiveType,
        T::Native: Into<i128>,
    {
        match array.null_count() {
            0 => {
                let mut values = array.values().iter().enumerate();
                values.try_for_each(|(place, value)| visit(place, (*value).into()))
            }
            _ => array.iter().enumerate().try_for_each(|(place, value)| match value {
                Some(value) => visit(place, value.into()),
                None => Ok(()),
            }),
        }
    }
    match array.data_type() {
        ArrowType::Int16 => of::<Int16Type>(array.as_primitive(), visit),
        ArrowType::Int32 => of::<Int32Type>(array.as_primitive(), visit),
        ArrowType::Int64 => of::<Int64Type>(array.as_primitive(), visit),
        ArrowType::Decimal128(..) => of::<Decimal128Type>(array.as_primitive(), visit),
        other => exec_err!("numbers expected, not {other}"),
    }
}

/// The sum of a batch.
fn sum_of(array: &ArrayRef) -> Result<i128> {
    if let ArrowType::Int64 = array.data_type()
        && array.null_count() == 0
    {
        return Ok(sum_of_ints(array.as_primitive::<Int64Type>().values()));
    }
    let mut sum = 0;
    each(array, &mut |_, units| {
        sum = plus(sum, units)?;
        Ok(())
    })?;
    Ok(sum)
}

/// By halves, which vectors add up: of fewer than 2^32 numbers, neither overflows 64 bits.
fn sum_of_ints(ints: &[i64]) -> i128 {
    const HALF_BITS: u32 = 32;
    ints.chunks(u32::MAX as usize)
        .map(|ints| {
            let (mut high, mut low) = (0u64, 0u64);
            for int in ints {
                // Moved up by 2^63, so that all are positive.
                let bits = (*int as u64) ^ (1 << 63);
                high += bits >> HALF_BITS;
                low += bits & u64::from(u32::MAX);
            }
            let sum = (i128::from(high) << HALF_BITS) + i128::from(low);
            sum - ((ints.len() as i128) << 63)
        })
        .sum()
}

/// The sum and the count of all that came.
#[derive(Debug)]
struct Total {
    answer: Answer,
    bound: Bound,
    sum: i128,
    count: i64,
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = &values[0];
        self.bound.add(values);
        self.sum = plus(self.sum, sum_of(values)?)?;
        self.count += (values.len() - values.null_count()) as i64;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(&values[0], &mut |_, units| {
            self.sum = minus(self.sum, units)?;
            self.count -= 1;
            Ok(())
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.bound.check()?;
        self.answer.scalar(self.sum, self.count)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.bound.check()?;
        let sum = |sum| ScalarValue::Decimal128(sum, 38, 0);
        Ok(match self.answer.needs_count() {
            true => vec![sum(Some(self.sum)), ScalarValue::Int64(Some(self.count))],
            false => vec![sum((self.count > 0).then_some(self.sum))],
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.bound.add(&states[0]);
        each(&states[0], &mut |_, sum| {
            self.sum = plus(self.sum, sum)?;
            Ok(())
        })?;
        let Some(counts) = states.get(1) else {
            self.count += (states[0].len() - states[0].null_count()) as i64;
            return Ok(());
        };
        each(counts, &mut |_, count| {
            self.count += count as i64;
            Ok(())
        })
    }
}

/// Each value once.
#[derive(Debug)]
struct Distinct {
    answer: Answer,
    bound: Bound,
    values: BTreeSet<i128>,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.bound.add(&values[0]);
        each(&values[0], &mut |_, units| {
            self.values.insert(units);
            Ok(())
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.bound.check()?;
        let sum = self.values.iter().try_fold(0, |sum, units| plus(sum, *units))?;
        self.answer.scalar(sum, self.values.len() as i64)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.len() * 2 * size_of::<i128>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let units = self.values.iter().map(|&units| ScalarValue::Decimal128(Some(units), 38, 0));
        let units: Vec<ScalarValue> = units.collect();
        let list = ScalarValue::new_list(&units, &STATE, true);
        Ok(vec![ScalarValue::List(list)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimals(units: Vec<i128>) -> ArrayRef {
        let decimals = Decimal128Array::from(units);
        Arc::new(decimals.with_data_type(ArrowType::Decimal128(38, 10)))
    }

    #[test]
    fn a_sum_that_might_lose_digits_elsewhere_is_refused_where_it_has_to_agree() {
        let answer = Answer::Decimal { digits: 38, scale: 10 };
        let near = 1i128 << 84;
        for (units, fits) in [(vec![near, -near], true), (vec![near, near, -near], false)] {
            for (bound, fits) in [(Bound(Some(0)), fits), (Bound(None), true)] {
                let mut total = Total { answer, bound, sum: 0, count: 0 };
                total.update_batch(&[decimals(units.clone())]).expect("a sum");
                assert_eq!(total.evaluate().is_ok(), fits, "{units:?}");
            }
        }
    }

    #[test]
    fn sums_by_halves_are_sums() {
        let edges = [i64::MIN, i64::MIN + 1, -1, 0, 1, u32::MAX.into(), i64::MAX];
        let mut random = kit::random::Random::new(3);
        for count in 0..300 {
            let mut int = || match random.below(3) {
                0 => edges[random.below(edges.len() as u64) as usize],
                _ => random.next_u64() as i64,
            };
            let ints: Vec<i64> = (0..count).map(|_| int()).collect();
            let sum: i128 = ints.iter().map(|int| i128::from(*int)).sum();
            assert_eq!(sum_of_ints(&ints), sum, "{ints:?}");
        }
    }

    #[test]
    fn a_sum_beyond_128_bits_is_refused() {
        let values = decimals(vec![i128::MAX / 2, i128::MAX / 2, 2]);
        let answer = Answer::Decimal { digits: 38, scale: 10 };
        let bound = Bound(None);
        let mut total = Total { answer, bound, sum: 0, count: 0 };
        assert!(total.update_batch(std::slice::from_ref(&values)).is_err());
    }
}
