//! The undo arenas of a block, one for each worker, which allocate undo versions from them without
//! waiting for each other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use storage::{BlockWrites, UndoArena};

pub struct Arenas(Vec<Mutex<UndoArena>>);

impl Arenas {
    pub fn of(writes: &mut BlockWrites) -> Arc<Arenas> {
        Arc::new(Arenas(writes.take().into_iter().map(Mutex::new).collect()))
    }

    /// The worker's own, for as long as it works.
    pub fn lock(&self, worker: usize) -> MutexGuard<'_, UndoArena> {
        self.0[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called when the job is done.
    ///
    /// # Panics
    /// The job still has them.
    pub fn give_back(self: Arc<Self>, writes: &mut BlockWrites) {
        let arenas = Arc::into_inner(self).expect("the pool has let go of a finished job");
        for arena in arenas.0 {
            writes.give(arena.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
    }
}
