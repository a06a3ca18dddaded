//! Planning and running a block: which envelopes may run, in which steps (before, at and after
//! schema changes), and what came of them.

use std::sync::Arc;

use bytes::Bytes;
use concurrency::{Block, Carried, Outcome, Work};
use kit::mutant::mutated;
use ledger::{BlockResult, CarriedOutcome, EffectsDigest, ResultSeal};
use order::signed::check_together;
use order::{Ended, EnvelopeBytes, Proposer};
use pipeline::{Barrier, Decided, Decision, Finished, Task};
use types::{Error, Height, Origin, Position, SqlState, Stamp};

use crate::effects::{Effects, Step};
use crate::images;
use crate::language::{Action, AskedChange, Language, ObjectChange, SchemaChange, signers_may};
use crate::limits::{Limits, MEMBERS};
use crate::members;
use crate::request::{Compiled, Member, Request, Verdict};
use crate::state_rows::Rooting;
use crate::transaction::outcome::{Fate, OUTCOME_BYTES_MAX};
use crate::transaction::{Body, Party, Transaction};

use super::admission::{admitted, not_compiled};
use super::block::{
    Account, Executed, FinishingBlock, Head, Ordered, PlannedBlock, Ran, RanBlock, ReadyBlock,
    Unsealed, stops,
};
use super::carry;
use super::halt::Halt;
use super::keys::KeyDecision;
use super::parameters::{
    check_order_first, check_protocol, check_state_root, protocol_of, shown_parameter,
    unknown_parameter,
};
use super::value::Replica;

/// What a block may hold beside its transactions, their outcomes and their framing.
const BLOCK_WEIGHT_MAX: usize = ledger::record::RECORD_BYTES_MAX - (1 << 20);

impl<T> Replica<T> {
    /// Decides which envelopes may run, compiles, and hands what stands before the first schema or
    /// parameter change to the protocol's line.
    pub fn plan(&mut self, height: Height) -> Result<PlannedBlock<T>, Halt> {
        let snapshots = self.snapshots(height);
        let missing = || Halt(format!("block {height} was not ordered"));
        let mut ordered = self.ordered.remove(&height).ok_or_else(missing)?;
        let requests = std::mem::take(&mut ordered.requests);
        assert!(height > self.planned, "a block is planned once, behind those before it");
        let time_us = ordered.time_us;
        let mut members = match self.rules().runs_first {
            true => self.admit_arriving(height, requests, &mut ordered)?,
            false => {
                let mut members = self.admit_all(height, time_us, requests)?;
                let split = members.iter().position(stops).unwrap_or(members.len());
                ordered.tail = members.split_off(split);
                members
            }
        };
        self.planned = height;
        self.compile(&mut members);
        let room = room_beside(members.iter().map(|member| member.request.envelope.len()));
        self.ordered.insert(height, ordered);
        let planned = self.line.plan(height, time_us, members, snapshots);
        Ok(planned.with_image_room(room))
    }

    /// The same where the order of those that run is known last: those that may not run are put
    /// after them.
    fn admit_arriving(
        &mut self,
        height: Height,
        requests: Vec<Request<T>>,
        ordered: &mut Ordered<T>,
    ) -> Result<Vec<Member<T>>, Halt> {
        let lag = self.rules().carry_lag();
        check_together(requests.iter().map(|request| &request.envelope));
        let admission = Arc::clone(&self.admission);
        let mut admission = admission.lock();
        admission.begin(height, ordered.time_us, lag)?;
        let (mut members, mut refused) = (Vec::<Member<T>>::new(), Vec::new());
        let mut came = Vec::new();
        for (arrival, request) in (0..).zip(requests) {
            let before = members.len() + refused.len() + ordered.tail.len();
            let index = if ordered.tail.is_empty() { members.len() } else { before } as u32;
            let member = admitted(&mut admission, Origin { height, index }, request);
            if !ordered.tail.is_empty() || stops(&member) {
                if member.verdict.runs() {
                    let origin = Origin { height, index: before as u32 };
                    admission.place(&member.request.envelope, origin)?;
                }
                ordered.came.push(arrival);
                ordered.tail.push(member);
            } else if member.verdict.runs() {
                came.push(arrival);
                members.push(member);
            } else {
                ordered.came.push(arrival);
                refused.push(member);
            }
        }
        ordered.came.splice(..0, came);
        if !ordered.tail.is_empty() && images::are_kept(self.protocol().info()) {
            // Its result holds no rows, so all of it must be equal to running it one by one.
            ordered.tail.splice(..0, members.into_iter().chain(refused));
            return Ok(Vec::new());
        }
        ordered.refused = refused.into_iter().map(|member| member.request).collect();
        Ok(members)
    }

