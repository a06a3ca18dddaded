//! Claims about Block-STM. A block that is executed backwards at first makes an abort of every
//! conflict, so on one worker the number of transactions that ran again tells what a conflict is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use concurrency::{BlockOutcome, ExecutionPath, Outcome, Work, WorkerPool};
use kit::random::Random;
use oracle::Twin;
use oracle::programs::{Builder, Operation, fill, random_large, random_work, schemas};
use oracle::session::{Session, random_script};
use oracle::subjects::Subject;

fn program(operations: &[(Operation, i64)]) -> Arc<Work> {
    let mut builder = Builder::default();
    operations.iter().for_each(|&(operation, key)| builder.push(operation, key, 3));
    builder.finish()
}

/// Run a block backwards on rows 0 to 4.
fn backwards(block: Vec<Arc<Work>>) -> BlockOutcome {
    let protocol = Subject::named("block_stm+eager").protocol;
    let pool = WorkerPool::new(1);
    let mut twin = Twin::new(&schemas());
    twin.run(&protocol, &pool, fill(5)).unwrap();
    twin.run(&protocol, &pool, block).unwrap()
}

fn reruns(block: Vec<Arc<Work>>) -> u32 {
    backwards(block).report.executed_again.0
}

/// Wherever a block begins, and whichever worker is faster: the outcome is the serial one.
#[test]
fn blocks_executed_backwards_equal_the_serial_replay() {
    let protocol = Subject::named("block_stm+eager").protocol;
    for (workers, seeds) in [(1, 60), (2, 30), (8, 20)] {
        let pool = WorkerPool::new(workers);
        for seed in 0..seeds {
            let mut random = Random::new(seed);
            let keys = [2, 5, 12, 40][random.below(4) as usize];
            let mut twin = Twin::new(&schemas());
            twin.collects = seed % 2 == 0;
            twin.run(&protocol, &pool, fill(keys / 2 + 1)).unwrap();
            let mut open = VecDeque::new();
            for _ in 0..5 {
                open.push_back(Session::hold(&twin.subject, random_script(&mut random, keys)));
                let (mut block, mut sessions) = (Vec::new(), BTreeMap::new());
                for _ in 0..[4, 12, 100][random.below(3) as usize] {
                    if random.chance(4)
                        && let Some((session, commit)) = open.pop_front()
                    {
                        sessions.insert(block.len() as u32, session);
                        block.push(commit);
                    }
                    block.push(match random.chance(20) {
                        true => random_large(&mut random, keys, 40),
                        false => random_work(&mut random, keys, 5),
                    });
                }
                if let Err(divergence) = twin.run_with_sessions(&protocol, &pool, block, sessions) {
                    panic!("{workers} workers, seed {seed}: {divergence}");
                }
            }
        }
    }
}

/// Gelashvili et al., 3.1: what read an old version is executed again, and nothing else.
#[test]
fn a_chain_of_increments_runs_again_but_for_its_first() {
    let adds: Vec<_> = (0..20).map(|_| program(&[(Operation::Add, 0)])).collect();
    assert_eq!(reruns(adds), 19);
    let apart = (0..5).map(|key| program(&[(Operation::Add, key)])).collect();
    assert_eq!(reruns(apart), 0);
}

/// Writes that do not look at their row are no reads of it.
#[test]
fn blind_writes_of_one_row_run_once() {
    assert_eq!(reruns((0..20).map(|_| program(&[(Operation::BlindSet, 0)])).collect()), 0);
}

/// A patch of other columns than a reader wants is no conflict: `a = 3` and `b = b + 3`.
#[test]
fn writes_of_one_column_and_reads_of_another_run_once() {
    let mut block: Vec<_> = (0..10).map(|_| program(&[(Operation::BlindSet, 0)])).collect();
    block.push(program(&[(Operation::CheckedAdd, 0)]));
    assert_eq!(reruns(block), 0);
}

/// An update asks whether its row is there, which only inserts and deletes answer anew.
#[test]
fn an_update_runs_again_if_its_row_came_or_went_and_not_if_it_was_updated() {
    let update = || program(&[(Operation::BlindSet, 0)]);
    assert_eq!(reruns(vec![program(&[(Operation::Delete, 0)]), update()]), 1);
    assert_eq!(reruns(vec![program(&[(Operation::Add, 0)]), update()]), 0);
    let insert = program(&[(Operation::Insert, 70)]);
    assert_eq!(reruns(vec![insert, program(&[(Operation::BlindSet, 70)])]), 1);
}

/// Phantoms: a row that comes into a range, leaves it or changes in it makes the range's reader run
/// again; a row beside the range does not.
#[test]
fn a_range_reader_runs_again_for_rows_of_its_range_only() {
    for (change, again) in [
        ((Operation::Insert, 5), 1),
        ((Operation::Delete, 4), 1),
        ((Operation::BlindSet, 4), 1),
        ((Operation::Insert, 90), 0),
        ((Operation::BlindSet, 1), 0),
    ] {
        let block = vec![program(&[change]), program(&[(Operation::SumRange, 3)])];
        assert_eq!(reruns(block), again, "{change:?}");
    }
}

/// No transaction fails for concurrency, however hot the row: what goes wrong is the transaction's
/// own.
#[test]
fn a_hot_row_fails_nobody() {
    let hot = |at: u32| {
        let first = if at.is_multiple_of(2) { Operation::Add } else { Operation::Read };
        program(&[(first, 0), (Operation::Set, 1)])
    };
    let outcome = backwards((0..60).map(hot).collect());
    assert!(outcome.outcomes.iter().all(Outcome::is_committed));
    assert!(outcome.serial_order.is_sorted());
}

/// Forty transactions that write fifty rows each and look for as many ranges of an index, which may
/// be anywhere among them: they end one after another, and as if nothing had been before.
#[test]
fn a_block_whose_scans_look_at_too_much_runs_one_after_another() {
    for workers in [1, 2] {
        let protocol = Subject::named("block_stm").protocol;
        let pool = WorkerPool::new(workers);
        let mut twin = Twin::new(&schemas());
        twin.run(&protocol, &pool, fill(5)).unwrap();
        let busy = |at: i64| {
            let of_one = (0..50).flat_map(|row| {
                [(Operation::Insert, 100 + 50 * at + row), (Operation::CountIndexRange, row)]
            });
            program(&of_one.collect::<Vec<_>>())
        };
        let outcome = twin.run(&protocol, &pool, (0..40).map(busy).collect()).unwrap();
        assert_eq!(outcome.report.paths.of(ExecutionPath::SerialScans), 40);
        assert!(outcome.outcomes.iter().all(Outcome::is_committed));
        // The next block begins with nothing of it.
        let calm = (0..20).map(|key| program(&[(Operation::Add, key), (Operation::SumRange, 3)]));
        let outcome = twin.run(&protocol, &pool, calm.collect()).unwrap();
        assert_eq!(outcome.report.paths.of(ExecutionPath::SerialScans), 0);
    }
}
