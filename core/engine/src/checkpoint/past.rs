//! What rows were in the states before a checkpoint's, for protocols that read those.
//!
//! ```text
//!   from ─────── … ─────── H │ H+1 …        from: the oldest snapshot that block H+1 may read
//!   └ for every row that one of the blocks after it has changed: its images, newest first
//! ```
//!
//! *Taking.* A walk over one word of each record finds the rows; the snapshots are pinned by the
//! boundary, so their versions are there. Groups are cut as those of the state are. Nothing of it
//! is taken from the checkpoint before: in a few blocks none of it is read any more.
//!
//! *Loading.* The images become versions beneath the rows, as if the blocks had been executed here,
//! and the replica's [`History`](concurrency::History) holds them until they are out of its
//! protocol's reach.
//!
//! *Cost.* In proportion to what those blocks changed, and for taking a look at each key there is,
//! some 40 nanoseconds. Of a million rows of 100 bytes, where the blocks changed one in a hundred:
//! 45 ms and 1.0 MB more, and for loading no more than can be measured. Under a protocol that reads
//! the newest snapshot only: nothing, and not a byte.

use ledger::checkpoint::{TableRoot, begins_group};
use ledger::merkle::{MerkleBuilder, leaf_hash};
use storage::{PastImage, Snapshot, Table};
use types::{Error, Height, Result, SqlState, Stamp};

/// In the place of an image's length: the row was deleted.
const DELETED: u32 = u32::MAX;

/// A stamp and a length.
const IMAGE_BYTES_MIN: usize = 12;

/// Neighbouring rows that have older images, encoded.
#[derive(Default)]
pub struct PastGroup {
    pub first: Vec<u8>,
    pub last: Vec<u8>,
    pub rows: u32,
    pub bytes: Vec<u8>,
}

impl PastGroup {
    fn push(&mut self, key: &[u8], images: &[PastImage]) -> Result<()> {
        if self.rows == 0 {
            key.clone_into(&mut self.first);
            self.bytes.clear();
        }
        key.clone_into(&mut self.last);
        self.rows += 1;
        self.bytes.extend_from_slice(&(images.len() as u32).to_be_bytes());
        for PastImage { stamp, image } in images {
            self.bytes.extend_from_slice(&stamp.0.to_be_bytes());
            let length = image.as_ref().map_or(Ok(DELETED), |image| image.len().try_into());
            let length = length.ok().filter(|length| image.is_none() || *length < DELETED);
            let length = length.ok_or_else(|| internal("a row of more than four gigabytes"))?;
            self.bytes.extend_from_slice(&length.to_be_bytes());
            self.bytes.extend(image.iter().flatten());
        }
        Ok(())
    }
}

/// Calls `visit` for the groups of a table's rows that some height from `from` on shows otherwise
/// than `at`, in key order.
pub fn each_past_group(
    table: &Table,
    from: Height,
    at: Height,
    visit: &mut dyn FnMut(&PastGroup) -> Result<()>,
) -> Result<()> {
    let mut group = PastGroup::default();
    table.each_past(from, at, &mut |key, images| {
        if group.rows > 0 && begins_group(key, group.rows) {
            visit(&group)?;
            group.rows = 0;
        }
        group.push(key, images)
    })?;
    if group.rows == 0 { Ok(()) } else { visit(&group) }
}

/// The part of a digest of a state whose past begins at `from`, if it has one.
pub fn roots(
    snapshot: &Snapshot,
    from: Option<Height>,
) -> Result<Option<(Height, Vec<TableRoot>)>> {
    let Some(from) = from else { return Ok(None) };
    let mut tables = Vec::new();
    for table in snapshot.catalog().tables() {
        let (mut tree, mut rows) = (MerkleBuilder::new(), 0);
        each_past_group(table, from, snapshot.height(), &mut |group| {
            tree.push_hash(leaf_hash(&group.bytes));
            rows += u64::from(group.rows);
            Ok(())
        })?;
        if rows > 0 {
            tables.push((table.id(), rows, tree.root()));
        }
    }
    Ok(Some((from, tables)))
}

/// The images of one row, off the front of the bytes; `None`: they are cut.
pub fn take_images(bytes: &mut &[u8]) -> Option<Vec<PastImage>> {
    let (count, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    let count = u32::from_be_bytes(*count) as usize;
    if rest.len() / IMAGE_BYTES_MIN < count {
        return None;
    }
    (0..count).map(|_| take_image(bytes)).collect()
}

fn take_image(bytes: &mut &[u8]) -> Option<PastImage> {
    let (stamp, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let stamp = Stamp(u64::from_be_bytes(*stamp));
    let (image, rest) = match u32::from_be_bytes(*length) {
        DELETED => (None, rest),
        length => {
            let (image, rest) = rest.split_at_checked(length as usize)?;
            (Some(image.to_vec()), rest)
        }
    };
    *bytes = rest;
    Some(PastImage { stamp, image })
}

pub fn internal(what: &str) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, what)
}
