//! Blocks on their way into a replica: read, checked by their bytes, and compiled.
//!
//! ```text
//!   disk ─► LogReader ─► decode ─► ChainVerifier ─► compile ─► [ some blocks ] ─► executed
//!              row logs ─► frames ───────────────────────────┘
//! ```
//!
//! With more than one worker this is done by a thread of its own, a few blocks ahead of execution.
//! What is compiled ahead is compiled under the schema of the newest block that was executed; a
//! schema change makes it wait, and nothing is compiled ahead until it has happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use ledger::chain::ChainVerifier;
use ledger::{Block, ChainFault, EncodedBlock, Hash, LogError, LogReader, TornTail};
use recovery::schemes::beside::RowReader;
use recovery::schemes::streams::Frame;
use types::Height;

use crate::language::Language;
use crate::replica::{Compiled, Input, compile_payload};
use crate::transaction::Transaction;

use super::compare::mismatch;
use super::{Fault, RowFolders};

/// A block whose bytes hold together.
pub(super) struct Item {
    pub block: Block,
    pub bytes: u64,
    /// It changes the schema or the parameters.
    pub alone: bool,
    pub inputs: Vec<Input>,
    /// What the row loggers have of it.
    pub frames: Option<Vec<Frame>>,
}

pub(super) struct Source<'a> {
    pub reader: &'a mut LogReader,
    pub chain: &'a mut ChainVerifier,
    pub language: Arc<dyn Language>,
    pub rows: Option<RowReader>,
    /// Why the row logs are not read any more, once they are not.
    pub rows_end: Option<String>,
    pub torn: Option<TornTail>,
    /// The last block that changes the schema, of those read.
    schema_changed: Height,
    done: &'a Done,
}

/// What the follower has come to, for whoever reads ahead of it.
#[derive(Default)]
pub(super) struct Done {
    /// The last block whose state is there.
    pub height: AtomicU64,
    /// Row logs were found wrong: blocks from now on are executed.
    pub refused_rows: AtomicBool,
}

impl<'a> Source<'a> {
    pub fn new(
        reader: &'a mut LogReader,
        chain: &'a mut ChainVerifier,
        language: Arc<dyn Language>,
        done: &'a Done,
    ) -> Source<'a> {
        let (rows, rows_end, torn, schema_changed) = (None, None, None, 0);
        Source { reader, chain, language, rows, rows_end, torn, schema_changed, done }
    }

    /// Row logs are read beside the blocks.
    pub fn with_rows(mut self, folders: &RowFolders) -> Source<'a> {
        let next = self.reader.next_height();
        match RowReader::open(folders, next) {
            Ok(rows) => self.rows = Some(rows),
            Err(error) => self.rows_end = Some(format!("the row logs cannot be read: {error}")),
        }
        self
    }

    /// `None`: the end, be it clean or torn.
    pub fn next(&mut self) -> Result<Option<Item>, Fault> {
        let encoded = match self.reader.next_block() {
            Ok(Some(encoded)) => encoded,
            Ok(None) => return Ok(None),
            Err(LogError::TornTail(tail)) => {
                self.torn = Some(tail);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let block = decode(&encoded)?;
        check_chain(self.chain, &block)?;
        let hash = encoded.hash();
        let height = block.header.height;
        let alone = match &block.transactions[..] {
            [only] => Transaction::decode(only).is_ok_and(|transaction| transaction.is_alone()),
            _ => false,
        };
        if alone {
            self.schema_changed = height;
        }
        let frames = if alone { None } else { self.frames(height, &hash) };
        let inputs = self.inputs(&block, alone || frames.is_some());
        Ok(Some(Item { bytes: encoded.payload().len() as u64, block, alone, inputs, frames }))
    }

    fn inputs(&self, block: &Block, as_they_are: bool) -> Vec<Input> {
        let executed = self.done.height.load(Ordering::Acquire);
        let compile = !as_they_are && executed >= self.schema_changed;
        let schema_version = self.language.schema_version();
        let input = |payload: &bytes::Bytes| {
            let compiled = compile.then(|| Compiled {
                work: Arc::new(compile_payload(&*self.language, payload)),
                schema_version,
            });
            Input { payload: payload.clone(), compiled }
        };
        block.transactions.iter().map(input).collect()
    }

    fn frames(&mut self, height: Height, block: &Hash) -> Option<Vec<Frame>> {
        if self.done.refused_rows.load(Ordering::Acquire) {
            self.rows = None;
        }
        let rows = self.rows.as_mut()?;
        let why = match rows.first() {
            Some(first) if first > height => return None,
            Some(_) => match rows.next(height, block) {
                Ok(frames) => return Some(frames),
                Err(why) => why,
            },
            None => "some logger has no row log".to_owned(),
        };
        self.rows_end = Some(why);
        self.rows = None;
        None
    }

    /// Hands all there is to `to`, until nobody wants it any more.
    pub fn run(&mut self, to: &SyncSender<Result<Item, Fault>>) {
        while let Some(item) = self.next().transpose() {
            let last = item.is_err();
            if to.send(item).is_err() || last {
                return;
            }
        }
    }
}

pub(super) fn decode(encoded: &EncodedBlock) -> Result<Block, Fault> {
    encoded.decode().map_err(|error| {
        mismatch(encoded.height(), "the block's encoding", "a block", error.to_string())
    })
}

pub(super) fn check_chain(chain: &mut ChainVerifier, block: &Block) -> Result<(), Fault> {
    match chain.push(block) {
        Ok(_) => Ok(()),
        Err(ChainFault { height, what, expected, found }) => {
            Err(mismatch(height, what, &expected, found))
        }
    }
}
