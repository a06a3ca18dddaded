//! Static analysis alone (Fig. 4.18): no more runs in parallel than the graph has blocks side by
//! side.

use super::pieces::replay_pieces;
use super::task::Strategy;

pub const STRATEGY: Strategy = Strategy {
    name: "static-only",
    about: "one worker for each piece-set, one batch at a time",
    replay: |task, store, pool| replay_pieces(task, store, pool, false, 1),
};
