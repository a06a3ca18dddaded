//! Block-STM (Gelashvili et al., PPoPP 2023): the block order is the serial order, and every
//! transaction runs ahead of it.
//!
//! *Idea.* Software transactional memory for a block whose order is fixed. Every transaction is
//! executed as soon as a worker is free, reads the newest writes of those before it that are there,
//! and is validated afterwards: would it read the same again? If not, its writes become
//! *estimates*, and its next incarnation runs. An execution that meets an estimate waits for its
//! transaction instead of reading what will probably be replaced.
//!
//! *Timeline.*
//!
//! ```text
//!   worker 0   execute T0   validate T0   execute T2 ✗ meets an estimate of T1, waits
//!   worker 1   execute T1   validate T1 ✗ execute T1 again   validate T1   execute T2 …
//!                                                                          block's end: install
//! ```
//!
//! - [`scheduler`]: who executes or validates what next, lower transactions first;
//! - [`memory`]: the versions that the block's transactions wrote;
//! - [`state`], [`scan`]: what one execution finds there and in the state before the block;
//! - [`in_order`]: the versions' records for those who scan ranges.
//!
//! *Invariants.* At the end every transaction's last incarnation has read what the transactions
//! before it wrote and nothing else. So the outcome is the serial one whatever the number of
//! workers and whatever their luck, no transaction ever fails for concurrency, and the claimed
//! order is the block order. Errors are outcomes; what led to them is validated like anything else.
//! Nothing is installed before all is validated: then each record's last version is, once.
//!
//! *Departures from the paper.*
//! - Versions are patches of columns where a transaction does not look at the row that it updates,
//!   so blind writes are no reads. A command that looks (`n = n + 1`) reads the columns it looks
//!   at, as in the paper.
//! - Whether a row is there is read and validated as such: updates of a row do not conflict with
//!   those who only found it. Since an answer can change without a new version (an update becomes
//!   a deletion), an incarnation that writes in other places *or of another kind* than the last
//!   makes its successors be validated again.
//! - Ranges are validated by reading them again, inserts and deletes included.
//! - A block whose scans would look at too many of its records is given up, and run one transaction
//!   after another; in the paper there are no ranges.
//! - Idle workers sleep; in the paper they poll.
//!
//! *Known limits.* An incarnation may see a state that never was, which validation finds out; what
//! it does until then is bounded by the meter of its run.
//!
//! *Cost.* A read of a row that the block does not write costs a look at one word more than without
//! versions, and the same again for its validation; a write costs a record of some hundred bytes.
//! YCSB (half reads, half blind writes), transactions per CPU-second on two workers: 45 % of what
//! serial execution does at theta 0, 33 % at 0.99. The largest parts are the rows' cache misses,
//! twice: at execution and, since nothing is installed before, at the end.

mod in_order;
mod memory;
mod mutant;
mod scan;
mod scheduler;
#[cfg(test)]
mod schedules;
mod state;

use std::sync::{Arc, Mutex};

use concurrency::arenas::Arenas;
use concurrency::guarded::Guarded;
use concurrency::install::{Resolved, resolve};
use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, ExecutionPath, Isolation, Moment, NoRecord, Options,
    Outcome, Overlay, PendingWrite, Prefetching, Prepared, Protocol, ProtocolInfo, RecordId,
    Snapshots, WorkerPool, WriteState, ordered_locks,
};
use procedure::{Frame, Meter, ProgramResult};
use smallvec::SmallVec;
use storage::{BlockWrites, Catalog, LATEST, Store, UndoArena};
use types::{Position, Stamp, Stop, Value};

use memory::{Change, Memory, Place, Record, Room, lock};
use mutant::Mutant;
use scheduler::{Scheduler, Task, Version};
use state::{ReadLog, Speculation, take_changes};

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| Arc::new(BlockStm::new(options)),
    mutants: Mutant::NAMES,
};

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "block_stm",
    paper: "Gelashvili et al.: Block-STM: Scaling Blockchain Execution by Turning Ordering Curse \
            to a Performance Blessing, PPoPP 2023",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: false,
    options: &[],
};

