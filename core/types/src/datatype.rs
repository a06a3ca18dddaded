//! SQL types: their names, their numbers on the wire, and how a name in SQL text finds its type.
//!
//! PostgreSQL's drivers choose decoders by OID and print widths by modifier, so both are
//! PostgreSQL's own. Names with a SQL-standard spelling (`character varying(20)`) are written that
//! way, since that is what error messages, `pg_typeof` and `\d` show.
//!
//! Departures: no scale of a `numeric` is negative; `char` always has a length. Values of `real`
//! are those of `double precision` that it has, too; the type says how they are rounded and shown.

mod names;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::enums::EnumType;
use crate::interval::{Fields, PRECISION_MAX};
use crate::system::SystemType;

/// PostgreSQL's limit for the precision and the scale of a `numeric(p,s)`.
pub const NUMERIC_PRECISION_MAX: u16 = 1000;
/// PostgreSQL's limit for `varchar(n)` and `char(n)`.
pub const CHARACTER_LENGTH_MAX: u32 = 10_485_760;

/// A SQL type, with its modifier where it has one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DataType {
    Bool,
    Int2,
    Int4,
    Int8,
    /// `numeric` or `numeric(p,s)`.
    Numeric(Option<(u16, u16)>),
    Float4,
    Float8,
    Text,
    /// `varchar(n)`; `varchar` without a length is `Text` with another name, `None` here.
    Varchar(Option<u32>),
    /// `char(n)`, blank-padded. Values are kept without trailing blanks; output pads them.
    Char(u32),
    Bytea,
    Uuid,
    Date,
    /// `timestamp` or `timestamp(p)`: digits of a second.
    Timestamp(Option<u8>),
    Timestamptz(Option<u8>),
    /// JSON as it was given: a text that was checked.
    Json,
    /// JSON in its [canonical form](crate::json).
    Jsonb,
    /// Which of its fields it keeps: all, where nothing is declared.
    Interval(Fields),
    /// `time` or `time(p)`: digits of a second.
    Time(Option<u8>),
    /// `time with time zone`.
    Timetz(Option<u8>),
    /// The address of a host, with the length of its network's part.
    Inet,
    /// The address of a network.
    Cidr,
    /// One-dimensional.
    Array(Box<DataType>),
    /// Of `CREATE TYPE … AS ENUM`; values are the positions of labels ([`enums`](crate::enums)).
    Enum(Arc<EnumType>),
    /// A row, of these fields; in expressions and answers, not in stored columns.
    Record(Arc<[Field]>),
    /// The type of a bare NULL or of a parameter that has no type yet.
    Unknown,
    /// What a procedure without a result returns.
    Void,
    /// In answers of system catalogs only.
    System(SystemType),
}

/// A field of a row.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    pub name: Box<str>,
    pub data_type: DataType,
}

impl Field {
    pub fn new(name: impl Into<Box<str>>, data_type: DataType) -> Field {
        Field { name: name.into(), data_type }
    }
}

impl DataType {
    /// `interval`, with all fields.
    pub const INTERVAL: DataType = DataType::Interval(Fields::ALL);

    /// PostgreSQL's spelling with modifiers, as `format_type` gives it.
    pub fn name(&self) -> String {
        self.to_string()
    }

    /// The spelling without modifiers, as PostgreSQL's input errors name types.
    pub fn base_name(&self) -> &str {
        match self {
            DataType::Bool => "boolean",
            DataType::Int2 => "smallint",
            DataType::Int4 => "integer",
            DataType::Int8 => "bigint",
            DataType::Numeric(_) => "numeric",
            DataType::Float4 => "real",
            DataType::Float8 => "double precision",
            DataType::Text => "text",
            DataType::Varchar(_) => "character varying",
            DataType::Char(_) => "character",
            DataType::Bytea => "bytea",
            DataType::Uuid => "uuid",
            DataType::Date => "date",
            DataType::Timestamp(_) => "timestamp without time zone",
            DataType::Timestamptz(_) => "timestamp with time zone",
            DataType::Json => "json",
            DataType::Jsonb => "jsonb",
            DataType::Interval(_) => "interval",
            DataType::Time(_) => "time without time zone",
            DataType::Timetz(_) => "time with time zone",
            DataType::Inet => "inet",
            DataType::Cidr => "cidr",
            DataType::Array(_) => "array",
            DataType::Record(_) => "record",
            DataType::Enum(of) => &of.name,
            DataType::Unknown => "unknown",
            DataType::Void => "void",
            DataType::System(system) => system.name(),
        }
    }

