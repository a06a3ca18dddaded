//! Databases that organisations have already, chained to one ledger by what blocks come to in them.
//!
//! ```text
//! orderer ─► order ─┬─► organisation 1: PostgreSQL ─► result hash ─┐
//!                   ├─► organisation 2: PostgreSQL ─► result hash ─┼─► votes ─► agreed, or recover
//!                   └─► organisation 3: MariaDB    ─► result hash ─┘
//! ```
//!
//! **No promise is believed.** Each organisation runs a block in the database that it has, by
//! whatever means; what is agreed on is the effect: which rows changed from what to what
//! ([`block`]). Triggers write that down ([`dialect`]) in a form that SQL of every system computes
//! ([`canonical`]).
//!
//! `docs/chainify.md` has the forms and the rules for people.
//!
//! *Absence*: the engine of a node and its SQL, command lines, how orders come about.

pub mod agreement;
pub mod approvals;
pub mod ballot;
pub mod block;
pub mod book;
pub mod canonical;
pub mod database;
pub mod dialect;
mod exchange;
pub mod gather;
pub mod joining;
pub mod member;
pub mod organisation;
mod polls;
mod recovery;
pub mod schema;
pub mod shared;
pub mod stages;
pub mod statement;
pub mod status;
pub mod stretches;
pub mod verify;
pub mod wire;

pub use agreement::Policies;
pub use block::{Net, Outcome};
pub use book::{Book, Terms};
pub use database::{Alone, Database};
pub use dialect::Isolation;
pub use exchange::Exchange;
pub use joining::{Folders, Joining};
pub use member::{Ended, Member};
pub use organisation::{Executed, Organisation};
pub use polls::Voted;
pub use schema::Schema;
pub use shared::Shared;
pub use status::{Deviation, Run, Status};
pub use verify::{Verified, verify};
