//! Each seeded bug is caught; those that need an unlucky schedule, by module `schedules`.

use super::small_worlds::explore;
use super::threads::histories;
use crate::Configuration;
use crate::areas::{Physical, Slabs};
use crate::flaw::Flaw;

fn caught_in_small_worlds(configuration: Configuration, flaws: &[Flaw]) {
    for &flaw in flaws {
        assert!(explore(configuration, Some(flaw)).is_err(), "{flaw:?} was not caught");
    }
}

#[test]
fn bugs_of_snapshots_are_caught() {
    let flaws = [Flaw::InstallsBeforeMaterialising, Flaw::DropsChains, Flaw::SharesStaleSnapshots];
    caught_in_small_worlds(Configuration::HeeAnker, &flaws);
}

#[test]
fn bugs_of_validation_are_caught() {
    let flaws = [
        Flaw::IgnoresBeforeImages,
        Flaw::IgnoresAfterImages,
        Flaw::IgnoresPointReads,
        Flaw::IgnoresWriteConflicts,
        Flaw::ForgetsCommits,
    ];
    caught_in_small_worlds(Configuration::SeeFs, &flaws);
}

#[test]
fn bugs_of_reading_are_caught() {
    caught_in_small_worlds(Configuration::HeeAnker, &[Flaw::ReadsTooNew]);
    caught_in_small_worlds(Configuration::SeeSi, &[Flaw::CollectsWhatIsSeen]);
}

/// Needs a fork while a commit installs: long commits, and several tries.
#[test]
fn forking_among_installs_is_caught() {
    let flaw = Some(Flaw::ForksAmongInstalls);
    let caught =
        (0..40).any(|seed| histories::<Physical>(Configuration::HeeFork, flaw, seed, 300).is_err());
    assert!(caught);
}

/// The list is whole: a flaw that no test names would not be missed otherwise.
#[test]
fn every_flaw_is_somewhere() {
    let here = include_str!("mutants.rs");
    let there = include_str!("schedules.rs");
    for flaw in Flaw::ALL {
        let name = format!("Flaw::{flaw:?}");
        assert!(here.contains(&name) || there.contains(&name), "{name} has no test");
    }
    assert!(explore(Configuration::SeeFs, None).is_ok());
    assert!(histories::<Slabs>(Configuration::HeeAnker, None, 99, 6).is_ok());
}
