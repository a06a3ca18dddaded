//! What a log costs: bytes by scheme, and seconds by strategy and workers.
//!
//! `recovery_cost WORKLOAD [TRANSACTIONS [SETTING=NUMBER …]]`; `batch=NUMBER` is not the
//! workload's, and sets the transactions of a batch. The log is made by the serial
//! protocol, whose own rate is the first line.

use std::sync::Arc;
use std::time::{Duration, Instant};

use concurrency::WorkerPool;
use engine::{Body, Numbering};
use ledger::{Files, MemoryFiles};
use recovery::measure::{self, Run, Volume};
use recovery::replay::Task;
use recovery::schemes::Scheme;
use recovery::schemes::streams::{Loggers, RowLog};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "../tests/it/bed/mod.rs"]
mod bed;

use bed::Bed;

const BLOCK: usize = 500;
const WORKERS: [usize; 2] = [1, 2];

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "tpcc".into());
    let transactions = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let settings: Vec<String> = arguments.collect();
    let settings: Vec<(&str, u64)> = settings
        .iter()
        .filter_map(|setting| setting.split_once('='))
        .filter_map(|(name, number)| Some((name, number.parse().ok()?)))
        .collect();
    let (batch, settings): (Vec<_>, Vec<_>) =
        settings.into_iter().partition(|(name, _)| *name == "batch");
    let bed = Bed::new(&name, &settings);
    let source = Bed::new(&name, &settings);
    let files: [Arc<dyn Files>; 2] = [(); 2].map(|()| Arc::new(MemoryFiles::new()) as _);
    let mut volume = Volume::default();
    let log: Arc<[_]> = {
        let create = |at: usize| Loggers::create(&files[at], Scheme::ALL[at], 2);
        let mut loggers = [create(0), create(1)].map(|made| made.expect("files in memory"));
        let blocks = bed.run_and_show(transactions / BLOCK, BLOCK, &mut |changes| {
            volume.add(changes).expect("rows have images");
            loggers.iter_mut().for_each(|l| l.append(changes).expect("files in memory"));
        });
        blocks.into()
    };
    let start = Instant::now();
    let protocol = protocols::by_name("serial").map_err(|error| error.to_string())?;
    let calls = source.works(transactions);
    let drawn = start.elapsed();
    source.run_works(&protocol, &WorkerPool::new(1), calls, BLOCK);
    let rate = transactions as f64 / (start.elapsed() - drawn).as_secs_f64();
    println!("{name}, {transactions} transactions; the run itself, serially: {rate:.0}/s");
    let command = command_bytes(&bed, transactions);
    let Volume { logical_bytes, physical_bytes, rows } = volume;
    println!(
        "bytes: command {command}, logical {logical_bytes}, physical {physical_bytes}; {rows} rows"
    );
    let mut before = || Ok(Arc::clone(Bed::new(&name, &settings).store()));
    let mut task = Task::new(log);
    if let Some((_, transactions)) = batch.first() {
        task.batch_transactions = *transactions as usize;
    }
    for run in measure::replays(&task, &mut before, &WORKERS)? {
        print(&run, transactions);
    }
    for (files, scheme) in files.iter().zip(Scheme::ALL) {
        let log = RowLog::read(files, scheme).map_err(|error| error.to_string())?;
        for run in measure::recoveries(&Arc::new(log), &mut before, &WORKERS)? {
            print!("{:9}", scheme.name());
            print(&run, transactions);
        }
    }
    Ok(())
}

/// Envelopes as the ledger's orders hold them.
fn command_bytes(bed: &Bed, transactions: usize) -> usize {
    let names = bed.workload.procedures();
    let mut numbering = Numbering::new(bed.replica.ledger_id());
    let encoded = bed.workload.calls(bed::SEED).take(transactions).map(|call| {
        let procedure = names[call.procedure].to_owned();
        let body = Body::call(procedure, call.arguments);
        numbering.request::<()>("tally", 0, &body).expect("a call fits").envelope.len()
    });
    encoded.sum()
}

fn print(run: &Run, transactions: usize) {
    let Run { strategy, workers, cost } = run;
    let rate = transactions as f64 / cost.replayed.as_secs_f64();
    let all = cost.spent.total().as_secs_f64();
    let share = |part: Duration| 100.0 * part.as_secs_f64() / all;
    println!(
        "{strategy:12} {workers}  {:7.1} ms {rate:9.0}/s  static {:.1} ms; of {all:.3} s: loading \
         {:.0} %, key spaces {:.0} %, scheduling {:.0} %, execution {:.0} %",
        cost.replayed.as_secs_f64() * 1e3,
        cost.prepared.as_secs_f64() * 1e3,
        share(cost.spent.loading),
        share(cost.spent.analysis),
        share(cost.spent.scheduling),
        share(cost.spent.execution),
    );
}
