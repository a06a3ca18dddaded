//! What is ordered, and who orders it.
//!
//! ```text
//! Envelope ─encode─► Bytes ─submit─► Orderer ─poll─► Delivery { sequence, Proposal, Certificate }
//!                                    (Solo, Model,                      │
//!                                     adapters)       admit, envelope by envelope ─► Submissions
//! ```
//!
//! An [`Envelope`] is a request in the bytes that are ordered, hashed and signed. An [`Orderer`]
//! turns envelopes into a stream of numbered batches: [`Solo`] within a node, [`Model`] in a
//! simulation, engines of others after adapters, each of which has to pass [`conformance`].
//! [`Submissions`] is the part of a ledger's state that runs each request at most once.
//!
//! The bytes are documented in `docs/order-format.md`; `clients/read_envelope.py` reads them.
//!
//! Absence: no threads, clocks or sockets; nothing of what a request means, of blocks and of how
//! they are run.

pub mod conformance;
pub mod envelope;
mod membership;
pub mod model;
mod network;
mod orderer;
mod outbox;
mod proposal;
pub mod signed;
mod solo;
pub mod submissions;
mod wire;

pub use envelope::{Envelope, EnvelopeBytes, Seed, Signature, Submission, View, id_of_encoded};
pub use membership::{Key, Known, Membership};
pub use model::Model;
pub use network::{Call, Network};
pub use orderer::{Filling, Limits, Orderer, Recorded, Refused, Released, Tell};
pub use outbox::{Outbox, Taken};
pub use proposal::{Certificate, CertificateKind, Delivery, Proposal, Proposer};
pub use solo::Solo;
pub use submissions::{Admission, Ended, Entry, Remembered, Status, Submissions, WINDOW};
