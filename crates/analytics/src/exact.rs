//! `sum` and `avg` of whole and decimal numbers, as PostgreSQL has them.
//!
//! | | smallint, integer | bigint | numeric |
//! |---|---|---|---|
//! | sum | bigint | numeric | numeric, of the same scale |
//! | avg | numeric | numeric | numeric |
//!
//! All are a sum in 128 bits, beyond which is 22003, and a count. An average has [`QUOTIENT_SCALE`]
//! digits after the point, rounded; what a client sees of them is PostgreSQL's choice
//! ([`rows`](crate::rows)). Sums of float8 and intervals are DataFusion's own.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, PrimitiveArray,
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
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use types::{Error, SqlState};

use crate::arithmetic::rounded;
use crate::faults::raise;
use crate::sql_types::{QUOTIENT_SCALE, quotient_field};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Function {
    Sum,
    Avg,
}

/// `sum` or `avg`.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct Exact {
    function: Function,
    signature: Signature,
    sum: Sum,
    avg: Avg,
}

/// What becomes of a sum and a count.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Int,
    Decimal {
        scale: i8,
    },
    /// Of a sum of this scale.
    Average {
        scale: i8,
    },
}

impl Exact {
    pub(crate) fn new(function: Function) -> Exact {
        let signature = Signature::user_defined(Volatility::Immutable);
        Exact { function, signature, sum: Sum::new(), avg: Avg::new() }
    }

    fn others(&self) -> &dyn AggregateUDFImpl {
        match self.function {
            Function::Sum => &self.sum,
            Function::Avg => &self.avg,
        }
    }

    /// `None`: DataFusion's own does it.
    fn answer(&self, input: &ArrowType) -> Option<Answer> {
        match (self.function, input) {
            (Function::Sum, ArrowType::Int16 | ArrowType::Int32) => Some(Answer::Int),
            (Function::Sum, ArrowType::Int64) => Some(Answer::Decimal { scale: 0 }),
            (Function::Sum, ArrowType::Decimal128(_, scale)) => {
                Some(Answer::Decimal { scale: *scale })
            }
            (Function::Avg, ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64) => {
                Some(Answer::Average { scale: 0 })
            }
            (Function::Avg, ArrowType::Decimal128(_, scale)) => {
                Some(Answer::Average { scale: *scale })
            }
            _ => None,
        }
    }
}

impl Answer {
    fn arrow(self) -> ArrowType {
        match self {
            Answer::Int => ArrowType::Int64,
            Answer::Decimal { scale } => ArrowType::Decimal128(38, scale),
            Answer::Average { .. } => ArrowType::Decimal128(38, QUOTIENT_SCALE),
        }
    }

    /// The value's units; NULL of nothing.
    fn of(self, sum: i128, count: i64) -> Result<Option<i128>> {
        if count == 0 {
            return Ok(None);
        }
        let Answer::Average { scale } = self else { return Ok(Some(sum)) };
        let overflow = || numeric_overflow("The average has too many digits.");
        let count = i128::from(count);
        let power = u32::from(QUOTIENT_SCALE.abs_diff(scale));
        let factor = 10i128.checked_pow(power).ok_or_else(overflow)?;
        if scale > QUOTIENT_SCALE {
            let divisor = count.checked_mul(factor).ok_or_else(overflow)?;
            return Ok(Some(rounded(sum, divisor)));
        }
        // In two parts, since the whole may be too long before it is divided.
        let (whole, rest) = (sum / count, sum % count);
        let whole = whole.checked_mul(factor).ok_or_else(overflow)?;
        let rest = rest.checked_mul(factor).ok_or_else(overflow)?;
        whole.checked_add(rounded(rest, count)).map(Some).ok_or_else(overflow)
    }

    fn array(self, totals: impl Iterator<Item = (i128, i64)>) -> Result<ArrayRef> {
        let units = totals.map(|(sum, count)| self.of(sum, count));
        let units = units.collect::<Result<Vec<Option<i128>>>>()?;
        Ok(match self {
            Answer::Int => {
                let ints = units.into_iter().map(|units| match units {
                    None => Ok(None),
                    Some(units) => i64::try_from(units).map(Some).map_err(|_| bigint_overflow()),
                });
                Arc::new(ints.collect::<Result<Int64Array>>()?)
            }
            _ => Arc::new(Decimal128Array::from(units).with_data_type(self.arrow())),
        })
    }

    fn scalar(self, sum: i128, count: i64) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.array(std::iter::once((sum, count)))?, 0)
    }
}

fn numeric_overflow(detail: &str) -> DataFusionError {
    let error = Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow");
    raise(error.with_detail(detail))
}

