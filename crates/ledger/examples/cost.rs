//! What hashing, encoding and appending a block costs on this machine.
//!
//!     cargo run --release -p ledger --example cost [FOLDER]
//!
//! With a folder, also appends blocks of 10 transactions to logs there, each with its own
//! fdatasync: into space that was filled with zeros before, and to a file that grows each time.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ledger::hash::Hash;
use ledger::{
    Block, BlockSeal, EncodedBlock, Genesis, LogOptions, LogReader, LogWriter, Parameters,
    RealFiles, merkle,
};

const TRANSACTIONS: usize = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let transactions: Vec<Bytes> = parts(150);
    let outcomes: Vec<Bytes> = parts(40);
    let hashes: Vec<Hash> = transactions.iter().map(|leaf| merkle::leaf_hash(leaf)).collect();
    let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters: Parameters::new("serial") };
    let genesis = genesis.to_block()?;
    let block = follow(&genesis, transactions.clone(), outcomes.clone())?;
    let payload = block.encode()?.payload().clone();

    let per_transaction = |what: &str, time: Duration| {
        println!(
            "{what:<42} {:>8.1} ns a transaction",
            time.as_nanos() as f64 / TRANSACTIONS as f64
        );
    };
    per_transaction("root of 150-byte transactions", measure(|| merkle::root(&transactions)));
    per_transaction("root of 40-byte outcomes", measure(|| merkle::root(&outcomes)));
    per_transaction(
        "nodes of a tree alone",
        measure(|| {
            let mut builder = merkle::MerkleBuilder::new();
            hashes.iter().for_each(|hash| builder.push_hash(*hash));
            builder.root()
        }),
    );
    per_transaction(
        "seal (both roots) and encode",
        measure(|| {
            let block = follow(&genesis, transactions.clone(), outcomes.clone());
            block.and_then(|block| block.encode())
        }),
    );
    per_transaction("decode", measure(|| Block::decode(&payload)));
    per_transaction("record checksum", measure(|| ledger::segment::salted_crc(1, &payload)));
    println!("{:<42} {:>8} bytes", "encoded block", payload.len());
    if let Some(folder) = std::env::args().nth(1) {
        append(Path::new(&folder), genesis, transactions, outcomes)?;
    }
    Ok(())
}

fn parts(bytes: usize) -> Vec<Bytes> {
    (0..TRANSACTIONS).map(|n| vec![n as u8; bytes].into()).collect()
}

fn follow(
    previous: &Block,
    transactions: Vec<Bytes>,
    outcomes: Vec<Bytes>,
) -> types::Result<Block> {
    let header = &previous.header;
    let seal = BlockSeal {
        ledger_id: header.ledger_id,
        height: header.height + 1,
        previous_hash: header.hash(),
        time_us: header.time_us,
        snapshot_height: header.height,
        parameters_hash: header.parameters_hash,
        effects_root: header.effects_root,
    };
    Block::seal(seal, transactions, outcomes)
}

/// The best of several runs: what the work costs when nothing interferes.
fn measure<T>(mut work: impl FnMut() -> T) -> Duration {
    let run = |_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed()
    };
    (0..200).map(run).min().unwrap_or_default()
}

fn append(
    folder: &Path,
    genesis: Block,
    transactions: Vec<Bytes>,
    outcomes: Vec<Bytes>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut blocks = vec![genesis];
    for _ in 0..1_000 {
        let last = &blocks[blocks.len() - 1];
        let next = follow(last, transactions[..10].to_vec(), outcomes[..10].to_vec())?;
        blocks.push(next);
    }
    let blocks: Vec<EncodedBlock> = blocks.iter().map(Block::encode).collect::<Result<_, _>>()?;
    for (name, zero_fill_bytes) in [("zero-filled", 1 << 20), ("growing", 1)] {
        let options = LogOptions { zero_fill_bytes, ..LogOptions::default() };
        let times = append_all(&folder.join(name), &blocks, options)?;
        let percentile =
            |percent: usize| times[(times.len() - 1) * percent / 100].as_nanos() as f64 / 1e3;
        println!(
            "append and fdatasync, {name:<12} us: p50 {:.1}, p99 {:.1}, max {:.1}",
            percentile(50),
            percentile(99),
            percentile(100)
        );
    }
    Ok(())
}

/// How long each append took, ascending.
fn append_all(
    folder: &Path,
    blocks: &[EncodedBlock],
    options: LogOptions,
) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let mut reader = LogReader::open(Arc::new(RealFiles::open(folder)?))?;
    if reader.next_block()?.is_some() {
        return Err("the folder already holds a ledger".into());
    }
    let mut writer = LogWriter::resume(reader, options)?;
    let mut times = Vec::with_capacity(blocks.len());
    for block in blocks {
        let start = Instant::now();
        writer.append(std::slice::from_ref(block))?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}
