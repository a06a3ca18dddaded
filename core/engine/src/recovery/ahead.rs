//! Read-ahead for recovery: reads blocks, verifies their bytes and compiles their requests.
//!
//! ```text
//!   disk ─► BlockReader ─► decode ─► ChainVerifier ─► compile ─► [ a few blocks ] ─► execution
//!              row logs ─► frames ───────────────────────────┘
//! ```
//!
//! With more than one worker this runs in its own thread, a few blocks ahead of execution. Requests
//! are compiled under the schema of the newest executed block. After a block that changes the
//! schema, blocks are therefore passed on uncompiled until that block has been executed.
//!
//! The reader stays a few orders ahead of the block that it passes on, since a later block may
//! [skip](replica::skip) an earlier one. At a block that [fails](crate::watchdog) and is not
//! skipped, it stops passing blocks on, but reads to the end.
//!
//! Where several nodes take part in ordering, an order without a result may not be agreed yet. It
//! is counted and not passed on; the orderer will deliver it again or withdraw it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use bytes::Bytes;
use ledger::chain::ChainVerifier;
use ledger::{
    Batch, BlockReader, BlockResult, ChainFault, Hash, LogError, OrderHeader, Record, Recorded,
    TornTail,
};
use pipeline::Barrier;
use recovery::schemes::row_logs::RowReader;
use recovery::schemes::streams::Frame;
use replica::skip::Skip;
use replica::{Body, Compiled, Language, compile_request, skip};
use types::Height;

use crate::client::Request;
use crate::stopped::Stopped;
use crate::watchdog::{Failing, Watchdog};

use super::compare::mismatch;
use super::{Fault, RowFolders};

/// A block whose bytes hold together.
pub(super) struct Item {
    pub batch: Batch,
    /// `None`: the ledger ends with its order.
    pub result: Option<BlockResult>,
    pub bytes: u64,
    /// It changes the schema or the parameters, or is skipped.
    pub stops: bool,
    /// The envelope of a later block that skips this one.
    pub skipped_by: Option<Bytes>,
    pub requests: Vec<Request>,
    /// What the row loggers have of it.
    pub frames: Option<Vec<Frame>>,
}

/// A block that was read, and is not handed on yet.
struct Waiting {
    batch: Batch,
    result: Option<BlockResult>,
    bytes: u64,
    skipped_by: Option<Bytes>,
}

pub(super) struct Source<'a> {
    pub reader: &'a mut BlockReader,
    pub chain: &'a mut ChainVerifier,
    pub language: Arc<dyn Language>,
    pub rows: Option<RowReader>,
    /// Why the row logs are not read any more, once they are not.
    pub rows_end: Option<String>,
    pub torn: Option<TornTail>,
    pub stopped: Option<Stopped>,
    /// Whether an order without a result may yet be taken back; how many of these there are.
    pub others_confirm: bool,
    pub unconfirmed: u64,
    watchdog: Option<&'a Watchdog>,
    failing: Option<Failing>,
    waiting: VecDeque<Waiting>,
    /// What was met after them.
    end: Option<Result<(), Fault>>,
    /// The last block that changes the schema, of those read.
    schema_changed: Height,
    done: &'a Done,
}

