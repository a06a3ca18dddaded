//! Strings of an image, as Arrow's views: inline up to twelve bytes, else length, prefix, buffer
//! and offset.
//!
//! ```text
//! views     [len 5 |a d a m s       ] [len 40|prefix|buffer 1|offset 0 ] [ ... ]  one for each row
//! buffers   [ of an older image, which others may read ] [ tail: grows after what is there ]
//! ```
//!
//! A string that a row has no more stays in its buffer until the dead ones are as many as the
//! living, or the buffers too many; then the living go into one.
//!
//! *Cost.* Arrow's own constructor looks at every string of an array, each time that one is made.
//! Here a string is looked at once, when it comes: that is the argument for the one `unsafe` block.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use storage::GROUP_ROWS;
use types::{Error, Result, SqlState};

use crate::dirty::RowSet;
use crate::kind::Kind;

/// Buffers of long strings that an image may have, beside those that are full; with more their live
/// strings go into one.
const BUFFERS_MAX: usize = 8;

/// Bytes of long strings that no row has any more, beyond as many as rows have.
const DEAD_BYTES_MAX: usize = 16 << 10;

/// A buffer of so many is not added to.
const TAIL_BYTES_MAX: usize = 64 << 20;

/// Long strings of a group, which are in memory at once whatever the limit of images.
const BYTES_MAX: usize = 4 << 30;

/// Where a string may lie in its buffer, as Arrow says.
const OFFSET_MAX: usize = i32::MAX as usize;

/// Longest string that a view holds itself.
const INLINE_BYTES: usize = 12;

/// The strings of a column of a group while its image is made.
pub(crate) struct Views {
    kind: Kind,
    views: Vec<u128>,
    /// Of the image that this one follows, which others may have, too.
    buffers: Vec<Buffer>,
    /// The last buffer: the long strings that are new in this one, after older ones where none
    /// else has them.
    tail: Vec<u8>,
    /// The tail begins with older ones.
    is_tail_older: bool,
    /// Strings were appended.
    has_grown: bool,
}

impl Views {
    /// No string in any row.
    pub(crate) fn empty(kind: Kind) -> Views {
        Views { views: vec![0; GROUP_ROWS], ..Views::none(kind) }
    }

    /// Without rows.
    fn none(kind: Kind) -> Views {
        let (buffers, tail) = (Vec::new(), Vec::new());
        Views { kind, views: Vec::new(), buffers, tail, is_tail_older: false, has_grown: false }
    }

    /// Those of an image of that kind.
    pub(crate) fn of(kind: Kind, views: Vec<u128>, mut buffers: Vec<Buffer>) -> Views {
        let tail = match buffers.pop().map(Buffer::into_vec) {
            Some(Ok(own)) => own,
            Some(Err(shared)) => {
                buffers.push(shared);
                Vec::new()
            }
            None => Vec::new(),
        };
        let is_tail_older = !tail.is_empty();
        Views { kind, views, buffers, tail, is_tail_older, has_grown: false }
    }

    /// What a row has, or had until now if it `was_valid`.
    ///
    /// # Errors
    /// The long strings of a group are too large together. Bytes of a text are not UTF-8.
    pub(crate) fn put(&mut self, row: usize, bytes: &[u8], was_valid: bool) -> Result<()> {
        if was_valid && self.has(row, bytes) {
            return Ok(());
        }
        if self.kind != Kind::Bytes && std::str::from_utf8(bytes).is_err() {
            return Err(Error::new(SqlState::DATA_CORRUPTED, "a stored text is not UTF-8"));
        }
        let mut view = [0u8; 16];
        view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        if bytes.len() <= INLINE_BYTES {
            view[4..4 + bytes.len()].copy_from_slice(bytes);
        } else {
            let (buffer, offset) = self.append(bytes)?;
            view[4..8].copy_from_slice(&bytes[..4]);
            view[8..12].copy_from_slice(&buffer.to_le_bytes());
            view[12..].copy_from_slice(&offset.to_le_bytes());
        }
        self.views[row] = u128::from_le_bytes(view);
        Ok(())
    }

    /// Puts a long string after the others; returns its buffer and where it begins there.
    fn append(&mut self, bytes: &[u8]) -> Result<(u32, u32)> {
        if self.tail.len() > TAIL_BYTES_MAX {
            self.buffers.push(Buffer::from_vec(std::mem::take(&mut self.tail)));
            self.is_tail_older = false;
            if self.bytes() > BYTES_MAX {
                return Err(too_large());
            }
        }
        let offset = self.tail.len();
        if bytes.len() > OFFSET_MAX - offset {
            return Err(too_large());
        }
        self.tail.extend_from_slice(bytes);
        self.has_grown = true;
        Ok((self.buffers.len() as u32, offset as u32))
    }

    /// Of long strings, dead ones included.
    fn bytes(&self) -> usize {
        self.buffers.iter().map(Buffer::len).sum::<usize>() + self.tail.len()
    }

