//! What an open transaction has done outside of the ledger: advisory locks, channels,
//! notifications.

use types::{Error, Result, SqlState};

use super::shared_state::advisory::Wanted;
use super::shared_state::channels::{Change, Note};

/// What a transaction's notifications may take before they are sent.
const NOTES_BYTES_MAX: usize = super::shared_state::channels::QUEUED_BYTES_MAX / 4;

/// What an open transaction has done outside of the ledger.
#[derive(Default)]
pub struct SideEffects {
    pub(super) locks: Vec<Wanted>,
    pub(super) changes: Vec<Change>,
    pub(super) notes: Vec<Note>,
    pub(super) notes_bytes: usize,
}

/// A point of time in it.
#[derive(Clone, Copy)]
pub struct SideEffectsMark {
    locks: usize,
    changes: usize,
    notes: usize,
}

impl SideEffects {
    pub fn mark(&self) -> SideEffectsMark {
        let SideEffects { locks, changes, notes, .. } = self;
        SideEffectsMark { locks: locks.len(), changes: changes.len(), notes: notes.len() }
    }

    /// Forgets what came after; the locks among it, which are to be given back.
    pub fn return_to(&mut self, mark: SideEffectsMark) -> Vec<Wanted> {
        self.changes.truncate(mark.changes);
        self.notes.truncate(mark.notes);
        self.notes_bytes = self.notes.iter().map(Note::bytes).sum();
        self.locks.split_off(mark.locks)
    }

    pub fn notify(&mut self, note: Note) -> Result<()> {
        self.notes_bytes += note.bytes();
        if self.notes_bytes > NOTES_BYTES_MAX {
            let what = "too many notifications in one transaction";
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        self.notes.push(note);
        Ok(())
    }
}
