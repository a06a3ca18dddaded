//! What is not there: the gaps between index entries, for protection against phantoms.
//!
//! The thesis leaves ranges out. Here a range read is a read of a *gap*, and a new index entry is a
//! write of every gap that it falls into; each protocol treats them by its own rule for reads and
//! writes, but that entries do not exclude each other.
//!
//! A gap is named by a prefix of keys: a range's is what its two bounds have in common, an absent
//! key's the whole key. Names are hashed to a fixed number of gaps (two names may share one, which
//! costs a needless conflict, never a missed one). Writers must know under which lengths of prefix
//! ranges are looked at: each index remembers the lengths in use in one word, and those are few.
//!
//! ```text
//! range [w=3,d=7,o=0 … w=3,d=7,o=∞]   prefix w=3,d=7   length 16 ─┐
//! new entry w=3,d=7,o=4711     looks up its own prefix of 16 bytes ┴─► the same gap
//! ```
//!
//! **No entry is missed.** A reader first announces the length and marks the gap, then collects
//! entries; a writer first publishes the entry, then reads the lengths and looks at the gaps. One
//! of the two sees the other (Dekker), all in sequentially consistent order.
//!
//! Words of a gap, each used as its protocol likes:
//!
//! ```text
//! readers   MVTO: newest reader's timestamp.  MV2PL: [ scans: 32 | inserts: 32 ] under way.
//!           SSI, SSN: newest commit of a reader
//! pending   MVOCC: inserts that are about to commit
//! insert    snapshot protocols: newest commit that inserted
//! early     SSI, SSN: newest commit that inserted and stands earlier in the serial order
//! ```

use std::hash::Hasher;

use kit::sync::atomic::{AtomicU64, Ordering::SeqCst};
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use types::IndexId;

const GAPS: usize = if cfg!(shuttle) { 4 } else { 4096 };
const LENGTH_MAX: usize = 63;

#[derive(Default)]
pub struct Gap {
    pub readers: AtomicU64,
    pub pending: AtomicU64,
    pub insert: AtomicU64,
    pub early: AtomicU64,
}

/// A gap of some table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GapId(pub u32);

pub struct Gaps {
    gaps: Box<[Gap]>,
    /// Of each index: bit n = a transaction looked under a prefix of n bytes.
    lengths: Box<[AtomicU64]>,
}

/// The gaps that an entry falls into.
pub type Fallen = SmallVec<[GapId; 4]>;

impl Gaps {
    pub fn new(indexes: usize) -> Gaps {
        Gaps {
            gaps: (0..GAPS).map(|_| Gap::default()).collect(),
            lengths: (0..indexes).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn gap(&self, id: GapId) -> &Gap {
        &self.gaps[id.0 as usize]
    }

    fn id(index: IndexId, prefix: &[u8]) -> GapId {
        let mut hasher = FxHasher::default();
        hasher.write_u16(index);
        hasher.write(prefix);
        let hash = hasher.finish();
        GapId(((hash ^ hash >> 32) as usize % GAPS) as u32)
    }

    /// The gap of a prefix, announced.
    pub fn look(&self, index: IndexId, prefix: &[u8]) -> GapId {
        let prefix = &prefix[..prefix.len().min(LENGTH_MAX)];
        let bit = 1 << prefix.len();
        let lengths = &self.lengths[usize::from(index)];
        if lengths.load(SeqCst) & bit == 0 {
            lengths.fetch_or(bit, SeqCst);
        }
        Gaps::id(index, prefix)
    }

    /// The gaps that a published entry falls into.
    pub fn fall(&self, index: IndexId, entry: &[u8], out: &mut Fallen) {
        let mut lengths = self.lengths[usize::from(index)].load(SeqCst);
        while lengths != 0 {
            let length = lengths.trailing_zeros() as usize;
            lengths &= lengths - 1;
            if length <= entry.len() {
                let id = Gaps::id(index, &entry[..length]);
                if !out.contains(&id) {
                    out.push(id);
                }
            }
        }
    }
}
