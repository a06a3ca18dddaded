//! A whole engine on a disk in memory that can do everything a disk can do wrong.
//!
//! ```text
//!   story ─► engine ─► files in memory ─┬─► every crash image       [`images`]
//!                                       ├─► every fault, everywhere [`faults`]
//!   clients side by side ─► engine ─► … ├─► random crash images     [`crowd`]
//!                                       ├─► rot, lost files         [`rot`]
//!                                       └─► careless programs       [`mutants`]
//!               each ─► recovery ─► block hash, digest of the state, checkpoints
//! ```
//!
//! What is asked of each: every block that the client was answered is there; the state is that of
//! the re-execution from genesis; a checkpoint that was told of serves; the rest of the story can
//! be told, and `tally verify` finds nothing.
//!
//! Files have no rename here, as the ledger never renames: what is whole is told by checksums.

mod count;
mod crowd;
mod faults;
mod images;
mod mutants;
mod rot;
pub mod world;

use anyhow::{Context, Result, anyhow};
use kit::random::Random;

pub use count::{Count, Until};

use images::Depth;
use mutants::Mutant;
use world::{Reference, Story};

/// How much of everything.
struct Effort {
    changes: usize,
    depth: Depth,
    fault_stride: usize,
    recovery_stride: usize,
    flip_stride: usize,
}

/// Everything about one small story.
const LONG: Effort = Effort {
    changes: 24,
    depth: Depth { choices_max: 12, images_max: 4_096, per_second_cut: 80, per_story: 300 },
    fault_stride: 1,
    recovery_stride: 3,
    flip_stride: 1,
};

/// A small folder with checkpoints.
pub fn specimen(random: &mut Random) -> Result<ledger::MemoryFiles> {
    Ok(Reference::of(Story::new("harmony", 60, 3, random.next_u64()))?.files)
}

/// Story after story until the time is up, each under another protocol. The parts of one share what
/// time is left, look at the clock inside, and do a least of their own: each of them comes.
pub fn run(seed: u64, until: &Until, note: &dyn Fn(&Count)) -> Result<Count> {
    let mut count = Count::default();
    let mut random = Random::new(seed);
    let names = protocols::ALL.iter().map(|entry| entry.info.name);
    let names: Vec<&str> = names.filter(|name| engine::check_protocol(name).is_ok()).collect();
    count.mutants_found += find_mutants()?;
    for &name in names.iter().cycle() {
        let seed = random.next_u64();
        let context = || format!("protocol {name}, story {seed}");
        let reference =
            Reference::of(Story::new(name, LONG.changes, 3, seed)).with_context(context)?;
        count.references += 1;
        let most = until.part(70);
        everything(&reference, &LONG, &most, &mut count, note).with_context(context)?;
        let long = Story::new(name, 300, 7, seed);
        let long = Reference::of(long).with_context(context)?;
        let half = until.part(50);
        images::some_moments(&long, &mut random, 2_000, &half, &mut count).with_context(context)?;
        crowd::run(name, 200, &mut random, until, &mut count).with_context(context)?;
        note(&count);
        if until.is_over() {
            break;
        }
    }
    Ok(count)
}

fn everything(
    reference: &Reference,
    effort: &Effort,
    until: &Until,
    count: &mut Count,
    note: &dyn Fn(&Count),
) -> Result<()> {
    images::every_moment(reference, effort.depth, &until.part(25), count)?;
    note(count);
    images::after_kills(reference, effort.recovery_stride, &until.part(15), count)?;
    note(count);
    faults::while_reported(reference, effort.fault_stride, &until.part(40), count)?;
    note(count);
    faults::while_recovering(reference, effort.recovery_stride, &until.part(40), count)?;
    note(count);
    rot::lost_files(reference, count)?;
    rot::flips(reference, effort.flip_stride, &until.part(50), count)?;
    note(count);
    Ok(())
}

