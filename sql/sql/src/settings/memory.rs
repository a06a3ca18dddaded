//! What a session may hold in memory, as it has set it.

use super::{
    QUERY_MEMORY, QUERY_MEMORY_BYTES, Settings, TEMPORARY_MEMORY, TEMPORARY_MEMORY_BYTES, memory,
};

impl Settings {
    /// Bytes that a query outside of blocks may hold.
    pub fn query_memory(&self) -> u64 {
        let said = self.changed.get(QUERY_MEMORY);
        said.and_then(|text| memory(text)).unwrap_or(QUERY_MEMORY_BYTES)
    }

    /// Bytes that the temporary tables of the session may take.
    pub fn temporary_memory(&self) -> u64 {
        let said = self.changed.get(TEMPORARY_MEMORY);
        said.and_then(|text| memory(text)).unwrap_or(TEMPORARY_MEMORY_BYTES)
    }
}
