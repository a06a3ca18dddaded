//! Submits transactions that their users have already signed, as they are.
//!
//! The envelope names the user that asks, and its signature authenticates it. Only where it has no
//! signature does the session's user count: it must be the same.

use std::sync::Arc;

use concurrency::Outcome;
use procedure::{Expr, Interrupt};
use types::{Error, Result, SqlState, Value};

use super::Session;
use super::answer::{Answer, Tag};
use super::decided;

impl Session {
    /// `SELECT * FROM tally_submit_signed(envelope)`: where it was ordered, and what it answers.
    pub(super) async fn submit_signed(
        &mut self,
        envelope: &Expr,
        parameters: &[Value],
    ) -> Result<Answer> {
        if self.transaction.as_ref().is_some_and(|open| !open.implicit) {
            let what = "tally_submit_signed() cannot run inside a transaction block";
            return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
        }
        self.check_may_write_alone()?;
        let Value::Bytes(envelope) = self.argument(envelope, parameters)? else {
            let what = "tally_submit_signed() needs an envelope";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        };
        self.guard.check()?;
        let certified = self.certificates()?;
        let engine = Arc::clone(&self.database.engine);
        let submitted = engine.submit_signed(&envelope, self.info.party().principal)?;
        let (guard, limit) = (Arc::clone(&self.guard), self.settings.commit_timeout());
        let ended = decided::ended(&engine, &guard, limit, submitted, None).await;
        let completion = self.acknowledge(ended.answer, certified, None).await?;
        let result = match completion.outcome {
            Outcome::Committed(result) => result,
            Outcome::Rejected(error) | Outcome::Retry(error) => return Err(error),
        };
        self.running.notices.extend(result.notices);
        let row = |row: &Box<[Value]>| row.iter().map(text).collect::<Vec<_>>();
        let answered: Vec<Vec<Option<String>>> = result.rows.iter().map(row).collect();
        let answered =
            serde_json::Value::from_iter(answered.into_iter().map(|row| {
                serde_json::Value::from_iter(row.into_iter().map(serde_json::Value::from))
            }));
        let (block, index) = (completion.origin.height, completion.origin.index);
        let row = [
            Value::Int(block.cast_signed()),
            Value::Int(i64::from(index)),
            Value::Int(result.count.cast_signed()),
            Value::from(answered.to_string()),
        ];
        Ok(Answer::Rows { rows: vec![row.into()], tag: Tag::Select, lease: None })
    }
}

/// As PostgreSQL shows it.
fn text(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.to_text(&value.data_type_hint()))
}
