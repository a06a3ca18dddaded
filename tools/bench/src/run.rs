//! One run of one cell (protocol, workload, workers): the database is copied and the transactions
//! are drawn before the clock starts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use concurrency::{BlockReport, Outcome, PathCounts, Protocol, Work, WorkerPool};
use engine::Request;
use engine::limits::Limits;
use hdrhistogram::Histogram;
use kit::allocations;
use ledger::{Hash, LogOptions, Parameters};
use pipeline::{
    Batch, Cadence, Decided, Decision, Halves, Line, LineStart, Pipeline, Stepper, Task,
};
use rustix::time::{ClockId, clock_gettime};
use storage::Store;
use types::{Height, Position};

use crate::bed::{Bed, Source};
use crate::named;
use crate::{Cell, Plan};

/// Where transactions are deferred, there are more blocks than there would be without: up to so
/// many times as many. What is then still undecided stays so.
const BLOCKS_OVER_PLAN_MAX: usize = 8;

const LATENCY_DIGITS: u8 = 3;
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// What one run gave.
#[derive(Clone, Debug)]
pub struct Run {
    pub wall: Duration,
    pub cpu: Duration,
    pub committed: u64,
    /// Ended in an error of the program's own.
    pub rejected: u64,
    /// Ended in SQLSTATE 40001.
    pub failed: u64,
    /// Turned away by the protocol's rule, and run again in the same block.
    pub rerun: u64,
    /// Turned away by the protocol's rule, and deferred to a later block.
    pub deferred: u64,
    /// Still deferred when the run ended, or in no block yet.
    pub undecided: u64,
    /// Transactions that blocks were asked to run, one that was deferred once for each block.
    pub executions: u64,
    /// Whether each block's serial order was the order in the block, and nothing was deferred.
    pub block_order: bool,
    /// Which ways the executions took.
    pub ways: PathCounts,
    /// Of transactions, in microseconds.
    pub latencies_us: Histogram<u64>,
    /// Of each block: waiting for the disk. Empty without durability.
    pub syncs: Vec<Duration>,
    pub allocations: Option<u64>,
    pub digest: Hash,
}

pub fn latency_histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LATENCY_US_MAX, LATENCY_DIGITS)?)
}

impl Run {
    fn new() -> Result<Run> {
        Ok(Run {
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            committed: 0,
            rejected: 0,
            failed: 0,
            rerun: 0,
            deferred: 0,
            undecided: 0,
            executions: 0,
            block_order: true,
            ways: PathCounts::default(),
            latencies_us: latency_histogram()?,
            syncs: Vec::new(),
            allocations: None,
            digest: Hash::default(),
        })
    }

    fn count<T>(&mut self, decided: &[Decided<T>], order: &[Position], report: &BlockReport) {
        let mut deferred = 0;
        for one in decided {
            match (&one.decision, &one.outcome) {
                (Decision::Later, _) => deferred += 1,
                (_, Outcome::Committed(_)) => self.committed += 1,
                (_, Outcome::Rejected(_)) => self.rejected += 1,
                (_, Outcome::Retry(_)) => self.failed += 1,
            }
        }
        self.deferred += deferred;
        self.rerun += u64::from(report.rerun);
        self.ways += report.paths;
        self.executions += decided.len() as u64;
        let in_order = order.iter().copied().eq(0..decided.len() as Position);
        self.block_order &= in_order && deferred == 0;
    }
}

/// Transactions on their way into blocks, which make room for those that were deferred to them.
struct Feed<T> {
    new: std::vec::IntoIter<T>,
    block_transactions: usize,
    blocks_left: usize,
    /// When each block was cut, from this height on.
    first: Height,
    cut: Vec<Instant>,
}

impl<T> Feed<T> {
    fn new(all: Vec<T>, block_transactions: usize, first: Height) -> Feed<T> {
        let blocks = all.len().div_ceil(block_transactions);
        Feed {
            new: all.into_iter(),
            block_transactions,
            blocks_left: blocks * BLOCKS_OVER_PLAN_MAX,
            first,
            cut: Vec::with_capacity(blocks),
        }
    }

