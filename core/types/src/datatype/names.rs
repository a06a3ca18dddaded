//! How a name in SQL text finds its type.

use super::{CHARACTER_LENGTH_MAX, DataType, NUMERIC_PRECISION_MAX};
use crate::error::{Error, Result, SqlState};
use crate::interval::{Fields, PRECISION_MAX};
use crate::unicode::is_space;

impl DataType {
    /// Reads a type as SQL text spells it: any case, aliases, modifiers, trailing `[]`.
    pub fn from_sql_name(text: &str) -> Result<DataType> {
        let lower = text.trim_matches(is_space).to_ascii_lowercase();
        if let Some(element) = lower.strip_suffix("[]") {
            let element = DataType::from_sql_name(element)?;
            if element.array_oid() == 0 {
                return Err(Error::unsupported(format_args!("type {element}[]")));
            }
            return Ok(DataType::Array(Box::new(element)));
        }
        let (name, modifiers) = split_modifiers(&lower)?;
        if let Some(fields) = name.strip_prefix("interval") {
            return interval(fields, &modifiers);
        }
        let data_type = DataType::from_name_and_modifiers(&name, &modifiers)?;
        data_type.ok_or_else(|| {
            if KNOWN_BUT_ABSENT.contains(&name.as_str()) {
                Error::unsupported(format_args!("type {name}"))
            } else {
                Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
            }
        })
    }

    fn from_name_and_modifiers(name: &str, modifiers: &[u32]) -> Result<Option<DataType>> {
        let data_type = match name {
            "numeric" | "decimal" | "dec" => return numeric(modifiers).map(Some),
            "varchar" | "character varying" | "char varying" => {
                let n = length("varchar", modifiers)?;
                return Ok(Some(DataType::Varchar(n)));
            }
            "char" | "character" => {
                let n = length("char", modifiers)?.unwrap_or(1);
                return Ok(Some(DataType::Char(n)));
            }
            "bpchar" => match length("char", modifiers)? {
                Some(n) => return Ok(Some(DataType::Char(n))),
                None => return Err(Error::unsupported("type bpchar without a length")),
            },
            "float" => return float(modifiers).map(Some),
            "timestamp" | "timestamp without time zone" => {
                return precision(name, modifiers).map(|digits| Some(DataType::Timestamp(digits)));
            }
            "timestamptz" | "timestamp with time zone" => {
                return precision(name, modifiers)
                    .map(|digits| Some(DataType::Timestamptz(digits)));
            }
            "time" | "time without time zone" => {
                return precision(name, modifiers).map(|digits| Some(DataType::Time(digits)));
            }
            "timetz" | "time with time zone" => {
                return precision(name, modifiers).map(|digits| Some(DataType::Timetz(digits)));
            }
            "bool" | "boolean" => DataType::Bool,
            "int2" | "smallint" => DataType::Int2,
            "int4" | "int" | "integer" => DataType::Int4,
            "int8" | "bigint" => DataType::Int8,
            "float4" | "real" => DataType::Float4,
            "float8" | "double precision" => DataType::Float8,
            "text" => DataType::Text,
            "bytea" => DataType::Bytea,
            "uuid" => DataType::Uuid,
            "inet" => DataType::Inet,
            "cidr" => DataType::Cidr,
            "date" => DataType::Date,
            "json" => DataType::Json,
            "jsonb" => DataType::Jsonb,
            "unknown" => DataType::Unknown,
            "void" => DataType::Void,
            _ => return Ok(None),
        };
        if !modifiers.is_empty() {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                format!("type modifier is not allowed for type \"{name}\""),
            ));
        }
        Ok(Some(data_type))
    }
}

/// PostgreSQL's types that people will ask for: "not supported" is kinder than "does not exist".
const KNOWN_BUT_ABSENT: &[&str] = &[
    "xml",
    "money",
    "macaddr",
    "bit",
    "varbit",
    "point",
    "line",
    "box",
    "path",
    "polygon",
    "circle",
    "tsvector",
    "tsquery",
    "int4range",
    "int8range",
    "numrange",
    "tsrange",
    "tstzrange",
    "daterange",
    "oid",
    "name",
];

/// Splits `numeric ( 10, 2 )` into its name, single-spaced, and its modifiers, wherever they stand
/// (`timestamp(6) with time zone`).
fn split_modifiers(text: &str) -> Result<(String, Vec<u32>)> {
    let syntax_error =
        || Error::new(SqlState::SYNTAX_ERROR, format!("invalid type name \"{text}\""));
    let (before, inside, after) = match text.split_once('(') {
        None => (text, None, ""),
        Some((before, rest)) => {
            let (inside, after) = rest.split_once(')').ok_or_else(syntax_error)?;
            (before, Some(inside), after)
        }
    };
    let mut name = String::with_capacity(text.len());
    for word in before.split(is_space).chain(after.split(is_space)).filter(|word| !word.is_empty())
    {
        if !name.is_empty() {
            name.push(' ');
        }
        name.push_str(word);
    }
    let name = match name.strip_prefix("pg_catalog.") {
        Some(bare) => bare.to_owned(),
        None => name,
    };
    let mut modifiers = Vec::new();
    if let Some(inside) = inside {
        for number in inside.split(',') {
            modifiers.push(number.trim_matches(is_space).parse().map_err(|_| syntax_error())?);
        }
    }
    Ok((name, modifiers))
}

