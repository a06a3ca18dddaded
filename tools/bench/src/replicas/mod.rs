//! Many replicas on machines of their own, simulated: what one machine cannot measure.
//!
//! A discrete-event simulation. Time is a whole number of nanoseconds; events come one after the
//! other off a queue, those of one moment in the order in which they were put there, and arrivals
//! are drawn from a seed: a [`Scene`] has one [`Outcome`].
//!
//! ```text
//!   order-execute      client ──────────────────────────► orderer ══► every replica ─► client
//!   simulate-order-    client ─► endorsers ─► client ───► orderer ══► every replica ─► client
//!     validate                  run, sign                             check, write
//! ```
//!
//! What things take is not made up here. A [`Scene`] says it: what a replica takes for a block,
//! bytes, signatures, hashes and syncs come from [`costs`], which measures them; distances and what
//! a network card sends in a second are said by who sets the scene.
//!
//! *Resources* serve in the order of asking, one at a time ([`parts::Server`]): of each machine its
//! network card (outgoing), its database, a core that signs, checks and hashes for the order; of an
//! orderer by Kafka its log, where records that come while a sync is under way share the next one
//! ([`parts::Log`]).
//!
//! *Order by Kafka* ([`kafka`]): three brokers; the leader cuts batches and sends them to the other
//! two; one is committed when the leader and another one have it on disk, and five may be on their
//! way to that. Each broker then sends it to its third of the replicas.
//!
//! *Order by HotStuff* ([`hotstuff`]), chained, with one leader throughout: every proposal carries
//! the certificate of the one before it, and is proposed as soon as that is there; a proposal is
//! committed when the third after it arrives. All that waits goes into a proposal, up to a bound.
//!
//! *A transaction's latency* ends when its client's own replica has executed it and the client,
//! beside that, has heard so.
//!
//! Absence: lost messages, failed machines, TCP's windows, what comes into a network card, clients'
//! machines (there are enough of them).

pub mod costs;
mod hotstuff;
mod kafka;
mod network;
mod parts;
mod scene;
#[cfg(test)]
mod tests;
mod world;

pub use network::{CONTINENTS, Network};
pub use parts::{Nanos, SECOND};
pub use scene::{Busiest, Crypto, Endorsing, Ordering, Outcome, Scene, System};
