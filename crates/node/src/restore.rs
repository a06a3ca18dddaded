//! `tally restore`: the ledger as it was at a block or at a time, in a new folder.
//!
//! Blocks are copied one by one, as the chain they are, and then executed: what is restored has
//! been verified when the command ends, and has a checkpoint where its protocol allows one. The
//! folder that it comes from is only read. A node that goes on from there makes another ledger than
//! the original one, with the same blocks up to where they part.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use ledger::chain::ChainVerifier;
use ledger::hash::to_hex;
use ledger::{
    Block, EncodedBlock, Files, Hash, LogError, LogOptions, LogReader, LogWriter, RealFiles,
};
use serde_json::json;
use types::{DataType, Value};

use crate::cli::{self, Exit, Output};
use crate::database;
use crate::demo::progress::Progress;

/// Blocks are appended, and synced, in groups of so many bytes.
const GROUP_BYTES: usize = 4 << 20;

/// Up to where.
#[derive(Clone, Copy)]
enum Until {
    End,
    Block(u64),
    /// Microseconds since 2000-01-01 UTC.
    Time(i64),
}

impl Until {
    fn of(arguments: &cli::Restore) -> Result<Until> {
        if let Some(height) = arguments.to_block {
            return Ok(Until::Block(height));
        }
        let Some(text) = &arguments.to_time else {
            return Ok(Until::End);
        };
        match Value::read_text(&DataType::Timestamptz, text) {
            Ok(Value::Timestamptz(time_us)) => Ok(Until::Time(time_us)),
            _ => bail!("`{text}` is not a time such as 2026-01-31 23:59:59+00"),
        }
    }

    fn holds(self, block: &Block) -> bool {
        match self {
            Until::End => true,
            Until::Block(height) => block.header.height <= height,
            Until::Time(time_us) => block.header.time_us <= time_us,
        }
    }
}

pub fn run(arguments: &cli::Restore, output: Output) -> Result<Exit> {
    let until = Until::of(arguments)?;
    ensure!(is_new(&arguments.data)?, "{} is not empty", arguments.data.display());
    let source: Arc<dyn Files> = Arc::new(RealFiles::read_only(&arguments.from)?);
    let step = Progress::begin("copying blocks");
    let (height, hash) = copy(source, &arguments.data, until)?;
    step.end(&format!("up to block {height}"));
    if let Until::Block(wanted) = until {
        ensure!(height == wanted, "the ledger ends at block {height}, there is no block {wanted}");
    }
    let step = Progress::begin("executing them");
    let taken = database::settle(&arguments.data, &mut |progress| {
        step.advance(progress.blocks as f64 / height.max(1) as f64);
    })?;
    step.end("every hash, root and effect is as recorded");
    let checkpoint = taken.map(|taken| taken.height);
    match output {
        Output::Text => println!("height        {height}\nblock hash    {}", to_hex(&hash)),
        Output::Json => println!(
            "{}",
            json!({"height": height, "block_hash": to_hex(&hash), "checkpoint": checkpoint})
        ),
    }
    Ok(Exit::Ok)
}

fn is_new(folder: &Path) -> Result<bool> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| folder.display().to_string()),
    }
}

/// Copies the blocks from genesis on, and returns the last one's height and hash.
fn copy(source: Arc<dyn Files>, target: &Path, until: Until) -> Result<(u64, Hash)> {
    let mut reader = LogReader::open(source)?;
    let mut chain = ChainVerifier::new();
    let mut target = writer(target)?;
    let mut group: Vec<EncodedBlock> = Vec::new();
    let mut group_bytes = 0;
    loop {
        let encoded = match reader.next_block() {
            Ok(Some(encoded)) => encoded,
            Ok(None) | Err(LogError::TornTail(_)) => break,
            Err(error) => return Err(error.into()),
        };
        let block = encoded.decode()?;
        if !until.holds(&block) {
            break;
        }
        chain.push(&block)?;
        group_bytes += encoded.payload().len();
        group.push(encoded);
        if group_bytes >= GROUP_BYTES {
            target.append(&group)?;
            group.clear();
            group_bytes = 0;
        }
    }
    target.append(&group)?;
    let head = chain.head().context("there is no block up to there")?;
    Ok((head.height, head.hash))
}

fn writer(folder: &Path) -> Result<LogWriter> {
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(folder)?);
    let mut reader = LogReader::open(files)?;
    reader.next_block()?;
    Ok(LogWriter::resume(reader, LogOptions::default())?)
}
