//! Admission: which envelopes may run.
//!
//! What it knows is a part of the ledger's state: the names that were used, and what blocks decided
//! about keys. It is asked in the order in which a block stands in the ledger. Where transactions
//! run as they arrive that order is known last, so there
//!
//! * those that may run do not depend on each other's order: no two of a block have one name, and
//!   a [`Spread`] keeps the numbers of a block so close together that none of them makes another
//!   one too old;
//! * those that may not run stand after them, since they take part in nothing, and are asked about
//!   once more when all that run have their places.
//!
//! *Signatures come before names*: an envelope with a wrong signature, or one by a key that may
//! not speak for its principal as the roles and keys are before the block, uses up no name of that
//! principal. Nor does one that lacks approvals, which any node could have taken from it. What a
//! schema change of the block itself takes away is found out after that change.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use concurrency::Work;
use kit::mutant::mutated;
use ledger::LedgerId;
use order::{Admission, EnvelopeBytes, Remembered, Submission, Submissions, WINDOW};
use types::{Error, Height, Origin, SqlState};

use crate::language::{Language, approvals_suffice, signers_may};
use crate::limits::Limits;
use crate::request::{Compiled, Member, Request, Verdict};

use super::halt::Halt;
use super::keys::{KeyDecision, KeyStanding, Undecided};

pub struct AdmissionControl {
    pub(super) ledger_id: LedgerId,
    pub(super) limits: Limits,
    pub(super) submissions: Submissions,
    /// What blocks decided about keys, until it counts.
    pub(super) undecided: Undecided,
    language: Arc<dyn Language>,
    /// Whether envelopes without a signature are asked about, before the block.
    asks_for_signatures: bool,
    /// Whether policies are.
    asks_for_approvals: bool,
    /// The block that is open, until something comes to it: one that is withdrawn leaves no trace.
    opened: Option<Opened>,
}

struct Opened {
    height: Height,
    time_us: i64,
    lag: Height,
}

impl AdmissionControl {
    pub(super) fn new(
        ledger_id: LedgerId,
        limits: Limits,
        submissions: Submissions,
        undecided: Undecided,
        language: Arc<dyn Language>,
    ) -> AdmissionControl {
        let (asks_for_signatures, asks_for_approvals, opened) = (false, false, None);
        AdmissionControl {
            ledger_id,
            limits,
            submissions,
            undecided,
            language,
            asks_for_signatures,
            asks_for_approvals,
            opened,
        }
    }

    /// A block is open, which [begins](Self::begin) when something comes to it.
    pub(super) fn open(&mut self, height: Height, time_us: i64, lag: Height) {
        assert!(self.opened.is_none(), "one block is open at a time");
        self.opened = Some(Opened { height, time_us, lag });
    }

    pub(super) fn withdraw(&mut self) {
        self.opened = None;
    }

    /// Something comes to the block that is open.
    pub(super) fn begin_opened(&mut self) -> Result<(), Halt> {
        match self.opened.take() {
            Some(Opened { height, time_us, lag }) => self.begin(height, time_us, lag),
            None => Ok(()),
        }
    }

    /// The parameters of the ledger have changed.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.submissions.set_remembered(remembered(&limits));
    }

    /// The block at `height` begins. What earlier blocks decided counts for those that are certain
    /// to be planned after them, `lag` heights later.
    pub(super) fn begin(&mut self, height: Height, time_us: i64, lag: Height) -> Result<(), Halt> {
        while self.undecided.front().is_some_and(|(decided, _)| decided + lag <= height) {
            for key_decision in self.undecided.pop_front().into_iter().flat_map(|(_, all)| all) {
                let KeyDecision { envelope, place, ended } = key_decision;
                self.submissions.decide(&envelope.view()?, place, ended)?;
            }
        }
        self.submissions.advance(time_us);
        self.asks_for_signatures = self.language.asks_for_signatures();
        self.asks_for_approvals = self.language.asks_for_approvals();
        Ok(())
    }

    /// Whether an envelope may run, which then stands at `origin`. `Err`: it may not. Its program
    /// is left in `compiled` where it had to be looked at; one that this node has judged under the
    /// same schema is not looked at again, but by [`enters`](Self::enters), which has no program.
    pub(super) fn admit(
        &mut self,
        origin: Origin,
        envelope: &EnvelopeBytes,
        compiled: &mut Option<Compiled>,
    ) -> Result<Verdict, Error> {
        if envelope.len() > self.limits.envelope_bytes_max {
            return Err(too_large(envelope.len(), self.limits.envelope_bytes_max));
        }
        let view = envelope.view()?;
        if view.ledger_id != self.ledger_id {
            return Err(refused("the envelope is for another ledger"));
        }
        if view.seen_height >= origin.height {
            return Err(refused("the envelope has seen a block that does not exist yet"));
        }
        if self.asks_for_signatures || envelope.is_signed() {
            envelope.check_signatures()?;
            signers_may(&*self.language, &view)?;
        }
        let is_judged = |program: &Compiled| {
            program.agreed && program.schema_version == self.language.schema_version()
        };
        if self.asks_for_approvals
            && !compiled.as_ref().is_some_and(is_judged)
            && let Some(program) = approvals_suffice(&*self.language, &view)?
        {
            *compiled = Some(program);
        }
        // Only keys are compared by their bytes.
        let run = Verdict::to_run(&view.submission);
        let id = match run {
            Verdict::RunKeyed => envelope.id()?,
            _ => ledger::ZERO_HASH,
        };
        match self.submissions.admit(&view, &id, origin) {
            Admission::Run => Ok(run),
            Admission::Repeat(place) => Ok(Verdict::Repeat(place)),
            Admission::Repeated if mutated("repeats_run") => Ok(run),
            Admission::Repeated => Err(refused(NUMBER_USED)),
            Admission::Refused(error) => Err(error),
        }
    }

    /// Whether an envelope may run in the open block at `height`, as the `arrival`-th that does.
    pub fn enters(
        &mut self,
        height: Height,
        arrival: u32,
        envelope: &EnvelopeBytes,
    ) -> Result<Option<Verdict>, Halt> {
        self.begin_opened()?;
        let verdict = self.admit(Origin { height, index: arrival }, envelope, &mut None).ok();
        Ok(verdict.filter(|verdict| verdict.runs()))
    }

    /// Where an envelope stands that may run, when that is known.
    pub(super) fn place(&mut self, envelope: &EnvelopeBytes, origin: Origin) -> Result<(), Halt> {
        self.submissions.place(&envelope.view()?, origin);
        Ok(())
    }

    pub(super) fn remember(&mut self, height: Height, key_decisions: Vec<KeyDecision>) {
        let newest = self.undecided.back().map(|(decided, _)| *decided);
        assert!(newest.is_none_or(|newest| newest < height), "blocks decide in their order");
        if !key_decisions.is_empty() {
            self.undecided.push_back((height, key_decisions));
        }
    }

    pub(super) fn standing(&self, principal: &str, key: &str) -> Option<KeyStanding> {
        let newest = self.undecided.iter().rev().flat_map(|(_, all)| all);
        let newest =
            newest.filter_map(|key_decision| key_decision.standing_of(principal, key)).next();
        newest.or_else(|| {
            let entry = self.submissions.lookup(principal, key)?;
            Some(KeyStanding { place: entry.place, status: entry.status })
        })
    }
}

