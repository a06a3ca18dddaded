//! Which block a statement reads, and what can be asked about the past.
//!
//! ```text
//!   in a transaction ────────────────────────────► the block that it began on
//!   AS OF in the statement ─┐
//!   SET tally.as_of_block ──┴─► a block that can still be read     (nothing can be written)
//!   otherwise ───────────────────────────────────► the newest durable block
//! ```
//!
//! Snapshots of sessions are leases: when undo memory runs short the oldest are ended, and a
//! statement that has read by one fails instead of answering ([`storage::Snapshot::check`]). What
//! a block showed once it shows again, rows and `now()` alike, as long as it can be read.

use std::sync::Arc;

use engine::{Head, KeyStanding, KeyStatus};
use ledger::hash::to_hex;
use procedure::Expr;
use storage::Snapshot;
use types::key::encode_column;
use types::{Error, Height, Key, Result, SqlState, TableId, Value};

use identity::RoleId;

use super::answer::{Answer, Tag};
use super::guard::aside;
use super::{Session, View};
use crate::bind::PastQuery;
use crate::syntax::as_of::AsOf;

impl Session {
    /// What a statement without AS OF is bound against; the newest schema where the block that it
    /// is to read cannot be read any more.
    pub(super) fn view(&self) -> View {
        match (&self.transaction, self.settings.as_of_block()) {
            // Nothing is read of it but the schema.
            (None, None) => self.newest_schema(),
            _ => self.read_now(),
        }
    }

    /// What a statement without AS OF reads, if it can be read.
    fn read_now(&self) -> View {
        self.view_of(None).unwrap_or_else(|_| self.newest_schema())
    }

