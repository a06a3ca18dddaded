//! Endorsements gathered by the node that a client is connected to, its *gateway*.
//!
//! ```text
//!   SET tally.endorse = on
//!   CALL pay(…) ─► simulated here ─► envelope ─┬─► this node's approval
//!                                              ├─► member 2: simulates, compares, approves ─┐
//!                                              └─► member 3: …                              │
//!        answer of the simulation ◄── valid ◄── ordered, validated ◄── all approvals ◄──────┘
//! ```
//!
//! Members are asked at once, and all of them, and waited for until the policies are met. One that
//! does not answer in time, refuses, or answers what is not signed, costs its approval only; why is
//! told where approvals are missing. Meanwhile the client may cancel, and `statement_timeout` runs:
//! what is given up this node has not handed in, and its key names the next one.
//!
//! *What others hold.* Each envelope that members are asked about is whole, and any of them may
//! hand it in, with or without this node. All attempts of a statement have one key or one number,
//! so the ledger admits one of them; a client whose own came too late is told 08007, and not to try
//! again.
//!
//! *Once.* The gateway simulates a proposal once, and its own check function looks at that: what it
//! endorses it has come to itself. It signs with what it sends to others, so that one signature
//! serves for all proposals that they are asked about at a time ([`Endorsers`]); alone where that
//! is all that the policies ask for.
//!
//! [`Endorsers`]: super::shared_state::Endorsers
//!
//! *Interactive transactions.* COMMIT is a proposal like any other: *what the client was shown is
//! still so, and its statements, run again, answer what they answered*. Where a policy asks for
//! approvals it is one without being asked for, since it bears none in any other way.
//!
//! *The lock of the state.* Under `fabric:lock=state` a node simulates, for its own clients and for
//! other members, with the whole state locked against validation, as the paper's baseline does. It
//! waits for a block that is being validated, beside the runtime's workers, and holds up the next
//! one for as long as a transaction may run in a block.
//!
//! *However long that takes*, up to the envelope's expiry, it costs the client nothing but the
//! time: the number of its envelope is kept from growing too old ([`Engine::draft`]), a busy member
//! is waited for, and one that by then knows the time of the block no more is asked about a
//! simulation on a newer one.
//!
//! [`Engine::draft`]: engine::Engine::draft
//!
//! *Bounds.* One envelope to each member, an answer from each, in as much time as a call among
//! members may take. A member asks for an endorsement on behalf of its users, so that what may be
//! endorsed is for the endorser's own check function to say.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use concurrency::{Outcome, Work};
use engine::transaction::Endorsed;
use engine::{Body, Compiled, Completion, Draft, KeyId, Seed, Submitted, Submitter, Transaction};
use futures::StreamExt;
use futures::stream;
use identity::APPROVAL_MISSING;
use ledger::Hash;
use order::signed::{APPROVERS_MAX, are_approved};
use order::{EnvelopeBytes, Signature};
use procedure::{Interrupt, ProgramResult};
use types::{Error, Result, SqlState, TableId};

use super::approve::{looks_of, said_by};
use super::endorse::Proposed;
use super::endorsed::Reach;
use super::guard::aside;
use super::shared_state::THIS_NODE;
use super::touched::Touched;
use super::versioned::Versioned;
use super::{Database, Session, View, decided};
use crate::schema::catalog::Catalog;
use crate::settings::session_info::SessionInfo;

/// A session of this node's for what a member asks it for, which is one request.
pub struct ForMember(Session);

impl ForMember {
    pub fn new(database: &Arc<Database>) -> ForMember {
        let interrupt = Arc::new(AtomicBool::new(false));
        ForMember(Session::new(Arc::clone(database), SessionInfo::default(), interrupt))
    }

    /// The id of what this node may sign. Nothing that is read stays in the session.
    ///
    /// # Errors
    /// Why it is not endorsed.
    pub fn endorse(&mut self, envelope: &Bytes) -> Result<Hash> {
        let ForMember(session) = self;
        let envelope = EnvelopeBytes::read(envelope.clone());
        let asked = envelope.view()?;
        if !Body::is_endorsed(asked.request) {
            let what = "members endorse simulated transactions only";
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
        }
        asked.principal.clone_into(&mut session.info.user);
        let view = session.view_of(None)?;
        session.looked_at_simulating(&envelope, &view)?;
        session.database.engine.may_approve(&envelope)
    }
}

