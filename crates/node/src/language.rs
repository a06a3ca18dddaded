//! Which language the transactions of a ledger are written in.

use std::sync::Arc;

use concurrency::Work;
use engine::{Language, SchemaChange, Transaction};
use storage::Store;
use types::{Error, Height, Result};

/// The language of a replica over `store`.
pub fn language(_store: &Arc<Store>) -> Arc<dyn Language> {
    Arc::new(NoLanguage)
}

struct NoLanguage;

impl Language for NoLanguage {
    fn compile(&self, _: &Transaction) -> Result<Work> {
        Err(Error::unsupported("SQL"))
    }

    fn schema_version(&self) -> u64 {
        0
    }

    fn publish(&self) {}

    fn apply(&self, _: &str, _: &Arc<Store>, _: Height, _: i64) -> Result<SchemaChange, Error> {
        Err(Error::unsupported("SQL"))
    }
}
