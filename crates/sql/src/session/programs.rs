//! Programs on their way: over a snapshot, over the open transaction, or into the ledger.

use concurrency::{Moment, NoRecord, Outcome, Overlay, Statement as Call, Work};
use engine::transaction::Asked;
use engine::{Compiled, Completion, ParameterTypes, Seed, Submitter};
use kit::pool::Lease;
use procedure::draws::Draws;
use procedure::{Interrupt, ProgramResult, ROW_WEIGHT};
use sqlparser::ast;
use std::sync::Arc;
use types::{Error, Result, SqlState, Value};

use super::chance::seed_of;
use super::decided;
use super::guard::aside;
use super::locking::Locking;
use super::transaction::error_of;
use super::{Answer, Session, View, plain, schema};
use crate::compile::bind_in_session;
use crate::ddl::truncate::children_first;
use crate::settings::session_info::SessionInfo;
use crate::syntax::names::as_sql;
use crate::syntax::parse::parse;

fn weight_of(result: &ProgramResult) -> u64 {
    let row = |row: &Box<[Value]>| ROW_WEIGHT + row.iter().map(Value::weight).sum::<usize>();
    result.rows.iter().map(|r| row(r) as u64).sum()
}

impl Session {
    /// `draws`: what is left to be drawn from after it.
    pub(super) async fn run_program(
        &mut self,
        (work, draws): (Work, Draws),
        asked: Option<Asked>,
        view: View,
        locking: Locking,
    ) -> Result<ProgramResult> {
        let mut result = match asked {
            None => self.query(&work, view, locking).await?,
            Some(asked) => {
                drop(view);
                self.write(asked, work, draws).await?
            }
        };
        self.notices.append(&mut result.notices);
        Ok(result)
    }

    /// Run what cannot write: in the transaction, or on the newest durable block.
    pub(super) async fn query(
        &mut self,
        work: &Work,
        view: View,
        locking: Locking,
    ) -> Result<ProgramResult> {
        if self.locks_statements() {
            let memory_left = self.transaction.as_ref().map(|open| open.memory_left());
            let result = self.run_locked(work, locking).await;
            if let (Some(transaction), Some(left)) = (&mut self.transaction, memory_left) {
                self.answered = transaction.hand_over(left);
                let head = transaction.head();
                self.has_read(head);
            }
            return result;
        }
        locking.check_without_locks()?;
        if let Some(transaction) = &mut self.transaction {
            let head = transaction.head();
            let (result, lease) = transaction.query(work);
            self.answered = lease;
            self.has_read(head);
            return result;
        }
        self.query_aside(work, view)
    }

