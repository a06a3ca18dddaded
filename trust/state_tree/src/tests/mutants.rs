//! Bugs on purpose: each is found by the oracles, which find nothing without one.

use super::{comparing, histories, proving};

fn all(seed: u64) -> Result<(), String> {
    histories::history(seed, 1)?;
    proving::ranges(seed)?;
    comparing::parted(seed)?;
    comparing::lies(seed)
}

/// What the oracles say of some seeds: a panic counts as a finding.
fn found(mutant: Option<&'static str>, seeds: u64) -> bool {
    (0..seeds).any(|seed| {
        let guard = kit::mutant::enter(mutant);
        let said = std::panic::catch_unwind(|| all(seed));
        drop(guard);
        !matches!(said, Ok(Ok(())))
    })
}

#[test]
fn each_mutant_is_found() {
    kit::parallel::for_each(kit::mutant::TREE, |mutant| {
        assert!(found(Some(mutant), 40), "{mutant}")
    });
    assert!(!found(None, 10));
}
