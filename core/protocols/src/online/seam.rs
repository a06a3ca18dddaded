//! The seam between the shared driver and a protocol of the family.

use std::sync::Arc;

use concurrency::{Moment, ProtocolInfo, Work};
use procedure::access::Access;
use procedure::{Budget, Frame, ProgramResult};
use storage::{Catalog, UndoArena};
use types::{Height, Position, Stop};

use super::order::{CommitSequenceNumber, Draw, Draws, PROVISIONAL};

/// A protocol that runs transactions as they arrive. Shared by the workers.
pub trait Online: Send + Sync + 'static {
    /// What one worker runs its transactions by.
    type Session: Session;

    fn info(&self) -> &'static ProtocolInfo;

    /// For one worker, in one block. It may begin when others have run calls of the block already.
    fn session(&self, epoch: &Arc<Epoch>) -> Self::Session;
}

/// One worker's side of a protocol: the three verbs, of one transaction after another.
pub trait Session {
    type Access: Access;

    /// A transaction is about to run by what this returns.
    fn begin(&mut self, start: Start, work: &Work) -> &mut Self::Access;

    /// Run it; protocols that keep a record of the run do so in their own way. `frame` is the
    /// transaction's until it has ended.
    fn run(&mut self, start: Start, work: &Work, frame: &mut Frame) -> Result<ProgramResult, Stop> {
        work.run(frame, self.begin(start, work))
    }

    /// It has run, and ended so. On success its writes are in the store if it ended well, and it
    /// has its place in the serial order either way: what a rejection rests on was read, so it is
    /// validated as a commit is. An evaluation that waited for the commit may still reject it.
    fn commit(
        &mut self,
        work: &Work,
        run: Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Result<Ended, Conflict>;

    /// After a conflict: nothing of the attempt stays.
    fn abort(&mut self);

    /// What it took to commit.
    fn healing(&self) -> Healing {
        Healing::default()
    }
}

/// How often transactions were corrected as they committed.
#[derive(Clone, Copy, Default, Debug)]
pub struct Healing {
    pub healed: u32,
    /// Of these, from their start.
    pub whole: u32,
    /// Locks let go of, and taken again in order.
    pub relocked: u32,
}

/// The block that is being run, as its workers share it.
pub struct Epoch {
    pub height: Height,
    pub catalog: Arc<Catalog>,
    pub draws: Draws,
    /// What each transaction may spend and hold.
    pub budget: Budget,
}

/// A transaction that begins, or begins again.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// How many came to the block before it: its age, by which it waits or dies.
    pub arrival: Position,
    /// Conflicts that it has met before.
    pub conflicts: u32,
    /// Of its hidden row ids and `now()`; the position is [`PROVISIONAL`].
    pub moment: Moment,
}

impl Epoch {
    pub fn start(&self, arrival: Position, conflicts: u32, now_us: i64) -> Start {
        let moment = Moment { height: self.height, position: PROVISIONAL, now_us };
        Start { arrival, conflicts, moment }
    }
}

/// Another transaction was in the way: try again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conflict;

/// A transaction that is over.
#[derive(Debug)]
pub struct Ended {
    pub csn: CommitSequenceNumber,
    /// The number in its stamps, if it wrote.
    pub draw: Option<Draw>,
    pub run: Result<ProgramResult, Stop>,
}
