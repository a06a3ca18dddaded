//! The access cache of healing: what one run read and wrote, in program order.

use types::Value;

use super::{Notes, Restorable};

/// The record of one run, used again for one after the other.
#[derive(Default, Debug)]
pub struct AccessCache {
    pub(super) events: Vec<Event>,
    /// Registers of turns of loops, at the end of the turn.
    pub(super) windows: Vec<Value>,
    /// Something was written twice, or seen through own writes: dependencies that registers do not
    /// tell.
    pub(super) tangled: bool,
    /// Room of an earlier record.
    pub(super) spare: Vec<Event>,
    /// Steps that ran again, of all corrections.
    pub steps_restored: u64,
    /// The last correction has made writes that were not there, or taken some back. Never so where
    /// all keys follow from the arguments and rows neither come nor go.
    pub writes_moved: bool,
    /// Tests of the tests: what depends on a step that ran again is left as it was.
    pub forgets_dependents: bool,
}

/// What ran, a structure before what is inside it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A step that touches data.
    Access {
        notes: Notes,
        emitted: u32,
    },
    Branch {
        taken: bool,
        falls_through: bool,
        extent: Extent,
    },
    /// Of a loop over rows, the query's access comes first.
    Loop {
        turns: u32,
        falls_through: bool,
        extent: Extent,
    },
    /// Its registers are at `window`.
    Turn {
        window: u32,
        falls_through: bool,
        extent: Extent,
    },
}

/// What lies inside a structure.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Extent {
    pub events: u32,
    pub notes: Notes,
    /// Rows of the result.
    pub emitted: u32,
}

impl AccessCache {
    /// Whether registers alone do not tell what depends on what.
    pub fn is_tangled(&self, access: &impl Restorable) -> bool {
        self.tangled || access.looked_at_own()
    }

    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.windows.clear();
        self.tangled = false;
        self.writes_moved = false;
    }
}

impl std::ops::Sub for Notes {
    type Output = Notes;

    fn sub(self, earlier: Notes) -> Notes {
        Notes {
            rows: self.rows - earlier.rows,
            gaps: self.gaps - earlier.gaps,
            writes: self.writes - earlier.writes,
        }
    }
}

impl std::ops::Add for Notes {
    type Output = Notes;

    fn add(self, later: Notes) -> Notes {
        Notes {
            rows: self.rows + later.rows,
            gaps: self.gaps + later.gaps,
            writes: self.writes + later.writes,
        }
    }
}
