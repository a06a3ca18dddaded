//! Every seeded bug is found, or these tests are blind.

use concurrency::WorkerPool;
use concurrency::test_mode::TestMode;
use kit::random::Random;
use multiversion::block;
use multiversion::mutant::{self, Mutant};
use multiversion::spec::{Collector, Pointers, Storage};
use multiversion::{Rule, TableSpec};
use oracle::families::{FAMILIES, WIDE};
use oracle::history::History;

use crate::study::script::{Act, Model, Program, Stage, check, database, interleavings};
use crate::study::{anomalies, hammer, interleaved, with_rule};

/// The rule and tables to look for a bug in.
fn habitat(mutant: Mutant) -> (&'static str, TableSpec) {
    let spec = |storage, collector, pointers| TableSpec {
        storage,
        collector,
        pointers,
        ..TableSpec::default()
    };
    let usual = TableSpec::default();
    let logical = Pointers::TupleId;
    match mutant {
        Mutant::ReadUnmarked | Mutant::LockIgnored | Mutant::GateIgnored => ("mvto", usual),
        Mutant::RejectedForgotten | Mutant::PhantomsIgnored => ("mvto", usual),
        Mutant::LeftoverFilled => ("mv2pl", usual),
        Mutant::ReadsUnvalidated | Mutant::CommittingIgnored => ("mvocc", usual),
        Mutant::NoReadLock | Mutant::CarelessUpgrade => ("mv2pl", usual),
        Mutant::LostUpdate | Mutant::UniqueSkewed => ("si", usual),
        Mutant::PivotCommits | Mutant::EarlyForgotten => ("ssi", usual),
        Mutant::WindowIgnored | Mutant::CommitOrderClaimed => ("ssn", usual),
        // MVTO would look for the newest version for ever.
        Mutant::EndNotSet => ("mvocc", spec(Storage::OldestFirst, Collector::Transaction, logical)),
        Mutant::TornRead => ("mvto", spec(Storage::Delta, Collector::None, logical)),
        Mutant::FalsePositiveShown => ("mvto", usual),
        Mutant::EntryStays => ("mvto", spec(Storage::NewestFirst, Collector::Vacuum, logical)),
        Mutant::CollectsVisible => ("mvto", usual),
        Mutant::DirtyForgotten => ("mvto", spec(Storage::Delta, Collector::Vacuum, logical)),
        Mutant::BatchForgotten => {
            ("mvto", spec(Storage::NewestFirst, Collector::Transaction, logical))
        }
        Mutant::CooperationRefused => {
            ("mvto", spec(Storage::OldestFirst, Collector::Cooperative, logical))
        }
        Mutant::IntervalsIgnored => {
            ("mvto", spec(Storage::NewestFirst, Collector::Interval, logical))
        }
    }
}

/// Worlds and histories, by turns alone and on four workers.
fn found_by_worlds(mutant: Mutant, seeds: u64) -> bool {
    let (rule, spec) = habitat(mutant);
    let protocol = block::mutant(&format!("{rule}:{spec}"), mutant).expect("options that go");
    let pools = [WorkerPool::new(1), WorkerPool::new(4)];
    (0..seeds).any(|seed| {
        let pool = &pools[seed as usize % 2];
        let test_mode =
            if pool.workers() > 1 { TestMode::chosen(seed) } else { TestMode::default() };
        let families = FAMILIES.iter().chain([&WIDE]).filter(|f| f.name != "large transactions");
        let history = || History::random(&mut Random::new(seed));
        families.map(|f| f.world(seed)).any(|w| w.run(&protocol, pool, test_mode).is_err())
            || history().check(&protocol, pool, test_mode).is_err()
    })
}

