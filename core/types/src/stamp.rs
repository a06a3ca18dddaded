//! When a row changed: the height of a block and the position of a transaction in its serial
//! order.

/// Number of a block in its ledger; genesis is block 0, the first user block is 1.
pub type Height = u64;

/// Index of a transaction in its block.
pub type Position = u32;

/// Where a transaction was ordered, its address for receipts: the block, and the index among the
/// block's own envelopes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Origin {
    pub height: Height,
    pub index: u32,
}

/// The last change of a record.
///
/// ```text
/// 63                             24 23                    0
/// [          height: 40            |     position: 24     ]
/// ```
///
/// Stamps are ordered as changes are: first by height, then by position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    pub const POSITION_BITS: u32 = 24;
    /// Largest number of transactions in a block.
    pub const POSITIONS_MAX: u32 = (1 << Self::POSITION_BITS) - 1;
    pub const HEIGHT_MAX: Height = (1 << 40) - 1;

    #[inline]
    pub const fn new(height: Height, position: Position) -> Self {
        assert!(height <= Self::HEIGHT_MAX && position <= Self::POSITIONS_MAX);
        Stamp((height << Self::POSITION_BITS) | position as u64)
    }

    #[inline]
    pub const fn height(self) -> Height {
        self.0 >> Self::POSITION_BITS
    }

    #[inline]
    pub const fn position(self) -> Position {
        (self.0 & Self::POSITIONS_MAX as u64) as Position
    }

    /// Key of a row in a table without a primary key: the `ordinal`-th that the transaction
    /// inserts. Height, position and ordinal, big-endian, so that such rows lie in the order in
    /// which they came.
    pub fn row_id(self, ordinal: u32) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.height().to_be_bytes());
        id[8..12].copy_from_slice(&self.position().to_be_bytes());
        id[12..].copy_from_slice(&ordinal.to_be_bytes());
        id
    }
}
