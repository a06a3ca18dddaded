//! With dynamic analysis (Fig. 4.19, synchronous): a piece-set keeps several workers busy, and
//! between batches all wait for the last.

use super::pieces::replay_pieces;
use super::task::Strategy;

pub const STRATEGY: Strategy = Strategy {
    name: "synchronous",
    about: "piece-sets by key spaces, one batch at a time",
    replay: |task, store, pool| replay_pieces(task, store, pool, true, 1),
};