    /// The one place that says which snapshot a statement reads.
    pub(super) fn view_of(&self, said: Option<AsOf>) -> Result<View> {
        let wanted = said.or(self.settings.as_of_block().map(AsOf::Block));
        match (&self.transaction, wanted) {
            (None, None) => self.newest_snapshot().map(|snapshot| self.seen(snapshot)),
            (None, Some(as_of)) => self.past_snapshot(as_of).map(|snapshot| self.seen(snapshot)),
            (Some(transaction), wanted) => {
                let begun_on = transaction.head().height;
                if let Some(as_of) = wanted
                    && self.block_of(as_of)? != begun_on
                {
                    let what = format!("the transaction reads block {begun_on} and no other");
                    return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, what).with_hint(
                        "Ask for another block by BEGIN READ ONLY AS OF BLOCK n, or outside of a \
                         transaction and in a message of its own.",
                    ));
                }
                let versioned = self.with_temporaries(Arc::clone(&transaction.versioned));
                Ok(View { versioned, snapshot: None })
            }
        }
    }

    /// The newest schema, and a snapshot which may be no state of the serial order.
    pub(super) fn newest_schema(&self) -> View {
        self.seen(self.database.engine.store().lease())
    }

    /// What has been answered to any client is in it.
    pub(super) fn newest_snapshot(&self) -> Result<Snapshot> {
        let engine = &self.database.engine;
        match engine.newest_at_once() {
            Some(snapshot) => Ok(snapshot),
            None => aside(false, || engine.newest()),
        }
    }

    fn seen(&self, snapshot: Snapshot) -> View {
        let versioned = self.with_temporaries(self.database.schema.of(&snapshot));
        View { versioned, snapshot: Some(Arc::new(snapshot)) }
    }

    fn block_of(&self, as_of: AsOf) -> Result<Height> {
        match as_of {
            AsOf::Block(height) => Ok(height),
            AsOf::Time(time_us) => self.database.engine.retention().block_at(time_us),
        }
    }

    fn past_snapshot(&self, as_of: AsOf) -> Result<Snapshot> {
        self.database.engine.retention().snapshot_at(self.block_of(as_of)?)
    }

    /// The snapshot of a transaction that begins, and whether it may only read.
    pub(super) fn snapshot_to_begin(&self, said: Option<AsOf>) -> Result<(Snapshot, bool)> {
        match said.or(self.settings.as_of_block().map(AsOf::Block)) {
            Some(as_of) => self.past_snapshot(as_of).map(|snapshot| (snapshot, true)),
            None => Ok((self.newest_snapshot()?, false)),
        }
    }

    /// The hash and the time of a snapshot's block.
    pub(super) fn head_of(&self, snapshot: &Snapshot) -> Result<Head> {
        let height = snapshot.height();
        self.database.engine.retention().head_of(height).ok_or_else(|| {
            let what = format!("the time of block {height} is not known any more");
            Error::new(SqlState::SNAPSHOT_TOO_OLD, what)
        })
    }

    /// What `tally.as_of_block` is set to can be read now.
    pub(super) fn check_as_of_setting(&self, value: Option<&str>) -> Result<()> {
        match value.and_then(|value| value.trim().parse().ok()) {
            Some(height) => self.past_snapshot(AsOf::Block(height)).map(drop),
            None => Ok(()),
        }
    }

    /// An error of binding, if it may be due to the schema of a past block.
    pub(super) fn bound_in_the_past(&self, said: Option<AsOf>, error: Error) -> Error {
        let is_missing = [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN];
        let wanted = said.or(self.settings.as_of_block().map(AsOf::Block));
        match wanted.and_then(|as_of| self.block_of(as_of).ok()) {
            Some(height) if is_missing.contains(&error.code()) => error
                .with_detail(format!("The statement is read under the schema of block {height}.")),
            _ => error,
        }
    }

    /// A query has read the state at a block.
    pub(super) fn has_read(&mut self, head: Head) {
        self.seen.last_read = Some(head);
        self.has_seen(head.height);
        if self.settings.report_snapshot() {
            let block = shown(&head);
            self.settings.report("tally.last_snapshot_block", block);
        }
    }

    /// `SHOW tally.snapshot_block` and `SHOW tally.last_snapshot_block`.
    pub(super) fn show_snapshot(&self, last: bool) -> Result<String> {
        match last {
            true => Ok(self.seen.last_read.as_ref().map(shown).unwrap_or_default()),
            false => Ok(shown(&self.head_now()?)),
        }
    }

    /// Of the block that a query would read now.
    fn head_now(&self) -> Result<Head> {
        match (&self.transaction, self.read_now().snapshot) {
            (Some(transaction), _) => Ok(transaction.head()),
            (None, Some(snapshot)) => self.head_of(&snapshot),
            (None, None) => Ok(self.database.engine.head()),
        }
    }

    pub(super) async fn run_about_past(
        &mut self,
        query: &PastQuery,
        parameters: &[Value],
        view: &View,
    ) -> Result<Answer> {
        match query {
            PastQuery::Outcome { key } => self.run_outcome(key, parameters).await,
            PastQuery::Proof(query) => self.run_proof(query, parameters).await,
            PastQuery::SubmitSigned { envelope } => self.submit_signed(envelope, parameters).await,
            PastQuery::Approve { envelope } => self.approve(envelope, parameters, view),
            PastQuery::Propose { envelope } => self.propose(envelope, parameters, view),
            query => self.run_past(query, parameters, view),
        }
    }

    pub(super) fn run_past(
        &mut self,
        query: &PastQuery,
        parameters: &[Value],
        view: &View,
    ) -> Result<Answer> {
        let retention = self.database.engine.retention();
        let eval = |argument: &Expr| self.argument(argument, parameters);
        let rows: Vec<Box<[Value]>> = match query {
            PastQuery::Pin { name, block } => {
                self.check_may_pin("tally_pin")?;
                let name = text(eval(name)?)?;
                let block = block.as_ref().map(eval).transpose()?;
                let block = block.as_ref().and_then(Value::as_int).map(block_number).transpose()?;
                let open = self.transaction.as_ref();
                let reader = open.map(|open| (open.snapshot(), open.head()));
                let pin = || retention.pin(&name, &self.info.user, block, reader);
                let pinned = aside(false, pin)?.head.height;
                let notice = "a restart may lose the block, and keeps its name";
                self.tell(Error::new(SqlState::SUCCESSFUL_COMPLETION, notice).with_detail(
                    "A start can read the blocks behind its checkpoint, and none before.",
                ));
                vec![[Value::Int(pinned as i64)].into()]
            }
            PastQuery::Unpin { name } => {
                self.check_may_pin("tally_unpin")?;
                let name = text(eval(name)?)?;
                let unpinned = aside(false, || retention.unpin(&name, None))?;
                vec![[Value::Bool(unpinned)].into()]
            }
            PastQuery::Pins => {
                let named = retention.named().into_iter().map(|pin| {
                    let [block, hash, time] = of_head(&pin.block.head);
                    let state = if pin.lost.is_some() { "lost" } else { "readable" };
                    [pin.name.into(), block, hash, time, state.into(), pin.owner.into()].into()
                });
                named.collect()
            }
            PastQuery::Snapshot => {
                let head = match &view.snapshot {
                    Some(snapshot) => self.head_of(snapshot)?,
                    None => self.head_now()?,
                };
                vec![of_head(&head).into()]
            }
            PastQuery::Skips => {
                let skips = self.database.engine.skips().iter().map(|skip| {
                    let (first, last) = (skip.first as i64, skip.last as i64);
                    let [owner, reason] =
                        [&skip.owner, &skip.reason].map(|text| Value::from(text.clone()));
                    [Value::Int(first), Value::Int(last), owner, reason].into()
                });
                skips.collect()
            }
            PastQuery::Outcome { .. }
            | PastQuery::Proof(_)
            | PastQuery::SubmitSigned { .. }
            | PastQuery::Approve { .. }
            | PastQuery::Propose { .. }
            | PastQuery::Columns { .. } => {
                let what = "outcomes and proofs are answered by the sequencer";
                return Err(Error::new(SqlState::INTERNAL_ERROR, what));
            }
            PastQuery::History { table, key } => {
                let key = key.iter().map(eval).collect::<Result<Vec<_>>>()?;
                self.history(*table, &key, view)?
            }
        };
        Ok(Answer::Rows { rows, tag: Tag::Select, lease: None })
    }

    /// What a transaction has come to that was sent under a key: how a client finds out that lost
    /// its connection during COMMIT. No row: it is not in the ledger, or its key has expired.
    pub(super) async fn run_outcome(&mut self, key: &Expr, parameters: &[Value]) -> Result<Answer> {
        let key = text(self.argument(key, parameters)?)?;
        let found = self.database.engine.key_standing(&self.info.user, &key).await?;
        let row = found.map(|KeyStanding { place, status }| -> Box<[Value]> {
            let code = |code: [u8; 5]| Value::from(String::from_utf8_lossy(&code).into_owned());
            let (outcome, code) = match status {
                KeyStatus::Pending => ("pending", Value::Null),
                KeyStatus::Retry => ("retry", code(SqlState::SERIALIZATION_FAILURE.0)),
                KeyStatus::Committed => ("committed", Value::Null),
                KeyStatus::Rejected(state) => ("rejected", code(state)),
            };
            let (block, index) = (place.height as i64, i64::from(place.index));
            [Value::from(outcome), code, Value::Int(block), Value::Int(index)].into()
        });
        Ok(Answer::Rows { rows: row.into_iter().collect(), tag: Tag::Select, lease: None })
    }

    /// A name is no row, but it does cost the others something.
    fn check_may_pin(&self, function: &str) -> Result<()> {
        self.check_must_be(RoleId::PIN_BLOCKS, &format!("execute {function}()"))?;
        let is_read_only = match &self.transaction {
            Some(transaction) => transaction.is_read_only(),
            None => self.settings.read_only(),
        };
        if !is_read_only {
            return Ok(());
        }
        let what = format!("cannot execute {function}() in a read-only transaction");
        Err(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, what)
            .with_hint("Outside of it, a block can be pinned by its number."))
    }

    fn history(&mut self, id: TableId, key: &[Value], view: &View) -> Result<Vec<Box<[Value]>>> {
        let engine = Arc::clone(&self.database.engine);
        let own = view.snapshot.is_none().then(|| self.newest_snapshot()).transpose()?;
        let Some(snapshot) = view.snapshot.as_deref().or(own.as_ref()) else {
            return Ok(Vec::new());
        };
        let at = match &self.transaction {
            Some(transaction) => transaction.head().height,
            None => snapshot.height(),
        };
        let complete_from = engine.store().complete_from();
        let Some(table) = snapshot.table(id) else { return Ok(Vec::new()) };
        let schema = table.schema();
        let mut encoded = Key::default();
        for (value, id) in key.iter().zip(&schema.primary_key) {
            let column = &schema.columns[usize::from(*id)];
            if value.is_null() {
                return Ok(Vec::new());
            }
            encode_column(&column.data_type, column.nullable, value, &mut encoded)?;
        }
        let images = table.find(encoded.as_bytes()).map(|slot| table.history(slot, at));
        snapshot.check()?;
        let visible = |row: Option<Vec<Value>>| {
            let row = row.unwrap_or_else(|| vec![Value::Null; schema.columns.len()]);
            let columns = row.into_iter().zip(&schema.columns);
            let shown = columns.filter(|(_, column)| !column.dropped && !column.is_hidden());
            shown.map(|(value, _)| value)
        };
        let rows = images.unwrap_or_default().into_iter().map(|(stamp, row)| {
            let time = engine.retention().head_of(stamp.height());
            let mut values = vec![
                Value::Int(stamp.height() as i64),
                Value::Int(i64::from(stamp.position())),
                time.map_or(Value::Null, |head| Value::Timestamptz(head.time_us)),
                Value::Bool(row.is_none()),
            ];
            values.extend(visible(row));
            values.into_boxed_slice()
        });
        let rows: Vec<_> = rows.collect();
        let notice = format!("the history is complete from block {complete_from} on");
        self.tell(Error::new(SqlState::SUCCESSFUL_COMPLETION, notice).with_detail(
            "Of older versions those are shown that a readable block still has; the ledger \
                 holds every change.",
        ));
        Ok(rows)
    }
}

fn of_head(head: &Head) -> [Value; 3] {
    let hash = to_hex(&head.hash);
    [Value::Int(head.height as i64), Value::from(hash), Value::Timestamptz(head.time_us)]
}

fn shown(head: &Head) -> String {
    format!("{} {}", head.height, to_hex(&head.hash))
}

fn text(value: Value) -> Result<String> {
    match value {
        Value::Text(text) if !text.is_empty() => Ok(text.as_str().to_owned()),
        _ => Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "a pin needs a name")),
    }
}

fn block_number(number: i64) -> Result<Height> {
    Height::try_from(number).map_err(|_| {
        Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("there is no block {number}"))
    })
}