/// How often a transaction is simulated for endorsers that have forgotten its block.
const DRAFTS_MAX: usize = 4;

/// A transaction that was endorsed, as far as that goes.
struct HandedIn {
    submitted: Submitted,
    answer: ProgramResult,
    refusals: Vec<(String, Error)>,
    /// Attempts that others may hold.
    drafts: usize,
}

/// A transaction that this node has simulated for its client.
struct Drafted {
    draft: Draft,
    /// What is owed to policies.
    owed: Owed,
    answer: ProgramResult,
    /// What is run in its block, under a version of the schema.
    work: (Arc<Work>, u64),
    /// Whether its own check function says yes.
    own: Result<()>,
}

impl Session {
    /// Whether a request is endorsed before it is ordered: where the session says so, and the
    /// COMMIT of a transaction where a policy asks for approvals.
    pub(super) fn is_endorsed(&self, request: &[u8], work: Option<&Work>) -> Result<bool> {
        if !Body::is_proposal(request) || self.settings.endorses() {
            return Ok(Body::is_proposal(request));
        }
        let Some(work @ Work::Interactive(_)) = work else { return Ok(false) };
        let catalog = &self.database.schema.newest().catalog;
        if !catalog.has_policies() {
            return Ok(false);
        }
        let mut touched = Touched::by_name(&Body::from_request(request)?);
        touched.by_program(work);
        Ok(!touched.is_agreed(catalog, &catalog.agreed(&[], &[])))
    }

    /// Simulates on a view; on the newest, with the state locked, where the protocol says so.
    pub(super) fn simulating<T>(
        &mut self,
        view: &View,
        run: impl FnOnce(&mut Session, &View) -> Result<T>,
    ) -> Result<T> {
        let engine = Arc::clone(&self.database.engine);
        if !engine.simulation_rules()?.locks_state {
            return run(self, view);
        }
        aside(false, || {
            let _locked = engine.store().lock_shared();
            let newest = self.view_of(None)?;
            run(self, &newest)
        })
    }

    /// Has the transaction endorsed, then ordered; its answer is that of the simulation.
    pub(super) async fn submit_endorsed(
        &mut self,
        role: Option<&str>,
        request: &[u8],
        seed: Seed,
    ) -> Result<Completion> {
        let certified = self.certificates()?;
        let key = self.settings.take_transaction_key();
        let handed_in = self.handed_in(role, request, (key.as_deref(), seed)).await;
        let HandedIn { submitted, answer, refusals, drafts } = match handed_in {
            Ok(handed_in) => handed_in,
            Err(error) => {
                // It was not ordered: the key names the next one still.
                self.settings.put_transaction_key_back(key);
                return Err(error);
            }
        };
        let engine = Arc::clone(&self.database.engine);
        let (guard, limit) = (Arc::clone(&self.guard), self.settings.commit_timeout());
        let ended = decided::ended(&engine, &guard, limit, submitted, key.as_deref()).await;
        if ended.withdrawn {
            self.settings.put_transaction_key_back(key.clone());
        }
        let mut completion = self.acknowledge(ended.answer, certified, key.as_deref()).await?;
        // Under a key, one envelope alone stands for itself.
        if let Outcome::Rejected(error) = &completion.outcome
            && engine::is_of_another(error)
            && (key.is_none() || drafts > 1)
        {
            return Err(decided::of_another_attempt(key.as_deref()));
        }
        completion.outcome = match completion.outcome {
            Outcome::Committed(_) => Outcome::Committed(answer),
            Outcome::Rejected(error) => Outcome::Rejected(reported(error, &refusals)),
            retry => retry,
        };
        Ok(completion)
    }

