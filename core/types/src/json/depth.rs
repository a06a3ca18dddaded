//! How deep JSON may be nested.

use crate::error::{Error, SqlState};

/// How deep arrays and objects may lie in each other.
pub const DEPTH_MAX: usize = 1_000;

pub(super) fn too_deep() -> Error {
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .with_detail(format!("JSON may be nested {DEPTH_MAX} levels deep."))
}
