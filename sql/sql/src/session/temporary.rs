//! Temporary tables: what a session has beside the ledger.
//!
//! ```text
//!   CREATE TEMP TABLE t …                 a catalog over the ledger's ([`schema::temporary`])
//!   INSERT INTO t SELECT … FROM ledger    the transaction's overlay; what it read of the ledger is
//!                                         required at COMMIT, as a query's reads are
//!   COMMIT ─┬─► ledger: writes of its tables
//!           └─► the session's store: rows of the others, when the ledger has taken the first
//!
//!   INSERT INTO ledger SELECT … FROM t    the ledger is asked for the statement with t's rows in
//! ```
//!
//! The tables are those of the ledger in all but where they are: the same records and indexes, in a
//! store that one session has for itself. A transaction reads and writes both kinds through one
//! overlay, so ROLLBACK and savepoints need nothing of their own. Nothing of them is ordered; what
//! the ledger is asked for names none of them ([`feeding`](super::feeding)).
//!
//! *Stamps.* All rows bear the same, of height 0, so whatever block a transaction began on, it sees
//! them: there is one state of them, and no other session that could see another.
//!
//! *Departure.* Values of a temporary sequence are taken by the transaction, and ROLLBACK gives
//! them back.
//!
//! *Cost.* A session without such tables pays a look at an empty place. With some, its statements
//! have their names settled, and its catalog is made anew when the ledger's schema changes.

use std::sync::Arc;

use concurrency::Work;
use procedure::analysis::Footprint;
use procedure::analysis::visit::numbered;
use procedure::draws::Draws;
use procedure::{Procedure, ProgramResult, Step};
use storage::Catalog as Tables;
use types::{Error, Result, SqlState, TableId, Value};

use super::answer::{Answer, plain};
use super::lock_clauses::Locking;
use super::locking::no_transaction;
use super::prepared::{Action, Prepared};
use super::temporaries::Leaving;
use super::transaction::OpenTransaction;
use super::versioned::Versioned;
use super::{Session, View};
use crate::bind::statement::Program;
use crate::ddl::skipped::WARNING;
use crate::schema::catalog::Catalog;
use crate::schema::temporary::schema_name;
use crate::syntax::ddl::Ddl;
use crate::syntax::names::{bare, key};
use crate::syntax::parsed::Parsed;

/// What a program writes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WritesTo {
    Nothing,
    Ledger,
    Session,
    Both,
}

impl WritesTo {
    pub fn of(procedure: &Procedure) -> WritesTo {
        if procedure.read_only {
            return WritesTo::Nothing;
        }
        let mut written = WritesTo::Nothing;
        for step in numbered(&procedure.body) {
            if let Step::Insert { table, .. }
            | Step::Update { table, .. }
            | Step::Delete { table, .. } = step
            {
                written = match (written, table.is_temporary()) {
                    (WritesTo::Nothing | WritesTo::Session, true) => WritesTo::Session,
                    (WritesTo::Nothing | WritesTo::Ledger, false) => WritesTo::Ledger,
                    _ => WritesTo::Both,
                };
            }
        }
        written
    }

    pub fn of_work(work: &Work) -> WritesTo {
        match work {
            Work::Statement(statement) => WritesTo::of(&statement.procedure),
            Work::Load(load) => WritesTo::of(&load.procedure),
            Work::Interactive(_) | Work::Void(_) => WritesTo::Ledger,
        }
    }
}

/// Whether a program that the ledger is asked for names what is the session's own, which no replica
/// knows.
pub(super) fn names_own(work: &Work) -> bool {
    match work {
        Work::Statement(statement) => names_any(&statement.procedure),
        Work::Load(load) => names_any(&load.procedure),
        Work::Interactive(open) => open.writes.iter().any(|(write, _)| names_own(write)),
        Work::Void(_) => false,
    }
}

fn names_any(procedure: &Procedure) -> bool {
    let touched = Footprint::of_block(&procedure.body).tables;
    takes_own(procedure) || touched.into_keys().any(TableId::is_temporary)
}

/// Whether a statement has to be within a transaction: it changes what the session has.
fn changes(action: &Action) -> bool {
    match action {
        Action::Program(Program::Procedure(procedure)) => {
            WritesTo::of(procedure) == WritesTo::Session || takes_own(procedure)
        }
        Action::Program(Program::SetValues { sequences, .. }) => {
            sequences.iter().any(|sequence| sequence.id.is_temporary())
        }
        Action::Program(Program::SessionCalls { .. } | Program::Call { .. }) => true,
        _ => false,
    }
}

