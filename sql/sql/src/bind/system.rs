//! System catalogs in a query: what the binder asks of the side that knows them, and which types
//! are theirs alone.

use procedure::Column;
use sqlparser::ast;
use types::{DataType, Result, SystemType, Value};

/// Who knows system catalogs.
pub trait System {
    /// The relation of that name; without a schema, as PostgreSQL looks for it first.
    fn relation(&self, schema: Option<&str>, name: &str) -> Option<SystemRelation>;

    /// # Errors
    /// There is no type of that name.
    fn data_type(&self, name: &ast::DataType) -> Result<DataType>;

    /// Whether a call means a function of system catalogs, whatever others have its name.
    fn is_own(&self, name: &str, arguments: &[DataType]) -> bool;

    fn function(&self, name: &str, arguments: &[DataType]) -> Option<SystemCall>;

    /// A function that gives rows, of several columns as one value if `as_record` says so.
    fn row_function(
        &self,
        name: &str,
        arguments: &[DataType],
        as_record: bool,
    ) -> Option<SystemRows>;

    fn gives_rows(&self, name: &str) -> bool;

    /// The number of the call that converts values.
    fn conversion(&self, from: &DataType, to: &DataType) -> u16;

    /// # Errors
    /// The value names nothing that there is, or is none of the type.
    fn convert(&self, value: &Value, from: &DataType, to: &DataType) -> Result<Value>;
}

/// A system table or view.
pub struct SystemRelation {
    pub number: u16,
    pub schema: &'static str,
    pub columns: Vec<SystemColumn>,
    /// The columns of its key.
    pub key: Option<u16>,
}

pub struct SystemColumn {
    pub name: &'static str,
    pub data_type: DataType,
    /// Every table has it, and `*` leaves it out.
    pub is_beside: bool,
}

/// A function of one row, as arguments of such types call it.
pub struct SystemCall {
    pub number: u16,
    /// What its arguments are converted to.
    pub takes: Vec<DataType>,
    pub gives: DataType,
}

/// A function that gives rows, as arguments of such types call it.
pub struct SystemRows {
    pub number: u16,
    pub takes: Vec<DataType>,
    pub columns: Vec<Column>,
}

/// Whether values of it are what only system catalogs have.
pub(super) fn is_of_system(data_type: &DataType) -> bool {
    match data_type {
        DataType::System(_) => true,
        DataType::Array(element) => is_of_system(element),
        _ => false,
    }
}

/// Whether its values are numbers that are shown as names.
fn is_object(data_type: &DataType) -> bool {
    matches!(data_type, DataType::System(system) if system.is_object())
}

/// Whether values of one type are values of the other as they are.
pub(super) fn same_values(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    match (from, to) {
        _ if from == to => true,
        (_, T::Unknown) => true,
        (T::Array(from), T::Array(to)) => same_values(from, to),
        (T::System(SystemType::Oid), to) if is_object(to) => true,
        (from, T::System(SystemType::Oid)) if is_object(from) => true,
        (from, T::System(SystemType::Name)) => {
            matches!(from, T::System(SystemType::Char))
        }
        (_, T::System(SystemType::Char)) => false,
        (from, to) if is_object(to) => is_object(from),
        (T::System(from), T::System(to)) => from.storage() == to.storage(),
        (T::System(from), T::Text | T::Varchar(None)) => from.storage() == T::Text,
        (T::System(from), to) => from.storage() == *to,
        (T::Text | T::Varchar(None), T::System(to)) => to.storage() == T::Text,
        _ => false,
    }
}

/// The type of an array that counts from 0, as one of others.
pub(super) fn as_array(data_type: &DataType) -> DataType {
    match data_type {
        DataType::System(
            system @ (SystemType::Int2Vector | SystemType::OidVector | SystemType::AnyArray),
        ) => system.storage(),
        other => other.clone(),
    }
}

pub(super) fn counts_from_0(data_type: &DataType) -> bool {
    matches!(data_type, DataType::System(SystemType::Int2Vector | SystemType::OidVector))
}
