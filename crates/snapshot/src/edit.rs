//! Making an image: from nothing, or from another one in which some rows are read anew.
//!
//! Rows that are dead have no value: they are NULL in the array, also in a column without NULLs,
//! and are taken out before anybody sees it.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray,
    StringViewArray,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use rust_decimal::Decimal;
use storage::{GROUP_ROWS, Gathered};
use types::{Error, Result, SqlState};

use crate::dirty::RowSet;
use crate::kind::{EPOCH_DAYS, EPOCH_US, Kind, units};

/// Buffers of long strings that an image may have; with more their live strings go into one.
const BUFFERS_MAX: usize = 8;

/// Bytes of long strings that no row has any more, beyond as many as rows have.
const DEAD_BYTES_MAX: usize = 16 << 10;

/// A buffer of so many is not added to.
const TAIL_BYTES_MAX: usize = 64 << 20;

/// Where a string may lie in its buffer, as Arrow says.
const OFFSET_MAX: usize = i32::MAX as usize;

/// Longest string that a view holds itself.
const INLINE_BYTES: usize = 12;

/// A column of a group while its image is made.
pub(crate) struct ColumnEditor {
    kind: Kind,
    valid: RowSet,
    values: Values,
}

enum Values {
    Bool(RowSet),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f64>),
    Decimal(Vec<i128>),
    Uuid(Vec<u128>),
    Views(Views),
}

/// Strings as Arrow's views: inline up to twelve bytes, else length, prefix, buffer and offset.
struct Views {
    views: Vec<u128>,
    /// Of the image that this one follows, which others may have, too.
    buffers: Vec<Buffer>,
    /// The last buffer: the long strings that are new in this one, behind older ones where nobody
    /// else has them.
    tail: Vec<u8>,
    /// Bytes of the tail that are older.
    tail_was: usize,
}

impl ColumnEditor {
    /// All rows dead.
    pub(crate) fn empty(kind: Kind) -> ColumnEditor {
        let values = match kind {
            Kind::Bool => Values::Bool(RowSet::EMPTY),
            Kind::Int16 => Values::Int16(vec![0; GROUP_ROWS]),
            Kind::Int32 | Kind::Date => Values::Int32(vec![0; GROUP_ROWS]),
            Kind::Int64 | Kind::Timestamp { .. } => Values::Int64(vec![0; GROUP_ROWS]),
            Kind::Float => Values::Float(vec![0.0; GROUP_ROWS]),
            Kind::Decimal { .. } => Values::Decimal(vec![0; GROUP_ROWS]),
            Kind::Uuid => Values::Uuid(vec![0; GROUP_ROWS]),
            Kind::Text | Kind::NumericText | Kind::Bytes => Values::Views(Views {
                views: vec![0; GROUP_ROWS],
                buffers: Vec::new(),
                tail: Vec::new(),
                tail_was: 0,
            }),
        };
        ColumnEditor { kind, valid: RowSet::EMPTY, values }
    }

    /// The rows of an image of that kind: in its own memory where nobody else has it, else in a
    /// copy.
    pub(crate) fn of(kind: Kind, image: ArrayRef) -> ColumnEditor {
        let data = image.to_data();
        drop(image);
        let (_, rows, nulls, offset, buffers, _) = data.into_parts();
        let valid = nulls.map_or(RowSet::ALL, |nulls| RowSet::of_buffer(nulls.inner()));
        let mut buffers = buffers.into_iter();
        let first = buffers.next().unwrap_or_default();
        let values = match kind {
            Kind::Bool => Values::Bool(RowSet::of_buffer(&BooleanBuffer::new(first, offset, rows))),
            Kind::Int16 => Values::Int16(owned(first)),
            Kind::Int32 | Kind::Date => Values::Int32(owned(first)),
            Kind::Int64 | Kind::Timestamp { .. } => Values::Int64(owned(first)),
            Kind::Float => Values::Float(owned(first)),
            Kind::Decimal { .. } => Values::Decimal(owned(first)),
            Kind::Uuid => Values::Uuid(owned(first)),
            Kind::Text | Kind::NumericText | Kind::Bytes => {
                Values::Views(Views::of(owned(first), buffers.collect()))
            }
        };
        ColumnEditor { kind, valid, values }
    }

    pub(crate) fn put_dead(&mut self, row: usize) {
        self.valid.put(row, false);
    }

