//! A request on its way into a block: the envelope's bytes, and the program compiled from them, at
//! most once.

use std::sync::Arc;

use bytes::Bytes;
use concurrency::{Outcome, Work};
use ledger::{Hash, LedgerId};
use order::{EnvelopeBytes, Seed, Submission, View};
use pipeline::{Barrier, Task};
use types::{Height, Origin, Result};

use crate::transaction::Body;

/// A program and the schema version it was compiled under.
#[derive(Clone)]
pub struct Compiled {
    pub work: Arc<Work>,
    pub schema_version: u64,
    /// Whether the envelope's approvals were judged with it, and are what policies ask for.
    pub agreed: bool,
}

/// Where a transaction stands in the ledger, and how it ended. Sent only when its block is durable.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The block that decided it.
    pub height: Height,
    /// Where it was ordered: the transaction's address for receipts.
    pub origin: Origin,
    pub outcome: Outcome,
}

/// `T`: what waits for its answer, of which a replica knows nothing.
pub struct Request<T> {
    /// As it is ordered.
    pub envelope: EnvelopeBytes,
    pub compiled: Option<Compiled>,
    pub barrier: Barrier,
    /// `None`: of another node, of a ledger that is read, or its client is gone.
    pub waiting: Option<T>,
}

impl<T> Request<T> {
    /// Bytes that came from elsewhere. What they ask for is found out where they run; here only
    /// whether the block must stop for it.
    pub fn of_bytes(envelope: Bytes) -> Request<T> {
        let envelope = EnvelopeBytes::read(envelope);
        let barrier = match envelope.view() {
            // Looked at by its kind alone: a request that does not decode is rejected as it runs.
            Ok(view) => Body::barrier_of(view.request),
            Err(_) => Barrier::None,
        };
        Request { envelope, compiled: None, barrier, waiting: None }
    }
}

/// Whether what an envelope asks for may change what later blocks are executed under.
pub fn is_barrier(envelope: &[u8]) -> bool {
    View::read(envelope).is_ok_and(|view| Body::barrier_of(view.request) != Barrier::None)
}

/// How long an envelope of this node may wait until it is ordered.
pub const EXPIRY_US: i64 = 3_600_000_000;

/// Makes requests without a node: a driver that numbers its envelopes.
#[derive(Clone, Debug)]
pub struct Numbering {
    pub ledger_id: LedgerId,
    pub submitter: [u8; 16],
    pub next: u64,
    /// Of the requests from now on; zeros for those that draw nothing.
    pub seed: Seed,
}

impl Numbering {
    pub fn new(ledger_id: LedgerId) -> Numbering {
        Numbering { ledger_id, submitter: [0; 16], next: 0, seed: [0; 16] }
    }

    /// After a block, which no other numbering is named after.
    pub fn behind(ledger_id: LedgerId, head: &Hash) -> Numbering {
        let mut submitter = [0; 16];
        submitter.copy_from_slice(&head[..16]);
        Numbering { submitter, ..Numbering::new(ledger_id) }
    }

    /// A request that a block near `now_us` takes.
    pub fn request<T>(&mut self, principal: &str, now_us: i64, body: &Body) -> Result<Request<T>> {
        let (submitter, sequence) = (self.submitter, self.next);
        self.next += 1;
        let view = View {
            ledger_id: self.ledger_id,
            principal,
            submission: Submission::Sequence { submitter, sequence },
            expires_us: now_us.saturating_add(EXPIRY_US),
            seen_height: 0,
            settings: Vec::new(),
            seed: self.seed,
            request: &body.to_request(),
            signatures: Vec::new(),
            approvals: Vec::new(),
        };
        let barrier = body.barrier();
        let envelope = EnvelopeBytes::read(view.encode()?);
        Ok(Request { envelope, compiled: None, barrier, waiting: None })
    }
}

/// What became of a request when its block was planned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Run,
    /// It runs, and its client named a key, of which the ledger remembers how it ended.
    RunKeyed,
    /// A copy of what the ledger has already; it does not run.
    Repeat(Origin),
    /// It may not run.
    Refused,
}

impl Verdict {
    pub fn to_run(submission: &Submission<&str>) -> Verdict {
        match submission {
            Submission::Key(_) => Verdict::RunKeyed,
            Submission::Sequence { .. } => Verdict::Run,
        }
    }

    pub fn runs(self) -> bool {
        matches!(self, Verdict::Run | Verdict::RunKeyed)
    }
}

/// A request in its block.
pub struct Member<T> {
    pub request: Request<T>,
    pub verdict: Verdict,
    pub work: Arc<Work>,
}

impl<T> Task for Member<T> {
    fn work(&self) -> &Arc<Work> {
        &self.work
    }
}
