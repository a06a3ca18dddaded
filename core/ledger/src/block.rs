//! A block whole: its batch and the result of that, for readers that want both.

use types::Height;

use crate::batch::Batch;
use crate::hash::Hash;
use crate::result::BlockResult;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    pub batch: Batch,
    pub result: BlockResult,
}

impl Block {
    pub fn height(&self) -> Height {
        self.batch.height()
    }

    /// The result hash, the head of the ledger after this block.
    pub fn hash(&self) -> Hash {
        self.result.hash()
    }
}