    pub fn oid(&self) -> u32 {
        match self {
            DataType::Bool => 16,
            DataType::Bytea => 17,
            DataType::Int8 => 20,
            DataType::Int2 => 21,
            DataType::Int4 => 23,
            DataType::Text => 25,
            DataType::Json => 114,
            DataType::Cidr => 650,
            DataType::Float4 => 700,
            DataType::Float8 => 701,
            DataType::Unknown => 705,
            DataType::Inet => 869,
            DataType::Char(_) => 1042,
            DataType::Varchar(_) => 1043,
            DataType::Date => 1082,
            DataType::Time(_) => 1083,
            DataType::Timestamp(_) => 1114,
            DataType::Timestamptz(_) => 1184,
            DataType::Interval(_) => 1186,
            DataType::Timetz(_) => 1266,
            DataType::Numeric(_) => 1700,
            DataType::Record(_) => 2249,
            DataType::Void => 2278,
            DataType::Uuid => 2950,
            DataType::Jsonb => 3802,
            DataType::Array(element) => element.array_oid(),
            DataType::Enum(of) => of.oid,
            DataType::System(system) => system.oid(),
        }
    }

    /// OID of the array of this type; 0 where there is none.
    pub fn array_oid(&self) -> u32 {
        match self {
            DataType::Json => 199,
            DataType::Cidr => 651,
            DataType::Bool => 1000,
            DataType::Bytea => 1001,
            DataType::Int2 => 1005,
            DataType::Int4 => 1007,
            DataType::Text => 1009,
            DataType::Char(_) => 1014,
            DataType::Varchar(_) => 1015,
            DataType::Int8 => 1016,
            DataType::Float4 => 1021,
            DataType::Float8 => 1022,
            DataType::Inet => 1041,
            DataType::Timestamp(_) => 1115,
            DataType::Date => 1182,
            DataType::Time(_) => 1183,
            DataType::Timestamptz(_) => 1185,
            DataType::Interval(_) => 1187,
            DataType::Timetz(_) => 1270,
            DataType::Numeric(_) => 1231,
            DataType::Record(_) => 2287,
            DataType::Uuid => 2951,
            DataType::Jsonb => 3807,
            DataType::Enum(of) => of.array_oid(),
            DataType::System(system) => system.array_oid(),
            DataType::Array(_) | DataType::Unknown | DataType::Void => 0,
        }
    }

    /// The type that a client names by number, as in Parse. 0 and 705 are [`DataType::Unknown`].
    /// Numbers carry no modifier, and a `char` without a length is `text` here.
    pub fn from_oid(oid: u32) -> Option<DataType> {
        if let Some(scalar) = Self::scalar_from_oid(oid) {
            return Some(scalar);
        }
        let elements = [
            16, 17, 20, 21, 23, 25, 114, 650, 700, 701, 869, 1042, 1043, 1082, 1083, 1114, 1184,
            1186, 1266, 1700, 2950, 3802,
        ];
        match oid {
            1002 => Some(DataType::Array(Box::new(DataType::System(SystemType::Char)))),
            1003 => Some(DataType::Array(Box::new(DataType::System(SystemType::Name)))),
            1028 => Some(DataType::Array(Box::new(DataType::System(SystemType::Oid)))),
            1014 => Some(DataType::Array(Box::new(DataType::Text))),
            _ => elements
                .into_iter()
                .filter_map(Self::scalar_from_oid)
                .find(|element| element.array_oid() == oid)
                .map(|element| DataType::Array(Box::new(element))),
        }
    }

