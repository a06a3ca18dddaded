//! What hashing, encoding and appending a block costs on this machine.
//!
//!     cargo run --release -p ledger --example ledger_cost [FOLDER]
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
    Batch, Block, BlockReader, BlockResult, BlockWriter, EffectsBuilder, Genesis, LogOptions,
    OrderSeal, Parameters, RealFiles, Record, ResultSeal, ZERO_HASH, merkle,
};

const TRANSACTIONS: usize = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let envelopes: Vec<Bytes> = parts(150);
    let outcomes: Vec<Bytes> = parts(40);
    let hashes: Vec<Hash> = envelopes.iter().map(|leaf| merkle::leaf_hash(leaf)).collect();
    let parameters = Parameters::new("serial");
    let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: 1 };
    let genesis = genesis.to_block()?;
    let batch = order(&genesis, envelopes.clone())?;
    let (payload, hash) = (batch.encode()?.payload().clone(), batch.hash());
    let result = execute(&genesis, hash, outcomes.clone())?;
    let result_payload = result.encode()?.payload().clone();

    let per_transaction = |what: &str, time: Duration| {
        println!(
            "{what:<42} {:>8.1} ns a transaction",
            time.as_nanos() as f64 / TRANSACTIONS as f64
        );
    };
    per_transaction("root of 150-byte envelopes", measure(|| merkle::root(&envelopes)));
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
        "seal and encode a batch",
        measure(|| order(&genesis, envelopes.clone()).and_then(|batch| batch.encode())),
    );
    per_transaction(
        "seal and encode a result",
        measure(|| execute(&genesis, hash, outcomes.clone()).and_then(|result| result.encode())),
    );
    per_transaction("decode a batch", measure(|| Batch::decode(&payload)));
    per_transaction("decode a result", measure(|| BlockResult::decode(&result_payload)));
    per_transaction("record checksum", measure(|| ledger::segment::salted_crc(1, &payload)));
    println!("{:<42} {:>8} bytes", "encoded batch", payload.len());
    println!("{:<42} {:>8} bytes", "encoded result", result_payload.len());
    if let Some(folder) = std::env::args().nth(1) {
        append(Path::new(&folder), genesis, envelopes, outcomes)?;
    }
    Ok(())
}

fn parts(bytes: usize) -> Vec<Bytes> {
    (0..TRANSACTIONS).map(|n| vec![n as u8; bytes].into()).collect()
}

fn order(previous: &Block, envelopes: Vec<Bytes>) -> types::Result<Batch> {
    let header = previous.batch.header();
    let seal = OrderSeal {
        ledger_id: header.ledger_id,
        height: header.height + 1,
        previous_order_hash: previous.batch.hash(),
        time_us: header.time_us,
        proposer: ZERO_HASH,
        parameters_hash: header.parameters_hash,
        seen_height: 0,
    };
    Batch::seal(seal, envelopes)
}

fn execute(previous: &Block, order_hash: Hash, outcomes: Vec<Bytes>) -> types::Result<BlockResult> {
    let header = previous.result.header();
    let seal = ResultSeal {
        ledger_id: header.ledger_id,
        height: header.height + 1,
        previous_result_hash: previous.hash(),
        order_hash,
        snapshot_height: header.height,
        executor: 1,
        effects: EffectsBuilder::new().digest(),
        reorderings: 0,
        carried_root: ZERO_HASH,
        state_root: ZERO_HASH,
    };
    BlockResult::seal(seal, outcomes, Vec::new())
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
    envelopes: Vec<Bytes>,
    outcomes: Vec<Bytes>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut blocks = vec![genesis];
    for _ in 0..1_000 {
        let last = &blocks[blocks.len() - 1];
        let batch = order(last, envelopes[..10].to_vec())?;
        let result = execute(last, batch.hash(), outcomes[..10].to_vec())?;
        blocks.push(Block { batch, result });
    }
    let encode = |block: &Block| Ok((block.batch.encode()?, block.result.encode()?));
    let blocks = blocks.iter().map(encode).collect::<types::Result<Vec<_>>>()?;
    for (name, zero_fill_bytes) in [("zero-filled", 1 << 20), ("growing", 1)] {
        let options = LogOptions { zero_fill_bytes, ..LogOptions::default() };
        let times = append_all(&folder.join(name), &blocks, options)?;
        let percentile =
            |percent: usize| times[(times.len() - 1) * percent / 100].as_nanos() as f64 / 1e3;
        println!(
            "append order and result, fdatasync the order, {name:<12} us: p50 {:.1}, p99 {:.1}, max {:.1}",
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
    blocks: &[(Record, Record)],
    options: LogOptions,
) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let mut reader = BlockReader::open(Arc::new(RealFiles::open(folder)?))?;
    if reader.next()?.is_some() {
        return Err("the folder already holds a ledger".into());
    }
    let mut writer = BlockWriter::resume(reader, options)?;
    let mut times = Vec::with_capacity(blocks.len());
    for (order, result) in blocks {
        let start = Instant::now();
        writer.append_order(std::slice::from_ref(order))?;
        writer.append_results(std::slice::from_ref(result))?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}
