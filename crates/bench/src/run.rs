//! One run of one cell: copy, draw, then the clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use concurrency::{Outcome, Work};
use hdrhistogram::Histogram;
use ledger::{Hash, LogOptions};
use rustix::time::{ClockId, clock_gettime};
use storage::Store;
use types::{Height, Position};

use crate::allocations;
use crate::bed::{Bed, Source};
use crate::line::{Finished, Line};
use crate::{Cell, Plan};

/// Where transactions are put off, they come again in more blocks than there would be without: up
/// to so many times as many. What is then still undecided stays so.
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
    /// Turned away by the protocol's rule, and put off to the next block.
    pub deferred: u64,
    /// Still put off when the run ended.
    pub undecided: u64,
    /// Transactions that blocks were asked to run, one that was put off once for each block.
    pub executions: u64,
    /// Whether each block's serial order was the order in the block, and nothing was put off.
    pub block_order: bool,
    /// How far behind a block the snapshot is that it was prepared on.
    pub snapshot_lag: Height,
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
            snapshot_lag: 1,
            latencies_us: latency_histogram()?,
            syncs: Vec::new(),
            allocations: None,
            digest: Hash::default(),
        })
    }

    fn count(&mut self, block: &Decided<'_>) {
        for outcome in block.outcomes {
            match outcome {
                Outcome::Committed(_) => self.committed += 1,
                Outcome::Rejected(_) => self.rejected += 1,
                Outcome::Retry(_) => self.failed += 1,
            }
        }
        let deferred = block.deferred.len() as u64;
        self.failed -= deferred;
        self.deferred += deferred;
        self.rerun += u64::from(block.rerun);
        self.executions += block.outcomes.len() as u64;
        let in_order = block.serial_order.iter().copied().eq(0..block.outcomes.len() as Position);
        self.block_order &= in_order && deferred == 0;
    }
}

/// What a block gave, whoever ran it.
struct Decided<'a> {
    outcomes: &'a [Outcome],
    serial_order: &'a [Position],
    deferred: &'a [Position],
    rerun: u32,
}

/// Transactions on their way into blocks: those that were put off first, then new ones.
struct Feed<T> {
    new: std::vec::IntoIter<T>,
    put_off: Vec<Waiting<T>>,
    block_transactions: usize,
    blocks_left: usize,
}

pub struct Waiting<T> {
    pub what: T,
    /// In earlier blocks.
    waited: Duration,
}

impl<T> Feed<T> {
    fn new(all: Vec<T>, block_transactions: usize) -> Feed<T> {
        let blocks = all.len().div_ceil(block_transactions);
        Feed {
            new: all.into_iter(),
            put_off: Vec::new(),
            block_transactions,
            blocks_left: blocks * BLOCKS_OVER_PLAN_MAX,
        }
    }

    /// The next block; empty at the end.
    fn block(&mut self) -> Vec<Waiting<T>> {
        if self.blocks_left == 0 {
            return Vec::new();
        }
        self.blocks_left -= 1;
        let mut block = std::mem::take(&mut self.put_off);
        let room = self.block_transactions.saturating_sub(block.len());
        let new = self.new.by_ref().take(room);
        block.extend(new.map(|what| Waiting { what, waited: Duration::ZERO }));
        block
    }

    /// A block took so long: put off whom it deferred, and note how long the others took in all.
    /// Returns those that are through, so that freeing them is not on the clock.
    fn settle(
        &mut self,
        block: Vec<Waiting<T>>,
        deferred: &[Position],
        took: Duration,
        latencies_us: &mut Histogram<u64>,
    ) -> Vec<Waiting<T>> {
        let mut deferred = deferred.iter().map(|&position| position as usize).peekable();
        let mut through = Vec::with_capacity(block.len());
        for (position, mut item) in block.into_iter().enumerate() {
            item.waited += took;
            if deferred.next_if_eq(&position).is_some() {
                self.put_off.push(item);
            } else {
                latencies_us.saturating_record(item.waited.as_micros() as u64);
                through.push(item);
            }
        }
        through
    }

    /// New ones among them, if the run was cut short.
    fn undecided(&self) -> u64 {
        (self.put_off.len() + self.new.len()) as u64
    }
}

pub fn run(plan: &Plan, source: &Source, cell: &Cell, count_allocations: bool) -> Result<Run> {
    let mut bed = Bed::copy(source, cell, LogOptions::default())?;
    let mut run = Run::new()?;
    if cell.sealing {
        let inputs = bed.inputs(plan)?;
        timed(&mut run, count_allocations, |run| sealed(&mut bed, cell, inputs, run))?;
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

struct Spent {
    wall: Duration,
    cpu: Duration,
}

struct Stopwatch {
    began: Instant,
    cpu: Duration,
}

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch { cpu: cpu_time(), began: Instant::now() }
    }

    fn stop(&self) -> Spent {
        Spent { wall: self.began.elapsed(), cpu: cpu_time() - self.cpu }
    }
}

