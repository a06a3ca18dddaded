//! An orderer beyond this process, and what its node's clients wait for.
//!
//! ```text
//!   submit ─► pending: envelope ─► its tickets        orderer ─► delivery ─► a block to execute
//!         └─► orderer.submit                             └─ its tickets are taken from pending
//! ```
//!
//! A delivery holds envelopes of any node. Those that came in here find their tickets by their
//! bytes, and are answered when their block was released *here*; the others run with nothing
//! waiting. An envelope that is ordered twice is answered by the first: [`order::Submissions`] does
//! not run the second.
//!
//! *Where the order is.* The log of some orderers is the ledger's own log of orders
//! ([`order::Orderer::recorded`]); then a block whose order this replica would make otherwise is
//! refused before it runs, as it has diverged.
//!
//! *Given up.* An orderer that is cut off reports the envelopes it has given up, with the error for
//! each client ([`order::Orderer::given_up`]).
//!
//! **Invariants.** A ticket is answered once. What waits is bounded by the orderer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use kit::sync::lock;
use ledger::Parameters;
use order::{Orderer, Recorded, Refused, Released, Tell};
use types::{Error, Height, SqlState};

use crate::client::{Cut, Request, Ticket, Waiting, request_of};

/// What an engine is given, to be ordered by others.
pub type RemoteOrderer = Box<dyn Orderer + Send>;

pub(crate) struct RemoteOrders {
    /// Locked before the orderer, where both are.
    pending: Mutex<HashMap<Bytes, Vec<Ticket>>>,
    orderer: Mutex<RemoteOrderer>,
}

impl RemoteOrders {
    pub fn new(orderer: RemoteOrderer) -> RemoteOrders {
        RemoteOrders { pending: Mutex::default(), orderer: Mutex::new(orderer) }
    }

    pub fn push(&self, ticket: Ticket) -> Result<(), Refused> {
        let envelope = ticket.envelope.bytes().clone();
        let mut pending = lock(&self.pending);
        lock(&self.orderer).submit(envelope.clone())?;
        pending.entry(envelope).or_default().push(ticket);
        Ok(())
    }

    /// The next batch, if one was delivered.
    pub fn next(&self, now_us: i64) -> Option<Cut> {
        let mut orderer = lock(&self.orderer);
        let proposal = loop {
            let delivery = orderer.poll(now_us)?;
            if let Some(proposal) = delivery.content {
                break proposal;
            }
        };
        drop(orderer);
        let order::Proposal { time_us, proposer, seen_height, envelopes } = proposal;
        let mut pending = lock(&self.pending);
        let request = |envelope: Bytes| match ticket(&mut pending, &envelope) {
            Some(ticket) => request_of(ticket),
            None => Request::of_bytes(envelope),
        };
        let requests = envelopes.into_iter().map(request).collect();
        Some(Cut { time_us, proposer, seen_height, requests, left: pending.len() })
    }

    /// Answers those whose envelopes the orderer waits for no more. A later delivery may hold one
    /// all the same: it runs with nothing waiting.
    pub fn answer_given_up(&self) {
        let given_up = lock(&self.orderer).given_up();
        if given_up.is_empty() {
            return;
        }
        let mut pending = lock(&self.pending);
        for (envelope, why) in given_up {
            if let Some(ticket) = ticket(&mut pending, &envelope) {
                let _ = ticket.waiting.reply.send(Err(why));
            }
        }
    }

    /// Takes a ticket back. `None`: there is none of this number, so its envelope was delivered, or
    /// it was answered. Else whether its envelope is in no batch and never will be.
    pub fn withdraw(&self, number: u64) -> Option<bool> {
        let mut pending = lock(&self.pending);
        let is_it = |ticket: &Ticket| ticket.number == number;
        let envelope = pending.iter().find(|(_, tickets)| tickets.iter().any(is_it));
        let envelope = envelope.map(|(envelope, _)| envelope.clone())?;
        let tickets = pending.get_mut(&envelope)?;
        tickets.retain(|ticket| !is_it(ticket));
        // Of several with the same bytes one stands for all.
        let is_last = tickets.is_empty();
        if is_last {
            pending.remove(&envelope);
        }
        Some(lock(&self.orderer).withdraw(&envelope) && is_last)
    }

    /// See [`Orderer::hindrance`].
    pub fn hindrance(&self) -> Option<String> {
        lock(&self.orderer).hindrance()
    }

    pub fn governed(&self, height: Height, parameters: &Parameters) {
        lock(&self.orderer).governed(height, parameters);
    }

    pub fn released(&self, released: Released) {
        lock(&self.orderer).released(released);
    }

    pub fn nudge(&self) {
        lock(&self.orderer).nudge();
    }

    pub fn recorded(&self, height: Height) -> Option<Recorded> {
        lock(&self.orderer).recorded(height)
    }

    pub fn wake_by(&self, wake: Arc<dyn Fn() + Send + Sync>) {
        lock(&self.orderer).wake_by(wake);
    }

    /// See [`Orderer::confirm`].
    pub fn confirm(&self, tell: Tell) -> bool {
        lock(&self.orderer).confirm(tell)
    }

    /// See [`Orderer::awaited`].
    pub fn awaited(&self) {
        lock(&self.orderer).awaited();
    }

    pub fn leave(&self) {
        lock(&self.orderer).leave();
    }

    pub fn close(&self, why: Error) {
        lock(&self.orderer).close(why);
    }

    pub fn waiting(&self) -> usize {
        lock(&self.pending).values().map(Vec::len).sum()
    }

    /// Takes all that waits, to be told that nothing is known of it.
    pub fn drain(&self) -> Vec<Waiting> {
        let pending = std::mem::take(&mut *lock(&self.pending));
        pending.into_values().flatten().map(|ticket| ticket.waiting).collect()
    }
}

/// The one that has waited longest.
fn ticket(pending: &mut HashMap<Bytes, Vec<Ticket>>, envelope: &Bytes) -> Option<Ticket> {
    let tickets = pending.get_mut(envelope)?;
    assert!(!tickets.is_empty(), "what is pending has a client");
    let ticket = tickets.remove(0);
    if tickets.is_empty() {
        pending.remove(envelope);
    }
    Some(ticket)
}

/// What a client is told whose transaction other nodes may still order.
pub(crate) fn not_known() -> Error {
    let what = "whether the transaction is in the ledger is not known";
    Error::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, what)
        .with_detail("This node stopped before the cluster had ordered it, or told it so.")
        .with_hint("Ask another node. With an idempotency key it can be sent there again.")
}
