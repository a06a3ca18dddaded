//! Blocks through a protocol, without a ledger.
//!
//! Most protocols take one block after the other. One that allows a snapshot two blocks back
//! prepares the next block while this one is finished, each by half of the threads; with one
//! thread, first the one and then the other, so that the number of threads does not show in the
//! results.
//!
//! ```text
//!   lag 1   prepare 1 on 0 | finish 1 | prepare 2 on 1 | finish 2 | …
//!   lag 2   prepare 1 on 0 | finish 1       | finish 2       | …
//!                          | prepare 2 on 0 | prepare 3 on 1 | …
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use concurrency::{Block, BlockOutcome, Crew, Prepared, Protocol, Work};
use storage::Store;
use types::Height;

use crate::run::Waiting;

type Items = Vec<Waiting<Arc<Work>>>;

pub struct Line<'a> {
    protocol: &'a dyn Protocol,
    store: &'a Arc<Store>,
    crew: Crew,
    /// Prepares the next block at the same time.
    beside: Option<Crew>,
}

/// Prepared, and not yet finished.
pub struct InFlight {
    items: Items,
    block: Arc<Block>,
    prepared: Prepared,
    began: Instant,
}

pub struct Finished {
    pub items: Items,
    pub outcome: BlockOutcome,
    /// From the start of its preparation.
    pub took: Duration,
    /// Whether any of its transactions comes before some of the block before.
    pub overtaken: bool,
}

impl<'a> Line<'a> {
    pub fn new(
        protocol: &'a dyn Protocol,
        store: &'a Arc<Store>,
        threads: usize,
        lag: Height,
    ) -> Line<'a> {
        let beside = if lag > 1 { threads / 2 } else { 0 };
        let crew = Crew::new(threads - beside);
        Line { protocol, store, crew, beside: (beside > 0).then(|| Crew::new(beside)) }
    }

    pub fn prepare(&self, items: Items, height: Height, snapshot: Height) -> Result<InFlight> {
        self.prepare_by(&self.crew, items, height, snapshot)
    }

    fn prepare_by(
        &self,
        crew: &Crew,
        items: Items,
        height: Height,
        snapshot: Height,
    ) -> Result<InFlight> {
        let began = Instant::now();
        let transactions = items.iter().map(|item| Arc::clone(&item.what)).collect();
        let block = Arc::new(Block::new(height, 0, transactions));
        let prepared = self.protocol.prepare(&block, self.store, snapshot, crew);
        let prepared = prepared.map_err(|why| halted(&block, &why))?;
        Ok(InFlight { items, block, prepared, began })
    }

    /// Finish a block, and prepare the next one, if there is one, on the snapshot before it.
    pub fn finish_beside(
        &self,
        current: InFlight,
        next: Items,
    ) -> Result<(Finished, Option<InFlight>)> {
        if next.is_empty() {
            return Ok((self.finish(current)?, None));
        }
        let height = current.block.height;
        let prepare = |crew| self.prepare_by(crew, next, height + 1, height - 1);
        let Some(beside) = &self.beside else {
            let prepared = prepare(&self.crew)?;
            return Ok((self.finish(current)?, Some(prepared)));
        };
        std::thread::scope(|scope| {
            let preparing = scope.spawn(|| prepare(beside));
            let finished = self.finish(current);
            let prepared = preparing.join().map_err(|_| anyhow!("preparing panicked"))?;
            Ok((finished?, Some(prepared?)))
        })
    }

    fn finish(&self, current: InFlight) -> Result<Finished> {
        let InFlight { items, block, prepared, began } = current;
        let mut writes = self.store.begin_block(block.height, self.crew.workers());
        let outcome = self.protocol.finish(prepared, &block, self.store, &mut writes, &self.crew);
        let outcome = outcome.map_err(|why| halted(&block, &why))?;
        self.store.finish_unread(writes);
        self.store.publish(block.height);
        let overtaken = !self.protocol.overtakings().is_empty();
        Ok(Finished { items, outcome, took: began.elapsed(), overtaken })
    }
}

fn halted(block: &Block, why: &str) -> anyhow::Error {
    anyhow!("block {}: {why}", block.height)
}
