//! EXPLAIN: a program for people, with the names of this catalog.

use procedure::Procedure;
use procedure::explain::{NameResolver, explain};
use types::{TableId, TableSchema};

use crate::catalog::Catalog;

impl NameResolver for Catalog {
    fn schema(&self, table: TableId) -> Option<&TableSchema> {
        self.table_by_id(table).map(|table| &*table.schema)
    }
}

/// The program, one line of text each.
pub fn lines(catalog: &Catalog, procedure: &Procedure) -> Vec<String> {
    explain(procedure, catalog).lines().map(str::to_owned).collect()
}
