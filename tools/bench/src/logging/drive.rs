//! One run of the durability benchmark: the database is copied and the transactions are drawn
//! before the clock starts, then blocks run and log until all are released.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use engine::checkpoint::{Checkpointer, Service, ServiceSettings, Taken};
use engine::{BlockEvent, Executed, Observer, Request};
use kit::sync::lock;
use ledger::{Files, LogOptions, RealFiles};
use pipeline::Decision;
use recovery::schemes::Scheme as RowScheme;
use recovery::schemes::streams::Loggers;
use storage::Changes;
use tempfile::TempDir;
use types::{Height, Position};

use super::trace::{CheckpointCost, Part, SLICE, Slice, Trace};
use super::unsynced::unsynced;
use super::{Load, Scheme, Setting};
use crate::bed::{Bed, Source};
use crate::run::{collect, cpu_time};
use crate::{Cell, Plan};

/// The thread of the checkpoint service.
const CHECKPOINT_THREAD: &str = "checkpoint";

pub fn run(source: &Source, setting: &Setting) -> Result<Trace> {
    let cell = Cell {
        workload: setting.workload.clone(),
        protocol: setting.protocol.clone(),
        theta: setting.workload.has_theta().then_some(0.0),
        threads: setting.threads,
        sealing: true,
        block_transactions: setting.block_transactions_max,
        durability: (setting.scheme == Scheme::Command).then(|| setting.folder.clone()),
    };
    let options = LogOptions { sync: setting.sync, ..LogOptions::default() };
    let mut bed = Bed::copy(source, &cell, options)?;
    let plan = Plan { transactions: setting.transactions, seed: setting.seed, ..Plan::default() };
    let requests = bed.requests(&plan)?;
    let rows = RowLogger::of(setting)?;
    let checkpoints = Checkpoints::start(setting, &bed)?;
    let arrivals = Arrivals {
        new: requests.into_iter(),
        taken: 0,
        since: BTreeMap::new(),
        load: setting.load,
        block_max: setting.block_transactions_max,
    };
    let trace = Trace {
        slices: Vec::new(),
        within: Part::new()?,
        without: Part::new()?,
        checkpoint: None,
        log_bytes: 0,
    };
    let driver = Driver { setting, bed: &mut bed, rows, checkpoints, arrivals, trace };
    let trace = driver.run()?;
    bed.check()?;
    Ok(trace)
}

/// Transactions on their way into blocks.
struct Arrivals {
    new: std::vec::IntoIter<Request>,
    taken: usize,
    /// When those of a block arrived, as long as one of them may be deferred.
    since: BTreeMap<Height, Vec<Duration>>,
    load: Load,
    block_max: usize,
}

enum Next {
    Block(Vec<Request>),
    Nothing(Duration),
    End,
}

impl Arrivals {
    /// What has arrived after `elapsed`, as far as it fits into the next block with so many that
    /// were deferred.
    fn next(&mut self, elapsed: Duration, height: Height, deferred: usize) -> Next {
        let (mut requests, mut arrived) = (Vec::new(), Vec::new());
        while requests.len() + deferred < self.block_max
            && let Some((request, at)) = self.next_new(elapsed)
        {
            requests.push(request);
            arrived.push(at);
        }
        if !requests.is_empty() || deferred > 0 {
            self.since.insert(height, arrived);
            return Next::Block(requests);
        }
        match self.load {
            Load::Open(rate) if self.new.len() > 0 => {
                Next::Nothing(self.arrival(rate).saturating_sub(elapsed))
            }
            _ => Next::End,
        }
    }

    fn next_new(&mut self, elapsed: Duration) -> Option<(Request, Duration)> {
        let at = match self.load {
            Load::Saturated => elapsed,
            Load::Open(rate) => self.arrival(rate),
        };
        let request = if at <= elapsed { self.new.next() } else { None };
        self.taken += usize::from(request.is_some());
        request.map(|request| (request, at))
    }

    /// Of the next new one.
    fn arrival(&self, per_second: f64) -> Duration {
        Duration::from_secs_f64(self.taken as f64 / per_second)
    }
}

/// A row log, and which transactions it holds.
struct RowLogger {
    loggers: Loggers,
    ad_hoc_percent: u32,
    _folder: TempDir,
}