    fn scalar_from_oid(oid: u32) -> Option<DataType> {
        Some(match oid {
            0 | 705 => DataType::Unknown,
            16 => DataType::Bool,
            17 => DataType::Bytea,
            20 => DataType::Int8,
            21 => DataType::Int2,
            23 => DataType::Int4,
            25 | 1042 => DataType::Text,
            114 => DataType::Json,
            650 => DataType::Cidr,
            700 => DataType::Float4,
            701 => DataType::Float8,
            869 => DataType::Inet,
            1043 => DataType::Varchar(None),
            1082 => DataType::Date,
            1083 => DataType::Time(None),
            1114 => DataType::Timestamp(None),
            1184 => DataType::Timestamptz(None),
            1186 => DataType::INTERVAL,
            1266 => DataType::Timetz(None),
            1700 => DataType::Numeric(None),
            2278 => DataType::Void,
            2950 => DataType::Uuid,
            3802 => DataType::Jsonb,
            _ => {
                let system = SystemType::from_oid(oid).filter(|system| system.is_parameter());
                return system.map(DataType::System);
            }
        })
    }

    /// Bytes of a fixed-width type, -1 for variable width, -2 for a C string: `pg_type.typlen`.
    pub fn type_len(&self) -> i16 {
        match self {
            DataType::Bool => 1,
            DataType::Int2 => 2,
            DataType::Int4 | DataType::Float4 | DataType::Date => 4,
            DataType::Void | DataType::Enum(_) => 4,
            DataType::Int8 | DataType::Float8 => 8,
            DataType::Timestamp(_) | DataType::Timestamptz(_) | DataType::Time(_) => 8,
            DataType::Timetz(_) => 12,
            DataType::Uuid | DataType::Interval(_) => 16,
            DataType::Unknown => -2,
            DataType::System(system) => system.type_len(),
            DataType::Numeric(_)
            | DataType::Text
            | DataType::Varchar(_)
            | DataType::Char(_)
            | DataType::Bytea
            | DataType::Json
            | DataType::Jsonb
            | DataType::Inet
            | DataType::Cidr
            | DataType::Array(_)
            | DataType::Record(_) => -1,
        }
    }

    /// `pg_attribute.atttypmod`: -1 where there is no modifier.
    pub fn typmod(&self) -> i32 {
        /// PostgreSQL counts its own four-byte length header into these modifiers.
        const HEADER: i32 = 4;
        match self {
            DataType::Numeric(Some((precision, scale))) => {
                ((i32::from(*precision) << 16) | i32::from(*scale)) + HEADER
            }
            DataType::Varchar(Some(n)) | DataType::Char(n) => {
                i32::try_from(*n).unwrap_or(i32::MAX - HEADER) + HEADER
            }
            DataType::Time(Some(n)) | DataType::Timetz(Some(n)) => i32::from(*n),
            DataType::Timestamp(Some(n)) | DataType::Timestamptz(Some(n)) => i32::from(*n),
            DataType::Interval(fields) => fields.typmod(),
            DataType::Array(element) => element.typmod(),
            _ => -1,
        }
    }

    /// A time's or an interval's type with the modifier that `pg_attribute.atttypmod` says; `None`
    /// for other types.
    pub fn with_time_typmod(&self, typmod: i32) -> Option<DataType> {
        let digits = u8::try_from(typmod).ok().filter(|digits| *digits <= PRECISION_MAX);
        Some(match self {
            DataType::Interval(_) => DataType::Interval(Fields::of_typmod(typmod)),
            DataType::Time(_) => DataType::Time(digits),
            DataType::Timetz(_) => DataType::Timetz(digits),
            DataType::Timestamp(_) => DataType::Timestamp(digits),
            DataType::Timestamptz(_) => DataType::Timestamptz(digits),
            _ => return None,
        })
    }

    /// Whether a column can have it.
    pub fn is_storable(&self) -> bool {
        match self {
            DataType::Array(element) => {
                !matches!(**element, DataType::Array(_)) && element.is_storable()
            }
            DataType::Record(_) | DataType::Unknown | DataType::Void | DataType::System(_) => false,
            _ => true,
        }
    }

