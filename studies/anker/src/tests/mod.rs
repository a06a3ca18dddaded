//! The study's oracle: walk-through, techniques, small worlds, threads, schedules, seeded bugs.

#[cfg(not(shuttle))]
mod areas;
#[cfg(not(shuttle))]
mod configurations;
mod history;
#[cfg(not(shuttle))]
mod mutants;
#[cfg(shuttle)]
mod schedules;
#[cfg(not(shuttle))]
mod small_worlds;
#[cfg(not(shuttle))]
mod threads;
#[cfg(not(shuttle))]
mod walk_through;

/// One test for each technique.
#[cfg(not(shuttle))]
macro_rules! on_every_area {
    ($claim:ident, $check:ident) => {
        mod $claim {
            use crate::areas::{Physical, Private, Rewired, Slabs};

            #[test]
            fn physical() {
                super::$check::<Physical>();
            }

            #[test]
            fn private() {
                super::$check::<Private>();
            }

            #[test]
            fn rewired() {
                super::$check::<Rewired>();
            }

            #[test]
            fn slabs() {
                super::$check::<Slabs>();
            }
        }
    };
}

#[cfg(not(shuttle))]
use on_every_area;