fn takes_own(procedure: &Procedure) -> bool {
    procedure.sequences.iter().any(|used| used.sequence.is_temporary())
}

impl Session {
    /// The objects that the next statement sees.
    fn temporary_objects(&self) -> Option<&Arc<Catalog>> {
        match &self.transaction {
            Some(transaction) => transaction.temporary.objects.as_ref(),
            None => self.temporaries.kept.objects.as_ref(),
        }
    }

    pub(super) fn has_temporaries(&self) -> bool {
        self.temporary_objects().is_some()
    }

    /// With what is the session's own.
    pub(super) fn with_temporaries(&self, versioned: Arc<Versioned>) -> Arc<Versioned> {
        self.temporaries.over(versioned, self.temporary_objects())
    }

    /// The schema that a statement is bound under: with room for what it makes of the session's
    /// own.
    pub(super) fn with_room_for(
        &self,
        versioned: &Arc<Versioned>,
        parsed: &mut Parsed,
    ) -> Arc<Versioned> {
        let first = self.info.path.0.first().map(String::as_str);
        match parsed.makes_temporary(first) && versioned.below.is_none() {
            true => self.with_room(versioned),
            false => Arc::clone(versioned),
        }
    }

    /// A schema with room for temporary tables.
    fn with_room(&self, versioned: &Arc<Versioned>) -> Arc<Versioned> {
        let (schema, next) = (schema_name(self.info.backend_pid), self.next_temporary());
        let objects = Arc::new(versioned.catalog.with_room(schema, next));
        Arc::new(versioned.with_temporary_of(&objects))
    }

    fn next_temporary(&self) -> TableId {
        match &self.transaction {
            Some(transaction) => transaction.temporary.next,
            None => self.temporaries.kept.next,
        }
    }

    /// What a query reads outside of a transaction: a snapshot's tables and the session's.
    pub(super) fn with_own_tables(&self, tables: &Arc<Tables>) -> Arc<Tables> {
        match &self.temporaries.kept.tables {
            Some(own) if self.transaction.is_none() => Arc::new(tables.joined(own)),
            _ => Arc::clone(tables),
        }
    }

    /// A statement that names what is the session's own. What changes it is in a transaction.
    pub(super) async fn run_temporary(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        let action = &prepared.bound.statement;
        if let Action::Program(Program::Procedure(procedure)) = action {
            match WritesTo::of(procedure) {
                WritesTo::Ledger => return self.answer_fed(prepared, parameters, &view).await,
                WritesTo::Both => return Err(writes_to_both()),
                WritesTo::Nothing | WritesTo::Session => {}
            }
        }
        if self.transaction.is_some() || !changes(action) {
            return self.run_action(prepared, parameters, view).await;
        }
        drop(view);
        self.begin_implicit_block()?;
        // The schema may have changed meanwhile.
        let answered = self.execute_within(prepared, parameters).await;
        self.end_with(answered).await
    }

    /// Ends the block that a statement began for itself.
    pub(super) async fn end_with<T>(&mut self, answered: Result<T>) -> Result<T> {
        match answered {
            Ok(answered) => {
                let leased = self.running.answered.take();
                self.end_implicit_block(true).await?;
                self.running.answered = leased;
                Ok(answered)
            }
            Err(error) => {
                self.roll_back();
                Err(error)
            }
        }
    }

    /// Runs what writes to the session's tables alone.
    pub(super) async fn write_temporary(&mut self, work: &Work) -> Result<ProgramResult> {
        let result = match self.locks_statements() {
            true => self.run_locked(work, Locking::default()).await?,
            false => {
                let transaction = self.transaction.as_mut().ok_or_else(no_transaction)?;
                transaction.write_temporary(work)?
            }
        };
        self.running.answered = self.cover(&result)?;
        Ok(result)
    }