    /// The new ones of the next block, which so many join that were deferred. `None`: there are
    /// none, and none is `waiting` for a later block, or there have been too many blocks.
    fn block(&mut self, joining: usize, waiting: bool) -> Option<Vec<T>> {
        if self.blocks_left == 0 || (self.new.len() == 0 && !waiting) {
            return None;
        }
        self.blocks_left -= 1;
        let room = self.block_transactions.saturating_sub(joining);
        let block = self.new.by_ref().take(room).collect();
        self.cut.push(Instant::now());
        Some(block)
    }

    /// Notes how long those took that are through. Returns them, so that freeing them is not on
    /// the clock.
    fn note_latencies<M>(
        &self,
        decided: Vec<Decided<M>>,
        latencies_us: &mut Histogram<u64>,
    ) -> Vec<M> {
        let now = Instant::now();
        let through = decided.into_iter().filter_map(|decided| match decided.decision {
            Decision::Now(task) => {
                let since = self.cut[(decided.origin.height - self.first) as usize];
                latencies_us.saturating_record((now - since).as_micros() as u64);
                Some(task)
            }
            Decision::Later => None,
        });
        through.collect()
    }
}

pub fn run(plan: &Plan, source: &Source, cell: &Cell, count_allocations: bool) -> Result<Run> {
    let mut bed = Bed::copy(source, cell, LogOptions::default())?;
    let mut run = Run::new()?;
    if cell.sealing {
        let requests = bed.requests(plan)?;
        timed(&mut run, count_allocations, |run| sealed(&mut bed, cell, requests, run))?;
    } else {
        let works = bed.works(plan)?;
        let store = bed.replica.store();
        timed(&mut run, count_allocations, |run| unsealed(store, cell, works, run))?;
    }
    bed.check()?;
    run.digest = bed.digest()?;
    Ok(run)
}

fn timed(
    run: &mut Run,
    count_allocations: bool,
    work: impl FnOnce(&mut Run) -> Result<Spent>,
) -> Result<()> {
    let spent = match count_allocations {
        true => {
            let (spent, count) = allocations::during(|| work(run));
            run.allocations = count;
            spent?
        }
        false => work(run)?,
    };
    (run.wall, run.cpu) = (spent.wall, spent.cpu);
    Ok(())
}

pub struct Spent {
    pub wall: Duration,
    pub cpu: Duration,
}

pub struct Stopwatch {
    began: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch { cpu: cpu_time(), began: Instant::now() }
    }

    pub fn stop(&self) -> Spent {
        Spent { wall: self.began.elapsed(), cpu: cpu_time() - self.cpu }
    }
}

fn sealed(bed: &mut Bed, cell: &Cell, requests: Vec<Request>, run: &mut Run) -> Result<Spent> {
    // A protocol with tables of its own loads them for its first block: this empty one.
    let warm_up = bed.replica.execute(0, Vec::new())?;
    if let Some(log) = &mut bed.log {
        log.append_order(&warm_up)?;
        log.append_result(&warm_up)?;
    }
    bed.replica.publish();
    let mut feed = Feed::new(requests, cell.block_transactions, bed.replica.head().height + 1);
    let mut through = Vec::new();
    let stopwatch = Stopwatch::start();
    while let Some(requests) =
        feed.block(bed.replica.deferred_to_next(), bed.replica.has_deferred())
    {
        let executed = bed.replica.execute(0, requests)?;
        if let Some(log) = &mut bed.log {
            let executed_at = Instant::now();
            log.append_order(&executed)?;
            run.syncs.push(executed_at.elapsed());
        }
        bed.replica.publish();
        if let Some(log) = &mut bed.log {
            log.append_result(&executed)?;
        }
        let order = executed.arrivals.as_ref().unwrap_or(&executed.serial_order);
        run.count(&executed.decided, order, &executed.report);
        through.push(feed.note_latencies(executed.decided, &mut run.latencies_us));
        collect(bed.replica.store(), bed.replica.head().height);
    }
    run.undecided = (feed.new.len() + bed.replica.deferred_to_next()) as u64;
    Ok(stopwatch.stop())
}

