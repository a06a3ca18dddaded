//! Runs compiled programs for a session: reads on a snapshot, statements of an open transaction in
//! its workspace, writes as a ledger transaction that is ordered and answered.

use concurrency::{Moment, NoRecord, Outcome, Overlay, Statement as Call, Work};
use engine::transaction::Asked;
use engine::{Compiled, Completion, ParameterTypes, Seed, Submitter};
use kit::pool::Lease;
use procedure::draws::{Draws, seed_expression};
use procedure::{Expr, Interrupt, Output, Procedure, ProgramResult, ROW_WEIGHT};
use sqlparser::ast;
use std::sync::Arc;
use tokio::sync::watch;
use types::{DataType, Error, Height, Result, SqlState, Value};

use super::answer::{Answer, answer, plain};
use super::chance::{NO_SEED, new_seed, seed_of};
use super::decided;
use super::guard::{aside, error_of};
use super::lock_clauses::Locking;
use super::prepared::Prepared;
use super::sequences::{ATTEMPTS_MAX, is_too_few};
use super::temporary::{WritesTo, names_own, writes_to_both};
use super::{Session, View, schema};
use crate::bind::PastQuery;
use crate::bind::statement::Program;
use crate::compile::bind_in_session;
use crate::copy::{CopyFormatter, CopyOptions};
use crate::plan::analytical_engine::held;

use crate::ddl::truncate::children_first;
use crate::syntax::names::as_sql;
use crate::syntax::parse::parse;
use crate::syntax::path::SearchPath;

fn weight_of(result: &ProgramResult) -> u64 {
    let row = |row: &Box<[Value]>| ROW_WEIGHT + row.iter().map(Value::weight).sum::<usize>();
    result.rows.iter().map(|r| row(r) as u64).sum()
}

/// Replicas check it as well, so it must not be found out there.
pub(super) fn check_kinds(types: &[DataType], parameters: &[Value]) -> Result<()> {
    let same = |(value, data_type)| schema::is_of(value, data_type);
    let what = "the parameters are not those of the statement";
    match parameters.len() == types.len() && parameters.iter().zip(types).all(same) {
        true => Ok(()),
        false => Err(Error::new(SqlState::PROTOCOL_VIOLATION, what)),
    }
}

impl Session {
    /// Runs a program over the data; what the client gets of it.
    pub(super) async fn answer_program(
        &mut self,
        program: &Program,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        match program {
            Program::Procedure(procedure) => {
                self.answer_procedure(procedure, prepared, parameters, view).await
            }
            Program::Call { procedure, arguments, tag } => {
                let called = (procedure, &arguments[..], *tag);
                self.answer_call(called, prepared, parameters, view).await
            }
            Program::Past(PastQuery::Columns { of, places }) => {
                let answer = self.run_about_past(of, parameters, &view).await?;
                Ok(answer.only_columns(places))
            }
            Program::Past(query) => self.run_about_past(query, parameters, &view).await,
            Program::SessionCalls { calls, row } => {
                self.run_session_calls(calls, row, parameters).await
            }
            Program::SetValues { sequences, query } => {
                check_kinds(&prepared.bound.parameters, parameters)?;
                self.set_values(sequences, query, parameters, (view, prepared.locking)).await
            }
            Program::CopyIn { columns, row, at_end, options, .. } => {
                let programs = (Arc::clone(row), at_end.clone());
                self.begin_copy(&prepared.parsed.text, columns.len(), programs, options)
            }
            Program::CopyOut { query, options } => {
                self.copy_out((query, options), prepared, parameters, view).await
            }
            Program::Explain(lines) => Ok(Answer::explained(lines)),
        }
    }