    /// Decides, in the order of the batch, which of its envelopes may run.
    pub(super) fn admit_all(
        &mut self,
        height: Height,
        time_us: i64,
        requests: Vec<Request<T>>,
    ) -> Result<Vec<Member<T>>, Halt> {
        let lag = self.rules().carry_lag();
        check_together(requests.iter().map(|request| &request.envelope));
        let mut admission = self.admission.lock();
        admission.begin(height, time_us, lag)?;
        let admitted = (0..)
            .zip(requests)
            .map(|(index, request)| admitted(&mut admission, Origin { height, index }, request));
        Ok(admitted.collect())
    }

    /// Gives programs to those that run and have none, or one of another schema.
    pub fn compile(&self, members: &mut [Member<T>]) {
        let schema_version = self.language.schema_version();
        for member in members.iter_mut().filter(|member| member.verdict.runs()) {
            let compiled = member.request.compiled.take();
            member.work = match compiled.filter(|c| c.schema_version == schema_version) {
                Some(compiled) => compiled.work,
                None => Arc::new(compile_request(&*self.language, &member.request.envelope)),
            };
        }
    }

    /// Gives programs of the schema in force to those that wait for a later block.
    pub(super) fn compile_deferred(&mut self) {
        if mutated("deferred_outdated") {
            return;
        }
        let language = Arc::clone(&self.language);
        for member in self.line.deferred_mut() {
            member.work = Arc::new(compile_request(&*language, &member.request.envelope));
        }
    }

    /// Gives programs of the schema in force to requests.
    pub fn compile_requests(&self, requests: &mut [Request<T>]) {
        let schema_version = self.language.schema_version();
        for request in requests {
            let current = |c: &Compiled| c.schema_version == schema_version;
            if !request.compiled.as_ref().is_some_and(current) {
                let work = Arc::new(compile_request(&*self.language, &request.envelope));
                request.compiled = Some(Compiled { work, schema_version, agreed: false });
            }
        }
    }

    /// What a request runs under the schema in force.
    pub fn program(&self, request: &Request<T>) -> Arc<Work> {
        let schema_version = self.language.schema_version();
        match &request.compiled {
            Some(c) if c.schema_version == schema_version => Arc::clone(&c.work),
            _ => Arc::new(compile_request(&*self.language, &request.envelope)),
        }
    }

    /// The second half of a block. Its writes are in the store but not published.
    pub fn finish(&mut self, ready: ReadyBlock<T>) -> Result<Executed<T>, Halt> {
        let unsealed = self.finish_unsealed(ready)?;
        self.seal(unsealed)
    }

    /// What the second half takes, to be run elsewhere.
    pub fn begin_finish(&mut self, ready: ReadyBlock<T>) -> Result<FinishingBlock<T>, Halt> {
        assert_eq!(ready.height(), self.head.height + 1, "blocks are finished in their order");
        Ok(self.line.begin_finish(ready)?)
    }

    /// The result of a block that has run.
    pub fn end_finish(&mut self, ran: RanBlock<T>) -> Result<Executed<T>, Halt> {
        let unsealed = self.unseal_ran(ran)?;
        self.seal(unsealed)
    }

    pub(super) fn finish_unsealed(&mut self, ready: ReadyBlock<T>) -> Result<Unsealed<T>, Halt> {
        let ran = self.begin_finish(ready)?.run(&self.pool)?;
        self.unseal_ran(ran)
    }

