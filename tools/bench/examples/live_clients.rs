//! Clients of a live engine, each of which waits for its answer before it asks again. Arguments,
//! all of them optional: workload, protocol, clients, seconds, workers, folder (or `memory`).
//!
//! `cargo run --release -p bench --example live_clients -- smallbank:rows=100000 silo 8 5 2 /tmp`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::transaction::Asked;
use engine::{
    BlockLimits, Body, Compiled, EXECUTOR, Engine, Language, NoObserver, Replica, Submitter,
    Transaction,
};
use hdrhistogram::Histogram;
use ledger::{BlockWriter, Files, Genesis, LogOptions, MemoryFiles, Parameters, RealFiles};
use mimalloc::MiMalloc;
use sql::session::schema::Schema;
use storage::Store;
use workloads::{Settings, Workload};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const TALLY: Submitter<'_> = Submitter { principal: "tally", role: None, key: None, seed: [0; 16] };

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize, default: &str| arguments.get(at).map_or(default, |a| a).to_owned();
    let (name, protocol) = (text(0, "smallbank"), text(1, "silo"));
    let clients: usize = text(2, "8").parse()?;
    let seconds: u64 = text(3, "5").parse()?;
    let workers: usize = text(4, "2").parse()?;
    let folder = tempfile::tempdir_in(std::env::temp_dir())?;
    let files: Arc<dyn Files> = match &*text(5, "disk") {
        "memory" => Arc::new(MemoryFiles::new()),
        _ => Arc::new(RealFiles::open(folder.path())?),
    };
    let entry = workloads::by_name(&name).ok_or_else(|| anyhow::anyhow!("unknown workload"))?;
    let workload = entry.make(&Settings::default()).map_err(anyhow::Error::msg)?;
    let (engine, language) = start(&files, &protocol, workers)?;
    load(&engine, &*workload)?;
    let began = engine.head().height;
    let stop = AtomicBool::new(false);
    let latencies = std::thread::scope(|threads| {
        let run = |client: usize| {
            let (engine, language, workload, stop) = (&engine, &*language, &*workload, &stop);
            threads.spawn(move || client_of(engine, language, workload, client as u64, stop))
        };
        let running: Vec<_> = (0..clients).map(run).collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        let mut all = Histogram::<u64>::new(3).expect("three digits");
        for one in running {
            let one = one.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
            all.add(one?)?;
        }
        anyhow::Ok(all)
    })?;
    engine.stop();
    let blocks = engine.head().height - began;
    println!(
        "{name} {protocol} clients {clients} workers {workers}: {:.0}/s, {:.1} of a block, \
         p50 {} us, p99 {} us",
        latencies.len() as f64 / seconds as f64,
        latencies.len() as f64 / blocks as f64,
        latencies.value_at_quantile(0.5),
        latencies.value_at_quantile(0.99),
    );
    Ok(())
}

fn start(
    files: &Arc<dyn Files>,
    protocol: &str,
    workers: usize,
) -> anyhow::Result<(Engine, Arc<dyn Language>)> {
    let parameters = Parameters::new(protocol);
    let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: EXECUTOR };
    let log = BlockWriter::begin(Arc::clone(files), &genesis, LogOptions::default())?;
    let store = Arc::new(Store::new());
    let language: Arc<dyn Language> = Arc::new(Schema::new());
    let replica = Replica::new(&genesis, store, Arc::clone(&language), workers)?;
    let began = Instant::now();
    let clock = Arc::new(move || began.elapsed().as_micros() as i64);
    let (limits, observer) = (BlockLimits::default(), Arc::new(NoObserver));
    let engine = Engine::start(replica, log, Arc::clone(&language), limits, clock, observer)?;
    Ok((engine, language))
}

fn load(engine: &Engine, workload: &dyn Workload) -> anyhow::Result<()> {
    let done = |body: Body| -> anyhow::Result<()> {
        let ended = engine.submit(TALLY, &Asked::from(&body), None)?.blocking_recv()??;
        anyhow::ensure!(ended.outcome.is_committed(), "{:?}", ended.outcome);
        Ok(())
    };
    for statement in sql::parse(&workload.schema())? {
        done(Body::Schema { text: statement.text })?;
    }
    for fill in workload.fills() {
        for rows in fill.batches(10_000) {
            done(Body::load(&fill.copy, rows))?;
        }
    }
    Ok(())
}

/// Latencies in microseconds.
fn client_of(
    engine: &Engine,
    language: &dyn Language,
    workload: &dyn Workload,
    seed: u64,
    stop: &AtomicBool,
) -> anyhow::Result<Histogram<u64>> {
    let names = workload.procedures();
    let mut latencies = Histogram::new(3)?;
    for call in workload.calls(seed) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let procedure = names[call.procedure].to_owned();
        let body = Body::call(procedure, call.arguments.clone());
        let asked = Asked::from(&body);
        let (user, settings) = ("tally".to_owned(), Vec::new());
        let (signers, approvers) = Default::default();
        let transaction = Transaction { user, settings, seed: [0; 16], signers, approvers, body };
        // As a session does.
        let schema_version = language.schema_version();
        let work = Arc::new(language.compile(transaction)?);
        let began = Instant::now();
        let compiled = Compiled { work, schema_version, agreed: false };
        engine.submit(TALLY, &asked, Some(compiled))?.blocking_recv()??;
        latencies.record(began.elapsed().as_micros() as u64)?;
    }
    Ok(latencies)
}
