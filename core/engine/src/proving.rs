//! Proofs of rows from a running engine: the newest state that has a root, and images beside it.
//!
//! ```text
//!   session ── errand ──► sequencer, between two blocks: header, tree (a copy costs nothing)
//!      │
//!      └─ until the block is released ─► images, at its height ─► compared with the tree ─► proof
//! ```
//!
//! The tree has hashes, the store has rows, and blocks go on meanwhile. So images are read at the
//! tree's height while that can still be read, else at the newest one; and the proof is checked as
//! its client will check it. Where a row was changed in between it does not hold, and the whole is
//! done again. What leaves here holds, whatever happened.
//!
//! **Bounds**: [`ROWS_MAX`] rows, [`BYTES_MAX`] bytes. A range with more is refused before its
//! proof is made.
//!
//! **Cost**: a look-up and a walk down the tree for a row; for a range a scan of it, and a hash for
//! each row.

use std::ops::{Bound, ControlFlow};
use std::time::Duration;

use ledger::proof::{Refused, Rows};
use ledger::{Anchor, Body, KeyRange, Proof, Trust};
use proofs::{Range, TreeKey};
use replica::ProvableState;
use storage::Table;
use types::{Error, Height, Result, SqlState, TableId};

use crate::live::Engine;

/// Rows of a proof.
pub const ROWS_MAX: usize = 100_000;
/// Of their keys and images.
pub const BYTES_MAX: usize = 8 << 20;

/// So often is a proof made anew whose rows change meanwhile.
const TRIES: usize = 50;
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Keys agree in so many bytes where a bound is cut.
const BOUND_BYTES_MAX: usize = 92;

impl Engine {
    /// All rows of a range of keys as they are now, under the header of the block after which they
    /// were so.
    ///
    /// # Errors
    /// 55000 where headers name no state root; 54000 where there are too many rows.
    pub async fn prove_rows(&self, range: &KeyRange) -> Result<Rows> {
        for _ in 0..TRIES {
            let state = self.provable_state().await?.ok_or_else(|| self.no_root())?;
            while self.head().height < state.header.height {
                if let Some(cause) = self.halt_cause() {
                    return Err(cause.clone());
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            if let Some(rows) = self.rows_of(state, range)? {
                return Ok(rows);
            }
        }
        let what = "the rows change faster than they can be proven";
        Err(Error::new(SqlState::SERIALIZATION_FAILURE, what).with_hint("Ask again."))
    }

    /// `None`: they are others by now.
    fn rows_of(&self, state: ProvableState, range: &KeyRange) -> Result<Option<Rows>> {
        let ProvableState { header, tree } = state;
        let (first, last, extends) = range.bounds();
        let bounds = Range { first: first.as_bytes(), last: last.as_bytes(), extends };
        let (snapshot, at) = match self.store().lease_at(header.height) {
            Some(snapshot) => (snapshot, header.height),
            None => {
                let snapshot = self.newest()?;
                let at = snapshot.height();
                (snapshot, at)
            }
        };
        let rows = match snapshot.table(TableId(range.table)) {
            Some(table) => read_rows(table, at, range, &bounds)?,
            None => Vec::new(),
        };
        snapshot.check()?;
        let state_proof = tree.prove(&bounds);
        let trust = Trust::Head(header.hash());
        let rows = Rows { header, range: range.clone(), state_proof, rows };
        let proof = Proof { body: Body::Rows(Box::new(rows)), anchor: Anchor::None };
        match (proof.verify(&trust), proof.body) {
            (Ok(_), Body::Rows(rows)) => Ok(Some(*rows)),
            (Err(Refused::Rows), _) => Ok(None),
            (Err(why), _) => Err(why.into()),
            (Ok(_), _) => Ok(None),
        }
    }

    fn no_root(&self) -> Error {
        let is_set = self.parameter("state_root").is_ok_and(|value| value == "1");
        let (what, hint) = match is_set {
            true => (
                "the newest block names no state root yet",
                "The parameter ledger.state_root is 1: the next block names one.",
            ),
            false => (
                "the ledger's blocks name no state root, which a proof of rows leads to",
                "SET ledger.state_root = 1",
            ),
        };
        Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what).with_hint(hint)
    }
}

/// Keys and images, in the order of the tree.
fn read_rows(
    table: &Table,
    at: Height,
    range: &KeyRange,
    bounds: &Range<'_>,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut rows: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut bytes = 0;
    let mut put = |key: &[u8], slot| -> Result<()> {
        let mut image = Vec::new();
        if table.append_image(slot, at, &mut image)?.is_none() {
            return Ok(());
        }
        bytes += key.len() + image.len();
        if rows.len() == ROWS_MAX || bytes > BYTES_MAX {
            return Err(too_many());
        }
        rows.push((key.to_vec(), image));
        Ok(())
    };
    if bounds.first == bounds.last && !bounds.extends {
        if let Some(slot) = table.find(&range.first) {
            put(&range.first, slot)?;
        }
        return Ok(rows);
    }
    let cut = |key: &[u8]| key[..key.len().min(BOUND_BYTES_MAX)].to_vec();
    let (low, high) = (cut(&range.first), cut(&range.last));
    let mut result = Ok(());
    let from = Bound::Included(&low[..]);
    table.scan_records(0, from, Bound::Unbounded, false, at, &[], &mut |key, slot, _, _| {
        if bounds.contains(TreeKey::new(range.table, key).as_bytes()) {
            result = put(key, slot);
        } else if cut(key) > high {
            return ControlFlow::Break(());
        }
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    result?;
    rows.sort_by_cached_key(|(key, _)| TreeKey::new(range.table, key));
    debug_assert!(rows.len() <= ROWS_MAX, "a proof is bounded");
    Ok(rows)
}

fn too_many() -> Error {
    let what = "the range has more rows than a proof may show";
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
        .with_detail(format!("It may show {ROWS_MAX} rows of together {BYTES_MAX} bytes."))
        .with_hint("Ask for parts of the range.")
}
