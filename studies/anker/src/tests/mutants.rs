//! Each seeded bug is caught; those that need an unlucky schedule, by module `schedules`.

use super::small_worlds::explore;
use super::threads::histories;
use crate::Configuration;
use crate::areas::{Physical, Slabs};
use crate::mutant::Mutant;

fn caught_in_small_worlds(configuration: Configuration, mutants: &[Mutant]) {
    for &mutant in mutants {
        assert!(explore(configuration, Some(mutant)).is_err(), "{mutant:?} was not caught");
    }
}

#[test]
fn bugs_of_snapshots_are_caught() {
    let mutants =
        [Mutant::InstallsBeforeMaterialising, Mutant::DropsChains, Mutant::SharesStaleSnapshots];
    caught_in_small_worlds(Configuration::HeeAnker, &mutants);
}

#[test]
fn bugs_of_validation_are_caught() {
    let mutants = [
        Mutant::IgnoresBeforeImages,
        Mutant::IgnoresAfterImages,
        Mutant::IgnoresPointReads,
        Mutant::IgnoresWriteConflicts,
        Mutant::ForgetsCommits,
    ];
    caught_in_small_worlds(Configuration::SeeFs, &mutants);
}

#[test]
fn bugs_of_reading_are_caught() {
    caught_in_small_worlds(Configuration::HeeAnker, &[Mutant::ReadsTooNew]);
    caught_in_small_worlds(Configuration::SeeSi, &[Mutant::CollectsWhatIsSeen]);
}

/// Needs a fork while a commit installs: long commits, and several tries.
#[test]
fn forking_among_installs_is_caught() {
    let mutant = Some(Mutant::ForksAmongInstalls);
    let caught = (0..40)
        .any(|seed| histories::<Physical>(Configuration::HeeFork, mutant, seed, 300).is_err());
    assert!(caught);
}

/// The list is whole: a mutant that no test names would not be missed otherwise.
#[test]
fn every_mutant_is_somewhere() {
    let here = include_str!("mutants.rs");
    let there = include_str!("schedules.rs");
    for mutant in Mutant::ALL {
        let name = format!("Mutant::{mutant:?}");
        assert!(here.contains(&name) || there.contains(&name), "{name} has no test");
    }
    assert!(explore(Configuration::SeeFs, None).is_ok());
    assert!(histories::<Slabs>(Configuration::HeeAnker, None, 99, 6).is_ok());
}
