//! The state that an engine's threads and its clients share, and the entry by which a transaction
//! is submitted or withdrawn.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use concurrency::Outcome;
use kit::sync::lock;
use ledger::signatures::{PublicKey, SecretKey};
use ledger::{Hash, LedgerId, Parameters};
use order::signed::approve_all;
use order::{EnvelopeBytes, Seed, Signature, Submission, View, WINDOW};
use pipeline::Barrier;
use procedure::Budget;
use replica::limits::Limits;
use replica::request::EXPIRY_US;
use replica::transaction::{Asked, ROLE};
use replica::{
    Body, Compiled, Completion, Head, KeyStanding, Language, Party, ProvableState, Skipped,
    Transaction, Wanted, approvals_suffice, arguments_fit, check_first_order, signers_may,
    too_large,
};
use storage::Store;
use tokio::sync::{oneshot, watch};
use types::{Error, Height, SqlState};

use crate::checkpoint::{Service, Taken};
use crate::client::{Replica, Ticket, Waiting};
use crate::clock::{Clock, ClockGuard};
use crate::journal::{Journal, LedgerEnd, cannot_write};
use crate::locks::SessionLocks;
use crate::observer::Observer;
use crate::queue::{BlockLimits, Queue};
use crate::remote_orders::{RemoteOrders, not_known};
use crate::retention::Retention;
use crate::watchdog::Watchdog;

use super::memory::MemoryBound;
use super::numbers::{Number, Numbers};
use super::options::{Checkpoints, EngineOptions};

/// The submitter of a transaction, and the key that it comes under.
#[derive(Clone, Copy, Debug)]
pub struct Submitter<'a> {
    pub principal: &'a str,
    /// Which role it acts as, where that is another.
    pub role: Option<&'a str>,
    /// Named by the client; `None`: a number of this node.
    pub key: Option<&'a str>,
    /// What the transaction's random values are drawn from; zeros where it draws none.
    pub seed: Seed,
}

/// A transaction that was handed in.
pub struct Submitted {
    /// See [`Engine::submit`](super::Engine::submit).
    pub answer: oneshot::Receiver<Result<Completion, Error>>,
    pub(super) number: u64,
    /// Of a draft, as long as its end is waited for.
    pub(super) _open: Option<Number>,
}

/// An envelope that is not handed in yet, since others have to agree to it first.
pub struct Draft {
    pub envelope: bytes::Bytes,
    /// What they sign.
    pub id: Hash,
    /// `None`: it is named by a key.
    number: Option<Number>,
}

/// Under which the engine itself asks for something.
const PRINCIPAL: &str = "tally";

/// What the sequencer is asked between two blocks.
pub(super) enum Errand {
    Key {
        principal: String,
        key: String,
        reply: oneshot::Sender<Option<KeyStanding>>,
    },
    /// The checkpoint service wants a boundary.
    Boundary,
    State {
        reply: oneshot::Sender<Option<ProvableState>>,
    },
}

/// What threads and clients of an engine share.
pub(super) struct Shared {
    pub ledger_id: LedgerId,
    /// Of this start's envelopes, which it numbers.
    pub submitter: [u8; 16],
    pub sequence: AtomicU64,
    /// Those of drafts.
    pub numbers: Arc<Numbers>,
    /// By which what was handed in otherwise is withdrawn: from 2^63 on, where no envelope's is.
    pub handed_in: AtomicU64,
    /// Height and time of the last published block.
    pub released: AtomicU64,
    pub released_us: AtomicI64,
    /// How long after that an envelope of this node may be ordered.
    pub expiry_us: AtomicI64,
    /// Refused here already, where each replica would refuse it.
    pub envelope_bytes_max: AtomicUsize,
    /// What a transaction may do in the next block: units, bytes.
    pub units_max: AtomicU64,
    pub bytes_max: AtomicU64,
    /// The sequencer has ended, so that nothing can be asked of it.
    pub ended: AtomicBool,
    pub clock: Clock,
    pub clock_guard: Option<ClockGuard>,
    pub errands: Mutex<Vec<Errand>>,
    pub queue: Queue,
    pub store: Arc<Store>,
    pub language: Arc<dyn Language>,
    pub observer: Arc<dyn Observer>,
    pub head: Mutex<Head>,
    /// The height of it, for those who wait for one.
    pub published: watch::Sender<Height>,
    /// Those that the next block will run under.
    pub parameters: Mutex<Arc<Parameters>>,
    pub halted: OnceLock<Error>,
    /// Why the sequencer has to stop.
    pub told_to_halt: OnceLock<Error>,
    pub checkpoints: Option<Service>,
    pub retention: Retention,
    pub log_scheme: &'static str,
    pub ledger: Arc<LedgerEnd>,
    pub locks: Arc<SessionLocks>,
    pub memory: MemoryBound,
    pub watchdog: Option<Arc<Watchdog>>,
    /// None is added while a node runs.
    pub skips: Vec<Skipped>,
    /// Signs for users of the node's organisation.
    pub signer: Option<SecretKey>,
}

