//! The rows of `tally_memory`: bytes by part of the server, and by table.

use std::fmt;
use std::sync::Arc;

use storage::{Store, TableUsage};

/// Bytes of one part of the server; of one table's, if it has a name.
pub struct Used {
    pub part: &'static str,
    pub name: Option<String>,
    pub bytes: u64,
}

/// Bytes that other parts of the server hold, by part.
pub type OtherMemory = Box<dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync>;

/// Where to ask.
#[derive(Clone)]
pub struct Memory {
    store: Arc<Store>,
    others: Arc<OtherMemory>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

impl Memory {
    pub fn new(store: Arc<Store>, others: OtherMemory) -> Memory {
        Memory { store, others: Arc::new(others) }
    }

    /// Parts of tables, then those of all tables, then the others.
    pub fn used(&self) -> Vec<Used> {
        let whole = |(part, bytes)| Used { part, name: None, bytes };
        let tables = self.store.tables();
        let of_tables = tables.iter().flat_map(|table| {
            let name = &table.schema().name;
            parts_of(&table.usage()).map(|(part, bytes)| Used {
                part,
                name: Some(name.clone()),
                bytes,
            })
        });
        let usage = self.store.usage();
        let of_all = [
            ("old versions", usage.undo_bytes),
            ("free for old versions", usage.undo_free_bytes),
            ("old index entries", usage.parked_bytes),
            ("dropped tables", usage.gone_bytes),
        ];
        of_tables.chain(of_all.map(whole)).chain((self.others)().into_iter().map(whole)).collect()
    }
}

fn parts_of(usage: &TableUsage) -> [(&'static str, u64); 4] {
    [
        ("rows", usage.row_bytes - usage.string_free_bytes),
        ("free for strings", usage.string_free_bytes),
        ("key hashes", usage.hash_bytes),
        ("ordered indexes", usage.ordered_bytes),
    ]
}
