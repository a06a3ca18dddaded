//! Foreign keys and UNIQUE constraints that wait for COMMIT, in a session: see
//! [`schema::deferred`].
//!
//! [`schema::deferred`]: crate::schema::deferred

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use concurrency::{Statement as Call, Work};
use procedure::analysis::visit::numbered;
use procedure::{Procedure, Step};
use types::{Error, Result, SqlState, Value};

use super::answer::{Answer, plain};
use super::blocks::ATTEMPTS_MAX;
use super::prepared::{Action, Prepared};
use super::schema::procedure_of;
use super::versioned::Versioned;
use super::{Session, View};
use crate::bind::statement::Program;
use crate::compile::bind_in_session;
use crate::schema::catalog::{Catalog, Table};
use crate::schema::deferred::{checking, constraint_key, deferring, keeps_pending};
use crate::settings::session_info::SessionInfo;
use crate::syntax::names::{self, PUBLIC, split};
use crate::syntax::parse::parse;

/// What a transaction has said of constraints, and which it has broken so far.
#[derive(Clone, Default, Debug)]
pub struct Deferring {
    /// SET CONSTRAINTS ALL.
    all: Option<bool>,
    named: BTreeMap<String, bool>,
    /// To be looked at again.
    pending: BTreeSet<String>,
}

impl Deferring {
    /// `initially`: whether it waits where nothing was said.
    fn is_deferred(&self, called: &str, initially: bool) -> bool {
        self.named.get(called).copied().or(self.all).unwrap_or(initially)
    }
}

/// Whether a program may break a key that can be deferred.
pub(super) fn may_defer(procedure: &Procedure, catalog: &Catalog) -> bool {
    !procedure.read_only
        && numbered(&procedure.body).into_iter().any(|step| match step {
            Step::Insert { table, .. }
            | Step::Update { table, .. }
            | Step::Delete { table, .. } => {
                catalog.table_by_id(*table).is_some_and(|table| catalog.may_defer(table))
            }
            _ => false,
        })
}

/// Whether a key may be broken by the order alone in which a statement's rows are written: what is
/// inserted stays. To look at all that is to be unique takes time.
fn is_order_of_rows(procedure: &Procedure, error: &Error) -> bool {
    error.code() == SqlState::UNIQUE_VIOLATION && !procedure.tag.starts_with("INSERT")
}

impl Session {
    pub(super) async fn set_constraints(
        &mut self,
        names: &[String],
        deferred: bool,
    ) -> Result<Answer> {
        let Some(transaction) = &mut self.transaction else {
            self.warn_without_block("SET CONSTRAINTS");
            return Ok(plain("SET CONSTRAINTS"));
        };
        let said = &mut transaction.deferring;
        match names.is_empty() {
            true => {
                said.all = Some(deferred);
                said.named.clear();
            }
            false => said.named.extend(names.iter().map(|name| (name.clone(), deferred))),
        }
        if !deferred {
            self.check_deferred(|called| names.is_empty() || names.iter().any(|n| n == called))
                .await?;
        }
        Ok(plain("SET CONSTRAINTS"))
    }

    /// A schema change of the open transaction.
    ///
    /// # Errors
    /// 55006: it would lose sight of a key that waits.
    pub(super) fn check_pending(&self, before: &Catalog) -> Result<()> {
        match &self.transaction {
            Some(open) if !open.deferring.pending.is_empty() => {
                keeps_pending(before, &self.view().versioned.catalog, &open.deferring.pending)
            }
            _ => Ok(()),
        }
    }

    /// Looks at keys that were broken.
    pub(super) async fn check_deferred(&mut self, of: impl Fn(&str) -> bool) -> Result<()> {
        let Some(transaction) = &self.transaction else { return Ok(()) };
        let pending = transaction.deferring.pending.iter().filter(|called| of(called));
        let pending: Vec<String> = pending.cloned().collect();
        for called in pending {
            let text = checking(&called);
            let catalog = Arc::clone(&self.view().versioned.catalog);
            match catalog.temporary_schema() == Some(split(&called).0) {
                true => self.look_in_own(&catalog, &text).await?,
                false => self.write_in_transaction(&text).await.map(drop)?,
            }
            if let Some(transaction) = &mut self.transaction {
                transaction.deferring.pending.remove(&called);
            }
        }
        Ok(())
    }

    /// Of tables of the session, which the ledger is not asked about.
    async fn look_in_own(&mut self, catalog: &Catalog, text: &str) -> Result<()> {
        let parsed = parse(text)?.remove(0);
        let bound = bind_in_session(catalog, &SessionInfo::default(), &parsed, &[])?;
        let (procedure, arguments) = (procedure_of(&bound)?, Box::default());
        let work = Work::Statement(Call { procedure, arguments });
        self.write_temporary(&work).await.map(drop)
    }

