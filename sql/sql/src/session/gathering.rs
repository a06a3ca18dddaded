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
//! Members are asked at once, and all of them: which of their approvals are needed the policies
//! say, where the transaction is validated. One that does not answer in time, or refuses, costs
//! its approval only; why it refused is told where approvals are missing.
//!
//! *The lock of the state.* Under `fabric:lock=state` a node simulates, for its own clients and for
//! other members, with the whole state locked against validation, as the paper's baseline does. It
//! waits for a block that is being validated, beside the runtime's workers, and holds up the next
//! one for as long as a transaction may run in a block.
//!
//! *Bounds.* One envelope to each member, an answer from each, in as much time as a call among
//! members may take. A member asks for an endorsement on behalf of its users, so that what may be
//! endorsed is for the endorser's own check function to say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use concurrency::Outcome;
use engine::{Body, Completion, Seed, Submitted, Submitter, Transaction};
use identity::APPROVAL_MISSING;
use order::View as Envelope;
use procedure::ProgramResult;
use types::{Error, Result, SqlState};

use super::guard::aside;
use super::{Database, Session, View, decided};
use crate::settings::session_info::SessionInfo;

/// Whether a request can be endorsed.
pub(super) fn is_proposal(request: &[u8]) -> bool {
    matches!(request.first(), Some(1..=3 | 7))
}

/// What a member asks this node for.
///
/// # Errors
/// Why it is not endorsed.
pub fn endorse_for_member(database: &Arc<Database>, envelope: &[u8]) -> Result<Bytes> {
    let asked = Envelope::read(envelope)?;
    if !matches!(Body::from_request(asked.request)?, Body::Endorsed(_)) {
        let what = "members endorse simulated transactions only";
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
    }
    let info = SessionInfo { user: asked.principal.to_owned(), ..SessionInfo::default() };
    let interrupt = Arc::new(AtomicBool::new(false));
    let mut session = Session::new(Arc::clone(database), info, interrupt);
    let view = session.view_of(None)?;
    session.approved(envelope, &view)
}

impl Session {
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
        let submitted = self.handed_in(role, request, (key.as_deref(), seed)).await;
        let (submitted, answer, refusals) = match submitted {
            Ok(submitted) => submitted,
            Err(error) => {
                // It was not ordered: the key names the next one still.
                self.settings.put_transaction_key_back(key);
                return Err(error);
            }
        };
        let engine = Arc::clone(&self.database.engine);
        let (guard, limit) = (Arc::clone(&self.guard), self.settings.commit_timeout());
        let ended = decided::ended(&engine, &guard, limit, submitted, key.as_deref()).await;
        let mut completion = self.acknowledge(ended.answer, certified, key.as_deref()).await?;
        completion.outcome = match completion.outcome {
            Outcome::Committed(_) => Outcome::Committed(answer),
            Outcome::Rejected(error) => Outcome::Rejected(reported(error, &refusals)),
            retry => retry,
        };
        Ok(completion)
    }

    /// Simulates it, has others do the same, and hands it in.
    async fn handed_in(
        &mut self,
        role: Option<&str>,
        request: &[u8],
        (key, seed): (Option<&str>, Seed),
    ) -> Result<(Submitted, ProgramResult, Vec<(String, Error)>)> {
        let principal = self.info.user.clone();
        let submitter = Submitter { principal: &principal, role, key, seed };
        let view = self.view_of(None)?;
        let (drafted, answer, view) =
            self.simulating(&view, |session, view| session.drafted(request, submitter, view))?;
        let (whole, refusals) = self.gathered(drafted, &view).await?;
        match self.database.engine.submit_signed(&whole, &principal) {
            Ok(submitted) => Ok((submitted, answer, refusals)),
            Err(error) => Err(reported(error, &refusals)),
        }
    }

    /// Simulates it: its envelope, what it answers, and on what it was simulated.
    fn drafted(
        &mut self,
        request: &[u8],
        submitter: Submitter<'_>,
        view: &View,
    ) -> Result<(Bytes, ProgramResult, View)> {
        let engine = Arc::clone(&self.database.engine);
        let Some(snapshot) = &view.snapshot else {
            return Err(Error::unsupported("tally.endorse inside a transaction block"));
        };
        let drafted = engine.draft(submitter, request, snapshot.height())?;
        let transaction = Transaction::of(&Envelope::read(&drafted)?)?;
        let (endorsed, answer) = self.proposed(&transaction, snapshot, view.versioned.ledger())?;
        let request = Body::Endorsed(Box::new(endorsed)).to_request();
        let drafted = engine.draft(submitter, &request, snapshot.height())?;
        Ok((drafted, answer, view.clone()))
    }

    /// The same envelope with all approvals that are to be had, and why others are not.
    async fn gathered(
        &mut self,
        envelope: Bytes,
        view: &View,
    ) -> Result<(Bytes, Vec<(String, Error)>)> {
        let asked = self.database.shared_state.endorsers.get().map(|it| it.ask(envelope.clone()));
        let own = ("this node".to_owned(), self.approved(&envelope, view));
        let mut answers = vec![own];
        if let Some(asked) = asked {
            answers.extend(asked.await);
        }
        let (mut approvals, mut refusals) = (BTreeMap::new(), Vec::new());
        let drafted = Envelope::read(&envelope)?;
        let id = drafted.id()?;
        for (name, answer) in answers {
            match answer {
                Ok(bytes) => {
                    let answered = Envelope::read(&bytes)?;
                    if answered.id()? != id {
                        let what = "it has answered with another transaction";
                        refusals.push((name, Error::new(SqlState::PROTOCOL_VIOLATION, what)));
                        continue;
                    }
                    for approval in answered.approvals {
                        approvals.insert(approval.key_id, approval.bytes.to_vec());
                    }
                }
                Err(error) => refusals.push((name, error)),
            }
        }
        let approvals = approvals.iter().take(order::signed::APPROVERS_MAX);
        let approvals = approvals
            .map(|(key_id, bytes)| order::Signature { key_id: *key_id, bytes: &bytes[..] })
            .collect();
        Ok((Envelope { approvals, ..drafted }.encode()?, refusals))
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
