//! Restoring settings at the end of a transaction or statement and at ROLLBACK TO a savepoint.
//!
//! A transaction keeps the values from before it, which ROLLBACK restores, and those that COMMIT
//! will leave. For savepoints there is an undo log of the values before each change; a savepoint is
//! a position in it, and ROLLBACK TO applies the log backwards to there. Between two savepoints a
//! setting is logged at most once; without savepoints nothing is logged.

use std::borrow::Cow;

use rustc_hash::FxHashSet;
use types::{Error, Result, SqlState};

use super::known::{all, find};
use super::{Executor, Settings, Timeouts, Values, zone_of};

/// SET obeys the transaction around it, and SET LOCAL ends with it.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub after_rollback: Values,
    pub after_commit: Values,
    /// Keys of transactions that were taken from the two, until one is ordered.
    pub keys_taken: [Option<String>; 2],
}

/// What a savepoint remembers of the settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettingsMark(usize);

/// What was said before each change since the first savepoint.
#[derive(Clone, Debug, Default)]
pub(super) struct UndoLog {
    entries: Vec<Undo>,
    /// Where the newest savepoint's changes begin; `None`: there is no savepoint.
    newest: Option<usize>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Undo {
    name: Cow<'static, str>,
    value: Option<String>,
    after_commit: Option<String>,
}

/// What all that the savepoints of a transaction lead back to may take.
const UNDO_BYTES_MAX: usize = 1 << 20;

impl Undo {
    fn bytes(&self) -> usize {
        let values = [&self.value, &self.after_commit].into_iter().flatten();
        size_of::<Undo>() + self.name.len() + values.map(String::len).sum::<usize>()
    }
}

impl UndoLog {
    fn wants(&self, name: &str) -> bool {
        self.newest.is_some_and(|at| self.entries[at..].iter().all(|undo| undo.name != name))
    }

    fn push(&mut self, undo: Undo) -> Result<()> {
        let bytes = self.bytes + undo.bytes();
        if bytes > UNDO_BYTES_MAX {
            let what = format!(
                "settings that a transaction's savepoints lead back to can take at most \
                 {UNDO_BYTES_MAX} bytes"
            );
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        self.bytes = bytes;
        self.entries.push(undo);
        Ok(())
    }

    fn pop(&mut self, down_to: usize) -> Option<Undo> {
        let undo = if self.entries.len() > down_to { self.entries.pop() } else { None };
        self.bytes -= undo.as_ref().map_or(0, Undo::bytes);
        undo
    }

    /// What came after `outer` belongs to it alone now: of each setting the oldest entry counts.
    fn merge(&mut self, outer: usize) {
        let mut seen = FxHashSet::default();
        let since = self.entries.split_off(outer);
        self.entries.extend(since.into_iter().filter(|undo| seen.insert(undo.name.clone())));
        self.bytes = self.entries.iter().map(Undo::bytes).sum();
        self.newest = Some(outer);
    }
}

pub(super) fn put(values: &mut Values, name: Cow<'static, str>, value: Option<String>) {
    match value {
        Some(value) => values.insert(name, value),
        None => values.remove(&name),
    };
}

impl Settings {
    /// [`Settings::set`] within a transaction: its end, or a savepoint, may take the value back.
    pub fn set_in_transaction(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
    ) -> Result<()> {
        let known = find(name)?.name;
        self.begin_to_keep();
        if self.undo.wants(&known) {
            let value = self.changed.get(&known).cloned();
            let pending = self.pending.as_ref();
            let after_commit = pending.and_then(|p| p.after_commit.get(&known).cloned());
            self.undo.push(Undo { name: known.clone(), value, after_commit })?;
        }
        self.set(name, value)?;
        if let Some(pending) = self.pending.as_mut().filter(|_| !local) {
            put(&mut pending.after_commit, known.clone(), self.changed.get(&known).cloned());
        }
        Ok(())
    }

    /// From here on what is set lasts until [`Settings::transaction_ended`], or longer.
    pub fn begin_to_keep(&mut self) {
        let changed = &self.changed;
        self.pending.get_or_insert_with(|| Pending {
            after_rollback: changed.clone(),
            after_commit: changed.clone(),
            keys_taken: Default::default(),
        });
    }

    /// Whether the end of a transaction or a statement decides over what is set.
    pub fn are_kept(&self) -> bool {
        self.pending.is_some()
    }

    /// RESET ALL within a transaction.
    pub fn reset_all_in_transaction(&mut self) -> Result<()> {
        let names: Vec<_> = self.changed.keys().cloned().collect();
        names.iter().try_for_each(|name| self.set_in_transaction(name, None, false))
    }

    /// SAVEPOINT.
    pub fn mark(&mut self) -> SettingsMark {
        let at = self.undo.entries.len();
        self.undo.newest = Some(at);
        SettingsMark(at)
    }