/// What an engine is given to start with, beside a replica and where its blocks go.
pub(super) struct Given {
    pub language: Arc<dyn Language>,
    pub limits: BlockLimits,
    pub clock: Clock,
    pub observer: Arc<dyn Observer>,
    pub options: EngineOptions,
}

impl Shared {
    /// After the replica's head; the checkpoint service runs from here on.
    pub fn new(replica: &Replica, journal: &Journal, given: Given) -> std::io::Result<Shared> {
        let Given { language, limits, clock, observer, options } = given;
        let store = Arc::clone(replica.store());
        let service = |Checkpoints { checkpointer, settings, .. }| {
            let (store, language) = (Arc::clone(&store), Arc::clone(&language));
            let ledger = Some(Arc::clone(journal.ledger()));
            Service::start(checkpointer, settings, store, language, Arc::clone(&observer), ledger)
        };
        let checkpoints = options.checkpoints.map(service).transpose()?;
        let (head, allowed) = (replica.head(), replica.limits());
        let remote = options.remote_orderer.map(RemoteOrders::new);
        if let Some(remote) = &remote {
            check_first_order(replica.parameters()).map_err(std::io::Error::other)?;
            remote.released(replica.released());
        }
        let mut of_head = [0; 16];
        of_head.copy_from_slice(&head.hash[..16]);
        let submitter = options.submitter.unwrap_or(of_head);
        let shared = Shared {
            ledger_id: replica.ledger_id(),
            submitter,
            sequence: AtomicU64::new(0),
            numbers: Numbers::new(submitter),
            handed_in: AtomicU64::new(1 << 63),
            released: AtomicU64::new(head.height),
            released_us: AtomicI64::new(head.time_us),
            expiry_us: AtomicI64::new(expiry_us(allowed)),
            envelope_bytes_max: AtomicUsize::new(allowed.envelope_bytes_max),
            units_max: AtomicU64::new(allowed.budget.units_max),
            bytes_max: AtomicU64::new(allowed.budget.bytes_max),
            ended: AtomicBool::new(false),
            clock_guard: options.clock_bound.map(|bound| ClockGuard::new(bound, &clock)),
            clock,
            errands: Mutex::default(),
            queue: Queue::new(limits, head.height, head.time_us, remote),
            retention: Retention::new(Arc::clone(&store), options.retention, head),
            memory: MemoryBound::new(options.memory_bytes_max, options.memory_together, &store),
            store,
            language,
            observer,
            head: Mutex::new(head),
            published: watch::Sender::new(head.height),
            parameters: Mutex::new(Arc::clone(replica.parameters())),
            halted: OnceLock::new(),
            told_to_halt: OnceLock::new(),
            checkpoints,
            log_scheme: journal.scheme(),
            ledger: Arc::clone(journal.ledger()),
            locks: Arc::default(),
            watchdog: options.watchdog,
            skips: replica.skips().to_vec(),
            signer: options.signer,
        };
        shared.locks.set_protocol(&replica.parameters().protocol);
        Ok(shared)
    }

