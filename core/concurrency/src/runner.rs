//! Runs transactions one after another on the newest state: serial execution of a block, or of
//! those transactions that a parallel protocol could not place.

use std::sync::Arc;

use procedure::{Frame, ProgramResult};
use storage::{Catalog, LATEST, UndoArena};
use types::{Position, Stamp, Stop};

use crate::footprint::{NoRecord, Recorder};
use crate::install::Installer;
use crate::overlay::{Moment, Overlay};
use crate::pending::PendingWrite;
use crate::protocol::{Block, Outcome};
use crate::reconnaissance::{Held, run_checked};
use crate::work::Work;

/// Runs transactions one at a time over the newest state.
pub struct Runner<R = NoRecord> {
    overlay: Overlay<R>,
    frame: Frame,
    installer: Installer,
}

impl Runner {
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Runner::recording(catalog, NoRecord)
    }
}

impl<R: Recorder> Runner<R> {
    /// One that tells `recorder` of every read.
    pub fn recording(catalog: Arc<Catalog>, recorder: R) -> Self {
        let nowhere = Moment { height: 0, position: 0, now_us: 0 };
        Runner {
            overlay: Overlay::new(Arc::clone(&catalog), LATEST, nowhere, recorder),
            frame: Frame::default(),
            installer: Installer::new(catalog),
        }
    }

    /// Run the transaction at `position` of the block. `Err`: halt.
    pub fn run_one(
        &mut self,
        block: &Block,
        position: Position,
        undo: &mut UndoArena,
    ) -> Result<Outcome, String> {
        self.run_and_show(block, position, undo, |_, _| ())
    }

    /// As `run_one`; then `show` gets the recorder and what was installed.
    pub fn run_and_show(
        &mut self,
        block: &Block,
        position: Position,
        undo: &mut UndoArena,
        show: impl FnOnce(&mut R, &[PendingWrite]),
    ) -> Result<Outcome, String> {
        let run = self.attempt(block, position, undo);
        let (recorder, writes) = self.overlay.recorded();
        show(recorder, if run.is_ok() { writes } else { &[] });
        Outcome::from_run(run)
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
        self.frame.meter().set_budget(block.budget);
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
        self.frame.meter().set_budget(block.budget);
        let result = work.run(&mut self.frame, &mut self.overlay)?;
        self.install(moment, undo)?;
        Ok(result)
    }

    /// All of the transaction's writes, or none.
    fn install(&mut self, moment: Moment, undo: &mut UndoArena) -> Result<(), Stop> {
        let Moment { height, position, now_us } = moment;
        let stamp = Stamp::new(height, position);
        self.installer.install(self.overlay.writes().writes(), now_us, stamp, undo)
    }
}

fn begin(block: &Block, position: Position) -> (&Work, Moment) {
    let work = &block.transactions[position as usize];
    let now_us = work.now_us(block.time_us);
    (work, Moment { height: block.height, position, now_us })
}
