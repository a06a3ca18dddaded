//! Strict reading of canonical bytes: big-endian numbers, length-prefixed strings, nothing left
//! over.
//!
//! Every length is compared with what is really there before anything is allocated, so hostile
//! bytes cost no more than their own size.

use std::ops::Range;

use types::{Error, Result, SqlState};

pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// What is being read, for the error text.
    what: &'static str,
}

impl<'a> Cursor<'a> {
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0, what }
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub fn invalid(&self, detail: impl Into<String>) -> Error {
        Error::new(SqlState::DATA_CORRUPTED, format!("invalid {}", self.what)).with_detail(detail)
    }

    fn range(&mut self, length: usize) -> Result<Range<usize>> {
        if length > self.remaining() {
            return Err(self.invalid(format!(
                "{length} bytes expected at offset {}, {} left",
                self.at,
                self.remaining()
            )));
        }
        let range = self.at..self.at + length;
        self.at = range.end;
        Ok(range)
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let range = self.range(length)?;
        Ok(&self.bytes[range])
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Where a `u32` length and that many bytes lie, so that a caller can slice a shared buffer.
    pub fn prefixed_range(&mut self) -> Result<Range<usize>> {
        let length = self.u32()?;
        self.range(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// A number of elements that take at least `bytes_min` each.
    pub fn count(&mut self, bytes_min: usize) -> Result<usize> {
        let count = self.u32()?;
        self.fits(count, bytes_min)
    }

    /// The number, if what is left has room for so many elements.
    pub fn fits(&self, count: u32, bytes_min: usize) -> Result<usize> {
        let (count, left) = (count as usize, self.remaining());
        if left / bytes_min < count {
            return Err(self.invalid(format!("{count} elements do not fit {left} bytes")));
        }
        Ok(count)
    }

    pub fn prefixed(&mut self) -> Result<&'a [u8]> {
        let range = self.prefixed_range()?;
        Ok(&self.bytes[range])
    }

    pub fn prefixed_text(&mut self) -> Result<String> {
        let bytes = self.prefixed()?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.invalid("text is not UTF-8"))?;
        Ok(text.to_owned())
    }

    pub fn finish(self) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.invalid(format!("{left} bytes left over at offset {}", self.at))),
        }
    }
}

/// Appends a `u32` length and the bytes. Longer strings cannot be told from shorter ones in 32
/// bits, so they are an error and never a truncation.
pub(crate) fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| {
        Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "value is longer than 4 GiB")
            .with_detail(format!("It has {} bytes.", bytes.len()))
    })?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}
