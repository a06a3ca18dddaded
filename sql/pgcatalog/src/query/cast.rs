//! Conversions, with those that need the catalog: between numbers of objects and their names.

use sql::Catalog;
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, SystemType, Value};

use super::made::check_text_bytes;
use crate::describe;
use crate::oid;
use crate::relation::internal_type;
use crate::world::World;

/// Who knows what objects are called.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub world: &'a World,
}

impl Names<'_> {
    pub fn cast(&self, value: &Value, from: &DataType, to: &DataType) -> Result<Value> {
        match (value, from, to) {
            (Value::Null, ..) => Ok(Value::Null),
            (Value::Array(elements), _, DataType::Array(to)) => {
                let from = match from {
                    DataType::Array(from) => &**from,
                    _ => &DataType::Int8,
                };
                let elements = elements.iter().map(|element| self.cast(element, from, to));
                Ok(Value::from(elements.collect::<Result<Vec<_>>>()?))
            }
            (_, _, DataType::System(system)) => self.as_system(value, from, *system),
            // What is padded leaves its padding behind.
            (Value::Text(text), DataType::Char(_), to) if to.is_string() => {
                types::cast::cast(&Value::text(text.trim_end_matches(' ')), to, true)
            }
            (_, _, to) if to.is_string() => {
                types::cast::cast(&Value::text(self.text(value, from)?), to, true)
            }
            (Value::Text(text), _, DataType::Array(element)) => self.read_array(text, element),
            (_, _, to) => types::cast::cast(value, to, true),
        }
    }

    fn as_system(&self, value: &Value, from: &DataType, to: SystemType) -> Result<Value> {
        match (value, to) {
            (Value::Text(text), to) if to.is_object() => self.object(text, to),
            // Columns of system tables have these types, and no values.
            (_, SystemType::PgLsn) => Err(Error::unsupported(format_args!("type {}", to.name()))),
            (Value::Text(text), SystemType::Char) => {
                Ok(Value::text(text.chars().next().map(String::from).unwrap_or_default()))
            }
            (Value::Int(number), to) if to.storage() == DataType::Int8 => {
                object_number(*number, from)
            }
            (Value::Text(text), SystemType::Oid) => match text.trim().parse::<i64>() {
                Ok(number) => object_number(number, &DataType::Unknown),
                Err(_) => Value::read_text(&DataType::System(to), text),
            },
            (Value::Text(text), SystemType::Name) => {
                let end = text.floor_char_boundary(text.len().min(NAME_BYTES_MAX));
                Ok(Value::text(&text[..end]))
            }
            (Value::Array(_), _) => Ok(value.clone()),
            (Value::Text(text), to) => Value::read_text(&DataType::System(to), text),
            (value, to) if to.storage() == DataType::Text => {
                Ok(Value::text(self.text(value, from)?))
            }
            (value, to) => types::cast::cast(value, &to.storage(), true),
        }
    }

    /// `'{…}'` of a type whose values names may stand for.
    fn read_array(&self, text: &str, element: &DataType) -> Result<Value> {
        let texts = Value::read_text(&DataType::Array(Box::new(DataType::Text)), text)?;
        self.cast(&texts, &DataType::Array(Box::new(DataType::Text)), &array_of(element))
    }

    /// A value as PostgreSQL writes it.
    ///
    /// # Errors
    /// 54000 for one that is too long: what is nested is quoted once more at each level.
    pub fn text(&self, value: &Value, data_type: &DataType) -> Result<String> {
        match (value, data_type) {
            (Value::Int(number), DataType::System(system)) if system.is_object() => {
                Ok(self.name(*number, *system))
            }
            (Value::Array(elements), DataType::Array(element)) => {
                let text = |element_value: &Value| match element_value {
                    Value::Null => Ok(Value::Null),
                    value => self.text(value, element).map(Value::text),
                };
                let texts = elements.iter().map(text).collect::<Result<Vec<Value>>>()?;
                Value::from(texts).made_text(&DataType::Array(Box::new(DataType::Text)))
            }
            (Value::Bool(truth), _) => Ok(truth.to_string()),
            (value, data_type) => value.made_text(data_type),
        }
    }

    /// Puts beside the numbers in a value the names that a client is shown of objects.
    ///
    /// # Errors
    /// 54000 for a value whose text is too long.
    pub fn name_objects(&self, value: &mut Value, data_type: &DataType) -> Result<()> {
        match data_type {
            DataType::System(system) if system.is_object() && !value.is_null() => {
                let name = Value::text(self.text(value, data_type)?);
                *value = Value::array([std::mem::take(value), name]);
            }
            DataType::Array(element) if is_named(element) => {
                if let Some(elements) = value.as_array() {
                    let mut elements = elements.to_vec();
                    elements.iter_mut().try_for_each(|value| self.name_objects(value, element))?;
                    *value = Value::from(elements);
                    // Each level is quoted when it is shown.
                    check_text_bytes(value.made_text(data_type)?.len())?;
                }
            }
            DataType::Record(fields) => {
                if let Some(values) = value.as_array() {
                    let mut values = values.to_vec();
                    for (value, field) in values.iter_mut().zip(fields.iter()) {
                        self.name_objects(value, &field.data_type)?;
                    }
                    *value = Value::from(values);
                    check_text_bytes(value.made_text(data_type)?.len())?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What an object is called; its number if there is none.
    fn name(&self, number: i64, system: SystemType) -> String {
        let oid = u32::try_from(number).unwrap_or(0);
        let names = self.world.names();
        let name = match system {
            SystemType::Regclass => names.relations.get(&oid).map(|(schema, name)| {
                let quoted = describe::quoted(name);
                match self.world.relation_oid(None, name) == Some(oid) {
                    true => quoted,
                    false => format!("{}.{quoted}", describe::quoted(schema)),
                }
            }),
            SystemType::Regtype => {
                names.types.get(&oid).map(|_| describe::format_type(self.world, oid, -1))
            }
            SystemType::Regproc | SystemType::Regprocedure => {
                names.routines.get(&oid).map(|name| match system {
                    SystemType::Regproc => describe::quoted(name),
                    _ => {
                        format!("{}({})", describe::quoted(name), describe::types(self.world, name))
                    }
                })
            }
            SystemType::Regnamespace => {
                let schemas = self.world.namespaces();
                let found = schemas.into_iter().find(|(number, _)| *number == oid);
                found.map(|(_, name)| describe::quoted(name))
            }
            SystemType::Regrole if oid == oid::OWNER => Some("tally".to_owned()),
            _ => None,
        };
        match (name, oid) {
            (Some(name), _) => name,
            (None, 0) => "-".to_owned(),
            (None, oid) => oid.to_string(),
        }
    }

    /// The number of what a text names.
    fn object(&self, text: &str, system: SystemType) -> Result<Value> {
        let text = text.trim();
        if text == "-" {
            return Ok(Value::Int(0));
        }
        if let Ok(number) = text.parse::<u32>() {
            return Ok(Value::Int(number.into()));
        }
        let found = self.find(text, system);
        found.map(|oid| Value::Int(oid.into())).ok_or_else(|| missing(text, system))
    }

    pub fn find(&self, text: &str, system: SystemType) -> Option<u32> {
        let parts = identifier_parts(text);
        let (name, schema) = (parts.last()?.as_str(), parts.iter().rev().nth(1));
        let names = self.world.names();
        let by_name = |map: &std::collections::HashMap<u32, String>, name: &str| {
            map.iter().filter(|(_, known)| *known == name).map(|(oid, _)| *oid).min()
        };
        match system {
            SystemType::Regclass => self.world.relation_oid(schema.map(String::as_str), name),
            SystemType::Regtype => {
                let (bare, is_array) = match name.strip_suffix("[]") {
                    Some(bare) => (bare, true),
                    None => (name, false),
                };
                if let Some(of) = self.world.find_type(schema.map(String::as_str), bare) {
                    return Some(if is_array { of.array_oid() } else { of.oid });
                }
                let internal = by_name(&names.types, name);
                internal.or_else(|| DataType::from_sql_name(text).ok().map(|t| t.oid()))
            }
            SystemType::Regproc | SystemType::Regprocedure => {
                by_name(&names.routines, name.split('(').next().unwrap_or(name))
            }
            SystemType::Regnamespace => {
                let schemas = self.world.namespaces();
                schemas.into_iter().find(|schema| schema.1 == name).map(|schema| schema.0)
            }
            SystemType::Regrole => (name == "tally").then_some(oid::OWNER),
            _ => None,
        }
    }
}

/// The type that a text names.
pub fn type_named(catalog: &Catalog, data_type: &ast::DataType) -> Result<DataType> {
    let text = data_type.to_string().to_ascii_lowercase().replace('"', "");
    let (name, dimensions) = match text.trim_end_matches("[]") {
        name if name.len() < text.len() => (name, 1),
        name => (name, 0),
    };
    let qualified = name.starts_with("pg_catalog.") || data_type.to_string().contains('"');
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let name = name.strip_prefix("information_schema.").unwrap_or(name);
    let scalar = match name {
        "char" if qualified => Some(DataType::System(SystemType::Char)),
        "sql_identifier" => Some(DataType::System(SystemType::Name)),
        "character_data" | "yes_or_no" => Some(DataType::Varchar(None)),
        "cardinal_number" => Some(DataType::Int4),
        "bpchar" => Some(DataType::Text),
        name => internal_type(name),
    };
    let scalar = match scalar {
        Some(scalar) => scalar,
        None => match DataType::from_sql_name(name) {
            Ok(known) => known,
            Err(_) => return catalog.data_type(data_type),
        },
    };
    Ok(match dimensions {
        0 => scalar,
        _ => DataType::Array(Box::new(scalar)),
    })
}
/// Whether values of it are shown as something else than they are.
pub fn is_named(data_type: &DataType) -> bool {
    match data_type {
        DataType::System(system) => system.is_object(),
        DataType::Record(_) => true,
        _ => false,
    }
}

/// What does not fit into a name is cut off.
const NAME_BYTES_MAX: usize = 63;

/// Numbers of objects have no sign, and those of 32 bits are read without theirs.
fn object_number(number: i64, from: &DataType) -> Result<Value> {
    let unsigned = match from {
        DataType::Int8 => u32::try_from(number).ok(),
        _ => u32::try_from(number).or_else(|_| i32::try_from(number).map(|n| n as u32)).ok(),
    };
    unsigned
        .map(Value::from)
        .ok_or_else(|| Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range"))
}

fn array_of(element: &DataType) -> DataType {
    DataType::Array(Box::new(element.clone()))
}

/// The parts of a qualified name in a text: folded unless quoted.
pub fn identifier_parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let last = parts.len() - 1;
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                parts[last].push('"');
            }
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            c if quoted => parts[last].push(c),
            c => parts[last].push(c.to_ascii_lowercase()),
        }
    }
    parts
}

fn missing(text: &str, system: SystemType) -> Error {
    let (code, what) = match system {
        SystemType::Regclass => (SqlState::UNDEFINED_TABLE, "relation"),
        SystemType::Regtype => (SqlState::UNDEFINED_OBJECT, "type"),
        SystemType::Regnamespace => (SqlState::INVALID_SCHEMA_NAME, "schema"),
        SystemType::Regrole => (SqlState::UNDEFINED_OBJECT, "role"),
        _ => (SqlState::UNDEFINED_FUNCTION, "function"),
    };
    Error::new(code, format!("{what} \"{text}\" does not exist"))
}
