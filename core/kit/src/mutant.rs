//! Bugs on purpose, by name, for tests that must find them.
//!
//! One holds for one thread, while its guard lives: code asks [`mutated`] at the place of the bug.
//! So the tests of one process do not disturb each other. Without the feature `mutants` all of it
//! is empty and costs nothing.

/// Bugs of the values that a node is made of, and what each breaks.
pub const ALL: [&str; 10] = [
    // A block is released as soon as it is finished.
    "released_before_durable",
    // Blocks are prepared on a snapshot one older than their rules say.
    "lag_off_by_one",
    // Readers between blocks see one into which a later one overtakes.
    "unsafe_height_read",
    // A number that was used is run again.
    "repeats_run",
    // A start from a checkpoint knows no keys and numbers.
    "submissions_forgotten",
    // A start from a checkpoint knows nothing that was deferred.
    "deferred_forgotten",
    // A start from a checkpoint takes the rows of older states for those of the newest.
    "past_forgotten",
    // What was deferred keeps the program that it had, or none.
    "deferred_outdated",
    // A start keeps results whose orders a crash has taken.
    "results_believed",
    // A row that two steps of a block change is among the effects of the first alone.
    "steps_forgotten",
];

/// Bugs of the state tree, and what each breaks.
pub const TREE: [&str; 9] = [
    // Two pages that fit one stay two when rows are deleted.
    "tree_pages_not_joined",
    // A page takes more bytes than it may.
    "tree_pages_too_large",
    // A row that is written with the values that it had keeps its height.
    "tree_height_forgotten",
    // A row stays when it is deleted.
    "tree_row_not_deleted",
    // A branch keeps the hash of a side that has changed.
    "tree_hash_outdated",
    // Rows are put below a branch whose keys begin otherwise.
    "tree_key_misplaced",
    // A proof of a range hides its end.
    "tree_range_cut_short",
    // A comparison believes what a peer has not committed to.
    "tree_answer_believed",
    // A comparison does not see rows that only this side has.
    "tree_surplus_unseen",
];

/// Bugs of votes on results, and what each breaks.
pub const VOTES: [&str; 4] = [
    // A signature is taken for its member's.
    "votes_unchecked",
    // A member's second vote for a block takes the place of the first.
    "votes_taken_back",
    // Votes for different results are counted together.
    "votes_of_all_counted",
    // A height is signed again.
    "votes_signed_twice",
];

/// Bugs of what CometBFT asks its application, and what each breaks.
pub const COMET: [&str; 4] = [
    // A block that comes again is delivered again.
    "comet_replays_run",
    // A block is named as done of which CometBFT has kept no answer.
    "comet_info_ahead",
    // A proposed block holds all that waits.
    "comet_overfilled",
    // Blocks bear the times that they were proposed with.
    "comet_time_as_given",
];

/// Ends a bug when it is dropped.
#[must_use]
pub struct Guard(());

#[cfg(feature = "mutants")]
mod switched_on {
    use std::cell::Cell;

    thread_local! {
        static CURRENT: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// From now on, until the guard is dropped, this thread's code has this bug, or none.
    pub fn enter(mutant: Option<&'static str>) -> super::Guard {
        let known = |mutant| {
            let lists = [&super::ALL[..], &super::TREE, &super::VOTES, &super::COMET];
            lists.iter().any(|list| list.contains(&mutant))
        };
        assert!(mutant.is_none_or(known), "no mutant {mutant:?}");
        CURRENT.set(mutant);
        super::Guard(())
    }

    impl Drop for super::Guard {
        fn drop(&mut self) {
            CURRENT.set(None);
        }
    }

    pub fn mutated(mutant: &str) -> bool {
        CURRENT.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use switched_on::{enter, mutated};

/// Nothing.
///
/// # Panics
/// If there is to be a bug: this build has none.
#[cfg(not(feature = "mutants"))]
pub fn enter(mutant: Option<&'static str>) -> Guard {
    assert!(mutant.is_none(), "a build without the feature `mutants` cannot have {mutant:?}");
    Guard(())
}

#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn mutated(_: &str) -> bool {
    false
}
