//! The end of a node's ledger: what it acknowledged is there, or a start refuses the folder and
//! says where it is wrong, whatever file is lost and whatever bit changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::transaction::Asked;
use engine::{
    BlockLimits, Body, Engine, EngineOptions, Fault, NoObserver, Recovery, Submitter, replay,
    resume_writing,
};
use ledger::{Files, LogOptions, MemoryFiles, Stream};
use types::{Height, Value};

use crate::ledgered::{begin, executing, recovered};

/// Several segments for a few blocks.
const LOG: LogOptions = LogOptions { segment_bytes: 4 << 10, zero_fill_bytes: 1 << 10, sync: true };

const TALLY: Submitter<'_> = Submitter { principal: "tally", role: None, key: None, seed: [0; 16] };

fn start(files: &MemoryFiles, rest: Option<Duration>) -> Engine {
    let own: Arc<dyn Files> = Arc::new(files.clone());
    if files.paths().is_empty() {
        drop(begin(&own, "serial"));
    }
    let read = recovered(&own, &Recovery { workers: 1, ..Recovery::default() }).unwrap();
    let language = read.replica.language().clone();
    let log = resume_writing(read.reader, &read.unrecorded, LOG).unwrap();
    let (limits, observer) = (BlockLimits::default(), Arc::new(NoObserver));
    let options = EngineOptions { rest, ..EngineOptions::default() };
    let clock = Arc::new(|| 0);
    Engine::start_with(read.replica, log, language, limits, clock, observer, options).unwrap()
}

fn submit(engine: &Engine, body: &Body) -> Height {
    let answer = engine.submit(TALLY, &Asked::from(body), None).unwrap();
    answer.blocking_recv().expect("an engine answers").unwrap().height
}

/// Returns the height of the last block that was acknowledged.
fn work(engine: &Engine) -> Height {
    let text = "CREATE TABLE t (id bigint PRIMARY KEY, note text)".into();
    submit(engine, &Body::Schema { text });
    let row = |id: i64| [Value::Int(id), Value::Text("x".repeat(300).into())].into();
    let load = |id| Body::load("COPY t (id, note) FROM STDIN", vec![row(id)]);
    (0..30).map(|id| submit(engine, &load(id))).last().unwrap()
}

/// The height that a start comes to, or `None` where it refuses and names a place.
fn started(files: &MemoryFiles) -> Option<Height> {
    let own: Arc<dyn Files> = Arc::new(files.clone());
    match recovered(&own, &executing(1)) {
        Ok(read) => Some(read.replica.head().height),
        Err(Fault::Damage(damage)) => {
            assert!(damage.file.contains('/') || !damage.file.is_empty());
            None
        }
        Err(fault) => panic!("{fault}"),
    }
}

/// One bit of each byte of the newest segments, and each file.
fn nothing_is_lost_silently(files: &MemoryFiles, head: Height) {
    assert_eq!(started(files), Some(head));
    let (mut refused, mut whole) = (0, 0);
    let mut judge = |files: &MemoryFiles, what: &str| match started(files) {
        None => refused += 1,
        Some(height) => {
            assert_eq!(height, head, "{what}");
            whole += 1;
        }
    };
    for path in files.paths() {
        let left = files.copy();
        left.remove(&path).unwrap();
        judge(&left, &format!("without {path}"));
    }
    for stream in Stream::ALL {
        let of = |path: &String| path.starts_with(stream.folder());
        let newest = files.paths().into_iter().filter(of).max().unwrap();
        let bytes = files.contents(&newest).unwrap();
        for offset in (0..bytes.len()).step_by(5) {
            let left = files.copy();
            let mut changed = bytes.clone();
            changed[offset] ^= 1 << (offset % 8);
            left.plant(&newest, changed);
            judge(&left, &format!("{newest}, byte {offset}"));
        }
    }
    assert!(refused > 200 && whole > 100, "{refused} {whole}");
}

#[test]
fn behind_a_clean_stop_nothing_is_lost_silently() {
    let files = MemoryFiles::new();
    let engine = start(&files, None);
    let head = work(&engine);
    engine.stop();
    nothing_is_lost_silently(&files, head);
}

#[test]
fn behind_a_kill_in_a_moment_of_rest_nothing_is_lost_silently() {
    let files = MemoryFiles::new();
    let engine = start(&files, Some(Duration::from_millis(5)));
    let head = work(&engine);
    let rests = |stream: Stream| {
        let of = |path: &String| path.starts_with(stream.folder());
        let newest = files.paths().into_iter().filter(of).max().unwrap();
        files.contents(&newest).unwrap().windows(4).any(|four| four == b"TRST")
    };
    let until = Instant::now() + Duration::from_secs(20);
    while !Stream::ALL.into_iter().all(rests) {
        assert!(Instant::now() < until, "no mark at rest");
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = files.copy();
    engine.stop();
    nothing_is_lost_silently(&killed, head);
    let language = crate::ledgered::language;
    let replayed = replay(Arc::new(killed), &language, 1, &mut |_| ()).unwrap();
    assert_eq!(replayed.replica.head().height, head);
    assert!(replayed.unrecorded.is_empty(), "results were written as well");
}
