//! A planned block: the queues, programs and board that planners hand to the workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use concurrency::{Block, PathCounts, Work};
use storage::Catalog;
use types::{Height, Value};

use super::board::{Board, Wait};
use super::directory::Directory;
use super::mutant::Mutant;
use super::plan::{Cut, Share};
use super::program::Program;

/// A planned block.
pub struct Batch {
    pub block: Arc<Block>,
    pub catalog: Arc<Catalog>,
    pub directory: Directory,
    pub shares: Vec<Share>,
    /// Share and queue of each place of the board.
    pub queues: Vec<(u32, u32)>,
    pub board: Board,
    /// By position: may be rolled back.
    pub tentative: Vec<AtomicBool>,
    /// By position: was rejected, for now.
    pub failed: Vec<AtomicBool>,
    pub speculates: bool,
    /// The block before.
    pub snapshot_height: Height,
    /// How the transactions were planned.
    pub paths: PathCounts,
    pub mutant: Option<Mutant>,
}

impl Batch {
    pub fn is_there(&self, wait: Wait) -> bool {
        match wait {
            Wait::Cell { share, cell } => {
                self.shares[share as usize].cells[cell as usize].get().is_some()
            }
            Wait::Whole { share, whole } => {
                self.shares[share as usize].wholes[whole as usize].done.load(Ordering::Acquire)
            }
        }
    }

    pub fn program(&self, cut: &Cut) -> &Program {
        let compiled = &self.directory.compiled[cut.compiled as usize];
        compiled.program.as_ref().expect("only a procedure with a program is cut")
    }

    pub fn arguments(&self, position: u32) -> &[Value] {
        match &*self.block.transactions[position as usize] {
            Work::Statement(statement) => &statement.arguments,
            _ => &[],
        }
    }
}
