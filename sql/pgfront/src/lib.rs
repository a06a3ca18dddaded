//! The PostgreSQL front end: clients on one side, a [`Database`] on the other.
//!
//! Idea: the protocol knows nothing of SQL, and the database after it nothing of the protocol.
//! [`serve`] accepts connections and runs one task for each; [`backend`] is the seam.
//!
//! ```text
//!            server ── accepts, shuts down, catches panics; arrivals (who is in the way)
//!              │
//!            startup ── TLS, auth (SCRAM), attempts (who guesses), cancel requests, settings
//!              │
//!   wire ── connection ── store (statements, portals), copy
//!    │         │
//!  frames    message (decode, in place) · reply (encode, in place)
//!    │
//!  stream    TCP, a Unix-domain socket, or TLS
//! ```
//!
//! Invariants
//! - No type of the protocol crate leaves this crate. It supplies SCRAM, the rare replies and the
//!   meaning of both; frames and the messages of every execution are read and written in place
//!   here, because a copied string per field is most of what a short statement costs.
//! - Nothing a client sends can panic, allocate more than it has sent, or hang another client.
//! - All buffers are bounded; a slow reader slows its own session, and nothing else.
//! - After ErrorResponse comes ReadyForQuery, at once or at the next Sync, unless it was FATAL.
//!
//! Cost: a prepared execution (Bind, Describe, Execute, Sync) is one read, one write and no
//! allocation beyond the values themselves. Measured with `pgbench -M prepared` against
//! `examples/echo.rs` on loopback: 1.4 to 2 µs of user time, and 6 to 14 µs in the kernel for its
//! three system calls (more where the processor sleeps in between).
//!
//! Absence: no SQL, no catalogue, no replication protocol, no MD5 or cleartext passwords.

pub mod arrivals;
mod attempts;
pub mod auth;
pub mod backend;
pub mod cancel;
mod connection;
mod copy;
pub mod encoding;
mod failure;
mod fetch;
mod listener;
mod message;
mod next_step;
mod options;
mod reply;
mod server;
mod startup;
mod store;
mod stream;
mod tls;
mod wire;

pub use arrivals::{Arrival, Arrivals};
pub use auth::Verifier;
pub use backend::{
    Authentication, ColumnDescription, CopyChunk, CopyChunks, Database, Format, Notice,
    NoticeSeverity, Notification, Prepared, Response, Row, RowStream, Session, SessionOptions, Tag,
    TransactionStatus,
};
pub use cancel::{Backends, Cancel};
pub use listener::{Listener, Peer, Source};
pub use options::{ClientCertificates, Options};
pub use server::serve;
pub use store::Bounds;
pub use tls::{Tls, TlsFiles, TlsVersion};