    /// Whether a row that has a string has this one.
    fn has(&self, row: usize, bytes: &[u8]) -> bool {
        let view = self.views[row];
        match long(view) {
            None => view.to_le_bytes()[4..4 + view as u32 as usize] == *bytes,
            Some(Long { bytes: length, buffer, offset }) => {
                let from: &[u8] = self.buffers.get(buffer).map_or(&self.tail, |all| all.as_slice());
                length == bytes.len() && from[offset..offset + length] == *bytes
            }
        }
    }

    pub(crate) fn finish(mut self, valid: &RowSet, nulls: Option<NullBuffer>) -> ArrayRef {
        if self.has_grown
            && self.is_wasteful(valid)
            && let Ok(compact) = self.compact(valid)
        {
            self = compact;
        }
        if !self.tail.is_empty() {
            if !self.is_tail_older {
                self.tail.shrink_to_fit();
            }
            self.buffers.push(Buffer::from_vec(self.tail));
        }
        let views = ScalarBuffer::from(self.views);
        unchecked::array(self.kind, views, self.buffers, nulls)
    }

    fn is_wasteful(&self, valid: &RowSet) -> bool {
        let all = self.bytes();
        let buffers_max = BUFFERS_MAX + all / TAIL_BYTES_MAX;
        if self.buffers.len() < buffers_max && all <= DEAD_BYTES_MAX {
            return false;
        }
        let long = valid.iter().filter_map(|row| long(self.views[row]));
        let live: usize = long.map(|long| long.bytes).sum();
        self.buffers.len() >= buffers_max || all > 2 * live + DEAD_BYTES_MAX
    }

    /// With the long strings that rows have, and without the others.
    fn compact(&self, valid: &RowSet) -> Result<Views> {
        let mut compact = Views { views: self.views.clone(), ..Views::none(self.kind) };
        for row in 0..GROUP_ROWS {
            let view = &mut compact.views[row];
            let Some(Long { bytes, buffer, offset }) = long(*view) else { continue };
            let kept = std::mem::take(view) & u128::from(u64::MAX);
            if !valid.contains(row) {
                continue;
            }
            let from: &[u8] = self.buffers.get(buffer).map_or(&self.tail, |all| all.as_slice());
            let (buffer, offset) = compact.append(&from[offset..offset + bytes])?;
            compact.views[row] = kept | u128::from(buffer) << 64 | u128::from(offset) << 96;
        }
        Ok(compact)
    }
}

/// Where a string lies that a view does not hold itself.
struct Long {
    bytes: usize,
    buffer: usize,
    offset: usize,
}

fn long(view: u128) -> Option<Long> {
    let part = |bit: u32| (view >> bit) as u32 as usize;
    let bytes = part(0);
    (bytes > INLINE_BYTES).then(|| Long { bytes, buffer: part(64), offset: part(96) })
}

#[cold]
fn too_large() -> Error {
    let message = format!("{GROUP_ROWS} neighbouring values are larger than 4 GiB");
    let detail = "A query over columns keeps so many rows of a column in one place.";
    let hint = "Leave the column out, or select single rows by key.";
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_detail(detail).with_hint(hint)
}

#[allow(unsafe_code)]
mod unchecked {
    //! Arrays of strings that were looked at before.

    use arrow_array::{BinaryViewArray, StringViewArray};

    use super::*;

    /// The array of an image. What [`Views::put`](super::Views::put) has checked is not checked
    /// again.
    pub(super) fn array(
        kind: Kind,
        views: ScalarBuffer<u128>,
        buffers: Vec<Buffer>,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        if cfg!(debug_assertions) {
            check(kind, &views, &buffers, nulls.as_ref());
        }
        // SAFETY: every view is one that `put` has written, of bytes that it found to be UTF-8
        // unless the kind is `Bytes`, or that `compact` has moved with its bytes, or zero, which is
        // the empty string. Its buffer and offset are where the bytes were appended to the tail;
        // tails become buffers in their place, and buffers are dropped only by `compact`, which
        // gives every view a new place or zero. A buffer is written only by appending to a
        // tail that no other has. Nulls are as long as views: both have a group's rows. Builds
        // with debug assertions, in which all tests run, let Arrow check all of this before.
        unsafe {
            match kind {
                Kind::Bytes => Arc::new(BinaryViewArray::new_unchecked(views, buffers, nulls)),
                _ => Arc::new(StringViewArray::new_unchecked(views, buffers, nulls)),
            }
        }
    }
    /// Arrow's own constructors look at every string, and panic.
    fn check(
        kind: Kind,
        views: &ScalarBuffer<u128>,
        buffers: &[Buffer],
        nulls: Option<&NullBuffer>,
    ) {
        let (views, buffers, nulls) = (views.clone(), buffers.to_vec(), nulls.cloned());
        match kind {
            Kind::Bytes => drop(BinaryViewArray::new(views, buffers, nulls)),
            _ => drop(StringViewArray::new(views, buffers, nulls)),
        }
    }
}
