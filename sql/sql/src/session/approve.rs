//! A node's approval of another's transaction.
//!
//! ```text
//!   envelope ─► simulated on the newest block ─► the node's own check function looks at what was
//!               asked, and at what it came to ─► the node's approval is put beside it
//! ```
//!
//! The check function is a routine of the ledger that the node's operator names. Nothing of what is
//! simulated stays; what it came to may be another thing in its block, where the check is not asked
//! again. Of an interactive transaction that was proposed it is asked for each of its statements,
//! when all of them have run: none passes for being one of several.
//!
//! `now()` is the transaction's own also in its check. A proposed transaction of several statements
//! has it from the node that its client is connected to, and no other can tell when it began: it
//! has to lie in the last [`OPEN_US_MAX`] before the newest block.
//!
//! *Bounds.* The transaction may spend and hold what it could in a block, all checks together as
//! much again.

use std::sync::Arc;

use concurrency::{Moment, Overlay, Statement as Call, Work};
use engine::transaction::StatementText;
use engine::{Body, KeyId, Transaction};
use identity::{Holder, Party as Approver, RoleId};
use order::EnvelopeBytes;
use procedure::Expr;
use storage::Snapshot;
use types::{Error, Height, Result, SqlState, Value};

use super::answer::{Answer, Tag};
use super::compared::{ENDORSERS_DIFFER, compare};
use super::endorse::{Seen, all_say_yes, are_short, endorsed_of, run_proposal};
use super::guard::{aside, error_of};
use super::versioned::Versioned;
use super::{Session, View};
use crate::schema::catalog::{Catalog, Commented, Routine};

/// An interactive transaction that began longer before the newest block is endorsed by no node.
const OPEN_US_MAX: i64 = 10 * 60 * 1_000_000;

fn not_ready(what: String) -> Error {
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
}

impl Session {
    /// `SELECT tally_approve(envelope)`: the envelope with this node's approval.
    pub(super) fn approve(
        &mut self,
        envelope: &Expr,
        parameters: &[Value],
        view: &View,
    ) -> Result<Answer> {
        self.check_must_be(RoleId::APPROVE_CALLS, "have this node approve transactions")?;
        let Value::Bytes(bytes) = self.argument(envelope, parameters)? else {
            let what = "tally_approve() needs an envelope";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        };
        let envelope = EnvelopeBytes::read(bytes::Bytes::copy_from_slice(&bytes));
        self.looked_at_simulating(&envelope, view)?;
        let approved = self.database.engine.approve(&bytes)?;
        EnvelopeBytes::read(approved.clone()).check_signatures()?;
        let row = [Value::Bytes(approved.to_vec().into())];
        Ok(Answer::Rows { rows: vec![row.into()], tag: Tag::Select, lease: None })
    }

    /// Whether this node has reason to approve an envelope, for any session.
    ///
    /// # Errors
    /// Why it is not approved.
    pub(super) fn looked_at_simulating(
        &mut self,
        envelope: &EnvelopeBytes,
        view: &View,
    ) -> Result<()> {
        self.simulating(view, |session, view| session.looked_at(envelope, view))
    }

    /// The function that this node judges by.
    ///
    /// # Errors
    /// It approves nothing.
    pub(super) fn own_check(&self, catalog: &Arc<Catalog>) -> Result<Arc<Routine>> {
        let shared = &self.database.shared_state;
        if let Some((of, check)) = &*shared.judge.lock()
            && Arc::ptr_eq(of, catalog)
        {
            return check.clone();
        }
        let named = shared.approval_check.get().map(String::as_str);
        let organisation = organisation_of(catalog, self.database.engine.node_key());
        let check = organisation.and_then(|of_node| check_function(catalog, named, &of_node));
        // The first call of a routine compiles it, which holds up no other session. That there is
        // none is known once the node has begun.
        if named.is_some() {
            *shared.judge.lock() = Some((Arc::clone(catalog), check.clone()));
        }
        check
    }

