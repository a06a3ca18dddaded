//! Epochs: opening a block in which calls run as they arrive, closing it and sealing it.
//!
//! ```text
//!   open ──► calls are admitted, run by the protocol ──► close ──► seal
//!   height,                                              positions, headers,
//!   time                                                 changes    effects
//!               └─ the block before may be sealed and synced ─┘   └─ the next one may be open
//! ```
//!
//! *What the next epoch needs of this one* is complete at its close: its rows are in the store
//! under their final stamps, its net changes are held by handles that later writes do not affect,
//! and its decisions about idempotency keys are known. Hashing all of this is left to
//! [`Replica::seal_closed`], in parallel with the next epoch. A block with schema or parameter
//! changes is sealed before the next one is opened.
//!
//! *The order of the block.* First the transactions that ran, in their serial order; then those
//! that were not allowed to run; then schema and parameter changes with all that follows them. A
//! replica that executes the block in this order thus admits the same transactions as the node on
//! which they arrived: see [`AdmissionControl`].

use std::sync::Arc;

use concurrency::sealed::in_order;
use concurrency::{BlockOutcome, Epoch};
use order::Proposer;
use parking_lot::Mutex;
use pipeline::{Barrier, Decided, Decision};
use storage::BlockWrites;
use types::{Height, Origin, Position};

use crate::effects::Effects;
use crate::request::{Member, Request};

use super::admission::{AdmissionControl, admitted};
use super::block::{Account, Executed, Ran, next_height, stops};
use super::halt::Halt;
use super::value::Replica;

/// A block that is open.
pub struct Opened {
    pub height: Height,
    pub time_us: i64,
    proposer: Proposer,
    /// Its arenas are lent to the threads that run calls.
    pub writes: BlockWrites,
}

/// What has come to a block while it was open.
pub struct Entered<T> {
    /// Those that ran, as they arrived.
    pub ran: Vec<Member<T>>,
    /// Those that might not run.
    pub refused: Vec<Request<T>>,
    /// Schema and parameter changes, for which the block was closed.
    pub barriers: Vec<Request<T>>,
}

/// A block that has run and is not sealed.
pub struct Closed<T> {
    pub height: Height,
    pub time_us: i64,
    pub barrier: Barrier,
    pub bytes: u64,
    proposer: Proposer,
    ran: Ran<T>,
    account: Account,
    tail: Vec<Member<T>>,
}

impl<T> Closed<T> {
    pub fn transactions(&self) -> usize {
        self.ran.decided.len() + self.tail.len()
    }

    /// Whether the next block can be opened before this one is sealed.
    pub fn lets_open(&self) -> bool {
        self.barrier == Barrier::None
    }
}

impl<T> Replica<T> {
    /// Whether calls run as they arrive.
    pub fn has_epochs(&self) -> bool {
        self.protocol().open(&self.store, self.head.height + 1, self.limits().budget).is_some()
    }

    pub fn admission(&self) -> &Arc<Mutex<AdmissionControl>> {
        &self.admission
    }

    /// Opens the block after `before`, or after the head; for `threads` that run calls in it.
    pub fn open(
        &mut self,
        before: Option<&Closed<T>>,
        (time_us, proposer): (i64, Proposer),
        threads: usize,
    ) -> Result<(Opened, Box<dyn Epoch>), Halt> {
        let (newest, newest_us) = match before {
            Some(closed) => (closed.height, closed.time_us),
            None => (self.newest.height, self.newest.time_us),
        };
        let (height, time_us) = (next_height(newest)?, time_us.max(newest_us));
        self.admission.lock().open(height, time_us, self.rules().carry_lag());
        let none = || Halt("the protocol opens no epochs".to_owned());
        let budget = self.limits().budget;
        let epoch = self.protocol().open(&self.store, height, budget).ok_or_else(none)?;
        let writes = self.store.begin_block(height, threads);
        Ok((Opened { height, time_us, proposer, writes }, epoch))
    }

    /// Nothing has entered.
    pub fn withdraw(&mut self, opened: Opened) {
        self.admission.lock().withdraw();
        self.store.withdraw(opened.writes);
    }

