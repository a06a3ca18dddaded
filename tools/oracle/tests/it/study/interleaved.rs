//! Every interleaving of two small transactions, step by step, replayed in the order claimed.

use multiversion::mutant::{self, Mutant};
use multiversion::spec::{Collector, Pointers, Storage};
use multiversion::{Rule, TableSpec};

use crate::study::script::{Act, Model, Program, Stage, check, database, interleavings};
use crate::study::{SERIALIZABLE, seeds, with_rule};

const ACTS: [Act; 10] = [
    Act::Read(0),
    Act::Read(1),
    Act::Set(0, 7),
    Act::Add(1, 2),
    Act::SetLast(0, 1),
    Act::SetLast(1, 1),
    Act::Insert(1, 4),
    Act::Delete(0),
    Act::Keys(0, 2),
    Act::Values(1, 4),
];

/// All programs of two steps, and those of one that end in an error.
fn programs() -> Vec<Program> {
    let mut all = Vec::new();
    for first in ACTS {
        for second in ACTS {
            all.push(Program::from(&[first, second][..]));
        }
        all.push(Program { fails: true, ..Program::from(&[first][..]) });
    }
    all
}

/// How many transactions ended without a conflict.
fn run_pairs<R: Rule>(spec: TableSpec, every: usize, offset: usize) -> usize {
    let starts = [Model::from([(0, 1)]), Model::from([(0, 1), (1, 2)])];
    let (programs, mut ended, mut number) = (programs(), 0, offset);
    for first in &programs {
        // Chains that are not collected get long.
        let db = database::<R>(spec, 2);
        let mut stage = Stage::<R>::new(&db);
        for second in &programs {
            number += 1;
            if !number.is_multiple_of(every) {
                continue;
            }
            let pair = [first.clone(), second.clone()];
            let turns = [first.acts.len() + 1, second.acts.len() + 1];
            for schedule in interleavings(&turns) {
                let before = &starts[number % 2];
                stage.reset(before);
                let runs = stage.play(&pair, &schedule);
                let after = stage.state();
                if let Err(what) = check(before, &pair, &runs, &after) {
                    panic!("{} {spec}: {what}\n{pair:#?}\n{schedule:?}\n{runs:#?}", R::NAME);
                }
                ended += runs.iter().filter(|run| run.csn.is_some()).count();
            }
        }
        stage.turn();
    }
    ended
}

#[test]
fn two_transactions_interleaved_in_every_way_are_as_they_claim() {
    for name in SERIALIZABLE {
        let every = 20 / seeds(1).min(20) as usize;
        let ended = with_rule!(name, R => run_pairs::<R>(TableSpec::default(), every, 0));
        assert!(ended > 10_000, "{name}: only {ended} transactions got through");
    }
}

/// A range, an insert into it that comes to nothing, and one that fills what that has left; gives
/// what is not as it was claimed.
pub fn leftover_filled<R: Rule>(spec: TableSpec, mutant: Option<Mutant>) -> Result<(), String> {
    let mut db = database::<R>(spec, 3);
    db.mutant = mutant;
    let mut stage = Stage::<R>::new(&db);
    let (before, mut checked) = (Model::from([(0, 1)]), Ok(()));
    let schedules = interleavings(&[3, 3, 2]);
    let comes_to_nothing = [true, false]
        .into_iter()
        .flat_map(|fails| schedules.iter().map(move |schedule| (fails, schedule)));
    for (number, (fails, schedule)) in (1..).zip(comes_to_nothing) {
        // A key that no tuple has yet.
        let insert = Program::from(&[Act::Insert(number, 4)][..]);
        let nothing = Program::from(&[Act::Insert(number, 4), Act::Delete(number)][..]);
        let range = Program::from(&[Act::Keys(1, 10_000), Act::Set(0, 7)][..]);
        let programs = [range, Program { fails, ..nothing }, insert];
        stage.reset(&before);
        let runs = stage.play(&programs, schedule);
        checked = check(&before, &programs, &runs, &stage.state());
        if let Err(what) = &mut checked {
            *what = format!("{} {spec}: {what}\n{schedule:?}\n{runs:#?}", R::NAME);
            break;
        }
    }
    mutant::enter(None);
    checked
}

#[test]
fn whoever_fills_what_an_insert_has_left_comes_into_the_ranges_around_it() {
    for storage in Storage::ALL {
        let spec = TableSpec { storage: *storage, ..TableSpec::default() };
        for name in SERIALIZABLE {
            with_rule!(name, R => leftover_filled::<R>(spec, None)).unwrap();
        }
    }
}

#[test]
fn so_they_are_over_every_storage_and_pointer_scheme() {
    let mut offset = 0;
    for spec in TableSpec::all() {
        let collected = spec.collector == Collector::Interval;
        if !collected || spec.storage == Storage::NewestFirst && spec.pointers == Pointers::TupleId
        {
            continue;
        }
        offset += 1;
        let every = 240 / seeds(1).min(60) as usize;
        for name in SERIALIZABLE {
            with_rule!(name, R => run_pairs::<R>(spec, every, offset));
        }
    }
}
