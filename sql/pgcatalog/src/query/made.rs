//! Values that are made piece by piece, and how long they may become.

use types::{Error, Result, SqlState, Value};

/// What a value may take that a function of catalogs makes. Nested calls that double what they are
/// given reach it soon.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// # Errors
/// 54000 for a value that is too long to be made.
pub fn check_text_bytes(bytes: usize) -> Result<()> {
    match bytes <= TEXT_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
            .with_detail(format!(
                "A value of {bytes} bytes; a query over catalogs makes {TEXT_BYTES_MAX}."
            ))),
    }
}

/// A text that is made piece by piece, and may not become too long.
#[derive(Default)]
pub struct Made(String);

impl Made {
    pub fn push(&mut self, piece: &str) -> Result<()> {
        check_text_bytes(self.0.len() + piece.len())?;
        self.0.push_str(piece);
        Ok(())
    }

    pub fn into_value(self) -> Value {
        Value::text(self.0)
    }
}

pub fn internal(what: &str) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, what)
}