    /// No call is running any more, and the arenas are back.
    pub fn close(
        &mut self,
        opened: Opened,
        epoch: Box<dyn Epoch>,
        entered: Entered<T>,
    ) -> Result<Closed<T>, Halt> {
        self.admission.lock().begin_opened()?;
        let Opened { height, time_us, proposer, mut writes } = opened;
        let Entered { ran: members, refused, barriers } = entered;
        let envelopes = members.iter().map(|member| &member.request).chain(&refused);
        let bytes = envelopes.chain(&barriers).map(|r| r.envelope.len() as u64).sum();
        let barrier = barriers.iter().map(|request| request.barrier).max_by_key(|b| *b as u8);
        let outcome = epoch.close(&mut writes)?;
        let changes = self.store.finish(writes);
        let BlockOutcome { outcomes, serial_order, report, .. } = outcome;
        if outcomes.len() != members.len() {
            let (ended, came) = (outcomes.len(), members.len());
            return Err(Halt(format!("{ended} outcomes of {came} calls in block {height}")));
        }
        let ended = members.into_iter().zip(outcomes).collect();
        let decided =
            (0..).zip(in_order(ended, &serial_order)).map(|(index, (member, outcome))| {
                let (origin, decision) = (Origin { height, index }, Decision::Now(member));
                Decided { origin, outcome, decision }
            });
        let mut ran = Ran::of(decided.collect(), Effects::of_rows(changes));
        self.stand_as_sealed(height, &serial_order, refused, &mut ran)?;
        let tail = self.admit_barriers(height, barriers, &mut ran)?;
        if tail.is_empty() {
            self.remember_ran(height, &mut ran);
        }
        let account = Account { report, arrivals: Some(serial_order), ..Account::default() };
        let barrier = barrier.unwrap_or(Barrier::None);
        Ok(Closed { height, time_us, barrier, bytes, proposer, ran, account, tail })
    }

    /// Headers, outcomes and effects of a closed block, and its tail.
    pub fn seal_closed(&mut self, closed: Closed<T>) -> Result<Executed<T>, Halt> {
        let Closed { height, time_us, proposer, mut ran, mut account, tail, .. } = closed;
        assert_eq!(height, self.newest.height + 1, "blocks are sealed in their order");
        let batch = self.seal_as_it_ran((time_us, proposer), &ran.decided, &tail)?;
        account.serial_order = (0..(ran.decided.len() + tail.len()) as Position).collect();
        if !tail.is_empty() {
            self.run_tail(&batch, tail, &mut ran)?;
            self.remember_ran(height, &mut ran);
            self.begin_anew(height)?;
        }
        let unsealed = self.unseal(batch, height - 1, account, ran)?;
        self.seal(unsealed)
    }

    /// Those that ran have their places: keys are told, and those that might not run stand after.
    /// `order`: the arrivals as they stand.
    pub(super) fn stand_as_sealed(
        &mut self,
        height: Height,
        order: &[Position],
        refused: Vec<Request<T>>,
        ran: &mut Ran<T>,
    ) -> Result<(), Halt> {
        assert_eq!(ran.decided.len(), order.len(), "each that has run has arrived");
        let admission = Arc::clone(&self.admission);
        let mut admission = admission.lock();
        for (decided, arrival) in ran.decided.iter().zip(order) {
            if let Decision::Now(member) = &decided.decision
                && decided.origin.index != *arrival
            {
                admission.place(&member.request.envelope, decided.origin)?;
            }
        }
        for request in refused {
            let origin = Origin { height, index: ran.own };
            let member = admitted(&mut admission, origin, request);
            if member.verdict.runs() {
                let what = format!("a transaction was refused at block {height} and now is not");
                return Err(Halt(what));
            }
            ran.push_void(height, member)?;
        }
        Ok(())
    }

    /// What is run after the epoch: nothing, where every change is refused.
    fn admit_barriers(
        &mut self,
        height: Height,
        barriers: Vec<Request<T>>,
        ran: &mut Ran<T>,
    ) -> Result<Vec<Member<T>>, Halt> {
        let admission = Arc::clone(&self.admission);
        let mut tail = Vec::new();
        for request in barriers {
            let index = ran.own + tail.len() as u32;
            let member = admitted(&mut admission.lock(), Origin { height, index }, request);
            match tail.is_empty() && !stops(&member) {
                true => ran.push_void(height, member)?,
                false => tail.push(member),
            }
        }
        Ok(tail)
    }
}
