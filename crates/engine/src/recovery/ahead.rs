//! Blocks on their way into a replica: read, checked by their bytes, and compiled.
//!
//! ```text
//!   disk ─► BlockReader ─► decode ─► ChainVerifier ─► compile ─► [ some blocks ] ─► executed
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
use ledger::{Batch, BlockReader, BlockResult, ChainFault, Hash, LogError, Record, TornTail};
use recovery::schemes::beside::RowReader;
use recovery::schemes::streams::Frame;
use types::Height;

use crate::language::Language;
use pipeline::Barrier;

use crate::replica::compile_request;
use crate::request::{Compiled, Request};

use super::compare::mismatch;
use super::{Fault, RowFolders};

/// A block whose bytes hold together.
pub(super) struct Item {
    pub batch: Batch,
    /// `None`: the ledger ends with its order.
    pub result: Option<BlockResult>,
    pub bytes: u64,
    /// It changes the schema or the parameters.
    pub stops: bool,
    pub requests: Vec<Request>,
    /// What the row loggers have of it.
    pub frames: Option<Vec<Frame>>,
}

pub(super) struct Source<'a> {
    pub reader: &'a mut BlockReader,
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
        reader: &'a mut BlockReader,
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
        let recorded = match self.reader.next() {
            Ok(Some(recorded)) => recorded,
            Ok(None) => return Ok(None),
            Err(LogError::TornTail(tail)) => {
                self.torn = Some(tail);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let (batch, result) = decode(&recorded.batch, recorded.result.as_ref())?;
        check_chain(self.chain, &batch, result.as_ref())?;
        let (height, hash) = (batch.height(), batch.hash());
        let mut requests: Vec<Request> =
            batch.envelopes().iter().cloned().map(Request::of_bytes).collect();
        let stops = requests.iter().any(|request| request.barrier != Barrier::None);
        if stops {
            self.schema_changed = height;
        }
        let frames = if stops { None } else { self.frames(height, &hash) };
        if !stops && frames.is_none() {
            self.compile(&mut requests);
        }
        let bytes = recorded.batch.payload().len() as u64;
        let bytes = bytes + recorded.result.map_or(0, |result| result.payload().len() as u64);
        Ok(Some(Item { batch, result, bytes, stops, requests, frames }))
    }

    fn compile(&self, requests: &mut [Request]) {
        if self.done.height.load(Ordering::Acquire) < self.schema_changed {
            return;
        }
        let schema_version = self.language.schema_version();
        for request in requests {
            let work = Arc::new(compile_request(&*self.language, &request.envelope));
            request.compiled = Some(Compiled { work, schema_version });
        }
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

pub(super) fn decode(
    batch: &Record,
    result: Option<&Record>,
) -> Result<(Batch, Option<BlockResult>), Fault> {
    let fault = |what| {
        move |error: types::Error| {
            mismatch(batch.height(), what, "canonical bytes", error.to_string())
        }
    };
    let result = result.map(BlockResult::of).transpose().map_err(fault("the result's encoding"))?;
    Ok((Batch::of(batch).map_err(fault("the order's encoding"))?, result))
}

pub(super) fn check_chain(
    chain: &mut ChainVerifier,
    batch: &Batch,
    result: Option<&BlockResult>,
) -> Result<(), Fault> {
    match chain.push(batch, result) {
        Ok(_) => Ok(()),
        Err(ChainFault { height, what, expected, found }) => {
            Err(mismatch(height, what, &expected, found))
        }
    }
}
