//! How a row lies in the words of a version, and the long strings beside it.
//!
//! ```text
//! N words        null bitmap, bit c % 64 of word c / 64 set = column c is NULL
//! 1 or 2 words   each column in its order
//!
//! one word       boolean, integers, double, date, timestamps
//! two words      numeric and uuid (16 bytes);  text and bytea:
//!                [ bytes 0..4 | length: 32 ] [ bytes 4..12, or the piece where a longer one lies ]
//! ```
//!
//! **Non-inline attributes** (section 5.4.1): a string of more than 12 bytes lies in a piece of its
//! own, whose first word counts the versions that share it; the last to go frees it. With sharing
//! off every version has a copy of its own, which is what figure 5.11 compares.

use std::sync::Arc;

use kit::sync::atomic::{AtomicU64, Ordering};
use smallvec::SmallVec;
use types::codec::{decode_value, encode_value};
use types::{ColumnId, DataType, Interval, Jsonb, TableSchema, Value, ZonedTime, numeric};

use crate::pool::{Classes, Full, Piece};

const INLINE_BYTES: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Bool,
    Int,
    Float,
    Numeric,
    Text,
    Bytes,
    Uuid,
    Date,
    Timestamp,
    Timestamptz,
    Jsonb,
    Interval,
    Time,
    Timetz,
    Array,
}