fn numeric(modifiers: &[u32]) -> Result<DataType> {
    let (precision, scale) = match *modifiers {
        [] => return Ok(DataType::Numeric(None)),
        [precision] => (precision, 0),
        [precision, scale] => (precision, scale),
        _ => {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "invalid NUMERIC type modifier",
            ));
        }
    };
    let max = u32::from(NUMERIC_PRECISION_MAX);
    let invalid = |what: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, what);
    if !(1..=max).contains(&precision) {
        return Err(invalid(format!("NUMERIC precision {precision} must be between 1 and {max}")));
    }
    if scale > max {
        return Err(invalid(format!("NUMERIC scale {scale} must be between -{max} and {max}")));
    }
    Ok(DataType::Numeric(Some((precision as u16, scale as u16))))
}

fn length(type_name: &str, modifiers: &[u32]) -> Result<Option<u32>> {
    let problem = match *modifiers {
        [] => return Ok(None),
        [n] if (1..=CHARACTER_LENGTH_MAX).contains(&n) => return Ok(Some(n)),
        [0] => format!("length for type {type_name} must be at least 1"),
        [_] => format!("length for type {type_name} cannot exceed {CHARACTER_LENGTH_MAX}"),
        _ => "invalid type modifier".to_owned(),
    };
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, problem))
}

fn float(modifiers: &[u32]) -> Result<DataType> {
    match *modifiers {
        [] | [25..=53] => Ok(DataType::Float8),
        [1..=24] => Ok(DataType::Float4),
        _ => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "precision for type float must be between 1 and 53 bits",
        )),
    }
}

/// `interval`, the fields that are named after it, and digits of a second.
fn interval(fields: &str, modifiers: &[u32]) -> Result<DataType> {
    match *modifiers {
        _ if !fields.is_empty() && !fields.starts_with(' ') => {
            let what = format!("type \"interval{fields}\" does not exist");
            Err(Error::new(SqlState::UNDEFINED_OBJECT, what))
        }
        [] => Fields::of(fields.trim_start(), None).map(DataType::Interval),
        [digits] => Fields::of(fields.trim_start(), Some(digits)).map(DataType::Interval),
        _ => {
            let what = "invalid INTERVAL type modifier";
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what))
        }
    }
}

/// Digits of a second. PostgreSQL warns of more than six, and keeps six.
fn precision(name: &str, modifiers: &[u32]) -> Result<Option<u8>> {
    match *modifiers {
        [] => Ok(None),
        [digits] => Ok(Some(digits.min(PRECISION_MAX.into()) as u8)),
        _ => {
            let what = format!("invalid type modifier of type {name}");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for data_type in [
            DataType::Bool,
            DataType::Int2,
            DataType::Int4,
            DataType::Int8,
            DataType::Numeric(None),
            DataType::Numeric(Some((12, 2))),
            DataType::Float4,
            DataType::Float8,
            DataType::Text,
            DataType::Varchar(None),
            DataType::Varchar(Some(20)),
            DataType::Char(3),
            DataType::Bytea,
            DataType::Inet,
            DataType::Cidr,
            DataType::Uuid,
            DataType::Date,
            DataType::Timestamp(None),
            DataType::Timestamptz(None),
            DataType::Json,
            DataType::Jsonb,
            DataType::INTERVAL,
            DataType::Interval(Fields::of("day to second", Some(3)).unwrap()),
            DataType::Interval(Fields::of("year", None).unwrap()),
            DataType::Time(None),
            DataType::Time(Some(3)),
            DataType::Timetz(None),
            DataType::Timetz(Some(0)),
            DataType::Timestamp(Some(3)),
            DataType::Timestamptz(Some(0)),
            DataType::Array(Box::new(DataType::Varchar(Some(5)))),
            DataType::Array(Box::new(DataType::INTERVAL)),
        ] {
            assert_eq!(DataType::from_sql_name(&data_type.name()).unwrap(), data_type);
            if data_type.typmod() == -1 {
                assert_eq!(DataType::from_oid(data_type.oid()), Some(data_type));
            }
        }
    }

    #[test]
    fn aliases_and_refusals() {
        let read = |text| DataType::from_sql_name(text);
        assert_eq!(read(" INT ").unwrap(), DataType::Int4);
        assert_eq!(read("Decimal( 10 , 2 )").unwrap(), DataType::Numeric(Some((10, 2))));
        assert_eq!(read("timestamp(6) with time zone").unwrap(), DataType::Timestamptz(Some(6)));
        assert_eq!(read("char").unwrap(), DataType::Char(1));
        let code = |text| read(text).unwrap_err().code();
        assert_eq!(code("nonsense"), SqlState::UNDEFINED_OBJECT);
        assert_eq!(code("xml"), SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(read("numeric(1000,2)").unwrap(), DataType::Numeric(Some((1000, 2))));
        assert_eq!(code("numeric(1001,2)"), SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(code("numeric(0)"), SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(code("varchar(0)"), SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(code("numeric(3"), SqlState::SYNTAX_ERROR);
        assert_eq!(code("int(3)"), SqlState::SYNTAX_ERROR);
    }
}
