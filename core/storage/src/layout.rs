//! How a row lies in memory: row-major, in words of eight bytes, updated in place.
//!
//! ```text
//! word 0           stamp and state                     (module `header`)
//! word 1           newest undo version, 0 = none       (modules `undo`, `record`)
//! words 2 .. 2+W   the protocol's private words, W = 0 ..= 4 chosen with the store
//! 0 or 2 words     view of the encoded primary key     (module `heap`)
//! -- payload: what an undo version copies --
//! N words          null bitmap, bit c of word c / 64 set = column c is NULL; N = ⌈columns / 64⌉
//! 1 or 2 words     each column in declaration order
//!
//! one word     boolean (0, 1), int2/4/8 (sign-extended), float8 (bits), date, timestamp(tz), time,
//!              enum
//! two words    uuid, interval, timetz, text/varchar/char/bytea/json/jsonb, numeric (a view; see
//!              `numeric::put_bytes`), array (a view; see `codec`)
//! ```
//!
//! Records start on a cache line where their size allows it; a NULL column's words are zero, so
//! that equal rows of fixed-width columns are equal words.
//!
//! A key of integers and uuids alone, the hidden row id among them, is not stored: its bytes follow
//! from the row's own words, eight from each, and those never change while the record is the key's.
//! That spares two words a row, and with two columns and more a string in the heap and the miss
//! that comparing it costs a look-up.
//!
//! # Why row-major
//!
//! `examples/layout.rs` compares this layout with the same header followed by columns that lie
//! apart, under the same validation and undo rules: 1,000,000 rows of ten 8-byte integers, CPU
//! nanoseconds per operation, medians of seven alternated repetitions (EPYC, 1 MiB L2, 32 MiB L3):
//!
//! ```text
//!                                 row-major     columns
//! point read,  1 column                36.2        37.4
//! point read,  10 columns              66.3       131.6
//! point write, 1 column                50.2        44.5
//! point write, 10 columns              58.3       173.0
//! scan, per row, 1 column               3.9         2.0
//! scan, per row, 10 columns             5.4         4.2
//! ```
//!
//! A point access to one column costs the same: two cache lines either way. To ten it costs half to
//! a third row-major, and transactions read and write whole rows more often than not. Columns win
//! the scans by up to two, which is what the columnar images of analytics are for. Row-major it is.

use std::ops::Range;
use std::sync::Arc;

use kit::sync::atomic::{AtomicU64, Ordering};
use types::codec::{decode_value, encode_value};
use types::key::encode_int_key;
use types::{ColumnId, DataType, Interval, Jsonb, Key, TableSchema, Value, ZonedTime, numeric};

use crate::heap::{Heap, View, is_long};

pub(crate) const STAMP: usize = 0;
pub(crate) const NEWEST: usize = 1;
pub(crate) const PROTOCOL: usize = 2;

/// A payload of so many words may be copied to the stack.
pub(crate) const IMAGE_WORDS: usize = 32;

/// Most private words that a protocol can ask for.
pub const PROTOCOL_WORDS_MAX: usize = 4;

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
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json => {
                Kind::Text
            }
            DataType::Jsonb => Kind::Jsonb,
            DataType::Bytea | DataType::Inet | DataType::Cidr => Kind::Bytes,
            DataType::Uuid => Kind::Uuid,
            DataType::Date => Kind::Date,
            DataType::Timestamp(_) => Kind::Timestamp,
            DataType::Timestamptz(_) => Kind::Timestamptz,
            DataType::Interval(_) => Kind::Interval,
            DataType::Time(_) => Kind::Time,
            DataType::Timetz(_) => Kind::Timetz,
            // The binder admits no column of these types.
            DataType::Record(_) | DataType::Unknown | DataType::Void | DataType::System(_) => {
                Kind::Text
            }
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

/// Where a column lies in the payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    kind: Kind,
    /// First word, counted from the payload's start.
    offset: u32,
    null_word: u32,
    null_bit: u64,
}

/// A column's words out of their row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) null: bool,
    pub(crate) words: [u64; 2],
}

