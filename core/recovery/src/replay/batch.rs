//! A batch on its way (its terms: [`replay`](super)): blocks of the ledger, their transactions cut
//! into pieces, the pieces put into piece-sets, and how a piece is run.
//!
//! A value that one piece makes for another of its transaction is kept with the transaction and
//! written once. The graph of pieces runs the reader after the writer, so the value is there.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use concurrency::{Prefetching, Work};
use procedure::step::Procedure;
use procedure::{Budget, Frame, Meter};
use storage::{Catalog, UndoArena};
use types::{Stamp, Stop, Value};

use super::access::{PieceAccess, Trace};
use super::dynamic::{Plan, Planner, Spaces};
use crate::analysis::{Analysis, Piece};
use crate::log::{Commit, Entry, Known, LoggedBlock, each_part};
use crate::mutant::Mutant;

/// A log and its analysis.
pub struct Prepared {
    pub log: Arc<[LoggedBlock]>,
    pub analysis: Analysis,
    pub(crate) known: Known,
    pub catalog: Arc<Catalog>,
    pub mutant: Option<Mutant>,
}

/// Some blocks of a log, ready to be replayed.
pub struct Batch {
    transactions: Vec<Running>,
    /// By block of the graph, in commit order.
    pub sets: Vec<Vec<Item>>,
}

/// A transaction whose pieces are run.
struct Running {
    /// In the log.
    block: usize,
    commit: usize,
    stamp: Stamp,
    now_us: i64,
    /// Of a transaction whose pieces are run apart.
    program: Option<usize>,
    /// By piece of the program.
    traces: Box<[OnceLock<Trace>]>,
}

/// A piece, or a row that was logged.
#[derive(Clone, Copy)]
pub struct Item {
    /// In the batch.
    transaction: u32,
    row: Option<u32>,
}

/// What a worker runs pieces with.
pub struct Tools {
    frame: Frame,
    spaces: Spaces,
    scratch: Vec<Value>,
    prefetching: Prefetching,
}

impl Prepared {
    pub fn tools(&self) -> Tools {
        let transactions = self.log.iter().map(|logged| logged.commits.len()).sum();
        Tools {
            frame: Frame::metered(Meter::of(Budget::UNBOUNDED)),
            spaces: Spaces::default(),
            scratch: Vec::new(),
            prefetching: Prefetching::new(Arc::clone(&self.catalog), transactions),
        }
    }

    fn commit(&self, running: &Running) -> (&LoggedBlock, &Commit) {
        let logged = &self.log[running.block];
        (logged, &logged.commits[running.commit])
    }

    /// The transactions of some blocks of the log, put into piece-sets.
    pub fn load(&self, blocks: Range<usize>) -> Batch {
        let sets = vec![Vec::new(); self.analysis.blocks.len()];
        let mut batch = Batch { transactions: Vec::new(), sets };
        for block in blocks {
            for commit in 0..self.log[block].commits.len() {
                self.load_one(block, commit, &mut batch);
            }
        }
        batch
    }

    fn load_one(&self, block: usize, commit: usize, batch: &mut Batch) {
        let logged = &self.log[block];
        let of_block = &logged.commits[commit];
        let work = logged.work(of_block);
        let transaction = batch.transactions.len() as u32;
        let mut running = Running {
            block,
            commit,
            stamp: Stamp::new(logged.block.height, of_block.position),
            now_us: work.now_us(logged.block.time_us),
            program: None,
            traces: Box::default(),
        };
        match &of_block.entry {
            Entry::Rows(rows) => {
                for (row, write) in rows.iter().enumerate() {
                    let home = self.analysis.block_of_table.get(&write.table);
                    let item = Item { transaction, row: Some(row as u32) };
                    batch.sets[home.copied().unwrap_or(0)].push(item);
                }
            }
            Entry::Command => {
                let item = Item { transaction, row: None };
                match work.as_ref() {
                    Work::Statement(statement) => {
                        self.load_apart(&statement.procedure, &mut running, item, batch);
                    }
                    _ => self.load_together(work, item, batch),
                }
            }
        }
        batch.transactions.push(running);
    }

    /// A call, which has one piece at most in each block of the graph.
    fn load_apart(
        &self,
        procedure: &Arc<Procedure>,
        running: &mut Running,
        item: Item,
        batch: &mut Batch,
    ) {
        let Some(at) = self.known.get(&(Arc::as_ptr(procedure).addr(), true)) else {
            return;
        };
        let pieces = &self.analysis.programs[*at].pieces;
        running.program = Some(*at);
        if pieces.iter().any(|piece| !piece.exports.is_empty()) {
            running.traces = pieces.iter().map(|_| OnceLock::new()).collect();
        }
        pieces.iter().for_each(|piece| batch.sets[piece.block].push(item));
    }

    /// A transaction of several calls, which is one item in each block that any of them is in.
    fn load_together(&self, work: &Work, item: Item, batch: &mut Batch) {
        let mut blocks = BTreeSet::new();
        each_part(work, &mut |procedure, _| {
            if let Some(at) = self.known.get(&(Arc::as_ptr(procedure).addr(), false)) {
                let pieces = &self.analysis.programs[*at].pieces;
                blocks.extend(pieces.iter().map(|piece| piece.block));
            }
        });
        blocks.into_iter().for_each(|block| batch.sets[block].push(item));
    }

