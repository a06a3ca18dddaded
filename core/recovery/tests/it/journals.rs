//! Engines under each log scheme: what is released when, and what a crash leaves.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::checkpoint::{Checkpointer, ServiceSettings};
use engine::transaction::Asked;
use engine::{
    BlockLimits, Body, Checkpoints, Clock, Completion, Engine, EngineOptions, Journal, NoObserver,
    Progress, Recovery, RowFolders, Submitter, replay, resume_writing,
};
use kit::random::Random;
use ledger::memory_files::Failure;
use ledger::{BlockReader, Files, Intercepted, Interceptor, MemoryFiles, StorageFile};
use recovery::schemes::Scheme;
use recovery::schemes::row_logs::{LogMutant, RowLogOptions, RowLoggers};
use types::{Error, Height, Value};

use crate::ledgered::{begin, digest_of, executing, folders, folders_of, options, recovered};

const ASKED_FOR: ServiceSettings = ServiceSettings {
    interval_blocks: 0,
    interval_bytes: 0,
    cpu_percent_max: 100,
    undo_bytes_max: 0,
};

#[derive(Clone)]
enum Logging {
    Rows(RowFolders, Option<LogMutant>),
    None,
}

/// A node on files in memory, begun if there is nothing yet.
fn start(files: &MemoryFiles, logging: &Logging, settings: ServiceSettings) -> Engine {
    start_by(files, logging, settings, Arc::new(|| 0))
}

fn start_by(
    files: &MemoryFiles,
    logging: &Logging,
    settings: ServiceSettings,
    clock: Clock,
) -> Engine {
    let own: Arc<dyn Files> = Arc::new(files.clone());
    if files.paths().is_empty() {
        drop(begin(&own, "harmony"));
    }
    let rows = match logging {
        Logging::Rows(rows, _) => Some(rows.clone()),
        Logging::None => None,
    };
    let way = Recovery { workers: 2, rows, ..Recovery::default() };
    let read = recovered(&own, &way).unwrap();
    let language = read.replica.language().clone();
    let base = read.checkpoint.map(|checkpoint| checkpoint.base);
    let checkpointer = Checkpointer::new(own, 2, base, &read.passed_over);
    let checkpoints = Some(Checkpoints { checkpointer, settings, since: Progress::default() });
    let log = resume_writing(read.reader, &read.unrecorded, options()).unwrap();
    let journal = match logging {
        Logging::Rows(rows, mutant) => {
            let options = RowLogOptions { mutant: *mutant, ..RowLogOptions::default() };
            let loggers = RowLoggers::resume(rows, log.next_height(), options).unwrap();
            Journal::with_rows(log, loggers)
        }
        Logging::None => Journal::held_back(log),
    };
    let (limits, observer) = (BlockLimits::default(), Arc::new(NoObserver));
    let options = EngineOptions { checkpoints, ..EngineOptions::default() };
    Engine::start_with(read.replica, journal, language, limits, clock, observer, options).unwrap()
}

const TALLY: Submitter<'_> = Submitter { principal: "tally", role: None, key: None, seed: [0; 16] };

fn schema(text: &str) -> Body {
    Body::Schema { text: text.into() }
}

fn row(id: i64) -> Body {
    let rows = vec![[Value::Int(id), Value::Int(id % 7)].into()];
    Body::load("COPY t (id, v) FROM STDIN", rows)
}

fn submit(engine: &Engine, body: Body) -> Result<Completion, Error> {
    let answer = engine.submit(TALLY, &Asked::from(&body), None)?;
    answer.blocking_recv().expect("an engine answers")
}

const TABLE: &str = "CREATE TABLE t (id bigint PRIMARY KEY, v bigint)";

/// Orders that a reader of the files finds, genesis included.
fn blocks_in(files: &MemoryFiles) -> Height {
    let mut reader = BlockReader::open(Arc::new(files.clone())).unwrap();
    while let Ok(Some(_)) = reader.next() {}
    reader.next_height()
}

