//! Simulating a proposal: what it reads, by version, and writes, to be
//! [compared](super::compared) with what another node has come to.
//!
//! ```text
//!   gateway    proposal ─► simulated on the newest block ─► body: proposal, reads with versions,
//!                          │                                ranges with seals, writes, result
//!                          └► the rows are written once, aside: can they be, one by one?
//!   endorser   body ─────► its proposal simulated again ──► the same body? ─► the node's approval
//! ```
//!
//! *What is read.* A row's value, at its stamp. Whether a row is there: its stamp, or its
//! absence; not where the transaction changes the row without looking at it, since the change
//! itself asks for it. A range: how many rows, and a SHA-256 over their keys and stamps.
//!
//! *What is written.* New rows and deletions whole. Of a row that is changed, the columns that have
//! other values; and those that the transaction writes whatever was there, since it has not read
//! the row: they are written even if they hold the value already, for another transaction may
//! change it before this one's block.
//!
//! *Which snapshot.* The gateway's is the block that the envelope has seen. An endorser may be
//! further by then: where what was read has changed since, the transaction is stale.
//!
//! *Early abort.* Blocks go on while a proposal is simulated. Where the protocol says so, each row
//! that is read is looked at in the newest state as well, a block that is half written included:
//! once it is another there, validation is sure to find the proposal stale, and it is given up.
//! Ranges are left to validation, and so is a row that is overwritten after it was read.
//!
//! *The COMMIT of an interactive transaction* requires what its client was shown, row by row and
//! range by range, and so has read it. Its own `now()` is the time of the block that it began on,
//! as its node says: an endorser looks only that it is not long before its newest block
//! ([`approve`](super::approve)).
//!
//! *Hidden row ids* are the block's to give, so a new row of a table without a primary key is in
//! no read set, and its write names no key.
//!
//! *Bounds.* The run may spend and hold what it could in a block. It may read [`READS_MAX`] rows
//! and ranges; what its envelope may weigh the ledger says.

use std::collections::BTreeSet;
use std::sync::Arc;

use concurrency::{
    Moment, NoRecord, Overlay, PendingWrite, RangeDigest, RangeRequirement, Recorder, RowRead,
    RowRequirement, Work, WriteState, guarded::Guarded, seal_range,
};
use engine::transaction::{Endorsed, RowChange, RowWrite, result_hash};
use engine::{Body, Transaction};
use procedure::access::Range;
use procedure::{Expr, Frame, Meter, ProgramResult};
use storage::{LATEST, Snapshot};
use types::codec::encode_value;
use types::{ColumnId, Error, Key, Result, SqlState, Stamp, Stop, TableId, Value};

use super::answer::{Answer, Tag};
use super::guard::{aside, error_of, transaction_frame};
use super::versioned::Versioned;
use super::{Session, View};
use crate::schema::catalog::{Catalog, Table};

/// Reads of one endorsed transaction, rows and ranges alike.
const READS_MAX: usize = 1 << 16;

/// What a proposal has read, by key.
#[derive(Default, Debug)]
pub(super) struct Seen {
    values: Vec<RowRequirement>,
    existences: Vec<RowRequirement>,
    ranges: Vec<RangeRequirement>,
    /// Of each written row, the columns that commands assign which have not been evaluated.
    assigned: Vec<BTreeSet<ColumnId>>,
    /// Nothing is recorded any more.
    off: bool,
    too_many: bool,
}

impl Seen {
    fn takes(&mut self) -> bool {
        let count = self.values.len() + self.existences.len() + self.ranges.len();
        self.too_many |= count >= READS_MAX;
        !self.off && !self.too_many
    }
}

fn required(read: RowRead<'_>) -> RowRequirement {
    RowRequirement { table: read.table, key: read.key.clone(), stamp: read.stamp }
}

impl Recorder for Seen {
    const DIGESTS: bool = true;

    fn value_read(&mut self, read: RowRead<'_>) {
        if self.takes() {
            self.values.push(required(read));
        }
    }

