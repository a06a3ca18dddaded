use types::{DataType, Error, Result};

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