impl Column {
    /// Whether its words are a view.
    #[inline]
    pub(crate) fn is_string(&self) -> bool {
        matches!(self.kind, Kind::Text | Kind::Bytes | Kind::Numeric | Kind::Jsonb | Kind::Array)
    }

    /// Its words where they are the view of a long string.
    #[inline]
    pub(crate) fn long_string(&self, payload: &[AtomicU64]) -> Option<View> {
        if !self.is_string() {
            return None;
        }
        let view = payload[self.range()].first_chunk::<2>()?;
        let view = [0, 1].map(|i| view[i].load(Ordering::Relaxed));
        is_long(view).then_some(view)
    }

    #[inline]
    pub(crate) fn range(&self) -> Range<usize> {
        let start = self.offset as usize;
        start..start + self.kind.words()
    }

    /// Picks the column out of a payload whose words `load` gives.
    #[inline]
    pub(crate) fn cell(&self, load: impl Fn(usize) -> u64) -> Cell {
        let null = load(self.null_word as usize) & self.null_bit != 0;
        let start = self.offset as usize;
        let high = if self.kind.words() == 2 { load(start + 1) } else { 0 };
        Cell { null, words: [load(start), high] }
    }

    #[inline]
    pub(crate) fn set(&self, cell: Cell, payload: &mut [u64]) {
        let nulls = &mut payload[self.null_word as usize];
        *nulls = if cell.null { *nulls | self.null_bit } else { *nulls & !self.null_bit };
        // One or two words are not worth the call that a copy of either makes.
        let [first, second] = cell.words;
        match &mut payload[self.range()] {
            [word] => *word = first,
            [word, next] => (*word, *next) = (first, second),
            _ => {}
        }
    }

    /// Like [`Column::set`], into a record.
    #[inline]
    pub(crate) fn store(&self, cell: Cell, payload: &[AtomicU64]) {
        let nulls = &payload[self.null_word as usize];
        let old = nulls.load(Ordering::Relaxed);
        let new = if cell.null { old | self.null_bit } else { old & !self.null_bit };
        if new != old {
            nulls.store(new, Ordering::Relaxed);
        }
        for (to, from) in payload[self.range()].iter().zip(cell.words) {
            to.store(from, Ordering::Relaxed);
        }
    }

    /// The words of a value, whose type the caller has made the column's.
    #[inline]
    pub(crate) fn encode(&self, value: &Value, heap: &Heap) -> Cell {
        let one = |word: u64| [word, 0];
        let pair = |bytes: [u8; 16]| {
            let both = u128::from_le_bytes(bytes);
            [both as u64, (both >> 64) as u64]
        };
        let words = match value {
            Value::Null => {
                return Cell { null: true, words: [0; 2] };
            }
            Value::Bool(b) => one(u64::from(*b)),
            Value::Int(i) | Value::Timestamp(i) | Value::Timestamptz(i) | Value::Time(i) => {
                one(*i as u64)
            }
            Value::Interval(interval) => interval.to_words(),
            Value::Timetz(time) => [time.us as u64, u64::from(time.west_s as u32)],
            Value::Float(f) => one(f.to_bits()),
            Value::Date(days) => one(i64::from(*days) as u64),
            Value::Numeric(d) => numeric::put_bytes(d, |bytes| heap.store(bytes)),
            Value::Uuid(bytes) => pair(*bytes),
            Value::Text(text) => heap.store(text.as_bytes()),
            Value::Bytes(bytes) => heap.store(bytes),
            Value::Jsonb(json) => heap.store(json.as_str().as_bytes()),
            Value::Array(_) => {
                let mut bytes = Vec::new();
                encode_value(value, &mut bytes);
                heap.store(&bytes)
            }
        };
        debug_assert!(self.accepts(value), "{value:?} in a {:?} column", self.kind);
        Cell { null: false, words }
    }

