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
        Zone::over(array, 0..array.len())
    }

    /// Of some rows of an array.
    pub(crate) fn over(array: &ArrayRef, rows: impl Iterator<Item = usize> + Clone) -> Zone {
        match array.data_type() {
            ArrowType::Int16 => of_ints::<Int16Type>(array, rows),
            ArrowType::Int32 => of_ints::<Int32Type>(array, rows),
            ArrowType::Int64 => of_ints::<Int64Type>(array, rows),
            ArrowType::Date32 => of_ints::<Date32Type>(array, rows),
            ArrowType::Timestamp(..) => of_ints::<TimestampMicrosecondType>(array, rows),
            ArrowType::Decimal128(..) => range(array.as_primitive::<Decimal128Type>(), rows)
                .map_or(Zone::Empty, |(low, high)| Zone::Decimal(low, high)),
            ArrowType::Float64 => {
                let floats = array.as_primitive::<Float64Type>();
                let is_nan = |row| floats.is_valid(row) && floats.value(row).is_nan();
                if rows.clone().any(is_nan) {
                    return Zone::Unknown;
                }
                range(floats, rows).map_or(Zone::Empty, |(low, high)| Zone::Float(low, high))
            }
            _ => Zone::Unknown,
        }
    }

    /// What holds the values of both.
    #[must_use]
    pub fn or(self, other: Zone) -> Zone {
        match (self, other) {
            (Zone::Empty, zone) | (zone, Zone::Empty) => zone,
            (Zone::Int(a, b), Zone::Int(c, d)) => Zone::Int(a.min(c), b.max(d)),
            (Zone::Decimal(a, b), Zone::Decimal(c, d)) => Zone::Decimal(a.min(c), b.max(d)),
            (Zone::Float(a, b), Zone::Float(c, d)) => Zone::Float(a.min(c), b.max(d)),
            _ => Zone::Unknown,
        }
    }
}

fn of_ints<T>(array: &ArrayRef, rows: impl Iterator<Item = usize> + Clone) -> Zone
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64>,
{
    let found = range(array.as_primitive::<T>(), rows);
    found.map_or(Zone::Empty, |(low, high)| Zone::Int(low.into(), high.into()))
}

fn range<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    rows: impl Iterator<Item = usize> + Clone,
) -> Option<(T::Native, T::Native)>
where
    T::Native: PartialOrd,
{
    let values = array.values();
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let there = |row: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*row));
    rows.filter(there).map(|row| values[row]).fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => {
            let low = if value < low { value } else { low };
            Some((low, if value > high { value } else { high }))
        }
    })
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

    #[test]
    fn a_zone_over_some_rows_widens_another() {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![Some(3), None, Some(-7), Some(5)]));
        assert_eq!(Zone::over(&array, [0, 1, 3].into_iter()), Zone::Int(3, 5));
        assert_eq!(Zone::over(&array, [1].into_iter()), Zone::Empty);
        assert_eq!(Zone::Int(3, 5).or(Zone::Int(-1, 4)), Zone::Int(-1, 5));
        assert_eq!(Zone::Int(3, 5).or(Zone::Empty), Zone::Int(3, 5));
        assert_eq!(Zone::Unknown.or(Zone::Int(3, 5)), Zone::Unknown);
    }
}