    fn query_aside(&mut self, work: &Work, view: View) -> Result<ProgramResult> {
        let Some(snapshot) = view.snapshot else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "a query without a snapshot"));
        };
        let head = self.head_of(&snapshot)?;
        let moment = Moment { height: snapshot.height(), position: 0, now_us: head.time_us };
        let catalog = Arc::clone(snapshot.catalog());
        let mut overlay = Overlay::new(catalog, snapshot.height(), moment, NoRecord);
        let frame = &mut self.frame;
        frame.meter().set_memory(self.guard.memory());
        let result = aside(work.is_short(), || work.run(frame, &mut overlay)).map_err(error_of);
        self.answered = frame.meter().hand_over(self.guard.memory());
        // Whatever it met is nothing if the snapshot was ended meanwhile.
        snapshot.check()?;
        self.has_read(head);
        result
    }

    /// Run what may write: in the transaction, or as a ledger transaction of its own.
    pub(super) async fn write(
        &mut self,
        asked: Asked,
        work: Work,
        draws: Draws,
    ) -> Result<ProgramResult> {
        if self.locks_statements() {
            return self.write_locked(asked, work, draws).await;
        }
        if let Some(transaction) = &mut self.transaction {
            let result = transaction.write(asked, work, draws)?;
            self.answered = self.cover(&result)?;
            return Ok(result);
        }
        if self.settings.read_only() {
            return Err(Error::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                "cannot execute a writing statement in a read-only transaction",
            ));
        }
        let _respected = self.respect_locks(&work).await?;
        // Not the version published now: a schema change may have come since the program was made.
        let version = self.program_version;
        let completion = self.submit(&asked, Some((work, version)), seed_of(&draws)).await?;
        match completion.outcome {
            Outcome::Committed(result) => {
                // It is in the ledger: an error would say that it is not.
                let mut lease = self.guard.lease();
                lease.cover_anyway(weight_of(&result));
                self.answered = Some(lease);
                Ok(result)
            }
            Outcome::Rejected(error) | Outcome::Retry(error) => Err(error),
        }
    }

    /// Rows that a statement answers and that its transaction keeps as well.
    fn cover(&self, result: &ProgramResult) -> Result<Option<Lease>> {
        let mut lease = self.guard.lease();
        lease.cover(weight_of(result))?;
        Ok(Some(lease))
    }

    /// By `&mut`, since a session is used by one task at a time and need not be `Sync`.
    pub(super) async fn submit(
        &mut self,
        asked: &Asked,
        work: Option<(Work, u64)>,
        seed: Seed,
    ) -> Result<Completion> {
        self.guard.check()?;
        if self.settings.as_of_block().is_some() {
            let what = "nothing can be written while tally.as_of_block is set";
            return Err(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, what)
                .with_hint("RESET tally.as_of_block goes back to the newest block."));
        }
        let compiled =
            work.map(|(work, schema_version)| Compiled { work: Arc::new(work), schema_version });
        let key = self.settings.take_transaction_key();
        let submitter = Submitter { principal: &self.info.user, key: key.as_deref(), seed };
        let engine = Arc::clone(&self.database.engine);
        let submitted = match engine.submit_revocably(submitter, asked, compiled) {
            Ok(submitted) => submitted,
            Err(error) => {
                // It was not ordered: the key names the next one still.
                self.settings.put_transaction_key_back(key);
                return Err(error);
            }
        };
        let (guard, limit) = (Arc::clone(&self.guard), self.settings.commit_timeout());
        let ended = decided::ended(&engine, &guard, limit, submitted, key.as_deref()).await;
        if ended.withdrawn {
            self.settings.put_transaction_key_back(key);
        }
        let answer = ended.answer;
        if let Ok(completion) = &answer {
            self.has_seen(completion.height);
            if matches!(completion.outcome, Outcome::Committed(_)) {
                self.last_commit = Some((completion.height, completion.origin));
            }
        }
        answer
    }

    /// What a transaction locked stays locked until its COMMIT is answered.
    pub(super) async fn commit_writes(&mut self) -> Result<Answer> {
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(plain("COMMIT"));
        };
        transaction.confirm()?;
        let locks = transaction.take_locks();
        let _passing = match &locks {
            Some(_) => None,
            None => self.pass(),
        };
        let (version, draws) = (transaction.schema_version(), transaction.draws());
        let is_small = transaction.is_small();
        let Some((asked, work)) = aside(is_small, || transaction.lower())? else {
            return Ok(plain("COMMIT"));
        };
        let work = work.map(|work| (Work::Interactive(work), version));
        let completion = self.submit(&asked, work, seed_of(&draws)).await?;
        drop(locks);
        match completion.outcome {
            Outcome::Committed(_) => Ok(plain("COMMIT")),
            Outcome::Rejected(error) | Outcome::Retry(error) => Err(error),
        }
    }

    /// Inside a transaction TRUNCATE is what it means: DELETE of every row.
    pub(super) async fn truncate_in_transaction(
        &mut self,
        names: &[ast::ObjectName],
        cascade: bool,
    ) -> Result<Answer> {
        let tables = self.view().versioned.catalog.truncated(names, cascade)?;
        for part in children_first(tables) {
            let deletes = part.iter().map(|table| format!("DELETE FROM {}", as_sql(table.key())));
            let mut deletes: Vec<String> = deletes.collect();
            let Some(last) = deletes.pop() else { continue };
            let named = deletes.iter().enumerate();
            let named: Vec<String> =
                named.map(|(number, delete)| format!("t{number} AS ({delete})")).collect();
            let with = if named.is_empty() { "" } else { "WITH " };
            self.write_in_transaction(&format!("{with}{} {last}", named.join(", "))).await?;
        }
        Ok(plain("TRUNCATE TABLE"))
    }

    /// Runs a statement that this node has worded.
    pub(super) async fn write_in_transaction(&mut self, text: &str) -> Result<ProgramResult> {
        let versioned = self.view().versioned;
        let canonical = SessionInfo { user: self.info.user.clone(), ..SessionInfo::default() };
        let mut result = ProgramResult::default();
        for parsed in parse(text)? {
            let bound = bind_in_session(&versioned.catalog, &canonical, &parsed, &[])?;
            let procedure = schema::procedure_of(&bound)?;
            let work = Work::Statement(Call { procedure, arguments: Box::default() });
            let asked = Asked::statement(text, &ParameterTypes::default(), &[]);
            if let Some(draws) = self.transaction.as_ref().map(|t| t.draws()) {
                result = self.write(asked, work, draws).await?;
            }
        }
        Ok(result)
    }
}