    /// Simulates it, has others do the same, and hands it in. One that has waited so long that an
    /// endorser knows its block no more is simulated anew.
    async fn handed_in(
        &mut self,
        role: Option<&str>,
        request: &[u8],
        (key, seed): (Option<&str>, Seed),
    ) -> Result<HandedIn> {
        let principal = self.info.user.clone();
        let submitter = Submitter { principal: &principal, role, key, seed };
        let (mut drafts, mut former) = (1, None);
        let (drafted, gathered) = loop {
            let view = self.view_of(None)?;
            let mut drafted = self.simulating(&view, |session, view| {
                session.drafted(request, submitter, (view, former.take()))
            })?;
            let own = std::mem::replace(&mut drafted.own, Ok(()));
            let gathered = self.gathered(&drafted, own).await?;
            if !gathered.is_forgotten() || drafts == DRAFTS_MAX {
                break (drafted, gathered);
            }
            drafts += 1;
            former = Some(drafted.draft);
        };
        let Drafted { draft, answer, work: (work, schema_version), .. } = drafted;
        let Gathered { approvals, refusals, agreed } = gathered;
        let compiled = agreed.then_some(Compiled { work, schema_version, agreed });
        match self.database.engine.submit_draft(draft, &approvals, compiled) {
            Ok(submitted) => Ok(HandedIn { submitted, answer, refusals, drafts }),
            Err(error) => Err(reported(error, &refusals)),
        }
    }

    /// Simulates it, and asks the node's own check function.
    fn drafted(
        &mut self,
        request: &[u8],
        submitter: Submitter<'_>,
        (view, former): (&View, Option<Draft>),
    ) -> Result<Drafted> {
        let engine = Arc::clone(&self.database.engine);
        let Some(snapshot) = &view.snapshot else {
            return Err(Error::unsupported("tally.endorse inside a transaction block"));
        };
        let transaction = engine.proposal(submitter, request)?;
        let versioned = view.versioned.ledger();
        let check = self.own_check(&versioned.catalog).and_then(|check| {
            let looks = looks_of(&versioned.catalog, &check, &transaction, true)?;
            Ok((check, looks))
        });
        let looks = check.as_ref().map_or(&[][..], |(_, looks)| looks);
        let Proposed { proposal, endorsed, again, answer, approves } =
            self.proposed(&transaction, snapshot, (versioned, looks))?;
        let schema = Arc::clone(&self.database.schema);
        let party = transaction.party()?;
        let asked = (party, &transaction.body, &proposal);
        let kept = schema.reach_of(&schema.compiled_aside, versioned, asked);
        let reach = kept.get_or_init(|| Reach::of(&proposal));
        // What all replicas ask of it, of whom this one looks at nothing again.
        reach.check(&versioned.catalog, &endorsed.writes)?;
        let owed = Owed::of(versioned, (transaction, reach, &endorsed));
        let body = Body::Endorsed(Box::new(endorsed));
        let own = check.and_then(|(check, _)| {
            self.moment_of(&body, snapshot.height(), snapshot)?;
            said_by(&check, approves?)
        });
        let request = body.to_request();
        let draft = engine.draft(submitter, (&request, snapshot.height()), former)?;
        debug_assert!(own.is_err() || engine.node_key().is_some(), "it is one of an organisation");
        Ok(Drafted { draft, owed, answer, work: (Arc::new(again), versioned.version), own })
    }

    /// The approvals that its policies need, as far as they are to be had, and why others are not.
    async fn gathered(&mut self, drafted: &Drafted, own: Result<()>) -> Result<Gathered> {
        let Drafted { draft, owed, .. } = drafted;
        let id = draft.id;
        let engine = Arc::clone(&self.database.engine);
        let (guard, mut gathered) = (Arc::clone(&self.guard), Gathered::default());
        let approves = own.is_ok();
        if let Err(why) = own {
            gathered.refusals.push((THIS_NODE.to_owned(), why));
        }
        let endorsers = self.database.shared_state.endorsers.get();
        let own_key = engine.node_key().filter(|_| approves);
        let is_enough = own_key.is_some() && owed.are_met_by(own_key.into_iter());
        let mut others = match endorsers {
            Some(endorsers) if !is_enough => endorsers.ask((draft.envelope.clone(), id), approves),
            _ => {
                if approves {
                    let signed = engine.approve_all(&[id])?.into_iter();
                    signed.for_each(|own| gathered.add(THIS_NODE.to_owned(), Ok(own), &id));
                }
                stream::empty().boxed()
            }
        };
        gathered.agreed = owed.are_met_by(gathered.approvers());
        while !gathered.agreed {
            guard.check()?;
            let answer = tokio::select! {
                biased;
                answer = others.next() => answer,
                why = guard.given_up() => return Err(why),
            };
            let Some((name, answer)) = answer else { break };
            gathered.add(name, answer, &id);
            gathered.agreed = owed.are_met_by(gathered.approvers());
        }
        Ok(gathered)
    }
}