    /// ROLLBACK TO a savepoint, which stays.
    pub fn return_to(&mut self, SettingsMark(at): SettingsMark) {
        let mut values = self.changed.clone();
        while let Some(undo) = self.undo.pop(at) {
            if let Some(pending) = &mut self.pending {
                put(&mut pending.after_commit, undo.name.clone(), undo.after_commit);
            }
            put(&mut values, undo.name, undo.value);
        }
        self.undo.newest = Some(at);
        self.become_again(values);
    }

    /// RELEASE of a savepoint: what was set since then is the business of the one before it.
    pub fn release(&mut self, outer: Option<SettingsMark>) {
        match outer {
            Some(SettingsMark(outer)) => self.undo.merge(outer),
            None => self.undo = UndoLog::default(),
        }
    }

    pub fn transaction_ended(&mut self, committed: bool) {
        self.undo = UndoLog::default();
        if let Some(pending) = self.pending.take() {
            self.become_again(match committed {
                true => pending.after_commit,
                false => pending.after_rollback,
            });
        }
    }

    fn become_again(&mut self, values: Values) {
        for known in all().iter().filter(|known| known.reported) {
            if values.get(&known.name) != self.changed.get(&known.name) {
                let value = values.get(&known.name).map_or(known.default, String::as_str);
                self.unreported.push((known.name.to_string(), value.to_owned()));
            }
        }
        self.timeouts = Timeouts::of(&values);
        self.zone = zone_of(&values);
        self.executor = Executor::of(&values);
        self.changed = values;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(settings: &Settings, name: &str) -> String {
        settings.show(name).unwrap().1
    }

    fn set(settings: &mut Settings, name: &str, value: &str, local: bool) {
        settings.set_in_transaction(name, Some(value), local).unwrap();
    }

    #[test]
    fn a_savepoint_leads_back_to_what_was_set_before_it() {
        let mut settings = Settings::default();
        set(&mut settings, "app.a", "1", false);
        let outer = settings.mark();
        set(&mut settings, "app.a", "2", false);
        set(&mut settings, "timezone", "Europe/Berlin", true);
        let inner = settings.mark();
        set(&mut settings, "app.a", "3", true);
        set(&mut settings, "app.b", "3", false);
        set(&mut settings, "statement_timeout", "5", false);
        settings.take_changes();
        settings.return_to(inner);
        assert_eq!(
            (shown(&settings, "app.a"), settings.show("app.b").is_err()),
            ("2".into(), true)
        );
        assert_eq!(settings.statement_timeout(), None);
        assert!(settings.take_changes().is_empty());
        set(&mut settings, "app.a", "4", false);
        settings.release(Some(outer));
        assert_eq!(shown(&settings, "app.a"), "4");
        settings.return_to(outer);
        assert_eq!(shown(&settings, "app.a"), "1");
        assert!(settings.zone().is_utc());
        assert_eq!(settings.take_changes(), [("TimeZone".into(), "UTC".into())]);
        settings.transaction_ended(true);
        assert_eq!(shown(&settings, "app.a"), "1");
        assert!(settings.undo.entries.is_empty());
    }

    #[test]
    fn what_a_released_savepoint_has_set_stays_for_commit() {
        let mut settings = Settings::default();
        settings.mark();
        set(&mut settings, "app.a", "1", false);
        set(&mut settings, "app.a", "local", true);
        settings.release(None);
        assert_eq!(shown(&settings, "app.a"), "local");
        settings.transaction_ended(true);
        assert_eq!(shown(&settings, "app.a"), "1");
    }

    #[test]
    fn reset_all_is_taken_back() {
        let mut settings = Settings::default();
        settings.set("app.a", Some("1")).unwrap();
        settings.reset_all_in_transaction().unwrap();
        assert!(settings.show("app.a").is_err());
        settings.transaction_ended(false);
        assert_eq!(shown(&settings, "app.a"), "1");
    }

    #[test]
    fn what_savepoints_keep_is_bounded_and_released() {
        let mut settings = Settings::default();
        let long = "x".repeat(200 << 10);
        let outer = settings.mark();
        for _ in 0..1_000 {
            settings.mark();
            set(&mut settings, "app.a", &long, false);
            settings.release(Some(outer));
        }
        assert_eq!(settings.undo.entries.len(), 1);
        let mut refused = Ok(());
        for _ in 0..10 {
            settings.mark();
            refused = refused.and(settings.set_in_transaction("app.a", Some(&long), false));
        }
        assert_eq!(refused.unwrap_err().code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        settings.return_to(outer);
        assert_eq!((settings.undo.entries.len(), settings.undo.bytes), (0, 0));
        assert!(settings.show("app.a").is_err());
    }
}