    pub(crate) fn put(&mut self, row: usize, value: &Gathered<'_>) -> Result<()> {
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
                values[row] = units(number(value), scale)?;
            }
            (Values::Decimal(_), _) => {}
            (Values::Uuid(values), _) => values[row] = value.pair(),
            (Values::Views(views), Kind::NumericText) => {
                views.put(row, number(value).to_string().as_bytes())?;
            }
            (Values::Views(views), _) => value.with_bytes(|bytes| views.put(row, bytes))?,
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
            Values::Views(views) => views.finish(self.kind, &self.valid, nulls),
        }
    }
}

fn number(value: &Gathered<'_>) -> Decimal {
    Decimal::deserialize(value.pair().to_le_bytes())
}

/// What a buffer holds, without a copy if nobody else has it.
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

impl Views {
    fn of(views: Vec<u128>, mut buffers: Vec<Buffer>) -> Views {
        let mut tail = match buffers.pop().map(Buffer::into_vec) {
            Some(Ok(own)) => own,
            Some(Err(shared)) => {
                buffers.push(shared);
                Vec::new()
            }
            None => Vec::new(),
        };
        if tail.len() > TAIL_BYTES_MAX {
            buffers.push(Buffer::from_vec(std::mem::take(&mut tail)));
        }
        let tail_was = tail.len();
        Views { views, buffers, tail, tail_was }
    }

    fn put(&mut self, row: usize, bytes: &[u8]) -> Result<()> {
        let mut view = [0u8; 16];
        view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        if bytes.len() <= INLINE_BYTES {
            view[4..4 + bytes.len()].copy_from_slice(bytes);
        } else {
            let offset = i32::try_from(self.tail.len()).ok();
            let end = self.tail.len().checked_add(bytes.len());
            let (Some(offset), Some(_)) = (offset, end.filter(|&end| end <= OFFSET_MAX)) else {
                let message = "2,048 neighbouring values are larger than 2 GiB";
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            };
            view[4..8].copy_from_slice(&bytes[..4]);
            view[8..12].copy_from_slice(&(self.buffers.len() as u32).to_le_bytes());
            view[12..].copy_from_slice(&offset.to_le_bytes());
            self.tail.extend_from_slice(bytes);
        }
        self.views[row] = u128::from_le_bytes(view);
        Ok(())
    }

    fn finish(mut self, kind: Kind, valid: &RowSet, nulls: Option<NullBuffer>) -> ArrayRef {
        if self.tail.len() > self.tail_was && self.is_wasteful(valid) {
            self.compact(valid);
        }
        if !self.tail.is_empty() {
            if self.tail_was == 0 {
                self.tail.shrink_to_fit();
            }
            self.buffers.push(Buffer::from_vec(self.tail));
        }
        let views = ScalarBuffer::from(self.views);
        match kind {
            Kind::Bytes => Arc::new(BinaryViewArray::new(views, self.buffers, nulls)),
            _ => Arc::new(StringViewArray::new(views, self.buffers, nulls)),
        }
    }

    fn is_wasteful(&self, valid: &RowSet) -> bool {
        let all = self.buffers.iter().map(Buffer::len).sum::<usize>() + self.tail.len();
        if self.buffers.len() < BUFFERS_MAX && all <= DEAD_BYTES_MAX {
            return false;
        }
        let long = valid.iter().filter_map(|row| long(self.views[row]));
        let live: usize = long.map(|long| long.bytes).sum();
        let is_wasteful = self.buffers.len() >= BUFFERS_MAX || all > 2 * live + DEAD_BYTES_MAX;
        is_wasteful && live <= OFFSET_MAX
    }

    /// Puts the long strings that rows have into one buffer, and the others away.
    fn compact(&mut self, valid: &RowSet) {
        let (buffers, tail) = (std::mem::take(&mut self.buffers), std::mem::take(&mut self.tail));
        self.tail_was = 0;
        for row in 0..GROUP_ROWS {
            let Some(Long { bytes, buffer, offset }) = long(self.views[row]) else { continue };
            if !valid.contains(row) {
                self.views[row] = 0;
                continue;
            }
            let from: &[u8] = buffers.get(buffer).map_or(&tail, |buffer| buffer.as_slice());
            let offset_now = self.tail.len() as u128;
            self.tail.extend_from_slice(&from[offset..offset + bytes]);
            self.views[row] = self.views[row] & u128::from(u64::MAX) | offset_now << 96;
        }
    }
}

/// Where a string lies that a view does not hold itself.
struct Long {
    bytes: usize,
    buffer: usize,
    offset: usize,
}

fn long(view: u128) -> Option<Long> {
    let part = |bit: u32| (view >> bit) as u32 as usize;
    let bytes = part(0);
    (bytes > INLINE_BYTES).then(|| Long { bytes, buffer: part(64), offset: part(96) })
}
