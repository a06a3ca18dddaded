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

use concurrency::trial;
use concurrency::{Block, BlockOutcome, Crew, Prepared, Protocol, Work};
use types::{Height, Position};

use crate::twin::check_order;
use crate::{Divergence, Twin};

/// When a block is prepared, seen from the installation of the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    Before,
    Beside,
    After,
}

/// A block with all that is claimed of it.
struct Claimed {
    block: Arc<Block>,
    outcome: BlockOutcome,
}

impl Twin {
    /// Run blocks in a row, as far apart as the protocol lets them, and compare.
    pub fn run_all(
        &mut self,
        protocol: &dyn Protocol,
        crew: &Crew,
        blocks: Vec<Vec<Arc<Work>>>,
    ) -> Result<Vec<BlockOutcome>, Divergence> {
        match protocol.snapshot_lag() > 1 || protocol.plans_ahead() {
            true => self.run_overlapping(protocol, crew, blocks, Overlap::Before),
            false => blocks.into_iter().map(|block| self.run(protocol, crew, block)).collect(),
        }
    }

    /// Run blocks in a row, each but the first prepared on the snapshot before last, or on none.
    /// Nothing can be run on the twin afterwards.
    pub fn run_overlapping(
        &mut self,
        protocol: &dyn Protocol,
        crew: &Crew,
        blocks: Vec<Vec<Arc<Work>>>,
        overlap: Overlap,
    ) -> Result<Vec<BlockOutcome>, Divergence> {
        let first = self.height + 1;
        let numbered = (first..).zip(blocks).map(|(height, transactions)| {
            Arc::new(Block::new(height, height as i64, transactions))
        });
        let claimed = self
            .install_all(protocol, crew, &numbered.collect::<Vec<_>>(), overlap)
            .map_err(|(height, what)| Divergence::new(height, what))?;
        self.height += claimed.len() as Height;
        self.replay_all(&claimed)?;
        Ok(claimed.into_iter().map(|claimed| claimed.outcome).collect())
    }

    fn install_all(
        &mut self,
        protocol: &dyn Protocol,
        crew: &Crew,
        blocks: &[Arc<Block>],
        overlap: Overlap,
    ) -> Result<Vec<Claimed>, (Height, String)> {
        let _on = trial::enter(self.trial);
        let store = &self.subject;
        let course = &mut self.course;
        let beside = Crew::new(2);
        let mut ahead: Option<Prepared> = None;
        let mut claimed = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            let wrong = |what: String| (block.height, what);
            let snapshots = course.snapshots(protocol, store, block.height - 1).map_err(wrong)?;
            let current = match ahead.take() {
                Some(prepared) => prepared,
                None => protocol.prepare(block, store, snapshots, crew).map_err(wrong)?,
            };
            let next = blocks.get(at + 1);
            let prepare = |crew: &Crew| {
                let next = next.map(|n| protocol.prepare(n, store, snapshots, crew));
                next.transpose().map_err(wrong)
            };
            let finish = |crew: &Crew| {
                let finished = course.finish(protocol, crew, store, block, current);
                finished.map(|(outcome, _)| outcome).map_err(wrong)
            };
            let (prepared, outcome) = match overlap {
                Overlap::Before => {
                    let prepared = prepare(crew);
                    (prepared, finish(crew))
                }
                Overlap::After => {
                    let outcome = finish(crew);
                    (prepare(crew), outcome)
                }
                Overlap::Beside => std::thread::scope(|scope| {
                    let prepared = scope.spawn(|| prepare(&beside));
                    let outcome = finish(crew);
                    (prepared.join().expect("preparing does not panic"), outcome)
                }),
            };
            ahead = prepared?;
            let outcome = outcome?;
            store.collect();
            check_order(protocol, &outcome, block.transactions.len()).map_err(wrong)?;
            claimed.push(Claimed { block: Arc::clone(block), outcome });
        }
        Ok(claimed)
    }

    fn replay_all(&mut self, claimed: &[Claimed]) -> Result<(), Divergence> {
        for (at, this) in claimed.iter().enumerate() {
            let height = this.block.height;
            let wrong = |what: String| Divergence::new(height, what);
            let overtakes = |claimed: &Claimed, tid| {
                let overtakings = &claimed.outcome.overtakings;
                overtakings.iter().find(|(t, _)| *t == tid).map(|(_, before)| *before)
            };
            let next = claimed.get(at + 1);
            for &position in &this.outcome.serial_order {
                if overtakes(this, position).is_some() {
                    continue;
                }
                let ahead = next.iter().flat_map(|next| &next.outcome.serial_order);
                for (next, &overtaker) in next.iter().cycle().zip(ahead) {
                    if overtakes(next, overtaker) == Some(position) {
                        self.replay_one(next, overtaker).map_err(wrong)?;
                    }
                }
                self.replay_one(this, position).map_err(wrong)?;
            }
            // Whoever waits for a place before an overtaker has none.
            for (overtaker, before) in next.iter().flat_map(|next| &next.outcome.overtakings) {
                if overtakes(this, *before).is_some() {
                    return Err(wrong(format!("{overtaker} overtakes {before}, which overtook")));
                }
            }
        }
        let height = self.height;
        self.model.compare(&self.subject).map_err(|what| Divergence::new(height, what))
    }

    fn replay_one(&mut self, claimed: &Claimed, position: Position) -> Result<(), String> {
        if claimed.outcome.deferred.contains(&position) {
            return Ok(());
        }
        self.model.run_one(&claimed.block, &claimed.outcome, position)
    }
}
