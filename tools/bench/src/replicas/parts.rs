//! What machines consist of.

pub type Nanos = u64;

pub const SECOND: Nanos = 1_000_000_000;

/// One at a time, in the order of asking.
#[derive(Clone, Default, Debug)]
pub struct Server {
    free_at: Nanos,
    busy: Nanos,
}

impl Server {
    /// Ask now for so much work; the moment when it is done.
    pub fn take(&mut self, now: Nanos, work: Nanos) -> Nanos {
        self.free_at = self.free_at.max(now) + work;
        self.busy += work;
        self.free_at
    }

    pub fn busy(&self) -> Nanos {
        self.busy
    }
}

/// A log on disk: one sync at a time, for all that has come since the one before it began.
#[derive(Clone, Default, Debug)]
pub struct Log {
    waiting: Vec<usize>,
    in_sync: Vec<usize>,
    busy: Nanos,
}

impl Log {
    /// True: a sync has to begin.
    pub fn append(&mut self, batch: usize) -> bool {
        self.waiting.push(batch);
        self.in_sync.is_empty()
    }

    pub fn begin(&mut self, sync: Nanos) {
        debug_assert!(self.in_sync.is_empty());
        self.in_sync = std::mem::take(&mut self.waiting);
        self.busy += sync;
    }

    /// What is on disk now, and whether another sync has to begin.
    pub fn end(&mut self) -> (Vec<usize>, bool) {
        (std::mem::take(&mut self.in_sync), !self.waiting.is_empty())
    }

    pub fn busy(&self) -> Nanos {
        self.busy
    }
}