    fn unseal_ran(&mut self, ran: RanBlock<T>) -> Result<Unsealed<T>, Halt> {
        let height = ran.height();
        let snapshot_height = ran.snapshots().newest;
        let finished = self.line.end_finish(ran)?;
        let missing = || Halt(format!("block {height} was not ordered"));
        let mut ordered = self.ordered.remove(&height).ok_or_else(missing)?;
        let Finished {
            decided, carried_in, serial_order, inter_block_reorderings, arrivals, ..
        } = finished;
        let effects = finished.changes.map(Effects::of_rows).unwrap_or_default();
        let mut ran = Ran { own: (decided.len() - carried_in) as u32, ..Ran::of(decided, effects) };
        if let Some(arrivals) = &arrivals {
            let refused = std::mem::take(&mut ordered.refused);
            self.stand_as_sealed(height, arrivals, refused, &mut ran)?;
        }
        let arrivals = arrivals.map(|arrivals| ordered.came_to(arrivals));
        let report = finished.report;
        let mut account =
            Account { carried_in, serial_order, inter_block_reorderings, arrivals, report };
        let tail = std::mem::take(&mut ordered.tail);
        let first = account.serial_order.len() as Position;
        account.serial_order.extend(first..(ran.decided.len() + tail.len()) as Position);
        let places = ran.decided.len() + tail.len();
        assert_eq!(account.serial_order.len(), places, "each has a place in the serial order");
        // The header names the parameters that the block itself ran under.
        let batch = match ordered.batch.take() {
            Some(batch) => batch,
            None => {
                let proposed = (ordered.time_us, ordered.proposer);
                self.seal_as_it_ran(proposed, &ran.decided, &tail)?
            }
        };
        if ordered.barrier != Barrier::None {
            self.floor = height;
        }
        let changed = !tail.is_empty();
        self.run_tail(&batch, tail, &mut ran)?;
        self.remember_ran(height, &mut ran);
        if changed {
            self.begin_anew(height)?;
        }
        self.unseal(batch, snapshot_height, account, ran)
    }

    /// The block has changed the schema or the parameters, or might have.
    pub(super) fn begin_anew(&mut self, height: Height) -> Result<(), Halt> {
        // What a protocol keeps beside the store does not know what ran without it.
        self.line.set_protocol(protocol_of(&self.parameters)?, Carried::default());
        self.line.forget_past();
        self.compile_deferred();
        self.floor = height;
        Ok(())
    }

    pub(super) fn seal_as_it_ran(
        &mut self,
        (time_us, proposer): (i64, Proposer),
        decided: &[Decided<Member<T>>],
        tail: &[Member<T>],
    ) -> Result<Arc<ledger::Batch>, Halt> {
        let ran = decided.iter().map(|decided| match &decided.decision {
            Decision::Now(member) => Ok(member),
            Decision::Later => Err(Halt("an online protocol deferred a transaction".to_owned())),
        });
        let members = ran.chain(tail.iter().map(Ok)).collect::<Result<Vec<_>, _>>()?;
        let envelopes =
            members.iter().map(|member| member.request.envelope.bytes().clone()).collect();
        Ok(Arc::new(self.seal_batch(self.next_seal(time_us, proposer, 0), envelopes, None)?))
    }

    /// Schema and parameter changes one by one, and what stands between them on the newest state.
    pub(super) fn run_tail(
        &mut self,
        batch: &ledger::Batch,
        tail: Vec<Member<T>>,
        ran: &mut Ran<T>,
    ) -> Result<(), Halt> {
        let header = batch.header();
        let mut rest = tail.into_iter().peekable();
        while let Some(member) = rest.next() {
            ran.effects.tell()?;
            if stops(&member) {
                self.change(header.height, header.time_us, member, ran)?;
                continue;
            }
            let mut between = vec![member];
            while let Some(next) = rest.next_if(|next| !stops(next)) {
                between.push(next);
            }
            self.run_between(header.height, header.time_us, between, ran)?;
        }
        // One step alone may be hashed later.
        match ran.effects.only_rows() {
            Some(_) => Ok(()),
            None => Ok(ran.effects.tell()?),
        }
    }