/// The power goes at any operation of any disk, checkpoints under way or not. What is left of the
/// ledger has all that was acknowledged, and its rows come to the state of re-execution.
#[test]
fn what_was_acknowledged_survives_a_power_cut_under_each_scheme() {
    let mut by_rows = 0;
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let scheme = Scheme::ALL[seed as usize % 2];
        let files = MemoryFiles::new();
        let (rows, row_files) = folders(scheme, 2);
        let settings = ServiceSettings { interval_blocks: 9, ..ASKED_FOR };
        let engine = start(&files, &Logging::Rows(rows, None), settings);
        submit(&engine, schema(TABLE)).unwrap();
        let disks = [&files, &row_files[0], &row_files[1]];
        let disk = disks[random.below(3) as usize];
        let cut = disk.operations() + 10 + random.below(60);
        disk.fail_at(Some(Failure::PowerOff(cut)));
        let mut acknowledged = 0;
        for id in 0..60 {
            match submit(&engine, row(id)) {
                Ok(completion) => acknowledged = completion.height,
                Err(_) => break,
            }
        }
        for image in 0..4 {
            let mut random = Random::new(image);
            let left: Arc<dyn Files> = Arc::new(files.crash(&mut random));
            let left_rows: Vec<MemoryFiles> =
                row_files.iter().map(|files| files.crash(&mut random)).collect();
            let rows = Some(folders_of(scheme, &left_rows));
            let way = Recovery { workers: 2, rows, ..Recovery::default() };
            let again = recovered(&left, &way).unwrap_or_else(|fault| panic!("{seed}: {fault}"));
            assert!(again.replica.head().height >= acknowledged, "seed {seed}, image {image}");
            let executed = recovered(&left, &executing(1)).unwrap();
            assert_eq!(digest_of(&again.replica), digest_of(&executed.replica), "seed {seed}");
            by_rows += again.counts.by_rows;
        }
        drop(engine);
    }
    assert!(by_rows > 100, "{by_rows} blocks from row logs");
}

/// Syncs wait as long as the gate is locked.
#[derive(Default)]
struct Gate(Mutex<()>);

impl Interceptor for Gate {
    fn sync(&self, file: &dyn StorageFile, _: &str) -> io::Result<()> {
        let _open = self.0.lock().unwrap();
        file.sync()
    }
}

/// Whether a result is released while one logger of two still syncs, its block in the ledger.
fn is_released_early(mutant: Option<LogMutant>) -> bool {
    let files = MemoryFiles::new();
    let gate = Arc::new(Gate::default());
    let slow = Intercepted::new(Arc::new(MemoryFiles::new()), Arc::clone(&gate));
    let folders: Vec<Arc<dyn Files>> = vec![Arc::new(MemoryFiles::new()), Arc::new(slow)];
    let rows = RowFolders { scheme: Scheme::Logical, folders };
    let engine = start(&files, &Logging::Rows(rows, mutant), ASKED_FOR);
    submit(&engine, schema(TABLE)).unwrap();
    let closed = gate.0.lock().unwrap();
    let before = blocks_in(&files);
    let mut answer = engine.submit(TALLY, &Asked::from(&row(1)), None).unwrap();
    while blocks_in(&files) == before {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(100));
    let early = answer.try_recv().is_ok();
    drop(closed);
    if !early {
        answer.blocking_recv().unwrap().unwrap();
    }
    early
}

#[test]
fn a_result_is_released_when_every_logger_has_its_epoch() {
    assert!(!is_released_early(None));
    assert!(is_released_early(Some(LogMutant::ReleasedEarly)), "the test would not notice");
}

#[test]
fn a_logger_that_fails_stops_the_engine_before_anything_of_the_epoch_is_released() {
    stopped_by(Failure::PowerOff, "58030");
    stopped_by(Failure::Full, "53100");
}

fn stopped_by(manner: fn(u64) -> Failure, code: &str) {
    let files = MemoryFiles::new();
    let (rows, row_files) = folders(Scheme::Logical, 2);
    let engine = start(&files, &Logging::Rows(rows.clone(), None), ASKED_FOR);
    submit(&engine, schema(TABLE)).unwrap();
    submit(&engine, row(1)).unwrap();
    row_files[1].fail_at(Some(manner(row_files[1].operations())));
    assert_eq!(submit(&engine, row(2)).unwrap_err().code().to_string(), code);
    assert!(engine.is_halted());
    drop(engine);
    row_files[1].fail_at(None);
    let engine = start(&files, &Logging::Rows(rows, None), ASKED_FOR);
    submit(&engine, row(3)).unwrap();
}

#[test]
fn row_logs_are_cut_off_at_checkpoints() {
    let files = MemoryFiles::new();
    let (rows, row_files) = folders(Scheme::Logical, 2);
    let engine = start(&files, &Logging::Rows(rows.clone(), None), ASKED_FOR);
    submit(&engine, schema(TABLE)).unwrap();
    for round in 0..6 {
        (0..10).for_each(|id| drop(submit(&engine, row(round * 10 + id)).unwrap()));
        engine.checkpoint().unwrap().blocking_recv().unwrap().unwrap();
    }
    let height = engine.head().height;
    drop(engine);
    for files in &row_files {
        let paths = files.paths();
        let oldest = paths[0].trim_start_matches("logical-").trim_end_matches(".log");
        assert!(paths.len() <= 3, "{paths:?}");
        assert!(oldest.parse::<Height>().unwrap() > height - 25, "{paths:?}, {height}");
    }
    // The newest checkpoint lost: execution gives what the row logs do not have any more.
    let newest = format!("checkpoints/{height:020}.manifest");
    files.remove(&newest).unwrap();
    let own: Arc<dyn Files> = Arc::new(files.clone());
    let way = Recovery { workers: 1, rows: Some(rows), ..Recovery::default() };
    let again = recovered(&own, &way).unwrap();
    let executed = recovered(&own, &executing(1)).unwrap();
    assert_eq!(digest_of(&again.replica), digest_of(&executed.replica));
}

