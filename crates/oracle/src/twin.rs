//! A store under the protocol in question, and its serial twins.
//!
//! ```text
//!   block ─► subject, under the protocol ─► outcomes, claimed order, net changes, rows
//!                                                  │ sealed: see [`concurrency::Sealed`]
//!                                                  │ replayed one by one
//!                          ┌───────────────────────┴──────────────┐
//!              a store of its own, never collected        plain maps (`Model`)
//! ```

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use concurrency::trial::{self, Trial};
use concurrency::{
    Block, BlockOutcome, Crew, Moment, NoRecord, Outcome, Overlay, Protocol, Runner, Sealed, Work,
};
use procedure::Frame;
use storage::{Changes, LATEST, Store};
use types::{Height, Position, Stamp, TableId, TableSchema, Value};

use crate::course::Course;
use crate::model::Model;
use crate::session::Session;

/// A store under the protocol in question, and its serial twin.
pub struct Twin {
    pub subject: Arc<Store>,
    /// The last block's.
    pub changes: Vec<NetChange>,
    specification: Arc<Store>,
    pub(crate) model: Model,
    /// The subject collects what no snapshot needs after every block.
    pub collects: bool,
    /// Holds while the subject runs, and not for its twins.
    pub trial: Trial,
    pub(crate) height: Height,
    pub(crate) course: Course,
}

/// What the twins disagree on.
#[derive(Clone, PartialEq, Debug)]
pub struct Divergence {
    pub height: Height,
    pub what: String,
    /// The subject's, where it came so far.
    pub outcome: Option<Box<BlockOutcome>>,
}

impl Divergence {
    pub fn new(height: Height, what: String) -> Divergence {
        Divergence { height, what, outcome: None }
    }
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {}: {}", self.height, self.what)
    }
}

/// What a block did to one row, as the effects root has it.
#[derive(Clone, PartialEq, Debug)]
pub struct NetChange {
    pub table: TableId,
    pub key: Vec<u8>,
    pub before: Option<(Height, Vec<Value>)>,
    pub after: Option<Vec<Value>>,
}

/// One stored row: its key, when it last changed, its values.
pub type StoredRow = (Vec<u8>, Stamp, Vec<Value>);

impl Twin {
    pub fn new(schemas: &[Arc<TableSchema>]) -> Twin {
        let store = || {
            let store = Arc::new(Store::new());
            for schema in schemas {
                store.create_table(Arc::clone(schema));
            }
            store
        };
        Twin {
            subject: store(),
            changes: Vec::new(),
            specification: store(),
            model: Model::new(schemas),
            collects: true,
            trial: Trial::default(),
            height: 0,
            course: Course::default(),
        }
    }

    pub fn height(&self) -> Height {
        self.height
    }

    /// Run a block on both and compare.
    pub fn run(
        &mut self,
        protocol: &dyn Protocol,
        crew: &Crew,
        transactions: Vec<Arc<Work>>,
    ) -> Result<BlockOutcome, Divergence> {
        self.run_with_sessions(protocol, crew, transactions, &BTreeMap::new())
    }

    /// As `run`; the transactions at some positions are COMMITs of these sessions.
    pub fn run_with_sessions(
        &mut self,
        protocol: &dyn Protocol,
        crew: &Crew,
        transactions: Vec<Arc<Work>>,
        sessions: &BTreeMap<Position, Session>,
    ) -> Result<BlockOutcome, Divergence> {
        self.height += 1;
        let height = self.height;
        let block = Arc::new(Block::new(height, height as i64, transactions));
        let wrong = |what: String| Divergence::new(height, what);
        let (outcome, changes) = {
            let _on = trial::enter(self.trial);
            self.course.run(protocol, crew, &self.subject, &block).map_err(wrong)?
        };
        let Sealed { block, outcome: sealed, arrivals } =
            Sealed::of(protocol, &block, outcome.clone());
        let sessions = sessions_in_order(sessions, arrivals);
        self.compare(protocol, &block, &sealed, net_changes(&changes), &sessions).map_err(
            |what| Divergence { height, what, outcome: Some(Box::new(outcome.clone())) },
        )?;
        if self.collects {
            self.subject.collect();
        }
        Ok(outcome)
    }

