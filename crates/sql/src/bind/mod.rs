//! Binding: from a syntax tree to a program.

mod aggregates;
mod binder;
mod expression;
mod from;
mod functions;
mod plan;
mod scope;
mod select;

use types::{DataType, Error, Result};

pub use binder::{Binder, Typed, fold};
pub use scope::{Relation, Scope, ScopeColumn, Variable};
pub use select::BoundQuery;

use crate::catalog::Catalog;
use crate::parse::Parsed;
use crate::statement::{Bound, SessionInfo};

pub fn bind(catalog: &Catalog, parsed: &Parsed, parameters: &[Option<DataType>]) -> Result<Bound> {
    bind_in_session(catalog, &SessionInfo::default(), parsed, parameters)
}

pub fn bind_in_session(
    _catalog: &Catalog,
    _session: &SessionInfo,
    parsed: &Parsed,
    _parameters: &[Option<DataType>],
) -> Result<Bound> {
    Err(Error::unsupported(&parsed.text))
}