    /// Has other threads tell what concerns all.
    pub fn wire(self: &Arc<Self>, vouch: bool) {
        if let Some(remote) = &self.queue.remote {
            let waking = Arc::downgrade(self);
            remote.wake_by(Arc::new(move || {
                if let Some(shared) = waking.upgrade() {
                    shared.queue.errand();
                }
            }));
        }
        let halting = Arc::downgrade(self);
        self.ledger.on_failure(Box::new(move |error| {
            if let Some(shared) = halting.upgrade() {
                shared.halt(&error);
            }
        }));
        if let Some(service) = &self.checkpoints {
            let waking = Arc::downgrade(self);
            service.wake_by(Box::new(move || {
                if let Some(shared) = waking.upgrade() {
                    shared.queue.errand();
                }
            }));
            if vouch {
                let vouching = Arc::downgrade(self);
                service.vouch_by(Box::new(move |taken| match vouching.upgrade() {
                    Some(shared) => shared.vouch(taken),
                    None => Err(shutting_down()),
                }));
            }
        }
    }

    pub fn submit(
        &self,
        submitter: Submitter<'_>,
        asked: &Asked,
        compiled: Option<Compiled>,
    ) -> Result<Submitted, Error> {
        let Asked { request, barrier, .. } = asked;
        self.check_takes(request, asked.takes())?;
        // Replay tells such a transaction by its bytes, so it must never run as a program here.
        let compiled = compiled.filter(|_| *barrier == Barrier::None);
        let shared = self;
        let number = shared.draw();
        let seen = shared.released.load(Ordering::Acquire);
        let read = |number| {
            let sequence = Submission::Sequence { submitter: shared.submitter, sequence: number };
            let submission = submitter.key.map_or(sequence, Submission::Key);
            let envelope = shared.envelope(submitter, submission, (request, seen))?;
            // Said at once what each replica would say.
            if shared.language.asks_for_approvals() {
                approvals_suffice(&*shared.language, &envelope.view()?)?;
            }
            Ok(envelope)
        };
        let envelope = read(number)?;
        let in_time = |envelope| match shared.is_recent(number) {
            true => Ok(envelope),
            false => read(shared.draw()),
        };
        let (ticket, submitted) = ticket(number, envelope, compiled, *barrier);
        shared.queue.push(ticket, in_time)?;
        Ok(submitted)
    }

