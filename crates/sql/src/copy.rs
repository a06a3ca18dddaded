//! COPY's text and CSV formats.

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
