//! 2PL: lock before you look, let go when all is done.
//!
//! Eswaran, Gray, Lorie and Traiger, *The notions of consistency and predicate locks*, CACM 1976;
//! wait-die: Rosenkrantz, Stearns and Lewis, *System level concurrency control*, TODS 1978. The
//! baseline of Wu's thesis (NUS 2017, chapter 3) locks tuples and never waits.
//!
//! *Idea.* Rows are locked when they are touched, for sharing or for oneself, and what is absent is
//! locked by its [gap](super::gaps), which is the next best thing to a predicate. Nothing is
//! validated at the end, since nothing could change: see [`locking`](super::locking).
//!
//! ```text
//!   no_wait    T5 wants what T3 holds: T5 begins again
//!   wait_die   T5 wants what T3 holds: T5 begins again, T3 is older
//!              T3 wants what T5 holds: T3 waits, none waits for an older one, so no cycle
//! ```
//!
//! *Serial order.* A place is drawn when all locks are held and before one is let go.
//!
//! *Departures.* Locks lie in the records' words instead of a lock table, so readers have no names:
//! a word knows the oldest of its readers, which is all that wait-die asks. Gaps have no ages and
//! are not waited for. Writes wait in the overlay, so a transaction that begins again has nothing
//! to undo. Who waits naps, and gives up after a while. Update commands lock for themselves, and
//! never upgrade.
//!
//! *Sessions.* These locks live as long as one transaction runs within a block. Statements of open
//! transactions lock before that, in the engine's lock table of sessions, which knows names, waits
//! and deadlocks: a COMMIT that comes here has nothing left to wait for but others' blocks.
//!
//! *Cost.* Two compare-and-swaps for each row, also where it is only read.

use std::sync::Arc;

use concurrency::{Isolation, OptionValues, Options, Protocol, ProtocolInfo, ProtocolOption, Work};
use procedure::ProgramResult;
use storage::UndoArena;
use types::Stop;

use super::driver::Arriving;
use super::gaps::Gaps;
use super::locking::{Locking, Waiting};
use super::mutant::Mutant;
use super::seam::{Conflict, Ended, Epoch, Online, Session, Start};

pub const ENTRY: crate::Entry = crate::Entry { info: &INFO, make, mutants: Mutant::LOCKING };

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "2pl",
    paper: "Eswaran et al., CACM 1976",
    isolation: Isolation::Serializable,
    deterministic: false,
    may_retry: false,
    options: &[ProtocolOption {
        name: "conflicts",
        values: OptionValues::OneOf(&["no_wait", "wait_die"]),
        what: "who does not get a lock begins again, or waits if it is the older",
    }],
};

fn make(options: &Options) -> Arc<dyn Protocol> {
    let waiting = match options.is(&INFO, "conflicts", "wait_die") {
        true => Waiting::WaitDie,
        false => Waiting::Never,
    };
    Arriving::made(options, |mutant| TwoPhaseLocking { gaps: Arc::default(), waiting, mutant })
}

pub struct TwoPhaseLocking {
    gaps: Arc<Gaps>,
    waiting: Waiting,
    mutant: Option<Mutant>,
}

impl Online for TwoPhaseLocking {
    type Session = LockingSession;

    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn session(&self, epoch: &Arc<Epoch>) -> LockingSession {
        LockingSession(Locking::new(epoch, &self.gaps, self.waiting, self.mutant))
    }
}

pub struct LockingSession(Locking);

impl Session for LockingSession {
    type Access = Locking;

    fn begin(&mut self, start: Start, _: &Work) -> &mut Locking {
        self.0.begin(start, true)
    }

    fn commit(
        &mut self,
        _: &Work,
        run: Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Result<Ended, Conflict> {
        self.0.commit(run, undo)
    }

    fn abort(&mut self) {
        self.0.release();
    }
}
