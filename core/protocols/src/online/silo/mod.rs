//! Silo: lock what is written, validate what was read, touch nothing that was only read.
//!
//! Tu, Zheng, Kohler, Liskov and Madden, *Speedy transactions in multicore in-memory databases*,
//! SOSP 2013; a baseline of Wu's thesis (NUS 2017, chapter 3).
//!
//! *Idea.* A transaction runs without a word to any other, its writes buffered. At its end it locks
//! the rows that it will write, in a global order, then takes its place in the serial order, then
//! looks whether what it read is still what it read and locked by no other. One that only reads
//! writes to no shared memory at all.
//!
//! ```text
//!   T1   read x ─ read y ─ …  │ lock y │ draw 7 │ x as read? free? │ install y@7 │ unlock y
//!   T2            …  lock x │ draw 8 │ …
//!                             └ T2 locked x after T1 had looked at it, so it drew later
//! ```
//!
//! *Why the draw is a serial order.* Let T1 read x and T2 write it. If T1 read what T2 installed,
//! T2 had drawn before. If T1 read the version before, it found x unlocked when it validated, which
//! was after its own draw; so T2 locked later, and drew later. Two writers of x hold its lock one
//! after the other, from before the draw until the install. What is absent and what ranges hold
//! goes by [gaps](super::gaps), which are entered like locks before the draw.
//!
//! *Departures from the paper.* The order is total: one counter instead of epochs with numbers that
//! only respect dependencies, since the block is replayed in it. Numbers that come to nothing
//! are closed up at the end of the block. The epoch is the block, durable as one. Ranges are
//! guarded by gaps, not by leaves. Locks are waited for a bounded time.
//!
//! *Cost.* A compare-and-swap for each row written, one for the draw, two loads for each row read.

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

pub const ENTRY: crate::Entry = crate::Entry { info: &INFO, make, mutants: Mutant::SILO };

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "silo",
    paper: "Tu et al., SOSP 2013",
    isolation: Isolation::Serializable,
    deterministic: false,
    may_retry: false,
    options: &[],
};

fn make(options: &Options) -> Arc<dyn Protocol> {
    Arriving::made(options, |mutant| Silo { gaps: Arc::default(), mutant })
}

pub struct Silo {
    gaps: Arc<Gaps>,
    mutant: Option<Mutant>,
}

impl Online for Silo {
    type Session = SiloSession;

    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn session(&self, epoch: &Arc<Epoch>) -> SiloSession {
        SiloSession { workspace: Workspace::new(epoch, &self.gaps, self.mutant) }
    }
}

pub struct SiloSession {
    workspace: Workspace,
}

impl Session for SiloSession {
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
        self.workspace.commit_as_silo(run, undo)
    }

    fn abort(&mut self) {
        self.workspace.release(false);
    }
}