    fn accepts(&self, value: &Value) -> bool {
        matches!(
            (self.kind, value),
            (Kind::Bool, Value::Bool(_))
                | (Kind::Int, Value::Int(_))
                | (Kind::Float, Value::Float(_))
                | (Kind::Numeric, Value::Numeric(_))
                | (Kind::Text, Value::Text(_))
                | (Kind::Bytes, Value::Bytes(_))
                | (Kind::Uuid, Value::Uuid(_))
                | (Kind::Date, Value::Date(_))
                | (Kind::Timestamp, Value::Timestamp(_))
                | (Kind::Timestamptz, Value::Timestamptz(_))
                | (Kind::Jsonb, Value::Jsonb(_))
                | (Kind::Interval, Value::Interval(_))
                | (Kind::Time, Value::Time(_))
                | (Kind::Timetz, Value::Timetz(_))
                | (Kind::Array, Value::Array(_))
        )
    }

    /// The column's value in a validated payload whose words `at` gives, into `out`.
    ///
    /// The two most usual kinds are read without a detour.
    #[inline]
    pub(crate) fn decode_into(&self, at: impl Fn(usize) -> u64, heap: &Heap, out: &mut Value) {
        let start = self.offset as usize;
        let null = at(self.null_word as usize) & self.null_bit != 0;
        out.set(match self.kind {
            Kind::Text if !null => Value::Text(heap.text([at(start), at(start + 1)])),
            Kind::Int if !null => Value::Int(at(start) as i64),
            _ => self.decode(self.cell(at), heap),
        });
    }

    /// The value of validated words, the most usual kind without a detour.
    #[inline]
    pub(crate) fn decode_cell(&self, cell: Cell, heap: &Heap) -> Value {
        match self.kind {
            Kind::Int if !cell.null => Value::Int(cell.words[0] as i64),
            _ => self.decode(cell, heap),
        }
    }

    /// The value of validated words.
    #[inline(never)]
    pub(crate) fn decode(&self, cell: Cell, heap: &Heap) -> Value {
        if cell.null {
            return Value::Null;
        }
        let word = cell.words[0];
        let pair = || (u128::from(cell.words[0]) | u128::from(cell.words[1]) << 64).to_le_bytes();
        match self.kind {
            Kind::Bool => Value::Bool(word != 0),
            Kind::Int => Value::Int(word as i64),
            Kind::Float => Value::Float(f64::from_bits(word)),
            Kind::Numeric => Value::Numeric(heap.with_bytes(cell.words, numeric::from_bytes)),
            Kind::Uuid => Value::Uuid(pair()),
            Kind::Date => Value::Date(word as i32),
            Kind::Timestamp => Value::Timestamp(word as i64),
            Kind::Timestamptz => Value::Timestamptz(word as i64),
            Kind::Interval => Value::Interval(Interval::from_words(cell.words)),
            Kind::Time => Value::Time(word as i64),
            Kind::Timetz => {
                Value::Timetz(ZonedTime { us: word as i64, west_s: cell.words[1] as i32 })
            }
            Kind::Text => Value::Text(heap.text(cell.words)),
            Kind::Jsonb => Value::Jsonb(Jsonb::stored(heap.text(cell.words))),
            Kind::Bytes => heap.with_bytes(cell.words, |bytes| Value::Bytes(Arc::from(bytes))),
            // What was encoded here is decoded.
            Kind::Array => heap
                .with_bytes(cell.words, |mut bytes| decode_value(&mut bytes).unwrap_or_default()),
        }
    }
}

/// A payload word that holds eight bytes of the primary key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyWord {
    offset: u32,
    is_integer: bool,
}

impl KeyWord {
    /// The word's part of the encoded key.
    #[inline]
    fn bytes(self, payload: &[AtomicU64]) -> [u8; 8] {
        let word = payload[self.offset as usize].load(Ordering::Relaxed);
        if self.is_integer { encode_int_key(word as i64) } else { word.to_le_bytes() }
    }
}

/// Where a record's encoded primary key is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum KeyPlace {
    /// In a view, two words before the payload.
    View,
    /// In the payload, eight bytes a word.
    Words(Box<[KeyWord]>),
}