    /// Hands in what its user has signed, as it is; `own`: of whom it need not be signed yet.
    pub fn submit_signed(&self, envelope: &[u8], own: &str) -> Result<Submitted, Error> {
        let most = self.envelope_bytes_max.load(Ordering::Acquire);
        if envelope.len() > most {
            return Err(too_large(envelope.len(), most));
        }
        let mut envelope = EnvelopeBytes::read(bytes::Bytes::copy_from_slice(envelope));
        if let Some(signed) = self.signed_for(&envelope.view().map_err(no_envelope)?, own)? {
            envelope = signed;
        }
        let view = envelope.view()?;
        if view.ledger_id != self.ledger_id {
            return Err(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                "the envelope is for another ledger",
            ));
        }
        let body = Body::from_request(view.request).map_err(no_envelope)?;
        let asked = Asked::from(&body);
        if Body::is_checkpoint(view.request) || Body::is_skip(view.request) {
            let what = "no client can ask for this";
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what));
        }
        self.check_takes(view.request, asked.takes())?;
        self.check_not_expired(&view, "ordered")?;
        envelope.check_signatures()?;
        signers_may(&*self.language, &view)?;
        self.language.check_handed_in(&body)?;
        arguments_fit(&*self.language, &view)?;
        if self.language.asks_for_approvals() {
            approvals_suffice(&*self.language, &view)?;
        }
        drop(view);
        let (ticket, submitted) = ticket(self.handed_in(), envelope, None, asked.barrier);
        self.queue.push(ticket, Ok)?;
        Ok(submitted)
    }

    /// A number that a ticket may have, and no envelope.
    fn handed_in(&self) -> u64 {
        self.handed_in.fetch_add(1, Ordering::Relaxed)
    }

    /// An envelope of that user that bears no signature, with this node's where that is wanted.
    fn signed_for(&self, view: &View<'_>, own: &str) -> Result<Option<EnvelopeBytes>, Error> {
        if !view.signatures.is_empty() {
            return Ok(None);
        }
        if view.principal != own {
            let what = "the envelope bears no signature";
            let detail = format!("It is one of role \"{}\".", view.principal);
            return Err(Error::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, what)
                .with_detail(detail)
                .with_hint("A session of that role may hand it in without one."));
        }
        let party = Party::of_envelope(view)?;
        let wanted = self.language.wanted_signature(party);
        let (Wanted::Node, Some(signer)) = (wanted, &self.signer) else { return Ok(None) };
        let (mut view, mut room) = (view.clone(), [0; 64]);
        view.sign(signer, &mut room)?;
        Ok(Some(EnvelopeBytes::read(view.encode()?)))
    }

    /// See [`Engine::proposal`](super::Engine::proposal).
    pub fn proposal(
        &self,
        Submitter { principal, role, seed, .. }: Submitter<'_>,
        request: &[u8],
    ) -> Result<Transaction, Error> {
        let mut signers = Vec::new();
        if self.language.asks_for_signatures() {
            let party = Party { principal, role };
            let wanted = self.language.wanted_signature(party);
            signers.extend(self.node_key().filter(|_| wanted == Wanted::Node));
            self.language.check_signers(party, &signers)?;
        }
        let settings = role.map(|role| (ROLE.to_owned(), role.to_owned())).into_iter().collect();
        let (user, approvers) = (principal.to_owned(), Vec::new());
        let body = Body::from_request(request)?;
        Ok(Transaction { user, settings, seed, signers, approvers, body })
    }

    /// See [`Engine::draft`](super::Engine::draft).
    pub fn draft(
        &self,
        submitter: Submitter<'_>,
        (request, seen_height): (&[u8], Height),
        former: Option<Draft>,
    ) -> Result<Draft, Error> {
        let (number, submission) = match (submitter.key, former.and_then(|draft| draft.number)) {
            (Some(key), _) => (None, Submission::Key(key)),
            (None, former) => {
                let number = former.map_or_else(|| self.numbers.draw(), Ok)?;
                let Number { submitter, sequence, .. } = number;
                (Some(number), Submission::Sequence { submitter, sequence })
            }
        };
        let envelope = self.envelope(submitter, submission, (request, seen_height))?;
        Ok(Draft { id: envelope.id()?, envelope: envelope.into_bytes(), number })
    }

    /// See [`Engine::submit_draft`](super::Engine::submit_draft).
    pub fn submit_draft(
        &self,
        draft: Draft,
        approvals: &[Signature],
        compiled: Option<Compiled>,
    ) -> Result<Submitted, Error> {
        let approvals = approvals.iter();
        let approvals =
            approvals.map(|it| Signature { key_id: it.key_id, bytes: &it.bytes[..] }).collect();
        let whole = View { approvals, ..View::read(&draft.envelope)? };
        self.check_not_expired(&whole, "ordered")?;
        let envelope = whole.encode()?;
        let most = self.envelope_bytes_max.load(Ordering::Acquire);
        if envelope.len() > most {
            return Err(too_large(envelope.len(), most));
        }
        let envelope = EnvelopeBytes::read(envelope).signed_here();
        debug_assert_eq!(envelope.id().ok(), Some(draft.id), "it is what they have agreed to");
        self.check_takes(whole.request, true)?;
        let is_agreed = compiled.as_ref().is_some_and(|it| it.agreed);
        let compiled = match is_agreed || !self.language.asks_for_approvals() {
            true => compiled,
            false => approvals_suffice(&*self.language, &whole)?,
        };
        let (ticket, submitted) = ticket(self.handed_in(), envelope, compiled, Barrier::None);
        self.queue.push(ticket, Ok)?;
        Ok(Submitted { _open: draft.number, ..submitted })
    }

    /// The key that this node signs by.
    pub fn node_key(&self) -> Option<PublicKey> {
        self.signer.as_ref().map(SecretKey::public)
    }

    /// The same envelope with this node's approval, which has looked at what it does.
    pub fn approve(&self, envelope: &[u8]) -> Result<bytes::Bytes, Error> {
        let signer = self.approver()?;
        let (mut view, mut room) = (View::read(envelope).map_err(no_envelope)?, [0; 64]);
        self.check_not_expired(&view, "approved")?;
        view.approve(signer, &mut room)?;
        view.encode()
    }

    pub fn may_approve(&self, envelope: &EnvelopeBytes) -> Result<Hash, Error> {
        self.approver()?;
        self.check_not_expired(&envelope.view().map_err(no_envelope)?, "approved")?;
        envelope.id()
    }

    pub fn approve_all(&self, ids: &[Hash]) -> Result<Vec<Signature>, Error> {
        let signer = self.approver()?;
        let key_id = signer.public();
        let approvals = approve_all(signer, ids).into_iter();
        Ok(approvals.map(|bytes| Signature { key_id, bytes: bytes.into() }).collect())
    }

    fn approver(&self) -> Result<&SecretKey, Error> {
        self.signer.as_ref().ok_or_else(|| {
            let what = "this node has no key to approve by";
            Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
        })
    }

    /// By this node's clock; its block decides.
    fn check_not_expired(&self, view: &View<'_>, to_be: &str) -> Result<(), Error> {
        let now_us = (self.clock)().max(self.released_us.load(Ordering::Acquire));
        match view.expires_us < now_us {
            true => {
                let what = format!("the transaction expired before it was {to_be}");
                Err(Error::new(SqlState::QUERY_CANCELED, what))
            }
            false => Ok(()),
        }
    }

    /// Whether there is room for it now; `takes`: whether it may take room in memory.
    fn check_takes(&self, request: &[u8], takes: bool) -> Result<(), Error> {
        if let Some(why) = self.ledger.fullness() {
            let hint = "Make room on the disk; the node goes on by itself then.";
            return Err(Error::new(SqlState::DISK_FULL, "the disk is full")
                .with_detail(format!("The transaction is in no block. {why}"))
                .with_hint(hint));
        }
        if Body::is_skip(request) {
            let what = "no session can skip a block";
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what));
        }
        if takes {
            self.memory.check(&self.store)?;
        }
        match &self.clock_guard {
            Some(guard) => guard.check((self.clock)(), self.released_us.load(Ordering::Acquire)),
            None => Ok(()),
        }
    }

    /// Has the ledger say what the digest of a checkpoint is; returns when it does.
    fn vouch(&self, taken: &Taken) -> Result<(), Error> {
        let body = Body::Checkpoint { height: taken.height, digest: taken.digest };
        let submitter = Submitter { principal: PRINCIPAL, role: None, key: None, seed: [0; 16] };
        let submitted = self.submit(submitter, &Asked::from(&body), None)?;
        let completion = submitted.answer.blocking_recv().map_err(|_| shutting_down())??;
        match completion.outcome {
            // With its block, where blocks are held back.
            Outcome::Committed(_) => self.ledger.write_held().map(drop).map_err(cannot_write),
            Outcome::Rejected(error) | Outcome::Retry(error) => Err(error),
        }
    }

    /// Refuse whatever waits, and whatever may come.
    pub fn halt(&self, cause: &Error) {
        if self.halted.set(cause.clone()).is_ok() {
            self.observer.halted(cause);
        }
        self.retention.end();
        let refusal = reads_only(cause);
        self.queue.close(refusal.clone());
        for waiting in self.queue.drain() {
            let _ = waiting.reply.send(Err(refusal.clone()));
        }
        if let Some(remote) = &self.queue.remote {
            remote.leave();
        }
        self.forget_pending();
        if let Some(service) = &self.checkpoints {
            service.abandon(&refusal);
        }
    }

    /// What other nodes may still order.
    pub fn forget_pending(&self) {
        for waiting in self.queue.remote.iter().flat_map(RemoteOrders::drain) {
            let _ = waiting.reply.send(Err(not_known()));
        }
    }

    /// The number of the next envelope.
    fn draw(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a number is near the newest one. One that was drawn long ago, for a request that
    /// took long to be copied, would be too old to be admitted after those that overtook it.
    fn is_recent(&self, number: u64) -> bool {
        self.sequence.load(Ordering::Relaxed) - number < WINDOW / 2
    }

    /// An envelope of this node's, of that name.
    fn envelope(
        &self,
        submitter: Submitter<'_>,
        submission: Submission<&str>,
        (request, seen_height): (&[u8], Height),
    ) -> Result<EnvelopeBytes, Error> {
        // The times of blocks do not run back with the clock.
        let now_us = (self.clock)().max(self.released_us.load(Ordering::Acquire));
        let mut envelope = View {
            ledger_id: self.ledger_id,
            principal: submitter.principal,
            submission,
            expires_us: now_us.saturating_add(self.expiry_us.load(Ordering::Acquire)),
            seen_height,
            settings: submitter.role.map(|role| (ROLE, role)).into_iter().collect(),
            seed: submitter.seed,
            request,
            signatures: Vec::new(),
            approvals: Vec::new(),
        };
        let mut room = [0; 64];
        if self.language.asks_for_signatures() {
            let party = Party { principal: submitter.principal, role: submitter.role };
            if let (Wanted::Node, Some(signer)) =
                (self.language.wanted_signature(party), &self.signer)
            {
                envelope.sign(signer, &mut room)?;
            }
            signers_may(&*self.language, &envelope)?;
        }
        let is_signed = !envelope.signatures.is_empty();
        let envelope = envelope.encode()?;
        let most = self.envelope_bytes_max.load(Ordering::Acquire);
        if envelope.len() > most {
            return Err(too_large(envelope.len(), most));
        }
        let envelope = EnvelopeBytes::read(envelope);
        Ok(if is_signed { envelope.signed_here() } else { envelope })
    }

    pub fn store_budget(&self, budget: Budget) {
        self.units_max.store(budget.units_max, Ordering::Release);
        self.bytes_max.store(budget.bytes_max, Ordering::Release);
    }

    pub fn parameters(&self) -> Arc<Parameters> {
        Arc::clone(&lock(&self.parameters))
    }

    /// An errand that comes too late is dropped, which its client is told by the channel.
    pub fn ask(&self, errand: Errand) {
        lock(&self.errands).push(errand);
        if self.ended.load(Ordering::SeqCst) {
            self.take_errands();
        }
        self.queue.errand();
    }

    pub fn has_errands(&self) -> bool {
        !lock(&self.errands).is_empty()
    }

    pub fn take_errands(&self) -> Vec<Errand> {
        std::mem::take(&mut *lock(&self.errands))
    }

    /// Blocks that were acknowledged and held back are in order, whatever came after them.
    pub fn keep_held(&self) {
        if let Err(error) = self.ledger.write_held() {
            tracing::error!(%error, "blocks that were held back cannot be written");
        }
    }
}

