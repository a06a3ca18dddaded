//! What checkpoints cost: `cargo run --release -p sql --example checkpoint_cost [rows] [folder]
//! [protocol]`.
//!
//! Prints MB/s of taking a full checkpoint and an incremental one, and of loading, beside the two
//! bounds of a load: reading the same files past the page cache, and a loop that decodes the same
//! rows from memory and inserts them, without files, hashes or checks.

use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::checkpoint::{Checkpointer, State, load};
use engine::{Body, Language, Numbering, ParameterTypes, Replica};
use ledger::checkpoint::{PackReader, read_manifest};
use ledger::{Files, Genesis, Parameters, RealFiles};
use sql::session::schema::Schema;
use storage::Store;
use types::{Stamp, Value};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const ROUNDS: usize = 5;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let rows: i64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let parent = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = parent.join(format!("tally-checkpoint-cost-{}", std::process::id()));
    let protocol = arguments.next().unwrap_or_else(|| "serial".to_owned());
    let outcome = measure(rows, &folder, &protocol);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn measure(rows: i64, folder: &Path, protocol: &str) -> Outcome {
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(folder)?);
    let mut replica = filled(rows, protocol)?;
    let mut checkpointer = Checkpointer::new(files.clone(), 1, None, &[]);
    let began = Instant::now();
    let taken = checkpointer.take(&State::of(&replica)?, &mut |_| Ok(()))?;
    let bytes = taken.extent.bytes_written;
    show("take, full", bytes, began.elapsed());
    let hundredth = statement("UPDATE t SET b = b + 1 WHERE a % 100000 < 1000");
    execute(&mut replica, hundredth)?;
    let began = Instant::now();
    let taken = checkpointer.take(&State::of(&replica)?, &mut |_| Ok(()))?;
    println!("of {} groups {} were written", taken.extent.groups, taken.extent.groups_written);
    show("take, 1 % changed, of the state", bytes, began.elapsed());
    let manifest = read_manifest(&*files, taken.height)?;
    let past = manifest.past.iter().flat_map(|past| &past.tables);
    let past = past.flat_map(|table| &table.groups).map(|group| group.place.length);
    println!(
        "{} bytes were written, {} of them of the past",
        taken.extent.bytes_written,
        past.sum::<u64>()
    );
    drop((replica, checkpointer));
    best("bound: reading the files", bytes, || read_files(folder));
    best("bound: decode and insert, 1 thread", bytes, || plain_loop(&*files, taken.height, 1));
    best("bound: decode and insert, 2 threads", bytes, || plain_loop(&*files, taken.height, 2));
    for workers in [1, 2] {
        best(&format!("load, {workers} threads"), bytes, || {
            let make = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
            let began = Instant::now();
            let loaded = load(&*files, taken.height, &make, workers)?;
            let took = began.elapsed();
            assert_eq!(loaded.rows, rows as u64);
            Ok(took)
        });
    }
    Ok(())
}

fn show(what: &str, bytes: u64, took: Duration) {
    let rate = bytes as f64 / 1e6 / took.as_secs_f64();
    println!("{what:<40} {:>8.3} s {rate:>8.0} MB/s", took.as_secs_f64());
}

/// The quickest of some rounds: neighbours only ever make it slower.
fn best(what: &str, bytes: u64, mut run: impl FnMut() -> Outcome<Duration>) {
    let rounds: Outcome<Vec<Duration>> = (0..ROUNDS).map(|_| run()).collect();
    match rounds {
        Ok(rounds) => show(what, bytes, rounds.into_iter().min().unwrap_or_default()),
        Err(error) => println!("{what:<40} {error}"),
    }
}

fn filled(rows: i64, protocol: &str) -> Outcome<Replica> {
    let genesis = Genesis {
        ledger_id: [7; 16],
        time_us: 0,
        parameters: Parameters::new(protocol),
        executor: engine::EXECUTOR,
    };
    let language = Arc::new(Schema::new());
    let mut replica = Replica::new(&genesis, Arc::new(Store::new()), language, 2)?;
    let table = "CREATE TABLE t (a bigint PRIMARY KEY, b bigint, c bigint, d text)";
    execute(&mut replica, Body::Schema { text: table.into() })?;
    for first in (0..rows).step_by(10_000) {
        let row = |id: i64| -> Box<[Value]> {
            let text = Value::text(format!("a text of row {id}, long enough for the heap"));
            Box::new([Value::Int(id), Value::Int(id * 3), Value::Int(-id), text])
        };
        let rows = (first..(first + 10_000).min(rows)).map(row).collect();
        execute(&mut replica, Body::load("COPY t FROM STDIN", rows))?;
    }
    Ok(replica)
}

fn statement(text: &str) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}

/// Until it commits: under a lag it may be some blocks before it has seen the one before.
fn execute(replica: &mut Replica, body: Body) -> Outcome {
    let mut numbering = Numbering::new(replica.ledger_id());
    loop {
        numbering.next = replica.head().height;
        let executed = replica.execute(0, vec![numbering.request("tally", 0, &body)?])?;
        replica.publish();
        let outcomes: Vec<_> = executed.decided.iter().map(|s| s.outcome.clone()).collect();
        drop(executed);
        let store = replica.store();
        store.collect();
        match outcomes.into_iter().find(|outcome| !outcome.is_committed()) {
            None => return Ok(()),
            Some(concurrency::Outcome::Retry(_)) => {}
            Some(outcome) => return Err(format!("{outcome:?}").into()),
        }
    }
}

/// Every file of the checkpoints, in pieces of a megabyte, past the page cache.
fn read_files(folder: &Path) -> Outcome<Duration> {
    const PIECE: usize = 1 << 20;
    const ALIGNMENT: usize = 4096;
    let memory = vec![0u8; PIECE + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let mut memory = memory;
    let began = Instant::now();
    for entry in std::fs::read_dir(folder.join("checkpoints"))? {
        let direct = rustix_direct();
        let file = std::fs::File::options().read(true).custom_flags(direct).open(entry?.path())?;
        let mut offset = 0;
        loop {
            let read = file.read_at(&mut memory[start..start + PIECE], offset)?;
            offset += read as u64;
            if read < PIECE {
                break;
            }
        }
    }
    Ok(began.elapsed())
}

/// O_DIRECT on Linux, x86-64 and most others.
fn rustix_direct() -> i32 {
    0o40000
}

/// Rows from memory into a table, in as many parts as there are threads.
fn plain_loop(files: &dyn Files, height: u64, threads: usize) -> Outcome<Duration> {
    let manifest = read_manifest(files, height)?;
    let packs = PackReader::open(files, manifest.order.ledger_id, &manifest.packs())?;
    let groups: Result<Vec<Vec<u8>>, _> = manifest
        .tables
        .iter()
        .flat_map(|table| &table.groups)
        .map(|group| {
            let mut bytes = Vec::new();
            packs.read(group, &mut bytes).map(|()| bytes)
        })
        .collect();
    let groups = groups?;
    let store = Arc::new(Store::new());
    Schema::new().restore(&manifest.schema, &store)?;
    let table = store.tables().remove(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for part in groups.chunks(groups.len().div_ceil(threads)) {
            let table = &table;
            scope.spawn(move || {
                for group in part {
                    let mut rest = group.as_slice();
                    while let Some((stamp, behind)) = rest.split_first_chunk() {
                        let (length, behind) = behind.split_first_chunk().expect("a length");
                        let (image, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
                        let stamp = Stamp(u64::from_be_bytes(*stamp));
                        table.restore_image(stamp, image).expect("a row");
                        rest = behind;
                    }
                }
            });
        }
    });
    Ok(began.elapsed())
}
