//! Raft as an orderer: openraft, over the ledger's own log of orders.
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
//! **The Raft log is the order log.** An entry with content becomes the ledger's order record when
//! it is appended, on each node for itself: its height, the order hash before it and its time
//! follow from the entries before, which Raft makes the same everywhere. There is no second copy
//! and no second sync. Raft's own entries (the members, the blank one that begins a leader's term)
//! are kept with the votes in [a small file](side): they have a sequence and no height. The first
//! entry of a term is always one of them, so they say the term of each batch, too.
//!
//! **What is above the commit index** lies in `orders/` like any other record, is not
//! delivered, and may be cut off again when another leader has other entries. A block that has a
//! result was executed, so it was committed; orders without one are unconfirmed until Raft says
//! otherwise. That is how a reader of the files tells them, without asking this crate.
//!
//! **A draft names its term.** What a header says beside its place (parameters, what its proposer
//! had seen) is the leader's to know: it drafts only when all before was executed that could change
//! it, from the entry on that begins its term. A draft that arrives in another term than its own
//! is *void*: an entry without content, on all nodes alike, and what it held is sent again.
//!
//! **Envelopes** stay in the outbox of the node that took them until a delivery holds them, and are
//! sent again when the leader changes or says nothing for long; so they are ordered at least once.
//! A node that stops forgets its outbox, as [`order::Orderer`] allows. What becomes of them is
//! decided by [a value](mailbox); [`Node`] gives it time, Raft and messages.
//!
//! **Clocks.** A draft bears [what most members' clocks say](clocks). A leader whose own one is far
//! from that drafts nothing and lets another one be elected; a follower does not acknowledge a
//! draft from far ahead.
//!
//! **Faults borne**: nodes that stop, at any moment, as long as more than half run; messages that
//! are lost, late, doubled; disks that lose what was not synced; a folder that was emptied or put
//! back from a copy, as long as the others are not ([`recall`]). Not: a disk that loses what it
//! said was synced, nodes that lie.
//!
//! **Cost.** A lone batch takes a round trip and a sync of a follower's; the leader's own one is
//! beside that. Syncs block a thread of the runtime that the node was started in: give it one of
//! its own, and not more, as messages are handed from task to task several times.
//!
//! *Absence*: sockets ([`order::Network`] is given), what an envelope means, execution.

mod asking;
pub mod clocks;
mod commits;
mod config;
mod confirm;
mod draft;
mod follow;
mod liveness;
mod lives;
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
mod store;
mod wire;

pub use config::{Clock, Config, Timing};
pub use draft::Draft;
pub use liveness::{answer_clock, ask_clock};
pub use raft_types::Types;
pub use shared::{Node, Standing};
pub use side::{SIDE_FOLDER, begin_behind, forget, go_on_alone};
pub use store::Store;
