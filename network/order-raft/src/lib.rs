//! Raft as an orderer: openraft, with the ledger's order log as its log.
//!
//! ```text
//!                       ┌─ forward ─► the leader's inbox ─┐
//!  submit ─► outbox ────┤                                 ├─► draft ─► Raft ─► commit ─► poll
//!                       └─ this node leads ───────────────┘              │
//!                                                     every node, before it answers: the store
//!   sequence   1        2       3        4        5        6                ▲
//!   entry      members  blank   draft    draft    blank    draft            │
//!   term       0        1       1        1        2        2                │
//!   block                       1        2                 3   ── orders/ ──┤ one write, one sync
//!              └─ own ──┴───────┴────────┴─ own ──┘            ── raft/ ────┘ rare
//! ```
//!
//! **The Raft log is the order log.** When an entry with content is appended, each node turns it
//! into the ledger's order record. The record's height, its previous order hash and its time follow
//! from the entries before it, which Raft makes equal on all nodes. So there is no second copy and
//! no second sync. Raft's own entries (membership, and the blank entry that begins a leader's term)
//! are kept with the votes in [a small file](side): they have a sequence and no height. The first
//! entry of a term is always one of them, so they also tell the term of each batch.
//!
//! **Uncommitted entries** lie in `orders/` like any other record. They are not delivered, and are
//! truncated if a new leader has other entries. A block that has a result was executed, so it was
//! committed; orders without a result are unconfirmed until Raft says otherwise. So a reader of the
//! files can tell them apart without asking this crate.
//!
//! **A draft names its term.** The leader fills in what a block's header says besides its place in
//! the log (the parameters, what its proposer had seen). Therefore it drafts only once all earlier
//! entries that could change these are executed, up to and including the one that begins its term.
//! A draft that is appended in another term than its own is *void*: all nodes treat it as an entry
//! without content, and its envelopes are sent again.
//!
//! **Envelopes** (submitted transactions) stay in the outbox of the node that took them until they
//! are delivered, and are sent again when the leader changes or is silent for long: they are
//! ordered at least once. A node that stops forgets its outbox, as [`order::Orderer`] allows. This
//! logic is [a state machine without I/O](mailbox); [`Node`] gives it time, Raft and messages.
//!
//! **Clocks.** A draft bears [the median of the members' clocks](clocks). A leader whose own clock
//! is far from it drafts nothing and lets another one be elected; a follower does not acknowledge a
//! draft from far ahead.
//!
//! **Faults tolerated**: nodes that stop at any moment, as long as more than half run; messages
//! that are lost, late or duplicated; disks that lose what was not synced; a folder that was
//! emptied or restored from a copy, as long as the others are not ([`recall`]). Not tolerated: a
//! disk that loses what it reported as synced, nodes that lie.
//!
//! **Cost.** A lone batch takes one round trip and one sync on a follower; the leader writes and
//! syncs in parallel. Followers that no majority needs are sent [several batches at a
//! time](sparing). Syncs block a thread of the runtime that the node was started in: give the node
//! a runtime with one thread of its own, and no more, as messages pass from task to task several
//! times.
//!
//! *Absent here*: sockets ([`order::Network`] is given), what an envelope means, execution.

mod asking;
pub mod clocks;
mod commits;
mod config;
mod confirm;
mod draft;
mod follow;
mod gathering;
mod incarnations;
mod large;
mod liveness;
mod machine;
mod mailbox;
mod node;
mod peers;
mod raft_types;
mod recall;
#[cfg(test)]
mod recall_worlds;
mod recalling;
mod shared;
mod side;
mod sparing;
mod store;
mod wire;

pub use config::{Clock, Config, Timing};
pub use draft::Draft;
pub use liveness::{REMOVED, answer_clock, ask_clock};
pub use raft_types::Types;
pub use shared::{Node, Standing};
pub use side::{SIDE_FOLDER, begin_behind, forget, go_on_alone};
pub use store::Store;
