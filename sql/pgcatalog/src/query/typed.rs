//! Bound expressions with their types, and which types meet.

use types::{DataType, Error, Result, SqlState, SystemType, Value};

use super::plan::{Column, Expr};

/// A bound expression, and what its values are.
#[derive(Clone, Debug)]
pub struct Typed {
    pub expr: Expr,
    pub data_type: DataType,
    /// Of a composite value.
    pub fields: &'static [(&'static str, DataType)],
    /// Types of the fields of a row that is spelled out.
    pub items: Vec<DataType>,
}

impl Typed {
    pub fn new(expr: Expr, data_type: DataType) -> Typed {
        Typed { expr, data_type, fields: &[], items: Vec::new() }
    }

    pub fn bool(expr: Expr) -> Typed {
        Typed::new(expr, DataType::Bool)
    }

    /// Text in quotes, or NULL: of the type that its use gives it.
    pub fn literal(value: Value) -> Typed {
        Typed::new(Expr::Value(value), DataType::Unknown)
    }

    pub fn row(items: Vec<Typed>) -> Typed {
        let types = items.iter().map(|item| item.data_type.clone()).collect();
        let items = items.into_iter().map(|item| item.expr).collect();
        let record = DataType::System(SystemType::Record);
        Typed { items: types, ..Typed::new(Expr::Array(items), record) }
    }

    pub fn is_row(&self) -> bool {
        self.data_type == DataType::System(SystemType::Record)
    }
}

/// The type that two branches meet in.
///
/// # Errors
/// 42804 where there is none.
pub fn matched(a: &DataType, b: &DataType) -> Result<DataType> {
    match (a, b) {
        (a, b) if a == b => Ok(a.clone()),
        (DataType::Unknown, other) | (other, DataType::Unknown) => Ok(other.clone()),
        (a, b) => meeting_type(a, b).ok_or_else(|| {
            let message = format!("types {a} and {b} cannot be matched");
            Error::new(SqlState::DATATYPE_MISMATCH, message)
        }),
    }
}

/// Two types' common one: the first, unless its values go into the second's and not back.
pub fn meeting_type(a: &DataType, b: &DataType) -> Option<DataType> {
    match (a, b) {
        (DataType::System(SystemType::Name), b) if b.is_string() => Some(a.clone()),
        (DataType::Text, DataType::System(SystemType::Name)) => Some(DataType::Text),
        (a, DataType::System(SystemType::Name)) if a.is_string() => Some(b.clone()),
        (DataType::Varchar(_), DataType::Text | DataType::Char(_)) => Some(DataType::Varchar(None)),
        // Numbers of objects and integers meet in the former.
        (DataType::System(SystemType::Oid), b) if b.is_integer() => Some(a.clone()),
        (a, DataType::System(SystemType::Oid)) if a.is_integer() => Some(b.clone()),
        (DataType::System(a), DataType::System(b)) if a == b => Some(DataType::System(*a)),
        (a, b) => types::cast::common_type(a, b),
    }
}

impl Column {
    /// What an expression that has its values is.
    pub fn typed(&self, expr: Expr) -> Typed {
        Typed { fields: self.fields, ..Typed::new(expr, self.data_type.clone()) }
    }
}