    fn compare(
        &mut self,
        protocol: &dyn Protocol,
        block: &Arc<Block>,
        outcome: &BlockOutcome,
        changes: Vec<NetChange>,
        sessions: &BTreeMap<Position, &Session>,
    ) -> Result<(), String> {
        check_order(protocol, outcome, block.transactions.len())?;
        check_progress(protocol, block, outcome)?;
        let may_retry = protocol.info().may_retry;
        let put_off = |at: usize| {
            let retries = matches!(outcome.outcomes[at], Outcome::Retry(_));
            retries && (may_retry || outcome.deferred.contains(&(at as Position)))
        };
        let (replayed, serial) = self.replay(block, outcome, &put_off, sessions)?;
        for (position, (ours, theirs)) in outcome.outcomes.iter().zip(&replayed).enumerate() {
            if ours != theirs {
                return Err(format!(
                    "transaction {position} ended as {ours:?}, serially as {theirs:?}"
                ));
            }
        }
        compare_states(&self.subject, &self.specification)?;
        let plain = self.model.run(block, outcome, &put_off)?;
        for (who, others) in [("serially", serial), ("on plain maps", plain)] {
            compare_changes(&changes, &others, who)?;
        }
        self.changes = changes;
        self.model.compare(&self.subject)
    }

    /// What `work` would have left to spend now: on the subject's newest block, on the serial
    /// twin's, and on plain maps. There only work that reads is told of: commands are evaluated at
    /// once, so they fail earlier, and no scan passes over a row.
    pub fn left_to_spend(&self, work: &Work) -> (u64, u64, Option<u64>) {
        let moment = Moment { height: self.height + 1, position: 0, now_us: 0 };
        let on = |catalog, at| {
            let mut overlay = Overlay::new(catalog, at, moment, NoRecord);
            let mut frame = Frame::default();
            let _ = work.run(&mut frame, &mut overlay);
            frame.meter().left()
        };
        (
            on(self.subject.catalog(), self.subject.newest()),
            on(self.specification.catalog(), LATEST),
            self.model.left_after(work, Stamp::new(moment.height, moment.position)),
        )
    }

    fn replay(
        &self,
        block: &Arc<Block>,
        outcome: &BlockOutcome,
        put_off: &dyn Fn(usize) -> bool,
        sessions: &BTreeMap<Position, &Session>,
    ) -> Result<(Vec<Outcome>, Vec<NetChange>), String> {
        let store = &self.specification;
        let mut writes = store.begin_block(block.height, 1);
        let mut runner = Runner::new(store.catalog());
        let mut outcomes: Vec<Option<Outcome>> = vec![None; block.transactions.len()];
        for &position in &outcome.serial_order {
            if put_off(position as usize) {
                outcomes[position as usize] = Some(outcome.outcomes[position as usize].clone());
                continue;
            }
            let session = sessions.get(&position);
            let again = session.map(|session| session.again(store.catalog()));
            let outcome = runner.run_one(block, position, writes.arena(0))?;
            if let (Some(session), Some(again), true) = (session, again, outcome.is_committed())
                && session.answers != again
            {
                return Err(format!(
                    "session {position} committed and was told {:?}, serially {again:?}; {:?}",
                    session.answers, session.script,
                ));
            }
            outcomes[position as usize] = Some(outcome);
        }
        let changes = net_changes(&store.finish(writes));
        store.publish(block.height);
        Ok((outcomes.into_iter().flatten().collect(), changes))
    }
}

/// The sessions by the positions that their COMMITs have in the sealed block.
fn sessions_in_order(
    sessions: &BTreeMap<Position, Session>,
    arrivals: Option<Vec<Position>>,
) -> BTreeMap<Position, &Session> {
    match arrivals {
        None => sessions.iter().map(|(&at, session)| (at, session)).collect(),
        Some(arrivals) => {
            let sealed = (0..).zip(&arrivals);
            sealed.filter_map(|(at, arrival)| Some((at, sessions.get(arrival)?))).collect()
        }
    }
}