    fn existence_read(&mut self, read: RowRead<'_>) {
        if self.takes() {
            self.existences.push(required(read));
        }
    }

    fn range_read(&mut self, range: &Range, digest: RangeDigest) {
        if self.takes() {
            self.ranges.push(RangeRequirement { range: range.clone(), digest, seal: None });
        }
    }
}

/// A proposal's run, all of whose writes are known as values when it ends.
pub(super) fn run_proposal(
    work: &Work,
    frame: &mut Frame,
    overlay: &mut Overlay<Seen>,
    early_abort: bool,
) -> Result<ProgramResult, Stop> {
    let result = match early_abort {
        true => run_until_overtaken(work, frame, overlay)?,
        false => work.run(frame, overlay)?,
    };
    // Commands that look at their row have read it; others are written whatever it holds.
    for read in looked_at(overlay) {
        overlay.recorder.values.push(read);
    }
    overlay.recorder.assigned = assigned(overlay);
    overlay.recorder.off = true;
    overlay.evaluate_all()?;
    Ok(result)
}

fn looked_at(overlay: &Overlay<Seen>) -> Vec<RowRequirement> {
    let looks = |write: &&PendingWrite| match &write.state {
        WriteState::Commands(commands) => commands.iter().any(|it| !it.code.columns.is_empty()),
        WriteState::Put(_) | WriteState::Delete => false,
    };
    let writes = overlay.writes().writes().iter().filter(looks);
    let read = writes.filter_map(|write| {
        let table = overlay.catalog().table(write.table)?;
        let stamp = table.stamp(write.slot?, overlay.at());
        Some(RowRequirement { table: write.table, key: write.key.clone(), stamp })
    });
    read.collect()
}

/// Ends it as soon as something that it has read is no more, whatever it made of that.
fn run_until_overtaken(
    work: &Work,
    frame: &mut Frame,
    overlay: &mut Overlay<Seen>,
) -> Result<ProgramResult, Stop> {
    let (mut values, mut existences, mut by) = (0, 0, None);
    let catalog = Arc::clone(overlay.catalog());
    let now = |read: &RowRequirement| {
        let table = catalog.table(read.table)?;
        table.stamp(table.find(read.key.as_bytes())?, LATEST)
    };
    let overtaken = |by: Option<Stamp>| {
        let by = by.map_or_else(String::new, |stamp| format!(" by block {}", stamp.height()));
        let what = format!("What the transaction read was changed{by} while it was simulated.");
        Stop::from(Error::serialization(what))
    };
    let watch = |overlay: &mut Overlay<Seen>| {
        let seen = &overlay.recorder;
        let other = |read: &&RowRequirement| now(read) != read.stamp;
        let gone = |read: &&RowRequirement| now(read).is_some() != read.stamp.is_some();
        let first = seen.values[values..].iter().find(other);
        let first = first.or_else(|| seen.existences[existences..].iter().find(gone));
        (values, existences) = (seen.values.len(), seen.existences.len());
        by = by.or(first.map(now));
        by.map_or(Ok(()), |by| Err(overtaken(by)))
    };
    let result = work.run(frame, &mut Guarded::new(overlay, watch));
    by.map_or(result, |by| Err(overtaken(by)))
}

fn assigned(overlay: &Overlay<Seen>) -> Vec<BTreeSet<ColumnId>> {
    let columns = |write: &PendingWrite| match &write.state {
        WriteState::Commands(commands) => {
            let assignments = commands.iter().flat_map(|command| &*command.code.assignments);
            assignments.map(|(column, _)| *column).collect()
        }
        WriteState::Put(_) | WriteState::Delete => BTreeSet::new(),
    };
    overlay.writes().writes().iter().map(columns).collect()
}

