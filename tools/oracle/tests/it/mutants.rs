//! Every seeded bug is found, or the oracle is blind.
//!
//! `cargo test -p oracle mutants -- --nocapture` shows who found each, by which seed, and after how
//! many worlds. All of it follows from the seeds, the [interleavings](concurrency::test_mode) of
//! workers included: every run finds each bug in the same world.

use std::panic::{AssertUnwindSafe, catch_unwind};

use concurrency::test_mode::{self, Mutant, TestMode};
use concurrency::{BlockOutcome, WorkerPool};
use kit::random::Random;
use oracle::Twin;
use oracle::families::{FAMILIES, WIDE};
use oracle::history::History;
use oracle::programs::{fill, random_follower, schemas};
use oracle::small::{self, FULL, Initial, SmallWorlds};
use oracle::subjects::{Subject, made, names_of_variants};
use oracle::texts;
use protocols::Entry;

/// Seeds of each family that a bug may survive.
const SEEDS_MAX: u64 = 400;

/// So many seeds are run on one worker before others come in.
const SEEDS_ALONE: u64 = 4;

/// Bugs that need another schema than that of these worlds, or blocks that overlap: they have tests
/// of their own.
const FOUND_ELSEWHERE: &[(&str, &str)] = &[
    ("quecc", "no_scan_routes"),
    ("quecc", "no_scan_dependents"),
    ("quecc", "unsettled_slots"),
    ("quecc", "unsteady_reads"),
];

/// Who found a bug, by which seed, and after how many worlds of all kinds.
struct Kill {
    by: &'static str,
    seed: u64,
    worlds: usize,
}

/// Small worlds of the full alphabet, some at a time.
struct Sample {
    worlds: SmallWorlds,
}

impl Sample {
    fn new() -> Sample {
        Sample { worlds: SmallWorlds::over(&FULL, &Initial::ALL) }
    }

    fn of(&self, seed: u64) -> Vec<small::SmallWorld> {
        let mut random = Random::new(seed);
        let numbers = (0..40).map(|_| random.below(self.worlds.count() as u64) as usize);
        numbers.filter_map(|number| self.worlds.world(number)).collect()
    }
}

/// By an error or by a panic.
fn fails<T, E>(run: impl FnOnce() -> Result<T, E>) -> bool {
    !matches!(catch_unwind(AssertUnwindSafe(run)), Ok(Ok(_)))
}

/// One thing to run: a subject on a pool, under a test mode.
struct Attempt<'a> {
    subject: &'a Subject,
    pool: &'a WorkerPool,
    test_mode: TestMode,
}

impl Attempt<'_> {
    /// Runs blocks that overlap where the protocol can; how many were turned away at first or
    /// deferred. A wrong result counts as more than any number. On one worker, since optimistic
    /// protocols count what happened to meet.
    fn turned_away(&self, seed: u64) -> usize {
        let mut random = Random::new(seed);
        let keys = [2, 5, 12][random.below(3) as usize];
        let mut block = || -> Vec<_> {
            let programs = 0..2 + random.below(6);
            programs.map(|_| random_follower(&mut random, keys, 4)).collect()
        };
        let blocks = vec![block(), block(), block()];
        let run = || {
            let protocol = &self.subject.protocol;
            let mut twin = Twin::new(&schemas());
            twin.test_mode = self.test_mode;
            let alone = WorkerPool::new(1);
            twin.run(protocol, &alone, fill(keys / 2 + 1))?;
            twin.run_all(protocol, &alone, blocks)
        };
        let rejected = |o: &BlockOutcome| o.report.rerun as usize + o.deferred.len();
        let outcomes = catch_unwind(AssertUnwindSafe(run)).ok().and_then(Result::ok);
        outcomes.map_or(usize::MAX, |outcomes| outcomes.iter().map(rejected).sum())
    }

    /// Who of the families, the histories and the small worlds of a seed sees a fault.
    fn found_by(&self, seed: u64, sample: &Sample, worlds: &mut usize) -> Option<&'static str> {
        let protocol = &self.subject.protocol;
        // The large ones are slow, and seldom find what the others do not.
        let families =
            FAMILIES.iter().filter(|f| f.name != "large transactions" || seed.is_multiple_of(8));
        for family in families.chain([&WIDE]) {
            *worlds += 1;
            if family.world(seed).run(protocol, self.pool, self.test_mode).is_err() {
                return Some(family.name);
            }
        }
        *worlds += 1;
        if fails(|| texts::check(protocol, self.pool, seed, self.test_mode)) {
            return Some("texts");
        }
        *worlds += 1;
        let history = History::random(&mut Random::new(seed));
        if fails(|| history.check(protocol, self.pool, self.test_mode)) {
            return Some("histories");
        }
        let small = sample.of(seed);
        *worlds += small.len();
        let _on = test_mode::enter(self.test_mode);
        let found =
            self.test_mode.mutant.is_none() && fails(|| small::check(protocol, self.pool, &small));
        found.then_some("small worlds")
    }
}