    /// # Errors
    /// Why it is not approved.
    fn looked_at(&mut self, envelope: &EnvelopeBytes, view: &View) -> Result<()> {
        let Some(snapshot) = &view.snapshot else {
            let what = "tally_approve() cannot run inside a transaction block";
            return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
        };
        let engine = Arc::clone(&self.database.engine);
        let versioned = view.versioned.ledger();
        let check = self.own_check(&versioned.catalog)?;
        let asked = envelope.view()?;
        if asked.ledger_id != engine.ledger_id() {
            let what = "the envelope is for another ledger";
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, what));
        }
        envelope.check_signatures()?;
        let transaction = Transaction::of(&asked)?;
        let seen = asked.seen_height;
        drop(asked);
        let moment = self.moment_of(&transaction.body, seen, snapshot)?;
        self.simulate(transaction, seen, &check, (&**snapshot, moment), versioned)
    }

    /// When it is simulated: after the newest block, so that its row ids are no one's.
    pub(super) fn moment_of(
        &self,
        body: &Body,
        seen: Height,
        snapshot: &Snapshot,
    ) -> Result<Moment> {
        let height = snapshot.height() + 1;
        let newest_us = self.head_of(snapshot)?.time_us;
        let Body::Endorsed(endorsed) = body else {
            return Ok(Moment { height, position: 0, now_us: newest_us });
        };
        if seen > snapshot.height() {
            let what = format!("this node has not come to block {seen} yet");
            return Err(not_ready(what).with_hint("Ask it again."));
        }
        let now_us = endorsed.now_us;
        let is_so = match &endorsed.proposal {
            Body::Interactive { transaction, .. } => {
                if now_us < newest_us.saturating_sub(OPEN_US_MAX) {
                    let what =
                        "The transaction began more than ten minutes before the newest block.";
                    return Err(Error::serialization(what));
                }
                now_us == transaction.now_us && now_us <= newest_us
            }
            _ => {
                let known = self.database.engine.retention().head_of(seen);
                let known = known.ok_or_else(|| {
                    let what = format!("the time of block {seen} is not known any more");
                    Error::new(SqlState::SNAPSHOT_TOO_OLD, what)
                })?;
                now_us == known.time_us
            }
        };
        if !is_so {
            let what = "the envelope names another time than its transaction can have";
            return Err(Error::new(ENDORSERS_DIFFER, what));
        }
        Ok(Moment { height, position: 0, now_us })
    }

    /// What it asks for, then what the check function says of it.
    fn simulate(
        &mut self,
        mut transaction: Transaction,
        seen: Height,
        check: &Arc<Routine>,
        (snapshot, moment): (&Snapshot, Moment),
        versioned: &Versioned,
    ) -> Result<()> {
        let (body, endorsed) = match transaction.body {
            Body::Endorsed(endorsed) => (endorsed.proposal.clone(), Some(endorsed)),
            body => (body, None),
        };
        transaction.body = body;
        let (transaction, endorsed) = (&transaction, endorsed.as_deref());
        let work = match transaction.body {
            Body::Schema { .. } | Body::Parameter { .. } => None,
            _ => Some(self.database.schema.simulated(versioned, transaction)?),
        };
        let looks = looks_of(&versioned.catalog, check, transaction, endorsed.is_some())?;
        let catalog = Arc::clone(snapshot.catalog());
        let mut overlay = Overlay::new(catalog, snapshot.height(), moment, Seen::default());
        // What is approved and runs in its block is nothing that could be overtaken.
        let early_abort =
            endorsed.is_some() && self.database.engine.simulation_rules()?.early_abort;
        let frame = &mut self.simulation_frame();
        let is_short = work.as_ref().is_some_and(|work| are_short(work, &looks));
        let run = aside(is_short, || {
            if let Some(work) = &work {
                let result = run_proposal(work, frame, &mut overlay, early_abort)?;
                if let Some(asked) = endorsed {
                    let of = (versioned, &transaction.body);
                    let own = endorsed_of(of, &result, &mut overlay, frame.meter())?;
                    let own = (&own, snapshot.height());
                    compare(&versioned.catalog, (asked, seen), own)?;
                }
            }
            frame.meter().refill();
            all_say_yes(&looks, frame, &mut overlay)
        });
        let approves = run.map_err(error_of);
        snapshot.check()?;
        said_by(check, approves?)
    }
}

/// # Errors
/// 42501: the check function does not approve it.
pub(super) fn said_by(check: &Routine, approves: bool) -> Result<()> {
    match approves {
        true => Ok(()),
        false => {
            let what = format!("function {} does not approve the transaction", name_of(check));
            Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what))
        }
    }
}

fn name_of(routine: &Routine) -> &str {
    &routine.definition.name
}