/// Two transactions step by step.
fn found_step_by_step<R: Rule>(mutant: Mutant, spec: TableSpec) -> bool {
    if R::NAME == "si" {
        return false;
    }
    let mut db = database::<R>(spec, 2);
    db.mutant = Some(mutant);
    let db = db;
    let mut stage = Stage::<R>::new(&db);
    let before = Model::from([(0, 1), (1, 2)]);
    use Act::{Delete, Insert, Keys, Read, Set, SetLast, Values};
    let whole = [
        [Read(0), SetLast(0, 1)],
        [Read(0), SetLast(1, 10)],
        [Read(1), SetLast(0, 10)],
        [Keys(0, 5), Insert(4, 4)],
        [Values(0, 5), Insert(3, 3)],
        [Set(0, 3), Values(0, 5)],
        [Read(1), Delete(0)],
    ];
    let mut programs: Vec<Program> = whole.iter().map(|acts| Program::from(&acts[..])).collect();
    programs.push(Program { fails: true, ..Program::from(&[Set(0, 3), Read(1)][..]) });
    let found = programs.iter().any(|first| {
        programs.iter().any(|second| {
            let pair = [first.clone(), second.clone()];
            interleavings(&[3, 3]).iter().any(|schedule| {
                stage.reset(&before);
                let runs = stage.play(&pair, schedule);
                let after = stage.state();
                check(&before, &pair, &runs, &after).is_err()
            })
        })
    });
    mutant::enter(None);
    found
}

/// What is left of versions, entries and tuples although no transaction sees them; everything, if
/// an old reader did not see the same twice.
fn left_over<R: Rule>(mutant: Option<Mutant>, spec: TableSpec) -> usize {
    let mut db = database::<R>(spec, 1);
    db.mutant = mutant;
    let db = db;
    let mut stage = Stage::<R>::new(&db);
    stage.reset(&(0..4).map(|key| (key, key)).collect());
    let reader = Program { acts: vec![Act::Keys(0, 9); 2], fails: false, read_only: true };
    let sweep = || {
        if spec.collector != Collector::Cooperative {
            db.vacuum(false);
        }
    };
    let count = || {
        let table = db.tables().next().expect("the table");
        let mut entries = Vec::new();
        let all = std::ops::Bound::Unbounded;
        table.ordered(1).collect(all, all, false, usize::MAX / 2, &mut entries);
        db.versions() + entries.len() + table.tuples().len()
    };
    let mut left = 0;
    // Gone before the reader began, but read about by one who began later: it must wait.
    for act in [Act::Insert(8, 8), Act::Delete(8), Act::Read(0)] {
        stage.alone(&[act]);
    }
    let answers = stage.interrupted(&reader, |stage| {
        stage.alone(&[Act::Read(8)]);
        for round in 0..200 {
            stage.alone(&[Act::Add(round % 4, 1), Act::Read((round + 1) % 4)]);
            stage.alone(&[Act::Insert(9, round)]);
            stage.alone(&[Act::Delete(9)]);
            stage.alone(&[Act::Read(9)]);
        }
        sweep();
        left += count();
    });
    for round in 0..200 {
        stage.alone(&[Act::Read(round % 4)]);
    }
    sweep();
    left += count();
    mutant::enter(None);
    if answers[0] == answers[1] { left } else { usize::MAX }
}

fn is_found(mutant: Mutant) -> bool {
    let (rule, spec) = habitat(mutant);
    with_rule!(rule, R => {
        anomalies::shown::<R>(mutant)
            || anomalies::unique_values_skew::<R>(Some(mutant))
            || found_step_by_step::<R>(mutant, spec)
            || rule != "si" && interleaved::leftover_filled::<R>(spec, Some(mutant)).is_err()
            || !anomalies::refuses_closed_blocks::<R>(Some(mutant))
                && anomalies::refuses_closed_blocks::<R>(None)
            || left_over::<R>(Some(mutant), spec) > left_over::<R>(None, spec)
            || rule != "si"
                && (0..8).any(|seed| {
                    hammer::hammer::<R>(spec, Some(mutant), 500, TestMode::chosen(seed)).is_err()
                })
            || mutant == Mutant::TornRead
                && (0..8).any(|seed| {
                    !hammer::reads_whole_rows(spec, Some(mutant), 500, TestMode::chosen(seed))
                })
    }) || found_by_worlds(mutant, 60)
}

#[test]
fn every_seeded_bug_is_found() {
    let survives = |mutant: &&Mutant| {
        let found = is_found(**mutant);
        println!("{:<24} {}", mutant.name(), if found { "found" } else { "NOT FOUND" });
        !found
    };
    let survivors: Vec<&str> =
        Mutant::ALL.iter().filter(survives).map(|mutant| mutant.name()).collect();
    assert!(survivors.is_empty(), "nobody found {survivors:?}");
}
