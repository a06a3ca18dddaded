//! One transaction after another over the newest state: how a serial order is carried out, be it a
//! whole block's or that of the few which a parallel protocol could not place.

use std::sync::Arc;

use procedure::{Frame, ProgramResult};
use storage::{Catalog, LATEST, UndoArena};
use types::{Position, Stamp, Stop, Value};

use crate::footprint::NoRecord;
use crate::install::{Resolved, resolve};
use crate::overlay::{Moment, Overlay};
use crate::protocol::{Block, Outcome};
use crate::reconnaissance::{Held, run_checked};
use crate::work::Work;

/// Runs transactions one at a time over the newest state.
pub struct Runner {
    catalog: Arc<Catalog>,
    overlay: Overlay<NoRecord>,
    frame: Frame,
    resolved: Vec<Resolved>,
    scratch: Vec<Value>,
}

impl Runner {
    pub fn new(catalog: Arc<Catalog>) -> Self {
        let nowhere = Moment { height: 0, position: 0, now_us: 0 };
        Runner {
            overlay: Overlay::new(Arc::clone(&catalog), LATEST, nowhere, NoRecord),
            catalog,
            frame: Frame::default(),
            resolved: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Run the transaction at `position` of the block. `Err`: halt.
    pub fn run_one(
        &mut self,
        block: &Block,
        position: Position,
        undo: &mut UndoArena,
    ) -> Result<Outcome, String> {
        Outcome::from_run(self.attempt(block, position, undo))
    }

    /// As `run_one`, every access checked before it happens. `None`: one was not covered by
    /// `held`, and the transaction had no effect.
    pub fn run_foretold(
        &mut self,
        block: &Block,
        position: Position,
        held: &Held,
        undo: &mut UndoArena,
    ) -> Result<Option<Outcome>, String> {
        let (work, moment) = begin(block, position);
        self.overlay.restart(moment);
        let Some(run) = run_checked(work, held, &mut self.frame, &mut self.overlay) else {
            return Ok(None);
        };
        let installed = run.and_then(|result| {
            self.install(moment, undo)?;
            Ok(result)
        });
        Outcome::from_run(installed).map(Some)
    }

    fn attempt(
        &mut self,
        block: &Block,
        position: Position,
        undo: &mut UndoArena,
    ) -> Result<ProgramResult, Stop> {
        let (work, moment) = begin(block, position);
        self.overlay.restart(moment);
        let result = work.run(&mut self.frame, &mut self.overlay)?;
        self.install(moment, undo)?;
        Ok(result)
    }

    /// All of the transaction's writes, or none.
    fn install(&mut self, moment: Moment, undo: &mut UndoArena) -> Result<(), Stop> {
        let Moment { height, position, now_us } = moment;
        let writes = self.overlay.take_writes();
        self.resolved.clear();
        for write in &writes {
            let table = self.catalog.table(write.table).ok_or_else(gone)?;
            self.resolved.push(resolve(table, write, now_us, &mut self.scratch)?);
        }
        let stamp = Stamp::new(height, position);
        for (write, resolved) in writes.iter().zip(self.resolved.drain(..)) {
            let table = self.catalog.table(write.table).ok_or_else(gone)?;
            resolved.install(table, &write.key, stamp, undo);
        }
        self.overlay.recycle(writes);
        Ok(())
    }
}

fn begin(block: &Block, position: Position) -> (&Work, Moment) {
    let work = &block.transactions[position as usize];
    let now_us = work.now_us(block.time_us);
    (work, Moment { height: block.height, position, now_us })
}

fn gone() -> Stop {
    Stop::Halt("a table vanished within a block".into())
}