/// What a run has come to.
pub(super) fn endorsed_of(
    (versioned, proposal): (&Versioned, &Body),
    result: &ProgramResult,
    overlay: &mut Overlay<Seen>,
    meter: &Meter,
) -> Result<Endorsed, Stop> {
    let (catalog, schema_version) = (&*versioned.catalog, versioned.version);
    if overlay.recorder.too_many {
        let what = "the transaction reads too much to be endorsed";
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
            .with_detail(format!("It may read {READS_MAX} rows and ranges."))
            .into());
    }
    let (at, moment) = (overlay.at(), overlay.moment());
    let seen = std::mem::take(&mut overlay.recorder);
    let mut below = Overlay::new(overlay.catalog().clone(), at, moment, NoRecord);
    let mut ranges: Vec<RangeRequirement> = Vec::with_capacity(seen.ranges.len());
    for RangeRequirement { range, digest, .. } in seen.ranges {
        if ranges.iter().rev().take(8).any(|it| it.range == range && is_like(&it.digest, &digest)) {
            continue;
        }
        let (rows, seal) = seal_range(&mut below, &range, &digest, meter)?;
        let digest = RangeDigest::from_parts(rows, digest.stopped, [0; 2]);
        ranges.push(RangeRequirement { range, digest, seal: Some(Box::new(seal)) });
    }
    let (written, unchanged) = writes_of(catalog, overlay, &seen.assigned, &seen.values)?;
    let asked_by_write: BTreeSet<(TableId, &Key)> = overlay
        .writes()
        .writes()
        .iter()
        .filter(|write| {
            let is_hidden = |table: &Arc<Table>| table.schema.hidden_row_id;
            match write.existed {
                true => write.exists(),
                false => catalog.table_by_id(write.table).is_some_and(is_hidden),
            }
        })
        .map(|write| (write.table, &write.key))
        .filter(|row| !unchanged.contains(row))
        .collect();
    let mut rows = seen.values;
    rows.extend(
        seen.existences.into_iter().filter(|it| !asked_by_write.contains(&(it.table, &it.key))),
    );
    rows.sort_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
    rows.dedup_by(|a, b| a.table == b.table && a.key == b.key);
    let (result, now_us) = (result_hash(result), moment.now_us);
    let proposal = proposal.clone();
    Ok(Endorsed { proposal, schema_version, now_us, rows, ranges, writes: written, result })
}

fn is_like(one: &RangeDigest, other: &RangeDigest) -> bool {
    (one.rows, one.stopped) == (other.rows, other.stopped)
}

