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

use concurrency::test_mode::{self, TestMode};
use concurrency::{
    Block, BlockOutcome, Carried, Moment, NoRecord, Outcome, Overlay, Protocol, Runner, Work,
    WorkerPool,
};
use pipeline::Task;
use procedure::{Budget, Frame};
use storage::{Changes, LATEST, Store};
use types::{Height, Position, Stamp, TableId, TableSchema, Value};

use crate::course::{Course, Ran};
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
    pub test_mode: TestMode,
    /// How often what a protocol defers comes again by itself.
    pub attempts_max: u32,
    /// What each transaction may spend.
    pub budget: Budget,
    pub(crate) height: Height,
    course: Option<Course<Item>>,
}

/// A transaction on its way through the blocks.
pub struct Item {
    pub work: Arc<Work>,
    /// Of which it is the COMMIT.
    pub session: Option<Session>,
}

impl From<Arc<Work>> for Item {
    fn from(work: Arc<Work>) -> Item {
        Item { work, session: None }
    }
}

impl Task for Item {
    fn work(&self) -> &Arc<Work> {
        &self.work
    }
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
            test_mode: TestMode::default(),
            attempts_max: 0,
            budget: Budget::default(),
            height: 0,
            course: None,
        }
    }

    pub fn height(&self) -> Height {
        self.height
    }

    /// Run a block on both and compare.
    pub fn run(
        &mut self,
        protocol: &Arc<dyn Protocol>,
        pool: &WorkerPool,
        transactions: Vec<Arc<Work>>,
    ) -> Result<BlockOutcome, Divergence> {
        self.run_items(protocol, pool, transactions.into_iter().map(Item::from).collect())
    }

    /// As `run`; the transactions at some positions are COMMITs of these sessions.
    pub fn run_with_sessions(
        &mut self,
        protocol: &Arc<dyn Protocol>,
        pool: &WorkerPool,
        transactions: Vec<Arc<Work>>,
        mut sessions: BTreeMap<Position, Session>,
    ) -> Result<BlockOutcome, Divergence> {
        let items = (0..).zip(transactions);
        let items = items.map(|(at, work)| Item { work, session: sessions.remove(&at) });
        let items = items.collect();
        self.run_items(protocol, pool, items)
    }

    /// After those that were deferred to it, if they come again.
    pub fn run_items(
        &mut self,
        protocol: &Arc<dyn Protocol>,
        pool: &WorkerPool,
        items: Vec<Item>,
    ) -> Result<BlockOutcome, Divergence> {
        self.height += 1;
        let height = self.height;
        let wrong = |what: String| Divergence::new(height, what);
        let mut course = self.take_course(protocol);
        course.set_budget(self.budget);
        let ran = {
            let _on = test_mode::enter(self.test_mode);
            course.run(pool, items).map_err(wrong)?
        };
        self.course = Some(course);
        let outcome = ran.outcome();
        self.compare(&**protocol, &ran).map_err(|what| Divergence {
            height,
            what,
            outcome: Some(Box::new(outcome.clone())),
        })?;
        if self.collects {
            self.subject.collect();
        }
        Ok(outcome)
    }

    /// Whether transactions wait for a later block.
    pub fn has_deferred(&self) -> bool {
        self.course.as_ref().is_some_and(|course| course.line().has_deferred())
    }

    /// After the last block, under this protocol.
    pub(crate) fn take_course(&mut self, protocol: &Arc<dyn Protocol>) -> Course<Item> {
        let Some(mut course) = self.course.take() else {
            return Course::behind(0, &self.subject, protocol, self.attempts_max);
        };
        if !Arc::ptr_eq(course.line().protocol(), protocol) {
            course.go_on_by(protocol, Carried::default());
        }
        course
    }

    fn compare(&mut self, protocol: &dyn Protocol, ran: &Ran<Item>) -> Result<(), String> {
        let Ran { block, sealed: outcome, .. } = ran;
        check_order(protocol, outcome, block.transactions.len())?;
        check_progress(protocol, block, outcome)?;
        let may_retry = protocol.info().may_retry;
        let is_deferred = |at: usize| {
            let retries = matches!(outcome.outcomes[at], Outcome::Retry(_));
            retries && (may_retry || outcome.deferred.contains(&(at as Position)))
        };
        let (replayed, serial) = self.replay(ran, &is_deferred)?;
        for (position, (ours, theirs)) in outcome.outcomes.iter().zip(&replayed).enumerate() {
            if ours != theirs {
                return Err(format!(
                    "transaction {position} ended as {ours:?}, serially as {theirs:?}"
                ));
            }
        }
        compare_states(&self.subject, &self.specification)?;
        let plain = self.model.run(block, outcome, &is_deferred)?;
        let changes = net_changes(&ran.changes);
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
        Ran { block, sealed: outcome, tasks, .. }: &Ran<Item>,
        is_deferred: &dyn Fn(usize) -> bool,
    ) -> Result<(Vec<Outcome>, Vec<NetChange>), String> {
        let store = &self.specification;
        let mut writes = store.begin_block(block.height, 1);
        let mut runner = Runner::new(store.catalog());
        let mut outcomes: Vec<Option<Outcome>> = vec![None; block.transactions.len()];
        for &position in &outcome.serial_order {
            if is_deferred(position as usize) {
                outcomes[position as usize] = Some(outcome.outcomes[position as usize].clone());
                continue;
            }
            let item = tasks[position as usize].as_ref();
            let session = item.and_then(|item| item.session.as_ref());
            let again = session.map(|session| session.again(store.catalog()));
            let work = &block.transactions[position as usize];
            let differs = session.and_then(|session| session.differs(work, &store.catalog()));
            let outcome = runner.run_one(block, position, writes.arena(0))?;
            if let (Some(session), Some(again), true) = (session, again, outcome.is_committed())
                && session.answers != again
            {
                return Err(format!(
                    "session {position} committed and was told {:?}, serially {again:?}; {:?}",
                    session.answers, session.script,
                ));
            }
            if let (Some(differs), true) = (differs, outcome.is_committed()) {
                return Err(format!("endorsed transaction {position} committed: {differs}"));
            }
            outcomes[position as usize] = Some(outcome);
        }
        let changes = net_changes(&store.finish(writes));
        store.publish(block.height);
        Ok((outcomes.into_iter().flatten().collect(), changes))
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

/// Calls are retried only where the protocol's info says so, or because they are deferred; and
/// whichever are, others get on.
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
        return Err(format!("call {at} is to be retried, which the info rules out"));
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
