//! OCC: lock what was read and written, validate, install.
//!
//! Kung and Robinson, *On optimistic methods for concurrency control*, TODS 1981, in the form that
//! Wu's thesis compares with (NUS 2017, chapter 3): validation locks the read set with the write
//! set, in a global order.
//!
//! *Idea.* As in silo a transaction runs without a word to any other. But at its end it holds every
//! row that it read or will write, and so everything that it validates stays valid: its place in
//! the serial order may be drawn at any moment before it lets go. Rows that are only read are held
//! together with other readers.
//!
//! ```text
//!   T1   read x ─ read y ─ …  │ lock x, y │ draw 7 │ x, y as read? │ install y@7 │ unlock x, y
//! ```
//!
//! *Departures.* Ranges and absent keys are validated as in silo, without holding them, which is
//! why the draw comes first. Locks are waited for a bounded time.
//!
//! *Cost.* Two writes to the word of each row that is only read, so the line of a hot row goes from
//! worker to worker. Who conflicts learns it before it draws.

use std::sync::Arc;

use concurrency::{Isolation, Options, Protocol, ProtocolInfo, Work};
use procedure::ProgramResult;
use storage::UndoArena;
use types::Stop;

use super::driver::Arriving;
use super::gaps::Gaps;
use super::mutant::Mutant;
use super::seam::{Conflict, Ended, Epoch, Online, Session, Start};
use super::workspace::{Overlaid, Workspace};

pub const ENTRY: crate::Entry = crate::Entry { info: &INFO, make, mutants: Mutant::OPTIMISTIC };

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "occ",
    paper: "Kung and Robinson, TODS 1981; Wu, NUS 2017",
    isolation: Isolation::Serializable,
    deterministic: false,
    may_retry: false,
    options: &[],
};

fn make(options: &Options) -> Arc<dyn Protocol> {
    Arriving::made(options, |mutant| Occ { gaps: Arc::default(), mutant })
}

pub struct Occ {
    gaps: Arc<Gaps>,
    mutant: Option<Mutant>,
}

impl Online for Occ {
    type Session = OccSession;

    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn session(&self, epoch: &Arc<Epoch>) -> OccSession {
        let workspace = Workspace::new(epoch, &self.gaps, self.mutant);
        OccSession { workspace, mutant: self.mutant }
    }
}

pub struct OccSession {
    workspace: Workspace,
    mutant: Option<Mutant>,
}

impl Session for OccSession {
    type Access = Overlaid;

    fn begin(&mut self, start: Start, _: &Work) -> &mut Overlaid {
        self.workspace.begin(start)
    }

    fn commit(
        &mut self,
        _: &Work,
        run: Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Result<Ended, Conflict> {
        let workspace = &mut self.workspace;
        if run.is_err() {
            workspace.forget_writes();
        }
        workspace.lock(true)?;
        if !workspace.rows_stand() {
            return Err(Conflict);
        }
        let run = run.and_then(|result| workspace.resolve().map(|()| result));
        workspace.enter_gaps(|_| false)?;
        let (csn, draw) = workspace.draw();
        let unvalidated = run.is_err() && self.mutant == Some(Mutant::RejectionsUnvalidated);
        if !unvalidated && !workspace.reads_hold(csn) {
            return Err(Conflict);
        }
        let installed = workspace.install(draw, undo);
        workspace.release(draw.is_some());
        Ok(Ended { csn, draw, run: run.and_then(|result| installed.map(|()| result)) })
    }

    fn abort(&mut self) {
        self.workspace.release(false);
    }
}