/// The net changes, in the order in which rows were first written to, and the rows that were
/// written to and have no column to change.
fn writes_of<'a>(
    catalog: &Catalog,
    overlay: &'a Overlay<Seen>,
    assigned: &[BTreeSet<ColumnId>],
    read: &[RowRequirement],
) -> Result<(Vec<RowWrite>, BTreeSet<(TableId, &'a Key)>), Stop> {
    let read: BTreeSet<(TableId, &Key)> = read.iter().map(|it| (it.table, &it.key)).collect();
    let (mut written, mut unchanged) = (Vec::new(), BTreeSet::new());
    let mut before = Vec::new();
    let writes = overlay.writes().writes().iter().zip(assigned);
    for (write, assigned) in writes.filter(|(write, _)| !write.is_void()) {
        let table = catalog.table_by_id(write.table);
        let stored = overlay.catalog().table(write.table);
        let (Some(table), Some(stored)) = (table, stored) else {
            return Err(Stop::Halt("a table that was written to is not there".to_owned()));
        };
        before.clear();
        if write.existed {
            let slot = write.slot.ok_or_else(|| Stop::Halt("a row without a slot".to_owned()))?;
            stored.read_row(slot, overlay.at(), &mut before);
        }
        let key = || {
            let columns = table.schema.primary_key.iter();
            columns.map(|column| before[usize::from(*column)].clone()).collect()
        };
        let change = match &write.state {
            WriteState::Put(row) if !write.existed => {
                let shown = table.schema.visible_columns();
                RowChange::Insert(shown.map(|(id, _)| row[usize::from(id)].clone()).collect())
            }
            WriteState::Put(row) => {
                let is_replaced = assigned.is_empty() && !read.contains(&(write.table, &write.key));
                let columns = changed(table, &before, row, |column| {
                    is_replaced || assigned.contains(&column)
                });
                if columns.is_empty() {
                    unchanged.insert((write.table, &write.key));
                    continue;
                }
                RowChange::Update { key: key(), columns }
            }
            WriteState::Delete => RowChange::Delete { key: key() },
            WriteState::Commands(_) => {
                return Err(Stop::Halt("a command was not evaluated".to_owned()));
            }
        };
        written.push(RowWrite { table: write.table, change });
    }
    Ok((written, unchanged))
}

/// Columns with other values than before, and those that are written whatever was there, but for
/// those that follow from others.
fn changed(
    table: &Table,
    before: &[Value],
    row: &[Value],
    is_blind: impl Fn(ColumnId) -> bool,
) -> Vec<(ColumnId, Value)> {
    let bytes = |value: &Value| {
        // 1.0 and 1.00 are equal, and not the same.
        let mut bytes = Vec::new();
        encode_value(value, &mut bytes);
        bytes
    };
    let stored = table.schema.visible_columns().filter(|(id, _)| table.generated(*id).is_none());
    let other = stored.filter_map(|(id, _)| {
        let (old, new) = (&before[usize::from(id)], &row[usize::from(id)]);
        let is_blind = is_blind(id) && !table.schema.primary_key.contains(&id);
        (is_blind || bytes(old) != bytes(new)).then(|| (id, new.clone()))
    });
    other.collect()
}

/// A transaction that was simulated on a snapshot.
pub(super) struct Proposed {
    /// Its own program.
    pub proposal: Work,
    /// What it has come to.
    pub endorsed: Endorsed,
    /// The program that its block runs instead.
    pub again: Work,
    pub answer: ProgramResult,
    /// Whether all check functions say yes.
    pub approves: Result<bool>,
}

impl Session {
    /// `SELECT tally_propose(envelope)`: an envelope of the same user, number and expiry, that
    /// holds what the other asks for, and what this node has come to.
    pub(super) fn propose(
        &mut self,
        envelope: &Expr,
        parameters: &[Value],
        view: &View,
    ) -> Result<Answer> {
        let Value::Bytes(bytes) = self.argument(envelope, parameters)? else {
            let what = "tally_propose() needs an envelope";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        };
        let proposed = self.simulating(view, |session, view| session.propose_on(&bytes, view))?;
        let row = [Value::Bytes(proposed.to_vec().into())];
        Ok(Answer::Rows { rows: vec![row.into()], tag: Tag::Select, lease: None })
    }

    fn propose_on(&mut self, bytes: &[u8], view: &View) -> Result<bytes::Bytes> {
        let Some(snapshot) = &view.snapshot else {
            let what = "tally_propose() cannot run inside a transaction block";
            return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
        };
        let asked = order::View::read(bytes)?;
        if asked.ledger_id != self.database.engine.ledger_id() {
            let what = "the envelope is for another ledger";
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, what));
        }
        if asked.principal != self.info.party().principal {
            let what = "permission denied to propose transactions of another role";
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
                .with_detail(format!("The envelope is one of role \"{}\".", asked.principal)));
        }
        let transaction = Transaction::of(&asked)?;
        let Proposed { endorsed, .. } =
            self.proposed(&transaction, snapshot, (view.versioned.ledger(), &[]))?;
        let request = Body::Endorsed(Box::new(endorsed)).to_request();
        let proposed = order::View {
            seen_height: snapshot.height(),
            request: &request,
            signatures: Vec::new(),
            approvals: Vec::new(),
            ..asked
        };
        proposed.encode()
    }

    /// What a simulation may spend and hold: as much as a transaction of a block, since a member
    /// runs it for others, and a block may have to wait for it.
    pub(super) fn simulation_frame(&self) -> Frame {
        self.guard.set_budget(self.database.engine.budget());
        transaction_frame(&self.guard)
    }

    /// What a transaction comes to on a snapshot; `looks` are asked then.
    pub(super) fn proposed(
        &mut self,
        transaction: &Transaction,
        snapshot: &Snapshot,
        (versioned, looks): (&Versioned, &[Work]),
    ) -> Result<Proposed> {
        let of_program = matches!(
            transaction.body,
            Body::Statement(_) | Body::Call(_) | Body::Load(_) | Body::Interactive { .. }
        );
        if !of_program {
            let what = "only statements, calls, loads and transactions of them can be endorsed";
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
        }
        let schema = Arc::clone(&self.database.schema);
        let proposal = schema.simulated(versioned, transaction)?;
        let height = snapshot.height() + 1;
        let now_us = proposal.now_us(self.head_of(snapshot)?.time_us);
        let moment = Moment { height, position: 0, now_us };
        let catalog = snapshot.catalog();
        let mut overlay = Overlay::new(catalog.clone(), snapshot.height(), moment, Seen::default());
        let early_abort = self.database.engine.simulation_rules()?.early_abort;
        let frame = &mut self.simulation_frame();
        let run = aside(are_short(&proposal, looks), || {
            let answer = run_proposal(&proposal, frame, &mut overlay, early_abort)?;
            let of = (versioned, &transaction.body);
            let endorsed = endorsed_of(of, &answer, &mut overlay, frame.meter())?;
            // Its rows have to be such as can be written one by one.
            let again = schema.rewritten(versioned, endorsed.clone())?;
            let mut below = Overlay::new(catalog.clone(), snapshot.height(), moment, NoRecord);
            again.run(frame, &mut below).map_err(not_one_by_one)?;
            below.evaluate_all().map_err(not_one_by_one)?;
            frame.meter().refill();
            let approves = all_say_yes(looks, frame, &mut overlay).map_err(error_of);
            Ok((endorsed, again, answer, approves))
        });
        snapshot.check()?;
        let (endorsed, again, answer, approves) = run.map_err(error_of)?;
        Ok(Proposed { proposal, endorsed, again, answer, approves })
    }
}