fn unsealed(
    store: &Arc<Store>,
    cell: &Cell,
    works: Vec<Arc<Work>>,
    run: &mut Run,
) -> Result<Spent> {
    let protocol = named::protocol(&cell.protocol)?;
    let (pool, halves) = (WorkerPool::new(cell.threads), Halves::Together);
    let mut stepper = stepper(store, protocol)?;
    // A protocol with tables of its own loads them for its first block: this empty one.
    stepper.order(Batch { time_us: 0, tasks: Vec::new() }).map_err(halted)?;
    stepper.release(&pool, halves).map_err(halted)?;
    let mut feed = Feed::new(works, cell.block_transactions, store.newest() + 1);
    let mut through = Vec::new();
    let stopwatch = Stopwatch::start();
    loop {
        while stepper.pipeline().may_order()
            && let Some(tasks) = next_block(&mut feed, &stepper)
        {
            stepper.order(Batch { time_us: 0, tasks }).map_err(halted)?;
        }
        let released = stepper.release(&pool, halves).map_err(halted)?;
        let Some(finished) = released else { break };
        let order = finished.arrivals.as_ref().unwrap_or(&finished.serial_order);
        run.count(&finished.decided, order, &finished.report);
        run.block_order &= finished.inter_block_reorderings.is_empty();
        through.push(feed.note_latencies(finished.decided, &mut run.latencies_us));
    }
    let deferred: usize = stepper.line().deferred().values().map(Vec::len).sum();
    run.undecided = (feed.new.len() + deferred) as u64;
    Ok(stopwatch.stop())
}

fn next_block<T: Task + Send + 'static>(
    feed: &mut Feed<T>,
    stepper: &Stepper<T>,
) -> Option<Vec<T>> {
    let line = stepper.line();
    feed.block(line.joining(stepper.pipeline().next_height()), line.has_deferred())
}

/// The product's schedule and line on a store, without a ledger.
pub fn stepper(store: &Arc<Store>, protocol: Arc<dyn Protocol>) -> Result<Stepper<Arc<Work>>> {
    let attempts_max = Limits::of(&Parameters::new(protocol.info().name))?.attempts_max;
    let line = Line::new(Arc::clone(store), LineStart::new(protocol), attempts_max);
    let line = line.without_changes();
    let newest = store.newest();
    let pipeline = Pipeline::new(newest, newest, line.rules(), Cadence::default());
    Ok(Stepper::new(line, pipeline))
}

pub fn halted(why: String) -> anyhow::Error {
    anyhow!("the protocol halted: {why}")
}

/// As the live engine does, every few blocks.
pub fn collect(store: &Store, height: Height) {
    if height.is_multiple_of(Cadence::default().collect_blocks) {
        store.collect();
    }
}

/// CPU time of all threads of this process.
pub fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_size_with_those_that_join_them_and_end_when_nothing_waits() {
        let mut feed = Feed::new("abcdefg".chars().collect(), 3, 1);
        let joining = [0, 2, 1, 4, 0, 0];
        let blocks = joining.map(|joining| feed.block(joining, joining > 0));
        let blocks = blocks.map(|block| block.map(|new| new.into_iter().collect::<String>()));
        let expected = ["abc", "d", "ef", "", "g"].map(|new| Some(new.to_owned()));
        assert_eq!(blocks[..5], expected);
        assert_eq!(blocks[5], None);
        assert_eq!(feed.block(0, true), Some(Vec::new()));
    }

    #[test]
    fn latency_counts_from_the_block_that_a_transaction_was_ordered_in() {
        let mut feed = Feed::new(vec!['a', 'b'], 1, 5);
        feed.block(0, false);
        std::thread::sleep(Duration::from_millis(20));
        feed.block(0, false);
        let decided = |height, decision| Decided {
            origin: types::Origin { height, index: 0 },
            outcome: Outcome::Committed(Default::default()),
            decision,
        };
        let decided = vec![
            decided(5, Decision::Now('a')),
            decided(6, Decision::Later),
            decided(6, Decision::Now('b')),
        ];
        let mut latencies_us = latency_histogram().unwrap();
        assert_eq!(feed.note_latencies(decided, &mut latencies_us), ['a', 'b']);
        assert_eq!(latencies_us.len(), 2);
        assert!(latencies_us.max() >= 20_000 && latencies_us.min() < 20_000);
    }

    #[test]
    fn a_run_that_makes_no_progress_ends() {
        let mut feed = Feed::new(vec!['a', 'b'], 1, 1);
        let blocks = std::iter::from_fn(|| feed.block(1, true)).count();
        assert_eq!(blocks, 2 * BLOCKS_OVER_PLAN_MAX);
        assert_eq!(feed.new.len(), 2);
    }
}
