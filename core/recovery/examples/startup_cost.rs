//! What a start costs: a ledger after a checkpoint, by every way back that it allows.
//!
//! `startup_cost FOLDER WORKLOAD PROTOCOL BLOCKS TRANSACTIONS [SETTING=NUMBER …] [only=WAY …]`. The
//! ledger is made in a new folder; the first lines say at which rate its blocks were executed and
//! sealed, once for each number of workers, without the disk. Loading the checkpoint is
//! distinguished. After each wall time stands the processors' time of all threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Recovery, ReplayBy, RowFolders};
use ledger::{Files, MemoryFiles, RealFiles};
use recovery::schemes::Scheme;

#[path = "../tests/it/ledgered/mod.rs"]
mod ledgered;

use ledgered::{Ledgered, digest_of, executing, recovered, workload};

const WORKERS: [usize; 2] = [1, 2];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, name, protocol, blocks, transactions, settings @ ..] = &arguments[..] else {
        eprintln!("startup_cost FOLDER WORKLOAD PROTOCOL BLOCKS TRANSACTIONS [SETTING=NUMBER …]");
        return;
    };
    let number = |text: &String| text.parse::<usize>().expect("a number");
    let (blocks, transactions) = (number(blocks), number(transactions));
    let only: Vec<&str> = settings.iter().filter_map(|text| text.strip_prefix("only=")).collect();
    let is_wanted = |name: &str| only.is_empty() || only.contains(&name);
    let settings: Vec<(&str, u64)> = settings
        .iter()
        .filter_map(|setting| setting.split_once('='))
        .filter_map(|(name, number)| Some((name, number.parse().ok()?)))
        .collect();
    let workload = workload(name, &settings);
    let all = blocks * transactions;
    println!("{name}, {protocol}: {blocks} blocks of {transactions}");
    for workers in WORKERS.into_iter().filter(|_| is_wanted("alone")) {
        let mut ledger = Ledgered::new(Arc::new(MemoryFiles::new()), protocol, workers, &[]);
        ledger.load(&*workload);
        ledger.executing = Duration::ZERO;
        ledger.run(&*workload, blocks, transactions);
        rate("engine alone", workers, all, (ledger.executing, Duration::ZERO));
    }
    let folder = PathBuf::from(folder);
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(folder.join("data")).expect("a folder"));
    let rows = Scheme::ALL.map(|scheme| row_folder(&folder, scheme));
    let mut ledger = Ledgered::new(Arc::clone(&files), protocol, 2, &rows);
    ledger.load(&*workload);
    ledger.checkpoint();
    ledger.run(&*workload, blocks, transactions);
    ledger.end_row_logs();
    let digest = digest_of(&ledger.replica);
    let height = ledger.replica.head().height - blocks as u64;
    drop(ledger);
    for workers in WORKERS {
        let start = Clocks::now();
        let load = || engine::checkpoint::load(&*files, height, &ledgered::language, workers);
        drop(load().expect("the checkpoint holds"));
        let loading = start.elapsed();
        println!("{:14} {workers}  {:8.1} ms", "checkpoint", loading.0.as_secs_f64() * 1e3);
        let ways = [ReplayBy::Protocol, ReplayBy::Pacman, ReplayBy::Serial];
        let by =
            ways.map(|replay| (format!("{replay:?}"), Recovery { replay, ..executing(workers) }));
        let of_rows = |of: &RowFolders| {
            let way = Recovery { rows: Some(of.clone()), ..executing(workers) };
            (of.scheme.name().to_owned(), way)
        };
        for (name, way) in by.into_iter().chain(rows.iter().map(of_rows)) {
            if !is_wanted(&name) {
                continue;
            }
            let start = Clocks::now();
            let again = recovered(&files, &way).expect("the ledger is sound");
            let (wall, cpu) = start.elapsed();
            let took = (wall.saturating_sub(loading.0), cpu.saturating_sub(loading.1));
            assert_eq!(digest_of(&again.replica), digest);
            if name == "Protocol" || again.counts.executed == 0 {
                rate(&name, workers, all, took);
            }
        }
    }
}

fn row_folder(folder: &Path, scheme: Scheme) -> RowFolders {
    let files = RealFiles::open(folder.join(scheme.name())).expect("a folder");
    RowFolders { scheme, folders: vec![Arc::new(files)] }
}

/// Wall and processors.
struct Clocks(Instant, Duration);

impl Clocks {
    fn now() -> Clocks {
        Clocks(Instant::now(), cpu_time())
    }

    fn elapsed(&self) -> (Duration, Duration) {
        (self.0.elapsed(), cpu_time() - self.1)
    }
}

/// Of this process, in the kernel's ticks of 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let numbers: Vec<u64> =
        behind_name.split_whitespace().skip(11).take(2).flat_map(str::parse).collect();
    Duration::from_millis(numbers.iter().sum::<u64>() * 10)
}

fn rate(what: &str, workers: usize, transactions: usize, (wall, cpu): (Duration, Duration)) {
    let ms = wall.as_secs_f64() * 1e3;
    let (cpu, per_s) = (cpu.as_millis(), transactions as f64 / ms * 1e3);
    println!("{what:14} {workers}  {ms:8.1} ms {per_s:9.0}/s  {cpu:6} ms of processors");
}
