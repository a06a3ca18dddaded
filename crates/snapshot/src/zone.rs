//! Zone maps: between which values a group's column lies.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::DataType as ArrowType;

/// The lowest and the highest value, in the units of the column's Arrow type. Dead rows and NULLs
/// have no say, nor has a NaN, which no comparison finds in a range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Zone {
    /// Nothing is known.
    Unknown,
    /// There is no value but NULL.
    Empty,
    Int(i64, i64),
    Decimal(i128, i128),
    Float(f64, f64),
}

impl Zone {
    pub(crate) fn of(array: &ArrayRef) -> Zone {
        match array.data_type() {
            ArrowType::Int16 => of_ints::<Int16Type>(array),
            ArrowType::Int32 => of_ints::<Int32Type>(array),
            ArrowType::Int64 => of_ints::<Int64Type>(array),
            ArrowType::Date32 => of_ints::<Date32Type>(array),
            ArrowType::Timestamp(..) => of_ints::<TimestampMicrosecondType>(array),
            ArrowType::Decimal128(..) => {
                range(array.as_primitive::<Decimal128Type>(), |a, b| a < b)
                    .map_or(Zone::Empty, |(low, high)| Zone::Decimal(low, high))
            }
            ArrowType::Float64 => {
                let floats = array.as_primitive::<Float64Type>();
                if floats.iter().flatten().any(f64::is_nan) {
                    return Zone::Unknown;
                }
                range(floats, |a, b| a < b)
                    .map_or(Zone::Empty, |(low, high)| Zone::Float(low, high))
            }
            _ => Zone::Unknown,
        }
    }
}

fn of_ints<T>(array: &ArrayRef) -> Zone
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64>,
{
    let found = range(array.as_primitive::<T>(), |a, b| a < b);
    found.map_or(Zone::Empty, |(low, high)| Zone::Int(low.into(), high.into()))
}

fn range<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    less: impl Fn(&T::Native, &T::Native) -> bool,
) -> Option<(T::Native, T::Native)> {
    let lower = |a, b| if less(&b, &a) { b } else { a };
    let higher = |a, b| if less(&a, &b) { b } else { a };
    if array.null_count() == 0 {
        let values = array.values().iter().copied();
        return Some((values.clone().reduce(lower)?, values.reduce(higher)?));
    }
    let values = array.iter().flatten();
    Some((values.clone().reduce(lower)?, values.reduce(higher)?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int32Array, StringViewArray};

    use super::*;

    #[test]
    fn a_zone_holds_every_value_that_is_not_null() {
        let zone = |array: ArrayRef| Zone::of(&array);
        let ints = Int32Array::from(vec![Some(3), None, Some(-7), Some(5)]);
        assert_eq!(zone(Arc::new(ints)), Zone::Int(-7, 5));
        assert_eq!(zone(Arc::new(Int32Array::from(vec![None, None]))), Zone::Empty);
        assert_eq!(zone(Arc::new(Float64Array::from(vec![1.5, -0.5]))), Zone::Float(-0.5, 1.5));
        assert_eq!(zone(Arc::new(Float64Array::from(vec![1.5, f64::NAN]))), Zone::Unknown);
        assert_eq!(zone(Arc::new(StringViewArray::from(vec!["a"]))), Zone::Unknown);
    }
}
