//! How long a value may be that is made of others.

use crate::error::{Error, Result, SqlState};

/// What a replica is willing to make of a few bytes of input.
const MADE_BYTES_MAX: usize = 64 << 20;

/// # Errors
/// 54000 for a value that is too long to be made: one that is doubled again and again would ask for
/// all memory.
pub fn check_made_bytes(bytes: usize) -> Result<()> {
    match bytes <= MADE_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
            .with_detail(format!("A value of {bytes} bytes; {MADE_BYTES_MAX} can be made."))),
    }
}