/// What a transaction owes to policies.
struct Owed {
    catalog: Arc<Catalog>,
    touched: Touched,
    written: BTreeSet<TableId>,
    signers: Vec<KeyId>,
}

impl Owed {
    fn of(
        versioned: &Versioned,
        (transaction, reach, endorsed): (Transaction, &Reach, &Endorsed),
    ) -> Owed {
        let written = endorsed.writes.iter().map(|write| write.table).collect();
        let mut touched = Touched::by_name(&transaction.body);
        touched.by_reach(reach);
        let signers = transaction.signers;
        Owed { catalog: Arc::clone(&versioned.catalog), touched, written, signers }
    }

    /// As the transaction's block will judge it.
    fn are_met_by(&self, approvers: impl Iterator<Item = KeyId>) -> bool {
        let (catalog, approvers) = (&self.catalog, approvers.collect::<Vec<_>>());
        let agreed = catalog.agreed(&self.signers, &approvers);
        let written = self.written.iter().copied();
        let is_met =
            self.touched.is_agreed(catalog, &agreed) && catalog.are_endorsed(written, &agreed);
        debug_assert_eq!(
            is_met,
            self.touched.check(catalog, &agreed).is_ok()
                && catalog.check_endorsed(self.written.iter().copied(), &agreed).is_ok(),
            "one answer, with and without what is said of it"
        );
        is_met
    }
}

/// What was answered.
#[derive(Default)]
struct Gathered {
    /// Ascending by key, each right.
    approvals: Vec<Signature>,
    /// By whom.
    refusals: Vec<(String, Error)>,
    /// The approvals are what policies ask for.
    agreed: bool,
}

impl Gathered {
    /// Approvals are missing, and for one of them it came too late.
    fn is_forgotten(&self) -> bool {
        let forgotten = |(_, why): &(String, Error)| why.code() == SqlState::SNAPSHOT_TOO_OLD;
        !self.agreed && self.refusals.iter().any(forgotten)
    }

    fn approvers(&self) -> impl Iterator<Item = KeyId> {
        self.approvals.iter().map(|approval| approval.key_id)
    }

    fn add(&mut self, name: String, answer: Result<Signature>, id: &Hash) {
        let right = answer.and_then(|answer| {
            let asked = Signature { key_id: answer.key_id, bytes: &answer.bytes[..] };
            match are_approved(&[(*id, asked)])[..] {
                [true] => Ok(answer),
                _ => {
                    let what = "its approval of the transaction is wrong";
                    Err(Error::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, what))
                }
            }
        });
        match right {
            Ok(_) if self.approvals.len() == APPROVERS_MAX => {}
            Ok(approval) => {
                let place = self.approvals.binary_search_by_key(&approval.key_id, |it| it.key_id);
                match place {
                    Ok(known) => self.approvals[known] = approval,
                    Err(place) => self.approvals.insert(place, approval),
                }
            }
            Err(error) => self.refusals.push((name, error)),
        }
    }
}

/// With what those said who have not endorsed it. Where one has met other rows by now, the client
/// is told that: to try again is what helps.
fn reported(error: Error, refusals: &[(String, Error)]) -> Error {
    if error.code() != APPROVAL_MISSING || refusals.is_empty() {
        return error;
    }
    let is_stale = |why: &Error| why.code() == SqlState::SERIALIZATION_FAILURE;
    if let Some((_, stale)) = refusals.iter().find(|(_, why)| is_stale(why)) {
        return stale.clone();
    }
    let mut detail = error.fields().detail.clone().unwrap_or_default();
    for (name, why) in refusals {
        detail.push_str(&format!(" Of {name}: {}.", why.message()));
        if let Some(more) = &why.fields().detail {
            detail.push_str(&format!(" {more}"));
        }
    }
    error.with_detail(detail)
}