pub struct BlockStm {
    room: Mutex<Room>,
    /// Executes a block backwards at first, which makes every conflict an abort.
    backwards: bool,
    mutant: Option<Mutant>,
}

impl BlockStm {
    fn new(options: &Options) -> BlockStm {
        BlockStm {
            room: Mutex::default(),
            backwards: options.eager,
            mutant: options.mutant.and_then(Mutant::by_name),
        }
    }
}

impl Protocol for BlockStm {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn keeps_block_order(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        _: &Arc<Block>,
        _: &Arc<Store>,
        _: Snapshots,
        _: &WorkerPool,
    ) -> Result<Prepared, String> {
        Ok(Box::new(()))
    }

    fn finish(
        &self,
        _: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        _: &Carried,
        pool: &WorkerPool,
    ) -> Result<BlockOutcome, String> {
        let count = block.transactions.len();
        let room = std::mem::take(&mut *lock(&self.room));
        let run = Arc::new(BlockRun {
            block: Arc::clone(block),
            memory: Memory::new(store.catalog(), block.height, count, room),
            scheduler: Scheduler::new(count),
            executions: (0..count).map(|_| Mutex::default()).collect(),
            workers: pool.workers(),
            backwards: self.backwards,
            mutant: self.mutant,
            halt: Mutex::new(None),
        });
        let job = Arc::clone(&run);
        pool.run_if_large(count, move |_| job.work());
        let mut run = Arc::into_inner(run).expect("the pool has let go of a finished job");
        if let Some(why) = lock(&run.halt).take() {
            return Err(why);
        }
        if run.memory.looks.are_spent() {
            *lock(&self.room) = run.memory.into_room();
            return one_by_one(block, store, writes);
        }
        let mut outcomes = Vec::with_capacity(count);
        let mut report = BlockReport::default();
        for execution in std::mem::take(&mut run.executions) {
            let execution = execution.into_inner().unwrap_or_else(|e| e.into_inner());
            let result = execution.result.ok_or("a transaction was never executed")?;
            outcomes.push(Outcome::from_run(result)?);
            report.executed_again.0 += u32::from(execution.incarnation > 0);
        }
        let memory = Arc::new(run.memory);
        install(&memory, block, writes, pool)?;
        let memory = Arc::into_inner(memory).expect("the pool has let go of a finished job");
        *lock(&self.room) = memory.into_room();
        let serial_order = (0..count as Position).collect();
        Ok(BlockOutcome { outcomes, serial_order, report, ..BlockOutcome::default() })
    }
}

/// Nothing of the block is installed yet, so all of it may run again.
fn one_by_one(
    block: &Block,
    store: &Store,
    writes: &mut BlockWrites,
) -> Result<BlockOutcome, String> {
    let serial_order: Vec<Position> = (0..block.transactions.len() as Position).collect();
    let mut report = BlockReport::default();
    let why = (ExecutionPath::SerialScans, &mut report.paths);
    let outcomes = ordered_locks::one_by_one(block, &serial_order, &store.catalog(), writes, why)?;
    Ok(BlockOutcome { outcomes, serial_order, report, ..BlockOutcome::default() })
}

/// The last execution of a transaction.
#[derive(Default)]
struct Execution {
    incarnation: u32,
    result: Option<Result<ProgramResult, Stop>>,
    reads: Arc<ReadLog>,
    written: Vec<Place>,
}

/// What the workers share.
struct BlockRun {
    block: Arc<Block>,
    memory: Memory,
    scheduler: Scheduler,
    executions: Vec<Mutex<Execution>>,
    workers: usize,
    backwards: bool,
    mutant: Option<Mutant>,
    halt: Mutex<Option<String>>,
}

/// A transaction's own writes over what it finds.
type View<'m> = Overlay<NoRecord, Speculation<'m>>;

/// The result of an execution that met an estimate will not be seen.
fn end_if_blocked(view: &mut View<'_>) -> Result<(), Stop> {
    match view.below_mut().blocked_on() {
        Some(_) => Err(Stop::Halt(String::new())),
        None => Ok(()),
    }
}