/// Every mutant must be found, or the suites are worth nothing. Side by side, since a search mostly
/// waits for threads of its own recoveries.
fn find_mutants() -> Result<u64> {
    let reference = Reference::of(Story::new("serial", 6, 3, 1))?;
    let searched = std::thread::scope(|scope| {
        let reference = &reference;
        let search = |mutant| (mutant, scope.spawn(move || mutants::found_by(mutant, reference)));
        Mutant::ALL.map(search).map(|(mutant, search)| (mutant, search.join()))
    });
    for (mutant, found) in searched {
        let found = found.map_err(|_| anyhow!("the search for {mutant:?} panicked"))??;
        let found = found.with_context(|| format!("nothing finds the seeded bug {mutant:?}"))?;
        tracing::debug!(?mutant, found, "a seeded bug was found");
    }
    Ok(Mutant::ALL.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::count::spread;
    use super::*;

    const ENDLESS: Until = Until(None);

    #[test]
    fn what_is_spread_comes_once_and_begins_far_apart() {
        for count in 0..200 {
            let mut all: Vec<usize> = spread(count).collect();
            if count >= 16 {
                assert!(all[1].abs_diff(all[0]) >= count / 3, "{count}: {all:?}");
            }
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    /// Of a story whose time is over when it begins.
    #[test]
    fn each_part_does_a_least_of_its_own() {
        let over = Until(Some(Instant::now()));
        let mut count = Count::default();
        let reference = small("serial", 8);
        everything(&reference, &LONG, &over, &mut count, &|_| ()).unwrap();
        let Count { images, faults, flips, lost_files, stories, .. } = count;
        assert!(images > 0 && lost_files > 0 && stories > 0, "{count:?}");
        assert!((12..40).contains(&faults) && (1..60).contains(&flips), "{count:?}");
    }

    fn small(protocol: &'static str, seed: u64) -> Reference {
        Reference::of(Story::new(protocol, 10, 3, seed)).unwrap()
    }

    #[test]
    fn every_crash_image_of_a_small_story_holds_what_was_answered() {
        let mut count = Count::default();
        let depth = Depth { choices_max: 8, images_max: 256, per_second_cut: 80, per_story: 300 };
        images::every_moment(&small("harmony", 1), depth, &ENDLESS, &mut count).unwrap();
        assert!(count.images > 2_000 && count.distinct_images > 150, "{count:?}");
        assert!(count.second_cuts > 30 && count.stories > 1, "{count:?}");
    }

    #[test]
    fn what_a_killed_process_has_not_synced_the_next_one_makes_durable() {
        let mut count = Count::default();
        images::after_kills(&small("harmony", 6), 3, &ENDLESS, &mut count).unwrap();
        assert!(count.stories > 20, "{count:?}");
    }

    #[test]
    fn random_crash_images_of_a_longer_story_hold_what_was_answered() {
        let mut count = Count::default();
        let long = Reference::of(Story::new("aria", 60, 4, 2)).unwrap();
        images::some_moments(&long, &mut Random::new(2), 150, &ENDLESS, &mut count).unwrap();
        assert_eq!(count.images, 150);
    }

    #[test]
    fn power_cuts_under_clients_side_by_side_lose_nothing_that_was_answered() {
        let mut count = Count::default();
        crowd::run("harmony", 30, &mut Random::new(9), &ENDLESS, &mut count).unwrap();
        assert_eq!(count.images, 30);
    }

    #[test]
    fn no_fault_at_any_operation_loses_what_was_answered() {
        let mut count = Count::default();
        faults::while_reported(&small("harmony", 3), 9, &ENDLESS, &mut count).unwrap();
        assert!(count.faults > 30, "{count:?}");
    }

    #[test]
    fn no_fault_of_a_recovery_loses_what_was_answered() {
        let mut count = Count::default();
        faults::while_recovering(&small("serial", 4), 307, &ENDLESS, &mut count).unwrap();
        assert!(count.faults > 30, "{count:?}");
    }

    #[test]
    fn a_changed_byte_or_a_lost_file_never_makes_a_wrong_answer() {
        let mut count = Count::default();
        let reference = small("serial", 5);
        rot::lost_files(&reference, &mut count).unwrap();
        rot::flips(&reference, 17, &ENDLESS, &mut count).unwrap();
        assert!(count.flips > 300 && count.refused > 100, "{count:?}");
    }
}