    /// Which pieces of a piece-set may run beside each other.
    pub fn plan(&self, batch: &Batch, set: usize, tools: &mut Tools) -> Plan {
        let mut planner = Planner::new(self.mutant);
        for item in &batch.sets[set] {
            let Tools { frame, spaces, scratch, .. } = tools;
            spaces.clear();
            let running = &batch.transactions[item.transaction as usize];
            let moment = (running.stamp, running.now_us);
            let mut access = PieceAccess::new(&self.catalog, None, moment, spaces, scratch);
            if self.note(running, item.row, set, frame, &mut access).is_err() {
                // It cannot be told before it runs.
                spaces.note_any();
            }
            planner.add(spaces);
        }
        planner.finish()
    }

    fn note<'a>(
        &'a self,
        running: &'a Running,
        row: Option<u32>,
        set: usize,
        frame: &mut Frame,
        access: &mut PieceAccess<'a>,
    ) -> Result<(), Stop> {
        let (logged, commit) = self.commit(running);
        if let (Entry::Rows(rows), Some(row)) = (&commit.entry, row) {
            self.analysis.note_row(&rows[row as usize], access.spaces);
            return Ok(());
        }
        self.each_piece(running, logged.work(commit), set, &mut |piece, arguments| {
            let Some(notes) = &piece.notes else {
                return Ok(());
            };
            access.enter(&piece.recalls, &running.traces, &[]);
            procedure::run(notes, arguments, frame, access).map(drop)
        })
    }

    /// Runs a piece, or puts back a row.
    pub fn run(
        &self,
        batch: &Batch,
        set: usize,
        item: Item,
        undo: &mut UndoArena,
        tools: &mut Tools,
    ) -> Result<(), String> {
        let running = &batch.transactions[item.transaction as usize];
        let Tools { frame, spaces, scratch, .. } = tools;
        let moment = (running.stamp, running.now_us);
        let mut access = PieceAccess::new(&self.catalog, Some(undo), moment, spaces, scratch);
        let (logged, commit) = self.commit(running);
        let run = match (&commit.entry, item.row) {
            (Entry::Rows(rows), Some(row)) => access.put(&rows[row as usize]),
            _ => self.each_piece(running, logged.work(commit), set, &mut |piece, arguments| {
                access.enter(&piece.recalls, &running.traces, &piece.exports);
                procedure::run(&piece.program, arguments, frame, &mut access).map(drop)
            }),
        };
        run.map_err(|stop| self.failed(running, stop))?;
        let trace = std::mem::take(&mut access.exported);
        self.hand_on(running, set, trace);
        Ok(())
    }

    /// Has what the first pieces will touch fetched, while others run.
    pub fn fetch(
        &self,
        batch: &Batch,
        set: usize,
        places: impl Iterator<Item = u32>,
        tools: &mut Tools,
    ) {
        let calls = places.filter_map(|place| {
            let running = &batch.transactions[batch.sets[set][place as usize].transaction as usize];
            let piece = self.analysis.piece(running.program?, set)?;
            let (logged, commit) = self.commit(running);
            match logged.work(commit).as_ref() {
                Work::Statement(statement) => Some((&piece.keys, &*statement.arguments)),
                _ => None,
            }
        });
        tools.prefetching.fetch_calls(calls);
    }

    fn each_piece<'a>(
        &'a self,
        running: &Running,
        work: &'a Work,
        set: usize,
        visit: &mut dyn FnMut(&'a Piece, &'a [Value]) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if let (Some(program), Work::Statement(statement)) = (running.program, work) {
            let piece = self.analysis.piece(program, set);
            return piece.map_or(Ok(()), |piece| visit(piece, &statement.arguments));
        }
        let mut result = Ok(());
        each_part(work, &mut |procedure, arguments| {
            let program = self.known.get(&(Arc::as_ptr(procedure).addr(), false));
            let piece = program.and_then(|program| self.analysis.piece(*program, set));
            if let (Ok(()), Some(piece)) = (&result, piece) {
                result = visit(piece, arguments);
            }
        });
        result
    }

    fn hand_on(&self, running: &Running, set: usize, trace: Trace) {
        if let (Some(program), false) = (running.program, trace.0.is_empty()) {
            let pieces = &self.analysis.programs[program].pieces;
            if let Some(at) = pieces.iter().position(|piece| piece.block == set) {
                // A piece runs once.
                let _ = running.traces[at].set(trace);
            }
        }
    }

    fn failed(&self, running: &Running, stop: Stop) -> String {
        let (height, position) = (running.stamp.height(), running.stamp.position());
        let why = match stop {
            Stop::Rejected(error) | Stop::Retry(error) => error.to_string(),
            Stop::Halt(why) => why,
        };
        format!("block {height}, transaction {position}, which had committed, fails: {why}")
    }
}