    fn change(
        &mut self,
        height: Height,
        time_us: i64,
        member: Member<T>,
        ran: &mut Ran<T>,
    ) -> Result<(), Halt> {
        let asked = asked(&*self.language, &member.request.envelope);
        let applied = match asked.as_ref().map(|asked| (&asked.body, asked.party())) {
            Ok((_, Err(error))) => Err(error),
            Ok((Body::Schema { text }, Ok(party))) => {
                let (signers, approvers) = asked
                    .as_ref()
                    .map_or((&[][..], &[][..]), |asked| (&asked.signers, &asked.approvers));
                let asked = AskedChange { party, signers, approvers, text };
                self.language.apply(asked, &self.store, height, time_us)
            }
            Ok((Body::Parameter { name, value }, Ok(party))) => {
                self.change_parameter(height, party, name, value)
            }
            Ok((Body::Checkpoint { height: of, digest }, _)) => vouch(height, *of, digest),
            Ok((Body::Skip { first, reason, .. }, Ok(party))) => {
                self.note_skip(height, party, *first, reason)
            }
            Ok(_) => return self.migrate(height, asked?, member, ran),
            Err(error) => Err(error.clone()),
        };
        let outcome = match applied {
            Ok(change) => {
                ran.effects.push(Step::Objects(change.objects));
                Outcome::Committed(Default::default())
            }
            Err(error) => {
                ran.push_refused();
                Outcome::Rejected(error.cut())
            }
        };
        ran.push(height, member, outcome);
        Ok(())
    }

    /// Schema changes and rows of one transaction: both, or neither.
    fn migrate(
        &mut self,
        height: Height,
        migration: Transaction,
        member: Member<T>,
        ran: &mut Ran<T>,
    ) -> Result<(), Halt> {
        let position = ran.decided.len() as Position;
        let migrated = self.language.migrate(migration, &self.store, position, height);
        let migrated = match migrated {
            Ok(migrated) => migrated,
            Err(stop) => {
                let outcome = Outcome::from_run(Err(stop))?;
                ran.push_refused();
                ran.push(height, member, outcome);
                return Ok(());
            }
        };
        for change in migrated.changes {
            ran.effects.push(Step::Objects(change.objects));
        }
        let stamp = Stamp::new(height, position);
        if let Some(rows) = self.line.install(&migrated.writes, stamp, migrated.now_us)? {
            ran.effects.push(Step::Rows(rows));
        }
        ran.push(height, member, Outcome::Committed(migrated.answer));
        Ok(())
    }

    fn run_between(
        &mut self,
        height: Height,
        time_us: i64,
        mut members: Vec<Member<T>>,
        ran: &mut Ran<T>,
    ) -> Result<(), Halt> {
        self.compile(&mut members);
        let first = ran.decided.len() as Position;
        let void = || Arc::new(Work::Void(not_compiled()));
        let mut works: Vec<_> = (0..first).map(|_| void()).collect();
        works.extend(members.iter().map(|member| Arc::clone(member.work())));
        let last = works.len() as Position;
        let block = Block { budget: self.limits.budget, ..Block::new(height, time_us, works) };
        let (outcomes, changes) = self.line.run_serially(&block, first..last)?;
        assert_eq!(outcomes.len(), members.len(), "each that has run has an outcome");
        if let Some(changes) = changes {
            ran.effects.push(Step::Rows(changes));
        }
        for (member, outcome) in members.into_iter().zip(outcomes) {
            ran.push(height, member, outcome);
        }
        Ok(())
    }

