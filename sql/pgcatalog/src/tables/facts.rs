//! The input and output of the functions that fill system tables: [`Facts`] (the catalog and the
//! session) go in, [`Rows`] come out.

use identity::Acl;
use sql::Commented;
use types::{DataType, Error, SqlState, SystemType, Value};

use crate::relation::{Attribute, Relation};
use crate::world::{Row, Session, World};

/// What rows are made of.
pub struct Facts<'a> {
    pub world: &'a World,
    pub session: &'a Session,
}

pub type Fill = fn(&Facts<'_>, &mut Rows<'_>);

/// A table on its way.
pub struct Rows<'a> {
    pub(super) relation: &'a Relation,
    pub(super) rows: Vec<Row>,
    pub(super) error: Option<Error>,
}

impl Rows<'_> {
    /// Adds a row with these columns.
    pub fn row(&mut self, columns: &[(&str, Value)]) {
        let mut row: Row = self.relation.columns.iter().map(none).collect();
        for (name, value) in columns {
            match self.relation.column(name) {
                Some(place) => row[place] = value.clone(),
                None => {
                    let message = format!("{} has no column {name}", self.relation.name);
                    self.error = Some(Error::new(SqlState::INTERNAL_ERROR, message));
                }
            }
        }
        self.rows.push(row);
    }
}

/// What stands where there is nothing to say.
fn none(attribute: &Attribute) -> Value {
    if !attribute.not_null {
        return Value::Null;
    }
    match &attribute.data_type {
        DataType::Bool => Value::Bool(false),
        DataType::Array(_) | DataType::System(SystemType::Int2Vector | SystemType::OidVector) => {
            Value::array([])
        }
        DataType::Float4 | DataType::Float8 => Value::Float(0.0),
        DataType::Int2 | DataType::Int4 | DataType::Int8 => Value::Int(0),
        DataType::System(system) if system.storage() == DataType::Int8 => Value::Int(0),
        _ => Value::text(""),
    }
}

/// The number of an object's owner.
pub(super) fn owner(world: &World, object: &Commented) -> Value {
    oid(world.catalog.owner(object).0)
}

/// What was granted of an object; NULL where it has what a new one has.
pub(super) fn granted(world: &World, object: &Commented) -> Value {
    world.catalog.granted(object).map_or(Value::Null, |acl| shown(world, acl))
}

pub(crate) fn shown(world: &World, acl: &Acl) -> Value {
    let name = |role| sql::names::quoted_if_needed(world.catalog.roles().name(role));
    Value::from(acl.texts(name).into_iter().map(Value::from).collect::<Vec<_>>())
}

/// A number of an object.
pub(super) fn oid(number: u32) -> Value {
    Value::Int(number.into())
}

pub(super) fn ints<T: Into<i64>>(numbers: impl IntoIterator<Item = T>) -> Value {
    Value::from(numbers.into_iter().map(|n| Value::Int(n.into())).collect::<Vec<_>>())
}