impl Kind {
    fn of(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Bool => Kind::Bool,
            DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Enum(_) => Kind::Int,
            DataType::Array(_) => Kind::Array,
            DataType::Numeric(_) => Kind::Numeric,
            DataType::Float4 | DataType::Float8 => Kind::Float,
            DataType::Bytea | DataType::Inet | DataType::Cidr => Kind::Bytes,
            DataType::Uuid => Kind::Uuid,
            DataType::Date => Kind::Date,
            DataType::Timestamp(_) => Kind::Timestamp,
            DataType::Timestamptz(_) => Kind::Timestamptz,
            DataType::Jsonb => Kind::Jsonb,
            DataType::Interval(_) => Kind::Interval,
            DataType::Time(_) => Kind::Time,
            DataType::Timetz(_) => Kind::Timetz,
            _ => Kind::Text,
        }
    }

    fn words(self) -> usize {
        match self {
            Kind::Numeric | Kind::Text | Kind::Bytes | Kind::Uuid | Kind::Jsonb | Kind::Array => 2,
            Kind::Interval | Kind::Timetz => 2,
            _ => 1,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Column {
    kind: Kind,
    offset: usize,
    null_word: usize,
    null_bit: u64,
}

/// A column's words, out of their row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    pub null: bool,
    pub words: [u64; 2],
}

/// The set bits of a word.
struct Bits(u64);

impl Iterator for Bits {
    type Item = ColumnId;

    #[inline]
    fn next(&mut self) -> Option<ColumnId> {
        let bit = (self.0 != 0).then(|| self.0.trailing_zeros() as ColumnId)?;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

/// Columns of a row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ColumnSet(SmallVec<[u64; 2]>);

impl ColumnSet {
    pub fn insert(&mut self, column: ColumnId) {
        let word = usize::from(column) / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (column % 64);
    }

    pub fn contains(&self, column: ColumnId) -> bool {
        self.0.get(usize::from(column) / 64).is_some_and(|word| word >> (column % 64) & 1 == 1)
    }

    /// The first 64 columns, by their bits.
    pub(crate) fn from_bits(bits: u64) -> ColumnSet {
        ColumnSet(smallvec::smallvec![bits])
    }

    /// Bit n: column n. `None`: there is one that has no bit.
    pub(crate) fn bits(&self) -> Option<u64> {
        match self.0[..] {
            [] => Some(0),
            [bits] => Some(bits),
            _ => None,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = ColumnId> + '_ {
        (0..).zip(&self.0).flat_map(|(word, &bits)| Bits(bits).map(move |bit| word * 64 + bit))
    }
}

/// Whether a string, of which this is the first word, lies in its row; so do NULLs, which are zero.
fn is_inline(low: u64) -> bool {
    low as u32 as usize <= INLINE_BYTES
}

/// The long strings of a table.
pub struct Strings {
    pieces: Classes,
    pub shared: bool,
}

impl Strings {
    pub fn new(spaces: usize, shared: bool) -> Strings {
        Strings { pieces: Classes::new(spaces), shared }
    }

    pub fn store(&self, bytes: &[u8], worker: usize) -> Result<[u64; 2], Full> {
        let prefix = |n: usize| {
            let mut four = [0; 4];
            four[..n.min(4)].copy_from_slice(&bytes[..n.min(4)]);
            u64::from(u32::from_le_bytes(four))
        };
        let low = prefix(bytes.len()) << 32 | bytes.len() as u64;
        if bytes.len() <= INLINE_BYTES {
            let mut rest = [0; 8];
            if let Some(tail) = bytes.get(4..) {
                rest[..tail.len()].copy_from_slice(tail);
            }
            return Ok([low, u64::from_le_bytes(rest)]);
        }
        let piece = self.pieces.take(1 + bytes.len().div_ceil(8), worker)?;
        let words = self.pieces.words(piece);
        words[0].store(1, Ordering::Relaxed);
        for (word, chunk) in words[1..].iter().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
        Ok([low, piece.0])
    }

    #[inline]
    pub fn with_bytes<R>(&self, [low, high]: [u64; 2], with: impl FnOnce(&[u8]) -> R) -> R {
        let length = low as u32 as usize;
        if length <= INLINE_BYTES {
            let mut image = [0; INLINE_BYTES];
            image[..4].copy_from_slice(&((low >> 32) as u32).to_le_bytes());
            image[4..].copy_from_slice(&high.to_le_bytes());
            return with(&image[..length]);
        }
        let words = self.pieces.words(Piece(high));
        let mut bytes: SmallVec<[u8; 256]> = SmallVec::with_capacity(length + 8);
        for word in words.iter().skip(1).take(length.div_ceil(8)) {
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes.truncate(length);
        with(&bytes)
    }

    /// One more version has the string, which does not lie in its row.
    fn share(&self, words: &mut [u64; 2], worker: usize) -> Result<(), Full> {
        if self.shared {
            self.pieces.words(Piece(words[1]))[0].fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        *words = self.with_bytes(*words, |bytes| self.store(bytes, worker))?;
        Ok(())
    }

    pub fn release(&self, words: [u64; 2]) {
        if !is_inline(words[0]) {
            let piece = Piece(words[1]);
            if self.pieces.words(piece)[0].fetch_sub(1, Ordering::AcqRel) == 1 {
                self.pieces.give(piece);
            }
        }
    }

    pub fn is_crowded(&self) -> bool {
        self.pieces.is_crowded()
    }

    pub fn units_in_use(&self) -> usize {
        self.pieces.units_in_use()
    }

    pub fn bytes(&self) -> usize {
        self.pieces.bytes()
    }
}

/// Where the columns of a table lie.
pub struct Layout {
    columns: Box<[Column]>,
    /// Those that may lie beside the row, and where their words are.
    long: Box<[(ColumnId, usize)]>,
    /// Words of a row.
    pub words: usize,
    /// That `char(n)` columns have in an image and not here.
    blanks_max: usize,
    pub strings: Strings,
}

impl Layout {
    pub fn new(schema: &TableSchema, strings: Strings) -> Layout {
        let mut offset = schema.columns.len().div_ceil(64).max(1);
        let place = |(id, data_type): (usize, &DataType)| {
            let kind = Kind::of(data_type);
            let column = Column { kind, offset, null_word: id / 64, null_bit: 1 << (id % 64) };
            offset += kind.words();
            column
        };
        let columns: Box<[Column]> = schema.column_types().enumerate().map(place).collect();
        let is_long = |c: &&Column| {
            matches!(c.kind, Kind::Text | Kind::Bytes | Kind::Numeric | Kind::Jsonb | Kind::Array)
        };
        let long = columns.iter().enumerate().filter(|(_, c)| is_long(c));
        let long = long.map(|(id, column)| (id as ColumnId, column.offset)).collect();
        let blanks_max = schema.column_types().map(|of| match of {
            DataType::Char(length) => *length as usize,
            _ => 0,
        });
        Layout { long, words: offset, blanks_max: blanks_max.sum(), columns, strings }
    }

    /// No image of a row in a ledger has more: a field is its length and, for each word here,
    /// twelve bytes at most, but for strings and what they are padded with.
    pub fn image_bytes_max(&self, load: impl Fn(usize) -> u64) -> usize {
        let strings: usize = self.long.iter().map(|&(_, at)| load(at) as u32 as usize).sum();
        // Numbers have 8 bits a byte here, and there four digits in two bytes.
        strings + strings / 4 + self.blanks_max + self.words * 16
    }

    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    #[inline]
    pub fn cell(&self, column: ColumnId, load: impl Fn(usize) -> u64) -> Cell {
        let Column { kind, offset, null_word, null_bit } = self.columns[usize::from(column)];
        let high = if kind.words() == 2 { load(offset + 1) } else { 0 };
        Cell { null: load(null_word) & null_bit != 0, words: [load(offset), high] }
    }

    #[inline]
    pub fn set(&self, column: ColumnId, cell: Cell, row: &mut [u64]) {
        let Column { kind, offset, null_word, null_bit } = self.columns[usize::from(column)];
        let nulls = &mut row[null_word];
        *nulls = if cell.null { *nulls | null_bit } else { *nulls & !null_bit };
        row[offset] = cell.words[0];
        if kind.words() == 2 {
            row[offset + 1] = cell.words[1];
        }
    }

    /// The words of a value. A long string has one version then: the caller's.
    pub fn encode(&self, column: ColumnId, value: &Value, worker: usize) -> Result<Cell, Full> {
        let pair = |bytes: [u8; 16]| {
            let both = u128::from_le_bytes(bytes);
            [both as u64, (both >> 64) as u64]
        };
        let words = match value {
            Value::Null => return Ok(Cell { null: true, words: [0; 2] }),
            Value::Array(_) => {
                let mut bytes = Vec::new();
                encode_value(value, &mut bytes);
                self.strings.store(&bytes, worker)?
            }
            Value::Bool(b) => [u64::from(*b), 0],
            Value::Int(i) | Value::Timestamp(i) | Value::Timestamptz(i) | Value::Time(i) => {
                [*i as u64, 0]
            }
            Value::Interval(interval) => interval.to_words(),
            Value::Timetz(time) => [time.us as u64, u64::from(time.west_s as u32)],
            Value::Float(f) => [f.to_bits(), 0],
            Value::Date(days) => [i64::from(*days) as u64, 0],
            Value::Numeric(d) => numeric::put_bytes(d, |bytes| self.strings.store(bytes, worker))?,
            Value::Uuid(bytes) => pair(*bytes),
            Value::Text(text) => self.strings.store(text.as_bytes(), worker)?,
            Value::Bytes(bytes) => self.strings.store(bytes, worker)?,
            Value::Jsonb(json) => self.strings.store(json.as_str().as_bytes(), worker)?,
        };
        debug_assert!(usize::from(column) < self.columns.len());
        Ok(Cell { null: false, words })
    }

    #[inline]
    pub fn decode(&self, column: ColumnId, load: impl Fn(usize) -> u64) -> Value {
        let kind = self.columns[usize::from(column)].kind;
        let Cell { null, words } = self.cell(column, load);
        if null {
            return Value::Null;
        }
        let word = words[0];
        let pair = || (u128::from(words[0]) | u128::from(words[1]) << 64).to_le_bytes();
        match kind {
            Kind::Int => Value::Int(word as i64),
            Kind::Text => self.strings.with_bytes(words, |bytes| {
                Value::text(std::str::from_utf8(bytes).unwrap_or_default())
            }),
            Kind::Bool => Value::Bool(word != 0),
            Kind::Float => Value::Float(f64::from_bits(word)),
            Kind::Numeric => Value::Numeric(self.strings.with_bytes(words, numeric::from_bytes)),
            Kind::Uuid => Value::Uuid(pair()),
            Kind::Date => Value::Date(word as i32),
            Kind::Timestamp => Value::Timestamp(word as i64),
            Kind::Timestamptz => Value::Timestamptz(word as i64),
            Kind::Interval => Value::Interval(Interval::from_words(words)),
            Kind::Time => Value::Time(word as i64),
            Kind::Timetz => Value::Timetz(ZonedTime { us: word as i64, west_s: words[1] as i32 }),
            Kind::Bytes => self.strings.with_bytes(words, |b| Value::Bytes(Arc::from(b))),
            Kind::Jsonb => self.strings.with_bytes(words, |bytes| {
                let text = std::str::from_utf8(bytes).unwrap_or_default();
                Value::Jsonb(Jsonb::stored(text.into()))
            }),
            // What was encoded here is decoded.
            Kind::Array => self
                .strings
                .with_bytes(words, |mut bytes| decode_value(&mut bytes).unwrap_or_default()),
        }
    }

    /// A row that no other transaction sees yet has the words of another version, all but the
    /// `owned` columns, which are new: what lies beside it has one more version now.
    pub fn share(&self, row: &[AtomicU64], owned: &ColumnSet, worker: usize) -> Result<(), Full> {
        for &(column, at) in &self.long {
            let low = row[at].load(Ordering::Relaxed);
            if is_inline(low) || owned.contains(column) {
                continue;
            }
            let mut words = [low, row[at + 1].load(Ordering::Relaxed)];
            self.strings.share(&mut words, worker)?;
            row[at].store(words[0], Ordering::Relaxed);
            row[at + 1].store(words[1], Ordering::Relaxed);
        }
        Ok(())
    }

    /// Stores the columns that a writer changed over those of the row before it.
    pub fn store_changed(&self, image: &[u64], changed: &ColumnSet, row: &[AtomicU64]) {
        for column in changed.iter() {
            let Column { kind, offset, null_word, .. } = self.columns[usize::from(column)];
            row[null_word].store(image[null_word], Ordering::Relaxed);
            for at in offset..offset + kind.words() {
                row[at].store(image[at], Ordering::Relaxed);
            }
        }
    }

    /// A version that had a whole row is gone.
    pub fn release(&self, load: impl Fn(usize) -> u64) {
        for &(_, at) in &self.long {
            let low = load(at);
            if !is_inline(low) {
                self.strings.release([low, load(at + 1)]);
            }
        }
    }

    pub fn release_cell(&self, column: ColumnId, cell: Cell) {
        let kind = self.columns[usize::from(column)].kind;
        if !cell.null && matches!(kind, Kind::Text | Kind::Bytes | Kind::Jsonb | Kind::Array) {
            self.strings.release(cell.words);
        }
    }
}

#[cfg(test)]
mod tests {
    use types::numeric::Numeric;
    use types::row::encode_row;
    use types::{ColumnSchema, TableId};

    use super::*;

    #[test]
    fn no_image_of_a_row_is_longer_than_its_bound() {
        let number = |text: &str| text.parse::<Numeric>().expect("a number");
        let widest = [
            (DataType::Bool, Value::Bool(true)),
            (DataType::Int2, Value::Int(-1)),
            (DataType::Int4, Value::Int(i64::from(i32::MIN))),
            (DataType::Int8, Value::Int(i64::MIN)),
            (DataType::Float8, Value::Float(f64::MIN)),
            (DataType::Numeric(None), Value::Numeric(Numeric::from_units(-(1 << 96) + 1, 0))),
            (DataType::Numeric(None), Value::Numeric(Numeric::from_units(-(1 << 95), 14))),
            (DataType::Numeric(None), Value::Numeric(Numeric::from_units(-(1 << 95), 27))),
            (DataType::Numeric(None), Value::Numeric(number("9e131071"))),
            (DataType::Numeric(None), Value::Numeric(number("-99999999999999999999.9999999999"))),
            (DataType::Numeric(None), Value::Numeric(number("1e-16383"))),
            (DataType::Uuid, Value::Uuid([255; 16])),
            (DataType::Date, Value::Date(i32::MAX / 2)),
            (DataType::Timestamp(None), Value::Timestamp(1 << 60)),
            (DataType::Timestamptz(None), Value::Timestamptz(1 << 60)),
            (DataType::Text, Value::text("")),
            (DataType::Text, Value::text("ä".repeat(1_000))),
            (DataType::Char(3_000), Value::text("ä")),
            (DataType::Bytea, Value::Bytes(vec![0; 13].into())),
            (DataType::Int8, Value::Null),
        ];
        for (data_type, value) in widest {
            for count in [1, 60, 200] {
                let column = ColumnSchema::new("c", data_type.clone()).nullable(true);
                let schema = TableSchema {
                    id: TableId(1),
                    name: "t".into(),
                    columns: vec![column; count],
                    primary_key: vec![0],
                    indexes: Vec::new(),
                    hidden_row_id: false,
                };
                let layout = Layout::new(&schema, Strings::new(1, true));
                let mut row = vec![0; layout.words];
                for id in 0..count as ColumnId {
                    let cell = layout.encode(id, &value, 0).expect("room");
                    layout.set(id, cell, &mut row);
                }
                let mut image = Vec::new();
                encode_row(&schema.columns, &vec![value.clone(); count], &mut image)
                    .expect("a row");
                let bound = layout.image_bytes_max(|i| row[i]);
                assert!(image.len() <= bound, "{count} of {value:?}: {} > {bound}", image.len());
            }
        }
    }
}