    async fn answer_procedure(
        &mut self,
        procedure: &Arc<Procedure>,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        let types = &prepared.bound.parameters;
        if let Some(keyed) = self.row_locks(prepared, &view)? {
            check_kinds(types, parameters)?;
            return self.answer_locking_rows(&keyed, prepared, parameters).await;
        }
        check_kinds(types, parameters)?;
        if prepared.locking.within
            && let Some(answer) = self.answer_with_locked_rows(prepared, parameters).await?
        {
            return Ok(answer);
        }
        if !prepared.temporary
            && let Some(answer) = self.answer_broad(prepared, None, parameters, &view).await?
        {
            return Ok(answer);
        }
        match (prepared.may_defer, self.transaction.is_some()) {
            (true, true) => self.run_deferring(procedure, prepared, parameters, view).await,
            (true, false) => self.run_alone(procedure, prepared, parameters, view).await,
            (false, _) => self.run_and_answer(procedure, prepared, parameters, view).await,
        }
    }

    pub(super) async fn run_and_answer(
        &mut self,
        procedure: &Arc<Procedure>,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        let output = &prepared.bound.output;
        // Rows that a block answers cannot be refused any more when they are there.
        if !procedure.read_only && matches!(output, Output::Rows(_)) {
            self.guard.pool().check()?;
        }
        let ask = |given: &[Value]| {
            let asked = Asked::statement(&prepared.parsed.text, &prepared.types, given);
            asked.freeing(procedure.tag == "DELETE")
        };
        let how = (view, prepared.locking);
        let result = self.run_procedure(procedure, parameters, &ask, how).await?;
        Ok(answer(&procedure.tag, output, result, self.running.answered.take()))
    }