impl RowLogger {
    fn of(setting: &Setting) -> Result<Option<RowLogger>> {
        let (scheme, ad_hoc_percent) = match setting.scheme {
            Scheme::Physical => (RowScheme::Physical, 100),
            Scheme::Logical => (RowScheme::Logical, 100),
            Scheme::Command if setting.ad_hoc_percent > 0 => {
                (RowScheme::Logical, setting.ad_hoc_percent)
            }
            _ => return Ok(None),
        };
        let folder = folder(setting)?;
        let mut files: Arc<dyn Files> = Arc::new(RealFiles::open(folder.path())?);
        if !setting.sync {
            files = Arc::new(unsynced(files));
        }
        let loggers = Loggers::create(&files, scheme, setting.loggers)?;
        Ok(Some(RowLogger { loggers, ad_hoc_percent, _folder: folder }))
    }

    fn append(&mut self, changes: &Changes) -> Result<()> {
        if self.ad_hoc_percent >= 100 {
            return Ok(self.loggers.append(changes)?);
        }
        let percent = self.ad_hoc_percent;
        let is_ad_hoc = |position: Position| is_ad_hoc(u64::from(position), percent);
        Ok(self.loggers.append_those(changes, &is_ad_hoc)?)
    }
}

/// Whether the n-th transaction is one of those that are logged row by row.
pub fn is_ad_hoc(number: u64, percent: u32) -> bool {
    // A stride that is prime to 100 visits every residue.
    number * 37 % 100 < u64::from(percent)
}

fn folder(setting: &Setting) -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix("tally-bench-").tempdir_in(&setting.folder);
    made.with_context(|| format!("cannot write to {}", setting.folder.display()))
}

/// The checkpoint service, and what it said.
struct Checkpoints {
    service: Service,
    said: Arc<Said>,
    asked: bool,
    _folder: TempDir,
}

/// Hears of the checkpoint.
#[derive(Default)]
struct Said(Mutex<Option<(Taken, Duration)>>);

impl Observer for Said {
    fn block(&self, _: &BlockEvent) {}
    fn answered(&self, _: Duration) {}
    fn checkpoint(&self, taken: &Taken, took: Duration) {
        *lock(&self.0) = Some((taken.clone(), took));
    }
}

impl Checkpoints {
    fn start(setting: &Setting, bed: &Bed) -> Result<Option<Checkpoints>> {
        let Some(cpu_percent_max) = setting.checkpoint_cpu_percent_max else {
            return Ok(None);
        };
        let folder = folder(setting)?;
        let files: Arc<dyn Files> = Arc::new(RealFiles::open(folder.path())?);
        let checkpointer = Checkpointer::new(files, 1, None, &[]);
        let (interval_blocks, interval_bytes, undo_bytes_max) = (0, 0, 0);
        let settings =
            ServiceSettings { interval_blocks, interval_bytes, cpu_percent_max, undo_bytes_max };
        let said = Arc::new(Said::default());
        let (store, language) = (Arc::clone(bed.replica.store()), bed.replica.language());
        let observer = Arc::clone(&said);
        let service =
            Service::start(checkpointer, settings, store, Arc::clone(language), observer, None)?;
        Ok(Some(Checkpoints { service, said, asked: false, _folder: folder }))
    }

    /// After a block that was published.
    fn block(&mut self, bed: &Bed, ask: bool) -> Result<()> {
        if ask && !self.asked {
            self.asked = true;
            drop(self.service.request()?);
        }
        if self.service.is_wanted() {
            self.service.leave(bed.replica.boundary(), 0);
        }
        Ok(())
    }

    fn finish(self) -> Option<CheckpointCost> {
        let cpu = thread_cpu(CHECKPOINT_THREAD);
        self.service.stop();
        let said = lock(&self.said.0).take();
        said.map(|(taken, took)| CheckpointCost { taken, took, cpu })
    }
}

/// Processor time of the thread of that name, as the kernel counts it.
fn thread_cpu(name: &str) -> Option<Duration> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let of_name = tasks.flatten().map(|task| task.path()).find(|task| {
        fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    })?;
    let spent = fs::read_to_string(of_name.join("schedstat")).ok()?;
    spent.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Whether a quarter of the run is over.