    /// The type that rows are hashed in: of an enum, which may call its labels otherwise tomorrow,
    /// their positions; of `real` the same number with more digits.
    pub fn canonical(&self) -> Cow<'_, DataType> {
        match self {
            DataType::Enum(_) => Cow::Owned(DataType::Int8),
            DataType::Float4 => Cow::Owned(DataType::Float8),
            DataType::Array(element) => match element.canonical() {
                Cow::Owned(other) => Cow::Owned(DataType::Array(Box::new(other))),
                Cow::Borrowed(_) => Cow::Borrowed(self),
            },
            other => Cow::Borrowed(other),
        }
    }

    /// The type of labels that its values are positions of, or have within.
    pub fn enum_type(&self) -> Option<&Arc<EnumType>> {
        match self {
            DataType::Enum(of) => Some(of),
            DataType::Array(element) => element.enum_type(),
            _ => None,
        }
    }

    /// The type whose values a value of this type is one of.
    pub fn stored(&self) -> DataType {
        match self {
            DataType::System(system) => system.storage(),
            other => other.clone(),
        }
    }

    pub fn is_integer(&self) -> bool {
        matches!(self, DataType::Int2 | DataType::Int4 | DataType::Int8)
    }

    pub fn is_number(&self) -> bool {
        self.is_integer() || self.is_float() || matches!(self, DataType::Numeric(_))
    }

    pub fn is_float(&self) -> bool {
        matches!(self, DataType::Float4 | DataType::Float8)
    }

    pub fn is_string(&self) -> bool {
        matches!(self, DataType::Text | DataType::Varchar(_) | DataType::Char(_))
    }

    /// Whether its values are addresses ([`network`](crate::network)).
    pub fn is_network(&self) -> bool {
        matches!(self, DataType::Inet | DataType::Cidr)
    }

    pub fn is_datetime(&self) -> bool {
        matches!(self, DataType::Date | DataType::Timestamp(_) | DataType::Timestamptz(_))
    }

    /// Whether values have an equality and an order; `json` has neither.
    pub fn is_comparable(&self) -> bool {
        match self {
            DataType::Json => false,
            DataType::Array(element) => element.is_comparable(),
            _ => true,
        }
    }

    /// The type without its modifier: what an operator on such a column returns.
    pub fn without_modifier(&self) -> DataType {
        match self {
            DataType::Numeric(_) => DataType::Numeric(None),
            DataType::Varchar(_) => DataType::Varchar(None),
            DataType::Interval(_) => DataType::INTERVAL,
            DataType::Time(_) => DataType::Time(None),
            DataType::Timetz(_) => DataType::Timetz(None),
            DataType::Timestamp(_) => DataType::Timestamp(None),
            DataType::Timestamptz(_) => DataType::Timestamptz(None),
            DataType::Array(element) => DataType::Array(Box::new(element.without_modifier())),
            other => other.clone(),
        }
    }

    /// Bounds of an integer type, inclusive.
    pub fn integer_range(&self) -> Option<(i64, i64)> {
        match self {
            DataType::Int2 => Some((i64::from(i16::MIN), i64::from(i16::MAX))),
            DataType::Int4 => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
            DataType::Int8 => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }
}

impl SystemType {
    /// The type whose values a value of this type is one of.
    pub fn storage(self) -> DataType {
        use SystemType::*;
        match self {
            Oid | Xid => DataType::Int8,
            Int2Vector => DataType::Array(Box::new(DataType::Int2)),
            OidVector => DataType::Array(Box::new(DataType::System(Oid))),
            AnyArray => DataType::Array(Box::new(DataType::Text)),
            _ if self.is_object() => DataType::Int8,
            _ => DataType::Text,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Numeric(Some((p, s))) => write!(f, "numeric({p},{s})"),
            DataType::Varchar(Some(n)) => write!(f, "character varying({n})"),
            DataType::Char(n) => write!(f, "character({n})"),
            DataType::Interval(fields) => write!(f, "interval{fields}"),
            DataType::Time(Some(digits)) => write!(f, "time({digits}) without time zone"),
            DataType::Timetz(Some(digits)) => write!(f, "time({digits}) with time zone"),
            DataType::Timestamp(Some(n)) => write!(f, "timestamp({n}) without time zone"),
            DataType::Timestamptz(Some(n)) => write!(f, "timestamp({n}) with time zone"),
            DataType::Array(element) => write!(f, "{element}[]"),
            other => f.write_str(other.base_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_postgresqls() {
        assert_eq!(DataType::Varchar(Some(20)).typmod(), 24);
        assert_eq!(DataType::Char(3).typmod(), 7);
        assert_eq!(DataType::Numeric(Some((10, 2))).typmod(), (10 << 16 | 2) + 4);
    }
}