/// No worker may wait for one that panicked.
struct GiveUpOnPanic<'a>(&'a Scheduler);

impl Drop for GiveUpOnPanic<'_> {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl BlockRun {
    fn work(&self) {
        let guard = GiveUpOnPanic(&self.scheduler);
        let nowhere = Moment { height: 0, position: 0, now_us: 0 };
        let catalog = Arc::clone(self.memory.catalog());
        let mut view = Overlay::over(catalog, Speculation::new(&self.memory), nowhere, NoRecord);
        let mut frame = Frame::metered(Meter::of(self.block.budget));
        let mut prefetching =
            Prefetching::new(Arc::clone(self.memory.catalog()), self.block.transactions.len());
        if self.backwards {
            for transaction in (0..self.block.transactions.len()).rev() {
                let version = self.scheduler.claim(transaction);
                let mut task = version.map(Task::Execute);
                while let Some(next) = task {
                    task = self.perform(next, &mut view, &mut frame);
                }
            }
        }
        let mut task = None;
        while let Some(next) = task.take().or_else(|| self.scheduler.next_task()) {
            if let Task::Execute(version) = next {
                self.look_ahead(version, &mut prefetching);
            }
            task = self.perform(next, &mut view, &mut frame);
        }
        std::mem::forget(guard);
    }

    fn perform(&self, task: Task, view: &mut View<'_>, frame: &mut Frame) -> Option<Task> {
        let next = match task {
            Task::Execute(version) => self.execute(version, view, frame),
            Task::Validate(version) => self.validate(version),
        };
        if self.memory.looks.are_spent() {
            // Whatever was executed or validated since is of no account.
            self.scheduler.give_up();
            return None;
        }
        next
    }

    /// Fetch what this worker will probably look at next.
    fn look_ahead(&self, version: Version, prefetching: &mut Prefetching) {
        let next = version.transaction as usize + self.workers;
        if version.incarnation == 0 && next < self.block.transactions.len() {
            prefetching.fetch(Some(&*self.block.transactions[next]));
        }
    }

    fn execute(&self, version: Version, view: &mut View<'_>, frame: &mut Frame) -> Option<Task> {
        let position = version.transaction;
        let work = &self.block.transactions[position as usize];
        let now_us = work.now_us(self.block.time_us);
        loop {
            view.restart(Moment { height: self.block.height, position, now_us });
            view.below_mut().restart(position);
            let run = work.run(frame, &mut Guarded::new(view, end_if_blocked));
            let run = run.and_then(|result| Ok((result, take_changes(view, now_us)?)));
            if let Some(blocking) = view.below_mut().blocked_on() {
                if self.scheduler.wait_for(position, blocking) {
                    return None;
                }
                continue;
            }
            let (result, changes) = match run {
                Ok((result, changes)) => (Ok(result), changes),
                Err(stop) => (Err(stop), Vec::new()),
            };
            let mut execution = lock(&self.executions[position as usize]);
            let written = changes.iter().map(|write| write.place.clone()).collect();
            let moved = self.memory.write(version, &execution.written, changes, self.mutant);
            let reads = Arc::new(view.below_mut().take_log());
            let incarnation = version.incarnation;
            *execution = Execution { incarnation, result: Some(result), reads, written };
            drop(execution);
            match moved {
                Ok(moved) => {
                    let moved = moved && self.mutant != Some(Mutant::NoRevalidation);
                    return self.scheduler.executed(version, moved);
                }
                Err(why) => {
                    lock(&self.halt).get_or_insert(why);
                    self.scheduler.give_up();
                    return None;
                }
            }
        }
    }

    fn validate(&self, version: Version) -> Option<Task> {
        let execution = &self.executions[version.transaction as usize];
        let (reads, is_error) = {
            let execution = lock(execution);
            (Arc::clone(&execution.reads), matches!(execution.result, Some(Err(_))))
        };
        let unchecked = is_error && self.mutant == Some(Mutant::NoErrorValidation);
        let valid = unchecked || reads.holds(&self.memory, version.transaction, self.mutant);
        let aborted = !valid && self.scheduler.try_abort(version);
        if aborted {
            self.memory.expect_again(version.transaction, &lock(execution).written);
        }
        self.scheduler.validated(version, aborted)
    }
}

