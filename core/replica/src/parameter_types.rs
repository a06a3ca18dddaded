//! The parameter types that a client declared, as part of a statement's identity.
//!
//! `SELECT $1 + 1` is one program over integers and another over numerics: what a text means
//! depends on the types that came with it. They travel in the ledger, so that a replica compiles
//! what the session had bound.
//!
//! ```text
//! types    count: varint, of: type
//! type     code: 1
//!            0 not declared   4 bigint             8 varchar        12 timestamp
//!            1 boolean        5 double precision   9 bytea          13 timestamptz
//!            2 smallint       6 numeric           10 uuid           14 void
//!            3 integer        7 text              11 date
//!           16 numeric        precision: varint, scale: varint
//!           17 varchar        length: varint
//!           18 char           length: varint
//!           19 array          type
//!           20 json          21 jsonb
//!           22 interval      23 time          24 timetz
//!           25 enum           its number, as of PostgreSQL's types: varint
//!           27 inet          28 cidr         29 real
//! ```
//!
//! *Invariant.* The last type is a declared one, so that equal declarations are equal bytes.

use std::sync::Arc;

use types::codec::{decode_u64, encode_u64};
use types::datatype::NUMERIC_PRECISION_MAX;
use types::{DataType, EnumType, Error, Result, SqlState};

/// Types of `$1`, `$2`, …; `Unknown` where the client left it to the server, and none at the end.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ParameterTypes(Option<Arc<[DataType]>>);

/// Types whose code is all there is to them: the code is the place.
const PLAIN: [DataType; 15] = [
    DataType::Unknown,
    DataType::Bool,
    DataType::Int2,
    DataType::Int4,
    DataType::Int8,
    DataType::Float8,
    DataType::Numeric(None),
    DataType::Text,
    DataType::Varchar(None),
    DataType::Bytea,
    DataType::Uuid,
    DataType::Date,
    DataType::Timestamp(None),
    DataType::Timestamptz(None),
    DataType::Void,
];
const NUMERIC: u8 = 16;
const VARCHAR: u8 = 17;
const CHAR: u8 = 18;
const ARRAY: u8 = 19;
/// Types whose code is all there is to them, too, with their codes.
const LATER: [(u8, DataType); 3] =
    [(20, DataType::Json), (21, DataType::Jsonb), (29, DataType::Float4)];
const INTERVAL: u8 = 22;
const TIME: u8 = 23;
const TIMETZ: u8 = 24;
const INET: u8 = 27;
const CIDR: u8 = 28;
const ENUM: u8 = 25;

const _: () = assert!(PLAIN.len() <= NUMERIC as usize, "a code is a place or a kind");

impl ParameterTypes {
    /// `None` and `Unknown` both mean that the client did not say.
    pub fn new(declared: &[Option<DataType>]) -> ParameterTypes {
        let is_declared = |t: &Option<DataType>| !matches!(t, None | Some(DataType::Unknown));
        let Some(last) = declared.iter().rposition(is_declared) else {
            return ParameterTypes(None);
        };
        let declared = declared[..=last].iter();
        let types: Arc<[_]> = declared.map(|t| recorded(t.as_ref())).collect();
        debug_assert_ne!(types.last(), Some(&DataType::Unknown), "the last one is declared");
        ParameterTypes(Some(types))
    }

    /// Nothing was declared.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// As the binder takes them.
    pub fn declared(&self) -> Vec<Option<DataType>> {
        self.as_slice().iter().cloned().map(Some).collect()
    }

    fn as_slice(&self) -> &[DataType] {
        self.0.as_deref().unwrap_or_default()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encode_u64(self.as_slice().len() as u64, out);
        for data_type in self.as_slice() {
            encode_type(data_type, out);
        }
    }

    /// Of a statement that has some.
    pub(crate) fn decode(input: &mut &[u8]) -> Result<ParameterTypes> {
        let count = decode_u64(input)?;
        if count > input.len() as u64 {
            return Err(corrupt("a list longer than its bytes"));
        }
        let types = (0..count).map(|_| decode_type(input)).collect::<Result<Arc<[_]>>>()?;
        match types.last() {
            None | Some(DataType::Unknown) => Err(corrupt("a type that nobody declared")),
            Some(_) => Ok(ParameterTypes(Some(types))),
        }
    }
}

impl std::fmt::Display for ParameterTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = self.as_slice().iter().map(DataType::name).collect();
        f.write_str(&names.join(", "))
    }
}

/// A ledger knows no types of system catalogs, but those that their values are of.
fn recorded(declared: Option<&DataType>) -> DataType {
    match declared {
        Some(DataType::System(system)) => recorded(Some(&system.storage())),
        Some(DataType::Array(element)) => DataType::Array(Box::new(recorded(Some(&**element)))),
        // A parameter keeps all fields of its interval, and all digits of its time.
        Some(of_time @ (DataType::Interval(_) | DataType::Time(_) | DataType::Timetz(_))) => {
            of_time.without_modifier()
        }
        Some(moment) if moment.is_datetime() => moment.without_modifier(),
        Some(plain) => plain.clone(),
        None => DataType::Unknown,
    }
}

