//! Nodes that talk: who the members are, and messages between them.
//!
//! ```text
//!   node 1                                          node 2
//!   Peers::call ─► a connection, kept ── TLS 1.3 ──► serve ─► who is it? ─► answer
//!                  frame: length, bytes              its key is that of a member
//! ```
//!
//! **Who may talk.** Each node has an ed25519 key and a certificate that it signed itself; the
//! keys of the [members] stand in the ledger. Both ends show theirs, and one that is not a member's
//! is refused before a byte of a message is read. The key is also the name that a node proposes
//! blocks under.
//!
//! **What may be said.** The first frame names the ledger and the version of this protocol; then
//! requests, each followed by its answer. A frame has a bound, a connection that says nothing has a
//! time, and a member may have so many connections.
//!
//! **What members say of results**: [`votes`], by threads and messages of what
//! [`ledger::votes`] defines.
//!
//! *Absence*: what Raft's messages mean, what blocks hold, clients.

mod keys;
pub mod members;
pub mod net;
pub mod own;
pub mod plan;
mod secrets;
mod seldom;
pub mod votes;

pub use members::{Members, Membership};
pub use net::{Answer, Answering, Peers, serve};
pub use own::{Identity, Own};
pub use plan::{Member, Plan};
pub use secrets::Secrets;
pub use seldom::Seldom;
