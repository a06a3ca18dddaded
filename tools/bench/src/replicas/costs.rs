//! What things take on this machine: what a scene's replicas and orderers are given.

use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use concurrency::endorsement::{EarlyAbort, endorse};
use concurrency::{
    Block, Moment, Overlay, PendingWrite, RangeDigest, RangeRequirement, Recorder, RowRead,
    RowRequirement, Work, WorkerPool, WriteState,
};
use engine::transaction::{Endorsed, RowChange, RowWrite, result_hash};
use engine::{Body, Transaction};
use kit::random::Random;
use ledger::LogOptions;
use ledger::signatures::{Claim, SecretKey, check_anew};
use order::{Signature, View};
use procedure::Frame;
use procedure::access::Range;
use rustix::fs::{Advice, FsWord, fadvise, fstatfs};
use sha2::{Digest, Sha256};
use storage::{LATEST, Store};
use types::{Key, Stop, TableId, Value};

use super::parts::Nanos;
use super::scene::Crypto;
use crate::bed::{Bed, Source};
use crate::{Plan, Workload};

/// Votes of a certificate of eighty.
const TOGETHER: usize = 54;
const HASHED_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 8 << 10;
const PAGES: u64 = 4_096;
/// What Linux says that a file in memory is on.
const TMPFS: FsWord = 0x0102_1994;