impl KeyPlace {
    fn of(schema: &TableSchema, columns: &[Column]) -> KeyPlace {
        let mut words = Vec::new();
        for id in schema.primary_key.iter().map(|id| usize::from(*id)) {
            let column = &columns[id];
            let is_integer = column.kind == Kind::Int;
            if schema.columns[id].nullable || !(is_integer || column.kind == Kind::Uuid) {
                return KeyPlace::View;
            }
            let offsets = column.range();
            words.extend(offsets.map(|offset| KeyWord { offset: offset as u32, is_integer }));
        }
        KeyPlace::Words(words.into())
    }

    /// Words of a record's header that the key takes.
    fn header_words(&self) -> usize {
        if *self == KeyPlace::View { 2 } else { 0 }
    }
}

/// Whether the payload's `words` say `key`.
#[inline]
pub(crate) fn words_are(words: &[KeyWord], payload: &[AtomicU64], key: &[u8]) -> bool {
    let (chunks, rest) = key.as_chunks::<8>();
    // Most keys are one integer.
    if let ([word], [chunk], []) = (words, chunks, rest) {
        return word.bytes(payload) == *chunk;
    }
    rest.is_empty()
        && chunks.len() == words.len()
        && words.iter().zip(chunks).all(|(word, chunk)| word.bytes(payload) == *chunk)
}

/// The key that the payload's `words` say.
pub(crate) fn key_of_words(words: &[KeyWord], payload: &[AtomicU64]) -> Key {
    let mut key = Key::default();
    words.iter().for_each(|word| key.0.extend_from_slice(&word.bytes(payload)));
    key
}

/// The layout of a table's records.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) columns: Box<[Column]>,
    /// Those of the columns whose words are views.
    pub(crate) strings: Box<[Column]>,
    pub(crate) key: KeyPlace,
    /// After the protocol's words.
    pub(crate) protocol_end: usize,
    /// First payload word of a record.
    pub(crate) payload: usize,
    pub(crate) payload_words: usize,
    /// Words of a record.
    pub(crate) stride: usize,
}

impl Layout {
    pub(crate) fn new(schema: &TableSchema, protocol_words: usize) -> Self {
        assert!(protocol_words <= PROTOCOL_WORDS_MAX);
        let null_words = schema.columns.len().div_ceil(64).max(1);
        let mut offset = null_words;
        let columns = schema.column_types().enumerate().map(|(id, data_type)| {
            let kind = Kind::of(data_type);
            let column = Column {
                kind,
                offset: offset as u32,
                null_word: (id / 64) as u32,
                null_bit: 1 << (id % 64),
            };
            offset += kind.words();
            column
        });
        let columns: Box<[Column]> = columns.collect();
        let key = KeyPlace::of(schema, &columns);
        let protocol_end = PROTOCOL + protocol_words;
        let payload = protocol_end + key.header_words();
        Layout {
            strings: columns.iter().filter(|column| column.is_string()).copied().collect(),
            columns,
            key,
            protocol_end,
            payload,
            payload_words: offset,
            stride: payload + offset,
        }
    }

    /// Whether the columns of a schema lie as these do.
    pub(crate) fn holds(&self, schema: &TableSchema) -> bool {
        self.columns.iter().map(|c| c.kind).eq(schema.column_types().map(Kind::of))
            && self.key == KeyPlace::of(schema, &self.columns)
    }

    #[inline]
    pub(crate) fn column(&self, id: ColumnId) -> &Column {
        &self.columns[usize::from(id)]
    }

    /// A payload holding `row`, one value per column, of words that are zero.
    #[inline]
    pub(crate) fn encode_row(&self, row: &[Value], heap: &Heap, payload: &mut [u64]) {
        for (column, value) in self.columns.iter().zip(row) {
            // The most usual one is a word, whose bit says already that it is not NULL.
            if let Value::Int(number) = value
                && let Some(word) = payload.get_mut(column.offset as usize)
            {
                debug_assert!(column.accepts(value), "{value:?} in a {:?} column", column.kind);
                *word = *number as u64;
                continue;
            }
            column.set(column.encode(value, heap), payload);
        }
    }
}
