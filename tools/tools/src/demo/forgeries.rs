//! Receipts that were changed.

use std::path::Path;

use anyhow::Result;

use crate::node_process::{path, run_tally};

/// Flips one bit at a handful of places; each copy must be refused. `trusted`: by what.
pub fn forgeries_are_refused(receipt: &[u8], trusted: [&str; 2], folder: &Path) -> Result<bool> {
    let forged = folder.join("forged-receipt");
    for part in 0..5 {
        let mut bytes = receipt.to_vec();
        let place = (bytes.len() * part / 5 + bytes.len() / 10).min(bytes.len().saturating_sub(1));
        match bytes.get_mut(place) {
            Some(byte) => *byte ^= 1,
            None => return Ok(false),
        }
        std::fs::write(&forged, &bytes)?;
        let [how, hash] = trusted;
        if run_tally(&["receipt", "verify", path(&forged)?, how, hash])?.success {
            return Ok(false);
        }
    }
    Ok(true)
}
