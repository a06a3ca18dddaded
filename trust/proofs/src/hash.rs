//! The two hashes of the tree. Each begins with a tag of 16 bytes, as all hashes of the ledger do,
//! so no page passes for a branch, nor either for anything else that is hashed.

use sha2::{Digest, Sha256};

/// A SHA-256 digest.
pub type Hash = [u8; 32];

const TAG_PAGE: &[u8; 16] = b"tally page v1\0\0\0";
const TAG_BRANCH: &[u8; 16] = b"tally branch v1\0";

/// The hash of a page, and of the tree that is one. No bytes: the root of no rows.
pub fn page_hash(page: &[u8]) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(TAG_PAGE);
    hasher.update(page);
    hasher.finalize().into()
}

/// The hash of a branch over those of its sides. Its message of 82 bytes takes two compressions,
/// as 65 bytes would.
pub fn branch_hash(position: u16, left: &Hash, right: &Hash) -> Hash {
    let mut message = [0; 82];
    message[..16].copy_from_slice(TAG_BRANCH);
    message[16..18].copy_from_slice(&position.to_be_bytes());
    message[18..50].copy_from_slice(left);
    message[50..].copy_from_slice(right);
    Sha256::digest(message).into()
}