/// Records that are worth a wake-up of the pool.
const RECORDS_MIN: u32 = 512;

/// Install each record's last version. Workers take records by their numbers, so each record has
/// one.
fn install(
    memory: &Arc<Memory>,
    block: &Arc<Block>,
    writes: &mut BlockWrites,
    pool: &WorkerPool,
) -> Result<(), String> {
    let workers = if memory.count() < RECORDS_MIN { 1 } else { pool.workers() as u32 };
    let halt: Arc<Mutex<Option<String>>> = Arc::default();
    let arenas = Arenas::of(writes);
    let job = {
        let (arenas, halt) = (Arc::clone(&arenas), Arc::clone(&halt));
        let (memory, block) = (Arc::clone(memory), Arc::clone(block));
        move |worker: usize| {
            let (count, worker) = (memory.count(), worker as u32);
            let share =
                |worker: u32| (u64::from(count) * u64::from(worker) / u64::from(workers)) as u32;
            let mut undo = arenas.lock(worker as usize);
            let mut scratch = Vec::new();
            for record in memory.records_in(share(worker)..share(worker + 1)) {
                let done =
                    install_record(record, memory.catalog(), &block, &mut undo, &mut scratch);
                if let Err(stop) = done {
                    lock(&halt).get_or_insert(format!("a validated write failed: {stop:?}"));
                }
            }
        }
    };
    if workers == 1 {
        job(0);
        drop(job);
    } else {
        pool.run(job);
    }
    arenas.give_back(writes);
    let halt = lock(&halt).take();
    halt.map_or(Ok(()), Err)
}

/// What a block makes of a record.
enum Final {
    Patch(concurrency::install::Patch),
    State(WriteState),
}

fn install_record(
    record: &Record,
    catalog: &Catalog,
    block: &Block,
    undo: &mut UndoArena,
    scratch: &mut Vec<Value>,
) -> Result<(), Stop> {
    let mut last = None;
    let mut state = Final::Patch(SmallVec::new());
    for (transaction, change) in record.take_changes() {
        last = Some(transaction);
        state = match (state, change) {
            (_, Change::Whole(row)) => Final::State(WriteState::Put(row)),
            (_, Change::Delete) => Final::State(WriteState::Delete),
            (Final::Patch(mut columns), Change::Patch(_, patch)) => {
                for (column, value) in patch {
                    match columns.iter_mut().find(|(patched, _)| *patched == column) {
                        Some(place) => place.1 = value,
                        None => columns.push((column, value)),
                    }
                }
                Final::Patch(columns)
            }
            (Final::State(WriteState::Put(mut row)), Change::Patch(_, patch)) => {
                patch.into_iter().for_each(|(column, value)| row[usize::from(column)] = value);
                Final::State(WriteState::Put(row))
            }
            (Final::State(_), Change::Patch(..)) => {
                return Err(Stop::Halt("an update met a deleted row".into()));
            }
        };
    }
    // Every incarnation that wrote here was followed by one that did not.
    let Some(last) = last else {
        return Ok(());
    };
    let table = catalog.table(record.table).ok_or_else(gone)?;
    let slot = record.slot.filter(|&slot| table.stamp(slot, LATEST).is_some());
    let resolved = match (state, slot) {
        (Final::Patch(columns), Some(slot)) => Resolved::Patch(slot, columns),
        (Final::Patch(_), None) => return Err(Stop::Halt("an update met no row".into())),
        (Final::State(state), slot) => {
            let Record { table: id, key, .. } = record;
            let write = PendingWrite {
                table: *id,
                record: RecordId::of(slot, key),
                slot,
                key: key.clone(),
                existed: slot.is_some(),
                state,
            };
            resolve(table, &write, block.time_us, scratch)?
        }
    };
    resolved.install(table, &record.key, Stamp::new(block.height, last), undo);
    Ok(())
}

fn gone() -> Stop {
    Stop::Halt("a table vanished within a block".into())
}