/// A transaction, and what looks at it, are over soon.
pub(super) fn are_short(proposal: &Work, looks: &[Work]) -> bool {
    proposal.is_short() && looks.iter().all(Work::is_short)
}

/// What check functions say of what is in an overlay; without one, nothing is approved.
pub(super) fn all_say_yes(
    looks: &[Work],
    frame: &mut Frame,
    overlay: &mut Overlay<Seen>,
) -> Result<bool, Stop> {
    let mut yes = !looks.is_empty();
    for look in looks {
        let said = look.run_within(frame, overlay)?;
        let said = said.rows.first().and_then(|row| row.first());
        yes &= matches!(said, Some(Value::Bool(true)));
    }
    Ok(yes)
}

/// The transaction itself has ended well. What has run out meanwhile, or was given up, says nothing
/// of its rows.
fn not_one_by_one(stop: Stop) -> Stop {
    let of_rows = |error: &Error| !["53", "54", "57"].contains(&&error.code().as_str()[..2]);
    match stop {
        Stop::Rejected(error) | Stop::Retry(error) if !of_rows(&error) => Stop::Rejected(error),
        Stop::Rejected(error) | Stop::Retry(error) => {
            let why = error.fields().detail.clone();
            let why = why.unwrap_or_else(|| error.message().to_owned());
            let what = "the transaction cannot be endorsed";
            Stop::Rejected(
                Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
                    .with_detail(format!("Its rows cannot be written one after the other: {why}"))
                    .with_hint(
                        "Split it into several transactions, or have it approved in place of \
                         endorsed.",
                    ),
            )
        }
        stop => stop,
    }
}

#[cfg(test)]
mod tests {
    use concurrency::{Block, Runner, Statement};
    use procedure::CommandCode;
    use procedure::Reg;
    use procedure::step::{Output, Procedure, Step};
    use storage::Store;
    use types::{ColumnSchema, DataType, Height, TableSchema};

    use super::*;

    const TABLE: TableId = TableId(1);

    fn constant(number: i64) -> Expr {
        Expr::Const(Value::Int(number))
    }

