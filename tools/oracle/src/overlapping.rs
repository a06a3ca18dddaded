//! Blocks that overlap: each is prepared on the snapshot before last, while the one before it is
//! not installed yet.
//!
//! A transaction may then *overtake*: take a place in the serial order right before a transaction
//! of the block before. So blocks are not replayed one by one but as one sequence, on plain maps
//! only, and the states are compared at the end:
//!
//! ```text
//!   block 5   a b c        its order, without those that overtake
//!   block 6   d e f        e overtakes c
//!   replay    a b e c d f
//! ```

use std::sync::Arc;

use concurrency::test_mode;
use concurrency::{BlockOutcome, Protocol, Work, WorkerPool};
use types::{Height, Position};

use crate::course::{Overlap, Ran};
use crate::twin::{Item, check_order};
use crate::{Divergence, Twin};

impl Twin {
    /// Run blocks in a row, as far apart as the protocol lets them, and compare.
    pub fn run_all(
        &mut self,
        protocol: &Arc<dyn Protocol>,
        pool: &WorkerPool,
        blocks: Vec<Vec<Arc<Work>>>,
    ) -> Result<Vec<BlockOutcome>, Divergence> {
        match protocol.snapshot_lag() > 1 || protocol.plans_ahead() {
            true => self.run_overlapping(protocol, pool, blocks, Overlap::Before),
            false => blocks.into_iter().map(|block| self.run(protocol, pool, block)).collect(),
        }
    }

    /// Run blocks in a row, each but the first prepared on the snapshot before last, or on none.
    /// Nothing can be run on the twin afterwards.
    pub fn run_overlapping(
        &mut self,
        protocol: &Arc<dyn Protocol>,
        pool: &WorkerPool,
        blocks: Vec<Vec<Arc<Work>>>,
        overlap: Overlap,
    ) -> Result<Vec<BlockOutcome>, Divergence> {
        let items = |block: Vec<Arc<Work>>| block.into_iter().map(Item::from).collect();
        let blocks: Vec<Vec<Item>> = blocks.into_iter().map(items).collect();
        let course = self.take_course(protocol);
        let claimed = {
            let _on = test_mode::enter(self.test_mode);
            course.run_overlapping(pool, blocks, overlap)
        };
        let claimed = claimed.map_err(|(height, what)| Divergence::new(height, what))?;
        for one in &claimed {
            check_order(&**protocol, &one.sealed, one.tasks.len())
                .map_err(|what| Divergence::new(one.block.height, what))?;
        }
        self.height += claimed.len() as Height;
        self.replay_all(&claimed)?;
        Ok(claimed.into_iter().map(|claimed| claimed.sealed).collect())
    }

    fn replay_all(&mut self, claimed: &[Ran<Item>]) -> Result<(), Divergence> {
        for (at, this) in claimed.iter().enumerate() {
            let height = this.block.height;
            let wrong = |what: String| Divergence::new(height, what);
            let reorders_previous = |claimed: &Ran<Item>, tid| {
                let inter_block_reorderings = &claimed.sealed.inter_block_reorderings;
                inter_block_reorderings.iter().find(|(t, _)| *t == tid).map(|(_, before)| *before)
            };
            let next = claimed.get(at + 1);
            for &position in &this.sealed.serial_order {
                if reorders_previous(this, position).is_some() {
                    continue;
                }
                let ahead = next.iter().flat_map(|next| &next.sealed.serial_order);
                for (next, &reordered) in next.iter().cycle().zip(ahead) {
                    if reorders_previous(next, reordered) == Some(position) {
                        self.replay_one(next, reordered).map_err(wrong)?;
                    }
                }
                self.replay_one(this, position).map_err(wrong)?;
            }
            // A transaction that waits for a place before an overtaker has none.
            for (reordered, before) in
                next.iter().flat_map(|next| &next.sealed.inter_block_reorderings)
            {
                if reorders_previous(this, *before).is_some() {
                    return Err(wrong(format!("{reordered} overtakes {before}, which overtook")));
                }
            }
        }
        let height = self.height;
        self.model.compare(&self.subject).map_err(|what| Divergence::new(height, what))
    }

    fn replay_one(&mut self, claimed: &Ran<Item>, position: Position) -> Result<(), String> {
        if claimed.sealed.deferred.contains(&position) {
            return Ok(());
        }
        self.model.run_one(&claimed.block, &claimed.sealed, position)
    }
}
