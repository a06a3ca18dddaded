//! Values of sequences that a node has taken and not handed on, and those that a session has had.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use procedure::sequences::Run;
use rustc_hash::FxHashMap;
use types::{Error, Result, SqlState, TableId, Value};

use crate::schema::catalog::Catalog;

/// What this node has taken out of sequences and not handed on.
#[derive(Default)]
pub struct SequenceCaches(Mutex<FxHashMap<TableId, Arc<SequenceCache>>>);

#[derive(Default)]
pub(super) struct SequenceCache {
    /// Who fetches more, or sets the value.
    pub turn: tokio::sync::Mutex<()>,
    pub cached: Mutex<CachedValues>,
}

#[derive(Default)]
pub(super) struct CachedValues {
    /// Of the definition that they were taken under.
    pub version: i64,
    pub runs: VecDeque<Run>,
    /// How many were fetched the last time.
    pub fetched: u64,
}

impl SequenceCaches {
    pub fn of(&self, sequence: TableId) -> Arc<SequenceCache> {
        Arc::clone(self.0.lock().entry(sequence).or_default())
    }
}

impl CachedValues {
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    /// A definition of this version is known.
    pub fn outdate(&mut self, version: i64) {
        if version > self.version {
            *self = CachedValues { version, ..CachedValues::default() };
        }
    }

    /// All or nothing.
    pub fn take(&mut self, mut count: u64) -> Option<Vec<Run>> {
        if self.count() < count {
            return None;
        }
        let mut taken = Vec::with_capacity(1);
        while count > 0 {
            let run = self.runs.front_mut()?;
            let part = run.split_off_front(count);
            if run.count == 0 {
                self.runs.pop_front();
            }
            count -= part.count;
            taken.push(part);
        }
        Some(taken)
    }

    pub fn put(&mut self, run: Run, version: i64) {
        self.outdate(version);
        if version == self.version && run.count > 0 {
            self.runs.push_back(run);
        }
    }
}

/// What a session has had of sequences.
#[derive(Default)]
pub(super) struct Drawn {
    /// `None`: a value that the session does not know.
    pub values: FxHashMap<TableId, Option<i64>>,
    pub last: Option<TableId>,
}

impl Drawn {
    pub fn forget(&mut self) {
        *self = Drawn::default();
    }

    /// Some sequences were given up: their numbers may come to be those of others.
    pub fn keep_known(&mut self, catalog: &Catalog) {
        self.values.retain(|sequence, _| catalog.sequence_by_id(*sequence).is_some());
        self.last = self.last.filter(|sequence| self.values.contains_key(sequence));
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn note(&mut self, sequence: TableId, value: Option<i64>) {
        self.values.insert(sequence, value);
        self.last = Some(sequence);
    }

    pub fn current(&self, sequence: TableId) -> Result<Value> {
        let sequence = match sequence.0 {
            0 => self.last,
            _ => Some(sequence),
        };
        match sequence.and_then(|sequence| self.values.get(&sequence)) {
            None => Ok(Value::Null),
            Some(Some(value)) => Ok(Value::Int(*value)),
            Some(None) => Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the session does not know which value of the sequence it took last",
            )
            .with_detail("What ran in the block took as many as the data asked for.")
            .with_hint("Use RETURNING.")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: i64, count: u64) -> Run {
        Run { first, step: 1, count }
    }

    #[test]
    fn a_cache_gives_all_or_nothing_in_order() {
        let mut cached = CachedValues::default();
        cached.put(run(1, 2), 0);
        cached.put(run(10, 3), 0);
        assert_eq!(cached.take(6), None);
        assert_eq!(cached.take(3), Some(vec![run(1, 2), run(10, 1)]));
        assert_eq!(cached.take(2), Some(vec![run(11, 2)]));
        assert_eq!(cached.take(1), None);
    }

    #[test]
    fn what_was_taken_under_another_definition_is_not_handed_on() {
        let mut cached = CachedValues::default();
        cached.put(run(1, 9), 3);
        cached.outdate(4);
        assert_eq!(cached.take(1), None);
        cached.put(run(10, 9), 3);
        assert_eq!(cached.take(1), None, "it came late");
        cached.put(run(100, 9), 5);
        cached.outdate(4);
        assert_eq!(cached.take(1), Some(vec![run(100, 1)]));
    }
}