/// The first world that shows the bug: of all families in turn, then histories, then small worlds;
/// on one worker, and by turns on four whose interleaving the seed chooses. A bug that only turns
/// transactions away without need is one as well. Beside the first mutant one of the others has its
/// turn. `sound`: the same without the bug, which must pass what its mutant fails.
fn kill(
    mutants: &[Subject],
    sound: &[Subject],
    sample: &Sample,
    mutant: Option<Mutant>,
) -> Option<Kill> {
    let pools = [WorkerPool::new(1), WorkerPool::new(4)];
    let mut worlds = 0;
    for seed in 0..SEEDS_MAX {
        // Alone first: that is quicker, and what a bug does to several workers may never end.
        let is_alone = seed < SEEDS_ALONE || seed % 2 == 0;
        let pool = &pools[usize::from(!is_alone)];
        let interleaved = if is_alone { TestMode::default() } else { TestMode::chosen(seed) };
        let mut turns = vec![0, seed as usize % mutants.len()];
        turns.dedup();
        for turn in turns {
            let attempt = |subject, mutant| {
                let test_mode = TestMode { mutant, ..interleaved };
                Attempt { subject, pool, test_mode }
            };
            let mutant = attempt(&mutants[turn], mutant);
            let turned_away = mutant.turned_away(seed);
            worlds += 1;
            if turned_away > attempt(&sound[turn], None).turned_away(seed) {
                let is_wrong = turned_away == usize::MAX;
                let by = if is_wrong { "overlapping blocks" } else { "needless rejections" };
                return Some(Kill { by, seed, worlds });
            }
            if let Some(by) = mutant.found_by(seed, sample, &mut worlds) {
                let innocent = attempt(&sound[turn], None).found_by(seed, sample, &mut 0);
                let name = &sound[turn].name;
                assert_eq!(innocent, None, "{name} fails without a bug on purpose, seed {seed}");
                return Some(Kill { by, seed, worlds });
            }
        }
    }
    None
}

/// Prints the table of kills and fails with the names of all survivors.
fn report(kills: impl Iterator<Item = (String, Option<Kill>)>) {
    let mut survivors = Vec::new();
    for (name, kill) in kills {
        match kill {
            Some(Kill { by, seed, worlds }) => {
                println!("{name:<50} {by:<26} {seed:>4} {worlds:>6}");
            }
            None => survivors.push(name),
        }
    }
    assert!(survivors.is_empty(), "nobody found {survivors:?}");
}

/// A protocol by default and with each of its options.
fn all_variants(entry: &Entry) -> Vec<Subject> {
    let names = std::iter::once(entry.info.name.to_owned()).chain(names_of_variants(entry));
    names.map(Subject::named).collect()
}

/// The same with a bug.
fn with_mutant(sound: &[Subject], mutant: &'static str) -> Vec<Subject> {
    let mutant = |sound: &Subject| {
        let protocol = made(&sound.name, |options| options.with_mutant(mutant));
        let protocol = protocol.expect("a variant of the protocol");
        Subject { name: sound.name.clone(), protocol }
    };
    sound.iter().map(mutant).collect()
}

#[test]
fn every_seeded_bug_of_every_protocol_is_found() {
    let sample = Sample::new();
    let mutants =
        protocols::ALL.iter().flat_map(|e| e.mutants.iter().map(move |&mutant| (e, mutant)));
    let here =
        mutants.filter(|(entry, mutant)| !FOUND_ELSEWHERE.contains(&(entry.info.name, mutant)));
    report(here.map(|(entry, mutant)| {
        let name = format!("{}: {mutant}", entry.info.name);
        let sound = all_variants(entry);
        (name, kill(&with_mutant(&sound, mutant), &sound, &sample, None))
    }));
}

/// Of what all protocols are made of: each is found under one of those that use it.
#[test]
fn every_seeded_bug_of_the_shared_parts_is_found() {
    let sample = Sample::new();
    let subjects = ["aria", "serial", "harmony", "rbc", "fabric"].map(Subject::named);
    report(
        Mutant::ALL.into_iter().map(|mutant| {
            (format!("{mutant:?}"), kill(&subjects, &subjects, &sample, Some(mutant)))
        }),
    );
}
