//! Executing a recorded block again, at a start or for verification, and comparing what comes out
//! with the recorded result; or passing over it where its state came from elsewhere (a checkpoint,
//! row logs).

use std::sync::Arc;

use ledger::chain::check_parameters;
use ledger::{
    Batch, BlockResult, CarriedOutcome, EffectsDigest, Hash, OrderHeader, ResultHeader, ResultSeal,
};

use crate::effects::{Effects, Step};
use crate::images;
use crate::request::{Member, Request};
use crate::state_rows::Rooting;

use super::block::{Executed, Head, Ran, Unsealed, head_of, stops};
use super::halt::Halt;
use super::keys::KeyDecision;
use super::value::Replica;

/// What executing a recorded block once more gave, before it is held against the record.
pub struct Repeat {
    /// What this replica would have ordered.
    pub order: OrderHeader,
    /// What it would have sealed, but for the effects, whose root takes hashing, and the root of
    /// the state after them.
    pub seal: ResultSeal,
    /// `None`: nothing was run that could tell outcomes, see [`crate::images`].
    pub outcomes: Option<(Vec<bytes::Bytes>, Vec<CarriedOutcome>)>,
    pub effects: Effects,
    pub rooting: Rooting,
    /// How many positions of the block are transactions of earlier ones.
    pub carried_in: usize,
}

impl Repeat {
    /// What its header would say of the effects, and of the state after them. Once, and in the
    /// order of the blocks.
    pub fn roots(&self) -> types::Result<(EffectsDigest, Hash)> {
        self.rooting.seal(&self.effects)
    }
}

impl<T> Replica<T> {
    /// Execute the block that a ledger has next. What it gives is not compared here, and the
    /// replica goes on as if it were the same: it is no replica of the ledger unless it is.
    pub fn execute_again(
        &mut self,
        batch: &Batch,
        result: &BlockResult,
        requests: Vec<Request<T>>,
    ) -> Result<Repeat, Halt> {
        let unsealed = self.run_again(batch, Some(result), requests)?;
        Ok(self.repeat(unsealed, result))
    }

    pub(super) fn repeat(&mut self, unsealed: Unsealed<T>, result: &BlockResult) -> Repeat {
        let Unsealed { batch, seal, outcomes, effects, carried_in, .. } = unsealed;
        let rooting = self.rooting(seal.height, &effects);
        self.stand_behind(batch.header(), result.header());
        let outcomes = (!images::are_kept(self.protocol().info())).then_some(outcomes);
        Repeat { order: batch.header().clone(), seal, outcomes, effects, rooting, carried_in }
    }

    /// Execute a block that was ordered, and of which no result is recorded.
    pub fn execute_ordered(
        &mut self,
        batch: &Batch,
        requests: Vec<Request<T>>,
    ) -> Result<Executed<T>, Halt> {
        let unsealed = self.run_again(batch, None, requests)?;
        self.seal(unsealed)
    }

    fn run_again(
        &mut self,
        recorded: &Batch,
        result: Option<&BlockResult>,
        requests: Vec<Request<T>>,
    ) -> Result<Unsealed<T>, Halt> {
        let OrderHeader { time_us, proposer, seen_height, .. } = *recorded.header();
        if self.rules().runs_first {
            return self.run_as_recorded(recorded, result, requests);
        }
        let height = self.order(time_us, proposer, seen_height, requests)?;
        let ready = self.plan(height)?.prepare(&self.pool)?;
        self.finish_unsealed(ready)
    }

    /// A block that stands in the serial order that its transactions took: one by one, or, where
    /// there is no such order, from the rows that it left.
    fn run_as_recorded(
        &mut self,
        recorded: &Batch,
        result: Option<&BlockResult>,
        requests: Vec<Request<T>>,
    ) -> Result<Unsealed<T>, Halt> {
        let OrderHeader { time_us, proposer, .. } = *recorded.header();
        let kept = images::are_kept(self.protocol().info());
        let envelopes = recorded.envelopes().to_vec();
        let batch =
            Arc::new(self.seal_batch(self.next_seal(time_us, proposer, 0), envelopes, None)?);
        let height = batch.height();
        let members = self.admit_all(height, time_us, requests)?;
        let mut ran = Ran::of(Vec::new(), Effects::default());
        let changes = members.iter().any(stops);
        match (kept && !changes, result) {
            (true, Some(result)) => return self.put_images(batch, result, members),
            (true, None) => {
                let what = format!("block {height} has no result, which its rows stand in");
                return Err(Halt(what));
            }
            (false, _) => self.run_tail(&batch, members, &mut ran)?,
        }
        self.remember_ran(height, &mut ran);
        if changes {
            self.begin_anew(height)?;
        }
        let snapshot_height = height - 1;
        self.unseal(batch, snapshot_height, Default::default(), ran)
    }

    fn put_images(
        &mut self,
        batch: Arc<Batch>,
        result: &BlockResult,
        members: Vec<Member<T>>,
    ) -> Result<Unsealed<T>, Halt> {
        let height = batch.height();
        let mut writes = self.store.begin_block(height, self.pool.workers());
        images::apply(result, &self.store, &mut writes)?;
        let mut ran = Ran::of(Vec::new(), Effects::default());
        ran.effects.push(Step::Rows(self.store.finish(writes)));
        // Outcomes are the recorded ones, since nothing was run that could tell them.
        for (member, outcome) in members.into_iter().zip(result.outcomes()) {
            ran.key_decisions.extend(KeyDecision::recorded(&member, ran.own, height, outcome));
            ran.own += 1;
        }
        self.remember_ran(height, &mut ran);
        self.unseal(batch, height - 1, Default::default(), ran)
    }

    /// Whether a block after this head, with none between that changes parameters, says of itself
    /// what executing it would: the parameters and the snapshot.
    pub fn check_follows(&self, order: &OrderHeader, result: &ResultHeader) -> Result<(), String> {
        check_parameters(order, &self.parameters_hash).map_err(|fault| fault.to_string())?;
        if result.snapshot_height + 1 == result.height {
            return Ok(());
        }
        let ResultHeader { height, snapshot_height, .. } = result;
        Err(format!("block {height} names the snapshot of block {snapshot_height}"))
    }

    /// Goes on after a block whose state has come into the store in another way. Which envelopes
    /// were used is state as well.
    pub fn skip(
        &mut self,
        order: &OrderHeader,
        result: &BlockResult,
        requests: Vec<Request<T>>,
    ) -> Result<(), Halt> {
        let members = self.admit_all(order.height, order.time_us, requests)?;
        let mut key_decisions = Vec::new();
        for ((index, member), outcome) in (0..).zip(&members).zip(result.outcomes()) {
            key_decisions.extend(KeyDecision::recorded(member, index, order.height, outcome));
        }
        self.admission.lock().remember(order.height, key_decisions);
        self.newest = Head { height: order.height, hash: order.hash(), time_us: order.time_us };
        self.roots.forget();
        self.stand_behind(order, result.header());
        Ok(())
    }

    /// Where the state has come into the store without its blocks, its root is compared with the
    /// last header's.
    pub fn check_root(&mut self) -> Result<(), Halt> {
        let named = (self.head.height, self.result.state_root);
        self.roots.make_and_check(&self.store, named)
    }

    fn stand_behind(&mut self, order: &OrderHeader, result: &ResultHeader) {
        self.head = head_of(order, result);
        self.order = order.clone();
        self.result = result.clone();
        self.executor = self.limits.executor;
    }
}
