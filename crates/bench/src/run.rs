//! One run of one cell: load, draw, then the clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use concurrency::{Block, Crew, Outcome};
use engine::Input;
use ledger::Hash;
use rustix::time::{ClockId, clock_gettime};
use storage::Store;

use crate::bed::Bed;
use crate::{Cell, Plan};

/// What one run gave.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub wall: Duration,
    pub cpu: Duration,
    pub committed: u64,
    /// Ended in a deterministic error.
    pub rejected: u64,
    /// Turned away by the protocol at first.
    pub rerun: u64,
    /// By the program's allocator, where it counts them.
    pub allocations: Option<u64>,
    /// Of each block: from its inputs to its results.
    pub latencies: Vec<Duration>,
    /// Of each block: waiting for the disk. Empty without durability.
    pub syncs: Vec<Duration>,
    pub digest: Hash,
}

impl Run {
    fn count(&mut self, outcomes: &[Outcome], rerun: u32) {
        for outcome in outcomes {
            match outcome {
                Outcome::Committed(_) => self.committed += 1,
                Outcome::Rejected(_) | Outcome::Retry(_) => self.rejected += 1,
            }
        }
        self.rerun += u64::from(rerun);
    }
}

pub fn run(plan: &Plan, cell: &Cell) -> Result<Run> {
    let mut bed = Bed::load(plan, cell)?;
    let blocks = bed.blocks(plan)?;
    let mut run = Run::default();
    let allocated = plan.allocations.map(|count| count());
    let (began, cpu) = (Instant::now(), cpu_time());
    if cell.sealing {
        sealed(&mut bed, blocks, &mut run)?;
    } else {
        unsealed(bed.replica.store(), cell, blocks, &mut run)?;
    }
    run.wall = began.elapsed();
    run.cpu = cpu_time() - cpu;
    run.allocations = plan.allocations.zip(allocated).map(|(count, before)| count() - before);
    bed.check()?;
    run.digest = bed.digest()?;
    Ok(run)
}

fn sealed(bed: &mut Bed, blocks: Vec<Vec<Input>>, run: &mut Run) -> Result<()> {
    for inputs in blocks {
        let began = Instant::now();
        let executed = bed.replica.execute(0, inputs)?;
        if let Some(log) = &mut bed.log {
            let encoded = executed.block.encode()?;
            let executed_at = Instant::now();
            log.append(&encoded)?;
            run.syncs.push(executed_at.elapsed());
        }
        bed.replica.publish();
        run.latencies.push(began.elapsed());
        run.count(&executed.outcomes, executed.report.rerun);
        collect(bed.replica.store(), bed.replica.head().height);
    }
    Ok(())
}

fn unsealed(store: &Arc<Store>, cell: &Cell, blocks: Vec<Vec<Input>>, run: &mut Run) -> Result<()> {
    let protocol = protocols::by_name(&cell.protocol).map_err(|e| anyhow!("{}", e.message()))?;
    let crew = Crew::new(cell.threads);
    for (height, inputs) in (store.newest() + 1..).zip(blocks) {
        let began = Instant::now();
        let programs = inputs.into_iter().filter_map(|input| input.compiled);
        let block = Arc::new(Block {
            height,
            time_us: 0,
            transactions: programs.map(|compiled| compiled.work).collect(),
        });
        let mut writes = store.begin_block(height, crew.workers());
        let halted = |why: String| anyhow!("block {height}: {why}");
        let prepared = protocol.prepare(&block, store, height - 1, &crew).map_err(halted)?;
        let outcome =
            protocol.finish(prepared, &block, store, &mut writes, &crew).map_err(halted)?;
        store.finish_unread(writes);
        store.publish(height);
        run.latencies.push(began.elapsed());
        run.count(&outcome.outcomes, outcome.report.rerun);
        collect(store, height);
    }
    Ok(())
}

/// As the live engine does, every few blocks.
fn collect(store: &Store, height: u64) {
    if height.is_multiple_of(8) {
        store.collect(store.horizon());
    }
}

/// CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}