    /// A schema change of what is the session's own.
    pub(super) async fn change_temporary(&mut self, ddl: &Ddl) -> Result<Answer> {
        let catalog = Arc::clone(&self.view().versioned.catalog);
        if let Ddl::CreateView(create) = ddl
            && !create.temporary
        {
            let name = create.name.0.last().map(ToString::to_string).unwrap_or_default();
            let what = format!("view \"{}\" will be a temporary view", name.trim_matches('"'));
            self.tell(Error::new(SqlState(*b"00000"), what));
        }
        if let Ddl::CreateView(create) = ddl {
            self.check_new_view(create)?;
        }
        for notice in ddl.skipped(&catalog) {
            match notice.code() {
                WARNING => self.warn(notice),
                _ => self.tell(notice),
            }
        }
        if self.transaction.is_some() {
            return self.change_own(ddl);
        }
        self.begin_implicit_block()?;
        let changed = self.change_own(ddl);
        self.end_with(changed).await
    }

    fn change_own(&mut self, ddl: &Ddl) -> Result<Answer> {
        let schema = schema_name(self.info.backend_pid);
        let actor = {
            let catalog = &self.view().versioned.catalog;
            let party = self.info.party();
            let actor = catalog.roles().actor(party.principal, party.role)?;
            if !self.has_temporaries() {
                catalog.check_temporary_by(actor.current)?;
            }
            actor
        };
        let (store, bytes_max) = (self.temporaries.store(), self.settings.temporary_memory());
        let transaction = self.transaction.as_mut().ok_or_else(no_transaction)?;
        transaction.change_temporary((actor, ddl), schema, &store, bytes_max)?;
        Ok(plain(ddl.tag()))
    }

    /// What is missing to a routine, if that is a table of the session: all others are found.
    pub(super) fn beyond_routines(&self, error: Error) -> Error {
        let Some(objects) = self.temporary_objects() else { return error };
        if error.code() != SqlState::UNDEFINED_TABLE {
            return error;
        }
        let schema = objects.temporary_schema().unwrap_or_default();
        let missing = error.message().split('"').nth(1).unwrap_or_default();
        let is_it = |name: &str| {
            let own = key(schema, bare(name));
            objects.find_table(&own).is_some() || objects.find_sequence(&own).is_some()
        };
        match is_it(missing) {
            false => error,
            true => Error::unsupported(format_args!(
                "the temporary table \"{missing}\" in a routine"
            ))
            .with_hint(
                "A routine means the same to all sessions. Use statements of the session, or \
                     hand it the rows as arguments.",
            ),
        }
    }

    /// DISCARD TEMP.
    pub(super) fn discard_temporaries(&mut self) -> Result<()> {
        if self.transaction.is_none() {
            self.temporaries.forget();
            return Ok(());
        }
        let Some(objects) = self.temporary_objects().cloned() else { return Ok(()) };
        for text in objects.drop_temporary() {
            for parsed in crate::syntax::parse::parse(&text)? {
                let prepared = self.bind(&self.view().versioned, parsed, &[], false)?;
                if let Action::Ddl(ddl) = &prepared.bound.statement {
                    self.change_own(ddl)?;
                }
            }
        }
        Ok(())
    }

    /// What a transaction leaves of the session's own, taken out of it before it is lowered.
    ///
    /// # Errors
    /// 53200: there is no room for it.
    pub(super) fn leaving(&mut self, open: &mut OpenTransaction) -> Result<Option<Leaving>> {
        let Some(leaving) = open.take_temporary(&self.temporaries.kept)? else { return Ok(None) };
        self.temporaries.check(&leaving, self.settings.temporary_memory())?;
        Ok(Some(leaving))
    }

    pub(super) fn keep_temporary(&mut self, leaving: Option<Leaving>) -> Result<()> {
        match leaving {
            Some(leaving) => self.temporaries.install(leaving),
            None => Ok(()),
        }
    }

    /// What a program of a transaction draws from, if it writes to what is the session's own: no
    /// block draws along.
    pub(super) fn draws_alone(&self, procedure: &Procedure) -> Result<Option<Draws>> {
        let is_own = self.has_temporaries() && WritesTo::of(procedure) == WritesTo::Session;
        match is_own {
            true => super::chance::new_seed().map(|seed| Some(Draws::new(seed))),
            false => Ok(None),
        }
    }
}

pub(super) fn writes_to_both() -> Error {
    Error::unsupported("a statement that writes to temporary tables and to others")
        .with_hint("Write to each kind by a statement of its own, in one transaction.")
}
