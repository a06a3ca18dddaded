//! SET, SHOW and RESET: the session's parameters, the ledger's, and what is only shown.

use concurrency::Outcome;
use engine::transaction::Asked;
use engine::{Action, Body};
use types::{Error, Result, SqlState, Value};

use super::Session;
use super::answer::{Answer, Tag, plain};
use super::chance::NO_SEED;
use crate::settings::{SEEN_HEIGHT, boolean};

impl Session {
    /// What is set for a transaction is without effect outside of one, but for the statement that
    /// calls `set_config`.
    pub(super) fn change_setting(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
    ) -> Result<()> {
        if self.transaction.is_some() || self.settings.are_kept() {
            return self.settings.set_in_transaction(name, value, local);
        }
        match local {
            true => self.settings.clone().set(name, value),
            false => self.settings.set(name, value),
        }
    }

    pub(super) async fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
    ) -> Result<Answer> {
        // `SET ledger.protocol = 'serial'` is a ledger transaction: the protocol belongs to all.
        if let Some(parameter) = name.strip_prefix("ledger.") {
            self.check_may(Action::SetParameter(parameter))?;
            let value = value.ok_or_else(|| {
                Error::new(SqlState::INVALID_PARAMETER_VALUE, "a ledger parameter needs a value")
            })?;
            if self.transaction.as_ref().is_some_and(|t| !t.implicit) {
                return Err(Error::unsupported(
                    "a ledger parameter change inside a transaction block",
                ));
            }
            self.check_may_write_alone()?;
            let value = match parameter {
                "protocol" => engine::recorded_name(value),
                _ => value.to_owned(),
            };
            let name = parameter.to_owned();
            let change = Body::Parameter { name, value };
            let completion = self.submit(&Asked::from(&change), None, NO_SEED).await?;
            return match completion.outcome {
                Outcome::Committed(_) => Ok(plain("SET")),
                Outcome::Rejected(error) | Outcome::Retry(error) => Err(error),
            };
        }
        if name == "tally.as_of_block" && value.is_some() {
            if self.transaction.as_ref().is_some_and(|t| !t.implicit) {
                let what = "tally.as_of_block cannot be set inside a transaction block";
                return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, what)
                    .with_hint("Use BEGIN READ ONLY AS OF BLOCK n."));
            }
            self.check_as_of_setting(value)?;
        }
        if name == SEEN_HEIGHT
            && let Some(height) = value.and_then(|value| value.parse().ok())
        {
            self.wait_for_seen(height).await?;
        }
        if name.eq_ignore_ascii_case("transaction_read_only") {
            let read_only = match value {
                Some(value) => boolean(name, value)?,
                None => self.settings.read_only(),
            };
            if let Some(transaction) = &mut self.transaction {
                transaction.set_read_only(read_only, &self.guard)?;
            }
            self.begin_to_lock();
            return Ok(plain("SET"));
        }
        if name == "role" {
            self.check_may_be(value)?;
        }
        if name == "session_authorization" {
            let value = value.filter(|value| *value != self.info.user);
            self.check_may_authorize(value)?;
            self.change_setting("role", None, local)?;
            self.change_setting(name, value, local)?;
            return Ok(plain("SET"));
        }
        self.change_setting(name, value, local)?;
        Ok(plain("SET"))
    }

    pub(super) fn show(&self, name: &str) -> Result<Answer> {
        let rows = match name {
            "all" => {
                let all = self.settings.show_all().into_iter();
                all.map(|(name, value)| {
                    [Value::text(name), Value::from(value), Value::from("")].into()
                })
                .collect()
            }
            "tally.snapshot_block" => vec![[Value::from(self.show_snapshot(false)?)].into()],
            "tally.last_snapshot_block" => vec![[Value::from(self.show_snapshot(true)?)].into()],
            "transaction_read_only" => {
                let read_only = match &self.transaction {
                    Some(transaction) => transaction.is_read_only(),
                    None => self.settings.read_only(),
                };
                vec![[on_or_off(read_only || self.serves_reads_only())].into()]
            }
            "in_hot_standby" => vec![[on_or_off(self.serves_reads_only())].into()],
            SEEN_HEIGHT => vec![[Value::from(self.seen.height.to_string())].into()],
            "session_authorization" => {
                let user = self.settings.session_authorization().unwrap_or(&self.info.user);
                vec![[Value::text(user)].into()]
            }
            "log_scheme" => vec![[Value::from(self.database.engine.log_scheme())].into()],
            name => match name.strip_prefix("ledger.") {
                Some(parameter) => {
                    vec![[Value::from(self.database.engine.parameter(parameter)?)].into()]
                }
                None => vec![[Value::from(self.settings.show(name)?.1)].into()],
            },
        };
        Ok(Answer::Rows { rows, tag: Tag::Plain("SHOW".into()), lease: None })
    }
}

fn on_or_off(is_on: bool) -> Value {
    Value::from(if is_on { "on" } else { "off" })
}
