//! Passing over blocks that a later block declares [skipped](crate::skip), and keeping the list of
//! them.

use std::sync::Arc;

use bytes::Bytes;
use concurrency::Outcome;
use ledger::{Batch, BlockResult, OrderHeader};
use order::View;
use pipeline::{Decided, Decision};
use types::codec::{decode_str, decode_u64, encode_str, encode_u64};
use types::{Error, Height, Origin, Result, SqlState};

use crate::effects::{Effects, Step};
use crate::language::{Action, ObjectChange, SchemaChange};
use crate::request::{Member, Request};
use crate::skip::{self, Skipped};
use crate::transaction::{Party, Transaction};

use super::block::{Account, Executed, Ran, Unsealed};
use super::halt::Halt;
use super::repeat::Repeat;
use super::value::Replica;

impl<T> Replica<T> {
    /// Goes on after a block that a later one skips, as [`Replica::execute_again`] does.
    pub fn skip_again(
        &mut self,
        batch: &Batch,
        result: &BlockResult,
        requests: Vec<Request<T>>,
    ) -> Result<Repeat, Halt> {
        let unsealed = self.reject_all(batch, requests)?;
        Ok(self.repeat(unsealed, result))
    }

    /// The same where no result is recorded.
    pub fn skip_ordered(
        &mut self,
        batch: &Batch,
        requests: Vec<Request<T>>,
    ) -> Result<Executed<T>, Halt> {
        let unsealed = self.reject_all(batch, requests)?;
        self.seal(unsealed)
    }

    /// Whether an envelope that skips blocks is of a party that may, after the head.
    pub fn may_skip(&self, envelope: &Bytes) -> bool {
        let asked = View::read(envelope).and_then(|view| {
            let transaction = Transaction::of(&view)?;
            self.language.authorize(transaction.party()?, Action::SkipBlocks)
        });
        asked.is_ok()
    }

    fn reject_all(
        &mut self,
        recorded: &Batch,
        requests: Vec<Request<T>>,
    ) -> Result<Unsealed<T>, Halt> {
        let OrderHeader { time_us, proposer, seen_height, .. } = *recorded.header();
        let envelopes = recorded.envelopes().to_vec();
        let seal = self.next_seal(time_us, proposer, seen_height);
        let batch = Arc::new(self.seal_batch(seal, envelopes, None)?);
        let height = batch.height();
        let rejected = || Outcome::Rejected(skip::rejection());
        let decided = |origin, member: Member<T>| Decided {
            origin,
            outcome: rejected(),
            decision: Decision::Now(member),
        };
        // They have used their keys and numbers, so that copies of them do not run either.
        let own = self.admit_all(height, time_us, requests)?;
        let late = self.line.give_up(height).into_iter();
        let mut all: Vec<_> = late.map(|late| decided(late.origin, late.task)).collect();
        let carried_in = all.len();
        let own = (0..).zip(own);
        all.extend(own.map(|(index, member)| decided(Origin { height, index }, member)));
        let serial_order = (0..all.len() as u32).collect();
        let mut ran = Ran::of(all, Effects::default());
        ran.effects.push(Step::Objects(Vec::new()));
        self.remember_ran(height, &mut ran);
        self.planned = height;
        self.begin_anew(height)?;
        self.skipping = match self.skipping {
            Some((first, last)) if last + 1 == height => Some((first, height)),
            _ => Some((height, height)),
        };
        let account = Account { carried_in, serial_order, ..Account::default() };
        self.unseal(batch, height - 1, account, ran)
    }

    /// What the block after skipped ones says of them. It comes to nothing where none were.
    pub(super) fn note_skip(
        &mut self,
        height: Height,
        party: Party<'_>,
        first: Height,
        reason: &str,
    ) -> Result<SchemaChange> {
        let skipped = |(from, last)| from <= first && first <= last && last + 1 == height;
        if !self.skipping.is_some_and(skipped) {
            let what = format!("block {first} was not skipped");
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
        }
        self.language.authorize(party, Action::SkipBlocks)?;
        let (owner, reason) = (party.principal.to_owned(), reason.to_owned());
        let skip = Skipped { first, last: height - 1, owner, reason };
        let Skipped { last, owner, reason, .. } = &skip;
        let after = Some(format!("blocks {first} to {last} by {owner}: {reason}"));
        let change = ObjectChange { name: format!("skip {first}"), before: None, after };
        let before = self.skips.last().map(|skip| skip.last);
        assert!(before.is_none_or(|last| last < first), "no block is skipped twice");
        self.skips.push(skip);
        Ok(SchemaChange { tag: "SKIP".into(), objects: vec![change] })
    }

    /// The blocks that were skipped since genesis, in their order.
    pub fn skips(&self) -> &[Skipped] {
        &self.skips
    }
}

impl Skipped {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode_u64(self.first, out);
        encode_u64(self.last, out);
        encode_str(&self.owner, out);
        encode_str(&self.reason, out);
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Skipped> {
        Ok(Skipped {
            first: decode_u64(input)?,
            last: decode_u64(input)?,
            owner: decode_str(input)?.to_owned(),
            reason: decode_str(input)?.to_owned(),
        })
    }
}
