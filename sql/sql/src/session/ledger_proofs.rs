//! The seam to the ledger's files, for proofs: what a session asks of a node, which keeps them.
//!
//! Rows are proven by the engine, which has the state; the way from a block to a signed head, and
//! receipts, follow from files, which are a node's. All of it takes the disk's time.

use ledger::{Anchor, Proof, Receipt, ResultHeader};
use types::{Height, Result};

pub trait LedgerProofs: Send + Sync {
    /// The text of the key that signs heads.
    fn verifier_key(&self) -> String;

    /// The newest head, signed.
    fn signed_head(&self) -> Result<String>;

    fn header(&self, height: Height) -> Result<ResultHeader>;

    /// From a block to the newest signed head.
    fn anchor(&self, height: Height) -> Result<Anchor>;

    /// Of a transaction, by where it was ordered, with the user whose it is; `None`: no user's.
    fn receipt(&self, height: Height, index: u32) -> Result<(Receipt, Option<String>)>;

    /// That the first `new` blocks begin with the first `old` ones.
    fn consistency(&self, old: u64, new: u64) -> Result<Proof>;
}
