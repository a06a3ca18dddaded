use types::{Error, Result};

use super::{Ddl, StoreChange, Validation};
use crate::catalog::Catalog;

impl Catalog {
    pub fn apply(&self, ddl: &Ddl) -> Result<(Catalog, Vec<StoreChange>, Vec<Validation>)> {
        Err(Error::unsupported(ddl.tag()))
    }
}