fn encode_type(data_type: &DataType, out: &mut Vec<u8>) {
    match data_type {
        DataType::Numeric(Some((precision, scale))) => {
            out.push(NUMERIC);
            encode_u64(u64::from(*precision), out);
            encode_u64(u64::from(*scale), out);
        }
        DataType::Varchar(Some(length)) => {
            out.push(VARCHAR);
            encode_u64(u64::from(*length), out);
        }
        DataType::Char(length) => {
            out.push(CHAR);
            encode_u64(u64::from(*length), out);
        }
        DataType::Enum(of) => {
            out.push(ENUM);
            encode_u64(u64::from(of.oid), out);
        }
        DataType::Array(element) => {
            out.push(ARRAY);
            encode_type(element, out);
        }
        DataType::Interval(_) => out.push(INTERVAL),
        DataType::Time(_) => out.push(TIME),
        DataType::Timetz(_) => out.push(TIMETZ),
        DataType::Inet => out.push(INET),
        DataType::Cidr => out.push(CIDR),
        plain => {
            let first = PLAIN.iter().position(|t| t == plain).map(|code| code as u8);
            let later = || LATER.iter().find(|(_, t)| t == plain).map(|(code, _)| *code);
            out.push(first.or_else(later).expect("the others are in the lists"));
        }
    }
}

fn decode_type(input: &mut &[u8]) -> Result<DataType> {
    match decode_byte(input)? {
        // Arrays have one dimension.
        ARRAY => match decode_byte(input)? {
            ARRAY => Err(corrupt("an array of arrays")),
            code => Ok(DataType::Array(Box::new(decode_scalar(code, input)?))),
        },
        code => decode_scalar(code, input),
    }
}

fn decode_scalar(code: u8, input: &mut &[u8]) -> Result<DataType> {
    let length = |input: &mut &[u8]| {
        u32::try_from(decode_u64(input)?).map_err(|_| corrupt("the length of a type"))
    };
    let digits = |input: &mut &[u8]| {
        let digits = u16::try_from(decode_u64(input)?).ok();
        let known = digits.filter(|digits| *digits <= NUMERIC_PRECISION_MAX);
        known.ok_or_else(|| corrupt("the digits of a type"))
    };
    Ok(match code {
        NUMERIC => DataType::Numeric(Some((digits(input)?, digits(input)?))),
        VARCHAR => DataType::Varchar(Some(length(input)?)),
        CHAR => DataType::Char(length(input)?),
        INTERVAL => DataType::INTERVAL,
        TIME => DataType::Time(None),
        TIMETZ => DataType::Timetz(None),
        INET => DataType::Inet,
        CIDR => DataType::Cidr,
        // The language knows its labels.
        ENUM => DataType::Enum(Arc::new(EnumType::named(length(input)?, ""))),
        plain => {
            let later = || LATER.iter().find(|(code, _)| *code == plain).map(|(_, t)| t);
            let known = PLAIN.get(usize::from(plain)).or_else(later);
            known.cloned().ok_or_else(|| corrupt("a type"))?
        }
    })
}

fn decode_byte(input: &mut &[u8]) -> Result<u8> {
    let (&byte, rest) = input.split_first().ok_or_else(|| corrupt("a missing byte"))?;
    *input = rest;
    Ok(byte)
}

fn corrupt(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("invalid parameter types: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_round_trips_and_what_is_not_declared_leaves_no_trace() {
        let modified = [
            DataType::Numeric(Some((10, 2))),
            DataType::Numeric(Some((1000, 500))),
            DataType::Varchar(Some(300)),
            DataType::Char(5),
            DataType::INTERVAL,
            DataType::Time(None),
            DataType::Timetz(None),
            DataType::Array(Box::new(DataType::Varchar(Some(7)))),
            DataType::Enum(Arc::new(EnumType::named(16_390, "mood"))),
            DataType::Array(Box::new(DataType::Enum(Arc::new(EnumType::named(16_390, "mood"))))),
        ];
        for data_type in PLAIN.into_iter().skip(1).chain(LATER.map(|(_, t)| t)).chain(modified) {
            let types = ParameterTypes::new(&[None, Some(data_type.clone()), None]);
            assert_eq!(types.declared(), [Some(DataType::Unknown), Some(data_type)]);
            let mut bytes = Vec::new();
            types.encode(&mut bytes);
            let mut input = &bytes[..];
            assert_eq!(ParameterTypes::decode(&mut input), Ok(types));
            assert!(input.is_empty());
        }
        assert!(ParameterTypes::new(&[None, Some(DataType::Unknown)]).is_empty());
    }

    #[test]
    fn other_encodings_are_refused() {
        let invalid: [&[u8]; 7] =
            [&[0], &[1, 0], &[2, 1, 0], &[1, 15], &[1, 19, 19, 1], &[1, 16, 1], &[200, 1]];
        for bytes in invalid {
            assert!(ParameterTypes::decode(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }
}
