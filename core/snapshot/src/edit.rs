//! Making an image: from nothing, or from another one in which some rows are read anew.
//!
//! Rows that are dead have no value: they are NULL in the array, also in a column without NULLs,
//! and are taken out before it is seen.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use storage::{GROUP_ROWS, Gathered};
use types::numeric::{self, Numeric};
use types::{Error, Result, SqlState};

use crate::dirty::RowSet;
use crate::kind::{EPOCH_DAYS, EPOCH_US, Kind, units};
use crate::strings::Views;

/// A column of a group while its image is made.
pub(crate) struct ColumnEditor {
    kind: Kind,
    valid: RowSet,
    values: Values,
}

enum Values {
    Bool(Box<RowSet>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f64>),
    Decimal(Vec<i128>),
    Uuid(Vec<u128>),
    Views(Views),
}

impl ColumnEditor {
    /// All rows dead.
    pub(crate) fn empty(kind: Kind) -> ColumnEditor {
        let values = match kind {
            Kind::Bool => Values::Bool(Box::new(RowSet::EMPTY)),
            Kind::Int16 => Values::Int16(vec![0; GROUP_ROWS]),
            Kind::Int32 | Kind::Date => Values::Int32(vec![0; GROUP_ROWS]),
            Kind::Int64 | Kind::Time | Kind::Timestamp { .. } => Values::Int64(vec![0; GROUP_ROWS]),
            Kind::Float => Values::Float(vec![0.0; GROUP_ROWS]),
            Kind::Decimal { .. } => Values::Decimal(vec![0; GROUP_ROWS]),
            Kind::Uuid | Kind::Words => Values::Uuid(vec![0; GROUP_ROWS]),
            Kind::Text | Kind::NumericText | Kind::Bytes => Values::Views(Views::empty(kind)),
        };
        ColumnEditor { kind, valid: RowSet::EMPTY, values }
    }

    /// The rows of an image of that kind: in its own memory where no reader has it, else in a copy.
    pub(crate) fn of(kind: Kind, image: ArrayRef) -> ColumnEditor {
        let data = image.to_data();
        drop(image);
        let (_, rows, nulls, offset, buffers, _) = data.into_parts();
        let valid = nulls.map_or(RowSet::ALL, |nulls| RowSet::of_buffer(nulls.inner()));
        let mut buffers = buffers.into_iter();
        let first = buffers.next().unwrap_or_default();
        let values = match kind {
            Kind::Bool => {
                let bits = RowSet::of_buffer(&BooleanBuffer::new(first, offset, rows));
                Values::Bool(Box::new(bits))
            }
            Kind::Int16 => Values::Int16(owned(first)),
            Kind::Int32 | Kind::Date => Values::Int32(owned(first)),
            Kind::Int64 | Kind::Time | Kind::Timestamp { .. } => Values::Int64(owned(first)),
            Kind::Float => Values::Float(owned(first)),
            Kind::Decimal { .. } => Values::Decimal(owned(first)),
            Kind::Uuid | Kind::Words => Values::Uuid(owned(first)),
            Kind::Text | Kind::NumericText | Kind::Bytes => {
                Values::Views(Views::of(kind, owned(first), buffers.collect()))
            }
        };
        ColumnEditor { kind, valid, values }
    }

    pub(crate) fn put_dead(&mut self, row: usize) {
        self.valid.put(row, false);
    }

    pub(crate) fn put(&mut self, row: usize, value: &Gathered<'_>) -> Result<()> {
        let was_valid = self.valid.contains(row);
        self.valid.put(row, !value.is_null());
        if value.is_null() {
            return Ok(());
        }
        let word = || value.word() as i64;
        match (&mut self.values, self.kind) {
            (Values::Bool(bits), _) => bits.put(row, value.word() != 0),
            (Values::Int16(values), _) => values[row] = word() as i16,
            (Values::Int32(values), Kind::Date) => {
                let days = (word() as i32).checked_add(EPOCH_DAYS);
                values[row] = days.ok_or_else(too_late)?;
            }
            (Values::Int32(values), _) => values[row] = word() as i32,
            (Values::Int64(values), Kind::Timestamp { .. }) => {
                values[row] = word().checked_add(EPOCH_US).ok_or_else(too_late)?;
            }
            (Values::Int64(values), _) => values[row] = word(),
            (Values::Float(values), _) => values[row] = f64::from_bits(value.word()),
            (Values::Decimal(values), Kind::Decimal { scale, .. }) => {
                values[row] = units(&number(value), scale)?;
            }
            (Values::Decimal(_), _) => {}
            (Values::Uuid(values), _) => values[row] = value.pair(),
            (Values::Views(views), Kind::NumericText) => {
                views.put(row, number(value).to_string().as_bytes(), was_valid)?;
            }
            (Values::Views(views), _) => {
                value.with_bytes(|bytes| views.put(row, bytes, was_valid))?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> ArrayRef {
        let nulls = (self.valid != RowSet::ALL).then(|| NullBuffer::new(self.valid.to_buffer()));
        match self.values {
            Values::Bool(bits) => Arc::new(BooleanArray::new(bits.to_buffer(), nulls)),
            Values::Int16(values) => Arc::new(primitive::<Int16Type>(values, nulls)),
            Values::Int32(values) if self.kind == Kind::Date => {
                Arc::new(primitive::<Date32Type>(values, nulls))
            }
            Values::Int32(values) => Arc::new(primitive::<Int32Type>(values, nulls)),
            Values::Int64(values) if self.kind == Kind::Int64 => {
                Arc::new(primitive::<Int64Type>(values, nulls))
            }
            Values::Int64(values) if self.kind == Kind::Time => {
                Arc::new(primitive::<Time64MicrosecondType>(values, nulls))
            }
            Values::Int64(values) => {
                let array = primitive::<TimestampMicrosecondType>(values, nulls);
                Arc::new(array.with_data_type(self.kind.arrow()))
            }
            Values::Float(values) => Arc::new(primitive::<Float64Type>(values, nulls)),
            Values::Decimal(values) => {
                let array = primitive::<Decimal128Type>(values, nulls);
                Arc::new(array.with_data_type(self.kind.arrow()))
            }
            Values::Uuid(values) => {
                Arc::new(FixedSizeBinaryArray::new(16, Buffer::from_vec(values), nulls))
            }
            Values::Views(views) => views.finish(&self.valid, nulls),
        }
    }
}

fn number(value: &Gathered<'_>) -> Numeric {
    value.with_bytes(numeric::from_bytes)
}

/// What a buffer holds, without a copy if it has no other holder.
fn owned<T: ArrowNativeType>(buffer: Buffer) -> Vec<T> {
    buffer.into_vec().unwrap_or_else(|shared| shared.typed_data().to_vec())
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> PrimitiveArray<T>
where
    T::Native: ArrowNativeType,
{
    PrimitiveArray::new(ScalarBuffer::from(values), nulls)
}

#[cold]
fn too_late() -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for an analytical query")
}
