//! Bugs on purpose: each is found by the oracles, which find nothing without one.

use super::{comparing, histories, proving};

fn all(seed: u64) -> Result<(), String> {
    histories::history(seed, 1)?;
    proving::ranges(seed)?;
    comparing::parted(seed)?;
    comparing::lies(seed)
}

/// What the oracles say of some seeds: a panic counts as a finding.
fn found(flaw: Option<&'static str>, seeds: u64) -> bool {
    (0..seeds).any(|seed| {
        let guard = kit::flaw::enter(flaw);
        let said = std::panic::catch_unwind(|| all(seed));
        drop(guard);
        !matches!(said, Ok(Ok(())))
    })
}

#[test]
fn each_mutant_is_found() {
    kit::parallel::for_each(kit::flaw::TREE, |flaw| assert!(found(Some(flaw), 40), "{flaw}"));
    assert!(!found(None, 10));
}