/// What the follower has come to, for the thread that reads ahead of it.
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
        Source {
            reader,
            chain,
            language,
            rows: None,
            rows_end: None,
            torn: None,
            stopped: None,
            others_confirm: false,
            unconfirmed: 0,
            watchdog: None,
            failing: None,
            waiting: VecDeque::new(),
            end: None,
            schema_changed: 0,
            done,
        }
    }

    /// Stops before a block that fails.
    pub fn watched(self, watchdog: Option<&'a Watchdog>) -> Source<'a> {
        let failing = watchdog.and_then(Watchdog::failing);
        Source { watchdog, failing, ..self }
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

    /// `None`: the end, be it clean or torn, or a block that fails.
    pub fn next(&mut self) -> Result<Option<Item>, Fault> {
        while self.end.is_none() && self.waiting.len() <= skip::BLOCKS_MAX as usize {
            match self.read() {
                Ok(Some(read)) => self.waiting.push_back(read),
                Ok(None) => self.end = Some(Ok(())),
                Err(fault) => self.end = Some(Err(fault)),
            }
        }
        let Some(next) = self.waiting.pop_front() else {
            return self.end.replace(Ok(())).unwrap_or(Ok(())).map(|()| None);
        };
        if let Some(failing) = self.failing.take_if(|failing| fails(failing, &next)) {
            self.stop(failing, next)?;
            return Ok(None);
        }
        Ok(Some(self.item(next)))
    }

    fn read(&mut self) -> Result<Option<Waiting>, Fault> {
        let mut next = self.reader.next();
        while let Ok(Some(Recorded { result: None, .. })) = next
            && self.others_confirm
        {
            self.unconfirmed += 1;
            next = self.reader.next();
        }
        let recorded = match next {
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
        if let Some(Skip { first, order }) = Skip::in_batch(&batch) {
            let is_first = |it: &Waiting| it.batch.height() == first && it.batch.hash() == order;
            let from = self.waiting.iter().position(is_first).unwrap_or(self.waiting.len());
            let by = batch.envelopes().first();
            self.waiting.range_mut(from..).for_each(|it| it.skipped_by = by.cloned());
        }
        let bytes = recorded.batch.payload().len() as u64;
        let bytes = bytes + recorded.result.map_or(0, |result| result.payload().len() as u64);
        Ok(Some(Waiting { batch, result, bytes, skipped_by: None }))
    }

    fn item(&mut self, Waiting { batch, result, bytes, skipped_by }: Waiting) -> Item {
        let (height, hash) = (batch.height(), batch.hash());
        let mut requests: Vec<Request> =
            batch.envelopes().iter().cloned().map(Request::of_bytes).collect();
        let stops = skipped_by.is_some() || requests.iter().any(|it| it.barrier != Barrier::None);
        if stops {
            self.schema_changed = height;
        }
        let frames = if stops { None } else { self.frames(height, &hash) };
        let is_careful = self.watchdog.is_some_and(Watchdog::is_careful);
        if !stops && frames.is_none() && !is_careful {
            let _running = self.watchdog.map(|watchdog| watchdog.begin(height, hash));
            // One that panics here will where it is executed, and is told there.
            let _ = catch_unwind(AssertUnwindSafe(|| self.compile(&mut requests)));
        }
        Item { batch, result, bytes, stops, skipped_by, requests, frames }
    }

    /// Goes on to the end of the ledger, whose next block fails.
    fn stop(&mut self, failing: Failing, next: Waiting) -> Result<(), Fault> {
        let order = next.batch.header().clone();
        let mut last = match self.waiting.drain(..).last() {
            Some(waiting) => waiting.batch.header().clone(),
            None => order.clone(),
        };
        while self.end.is_none() {
            match self.read()? {
                Some(read) => last = read.batch.header().clone(),
                None => self.end = Some(Ok(())),
            }
        }
        self.end.replace(Ok(())).unwrap_or(Ok(()))?;
        let is_recorded = next.result.is_some();
        let transaction = single(&next.batch);
        self.stopped = Some(Stopped { failing, order, last, is_recorded, transaction });
        Ok(())
    }

    fn compile(&self, requests: &mut [Request]) {
        if self.done.height.load(Ordering::Acquire) < self.schema_changed {
            return;
        }
        let schema_version = self.language.schema_version();
        for request in requests {
            let work = Arc::new(compile_request(&*self.language, &request.envelope));
            request.compiled = Some(Compiled { work, schema_version, agreed: false });
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

    /// Hands all there is to `to`, until its receiver is gone.
    pub fn run(&mut self, to: &SyncSender<Result<Item, Fault>>) {
        while let Some(item) = self.next().transpose() {
            let last = item.is_err();
            if to.send(item).is_err() || last {
                return;
            }
        }
    }
}

fn fails(failing: &Failing, next: &Waiting) -> bool {
    let OrderHeader { height, .. } = *next.batch.header();
    next.skipped_by.is_none() && height == failing.height && next.batch.hash() == failing.order
}

/// What a batch of one transaction is about.
fn single(batch: &Batch) -> Option<String> {
    let [envelope] = batch.envelopes() else { return None };
    let body = order::View::read(envelope).and_then(|view| Body::from_request(view.request));
    Some(body.map_or_else(|_| "unreadable".to_owned(), |body| body.describe()))
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