/// The one that the node's key approves for.
fn organisation_of(catalog: &Catalog, key: Option<KeyId>) -> Result<String> {
    let is_in_force = |(id, known): &(&KeyId, &identity::Key)| {
        Some(**id) == key
            && known.revoked.is_none()
            && matches!(known.holder, Holder::Node(_) | Holder::Root)
    };
    let mut all = catalog.organisations().all();
    let found = all.find(|organisation| organisation.keys().any(|key| is_in_force(&key)));
    found.map(|organisation| organisation.name.clone()).ok_or_else(|| {
        not_ready("this node is one of no organisation".to_owned()).with_hint(
            "ALTER ORGANISATION … ADD KEY … FOR NODE … makes it one; tally identity node shows its \
             key.",
        )
    })
}

/// Which none can change but with the organisation, since a policy of its own asks for it.
fn check_function(
    catalog: &Catalog,
    name: Option<&str>,
    organisation: &str,
) -> Result<Arc<Routine>> {
    let Some(name) = name else {
        return Err(not_ready("this node approves nothing".to_owned())
            .with_detail("Its setting approval_check names no function.")
            .with_hint(
                "The function takes (principal text, kind text, what text, arguments text[]) and \
                 returns boolean.",
            ));
    };
    let found = catalog.routine(name).cloned();
    let routine = found.ok_or_else(|| {
        let what = format!("function {name} does not exist");
        Error::new(SqlState::UNDEFINED_FUNCTION, what)
            .with_detail("The node's setting approval_check names it.")
    })?;
    let types: Vec<String> = routine.definition.input_types().map(|it| it.to_string()).collect();
    let procedure = routine.procedure(catalog);
    if types != ["text", "text", "text", "text[]"] || !procedure.read_only {
        let what = format!("function {name} is no check function");
        return Err(Error::new(SqlState::INVALID_OBJECT_DEFINITION, what).with_detail(
            "One takes (principal text, kind text, what text, arguments text[]), returns boolean \
             and writes nothing.",
        ));
    }
    let object = Commented::Routine(name.to_owned());
    let others = |party: &Approver| party.organisation != organisation;
    let own = catalog.policies().find(|(of, _)| **of == object);
    if own.is_none_or(|(_, set)| set.policy.is_met(&mut { others })) {
        let what =
            format!("function {name} can be changed without organisation \"{organisation}\"");
        return Err(not_ready(what)
            .with_hint(format!("ALTER FUNCTION {name} SET APPROVAL POLICY '{organisation}'")));
    }
    Ok(routine)
}

/// The check function, asked for what is to be approved; for each statement of a transaction that
/// was proposed.
pub(super) fn looks_of(
    catalog: &Catalog,
    check: &Routine,
    transaction: &Transaction,
    is_proposal: bool,
) -> Result<Vec<Work>> {
    let asked: Vec<&Body> = match &transaction.body {
        Body::Interactive { transaction, .. } if is_proposal => {
            transaction.writes.iter().map(|(write, _)| write).collect()
        }
        body => vec![body],
    };
    let procedure = check.procedure_for(catalog, None)?;
    let look = |body: &&Body| {
        let arguments = arguments_of(catalog, &transaction.user, body)?.into();
        Ok(Work::Statement(Call { procedure: Arc::clone(&procedure), arguments }))
    };
    asked.iter().map(look).collect()
}

/// Who asks, what kind of thing, its name or text, and the arguments as texts.
fn arguments_of(catalog: &Catalog, user: &str, body: &Body) -> Result<Vec<Value>> {
    let texts = |values: &[Value]| {
        let text = |value: &Value| match value.is_null() {
            true => Value::Null,
            false => Value::from(value.to_text(&value.data_type_hint())),
        };
        Value::Array(values.iter().map(text).collect())
    };
    let (kind, what, arguments) = match body {
        Body::Call(Call { procedure, arguments }) => {
            // After its own stand those of sequences.
            let own = catalog.routine(procedure);
            let own = own.map_or(0, |routine| routine.definition.input_types().count());
            let own = arguments.get(..own).unwrap_or(arguments);
            ("call", procedure.as_str(), texts(own))
        }
        Body::Statement(Call { procedure: StatementText { text, .. }, arguments }) => {
            ("statement", text.as_str(), texts(arguments))
        }
        Body::Load(load) => ("load", load.procedure.as_str(), texts(&[])),
        Body::Schema { text } => ("schema", text.as_str(), texts(&[])),
        Body::Parameter { name, value } => {
            ("parameter", name.as_str(), texts(&[Value::text(value)]))
        }
        Body::Interactive { .. }
        | Body::Checkpoint { .. }
        | Body::Skip { .. }
        | Body::Endorsed(_) => {
            let what = "a transaction of this kind is not approved by nodes";
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
        }
    };
    Ok(vec![Value::text(user), Value::text(kind), Value::text(what), arguments])
}
