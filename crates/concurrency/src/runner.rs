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
use crate::trial::{Flaw, flawed};

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

    fn attempt(
        &mut self,
        block: &Block,
        position: Position,
        undo: &mut UndoArena,
    ) -> Result<ProgramResult, Stop> {
        let work = &block.transactions[position as usize];
        let now_us = work.now_us(block.time_us);
        self.overlay.restart(Moment { height: block.height, position, now_us });
        let result = work.run(&mut self.frame, &mut self.overlay)?;
        let writes = self.overlay.take_writes();
        self.resolved.clear();
        let stamp = Stamp::new(block.height, position);
        for write in &writes {
            let table = self.catalog.table(write.table).ok_or_else(gone)?;
            let resolved = resolve(table, write, now_us, &mut self.scratch)?;
            if flawed(Flaw::HalfInstalled) {
                resolved.install(table, &write.key, stamp, undo);
                continue;
            }
            self.resolved.push(resolved);
        }
        for (write, resolved) in writes.iter().zip(self.resolved.drain(..)) {
            let table = self.catalog.table(write.table).ok_or_else(gone)?;
            resolved.install(table, &write.key, stamp, undo);
        }
        self.overlay.recycle(writes);
        Ok(result)
    }
}

fn gone() -> Stop {
    Stop::Halt("a table vanished within a block".into())
}
