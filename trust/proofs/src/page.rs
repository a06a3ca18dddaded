//! Pages: the rows of a small subtree, as one piece of bytes.
//!
//! ```text
//! bytes  field      for each row, ascending by tree key
//!     1  length k   of the tree key, 1 to 128
//!     k  tree key
//!    32  image      hash of the row's image
//!     8  height     of the block that changed the row last
//! ```

use crate::{Hash, TREE_KEY_BYTES_MAX};

/// A subtree whose rows take at most so many bytes is a page; so is one of a single row.
pub const PAGE_BYTES_MAX: usize = 512;

/// Image and height.
pub const VALUE_BYTES: usize = 40;

/// What a root commits to of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<'a> {
    /// The tree key.
    pub key: &'a [u8],
    /// The hash of the row's image.
    pub image: Hash,
    /// Of the block that changed the row last.
    pub height: u64,
}

/// Hands on the pieces of a row's bytes, in order.
pub fn put_row(row: &Row<'_>, mut put: impl FnMut(&[u8])) {
    put(&[row.key.len() as u8]);
    put(row.key);
    put(&row.image);
    put(&row.height.to_be_bytes());
}

/// The rows of a page; ends before the first bytes that are none.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    rest: &'a [u8],
}

impl<'a> Rows<'a> {
    pub fn of(page: &'a [u8]) -> Self {
        Rows { rest: page }
    }

    /// What was not read. At the end nothing, if the page is one.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        let (length, rest) = self.rest.split_first()?;
        let length = usize::from(*length);
        if !(1..=TREE_KEY_BYTES_MAX).contains(&length) || rest.len() < length + VALUE_BYTES {
            return None;
        }
        let (key, rest) = rest.split_at(length);
        let (image, rest) = rest.split_first_chunk::<32>()?;
        let (height, rest) = rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(Row { key, image: *image, height: u64::from_be_bytes(*height) })
    }
}
