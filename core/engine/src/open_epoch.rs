//! An open block under an online protocol, as shared by the threads that run calls in it: which
//! waiting calls enter, which are refused, and when it can be closed.
//! [`epoch_entry`](crate::epoch_entry) says by which rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use concurrency::Epoch;
use order::{Filling, Solo};
use parking_lot::Mutex;
use pipeline::Barrier;
use replica::{AdmissionControl, Spread, Verdict};
use storage::UndoArena;
use types::{Height, Position};

use crate::client::{Member, Request, Ticket, request_of};

/// A block that is open, as the threads that run calls in it share it.
pub(crate) struct OpenEpoch {
    pub height: Height,
    pub time_us: i64,
    pub epoch: Box<dyn Epoch>,
    pub arenas: Mutex<Vec<UndoArena>>,
    /// What has run, by arrival.
    pub handed_in: Mutex<Vec<(Position, Member)>>,
    /// Of a thread that ran calls.
    pub panicked: AtomicBool,
}

/// The entry of an open block.
pub(crate) struct EpochEntry {
    pub epoch: Arc<OpenEpoch>,
    admission: Arc<Mutex<AdmissionControl>>,
    filling: Filling,
    spread: Spread,
    /// Calls that run.
    entered: Position,
    pub refused: Vec<Request>,
    /// How many may still enter; `None`: as many as there is room for.
    pub quota: Option<usize>,
    /// Since when, or since when more were let in.
    pub closing: Option<Instant>,
    /// Threads that are in.
    pub busy: usize,
}

/// A call that has entered.
pub(crate) struct Taken {
    pub arrival: Position,
    pub verdict: Verdict,
    pub request: Request,
}

/// What has come to a block that is closed, but for what was handed in.
pub(crate) struct Shut {
    pub epoch: Arc<OpenEpoch>,
    pub refused: Vec<Request>,
    pub barriers: Vec<Request>,
}

impl EpochEntry {
    pub fn new(epoch: Arc<OpenEpoch>, admission: Arc<Mutex<AdmissionControl>>) -> EpochEntry {
        let (filling, spread, refused) = Default::default();
        let (quota, closing) = (None, None);
        EpochEntry {
            epoch,
            admission,
            filling,
            spread,
            entered: 0,
            refused,
            quota,
            closing,
            busy: 0,
        }
    }

    /// The next call that may run; one that may not is put where it stands in the block.
    pub fn take(&mut self, solo: &mut Solo<Ticket>) -> Option<Taken> {
        while self.quota != Some(0) {
            let (envelope, ticket) = solo.first()?;
            let has_room = ticket.barrier == Barrier::None && self.is_near(ticket);
            if !has_room || !self.filling.takes(envelope.len(), solo.limits()) {
                return None;
            }
            let (_, ticket) = solo.take()?;
            assert!(ticket.barrier == Barrier::None, "a change runs behind the calls");
            self.quota = self.quota.map(|left| left - 1);
            let request = request_of(ticket);
            let (height, arrival) = (self.epoch.height, self.entered);
            let verdict = self.admission.lock().enters(height, arrival, &request.envelope);
            match verdict {
                Ok(Some(verdict)) => {
                    self.entered += 1;
                    return Some(Taken { arrival, verdict, request });
                }
                Ok(None) => {}
                // The sequencer finds it at the close, and halts.
                Err(_) => self.epoch.panicked.store(true, Ordering::Release),
            }
            self.refused.push(request);
        }
        None
    }

    /// Whether its number may stand anywhere among those of the block.
    fn is_near(&mut self, ticket: &Ticket) -> bool {
        match ticket.envelope.view() {
            Ok(view) => self.spread.takes(&view.submission),
            // It is refused, wherever it stands.
            Err(_) => true,
        }
    }

    /// Schema and parameter changes that are the first to wait.
    pub fn take_barriers(&mut self, solo: &mut Solo<Ticket>) -> Vec<Request> {
        let mut barriers = Vec::new();
        while let Some((envelope, ticket)) = solo.first()
            && ticket.barrier != Barrier::None
            && self.filling.takes(envelope.len(), solo.limits())
            && let Some((_, ticket)) = solo.take()
        {
            barriers.push(request_of(ticket));
        }
        barriers
    }

    /// Calls that are in the block.
    pub fn count(&self) -> usize {
        self.entered as usize + self.refused.len()
    }
}