fn plus(sum: i128, units: i128) -> Result<i128> {
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

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<ArrowType> = fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        Ok(Arc::new(match types.first().and_then(|input| self.answer(input)) {
            Some(Answer::Average { .. }) => quotient_field(field),
            _ => field,
        }))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match self.answer(args.expr_fields[0].data_type()) {
            None => self.others().accumulator(args),
            Some(answer) if args.is_distinct => {
                Ok(Box::new(Distinct { answer, values: BTreeSet::new() }))
            }
            Some(answer) => Ok(Box::new(Total { answer, sum: 0, count: 0 })),
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
        if self.answer(args.input_fields[0].data_type()).is_none() {
            return self.others().state_fields(args);
        }
        let sum = |name: &str| Field::new(name, ArrowType::Decimal128(38, 0), true);
        Ok(match args.is_distinct {
            true => {
                let item = Arc::new(sum("item"));
                vec![Arc::new(Field::new("values", ArrowType::List(item), true))]
            }
            false => {
                vec![Arc::new(sum("sum")), Arc::new(Field::new("count", ArrowType::Int64, true))]
            }
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
            Some(answer) => Ok(Box::new(Totals { answer, totals: Vec::new() })),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Calls with the place and the units of each value that is there.
fn each(array: &ArrayRef, visit: &mut impl FnMut(usize, i128) -> Result<()>) -> Result<()> {
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

/// The sum and the count of all that came.
#[derive(Debug)]
struct Total {
    answer: Answer,
    sum: i128,
    count: i64,
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(&values[0], &mut |_, units| {
            self.sum = plus(self.sum, units)?;
            self.count += 1;
            Ok(())
        })
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
        self.answer.scalar(self.sum, self.count)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = ScalarValue::Decimal128(Some(self.sum), 38, 0);
        Ok(vec![sum, ScalarValue::Int64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        each(&states[0], &mut |_, sum| {
            self.sum = plus(self.sum, sum)?;
            Ok(())
        })?;
        each(&states[1], &mut |_, count| {
            self.count += count as i64;
            Ok(())
        })
    }
}

/// Each value once.
#[derive(Debug)]
struct Distinct {
    answer: Answer,
    values: BTreeSet<i128>,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(&values[0], &mut |_, units| {
            self.values.insert(units);
            Ok(())
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.values.iter().try_fold(0, |sum, units| plus(sum, *units))?;
        self.answer.scalar(sum, self.values.len() as i64)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.len() * 2 * size_of::<i128>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let units = self.values.iter().map(|&units| ScalarValue::Decimal128(Some(units), 38, 0));
        let units: Vec<ScalarValue> = units.collect();
        let list = ScalarValue::new_list(&units, &ArrowType::Decimal128(38, 0), true);
        Ok(vec![ScalarValue::List(list)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }
}

/// Sum and count of each group.
struct Totals {
    answer: Answer,
    totals: Vec<(i128, i64)>,
}

impl Totals {
    fn take(&mut self, emit: EmitTo) -> Vec<(i128, i64)> {
        emit.take_needed(&mut self.totals)
    }
}

fn state_of(totals: impl Iterator<Item = (i128, i64)>) -> Vec<ArrayRef> {
    let (sums, counts): (Vec<i128>, Vec<i64>) = totals.unzip();
    let sums = Decimal128Array::from(sums).with_data_type(ArrowType::Decimal128(38, 0));
    vec![Arc::new(sums), Arc::new(Int64Array::from(counts))]
}

impl GroupsAccumulator for Totals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.totals.resize(count, (0, 0));
        let totals = &mut self.totals;
        let mut add = |place: usize, units| {
            let total = &mut totals[groups[place]];
            *total = (plus(total.0, units)?, total.1 + 1);
            Ok(())
        };
        match filter {
            None => each(&values[0], &mut add),
            Some(filter) => each(&values[0], &mut |place, units| match filter.is_valid(place)
                && filter.value(place)
            {
                true => add(place, units),
                false => Ok(()),
            }),
        }
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let totals = self.take(emit);
        self.answer.array(totals.into_iter())
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(state_of(self.take(emit).into_iter()))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.totals.resize(count, (0, 0));
        let totals = &mut self.totals;
        each(&states[0], &mut |place, sum| {
            let total = &mut totals[groups[place]].0;
            *total = plus(*total, sum)?;
            Ok(())
        })?;
        each(&states[1], &mut |place, count| {
            totals[groups[place]].1 += count as i64;
            Ok(())
        })
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let mut totals = vec![(0, 0); values[0].len()];
        each(&values[0], &mut |place, units| {
            if filter.is_none_or(|filter| filter.is_valid(place) && filter.value(place)) {
                totals[place] = (units, 1);
            }
            Ok(())
        })?;
        Ok(state_of(totals.into_iter()))
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<(i128, i64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_has_its_value_whatever_scale_its_sum_has() {
        for scale in [0, 2, 20, 21, 28] {
            let sum = 3 * 10i128.pow(scale as u32);
            let average = Answer::Average { scale }.of(sum, 2).expect("an average");
            assert_eq!(average, Some(15 * 10i128.pow(19)), "{scale}");
        }
    }

    #[test]
    fn a_sum_beyond_128_bits_is_refused() {
        let values: ArrayRef = Arc::new(
            Decimal128Array::from(vec![i128::MAX / 2, i128::MAX / 2, 2])
                .with_data_type(ArrowType::Decimal128(38, 10)),
        );
        let answer = Answer::Decimal { scale: 10 };
        let mut total = Total { answer, sum: 0, count: 0 };
        assert!(total.update_batch(std::slice::from_ref(&values)).is_err());
        let mut totals = Totals { answer, totals: Vec::new() };
        assert!(totals.update_batch(std::slice::from_ref(&values), &[0, 0, 0], None, 1).is_err());
        assert!(totals.update_batch(&[values], &[0, 1, 0], None, 2).is_err());
    }
}
