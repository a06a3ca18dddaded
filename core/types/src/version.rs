//! The version of PostgreSQL that clients are told, wherever they ask.
//!
//! Drivers and tools choose their queries of the catalogs by it. `version()` can stand in a
//! statement that writes, so what it says is in ledgers: another version takes another executor.

/// `server_version`, and what `version()` names.
pub const SERVER_VERSION: &str = "15.18";

/// `server_version_num`.
pub const SERVER_VERSION_NUM: &str = "150018";
