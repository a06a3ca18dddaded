//! What a live engine does in a second, with clients that wait for their answers.
//!
//! `live_cost FOLDER WORKLOAD CLIENTS WINDOW SECONDS PROTOCOL … [SETTING=NUMBER …]`. Each client
//! has a thread, asks for WINDOW calls at a time and waits for all of them. Protocols take turns,
//! three times, each on a ledger of its own in a new folder; told are calls a second, blocks, and
//! how many of these were prepared on an older state than the block before left.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use engine::{BlockLimits, Engine, Journal, NoObserver, Replayed, Submitter, resume_writing};
use ledger::{BlockReader, BlockResult, Files, RealFiles};
use workloads::Workload;

#[path = "../tests/it/ledgered/mod.rs"]
mod ledgered;

use ledgered::{Ledgered, calls, executing, options, recovered, workload};

const WORKERS: usize = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (settings, words): (Vec<&String>, Vec<&String>) =
        arguments[5.min(arguments.len())..].iter().partition(|text| is_setting(text));
    let [folder, name, clients, window, seconds, ..] = &arguments[..] else {
        eprintln!("live_cost FOLDER WORKLOAD CLIENTS WINDOW SECONDS PROTOCOL … [SETTING=NUMBER …]");
        return;
    };
    let settings: Vec<(&str, u64)> = settings
        .iter()
        .filter_map(|setting| setting.split_once('='))
        .filter_map(|(name, number)| Some((name, number.parse().ok()?)))
        .collect();
    let number = |text: &String| text.parse::<usize>().expect("a number");
    let time = Duration::from_secs(number(seconds) as u64);
    let workload = workload(name, &settings);
    for turn in 0..3 {
        for protocol in &words {
            let folder = Path::new(folder).join(format!("{turn}-{protocol}"));
            run(&folder, protocol, &*workload, (number(clients), number(window)), time);
        }
    }
}

/// An option of a protocol is behind its name.
fn is_setting(text: &str) -> bool {
    text.contains('=') && !text.contains(':')
}

fn run(
    folder: &Path,
    protocol: &str,
    workload: &dyn Workload,
    (clients, window): (usize, usize),
    time: Duration,
) {
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(folder.to_owned()).expect("a folder"));
    let mut ledger = Ledgered::new(Arc::clone(&files), protocol, 1, &[]);
    ledger.load(workload);
    drop(ledger);
    let Replayed { replica, reader, unrecorded, .. } =
        recovered(&files, &executing(WORKERS)).expect("a ledger");
    let loaded = replica.head().height;
    let journal = Journal::from(resume_writing(reader, &unrecorded, options()).expect("a log"));
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let clock = Arc::new(move || now().map_or(0, |since| since.as_micros() as i64));
    let (language, limits) = (Arc::clone(replica.language()), BlockLimits::default());
    let engine = Engine::start(replica, journal, language, limits, clock, Arc::new(NoObserver));
    let engine = engine.expect("threads");
    let (done, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    std::thread::scope(|threads| {
        for client in 0..clients {
            let (engine, done, ended) = (&engine, &done, &ended);
            threads.spawn(move || {
                let mut calls = calls(workload).skip(client * 100);
                let submitter =
                    Submitter { principal: "tally", role: None, key: None, seed: [0; 16] };
                while !ended.load(Ordering::Relaxed) {
                    let asked = calls.by_ref().take(window);
                    let asked = asked.map(|body| {
                        engine.submit(submitter, &engine::transaction::Asked::from(&body), None)
                    });
                    for answer in asked.collect::<Vec<_>>().into_iter().flatten() {
                        let reported = answer.blocking_recv();
                        done.fetch_add(u64::from(matches!(reported, Ok(Ok(_)))), Ordering::Relaxed);
                    }
                }
            });
        }
        std::thread::sleep(time);
        ended.store(true, Ordering::Relaxed);
    });
    let rate = done.into_inner() as f64 / began.elapsed().as_secs_f64();
    engine.stop();
    let mut reader = BlockReader::open(files).expect("a ledger");
    let results = std::iter::from_fn(|| reader.next().ok().flatten()?.result);
    let results = results.filter_map(|record| BlockResult::of(&record).ok());
    let results = results.filter(|result| result.height() > loaded);
    let (mut blocks, mut overlap) = (0, 0);
    for result in results {
        blocks += 1;
        overlap += u32::from(result.header().snapshot_height + 1 < result.height());
    }
    println!("{protocol:<28} {rate:>9.0} per second, {blocks} blocks, {overlap} overlap");
}
