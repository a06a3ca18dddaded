//! Independent pieces of work on all cores: what long tests and tools spread.

use std::sync::{Mutex, PoisonError};

/// Acts on every item, on as many threads as there are cores; which thread takes which item, and in
/// which order they end, is open. Panics if acting on one does, when all threads have ended.
pub fn for_each<I>(items: I, act: impl Fn(I::Item) + Sync)
where
    I: IntoIterator<IntoIter: Send>,
{
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(item) = next() {
                    act(item);
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn every_item_has_its_turn_once() {
        let seen = Mutex::new(Vec::new());
        for_each(0..100, |n| seen.lock().unwrap().push(n));
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.len(), 100);
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), (0..100).collect());
    }

    #[test]
    fn a_panic_is_handed_on() {
        assert!(catch_unwind(|| for_each([1, 2, 3], |n| assert_ne!(n, 2))).is_err());
    }
}
