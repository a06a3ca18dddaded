//! Hybrid: optimistic first, with locks after a failure.
//!
//! A baseline of Wu's thesis (NUS 2017, chapter 3), after Thomasian, *Distributed optimistic
//! concurrency control methods for high-performance transaction processing*, TKDE 1998.
//!
//! *Idea.* Most transactions meet no other, so each runs as under silo at first. One that fails has
//! lost its work once and will probably meet the same rows again: the second time it locks what it
//! touches, as under 2PL, and whatever it has got it keeps.
//!
//! ```text
//!   T1  optimistic   read x … lock y │ draw │ validate x ✗
//!   T1  locking      lock x shared ─ lock y ─ … │ draw │ install
//! ```
//!
//! *How both live with one row* (the thesis does not say). They share one word. An optimistic
//! writer wants it exclusively at commit, and gets it when no locking reader holds it; an
//! optimistic reader holds nothing, and fails when another holds it exclusively at the moment of
//! validation, or has written. So for an optimistic transaction a locking one is a silo transaction
//! that has locked early, reads included; for a locking one an optimistic writer is one that locks
//! all at once. Either way a place is drawn between the last lock and the first release, after
//! every transaction that was overwritten: silo's argument and that of two-phase locking fit
//! together.
//!
//! *Departures.* None that the thesis would tell apart.
//!
//! *Cost.* Silo's where there are no conflicts.

use std::sync::Arc;

use concurrency::{Isolation, Options, Protocol, ProtocolInfo, Work};
use procedure::ProgramResult;
use storage::UndoArena;
use types::Stop;

use super::driver::Arriving;
use super::gaps::Gaps;
use super::locking::{Locking, Waiting};
use super::mutant::Mutant;
use super::seam::{Conflict, Ended, Epoch, Online, Session, Start};

pub const ENTRY: crate::Entry = crate::Entry { info: &INFO, make, mutants: Mutant::SILO };

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "hybrid",
    paper: "Thomasian, TKDE 1998; Wu, NUS 2017",
    isolation: Isolation::Serializable,
    deterministic: false,
    may_retry: false,
    options: &[],
};

fn make(options: &Options) -> Arc<dyn Protocol> {
    Arriving::made(options, |mutant| Hybrid { gaps: Arc::default(), mutant })
}

pub struct Hybrid {
    gaps: Arc<Gaps>,
    mutant: Option<Mutant>,
}

impl Online for Hybrid {
    type Session = HybridSession;

    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn session(&self, epoch: &Arc<Epoch>) -> HybridSession {
        let locking = Locking::new(epoch, &self.gaps, Waiting::Never, self.mutant);
        HybridSession { locking, locks: false }
    }
}

pub struct HybridSession {
    locking: Locking,
    locks: bool,
}

impl Session for HybridSession {
    type Access = Locking;

    fn begin(&mut self, start: Start, _: &Work) -> &mut Locking {
        self.locks = start.conflicts > 0;
        self.locking.begin(start, self.locks)
    }

    fn commit(
        &mut self,
        _: &Work,
        run: Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Result<Ended, Conflict> {
        match self.locks {
            true => self.locking.commit(run, undo),
            false => self.locking.workspace.commit_as_silo(run, undo),
        }
    }

    fn abort(&mut self) {
        self.locking.release();
    }
}
