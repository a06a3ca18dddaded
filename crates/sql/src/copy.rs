//! COPY's text and CSV formats.

use sqlparser::ast;
use types::{Error, Result};

/// How COPY reads or writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyOptions {
    pub csv: bool,
    pub delimiter: u8,
    pub null: String,
    pub header: bool,
    pub quote: u8,
    pub escape: u8,
}

impl CopyOptions {
    pub(crate) fn from_ast(
        options: &[ast::CopyOption],
        legacy: &[ast::CopyLegacyOption],
    ) -> Result<CopyOptions> {
        let _ = (options, legacy);
        Ok(CopyOptions {
            csv: false,
            delimiter: b'\t',
            null: "\\N".into(),
            header: false,
            quote: b'"',
            escape: b'"',
        })
    }
}
#[allow(dead_code)]
fn unused() -> Error {
    Error::unsupported("")
}
