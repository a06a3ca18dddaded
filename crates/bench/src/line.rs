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
use concurrency::{
    Block, BlockOutcome, Carried, Crew, History, Prepared, Protocol, Snapshots, Work,
};
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
    /// The block before the first one.
    floor: Height,
    history: History,
    /// By the block finished last.
    carried: Carried,
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
        Line {
            protocol,
            store,
            crew,
            beside: (beside > 0).then(|| Crew::new(beside)),
            floor: store.newest(),
            history: History::default(),
            carried: Carried::default(),
        }
    }

    /// The next block, on the state before it.
    pub fn prepare(&mut self, items: Items, height: Height) -> Result<InFlight> {
        let snapshots = self.hold(height - 1)?;
        self.prepare_by(&self.crew, items, height, snapshots)
    }

    fn hold(&mut self, newest: Height) -> Result<Snapshots> {
        let snapshots = Snapshots { newest, floor: self.floor };
        let held = self.history.hold(self.store, snapshots, self.protocol.history());
        held.map_err(|why| anyhow!(why))?;
        Ok(snapshots)
    }

    fn prepare_by(
        &self,
        crew: &Crew,
        items: Items,
        height: Height,
        snapshots: Snapshots,
    ) -> Result<InFlight> {
        let began = Instant::now();
        let transactions = items.iter().map(|item| Arc::clone(&item.what)).collect();
        let block = Arc::new(Block::new(height, 0, transactions));
        let prepared = self.protocol.prepare(&block, self.store, snapshots, crew);
        let prepared = prepared.map_err(|why| halted(&block, &why))?;
        Ok(InFlight { items, block, prepared, began })
    }

    /// Finish a block, and prepare the next one, if there is one, on the snapshot before it.
    pub fn finish_beside(
        &mut self,
        current: InFlight,
        next: Items,
    ) -> Result<(Finished, Option<InFlight>)> {
        if next.is_empty() {
            return Ok((self.finish(current)?, None));
        }
        let height = current.block.height;
        let snapshots = self.hold(height - 1)?;
        let this = &*self;
        let prepare = |crew| this.prepare_by(crew, next, height + 1, snapshots);
        let (finished, prepared) = match &this.beside {
            None => {
                let prepared = prepare(&this.crew)?;
                (this.finish_one(current)?, prepared)
            }
            Some(beside) => std::thread::scope(|scope| -> Result<_> {
                let preparing = scope.spawn(|| prepare(beside));
                let finished = this.finish_one(current);
                let prepared = preparing.join().map_err(|_| anyhow!("preparing panicked"))?;
                Ok((finished?, prepared?))
            })?,
        };
        self.carried = finished.outcome.carried.clone();
        Ok((finished, Some(prepared)))
    }

    fn finish(&mut self, current: InFlight) -> Result<Finished> {
        let finished = self.finish_one(current)?;
        self.carried = finished.outcome.carried.clone();
        Ok(finished)
    }

    fn finish_one(&self, current: InFlight) -> Result<Finished> {
        let InFlight { items, block, prepared, began } = current;
        let (store, crew) = (self.store, &self.crew);
        let mut writes = store.begin_block(block.height, crew.workers());
        let outcome =
            self.protocol.finish(prepared, &block, store, &mut writes, &self.carried, crew);
        let outcome = outcome.map_err(|why| halted(&block, &why))?;
        store.finish_unread(writes);
        store.publish(block.height);
        Ok(Finished { items, outcome, took: began.elapsed() })
    }
}

fn halted(block: &Block, why: &str) -> anyhow::Error {
    anyhow!("block {}: {why}", block.height)
}
