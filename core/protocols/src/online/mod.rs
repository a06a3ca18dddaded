//! The online family: transactions run as they arrive, and the block records what they did.
//!
//! *Idea.* An epoch is a block that is open. Calls run in it at once, on any thread that is free,
//! under a protocol that lets them get at each other and notices when they do: a call that
//! conflicts begins again. What serial order that was equal to is known when the epoch is closed.
//! The block is *sealed in that order*, so the ledger, replay, verification and checkpoints know no
//! difference: a replica that executes the block again runs it one by one.
//!
//! ```text
//!   arrived   T0 T1 T2 T3 T4          any order will do, so no two runs need agree
//!   ran       │T0 ✗T2 T3 T2│T1 T4│    two workers, one conflict
//!   places    T0 0, T1 1, T3 2, T2 4, T4 5
//!   sealed    T0 T1 T3 T2 T4          positions 0 1 2 3 4, and so the stamps say
//! ```
//!
//! *Timeline.* Workers come and go while the epoch is open: a live node's, one call after another
//! from its gate; or those of a closed block, which is an epoch that all of its transactions have
//! come to before it opens. A call that has run is decided, whatever others still do. Closing takes
//! an epoch in which no worker is busy: what met too many conflicts runs alone, places are sorted,
//! stamps renumbered. From then on the store has the block's last word, and the next epoch may read
//! it, before it is hashed, durable or published: what comes of the next one is released after it.
//!
//! ```text
//!   epoch 7   │ T0 T1 … calls as they arrive …  │ close │ hash, sync │ release
//!   epoch 8                                             │ calls … ───────────► │ close │ …
//! ```
//!
//! *Parts.* [`driver`]: workers, retries, the order that came of it. [`seam`]: what a protocol
//! gives the driver. [`order`]: places in the serial order. [`latch`]: a record's lock. [`gaps`]:
//! what is not there. [`reads`] and [`workspace`]: an optimistic transaction. [`locking`]: one that
//! locks before it looks.
//!
//! # How a protocol is written
//!
//! One folder, with a type that is [`seam::Online`] (shared by the workers) and one that is
//! [`seam::Session`] (a worker's). A session has three verbs:
//!
//! * `begin` returns the `Access` that the transaction runs by. Most are an
//!   [`Overlay`](concurrency::Overlay), which keeps own writes aside, over a
//!   [`Below`](concurrency::Below) that says what is read and a
//!   [`Recorder`](concurrency::Recorder) that is told of it. Whichever of these has to end a
//!   transaction early returns any error and remembers why.
//! * `commit` is told how the run ended, and either finds a conflict or puts the writes into the
//!   store, under the number that it drew, and says where in the serial order that was.
//! * `abort` follows a conflict, be it of `begin`, of an access or of `commit`.
//!
//! What it must keep: *(1)* nothing of a transaction is in the store before it commits, and each
//! row is written once by it, so that a stamp names one version; *(2)* places are a serial order:
//! a transaction that read, overwrote or missed what another did stands on the right side of it;
//! *(3)* a rejection has a place as well, since replay must reject there too, and a command that
//! fails has read the row on which it did; *(4)* alone, no transaction meets a conflict;
//! *(5)* words of a record are of the block's height or mean nothing; *(6)* rows under hidden row
//! ids lie in the order of their numbers, so transactions that insert into one such table must have
//! places in the order of their draws. Then one line in [`ALL`](crate::ALL):
//! `Arriving::made(…, the protocol)` is a [`Protocol`](concurrency::Protocol).
//!
//! *Cost.* One counter's line for each writer, none for readers; sorting the places and renumbering
//! the stamps take some ten nanoseconds for each transaction and each row written, while no call of
//! the next epoch runs.

pub mod driver;
pub mod gaps;
pub mod healing;
pub mod hybrid;
pub mod latch;
pub mod locking;
pub mod mutant;
pub mod occ;
pub mod order;
pub mod partitioned;
pub mod reads;
#[cfg(all(test, shuttle))]
mod schedules;
pub mod seam;
pub mod silo;
pub mod tictoc;
pub mod two_phase_locking;
pub mod workspace;