fn ticket(
    number: u64,
    envelope: EnvelopeBytes,
    compiled: Option<Compiled>,
    barrier: Barrier,
) -> (Ticket, Submitted) {
    let (reply, answer) = oneshot::channel();
    let waiting = Waiting { arrived: Instant::now(), reply };
    let submitted = Submitted { answer, number, _open: None };
    (Ticket { number, envelope, compiled, barrier, waiting }, submitted)
}

pub(super) fn shutting_down() -> Error {
    Error::new(SqlState::ADMIN_SHUTDOWN, "the node is shutting down")
}

/// What a client that writes is told after a halt.
pub(super) fn reads_only(cause: &Error) -> Error {
    let hint = match cause.code() {
        SqlState::DISK_FULL => "Make room on the disk, then restart the node.",
        SqlState::IO_ERROR => "See to the disk, then restart the node, which recovers.",
        _ => {
            let restart = "Restart the node, which recovers from its ledger.";
            cause.fields().hint.as_deref().unwrap_or(restart)
        }
    };
    let what = "the node serves reads only, since it had to stop writing";
    Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, what)
        .with_detail(format!("The transaction is in no block. The cause is {cause}."))
        .with_hint(hint)
}

/// Half of what the ledger allows at most, as the clock may be set back before the block is cut.
pub(super) fn expiry_us(limits: &Limits) -> i64 {
    EXPIRY_US.min(limits.expiry_us_max / 2)
}

/// What a client hands in is not the ledger's, so it does not say that the ledger is damaged.
fn no_envelope(error: Error) -> Error {
    match error.code() == SqlState::DATA_CORRUPTED {
        true => Error::new(SqlState::INVALID_PARAMETER_VALUE, "these bytes are no envelope")
            .with_detail(error.message().to_owned()),
        false => error,
    }
}
