//! Where a session's random values come from.
//!
//! What may be ordered draws from a seed that goes along in its envelope, so that every replica
//! draws the same: a statement by itself has one of its own, an interactive transaction one for all
//! of its writing statements, from BEGIN on. So what they answered is drawn again in the block.
//! What only reads, and the arguments of a call, which the ledger holds as values, draw from seeds
//! that nothing keeps.
//!
//! *Cost.* One system call for a statement or argument that draws, and for a BEGIN.

use engine::Seed;
use procedure::draws::Draws;
use rustix::rand::{GetRandomFlags, getrandom};
use types::{Error, Result, SqlState};

/// Where nothing is drawn.
pub(super) const NO_SEED: Seed = [0; 16];

pub(super) fn new_seed() -> Result<Seed> {
    let mut seed = NO_SEED;
    match getrandom(&mut seed, GetRandomFlags::empty()) {
        Ok(16) if seed != NO_SEED => Ok(seed),
        _ => Err(Error::new(SqlState::IO_ERROR, "the system has no random numbers")),
    }
}

/// What an envelope says of a transaction that has drawn so much.
pub(super) fn seed_of(draws: &Draws) -> Seed {
    if draws.lanes() > 0 { draws.seed() } else { NO_SEED }
}
