//! Calls of functions that act on the session ([`SessionCall`]), and the commands that do the same
//! by a grammar of their own: LISTEN, UNLISTEN, NOTIFY, DISCARD.
//!
//! What a transaction does outside of the ledger is its [`SideEffects`]: notifications and changes
//! of channels wait for its COMMIT to be answered, locks of its level end with it, and ROLLBACK TO
//! takes back what came after the savepoint.

use std::sync::Arc;
use std::time::{Duration, Instant};

use procedure::{Expr, Interrupt, Notice, NoticeLevel};
use tokio::time;
use types::{Error, Result, SqlState, Value};

use super::answer::{Answer, Tag, plain};
use super::shared_state::advisory::{AdvisoryKey, Wanted};
use super::shared_state::channels::{Change, Listener, Note, Notification, Promise};
use super::side_effects::SideEffects;
use super::{Session, Status};
use crate::bind::statement::Discarded;
use crate::bind::{Level, SessionCall, SessionFunction};

/// How often a sleeper looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

impl Session {
    /// Where notifications for the client arrive.
    pub fn listener(&self) -> &Listener {
        &self.shared.listener
    }

    /// Those that the client can be told now; a transaction does not see them.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        match self.status() {
            Status::Idle => self.shared.listener.fetch(),
            _ => Vec::new(),
        }
    }

    pub(super) async fn run_session_calls(
        &mut self,
        calls: &[SessionCall],
        row: &[Expr],
        parameters: &[Value],
    ) -> Result<Answer> {
        let began_us = self.database.engine.now_us();
        let mut registers = parameters.to_vec();
        if calls.iter().any(|call| call.function == SessionFunction::SetConfig) {
            self.settings.begin_to_keep();
        }
        let outcome = self.call_all(calls, &mut registers, began_us).await;
        if self.transaction.is_none() {
            self.end_transaction_locks();
        }
        let row = match outcome {
            Ok(()) => self.row_of(calls, row, &registers).await,
            Err(error) => Err(error),
        };
        // A statement is a transaction of its own.
        if self.transaction.is_none() {
            self.settings.transaction_ended(row.is_ok());
        }
        row
    }

    async fn row_of(
        &mut self,
        calls: &[SessionCall],
        row: &[Expr],
        registers: &[Value],
    ) -> Result<Answer> {
        let catalog = Arc::clone(&self.view().versioned.catalog);
        let mut values = Vec::with_capacity(row.len());
        for value in row {
            let value = self.with_values(value, &catalog).await?;
            values.push(self.argument(&value, registers)?);
        }
        let rows = match (calls, &values[..]) {
            ([SessionCall { function: SessionFunction::ListeningChannels, .. }], _) => {
                let channels = self.shared.listener.channels();
                channels.map(|channel| [Value::text(channel)].into()).collect()
            }
            _ => vec![values.into()],
        };
        Ok(Answer::Rows { rows, tag: Tag::Select, lease: None })
    }

    async fn call_all(
        &mut self,
        calls: &[SessionCall],
        registers: &mut Vec<Value>,
        began_us: i64,
    ) -> Result<()> {
        for SessionCall { function, arguments } in calls {
            let mut values = Vec::with_capacity(arguments.len());
            for argument in arguments {
                let catalog = Arc::clone(&self.view().versioned.catalog);
                let argument = self.with_values(argument, &catalog).await?;
                values.push(self.argument(&argument, registers)?);
            }
            registers.push(self.call(*function, &values, began_us).await?);
        }
        Ok(())
    }

    async fn call(
        &mut self,
        function: SessionFunction,
        arguments: &[Value],
        began_us: i64,
    ) -> Result<Value> {
        use SessionFunction as F;
        let takes_null = matches!(function, F::SetConfig | F::Notify);
        if !takes_null && arguments.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        Ok(match function {
            F::AdvisoryLock { exclusive, level, waits } => {
                let wanted = Wanted { key: key_of(arguments), exclusive, level };
                return self.advisory_lock(wanted, waits).await;
            }
            F::AdvisoryUnlock { exclusive } => {
                let key = key_of(arguments);
                Value::Bool(self.advisory_unlock(key, exclusive))
            }
            F::AdvisoryUnlockAll => {
                self.shared.advisory.unlock_all(Level::Session);
                Value::Null
            }
            F::CancelBackend | F::TerminateBackend => {
                let patience = arguments.get(1).and_then(Value::as_int).unwrap_or(0);
                let ends = function == F::TerminateBackend;
                Value::Bool(self.signal(int(arguments), ends, patience).await?)
            }
            F::ClockTimestamp => Value::Timestamptz(self.database.engine.now_us()),
            F::StatementTimestamp => Value::Timestamptz(began_us),
            F::TimeOfDay => Value::text(time_of_day(self.database.engine.now_us())),
            // Its rows are made when it has been called.
            F::ListeningChannels => Value::Null,
            F::Notify => {
                let text = |place: usize| arguments.get(place).and_then(Value::as_text);
                self.notify(text(0).unwrap_or_default(), text(1).unwrap_or_default())?;
                Value::Null
            }
            F::NotificationQueueUsage => Value::Float(self.database.shared_state.channels.usage()),
            F::SetConfig => return self.set_config(arguments).await,
            F::Sleep => {
                if let [Value::Float(seconds)] = arguments {
                    self.sleep(*seconds).await?;
                }
                Value::Null
            }
        })
    }

    async fn advisory_lock(&mut self, wanted: Wanted, waits: bool) -> Result<Value> {
        let locked = match waits {
            false => self.shared.advisory.try_lock(wanted)?,
            true => {
                let (guard, timeout) = (self.guard.clone(), self.settings.lock_timeout());
                let engine = Arc::clone(&self.database.engine);
                let cycles = engine.locks().cycles();
                self.shared.advisory.lock(wanted, cycles, timeout, &move || guard.check()).await?;
                true
            }
        };
        if locked && wanted.level == Level::Transaction {
            self.shared.has_transaction_locks = true;
            if let Some(transaction) = &mut self.transaction {
                transaction.side_effects.locks.push(wanted);
            }
        }
        Ok(if waits { Value::Null } else { Value::Bool(locked) })
    }

    fn advisory_unlock(&mut self, key: AdvisoryKey, exclusive: bool) -> bool {
        let unlocked =
            self.shared.advisory.unlock(Wanted { key, exclusive, level: Level::Session });
        if !unlocked {
            let mode = if exclusive { "ExclusiveLock" } else { "ShareLock" };
            self.warn(Error::new(WARNING, format!("you don't own a lock of type {mode}")));
        }
        unlocked
    }

    /// Locks of the transaction's level end.
    pub(super) fn end_transaction_locks(&mut self) {
        if std::mem::take(&mut self.shared.has_transaction_locks) {
            self.shared.advisory.unlock_all(Level::Transaction);
        }
    }

    pub(super) fn warn(&mut self, content: Error) {
        self.running.notices.push(Notice { level: NoticeLevel::Warning, content });
    }

    /// Ends another session, or what it runs; whether there was one.
    async fn signal(&mut self, process: i32, ends: bool, patience_ms: i64) -> Result<bool> {
        if let Some(user) = self.database.shared_state.user(process) {
            self.check_may_signal(&user, ends)?;
        }
        let signals = self.database.shared_state.signals.get();
        let sent = signals.is_some_and(|signals| match ends {
            true => signals.terminate(process),
            false => signals.cancel(process),
        });
        if !sent {
            self.warn(Error::new(
                WARNING,
                format!("PID {process} is not a PostgreSQL server process"),
            ));
        }
        let until = Duration::from_millis(u64::try_from(patience_ms).unwrap_or(0));
        let since = Instant::now();
        while sent && since.elapsed() < until && self.database.shared_state.user(process).is_some()
        {
            self.guard.check()?;
            time::sleep(LOOK.min(until)).await;
        }
        Ok(sent)
    }

    pub(super) fn listen(&mut self, channel: &str) -> Result<Answer> {
        self.change_channels(Change::Listen(channel.to_owned()))?;
        Ok(plain("LISTEN"))
    }

    /// `None`: all of them.
    pub(super) fn unlisten(&mut self, channel: Option<&str>) -> Result<Answer> {
        self.change_channels(Change::Unlisten(channel.map(str::to_owned)))?;
        Ok(plain("UNLISTEN"))
    }

    pub(super) fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        let note = Note::new(channel, payload)?;
        match &mut self.transaction {
            Some(transaction) => transaction.side_effects.notify(note),
            None => {
                self.shared.listener.promise(vec![note])?.send();
                Ok(())
            }
        }
    }

    fn change_channels(&mut self, change: Change) -> Result<()> {
        if let Change::Listen(channel) = &change {
            Note::new(channel, "")?;
        }
        match &mut self.transaction {
            Some(transaction) => {
                transaction.side_effects.changes.push(change);
                self.shared.listener.check(&transaction.side_effects.changes)
            }
            None => {
                self.shared.listener.check(std::slice::from_ref(&change))?;
                self.shared.listener.apply(vec![change]);
                Ok(())
            }
        }
    }

    /// What happens beside the ledger if the open transaction commits.
    ///
    /// # Errors
    /// 54000: there is no room for its notifications.
    pub(super) fn promise_side_effects(&mut self) -> Result<Option<(Promise, Vec<Change>)>> {
        let Some(transaction) = &mut self.transaction else { return Ok(None) };
        let SideEffects { notes, changes, .. } = &mut transaction.side_effects;
        if notes.is_empty() && changes.is_empty() {
            return Ok(None);
        }
        let (notes, changes) = (std::mem::take(notes), std::mem::take(changes));
        Ok(Some((self.shared.listener.promise(notes)?, changes)))
    }

    pub(super) fn keep_promise(&mut self, (promise, changes): (Promise, Vec<Change>)) {
        self.shared.listener.apply(changes);
        promise.send();
    }

    async fn set_config(&mut self, arguments: &[Value]) -> Result<Value> {
        let [name, value, local] = arguments else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "set_config takes three arguments"));
        };
        let Some(name) = name.as_text() else {
            let what = "SET requires parameter name";
            return Err(Error::new(SqlState(*b"22004"), what));
        };
        let name = name.to_lowercase();
        self.set(&name, value.as_text(), local.as_bool() == Some(true)).await?;
        match self.show(&name)? {
            Answer::Rows { mut rows, .. } => {
                let shown = rows.pop().and_then(|row| row.into_iter().next());
                Ok(shown.unwrap_or(Value::Null))
            }
            _ => Ok(Value::Null),
        }
    }

    async fn sleep(&mut self, seconds: f64) -> Result<()> {
        const LONGEST_S: f64 = 1e9;
        let until = Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_S));
        let since = Instant::now();
        loop {
            self.guard.check()?;
            let left = until.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            time::sleep(left.min(LOOK)).await;
        }
    }

    pub(super) fn discard(&mut self, what: Discarded) -> Result<Answer> {
        match what {
            Discarded::All => {
                if self.transaction.is_some() {
                    let what = "DISCARD ALL cannot run inside a transaction block";
                    return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
                }
                self.forget_bound();
                self.forget_named();
                self.discard_temporaries()?;
                self.cursors.close_all();
                self.settings.reset_all();
                self.drawn.forget();
                self.shared.listener.apply(vec![Change::Unlisten(None)]);
                self.shared.advisory.unlock_all(Level::Session);
                Ok(Answer::Deallocated { name: None, tag: Tag::Plain("DISCARD ALL".into()) })
            }
            Discarded::Plans => {
                self.forget_bound();
                Ok(plain("DISCARD PLANS"))
            }
            Discarded::Sequences => {
                self.drawn.forget();
                Ok(plain("DISCARD SEQUENCES"))
            }
            Discarded::Temporary => {
                self.discard_temporaries()?;
                Ok(plain("DISCARD TEMP"))
            }
        }
    }
}