fn sealed(bed: &mut Bed, cell: &Cell, inputs: Vec<engine::Input>, run: &mut Run) -> Result<Spent> {
    let mut feed = Feed::new(inputs, cell.block_transactions);
    let mut through = Vec::new();
    // A protocol with tables of its own loads them for its first block: this empty one.
    let warm_up = bed.replica.execute(0, Vec::new())?;
    if let Some(log) = &mut bed.log {
        log.append(&warm_up.block.encode()?)?;
    }
    bed.replica.publish();
    let stopwatch = Stopwatch::start();
    loop {
        let items = feed.block();
        if items.is_empty() {
            break;
        }
        let began = Instant::now();
        let inputs = items.iter().map(|item| item.what.clone()).collect();
        let executed = bed.replica.execute(0, inputs)?;
        if let Some(log) = &mut bed.log {
            let encoded = executed.block.encode()?;
            let executed_at = Instant::now();
            log.append(&encoded)?;
            run.syncs.push(executed_at.elapsed());
        }
        bed.replica.publish();
        let deferred = &executed.deferred;
        through.push(feed.settle(items, deferred, began.elapsed(), &mut run.latencies_us));
        run.count(&Decided {
            outcomes: &executed.outcomes,
            serial_order: executed.arrivals.as_ref().unwrap_or(&executed.serial_order),
            deferred,
            rerun: executed.report.rerun,
        });
        collect(bed.replica.store(), bed.replica.head().height);
    }
    run.undecided = feed.undecided();
    Ok(stopwatch.stop())
}

fn unsealed(
    store: &Arc<Store>,
    cell: &Cell,
    works: Vec<Arc<Work>>,
    run: &mut Run,
) -> Result<Spent> {
    let protocol = protocols::by_name(&cell.protocol)?;
    run.snapshot_lag = protocol.snapshot_lag();
    let mut line = Line::new(&*protocol, store, cell.threads, run.snapshot_lag);
    let mut feed = Feed::new(works, cell.block_transactions);
    let mut through = Vec::new();
    // A protocol with tables of its own loads them for its first block: this empty one.
    let mut height = store.newest() + 1;
    let warm_up = line.prepare(Vec::new(), height)?;
    line.finish_beside(warm_up, Vec::new())?;
    let stopwatch = Stopwatch::start();
    let mut ahead = None;
    loop {
        let current = match ahead.take() {
            Some(current) => current,
            None => match feed.block() {
                items if items.is_empty() => break,
                items => line.prepare(items, height + 1)?,
            },
        };
        height += 1;
        let next = if run.snapshot_lag > 1 { feed.block() } else { Vec::new() };
        let (finished, prepared) = line.finish_beside(current, next)?;
        ahead = prepared;
        let Finished { items, outcome, took } = finished;
        through.push(feed.settle(items, &outcome.deferred, took, &mut run.latencies_us));
        run.count(&Decided {
            outcomes: &outcome.outcomes,
            serial_order: &outcome.serial_order,
            deferred: &outcome.deferred,
            rerun: outcome.report.rerun,
        });
        run.block_order &= outcome.overtakings.is_empty();
        collect(store, height);
    }
    run.undecided = feed.undecided();
    Ok(stopwatch.stop())
}

/// As the live engine does, every few blocks.
pub fn collect(store: &Store, height: u64) {
    if height.is_multiple_of(8) {
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

    const TICK: Duration = Duration::from_millis(1);

    fn histogram() -> Histogram<u64> {
        latency_histogram().unwrap()
    }

    fn names(block: &[Waiting<char>]) -> String {
        block.iter().map(|item| item.what).collect()
    }

    #[test]
    fn what_is_put_off_comes_first_in_the_next_block_and_blocks_keep_their_size() {
        let mut feed = Feed::new("abcdefg".chars().collect(), 3);
        let mut latencies = histogram();
        let mut seen = Vec::new();
        for deferred in [&[1, 2][..], &[0], &[], &[], &[]] {
            let block = feed.block();
            seen.push(names(&block));
            feed.settle(block, deferred, TICK, &mut latencies);
        }
        assert_eq!(seen, ["abc", "bcd", "bef", "g", ""]);
        assert_eq!(feed.undecided(), 0);
        // b was in three blocks, c in two, the other five in one.
        assert_eq!(latencies.len(), 7);
        assert_eq!(latencies.max() / 1000, 3);
        assert_eq!(latencies.value_at_percentile(50.0) / 1000, 1);
    }

    #[test]
    fn a_run_that_makes_no_progress_ends() {
        let mut feed = Feed::new(vec!['a', 'b'], 1);
        let mut blocks = 0;
        loop {
            let block = feed.block();
            if block.is_empty() {
                break;
            }
            blocks += 1;
            feed.settle(block, &[0], TICK, &mut histogram());
        }
        assert_eq!(blocks, 2 * BLOCKS_OVER_PLAN_MAX);
        assert_eq!(feed.undecided(), 2);
    }
}