    /// Where transactions run as they arrive, a block is its own envelopes and no others.
    fn check_follows_deferred(&self, protocol: &str) -> Result<(), Error> {
        let arriving = !protocols::by_name(protocol)?.info().deterministic;
        if !(arriving && self.line.has_deferred()) {
            return Ok(());
        }
        let what = format!("protocol \"{protocol}\" cannot run what is deferred");
        Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
            .with_detail("Transactions of this block or of earlier ones run again in later blocks.")
            .with_hint("Try again when they have ended, in a moment."))
    }

    fn change_parameter(
        &mut self,
        height: Height,
        party: Party<'_>,
        name: &str,
        value: &str,
    ) -> Result<SchemaChange, Error> {
        let action = match name {
            MEMBERS => Action::ChangeMembers,
            name => Action::SetParameter(name),
        };
        self.language.authorize(party, action)?;
        let next = match (name, Limits::set(&self.parameters, name, value)) {
            ("protocol", _) => {
                let mut next = self.parameters.as_ref().clone();
                next.protocol = value.to_owned();
                check_protocol(value)?;
                check_order_first(&self.parameters, value)?;
                self.check_follows_deferred(value)?;
                next
            }
            (MEMBERS, _) => members::changed(&self.parameters, height, value)?,
            (_, Some(next)) => next?,
            _ => return Err(unknown_parameter(name)),
        };
        check_state_root(&next)?;
        let change = ObjectChange {
            name: format!("parameter {name}"),
            before: shown_parameter(&self.parameters, name),
            after: shown_parameter(&next, name),
        };
        self.parameters_hash = next.hash()?;
        self.limits = Limits::of(&next)?;
        self.admission.lock().set_limits(self.limits);
        self.line.set_attempts_max(self.limits.attempts_max);
        self.line.set_budget(self.limits.budget);
        self.parameters = Arc::new(next);
        Ok(SchemaChange { tag: "ALTER SYSTEM".into(), objects: vec![change] })
    }

    pub(super) fn unseal(
        &mut self,
        batch: Arc<ledger::Batch>,
        snapshot_height: Height,
        account: Account,
        ran: Ran<T>,
    ) -> Result<Unsealed<T>, Halt> {
        let Account { carried_in, serial_order, inter_block_reorderings, arrivals, report } =
            account;
        let Ran { decided, effects, .. } = ran;
        let height = batch.height();
        assert_eq!(height, self.head.height + 1, "a result follows the one before");
        assert!(snapshot_height < height, "a block reads what was before it");
        let outcomes = self.outcomes(&decided, carried_in, &effects)?;
        let seal = ResultSeal {
            ledger_id: self.ledger_id,
            height,
            previous_result_hash: self.head.hash,
            order_hash: batch.hash(),
            snapshot_height,
            executor: self.executor,
            effects: EffectsDigest { count: 0, root: ledger::ZERO_HASH },
            reorderings: inter_block_reorderings.len() as u32,
            carried_root: carry::root(&self.line, self.floor == height, height),
            state_root: ledger::ZERO_HASH,
        };
        Ok(Unsealed {
            batch,
            seal,
            outcomes,
            decided,
            carried_in,
            serial_order,
            inter_block_reorderings,
            arrivals,
            report,
            effects,
        })
    }

    /// What the block decided about keys.
    pub(super) fn remember_ran(&mut self, height: Height, ran: &mut Ran<T>) {
        let mut key_decisions = std::mem::take(&mut ran.key_decisions);
        key_decisions.extend(ran.decided.iter().filter_map(key_decision));
        self.admission.lock().remember(height, key_decisions);
    }

    /// Of the block's own transactions, and of those carried over.
    fn outcomes(
        &self,
        decided: &[Decided<Member<T>>],
        carried_in: usize,
        effects: &Effects,
    ) -> Result<(Vec<Bytes>, Vec<CarriedOutcome>), Halt> {
        let fates = decided.iter().map(|decided| Bytes::from(fate(decided).encode()));
        let mut fates: Vec<Bytes> = fates.collect();
        // Where rows are put, nothing has run: the outcomes are the recorded ones.
        if images::are_kept(self.protocol().info())
            && !decided.is_empty()
            && let Some(changes) = effects.only_rows()
        {
            fates = images::attach(fates, changes)?;
        }
        let own = fates.split_off(carried_in);
        let carried = fates.into_iter().zip(decided).map(|(outcome, decided)| {
            let Origin { height, index } = decided.origin;
            CarriedOutcome { height, index, outcome }
        });
        Ok((own, carried.collect()))
    }

    pub(super) fn rooting(&mut self, height: Height, effects: &Effects) -> Rooting {
        self.roots.rooting(&self.store, height, effects, self.limits.state_root)
    }

    pub(super) fn seal(&mut self, unsealed: Unsealed<T>) -> Result<Executed<T>, Halt> {
        let Unsealed { batch, seal, outcomes: (own, carried), .. } = unsealed;
        let rooting = self.rooting(seal.height, &unsealed.effects);
        let (effects, state_root) = rooting.seal(&unsealed.effects)?;
        let seal = ResultSeal { effects, state_root, ..seal };
        let result = BlockResult::seal(seal, own, carried)?;
        self.order = batch.header().clone();
        self.result = result.header().clone();
        self.executor = self.limits.executor;
        self.head =
            Head { height: result.height(), hash: result.hash(), time_us: self.order.time_us };
        Ok(Executed {
            batch,
            result,
            decided: unsealed.decided,
            carried_in: unsealed.carried_in,
            serial_order: unsealed.serial_order,
            inter_block_reorderings: unsealed.inter_block_reorderings,
            arrivals: unsealed.arrivals,
            report: unsealed.report,
            holds_images: images::are_kept(self.protocol().info()),
            effects: unsealed.effects,
        })
    }
}