    async fn answer_call(
        &mut self,
        (procedure, arguments, tag): (&Arc<Procedure>, &[Expr], &str),
        prepared: &Prepared,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let argument = self.with_values(argument, &view.versioned.catalog).await?;
            values.push(self.argument(&argument, parameters)?);
        }
        let ask = |given: &[Value]| Asked::call(&procedure.name, given);
        let how = (view, prepared.locking);
        let mut result = self.run_procedure(procedure, &values, &ask, how).await?;
        let output = &prepared.bound.output;
        if let (Output::Rows(_), Output::Tag) = (output, &procedure.output) {
            result.rows = vec![[Value::Null].into()];
        }
        Ok(answer(tag, output, result, self.running.answered.take()))
    }

    async fn copy_out(
        &mut self,
        (query, options): (&Arc<Procedure>, &CopyOptions),
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        self.check_copy(options)?;
        let copy = Some(options);
        if !prepared.temporary
            && let Some(answer) = self.answer_broad(prepared, copy, parameters, &view).await?
        {
            return Ok(answer);
        }
        let ask =
            |_: &[Value]| Asked::statement(&prepared.parsed.text, &prepared.types, parameters);
        let how = (view, prepared.locking);
        let result = self.run_procedure(query, parameters, &ask, how).await?;
        let Output::Rows(columns) = &query.output else {
            return Ok(plain("COPY 0"));
        };
        let formatter = CopyFormatter::new(options, columns, &self.info.zone);
        let rows = held(result.rows, self.running.answered.take());
        Ok(Answer::CopyOut { columns: columns.len(), rows, formatter })
    }

    /// Runs a program with these parameters; `ask` is what the ledger holds of it where it writes.
    pub(super) async fn run_procedure(
        &mut self,
        procedure: &Arc<Procedure>,
        parameters: &[Value],
        ask: &(dyn Fn(&[Value]) -> Asked + Send + Sync),
        (view, locking): (View, Locking),
    ) -> Result<ProgramResult> {
        if procedure.sequences.is_empty() {
            return self.run_given(procedure, parameters, ask, (view, locking)).await;
        }
        let keyed = self.settings.has_transaction_key();
        let mut attempts = 1;
        loop {
            let brought = self.bring(procedure, parameters, &view).await?;
            let given = &brought.arguments;
            let run = self.run_given(procedure, given, ask, (view.clone(), locking)).await;
            match run {
                Err(error) if is_too_few(&error) && brought.rehearsed => {
                    // The first has settled the key.
                    if self.transaction.is_some() || keyed || attempts == ATTEMPTS_MAX {
                        return Err(error);
                    }
                    attempts += 1;
                }
                run => return run,
            }
        }
    }

    async fn run_given(
        &mut self,
        procedure: &Arc<Procedure>,
        given: &[Value],
        ask: &(dyn Fn(&[Value]) -> Asked + Send + Sync),
        (view, locking): (View, Locking),
    ) -> Result<ProgramResult> {
        let mut draws = self.draws(procedure)?;
        let arguments = draws.arguments(procedure, given)?;
        let asked = (!procedure.read_only).then(|| ask(given));
        let work = Work::Statement(Call { procedure: Arc::clone(procedure), arguments });
        self.run_program((work, draws), asked, view, locking).await
    }

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
        self.running.notices.append(&mut result.notices);
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
                self.running.answered = transaction.hand_over(left);
                let head = transaction.head();
                self.has_read(head);
            }
            return result;
        }
        locking.check_without_locks()?;
        if let Some(transaction) = &mut self.transaction {
            let head = transaction.head();
            let (result, lease) = transaction.query(work);
            self.running.answered = lease;
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
        let catalog = self.with_own_tables(snapshot.catalog());
        let mut overlay = Overlay::new(catalog, snapshot.height(), moment, NoRecord);
        let frame = &mut self.running.frame;
        frame.meter().set_memory(self.guard.memory());
        let result = aside(work.is_short(), || work.run(frame, &mut overlay)).map_err(error_of);
        self.running.answered = frame.meter().hand_over(self.guard.memory());
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
        if self.has_temporaries() {
            match WritesTo::of_work(&work) {
                WritesTo::Session => return self.write_temporary(&work).await,
                WritesTo::Both => return Err(writes_to_both()),
                WritesTo::Nothing | WritesTo::Ledger => {}
            }
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.writes_as(self.info.party().role)?;
        }
        if self.locks_statements() {
            return self.write_locked(asked, work, draws).await;
        }
        if let Some(transaction) = &mut self.transaction {
            let result = transaction.write(asked, work, draws)?;
            self.running.answered = self.cover(&result)?;
            return Ok(result);
        }
        self.check_may_write_alone()?;
        let _respected = self.respect_locks(&work).await?;
        // Not the version published now: a schema change may have come since the program was made.
        let version = self.running.version;
        let completion = self.submit(&asked, Some((work, version)), seed_of(&draws)).await?;
        match completion.outcome {
            Outcome::Committed(result) => {
                // It is in the ledger: an error would say that it is not.
                let mut lease = self.guard.lease();
                lease.cover_anyway(weight_of(&result));
                self.running.answered = Some(lease);
                Ok(result)
            }
            Outcome::Rejected(error) | Outcome::Retry(error) => Err(error),
        }
    }

    /// Rows that a statement answers and that its transaction keeps as well.
    pub(super) fn cover(&self, result: &ProgramResult) -> Result<Option<Lease>> {
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
        let role = self.info.party().role.map(str::to_owned);
        self.submit_as(role.as_deref(), asked, work, seed).await
    }

    /// The same as another role.
    async fn submit_as(
        &mut self,
        role: Option<&str>,
        asked: &Asked,
        work: Option<(Work, u64)>,
        seed: Seed,
    ) -> Result<Completion> {
        debug_assert!(
            !work.as_ref().is_some_and(|(work, _)| names_own(work)),
            "own tables ordered"
        );
        self.guard.check()?;
        if self.settings.as_of_block().is_some() {
            let what = "nothing can be written while tally.as_of_block is set";
            return Err(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, what)
                .with_hint("RESET tally.as_of_block goes back to the newest block."));
        }
        if self.is_endorsed(&asked.request, work.as_ref().map(|(work, _)| work))? {
            return self.submit_endorsed(role, &asked.request, seed).await;
        }
        let certified = self.certificates()?;
        let compiled = work.map(|(work, schema_version)| {
            let work = Arc::new(work);
            Compiled { work, schema_version, agreed: false }
        });
        let key = self.settings.take_transaction_key();
        let principal = self.info.user.as_str();
        let submitter = Submitter { principal, role, key: key.as_deref(), seed };
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
            self.settings.put_transaction_key_back(key.clone());
        }
        self.acknowledge(ended.answer, certified, key.as_deref()).await
    }

    /// A transaction's end is known; it is answered when it is as certain as the session asks for.
    pub(super) async fn acknowledge(
        &mut self,
        answer: Result<Completion>,
        certified: Option<watch::Receiver<Height>>,
        key: Option<&str>,
    ) -> Result<Completion> {
        let leaving = self.temporaries.leaving.take();
        if let Ok(completion) = &answer {
            self.has_seen(completion.height);
            if matches!(completion.outcome, Outcome::Committed(_)) {
                // Whatever becomes of the answer.
                self.keep_temporary(leaving)?;
                self.seen.last_commit = Some((completion.height, completion.origin));
            }
        }
        if let (Some(certified), Ok(completion)) = (certified, &answer)
            && matches!(completion.outcome, Outcome::Committed(_))
        {
            let height = completion.height;
            let (guard, limit) = (Arc::clone(&self.guard), self.settings.commit_timeout());
            decided::certified(&guard, limit, certified, height, key).await?;
        }
        answer
    }

    /// Where a transaction is acknowledged by its certificate: what tells of them.
    pub(super) fn certificates(&self) -> Result<Option<watch::Receiver<Height>>> {
        if !self.settings.acknowledges_certified() {
            return Ok(None);
        }
        let certified = self.database.shared_state.certified.get();
        certified.cloned().map(Some).ok_or_else(decided::without_votes)
    }

    /// Of what is a transaction by itself: `default_transaction_read_only` is for it, too.
    pub(super) fn check_may_write_alone(&self) -> Result<()> {
        match self.settings.read_only() {
            false => Ok(()),
            true => Err(Error::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                "cannot execute a writing statement in a read-only transaction",
            )),
        }
    }

    /// What a transaction locked stays locked until its COMMIT is answered.
    pub(super) async fn commit_writes(&mut self) -> Result<Answer> {
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(plain("COMMIT"));
        };
        let leaving = self.leaving(&mut transaction)?;
        transaction.confirm()?;
        let _row_locks = transaction.row_locks.take();
        let locks = transaction.take_locks();
        let _passing = match &locks {
            Some(_) => None,
            None => self.pass(),
        };
        let (version, draws) = (transaction.schema_version(), transaction.draws());
        let role = transaction.role.take();
        let is_small = transaction.is_small();
        let Some((asked, work)) = aside(is_small, || transaction.lower())? else {
            self.keep_temporary(leaving)?;
            return Ok(plain("COMMIT"));
        };
        let work = work.map(|work| (Work::Interactive(work), version));
        let seed = seed_of(&draws);
        self.temporaries.leaving = leaving;
        let submitted = self.submit_as(role.as_deref(), &asked, work, seed).await;
        self.temporaries.leaving = None;
        drop(locks);
        match submitted?.outcome {
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
        let canonical = self.canonical(SearchPath::default());
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

impl Session {
    /// What the next program draws from.
    pub(super) fn draws(&self, procedure: &Procedure) -> Result<Draws> {
        if let Some(alone) = self.draws_alone(procedure)? {
            return Ok(alone);
        }
        match &self.transaction {
            Some(transaction) if !procedure.read_only => Ok(transaction.draws()),
            _ if procedure.draws => new_seed().map(Draws::new),
            _ => Ok(Draws::new(NO_SEED)),
        }
    }

    /// An argument, which is a value before it goes anywhere. Values of sequences in it have been
    /// taken.
    pub(super) fn argument(&self, expr: &Expr, parameters: &[Value]) -> Result<Value> {
        if !expr.draws() {
            return expr.eval(parameters, &[], self.now_us());
        }
        let mut seeded = expr.clone();
        seed_expression(&mut seeded, new_seed()?);
        seeded.eval(parameters, &[], self.now_us())
    }
}