fn net_changes(changes: &Changes) -> Vec<NetChange> {
    let mut row = Vec::new();
    let changes = changes.touched().iter().map(|change| {
        let before = change.before(&mut row).map(|stamp| (stamp.height(), row.clone()));
        let after = change.after(&mut row).map(|_| row.clone());
        NetChange { table: change.table(), key: change.key().as_bytes().to_vec(), before, after }
    });
    changes.collect()
}

fn compare_changes(ours: &[NetChange], theirs: &[NetChange], who: &str) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    let differing = ours.iter().zip(theirs).find(|(a, b)| a != b);
    let (ours, theirs) = (ours.len(), theirs.len());
    Err(format!("{ours} net changes, {who} {theirs}; first difference {differing:?}"))
}

pub(crate) fn check_order(
    protocol: &dyn Protocol,
    outcome: &BlockOutcome,
    count: usize,
) -> Result<(), String> {
    let mut sorted = outcome.serial_order.clone();
    sorted.sort_unstable();
    let complete = sorted.iter().copied().eq(0..count as Position);
    if !complete || outcome.outcomes.len() != count {
        return Err(format!("the claimed order is no permutation: {:?}", outcome.serial_order));
    }
    // Replay without the protocol relies on it; others are put into their order when sealed.
    let keeps_order = protocol.keeps_block_order() && protocol.info().deterministic;
    if keeps_order && !outcome.serial_order.is_sorted() {
        return Err(format!("the claimed order is not the block's: {:?}", outcome.serial_order));
    }
    Ok(())
}

/// Calls are retried only where the card says so, or because they are put off; and whoever is put
/// off, somebody gets on.
pub(crate) fn check_progress(
    protocol: &dyn Protocol,
    block: &Block,
    outcome: &BlockOutcome,
) -> Result<(), String> {
    let is_retry = |at: usize| matches!(outcome.outcomes[at], Outcome::Retry(_));
    let is_call = |at: usize| !matches!(*block.transactions[at], Work::Interactive(_));
    let all = 0..block.transactions.len();
    let deferred = &outcome.deferred;
    let for_good = |at: usize| is_retry(at) && !deferred.contains(&(at as Position));
    if !protocol.info().may_retry
        && let Some(at) = all.clone().find(|&at| for_good(at) && is_call(at))
    {
        return Err(format!("call {at} is to be retried, which the card rules out"));
    }
    if !deferred.is_sorted_by(|a, b| a < b) {
        return Err(format!("the deferred are not in ascending order: {deferred:?}"));
    }
    if let Some(at) = deferred.iter().find(|&&at| !all.contains(&(at as usize))) {
        return Err(format!("transaction {at} is deferred, and there is none"));
    }
    if let Some(at) = deferred.iter().find(|&&at| !is_retry(at as usize)) {
        return Err(format!("transaction {at} is deferred and has an outcome"));
    }
    // Who was endorsed some blocks ago may find all that it read changed by those blocks.
    let is_stale = outcome.report.stale > 0;
    let stands_still = !is_stale && all.clone().all(|at| is_retry(at) && is_call(at));
    if !all.is_empty() && (stands_still || deferred.len() == all.len()) {
        return Err("nobody in this block gets on".into());
    }
    Ok(())
}

fn compare_states(ours: &Store, theirs: &Store) -> Result<(), String> {
    for table in ours.tables() {
        let (ours, theirs) = (rows(ours, table.id()), rows(theirs, table.id()));
        if ours != theirs {
            let differing = ours.iter().zip(&theirs).find(|(a, b)| a != b);
            return Err(format!(
                "table {} holds {} rows, serially {}; first difference {differing:?}",
                table.schema().name,
                ours.len(),
                theirs.len()
            ));
        }
    }
    Ok(())
}

/// Every row of a table as it stands now, in key order.
pub fn rows(store: &Store, table: TableId) -> Vec<StoredRow> {
    let Some(table) = store.table(table) else {
        return Vec::new();
    };
    let columns: Vec<_> = (0..table.schema().columns.len() as u16).collect();
    let mut rows = Vec::new();
    let mut keep = |key: &[u8], stamp: Stamp, values: &[Value]| {
        rows.push((key.to_vec(), stamp, values.to_vec()));
        ControlFlow::Continue(())
    };
    table.scan(0, Bound::Unbounded, Bound::Unbounded, false, LATEST, &columns, &mut keep);
    rows
}