    fn work(step: Step) -> Arc<Work> {
        let procedure = Procedure {
            name: "one".into(),
            parameters: Vec::new(),
            registers: 2,
            body: [step].into(),
            output: Output::Tag,
            tag: "CALL".into(),
            read_only: false,
            draws: false,
            sequences: Box::default(),
            register_names: Box::default(),
        };
        let (procedure, arguments) = (Arc::new(procedure), Box::default());
        Arc::new(Work::Statement(Statement { procedure, arguments }))
    }

    fn read(key: i64) -> Arc<Work> {
        let (key, columns) = (Box::new([constant(key)]), Box::new([1]));
        work(Step::Read { table: TABLE, key, columns, out: Reg(0), found: Reg(1) })
    }

    fn insert(key: i64) -> Arc<Work> {
        work(Step::Insert {
            table: TABLE,
            key: Box::new([0]),
            hidden_row_id: false,
            values: Box::new([constant(key), constant(0)]),
            inserted: Reg(0),
        })
    }

    /// Whatever the row holds.
    fn put(key: i64) -> Arc<Work> {
        let code = Arc::new(CommandCode::new(Box::new([(1, constant(7))]), Box::default()));
        let (key, inputs) = (Box::new([constant(key)]), Box::default());
        work(Step::Update { table: TABLE, key, code, inputs, found: Reg(0) })
    }

    fn delete(key: i64) -> Arc<Work> {
        let (key, long) = (Box::new([constant(key)]), Box::default());
        work(Step::Delete { table: TABLE, key, long, found: Reg(0) })
    }

    /// Without publishing it.
    fn write_block(store: &Store, height: Height, transactions: Vec<Arc<Work>>) {
        let block = Block::new(height, 0, transactions);
        let mut writes = store.begin_block(height, 1);
        let mut runner = Runner::new(store.catalog());
        for position in 0..block.transactions.len() as u32 {
            assert!(runner.run_one(&block, position, writes.arena(0)).unwrap().is_committed());
        }
        drop(store.finish(writes));
    }

    /// A block is written, and not published yet, while a proposal is simulated on the one before.
    #[test]
    fn a_proposal_is_given_up_once_it_reads_what_a_block_has_overwritten() {
        let store = Store::new();
        let column = |name: &str| ColumnSchema::new(name, DataType::Int8);
        store.create_table(Arc::new(TableSchema {
            id: TABLE,
            name: "t".into(),
            columns: vec![column("id").nullable(false), column("n")],
            primary_key: vec![0],
            indexes: Vec::new(),
            hidden_row_id: false,
        }));
        write_block(&store, 1, (0..4).map(insert).collect());
        store.publish(1);
        let snapshot = store.snapshot();
        write_block(&store, 2, vec![put(0), delete(1), insert(9)]);
        let ends = |proposal: &Work, early_abort| {
            let moment = Moment { height: 2, position: 0, now_us: 0 };
            let catalog = Arc::clone(snapshot.catalog());
            let mut overlay = Overlay::new(catalog, 1, moment, Seen::default());
            run_proposal(proposal, &mut Frame::default(), &mut overlay, early_abort).map(drop)
        };
        let by_block_2 = "What the transaction read was changed by block 2 while it was simulated.";
        let gone = "What the transaction read was changed while it was simulated.";
        for (proposal, why) in [
            (read(0), Some(by_block_2)),
            (read(1), Some(gone)),
            (put(1), Some(gone)),
            (delete(1), Some(gone)),
            (read(9), Some(by_block_2)),
            (read(2), None),
            (read(8), None),
            (put(0), None),
            (put(3), None),
        ] {
            match (ends(&proposal, true), why) {
                (Ok(()), None) => {}
                (Err(Stop::Rejected(error) | Stop::Retry(error)), Some(why)) => {
                    assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE);
                    assert_eq!(error.fields().detail.as_deref(), Some(why), "{proposal:?}");
                }
                other => panic!("{other:?} {proposal:?}"),
            }
            assert!(ends(&proposal, false).is_ok(), "on its own snapshot it ends well");
        }
    }
}
