//! Replay in which batches overlap (PACMAN, Fig. 4.19, pipelined).
//!
//! A block of the graph goes on with its piece-set of the next batch as soon as it is done with
//! that of this one, and the blocks before it are done with the next. Each batch in flight is in
//! memory as a whole, so there are at most [`WINDOW`].

use super::pieces::replay_pieces;
use super::task::Strategy;

/// Batches in flight.
const WINDOW: usize = 4;

pub const STRATEGY: Strategy = Strategy {
    name: "pipelined",
    about: "piece-sets by key spaces, batches overlap block by block",
    replay: |task, store, pool| replay_pieces(task, store, pool, true, WINDOW),
};
