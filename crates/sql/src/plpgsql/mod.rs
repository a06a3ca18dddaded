//! PL/pgSQL bodies.

use procedure::Procedure;
use types::{Error, Result};

use crate::catalog::Catalog;
use crate::ddl::CreateFunction;

/// Compiles the body of a PL/pgSQL procedure or function.
pub fn compile(_catalog: &Catalog, function: &CreateFunction) -> Result<Procedure> {
    Err(Error::unsupported(format_args!(
        "LANGUAGE plpgsql (in \"{}\")",
        function.name
    )))
}
