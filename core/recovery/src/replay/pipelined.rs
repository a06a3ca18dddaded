//! With batches that overlap (Fig. 4.19, pipelined): a block goes on with the next batch as soon as
//! it is done with this one and the blocks before it are done with the next. Batches in flight are
//! few, since each is in memory as a whole.

use super::pieces::replay_pieces;
use super::task::Strategy;

/// Batches in flight.
const WINDOW: usize = 4;

pub const STRATEGY: Strategy = Strategy {
    name: "pipelined",
    about: "piece-sets by key spaces, batches overlap block by block",
    replay: |task, store, pool| replay_pieces(task, store, pool, true, WINDOW),
};
