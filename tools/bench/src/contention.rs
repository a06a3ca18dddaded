//! Online protocols under contention: one run, what it committed, and what it spent on what.
//!
//! Two cores show little contention by themselves, so each worker can have many transactions under
//! way at once ([`interleaved`](concurrency::Options::interleaved)): each commits when as many
//! others have run, and half of them committed, after it; one that meets a conflict begins again
//! beside them. That is what as many cores would do to it, without what as many cores would do to
//! their caches.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use concurrency::{Span, Watch, Work, WorkerPool};
use kit::sync::lock;
use ledger::LogOptions;
use pipeline::{Batch, Halves};

use crate::bed::{Bed, Source};
use crate::named;
use crate::run::{cpu_time, halted, stepper};
use crate::{Plan, Workload};

/// What is run.
#[derive(Clone, Debug)]
pub struct Scene {
    pub workload: Workload,
    pub theta: Option<f64>,
    pub transactions: usize,
    pub threads: usize,
    /// Of 100 transactions, those that are run as interactive ones would be.
    pub ad_hoc_percent: u64,
}

/// Who runs it.
#[derive(Clone, PartialEq, Debug)]
pub struct Contender {
    /// With its options.
    pub protocol: String,
    pub validates: bool,
    /// Transactions that each worker has under way at once.
    pub interleaved: usize,
}

impl Contender {
    pub fn named(protocol: &str) -> Contender {
        Contender { protocol: protocol.to_owned(), validates: true, interleaved: 1 }
    }

    pub fn unvalidated(protocol: &str) -> Contender {
        Contender { validates: false, ..Contender::named(protocol) }
    }

    pub fn interleaving(&self, transactions: usize) -> Contender {
        // One runs one transaction after the other by its nature.
        let interleaved = if self.protocol == "partitioned" { 1 } else { transactions };
        Contender { interleaved, ..self.clone() }
    }

    /// As the thesis calls it.
    pub fn name(&self) -> String {
        let name = self.protocol.split(':').next().unwrap_or_default();
        let name = match name {
            "partitioned" => "DT".to_owned(),
            other => other.to_uppercase(),
        };
        if self.validates { name } else { format!("{name}-") }
    }
}

/// What came out.
#[derive(Clone, Default, Debug)]
pub struct Trace {
    pub wall: Duration,
    pub cpu: Duration,
    pub committed: u64,
    /// Attempts that came to nothing.
    pub restarts: u64,
    pub healed: u64,
    pub healed_whole: u64,
    pub relocked: u64,
    /// With the procedure, if spans were asked for.
    pub spans: Vec<(String, Span)>,
}

impl Trace {
    pub fn per_cpu_second(&self) -> f64 {
        self.committed as f64 / self.cpu.as_secs_f64()
    }

    /// As the thesis counts: it may exceed one.
    pub fn abort_rate(&self) -> f64 {
        self.restarts as f64 / self.committed as f64
    }

    pub fn lost_share(&self) -> f64 {
        let sum = |of: fn(&Span) -> u64| self.spans.iter().map(|(_, span)| of(span)).sum::<u64>();
        sum(|span| span.lost_ns) as f64 / sum(|span| span.spent_ns).max(1) as f64
    }
}

/// So many that beginning and ending a block is no part of the picture.
const BLOCK_TRANSACTIONS: usize = 5_000;

fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// One run on a fresh copy of the source.
pub fn run(source: &Source, scene: &Scene, who: &Contender, spans: bool) -> Result<Trace> {
    let plan = Plan {
        workloads: vec![scene.workload.clone()],
        thetas: vec![scene.theta.unwrap_or_default()],
        transactions: scene.transactions,
        ..Plan::default()
    };
    let cell = plan.cells().into_iter().next().ok_or_else(|| anyhow!("nothing to run"))?;
    let bed = Bed::copy(source, &cell, LogOptions::default())?;
    let mut works = bed.works(&plan)?;
    make_ad_hoc(&mut works, scene.ad_hoc_percent);
    let watch = Watch { now_ns, spans: Mutex::default() };
    let watch = spans.then(|| Arc::new(watch));
    let protocol = named::measured(&who.protocol, who.validates, who.interleaved, watch.clone())?;
    let first = bed.replica.store().newest() + 1;
    let pool = WorkerPool::new(scene.threads);
    let mut stepper = stepper(bed.replica.store(), protocol)?;
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut trace = Trace::default();
    for transactions in works.chunks(BLOCK_TRANSACTIONS) {
        let tasks = transactions.to_vec();
        stepper.order(Batch { time_us: 0, tasks }).map_err(halted)?;
        let Some(finished) = stepper.release(&pool, Halves::FinishFirst).map_err(halted)? else {
            break;
        };
        let committed = finished.decided.iter().filter(|one| one.outcome.is_committed());
        trace.committed += committed.count() as u64;
        trace.restarts += u64::from(finished.report.executed_again.0);
        trace.healed += u64::from(finished.report.healed.0);
        trace.healed_whole += u64::from(finished.report.healed_whole.0);
        trace.relocked += u64::from(finished.report.relocked.0);
    }
    (trace.wall, trace.cpu) = (began.elapsed(), cpu_time() - cpu);
    if who.validates {
        bed.check()?;
    }
    if let Some(watch) = watch {
        let spans = std::mem::take(&mut *lock(&watch.spans));
        let procedure = |span: &Span| {
            let block = (span.height - first) as usize * BLOCK_TRANSACTIONS;
            match works.get(block + span.arrival as usize).map(|work| &**work) {
                Some(Work::Statement(statement)) => statement.procedure.name.clone(),
                _ => "ad hoc".to_owned(),
            }
        };
        trace.spans = spans.into_iter().map(|span| (procedure(&span), span)).collect();
    }
    Ok(trace)
}

/// Some transactions come as the COMMIT of an interactive one that was shown nothing that must
/// hold.
fn make_ad_hoc(works: &mut [Arc<Work>], percent: u64) {
    for (at, work) in (0..).zip(works) {
        // Spread over the percents, whatever the workload's own rhythm is.
        if at * 37 % 100 < percent
            && let Work::Statement(statement) = &**work
        {
            let (procedure, row) = (Arc::clone(&statement.procedure), &statement.arguments);
            *work = Arc::new(Work::Load(concurrency::Load::new(procedure, vec![row.clone()])));
        }
    }
}