/// The class of notices that clients show as warnings.
const WARNING: SqlState = SqlState(*b"01000");

fn int(arguments: &[Value]) -> i32 {
    let first = arguments.first().and_then(Value::as_int);
    first.and_then(|number| i32::try_from(number).ok()).unwrap_or(0)
}

fn key_of(arguments: &[Value]) -> AdvisoryKey {
    match arguments {
        [Value::Int(class), Value::Int(object)] => AdvisoryKey::Pair(*class as i32, *object as i32),
        [Value::Int(number), ..] => AdvisoryKey::Whole(*number),
        _ => AdvisoryKey::Whole(0),
    }
}

/// `Mon Nov 23 02:45:41.123456 2026 UTC`.
fn time_of_day(now_us: i64) -> String {
    const DAYS: [&str; 7] = ["Sat", "Sun", "Mon", "Tue", "Wed", "Thu", "Fri"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let shown = Value::Timestamp(now_us).to_text(&types::DataType::Timestamp(None));
    // 2000-01-01 was a Saturday.
    let day = DAYS[now_us.div_euclid(86_400_000_000).rem_euclid(7) as usize];
    let (date, time) = shown.split_once(' ').unwrap_or((&shown, ""));
    let mut parts = date.split('-');
    let (year, month) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    let time = if time.contains('.') { time.to_owned() } else { format!("{time}.") };
    let (month, date) = (month.unwrap_or(&""), parts.next().unwrap_or(""));
    format!("{day} {month} {date} {time:0<15} {year} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_told_as_postgresql_does() {
        assert_eq!(time_of_day(0), "Sat Jan 01 00:00:00.000000 2000 UTC");
        // 2026-03-01 12:00:00.5 UTC, a Sunday.
        assert_eq!(time_of_day(825_681_600_500_000), "Sun Mar 01 12:00:00.500000 2026 UTC");
    }
}