#[test]
fn without_a_log_the_ledger_is_written_at_checkpoints_and_at_a_clean_stop() {
    let files = MemoryFiles::new();
    let engine = start(&files, &Logging::None, ASKED_FOR);
    assert_eq!(engine.log_scheme(), "none");
    submit(&engine, schema(TABLE)).unwrap();
    (0..5).for_each(|id| drop(submit(&engine, row(id)).unwrap()));
    assert_eq!(blocks_in(&files), 1, "genesis alone");
    assert_eq!((engine.head().height, engine.written().unwrap().unwrap().0), (6, 0));
    let taken = engine.checkpoint().unwrap().blocking_recv().unwrap().unwrap();
    assert_eq!((taken.height, blocks_in(&files)), (6, 7));
    assert_eq!(engine.written().unwrap().unwrap(), (6, engine.head().hash));
    submit(&engine, row(10)).unwrap();
    assert_eq!(blocks_in(&files), 7);
    let left: Arc<dyn Files> = Arc::new(files.crash(&mut Random::new(1)));
    let again = recovered(&left, &executing(2)).unwrap();
    assert_eq!((again.replica.head().height, again.progress.blocks), (6, 0));
    let whole = replay(left, &crate::ledgered::language, 1, &mut |_| ()).unwrap();
    assert_eq!(digest_of(&whole.replica), digest_of(&again.replica));
    engine.stop();
    assert_eq!(blocks_in(&files), 8);
    let engine = start(&files, &Logging::None, ASKED_FOR);
    submit(&engine, row(11)).unwrap();
}

/// A disk that is full when the blocks are to be written: the checkpoint fails, and the engine
/// takes no more writes; nothing is half there.
#[test]
fn blocks_that_were_held_back_and_cannot_be_written_stop_the_engine() {
    let files = MemoryFiles::new();
    let engine = start(&files, &Logging::None, ASKED_FOR);
    submit(&engine, schema(TABLE)).unwrap();
    files.fail_at(Some(Failure::PowerOff(files.operations())));
    assert!(engine.checkpoint().unwrap().blocking_recv().unwrap().is_err());
    assert!(engine.is_halted());
    assert!(submit(&engine, row(1)).is_err());
    drop(engine);
    let left: Arc<dyn Files> = Arc::new(files.crash(&mut Random::new(1)));
    assert!(recovered(&left, &executing(1)).unwrap().replica.head().height <= 1);
}

#[test]
fn a_halt_that_is_not_the_ledgers_fault_keeps_the_blocks_that_were_held_back() {
    let files = MemoryFiles::new();
    let broken = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&broken);
    let clock: Clock = Arc::new(move || {
        // Clients ask for the time as well.
        let sequencing = std::thread::current().name() == Some("sequencer");
        assert!(!sequencing || !own.load(Ordering::Relaxed), "the clock is meant to break");
        0
    });
    let engine = start_by(&files, &Logging::None, ASKED_FOR, clock);
    submit(&engine, schema(TABLE)).unwrap();
    submit(&engine, row(1)).unwrap();
    assert_eq!(blocks_in(&files), 1);
    broken.store(true, Ordering::Relaxed);
    assert!(submit(&engine, row(2)).is_err());
    engine.stop();
    assert!(engine.is_halted());
    assert_eq!(blocks_in(&files), 3);
}

#[test]
fn row_logs_of_another_scheme_go_at_a_start_and_one_removed_by_hand_holds_up_no_other() {
    let files = MemoryFiles::new();
    let (rows, row_files) = folders(Scheme::Logical, 1);
    let logging = Logging::Rows(rows, None);
    let engine = start(&files, &logging, ASKED_FOR);
    submit(&engine, schema(TABLE)).unwrap();
    for id in 0..5 {
        submit(&engine, row(id)).unwrap();
        engine.checkpoint().unwrap().blocking_recv().unwrap().unwrap();
        if id == 1 {
            row_files[0].remove(&row_files[0].paths()[0]).unwrap();
        }
    }
    drop(engine);
    let paths = row_files[0].paths();
    assert!((1..=3).contains(&paths.len()), "{paths:?}");
    let physical = folders_of(Scheme::Physical, &row_files);
    let engine = start(&files, &Logging::Rows(physical, None), ASKED_FOR);
    submit(&engine, row(10)).unwrap();
    let paths = row_files[0].paths();
    assert!(paths.len() == 1 && paths[0].starts_with("physical-"), "{paths:?}");
}