/// The middle of some times that something took.
fn median_nanos(rounds: usize, mut act: impl FnMut()) -> Nanos {
    let mut times: Vec<Nanos> = (0..rounds.max(1))
        .map(|_| {
            let began = Instant::now();
            act();
            began.elapsed().as_nanos() as Nanos
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Signatures and hashes as the ledger's votes and headers have them, on one thread.
pub fn crypto(rounds: usize) -> Crypto {
    let message = [7; 112];
    let keys: Vec<SecretKey> = (0..TOGETHER as u8).map(|it| SecretKey::of_seed([it; 32])).collect();
    let publics: Vec<_> = keys.iter().map(SecretKey::public).collect();
    let signatures: Vec<_> = keys.iter().map(|key| key.sign(&message)).collect();
    let claims: Vec<Claim<'_>> = publics
        .iter()
        .zip(&signatures)
        .map(|(key, signature)| Claim { key, message: &message, signature })
        .collect();
    let bytes = vec![1; HASHED_BYTES];
    let hash = median_nanos(rounds.div_ceil(8), || {
        black_box(Sha256::digest(black_box(&bytes)));
    });
    let many = median_nanos(rounds.div_ceil(8), || {
        black_box(check_anew(black_box(&claims)));
    });
    Crypto {
        sign: median_nanos(rounds, || {
            black_box(keys[0].sign(black_box(&message)));
        }),
        verify: median_nanos(rounds, || {
            black_box(black_box(&claims[0]).holds());
        }),
        verify_of_many: many / TOGETHER as Nanos,
        hash_nanos_per_byte: hash as f64 / HASHED_BYTES as f64,
    }
}

/// Bytes of a transaction of a workload, and rows, on the average of some calls.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sizes {
    /// An envelope with a call.
    pub ordered: u64,
    /// One that holds what was read and what is to be written, with its endorsers' approvals.
    pub endorsed: u64,
    pub rows_read: f64,
    pub rows_written: f64,
}

/// A loaded database, and the plan of calls on it.
fn bed(workload: &Workload, theta: f64, calls: usize) -> Result<(Bed, Plan)> {
    let plan = Plan {
        workloads: vec![workload.clone()],
        thetas: vec![theta],
        transactions: calls,
        sealing: vec![true],
        ..Plan::default()
    };
    let source = Source::load(workload)?;
    let cell = plan.cells().into_iter().next().ok_or_else(|| anyhow!("a plan without a cell"))?;
    Ok((Bed::copy(&source, &cell, LogOptions::default())?, plan))
}

/// What a replica by Fabric's protocol takes to simulate a block of calls, by so many workers: the
/// part of a block's time that one does not take whose transactions endorsers have simulated. The
/// mean of blocks, as a block's own time is one.
pub fn simulation(
    workload: &Workload,
    theta: f64,
    block_transactions: usize,
    threads: usize,
    calls: usize,
) -> Result<Nanos> {
    let (bed, plan) = bed(workload, theta, calls.max(block_transactions))?;
    let store = bed.replica.store();
    let newest = store.newest();
    let works = bed.works(&plan)?;
    let blocks = works.chunks_exact(block_transactions);
    let blocks = blocks.map(|works| Arc::new(Block::new(newest + 1, 0, works.to_vec())));
    let blocks: Vec<Arc<Block>> = blocks.collect();
    let pool = WorkerPool::new(threads);
    let simulate =
        |block| black_box(endorse(block, store, &[newest; 2], &pool, EarlyAbort::OfOthers));
    // The workers and their memory are there before the clock starts.
    simulate(&blocks[0]);
    let began = Instant::now();
    blocks.iter().for_each(|block| drop(simulate(block)));
    Ok(began.elapsed().as_nanos() as Nanos / blocks.len() as Nanos)
}

pub fn sizes(workload: &Workload, theta: f64, endorsers: usize, calls: usize) -> Result<Sizes> {
    let (mut bed, plan) = bed(workload, theta, calls)?;
    let (works, requests) = (bed.works(&plan)?, bed.requests(&plan)?);
    let (mut ordered, mut endorsed, mut read, mut written) = (0, 0, 0, 0);
    for (work, request) in works.iter().zip(&requests) {
        ordered += request.envelope.bytes().len() as u64;
        let asked = request.envelope.view()?;
        let body = simulated(bed.replica.store(), work, Transaction::of(&asked)?.body)?;
        (read, written) = (read + body.rows.len(), written + body.writes.len());
        let request = Body::Endorsed(Box::new(body)).to_request();
        let signature = [0; 64];
        let approval = |it| Signature { key_id: [it as u8; 32], bytes: &signature[..] };
        let approvals = (0..endorsers).map(approval).collect();
        endorsed += View { request: &request, approvals, ..asked }.encode()?.len() as u64;
    }
    let count = works.len().max(1);
    let mean = |sum: u64| sum.div_ceil(count as u64);
    let (rows_read, rows_written) = (read as f64 / count as f64, written as f64 / count as f64);
    Ok(Sizes { ordered: mean(ordered), endorsed: mean(endorsed), rows_read, rows_written })
}

#[derive(Default)]
struct Seen {
    rows: BTreeMap<(TableId, Key), RowRequirement>,
    ranges: Vec<RangeRequirement>,
}

impl Seen {
    fn note(&mut self, read: RowRead<'_>) {
        let (table, key, stamp) = (read.table, read.key.clone(), read.stamp);
        self.rows.insert((table, key.clone()), RowRequirement { table, key, stamp });
    }
}

impl Recorder for Seen {
    const DIGESTS: bool = true;

    fn value_read(&mut self, read: RowRead<'_>) {
        self.note(read);
    }

    fn existence_read(&mut self, read: RowRead<'_>) {
        self.note(read);
    }

    fn range_read(&mut self, range: &Range, digest: RangeDigest) {
        let seal = Some(Box::new([0; 32]));
        self.ranges.push(RangeRequirement { range: range.clone(), digest, seal });
    }
}

/// What an endorser would put into an envelope, as far as its size goes: a row that is changed in
/// the light of what it was counts as read, as `sql`'s endorsers have it.
fn simulated(store: &Store, work: &Work, proposal: Body) -> Result<Endorsed> {
    let stopped = |stop: Stop| anyhow!("a call of the workload fails: {stop:?}");
    let snapshot = store.snapshot();
    let moment = Moment { height: snapshot.height() + 1, position: 0, now_us: 0 };
    let catalog = snapshot.catalog().clone();
    let mut overlay = Overlay::new(catalog, snapshot.height(), moment, Seen::default());
    let result = work.run(&mut Frame::default(), &mut overlay).map_err(stopped)?;
    let looked_at: Vec<RowRequirement> =
        overlay.writes().writes().iter().filter_map(|it| looked_at(store, it)).collect();
    for read in looked_at {
        overlay.recorder.rows.insert((read.table, read.key.clone()), read);
    }
    overlay.evaluate_all().map_err(stopped)?;
    let written: Result<Vec<RowWrite>> = overlay
        .writes()
        .writes()
        .iter()
        .filter(|write| !write.is_void())
        .map(|write| change_of(store, write, snapshot.height()))
        .collect();
    let Seen { rows, ranges } = std::mem::take(&mut overlay.recorder);
    Ok(Endorsed {
        proposal,
        schema_version: 1,
        now_us: 0,
        rows: rows.into_values().collect(),
        ranges,
        writes: written?,
        result: result_hash(&result),
    })
}

/// The row that a write is computed from.
fn looked_at(store: &Store, write: &PendingWrite) -> Option<RowRequirement> {
    let WriteState::Commands(commands) = &write.state else { return None };
    let looks = commands.iter().any(|command| !command.code.columns.is_empty());
    let stamp = store.table(write.table)?.stamp(write.slot?, LATEST);
    looks.then(|| RowRequirement { table: write.table, key: write.key.clone(), stamp })
}

fn change_of(store: &Store, write: &PendingWrite, at: u64) -> Result<RowWrite> {
    let table = store.table(write.table).ok_or_else(|| anyhow!("a table that is not there"))?;
    let schema = table.schema();
    let mut before: Vec<Value> = Vec::new();
    if let Some(slot) = write.slot.filter(|_| write.existed) {
        table.read_row(slot, at, &mut before);
    }
    let key = || schema.primary_key.iter().map(|it| before[usize::from(*it)].clone()).collect();
    let change = match &write.state {
        WriteState::Put(row) if before.is_empty() => RowChange::Insert(row.to_vec()),
        WriteState::Put(row) => {
            let pairs = (0..).zip(before.iter().zip(row.iter()));
            let other = pairs.filter(|(_, (old, new))| old != new);
            let columns = other.map(|(column, (_, new))| (column, new.clone())).collect();
            RowChange::Update { key: key(), columns }
        }
        WriteState::Delete => RowChange::Delete { key: key() },
        WriteState::Commands(_) => return Err(anyhow!("a command was not evaluated")),
    };
    Ok(RowWrite { table: write.table, change })
}

/// To read a page at random that is not in the page cache.
///
/// # Errors
/// The folder is in memory, where each page is.
pub fn page_read(folder: &Path, reads: usize) -> Result<Nanos> {
    let file = tempfile::tempfile_in(folder)?;
    let in_memory = fstatfs(&file)?.f_type == TMPFS;
    ensure!(!in_memory, "{} is in memory: name a folder on a disk", folder.display());
    let page: Vec<u8> = (0..PAGE_BYTES).map(|at| at as u8).collect();
    for at in 0..PAGES {
        file.write_all_at(&page, at * PAGE_BYTES as u64)?;
    }
    file.sync_all()?;
    let mut random = Random::new(1);
    let mut room = vec![0; PAGE_BYTES];
    let mut failed = Ok(());
    let nanos = median_nanos(reads, || {
        let read = read_page(&file, random.below(PAGES), &mut room);
        if read.is_err() {
            failed = read;
        }
    });
    failed.map(|()| nanos)
}

fn read_page(file: &File, page: u64, room: &mut [u8]) -> Result<()> {
    // Nothing is read ahead, and nothing stays.
    fadvise(file, 0, None, Advice::Random)?;
    fadvise(file, 0, None, Advice::DontNeed)?;
    Ok(file.read_exact_at(room, page * PAGE_BYTES as u64)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_something() {
        let crypto = crypto(9);
        assert!(crypto.sign > 0 && crypto.verify > 0 && crypto.hash_nanos_per_byte > 0.01);
        assert!(crypto.verify_of_many > 0, "{crypto:?}");
        let workload: Workload = "ycsb:rows=300".parse().unwrap();
        assert!(simulation(&workload, 0.0, 25, 2, 50).unwrap() > 0);
    }

    /// Pages of a folder in memory are always cached.
    #[test]
    fn a_page_is_read_from_a_disk() {
        let program = std::env::current_exe().unwrap();
        assert!(page_read(program.parent().unwrap(), 3).unwrap() > 0);
        let memory = Path::new("/dev/shm");
        if tempfile::tempfile_in(memory).is_ok() {
            let refused = page_read(memory, 3).unwrap_err().to_string();
            assert_eq!(refused, "/dev/shm is in memory: name a folder on a disk");
        }
    }

    /// YCSB's ten operations are on ten rows; an approval has 97 bytes.
    #[test]
    fn an_endorsed_transaction_holds_what_it_read_and_writes() {
        let workload: Workload = "ycsb:rows=300:draw=exact:reads=50:writes=50".parse().unwrap();
        let [one, two] = [1, 2].map(|endorsers| sizes(&workload, 0.0, endorsers, 50).unwrap());
        assert_eq!(two.endorsed - one.endorsed, 97);
        assert_eq!(one.ordered, two.ordered);
        // A row that is changed in part is read, too.
        assert_eq!((one.rows_read, one.rows_written), (10.0, 5.0));
        // A read has a key of eight bytes and a stamp, a write its key and ten letters at least.
        let beside = (97 + 10 * (8 + 2) + 5 * (8 + 10)) as u64;
        assert!(one.endorsed > one.ordered + beside, "{one:?}");
    }
}