/// The numbers of an open block, by submitter: their lowest and highest.
#[derive(Default)]
pub struct Spread(BTreeMap<[u8; 16], (u64, u64)>);

impl Spread {
    /// Whether an envelope's number may stand anywhere among those of the block.
    pub fn takes(&mut self, submission: &Submission<&str>) -> bool {
        let Submission::Sequence { submitter, sequence } = *submission else { return true };
        let (lowest, highest) = self.0.entry(submitter).or_insert((sequence, sequence));
        let next = ((*lowest).min(sequence), (*highest).max(sequence));
        let fits = next.1 - next.0 < WINDOW;
        if fits {
            (*lowest, *highest) = next;
        }
        fits
    }
}

pub fn too_large(bytes: usize, most: usize) -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the transaction is too large")
        .with_detail(format!("Its envelope has {bytes} bytes; the ledger allows {most}."))
        .with_hint("Split it into several transactions.")
}

const NUMBER_USED: &str = "the envelope's number was used before";

/// Whether a transaction was refused because another envelope of its number, or other bytes under
/// its key, came before it.
pub fn is_of_another(error: &Error) -> bool {
    error.code() == SqlState::PROTOCOL_VIOLATION && error.message() == NUMBER_USED
        || order::submissions::is_of_another(error)
}

pub(super) fn refused(what: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, what)
}

/// Keys of one principal, and submitters, that are known at a time.
const KEYS_MAX: usize = 100_000;
const SUBMITTERS_MAX: usize = 1_024;

pub(super) fn remembered(limits: &Limits) -> Remembered {
    Remembered {
        expiry_us_max: limits.expiry_us_max,
        submitters_max: SUBMITTERS_MAX,
        keys_max: KEYS_MAX,
    }
}

/// A request in its block, with no program yet.
pub(super) fn admitted<T>(
    admission: &mut AdmissionControl,
    origin: Origin,
    mut request: Request<T>,
) -> Member<T> {
    let compiled = &mut request.compiled;
    let (verdict, work) = match admission.admit(origin, &request.envelope, compiled) {
        Ok(Verdict::Repeat(first)) => {
            debug_assert!(first < origin, "a copy stands behind what it is a copy of");
            (Verdict::Repeat(first), void(repeated(first)))
        }
        Ok(verdict) => (verdict, Arc::clone(NOT_COMPILED.get_or_init(|| void(not_compiled())))),
        Err(error) => (Verdict::Refused, void(error)),
    };
    Member { request, verdict, work }
}

/// Shared, since each transaction of a block begins with it.
static NOT_COMPILED: OnceLock<Arc<Work>> = OnceLock::new();

fn void(why: Error) -> Arc<Work> {
    Arc::new(Work::Void(why))
}

pub(super) fn not_compiled() -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "the transaction has no program")
}

/// What a client is told if its transaction is in the ledger already.
pub(super) fn repeated(first: Origin) -> Error {
    let Origin { height, index } = first;
    Error::new(SqlState::DUPLICATE_OBJECT, "a transaction with this key is in the ledger already")
        .with_detail(format!("It is transaction {index} of block {height}."))
        .with_hint("SELECT * FROM tally_outcome('key') tells how it ended.")
}