/// A state's digest is an object of the ledger, which changes nothing.
fn vouch(height: Height, of: Height, digest: &ledger::Hash) -> Result<SchemaChange, Error> {
    if of >= height {
        let what = format!("block {of} is not before block {height}");
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
    }
    let after = Some(ledger::hash::to_hex(digest));
    let change = ObjectChange { name: format!("checkpoint {of}"), before: None, after };
    Ok(SchemaChange { tag: "CHECKPOINT".into(), objects: vec![change] })
}

/// What the ledger says of a transaction in its block.
fn fate<'a, T>(decided: &'a Decided<Member<T>>) -> Fate<'a> {
    match &decided.decision {
        Decision::Later => Fate::Deferred,
        Decision::Now(Member { verdict: Verdict::Repeat(first), .. }) => Fate::Repeat(*first),
        Decision::Now(_) => Fate::Ended(&decided.outcome),
    }
}

/// What became of a key that a client named.
fn key_decision<T>(decided: &Decided<Member<T>>) -> Option<KeyDecision> {
    match &decided.decision {
        Decision::Now(member) => {
            let ended = match &decided.outcome {
                Outcome::Committed(_) => Ended::Committed,
                Outcome::Rejected(error) => Ended::Rejected(error.code().0),
                Outcome::Retry(_) => Ended::Retry,
            };
            KeyDecision::of(member, decided.origin, ended)
        }
        Decision::Later => None,
    }
}

/// A transaction's program, or why it has none, which is what it comes to.
pub fn compile_request(language: &dyn Language, envelope: &EnvelopeBytes) -> Work {
    let work = envelope.view().and_then(|view| {
        if envelope.is_signed() || language.asks_for_signatures() {
            signers_may(language, &view)?;
        }
        let transaction = Transaction::of(&view)?;
        match transaction.body.barrier() {
            Barrier::None => language.compile(transaction),
            _ => Err(not_compiled()),
        }
    });
    work.unwrap_or_else(Work::Void)
}

/// What an envelope asks for after the changes before it, which may have taken its signers away.
fn asked(language: &dyn Language, envelope: &EnvelopeBytes) -> Result<Transaction, Error> {
    let view = envelope.view()?;
    if envelope.is_signed() || language.asks_for_signatures() {
        signers_may(language, &view)?;
    }
    let transaction = Transaction::of(&view)?;
    // The language says it itself where it changes the schema.
    if matches!(transaction.body, Body::Parameter { .. }) && language.asks_for_approvals() {
        language.check_approvals(&transaction)?;
    }
    Ok(transaction)
}

/// What a block of these envelopes may hold beside them.
fn room_beside(envelope_bytes: impl Iterator<Item = usize>) -> usize {
    let weights = envelope_bytes.map(|bytes| bytes + OUTCOME_BYTES_MAX + 16);
    BLOCK_WEIGHT_MAX.saturating_sub(weights.sum())
}