fn is_warm(taken: usize, setting: &Setting) -> bool {
    taken * 4 >= setting.transactions
}

struct Driver<'a> {
    setting: &'a Setting,
    bed: &'a mut Bed,
    rows: Option<RowLogger>,
    checkpoints: Option<Checkpoints>,
    arrivals: Arrivals,
    trace: Trace,
}

impl Driver<'_> {
    fn run(mut self) -> Result<Trace> {
        let start = Instant::now();
        let (mut wall, mut cpu) = (Duration::ZERO, cpu_time());
        loop {
            let replica = &self.bed.replica;
            let (height, deferred) = (replica.head().height + 1, replica.deferred_to_next());
            let requests = match self.arrivals.next(start.elapsed(), height, deferred) {
                Next::Block(requests) => requests,
                Next::Nothing(wait) => {
                    std::thread::sleep(wait);
                    continue;
                }
                Next::End => break,
            };
            let executed = self.bed.replica.execute(0, requests)?;
            self.log(&executed)?;
            self.bed.replica.publish();
            self.record(&executed)?;
            let was_writing = self.is_writing();
            let ask = is_warm(self.arrivals.taken, self.setting);
            if let Some(checkpoints) = &mut self.checkpoints {
                checkpoints.block(self.bed, ask)?;
            }
            let (now, cpu_now) = (start.elapsed(), cpu_time());
            let writing = was_writing || self.is_writing();
            self.count(&executed, now, (now - wall, cpu_now - cpu), writing);
            drop(executed);
            (wall, cpu) = (now, cpu_now);
            collect(self.bed.replica.store(), self.bed.replica.head().height);
        }
        if let Some(rows) = &self.rows {
            self.trace.log_bytes += rows.loggers.bytes();
        }
        self.trace.checkpoint = self.checkpoints.and_then(Checkpoints::finish);
        Ok(self.trace)
    }

    /// Returns when the block may be released.
    fn log(&mut self, executed: &Executed) -> Result<()> {
        if let Some(log) = &mut self.bed.log {
            self.trace.log_bytes += log.append_order(executed)?;
        }
        match (&mut self.rows, executed.effects.only_rows()) {
            (Some(rows), Some(changes)) => rows.append(changes),
            (Some(_), None) => bail!("a schema change among the calls"),
            (None, _) => Ok(()),
        }
    }

    fn record(&mut self, executed: &Executed) -> Result<()> {
        if let Some(log) = &mut self.bed.log {
            self.trace.log_bytes += log.append_result(executed)?;
        }
        Ok(())
    }

    fn is_writing(&self) -> bool {
        self.checkpoints.as_ref().is_some_and(|c| c.service.standing().in_progress)
    }

    fn count(
        &mut self,
        executed: &Executed,
        now: Duration,
        (wall, cpu): (Duration, Duration),
        writing: bool,
    ) {
        let at = (now.as_nanos() / SLICE.as_nanos()) as usize;
        if self.trace.slices.len() <= at {
            self.trace.slices.resize(at + 1, Slice::default());
        }
        let slice = &mut self.trace.slices[at];
        let part = if writing { &mut self.trace.within } else { &mut self.trace.without };
        slice.checkpoint |= writing;
        part.wall += wall;
        part.cpu += cpu;
        part.blocks += 1;
        // The first blocks meet cold caches, with a checkpoint or without.
        let is_warm = is_warm(self.arrivals.taken, self.setting);
        let decision =
            executed.decided.iter().filter(|one| matches!(one.decision, Decision::Now(_)));
        for one in decision {
            let index = one.origin.index as usize;
            let arrival = executed.arrivals.as_ref().map_or(index, |order| order[index] as usize);
            let since = self.arrivals.since[&one.origin.height][arrival];
            let latency_us = (now.saturating_sub(since)).as_micros() as u64;
            if is_warm {
                part.latencies_us.saturating_record(latency_us);
            }
            slice.released += 1;
            slice.latency_us_sum += latency_us;
            slice.latency_us_max = slice.latency_us_max.max(latency_us);
            let committed = u64::from(one.outcome.is_committed());
            slice.committed += committed;
            part.committed += committed;
        }
        if !self.bed.replica.has_deferred() {
            self.arrivals.since.clear();
        }
    }
}