    /// A statement by itself whose rows may break a key one by one, and not together: then it is
    /// run again as a transaction that looks at the key in the end.
    pub(super) async fn run_alone(
        &mut self,
        procedure: &Arc<Procedure>,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        let versioned = Arc::clone(&view.versioned);
        // The first run settles the key, and rows that are endorsed are written one by one.
        let is_only_once = self.settings.has_transaction_key() || self.settings.endorses();
        let answered = self.run_and_answer(procedure, prepared, parameters, view).await;
        let Err(error) = answered else { return answered };
        let is_one = is_order_of_rows(procedure, &error)
            && self.deferrable_key(&versioned.catalog, &error).is_some();
        if !is_one || is_only_once {
            return Err(error);
        }
        let mut left = ATTEMPTS_MAX;
        loop {
            self.begin_implicit_block()?;
            let done = Box::pin(self.execute_within(prepared, parameters)).await;
            let counts = done.is_ok();
            if let Some(done) = self.end_own_block(&mut left, done, counts).await {
                return done;
            }
        }
    }

    /// A statement of a transaction that may break keys which wait: it runs without those that it
    /// breaks. One that is UNIQUE and does not wait for COMMIT is looked at when the statement has
    /// run: its rows may break it one by one, and not together.
    pub(super) async fn run_deferring(
        &mut self,
        procedure: &Arc<Procedure>,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        let (mut procedure, mut now) = (Arc::clone(procedure), Arc::clone(prepared));
        let (mut without, mut at_end) = (Vec::new(), BTreeSet::new());
        loop {
            let begun = self.transaction.as_mut().map(|transaction| transaction.begin_to_undo());
            let answered = self.run_and_answer(&procedure, &now, parameters, view.clone()).await;
            let error = match answered {
                Err(error) => error,
                answered => {
                    if !at_end.is_empty() {
                        Box::pin(self.check_deferred(|called| at_end.contains(called))).await?;
                    }
                    return answered;
                }
            };
            let Some((called, waits)) = self.deferrable_key(&view.versioned.catalog, &error) else {
                return Err(error);
            };
            let is_broken = !waits && !is_order_of_rows(&procedure, &error);
            if without.contains(&called) || is_broken {
                return Err(error);
            }
            if let (Some(transaction), Some(begun)) = (&mut self.transaction, begun) {
                transaction.undo(&begun);
                transaction.deferring.pending.insert(called.clone());
            }
            if !waits {
                at_end.insert(called.clone());
            }
            without.push(called);
            now = Arc::new(self.bind_without(&view.versioned, prepared, &without)?);
            match &now.bound.statement {
                Action::Program(Program::Procedure(again)) => procedure = Arc::clone(again),
                _ => return Err(error),
            }
        }
    }

    /// What the key is called that an error says to be broken, if it is one that can wait, and
    /// whether it does.
    fn deferrable_key(&self, catalog: &Catalog, error: &Error) -> Option<(String, bool)> {
        let is_unique = error.code() == SqlState::UNIQUE_VIOLATION;
        if !is_unique && error.code() != SqlState::FOREIGN_KEY_VIOLATION {
            return None;
        }
        let said = self.transaction.as_ref().map(|transaction| &transaction.deferring);
        let waits = |called: &str, initially: bool| {
            said.map_or(initially, |said| said.is_deferred(called, initially))
        };
        let (name, of) = (error.fields().constraint.as_deref()?, error.fields().table.as_deref()?);
        let schema = error.fields().schema.as_deref().unwrap_or(PUBLIC);
        let is_it = |table: &&Arc<Table>| table.name() == of && table.namespace() == schema;
        catalog.tables().filter(is_it).find_map(|table| {
            if is_unique {
                let (id, _) = table.unique_constraints().find(|(_, index)| index.name == name)?;
                let called = names::key(table.namespace(), name);
                let waits = waits(&called, *table.deferrable.get(&id)?);
                return Some((called, waits));
            }
            let key = table.foreign_keys.iter().find(|key| key.name == name)?;
            let called = constraint_key(table, key);
            let waits = waits(&called, key.deferrable.filter(|_| key.validated)?);
            Some((called, waits))
        })
    }

    fn bind_without(
        &self,
        versioned: &Arc<Versioned>,
        prepared: &Prepared,
        without: &[String],
    ) -> Result<Prepared> {
        let versioned = Arc::new(versioned.without_keys(without)?);
        let types: Vec<_> = prepared.bound.parameters.iter().cloned().map(Some).collect();
        let mut again = self.bind(&versioned, prepared.parsed.clone(), &types, false)?;
        again.parsed.text = deferring(without, &again.parsed.text);
        again.temporary = prepared.temporary;
        Ok(again)
    }
}
